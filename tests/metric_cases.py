"""The metrics of `__all__`, with every correction, and rows and bins to compute them on.

Tags are private; they say what a metric is, so that no list of names has to.
"""

import inspect
from functools import partial

import numpy as np
import pytest

from sklearn_lhcal import metrics
from sklearn_lhcal._utils.tags import LossOverBins, MeanOfTerms, defaults_of, tags_of

EXACT = {"rel": 1e-12, "abs": 1e-14}

CORRECTIONS = ("residual", "label", None)


def of_labels_and_prediction(function):
    """Whether it is a metric that is one number and needs no more than these two."""
    if not hasattr(function, "tags"):
        return False
    signature = inspect.signature(function)
    required = {p.name for p in signature.parameters.values() if p.default is p.empty}
    return "y" in required <= {"y", "prediction"} and signature.return_annotation is float


PUBLIC = {name: getattr(metrics, name) for name in metrics.__all__}
ONE_NUMBER = {name: m for name, m in PUBLIC.items() if of_labels_and_prediction(m)}
# what is no function of sums, kernel errors among it, has laws of its own
METRICS = {
    name: m for name, m in ONE_NUMBER.items() if isinstance(tags_of(m), MeanOfTerms | LossOverBins)
}
# those that are corrected unless they are told not to be
CORRECTED = {n: m for n, m in METRICS.items() if defaults_of(m).get("bias_correction")}
PLAIN = {name: m for name, m in METRICS.items() if name not in CORRECTED}

ALL = PLAIN | {
    f"{name} {correction}": partial(metric, bias_correction=correction)
    for name, metric in CORRECTED.items()
    for correction in CORRECTIONS
}

# classes may have any names, in any order
NOMINAL = {name: metric for name, metric in ALL.items() if not tags_of(metric).ordered}

BINNED = {name: m for name, m in METRICS.items() if "n_bins" in defaults_of(m)}

NEEDS_TWO = {name: metric for name, metric in ALL.items() if tags_of(metric).least_raters == 2}

ON_DISTRIBUTIONS = [name for name, metric in ALL.items() if tags_of(metric).takes_distribution]


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
