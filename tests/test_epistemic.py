"""Epistemic uncertainty: gain, its metrics and scorers, and the calibration of estimates."""

import pickle
from itertools import product

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest, multinomial, spearmanr
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.exceptions import UndefinedMetricWarning, UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal.calibration import EpistemicCalibration, PrecomputedClassifier
from sklearn_lhcal.datasets import make_random_checkerboard
from sklearn_lhcal.distributions import predict_dist
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.label_histogram import KnownProbabilities, LabelHistogramClassifier
from sklearn_lhcal.metrics import (
    accuracy_gain,
    epistemic_calibration_error,
    epistemic_correlation,
    expected_accuracy,
    get_scorer,
    null_epistemic_error,
)
from sklearn_lhcal.model_selection import BallCarvingSplit, cross_val_predict

RNG = np.random.default_rng(0)


# --------------------------------------------------------------------------------------------------
# ----------- gain


def all_counts(n, K):
    return np.array([c for c in product(range(n + 1), repeat=K) if sum(c) == n])


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_gains_expectation_is_the_epistemic_uncertainty(n):
    """By enumeration of all label histograms; the variance falls as 1/n."""
    Q = np.array([0.5, 0.3, 0.2])
    counts = all_counts(n, 3)
    p = multinomial.pmf(counts, n, Q)
    for pred, best in product(range(3), range(3)):
        g = accuracy_gain(counts, np.full(len(p), pred), np.full(len(p), best))
        assert p @ g == pytest.approx(Q[best] - Q[pred], abs=1e-12)
        one_label = Q[best] + Q[pred] - (Q[best] - Q[pred]) ** 2 if best != pred else 0
        assert p @ g**2 - (p @ g) ** 2 == pytest.approx(one_label / n, abs=1e-12)


def test_the_gain_of_labels_is_that_of_the_definition():
    y, pred, best = (np.array(a) for a in zip(*product("abc", repeat=3), strict=True))
    expected = (best == y).astype(int) - (pred == y)
    assert_array_equal(accuracy_gain(y, pred, best), expected)
    numbers = {"a": 3, "b": 5, "c": 9}
    y, pred, best = (np.array([numbers[v] for v in a]) for a in (y, pred, best))
    assert_array_equal(accuracy_gain(y, pred, best), expected)
    assert_array_equal(accuracy_gain(pd.Series(y), pred.tolist(), best.astype(float)), expected)


def test_the_gain_of_histograms():
    counts = RNG.multinomial(4, [0.5, 0.3, 0.2], size=50)
    pred, best = RNG.integers(0, 3, (2, 50))
    g, eye = accuracy_gain(counts, pred, best), np.eye(3)
    assert g.mean() == pytest.approx(
        expected_accuracy(counts, eye[best]) - expected_accuracy(counts, eye[pred])
    )
    names, order = np.array(["u", "v", "w"]), [2, 0, 1]
    frame = pd.DataFrame(counts, columns=names)
    assert_allclose(accuracy_gain(frame, names[pred], names[best]), g)
    assert_allclose(accuracy_gain(frame[names[order]], names[pred], names[best]), g)
    assert_allclose(
        accuracy_gain(counts[:, order], names[pred], names[best], classes=names[order]), g
    )
    assert_allclose(accuracy_gain(KnownProbabilities(counts / 4), pred, best), g)
    rows = RNG.permutation(50)
    assert_allclose(accuracy_gain(counts[rows], pred[rows], best[rows]), g[rows])
    assert_allclose(accuracy_gain(counts, best, pred), -g)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a", "b"], ["a"], ["a", "b"]), "y_pred has 1 rows, expected 2"),
        ((["a", "b"], ["a", "b"], [0, 1]), "must hold the same classes"),
        (
            ([[1, 0], [0, 1]], [0, 2], [0, 1]),
            "y_pred predicts .*2.* in row 1, which is none of the classes",
        ),
        (([[1, 0], [0, 1]], [0, 1], ["a", "b"]), "y_reference predicts .*'a'.* in row 0"),
        (
            ([[1, 0], [0, 1]], [[0.5, 0.5], [1, 0]], [0, 1]),
            "one predicted class per row, got shape",
        ),
        (([[1, 0], [0, 0]], [0, 1], [0, 1]), "without labels"),
    ],
)
def test_errors_of_the_gain(arguments, message):
    with pytest.raises(ValueError, match=message):
        accuracy_gain(*arguments)


