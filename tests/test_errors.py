"""Every public function answers bad input with a ValueError.

It says what was wrong, where, and what to do.
"""

import inspect
import re
import warnings
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from oracles import KINDS, all_distributions
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from sklearn_lhcal import metrics
from sklearn_lhcal.distributions import (
    Dirichlet,
    DirichletMixture,
    Ensemble,
    PointMass,
    predict_dist,
    second_opinion_value,
)
from sklearn_lhcal.label_histogram import (
    KnownProbabilities,
    LabelHistogramClassifier,
    check_counts,
    class_disagreement,
    counts_from_annotations,
    fleiss_kappa,
    pairwise_disagreement,
    u_statistic,
)
from sklearn_lhcal.metrics import LabelHistogramScorer, get_scorer, get_scorer_names

HINT = "if y holds one label per rater, use counts_from_annotations$"
Y = np.array([[2, 0, 1], [1, 1, 1], [0, 3, 0]])
Z = np.array([[0.5, 0.2, 0.3], [0.1, 0.8, 0.1], [1.0, 0.0, 0.0]])
X = np.arange(6.0).reshape(3, 2)

METRICS = {
    name: metric
    for name, metric in inspect.getmembers(metrics, inspect.isfunction)
    if [*inspect.signature(metric).parameters][:2] == ["y", "prediction"]
    and "cost_matrix" not in inspect.signature(metric).parameters
    and name != "null_calibration_error"
}
ALL_SCORERS = {name: get_scorer(name) for name in get_scorer_names()}
# of y and X alone
SCORERS = {k: v for k, v in ALL_SCORERS.items() if isinstance(v, LabelHistogramScorer)}
FITTED = LabelHistogramClassifier(GaussianNB()).fit(X, Y)

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


def changed(value, dtype=float):
    y = Y.astype(dtype)
    y[1, 2] = value
    return y


BAD_Y = {
    "nan": (changed(np.nan), f"y contains NaN or infinite values .*row 1.*{HINT}"),
    "inf": (changed(np.inf), f"y contains NaN or infinite values .*row 1.*{HINT}"),
    "frame with nan": (
        pd.DataFrame(changed(np.nan)),
        f"y contains NaN or infinite values .*row 1.*{HINT}",
    ),
    "sparse with nan": (
        sp.csr_array(changed(np.nan)),
        f"y contains NaN or infinite values .*row 1.*{HINT}",
    ),
    "polars with nan": (
        pl.DataFrame(changed(np.nan)),
        f"y contains NaN or infinite values .*row 1.*{HINT}",
    ),
    "pandas NA": (pd.DataFrame(Y, dtype="Int64").mask(Y == 2), f"without missing values.*{HINT}"),
    "strings": ([["a", "b", "a"]] * 3, f"Counts in y must be numbers.*{HINT}"),
    "negative": (changed(-1, int), f"y contains negative counts .*row 1.*{HINT}"),
    "negative float": (changed(-1.0), f"y contains negative counts .*row 1.*{HINT}"),
    "fractional": (
        changed(0.5),
        f"y contains fractional counts .*row 1.*KnownProbabilities.*{HINT}",
    ),
    "empty row": (
        [[1, 0, 1], [0, 0, 0], [1, 0, 0]],
        f"y has 1 rows without labels .*row 1.*{HINT}",
    ),
    "empty boolean row": (
        np.array([[1, 0, 0], [0, 0, 0], [0, 0, 0]], bool),
        f"2 rows without labels .*row 1.*{HINT}",
    ),
    "too large": (changed(1e300), r"counts above 2\*\*53 .*row 1"),
    "too large for int64": (changed(2**63, np.uint64), r"counts above 2\*\*53 .*row 1"),
    "three dimensions": (np.ones((3, 3, 1)), "y must be 1-D labels or counts of shape"),
    "nothing": ([], "y must have at least one row"),
    "no columns": (np.zeros((3, 0)), "y must have at least one row"),
    "a number": (3, "y must have at least one row"),
    "labels with nan": ([0.0, np.nan, 1.0], f"missing labels, NaN .*row 1.*{HINT}"),
    "labels with None": (["a", None, "b"], f"missing labels, NaN .*row 1.*{HINT}"),
    "labels with NA": (
        pd.Series(["a", None, "b"], dtype="string"),
        f"missing labels, NaN .*row 1.*{HINT}",
    ),
    "labels with integer NA": (
        pd.Series([0, None, 1], dtype="Int64"),
        f"missing labels, NaN .*row 1.*{HINT}",
    ),
    "labels with inf": ([0.0, np.inf, 1.0], f"y contains infinite values.*{HINT}"),
    "fractional labels": ([0.0, 0.5, 1.0], "Unknown label type: continuous"),
    "labels of mixed types": (np.array(["a", 1, "b"], dtype=object), "types that cannot be sorted"),
}


