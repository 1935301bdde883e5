"""The stacked calibrator beside simpler ones and those of other packages, on public data sets.

Sets, classifiers and splits are those of ``lib/peer_sets.py``, the peers those of ``lib/peers.py``.
Test log loss (probabilities clipped at 1e-7) and Brier score (sum over classes), for 100 and 1,000
calibration samples. Ours have their defaults. Of probmetrics: "svs-mix" and "sms-mix",
"temp-scaling-mix", and the quadratic scaling that its page names for two classes, smoothed too. A
peer that refuses a cell is left out there.

FILE.jsonl keeps a line of each cell; what it holds is not computed again unless named by
``--again``. FOLDER keeps the probabilities, one file a cell. FILE.csv gets mean losses over splits.
Printed are

- mean difference stack − other, with standard errors over cells (a cell is a classifier of a set);
  also without naive Bayes, whose loss is large enough to hide the others
- wins and losses: cells in which one is better by more than 0.003 and by two standard errors over
  splits. By chance alone some are expected of that many pairs: compare both numbers
- the losses one by one: of each cell with any, the best of the others, and the form of that one
- CPU seconds of fit and prediction, medians over cells
"""

import csv
import json
import time
import warnings
from pathlib import Path
from typing import NamedTuple

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
PROBMETRICS = ("svs-mix", "sms-mix", "temp-scaling-mix", "quadratic-scaling-mix")
NAMES = ("uncalibrated", *OURS, *PROBMETRICS, "VA", *SKLEARN, "beta")
# Peers that are not installed: shown where the file holds them, never computed.
ABSENT = {"VA", "beta", *PROBMETRICS} - {*VENN_ABERS, *BETA}
ABSENT -= {*PROBMETRICS} if HAS_PROBMETRICS else set()
OTHERS = tuple(name for name in NAMES if name != "stack")
TWO_CLASSES = ("quadratic-scaling-mix",)
CLIP = 1e-7
# What counts as better: nats, and standard errors over splits.
LEAST = 0.003
ERRORS = 2
METRICS = ("log loss", "Brier score")
FORMS = {
    "fewer parameters": ("uncalibrated", "T", "temp-scaling-mix", "sk T"),
    "affine in log-odds": ("BC", "vector", "svs-mix", "sms-mix", "sigmoid"),
    "curved": ("quadratic-scaling-mix", "beta", "isotonic", "VA"),
}


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
    """Methods that suit the number of classes and are installed."""
    binary = cell.dataset in {*BINARY, *ASIDE_BINARY}
    without = ABSENT if binary else ABSENT | {*TWO_CLASSES}
    return tuple(name for name in NAMES if name not in without)


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


class Measured(NamedTuple):
    """What was found of a classifier of a set and a number of samples."""

    classes: int
    # (splits, methods, metrics); NaN where a peer refused
    losses: np.ndarray
    # Samples of the rarest class that calibrate, and share of the probabilities below the clip.
    rarest: float
    zeros: float

    def minus(self, other: str) -> np.ndarray:
        """Losses of the stack less those of the other, (splits, metrics)."""
        return self.losses[:, NAMES.index("stack")] - self.losses[:, NAMES.index(other)]

    def paired(self, other: str) -> tuple[float, float]:
        """Mean over splits of the difference in log loss, and its standard error."""
        d = self.minus(other)[:, 0]
        return d.mean(), d.std(ddof=1) / np.sqrt(len(d)) if len(d) > 1 else np.inf


def by_cell(found: list[dict]) -> dict[tuple, Measured]:
    """All splits of a set, classifier and number of samples together."""
    groups = {}
    for one in found:
        groups.setdefault((one["dataset"], one["classifier"], one["n"]), []).append(one)
    missing = [np.nan, np.nan]
    return {
        key: Measured(
            runs[0]["classes"],
            np.array([[one["losses"].get(name) or missing for name in NAMES] for one in runs]),
            np.mean([one["rarest"] for one in runs]),
            np.mean([one["zeros"] for one in runs]),
        )
        for key, runs in groups.items()
    }


def clear(difference: float, error: float) -> bool:
    return difference > max(LEAST, ERRORS * error)


def in_groups(table: dict):
    """Title and cells of two classes and of more, by number of calibration samples."""
    for several, kind in ((False, "binary"), (True, "several")):
        for n in dict.fromkeys(key[2] for key in table):
            chosen = {k: v for k, v in table.items() if (v.classes > 2) == several and k[2] == n}
            if chosen:
                yield f"{kind} {n}", chosen


