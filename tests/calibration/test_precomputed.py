"""Saved outputs of several seeds: an Ensemble as X is what a classifier of these members says."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from sklearn_lhcal.calibration import (
    AlphaCalibration,
    BiasCorrectedTemperatureScaling,
    DecisionCalibration,
    MatrixScaling,
    OrdinalScaling,
    PrecomputedClassifier,
    StackedCalibration,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Dirichlet, Ensemble, PointMass, predict_dist
from sklearn_lhcal.metrics import expected_accuracy, expected_squared_loss, label_log_loss

NAMES = ["b", "c", "a"]
C3 = [[0, 1, 2], [5, 0, 1], [20, 3, 0]]
SCALINGS = {
    "temperature": TemperatureScaling("proba"),
    "temperature, mixed": TemperatureScaling("proba", mixing="uniform"),
    "bias-corrected": BiasCorrectedTemperatureScaling("proba"),
    "bias-corrected, mixed": BiasCorrectedTemperatureScaling("proba", mixing="prior"),
    "vector": VectorScaling("proba"),
    "matrix": MatrixScaling("proba"),
    "matrix, mixed": MatrixScaling("proba", mixing="uniform"),
    "classwise": OrdinalScaling("proba"),
    "cumulative, mixed": OrdinalScaling("proba", form="cumulative", mixing="uniform"),
    "stacked": StackedCalibration("proba", inner_cv=2),
    "decision": DecisionCalibration("proba", C3, inner_cv=2, safeguard=None),
}


@pytest.fixture(scope="module")
def data():
    return make_label_histograms(120, overconfidence=2.0, random_state=0)


def around_temperature(response):
    return AlphaCalibration(TemperatureScaling(response))


@pytest.fixture(scope="module")
def members(data):
    rng = np.random.default_rng(0)
    u = np.log(data.prediction) + rng.normal(0, 0.4, (3, *np.shape(data.prediction)))
    return np.exp(u) / np.exp(u).sum(axis=2, keepdims=True)


@pytest.mark.parametrize("response", ["logits", "proba"])
def test_it_is_the_distribution_that_was_given(data, members, response):
    saved = PrecomputedClassifier(response).fit(Ensemble(members), data.counts)
    assert_allclose(predict_dist(saved, Ensemble(members)).proba, members, rtol=1e-12)
    assert_allclose(saved.predict_proba(Ensemble(members)), members.mean(axis=0))


def test_one_member_is_saved_probabilities(data, members):
    """Two routes: an ensemble of one, and the array itself."""
    one = TemperatureScaling("proba").fit(Ensemble(members[:1]), data.counts)
    bare = TemperatureScaling("proba").fit(members[0], data.counts)
    assert one.temperature_ == pytest.approx(bare.temperature_, rel=1e-5)
    of_ensemble = one.predict_proba(Ensemble(members[:1]))
    assert_allclose(of_ensemble, bare.predict_proba(members[0]), atol=1e-6)


@pytest.mark.parametrize("wrap", [FrozenEstimator, make_pipeline])
def test_logits_in_a_wrapper_are_logits(data, wrap):
    """Nothing is clipped, though these probabilities go down to 1e-60."""
    u = 40 * np.log(data.prediction)
    saved = wrap(PrecomputedClassifier("logits").fit(u, data.counts))
    of_saved = TemperatureScaling(FrozenEstimator(saved)).fit(u, data.counts)
    bare = TemperatureScaling("logits").fit(u, data.counts)
    assert of_saved.temperature_ == pytest.approx(bare.temperature_, rel=1e-12)
    proba = bare.predict_proba(u)
    assert_allclose(of_saved.predict_proba(u), proba, rtol=1e-12, atol=1e-12)


def test_a_point_mass_is_nobody_elses_memory(data):
    """Neither what it was made of nor what it says can be written to it."""
    u = np.log(data.prediction)
    saved = PrecomputedClassifier("logits").fit(u)
    dist = saved.predict_dist(u)
    before = dist.mean().copy()
    u += 1
    saved.predict_proba(u)[:] = 0
    np.testing.assert_array_equal(dist.mean(), before)
    with pytest.raises(ValueError, match="read-only"):
        dist.mean()[0, 0] = 1
    z = data.prediction.copy()
    kept = PrecomputedClassifier("proba").fit(z).predict_dist(z)
    z[:] = 0
    np.testing.assert_array_equal(kept.mean(), data.prediction)


# ------------------------------------------------------------------------ scalings of ensembles


@pytest.fixture(params=SCALINGS.values(), ids=SCALINGS)
def scaling(request):
    return clone(request.param)


@pytest.fixture
def weights():
    """Of three members, in each row others."""
    return np.random.default_rng(1).uniform(0.2, 1, (3, 120))


def test_an_ensemble_is_scaled_as_its_mean_is(data, members, weights, scaling):
    X = Ensemble(members, weights)
    mean = np.einsum("sn,snk->nk", weights / weights.sum(axis=0), members)
    bare = clone(scaling).fit(mean, data.counts)
    z = scaling.fit(X, data.counts).predict_proba(X)
    # searches end where the slope is 1e-7, from means that differ in their last bit
    assert_allclose(z, bare.predict_proba(mean), atol=1e-7)
    assert_allclose(z, scaling.predict_dist(X).mean(), atol=1e-12)
    assert_allclose(np.exp(scaling.predict_log_proba(X)), z, rtol=1e-12)


def member_given_label(ensemble):
    """P(s | k) = w_s z_sk / z_k."""
    joint = ensemble.weights[..., None] * ensemble.member_means()
    return joint / joint.sum(axis=0)


def test_a_label_tells_members_apart_as_before(data, members, weights, scaling):
    X = Ensemble(members, weights)
    found = scaling.fit(X, data.counts).predict_dist(X)
    assert isinstance(found, Ensemble)
    assert_allclose(found.member_means().sum(axis=2), 1, rtol=1e-12)
    assert_allclose(member_given_label(found), member_given_label(X), rtol=1e-10)


def test_equal_members_are_one_model(data, members, scaling):
    bare = clone(scaling).fit(members[0], data.counts)
    X = Ensemble(np.stack([members[0]] * 2))
    found = scaling.fit(X, data.counts).predict_dist(X)
    expected = bare.predict_proba(members[0])
    assert_allclose(found.mean(), expected, rtol=1e-12)
    assert_allclose(found.member_means(), np.stack([expected] * 2), rtol=1e-12)
    assert_allclose(found.weights, 0.5, rtol=1e-12)


def test_a_member_of_weight_0_changes_nothing(data, members, weights, scaling):
    X = Ensemble(members, weights)
    without = clone(scaling).fit(X, data.counts).predict_dist(X)
    more = Ensemble([*members, np.tile(np.eye(3)[0], (120, 1))], [*weights, np.zeros(120)])
    found = scaling.fit(more, data.counts).predict_dist(more)
    assert_allclose(found.mean(), without.mean(), atol=1e-12)
    assert_allclose(found.weights, [*without.weights, np.zeros(120)], atol=1e-12)
    assert_allclose(found.member_means()[:3], without.member_means(), atol=1e-12)
    assert np.isfinite(found.member_means()).all()


def test_members_have_no_order(data, members, weights, scaling):
    order = [2, 0, 1]
    X, turned = Ensemble(members, weights), Ensemble(members[order], weights[order])
    expected = clone(scaling).fit(X, data.counts).predict_dist(X)
    found = scaling.fit(turned, data.counts).predict_dist(turned)
    # as for the mean
    assert_allclose(found.mean(), expected.mean(), atol=1e-7)
    assert_allclose(found.weights, expected.weights[order], atol=1e-7)
    assert_allclose(found.member_means(), expected.member_means()[order], atol=1e-7)


@pytest.mark.parametrize("wrap", [TemperatureScaling, around_temperature])
def test_rows_of_an_ensemble_are_predicted_alone(data, members, wrap):
    """A row's prediction does not depend on other rows."""
    model = wrap("logits").fit(Ensemble(members), data.counts)
    whole = model.predict_dist(Ensemble(members))
    part = model.predict_dist(Ensemble(members[:, :7]))
    assert_allclose(whole[:7].mean(), part.mean(), rtol=1e-12)
    assert_allclose(model.predict_proba(Ensemble(members)), whole.mean(), rtol=1e-12)
    after = label_log_loss(data.counts, whole.mean())
    assert after <= label_log_loss(data.counts, members.mean(axis=0)) + 1e-9


