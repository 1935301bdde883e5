"""Files as people have them: the command reads the same study from each of them.

The tests take the place of `report_on`, which a study is handed to, and draw no page.
"""

import sys
import zipfile

import numpy as np
import pandas as pd
import pytest

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.report import command, report

CLASSES = ["a", "b", "c"]
IDS = [f"{i:03d}" for i in range(30)]


@pytest.fixture(scope="module")
def data():
    return make_label_histograms(30, n_classes=3, n_raters=3, random_state=0)


@pytest.fixture
def read(data, tmp_path, monkeypatch):
    """The study that the command reads, or its status; good counts by default."""
    frame(data.counts).to_csv(tmp_path / "counts.csv", index=False)

    class Read(Exception):
        pass

    def stop(study, **_):
        raise Read(study)

    monkeypatch.setattr(command, "report_on", stop)

    def read(proba, *more, counts="counts.csv"):
        files = ["--counts", str(tmp_path / counts), "--proba", str(tmp_path / proba)]
        try:
            status = command.main(["report", *files, *more, "--output", str(tmp_path / "out")])
        except Read as read:
            return read.args[0]
        return status

    return read


def frame(values, ids=IDS, columns=CLASSES):
    return pd.DataFrame(values, columns=columns).assign(id=ids)[["id", *columns]]


@pytest.mark.parametrize(
    "how",
    [
        {"sep": ";"},
        {"sep": ";", "decimal": ","},
        {"sep": "\t"},
        {"encoding": "utf-8-sig"},
        {"encoding": "utf-16", "sep": "\t"},
    ],
    ids=["semicolon", "decimal comma", "tab", "byte order mark", "unicode text"],
)
def test_tables_as_programs_write_them(data, read, tmp_path, how):
    rows = frame(data.prediction).sample(frac=1, random_state=0)
    rows.to_csv(tmp_path / "proba.CSV", index=False, **how)
    study = read("proba.CSV")
    np.testing.assert_allclose(study.z[np.argsort(study.ids)], data.prediction, atol=1e-12)
    assert sorted(study.ids) == IDS


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
def test_text_that_is_not_utf_8(data, read, tmp_path, encoding):
    # in Windows' alphabet the second has no letter
    names = ["gutartig", "bösartig", "\x81" if encoding == "latin-1" else "groß"]
    for name, values in (("proba", data.prediction), ("counts", data.counts)):
        table = frame(values, columns=names)
        table.to_csv(tmp_path / f"{name}.csv", index=False, encoding=encoding)
    study = read("proba.csv")
    assert study.classes == names
    assert len([note for note in study.notes if encoding in note]) == 2


def test_a_workbook(data, read, tmp_path):
    pytest.importorskip("openpyxl")
    frame(data.prediction).to_excel(tmp_path / "proba.xlsx", index=False)
    study = read("proba.xlsx")
    assert study.ids.tolist() == IDS
    np.testing.assert_allclose(study.z, data.prediction, rtol=1e-12)