@pytest.mark.parametrize("case", BAD_Y)
@pytest.mark.parametrize("name", ON_Y)
def test_bad_y(name, case):
    y, message = BAD_Y[case]
    with pytest.raises(ValueError, match=message):
        ON_Y[name](y)


# everything that takes a prediction beside y
ON_BOTH = {name: m for name, m in METRICS.items() if name != "irreducible_loss"}
BAD_PREDICTION = {
    "nan": ([[0.5, np.nan, 0.5], *Z[1:]], "contains NaN or infinite values .*row 0"),
    "inf": ([*Z[:2], [0, np.inf, 0.5]], "contains NaN or infinite values .*row 2"),
    "negative": ([Z[0], [-0.1, 0.6, 0.5], Z[2]], "negative values .*row 1.*logits.*softmax"),
    "logits": ([[3.0, 1.0, 2.0]] * 3, "must sum to 1 .*row 0 sums to 6.*logits"),
    "nearly": (Z * (1 + 3e-6), "must sum to 1 .*1e-06.*row 0"),
    "float32": ((Z * 1.002).astype(np.float32), r"must sum to 1 .*0\.001.*row 0"),
    "percent": (Z * 100, "must sum to 1 .*row 0 sums to 100.*Divide by the row sums"),
    "strings": ([["a", "b", "c"]] * 3, "must be numeric"),
    "fewer classes": (
        Z[:, :2] / Z[:, :2].sum(axis=1, keepdims=True),
        "y has 3 classes, but the prediction has 2",
    ),
    "one column": (np.full(3, 0.5), "y has 3 classes, but the prediction has 2"),
    "more classes": (np.full((3, 4), 0.25), "y has 3 classes, but the prediction has 4"),
    "fewer rows": (Z[:2], "y has 3 rows, expected 2: inconsistent numbers of samples"),
    "more rows": (
        np.repeat(Z, 2, axis=0),
        "y has 3 rows, expected 6: inconsistent numbers of samples",
    ),
    "three dimensions": (Z[None], "must have shape .n_samples, n_classes."),
    "nothing": (np.zeros((0, 3)), "has no rows"),
    "shorter distribution": (PointMass(Z[:2]), "y has 3 rows, expected 2"),
    "distribution of fewer classes": (
        Dirichlet(np.ones((3, 2))),
        "y has 3 classes, but the prediction has 2",
    ),
}


@pytest.mark.parametrize("case", BAD_PREDICTION)
@pytest.mark.parametrize("name", ON_BOTH)
def test_bad_prediction(name, case):
    prediction, message = BAD_PREDICTION[case]
    with pytest.raises(ValueError, match=message):
        ON_BOTH[name](Y, prediction)


ROUNDED = {"float64": Z * (1 + 5e-7), "float32": (Z * 1.0005).astype(np.float32)}


@pytest.mark.parametrize("dtype", ROUNDED)
@pytest.mark.parametrize("name", [n for n in ON_BOTH if n != "loss_decomposition"])
def test_rounding_is_tolerated(name, dtype):
    """1e-6 in float64, 1e-3 in float32."""
    assert ON_BOTH[name](Y, ROUNDED[dtype]) == pytest.approx(ON_BOTH[name](Y, Z), abs=5e-3)


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
    with pytest.raises(ValueError, match=r"probabilities above 1 .*row 2"):
        ON_BOTH[name](y, [0.1, 0.2, 1.5])
    with pytest.raises(ValueError, match=r"contains NaN or infinite values .*row 1"):
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


@pytest.mark.parametrize("case", BAD_WEIGHT)
@pytest.mark.parametrize("name", ON_WEIGHT)
def test_bad_sample_weight(name, case):
    weight, message = BAD_WEIGHT[case]
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
    (
        {"bias_correction": "debiased"},
        'bias_correction must be "residual", "label" or None, got \'debiased\'',
    ),
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
        and name != "binned_canonical_error"
    ],
)
def test_bad_options(name, option, message):
    with pytest.raises(ValueError, match=message):
        WITH_OPTIONS[name](**option)


