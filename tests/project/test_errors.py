"""Every public function answers bad input with a ValueError.

It says what was wrong, where, and what to do.
"""

import inspect
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from error_cases import FITTED, HINT, METRICS, ON_BOTH, X, Y, Z, changed, numbers, result
from scorer_cases import SCORERS
from sklearn.naive_bayes import GaussianNB

from sklearn_lhcal import metrics
from sklearn_lhcal.distributions import Dirichlet, DirichletMixture, Ensemble, PointMass
from sklearn_lhcal.label_histogram import (
    KnownProbabilities,
    LabelHistogramClassifier,
    check_counts,
    class_disagreement,
    fleiss_kappa,
    pairwise_disagreement,
    u_statistic,
)

# everything that takes y, as a function of y alone
ON_Y = {
    **{name: partial(lambda y, m: m(y, Z), m=m) for name, m in METRICS.items()},
    "irreducible_loss alone": metrics.irreducible_loss,
    "check_counts": check_counts,
    "pairwise_disagreement": pairwise_disagreement,
    "class_disagreement": class_disagreement,
    "u_statistic": lambda y: u_statistic(y, lambda c: c[:, 0], 1),
    "fleiss_kappa": fleiss_kappa,
    "accuracy_gain": lambda y: metrics.accuracy_gain(y, [0, 1, 2], [2, 1, 0]),
    "LabelHistogramClassifier.fit": lambda y: LabelHistogramClassifier(GaussianNB()).fit(X, y),
    "LabelHistogramClassifier.score": lambda y: FITTED.score(X, y),
    **{f"scorer {name}": partial(lambda y, s: s(FITTED, X, y), s=s) for name, s in SCORERS.items()},
}

BAD_Y = {
    "nan": (changed(np.nan), f"y contains NaN or infinite values .*sample 1.*{HINT}"),
    "inf": (changed(np.inf), f"y contains NaN or infinite values .*sample 1.*{HINT}"),
    "frame with nan": (
        pd.DataFrame(changed(np.nan)),
        f"y contains NaN or infinite values .*sample 1.*{HINT}",
    ),
    "sparse with nan": (
        sp.csr_array(changed(np.nan)),
        f"y contains NaN or infinite values .*sample 1.*{HINT}",
    ),
    "polars with nan": (
        pl.DataFrame(changed(np.nan)),
        f"y contains NaN or infinite values .*sample 1.*{HINT}",
    ),
    "pandas NA": (pd.DataFrame(Y, dtype="Int64").mask(Y == 2), f"without missing values.*{HINT}"),
    "strings": ([["a", "b", "a"]] * 3, f"Counts in y must be numbers.*{HINT}"),
    "negative": (changed(-1, int), f"y contains negative counts .*sample 1.*{HINT}"),
    "negative float": (changed(-1.0), f"y contains negative counts .*sample 1.*{HINT}"),
    "fractional": (
        changed(0.5),
        f"y contains fractional counts .*sample 1.*KnownProbabilities.*{HINT}",
    ),
    "empty row": (
        [[1, 0, 1], [0, 0, 0], [1, 0, 0]],
        f"y has 1 samples without labels .*sample 1.*{HINT}",
    ),
    "empty boolean row": (
        np.array([[1, 0, 0], [0, 0, 0], [0, 0, 0]], bool),
        f"2 samples without labels .*sample 1.*{HINT}",
    ),
    "too large": (changed(1e300), r"counts above 2\*\*53 .*sample 1"),
    "too large for int64": (changed(2**63, np.uint64), r"counts above 2\*\*53 .*sample 1"),
    "three dimensions": (np.ones((3, 3, 1)), "y must be 1-D labels or counts of shape"),
    "nothing": ([], "y must have at least one sample"),
    "no columns": (np.zeros((3, 0)), "y must have at least one sample"),
    "a number": (3, "y must have at least one sample"),
    "labels with nan": ([0.0, np.nan, 1.0], f"missing labels, NaN .*sample 1.*{HINT}"),
    "labels with None": (["a", None, "b"], f"missing labels, NaN .*sample 1.*{HINT}"),
    "labels with NA": (
        pd.Series(["a", None, "b"], dtype="string"),
        f"missing labels, NaN .*sample 1.*{HINT}",
    ),
    "labels with integer NA": (
        pd.Series([0, None, 1], dtype="Int64"),
        f"missing labels, NaN .*sample 1.*{HINT}",
    ),
    "labels with inf": ([0.0, np.inf, 1.0], f"y contains infinite values.*{HINT}"),
    "fractional labels": ([0.0, 0.5, 1.0], "Unknown label type: continuous"),
    "labels of mixed types": (np.array(["a", 1, "b"], dtype=object), "types that cannot be sorted"),
}


