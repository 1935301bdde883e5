"""Samples in subgroups, calibrated or wrong in one of them.

A design is a function of a generator and of n: labels y, predictions z, class probabilities Q of
new raters, the subgroup of each sample, and what the audit is told beside these.

Six subgroups hold 5, 10, 15, 20, 20 and 30 % of the samples. z ~ Dirichlet(1, 1, 1), and Q = z or
Q ~ Dirichlet((1 − ρ)/ρ · z). Where a subgroup is wrong, it is the third (15 %): the log-odds of its
first class are higher by 1 than z says.

`subgroup_audit` is at level .05 with 300 draws each; subgroups with five samples or patients count.
The table shows how often the test rejects; how often the simultaneous 95 % limits hold the truth in
all subgroups and classes together, and each; and how often the worst subgroup is the third. The
truth is the mean of z − Q: 0, or that of 200,000 samples (40,000 with shared readers).
"""

import csv
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from lib.reader_studies import COMMON, K, crossed, softmax
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


def plain(rng, n, *, raters=1, rho=0.0, rare=False, shift=0.0, apart=None):
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
    return Draw(rng.multinomial(raters, Q), z, mean, subgroup, {})


def patients(rng, n, *, images=4, shift=0.0):
    """Images of one patient, of one subgroup: their labels come from correlated normals (½)."""
    z = rng.dirichlet(np.ones(3), n)
    m = n // images
    patient = np.arange(n) // images
    subgroup = _subgroups(m, rng)[patient]
    Q = softmax(np.log(z) + shift * (subgroup == WRONG)[:, None] * np.eye(3)[0])
    u = norm.cdf(np.sqrt(0.5) * (rng.normal(size=m)[patient] + rng.normal(size=n)))
    label = (Q.cumsum(axis=1) < u[:, None]).sum(axis=1).clip(max=2)
    return Draw(np.eye(3, dtype=int)[label], z, Q, subgroup, {"groups": patient})


def shared(rng, n, *, R=5, s=0.5, shift=0.0):
    """Each of R readers reads each sample; z is the mean over readers with tilts N(0, s²)."""
    u = COMMON + rng.normal(size=(n, K))
    subgroup = _subgroups(n, rng)
    others = s * np.random.default_rng(0).normal(size=(200, 1, K))
    z = np.mean([softmax(u + tilt) for tilt in others], axis=0)
    u = u + shift * (subgroup == WRONG)[:, None] * np.eye(K)[0]
    Q = np.mean([softmax(u + tilt) for tilt in others], axis=0)
    row, rater = np.nonzero(crossed(n, R, rng))
    p = softmax(u[row] + s * rng.normal(size=(R, K))[rater])
    label = (p.cumsum(axis=1) < rng.random((len(row), 1))).sum(axis=1).clip(max=K - 1)
    how = {"raters": np.arange(R), "classes": np.arange(K)}
    y = Annotations(np.arange(0, len(row) + 1, R), rater, label, **how)
    return Draw(y, z, Q, subgroup, {})


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
}

KEPT = Path(__file__).parents[1] / "results/coverage/subgroups.json"


def subgroup_truth(name: str):
    """Mean of z − Q of each subgroup and class, (6, K)."""
    design, _, options = DESIGNS[name]
    n = 40_000 if design is shared else 200_000
    d = design(np.random.default_rng(10**6), n, **options)
    if not options.get("shift"):
        return np.zeros((len(SHARES), d.z.shape[1]))
    here = d.subgroup == np.arange(len(SHARES))[:, None]
    return here @ (d.z - d.Q) / here.sum(axis=1, keepdims=True)


def audited(name: str, truth, seed: int):
    """What one draw adds: rejects, holds all truths, the share held, the third is the worst."""
    design, n, options = DESIGNS[name]
    d = design(np.random.default_rng([seed, 1]), n, **options)
    how = {"min_rows": 5, "n_draws": 300, "random_state": seed} | d.how
    found = subgroup_audit(d.y, d.z, {"g": d.subgroup}, **how)
    wrong = found.worst[0] == f"g={WRONG}"
    wanted = truth[[int(g.removeprefix("g=")) for g in found.subgroups]]
    held = (found.columns["low"] <= wanted) & (wanted <= found.columns["high"])
    return [1, found.p_value <= 0.05, held.all(), held.mean(), wrong]


def study(draws: int, only: list[str], kept: Path = KEPT) -> None:
    """The table of all designs; draws so far are kept, and a run that was stopped goes on."""
    done = json.loads(kept.read_text()) if kept.exists() else {}
    names = [name for name in DESIGNS if not only or name in only]
    truths = {name: subgroup_truth(name) for name in names}
    for until in range(50, draws + 1, 50):
        for name in names:
            so_far = done.get(name, [0] * 5)
            if so_far[0] >= until:
                continue
            found = [audited(name, truths[name], seed) for seed in range(int(so_far[0]), until)]
            done[name] = (np.array(so_far) + np.sum(found, axis=0)).tolist()
            kept.write_text(json.dumps(done, indent=1))
    table = [["design", "draws", "rejects", "all limits hold", "each holds", "third is worst"]]
    for name in DESIGNS:
        if name in done:
            n, *sums = done[name]
            table.append([name, f"{n:.0f}", *(f"{x / n:.3f}" for x in sums)])
    for design, *numbers in table:
        print(f"{design:32}" + "".join(f"{x:>16}" for x in numbers))
    with kept.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(table)
