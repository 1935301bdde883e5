"""A map that the package does not have, as an exercise: two methods, and torch has the gradient.

The base class of calibrators is private. It is imported here because a reader who writes a map
would import it.
"""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.calibration._base import _BaseCalibrator
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Ensemble, predict_dist
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import label_log_loss
from sklearn_lhcal.neural_network import LabelLogLoss

KNOTS = torch.tensor([0.4, 0.6, 0.8, 0.95], dtype=torch.float64)
PENALTY = 1e-3


def spline_scaled(log_z, x):
    """Log-probabilities times exp(s(p)), s a linear spline of the top probability p."""
    top = log_z.amax(dim=-1, keepdim=True).exp()
    basis = torch.cat([torch.ones_like(top), torch.relu(top - KNOTS)], dim=-1)
    return torch.log_softmax(log_z * (basis @ x)[..., None].exp(), dim=-1)


class SplineScaling(_BaseCalibrator):
    """A temperature for each top probability."""

    def _fit_map(self, rows):
        log_z, counts, weight = map(torch.as_tensor, (rows.log_proba, rows.counts, rows.weight))

        def terms(x):
            x = torch.tensor(x, requires_grad=True)
            loss = LabelLogLoss()(spline_scaled(log_z, x), counts, weight) + PENALTY * x @ x
            (slope,) = torch.autograd.grad(loss, x)
            return loss.item(), slope.numpy()

        start = np.zeros(len(KNOTS) + 1)
        return {"coef_": minimize(terms, start, jac=True, options={"gtol": 1e-8}).x}

    def _map(self, rows):
        arrays = map(torch.as_tensor, (rows.log_proba, self.coef_))
        return rows.moved(spline_scaled(*arrays).numpy())


@pytest.fixture(scope="module")
def data():
    return make_label_histograms(400, n_raters=(1, 4), overconfidence=2.5, random_state=0)


def test_its_constant_is_a_temperature_and_its_knots_gain_more(data):
    spline = SplineScaling("proba").fit(data.prediction, data.counts)
    plain = TemperatureScaling("proba").fit(data.prediction, data.counts)
    raw, T, ours = (
        label_log_loss(data.counts, z)
        for z in (
            data.prediction,
            plain.predict_proba(data.prediction),
            spline.predict_proba(data.prediction),
        )
    )
    # Its penalty may cost what a thousandth of the squares of the spline is.
    assert ours < T + 1e-3 < raw


def test_it_is_the_optimum(data):
    """By NumPy, and a search that sees no gradient."""
    u, counts = np.log(data.prediction), data.counts
    p = data.prediction.max(axis=1, keepdims=True)
    basis = np.hstack([np.ones_like(p), np.maximum(p - KNOTS.numpy(), 0)])

    def loss(x):
        log_z = log_softmax(u * np.exp(basis @ x)[:, None], axis=1)
        return -(counts * log_z).sum() / counts.sum() + PENALTY * x @ x

    found = SplineScaling("proba").fit(data.prediction, counts).coef_
    options = {"xatol": 1e-7, "fatol": 1e-14, "maxiter": 10_000, "maxfev": 10_000}
    best = minimize(loss, np.zeros(5), method="Nelder-Mead", options=options)
    assert loss(found) <= best.fun + 1e-12
    assert_allclose(found, best.x, atol=1e-4)


def test_ensembles_chains_counts_weights_and_known_probabilities(data):
    labels = data.counts.argmax(axis=1)
    forest = RandomForestClassifier(8, min_samples_leaf=20, random_state=0).fit(data.X, labels)
    model = SplineScaling(FrozenEstimator(forest)).fit(data.X, data.counts)
    assert isinstance(model.predict_dist(data.X), Ensemble)
    assert_allclose(model.predict_proba(data.X), predict_dist(model, data.X).mean(), atol=1e-12)
    # An ensemble is mapped as its mean is.
    z = forest.predict_proba(data.X)
    expected = SplineScaling("proba").fit(z, data.counts).predict_proba(z)
    assert_allclose(model.predict_proba(data.X), expected, atol=1e-6)
    chain = AlphaCalibration(SplineScaling(TemperatureScaling(LogisticRegression())), cv=3)
    assert chain.fit(data.X, data.counts).predict_proba(data.X).shape == data.counts.shape
    # Weights are repetitions; the penalty is per label.
    w = np.arange(400) % 3
    z = data.prediction
    a = SplineScaling("proba").fit(z, data.counts, sample_weight=w)
    b = SplineScaling("proba").fit(np.repeat(z, w, axis=0), np.repeat(data.counts, w, axis=0))
    assert_allclose(a.predict_proba(z), b.predict_proba(z), atol=1e-6)
    known = SplineScaling("proba").fit(z, KnownProbabilities(data.proba))
    many = SplineScaling("proba").fit(z, np.round(1e6 * data.proba).astype(int))
    assert_allclose(known.predict_proba(z), many.predict_proba(z), atol=1e-4)


def test_a_failed_refit_leaves_the_estimator_as_it_was(data):
    model = SplineScaling("proba").fit(data.prediction, data.counts)
    before = clone(model)
    vars(before).update(vars(model))
    model.set_params(random_state="none")
    with pytest.raises(ValueError, match="random_state must"):
        model.fit(data.prediction, data.counts)
    model.set_params(random_state=None)
    assert_allclose(model.predict_proba(data.prediction), before.predict_proba(data.prediction))


@parametrize_with_checks([SplineScaling(LogisticRegression())])
def test_sklearn_checks(estimator, check):
    check(estimator)
