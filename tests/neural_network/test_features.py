"""LayerFeatures, balls carved in features, and Gaussian processes on what a network sees."""

import pickle
import warnings

import numpy as np
import pytest
import sklearn
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from sklearn_lhcal.calibration import EpistemicCalibration
from sklearn_lhcal.distributions import predict_dist
from sklearn_lhcal.ensemble import MCDropoutClassifier
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.metrics import (
    accuracy_gain,
    epistemic_calibration_error,
    epistemic_correlation,
    get_scorer,
)
from sklearn_lhcal.model_selection import BallCarvingSplit
from sklearn_lhcal.neural_network import LayerFeatures, NeuralClassifier

NAMES = ["epistemic_correlation", "neg_epistemic_calibration_error"]


def bars(n, seed):
    """Images (n, 1, 6, 6) of a noisy bar at one of four heights, and whether the height is odd."""
    rng = np.random.default_rng(seed)
    height = rng.integers(4, size=n)
    X = rng.normal(0, 1.2, size=(n, 1, 6, 6))
    X[np.arange(n), 0, height + 1] += 1
    return X.astype(np.float32), height % 2


def network():
    body = nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Dropout(0.2), nn.Flatten()
    return nn.Sequential(*body, nn.Linear(96, 8), nn.ReLU(), nn.Linear(8, 2))


NET = NeuralClassifier(network, lr=1e-2, max_epochs=3, random_state=0)


@pytest.fixture(scope="module")
def frozen():
    """A network that was trained on other images."""
    return FrozenEstimator(clone(NET).fit(*bars(300, seed=9)))


# --- the transformer ---


def test_features_are_the_layers_outputs(frozen):
    X, _ = bars(50, 0)
    with torch.no_grad():
        module = frozen.estimator.module_.eval()
        expected = [module[:k](torch.as_tensor(X)).numpy() for k in (1, 5)]
    seen = LayerFeatures(frozen, "4").fit(X)
    assert_allclose(seen.transform(X), expected[1], atol=1e-6)
    assert seen.transform(X).dtype == np.float64
    assert list(seen.get_feature_names_out()) == [f"layerfeatures{k}" for k in range(8)]
    # positions of an image are averaged
    maps = LayerFeatures(frozen, "0").fit_transform(X)
    assert_allclose(maps, expected[0].mean(axis=(2, 3)), atol=1e-6)
    again = pickle.loads(pickle.dumps(seen))
    assert_array_equal(again.transform(X), seen.transform(X))


@pytest.mark.parametrize("batch_size", [2, 128])
def test_layers_before_the_one_that_refuses_integers_are_read_once(batch_size):
    """A network is asked again in floats; what the refused pass has left is no output."""
    body = nn.Sequential(nn.Flatten(), nn.Linear(9, 4), nn.ReLU(), nn.Linear(4, 2))
    net = NeuralClassifier.from_trained(body, [0, 1], batch_size=batch_size)
    X = np.random.default_rng(0).integers(255, size=(5, 1, 3, 3), dtype=np.uint8)
    for layer, expected in (("0", X.reshape(5, 9)), ("1", body[:2](torch.as_tensor(X).float()))):
        found = LayerFeatures(FrozenEstimator(net), layer).fit_transform(X)
        # float32 rounds sums of nine products of up to 255 by 1e-4
        assert_allclose(found, torch.as_tensor(expected).detach(), rtol=1e-5, atol=1e-3)


def test_a_network_is_fitted_unless_it_is_frozen(frozen):
    X, y = bars(100, 1)
    counts = np.eye(2, dtype=int)[y]
    alone = clone(NET).fit(X, counts)
    assert_array_equal(
        LayerFeatures(NET, "4").fit(X, counts).transform(X),
        LayerFeatures(FrozenEstimator(alone), "4").fit(X).transform(X),
    )
    assert not hasattr(NET, "module_")
    weight = np.arange(100) % 3
    weighted = LayerFeatures(NET, "4").fit(X, y, sample_weight=weight).transform(X)
    assert not np.array_equal(weighted, LayerFeatures(NET, "4").fit(X, y).transform(X))
    before = frozen.predict_proba(X)
    assert LayerFeatures(frozen, "4").fit(X, y).estimator_ is frozen
    assert_array_equal(frozen.predict_proba(X), before)


def test_errors(frozen):
    X, y = bars(20, 2)
    with pytest.raises(ValueError, match=r"has no layer '9'; its layers are 0, 1,"):
        LayerFeatures(frozen, "9").fit(X)
    with pytest.raises(ValueError, match=r"y is missing; give y, or wrap.*FrozenEstimator"):
        LayerFeatures(NET, "4").fit(X)
    with pytest.raises(ValueError, match="at the bottom there is a LogisticRegression"):
        LayerFeatures(LogisticRegression(), "4").fit(X[:, 0, 0], y)
    with pytest.raises(NotFittedError):
        LayerFeatures(frozen, "4").transform(X)
    # a failed fit leaves it as it was
    seen = LayerFeatures(frozen, "4").fit(X).set_params(layer="9")
    with pytest.raises(ValueError, match="no layer"):
        seen.fit(X)
    assert seen.set_params(layer="4").transform(X).shape == (20, 8)


# --- balls carved in features ---


