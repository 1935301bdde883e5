"""Settings of torch and NumPy that the caller has changed alter no result."""

import threading
from functools import cache

import numpy as np
import pytest
import torch
from networks import net_of_any_shape
from numpy.testing import assert_array_equal, assert_equal
from sklearn import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

from sklearn_lhcal.calibration import (
    AlphaCalibration,
    DecisionCalibration,
    RaterEffects,
    TemperatureScaling,
)
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import null_calibration_error, posterior_epistemic_loss

rng = np.random.default_rng(0)
Y = rng.multinomial(4, [0.5, 0.3, 0.2], size=60)
X = rng.standard_normal((60, 2)) + Y[:, :2]

OURS = {
    "alpha": AlphaCalibration(GaussianNB(), cv=2),
    "alpha, ensemble": AlphaCalibration(
        RandomForestClassifier(3, min_samples_leaf=9, random_state=0),
        cv=2,
        likelihood="dirichlet_multinomial",
    ),
    "decision": DecisionCalibration(GaussianNB(), cv=2, scaling="bias_corrected", inner_cv=2),
    "process": SparseGPClassifier(n_inducing=10, max_iter=20, tol=1e-2, random_state=0),
}
# a net's tensors are made where its module makes them
ALL = OURS | {"net": net_of_any_shape()}
CASES = [
    *((name, mode) for name in ALL for mode in (torch.no_grad, torch.inference_mode)),
    *((name, lambda: torch.device("meta")) for name in OURS),
]
MODES = ["no_grad", "inference_mode"] * len(ALL) + ["default device"] * len(OURS)


def predicted(name):
    return clone(ALL[name]).fit(X, Y).predict_proba(X)


expected = cache(predicted)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mode"),
    CASES,
    ids=[f"{name}-{how}" for (name, _), how in zip(CASES, MODES, strict=True)],
)
def test_torch_as_the_caller_has_set_it(name, mode):
    with mode():
        found = predicted(name)
    assert_array_equal(found, expected(name))


@pytest.mark.parametrize("metric", [null_calibration_error, posterior_epistemic_loss])
def test_tiny_shares_raise_no_floating_point_error(metric):
    z = rng.dirichlet([2.0, 1.0, 1.0], size=60)
    z[0] = [1e-300, 0.5, 0.5]
    options = {"random_state": 0} if metric is null_calibration_error else {}
    for given in (z, Dirichlet(0.01 * z + 1e-3)):
        plain = metric(Y, given, **options)
        with np.errstate(all="raise"):
            assert_equal(metric(Y, given, **options), plain)


def test_readers_raise_no_floating_point_error():
    rng = np.random.default_rng(1)
    P = rng.dirichlet(np.full(3, 0.2), 60)
    labels = np.array([rng.choice(3, 4, p=p) for p in P])
    with np.errstate(all="raise"):
        model = RaterEffects("proba").fit(P, Annotations.from_matrix(labels))
        assert np.isfinite(model.predict_proba(P, rater=labels[:, 0] % 2)).all()
        assert np.isfinite(model.predict_proba(P)).all()


def test_no_thread_is_left():
    """A progress bar has none that watches it, shown or not."""
    before = set(threading.enumerate())
    y = np.arange(40) % 2
    TemperatureScaling(GaussianNB(), cv=2, verbose=1).fit(np.arange(40.0)[:, None], y)
    assert set(threading.enumerate()) <= before
