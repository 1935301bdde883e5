"""Inputs of every kind: read as what they are, or refused by a message that names the argument."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from metric_cases import tags_of
from scipy.special import softmax
from scorer_cases import SCORERS
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from torch import nn

from sklearn_lhcal import metrics
from sklearn_lhcal.calibration import TemperatureScaling
from sklearn_lhcal.distributions import Dirichlet, Ensemble, PointMass
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.label_histogram import KnownProbabilities, LabelHistogramClassifier, check_counts
from sklearn_lhcal.metrics import MetricAccumulator, get_scorer
from sklearn_lhcal.neural_network import NeuralClassifier

Y = np.array([[2, 0, 1], [1, 1, 1], [0, 3, 0]])
Z = np.array([[0.5, 0.2, 0.3], [0.1, 0.8, 0.1], [1.0, 0.0, 0.0]])
X = np.arange(6.0).reshape(3, 2)


def network(**options):
    sizes = {"module__in_features": 2, "module__out_features": 3}
    return NeuralClassifier(nn.Linear, **sizes, max_epochs=2, random_state=0, **options)


TAKES = {
    "y": lambda a: metrics.epistemic_loss(a, Z),
    "y of a count gate": check_counts,
    "y of fit": lambda a: LabelHistogramClassifier().fit(X, a),
    "prediction": lambda a: metrics.epistemic_loss(Y, a),
    "KnownProbabilities": KnownProbabilities,
    "proba": PointMass,
    "proba of members": lambda a: Ensemble([a, a]) if isinstance(a, list) else Ensemble(a[None]),
    "concentration": Dirichlet,
    "cost_matrix": lambda a: metrics.bayes_decision(Z, a),
    "X of a network": lambda a: network().fit(a, Y),
    "X of a Gaussian process": lambda a: SparseGPClassifier().fit(a, Y),
    "X of proba": lambda a: TemperatureScaling("proba").fit(a, Y),
}
ODD = {
    "masked": (np.ma.masked_array(np.ones((3, 3)), np.eye(3)), "mask"),
    "complex": (np.ones((3, 3), complex), "complex"),
    "dates": (np.zeros((3, 3), "datetime64[s]"), "dates|numeric|DTypePromotion|datetime"),
    "time spans": (np.ones((3, 3), "timedelta64[s]"), "time spans|timedelta"),
    "records": (np.zeros((3, 3), [("a", float), ("b", int)]), "records|numeric"),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("name", TAKES)
def test_what_would_lose_its_meaning_is_refused(name, kind):
    a, message = ODD[kind]
    with pytest.raises((ValueError, TypeError), match=message) as error:
        TAKES[name](a)
    assert name.split()[0] in str(error.value)


@pytest.mark.parametrize("name", ["y", "prediction"])
def test_what_holds_no_values_yet_is_named(name):
    lazy = pl.LazyFrame(Y)
    for a, message in (
        (lazy, f"{name} is a lazy frame, LazyFrame; pass {name}.collect"),
        ((row for row in Y), f"{name} is an iterator, generator"),
        (map(list, Y), f"{name} is an iterator, map"),
    ):
        with pytest.raises(TypeError, match=message):
            TAKES[name](a)
    with pytest.raises(ValueError, match="got dict"):
        check_counts({"a": [1, 2], "b": [0, 1]})


def test_an_array_without_masked_entries_is_an_array():
    y, z = np.ma.masked_array(Y), np.ma.masked_array(Z, False)
    assert metrics.epistemic_loss(y, z) == metrics.epistemic_loss(Y, Z)


def test_tensors_with_gradients_are_read():
    z = torch.tensor(Z, requires_grad=True)
    assert metrics.epistemic_loss(torch.tensor(Y), z) == metrics.epistemic_loss(Y, Z)
    np.testing.assert_allclose(Ensemble(z[None]).mean(), Z)
    x = torch.tensor(X, requires_grad=True)
    expected = network().fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(network().fit(x, Y).predict_proba(x), expected)


@pytest.mark.parametrize("kind", [pl.Series, pd.Series, torch.tensor, list, tuple])
def test_weights_of_any_kind(kind):
    w = [1.0, 2.0, 0.5]
    weight, expected = kind(w), np.array(w)
    for function in (metrics.epistemic_loss, metrics.label_log_loss):
        assert function(Y, Z, sample_weight=weight) == function(Y, Z, sample_weight=expected)
    batch = MetricAccumulator(metrics.epistemic_loss).update(Y, Z, sample_weight=weight).result()
    assert batch.estimate == pytest.approx(metrics.epistemic_loss(Y, Z, sample_weight=expected))
    for model in (LabelHistogramClassifier(), network()):
        found = model.fit(X, Y, sample_weight=weight).predict_proba(X)
        np.testing.assert_array_equal(found, model.fit(X, Y, expected).predict_proba(X))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("make", [np.array, torch.tensor, pd.DataFrame, lambda a: {"input": a}])
def test_networks_refuse_what_is_not_finite(value, make):
    bad = X.copy()
    bad[1, 0] = value
    net = network().fit(X, Y)
    for call in (lambda: network().fit(make(bad), Y), lambda: net.predict(make(bad))):
        with pytest.raises(
            ValueError, match=r"X contains NaN or infinite values .first in sample 1"
        ):
            call()


def test_large_numbers_are_finite():
    """A sum that overflows is no infinite value."""
    net = network().fit(X, Y)
    assert net.predict_proba(np.full((9, 2), 1e4, np.float16)).shape == (9, 3)


@pytest.mark.parametrize("make", [np.array, torch.tensor, pd.DataFrame])
def test_what_is_infinite_in_float32(make):
    """Finite in X, it would reach the network as infinite, and come out as NaN."""
    bad = X.astype(float)
    bad[1, 0] = -1e39
    net = network().fit(X, Y)
    with pytest.raises(ValueError, match=r"X holds numbers beyond 3.4e38"):
        net.predict_proba(make(bad))


def test_an_empty_dict_has_no_rows():
    for call in (lambda: network().fit({}, Y), lambda: LabelHistogramClassifier().fit({}, Y)):
        with pytest.raises(ValueError, match="X is an empty dict"):
            call()


# -------------------------------------------------------------------------- messages


@pytest.mark.parametrize("n_bins", [np.inf, -np.inf, np.nan, "15", None, 1j, [["a"]]])
def test_numbers_of_bins(n_bins):
    with pytest.raises(ValueError, match="n_bins must be a positive integer or an array of edges"):
        metrics.calibration_loss(Y, Z, n_bins=n_bins)


def test_edges_that_are_no_numbers():
    with pytest.raises(ValueError, match="n_bins must be numeric"):
        metrics.calibration_loss(Y, Z, n_bins=["a", "b"])


def test_softmaxes_of_float32_stored_as_float64():
    z = softmax(np.random.default_rng(0).normal(size=(4000, 300)).astype(np.float32), axis=1)
    z[0] *= np.float32(1 + 4e-6)
    stored = z.astype(np.float64)
    assert abs(stored[0].sum() - 1) > 1e-6
    assert PointMass(stored).n_classes == 300
    with pytest.raises(ValueError, match=r"within 1e-05.; sample 0 sums to 1\.0000[1-9]"):
        PointMass((z * np.float32(1 + 2e-5)).astype(np.float64))
    with pytest.raises(ValueError, match=r"within 1e-06.; sample 0 sums to 1\.00000[1-9]"):
        PointMass(stored * (1 + 1e-9))


def test_a_probability_above_1_is_not_called_negative():
    with pytest.raises(ValueError, match=r"above 1 .first in sample 1: 1\.009") as error:
        metrics.expected_accuracy([0, 1], [0.5, 1.009])
    assert "negative" not in str(error.value)


@pytest.mark.parametrize("response", ["proba", "logits"])
def test_advice_for_one_number_a_row_is_accepted(response):
    p = np.array([0.2, 0.6, 0.8, 0.3])
    u = np.log(p / (1 - p))
    y = [[3, 1], [1, 3], [1, 4], [2, 1]]
    with pytest.raises(ValueError, match="X has one number per sample") as error:
        TemperatureScaling(response).fit(p if response == "proba" else u, y)
    words, advised = {
        "proba": ("[1 - p, p]", np.column_stack([1 - p, p])),
        "logits": ("[0 * u, u]", np.column_stack([0 * u, u])),
    }[response]
    assert f"np.column_stack({words})" in str(error.value)
    assert TemperatureScaling(response).fit(advised, y).predict_proba(advised).shape == (4, 2)


def test_soft_labels_are_advised_counts_first():
    with pytest.raises(ValueError, match="fractional counts") as error:
        check_counts([[0.5, 0.5], [1.0, 0.0]])
    text = str(error.value)
    assert text.index("Give the counts") < text.index("KnownProbabilities")
    assert text.endswith("use Annotations.from_long or Annotations.from_matrix")


NEED_TWO = [name for name, s in SCORERS.items() if tags_of(s.metric).least_raters == 2]
rng = np.random.default_rng(0)
MANY, SINGLE = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)


@pytest.mark.parametrize("name", NEED_TWO)
def test_scorers_say_that_single_labels_are_too_few(name):
    model = LogisticRegression().fit(MANY, SINGLE)
    with pytest.raises(ValueError, match="2 labels or more, and of these 60 samples none has"):
        get_scorer(name)(model, MANY, SINGLE)


def test_the_search_says_why():
    search = GridSearchCV(LogisticRegression(), {"C": [1.0]}, scoring="neg_epistemic_loss", cv=2)
    with pytest.raises(ValueError, match="2 labels or more, and of these 30 samples none has"):
        search.set_params(error_score="raise").fit(MANY, SINGLE)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.set_params(error_score=np.nan).fit(MANY, SINGLE)
    assert "2 labels or more" in str(caught[0].message)
    assert np.isnan(search.cv_results_["mean_test_score"]).all()
