"""Outputs of models as people have them: types of numbers, masked classes, tables, one column."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from sklearn_lhcal.calibration import (
    AlphaCalibration,
    BiasCorrectedTemperatureScaling,
    ConformalClassifier,
    DecisionCalibration,
    MatrixScaling,
    PrecomputedClassifier,
    StackedCalibration,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import calibration_error, expected_squared_loss, label_log_loss

CALIBRATORS = [
    TemperatureScaling,
    BiasCorrectedTemperatureScaling,
    VectorScaling,
    MatrixScaling,
    StackedCalibration,
    AlphaCalibration,
    ConformalClassifier,
]


@pytest.fixture(scope="module")
def data():
    return make_label_histograms(300, n_classes=3, n_raters=3, random_state=0)


@pytest.fixture(scope="module")
def u(data):
    rng = np.random.default_rng(1)
    return np.log(data.proba + 0.01) + 0.5 * rng.normal(size=data.proba.shape)


# --- numbers of few digits ---


def of_type(z, name):
    """Probabilities as a softmax of that type gives them, off 1 by its rounding."""
    if name == "tensor":
        return torch.tensor(z).float()
    if name == "bfloat16":
        return torch.tensor(z).bfloat16()
    return z.astype(name)


@pytest.mark.parametrize(
    ("name", "digits"),
    [("float16", 1e-3), ("bfloat16", 1e-2), ("float32", 1e-6), ("tensor", 1e-6)],
)
@pytest.mark.parametrize("calibrator", [TemperatureScaling, StackedCalibration])
def test_one_tolerance_for_each_type(data, u, calibrator, name, digits):
    """Metrics and calibrators take the same probabilities, with results as of float64."""
    z = softmax(u, axis=1)
    few = of_type(z, name)
    for metric in (label_log_loss, calibration_error):
        assert_allclose(metric(data.counts, few), metric(data.counts, z), atol=digits)
    right, found = [calibrator("proba").fit(p, data.counts).predict_proba(p) for p in (z, few)]
    # rounding changes the order of like samples, and so the folds of the stacked calibrator
    times = 6 if calibrator is StackedCalibration else 3
    assert_allclose(found, right, atol=times * digits)


@pytest.mark.parametrize(
    ("name", "off"), [("float64", 2e-6), ("float32", 2e-3), ("float16", 4e-3), ("bfloat16", 4e-2)]
)
def test_what_is_beyond_the_tolerance_is_refused_by_both(data, u, name, off):
    z = of_type(softmax(u, axis=1) * (1 + off), name)
    for call in (
        lambda: expected_squared_loss(data.counts, z),
        lambda: TemperatureScaling("proba").fit(z, data.counts),
    ):
        with pytest.raises(ValueError, match="must sum to 1"):
            call()


# --- masked classes ---


@pytest.mark.parametrize("calibrator", CALIBRATORS)
def test_masked_logits_are_very_low_ones(data, u, calibrator):
    """−inf is read as a probability of 1e-12 would be, or less where another class has less."""
    masked, low = u.copy(), log_softmax(u, axis=1)
    rows = (np.arange(len(u)) % 3 == 0) & (data.counts[:, 2] == 0)
    masked[rows, 2] = -np.inf
    low[rows, 2] = -np.inf
    low[rows] = log_softmax(low[rows], axis=1)
    low[rows, 2] = np.log(1e-12)
    options = {"penalty": 5e-4} if calibrator is AlphaCalibration else {}
    found = calibrator("logits", **options).fit(masked, data.counts)
    right = calibrator("logits", **options).fit(low, data.counts)
    assert_allclose(found.predict_proba(masked), right.predict_proba(low), atol=1e-6)
    # a sample is calibrated by itself
    assert_allclose(found.predict_proba(masked)[:1], found.predict_proba(masked[:1]), rtol=1e-9)


def test_masked_logits_themselves(u):
    masked = u.copy()
    masked[::2, 1] = -np.inf
    model = PrecomputedClassifier("logits").fit(masked)
    assert_array_equal(model.predict_proba(masked)[::2, 1], 0)
    for wrong in (np.inf, np.nan):
        with pytest.raises(ValueError, match="NaN or infinity"):
            PrecomputedClassifier("logits").fit(np.where(u > 0, wrong, u))
    with pytest.raises(ValueError, match="only some logits may be -inf"):
        PrecomputedClassifier("logits").fit(np.full_like(u, -np.inf))
    with pytest.raises(ValueError, match="NaN or infinite"):
        PrecomputedClassifier("proba").fit(masked)


# --- arrays of other libraries ---

ARRAYS = """
import warnings
import numpy as np
import sklearn
import torch
from numpy.testing import assert_allclose
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn_lhcal.calibration import ConformalClassifier, DecisionCalibration
from sklearn_lhcal.calibration import StackedCalibration, TemperatureScaling
from sklearn_lhcal.metrics import expected_squared_loss

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 4))
y = rng.integers(3, size=120)
u = rng.normal(size=(120, 3)) + 2 * np.eye(3)[y]
z = softmax(u, axis=1)
makers = {"torch": torch.tensor}
try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import array_api_strict
    makers["strict"] = array_api_strict.asarray