def test_balls_are_carved_where_features_lie(frozen):
    """A transformer, a callable and the features themselves as X give one split."""
    X, _ = bars(300, 3)
    seen = LayerFeatures(frozen, "4")
    h = seen.fit(X).transform(X)
    options = {"n_balls": 4, "random_state": 0}
    expected = BallCarvingSplit(**options).split_augmented(h)
    for features in (seen, lambda images: seen.transform(images)):
        split = BallCarvingSplit(features=features, **options)
        for part, same in zip(expected, split.split_augmented(X), strict=True):
            assert_array_equal(part, same)
        train, test = next(split.split(X))
        assert_array_equal(train, expected[0])
        assert_array_equal(test, expected[2])
    # a transformer is fitted on X alone, a clone of it
    pca = PCA(2)
    flat = X.reshape(len(X), -1)
    low = BallCarvingSplit(features=pca, **options).split_augmented(flat)
    for part, same in zip(
        BallCarvingSplit(**options).split_augmented(clone(pca).fit_transform(flat)),
        low,
        strict=True,
    ):
        assert_array_equal(part, same)
    assert not hasattr(pca, "components_")


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (
            None,
            r"X has shape \(60, 1, 6, 6\), but balls need one vector a sample; give the splitter",
        ),
        ("conv1", r"a layer of a network is LayerFeatures\("),
        (lambda X: X[:-1], "features must return one row for each of the 60 samples of X"),
        (lambda X: X * np.nan, "features of BallCarvingSplit contain NaN"),
        (LayerFeatures(NET, "4"), "y is missing"),
    ],
)
def test_features_that_are_none(features, message):
    with pytest.raises(ValueError, match=message):
        BallCarvingSplit(features=features, random_state=0).split_augmented(bars(60, 0)[0])


@pytest.mark.filterwarnings("ignore:The fitted gain is flat:UserWarning")
def test_epistemic_calibration_on_images(frozen):
    """Carved among what a frozen network sees; the network that is calibrated learns anew."""
    X, y = bars(300, 4)
    seen = LayerFeatures(frozen, "4")
    split = BallCarvingSplit(n_balls=4, features=seen, random_state=0)
    net = clone(NET).set_params(max_epochs=2)
    dropout = MCDropoutClassifier(net, n_samples=5, random_state=0)
    model = EpistemicCalibration(dropout, splitter=split, n_bins=4, n_carvings=1).fit(X, y)
    by_hand = BallCarvingSplit(n_balls=4, random_state=0)
    train, augmented, test = by_hand.split_augmented(seen.fit(X).transform(X))
    less = clone(dropout).fit(X[train], y[train])
    more = clone(dropout).fit(X[augmented], y[augmented])
    assert_allclose(
        model.carved_uncertainty_, predict_dist(less, X[test]).mutual_information(), atol=1e-6
    )
    gain = accuracy_gain(y[test], less.predict(X[test]), more.predict(X[test]))
    assert_array_equal(model.carved_gain_, gain)
    assert ((model.predict_epistemic(X) >= 0) & (model.predict_epistemic(X) <= 1)).all()


# --- a deep kernel: a Gaussian process on features of a frozen network ---


@pytest.mark.filterwarnings("ignore:The fitted gain is flat:UserWarning")
def test_deep_kernels_are_searched_by_both_scorers(frozen):
    X, y = bars(300, 5)
    gp = SparseGPClassifier(n_inducing=15, optimize_hyperparameters=False, random_state=0)
    deep = make_pipeline(LayerFeatures(frozen, "4"), StandardScaler(), gp)
    reference = y  # of a model that more data made perfect
    split = BallCarvingSplit(
        n_balls=4,
        keep_fraction=0.0,
        n_splits=2,
        features=LayerFeatures(frozen, "4"),
        random_state=0,
    )
    grid = {"layerfeatures__layer": ["4", "0"]}
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            deep, grid, scoring=NAMES, refit=NAMES[0], cv=split, error_score="raise"
        ).fit(X, y, reference_prediction=reference)
    for c, layer in enumerate(grid["layerfeatures__layer"]):
        model = clone(deep).set_params(layerfeatures__layer=layer)
        for i, (train, test) in enumerate(split.split(X)):
            model.fit(X[train], y[train])
            gain = accuracy_gain(y[test], model.predict(X[test]), reference[test])
            e = predict_dist(model, X[test]).mutual_information()
            got = [search.cv_results_[f"split{i}_test_{name}"][c] for name in NAMES]
            by_hand = epistemic_correlation(gain, e), -epistemic_calibration_error(gain, e)
            assert_allclose(got, by_hand, rtol=1e-9)
    best = EpistemicCalibration(search.best_estimator_, splitter=split, n_bins=4).fit(X, y)
    assert best.predict_epistemic(X).shape == (300,)
    # the whole chain sees through to the network
    assert LayerFeatures(FrozenEstimator(NET.fit(X, y)), "4").fit_transform(X).shape == (300, 8)


def test_a_scorer_that_cannot_say_anything_raises_with_the_reason(frozen):
    """Point predictions have no ranks; the other scorer still has a value for them."""
    X, y = bars(60, 6)
    reference = 1 - frozen.predict(X)
    with pytest.raises(
        ValueError, match=r"epistemic_correlation cannot say .* Frozen.* all 60 estimates are 0\."
    ):
        get_scorer(NAMES[0])(frozen, X, y, reference_prediction=reference)
    error = get_scorer(NAMES[1])(frozen, X, y, reference_prediction=reference)
    assert error == pytest.approx(-abs(accuracy_gain(y, frozen.predict(X), reference).mean()))
    dropout = MCDropoutClassifier(frozen, n_samples=5, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"all 60 gains are 0\. .*larger balls"):
        get_scorer(NAMES[0])(dropout, X, y, reference_prediction=dropout.predict(X))
    # a search goes on, and its warning tells
    search = GridSearchCV(NET, {}, scoring=NAMES[0], cv=2, refit=False)
    with (
        sklearn.config_context(enable_metadata_routing=True),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        search.fit(X, y, reference_prediction=reference)
    assert any("cannot say anything about NeuralClass" in str(w.message) for w in caught)
    assert np.isnan(search.cv_results_["mean_test_score"]).all()
