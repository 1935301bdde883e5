"""Samples in subgroups, calibrated or wrong in one of them.

A design is a function of a generator and of n: labels y, predictions z, class probabilities Q of
new raters, the subgroup of each sample, and what the audit is told beside these.

Six subgroups hold 5, 10, 15, 20, 20 and 30 % of the samples. z ~ Dirichlet(1, 1, 1), and Q = z or
Q ~ Dirichlet((1 − ρ)/ρ · z). Where a subgroup is wrong, it is the third (15 %): the log-odds of its
first class are higher by 1 than z says; or z is Q² (too extreme), or √Q (not extreme enough), over
its sum.

`subgroup_audit` is at level .05 with 300 draws each; subgroups with five samples or patients count.
The table shows how often the test rejects; how often the simultaneous 95 % limits hold the truth in
all subgroups and classes together, and each; how often those of slopes hold all true slopes; and
how often the worst subgroup is the third. The truth is the mean of z − Q: 0, or that of 200,000
samples (40,000 with shared readers); and the slope β of largest ``Σ Q log softmax(β log z)``.
"""

import csv
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from lib.reader_studies import COMMON, K, crossed, softmax
from scipy.optimize import brentq
from scipy.stats import norm

from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import subgroup_audit

SHARES = [0.05, 0.1, 0.15, 0.2, 0.2, 0.3]
WRONG = 2


class Draw(NamedTuple):
    y: object
    z: np.ndarray
    Q: np.ndarray
    subgroup: np.ndarray
    how: dict


def _subgroups(n, rng):
    return rng.choice(len(SHARES), n, p=SHARES)


def _around(z, rho, rng):
    """Q ~ Dirichlet((1 − ρ)/ρ z), ρ one number or one a sample; z itself for ρ = 0."""
    rho = np.broadcast_to(rho, len(z))[:, None]
    G = rng.standard_gamma((1 - rho) / np.maximum(rho, 1e-12) * z)
    Q = G / np.maximum(G.sum(axis=1, keepdims=True), 1e-300)
    # all of a tiny Dirichlet may underflow: one class then has everything
    lost = (G.sum(axis=1) == 0)[:, None]
    one = np.eye(z.shape[1])[(z.cumsum(axis=1) < rng.random((len(z), 1))).sum(axis=1) % z.shape[1]]
    return np.where(rho > 0, np.where(lost, one, Q), z)


def _powered(z, b, here):
    """z**b over its sum in some samples."""
    return np.where(here[:, None], softmax(b * np.log(z)), z)


def plain(rng, n, *, raters=1, rho=0.0, rare=False, shift=0.0, apart=None, power=1.0):
    """Independent samples; `apart` is the ρ of the third subgroup."""
    z = rng.dirichlet(np.ones(3), n)
    if rare:
        # a third class of 2 % on average
        z[:, 2] *= 0.06
        z[:, :2] *= (1 - z[:, 2:]) / z[:, :2].sum(axis=1, keepdims=True)
    subgroup = _subgroups(n, rng)
    here = subgroup == WRONG
    mean = softmax(np.log(z) + shift * here[:, None] * np.eye(3)[0])
    if apart is not None:
        rho = np.where(here, apart, rho)
    Q = _around(mean, rho, rng)
    return Draw(rng.multinomial(raters, Q), _powered(z, power, here), mean, subgroup, {})


def patients(rng, n, *, images=4, shift=0.0, power=1.0, whole=0.0):
    """Images of one patient, of one subgroup: their labels come from correlated normals (½).

    Or those of a share of patients from one number, and those of others are independent.
    """
    z = rng.dirichlet(np.ones(3), n)
    m = n // images
    patient = np.arange(n) // images
    subgroup = _subgroups(m, rng)[patient]
    Q = softmax(np.log(z) + shift * (subgroup == WRONG)[:, None] * np.eye(3)[0])
    u = norm.cdf(np.sqrt(0.5) * (rng.normal(size=m)[patient] + rng.normal(size=n)))
    if whole:
        same = rng.random(m) < whole
        u = np.where(same[patient], rng.random(m)[patient], rng.random(n))
    label = (Q.cumsum(axis=1) < u[:, None]).sum(axis=1).clip(max=2)
    z = _powered(z, power, subgroup == WRONG)
    return Draw(np.eye(3, dtype=int)[label], z, Q, subgroup, {"groups": patient})