def test_bad_options_of_known_probabilities_are_refused_too():
    Q = KnownProbabilities(Z)
    for name, metric in METRICS.items():
        if "bias_correction" in inspect.signature(metric).parameters:
            with pytest.raises(ValueError, match="bias_correction must be"):
                metric(Q, Z, bias_correction="residuals"), name


@pytest.mark.parametrize(
    "loss", [metrics.statistic_squared_loss, metrics.statistic_calibration_loss]
)
def test_bad_statistics(loss):
    with pytest.raises(ValueError, match="rate must hold probabilities"):
        loss([0.5, 1.5], [0.5, 0.5])
    with pytest.raises(ValueError, match="predicted must hold probabilities"):
        loss([0.5, 0.5], [-0.5, 0.5])
    with pytest.raises(ValueError, match="predicted contains NaN"):
        loss([0.5, 0.5], [np.nan, 0.5])
    with pytest.raises(ValueError, match="predicted has 1 rows, expected 2"):
        loss([0.5, 0.5], [0.5])
    with pytest.raises(ValueError, match="must have one shape"):
        loss([[0.5], [0.5]], [0.5, 0.5])


# The gates


def test_check_counts_against_classes():
    with pytest.raises(ValueError, match="y has 3 classes, but what is expected has 2"):
        check_counts(Y, classes=["a", "b"])
    with pytest.raises(ValueError, match=r"not known: \['d'\]; known are \['a', 'b', 'c'\]"):
        check_counts(["a", "d"], classes=list("abc"))
    with pytest.raises(ValueError, match=r"the sets differ by \['c', 'd'\]"):
        check_counts(pd.DataFrame(Y, columns=list("abd")), classes=list("abc"))
    by_name = check_counts(pd.DataFrame(Y, columns=list("bac")), classes=list("abc"))[0]
    np.testing.assert_array_equal(by_name, Y[:, [1, 0, 2]])
    with pytest.raises(ValueError, match=r"not known: \[7\]"):
        check_counts([0, 7], classes=list("abc"))
    with pytest.raises(ValueError, match="y has 3 classes, but what is expected has 2"):
        check_counts(KnownProbabilities(Z), classes=[0, 1])


@pytest.mark.parametrize(
    "make", [KnownProbabilities, PointMass, lambda p: Dirichlet.from_mean(p, 1.0)]
)
def test_bad_probabilities(make):
    for p, message in (
        ([[0.5, 0.6]], "must sum to 1 .*row 0 sums to 1.1"),
        ([[0.5, 0.5], [1.5, -0.5]], "negative values .*row 1"),
        ([[0.5, 0.5], [np.nan, 0.5]], "NaN or infinite values .*row 1"),
        ([["a", "b"]], "must be numeric"),
        (np.ones((1, 1, 1)), "must have shape"),
        (np.ones((0, 2)), "no rows"),
    ):
        with pytest.raises(ValueError, match=message):
            make(p)


def test_bad_annotations():
    with pytest.raises(
        ValueError, match=r"1 items have no label .first: 1.; drop them here and in X"
    ):
        counts_from_annotations([["a", "b"], [None, np.nan]])
    with pytest.raises(ValueError, match=r"not known: \['b'\]"):
        counts_from_annotations([["a", "b"]], classes=["a"])
    with pytest.raises(ValueError, match=r"must have shape \(n_items, n_raters\)"):
        counts_from_annotations(["a", "b"])
    table = pd.DataFrame({"i": [1, 2], "l": ["a", None]})
    with pytest.raises(ValueError, match="needs both item= and label="):
        counts_from_annotations(table, item="i")
    with pytest.raises(ValueError, match=r"1 items have no label .first: 2"):
        counts_from_annotations(table, item="i", label="l")
    for ids in ([1, np.nan, np.nan], ["x", None, None], pd.array([1, None, None], dtype="Int64")):
        table = pd.DataFrame({"i": ids, "l": ["a", "b", "b"]})
        with pytest.raises(
            ValueError, match=r"2 rows have no item id in 'i' .first: row 1.; give each row"
        ):
            counts_from_annotations(table, item="i", label="l")
    for labels in (["1", 1], ["True", True], [True, "True"], ["a", 1.5]):
        with pytest.raises(ValueError, match="mixes labels of types"):
            counts_from_annotations([labels])
        with pytest.raises(ValueError, match="mixes labels of types"):
            check_counts(np.array(labels, dtype=object))
    with pytest.raises(ValueError, match="missing labels"):
        check_counts(np.array([True, None], dtype=object))


