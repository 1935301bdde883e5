"""Whether calibration of each subgroup mends what an audit finds.

"subgroups": three candidates are fitted to calibration data and compared by the log loss of test
data that no fit has seen:

- common: one VectorScaling of all samples
- own: one VectorScaling for each subgroup, of its samples alone
- grouped: GroupedCalibration by subgroup, around the common one

Simulated: three classes, z ~ Dirichlet(1, 1, 1), one label a sample, 200 or 1,000 calibration
samples, 20,000 test samples, six subgroups of 5 to 30%. True log-odds are those of z

- nothing: divided by 1.6 in all subgroups (a common temperature is all that is wrong)
- one wrong: divided by 1.6, and in the third subgroup (15%) plus 1 for the first class
- all differ: divided by 1.6, and plus N(0, 0.7²) of each subgroup and class

Real: scikit-learn's diabetes, 442 patients, whether progression is above its median. A logistic
regression of a random third, without sex among its features; calibrated on another third, tested on
the last; subgroups are the two sexes.

The table has the mean gain in log loss over "common" (nats a label, positive is better), its
standard error over draws, and the share of draws in which it is positive. Calibration of each
subgroup wins if its gain is above two standard errors where a subgroup is wrong and it loses no
more than 0.001 where nothing is.

"mended": two recipes: audit 1,000 samples at level 0.05; where it rejects, fit VectorScaling to the
worst subgroup alone, or GroupedCalibration around VectorScaling, to the same samples; audit 1,000
others. Designs are
those of ``lib/subgroup_designs.py``: calibrated; the third subgroup (15%) wrong by odds × 2 of the
first class; the same of patients of four images; and of a rare third class. The table has the share
of draws in which something was found, and in which it was the third subgroup; the gain in log loss
(nats a label, on 20,000 others) over leaving z as it is, its mean over all draws with standard
errors, and over those that found something; and how often the audit of others rejects, before and
after, in the draws that found something; of groups the mean gain and the audits after. Written down
before any result was seen, but for groups.
"""

import csv
from pathlib import Path

import numpy as np
from lib.subgroup_designs import SHARES, WRONG, patients, plain, softmax
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal.calibration import GroupedCalibration, PrecomputedClassifier, VectorScaling
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import label_log_loss, subgroup_audit

G = len(SHARES)


def fitted(z, y, site):
    """The three candidates as functions of probabilities and subgroups."""
    common = VectorScaling("proba").fit(z, y)
    own = {g: VectorScaling("proba").fit(z[site == g], y[site == g]) for g in np.unique(site)}
    saved = PrecomputedClassifier("proba", columns=slice(0, -1))
    grouped = GroupedCalibration(VectorScaling(saved), by=[-1])
    grouped.fit(np.column_stack([z, site]), y)

    def by_subgroup(z, site):
        mapped = z.copy()
        for g, each in own.items():
            mapped[site == g] = each.predict_proba(z[site == g])
        return mapped

    return {
        "common": lambda z, site: common.predict_proba(z),
        "own": by_subgroup,
        "grouped": lambda z, site: grouped.predict_proba(np.column_stack([z, site])),
    }


def simulated(shift, n, rng):
    """Probabilities, counts and subgroups; `shift` is of log-odds, (G, 3)."""
    z = rng.dirichlet(np.ones(3), n)
    site = rng.choice(G, n, p=SHARES)
    return z, rng.multinomial(1, softmax(np.log(z) / 1.6 + shift[site])), site


def simulated_draw(kind, n, rng):
    shift = np.zeros((G, 3))
    if kind == "one wrong":
        shift[WRONG, 0] = 1
    elif kind == "all differ":
        shift = 0.7 * rng.normal(size=(G, 3))
    train = simulated(shift, n, rng)
    while np.bincount(train[2], minlength=G).min() < 2:
        train = simulated(shift, n, rng)
    return train, simulated(shift, 20_000, rng)


def diabetes_draw(rng):
    data = load_diabetes()
    X, sex = np.delete(data.data, 1, axis=1), (data.data[:, 1] > 0).astype(int)
    y = (data.target > np.median(data.target)).astype(int)
    fit, calibrate, test = np.array_split(rng.permutation(len(y)), 3)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[fit], y[fit])
    return [
        (model.predict_proba(X[i]), np.eye(2, dtype=int)[y[i]], sex[i]) for i in (calibrate, test)
    ]