def shared(rng, n, *, R=5, s=0.5, shift=0.0, power=1.0, images=1, of_patient=0.0):
    """Each of R readers reads each sample; z is the mean over readers with tilts N(0, s²).

    A patient of several images has a tilt of its own, N(0, of_patient²).
    """
    u = COMMON + rng.normal(size=(n, K))
    patient = np.arange(n) // images
    subgroup = _subgroups(n // images, rng)[patient]
    others = np.hypot(s, of_patient) * np.random.default_rng(0).normal(size=(200, 1, K))
    z = np.mean([softmax(u + tilt) for tilt in others], axis=0)
    u = u + shift * (subgroup == WRONG)[:, None] * np.eye(K)[0]
    Q = np.mean([softmax(u + tilt) for tilt in others], axis=0)
    row, rater = np.nonzero(crossed(n, R, rng))
    of_readers = s * rng.normal(size=(R, K))
    if of_patient:
        u = u + of_patient * rng.normal(size=(n // images, K))[patient]
    p = softmax(u[row] + of_readers[rater])
    label = (p.cumsum(axis=1) < rng.random((len(row), 1))).sum(axis=1).clip(max=K - 1)
    how = {"raters": np.arange(R), "classes": np.arange(K)}
    y = Annotations(np.arange(0, len(row) + 1, R), rater, label, **how)
    z = _powered(z, power, subgroup == WRONG)
    return Draw(y, z, Q, subgroup, {} if images == 1 else {"groups": patient})


# name: design, n, options
DESIGNS = {
    "one rater": (plain, 150, {}),
    "four raters": (plain, 400, {"raters": 4, "rho": 0.2}),
    "rare class": (plain, 300, {"rare": True}),
    "one subgroup disagrees, 0.4": (plain, 400, {"raters": 4, "rho": 0.1, "apart": 0.4}),
    "one subgroup disagrees, 0.7": (plain, 400, {"raters": 4, "rho": 0.1, "apart": 0.7}),
    "patients of four images": (patients, 400, {}),
    "five shared readers": (shared, 400, {}),
    "one wrong, one rater": (plain, 400, {"shift": 1.0}),
    "one wrong, four raters": (plain, 400, {"raters": 4, "rho": 0.2, "shift": 1.0}),
    "one wrong, patients": (patients, 400, {"shift": 1.0}),
    "one wrong, shared readers": (shared, 400, {"shift": 1.0}),
    "patients whose labels are the same": (patients, 800, {"whole": 0.6}),
    "one overconfident, one rater": (plain, 400, {"power": 2.0}),
    "one overconfident, four raters": (plain, 400, {"raters": 4, "rho": 0.2, "power": 2.0}),
    "one underconfident, four raters": (plain, 400, {"raters": 4, "rho": 0.2, "power": 0.5}),
    "one overconfident, patients": (patients, 400, {"power": 2.0}),
    "one overconfident, same labels": (patients, 800, {"whole": 0.6, "power": 2.0}),
    "one overconfident, shared readers": (shared, 400, {"power": 2.0}),
    "patients, shared readers": (shared, 400, {"images": 4, "of_patient": 0.7}),
    "one wrong, patients, shared readers": (
        shared,
        400,
        {"images": 4, "of_patient": 0.7, "shift": 1.0},
    ),
}

KEPT = Path(__file__).parents[1] / "results/coverage/subgroups.json"


def _slope(z, Q) -> float:
    """β of ``Σ log z (Q − softmax(β log z)) = 0``."""
    u = np.log(z)
    return brentq(lambda b: (u * (Q - softmax(b * u))).sum(), 0, 20)


def subgroup_truth(name: str):
    """Mean of z − Q of each subgroup and class, (6, K), and the slopes, (6, 1)."""
    design, _, options = DESIGNS[name]
    n = 40_000 if design is shared else 200_000
    d = design(np.random.default_rng(10**6), n, **options)
    K = d.z.shape[1]
    if not options.keys() & {"shift", "power"}:
        return np.zeros((len(SHARES), K)), np.ones((len(SHARES), 1))
    here = d.subgroup == np.arange(len(SHARES))[:, None]
    means = here @ (d.z - d.Q) / here.sum(axis=1, keepdims=True)
    return means, np.array([[_slope(d.z[mask], d.Q[mask])] for mask in here])


def audited(name: str, truth, seed: int):
    """What one draw adds: the sums of the columns of the table."""
    design, n, options = DESIGNS[name]
    d = design(np.random.default_rng([seed, 1]), n, **options)
    how = {"min_rows": 5, "n_draws": 300, "random_state": seed} | d.how
    found = subgroup_audit(d.y, d.z, {"g": d.subgroup}, **how)
    wrong = found.worst[0] == f"g={WRONG}"
    at = [int(g.removeprefix("g=")) for g in found.subgroups]

    def held(what, wanted):
        low, high = (found.columns[what + end] for end in ("low", "high"))
        return (low <= wanted[at]) & (wanted[at] <= high)

    of_means, of_slopes = held("", truth[0]), held("slope_", truth[1])
    rejects = found.p_value <= 0.05
    return [1, rejects, of_means.all(), of_means.mean(), of_slopes.all(), wrong]


def study(draws: int, only: list[str], kept: Path = KEPT) -> None:
    """The table of all designs; draws so far are kept, and a run that was stopped goes on."""
    done = json.loads(kept.read_text()) if kept.exists() else {}
    names = [name for name in DESIGNS if not only or name in only]
    truths = {name: subgroup_truth(name) for name in names}
    for until in range(50, draws + 1, 50):
        for name in names:
            so_far = done.get(name, [0] * 6)
            if so_far[0] >= until:
                continue
            found = [audited(name, truths[name], seed) for seed in range(int(so_far[0]), until)]
            done[name] = (np.array(so_far) + np.sum(found, axis=0)).tolist()
            kept.write_text(json.dumps(done, indent=1))
    shown = "rejects", "all limits hold", "each holds", "all slopes hold", "third is worst"
    table = [["design", "draws", *shown]]
    for name in DESIGNS:
        if name in done:
            n, *sums = done[name]
            table.append([name, f"{n:.0f}", *(f"{x / n:.3f}" for x in sums)])
    for design, *numbers in table:
        print(f"{design:32}" + "".join(f"{x:>16}" for x in numbers))
    with kept.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(table)
