"""The stacked calibrator beside simpler ones and those of other packages, on public data sets.

Sets, classifiers and splits are those of ``lib/peer_sets.py``, the peers those of ``lib/peers.py``.
Test log loss (probabilities clipped at 1e-7) and Brier score (sum over classes), for 100 and 1,000
calibration samples. Ours have their defaults. Of probmetrics: "svs-mix" and "sms-mix",
"temp-scaling-mix", and the quadratic scaling that its page names for two classes, smoothed too. A
peer that refuses a cell is left out there.

FILE.jsonl keeps a line of each cell; what it holds is not computed again unless named by
``--again``. FOLDER keeps the probabilities, one file a cell. FILE.csv gets mean losses over splits.
Printed are

- mean difference stack − other, with standard errors over cells (a cell is a classifier of a set)
- wins and losses: cells in which one is better by more than 0.003 and by two standard errors over
  splits. By chance alone some are expected of that many pairs: compare both numbers
- the losses one by one: of each cell with any, the best of the others
- CPU seconds of fit and prediction, medians over cells
"""

import csv
import json
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from lib.peer_sets import ASIDE_BINARY, BINARY, Cell, cells, saved
from lib.peers import BETA, HAS_PROBMETRICS, SKLEARN, VENN_ABERS, fitted_peer
from threadpoolctl import threadpool_limits

from sklearn_lhcal.calibration import (
    BiasCorrectedTemperatureScaling,
    StackedCalibration,
    TemperatureScaling,
    VectorScaling,
)

OURS = {
    "T": TemperatureScaling("proba"),
    "BC": BiasCorrectedTemperatureScaling("proba"),
    "vector": VectorScaling("proba"),
    "stack": StackedCalibration("proba"),
}
MATRICES = ("svs-mix", "sms-mix", "temp-scaling-mix", "quadratic-scaling-mix")
PEERS = (MATRICES if HAS_PROBMETRICS else ()) + (*VENN_ABERS, *SKLEARN, *BETA)
NAMES = ("uncalibrated", *OURS, *PEERS)
OTHERS = tuple(name for name in NAMES if name != "stack")
TWO_CLASSES = ("quadratic-scaling-mix",)
CLIP = 1e-7
# What counts as better: nats, and standard errors over splits.
LEAST = 0.003
ERRORS = 2
METRICS = ("log loss", "Brier score")


def scores(proba, y) -> list[float]:
    """Log loss and Brier score."""
    p = np.maximum(np.asarray(proba, dtype=np.float64), CLIP)
    p /= p.sum(axis=1, keepdims=True)
    log_loss = -np.log(p[np.arange(len(y)), y]).mean()
    return [float(log_loss), float(((np.eye(p.shape[1])[y] - p) ** 2).sum(axis=1).mean())]


def computed(name: str, data: dict) -> tuple[list[float] | None, float]:
    """Losses of a method and CPU seconds of its fit and prediction; None where it refuses."""
    fit, y, test = data["cal_proba"], data["cal_y"], data["test_proba"]
    if name == "uncalibrated":
        return scores(test, data["test_y"]), 0.0
    begin = time.process_time()
    try:
        if name in OURS:
            proba = OURS[name].fit(fit, y).predict_proba(test)
        else:
            proba = np.asarray(fitted_peer(name, fit, y)(test))
            if proba.shape != test.shape or not np.isfinite(proba).all():
                raise ValueError("a class is missing")
    except (ValueError, AssertionError, IndexError):
        if name in OURS:
            raise
        return None, 0.0
    return scores(proba, data["test_y"]), time.process_time() - begin


def names_for(cell: Cell) -> tuple[str, ...]:
    """Methods that suit the number of classes."""
    binary = cell.dataset in {*BINARY, *ASIDE_BINARY}
    return NAMES if binary else tuple(name for name in NAMES if name not in TWO_CLASSES)


def measured(cell: Cell, kept: dict, again: list[str], folder: Path | None) -> dict:
    """The record of a cell, with what was not kept computed."""
    missing = [name for name in names_for(cell) if name in again or name not in kept["losses"]]
    if not missing:
        return kept
    data = saved(cell, folder)
    counts = np.bincount(data["cal_y"])
    one = {
        **cell._asdict(),
        "classes": len(counts),
        "rarest": int(counts.min()),
        "zeros": float((data["test_proba"] < CLIP).mean()),
        "losses": dict(kept["losses"]),
        "seconds": dict(kept["seconds"]),
    }
    for name in missing:
        one["losses"][name], one["seconds"][name] = computed(name, data)
    return one


def records(splits: int, options) -> list[dict]:
    """A record of each cell; the last line of a cell in the file counts."""
    keep, kept = options.keep, {}
    if keep is not None and keep.exists():
        for line in keep.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            kept[tuple(one[field] for field in Cell._fields)] = one
    found = []
    for cell in cells(options.sets, splits):
        before = kept.get(cell, {"losses": {}, "seconds": {}})
        found.append(measured(cell, before, options.again, options.cells))
        if keep is not None and found[-1] is not before:
            with keep.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found[-1]) + "\n")
    return found


def by_cell(found: list[dict]) -> dict:
    """Losses by set, classifier and number of samples: (splits, methods, metrics)."""
    groups = {}
    for one in found:
        groups.setdefault((one["dataset"], one["classifier"], one["n"]), []).append(one)
    missing = [np.nan, np.nan]
    return {
        key: (
            runs[0]["classes"],
            np.array([[one["losses"].get(name) or missing for name in NAMES] for one in runs]),
            {
                "rarest": np.mean([one["rarest"] for one in runs]),
                "zeros": np.mean([one["zeros"] for one in runs]),
            },
        )
        for key, runs in groups.items()
    }