except ImportError:
    pass
calls = {
    "T": lambda a: TemperatureScaling("proba").fit(a(z), a(y)).predict_proba(a(z)),
    "S": lambda a: StackedCalibration("logits").fit(a(u), a(y)).predict_proba(a(u)),
    "sets": lambda a: ConformalClassifier("proba").fit(a(z), a(y)).predict_set(a(z)),
    "decisions": lambda a: DecisionCalibration("proba", cost_matrix=1 - np.eye(3))
    .fit(a(z), a(y)).decide(a(z)),
    "metric": lambda a: expected_squared_loss(a(y), a(z)),
    "around": lambda a: TemperatureScaling(LogisticRegression()).fit(a(X), a(y))
    .predict_proba(a(X)),
}
try:
    sklearn.set_config(array_api_dispatch=True)
    settings = (False, True)
except ImportError:
    # older versions of scikit-learn ask for another package
    settings = (False,)
sklearn.set_config(array_api_dispatch=False)
for dispatch in settings:
    for name, call in calls.items():
        right = call(np.asarray)
        for library, make in makers.items():
            # scikit-learn's own logistic regression refuses arrays so strict
            if (library, name, dispatch) == ("strict", "around", True):
                continue
            with sklearn.config_context(array_api_dispatch=dispatch):
                found = np.asarray(call(make))
            assert_allclose(found, right, atol=1e-5, err_msg=f"{library} {name} {dispatch}")
"""


@pytest.mark.slow
def test_arrays_of_other_libraries():
    """With scikit-learn's dispatch on and off, as without them; SciPy asks for a variable."""
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ARRAYS], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_pyarrow_tables(data, u):
    """As labels, predictions, outputs and features they are what the frames are."""
    z = pd.DataFrame(softmax(u, axis=1), columns=["no", "maybe", "yes"])
    counts = pd.DataFrame(data.counts, columns=["no", "maybe", "yes"])[["yes", "no", "maybe"]]
    X = pd.DataFrame(data.X).add_prefix("x")
    table = pa.Table.from_pandas
    right = expected_squared_loss(counts, z)
    assert expected_squared_loss(table(counts), table(z)) == right
    assert expected_squared_loss(counts, table(z)) == right
    assert expected_squared_loss(KnownProbabilities(table(z)), table(z)) == (
        expected_squared_loss(KnownProbabilities(z), z)
    )
    for estimator, of in ((LogisticRegression(), X), ("proba", z)):
        model = TemperatureScaling(estimator).fit(of, counts)
        again = TemperatureScaling(estimator).fit(table(of), table(counts))
        assert_array_equal(again.classes_, model.classes_)
        assert_allclose(again.predict_proba(table(of)), model.predict_proba(of), rtol=1e-9)


def test_views_of_memory(data):
    X = memoryview(np.ascontiguousarray(data.X))
    found, right = [
        TemperatureScaling(LogisticRegression()).fit(a, data.counts).predict_proba(a)
        for a in (X, data.X)
    ]
    assert_array_equal(found, right)


# --- predictions of the wrong class ---


@pytest.mark.parametrize("names", [None, ("ill", "well")])
def test_the_one_column_of_the_other_class(names):
    rng = np.random.default_rng(0)
    p = rng.beta(1, 1, size=200)
    y = (rng.random(200) < p).astype(int)
    labels = y if names is None else np.array(names)[y]
    last = "the second class" if names is None else repr(names[1])
    for metric in (expected_squared_loss, calibration_error):
        with pytest.warns(UserWarning, match=f"read as that of {last}.*pass 1 - prediction"):
            wrong = metric(labels, 1 - p)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert metric(labels, p) < wrong
            # neither chance, nor few samples, nor two columns
            metric(rng.permutation(labels), 1 - p)
            metric(labels[:15], 1 - p[:15])
            metric(labels, np.column_stack([p, 1 - p]))


@pytest.mark.parametrize("estimator", ["logits", "proba"])
@pytest.mark.parametrize("holds", ["text", "objects", "frame"])
def test_text_is_no_number(data, u, estimator, holds):
    z = np.round(softmax(u, axis=1), 2).astype(str)
    X = {"text": z, "objects": z.astype(object), "frame": pd.DataFrame(z)}[holds]
    for reader in (PrecomputedClassifier(estimator), TemperatureScaling(estimator)):
        with pytest.raises(ValueError, match=r"^X must be numeric, but holds text"):
            reader.fit(X, data.counts)


def test_fitted_models_are_frozen(data):
    """What `cv="prefit"` was for."""
    model = LogisticRegression().fit(data.X, data.counts.argmax(axis=1))
    for calibrator in (TemperatureScaling, StackedCalibration):
        with pytest.raises(ValueError, match=r"got 'prefit'; .*FrozenEstimator\(fitted\)"):
            calibrator(model, cv="prefit").fit(data.X, data.counts)
    with pytest.raises(ValueError, match=r"got 'prefit'; .*FrozenEstimator"):
        DecisionCalibration(model, cost_matrix=1 - np.eye(3), cv="prefit").fit(data.X, data.counts)
