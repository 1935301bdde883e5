"""The gate for y, statistics of disagreement, and classifiers trained on counts."""

from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from statsmodels.stats.inter_rater import fleiss_kappa as statsmodels_kappa

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
from sklearn_lhcal.metrics import label_log_loss

COUNTS = [[2, 0, 1], [0, 3, 0], [1, 1, 1], [0, 0, 4]]
NAMES = ["a", "b", "c"]
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]

FORMS = {
    "list": lambda c: [list(map(int, row)) for row in c],
    **{dtype: lambda c, t=dtype: np.array(c, dtype=t) for dtype in INTEGERS},
    "float64": lambda c: np.array(c, dtype=float),
    "float32": lambda c: np.array(c, dtype=np.float32),
    "fortran": lambda c: np.asfortranarray(c),
    "object": lambda c: np.array(c, dtype=object),
    "csr matrix": sp.csr_matrix,
    "csr array": sp.csr_array,
    "coo array": sp.coo_array,
    "pandas": lambda c: pd.DataFrame(c, columns=NAMES),
    "pandas Int64": lambda c: pd.DataFrame(c, columns=NAMES, dtype="Int64"),
    "pandas UInt8": lambda c: pd.DataFrame(c, columns=NAMES, dtype="UInt8"),
    "pandas float": lambda c: pd.DataFrame(c, columns=NAMES, dtype="float64"),
    "pandas sparse": lambda c: pd.DataFrame(c, columns=NAMES).astype(pd.SparseDtype("int64", 0)),
    "polars": lambda c: pl.DataFrame(np.asarray(c, dtype=np.int64), schema=NAMES, orient="row"),
    "polars UInt8": lambda c: pl.DataFrame(
        np.asarray(c, dtype=np.uint8), schema=NAMES, orient="row"
    ),
}


def random_counts(rng, n, K, most=6):
    counts = rng.integers(0, most, size=(n, K))
    counts[np.arange(n), rng.integers(0, K, n)] += 1
    return counts


@pytest.mark.parametrize("form", FORMS)
def test_check_counts_takes_counts_in_every_form(form):
    counts, classes = check_counts(FORMS[form](COUNTS))
    assert counts.dtype == np.int64
    np.testing.assert_array_equal(counts, COUNTS)
    assert classes.tolist() == (NAMES if form.startswith(("pandas", "polars")) else [0, 1, 2])


def test_check_counts_takes_booleans():
    counts, _ = check_counts(np.eye(3, dtype=bool))
    assert counts.dtype == np.int64
    np.testing.assert_array_equal(counts, np.eye(3))


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["b", "a", "b"], ["a", "b"]),
        (np.array(["b", "a", "b"], dtype=object), ["a", "b"]),
        (pd.Series(["b", "a", "b"]), ["a", "b"]),
        (pd.Series(["b", "a", "b"], dtype="category"), ["a", "b"]),
        (pd.Series(["b", "a", "b"], dtype="string"), ["a", "b"]),
        (pl.Series(["b", "a", "b"]), ["a", "b"]),
        ([7, 3, 7], [3, 7]),
        (np.array([7, 3, 7], dtype=np.uint8), [3, 7]),
        (pd.Series([7, 3, 7], dtype="Int64"), [3, 7]),
        ([1.0, 0.0, 1.0], [0, 1]),
        ([True, False, True], [False, True]),
        ((1, 0, 1), [0, 1]),
    ],
)
def test_check_counts_makes_one_column_for_each_label(labels, classes):
    counts, found = check_counts(labels)
    np.testing.assert_array_equal(counts, [[0, 1], [1, 0], [0, 1]])
    assert counts.dtype == np.int64
    assert found.tolist() == classes


def test_one_column_is_labels_with_scikit_learns_warning():
    with pytest.warns(UserWarning, match="column-vector"):
        counts, classes = check_counts(np.array([["x"], ["y"]]))
    np.testing.assert_array_equal(counts, np.eye(2))
    assert classes.tolist() == ["x", "y"]


