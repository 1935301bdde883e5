"""Scorers of epistemic uncertainty: wrappers, searches, references and names."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal.calibration import EpistemicCalibration
from sklearn_lhcal.datasets import make_random_checkerboard
from sklearn_lhcal.distributions import predict_dist
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.label_histogram import LabelHistogramClassifier
from sklearn_lhcal.metrics import (
    accuracy_gain,
    epistemic_calibration_error,
    epistemic_correlation,
    get_scorer,
)
from sklearn_lhcal.model_selection import BallCarvingSplit, cross_val_predict

FOREST = ExtraTreesClassifier(20, min_samples_leaf=2, random_state=0)
SPLIT = BallCarvingSplit(keep_fraction=(0, 0.1), n_splits=2, random_state=0)
NAMES = ["epistemic_correlation", "neg_epistemic_calibration_error"]


@pytest.fixture(scope="module")
def board():
    """X, labels, and predictions made with more data."""
    X, y = make_random_checkerboard(2000, n_rows=8, n_columns=8, cell_std=0.25, random_state=0)
    return X, y, cross_val_predict(FOREST, X, y, method="predict")


def score_by_hand(name, model, X, y, reference):
    g = accuracy_gain(y, model.predict(X), reference)
    e = predict_dist(model, X).mutual_information()
    return epistemic_correlation(g, e) if name == NAMES[0] else -epistemic_calibration_error(g, e)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda e: e,
        lambda e: make_pipeline(StandardScaler(), PCA(2), e),
        lambda e: GridSearchCV(e, {}, cv=2),
        LabelHistogramClassifier,
        lambda e: make_pipeline(StandardScaler(), GridSearchCV(e, {}, cv=2)),
    ],
    ids=["plain", "pipeline", "search", "histograms", "search in a pipeline"],
)
def test_scorers_see_through_wrappers(board, name, wrap):
    X, y, reference = board
    train, test = next(SPLIT.split(X))
    model = wrap(FOREST).fit(X[train], y[train])
    expected = pytest.approx(
        score_by_hand(name, model, X[test], y[test], reference[test]), rel=1e-12
    )
    for fitted in (model, FrozenEstimator(model)):
        assert (
            get_scorer(name)(fitted, X[test], y[test], reference_prediction=reference[test])
            == expected
        )


@pytest.mark.parametrize("name", NAMES)
def test_scorers_take_labels_and_histograms_by_name(board, name):
    X, y, reference = board
    names = np.array(["black", "white"])
    counts = np.eye(2, dtype=int)[y]
    train, test = next(SPLIT.split(X))
    scorer = get_scorer(name)
    expected = scorer(
        FOREST.fit(X[train], y[train]), X[test], y[test], reference_prediction=reference[test]
    )
    named = clone(FOREST).fit(X[train], names[y[train]])
    frame = pd.DataFrame(counts, columns=names)[names[::-1]]
    for labels in (names[y][test], frame.iloc[test], counts[test], y[test]):
        assert scorer(
            named, X[test], labels, reference_prediction=names[reference[test]]
        ) == pytest.approx(expected)
    plain = LabelHistogramClassifier(FOREST).fit(X[train], counts[train])
    assert scorer(
        plain, X[test], counts[test], reference_prediction=reference[test]
    ) == pytest.approx(expected)


@pytest.mark.parametrize("scoring", [*NAMES, NAMES])
@pytest.mark.parametrize("in_pipeline", [False, True])
def test_searches_route_the_reference(board, scoring, in_pipeline):
    X, y, reference = board
    model = make_pipeline(StandardScaler(), PCA(2), FOREST) if in_pipeline else FOREST
    key = "extratreesclassifier__min_samples_leaf" if in_pipeline else "min_samples_leaf"
    refit = NAMES[0] if isinstance(scoring, list) else True
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            model, {key: [2, 60]}, scoring=scoring, refit=refit, cv=SPLIT, error_score="raise"
        )
        search.fit(X, y, reference_prediction=reference)
    for name in NAMES if isinstance(scoring, list) else [scoring]:
        suffix = name if isinstance(scoring, list) else "score"
        for c, leaf in enumerate((2, 60)):
            expected = []
            for train, test in SPLIT.split(X):
                fitted = clone(model).set_params(**{key: leaf}).fit(X[train], y[train])
                expected.append(score_by_hand(name, fitted, X[test], y[test], reference[test]))
            got = [search.cv_results_[f"split{i}_test_{suffix}"][c] for i in range(2)]
            assert_allclose(got, expected, rtol=1e-12)


def test_cross_validation_routes_the_reference_beside_other_scorers(board):
    X, y, reference = board
    scoring = [*NAMES, "expected_accuracy", "accuracy"]
    with sklearn.config_context(enable_metadata_routing=True):
        results = cross_validate(
            FOREST,
            X,
            y,
            scoring=scoring,
            cv=SPLIT,
            params={"reference_prediction": reference},
            error_score="raise",
        )
    for i, (train, test) in enumerate(SPLIT.split(X)):
        fitted = clone(FOREST).fit(X[train], y[train])
        for name in NAMES:
            expected = score_by_hand(name, fitted, X[test], y[test], reference[test])
            assert results[f"test_{name}"][i] == pytest.approx(expected, rel=1e-9)
    assert_allclose(results["test_expected_accuracy"], results["test_accuracy"])


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_gaussian_processes_are_searched(board, in_pipeline):
    X, y, reference = (a[:600] for a in board)
    gp = SparseGPClassifier(
        n_inducing=30, optimize_hyperparameters=False, lengthscale=1.0, random_state=0
    )
    model = make_pipeline(StandardScaler(), PCA(2), gp) if in_pipeline else gp
    grid = {"sparsegpclassifier__kernel" if in_pipeline else "kernel": ["rbf", "matern12"]}
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(model, grid, scoring=NAMES[0], cv=SPLIT, error_score="raise")
        search.fit(X, y, reference_prediction=reference)
    assert len(set(search.cv_results_["mean_test_score"])) == 2
    train, test = next(SPLIT.split(X))
    calibrated = EpistemicCalibration(search.best_estimator_, n_bins=5, splitter=SPLIT).fit(
        X[train], y[train]
    )
    score = get_scorer(NAMES[0])(calibrated, X[test], y[test], reference_prediction=reference[test])
    gain = accuracy_gain(y[test], calibrated.predict(X[test]), reference[test])
    assert score == epistemic_correlation(gain, calibrated.predict_epistemic(X[test]))


def test_without_a_reference_the_error_says_what_to_do(board):
    X, y, _ = board
    with pytest.raises(
        ValueError, match=r"need reference_prediction.*enable_metadata_routing=True"
    ):
        GridSearchCV(FOREST, {}, scoring=NAMES[0], cv=SPLIT, error_score="raise").fit(X, y)
    with (
        sklearn.config_context(enable_metadata_routing=True),
        pytest.raises(UnsetMetadataPassedError, match="sample_weight"),
    ):
        cross_validate(
            FOREST, X, y, scoring=NAMES[0], cv=SPLIT, params={"sample_weight": np.ones(len(X))}
        )


def test_rows_in_another_order_are_refused(board):
    X, y, reference = (a[:200] for a in board)
    model = clone(FOREST).fit(X, y)
    with pytest.raises(ValueError, match="same samples in another order"):
        get_scorer(NAMES[0])(
            model, X, pd.Series(y), reference_prediction=pd.Series(reference)[::-1]
        )


def test_a_callable_does_without_routing(board):
    """As the guide says: the reference as a Series that shares the index of X."""
    X, y, reference = board
    frame = pd.DataFrame(X)
    series = pd.Series(reference, index=frame.index)

    def score(estimator, X, y):
        return get_scorer(NAMES[0])(estimator, X, y, reference_prediction=series.loc[X.index])

    scores = cross_validate(FOREST, frame, y, scoring=score, cv=SPLIT, error_score="raise")[
        "test_score"
    ]
    with sklearn.config_context(enable_metadata_routing=True):
        routed = cross_validate(
            FOREST, frame, y, scoring=NAMES[0], cv=SPLIT, params={"reference_prediction": reference}
        )["test_score"]
    assert_allclose(scores, routed)


def test_scorers_pickle_and_clone():
    for name in NAMES:
        assert pickle.loads(pickle.dumps(get_scorer(name))).metric is get_scorer(name).metric
        assert clone(get_scorer(name)).sign == get_scorer(name).sign