def test_bad_kernels():
    with pytest.raises(ValueError, match="order must be at least 1, got 0"):
        u_statistic(Y, lambda c: c[:, 0], 0)
    with pytest.raises(ValueError, match=r"one value a row, 6; it returned shape \(\)"):
        u_statistic(Y, lambda c: c.sum(), 2)


# Distributions


@pytest.mark.parametrize("kind", KINDS)
def test_bad_further_labels(kind):
    d = all_distributions(3, 3)[kind]
    for method in (d.posterior, d.log_prob_counts):
        for y, message in (
            (Y[:2], r"counts must have shape \(3, 3\) or \(3,\), got \(2, 3\)"),
            (Y[:, :2], r"counts must have shape \(3, 3\) or \(3,\), got \(3, 2\)"),
            (changed(np.nan), "NaN or infinite values .*row 1"),
            (changed(-1, int), "negative counts .*row 1"),
            ([[1, -1, 0], [0, 0, 0], [1, 1, 1]], "negative counts .*row 0"),
            (changed(0.5), "fractional counts .*row 1"),
            ([0, 1, 3], r"not known: \[3\]"),
            ([0, 1], r"counts must have shape \(3, 3\) or \(3,\), got \(2,\)"),
            (KnownProbabilities(Z), "Infinitely many labels"),
        ):
            with pytest.raises(ValueError, match=message):
                method(y)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_arguments_of_methods(kind):
    d = all_distributions(3, 3)[kind]
    for level in (0.0, 1.0, -0.5, 90):
        with pytest.raises(ValueError, match=f"level must lie between 0 and 1, got {level}"):
            d.interval(level)
    for pairs in (
        np.ones((3, 3)),
        np.eye(3),
        [[0, 1, 0], [0, 0, 1], [0, 1, 0]],
        1 - np.eye(2),
        (1 - np.eye(3)) / 2,
    ):
        with pytest.raises(
            ValueError, match="pairs must be a symmetric 0/1 matrix with a zero diagonal"
        ):
            d.disagreement(pairs)
    for cost in (np.ones((2, 3)), np.ones(3), [[0, 1, np.nan]] * 3):
        with pytest.raises(
            ValueError, match=r"cost_matrix (has 2 rows|must have shape|contains NaN)"
        ):
            second_opinion_value(d, cost)


def test_bad_parameters_of_distributions():
    for alpha in ([[1.0, -1.0]], [[0.0, 0.0]], [[np.nan, 1.0]], [[np.inf, 1.0]], [1.0, 2.0]):
        with pytest.raises(ValueError, match=r"concentration must have shape \(n, K\)"):
            Dirichlet(alpha)
    for total in (0.0, -1.0, np.nan, np.inf, [1.0, 0.0, 1.0]):
        with pytest.raises(ValueError, match="total must be positive and finite"):
            Dirichlet.from_mean(Z, total)
    with pytest.raises(ValueError, match=r"one number or one per row, shape \(3,\)"):
        Dirichlet.from_mean(Z, [1.0, 2.0])
    with pytest.raises(ValueError, match="finite"):
        Dirichlet.from_log_total(Z, np.nan)
    with pytest.raises(ValueError, match=r"proba must have shape \(S, n, K\)"):
        Ensemble(Z)
    with pytest.raises(ValueError, match=r"proba must have shape \(S, n, K\)"):
        DirichletMixture(np.zeros((0, 3, 3)), np.zeros((0, 3)))
    with pytest.raises(ValueError, match=r"total must have shape \(S, n\) = \(2, 3\), got \(3,\)"):
        DirichletMixture([Z, Z], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="total must be positive and finite"):
        DirichletMixture([Z, Z], np.zeros((2, 3)))
    with pytest.raises(ValueError, match="must sum to 1"):
        Ensemble([Z, 2 * Z])
    for weights in (
        [1.0, -1.0],
        [0.0, 0.0],
        [np.nan, 1.0],
        [np.inf, 1.0],
        [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]],
    ):
        for make in (partial(Ensemble, [Z, Z]), partial(DirichletMixture, [Z, Z], np.ones((2, 3)))):
            with pytest.raises(
                ValueError, match="weights must be finite and at least 0, with a positive sum"
            ):
                make(weights=weights)
    with pytest.raises(
        ValueError, match=r"weights must have shape \(S,\) or \(S, n\) = \(2, 3\), got \(3,\)"
    ):
        Ensemble([Z, Z], [1.0, 1.0, 1.0])