def mean_and_error(x: np.ndarray) -> str:
    """Mean over cells ± its standard error."""
    return f"{x.mean():+.4f} ± {x.std(ddof=min(1, len(x) - 1)) / np.sqrt(len(x)):.4f}"


def print_means(table: dict) -> None:
    """Differences of both losses, and cells in which either is clearly better."""
    print("stack - other, mean over cells ± standard error: log loss, Brier score, and log loss")
    print("without naive Bayes; cells; clear wins - clear losses; worst set, mean of its cells")
    for title, chosen in in_groups(table):
        print(title)
        for other in OTHERS:
            kept = {k: v for k, v in chosen.items() if np.isfinite(v.minus(other)).all()}
            if not kept:
                continue
            d = np.array([one.minus(other).mean(axis=0) for one in kept.values()])
            without = np.array([key[1] != "NB" for key in kept])
            columns = zip((*METRICS, "no NB"), (*d.T, d[without, 0]), strict=True)
            shown = "  ".join(f"{metric} {mean_and_error(x)}" for metric, x in columns)
            pairs = [one.paired(other) for one in kept.values()]
            won = sum(clear(-mean, se) for mean, se in pairs)
            lost = sum(clear(mean, se) for mean, se in pairs)
            names = np.array([key[0] for key in kept])
            means = {name: d[names == name, 0].mean() for name in dict.fromkeys(names)}
            worst = max(means, key=means.get)
            print(
                f"  {other:22} {shown}  {len(d):3} cells  {won:2} - {lost}"
                f"  {worst} {means[worst]:+.4f}"
            )


def reason(other: str, one: Measured) -> str:
    """What is obvious: the form of the better method, a rare class, printed zeros."""
    words = [next(form for form, names in FORMS.items() if other in names)]
    if one.rarest < 5:
        words.append(f"rarest class {one.rarest:.1f} samples")
    if one.zeros > 0.01:
        words.append(f"zeros {one.zeros:.0%}")
    return ", ".join(words)


def print_lost(table: dict) -> None:
    """Cells in which any other is clearly better, by data set."""
    print("cells that the stack loses: stack, best other, difference ± standard error, reason")
    number = 0
    rows = sorted(table.items(), key=lambda row: (row[0][0].lower(), *row[0]))
    for (dataset, classifier, n), one in rows:
        pairs = {other: one.paired(other) for other in OTHERS}
        better = {other: pair for other, pair in pairs.items() if clear(*pair)}
        if not better:
            continue
        number += 1
        best, *also = sorted(better, key=lambda other: -better[other][0])
        mean, error = better[best]
        stack = one.losses[:, NAMES.index("stack"), 0].mean()
        print(
            f"  {dataset:10} {classifier:8} {n:5}  {stack:.4f}"
            f"  {best:22} {mean:+.4f} ± {error:.4f}  {reason(best, one)}"
            + (f"; also {', '.join(also)}" if also else "")
        )
    print(f"{number} of {len(table)} cells")


def print_seconds(found: list[dict]) -> None:
    """Medians over cells."""
    print("CPU seconds of fit and prediction of one cell, median")
    for title, several in (("binary", False), ("several", True)):
        for n in dict.fromkeys(one["n"] for one in found):
            runs = [one for one in found if (one["classes"] > 2) == several and one["n"] == n]
            shown = []
            for name in NAMES[1:]:
                spent = [one["seconds"][name] for one in runs if one["losses"].get(name)]
                shown += [f"{name} {np.median(spent):.3f}"] if spent else []
            print(f"  {title} {n}: " + ", ".join(shown))


def write_table(path: Path, table: dict) -> None:
    """A line of each cell and loss: means over splits."""
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["metric", "data set", "classes", "classifier", "samples", "splits", *NAMES])
        for m, metric in enumerate(METRICS):
            for (dataset, classifier, n), one in table.items():
                mean = one.losses[:, :, m].mean(axis=0)
                shown = ["" if np.isnan(x) else f"{x:.4f}" for x in mean]
                splits = len(one.losses)
                out.writerow([metric, dataset, one.classes, classifier, n, splits, *shown])


def peers(draws: int, options) -> None:
    """All cells, the table and the summary."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with threadpool_limits(1):
        found = records(draws, options)
    table = by_cell(found)
    for (dataset, classifier, n), one in table.items():
        mean = one.losses[:, :, 0].mean(axis=0)
        shown = [f"{k} {x:.4f}" for k, x in zip(NAMES, mean, strict=True) if np.isfinite(x)]
        print(f"{dataset} {classifier} {n}: {', '.join(shown)}")
    print_means(table)
    print_lost(table)
    print_seconds(found)
    if options.table is not None:
        write_table(options.table, table)
