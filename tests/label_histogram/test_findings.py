"""Several findings of each sample: what goes in, what comes out, and what is refused."""

import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import train_test_split

from sklearn_lhcal.label_histogram import Annotations, MultiLabelCounts, check_counts
from sklearn_lhcal.metrics import expected_accuracy, irreducible_loss, per_finding

POSITIVE = np.array([[2, 0, 1], [1, 1, 0], [0, 0, 3]])
ASKED = np.array([[3, 2, 1], [3, 1, 0], [1, 0, 3]])


@pytest.fixture
def y():
    return MultiLabelCounts(POSITIVE, ASKED, ["edema", "mass", "cardiomegaly"])


def test_each_finding_has_the_counts_of_no_and_yes(y):
    assert y.shape == (3, 3)
    assert y.of("mass").counts.tolist() == [[2, 0], [0, 1], [0, 0]]
    np.testing.assert_array_equal(y.positive, POSITIVE)
    np.testing.assert_array_equal(y.asked, ASKED)
    assert repr(y) == "MultiLabelCounts(3 samples, 3 findings, 14 labels)"


def test_samples_that_nobody_was_asked_about_do_not_count(y):
    p = [0.2, 0.9, 0.3]
    mass = y.of("mass")
    assert mass.rated.tolist() == [0, 1]
    assert expected_accuracy(mass, p) == expected_accuracy(mass.counts[:2], p[:2]) == 1.0
    assert not mass.take([0, 1]).has_gaps


def test_rows_are_selected_as_scikit_learn_does(y):
    np.testing.assert_array_equal(y[[2, 0]].positive, POSITIVE[[2, 0]])
    np.testing.assert_array_equal(y[1:].asked, ASKED[1:])
    np.testing.assert_array_equal(y[np.array([True, False, True])].asked, ASKED[[0, 2]])
    train, test = train_test_split(y, test_size=1, random_state=0)
    assert len(train) == 2
    assert len(test) == 1
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(y)).positive, POSITIVE)


FRAMES = [lambda a, names: pd.DataFrame(a, columns=names), lambda a, names: pl.DataFrame(a, names)]


@pytest.mark.parametrize("frame", FRAMES)
def test_columns_of_frames_are_findings_and_meet_by_name(frame):
    y = MultiLabelCounts(frame(POSITIVE, ["c", "a", "b"]), frame(ASKED[:, ::-1], ["b", "a", "c"]))
    assert y.findings.tolist() == ["c", "a", "b"]
    np.testing.assert_array_equal(y.asked, ASKED)


def test_one_number_of_raters_holds_for_all():
    y = MultiLabelCounts(pd.DataFrame({"b": [0, 1], "a": [1, 1]}), 2)
    assert y.asked.tolist() == [[2, 2], [2, 2]]
    assert y.of("a").counts.tolist() == [[1, 1], [1, 1]]