# one door of each reader; behind them all labels are read alike
READERS_OF_Y = (
    "check_counts",
    "expected_squared_loss",
    "fleiss_kappa",
    "LabelHistogramClassifier.fit",
    "scorer neg_epistemic_loss",
)


@pytest.mark.parametrize("case", BAD_Y)
@pytest.mark.parametrize("name", READERS_OF_Y)
def test_bad_y(name, case):
    y, message = BAD_Y[case]
    with pytest.raises(ValueError, match=message):
        ON_Y[name](y)


@pytest.mark.parametrize("name", ON_Y)
def test_all_doors_read_y(name):
    for case in ("nan", "empty row", "labels with None"):
        y, message = BAD_Y[case]
        with pytest.raises(ValueError, match=message):
            ON_Y[name](y)


BAD_PREDICTION = {
    "nan": ([[0.5, np.nan, 0.5], *Z[1:]], "contains NaN or infinite values .*sample 0"),
    "inf": ([*Z[:2], [0, np.inf, 0.5]], "contains NaN or infinite values .*sample 2"),
    "negative": ([Z[0], [-0.1, 0.6, 0.5], Z[2]], "negative values .*sample 1.*logits.*softmax"),
    "logits": ([[3.0, 1.0, 2.0]] * 3, "must sum to 1 .*sample 0 sums to 6.*logits"),
    "nearly": (Z * (1 + 3e-6), "must sum to 1 .*1e-06.*sample 0"),
    "float32": ((Z * 1.002).astype(np.float32), r"must sum to 1 .*0\.001.*sample 0"),
    "percent": (Z * 100, "must sum to 1 .*sample 0 sums to 100.*Divide by the sums"),
    "strings": ([["a", "b", "c"]] * 3, "must be numeric"),
    "fewer classes": (
        Z[:, :2] / Z[:, :2].sum(axis=1, keepdims=True),
        "y has 3 classes, but the prediction has 2",
    ),
    "one column": (np.full(3, 0.5), "y has 3 classes, but the prediction has 2"),
    "more classes": (np.full((3, 4), 0.25), "y has 3 classes, but the prediction has 4"),
    "fewer rows": (Z[:2], "y has 3 samples, expected 2: inconsistent numbers of samples"),
    "more samples": (
        np.repeat(Z, 2, axis=0),
        "y has 3 samples, expected 6: inconsistent numbers of samples",
    ),
    "three dimensions": (Z[None], "must have shape .n_samples, n_classes."),
    "nothing": (np.zeros((0, 3)), "has no samples"),
    "shorter distribution": (PointMass(Z[:2]), "y has 3 samples, expected 2"),
    "distribution of fewer classes": (
        Dirichlet(np.ones((3, 2))),
        "y has 3 classes, but the prediction has 2",
    ),
}


@pytest.mark.parametrize("case", BAD_PREDICTION)
@pytest.mark.parametrize("name", ["expected_squared_loss", "kernel_calibration_error"])
def test_bad_prediction(name, case):
    prediction, message = BAD_PREDICTION[case]
    with pytest.raises(ValueError, match=message):
        ON_BOTH[name](Y, prediction)


@pytest.mark.parametrize("name", ON_BOTH)
def test_all_metrics_read_predictions(name):
    for case in ("nan", "logits", "fewer classes", "shorter distribution"):
        prediction, message = BAD_PREDICTION[case]
        with pytest.raises(ValueError, match=message):
            ON_BOTH[name](Y, prediction)


ROUNDED = {"float64": Z * (1 + 5e-7), "float32": (Z * 1.0005).astype(np.float32)}


@pytest.mark.parametrize("dtype", ROUNDED)
@pytest.mark.parametrize("name", ON_BOTH)
def test_rounding_is_tolerated(name, dtype):
    """1e-6 in float64, 1e-3 in float32."""
    exact, rounded = (numbers(result(name, Y, z)) for z in (Z, ROUNDED[dtype]))
    np.testing.assert_allclose(rounded, exact, rtol=0, atol=5e-3)


