"""A figure for pages about tasks, on the data of their snippets."""

import matplotlib.pyplot as plt
import numpy as np
from colours import CALIBRATED, RAW, VERMILLION

from sklearn_lhcal.calibration import ConformalClassifier, DecisionCalibration
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.display import DecisionRiskDisplay


def decisions():
    """What decisions cost, and what they are expected to."""
    data = make_label_histograms(
        3000, n_classes=3, n_raters=3, total=6.0, overconfidence=3.0, random_state=0
    )
    costs = [[0, 1, 4, 1], [6, 0, 2, 1], [30, 8, 0, 1]]
    X, counts = data.prediction[:1500], data.counts[:1500]
    X_test, counts_test = data.prediction[1500:], data.counts[1500:]
    calibrator = DecisionCalibration("proba", costs).fit(X, counts)
    models = {"uncalibrated": X_test, "calibrated": calibrator.predict_proba(X_test)}
    ax = plt.subplots(figsize=(5.5, 4))[1]
    own = [{"color": RAW}, {"color": CALIBRATED}]
    DecisionRiskDisplay.from_predictions(counts_test, models, costs, ax=ax, point_kwargs=own)
    ax.tick_params(axis="x", rotation=0)


def guarantees():
    """Votes of new rows in the sets of many calibration sets."""
    data = make_label_histograms(
        4000, n_classes=3, n_raters=11, total=6.0, overconfidence=2.0, random_state=0
    )
    rng = np.random.default_rng(0)
    majority = np.eye(3)[data.counts.argmax(axis=1)]
    one_vote = rng.multivariate_hypergeometric
    votes = np.array([one_vote(row, 1) for row in data.counts])
    ax = plt.subplots(figsize=(5.5, 4))[1]
    labels = {
        "one label per sample": (votes, CALIBRATED),
        "the majority of 11": (majority, VERMILLION),
    }
    for i, (y, color) in enumerate(labels.values()):
        covered = []
        for trial in range(100):
            order = np.random.default_rng(trial).permutation(4000)
            fit, new = order[:500], order[500:]
            model = ConformalClassifier("proba", confidence_level=0.9)
            sets = model.fit(data.prediction[fit], y[fit]).predict_set(data.prediction[new])
            covered.append((data.proba[new] * sets).sum(axis=1).mean())
        ax.plot(i + np.linspace(-0.25, 0.25, 100), covered, ".", color=color, alpha=0.5)
        ax.plot([i - 0.3, i + 0.3], [np.mean(covered)] * 2, color=color, linewidth=3)
        print(f"labels covered {np.mean(covered):.2f}")
    ax.plot([], [], color="0.35", linewidth=3, label="mean of 100 trials")
    ax.axhline(0.9, color="0.35", linestyle=(0, (1, 1.5)), label="guaranteed, on average")
    ax.set_xticks(range(2), [f"calibrated on\n{name}" for name in labels])
    ax.set(xlim=(-0.5, 1.5), ylabel="Labels of new samples covered (share)")
    ax.legend(loc="lower left")