def test_given_classes_say_what_labels_mean():
    np.testing.assert_array_equal(
        check_counts(["c", "a"], classes=["c", "b", "a"])[0], [[1, 0, 0], [0, 0, 1]]
    )
    np.testing.assert_array_equal(
        check_counts([30, 10], classes=[10, 20, 30])[0], [[0, 0, 1], [1, 0, 0]]
    )


def test_integers_are_column_numbers_where_classes_are_names():
    np.testing.assert_array_equal(check_counts([2, 0], classes=NAMES)[0], [[0, 0, 1], [1, 0, 0]])


def test_check_counts_never_reorders():
    counts, classes = check_counts(pd.DataFrame({"z": [1], "a": [2]}))
    assert counts.tolist() == [[1, 2]]
    assert classes.tolist() == ["z", "a"]


def test_known_probabilities_pass_the_gate_and_survive_row_selection_and_pickling():
    import pickle

    Q = KnownProbabilities([[0.5, 0.5], [1.0, 0.0]])
    assert check_counts(Q)[0] is Q
    assert isinstance(Q[[1]], KnownProbabilities)
    restored = pickle.loads(pickle.dumps(Q))
    assert isinstance(restored, KnownProbabilities)
    np.testing.assert_array_equal(restored, Q)


def test_known_probabilities_copy_their_input():
    Q = np.array([[0.5, 0.5]])
    known = KnownProbabilities(Q)
    Q[0] = [1, 0]
    assert np.asarray(known).tolist() == [[0.5, 0.5]]


def test_check_counts_does_not_write():
    counts = np.array(COUNTS)
    counts.flags.writeable = False
    np.testing.assert_array_equal(check_counts(counts)[0], COUNTS)


# Annotations


def test_annotation_matrix_with_gaps():
    matrix = [["cat", None, "dog"], [np.nan, "dog", pd.NA], ["cat", "cat", "cat"]]
    counts, classes, items = counts_from_annotations(matrix)
    np.testing.assert_array_equal(counts, [[1, 1], [0, 1], [3, 0]])
    assert classes.tolist() == ["cat", "dog"]
    assert items.tolist() == [0, 1, 2]


def test_annotation_matrix_of_numbers_with_nan():
    counts, classes, _ = counts_from_annotations(np.array([[1.0, np.nan], [2.0, 1.0]]))
    np.testing.assert_array_equal(counts, [[1, 0], [1, 1]])
    assert classes.tolist() == [1, 2]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_long_table(frame):
    table = frame(
        {"who": [1, 2, 1, 2, 1], "what": ["x2", "x1", "x1", "x2", "x2"], "said": list("baaba")}
    )
    counts, classes, items = counts_from_annotations(table, item="what", label="said")
    assert items.tolist() == ["x1", "x2"]
    assert classes.tolist() == ["a", "b"]
    np.testing.assert_array_equal(counts, [[2, 0], [1, 2]])


def test_long_table_and_matrix_agree():
    rng = np.random.default_rng(0)
    matrix = rng.integers(0, 4, (50, 7))
    long = pd.DataFrame({"i": np.repeat(np.arange(50), 7), "l": matrix.ravel()}).sample(
        frac=1, random_state=0
    )
    expected = (matrix[:, :, None] == np.arange(4)).sum(axis=1)
    np.testing.assert_array_equal(
        counts_from_annotations(matrix, classes=range(4)).counts, expected
    )
    np.testing.assert_array_equal(
        counts_from_annotations(long, classes=range(4), item="i", label="l").counts, expected
    )


def test_matrix_frames_keep_their_index_as_items():
    frame = pd.DataFrame([["a", "b"], ["b", "b"]], index=["second", "first"])
    assert counts_from_annotations(frame).items.tolist() == ["second", "first"]


def test_classes_fix_the_columns_of_annotations():
    assert counts_from_annotations([["b", "b"]], classes=["c", "b", "a"]).counts.tolist() == [
        [0, 2, 0]
    ]


# Disagreement and U-statistics


