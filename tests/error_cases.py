"""Good input and the functions that take it, for tests that spoil one part of it."""

import inspect

import numpy as np
from sklearn.naive_bayes import GaussianNB

from sklearn_lhcal import metrics
from sklearn_lhcal.label_histogram import LabelHistogramClassifier
from sklearn_lhcal.metrics import LabelHistogramScorer, get_scorer, get_scorer_names

HINT = "use Annotations.from_long or Annotations.from_matrix$"
Y = np.array([[2, 0, 1], [1, 1, 1], [0, 3, 0]])
Z = np.array([[0.5, 0.2, 0.3], [0.1, 0.8, 0.1], [1.0, 0.0, 0.0]])
X = np.arange(6.0).reshape(3, 2)

# beside them, metrics need nothing; these need to know who gave the labels, or draw
OTHERS = ("alternative_annotator_test", "null_calibration_error")


def needs_more(metric):
    """Whether it needs arguments beside y and a prediction: costs, a margin."""
    _, _, *others = inspect.signature(metric).parameters.values()
    return any(p.default is p.empty for p in others)


METRICS = {
    name: metric
    for name, metric in inspect.getmembers(metrics, inspect.isfunction)
    if [*inspect.signature(metric).parameters][:2] == ["y", "prediction"]
    and not needs_more(metric)
    and name not in OTHERS
}

ALL_SCORERS = {name: get_scorer(name) for name in get_scorer_names()}
# of y and X alone
SCORERS = {k: v for k, v in ALL_SCORERS.items() if isinstance(v, LabelHistogramScorer)}
FITTED = LabelHistogramClassifier(GaussianNB()).fit(X, Y)


def changed(value, dtype=float):
    y = Y.astype(dtype)
    y[1, 2] = value
    return y


# everything that takes a prediction beside y
ON_BOTH = {name: m for name, m in METRICS.items() if name != "irreducible_loss"}
