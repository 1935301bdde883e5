"""The raters of a report: the model beside them, who stands out, who is taken for whom."""

import io

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score

from sklearn_lhcal.label_histogram import Annotations, fleiss_kappa, krippendorff_alpha
from sklearn_lhcal.metrics import expected_accuracy, rater_comparison, rater_group_difference
from sklearn_lhcal.report import report

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

CLASSES = ["a", "b", "c"]
NAMES = ["Ann", "Bob", "Cem", "Dee"]


@pytest.fixture(scope="module")
def study():
    """150 cases of 75 patients, four raters, the last of whom guesses."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.4, 0.4, 0.4], 150)
    said = (p.cumsum(axis=1)[:, None] < rng.random((150, 4, 1))).sum(axis=2).clip(max=2)
    said[:, 3] = rng.integers(3, size=150)
    y = Annotations.from_matrix(np.array(CLASSES)[said], raters=NAMES, classes=CLASSES)
    return said, y, p


@pytest.fixture(scope="module")
def made(study):
    _, y, p = study
    patients = [f"patient {i // 2:02d}" for i in range(150)]
    return report(y, p, classes=CLASSES, groups=patients)


def test_the_difference_is_that_of_the_comparison(study, made):
    """By counts alone, and by names."""
    _, y, p = study
    how = {"raters": "fixed", "groups": np.arange(150) // 2, "random_state": 0}
    expected = rater_comparison(y, p, margin=0.05, **how)
    (found,) = [m for m in made.data["numbers"] if m["quantity"] == "excess_error"][:1]
    assert found["estimate"] == pytest.approx(expected.difference.estimate, abs=1e-12)
    assert f"raters: {expected.worth_low:.1f} at least" in made.data["raters"]["sentences"][-1]


def test_the_rater_who_guesses_stands_out(made):
    why = {row["rater"]: " ".join(row["stands_out"]) for row in made.data["raters"]["table"]}
    assert "more often than the median rater" in why["Dee"]
    assert not any("more often than the median" in why[name] for name in ("Ann", "Bob", "Cem"))
    # how much, and in which direction, without a word of right and wrong
    said = made.data["raters"]["stands_out"]
    assert said.startswith("To differ from the others is not to be wrong. Dee disagrees")
    rows = [n for n in made.data["numbers"] if n["quantity"] == "rater_error"]
    errors = {n["part"]: n["estimate"] for n in rows if n["part"] is not None}
    own, median = errors["Dee"], np.median(list(errors.values()))
    assert (
        f"more often than the median rater does, {own:.1%} of comparisons, not {median:.1%}" in said
    )


def test_confusion_by_hand(study, made):
    said, _, p = study
    top = p.argmax(axis=1)
    found = np.array(made.data["confusion"]["model"])
    for k in range(3):
        expected = np.bincount(said[top == k].ravel(), minlength=3) / (4 * (top == k).sum())
        np.testing.assert_allclose(found[k], expected, rtol=1e-12)
    among = np.zeros((3, 3))
    for r in range(4):
        for s in set(range(4)) - {r}:
            np.add.at(among, (said[:, r], said[:, s]), 1)
    found = np.array(made.data["confusion"]["raters"])
    np.testing.assert_allclose(found, among / among.sum(axis=1, keepdims=True), rtol=1e-12)


def test_disputed_cases_have_votes_patient_and_reason(study, made):
    said, _, _ = study
    first = made.data["disputed"][0]
    i = int(first["case"])
    assert first["patient"] == f"patient {i // 2:02d}"
    counts = np.bincount(said[i], minlength=3)
    assert all(f"{CLASSES[k]} {counts[k]}" in first["labels"] for k in np.flatnonzero(counts))
    found = [case["disagreement"] for case in made.data["disputed"]]
    assert found == sorted(found, reverse=True)
    assert first["reason"] in made.html


def test_a_disputed_case_says_who_said_what(study, made):
    said, _, _ = study
    for case in made.data["disputed"]:
        own = said[int(case["case"])]
        for k in set(own.tolist()):
            who = [name for name, label in zip(NAMES, own, strict=True) if label == k]
            assert f"{CLASSES[k]} {len(who)}: {', '.join(who)}" in case["labels"]


def test_disputed_grades_are_those_furthest_apart(study, graded):
    """a, a, c, c are in dispute more than a, b, c, c, of which more pairs differ."""
    said, _, _ = study
    pairs = [(r, s) for r in range(4) for s in range(4) if r != s]
    apart = np.mean([np.abs(said[:, r] - said[:, s]) for r, s in pairs], axis=0)
    found = [case["distance"] for case in graded.data["disputed"]]
    np.testing.assert_allclose(found, np.sort(apart)[::-1][: len(found)], rtol=1e-12)
    for case in graded.data["disputed"]:
        assert case["distance"] == pytest.approx(apart[int(case["case"])])


def test_agreement_of_two_raters_by_scikit_learn(study, made, graded):
    said, _, _ = study
    for data, weights in ((made.data, None), (graded.data, "quadratic")):
        found = {
            m["part"]: m["estimate"] for m in data["numbers"] if m["quantity"] == "cohen_kappa"
        }
        assert len(found) == 6
        for part, kappa in found.items():
            a, b = (said[:, NAMES.index(name)] for name in part.split(" and "))
            assert kappa == pytest.approx(cohen_kappa_score(a, b, weights=weights), abs=1e-12)
    assert "Agreement of two raters" in made.html


def test_who_stands_out_has_an_interval_beside_the_median_rater(graded):
    """By how often, and by how many steps, others disagree."""
    table = {row["rater"]: " ".join(row["stands_out"]) for row in graded.data["raters"]["table"]}
    for quantity, words in (("rater_error", "often than"), ("rater_steps", "in steps than")):
        rows = [row for row in numbers(graded, quantity) if row[3] is not None]
        median = np.median([row[4] for row in rows])
        for row in rows:
            apart = row[5] > median or row[6] < median
            assert (words in table[row[3]]) == apart, row
    assert "the dotted line is one more rater" in graded.html


def test_sensitive_leaves_raters_and_patients_out(study):
    _, y, p = study
    patients = [f"patient {i // 2:02d}" for i in range(150)]
    hidden = report(y, p, classes=CLASSES, groups=patients, sensitive=True)
    assert "rater 1" in hidden.html
    assert not any(name in hidden.html for name in ("Ann", "Dee", "patient 07"))


def test_labels_of_a_model_are_compared_with_one_more_rater(study):
    """No probabilities, no calibration."""
    said, y, p = study
    hard = np.eye(3)[p.argmax(axis=1)]
    found = report(y, hard, classes=CLASSES)
    about = [verdict["about"] for verdict in found.data["verdict"]]
    assert about == ["these_raters", "any_rater"]
    assert found.data["verdict"][0]["state"] == "better"
    assert 'id="calibration"' not in found.html
    # nothing speaks of probabilities
    assert found.data["title"] == "Comparison with raters"
    assert not any("referral" in name or "reliability" in name for name in found.files)
    disputed = pd.read_csv(io.BytesIO(found.files["tables/disputed.csv"]))
    assert "predicted_disagreement" not in disputed
    assert set(disputed["prediction"]) <= set(CLASSES)
    assert "probability" not in found.html.partition('id="data"')[2].partition('id="classes"')[0]
    single = report(said[:, 0], hard)
    assert [verdict["state"] for verdict in single.data["verdict"]] == ["withheld"]


@pytest.fixture(scope="module")
def graded(study):
    """The report of the same study, whose classes are grades."""
    _, y, p = study
    patients = [f"patient {i // 2:02d}" for i in range(150)]
    return report(y, p, classes=CLASSES, groups=patients, distance="linear")


def numbers(made, *quantities):
    keys = ("quantity", "subset", "class_name", "part", "estimate", "low", "high", "unit")
    return [[m[k] for k in keys] for m in made.data["numbers"] if m["quantity"] in quantities]


def test_an_order_of_the_classes_changes_no_share(made, graded):
    """Steps stand beside shares of comparisons, as quantities of their own."""
    shares = ("excess_error", "model_error", "rater_error", "rater_bias", "raters_alike_p")
    assert numbers(graded, *shares) == numbers(made, *shares)
    steps = {m["quantity"]: m for m in graded.data["numbers"] if m["unit"] == "steps"}
    assert set(steps) == {"excess_steps", "model_steps", "rater_steps"}
    ordered, plain = graded.data["raters"], made.data["raters"]
    for own, other in zip(ordered["table"], plain["table"], strict=True):
        assert own["rater"] == other["rater"]
        of_shares = [words for words in own["stands_out"] if "in steps" not in words]
        assert of_shares == other["stands_out"]
    assert [line for line in ordered["sentences"] if "steps" not in line] == plain["sentences"]
    (line,) = (line for line in ordered["sentences"] if "steps" in line)
    assert "%" not in line
    assert "percentage" not in line
    assert line.endswith("] steps.")


def test_steps_by_hand(study, graded):
    said, _, p = study
    top = p.argmax(axis=1)[:, None]
    pairs = [(r, s) for r in range(4) for s in range(4) if r != s]
    between = np.mean([np.abs(said[:, r] - said[:, s]) for r, s in pairs])
    found = {row[0]: row[4] for row in numbers(graded, "model_steps", "rater_steps") if not row[3]}
    assert found["model_steps"] == pytest.approx(np.abs(said - top).mean(), abs=1e-12)
    assert found["rater_steps"] == pytest.approx(between, abs=1e-12)


def test_agreement_of_grades_under_its_own_names(study, graded, made):
    _, y, _ = study
    own = Annotations.from_matrix(np.array(y.classes)[study[0]], classes=CLASSES)
    expected = {
        "krippendorff_alpha_ordinal": krippendorff_alpha(own, weights="ordinal"),
        "fleiss_kappa_linear": fleiss_kappa(own, weights="linear"),
        "fleiss_kappa_quadratic": fleiss_kappa(own, weights="quadratic"),
    }
    found = {row[0]: row for row in numbers(graded, *expected)}
    for name, coefficient in expected.items():
        assert found[name][4] == pytest.approx(coefficient, abs=1e-12)
        assert found[name][5] < coefficient < found[name][6]
    assert not numbers(made, *expected)
    assert "α, ordinal" in graded.html


def test_a_judge_of_grades_has_one_comparison(study):
    """The verdict, the raters' section and the paragraph have the same words and numbers."""
    _, y, p = study
    hard = np.eye(3)[p.argmax(axis=1)]
    found = report(y, hard, classes=CLASSES, distance="linear").data
    (number,) = [
        m
        for m in found["numbers"]
        if (m["quantity"], m["subset"], m["part"]) == ("excess_error", "uncalibrated", None)
    ]
    points = f"{100 * number['estimate']:.1f} [".replace("-", "\N{MINUS SIGN}")
    first = found["verdict"][0]
    assert found["raters"]["sentences"][0].startswith(first["title"])
    for text in (first["words"], found["raters"]["sentences"][0], found["paragraphs"]["results"]):
        assert points in text
    assert found["reconciled"] == []