# ----------------------------------------------------------------------------------------------
# calibration error


def draw(e, seed, disagree=0.3, raters=1):
    """Gains with expectation e: predictions disagree with probability max(e, disagree)."""
    rng = np.random.default_rng([seed, 1])
    d = np.maximum(e, disagree)
    up = rng.binomial(raters, (1 + e / d) / 2)
    return np.where(rng.uniform(size=len(e)) < d, 2 * up / raters - 1, 0.0)


def by_hand(g, e, n_bins, corrected=False):
    edges = np.quantile(e, np.linspace(0, 1, n_bins + 1))
    total = 0.0
    for m in range(n_bins):
        B = (e >= edges[m]) & ((e < edges[m + 1]) | (m == n_bins - 1))
        r = (g - e)[B]
        value = abs(r.mean()) if not corrected else r.mean() ** 2 - r.var(ddof=1) / len(r)
        total += len(r) / len(g) * value
    return total


def test_the_error_is_that_of_the_definition():
    e = RNG.uniform(0, 0.5, 200)
    g = draw(e, 0)
    for n_bins in (1, 5, 20):
        assert epistemic_calibration_error(g, e, n_bins=n_bins) == pytest.approx(
            by_hand(g, e, n_bins)
        )
        corrected = epistemic_calibration_error(g, e, n_bins=n_bins, bias_correction="residual")
        assert corrected == pytest.approx(by_hand(g, e, n_bins, corrected=True))
    assert epistemic_calibration_error(g, e, n_bins=1) == pytest.approx(abs(g.mean() - e.mean()))
    rows = RNG.permutation(200)
    assert epistemic_calibration_error(g[rows], e[rows]) == pytest.approx(
        epistemic_calibration_error(g, e)
    )
    assert epistemic_calibration_error(g, e, n_bins=[0, 0.2, 0.5]) == pytest.approx(
        np.mean(e < 0.2) * abs((g - e)[e < 0.2].mean())
        + np.mean(e >= 0.2) * abs((g - e)[e >= 0.2].mean())
    )
    uniform = epistemic_calibration_error(
        g, e, n_bins=2, strategy="uniform"
    )  # all in the lower half of [0, 1]
    assert uniform == pytest.approx(abs(g.mean() - e.mean()))


def test_a_calibrated_estimate_tends_to_zero():
    errors = []
    for n in (500, 50_000):
        e = np.random.default_rng(n).uniform(0, 0.5, n)
        errors.append(np.mean([epistemic_calibration_error(draw(e, s), e) for s in range(20)]))
    assert errors[1] == pytest.approx(errors[0] / 10, rel=0.1)


@pytest.mark.parametrize("raters", [1, 5])
def test_the_corrected_error_of_a_calibrated_estimate_has_mean_zero(raters):
    e = np.random.default_rng(0).uniform(0, 0.5, 60)
    values = np.array(
        [
            epistemic_calibration_error(draw(e, s, raters=raters), e, bias_correction="residual")
            for s in range(4000)
        ]
    )
    se = values.std() / np.sqrt(len(values))
    assert abs(values.mean()) < 4 * se
    plain = np.mean(
        [epistemic_calibration_error(draw(e, s, raters=raters), e) ** 2 for s in range(200)]
    )
    assert plain > 50 * se  # which the floor of the plain one is far above


def test_the_corrected_error_measures_miscalibration():
    e = np.random.default_rng(0).uniform(0, 0.3, 200)
    values = np.array(
        [
            epistemic_calibration_error(draw(e, s), e + 0.1, bias_correction="residual")
            for s in range(1000)
        ]
    )
    assert abs(values.mean() - 0.01) < 4 * values.std() / np.sqrt(1000)


def test_the_correlation_is_spearmans():
    e = RNG.uniform(0, 0.5, 300)
    g = draw(e, 1)
    assert epistemic_correlation(g, e) == pytest.approx(spearmanr(g, e).statistic, abs=1e-12)
    assert epistemic_correlation(g, e.round(1)) == pytest.approx(
        spearmanr(g, e.round(1)).statistic, abs=1e-12
    )
    assert epistemic_correlation(g, np.exp(3 * e)) == pytest.approx(
        epistemic_correlation(g, e), abs=1e-12
    )
    with pytest.warns(UndefinedMetricWarning, match="all gains are equal"):
        assert np.isnan(epistemic_correlation(np.zeros(5), np.arange(5)))
    with pytest.warns(UndefinedMetricWarning, match="all estimates are equal"):
        assert np.isnan(epistemic_correlation(np.array([0, 1, 0, -1]), np.ones(4)))


