"""Kernel calibration errors against the formulas written in torch with full matrices, both in this
run.

The peer is the plugin for p = 1 in float64. It fills the diagonal in place, which is faster than
the published code: that adds a dense diagonal matrix.

    python benchmarks/kernels.py [growth.png]

With a file name, also the growth of time and memory with n is measured and plotted, up to 100 000
rows."""

import subprocess
import sys
import time
from functools import partial

import numpy as np
import torch
from run import in_turn

from sklearn_lhcal._ground.kernels import clipped, log_likelihoods
from sklearn_lhcal.metrics import kernel_calibration_error, loo_bandwidth

GRID = [*np.logspace(-5, -1, 15), 0.2, 0.4, 0.6, 0.8, 1.0]


def problem(n, n_classes=10):
    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.full(n_classes, 0.5), size=n)
    return rng.multinomial(1, z), z


def log_kernels(x, h):
    a = x / h + 1
    return torch.log(x) @ (a - 1).T - (torch.lgamma(a).sum(dim=1) - torch.lgamma(a.sum(dim=1)))


def full_matrix(y, z, h):
    """Canonical, p = 1: n x n kernels, as they are usually written."""
    x, y = torch.as_tensor(z).clamp(1e-12), torch.as_tensor(y, dtype=torch.float64)
    k = torch.exp(log_kernels(x, h)).fill_diagonal_(0)
    return float((k @ y / k.sum(dim=1, keepdim=True) - x).abs().sum(dim=1).mean())


def full_matrix_marginal(y, z, h):
    """The same class by class."""
    total = 0.0
    for k in range(z.shape[1]):
        x = torch.as_tensor(np.c_[z[:, k], 1 - z[:, k]]).clamp(1e-12, 1 - 1e-12)
        K = torch.exp(log_kernels(x, h)).fill_diagonal_(0)
        r = K @ torch.as_tensor(y[:, k], dtype=torch.float64) / K.sum(dim=1)
        total += float((r - x[:, 0]).abs().mean())
    return total


def row(name, ours, peer, runs=3):
    a, b, mine, theirs = in_turn(ours, peer, runs=runs)
    print(
        f"{name:46} ratio {b / a:5.1f}   ours {a * 1e3:8.1f} ms   peer {b * 1e3:8.1f} ms   "
        f"{mine:.6f} {theirs:.6f}"
    )
    return a


def bandwidth_row():
    _, z = problem(5000)
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
from kernels import full_matrix, problem
from sklearn_lhcal.metrics import kernel_calibration_error
y, z = problem({n})
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
        for notion in ("canonical", "top_label"):
            call = f"plugin(y, z, notion={notion!r}, bandwidth={h})"
            measured = [in_child(call, n) for n in sizes]
            print(
                f"{notion:12} h = {h}: "
                + "; ".join(
                    f"{n:,} {t:.2f} s {m:.0f} MiB"
                    for n, (t, m) in zip(sizes, measured, strict=True)
                )
            )
            seconds, memory = np.array(measured).T
            style = {
                "linestyle": "-" if notion == "canonical" else "--",
                "marker": "o",
                "label": f"{notion}, bandwidth {h}",
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
    y, z = problem(10_000)
    for h in (0.05, 0.001):
        canonical = partial(kernel_calibration_error, y, z, bandwidth=h, p=1, bias_correction=None)
        row(f"canonical, 10 000 x 10, bandwidth {h}", canonical, partial(full_matrix, y, z, h))
        marginal = partial(canonical, notion="marginal")
        row(
            f"marginal, 10 000 x 10, bandwidth {h}",
            marginal,
            partial(full_matrix_marginal, y, z, h),
            runs=1,
        )
    ours = in_child("plugin(y, z, bandwidth=.05)", 10_000)[1]
    peer = in_child("full_matrix(y, z, .05)", 10_000)[1]
    print(
        f"{'memory, canonical, 10 000 x 10':46} ours {ours:.0f} MiB, peer {peer:.0f} MiB above the "
        "input"
    )
    bandwidth_row()
    if len(sys.argv) > 1:
        growth(sys.argv[1])


if __name__ == "__main__":
    main()
