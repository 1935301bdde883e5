"""What maps that know the order of grades gain: held-out log loss and ranked probability score.

    python benchmarks/lib/grades.py [--splits 20] > benchmarks/results/grades.txt

Six problems, written down before any result was seen; three are simulated. The classwise form was
added after the others had been run:

- diabetes: scikit-learn's diabetes, its target in five grades of as many samples each; a logistic
  regression of 120 samples. Few samples.
- health: health as people rate it, four grades, the worst of 1.5%; naive Bayes of 1,000 samples.
- marriage: marriages as women rate them, five grades, few unhappy; a forest of 1,000 samples.
- odds: six grades by proportional odds, three raters a sample; the model's cumulative logits are
  1.8 times the true ones and 0.7 too high. This is the shape of the cumulative form of
  `OrdinalScaling`.
- readers: two raters a sample with thresholds of their own for each grade, who avoid the ends; the
  model's logits are 1.5 times those without. No common shift is right.
- spread: one label a sample of seven grades; latent noise grows with the sample's mean, which the
  model does not know.

Of a problem so many samples calibrate, and up to 5,000 others test; no map has mixing. A figure is
the mean over splits: that of temperature scaling, or that of a map less it, ± two standard errors
over splits. The score is Σ_j (F_j − 1{label ≤ j})², mean over labels.
"""

import argparse
import warnings

import numpy as np
from problems import health, marriage
from scipy.special import expit
from scipy.stats import norm
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal.calibration import (
    BiasCorrectedTemperatureScaling,
    OrdinalScaling,
    TemperatureScaling,
)

SIZES = (50, 200, 1000)
MAPS = {
    "temperature": TemperatureScaling("proba", mixing=None),
    "bias-corrected": BiasCorrectedTemperatureScaling("proba", mixing=None),
    "cumulative": OrdinalScaling("proba", form="cumulative", mixing=None),
    "classwise": OrdinalScaling("proba", mixing=None),
}


def trained(X, y, model, n_train: int, seed: int):
    """Probabilities and one-hot labels of the samples that the model was not trained on."""
    parts = train_test_split(X, y, train_size=n_train, stratify=y, random_state=seed)
    X_train, X_rest, y_train, y_rest = parts
    return model.fit(X_train, y_train).predict_proba(X_rest), np.eye(y.max() + 1, dtype=int)[y_rest]


def diabetes(seed: int):
    """Five grades of a measured progression."""
    X, t = load_diabetes(return_X_y=True)
    y = np.searchsorted(np.quantile(t, [0.2, 0.4, 0.6, 0.8]), t)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=10.0, max_iter=2000))
    return trained(X, y, model, 120, seed)


def of_cumulative(F):
    """Probabilities of cumulative ones (n, K − 1)."""
    return np.diff(np.pad(F, ((0, 0), (1, 1)), constant_values=(0, 1)), axis=1)


def odds(seed: int):
    """A model whose cumulative logits are too large and too high."""
    rng = np.random.default_rng(seed)
    t = np.array([-2.5, -1.0, 0.0, 1.0, 2.5]) - 1.5 * rng.normal(size=(4000, 1))
    return of_cumulative(expit(1.8 * t + 0.7)), rng.multinomial(3, of_cumulative(expit(t)))


def readers(seed: int):
    """Raters who avoid the ends of the scale."""
    rng = np.random.default_rng(seed)
    t = np.array([-2.0, -1.0, 1.0, 2.0]) - 1.5 * rng.normal(size=(4000, 1))
    own = t + np.array([-1.0, 0.2, -0.2, 1.0])
    return of_cumulative(expit(1.5 * t)), rng.multinomial(2, of_cumulative(expit(own)))


def spread(seed: int):
    """Noise that the model takes for constant."""
    rng = np.random.default_rng(seed)
    mean = 1.5 * rng.normal(size=(4000, 1))
    cuts = np.array([-2.0, -1.2, -0.4, 0.4, 1.2, 2.0])
    true = of_cumulative(norm.cdf((cuts - mean) / np.exp(0.4 * mean)))
    return of_cumulative(norm.cdf(cuts - mean)), rng.multinomial(1, true)


FOREST = RandomForestClassifier(100, min_samples_leaf=5, random_state=0)
PROBLEMS = {
    "diabetes": diabetes,
    "health": lambda seed: trained(*health(), GaussianNB(), 1000, seed),
    "marriage": lambda seed: trained(*marriage(), FOREST, 1000, seed),
    "odds": odds,
    "readers": readers,
    "spread": spread,
}


def scores(z, y):
    """Log loss and ranked probability score, mean over labels."""
    y = y / y.sum()
    F = np.cumsum(z, axis=1)[:, :-1]
    under = np.cumsum(y, axis=1)[:, :-1]
    whole = y.sum(axis=1, keepdims=True)
    return (
        -(y * np.log(np.maximum(z, 1e-12))).sum(),
        (under * (F - 1) ** 2 + (whole - under) * F**2).sum(),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=20)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    titles = ("log loss", "ranked probability score")
    gains = {(title, n, name): [] for title in titles for n in SIZES for name in MAPS}
    for problem, make in PROBLEMS.items():
        data = [make(seed) for seed in range(options.splits)]
        for n in SIZES:
            # at least half of the samples are for testing
            if 2 * n > len(data[0][0]):
                continue
            table = []
            for seed, (z, y) in enumerate(data):
                order = np.random.default_rng(seed).permutation(len(z))
                fit, test = order[:n], order[n : n + 5000]
                fits = [one.fit(z[fit], y[fit]) for one in MAPS.values()]
                table.append([scores(one.predict_proba(z[test]), y[test]) for one in fits])
            table = np.array(table)
            for s, title in enumerate(titles):
                own = table[..., s]
                mean = own.mean(axis=0)
                error = 2 * (own - own[:, [0]]).std(axis=0, ddof=1) / np.sqrt(len(own))
                print(f"{problem}, {n} rows, {title}: temperature {mean[0]:.4f}")
                for k, name in enumerate(MAPS):
                    gains[title, n, name].append(mean[k] / mean[0])
                    if k:
                        print(f"  {name:15} {mean[k] - mean[0]:+.4f} ±{error[k]:.4f}", flush=True)
    print("\nratio to temperature scaling, geometric mean over problems, and largest")
    for (title, n, name), ratios in gains.items():
        print(f"  {title}, {n} rows, {len(ratios)} problems, {name}: ", end="")
        print(f"{np.exp(np.log(ratios).mean()):.4f}, {max(ratios):.4f}")


if __name__ == "__main__":
    main()
