"""P3's evaluation in one call, against the steps that it takes."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

from sklearn_lhcal.calibration import EpistemicCalibration
from sklearn_lhcal.datasets import make_random_checkerboard
from sklearn_lhcal.distributions import predict_dist
from sklearn_lhcal.label_histogram import LabelHistogramClassifier
from sklearn_lhcal.metrics import (
    accuracy_gain,
    epistemic_calibration_error,
    epistemic_correlation,
    interval_over_splits,
    null_epistemic_error,
)
from sklearn_lhcal.model_selection import BallCarvingSplit, cross_val_predict, evaluate_epistemic

FOREST = ExtraTreesClassifier(10, min_samples_leaf=3, random_state=0)
CARVE = BallCarvingSplit(keep_fraction=(0, 0.1), n_splits=2, random_state=0)
X, Y = make_random_checkerboard(1200, n_rows=6, n_columns=6, cell_std=0.25, random_state=1)


def by_hand(uncertainty, calibration=None):
    """gain, estimate and calibrated estimate of each split."""
    for train, test in CARVE.split(X, Y):
        augmented = np.setdiff1d(np.arange(len(X)), test)
        f_tr = clone(FOREST).fit(X[train], Y[train])
        f_aug = clone(FOREST).fit(X[augmented], Y[augmented])
        g = accuracy_gain(Y[test], f_tr.predict(X[test]), f_aug.predict(X[test]))
        e = getattr(predict_dist(f_tr, X[test]), uncertainty)()
        after = e
        if calibration is not None:
            after = clone(calibration).fit(X[train], Y[train]).predict_epistemic(X[test])
        yield g, e, after


@pytest.mark.parametrize("uncertainty", ["mutual_information", "entropy"])
def test_columns_are_those_steps(uncertainty):
    calibration = EpistemicCalibration(FOREST, uncertainty=uncertainty, splitter=CARVE)
    found = evaluate_epistemic({"f": calibration}, X, Y, CARVE, n_bins=5, random_state=0)
    row = found.intervals["f"]
    steps = list(by_hand(uncertainty, calibration))
    expected = {
        "mean_gain": [g.mean() for g, _, _ in steps],
        "epistemic_correlation": [epistemic_correlation(g, e) for g, e, _ in steps],
        "epistemic_calibration_error": [
            epistemic_calibration_error(g, e, n_bins=5) for g, e, _ in steps
        ],
        "calibrated_error": [
            epistemic_calibration_error(g, a, n_bins=5, bins_of=e) for g, e, a in steps
        ],
    }
    splits = list(CARVE.split(X, Y))
    share = np.mean([len(b) / (len(a) + len(b)) for a, b in splits])
    for column, values in expected.items():
        interval = interval_over_splits(values, test_fraction=share)
        assert tuple(row[column]) == pytest.approx(tuple(interval), rel=1e-9), column
    noise = [
        null_epistemic_error(g, a, n_bins=5, bins_of=e, random_state=0).mean for g, e, a in steps
    ]
    assert row["noise_level"].estimate == pytest.approx(np.mean(noise), rel=1e-9)
    assert row["n_bins"].estimate == 5


def test_calibrated_error_and_map_of_the_paper_have_one_partition():
    """That of the uncalibrated estimates at the test samples, P3 §5.2; and so has the scorer."""
    calibration = EpistemicCalibration(FOREST, splitter=CARVE, method="paper", n_bins=8)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The fitted gain is flat")
        row = evaluate_epistemic({"f": calibration}, X, Y, CARVE, n_bins=8).intervals["f"]
        scorer = CARVE.scorer(X, Y)
        scores = cross_validate(calibration, X, Y, scoring=scorer, cv=CARVE)["test_score"]
        errors, scores_by_hand = [], []
        for train, test in CARVE.split(X, Y):
            f_tr = clone(calibration).fit(X[train], Y[train])
            e = f_tr.predict_uncalibrated(X[test])
            inner = np.unique(np.quantile(e, np.linspace(0, 1, 9)))[1:-1]
            carved, test_bins = (
                np.searchsorted(inner, a, side="right") for a in (f_tr.carved_uncertainty_, e)
            )
            mean = [f_tr.carved_gain_[carved == m].mean() for m in carved]
            gamma = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
            c = gamma.fit(f_tr.carved_uncertainty_, mean).predict(e)
            augmented = np.setdiff1d(np.arange(len(X)), test)
            more = clone(FOREST).fit(X[augmented], Y[augmented]).predict(X[test])
            g = accuracy_gain(Y[test], f_tr.predict(X[test]), more)
            errors.append(np.abs(np.bincount(test_bins, g - c)).sum() / len(g))
            scores_by_hand.append(-epistemic_calibration_error(g, c, bins_of=e))
    assert row["calibrated_error"].estimate == pytest.approx(np.mean(errors), rel=1e-9)
    assert scores == pytest.approx(scores_by_hand, rel=1e-9)


def test_quantiles_that_fall_together_are_merged_and_counted():
    """A tree's entropies take few values."""
    tree = EpistemicCalibration(
        DecisionTreeClassifier(max_leaf_nodes=3, random_state=0), uncertainty="entropy"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row = evaluate_epistemic({"tree": tree}, X, Y, CARVE).intervals["tree"]
    assert 1 <= row["n_bins"].estimate <= 3


def test_a_classifier_alone_has_no_calibrated_error():
    row = evaluate_epistemic({"f": FOREST}, X, Y, CARVE).intervals["f"]
    steps = list(by_hand("mutual_information"))
    rho = np.mean([epistemic_correlation(g, e) for g, e, _ in steps])
    assert row["epistemic_correlation"].estimate == pytest.approx(rho, rel=1e-9)
    assert np.isnan(row["calibrated_error"]).all()
    assert 0 < row["noise_level"].estimate < 0.2


def test_the_reference_has_seen_all_carved_rows():
    """One out-of-fold reference saw four fifths of them, and is no f_aug: its gain differs."""
    reference = cross_val_predict(FOREST, X, Y, method="predict")
    gains = []
    for train, test in CARVE.split(X, Y):
        f_tr = clone(FOREST).fit(X[train], Y[train])
        gains.append(accuracy_gain(Y[test], f_tr.predict(X[test]), reference[test]).mean())
    row = evaluate_epistemic({"f": FOREST}, X, Y, CARVE).intervals["f"]
    assert row["mean_gain"].estimate != pytest.approx(np.mean(gains), abs=1e-6)


FORMS = {
    "array": lambda X: X,
    "frame": pd.DataFrame,
    "sparse": csr_array,
    "Fortran": np.asfortranarray,
    "list": lambda X: X.tolist(),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("routing", [False, True])
def test_a_search_with_the_splitters_scorer_gives_the_same_numbers(form, routing):
    """With f_aug of each candidate and split, and with or without metadata routing."""
    columns = {
        "epistemic_correlation": "epistemic_correlation",
        "neg_epistemic_calibration_error": "epistemic_calibration_error",
    }
    candidates = {str(m): clone(FOREST).set_params(min_samples_leaf=m) for m in (3, 60)}
    table = evaluate_epistemic(candidates, X, Y, CARVE).intervals
    rows = FORMS[form](X)
    scoring = {name: CARVE.scorer(rows, Y, name) for name in columns}
    grid = {"min_samples_leaf": [3, 60]}
    with sklearn.config_context(enable_metadata_routing=routing):
        search = GridSearchCV(FOREST, grid, scoring=scoring, cv=CARVE, refit=False).fit(rows, Y)
    for name, column in columns.items():
        scores = np.abs(search.cv_results_[f"mean_test_{name}"])
        assert scores == pytest.approx([table[c][column].estimate for c in candidates], rel=1e-9)


def test_the_splitters_scorer_takes_histograms_and_calibrators_and_pickles():
    counts = np.eye(2, dtype=int)[Y]
    forest = LabelHistogramClassifier(FOREST)
    for model in (forest, EpistemicCalibration(forest, splitter=CARVE)):
        scorer = pickle.loads(pickle.dumps(CARVE.scorer(X, counts)))
        found = cross_validate(model, X, counts, scoring=scorer, cv=CARVE, error_score="raise")
        row = evaluate_epistemic({"f": model}, X, counts, CARVE).intervals["f"]
        calibrated = hasattr(model, "splitter")
        column = "calibrated_error" if calibrated else "epistemic_calibration_error"
        assert -found["test_score"].mean() == pytest.approx(row[column].estimate, rel=1e-9)


@pytest.mark.parametrize(
    ("change", "scoring", "message"),
    [
        ({"random_state": None}, "epistemic_correlation", "random_state must be an int, got None"),
        ({}, "accuracy", "scoring must be 'neg_epistemic_calibration_error' or"),
    ],
)
def test_errors_of_the_splitters_scorer(change, scoring, message):
    with pytest.raises(ValueError, match=message):
        clone(CARVE).set_params(**change).scorer(X, Y, scoring)


def test_rows_that_were_not_carved_have_no_score():
    scorer = CARVE.scorer(X, Y)
    for options in ({"cv": KFold(2)}, {"cv": CARVE, "return_train_score": True}):
        with pytest.raises(
            ValueError, match="not the test samples of one of the splitter's splits"
        ):
            cross_validate(FOREST, X, Y, scoring=scorer, error_score="raise", **options)


def test_names_and_histograms_of_the_classes_do_not_matter():
    expected = evaluate_epistemic({"f": FOREST}, X, Y, CARVE, random_state=0).intervals["f"]
    counts = np.eye(2, dtype=int)[Y]
    for y in (np.array(["black", "white"])[Y], counts, Y.tolist()):
        row = evaluate_epistemic({"f": FOREST}, X, y, CARVE, random_state=0).intervals["f"]
        for column in ("mean_gain", "epistemic_correlation", "noise_level"):
            assert tuple(row[column]) == pytest.approx(tuple(expected[column]), rel=1e-9)


def test_images_are_carved_where_their_features_lie():
    images = np.zeros((len(X), 1, 2, 2), dtype=np.float32)
    images[:, 0, 0] = X
    flat = FunctionTransformer(lambda A: A[:, 0, 0].astype(np.float64))
    carve = clone(CARVE).set_params(features=flat)
    pipeline = make_pipeline(flat, FOREST)
    row = evaluate_epistemic({"f": pipeline}, images, Y, carve, random_state=0).intervals["f"]
    there = X.astype(np.float32).astype(np.float64)
    same = evaluate_epistemic({"f": FOREST}, there, Y, CARVE, random_state=0).intervals["f"]
    assert tuple(row["mean_gain"]) == tuple(same["mean_gain"])
    with pytest.raises(ValueError, match=r"BallCarvingSplit\(features=LayerFeatures"):
        evaluate_epistemic({"f": pipeline}, images, Y, CARVE)


def test_one_carving_has_no_interval():
    row = evaluate_epistemic({"f": FOREST}, X, Y, BallCarvingSplit(random_state=0)).intervals["f"]
    assert np.isfinite(row["mean_gain"].estimate)
    assert np.isnan([row["mean_gain"].low, row["mean_gain"].high]).all()


def test_what_is_undefined_is_nan():
    """A classifier that gains nothing has no correlation, and says so."""
    with pytest.warns(UndefinedMetricWarning, match="all .* gains are 0"):
        row = evaluate_epistemic({"d": DummyClassifier()}, X, Y, CARVE).intervals["d"]
    assert np.isnan(row["epistemic_correlation"]).all()
    # splits that are alike tell no spread
    assert row["mean_gain"].estimate == 0
    assert np.isnan(row["mean_gain"][1:]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"estimators": FOREST}, "estimators must be a dict"),
        ({"estimators": {}}, "must be a dict of names and classifiers"),
        ({"estimators": {"f": LinearRegression()}}, "must be a dict of names and classifiers"),
        ({"splitter": KFold(3)}, "Split 0 leaves no sample out of training and test"),
        ({"splitter": 3}, "Split 0 leaves no sample out of training and test"),
        ({"splitter": CARVE.set_params(), "y": Y[:-1]}, "X has 1200 samples, expected 1199"),
        ({"n_bins": 0}, "n_bins must be an int"),
        ({"confidence_level": 1.5}, "confidence_level"),
        ({"splitter": BallCarvingSplit(centers=[[99.0, 0.0]], radius=1.0)}, "outside the data"),
        ({"splitter": [(np.arange(9), np.arange(9, 20))], "y": np.r_[[0] * 9, Y[9:]]},
         "No label of class"),
    ],
)  # fmt: skip
def test_errors(change, message):
    arguments = {"estimators": {"f": FOREST}, "X": X, "y": Y, "splitter": CARVE} | change
    with pytest.raises(ValueError, match=message):
        evaluate_epistemic(**arguments)