def test_known_probabilities_have_no_likelihood():
    with pytest.raises(ValueError, match="Infinitely many labels"):
        metrics.histogram_log_loss(KnownProbabilities(Z), Z)


# Estimators and scorers


def test_lengths_of_x_and_y():
    with pytest.raises(
        ValueError, match="X has 3 rows, expected 2: inconsistent numbers of samples"
    ):
        LabelHistogramClassifier().fit(X, Y[:2])
    with pytest.raises(ValueError, match=r"y has 2 rows, expected 3|inconsistent"):
        FITTED.score(X, Y[:2])


def test_what_can_be_trained_on_histograms():
    with pytest.raises(ValueError, match="estimator must be a classifier, got LinearRegression"):
        LabelHistogramClassifier(LinearRegression()).fit(X, Y)
    with pytest.raises(ValueError, match="KNeighborsClassifier takes no sample_weight"):
        LabelHistogramClassifier(KNeighborsClassifier()).fit(X, Y, sample_weight=[1.0, 2.0, 1.0])
    with pytest.raises(
        ValueError, match=r"KNeighborsClassifier takes no weights .* KnownProbabilities"
    ):
        LabelHistogramClassifier(KNeighborsClassifier()).fit(X, KnownProbabilities(Z))


def test_class_names_must_be_distinct_and_sortable():
    with pytest.raises(ValueError, match=r"names \['a', 'a', 'b'\] are not distinct"):
        LabelHistogramClassifier(GaussianNB()).fit(X, pd.DataFrame(Y, columns=list("aab")))
    with pytest.raises(ValueError, match=r"cannot be sorted together; make them all strings"):
        LabelHistogramClassifier(GaussianNB()).fit(
            X, pd.DataFrame(Y, columns=np.array(["a", 1, 2.0], dtype=object))
        )


def named_scores():
    model = LabelHistogramClassifier(GaussianNB()).fit(X, pd.DataFrame(Y, columns=list("abc")))
    return {
        "score": partial(model.score, X),
        **{n: partial(s, model, X) for n, s in SCORERS.items()},
    }


@pytest.mark.parametrize("name", named_scores())
@pytest.mark.parametrize("columns", [["a", "b", "x"], ["x", "y", "z"], ["a", "b"], [0, 1, 2]])
def test_other_names_at_score_time(name, columns):
    y = pd.DataFrame(Y[:, : len(columns)] + 1, columns=columns)
    with pytest.raises(
        ValueError, match=rf"y has the classes {re.escape(str(columns))}, .*\['a', 'b', 'c'\]"
    ):
        named_scores()[name](y)


@pytest.mark.parametrize("name", SCORERS)
def test_other_numbers_of_classes_at_score_time(name):
    """A named class may be missing from training; a missing column can only be a mistake."""
    with pytest.raises(ValueError, match="y has 2 classes, but the prediction has 3"):
        SCORERS[name](FITTED, X, Y[:, :2] + 1)


def test_unfitted_estimators_say_so():
    model = LabelHistogramClassifier(GaussianNB())
    for call in (model.predict_proba, model.predict, partial(predict_dist, model)):
        with pytest.raises(NotFittedError):
            call(X)


def test_bad_arrays_are_not_repaired():
    """Published code sets NaN to a value in the caller's array."""
    y, z = changed(np.nan), np.where(Z == 1, np.nan, Z)
    for bad_y, bad_z in ((y, Z), (Y, z)):
        copies = bad_y.copy(), bad_z.copy()
        for metric in ON_BOTH.values():
            with pytest.raises(ValueError, match="NaN or infinite"):
                metric(bad_y, bad_z)
        np.testing.assert_array_equal(bad_y, copies[0])
        np.testing.assert_array_equal(bad_z, copies[1])


def test_nothing_is_computed_before_the_checks():
    """An error leaves no warning behind."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for y in (changed(np.nan), changed(1e300)):
            with pytest.raises(ValueError, match="y contains"):
                metrics.loss_decomposition(y, Z)
        with pytest.raises(ValueError, match="NaN"):
            metrics.loss_decomposition(Y, [[np.nan] * 3] * 3)
    assert not caught
