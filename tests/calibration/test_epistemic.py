"""EpistemicCalibration: its map, what it passes through, and its place in scikit-learn."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal.calibration import EpistemicCalibration, PrecomputedClassifier
from sklearn_lhcal.datasets import make_random_checkerboard
from sklearn_lhcal.distributions import predict_dist
from sklearn_lhcal.label_histogram import LabelHistogramClassifier
from sklearn_lhcal.metrics import accuracy_gain, epistemic_calibration_error, get_scorer
from sklearn_lhcal.model_selection import BallCarvingSplit, cross_val_predict

RNG = np.random.default_rng(0)
FOREST = ExtraTreesClassifier(20, min_samples_leaf=2, random_state=0)
SPLIT = BallCarvingSplit(keep_fraction=(0, 0.1), n_splits=2, random_state=0)
NAMES = ["epistemic_correlation", "neg_epistemic_calibration_error"]


@pytest.fixture(scope="module")
def board():
    """X, labels, and predictions made with more data."""
    X, y = make_random_checkerboard(2000, n_rows=8, n_columns=8, cell_std=0.25, random_state=0)
    return X, y, cross_val_predict(FOREST, X, y, method="predict")


def test_the_map_is_that_of_the_paper(board):
    X, y, _ = board
    model = EpistemicCalibration(FOREST, splitter=SPLIT, n_bins=10, method="paper").fit(X, y)
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


@pytest.mark.filterwarnings("ignore:The fitted gain is flat:UserWarning")
def test_bins_of_new_samples_are_for_the_map_of_the_paper(board):
    """Of the carved ones they change nothing, of others the published map, and never the model."""
    X, y, _ = board
    weight = RNG.uniform(1, 2, len(X))
    model = EpistemicCalibration(FOREST, splitter=SPLIT, n_bins=10, method="paper")
    model.fit(X, y, sample_weight=weight)
    _, _, test = SPLIT.split_augmented(X)
    assert_array_equal(model.carved_weight_, weight[test])
    before = model.predict_epistemic(X)
    one = clone(FOREST).fit(X, y)
    far = X[predict_dist(one, X).mutual_information() > 0.1]
    assert np.abs(model.with_bins_of(far).predict_epistemic(X) - before).max() > 0.001
    assert_array_equal(model.predict_epistemic(X), before)
    rising = EpistemicCalibration(FOREST, splitter=SPLIT).fit(X, y)
    assert_array_equal(rising.with_bins_of(far).predict_epistemic(X), rising.predict_epistemic(X))


@pytest.mark.filterwarnings("ignore:The fitted gain is flat:UserWarning")
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
    assert model.score(X, names[y]) == pytest.approx(alone.score(X, names[y]))
    assert not hasattr(model, "decision_function")
    linear = EpistemicCalibration(LogisticRegression(), uncertainty="entropy").fit(X, y)
    assert_array_equal(
        linear.decision_function(X), LogisticRegression().fit(X, y).decision_function(X)
    )
    assert not hasattr(linear, "sample_proba")
    assert_array_equal(
        pickle.loads(pickle.dumps(model)).predict_epistemic(X), model.predict_epistemic(X)
    )


@pytest.mark.slow
def test_calibration_helps_elsewhere(board):
    """Calibrated within the training data.

    The estimate is nearer to the gain in balls that it has not seen.
    """
    X, y, reference = board
    for measure, share in (("mutual_information", 0.95), ("entropy", 0.4)):
        before, after = [], []
        for train, test in BallCarvingSplit(
            keep_fraction=(0, 0.1), n_splits=6, random_state=5
        ).split(X):
            model = EpistemicCalibration(FOREST, uncertainty=measure, splitter=SPLIT).fit(
                X[train], y[train]
            )
            g = accuracy_gain(y[test], model.predict(X[test]), reference[test])
            e = getattr(model.predict_dist(X[test]), measure)()
            before.append(epistemic_calibration_error(g, e, n_bins=5))
            c = model.predict_epistemic(X[test])
            after.append(epistemic_calibration_error(g, c, n_bins=5, bins_of=e))
            score = get_scorer(NAMES[1])(
                model, X[test], y[test], reference_prediction=reference[test]
            )
            assert score == -epistemic_calibration_error(g, c, bins_of=e)
        assert np.mean(after) < share * np.mean(before)


@pytest.mark.filterwarnings("ignore:The fitted gain is flat:UserWarning")
def test_histograms_frames_and_names(board):
    X, y, _ = board
    counts = np.eye(2, dtype=int)[y]
    expected = EpistemicCalibration(FOREST).fit(X, y).predict_epistemic(X)
    frame = pd.DataFrame(counts[:, ::-1], columns=["white", "black"])
    for labels in (counts, frame, np.array(["black", "white"])[y]):
        model = EpistemicCalibration(LabelHistogramClassifier(FOREST)).fit(X, labels)
        assert_allclose(model.predict_epistemic(X), expected)
    assert model.predict(X).dtype.kind == "U"


@pytest.mark.filterwarnings("ignore:The fitted gain is flat:UserWarning")
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


@pytest.mark.filterwarnings("ignore:The fitted gain is flat:UserWarning")
def test_a_callable_estimate_and_other_classifiers(board):
    X, y, _ = board
    model = EpistemicCalibration(GaussianNB(), uncertainty=distance).fit(X, y)
    e = distance(None, X)
    expected = 0.9 * model.isotonic_.predict(e) + 0.1 * model.slope_ * e
    assert_allclose(model.predict_epistemic(X), expected)
    for bad in (lambda model, X: X, lambda model, X: np.full(len(X), -1.0)):
        with pytest.raises(ValueError, match="one finite number per sample"):
            EpistemicCalibration(GaussianNB(), uncertainty=bad).fit(X, y)


@pytest.mark.slow
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


@pytest.mark.filterwarnings("ignore:The fitted gain is flat:UserWarning")
def test_fit_parameters_are_split_row_by_row(board):
    X, y, _ = board
    EpistemicCalibration(Recorder(), uncertainty=distance).fit(X, y, tag=X[:, 0])


def test_too_few_rows_give_the_identity_and_a_warning(board):
    X, y, _ = board
    for method, n in (("rising", 30), ("paper", 70)):
        model = EpistemicCalibration(FOREST, method=method)
        with pytest.warns(
            UserWarning, match=r"\d+ carved samples are too few for 20 bins: .* as it is"
        ):
            model.fit(X[:n], y[:n])
        assert model.isotonic_ is None
        assert_array_equal(model.predict_epistemic(X), model.predict_dist(X).mutual_information())
    with pytest.warns(UserWarning, match="0 carved samples are too few"):
        EpistemicCalibration(FOREST).fit(X[:10], y[:10])


def carved(X, splitter, n):
    """Carvings that one seed makes in a row."""
    rng = np.random.RandomState(splitter.random_state)
    return [clone(splitter).set_params(random_state=rng).split_augmented(X) for _ in range(n)]


@pytest.mark.filterwarnings("ignore:The fitted gain is flat:UserWarning")
def test_several_carvings_make_one_map(board):
    X, y, _ = board
    model = EpistemicCalibration(FOREST, splitter=SPLIT, n_carvings=2, uncertainty="entropy")
    model.fit(X, y)
    parts = carved(X, SPLIT, 2)
    assert not np.array_equal(parts[0][2], parts[1][2])
    e = [
        predict_dist(clone(FOREST).fit(X[train], y[train]), X[test]).entropy()
        for train, _, test in parts
    ]
    assert_allclose(model.carved_uncertainty_, np.concatenate(e))
    e, g = model.carved_uncertainty_, model.carved_gain_
    assert model.slope_ == pytest.approx(g.sum() / e.sum())
    # bins of 25 rows at least
    assert len(np.unique(model.isotonic_.predict(e))) <= len(e) // 25
    alone = clone(model).set_params(splitter=Fixed(*parts[0])).fit(X, y)
    assert_allclose(alone.carved_uncertainty_, e[: len(parts[0][2])])


class Fixed:
    """A splitter without a seed: another carving would be the same."""

    def __init__(self, *parts):
        self.parts = parts

    def split_augmented(self, X):
        return self.parts


@pytest.mark.parametrize("uncertainty", ["mutual_information", "entropy"])
@pytest.mark.parametrize("seed", [8, 10, 12])
def test_never_silently_flat_and_always_in_order(seed, uncertainty):
    """Boards on which isotonic regression alone is 0 for every row."""
    X, y = make_random_checkerboard(1200, n_rows=6, n_columns=6, cell_std=0.3, random_state=seed)
    forest = RandomForestClassifier(20, random_state=0)
    model = EpistemicCalibration(forest, uncertainty=uncertainty, method="paper")
    with pytest.warns(UserWarning, match="is flat at .* carved samples more data gained no"):
        model.fit(X, y)
    assert np.ptp(model.predict_epistemic(X)) < 1e-12
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = model.set_params(method="rising").fit(X, y)
    new = np.random.default_rng(0).uniform(-1, 8, (500, 2))
    before, after = model.predict_uncalibrated(new), model.predict_epistemic(new)
    assert 0 <= after.min() < after.max() < 1
    assert_array_equal(rankdata(after.round(14)), rankdata(before.round(13)))
    flat = np.ptp(model.isotonic_.predict(model.carved_uncertainty_)) < 1e-9
    assert len(caught) == int(flat)
    assert all("is flat" in str(one.message) for one in caught)


def test_no_gain_is_a_small_slope_and_a_warning(board):
    """The order stays, with a size of half a row."""
    X, _, _ = board
    y = np.arange(len(X)) % 2
    model = EpistemicCalibration(GaussianNB(), uncertainty=distance, splitter=Fixed(*rows_of(X)))
    with pytest.warns(UserWarning, match="is flat at 0"):
        model.fit(X, y)
    assert model.carved_gain_.sum() <= 0
    assert model.slope_ == pytest.approx(0.5 / model.carved_uncertainty_.sum())
    assert_allclose(model.predict_epistemic(X), 0.1 * model.slope_ * distance(None, X))


def rows_of(X):
    """Half of the rows, as if more data were the same data."""
    half = np.arange(len(X) // 2)
    return half, half, half + len(half)


def test_point_predictions_have_no_mutual_information(board):
    X, y, _ = board
    with pytest.warns(
        UserWarning, match='The estimate is 0 for all carved samples.*uncertainty="entropy"'
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
            "estimator must be a classifier, got 'proba'",
        ),
        ({"estimator": StandardScaler()}, "must be a classifier with fit and predict"),
        ({"uncertainty": "variance"}, 'must be "mutual_information", "entropy" or a function'),
        ({"method": "papers"}, r"method must be \"rising\" or \"paper\", got 'papers'"),
        ({"n_carvings": 0}, "n_carvings must be an int of at least 1, got 0"),
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
        ValueError, match=r"No label of class \['rare'\] in the samples beside the balls"
    ):
        EpistemicCalibration(GaussianNB(), uncertainty="entropy", splitter=splitter).fit(X, y)
