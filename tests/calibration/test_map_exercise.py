"""A map that the package does not have, as an exercise: two methods, and all solvers go with it.

The base class of calibrators, the bundle of rows and the problem of a torch module are private.
They are imported here because a reader who writes a map would import them.
"""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.calibration._base import _TrainedCalibrator
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Ensemble, predict_dist
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import label_log_loss
from sklearn_lhcal.neural_network import LBFGS, Adam, LabelLogLoss, Newton
from sklearn_lhcal.neural_network._solvers import TorchProblem

KNOTS = torch.tensor([0.4, 0.6, 0.8, 0.95], dtype=torch.float64)


class SplineModule(nn.Module):
    """Multiplies logits by exp(s(p)), s a linear spline of the top probability p."""

    def __init__(self):
        super().__init__()
        self.x = nn.Parameter(torch.zeros(len(KNOTS) + 1, dtype=torch.float64))

    def forward(self, logits):
        top = logits.amax(dim=-1, keepdim=True).exp()
        basis = torch.cat([torch.ones_like(top), torch.relu(top - KNOTS)], dim=-1)
        return torch.log_softmax(logits * (basis @ self.x)[..., None].exp(), dim=-1)

    def penalty(self):
        return 1e-3 * (self.x**2).sum()


class SplineScaling(_TrainedCalibrator):
    """A temperature for each top probability."""

    def _fit_map(self, rows):
        inputs = {"logits": rows.log_proba}
        problem = TorchProblem(SplineModule(), LabelLogLoss(), inputs, rows.counts, rows.weight)
        return {"coef_": self._solve(problem, LBFGS())}

    def _map(self, rows):
        module = SplineModule()
        with torch.no_grad():
            module.x.copy_(torch.as_tensor(self.coef_))
            log_z = module(torch.as_tensor(rows.log_proba)).numpy()
        return rows.moved(log_z)


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


@pytest.mark.slow
def test_solvers_reach_one_optimum(data):
    steps = Adam(learning_rate=0.05, batch_size=-1, max_epochs=2000, early_stopping=None)
    z, *others = (
        SplineScaling("proba", solver=solver)
        .fit(data.prediction, data.counts)
        .predict_proba(data.prediction)
        for solver in (None, Newton(), steps)
    )
    # As far as tolerances of a gradient, and 2000 steps of Adam, go.
    for found, atol in zip(others, (1e-6, 1e-3), strict=True):
        assert_allclose(found, z, atol=atol)


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
    model.set_params(solver="none")
    with pytest.raises(ValueError, match="solver must be a Solver or None"):
        model.fit(data.prediction, data.counts)
    model.set_params(solver=None)
    assert_allclose(model.predict_proba(data.prediction), before.predict_proba(data.prediction))


@parametrize_with_checks([SplineScaling(LogisticRegression())])
def test_sklearn_checks(estimator, check):
    check(estimator)