def brute_force_u_statistic(row, kernel, order):
    raters = np.repeat(np.arange(len(row)), row)
    subsets = [
        np.bincount(raters[list(s)], minlength=len(row))
        for s in combinations(range(len(raters)), order)
    ]
    return np.asarray(kernel(np.array(subsets)), dtype=float).mean(axis=0)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_u_statistic_is_the_mean_over_all_subsets(order):
    rng = np.random.default_rng(order)
    counts = random_counts(rng, 8, 3, most=3)
    counts[:, 0] += order  # enough raters

    def kernel(c):
        return np.column_stack([c.max(axis=1) == 1, np.sin(c @ [1.0, 2.0, 5.0])])

    expected = [brute_force_u_statistic(row, kernel, order) for row in counts]
    np.testing.assert_allclose(u_statistic(counts, kernel, order), expected, rtol=1e-12, atol=1e-14)


def test_disagreements_are_closed_forms_of_u_statistics():
    counts = random_counts(np.random.default_rng(1), 40, 4) + np.eye(4, dtype=int)[0]

    def differ(c):
        return c.max(axis=1) == 1

    def one_of_two(c):
        return c == 1

    np.testing.assert_allclose(
        u_statistic(counts, differ, 2), pairwise_disagreement(counts), rtol=1e-12, atol=1e-15
    )
    np.testing.assert_allclose(
        u_statistic(counts, one_of_two, 2), class_disagreement(counts), rtol=1e-12, atol=1e-15
    )


def test_u_statistic_of_known_probabilities():
    Q = np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
    rate = u_statistic(KnownProbabilities(Q), lambda c: c.max(axis=1) == 1, 3)
    np.testing.assert_allclose(rate, 6 * Q.prod(axis=1), rtol=1e-12)


def test_u_statistic_of_very_many_raters_does_not_overflow():
    rate = u_statistic([[10**6, 10**6]], lambda c: c.max(axis=1) == 3, 3)
    n, m = 2 * 10**6, 10**6
    assert rate[0] == pytest.approx(2 * m * (m - 1) * (m - 2) / (n * (n - 1) * (n - 2)), rel=1e-12)


def test_rows_with_too_few_raters_are_nan():
    counts = [[1, 0], [1, 1], [2, 1]]
    assert np.isnan(pairwise_disagreement(counts)).tolist() == [True, False, False]
    assert np.isnan(class_disagreement(counts)).all(axis=1).tolist() == [True, False, False]
    assert np.isnan(u_statistic(counts, lambda c: c.max(axis=1) == 1, 3)).tolist() == [
        True,
        True,
        False,
    ]


def test_class_disagreement_sums_to_twice_the_disagreement():
    counts = random_counts(np.random.default_rng(2), 30, 5) + 1
    np.testing.assert_allclose(
        class_disagreement(counts).sum(axis=1), 2 * pairwise_disagreement(counts), rtol=1e-12
    )


def test_disagreement_of_known_probabilities_is_one_minus_sum_of_squares():
    Q = np.random.default_rng(0).dirichlet(np.ones(4), 20)
    np.testing.assert_allclose(
        pairwise_disagreement(KnownProbabilities(Q)), 1 - (Q**2).sum(axis=1), rtol=1e-12
    )
    np.testing.assert_allclose(
        class_disagreement(KnownProbabilities(Q)), 2 * Q * (1 - Q), rtol=1e-12
    )


@pytest.mark.parametrize("dtype", INTEGERS)
def test_small_integer_types_do_not_overflow(dtype):
    """Published code: uint8 counts gave agreement .30 where .90 is right."""
    counts = np.array([[95, 5], [120, 7]], dtype=dtype)
    d = [2 * 95 * 5 / (100 * 99), 2 * 120 * 7 / (127 * 126)]
    np.testing.assert_allclose(pairwise_disagreement(counts), d, rtol=1e-12)
    np.testing.assert_allclose(class_disagreement(counts)[:, 0], d, rtol=1e-12)


