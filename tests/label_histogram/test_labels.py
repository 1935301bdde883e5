"""The gate for y, and annotations as counts."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from count_forms import COUNTS, FORMS, NAMES

from sklearn_lhcal.label_histogram import Annotations, KnownProbabilities, check_counts


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
    y = Annotations.from_matrix(matrix)
    np.testing.assert_array_equal(y.counts, [[1, 1], [0, 1], [3, 0]])
    assert y.classes.tolist() == ["cat", "dog"]
    assert np.asarray(y.items).tolist() == [0, 1, 2]


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT")])
def test_gaps_among_days(gap):
    day = pd.Timestamp("2020-02-02")
    y = Annotations.from_matrix(np.array([[day, gap], [day, day]], dtype=object))
    np.testing.assert_array_equal(y.counts, [[1], [2]])
    assert y.classes.tolist() == [day]


def test_annotation_matrix_of_numbers_with_nan():
    y = Annotations.from_matrix(np.array([[1.0, np.nan], [2.0, 1.0]]))
    np.testing.assert_array_equal(y.counts, [[1, 0], [1, 1]])
    assert y.classes.tolist() == [1, 2]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_long_table(frame):
    table = frame(
        {"who": [1, 2, 1, 2, 1], "what": ["x2", "x1", "x1", "x2", "x2"], "said": list("baaba")}
    )
    y = Annotations.from_long(table, item="what", rater=range(5), label="said")
    assert y.items.tolist() == ["x1", "x2"]
    assert y.classes.tolist() == ["a", "b"]
    np.testing.assert_array_equal(y.counts, [[2, 0], [1, 2]])


def test_long_table_and_matrix_agree():
    rng = np.random.default_rng(0)
    matrix = rng.integers(0, 4, (50, 7))
    long = {"i": np.repeat(np.arange(50), 7), "r": np.arange(350), "l": matrix.ravel()}
    long = pd.DataFrame(long).sample(frac=1, random_state=0)
    expected = (matrix[:, :, None] == np.arange(4)).sum(axis=1)
    for y in (
        Annotations.from_matrix(matrix, classes=range(4)),
        Annotations.from_long(long, classes=range(4), item="i", rater="r", label="l"),
    ):
        np.testing.assert_array_equal(y.counts, expected)


def test_matrix_frames_keep_their_index_as_items():
    frame = pd.DataFrame([["a", "b"], ["b", "b"]], index=["second", "first"])
    assert Annotations.from_matrix(frame).items.tolist() == ["second", "first"]


def test_classes_fix_the_columns_of_annotations():
    y = Annotations.from_matrix([["b", "b"]], classes=["c", "b", "a"])
    assert y.counts.tolist() == [[0, 2, 0]]
    long = {"item": [1, 1], "rater": [1, 2], "label": ["b", "b"]}
    y = Annotations.from_long(pd.DataFrame(long), classes=["c", "b", "a"])
    assert y.counts.tolist() == [[0, 2, 0]]


def test_a_table_of_findings_warns():
    """Zeros and ones with several ones in a row are hardly raters of whom no two agree."""
    findings = np.array([[1, 1, 0], [1, 0, 1], [1, 1, 1], [0, 1, 1], [1, 1, 0], [0, 0, 1]])
    with pytest.warns(UserWarning, match="MultiLabelCounts"):
        check_counts(findings)
    # one label each, or two raters who agree once
    check_counts(np.eye(3, dtype=int)[[0, 1, 2, 0, 1, 2]])
    check_counts(np.vstack([findings, [0, 2, 0]]))
