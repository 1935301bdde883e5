"""What a bandwidth costs, and how kernel calibration errors grow with the rows.

    python benchmarks/kernels.py [growth.png]

The search for a bandwidth is compared with one evaluation of its likelihood, and with a grid of
twenty. With a file name, the growth of time and memory with n is measured and plotted, up to
100 000 rows. The formulas with full matrices are a row of `run.py`."""

import subprocess
import sys
import time

import numpy as np
import torch
from cases import one_label

from sklearn_lhcal._ground.kernels.smoothing import clipped, log_likelihoods
from sklearn_lhcal.metrics import loo_bandwidth

GRID = [*np.logspace(-5, -1, 15), 0.2, 0.4, 0.6, 0.8, 1.0]


def bandwidth_row():
    _, z = one_label(5000, 10)
    x = clipped(torch.as_tensor(z))
    one = min(_time(lambda: log_likelihoods(x, [0.05])) for _ in range(3))
    search = min(_time(lambda: loo_bandwidth(z)) for _ in range(3))
    found = loo_bandwidth(z, grid=GRID), loo_bandwidth(z)
    best, ours = (log_likelihoods(x, [h])[0] for h in found)
    print(
        f"{'bandwidth, 5 000 x 10':42} {search / one:.1f} evaluations' time; likelihood "
        f"{ours:.4f}, grid {best:.4f}"
    )


def _time(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


_CHILD = """
import sys, time
from functools import partial
import numpy as np, torch
sys.path.insert(0, {here!r})
from cases import one_label
from sklearn_lhcal.metrics import kernel_calibration_error
y, z = one_label({n}, 10)
plugin = partial(kernel_calibration_error, p=1, bias_correction=None)
plugin(y[:100], z[:100], bandwidth=.05)
def peak():
    status = open("/proc/self/status")
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
before = peak()
start = time.perf_counter()
{call}
print(time.perf_counter() - start, (peak() - before) / 1024)
"""


def in_child(call, n):
    """Seconds and MiB above the input, in a process of its own."""
    code = _CHILD.format(here=str(sys.path[0]), n=n, call=call)
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    return tuple(float(v) for v in out.split())


def growth(path):
    import matplotlib.pyplot as plt

    sizes = [1000, 3000, 10_000, 30_000, 100_000]
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for h in (0.001, 0.05):
        for kind in ("canonical", "top_label"):
            call = f"plugin(y, z, kind={kind!r}, bandwidth={h})"
            measured = [in_child(call, n) for n in sizes]
            print(
                f"{kind:12} h = {h}: "
                + "; ".join(
                    f"{n:,} {t:.2f} s {m:.0f} MiB"
                    for n, (t, m) in zip(sizes, measured, strict=True)
                )
            )
            seconds, memory = np.array(measured).T
            style = {
                "linestyle": "-" if kind == "canonical" else "--",
                "marker": "o",
                "label": f"{kind}, bandwidth {h}",
            }
            left.plot(sizes, seconds, **style)
            right.plot(sizes, np.maximum(memory, 0.1), **style)
    reference = np.array([sizes[0], sizes[-1]])
    left.plot(reference, 0.003 * (reference / 1000.0) ** 2, color="0.6", linestyle=":", label="n²")
    left.plot(reference, 0.003 * reference / 1000.0, color="0.6", linestyle="-.", label="n")
    left.set(xscale="log", yscale="log", xlabel="Rows", ylabel="Time (s)")
    right.set(xscale="log", yscale="log", xlabel="Rows", ylabel="Memory above the input (MiB)")
    left.legend(frameon=False, fontsize=8)
    fig.savefig(path, dpi=120)


def main() -> None:
    bandwidth_row()
    if len(sys.argv) > 1:
        growth(sys.argv[1])


if __name__ == "__main__":
    main()
