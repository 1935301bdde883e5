"""Annotations: what they hold, what they refuse, and that raters are never lost on the way."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from error_cases import ON_BOTH, result
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from sklearn_lhcal.calibration import TemperatureScaling
from sklearn_lhcal.label_histogram import Annotations, LabelHistogramClassifier, check_counts
from sklearn_lhcal.metrics import (
    epistemic_loss,
    expected_squared_loss,
    get_scorer,
    irreducible_loss,
    loss_decomposition,
)
from sklearn_lhcal.model_selection import cross_val_predict

NAMES = np.array(["Ann", "Bob", "Cid", "Dora", "Eve"])
CLASSES = np.array(["cat", "dog", "fox"])
X = np.arange(60.0)[:, None]


def long_table(n=60, seed=0, missing=0.3):
    """(row, rater, class) numbers of a crossed study with gaps; every row has a rating."""
    rng = np.random.default_rng(seed)
    row, rater = (a.ravel() for a in np.indices((n, len(NAMES))))
    kept = rng.random(len(row)) > missing
    kept[rater == 0] = True
    label = rng.integers(3, size=len(row))
    return row[kept], rater[kept], label[kept]


@pytest.fixture
def y():
    row, rater, label = long_table()
    return Annotations.from_long(row, NAMES[rater], CLASSES[label])


def said(y):
    """The set of (item, rater, label): all that annotations know."""
    items = np.arange(len(y)) if y.items is None else y.items
    triples = zip(
        items[y.row].tolist(), y.raters[y.rater].tolist(), y.classes[y.label].tolist(), strict=True
    )
    return set(triples)


def expected(n=60, seed=0):
    row, rater, label = long_table(n, seed)
    return set(zip(row.tolist(), NAMES[rater].tolist(), CLASSES[label].tolist(), strict=True))


# --------------------------------------------------------------------------------------------------
# -------- three ways in


def test_every_form_of_a_long_table_says_the_same():
    row, rater, label = long_table()
    columns = {"item": row, "rater": NAMES[rater], "label": CLASSES[label]}
    other = {"i": row, "r": NAMES[rater], "l": CLASSES[label]}
    forms = [
        Annotations.from_long(*columns.values()),
        Annotations.from_long(**columns),
        Annotations.from_long(columns),
        Annotations.from_long(pd.DataFrame(columns)),
        Annotations.from_long(pl.DataFrame(columns)),
        Annotations.from_long(pd.DataFrame(other), item="i", rater="r", label="l"),
        Annotations.from_long(pd.DataFrame(columns).sample(frac=1, random_state=0)),
        Annotations.from_long(pd.DataFrame(columns).astype("category")),
    ]
    for y in forms:
        assert said(y) == expected()
        np.testing.assert_array_equal(y.rater, forms[0].rater)
        np.testing.assert_array_equal(y.counts, forms[0].counts)
        assert y.raters.tolist() == NAMES.tolist()
        assert y.classes.tolist() == CLASSES.tolist()


def test_a_matrix_says_the_same():
    row, rater, label = long_table()
    matrix = np.full((60, 5), None, dtype=object)
    matrix[row, rater] = CLASSES[label]
    assert said(Annotations.from_matrix(matrix, raters=NAMES)) == expected()
    frame = pd.DataFrame(matrix, columns=NAMES, index=np.arange(60))
    assert said(Annotations.from_matrix(frame)) == expected()
    bare = Annotations.from_matrix(matrix)
    assert bare.raters.tolist() == [0, 1, 2, 3, 4]


def test_bare_counts_have_a_rater_for_each_rating():
    counts = np.array([[2, 0, 1], [0, 0, 0], [1, 1, 1]])
    y = Annotations.from_counts(counts)
    np.testing.assert_array_equal(y.counts, counts)
    assert len(set(y.rater.tolist())) == counts.sum() == y.n_raters
    named = Annotations.from_counts(pd.DataFrame(counts, columns=list("abc")))
    assert check_counts(named)[1].tolist() == list("abc")
    assert check_counts(y)[1].tolist() == [0, 1, 2]


def test_counts_are_those_of_a_cross_table(y):
    row, _, label = long_table()
    counted = pd.crosstab(row, label).to_numpy()
    np.testing.assert_array_equal(y.counts, counted)
    counts, classes = check_counts(y)
    np.testing.assert_array_equal(counts, counted)
    assert classes.tolist() == CLASSES.tolist()
    np.testing.assert_array_equal(np.asarray(y), counted)
    assert np.asarray(y, dtype=float).dtype == float
    assert y.shape == (60, 3)
    assert len(y) == 60
    reordered, _ = check_counts(y, classes=CLASSES[::-1])
    np.testing.assert_array_equal(reordered, counted[:, ::-1])


def test_items_in_the_order_of_X_and_rows_without_ratings():
    y = Annotations.from_long(["b", "a"], ["Ann", "Ann"], ["x", "y"], items=["b", "c", "a"])
    assert y.counts.tolist() == [[1, 0], [0, 0], [0, 1]]
    assert y.rated.tolist() == [0, 2]
    assert y.has_gaps
    # where each row has ratings, they all are: X[y.rated] is X
    full = y[y.rated]
    assert full.rated.tolist() == [0, 1]
    assert not full.has_gaps
    assert y.n.tolist() == [1, 0, 1]


def test_nothing_can_be_written_to(y):
    copies = (pickle.loads(pickle.dumps(y)), y.subsample(per_row=1))
    for array in (y.indptr, y.rater, y.label, y.counts, *(copy.counts for copy in copies)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_ratings_given_twice():
    table = {"item": [1, 1, 1], "rater": ["Ann", "Bob", "Ann"], "label": ["a", "a", "b"]}
    with pytest.raises(ValueError, match=r"1 labels are given twice .first: rater 'Ann', item 1"):
        Annotations.from_long(table)
    y = Annotations.from_long(table, on_duplicate="last")
    assert said(y) == {(1, "Ann", "b"), (1, "Bob", "a")}
    y = Annotations.from_long(table, on_duplicate="first")
    assert said(y) == {(1, "Ann", "a"), (1, "Bob", "a")}
    assert y.classes.tolist() == ["a"]
    with pytest.raises(ValueError, match="on_duplicate must be"):
        Annotations.from_long(table, on_duplicate="all")


def test_an_order_decides_which_label_is_the_first(y):
    """Each rater of each item twice, in any order of the rows."""
    row, rater, label = long_table()
    twice = [np.concatenate([a, a]) for a in (row, rater)]
    said_first = np.concatenate([label, (label + 1) % 3])
    when = np.repeat([10, 9], len(row)).astype(str)
    shuffled = np.random.default_rng(0).permutation(len(when))
    parts = [a[shuffled] for a in (*twice, said_first)]
    options = {"order": when[shuffled]}
    first, last = (
        Annotations.from_long(*parts, on_duplicate=keep, **options) for keep in ("first", "last")
    )
    np.testing.assert_array_equal(last.counts, y.counts)
    np.testing.assert_array_equal(first.counts, np.roll(y.counts, 1, axis=1))


def test_what_is_refused():
    good = {"item": [1, 2], "rater": ["Ann", "Bob"], "label": ["a", "b"]}
    for name in ("item", "rater"):
        with pytest.raises(ValueError, match=f"1 samples have no {name} id .first: sample 1"):
            Annotations.from_long(good | {name: ["x", None]})
    with pytest.raises(ValueError, match=r"not known: \['b'\]"):
        Annotations.from_long(good, classes=["a"])
    with pytest.raises(ValueError, match="all labels are missing"):
        Annotations.from_long(good | {"label": [None, np.nan]})
    with pytest.raises(ValueError, match="no column 'who'"):
        Annotations.from_long(good, rater="who")
    with pytest.raises(ValueError, match="of one length"):
        Annotations.from_long([1, 2], ["Ann"], ["a", "b"])
    with pytest.raises(ValueError, match="items lacks"):
        Annotations.from_long(good, items=[1])
    with pytest.raises(ValueError, match="make both strings, or both integers"):
        Annotations.from_long(good, items=["1", "2"])
    with pytest.raises(ValueError, match="different names"):
        Annotations.from_long(good, items=[1, 1, 2])
    with pytest.raises(TypeError, match="a dict of arrays, got NoneType; without one"):
        Annotations.from_long(None, **good)
    with pytest.raises(ValueError, match="of types that cannot be sorted"):
        Annotations.from_long(good | {"item": ["x", 1]})
    with pytest.raises(ValueError, match="raters must hold 2 different names"):
        Annotations.from_matrix([["a", "b"]], raters=["Ann", "Ann"])
    with pytest.raises(ValueError, match=r"shape \(n_items, n_raters\), rows of one length"):
        Annotations.from_matrix(["a", "b"])
    masked = np.ma.masked_array([1, 2], mask=[True, False])
    with pytest.raises(ValueError, match="is a masked array"):
        Annotations.from_long(masked, ["Ann", "Bob"], ["a", "b"])
    with pytest.raises(ValueError, match="is a masked array"):
        Annotations.from_matrix(np.ma.masked_array([[1, 2]], mask=[[True, False]]))
    arrays = {"raters": ["Ann"], "classes": ["a"]}
    for indptr, rater, label in (
        ([0, 2], [0], [0]),
        ([0, 2, 1, 3], [0, 0, 0], [0, 0, 0]),
        ([0, 2], [0, 1], [0, 0]),
        ([0, 2], [0, 0], [0, 1]),
    ):
        with pytest.raises(ValueError, match=r"indptr must|no name in"):
            Annotations(indptr, rater, label, **arrays)


def test_ratings_to_keep_are_booleans_one_each(y):
    for kept in (np.ones(len(y.rater) + 1, dtype=bool), np.ones(len(y.rater), dtype=int)):
        with pytest.raises(ValueError, match=rf"hold {len(y.rater)} booleans"):
            y.keep(kept)


def test_what_is_kept_cannot_be_written_to(y):
    part = y.keep(np.arange(len(y.rater)) % 2 == 0)
    for array in (part.indptr, part.rater, part.label, part.counts):
        assert not array.flags.writeable


def test_first_ratings_are_at_least_one():
    y = Annotations.from_matrix([["a", "b"]], ordered=True)
    with pytest.raises(ValueError, match="per_row"):
        y.first(0)


def test_numpy_takes_them_as_counts(y):
    assert y.ndim == 2
    for copy in (None, True):
        assert y.__array__(np.float32, copy=copy).dtype == np.float32
    assert y.__array__(copy=True).flags.writeable
    assert not y.__array__().flags.writeable


def test_small_unsigned_integers_are_integers():
    arrays = [0, 2, 3], [0, 1, 1], [1, 0, 1]
    y = Annotations(*(np.array(a, dtype=np.uint8) for a in arrays), raters=[1, 2], classes=[3, 4])
    assert y.indptr.dtype == np.intp
    assert y.rater.dtype == y.label.dtype == np.int32
    assert (-np.diff(y.indptr)).tolist() == [-2, -1]


def test_a_missing_label_is_no_rating():
    y = Annotations.from_long([1, 1, 2], ["Ann", "Bob", "Ann"], ["a", None, "b"])
    assert said(y) == {(1, "Ann", "a"), (2, "Ann", "b")}


# --------------------------------------------------------------------------------------------------
# -------- some of the rows, some of the ratings


ROWS = {
    "index": np.array([5, 3, 3, 59]),
    "list": [1, 0, -1],
    "mask": np.arange(60) % 3 == 0,
    "slice": slice(10, 20),
    "slice to the end": slice(50, 100),
    "empty slice": slice(20, 10),
    "stride": slice(None, None, -7),
}


@pytest.mark.parametrize("how", ROWS)
@pytest.mark.parametrize("key", [lambda r: r, lambda r: (r, ...), lambda r: (r, slice(None))])
def test_rows_keep_their_raters(y, how, key):
    """scikit-learn writes ``y[rows, ...]``."""
    rows = ROWS[how]
    part = y[key(rows)]
    assert isinstance(part, Annotations)
    np.testing.assert_array_equal(part.counts, y.counts[rows])
    np.testing.assert_array_equal(part.n, y.n[rows])
    kept = set(np.arange(60)[rows].tolist())
    assert said(part) == {triple for triple in said(y) if triple[0] in kept}
    np.testing.assert_array_equal(part.counts, part.keep(np.ones(len(part.rater), bool)).counts)


def test_single_entries_are_those_of_the_counts(y):
    np.testing.assert_array_equal(y[3], y.counts[3])
    assert y[3, 1] == y.counts[3, 1]


def test_new_names_move_the_labels(y):
    """The counts made of the ratings are those that were moved."""
    for classes in (CLASSES[::-1], np.array(["ant", *CLASSES]), CLASSES[[1, 2, 0]]):
        moved = y.in_order(classes, sure=True)
        assert said(moved) == said(y)
        assert not moved.label.flags.writeable
        np.testing.assert_array_equal(
            moved.counts, moved.keep(np.ones(len(moved.rater), bool)).counts
        )


def test_subsample(y):
    part = y.subsample(per_row=2, random_state=0)
    np.testing.assert_array_equal(part.n, np.minimum(y.n, 2))
    assert said(part) < said(y)
    panel = y.subsample(n_raters=2, random_state=0)
    speakers = {rater for _, rater, _ in said(panel)}
    assert len(speakers) == 2 == panel.n_raters
    assert said(panel) == {triple for triple in said(y) if triple[1] in speakers}
    both = y.subsample(per_row=1, n_raters=3, random_state=1)
    assert both.n_raters <= 3
    assert both.n.max() == 1
    again = y.subsample(per_row=1, n_raters=3, random_state=1)
    assert said(both) == said(again)
    assert said(y.subsample(n_raters=5, random_state=0)) == said(y)
    for wrong in ({"n_raters": 6}, {"n_raters": 0}, {"per_row": 1.5}, {"per_row": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            y.subsample(**wrong)


def test_subsample_draws_each_rating_as_often():
    """One of three ratings of a row: each in a third of the draws, within 4 standard errors."""
    y = Annotations.from_matrix(np.tile(["a", "b", "c"], (3000, 1)))
    share = y.subsample(per_row=1, random_state=0).counts.mean(axis=0)
    assert np.abs(share - 1 / 3).max() < 4 * np.sqrt(2 / 9 / 3000)


def test_leave_one_rater_out(y):
    seen = []
    for rater, rest in y.leave_one_rater_out():
        seen.append(rater)
        assert said(rest) == {triple for triple in said(y) if triple[1] != rater}
        assert len(rest) == len(y)
    assert seen == NAMES.tolist()
    with pytest.raises(ValueError, match="booleans, one a label"):
        y.keep([0, 1])


# --------------------------------------------------------------------------------------------------
# -------- estimators


def test_estimators_learn_the_same_as_from_counts(y):
    features = np.random.default_rng(0).normal(size=(60, 2))
    frame = pd.DataFrame(y.counts, columns=CLASSES)
    for make in (
        lambda: LabelHistogramClassifier(LogisticRegression()),
        lambda: TemperatureScaling(LogisticRegression()),
    ):
        ours, theirs = make().fit(features, y), make().fit(features, frame)
        np.testing.assert_array_equal(ours.predict_proba(features), theirs.predict_proba(features))
        assert ours.score(features, y) == theirs.score(features, frame)
    dist = cross_val_predict(LogisticRegression(), features, y, method="predict_dist", cv=3)
    np.testing.assert_array_equal(dist.classes, CLASSES)


# --------------------------------------------------------------------------------------------------
# -------- samples without ratings


@pytest.fixture
def gappy(y):
    """Ratings of one rater alone: many rows have none."""
    return y.keep(y.raters[y.rater] != "Ann").subsample(n_raters=2, random_state=0)


def test_metrics_drop_rows_without_ratings_with_all_that_belongs_to_them(gappy):
    rng = np.random.default_rng(0)
    rated = gappy.rated
    assert len(rated) < 60
    z = pd.DataFrame(rng.dirichlet(np.ones(3), 60), columns=CLASSES)
    w, groups = rng.random(60), np.arange(60) // 4
    full = gappy[rated]
    for metric in (expected_squared_loss, epistemic_loss):
        with_gaps = metric(gappy, z, sample_weight=w)
        assert with_gaps == metric(full, z.iloc[rated], sample_weight=w[rated])
    assert irreducible_loss(gappy) == irreducible_loss(full)
    ours = loss_decomposition(gappy, z, sample_weight=w, groups=groups)
    theirs = loss_decomposition(full, z.iloc[rated], sample_weight=w[rated], groups=groups[rated])
    np.testing.assert_equal(ours._asdict(), theirs._asdict())


@pytest.mark.filterwarnings("ignore:More than 5% of the weight lies in bins")
@pytest.mark.parametrize("name", ON_BOTH)
def test_every_metric_drops_rows_without_ratings(name, gappy):
    z = pd.DataFrame(np.random.default_rng(1).dirichlet(np.ones(3), 60), columns=CLASSES)
    # the names in their order: some metrics ask for one
    gappy.graded = True
    rated = gappy.rated
    full = result(name, gappy[rated], z.iloc[rated])
    np.testing.assert_equal(result(name, gappy, z), full)


def test_epistemic_scorers_drop_rows_without_ratings(gappy):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 2))
    rated = gappy.rated
    forest = RandomForestClassifier(10, random_state=0)
    forest.fit(features, CLASSES[rng.integers(3, size=60)])
    reference = CLASSES[rng.integers(3, size=60)]
    score = get_scorer("epistemic_correlation")
    with_gaps = score(forest, features, gappy, reference_prediction=reference)
    full = score(forest, features[rated], gappy[rated], reference_prediction=reference[rated])
    assert with_gaps == full


def test_estimators_refuse_rows_without_ratings(gappy):
    with pytest.raises(ValueError, match=r"samples without labels .* keep the samples y.rated"):
        LabelHistogramClassifier().fit(X, gappy)
    with pytest.raises(ValueError, match="samples without labels"):
        TemperatureScaling(LogisticRegression()).fit(X, gappy)
    rows = gappy.rated
    LabelHistogramClassifier().fit(X[rows], gappy[rows])


# --------------------------------------------------------------------------------------------------
# -------- names


def test_classes_not_given_are_those_that_occur():
    """As with 1-D labels a model may know more classes; but integers of raters are names."""
    z = pd.DataFrame([[0.2, 0.3, 0.5], [0.5, 0.2, 0.3]], columns=list("abc"))
    y = Annotations.from_long([0, 1, 1], ["Ann", "Ann", "Bob"], ["c", "a", "c"])
    wide = np.array([[0, 0, 1], [1, 0, 1]])
    assert expected_squared_loss(y, z) == expected_squared_loss(wide, z)
    numbers = Annotations.from_long([0, 1, 1], ["Ann", "Ann", "Bob"], [2, 0, 2])
    with pytest.raises(ValueError, match="2 distinct labels"):
        expected_squared_loss(numbers, z.to_numpy())
    named = z.set_axis([0, 1, 2], axis=1)
    assert expected_squared_loss(numbers, named) == expected_squared_loss(wide, z)
    given = Annotations.from_long([0, 1], ["Ann", "Ann"], ["c", "a"], classes=["a", "c"])
    with pytest.raises(ValueError, match="the sets differ by"):
        expected_squared_loss(given, z)


def test_what_is_no_class_is_left_out_and_counted():
    """As if these cells were empty, in tables and matrices, of grades too."""
    matrix = [["mild", "cannot grade"], ["severe", "severe"], ["cannot grade", "mild"]]
    empty = [[None if label == "cannot grade" else label for label in row] for row in matrix]
    expected = Annotations.from_matrix(empty)
    found = Annotations.from_matrix(matrix, not_a_class=["cannot grade", "no image"])
    assert found.left_out == {"cannot grade": 2, "no image": 0}
    assert expected.left_out == {}
    assert found[1:].left_out == found.left_out
    assert found.classes.tolist() == ["mild", "severe"]
    assert np.array_equal(found.counts, expected.counts)
    order = ["severe", "mild", "cannot grade"]
    grades = pd.Categorical(np.ravel(matrix), categories=order, ordered=True)
    table = pd.DataFrame({"item": [0, 0, 1, 1, 2, 2], "rater": [0, 1] * 3, "label": grades})
    graded = Annotations.from_long(table, not_a_class=["cannot grade"])
    assert graded.classes.tolist() == ["severe", "mild"]
    assert np.array_equal(graded.counts, expected.counts[:, ::-1])