# Fleiss' kappa


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 8), st.integers(2, 5), st.integers(0, 10**6))
def test_kappa_agrees_with_statsmodels(raters, K, seed):
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(raters, rng.dirichlet(np.ones(K), 12))
    if (counts.sum(axis=0) > 0).sum() > 1:
        assert fleiss_kappa(counts) == pytest.approx(
            statsmodels_kappa(counts), rel=1e-10, abs=1e-12
        )


def test_kappa_of_a_worked_example():
    """Ten subjects, fourteen raters, five categories.

    The table of the Wikipedia article, kappa .210.
    """
    table = [
        [0, 0, 0, 0, 14],
        [0, 2, 6, 4, 2],
        [0, 0, 3, 5, 6],
        [0, 3, 9, 2, 0],
        [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0],
        [3, 2, 6, 3, 0],
        [2, 5, 3, 2, 2],
        [6, 5, 2, 1, 0],
        [0, 2, 2, 3, 7],
    ]
    assert round(fleiss_kappa(table), 3) == 0.210


def test_kappa_of_unequal_raters_by_hand():
    """Agreement (1 + 1/3)/2 over the rows with two raters or more.

    P = (5/6, 1/6) over all six labels.
    """
    agreement, chance = (1 + 1 / 3) / 2, (25 + 1) / 36
    assert fleiss_kappa([[2, 0], [2, 1], [1, 0]]) == pytest.approx(
        (agreement - chance) / (1 - chance), rel=1e-12
    )


def test_kappa_limits():
    assert fleiss_kappa([[3, 0], [0, 3]]) == 1
    assert np.isnan(fleiss_kappa([[1, 0], [0, 1]]))
    assert np.isnan(fleiss_kappa([[3, 0], [2, 0]]))


# LabelHistogramClassifier


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    Q = np.exp(X @ rng.normal(size=(3, 3)))
    counts = np.array([rng.multinomial(rng.integers(1, 5), q / q.sum()) for q in Q])
    return X, counts


def repeated(X, counts):
    """One row per label."""
    rows, codes = np.nonzero(counts)
    times = counts[rows, codes]
    return X[np.repeat(rows, times)], np.repeat(codes, times)


@pytest.mark.parametrize(
    "base", [LogisticRegression(), GaussianNB(), KNeighborsClassifier(5), DummyClassifier()]
)
def test_training_on_counts_is_training_on_single_labels(problem, base):
    """Weights where the classifier takes them, repetition where not.

    Either way one row per label.
    """
    X, counts = problem
    proba = LabelHistogramClassifier(base).fit(X, counts).predict_proba(X)
    np.testing.assert_allclose(
        proba, clone(base).fit(*repeated(X, counts)).predict_proba(X), rtol=1e-3, atol=1e-4
    )


def test_sample_weights_multiply_counts(problem):
    X, counts = problem
    w = np.random.default_rng(1).integers(1, 4, len(X))
    weighted = LabelHistogramClassifier(GaussianNB()).fit(X, counts, sample_weight=w)
    multiplied = LabelHistogramClassifier(GaussianNB()).fit(X, counts * w[:, None])
    np.testing.assert_allclose(weighted.predict_proba(X), multiplied.predict_proba(X), rtol=1e-10)


def test_known_probabilities_weigh_every_class(problem):
    X, counts = problem
    Q = KnownProbabilities(counts / counts.sum(axis=1, keepdims=True))
    known = LabelHistogramClassifier(GaussianNB()).fit(X, Q)
    weighted = LabelHistogramClassifier(GaussianNB()).fit(
        X, counts, sample_weight=1 / counts.sum(axis=1)
    )
    np.testing.assert_allclose(known.predict_proba(X), weighted.predict_proba(X), rtol=1e-10)


def test_single_labels_train_the_classifier_as_ever(problem):
    X, _ = problem
    y = np.array(["u", "v", "w"])[np.arange(len(X)) % 3]
    wrapped = LabelHistogramClassifier().fit(X, y)
    assert wrapped.classes_.tolist() == ["u", "v", "w"]
    np.testing.assert_array_equal(
        wrapped.predict_proba(X), LogisticRegression().fit(X, y).predict_proba(X)
    )
    np.testing.assert_array_equal(wrapped.predict(X), LogisticRegression().fit(X, y).predict(X))