WRONG = {
    "positive is 4, above asked, 3, in sample 0, finding 'edema'": {"positive": POSITIVE * 2},
    "positive must hold whole numbers from 0 on": {"positive": -POSITIVE},
    "has 0.5 in sample 0, finding 2": {"positive": POSITIVE * 0.5, "asked": 3},
    "where nobody was asked, positive and asked are 0": {"asked": np.full((3, 3), np.nan)},
    "has 3 findings, but asked has 2 columns": {"asked": ASKED[:, :2]},
    "asked has 2 samples, expected 3": {"asked": ASKED[:2]},
    "findings must hold 3 different names": {"findings": ["edema", "mass"]},
    "one for each column, got ['a', 'a', 'b']": {"findings": ["a", "a", "b"]},
    "positive must have shape (n_samples, n_findings)": {"positive": [1, 2, 3]},
    "the sets differ by ['b', 'edema']": {"positive": pd.DataFrame(POSITIVE, columns=list("bcd"))},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_numbers_and_names_are_refused(message):
    given = {"positive": POSITIVE, "asked": ASKED, "findings": ["edema", "mass", "other"]}
    given |= WRONG[message]
    if "sets differ" in message:
        given |= {"findings": None, "asked": pd.DataFrame(ASKED, columns=["edema", "c", "d"])}
    with pytest.raises(ValueError, match=re.escape(message)):
        MultiLabelCounts(**given)


def test_names_out_of_order_do_not_meet_columns_without_names():
    with pytest.raises(ValueError, match=r"findings \['c', 'a', 'b'\], which are not sorted"):
        MultiLabelCounts(pd.DataFrame(POSITIVE, columns=["c", "a", "b"]), ASKED)


def test_a_row_is_no_finding(y):
    with pytest.raises(IndexError, match="of"):
        y[0]
    with pytest.raises(ValueError, match="none of the findings"):
        y.of("nodule")
    with pytest.raises(ValueError, match="per_finding"):
        irreducible_loss(y)


def test_a_table_of_0_and_1_names_this_door():
    with pytest.warns(UserWarning, match=r"MultiLabelCounts\(positive, asked\)"):
        check_counts(np.tril(np.ones((8, 6), dtype=int))[2:])


# --- with raters ---


def long_table():
    rng = np.random.default_rng(0)
    item, rater, finding = np.indices((6, 3, 2)).reshape(3, -1)
    label = rng.integers(2, size=len(item)).astype(float)
    label[::5] = np.nan
    names = np.array(["mass", "edema"])[finding]
    return pd.DataFrame({"film": item, "who": rater, "what": names, "said": label})


NAMES = {"item": "film", "rater": "who", "finding": "what", "label": "said"}


def test_a_long_table_is_one_annotations_for_each_finding():
    table = long_table()
    y = MultiLabelCounts.from_long(table, **NAMES)
    assert y.findings.tolist() == ["edema", "mass"]
    for name in ("edema", "mass"):
        own = table[table["what"] == name]
        alone = Annotations.from_long(
            own, item="film", rater="who", label="said", items=range(6), classes=[0, 1]
        )
        np.testing.assert_array_equal(y.of(name).counts, alone.counts)
        assert isinstance(y.of(name), Annotations)
        assert y.of(name).raters.tolist() == [0, 1, 2]
    assert y.asked.sum() == table["said"].notna().sum()
    np.testing.assert_array_equal(y[[3]].of("mass").counts, y.of("mass").counts[[3]])


def test_words_for_yes_and_no():
    table = long_table().dropna()
    said = table["said"].map({0: "nein", 1: "ja"})
    y = MultiLabelCounts.from_long(table.assign(said=said), **NAMES, classes=["nein", "ja"])
    same = MultiLabelCounts.from_long(table, **NAMES)
    np.testing.assert_array_equal(y.positive, same.positive)
    with pytest.raises(ValueError, match=r"Finding 'edema': .*ja"):
        MultiLabelCounts.from_long(table.assign(said=said), **NAMES)


def test_raters_of_all_findings_have_the_same_numbers():
    one = Annotations.from_matrix([[1, 0]], raters=["Ann", "Cyd"], classes=[0, 1])
    other = Annotations.from_matrix([[1, 0]], raters=["Bob", "Cyd"], classes=[0, 1])
    y = MultiLabelCounts.from_annotations({"a": one, "b": other})
    assert y.of("b").raters[y.of("b").rater].tolist() == ["Bob", "Cyd"]
    assert y.of("a").raters.tolist() == y.of("b").raters.tolist() == ["Ann", "Bob", "Cyd"]


def test_findings_of_other_samples_are_refused():
    one = Annotations.from_matrix([[1, 0]], classes=[0, 1])
    with pytest.raises(ValueError, match="Finding 'b' must be Annotations of shape"):
        MultiLabelCounts.from_annotations({"a": one, "b": [[1, 1]]})
    with pytest.raises(TypeError, match="dict of Annotations"):
        MultiLabelCounts.from_annotations([one])
    with pytest.raises(ValueError, match="finding has no value in sample 1"):
        MultiLabelCounts.from_long(item=[1, 2], rater=[1, 1], label=[0, 1], finding=["a", None])


# --- a long table ---


LONG = {
    "item": [1, 1, 1, 2, 2, 2],
    "rater": ["Ann", "Bob", "Ann", "Ann", "Ann", "Bob"],
    "finding": ["b", "b", "a", "a", "a", "c"],
    "label": [1, 0, 0, 1, 0, "?"],
    "order": ["9", "10", "9", "10", "9", "9"],
}


def test_findings_that_are_given_keep_their_order():
    y = MultiLabelCounts.from_long(
        LONG,
        order="order",
        findings=["c", "b", "a", "nobody"],
        on_duplicate="last",
        not_a_class=["?"],
    )
    assert y.findings.tolist() == ["c", "b", "a", "nobody"]
    assert y.asked.tolist() == [[0, 2, 1, 0], [0, 0, 1, 0]]
    assert y.positive.tolist() == [[0, 1, 0, 0], [0, 0, 1, 0]]
    assert y.of("nobody").raters.tolist() == ["Ann", "Bob"]
    assert y.of("nobody").rated.size == 0
    # findings that were given meet columns without names by position
    p = np.full((2, 4), [0.9, 0.6, 0.8, 0.1])
    with pytest.warns(UserWarning, match="Finding "):
        table = per_finding(expected_accuracy, y, p, raters="fixed")
    np.testing.assert_array_equal(table.estimate, [np.nan, np.nan, 0.5, np.nan])


def test_the_first_label_of_a_finding():
    y = MultiLabelCounts.from_long(
        LONG, order="order", on_duplicate="first", not_a_class=["?"], findings=["a", "b", "c"]
    )
    assert y.positive.tolist() == [[0, 1, 0], [0, 0, 0]]


def test_what_a_long_table_of_findings_refuses():
    with pytest.raises(ValueError, match="Finding 'a': 1 labels are given twice"):
        MultiLabelCounts.from_long(LONG, not_a_class=["?"], findings=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"findings lacks \['c'\]"):
        MultiLabelCounts.from_long(LONG, findings=["a", "b"])
    with pytest.raises(ValueError, match="Finding 'c': label holds no labels"):
        MultiLabelCounts.from_long(LONG, not_a_class=["?"], on_duplicate="last")
