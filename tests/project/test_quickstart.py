"""Saved predictions in the examples: names in a CSV file decide, never the order of its columns."""

import importlib.util
import runpy
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.frozen import FrozenEstimator

from sklearn_lhcal.calibration import AlphaCalibration
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import predict_dist
from sklearn_lhcal.metrics import expected_accuracy, posterior_epistemic_loss

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES, OTHER_ORDER = ["bird", "cat", "dog"], ["dog", "bird", "cat"]
ROWS = [f"image {i}" for i in range(200)]
DATA = make_label_histograms(200, 3, 4, total=4.0, random_state=0)
COUNTS = pd.DataFrame(DATA.counts, index=ROWS, columns=NAMES)
PROBA = pd.DataFrame(DATA.prediction, index=ROWS, columns=NAMES)
ONLY_NAMES = {"index": False}
NOTHING = {"index": False, "header": False}


def module(name):
    """What the examples share."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


SAVED = module("saved_predictions")


def figures(counts: str, proba: str):
    """Scores of the calibrated test rows, from two files."""
    model, calibration, (X, y) = SAVED.halves(counts, proba)
    prediction = predict_dist(AlphaCalibration(FrozenEstimator(model)).fit(*calibration), X)
    return expected_accuracy(y, prediction), posterior_epistemic_loss(y, prediction)


def scores(folder, counts, proba, of_counts=None, of_proba=None):
    """Of the test rows, from two CSV files."""
    files = [str(folder / "counts.csv"), str(folder / "proba.csv")]
    counts.to_csv(files[0], **(of_counts or {}))
    proba.to_csv(files[1], **(of_proba or {}))
    return figures(*files)


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """From arrays."""
    folder = tmp_path_factory.mktemp("arrays")
    np.save(folder / "counts.npy", DATA.counts)
    np.save(folder / "proba.npy", DATA.prediction)
    files = str(folder / "counts.npy"), str(folder / "proba.npy")
    _, _, (X, y) = SAVED.halves(*files)
    assert isinstance(X, np.ndarray)
    assert isinstance(y, np.ndarray)
    return pytest.approx(figures(*files), abs=1e-6)


@pytest.mark.parametrize("options", [{}, ONLY_NAMES, {"index_label": "image"}])
def test_columns_meet_by_name(tmp_path, right, options):
    assert scores(tmp_path, COUNTS[OTHER_ORDER], PROBA, options, options) == right
    assert scores(tmp_path, COUNTS, PROBA[OTHER_ORDER], options, options) == right


def test_an_index_is_no_class(tmp_path, right):
    assert scores(tmp_path, COUNTS, PROBA) == right
    numbered = [frame.reset_index(drop=True) for frame in (COUNTS, PROBA)]
    assert scores(tmp_path, *numbered) == right
    no_header = {"header": False}
    assert scores(tmp_path, COUNTS, PROBA, no_header, no_header) == right
    by_number = [frame.set_axis(range(3), axis=1) for frame in (COUNTS, PROBA)]
    assert scores(tmp_path, *by_number) == right


def test_rows_in_another_order_are_an_error(tmp_path):
    with pytest.raises(ValueError, match="the same samples in another order"):
        scores(tmp_path, COUNTS, PROBA[::-1])
    with pytest.raises(ValueError, match="only 199 of 200 samples in common"):
        scores(tmp_path, COUNTS, PROBA.rename({"image 3": "image 1003"}))


@pytest.mark.parametrize("side", [0, 1])
def test_names_on_one_side_only(tmp_path, right, side):
    options = [NOTHING, NOTHING]
    options[side] = ONLY_NAMES
    assert scores(tmp_path, COUNTS, PROBA, *options) == right
    unsorted = COUNTS[OTHER_ORDER], PROBA[OTHER_ORDER]
    with pytest.raises(ValueError, match="not sorted"):
        scores(tmp_path, *unsorted, *options)


def test_other_names_are_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"the sets differ by \['cat', 'cow'\]"):
        scores(tmp_path, COUNTS, PROBA.rename(columns={"cat": "cow"}))


def test_a_file_without_any_name_is_an_array(tmp_path, right):
    assert scores(tmp_path, COUNTS, PROBA, NOTHING, NOTHING) == right


def test_some_labels_are_kept():
    few = SAVED.some_labels(COUNTS, 2, np.random.default_rng(0))
    same = SAVED.some_labels(DATA.counts, 2, np.random.default_rng(0))
    assert_array_equal(few, same)
    assert_array_equal(few.sum(axis=1), 2)
    assert list(few.columns) == NAMES
    assert (few <= COUNTS).all(axis=None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plot_quickstart", "plot_second_opinion"])
def test_the_whole_program_reads_csv(name, tmp_path, monkeypatch, capsys):
    counts, proba = tmp_path / "counts.csv", tmp_path / "proba.csv"
    COUNTS.to_csv(counts)
    PROBA[OTHER_ORDER].to_csv(proba)
    program = EXAMPLES / f"{name}.py"
    arguments = [program, "--counts", counts, "--proba", proba, "--figure", tmp_path / "figure.png"]
    monkeypatch.setattr(sys, "argv", [*map(str, arguments)])
    monkeypatch.syspath_prepend(EXAMPLES)
    runpy.run_path(str(program), run_name="__main__")
    assert (tmp_path / "figure.png").exists()
    assert "100 " in capsys.readouterr().out