def test_a_workbook_needs_a_library(data, read, tmp_path, monkeypatch, capsys):
    with zipfile.ZipFile(tmp_path / "proba.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    assert read("proba.xlsx") == 2
    assert "pip install openpyxl" in capsys.readouterr().err


def test_blanks_are_stripped_on_both_sides(data, read, tmp_path):
    table = frame(data.prediction)
    table["id"] = [f" {name}  " for name in IDS]
    table.to_csv(tmp_path / "proba.csv", index=False)
    table.to_parquet(tmp_path / "proba.parquet")
    for file in ("proba.csv", "proba.parquet"):
        study = read(file)
        assert sorted(study.ids) == IDS
        assert any("stripped from 30 values of column 'id'" in note for note in study.notes)


def test_ids_are_text(data, read, tmp_path):
    """001 stays 001, whether a file holds text or would be read as numbers."""
    frame(data.prediction).to_parquet(tmp_path / "proba.parquet")
    study = read("proba.parquet")
    assert study.ids.tolist() == IDS
    frame(data.prediction, range(30)).to_parquet(tmp_path / "numbers.parquet")
    # where no id meets, they meet without leading zeros, and the page says so
    study = read("numbers.parquet")
    assert any("spelt otherwise" in step.words for step in study.flow)
    np.testing.assert_array_equal(study.labels.counts, data.counts)


def test_whole_numbers_that_were_saved_as_floats(data, read, tmp_path):
    frame(data.prediction, np.arange(30.0)).to_csv(tmp_path / "proba.csv", index=False)
    frame(data.counts, range(30)).to_csv(tmp_path / "whole.csv", index=False)
    study = read("proba.csv", counts="whole.csv")
    assert study.ids.tolist() == [str(i) for i in range(30)]
    # a version is no whole number: one that differs keeps all as they are
    frame(data.prediction, [*np.arange(29.0), 29.5]).to_csv(tmp_path / "proba.csv", index=False)
    assert read("proba.csv", counts="whole.csv") == 2


def test_the_index_of_a_saved_frame_is_no_column(data, read, tmp_path):
    rows = frame(data.prediction).sample(frac=1, random_state=0).rename(columns=" {} ".format)
    rows.to_csv(tmp_path / "proba.csv")
    for more in ([], ["--id", "id"]):
        study = read("proba.csv", *more)
        assert study.classes == CLASSES
        np.testing.assert_allclose(study.z[np.argsort(study.ids)], data.prediction, atol=1e-12)


def test_a_class_that_nobody_chose_needs_no_column(data, read, tmp_path, capsys):
    """It is filled with zeros where the other side names it, and only there."""
    z = np.column_stack([data.prediction, np.full(30, 0.01)]) / 1.01
    more = [*CLASSES, "d"]
    frame(z, columns=more).to_csv(tmp_path / "proba.csv", index=False)
    full = frame(np.column_stack([data.counts, np.zeros(30, dtype=int)]), columns=more)
    full.to_csv(tmp_path / "full.csv", index=False)
    filled = read("proba.csv")
    expected = read("proba.csv", counts="full.csv")
    assert filled.classes == expected.classes == more
    np.testing.assert_array_equal(filled.labels.counts, expected.labels.counts)
    np.testing.assert_array_equal(filled.z, expected.z)
    assert not expected.notes
    assert "no column for ['d']" in filled.notes[0]
    np.save(tmp_path / "proba.npy", z)
    assert read("proba.npy", "--classes", *more).classes == more
    frame(data.prediction, columns=["a", "b", "C"]).to_csv(tmp_path / "proba.csv", index=False)
    assert read("proba.csv") == 2
    assert "--map c=C" in capsys.readouterr().err


def test_rounded_probabilities_sum_to_1_again(data, read, tmp_path):
    frame(np.round(data.prediction, 2)).to_csv(tmp_path / "proba.csv", index=False)
    study = read("proba.csv")
    np.testing.assert_allclose(study.z.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(study.z, data.prediction, atol=0.02)
    (note,) = study.notes
    assert "divided by its sum" in note


def test_rows_without_labels_are_left_out(data, read, tmp_path):
    counts = data.counts.copy()
    counts[3:5] = 0
    frame(counts).to_csv(tmp_path / "few.csv", index=False)
    frame(data.prediction).to_csv(tmp_path / "proba.csv", index=False)
    study = read("proba.csv", counts="few.csv")
    assert study.n_dropped == 2
    np.testing.assert_allclose(study.z, np.delete(data.prediction, [3, 4], axis=0), atol=1e-12)
    assert study.ids.tolist() == IDS[:3] + IDS[5:]


def test_one_column_is_the_probability_of_the_second_class(read, tmp_path, capsys):
    p = np.linspace(0.1, 0.9, 30)
    frame(p[:, None], columns=["score"]).to_csv(tmp_path / "proba.csv", index=False)
    labels = pd.DataFrame({"id": IDS, "finding": np.where(p > 0.5, "yes", "no")})
    labels.to_csv(tmp_path / "labels.csv", index=False)
    assert read("proba.csv", counts="labels.csv") == 2
    assert "--classes" in capsys.readouterr().err
    study = read("proba.csv", "--classes", "no", "yes", counts="labels.csv")
    assert study.classes == ["no", "yes"]
    np.testing.assert_allclose(study.z[:, 1], p, atol=1e-12)
    np.testing.assert_array_equal(study.labels.counts[:, 1], p > 0.5)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("proba", lambda values: np.log(values), "softmax"),
        ("proba", lambda values: np.where(values == values[4, 1], np.nan, values), "case '004'"),
        ("counts", lambda values: values / 3, "multiply by the number of raters"),
        # what a function says of the fifth sample names the case
        (
            "counts",
            lambda values: values - 9 * (np.arange(len(values)) == 4)[:, None],
            "case '004'",
        ),
        (
            "counts",
            lambda values: np.where(values == values.max(), np.nan, values),
            "has an empty cell",
        ),
        ("counts", lambda values: np.char.add(values.astype(str), " votes"), "holds text"),
    ],
    ids=["logits", "missing", "shares", "negative", "missing count", "text"],
)
def test_cells_that_hold_something_else(data, read, tmp_path, capsys, file, change, message):
    values = {"proba": np.asarray(data.prediction), "counts": data.counts}
    values[file] = change(values[file])
    for name, table in values.items():
        frame(table).to_csv(tmp_path / f"{name}.csv", index=False)
    assert read("proba.csv") == 2
    assert message in capsys.readouterr().err


def test_per_cent_are_read_as_probabilities(data, read, tmp_path):
    """And said so; figures that were rounded to whole ones are divided by their sum, as others."""
    per_cent = (100 * np.asarray(data.prediction)).round()
    frame(data.counts).to_csv(tmp_path / "counts.csv", index=False)
    found = []
    for table in (per_cent, per_cent / 100):
        frame(table).to_csv(tmp_path / "proba.csv", index=False)
        found.append(read("proba.csv"))
    one, other = found
    np.testing.assert_allclose(one.z, other.z, rtol=1e-12)
    assert one.notes[0] == "--proba sums to 100: it was read as per cent."
    assert one.notes[1:] == other.notes


def test_a_single_row_is_no_study(data, read, tmp_path, capsys):
    frame(data.prediction[:1], IDS[:1]).to_csv(tmp_path / "proba.csv", index=False)
    frame(data.counts[:1], IDS[:1]).to_csv(tmp_path / "one.csv", index=False)
    assert read("proba.csv", counts="one.csv") == 2
    assert "two rows" in capsys.readouterr().err


@pytest.mark.slow
def test_rows_are_called_what_their_owner_calls_them():
    """In the list of cases to read again."""
    data = make_label_histograms(150, n_raters=3, random_state=0)
    names, z = [f"image {i}" for i in range(150)], np.asarray(data.prediction)
    label = np.concatenate([np.repeat([0, 1, 2], c) for c in data.counts])
    y = Annotations.from_long(
        item=np.repeat(names, 3), rater=np.arange(450), label=label, items=names
    )
    for labels, prediction in ((data.counts, pd.DataFrame(z, index=names)), (y, z)):
        found = report(labels, prediction).data["disputed"]
        assert found
        assert {row["case"] for row in found} <= set(names)