@pytest.mark.parametrize("dtype", ROUNDED)
def test_rounding_is_tolerated_by_every_method(dtype):
    z, y = ROUNDED[dtype], [0, 1, 2]
    members, total = np.stack([z, z[::-1]]), np.ones((2, 3))
    for d in (
        PointMass(z),
        Dirichlet.from_mean(z, 2.0),
        Ensemble(members),
        DirichletMixture(members, total),
    ):
        np.testing.assert_allclose(d[[0, 2]].posterior(y[:2]).mean().sum(axis=1), 1, atol=1e-3)
        np.testing.assert_allclose(
            d.posterior(y).posterior(y)[1].sample(2, 0).sum(axis=2), 1, atol=1e-3
        )
        np.testing.assert_allclose(d.embed([0, 1, 3], 4).mean().sum(axis=1), 1, atol=1e-3)


@pytest.mark.parametrize("name", ON_BOTH)
def test_bad_column_of_two_classes(name):
    y = [[1, 2], [2, 0], [0, 2]]
    with pytest.raises(ValueError, match=r"probabilities above 1 .*sample 2"):
        ON_BOTH[name](y, [0.1, 0.2, 1.5])
    with pytest.raises(ValueError, match=r"contains NaN or infinite values .*sample 1"):
        ON_BOTH[name](y, [0.1, np.nan, 0.5])


@pytest.mark.parametrize("name", ON_BOTH)
def test_unknown_names_and_labels(name):
    metric = ON_BOTH[name]
    for frame in (pd.DataFrame, pl.DataFrame):
        y = frame(dict(zip("abc", Y.T, strict=True)))
        z = frame(dict(zip("abd", Z.T, strict=True)))
        with pytest.raises(
            ValueError,
            match=r"y has the classes \['a', 'b', 'c'\], the prediction .*'d'.*sets differ",
        ):
            metric(y, z)
    with pytest.raises(
        ValueError, match=r"classes that are not known: \[3\]; known are \[0, 1, 2\]"
    ):
        metric([0, 1, 3], Z)
    with pytest.raises(ValueError, match=r"not known: \['x'\]; known are \['a', 'b', 'c'\]"):
        metric(["a", "x", "b"], pd.DataFrame(Z, columns=list("abc")))
    with pytest.raises(ValueError, match=r"2 distinct labels .* but the prediction 3 columns"):
        metric(["a", "b", "b"], Z)


@pytest.mark.parametrize(("said", "names"), [(["1", "2", "1"], [1, 2]), ([1, 2, 1], ["1", "3"])])
def test_numbers_that_are_text_on_one_side(said, names):
    """Grades "1" and 1: the message says how to make them one."""
    z = pd.DataFrame(np.full((3, 2), 0.5), columns=names)
    with pytest.raises(ValueError, match="not known") as error:
        metrics.expected_accuracy(said, z)
    assert (".astype(str)" in str(error.value)) == isinstance(names[0], int)
    assert ("column numbers" in str(error.value)) == isinstance(names[0], str)


@pytest.mark.parametrize("door", ["score", "update", "accumulate"])
def test_one_sample_without_its_second_axis(door):
    """Its row of counts, or its label, beside its row of probabilities."""
    doors = {
        "score": metrics.label_log_loss,
        "update": metrics.CalibrationMonitor().update,
        "accumulate": metrics.MetricAccumulator(metrics.expected_accuracy).update,
    }
    counts, z = np.array([0, 2, 1]), np.array([0.2, 0.5, 0.3])
    for y in (counts, counts[None], ["b"]):
        with pytest.raises(ValueError, match=r"pass 2-D arrays, y\[:1\] and prediction\[:1\]"):
            doors[door](y, z)
    # three samples whose probabilities of the second class sum to 1 by chance
    assert metrics.expected_accuracy([0, 1, 0], z) > 0


BAD_WEIGHT = {
    "too short": (
        [1.0, 2.0],
        r"sample_weight must have shape \(3,\), got \(2,\): inconsistent numbers of samples",
    ),
    "a matrix": (np.ones((3, 1)), r"sample_weight must have shape \(3,\), got \(3, 1\)"),
    "nan": ([1.0, np.nan, 1.0], "sample_weight contains NaN, infinite or negative"),
    "inf": ([1.0, np.inf, 1.0], "sample_weight contains NaN, infinite or negative"),
    "negative": ([1.0, -1.0, 1.0], "sample_weight contains NaN, infinite or negative"),
    "all zero": ([0.0, 0.0, 0.0], "All values of sample_weight are zero"),
}

