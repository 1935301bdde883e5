"""Tables of methods and metrics: each cell is an interval, whoever asks for it."""

import pickle
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest

from sklearn_lhcal.datasets import make_label_histograms, make_rater_study
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import (
    calibration_error,
    confidence_interval,
    epistemic_loss,
    evaluate_methods,
    expected_squared_loss,
    label_log_loss,
    paired_difference,
)

DATA = make_label_histograms(200, overconfidence=2.0, random_state=0)
Y = DATA.counts
METHODS = {"raw": DATA.prediction, "true": DATA.proba, "spread": Dirichlet(1 + 9 * DATA.proba)}
# each group is a block, so that blocks do not depend on the seed
GROUPS = np.arange(200) % 20
WEIGHT = 1.0 + np.arange(200) % 3
LEFT_OUT = {"groups": GROUPS, "sample_weight": WEIGHT, "confidence_level": 0.9}


def same(one, other):
    assert tuple(one) == pytest.approx(tuple(other), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("reference", [None, "raw"])
def test_cells_are_intervals(reference):
    table = evaluate_methods(METHODS, Y, reference=reference, **LEFT_OUT).intervals
    assert list(table) == [name for name in METHODS if name != reference]
    columns = ["expected_accuracy", "expected_squared_loss", "epistemic_loss", "calibration_error"]
    columns += ["disagreement_squared_loss", "disagreement_calibration_error"]
    for method, row in table.items():
        assert list(row) == columns
        for metric in (epistemic_loss, calibration_error):
            found = row[metric.__name__]
            if reference is None:
                same(found, confidence_interval(metric, Y, METHODS[method], **LEFT_OUT))
            else:
                pair = METHODS[method], METHODS[reference]
                same(found, paired_difference(metric, Y, *pair, **LEFT_OUT))


def test_all_methods_have_the_same_blocks():
    """One prediction under two names: the same intervals, and no difference at all."""
    twice = {"a": DATA.prediction, "b": DATA.prediction.copy()}
    table = evaluate_methods(twice, Y, random_state=np.random.RandomState(0)).intervals
    assert table["a"] == table["b"]
    difference = evaluate_methods(twice, Y, reference="a").intervals["b"]["epistemic_loss"]
    assert difference[:3] == (0, 0, 0)


def test_a_seed_repeats():
    """A whole number is that of each cell."""
    cell = confidence_interval(epistemic_loss, Y, DATA.prediction, random_state=1)
    assert evaluate_methods(METHODS, Y, random_state=1).intervals["raw"]["epistemic_loss"] == cell
    one, two, other = (evaluate_methods(METHODS, Y, random_state=seed) for seed in (1, 1, 2))
    assert one == two != other


def test_raters_are_passed_on():
    study = make_rater_study(80, random_state=0)
    methods = {"half": study.prediction}
    metrics = [expected_squared_loss]
    for raters, n in (("random", 5), ("fixed", None), (None, 5)):
        table = evaluate_methods(methods, study.y, metrics=metrics, raters=raters)
        assert table.intervals["half"]["expected_squared_loss"].n_raters == n


def test_the_default_columns_are_those_that_the_labels_allow():
    row = evaluate_methods({"raw": DATA.prediction}, Y.argmax(axis=1)).intervals["raw"]
    assert list(row) == ["expected_accuracy", "expected_squared_loss", "calibration_error"]


@pytest.mark.filterwarnings("ignore:.* is biased upwards")
def test_metrics_by_name_and_functions_of_the_user():
    def spread(y, prediction):
        return float(np.asarray(prediction).std())

    metrics = {"CE₁": partial(calibration_error, p=1, bias_correction=None), "sd": spread}
    metrics["none"] = lambda y, prediction: np.nan
    table = evaluate_methods({"raw": DATA.prediction}, Y, metrics=metrics, random_state=0)
    row = table.intervals["raw"]
    assert row["CE₁"].estimate == metrics["CE₁"](Y, DATA.prediction)
    assert row["sd"].estimate == pytest.approx(DATA.prediction.std(), rel=1e-12)
    assert np.isnan(row["none"]).all()
    (only,) = evaluate_methods({"raw": DATA.prediction}, Y, metrics=[spread]).intervals["raw"]
    assert only == "spread"


def test_the_frame():
    table = evaluate_methods(METHODS, Y, metrics=[label_log_loss, epistemic_loss])
    frame = table.to_frame()
    assert list(frame.index) == list(METHODS)
    estimates = frame.xs("estimate", axis=1, level=1)
    assert list(estimates.columns) == ["label_log_loss", "epistemic_loss"]
    assert frame.dtypes.eq(np.float64).all()
    for method, metric in ((m, c) for m in METHODS for c in estimates):
        assert tuple(frame.loc[method, metric]) == tuple(table.intervals[method][metric])


def test_it_prints_a_line_a_cell():
    table = evaluate_methods(METHODS, Y, metrics=[label_log_loss, epistemic_loss])
    lines = str(table).splitlines()
    assert len(lines) == 2 * len(METHODS)
    found = table.intervals[next(iter(METHODS))]["epistemic_loss"]
    assert lines[1].split()[1] == "epistemic_loss"
    numbers = [float(word.strip("(,)")) for word in lines[1].split()[2:]]
    assert numbers == pytest.approx(found[:3], rel=6e-3)


def test_it_prints_20_lines_at_most():
    many = {f"method {i}": DATA.prediction for i in range(15)}
    table = evaluate_methods(many, Y, metrics=[label_log_loss, epistemic_loss])
    lines = str(table).splitlines()
    assert len(lines) == 19
    assert lines[-1] == "... and 12 more"


@pytest.mark.parametrize("reference", [None, "raw"])
def test_it_says_how_it_was_made(reference):
    how = {"reference": reference, "metrics": [label_log_loss]}
    table = evaluate_methods(METHODS, Y, confidence_level=0.8, **how)
    assert (table.reference, table.confidence_level) == (reference, 0.8)
    assert pickle.loads(pickle.dumps(table)) == table
    assert evaluate_methods(METHODS, Y, **how).confidence_level == 0.95


def test_without_pandas_the_error_names_the_extra(monkeypatch):
    table = evaluate_methods({"raw": DATA.prediction}, Y, metrics=[label_log_loss])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"sklearn-lhcal\[report\]"):
        table.to_frame()
    assert "label_log_loss" in str(table)


