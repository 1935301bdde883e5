"""Fourteen findings that depend on each other, common and rare ones, and a calibrated model.

A finding is present where a sum of normal variables exceeds its threshold: what the model knows of
the sample (variance .6), what it does not (.2), the reading (.1) and its reader (.1). Each has
correlation .5 between findings, but the reading of the five readers. Prevalences are 14 from .01 to
.3 at equal ratios, or all .3. "400 samples": one label a finding, each sample has a reader of its
own. "100 groups of 4": samples of a group share what the model knows and .7 of the rest. "5
readers": all read all samples, and readers are random. The truth is that of 400 000 samples. To be
reached, written down before any draw: .93 to .97 together; of groups and readers with prevalences
.01 to .3, which were added later, .90. After 1,000 draws L of 400 samples with prevalence .3 had
.926. Written down before more draws: 3,000 new ones are to reach .93 alone; as a check accuracy
there and L of prevalences .01 to .3 get as many. The table has all 4,000.
"""

import csv
import json
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import norm

from sklearn_lhcal.label_histogram import KnownProbabilities, MultiLabelCounts
from sklearn_lhcal.metrics import expected_accuracy, expected_squared_loss, per_finding

F = 14
MIXED = np.geomspace(0.01, 0.3, F)
COMMON = np.full(F, 0.3)
# variances of what the model knows, of what it does not, of a reading, and of a reader
KNOWN, UNKNOWN, READING, READER = 0.6, 0.2, 0.1, 0.1
REST = UNKNOWN + READING + READER


def normal(rng, *shape):
    """N(0, 1) with correlation .5 among the findings, which are the last axis."""
    return np.sqrt(0.5) * (rng.normal(size=(*shape, 1)) + rng.normal(size=(*shape, F)))


def probabilities(u, prevalence):
    """P(present) of what the model knows."""
    return norm.cdf((u - norm.isf(prevalence)) / np.sqrt(REST))


def known(n: int, rng):
    """What the model knows of n samples, (n, F)."""
    return np.sqrt(KNOWN) * normal(rng, n)


def one_label(prevalence, rng):
    """400 samples, each read by a reader of its own."""
    u = known(400, rng)
    said = u + np.sqrt(REST) * normal(rng, 400) > norm.isf(prevalence)
    return MultiLabelCounts(said.astype(int), 1), probabilities(u, prevalence), {}


def groups(prevalence, rng):
    """100 groups of four samples, of which the model knows the same, and nearly all else is."""
    g = np.repeat(np.arange(100), 4)
    u = known(100, rng)[g]
    rest = np.sqrt(0.7) * normal(rng, 100)[g] + np.sqrt(0.3) * normal(rng, 400)
    said = u + np.sqrt(REST) * rest > norm.isf(prevalence)
    return MultiLabelCounts(said.astype(int), 1), probabilities(u, prevalence), {"groups": g}


def five_readers(prevalence, rng, n=200):
    """n samples, all read by the same five readers, who are random."""
    u = known(n, rng)
    seen = (u + np.sqrt(UNKNOWN) * normal(rng, n))[:, None]
    seen = seen + np.sqrt(READING) * rng.normal(size=(n, 5, F))
    said = seen + np.sqrt(READER) * normal(rng, 5) > norm.isf(prevalence)
    item, rater, finding = np.indices(said.shape).reshape(3, -1)
    long = {"item": item, "rater": rater, "finding": finding, "label": said.ravel().astype(int)}
    return MultiLabelCounts.from_long(**long), probabilities(u, prevalence), {}


DESIGNS = {
    "400 samples, prevalences .01-.3": (one_label, MIXED),
    "400 samples, prevalence .3": (one_label, COMMON),
    "100 groups of 4, prevalence .3": (groups, COMMON),
    "200 samples, 5 readers, prevalence .3": (five_readers, COMMON),
    "100 groups of 4, prevalences .01-.3": (groups, MIXED),
    "400 samples, 5 readers, prevalences .01-.3": (partial(five_readers, n=400), MIXED),
}

METRICS = {"accuracy": expected_accuracy, "L": expected_squared_loss}
# draws of each cell before the next one has its turn
TURN = 50


def truth_of(metric, prevalence) -> np.ndarray:
    """The metric of each finding where the model's probabilities are those of the labels."""
    q = probabilities(known(400_000, np.random.default_rng(10**6)), prevalence)
    return np.array([metric(KnownProbabilities(np.column_stack([1 - p, p])), p) for p in q.T])


def one_draw(draw, prevalence, metric, truth, seed: int) -> list:
    """What it adds: 1, whether all hold together, the share of the others, both mean widths."""
    y, p, how = draw(prevalence, np.random.default_rng([seed, 1]))
    found = per_finding(metric, y, p, random_state=seed, **how)
    together = (found.simultaneous_low <= truth) & (truth <= found.simultaneous_high)
    each = (found.low <= truth) & (truth <= found.high)
    wide = found.simultaneous_high - found.simultaneous_low
    return [1, together.all(), each.mean(), (found.high - found.low).mean(), wide.mean()]


def run(draws: int, only: list[str], kept: Path) -> None:
    """Go on from what is kept, and print and write the table."""
    done = json.loads(kept.read_text()) if kept.exists() else {}
    # rare findings have few labels, and raters are five
    warnings.filterwarnings("ignore", "Finding")
    cells = {
        f"{name} | {metric}": (*design, METRICS[metric])
        for name, design in DESIGNS.items()
        for metric in METRICS
    }
    for until in range(TURN, draws + 1, TURN):
        for cell, (draw, prevalence, metric) in cells.items():
            so_far = done.get(cell, [0, 0, 0.0, 0.0, 0.0])
            if so_far[0] >= until or (only and not any(part in cell for part in only)):
                continue
            truth = truth_of(metric, prevalence)
            for seed in range(int(so_far[0]), until):
                so_far = np.add(so_far, one_draw(draw, prevalence, metric, truth, seed)).tolist()
            done[cell] = so_far
            kept.write_text(json.dumps(done, indent=1) + "\n")
    table = [["design", "metric", "draws", "together", "each", "width", "width together"]]
    for cell, (n, *sums) in done.items():
        means = [f"{x:.3f}" for x in np.array(sums) / n]
        table.append([*cell.split(" | "), f"{n:.0f}", *means])
    for design, *numbers in table:
        print(f"{design:40}" + "".join(f"{x:>15}" for x in numbers))
    with kept.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(table)
