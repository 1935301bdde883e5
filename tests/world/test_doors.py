"""What `Annotations` and their kin say of labels as people have them: nothing is silent."""

import warnings

import krippendorff
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_lhcal.calibration import PerFinding, TemperatureScaling
from sklearn_lhcal.label_histogram import (
    AdjudicatedRatingsWarning,
    Annotations,
    MultiLabelCounts,
    adjudication_test,
    check_counts,
    cohen_kappa,
    fleiss_kappa,
    gwet_ac,
    krippendorff_alpha,
    percent_agreement,
)
from sklearn_lhcal.metrics import (
    alternative_annotator_test,
    confidence_interval,
    expected_accuracy,
    irreducible_loss,
    per_finding,
    rater_comparison,
)

TIMES = [
    ("8:15", "9:40", "10:30"),
    ("9/30/2020", "10/1/2020", "10/13/2020 8:00 PM"),
    ("30.9.2020", "1.10.2020", "1.11.2020"),
    ("9", "10", "100"),
    ("9.5", "10", "10.25"),
    ("Wed Dec 19 15:14:51 PST 2018", "Fri Dec 21 01:00:00 PST 2018", "Tue Jan 1 01:00:00 PST 2019"),
    ("2024/05/06 9:00:00 AM GMT+2", "2024/05/06 1:00:00 PM GMT+2", "2024/06/05 1:00:00 AM GMT+2"),
    ("2024-05-31", "2024-05-31 13:05", "2024-06-01T00:00:00Z"),
    (9, 10, "11"),
]
BOTH_WAYS = ("05.09.2020", "04.10.2020", "03.11.2020")


