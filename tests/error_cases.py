"""Good input and the functions that take it, for tests that spoil one part of it."""

import inspect

import numpy as np
from sklearn.naive_bayes import GaussianNB

from sklearn_lhcal import metrics
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.label_histogram import Annotations, LabelHistogramClassifier

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

FITTED = LabelHistogramClassifier(GaussianNB()).fit(X, Y)


def changed(value, dtype=float):
    y = Y.astype(dtype)
    y[1, 2] = value
    return y


# everything that takes a prediction beside y
ON_BOTH = {name: m for name, m in METRICS.items() if name != "irreducible_loss"}


def of_two(y):
    """Labels or probabilities of the first class and of all others together."""
    if isinstance(y, Annotations):
        label = np.minimum(y.label, 1)
        return Annotations(y.indptr, y.rater, label, raters=y.raters, classes=y.classes[:2])
    y = np.asarray(y)
    return np.column_stack([y[:, 0], y[:, 1:].sum(axis=1)])


def result(name, y, prediction):
    """What a metric or a curve of `ON_BOTH` returns, with the options that it must be given."""
    parameters = inspect.signature(ON_BOTH[name]).parameters
    needed = {"class_index": 0, "raters": "fixed", "scores": [0, 1, 3][: np.shape(prediction)[-1]]}
    options = {option: value for option, value in needed.items() if option in parameters}
    if name == "cost_curve":
        y, prediction = of_two(y), of_two(prediction)
    if name == "referral_curve":
        prediction = Dirichlet.from_mean(prediction, 2.0)
    return ON_BOTH[name](y, prediction, **options)


def numbers(found):
    """The numbers of a result, those of a named tuple one field after the other."""
    fields = found if isinstance(found, tuple) else [found]
    return np.concatenate([np.ravel(f) for f in fields if isinstance(f, float | np.ndarray)])