def test_names_decide(data, members):
    named = Ensemble([pd.DataFrame(member, columns=NAMES) for member in members])
    counts = pd.DataFrame(data.counts, columns=NAMES)
    model = TemperatureScaling("proba").fit(named, counts)
    assert model.classes_.tolist() == sorted(NAMES)
    bare = TemperatureScaling("proba").fit(Ensemble(members), data.counts)
    order = [NAMES.index(name) for name in model.classes_]
    expected = bare.predict_proba(Ensemble(members))[:, order]
    assert_allclose(model.predict_proba(named), expected, rtol=1e-6)
    with pytest.raises(ValueError, match="not sorted"):
        model.predict_proba(Ensemble(members))


def test_in_a_search(data, members):
    """Splitters take rows of an ensemble, never members."""
    model = TemperatureScaling("proba")
    scores = cross_val_score(
        model, Ensemble(members), data.counts, scoring="neg_expected_squared_loss", cv=3
    )
    assert scores.shape == (3,)
    assert (-scores > 0).all()
    search = GridSearchCV(
        model, {"mixing": [None, "uniform"]}, scoring="neg_expected_squared_loss", cv=3
    ).fit(Ensemble(members), data.counts)
    z = search.predict_proba(Ensemble(members))
    assert expected_squared_loss(data.counts, z) > 0


@pytest.mark.parametrize("X", [PointMass, lambda p: Dirichlet(4 * p)])
def test_other_distributions(data, members, X):
    given = X(members[0])
    saved = PrecomputedClassifier("proba").fit(given, data.counts)
    assert_allclose(saved.predict_proba(given), members[0], rtol=1e-12)
    bare = TemperatureScaling("proba").fit(members[0], data.counts)
    model = TemperatureScaling("proba").fit(given, data.counts)
    assert model.temperature_ == pytest.approx(bare.temperature_, rel=1e-9)


def test_an_array_of_members_says_what_to_do(data, members):
    with pytest.raises(ValueError, match=r"Ensemble\(proba\)"):
        TemperatureScaling("logits").fit(members, data.counts)


def test_columns_and_classes_that_do_not_fit(data, members):
    with pytest.raises(ValueError, match="X is a distribution"):
        PrecomputedClassifier("proba", columns=[0, 1]).fit(Ensemble(members))
    with pytest.raises(ValueError, match="3 different names"):
        PrecomputedClassifier("proba", classes=["a", "b"]).fit(Ensemble(members))


def test_lengths_are_compared_at_fit():
    data = make_label_histograms(20, random_state=0)
    with pytest.raises(ValueError, match="y has 20 samples, expected 19"):
        PrecomputedClassifier().fit(data.prediction[:-1], data.counts)


def test_score_takes_counts():
    """The expected accuracy, as every calibrator's score."""
    data = make_label_histograms(20, random_state=0)
    model = PrecomputedClassifier().fit(data.prediction, data.counts)
    assert model.score(data.prediction, data.counts) == pytest.approx(
        expected_accuracy(data.counts, data.prediction), abs=1e-12
    )