@pytest.mark.parametrize(
    "metric", [epistemic_calibration_error, epistemic_correlation, null_epistemic_error]
)
@pytest.mark.parametrize(
    ("g", "e", "message"),
    [
        ([], [], "a row at least"),
        ([[0.0]], [[0.1]], "gain must have shape"),
        ([0, 1], [0.1], "one estimate per row"),
        ([0, 2], [0.1, 0.2], "between -1 and 1"),
        ([0, np.nan], [0.1, 0.2], "between -1 and 1"),
        ([0, 1], [0.1, -0.2], "not negative"),
        ([0, 1], [0.1, np.inf], "finite"),
    ],
)
def test_errors_of_the_metrics(metric, g, e, message):
    with pytest.raises(ValueError, match=message):
        metric(g, e)


# --------------------------------------------------------------------------------------------------
# ------ null level


@pytest.mark.parametrize(("disagree", "raters"), [(0.3, 1), (0.3, 4), (0.0, 1)])
def test_p_values_are_uniform_under_calibration(disagree, raters):
    p, error, mean = [], [], []
    for seed in range(300):
        e = np.random.default_rng(seed).uniform(0, 0.25, 600)
        null = null_epistemic_error(
            draw(e, seed, disagree, raters), e, n_bins=6, n_draws=99, random_state=seed
        )
        p.append(null.p_value)
        error.append(null.estimate)
        mean.append(null.mean)
    assert kstest(p, "uniform").pvalue > 1e-3
    assert abs(np.mean(mean) - np.mean(error)) < 4 * np.std(error) / np.sqrt(300)


def test_the_null_level_of_a_study_of_usual_size():
    """5,000 rows and 20 bins: noise alone scores about .02."""
    e = np.random.default_rng(0).uniform(0, 0.25, 5000)
    null = null_epistemic_error(draw(e, 0, disagree=0.2), e, n_draws=200, random_state=0)
    assert 0.01 < null.quantiles[0] < null.quantiles[1] < null.quantiles[2] < 0.03
    assert null.quantiles[0] < null.mean < null.quantiles[2]
    assert null_epistemic_error(draw(e, 0), e + 0.1, n_draws=200, random_state=0).p_value == 1 / 201
    again = null_epistemic_error(draw(e, 0, disagree=0.2), e, n_draws=200, random_state=0)
    assert_array_equal(again.quantiles, null.quantiles)


def test_errors_of_the_null_level():
    with pytest.raises(ValueError, match=r"No gain exceeds 1, but the estimate reaches 1\.2"):
        null_epistemic_error([0, 1], [0.1, 1.2])
    with pytest.raises(ValueError, match="n_draws must be an int"):
        null_epistemic_error([0, 1], [0.1, 0.2], n_draws=0)


# --------------------------------------------------------------------------------------------------
# --------- scorers

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


# --------------------------------------------------------------------------------------------------
# ----- calibration


def test_the_map_is_that_of_the_paper(board):
    X, y, _ = board
    model = EpistemicCalibration(FOREST, splitter=SPLIT, n_bins=10).fit(X, y)
    train, augmented, test = SPLIT.split_augmented(X)
    less, more = (
        clone(FOREST).fit(X[train], y[train]),
        clone(FOREST).fit(X[augmented], y[augmented]),
    )
    e = predict_dist(less, X[test]).mutual_information()
    g = accuracy_gain(y[test], less.predict(X[test]), more.predict(X[test]))
    assert_allclose(model.carved_uncertainty_, e)
    assert_array_equal(model.carved_gain_, g)
    bins = np.searchsorted(np.unique(np.quantile(e, np.linspace(0, 1, 11)))[1:-1], e, side="right")
    means = np.array([g[bins == m].mean() for m in range(bins.max() + 1)])
    gamma = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(e, means[bins])
    everything = clone(FOREST).fit(X, y)
    new = RNG.uniform(-5, 15, (500, 2))
    expected = gamma.predict(predict_dist(everything, new).mutual_information())
    assert_allclose(model.predict_epistemic(new), expected)
    assert 0 <= expected.min() < expected.max() <= 1