@pytest.mark.parametrize("alike", [pytest.param(False, marks=pytest.mark.slow), True])
def test_raters_who_do_not_differ_make_no_wider_claim(alike):
    """Labels are drawn alike, or six raters say the same of each case."""
    rng = np.random.default_rng(1)
    p = rng.dirichlet([0.4, 0.4, 0.4], 60)
    said = (p.cumsum(axis=1)[:, None] < rng.random((60, 6, 1))).sum(axis=2).clip(max=2)
    if alike:
        said[:] = said[:, :1]
    y = Annotations.from_matrix(said, classes=[0, 1, 2])
    found = report(y, np.eye(3)[p.argmax(axis=1)])
    ends = {row[1]: row[5:7] for row in numbers(found, "excess_error") if row[3] is None}
    assert (ends["new_raters"] == pytest.approx(ends["uncalibrated"], abs=1e-12)) == alike
    verdict = found.data["verdict"][1]
    sentences = " ".join([verdict["words"], *found.data["raters"]["sentences"]])
    assert ("for any rater" in verdict["title"]) != alike
    assert (verdict["title"] == "No difference between raters shown") == alike
    assert ("no difference between the raters" in sentences) == alike
    assert ("For any raters" in sentences) != alike


@pytest.mark.filterwarnings("ignore:.*raters")
def test_groups_of_raters_are_compared():
    """For new raters where both groups have three; a group of one has no pairs."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.4, 0.4, 0.4], 120)
    said = (p.cumsum(axis=1)[:, None] < rng.random((120, 7, 1))).sum(axis=2).clip(max=2)
    # trainees guess more often
    guess = rng.random((120, 7)) < np.array([0.0] * 3 + [0.6] * 3 + [0.2])
    said = np.where(guess, rng.integers(3, size=said.shape), said)
    y = Annotations.from_matrix(said, raters=list("abcdefg"))
    group = dict.fromkeys("abc", "expert") | dict.fromkeys("def", "trainee") | {"g": "student"}
    made = report(y, p, rater_groups=group, margin=0.3)
    rows = [m for m in made.data["numbers"] if m["quantity"].endswith("y_difference")]
    found = {(m["part"], m["subset"]): m for m in rows}
    both = found["expert minus trainee", "new_raters"]
    assert both["level"] == pytest.approx(1 - 0.05 / 3)
    assert both["n"] == 120
    options = {"compare": ("expert", "trainee"), "confidence_level": both["level"]}
    call = rater_group_difference(expected_accuracy, y, group, p, random_state=0, **options)
    assert (both["estimate"], both["low"], both["high"]) == pytest.approx(call[:3], abs=1e-12)
    assert both["low"] > 0
    assert "expert minus trainee" in made.html
    assert ("student minus trainee", "uncalibrated") in found
    assert made.data["settings"]["margin"] == 0.3
    assert "margin of non-inferiority is 30 percentage points" in made.html


def test_without_groups_nothing_is_said_of_them(made):
    assert "Groups of raters" not in made.html


def test_a_margin_is_a_share(study):
    _, y, p = study
    with pytest.raises(ValueError, match=r"0\.05 is 5 points"):
        report(y, p, classes=CLASSES, margin=5.0)
