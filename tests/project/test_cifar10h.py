"""What the package promises, on real raters: CIFAR-10H with the predictions of a real network."""

from pathlib import Path

import numpy as np
import pytest

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.distributions import PointMass
from sklearn_lhcal.metrics import (
    disagreement_calibration_error,
    disagreement_squared_loss,
    posterior_epistemic_loss,
)

FILE = Path(__file__).parents[3] / "shared" / "data" / "cifar10h_first5000.npz"
pytestmark = pytest.mark.skipif(
    not FILE.exists(), reason="the file of CIFAR-10H samples is not beside the project"
)


@pytest.fixture(scope="module", params=range(3))
def halves(request):
    """(probabilities, counts) for calibration, the same for the test, and a generator."""
    data, rng = np.load(FILE), np.random.default_rng(request.param)
    proba = data["proba"] / data["proba"].sum(axis=1, keepdims=True)
    first, second = np.array_split(rng.permutation(len(proba)), 2)
    counts = data["counts"].astype(int)
    return (proba[first], counts[first]), (proba[second], counts[second]), rng


def drawn(counts, labels, rng):
    """So many of each row's labels, without replacement; None: all."""
    return (
        counts
        if labels is None
        else np.array([rng.multivariate_hypergeometric(y, labels) for y in counts])
    )


def test_disagreement_is_predicted_better_with_alpha_only(halves):
    (X, counts), (X_test, y), rng = halves
    counts = drawn(counts, 2, rng)
    raw = PointMass(X_test)
    ts = TemperatureScaling("proba").fit(X, counts).predict_dist(X_test)
    both = AlphaCalibration(TemperatureScaling("proba")).fit(X, counts).predict_dist(X_test)
    L_raw, L_ts, L_both = (disagreement_squared_loss(y, d) for d in (raw, ts, both))
    assert L_ts > L_raw + 0.005
    assert L_both < L_raw - 0.008
    assert disagreement_calibration_error(y, both) < disagreement_calibration_error(y, raw) / 3


@pytest.mark.slow
def test_pairwise_posterior_does_not_grow_with_the_labels_of_a_row(halves):
    (X, counts), (X_test, y), rng = halves

    def loss(likelihood, labels):
        chain = AlphaCalibration(TemperatureScaling("proba"), likelihood=likelihood)
        return posterior_epistemic_loss(
            y, chain.fit(X, drawn(counts, labels, rng)).predict_dist(X_test)
        )

    pairwise = [loss("pairwise", labels) for labels in (2, 5, 20, None)]
    assert max(pairwise[1:]) < pairwise[0] + 0.0005
    assert loss("dirichlet_multinomial", None) > pairwise[-1] + 0.004