Z = DATA.prediction
FOUR = np.column_stack([Z, np.zeros(len(Z))])


@pytest.mark.parametrize(
    ("predictions", "y", "options", "message"),
    [
        ({"a": Z, "b": Z[:-1]}, Y, {}, "Method 'b': y has 200 samples, expected 199"),
        ({"a": Z, "b": FOUR}, Y, {}, "Method 'b': "),
        ({"a": Z, "b": FOUR}, Y.argmax(axis=1), {}, r"same classes.*'a': 3, 'b': 4"),
        ({"a": Z, "b": 2 * Z}, Y, {}, "Method 'b': .*sum"),
        ({"a": Z, "b": None}, Y, {}, "Method 'b': prediction is None"),
        ({"a": pd.DataFrame(Z, columns=list("xyz"))}, pd.DataFrame(Y, columns=list("xyw")), {},
         "Method 'a': "),
        ({"a": Z}, Y, {"groups": [1]}, "Method 'a': groups has 1"),
        (Z, Y, {}, "predictions must be a dict"),
        ({}, Y, {}, "predictions must be a dict"),
        ({"a": Z}, Y, {"reference": "c"}, r"reference='c' is none of the methods \['a'\]"),
        ({"a": Z}, Y, {"metrics": ["epistemic_loss"]}, "must be functions.*'epistemic_loss'"),
        ({"a": Z}, Y, {"metrics": [epistemic_loss, partial(epistemic_loss, bias_correction=None)]},
         "same name"),
        ({"a": Z}, Y, {"confidence_level": 2}, "confidence_level"),
        ({"a": Z}, Y, {"raters": "random"}, "Annotations"),
    ],
)  # fmt: skip
def test_errors_name_the_method(predictions, y, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        evaluate_methods(predictions, y, **options)


def test_rows_without_labels_are_left_out():
    votes = np.array([[0, 1, 1], [1, 0, 1], [2, 2, 0]] * 20)
    y = Annotations.from_matrix(votes)
    z = np.random.default_rng(0).dirichlet([1, 1, 1], 60)
    kept = y[10:]
    gaps = y.keep(y.row >= 10)
    assert gaps.has_gaps
    metrics = [expected_squared_loss, epistemic_loss]
    how = {"raters": "fixed", "groups": np.arange(60) // 5, "metrics": metrics}
    row = evaluate_methods({"a": z}, gaps, **how).intervals["a"]
    how["groups"] = how["groups"][10:]
    for metric, interval in evaluate_methods({"a": z[10:]}, kept, **how).intervals["a"].items():
        same(row[metric], interval)