def test_everything_else_is_passed_through(board):
    X, y, _ = board
    names = np.array(["black", "white"])
    model = EpistemicCalibration(FOREST).fit(X, names[y])
    alone = clone(FOREST).fit(X, names[y])
    assert_array_equal(model.predict(X), alone.predict(X))
    assert_array_equal(model.predict_proba(X), alone.predict_proba(X))
    assert_array_equal(model.predict_log_proba(X), alone.predict_log_proba(X))
    assert_allclose(model.predict_dist(X).mean(), model.predict_proba(X), atol=1e-12)
    assert_array_equal(
        predict_dist(model, X).mutual_information(), predict_dist(alone, X).mutual_information()
    )
    assert model.score(X, names[y]) == alone.score(X, names[y])
    assert not hasattr(model, "decision_function")
    linear = EpistemicCalibration(LogisticRegression(), uncertainty="entropy").fit(X, y)
    assert_array_equal(
        linear.decision_function(X), LogisticRegression().fit(X, y).decision_function(X)
    )
    assert not hasattr(linear, "sample_proba")
    assert_array_equal(
        pickle.loads(pickle.dumps(model)).predict_epistemic(X), model.predict_epistemic(X)
    )


def test_calibration_helps_elsewhere(board):
    """Calibrated within the training data.

    The estimate is nearer to the gain in balls that it has not seen.
    """
    X, y, reference = board
    for measure in ("mutual_information", "entropy"):
        before, after = [], []
        for train, test in BallCarvingSplit(
            keep_fraction=(0, 0.1), n_splits=3, random_state=5
        ).split(X):
            model = EpistemicCalibration(FOREST, uncertainty=measure, splitter=SPLIT).fit(
                X[train], y[train]
            )
            g = accuracy_gain(y[test], model.predict(X[test]), reference[test])
            e = getattr(model.predict_dist(X[test]), measure)()
            before.append(epistemic_calibration_error(g, e, n_bins=5))
            after.append(epistemic_calibration_error(g, model.predict_epistemic(X[test]), n_bins=5))
            score = get_scorer(NAMES[1])(
                model, X[test], y[test], reference_prediction=reference[test]
            )
            assert score == -epistemic_calibration_error(g, model.predict_epistemic(X[test]))
        assert np.mean(after) < 0.85 * np.mean(before)


def test_histograms_frames_and_names(board):
    X, y, _ = board
    counts = np.eye(2, dtype=int)[y]
    expected = EpistemicCalibration(FOREST).fit(X, y).predict_epistemic(X)
    frame = pd.DataFrame(counts[:, ::-1], columns=["white", "black"])
    for labels in (counts, frame, np.array(["black", "white"])[y]):
        model = EpistemicCalibration(LabelHistogramClassifier(FOREST)).fit(X, labels)
        assert_allclose(model.predict_epistemic(X), expected)
    assert model.predict(X).dtype.kind == "U"


def test_weights_reach_classifier_and_map(board):
    X, y, _ = board
    w = RNG.integers(1, 4, len(X)).astype(float)
    model = EpistemicCalibration(FOREST).fit(X, y, sample_weight=w)
    assert_array_equal(model.predict_proba(X), clone(FOREST).fit(X, y, w).predict_proba(X))
    assert (
        np.abs(
            model.predict_epistemic(X) - EpistemicCalibration(FOREST).fit(X, y).predict_epistemic(X)
        ).max()
        > 0.01
    )
    with sklearn.config_context(enable_metadata_routing=True):
        inner = clone(FOREST).set_fit_request(sample_weight=True)
        routed = EpistemicCalibration(inner).fit(X, y, sample_weight=w)
        unweighted = EpistemicCalibration(clone(FOREST).set_fit_request(sample_weight=False)).fit(
            X, y, sample_weight=w
        )
    assert_array_equal(routed.predict_epistemic(X), model.predict_epistemic(X))
    assert_array_equal(unweighted.predict_proba(X), clone(FOREST).fit(X, y).predict_proba(X))


def distance(model, X):
    """An estimate of epistemic uncertainty of no use."""
    return np.abs(X).sum(axis=1)