def votes(n=200, R=3, seed=0):
    """Answers of raters, and of a judge, who say "yes" with one probability a case."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 1, size=(n, 1))
    said = np.where(rng.random((n, R + 1)) < p, "yes", "no").astype(object)
    return said[:, :R], said[:, R]


# ------------------------------------------------------------------------------------- F3: order


@pytest.mark.parametrize("times", TIMES)
def test_f3_labels_are_in_the_order_of_their_times(times):
    for order in ([2, 0, 1], [1, 2, 0]):
        y = Annotations.from_long(
            ["i"] * 3, ["Ann", "Bob", "Cid"], np.array(order), order=[times[j] for j in order]
        )
        assert y.label.tolist() == [0, 1, 2]
        assert y.first(2).counts.tolist() == [[1, 1, 0]]


@pytest.mark.parametrize("times", TIMES)
def test_f3_the_first_and_the_last_of_one_rater(times):
    for keep, kept in (("first", "a"), ("last", "c")):
        parts = [1, 1, 1], ["Ann"] * 3, ["b", "c", "a"]
        order = [times[1], times[2], times[0]]
        y = Annotations.from_long(*parts, order=order, on_duplicate=keep)
        assert y.classes.tolist() == [kept]


def test_f3_times_as_text_give_the_same_loss_as_numbers():
    """First two of three labels, at 9:40, 10:30 and 8:15; sorted as text others come first."""
    said, _ = votes()
    n = len(said)
    item, rater = np.repeat(np.arange(n), 3), np.tile(["a", "b", "c"], n)
    losses = [
        irreducible_loss(Annotations.from_long(item, rater, said.ravel(), order=order).first(2))
        for order in (np.tile(["9:40", "10:30", "8:15"], n), np.tile([580, 630, 495], n))
    ]
    by_hand = np.mean(said[:, 0] != said[:, 2])
    assert_allclose(losses, by_hand, atol=1e-12)
    assert abs(by_hand - np.mean(said[:, 0] != said[:, 1])) > 0.01


def test_f3_the_test_of_adjudication_uses_times():
    """A third label only where the first two differ, at 8:15, 9:40 and 10:30."""
    said, _ = votes()
    asked = np.column_stack([np.ones((len(said), 2)), said[:, 0] != said[:, 1]]).astype(bool)
    row, column = np.nonzero(asked)
    parts = row, column, said[asked]
    tests = []
    for order in (np.array(["8:15", "9:40", "10:30"])[column], column):
        with pytest.warns(AdjudicatedRatingsWarning):
            tests.append(adjudication_test(Annotations.from_long(*parts, order=order)))
    assert tests[0] == tests[1]


@pytest.mark.parametrize(
    "order",
    [("first", "second", "third"), ("may", "june", "july"), BOTH_WAYS, ("8:15", "9:40", "nan")],
)
def test_f3_what_has_no_order_is_refused(order):
    parts = [1, 1, 1], ["Ann", "Bob", "Cid"], ["a", "b", "a"]
    with pytest.raises(
        ValueError, match=r"order must hold a number, or a time .* Categorical; got"
    ):
        Annotations.from_long(*parts, order=order)
    table = pd.DataFrame(dict(zip(["item", "rater", "label"], parts, strict=True)))
    table["when"] = pd.Categorical(order, categories=order, ordered=True)
    assert Annotations.from_long(table, order="when").label.tolist() == [0, 1, 0]


# --------------------------------------------------------------------------- F4: rater_comparison


def test_f4_one_spelling_does_not_turn_the_verdict():
    """The third rater writes YES and NO: no comparison, where classes were not named."""
    said, judge = votes()
    options = {"margin": 0.05, "raters": "fixed", "random_state": 0}
    right = rater_comparison(Annotations.from_matrix(said), judge, **options)
    other = said.copy()
    other[:, 2] = [label.upper() for label in said[:, 2]]
    with pytest.warns(UserWarning, match=r"\['NO', 'no'\] differ only in case or blanks") as caught:
        y = Annotations.from_matrix(other)
    assert len(caught) == 1
    for compare in (rater_comparison, alternative_annotator_test):
        with pytest.raises(
            ValueError, match=r"The classes \['NO', 'no'\] of y differ only in case"
        ):
            compare(y, judge, **({"margin": 0.05} if compare is rater_comparison else {}))
    y = Annotations.from_matrix(other, classes=["no", "NO", "yes", "YES"])
    on_purpose = rater_comparison(y, judge, **options)
    assert on_purpose.difference.estimate < right.difference.estimate - 0.05


@pytest.mark.parametrize("label", ["YES", " yes", "refused", "", "nan"])
def test_f4_labels_of_a_judge_that_no_rater_has_are_refused(label):
    said, judge = votes()
    judge[:45] = label
    with pytest.raises(ValueError, match="has labels that are no classes of y"):
        rater_comparison(Annotations.from_matrix(said), judge, margin=0.05)


# --------------------------------------------------------------------------- F6: the K of Gwet's AC


def test_f6_a_class_of_a_dropped_label_does_not_count():
    labels = {"item": [1, 1, 2, 2, 3, 3, 1], "rater": list("abababa")}
    labels |= {"label": ["z", "x", "x", "y", "y", "y", "x"]}
    y = Annotations.from_long(labels, on_duplicate="last")
    assert y.classes.tolist() == ["x", "y"]
    by_hand = gwet_ac([[2, 0], [1, 1], [0, 2]])
    assert gwet_ac(y) == pytest.approx(by_hand, abs=1e-12)
    on_purpose = Annotations.from_long(labels, on_duplicate="last", classes=["x", "y", "z"])
    assert gwet_ac(on_purpose) == gwet_ac([[2, 0, 0], [1, 1, 0], [0, 2, 0]]) > by_hand + 0.05


@pytest.mark.parametrize("weights", ["nominal", "linear", "quadratic", "ordinal"])
def test_f6_classes_of_a_judge_alone_do_not_count(weights):
    """Labels beside a model's classes, as the report has them, against the raters' own."""
    said = np.random.default_rng(0).choice([1, 2, 4], size=(40, 3))
    y = Annotations.from_matrix(said)
    wider = y.in_order(np.array([0, 1, 2, 3, 4, 9]))
    assert wider.shape == (40, 6)
    for coefficient in (gwet_ac, fleiss_kappa, percent_agreement, krippendorff_alpha):
        own = coefficient(y, weights=weights)
        assert coefficient(wider, weights=weights) == pytest.approx(own, abs=1e-12)
        assert coefficient(wider[:], weights=weights) == pytest.approx(own, abs=1e-12)


# ------------------------------------------------------------------------------ F7: columns of ids


def wide(n=12, seed=0):
    rng = np.random.default_rng(seed)
    grade = rng.integers(1, 6, size=(n, 1))
    said = np.where(rng.random((n, 3)) < 0.7, grade, rng.integers(1, 6, size=(n, 3)))
    return pd.DataFrame(said, columns=["Dr. A", "Dr. B", "Dr. C"])


@pytest.mark.parametrize("ids", [range(1, 13), range(1001, 1013), [f"c{i}" for i in range(12)]])
def test_f7_a_column_of_ids_is_no_rater(ids):
    table = wide()
    table.insert(0, "id", list(ids))
    with pytest.raises(
        ValueError, match=r"column 'id' of matrix looks like ids.*set_index\('id'\)"
    ):
        Annotations.from_matrix(table)
    y = Annotations.from_matrix(table.set_index("id"))
    assert y.items.tolist() == list(ids)
    oracle = krippendorff.alpha(wide().to_numpy().T, level_of_measurement="nominal")
    assert krippendorff_alpha(y) == pytest.approx(oracle, abs=1e-12)


def test_f7_three_rows_of_text_ids():
    table = pd.DataFrame({"case": ["c1", "c2", "c3"], "a": ["x", "y", "x"], "b": ["x", "y", "y"]})
    with pytest.raises(ValueError, match="column 'case'"):
        Annotations.from_matrix(table)
    assert len(Annotations.from_matrix(table.to_numpy()).raters) == 3


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": [1, 2, 3], "b": [2, 2, 2], "c": [2, 2, 1]}),
        pd.DataFrame({"a": range(10), "b": [1] * 10}),
        pd.DataFrame({"a": ["x", "y"], "b": ["z", "z"]}),
        pd.DataFrame({"a": ["x", "y", "z"], "b": ["u", "v", "w"]}),
        pd.DataFrame(np.random.default_rng(0).integers(100, size=(12, 3)), columns=list("abc")),
    ],
    ids=["grades", "ten rows", "two rows", "nothing repeated", "scores"],
)
def test_f7_raters_who_look_a_little_like_ids(table):
    assert len(Annotations.from_matrix(table).raters) == table.shape[1]


# ------------------------------------------------------------------------------- F8: PerFinding


def test_f8_answers_have_the_columns_of_X():
    rng = np.random.default_rng(0)
    p = rng.beta(2, 2, size=(300, 3)) * [0.3, 1, 0.6]
    y = MultiLabelCounts(rng.binomial(4, p), 4, findings=["c", "a", "b"])
    X = pd.DataFrame(p, columns=["c", "a", "b"], index=np.arange(300) + 7)
    model = PerFinding(TemperatureScaling("proba")).fit(X, y)
    plain = model.predict_proba(p)
    assert isinstance(plain, np.ndarray)
    for names in (["c", "a", "b"], ["b", "c", "a"]):
        answer = model.predict_proba(X[names])
        assert list(answer) == names
        assert_array_equal(answer.index, X.index)
        assert_array_equal(answer[["c", "a", "b"]], plain)
        assert_array_equal(model.predict(X[names])[["c", "a", "b"]], plain > 0.5)
        losses = per_finding(expected_accuracy, y, answer).estimate
        assert_array_equal(losses, per_finding(expected_accuracy, y, plain).estimate)


# ---------------------------------------------------------------- F9: what the warning was about


def test_f9_the_warning_says_what_was_tested():
    said, _ = votes()
    asked = np.column_stack([np.ones((len(said), 2)), said[:, 0] != said[:, 1]]).astype(bool)
    matrix = np.where(asked, said, None)
    with pytest.warns(AdjudicatedRatingsWarning, match="^The first two labels of a sample differ"):
        Annotations.from_matrix(matrix, ordered=True)
    with pytest.warns(AdjudicatedRatingsWarning, match="^Samples on which raters disagree have"):
        Annotations.from_matrix(matrix)


# ------------------------------------------------------------------------ F10: names that are gaps


@pytest.mark.parametrize("gap", ["None", "nan", "NaN", "", "<NA>", " "])
def test_f10_text_of_a_missing_value_is_named(gap):
    matrix = [["a", "a"], ["b", "b"], ["a", gap]]
    with pytest.warns(UserWarning, match=rf"Among the classes, {gap!r} may be a missing value"):
        y = Annotations.from_matrix(matrix)
    without = Annotations.from_matrix(matrix, not_a_class=[gap])
    assert krippendorff_alpha(without) == 1 > krippendorff_alpha(y)
    with pytest.warns(UserWarning, match="may be a missing value"):
        Annotations.from_long([1, 2, 3], ["r", "r", "s"], ["a", "b", gap])
    with pytest.warns(UserWarning, match="may be a missing value"):
        check_counts(["a", gap])


def test_f10_other_names_that_were_meant_otherwise():
    with pytest.warns(
        UserWarning, match=r"classes, \['Yes', 'yes '\] differ only in case"
    ) as caught:
        Annotations.from_matrix([["Yes", "yes "], ["no", "no"]])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match=r"raters, \['Ann', 'ann '\] differ only"):
        Annotations.from_long([1, 1], ["Ann", "ann "], ["a", "b"])
    with pytest.warns(UserWarning, match=r"'\[3, 4\]' may be a list, see label_table") as caught:
        check_counts(["[3, 4]", "3"])
    assert caught[0].filename == __file__


def test_f10_names_that_are_given_are_meant():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Annotations.from_matrix([["None", "Yes"], ["yes", "Yes"]], classes=["None", "yes", "Yes"])
        check_counts(["None", "Mild", "mild"], classes=["None", "Mild", "mild"])
        Annotations.from_matrix([["mild", "milder"], ["nano", "no"]])


# --------------------------------------------------------------------------------- F12: errors


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda: Annotations.from_long([1], ["a"], [["x", "y"]]), "label .* not arrays or lists"),
        (lambda: Annotations.from_long([1], [{"id": 1}], ["x"]), "rater .* not arrays or lists"),
        (lambda: Annotations.from_matrix([["a", "b"], ["a"]]), "n_raters., rows of one length"),
        (lambda: check_counts([[1, 2], [1]]), "rows of one length"),
        (lambda: check_counts(pd.Series([["a"], ["b"]])), "not arrays or lists"),
        (lambda: check_counts([[1, 2], [np.nan, 2]]), "nobody chose has the count 0"),
        (
            lambda: MultiLabelCounts.from_long([1, 1], ["a", "a"], [0, 1], finding=["e", "e"]),
            "Finding 'e': 1 labels are given twice .* by on_duplicate=",
        ),
    ],
)
def test_f12_errors_say_what_to_do(bad, message):
    with pytest.raises(ValueError, match=message):
        bad()


@pytest.mark.parametrize("form", [list, tuple, pd.Series])
def test_f12_tuples_are_names(form):
    items = form([("a", 1), ("a", 2), ("a", 1)])
    y = Annotations.from_long(items, ["Ann", "Ann", "Bob"], [0, 1, np.nan])
    assert y.items.tolist() == [("a", 1), ("a", 2)]
    assert y.classes.dtype.kind == "i"


def test_f12_a_frame_of_judges_is_no_table_of_probabilities():
    said, judge = votes()
    frames = [pd.DataFrame({"x": judge, "y": judge[::-1]}), pd.DataFrame({"x": judge})]
    y = Annotations.from_matrix(said)
    for frame in frames:
        with pytest.raises(ValueError, match=r"holds labels: .*dict\(frame\.items\(\)\)"):
            rater_comparison(y, frame, margin=0.05)
    numbers = Annotations.from_matrix((said == "yes").astype(int))
    for prediction in ((frames[0] == "yes").astype(int), (frames[1] == "yes").astype(int)):
        with pytest.raises(ValueError, match=r"holds labels: .*dict\(frame\.items\(\)\)"):
            rater_comparison(numbers, prediction, margin=0.05)
    judges = dict(frames[0].items())
    assert list(rater_comparison(y, judges, margin=0.05, raters="fixed").comparisons) == ["x", "y"]


def test_f12_the_interval_of_cohens_kappa_is_for_these_two_raters():
    y = Annotations.from_matrix(votes(R=2)[0])
    with pytest.raises(ValueError, match='raters="fixed" gives the interval for these raters'):
        confidence_interval(cohen_kappa, y, None)
    interval = confidence_interval(cohen_kappa, y, None, raters="fixed", random_state=0)
    assert interval.low < cohen_kappa(y) < interval.high


# ------------------------------------------------------------------------------ F13: half grades

HALVES = [[1, 1.5, 2], [2, 2.5, 2.5], [4, 4.5, 4], [3, 3.5, 3]]
GRADES = [1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5]


@pytest.mark.parametrize(("weights", "by_krippendorff"), [("interval", 0.892), ("ordinal", 0.914)])
def test_f13_half_grades_are_grades(weights, by_krippendorff):
    oracle = krippendorff.alpha(np.transpose(HALVES), level_of_measurement=weights)
    assert oracle == pytest.approx(by_krippendorff, abs=5e-4)
    text = [[str(grade) for grade in row] for row in HALVES]
    graded = pd.DataFrame(HALVES).astype(pd.CategoricalDtype(GRADES, ordered=True))
    studies = [
        Annotations.from_matrix(HALVES, classes=GRADES),
        Annotations.from_matrix(graded),
        Annotations.from_matrix(text),
        Annotations.from_matrix(text, classes=list(map(str, GRADES))),
    ]
    for y in studies:
        assert krippendorff_alpha(y, weights=weights) == pytest.approx(oracle, abs=1e-12)


def test_f13_text_grades_are_in_the_order_of_numbers():
    y = Annotations.from_matrix([["10", "9.5"], ["2", "-1.5"]])
    assert y.classes.tolist() == ["-1.5", "2", "9.5", "10"]


def test_f13_fractions_without_classes_are_refused():
    with pytest.raises(ValueError, match=r"continuous.*give Annotations classes="):
        Annotations.from_matrix(HALVES)
