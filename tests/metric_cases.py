"""The metrics by name, with every correction, and rows and bins to compute them on."""

import inspect
from functools import partial

import numpy as np
import pytest

from sklearn_lhcal import metrics

EXACT = {"rel": 1e-12, "abs": 1e-14}

PLAIN = {
    name: getattr(metrics, name)
    for name in (
        "expected_squared_loss",
        "label_log_loss",
        "histogram_log_loss",
        "expected_accuracy",
        "vote_accuracy",
        "disagreement_squared_loss",
        "class_disagreement_squared_loss",
        "posterior_epistemic_loss",
    )
}

CORRECTED = {
    name: getattr(metrics, name)
    for name in (
        "epistemic_loss",
        "irreducible_loss",
        "calibration_loss",
        "calibration_error",
        "dispersion_loss",
        "dispersion_error",
        "disagreement_calibration_loss",
        "disagreement_calibration_error",
        "class_disagreement_calibration_error",
    )
}

CORRECTIONS = ("residual", "label", None)

ALL = PLAIN | {
    f"{name} {correction}": partial(metric, bias_correction=correction)
    for name, metric in CORRECTED.items()
    for correction in CORRECTIONS
}

BINNED = {name: m for name, m in CORRECTED.items() if "n_bins" in inspect.signature(m).parameters}

NEEDS_TWO = {
    name: metric
    for name, metric in ALL.items()
    if "disagreement" in name
    or "posterior" in name
    or (name.startswith(("epistemic", "irreducible", "dispersion")) and "None" not in name)
}

ON_DISTRIBUTIONS = [
    n for n in ALL if "disagreement" in n or n in ("histogram_log_loss", "posterior_epistemic_loss")
]


def case(seed=0, n=60, K=3, least=1):
    """Counts of `least` to 5 raters a row, predictions, integer weights; Q correlates with z."""
    rng = np.random.default_rng(seed)
    z = rng.dirichlet(np.ones(K), n)
    raters = rng.integers(least, 6, n)
    counts = np.array(
        [rng.multinomial(m, 0.7 * p + 0.3 / K) for m, p in zip(raters, z, strict=True)]
    )
    return counts, z, rng.integers(1, 4, n)


@pytest.fixture(params=ALL)
def metric(request):
    return ALL[request.param]


EDGES = [0.0, 0.05, 0.3, 0.31, 0.9, 1.0]

STRATEGIES = {
    "uniform 15": {},
    "uniform 1": {"n_bins": 1},
    "uniform 200": {"n_bins": 200},  # most bins with a row or none
    "quantile 4": {"n_bins": 4, "strategy": "quantile"},
    "given edges": {"n_bins": EDGES},
}


def edges_of(z, options):
    """Edges of each class, from the definition."""
    n_bins = options.get("n_bins", 15)
    if np.ndim(n_bins):
        return [np.array(n_bins)] * z.shape[1]
    if options.get("strategy") == "quantile":
        return [np.unique(np.quantile(column, np.linspace(0, 1, n_bins + 1))) for column in z.T]
    return [np.linspace(0, 1, n_bins + 1)] * z.shape[1]