def test_a_callable_estimate_and_other_classifiers(board):
    X, y, _ = board
    model = EpistemicCalibration(GaussianNB(), uncertainty=distance).fit(X, y)
    assert_allclose(model.predict_epistemic(X), model.isotonic_.predict(distance(None, X)))
    for bad in (lambda model, X: X, lambda model, X: np.full(len(X), -1.0)):
        with pytest.raises(ValueError, match="one finite number per row"):
            EpistemicCalibration(GaussianNB(), uncertainty=bad).fit(X, y)


def test_it_lives_in_pipelines_and_searches(board):
    X, y, reference = board
    model = make_pipeline(
        StandardScaler(), EpistemicCalibration(FOREST, splitter=BallCarvingSplit(random_state=0))
    )
    grid = {
        "epistemiccalibration__uncertainty": ["mutual_information", "entropy"],
        "epistemiccalibration__splitter__n_balls": [6, 12],
        "epistemiccalibration__estimator__min_samples_leaf": [2],
    }
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(model, grid, scoring=NAMES[1], cv=SPLIT, error_score="raise")
        search.fit(X, y, reference_prediction=reference)
    scores = search.cv_results_["mean_test_score"]
    assert len(set(scores)) == 4
    assert scores.min() > -0.2


class Recorder(ClassifierMixin, BaseEstimator):
    """Keeps the fit parameter that it was given."""

    def fit(self, X, y, tag=None):
        self.classes_, self.tag_ = np.unique(y), tag
        assert len(tag) == len(X)
        assert_array_equal(tag, X[:, 0])
        return self

    def predict(self, X):
        return self.classes_[(X[:, 0] > 5).astype(int)]

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


def test_fit_parameters_are_split_row_by_row(board):
    X, y, _ = board
    EpistemicCalibration(Recorder(), uncertainty=distance).fit(X, y, tag=X[:, 0])


def test_too_few_rows_give_the_identity_and_a_warning(board):
    X, y, _ = board
    with pytest.warns(UserWarning, match=r"\d+ carved rows are too few for 20 bins: .* as it is"):
        model = EpistemicCalibration(FOREST).fit(X[:100], y[:100])
    assert model.isotonic_ is None
    assert_array_equal(model.predict_epistemic(X), model.predict_dist(X).mutual_information())
    with pytest.warns(UserWarning, match="0 carved rows are too few"):
        EpistemicCalibration(FOREST).fit(X[:10], y[:10])


def test_point_predictions_have_no_mutual_information(board):
    X, y, _ = board
    with pytest.warns(
        UserWarning, match='The estimate is 0 for all carved rows.*uncertainty="entropy"'
    ):
        model = EpistemicCalibration(GaussianNB()).fit(X, y)
    assert np.ptp(model.predict_epistemic(X)) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"estimator": FrozenEstimator(GaussianNB())}, "FrozenEstimator cannot be fitted anew"),
        (
            {"estimator": make_pipeline(StandardScaler(), FrozenEstimator(GaussianNB()))},
            "cannot be fitted anew",
        ),
        ({"estimator": PrecomputedClassifier()}, "PrecomputedClassifier cannot be fitted anew"),
        (
            {"estimator": "proba"},
            "estimator must be a classifier with fit and predict, got 'proba'",
        ),
        ({"estimator": StandardScaler()}, "must be a classifier with fit and predict"),
        ({"uncertainty": "variance"}, "uncertainty must be one of"),
        ({"splitter": BallCarvingSplit(n_balls=0)}, "n_balls must be an int of at least 1"),
    ],
)
def test_errors_of_the_calibration(board, change, message):
    X, y, _ = board
    with pytest.raises(ValueError, match=message):
        EpistemicCalibration(**{"estimator": GaussianNB()} | change).fit(X, y)


def test_a_class_that_only_the_balls_hold_is_named():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.uniform(size=(300, 2)), 5 + 0.01 * rng.uniform(size=(100, 2))])
    y = np.repeat(["common", "rare"], [300, 100])
    splitter = BallCarvingSplit(0.1, 1, keep_fraction=0.0, random_state=0)
    with pytest.raises(
        ValueError, match=r"No label of class \['rare'\] in the rows beside the balls.*splitter"
    ):
        EpistemicCalibration(GaussianNB(), uncertainty="entropy", splitter=splitter).fit(X, y)
