"""The page of a reader study with truth."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sklearn_lhcal.label_histogram import Readings
from sklearn_lhcal.metrics import reader_study
from sklearn_lhcal.report.command import main

IMRMC = Path(__file__).parents[1] / "metrics" / "imrmc_input.imrmc"


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 30)
    case = y + rng.normal(size=60)
    rows = [
        {
            "case": f"c{i:02}",
            "patient": f"p{i // 2}",
            "reader": f"R{r}",
            "condition": condition,
            "score": case[i] + 0.5 * rng.normal(),
            "truth": y[i],
        }
        for condition in ("unaided", "aided")
        for r in range(5)
        for i in range(60)
    ]
    return pd.DataFrame(rows)


def made(tmp_path, table, *options):
    file = tmp_path / "study.csv"
    table.to_csv(file, index=False)
    out = tmp_path / "out"
    status = main(["report", "--readings", str(file), "--output", str(out), *options])
    return status, out


def ends(data, metric, condition):
    (row,) = (r for r in data["values"] if (r["metric"], r["condition"]) == (metric, condition))
    return row["estimate"], row["low"], row["high"]


def test_the_page_says_what_reader_study_found(tmp_path, table, capsys):
    options = ["--compare", "aided", "unaided", "--margin", "0.05", "--threshold", "0.5"]
    status, out = made(tmp_path, table, *options, "--patient", "patient")
    assert status == 0
    data = json.loads((out / "report.json").read_text(encoding="utf-8"))
    groups = np.arange(60) // 2
    how = {"compare": ("aided", "unaided"), "margin": 0.05, "groups": groups}
    for metric in ("auc", "sensitivity", "specificity"):
        threshold = None if metric == "auc" else 0.5
        found = reader_study(Readings.from_long(table), metric=metric, threshold=threshold, **how)
        assert ends(data, metric, "aided") == pytest.approx(found.values["aided"][:3])
        assert ends(data, metric, "difference") == pytest.approx(found.difference[:3])
    page = (out / "report.html").read_text(encoding="utf-8")
    for words in ("Readers against the truth", "AUC, aided minus unaided", "crossed", "STARD 2015"):
        assert words in page
    for paragraph in data["paragraphs"].values():
        assert paragraph.replace("'", "&#39;") in page
    rows = pd.read_csv(out / "tables" / "readers.csv")
    assert len(rows) == 15
    assert {"auc.svg", "auc.png"} <= {file.name for file in (out / "figures").iterdir()}
    assert set(data["files"]) == {
        f"{file.parent.name}/{file.name}" for file in out.glob("*/*") if file.is_file()
    }
    assert "AUC, aided minus unaided" in capsys.readouterr().out


def test_columns_are_named_and_a_dry_run_writes_nothing(tmp_path, table, capsys):
    options = ["--compare", "aided", "unaided"]
    _, expected = made(tmp_path, table, *options)
    own = {"case": "Case ID", "reader": "Doctor", "condition": "mode", "score": "s", "truth": "ill"}
    own_options = [*options, "--columns", *own.values()]
    folder = tmp_path / "own"
    folder.mkdir()
    _, out = made(folder, table.rename(columns=own), *own_options, "--dry-run")
    assert not out.exists()
    assert "readers, 60 cases" in capsys.readouterr().out
    _, out = made(folder, table.rename(columns=own), *own_options)
    values, as_named = (
        json.loads((of / "report.json").read_text(encoding="utf-8")) for of in (expected, out)
    )
    assert values["values"] == as_named["values"]
    # a margin, a threshold and patients are named where they were given
    assert values["settings"]["margin"] is None
    assert "non-inferior" not in values["paragraphs"]["results"]
    _, out = made(tmp_path, table, *options, "--patient", "patient", "--threshold", "0.5")
    said = json.loads((out / "report.json").read_text(encoding="utf-8"))["paragraphs"]
    assert "60 cases of 30 patients" in said["results"]
    assert "0.5 or more was a positive call" in said["methods"]


def test_conditions_alone_and_sensitive_pages(tmp_path, table):
    status, out = made(tmp_path, table, "--sensitive")
    assert status == 0
    data = json.loads((out / "report.json").read_text(encoding="utf-8"))
    of = {(row["metric"], row["condition"]) for row in data["values"]}
    assert of == {("auc", "aided"), ("auc", "unaided")}
    assert "study.csv" not in (out / "report.html").read_text(encoding="utf-8")


def test_text_that_says_the_truth_is_mapped(tmp_path, table, capsys):
    _, expected = made(tmp_path, table)
    folder = tmp_path / "own"
    folder.mkdir()
    words = table.assign(truth=table["truth"].map({0: "benign", 1: "malignant"}))
    status, out = made(folder, words)
    assert status == 2
    assert "--map yes=1 no=0" in capsys.readouterr().err
    _, out = made(folder, words, "--map", "malignant=1", "benign=0")
    values, as_mapped = (
        json.loads((of / "report.json").read_text(encoding="utf-8"))["values"]
        for of in (expected, out)
    )
    assert values == as_mapped


def test_notes_and_p_values_stand_beside_the_numbers(tmp_path, table):
    """As Python prints them, on the page and in JSON."""
    _, out = made(tmp_path, table, "--compare", "aided", "unaided", "--margin", "0.05")
    data = json.loads((out / "report.json").read_text(encoding="utf-8"))
    found = reader_study(Readings.from_long(table), compare=("aided", "unaided"))
    (row,) = (row for row in data["values"] if row["condition"] == "difference")
    assert found.difference.notes
    assert row["notes"] == "; ".join(found.difference.notes)
    assert row["p_value"] == pytest.approx(found.p_value)
    assert row["standard_error"] == pytest.approx(found.difference.standard_error)
    assert row["notes"] in (out / "report.html").read_text(encoding="utf-8")


def test_files_of_imrmc(tmp_path):
    out = str(tmp_path)
    assert (
        main(["report", "--readings", str(IMRMC), "--compare", "testA", "testB", "--output", out])
        == 0
    )
    data = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert ends(data, "auc", "difference")[0] == pytest.approx(-0.054125)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--compare", "aided", "alone"], "compare must name two of the conditions"),
        (["--patient", "family"], "there is no column ['family']"),
    ],
)
def test_bad_options(tmp_path, table, capsys, options, message):
    status, out = made(tmp_path, table, *options)
    assert status == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_truth_is_not_mixed_with_label_histograms(tmp_path, table, capsys):
    with pytest.raises(SystemExit):
        made(tmp_path, table, "--proba", "model.csv")
    with pytest.raises(SystemExit):
        made(tmp_path, table, "--counts", "counts.csv")
    status, _ = made(tmp_path, table.drop(columns="truth"))
    assert status == 2
    assert "no column ['truth']" in capsys.readouterr().err