def paired(losses, other: str):
    """Mean over splits of stack − other in log loss, and its standard error."""
    d = losses[:, NAMES.index("stack"), 0] - losses[:, NAMES.index(other), 0]
    return d.mean(), d.std(ddof=1) / np.sqrt(len(d)) if len(d) > 1 else np.inf


def clear(difference: float, error: float) -> bool:
    return difference > max(LEAST, ERRORS * error)


def in_groups(table: dict):
    """Title and cells of two classes and of more, by number of calibration samples."""
    for several, kind in ((False, "binary"), (True, "several")):
        for n in dict.fromkeys(key[2] for key in table):
            chosen = {k: v for k, v in table.items() if (v[0] > 2) == several and k[2] == n}
            if chosen:
                yield f"{kind} {n}", chosen


def print_means(table: dict) -> None:
    """Differences of both losses, and cells in which either is clearly better."""
    print("stack - other, mean over cells ± standard error; cells; clear wins - clear losses")
    for title, chosen in in_groups(table):
        print(title)
        for other in OTHERS:
            d = np.array(
                [
                    (v[1][:, NAMES.index("stack")] - v[1][:, NAMES.index(other)]).mean(axis=0)
                    for v in chosen.values()
                ]
            )
            d = d[np.isfinite(d[:, 0])]
            if not len(d):
                continue
            error = d.std(axis=0, ddof=1) / np.sqrt(len(d)) if len(d) > 1 else (np.nan, np.nan)
            pairs = [paired(v[1], other) for v in chosen.values()]
            won = sum(clear(-mean, se) for mean, se in pairs)
            lost = sum(clear(mean, se) for mean, se in pairs)
            shown = "  ".join(
                f"{metric} {mean:+.4f} ± {se:.4f}"
                for metric, mean, se in zip(METRICS, d.mean(axis=0), error, strict=True)
            )
            print(f"  {other:22} {shown}  {len(d):3} cells  {won:2} - {lost}")


def reason(other: str, losses, facts: dict) -> str:
    """What is obvious: the form of the better one, and rare classes or printed zeros."""
    kinds = {
        "a simpler one of ours": ("uncalibrated", *OURS),
        "matrix or vector": MATRICES,
        "free form": ("isotonic", "VA"),
        "beta": BETA,
    }
    words = [next((kind for kind, names in kinds.items() if other in names), "scikit-learn's")]
    if facts["rarest"] < 5:
        words.append(f"rarest class {facts['rarest']:.1f} samples")
    if facts["zeros"] > 0.01:
        words.append(f"zeros {facts['zeros']:.0%}")
    return ", ".join(words)


def print_lost(table: dict) -> None:
    """Cells in which any other is clearly better, by data set."""
    print("cells that the stack loses: stack, best other, difference ± standard error, reason")
    number = 0
    for (dataset, classifier, n), (_, losses, facts) in sorted(table.items()):
        pairs = {other: paired(losses, other) for other in OTHERS}
        better = {other: pair for other, pair in pairs.items() if clear(*pair)}
        if not better:
            continue
        number += 1
        best = max(better, key=lambda other: better[other][0])
        mean, error = better[best]
        print(
            f"  {dataset:10} {classifier:8} {n:5}  {losses[:, NAMES.index('stack'), 0].mean():.4f}"
            f"  {best:22} {mean:+.4f} ± {error:.4f}  {len(better):2} better;"
            f" {reason(best, losses, facts)}"
        )
    print(f"{number} of {len(table)} cells")


def print_seconds(found: list[dict]) -> None:
    """Medians over cells."""
    print("CPU seconds of fit and prediction of one cell, median")
    for title, several in (("binary", False), ("several", True)):
        for n in dict.fromkeys(one["n"] for one in found):
            runs = [r for r in found if (r["classes"] > 2) == several and r["n"] == n]
            medians = {
                name: np.median(
                    [r["seconds"][name] for r in runs if r["losses"].get(name)] or [np.nan]
                )
                for name in NAMES[1:]
            }
            print(f"  {title} {n}: " + ", ".join(f"{k} {v:.3f}" for k, v in medians.items()))


def write_table(path: Path, table: dict) -> None:
    """A line of each cell and loss: means over splits."""
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["metric", "data set", "classes", "classifier", "samples", "splits", *NAMES])
        for m, metric in enumerate(METRICS):
            for (dataset, classifier, n), (classes, losses, _) in table.items():
                mean = losses[:, :, m].mean(axis=0)
                shown = ["" if np.isnan(x) else f"{x:.4f}" for x in mean]
                out.writerow([metric, dataset, classes, classifier, n, len(losses), *shown])


def peers(draws: int, options) -> None:
    """All cells, the table and the summary."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with threadpool_limits(1):
        found = records(draws, options)
    table = by_cell(found)
    for (dataset, classifier, n), (_, losses, _) in table.items():
        shown = ", ".join(
            f"{name} {x:.4f}"
            for name, x in zip(NAMES, losses[:, :, 0].mean(axis=0), strict=True)
            if np.isfinite(x)
        )
        print(f"{dataset} {classifier} {n}: {shown}")
    print_means(table)
    print_lost(table)
    print_seconds(found)
    if options.table is not None:
        write_table(options.table, table)