AUDITED = {
    "calibrated": (plain, {}),
    "one wrong, odds × 2": (plain, {"shift": np.log(2)}),
    "one wrong, patients of four": (patients, {"shift": np.log(2)}),
    "one wrong, rare class": (plain, {"shift": np.log(2), "rare": True}),
}


def mended_draw(design, options, seed: int):
    """Found, rightly, gain in log loss, and whether others are rejected before and after."""
    rng = np.random.default_rng([seed, 3])
    train, test = (design(rng, 1000, **options) for _ in range(2))
    large = design(rng, 20_000, **options)

    def audit(d, z):
        how = {"min_rows": 5, "n_draws": 200, "random_state": seed} | d.how
        return subgroup_audit(d.y, z, {"g": d.subgroup}, **how)

    first = audit(train, train.z)
    if first.p_value > 0.05:
        return [0, 0, 0.0, np.nan, np.nan, 0.0, np.nan]
    g = int(first.worst[0].removeprefix("g="))
    here = train.subgroup == g
    own = VectorScaling("proba").fit(train.z[here], train.y[here])
    grouped = fitted(train.z, train.y, train.subgroup)["grouped"]

    def corrected(d):
        z = d.z.copy()
        z[d.subgroup == g] = own.predict_proba(d.z[d.subgroup == g])
        return z

    # the mean over labels is that of their probabilities
    before, after, of_groups = (
        label_log_loss(KnownProbabilities(large.Q), np.maximum(z, 1e-12))
        for z in (large.z, corrected(large), grouped(large.z, large.subgroup))
    )
    others = test.z, corrected(test), grouped(test.z, test.subgroup)
    rejects = [audit(test, z).p_value <= 0.05 for z in others]
    return [1, g == WRONG, before - after, *rejects[:2], before - of_groups, rejects[2]]


def mended(draws: int, _) -> None:
    head = ["Data", "Found", "Third is worst", "Gain", "Gain where found"]
    head += ["Others rejected before", "after", "Gain by groups", "after groups"]
    table = [head]
    for name, (design, options) in AUDITED.items():
        found = np.array([mended_draw(design, options, seed) for seed in range(draws)])
        some = found[found[:, 0] > 0].mean(axis=0)
        error = found.std(axis=0, ddof=1) / np.sqrt(draws)
        gain, by_groups = (f"{found[:, j].mean():+.4f} ± {error[j]:.4f}" for j in (2, 5))
        row = [name, *(f"{x:.3f}" for x in found[:, :2].mean(axis=0)), gain, f"{some[2]:+.4f}"]
        row += [f"{some[3]:.2f}", f"{some[4]:.2f}", by_groups, f"{some[6]:.2f}"]
        table.append([cell.replace("-", "−") for cell in row])
        print(*table[-1], sep=", ", flush=True)
    path = Path(__file__).parents[1] / "results/coverage/mended.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(table)


def subgroups(draws: int, _) -> None:
    cells = {
        f"{kind}, {n}": lambda rng, kind=kind, n=n: simulated_draw(kind, n, rng)
        for kind in ("nothing", "one wrong", "all differ")
        for n in (200, 1000)
    }
    cells["diabetes, 147"] = diabetes_draw
    for cell, draw in cells.items():
        gains = []
        for seed in range(draws):
            train, (z, y, site) = draw(np.random.default_rng([seed, 2]))
            losses = {
                name: label_log_loss(y, np.maximum(of(z, site), 1e-12))
                for name, of in fitted(*train).items()
            }
            gains.append([losses["common"] - losses[name] for name in ("own", "grouped")])
        gains = np.array(gains)
        mean, error = gains.mean(axis=0), gains.std(axis=0, ddof=1) / np.sqrt(draws)
        share = (gains > 0).mean(axis=0)
        shown = [
            f"{m:+.4f} ± {e:.4f} ({s:.2f})" for m, e, s in zip(mean, error, share, strict=True)
        ]
        print(f"{cell:20} own {shown[0]}   grouped {shown[1]}", flush=True)