ON_WEIGHT = {
    **{name: partial(m, Y, Z) for name, m in METRICS.items()},
    "statistic_squared_loss": partial(metrics.statistic_squared_loss, [0.5] * 3, [0.5] * 3),
    "statistic_calibration_loss": partial(metrics.statistic_calibration_loss, [0.5] * 3, [0.5] * 3),
    "LabelHistogramClassifier.fit": partial(LabelHistogramClassifier(GaussianNB()).fit, X, Y),
    "LabelHistogramClassifier.score": partial(FITTED.score, X, Y),
    **{f"scorer {name}": partial(s, FITTED, X, Y) for name, s in SCORERS.items()},
}


@pytest.mark.parametrize("name", ON_WEIGHT)
def test_bad_sample_weight(name):
    for weight, message in BAD_WEIGHT.values():
        with pytest.raises(ValueError, match=message):
            ON_WEIGHT[name](sample_weight=weight)


BAD_OPTION = [
    ({"n_bins": 0}, "n_bins must be a positive integer or an array of edges, got 0"),
    ({"n_bins": 2.5}, "n_bins must be a positive integer or an array of edges, got 2.5"),
    ({"n_bins": [[0, 1]]}, "n_bins must be a positive integer or an array of edges"),
    ({"n_bins": [0.0, 0.5, 0.5, 1.0]}, "strictly ascending"),
    ({"n_bins": [0.5]}, "two at least"),
    ({"n_bins": [0.0, np.nan, 1.0]}, "finite"),
    ({"strategy": "equal"}, 'strategy must be "uniform" or "quantile", got \'equal\''),
    ({"bias_correction": "debiased"}, "bias_correction must be .*None.*, got 'debiased'"),
]

WITH_OPTIONS = {name: partial(m, Y, Z) for name, m in METRICS.items()}

WITH_OPTIONS["statistic_calibration_loss"] = partial(
    metrics.statistic_calibration_loss, [0.5] * 3, [0.5] * 3
)


@pytest.mark.parametrize(
    ("name", "option", "message"),
    [
        (name, option, message)
        for name, metric in WITH_OPTIONS.items()
        for option, message in BAD_OPTION
        if set(option) <= set(inspect.signature(metric).parameters)
        # the kernels' corrections and the simplex' bins are others
        and "kernel" not in name
        and name not in ("binned_canonical_error", "entropy_calibration_error")
    ],
)
def test_bad_options(name, option, message):
    with pytest.raises(ValueError, match=message):
        WITH_OPTIONS[name](**option)


@pytest.mark.parametrize("p", [0.5, np.nan, "2", True])
def test_bad_exponents(p):
    with pytest.raises(ValueError, match="p must be"):
        metrics.binned_canonical_error(Y, Z, p=p)


def test_bad_options_of_known_probabilities_are_refused_too():
    Q = KnownProbabilities(Z)
    corrected = [
        m for m in METRICS.values() if "bias_correction" in inspect.signature(m).parameters
    ]
    assert corrected
    for metric in corrected:
        with pytest.raises(ValueError, match="bias_correction must be"):
            metric(Q, Z, bias_correction="residuals")


@pytest.mark.parametrize(
    "loss", [metrics.statistic_squared_loss, metrics.statistic_calibration_loss]
)
def test_bad_statistics(loss):
    with pytest.raises(ValueError, match="rate must hold probabilities"):
        loss([0.5, 1.5], [0.5, 0.5])
    with pytest.raises(ValueError, match="predicted must hold probabilities"):
        loss([0.5, 0.5], [-0.5, 0.5])
    with pytest.raises(ValueError, match="predicted must hold probabilities"):
        loss([0.5, 0.5], [np.nan, 0.5])
    with pytest.raises(ValueError, match="predicted has 1 samples, expected 2"):
        loss([0.5, 0.5], [0.5])
    for columns in (1, 2):
        with pytest.raises(ValueError, match=r"must have one shape \(n_samples,\)"):
            loss(np.full((2, columns), 0.5), [0.5, 0.5])
        with pytest.raises(ValueError, match=r"must have one shape \(n_samples,\)"):
            loss(np.full((2, columns), 0.5), np.full((2, columns), 0.5))
