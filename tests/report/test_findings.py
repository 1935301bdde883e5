"""Several findings in one table: the page is about one of them, and has a table of all."""

import json

import numpy as np
import pandas as pd
import pytest

from sklearn_lhcal.report import command

NAMES = ["edema", "mass", "nodule"]
LONG = ["--columns", "film", "reader", "present"]


@pytest.fixture(scope="module")
def tables():
    """Labels of three of four readers a film and finding, and overconfident probabilities."""
    rng = np.random.default_rng(0)
    p = pd.DataFrame(rng.beta(1, 2, (120, 3)), columns=NAMES)
    rows = [
        (f"{i:03d}", "ABCD"[r], name, int(rng.random() < p[name][i]))
        for name in NAMES
        for i in range(120)
        for r in rng.permutation(4)[:3]
    ]
    labels = pd.DataFrame(rows, columns=["film", "reader", "what", "present"])
    sure = p**4 / (p**4 + (1 - p) ** 4)
    sure.insert(0, "film", [f"{i:03d}" for i in range(120)])
    return labels.sample(frac=1, random_state=0), sure


@pytest.fixture
def run(tmp_path, capsys):
    """The numbers of a page, or what the command says where there is none."""

    def run(labels, proba, *more, option="--proba"):
        labels.to_csv(tmp_path / "labels.csv", index=False)
        proba.to_csv(tmp_path / "proba.csv", index=False)
        asked = ["report", "--annotations", str(tmp_path / "labels.csv"), *LONG, *more, "--quiet"]
        asked += [option, str(tmp_path / "proba.csv"), "--output", str(tmp_path / "out")]
        if command.main(asked) == 2:
            return capsys.readouterr().err
        where = tmp_path / "out" / ("" if option == "--proba" else "probability")
        return json.loads((where / "report.json").read_text(encoding="utf-8"))

    return run


def wide(labels):
    return labels.pivot(index=["film", "reader"], columns="what", values="present").reset_index()


def long(proba):
    return proba.melt("film", var_name="what", value_name="probability")


@pytest.mark.slow
def test_rows_and_columns_say_the_same(tables, run):
    labels, proba = tables
    found = run(labels, proba, "--finding", "what", "--only", "mass")
    assert found["title"] == "Calibration report: mass"
    assert found["inputs"]["classes"] == ["no mass", "mass"]
    others = [
        run(labels, long(proba), "--finding", "what", "--only", "mass"),
        run(wide(labels), proba, "--only", "mass"),
        run(wide(labels), long(proba), "--finding", "what", "--only", "mass"),
    ]
    for other in others:
        assert other["numbers"] == found["numbers"]
        assert other["findings"] == found["findings"]


@pytest.mark.slow
def test_the_page_is_that_of_the_finding_alone(tables, run):
    """The other rows are as if they were not there."""
    labels, proba = tables
    found = run(labels, proba, "--finding", "what", "--only", "mass")
    alone = labels[labels["what"] == "mass"].drop(columns="what")
    alone["present"] = np.where(alone["present"] == 1, "mass", "no mass")
    own = run(alone, proba[["film", "mass"]], "--classes", "no mass", "mass")
    assert own["numbers"] == [m for m in found["numbers"] if m["part"] not in NAMES]
    assert own["verdict"] == found["verdict"]
    assert own["findings"] == []


def test_all_findings_have_intervals_that_hold_together(tables, run):
    """Bonferroni's: wider than the interval of the verdict, about the same estimate."""
    labels, proba = tables
    found = run(labels, proba, "--finding", "what", "--only", "mass")
    assert [row["finding"] for row in found["findings"]] == NAMES
    every = {(m["quantity"], m["subset"], m["part"]): m for m in found["numbers"]}
    gap = every["overconfidence", "uncalibrated", None]
    wide = every["overconfidence", "uncalibrated", "mass"]
    assert wide["estimate"] == gap["estimate"]
    assert wide["low"] < gap["low"] < gap["high"] < wide["high"]
    own = labels[labels["what"] == "mass"]
    share = every["share_of_labels", "labels", "mass"]
    assert share["estimate"] == pytest.approx(own["present"].mean())
    assert {row["state"] for row in found["findings"]} == {"overconfident"}


