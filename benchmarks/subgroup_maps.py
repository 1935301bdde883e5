"""Whether a map for each subgroup mends what an audit finds.

    python benchmarks/subgroup_maps.py [--draws N]

Three candidates are fitted to calibration data and compared by the log loss of test data that no
fit has seen:

- common: one VectorScaling of all samples
- own: one VectorScaling for each subgroup, of its samples alone
- shrunk: VectorScaling of all samples, and on top of its probabilities one for each subgroup, whose
  shrinkage is chosen by evidence

Simulated: three classes, z ~ Dirichlet(1, 1, 1), one label a sample, 200 or 1,000 calibration
samples, 20,000 test samples, six subgroups of 5 to 30 %. True log-odds are those of z

- nothing: divided by 1.6 in all subgroups (a common temperature is all that is wrong)
- one wrong: divided by 1.6, and in the third subgroup (15 %) plus 1 for the first class
- all differ: divided by 1.6, and plus N(0, 0.7²) of each subgroup and class

Real: scikit-learn's diabetes, 442 patients, whether progression is above its median. A logistic
regression of a random third, without sex among its features; calibrated on another third, tested on
the last; subgroups are the two sexes.

The table has the mean gain in log loss over "common" (nats a label, positive is better), its
standard error over draws, and the share of draws in which it is positive. A map for each subgroup
wins if its gain is above two standard errors where a subgroup is wrong and it loses no more than
.001 where nothing is.
"""

import argparse

import numpy as np
from lib.subgroup_designs import SHARES, WRONG, softmax
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal.calibration import VectorScaling
from sklearn_lhcal.metrics import label_log_loss

G = len(SHARES)


def fitted(z, y, site):
    """The three candidates as functions of probabilities and subgroups."""
    common = VectorScaling("proba").fit(z, y)
    p = common.predict_proba(z)
    own, shrunk = (
        {g: VectorScaling("proba").fit(x[site == g], y[site == g]) for g in np.unique(site)}
        for x in (z, p)
    )

    def by_subgroup(maps, x, site):
        mapped = x.copy()
        for g, each in maps.items():
            mapped[site == g] = each.predict_proba(x[site == g])
        return mapped

    return {
        "common": lambda x, site: common.predict_proba(x),
        "own": lambda x, site: by_subgroup(own, x, site),
        "shrunk": lambda x, site: by_subgroup(shrunk, common.predict_proba(x), site),
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=30)
    draws = parser.parse_args().draws
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
            gains.append([losses["common"] - losses[name] for name in ("own", "shrunk")])
        gains = np.array(gains)
        mean, error = gains.mean(axis=0), gains.std(axis=0, ddof=1) / np.sqrt(draws)
        share = (gains > 0).mean(axis=0)
        shown = [
            f"{m:+.4f} ± {e:.4f} ({s:.2f})" for m, e, s in zip(mean, error, share, strict=True)
        ]
        print(f"{cell:20} own {shown[0]}   shrunk {shown[1]}", flush=True)


if __name__ == "__main__":
    main()
