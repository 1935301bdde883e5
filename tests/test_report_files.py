"""Files as people have them: the command reads the same study from each of them.

The tests take the place of `report_on`, which a study is handed to, and draw no page.
"""

import numpy as np
import pandas as pd
import pytest

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.report import command

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
    ],
    ids=["semicolon", "decimal comma", "tab", "byte order mark"],
)
def test_tables_as_programs_write_them(data, read, tmp_path, how):
    rows = frame(data.prediction).sample(frac=1, random_state=0)
    rows.to_csv(tmp_path / "proba.CSV", index=False, **how)
    study = read("proba.CSV")
    np.testing.assert_allclose(study.z[np.argsort(study.ids)], data.prediction, atol=1e-12)
    assert sorted(study.ids) == IDS


def test_ids_are_text(data, read, tmp_path):
    """001 is no 1, whether a file holds text or would be read as numbers."""
    frame(data.prediction).to_parquet(tmp_path / "proba.parquet")
    study = read("proba.parquet")
    assert study.ids.tolist() == IDS
    frame(data.prediction, range(30)).to_parquet(tmp_path / "numbers.parquet")
    assert read("numbers.parquet") == 2


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
        ("proba", lambda values: np.where(values == values[4, 1], np.nan, values), "row '004'"),
        ("counts", lambda values: values / 3, "multiply by the number of raters"),
        ("counts", lambda values: np.where(values == values.max(), np.nan, values), "no number"),
        ("counts", lambda values: np.char.add(values.astype(str), " votes"), "holds text"),
    ],
    ids=["logits", "missing", "shares", "missing count", "text"],
)
def test_cells_that_hold_something_else(data, read, tmp_path, capsys, file, change, message):
    values = {"proba": np.asarray(data.prediction), "counts": data.counts}
    values[file] = change(values[file])
    for name, table in values.items():
        frame(table).to_csv(tmp_path / f"{name}.csv", index=False)
    assert read("proba.csv") == 2
    assert message in capsys.readouterr().err


def test_a_single_row_is_no_study(data, read, tmp_path, capsys):
    frame(data.prediction[:1], IDS[:1]).to_csv(tmp_path / "proba.csv", index=False)
    frame(data.counts[:1], IDS[:1]).to_csv(tmp_path / "one.csv", index=False)
    assert read("proba.csv", counts="one.csv") == 2
    assert "two rows" in capsys.readouterr().err