class Recorder(ClassifierMixin, BaseEstimator):
    """Takes label histograms, keeps what it was given."""

    accepts_label_histograms = True

    def fit(self, X, y, sample_weight=None):
        self.y_, self.weight_ = y, sample_weight
        self.classes_ = np.arange(y.shape[1])
        return self

    def predict_proba(self, X):
        return np.tile(self.y_.sum(axis=0) / self.y_.sum(), (len(X), 1))


@pytest.mark.parametrize(
    "wrap",
    [lambda e: e, lambda e: make_pipeline(StandardScaler(), e)],
    ids=["itself", "at the end of a pipeline"],
)
def test_counts_go_as_they_are_to_whoever_takes_them(problem, wrap):
    X, counts = problem
    fitted = LabelHistogramClassifier(wrap(Recorder())).fit(X, counts).estimator_
    recorder = fitted[-1] if hasattr(fitted, "steps") else fitted
    np.testing.assert_array_equal(recorder.y_, counts)


def test_named_columns_are_sorted_at_fit_and_aligned_afterwards(problem):
    X, counts = problem
    frame = pd.DataFrame(counts, columns=["c", "a", "b"])
    model = LabelHistogramClassifier().fit(X, frame)
    assert model.classes_.tolist() == ["a", "b", "c"]
    plain = LabelHistogramClassifier().fit(X, counts[:, [1, 2, 0]])
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    assert (
        model.score(X, frame)
        == model.score(X, frame[["b", "c", "a"]])
        == plain.score(X, counts[:, [1, 2, 0]])
    )


def test_score_is_expected_accuracy(problem):
    X, counts = problem
    model = LabelHistogramClassifier().fit(X, counts)
    mu = counts / counts.sum(axis=1, keepdims=True)
    expected = mu[np.arange(len(X)), model.predict_proba(X).argmax(axis=1)]
    assert model.score(X, counts) == pytest.approx(expected.mean(), rel=1e-12)
    w = np.arange(1.0, len(X) + 1)
    assert model.score(X, counts, sample_weight=w) == pytest.approx(
        np.average(expected, weights=w), rel=1e-12
    )


def test_a_class_without_labels_gets_probability_0(problem):
    X, counts = problem
    wide = np.insert(counts, 1, 0, axis=1)
    model = LabelHistogramClassifier().fit(X, wide)
    proba = model.predict_proba(X)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(proba[:, 1], 0)
    np.testing.assert_allclose(
        proba[:, [0, 2, 3]], LabelHistogramClassifier().fit(X, counts).predict_proba(X), rtol=1e-6
    )


@pytest.mark.parametrize("form", ["csr array", "pandas Int64", "polars", "uint8", "list"])
def test_every_form_of_counts_trains_the_same_model(problem, form):
    X, counts = problem
    model = LabelHistogramClassifier(GaussianNB()).fit(X, FORMS[form](counts))
    plain = LabelHistogramClassifier(GaussianNB()).fit(X, counts)
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))


def test_searchable_on_counts(problem):
    X, counts = problem
    search = GridSearchCV(
        LabelHistogramClassifier(LogisticRegression()), {"estimator__C": [1e-4, 1.0]}, cv=3
    )
    search.fit(X, counts)
    assert search.best_params_ == {"estimator__C": 1.0}
    pipe = make_pipeline(StandardScaler(), LabelHistogramClassifier())
    assert np.isfinite(cross_val_score(pipe, X, counts, cv=3, error_score="raise")).all()


def test_fit_changes_neither_parameters_nor_data(problem):
    X, counts = problem
    X.flags.writeable = counts.flags.writeable = False
    base = LogisticRegression()
    model = LabelHistogramClassifier(base).fit(X, counts)
    assert model.estimator is base
    assert not hasattr(base, "classes_")
    assert label_log_loss(counts, model.predict_proba(X)) < np.log(3)