def test_without_a_choice_the_names_are_listed(tables, run):
    labels, proba = tables
    for more in ([], ["--only", "masses"]):
        assert str(NAMES) in run(labels, proba, "--finding", "what", *more)


@pytest.mark.slow
def test_answers_in_words_and_findings_that_the_model_lacks(tables, run):
    labels, proba = tables
    more = ["--finding", "what", "--only", "mass"]
    found = run(labels, proba, *more)
    told = labels.assign(present=labels["present"].map({0: "absent", 1: "present"}))
    extra = pd.DataFrame([("001", "A", "fracture", "present")], columns=list(told))
    words = run(pd.concat([told, extra]), proba, *more, "--classes", "absent", "present")
    assert words["numbers"] == found["numbers"]
    assert "fracture" in " ".join(check["message"] for check in words["checks"])


@pytest.mark.slow
def test_findings_that_nobody_labelled_are_left_out(tables, run):
    """In a column of the model each, and as rows; the page is as without them."""
    labels, proba = tables
    more = ["--finding", "what", "--only", "mass"]
    expected = run(labels, proba, *more)
    extra = proba.assign(scar=0.5)
    for predicted in (extra, long(extra)):
        found = run(labels, predicted, *more)
        assert found["numbers"] == expected["numbers"]
        told = [check["message"] for check in found["checks"]]
        assert "Findings without a label are left out: ['scar']." in told


def test_a_finding_that_nobody_labelled_cannot_be_chosen(tables, run):
    labels, proba = tables
    extra = proba.assign(scar=0.5)
    for predicted in (extra, long(extra)):
        said = run(labels, predicted, "--finding", "what", "--only", "scar")
        assert f"The findings with labels and a prediction are {NAMES}" in said


def test_errors_name_the_finding(tables, run):
    labels, proba = tables
    more = ["--finding", "what", "--only", "mass"]
    assert "two answers" in run(labels, proba, *more, "--classes", "no", "maybe", "yes")
    proba = proba.assign(edema=proba["edema"].where(proba["film"] != "007"))
    said = run(labels, proba, *more)
    assert said.startswith("error: Finding 'edema': --proba: case '007'")


def test_answers_of_a_judge(tables, run):
    """Labels have no confidence, so that there is no table of all findings."""
    labels, proba = tables
    said = long(proba.assign(**(proba[NAMES] > 0.5).astype(int)))
    more = ["--finding", "what", "--only", "mass"]
    found = run(labels, said, *more, option="--predicted-labels")
    assert found["verdict"][0]["about"] == "these_raters"
    assert found["findings"] == []


@pytest.mark.slow
def test_findings_of_raters_without_names(tables, run):
    """Calibration is that of named raters, of whom nothing more is said."""
    labels, proba = tables
    more = ["--finding", "what", "--only", "mass"]
    named = run(labels, proba, *more)
    found = run(labels, proba, *more, "--columns", "film", "-", "present")
    assert found["raters"] is None
    assert found["findings"] == named["findings"]
    # one of them is computed with the raters otherwise
    every = [number | {"computed": ""} for number in named["numbers"]]
    assert all(number | {"computed": ""} in every for number in found["numbers"])


def test_findings_need_a_row_for_each_label(tables, run, tmp_path, capsys):
    _, proba = tables
    proba.to_csv(tmp_path / "p.csv", index=False)
    files = ["--counts", str(tmp_path / "p.csv"), "--proba", str(tmp_path / "p.csv")]
    asked = ["report", *files, "--only", "mass", "--output", str(tmp_path / "out")]
    assert command.main(asked) == 2
    assert "--annotations" in capsys.readouterr().err
