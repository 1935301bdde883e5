"""What optimal stopping saves: labels and decisions together, replayed, against simpler rules.

    python benchmarks/label_price.py

Rows with many labels are replayed: `display.LabelPolicyDisplay` draws a few, and charges decisions
by the others. At each of six prices the total cost of optimal stopping is compared with that of the
best fixed number of labels and of the best threshold of the entropy, both chosen in hindsight; the
95 % interval of the difference is over rows. Of mixed digits five splits stand one below the other.
Last, a fixed budget: the drop of the cost of decisions by `allocate_labels`, by the value of one
label, and by entropy.
"""

import matplotlib
import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.datasets import load_mixed_digits, make_label_histograms
from sklearn_lhcal.display import LabelPolicyDisplay
from sklearn_lhcal.distributions import (
    Dirichlet,
    Distribution,
    allocate_labels,
    second_opinion_value,
)

DANGER = np.array([[0.0, 1.0, 2.0], [5.0, 0.0, 1.0], [20.0, 3.0, 0.0]])
BUDGET = 0.5
REPLAYS = 20


def simulated():
    """(labels, distribution) of rows as the distribution expects them."""
    total = np.exp(np.random.default_rng(0).normal(0.5, 1, size=2000))
    data = make_label_histograms(2000, 3, 10, total=total, random_state=0)
    return data.counts, Dirichlet.from_mean(data.prediction, data.total)


def digits():
    """The same of mixed digits, ten raters a row, five splits."""
    counts, predicted = [], []
    for seed in range(5):
        data = load_mixed_digits(raters=3, random_state=seed)
        kernel = Nystroem(gamma=0.1, n_components=300, random_state=0)
        classifier = make_pipeline(kernel, LogisticRegression(C=10, max_iter=1000))
        classifier.fit(data.X_train, data.counts_train.argmax(axis=1))
        scaled = TemperatureScaling("proba").fit(
            classifier.predict_proba(data.X_validation), data.counts_validation
        )
        model = AlphaCalibration("proba")
        model.fit(
            scaled.predict_proba(classifier.predict_proba(data.X_validation)),
            data.counts_validation,
        )
        z = scaled.predict_proba(classifier.predict_proba(data.X_test))
        predicted.append(model.predict_dist(z))
        counts.append(data.counts_test)
    return np.concatenate(counts), Distribution.concatenate(predicted)


def one_danger(K):
    """0/1 costs, but that the last class costs ten times as much to miss."""
    C = 1.0 - np.eye(K)
    C[-1, :-1] = 10
    return C


def stopping(name, counts, distribution, C, horizon):
    """Optimal stopping against two rules, at six prices."""
    display = LabelPolicyDisplay.from_predictions(
        counts, distribution, C, horizon=horizon, n_replays=REPLAYS, random_state=0
    )
    shown = np.linspace(1, len(display.prices) - 1, 6).astype(int)
    print(f"{name}, horizon {horizon}: total cost of a row, and the others' less it")
    for j in shown:
        ours, fixed, doubt = display.total_cost[:, j]
        low, high = display.difference_interval[1:, j].T
        print(
            f"  price {display.prices[j]:.4f}   stopping {ours:.4f}"
            f"   best fixed number {fixed:.4f} [{low[0]:+.4f}, {high[0]:+.4f}]"
            f"   entropy {doubt:.4f} [{low[1]:+.4f}, {high[1]:+.4f}]"
        )
    print(f"  lowest upper end of an interval: {display.difference_interval[1:, :, 1].min():+.4f}")


def allocation(name, counts, distribution, C):
    """Drop of the cost of decisions, in percent, by BUDGET labels a row, asked for at once."""
    n = len(counts)
    budget = int(BUDGET * n)
    value, doubt = second_opinion_value(distribution, C), distribution.entropy()
    rules = {
        "allocate_labels": allocate_labels(distribution, C, budget),
        "value of one": _first(value, budget),
        "entropy": _first(doubt, budget),
    }
    drops = {rule: [] for rule in rules}
    for seed in range(REPLAYS):
        rng = np.random.default_rng(seed)
        for rule, m in rules.items():
            labels = rng.multivariate_hypergeometric
            bought = np.array([labels(y, k) for y, k in zip(counts, m, strict=True)])
            truth = counts - bought
            truth = truth / truth.sum(axis=1, keepdims=True)
            cost = [
                np.einsum("nk,nk->n", truth, C.T[(d.mean() @ C).argmin(axis=1)]).mean()
                for d in (distribution, distribution.posterior(bought))
            ]
            drops[rule].append(100 * (1 - cost[1] / cost[0]))
    said = "   ".join(f"{r} {np.mean(d):.1f} % ± {np.std(d):.1f}" for r, d in drops.items())
    print(f"{name}, {BUDGET} labels a row: {said}")


def _first(priority, budget):
    """One label for each of the first rows."""
    m = np.zeros(len(priority), dtype=int)
    m[np.argsort(-priority, kind="stable")[:budget]] = 1
    return m


def main() -> None:
    matplotlib.use("Agg")
    worlds = {"simulated": (*simulated(), DANGER, 5), "digits": (*digits(), one_danger(10), 4)}
    for name, (counts, distribution, C, horizon) in worlds.items():
        stopping(name, counts, distribution, C, horizon)
        allocation(name, counts, distribution, C)


if __name__ == "__main__":
    main()
