"""Saved outputs that are exchanged, and those of half precision."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax

from sklearn_lhcal.calibration import StackedCalibration, TemperatureScaling
from sklearn_lhcal.metrics import label_log_loss


def logits(n=300, K=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    return 2 * np.eye(K)[y] + rng.normal(size=(n, K)), y


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("kind", [TemperatureScaling, StackedCalibration])
def test_exchanged_outputs_are_said(kind, K):
    u, y = logits(K=K)
    for exchanged in (-u, np.roll(u, 1, axis=1)):
        with pytest.warns(UserWarning, match="columns exchanged"):
            kind("logits").fit(exchanged, y)


@pytest.mark.parametrize("shift", [0.0, 20.0])
def test_other_outputs_are_not(shift):
    """Neither one that says nothing, nor a class that is predicted too often, nor few samples."""
    u, y = logits()
    u[:, 0] += shift
    # warnings are errors here
    TemperatureScaling("logits").fit(u, y)
    TemperatureScaling("logits").fit(np.random.default_rng(1).normal(size=u.shape), y)
    few, y = logits(12, 2)
    TemperatureScaling("logits").fit(-few, y)


def test_half_precision_is_read_with_its_own_tolerance():
    """By metrics and calibrators alike."""
    u, y = logits()
    z = softmax(u, axis=1)
    half = z.astype(np.float16)
    assert np.abs(half.sum(axis=1, dtype=float) - 1).max() > 1e-4
    assert_allclose(label_log_loss(y, half), label_log_loss(y, z), atol=1e-3)
    fitted = TemperatureScaling("proba").fit(half, y)
    expected = TemperatureScaling("proba").fit(z, y)
    assert_allclose(fitted.temperature_, expected.temperature_, rtol=1e-3)
    assert_allclose(fitted.predict_proba(half), expected.predict_proba(z), atol=1e-3)
