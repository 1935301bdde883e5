"""Gates, distributions, estimators and scorers answer bad input with a ValueError.

It says what was wrong, where, and what to do.
"""

import re
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from error_cases import FITTED, ON_BOTH, X, Y, Z, changed
from oracles import KINDS, all_distributions
from scorer_cases import SCORERS
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
    Annotations,
    KnownProbabilities,
    LabelHistogramClassifier,
    check_counts,
    u_statistic,
)

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
        ([[0.5, 0.6]], "must sum to 1 .*sample 0 sums to 1.1"),
        ([[0.5, 0.5], [1.5, -0.5]], "negative values .*sample 1"),
        ([[0.5, 0.5], [np.nan, 0.5]], "NaN or infinite values .*sample 1"),
        ([["a", "b"]], "must be numeric"),
        (np.ones((1, 1, 1)), "must have shape"),
        (np.ones((0, 2)), "no samples"),
    ):
        with pytest.raises(ValueError, match=message):
            make(p)


def test_bad_annotations():
    with pytest.raises(ValueError, match=r"not known: \['b'\]"):
        Annotations.from_matrix([["a", "b"]], classes=["a"])
    with pytest.raises(ValueError, match=r"must have shape \(n_items, n_raters\)"):
        Annotations.from_matrix(["a", "b"])
    for ids in ([1, np.nan, np.nan], ["x", None, None], pd.array([1, None, None], dtype="Int64")):
        table = pd.DataFrame({"item": ids, "rater": [1, 2, 3], "label": ["a", "b", "b"]})
        with pytest.raises(
            ValueError, match=r"2 samples have no item id .first: sample 1.; give each sample"
        ):
            Annotations.from_long(table)
    for labels in (["1", 1], ["True", True], [True, "True"], ["a", 1.5]):
        with pytest.raises(ValueError, match=r"types that cannot be sorted"):
            Annotations.from_matrix([labels])
        with pytest.raises(ValueError, match=r"types that cannot be sorted"):
            check_counts(np.array(labels, dtype=object))
    with pytest.raises(ValueError, match="missing labels"):
        check_counts(np.array([True, None], dtype=object))


def test_bad_kernels():
    with pytest.raises(ValueError, match="order must be an int of at least 1, got 0"):
        u_statistic(Y, lambda c: c[:, 0], 0)
    with pytest.raises(ValueError, match=r"one value per sample, 6; it returned shape \(\)"):
        u_statistic(Y, lambda c: c.sum(), 2)


# Distributions


@pytest.mark.parametrize("kind", KINDS)
def test_bad_further_labels(kind):
    d = all_distributions(3, 3)[kind]
    for method in (d.posterior, d.log_prob_counts):
        for y, message in (
            (Y[:2], r"counts must have shape \(3, 3\) or \(3,\), got \(2, 3\)"),
            (Y[:, :2], r"counts must have shape \(3, 3\) or \(3,\), got \(3, 2\)"),
            (changed(np.nan), "NaN or infinite values .*sample 1"),
            (changed(-1, int), "negative counts .*sample 1"),
            ([[1, -1, 0], [0, 0, 0], [1, 1, 1]], "negative counts .*sample 0"),
            (changed(0.5), "fractional counts .*sample 1"),
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
    rows = [[1.0, -1.0], [0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]]
    for alpha in (*([[1.0, 1.0], row] for row in rows), [1.0, 2.0]):
        with pytest.raises(ValueError, match=r"concentration must have shape \(n, K\)"):
            Dirichlet(alpha)
    for total in (0.0, -1.0, np.nan, np.inf, [1.0, 0.0, 1.0], [1.0, np.inf, 1.0]):
        with pytest.raises(ValueError, match="total must be positive and finite"):
            Dirichlet.from_mean(Z, total)
    with pytest.raises(ValueError, match=r"one number or one per sample, shape \(3,\)"):
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
        [2.0, -1.0],
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
        ValueError, match="X has 3 samples, expected 2: inconsistent numbers of samples"
    ):
        LabelHistogramClassifier().fit(X, Y[:2])
    with pytest.raises(ValueError, match=r"y has 2 samples, expected 3|inconsistent"):
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
    with pytest.raises(ValueError, match=r"y names columns twice: \['a', 'a', 'b'\]"):
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
