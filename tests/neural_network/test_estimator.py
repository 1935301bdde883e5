"""NeuralClassifier among estimators: parameters, pickles, searches, pipelines, errors."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from networks import FULL_BATCH, MLP, Affine, proba
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch.callbacks import LRScheduler
from torch import nn

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.distributions import Dirichlet, PointMass, predict_dist
from sklearn_lhcal.ensemble import DeepEnsembleClassifier
from sklearn_lhcal.metrics import label_log_loss
from sklearn_lhcal.neural_network import LabelLogLoss, NeuralClassifier

# --- in scikit-learn ---


def test_parameters_copies_and_pickles(data):
    net = NeuralClassifier(
        MLP, module__n_hidden=4, early_stopping=3, callbacks=[LRScheduler("StepLR", step_size=5)]
    )
    assert is_classifier(net)
    params = net.get_params()
    assert (params["lr"], params["module__n_hidden"], params["loss"]) == (1e-3, 4, "label_log_loss")
    net.set_params(lr=0.1, module__n_hidden=6, max_epochs=7, random_state=0).fit(
        data.X, data.counts
    )
    assert net.module_.layers[0].out_features == 6
    z = net.predict_proba(data.X)
    for other in (
        pickle.loads(pickle.dumps(net)),
        copy.deepcopy(net),
        clone(net).fit(data.X, data.counts),
    ):
        assert_array_equal(other.predict_proba(data.X), z)
        assert_array_equal(other.classes_, [0, 1, 2])
    with pytest.raises(NotFittedError):
        clone(net).predict_proba(data.X)
    for call in ("predict", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(NeuralClassifier(MLP), call)(data.X)


def test_columns_of_tables_are_features(data):
    frame = pd.DataFrame(data.X, columns=list("abcde"))
    net = NeuralClassifier(MLP, max_epochs=1, random_state=0).fit(frame, data.counts)
    ensemble = DeepEnsembleClassifier(net, n_estimators=2).fit(frame, data.counts)
    for fitted in (net, ensemble):
        assert fitted.n_features_in_ == 5
        assert_array_equal(fitted.feature_names_in_, list("abcde"))
        with pytest.raises(ValueError, match="must be in the same order"):
            fitted.predict_proba(frame[list("bacde")])
    with pytest.raises(ValueError, match="names seen at fit time, yet now missing"):
        net.partial_fit(frame[list("abcd")], data.counts)
    assert net.n_features_in_ == 5
    net.fit(data.X, data.counts)
    assert not hasattr(net, "feature_names_in_")
    for width in (4, 6):
        with pytest.raises(ValueError, match=f"X has {width} features, but .* is expecting 5"):
            net.predict_proba(np.ones((2, width)))
    with pytest.raises(ValueError, match="Reshape your data"):
        net.predict_proba(data.X[0])
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        net.fit(data.X[:, :0], data.counts)
    assert not hasattr(clone(net), "n_features_in_")


def test_axes_of_images_and_places_in_texts_are_no_features(data):
    """Neither has a number that new rows must keep."""

    class Words(nn.EmbeddingBag):
        def __init__(self):
            super().__init__(7, 3)

    images = nn.Sequential(nn.AdaptiveAvgPool1d(5), nn.Flatten(), nn.Linear(10, 3))
    words = np.random.default_rng(0).integers(7, size=(300, 6))
    signals = np.random.default_rng(0).normal(size=(300, 2, 8))
    # fitted on a table before
    net = NeuralClassifier(MLP, max_epochs=1, random_state=0).fit(data.X, data.counts)
    for module, X in ((Words, words), (images, signals)):
        net.set_params(module=module).fit(X, data.counts)
        assert not hasattr(net, "n_features_in_")
        assert net.predict_proba(X[..., :5]).shape == (300, 3)


@pytest.mark.slow
def test_grid_search_in_two_processes(data):
    frame = pd.DataFrame(data.counts, columns=list("bca"))
    net = NeuralClassifier(
        MLP, max_epochs=10, random_state=0, callbacks=[("rate", LRScheduler("StepLR", step_size=5))]
    )
    grid = {"lr": [1e-4, 0.05], "module__n_hidden": [4], "callbacks__rate__step_size": [2]}
    scores = []
    for n_jobs in (1, 2):
        search = GridSearchCV(
            net, grid, scoring="neg_epistemic_loss", cv=3, n_jobs=n_jobs, error_score="raise"
        )
        scores.append(search.fit(data.X, frame).cv_results_["mean_test_score"])
        assert search.best_params_["lr"] == 0.05
        assert search.best_estimator_.module_.layers[0].out_features == 4
    assert_allclose(scores[0], scores[1], rtol=1e-6)


@pytest.mark.parametrize("cv", [3, "holdout"])
def test_in_a_pipeline_and_in_calibrators(data, cv):
    net = NeuralClassifier(MLP, lr=0.05, max_epochs=10, random_state=0)
    frame = pd.DataFrame(data.counts, columns=list("bca"))
    pipeline = make_pipeline(StandardScaler(), net)
    assert isinstance(predict_dist(clone(pipeline).fit(data.X, frame), data.X), PointMass)
    for inner in (net, pipeline):
        chain = AlphaCalibration(TemperatureScaling(inner), cv=cv, random_state=0).fit(
            data.X, frame
        )
        dist = chain.predict_dist(data.X)
        assert isinstance(dist, Dirichlet)
        assert_allclose(chain.predict_proba(data.X), dist.mean(), atol=1e-12)
        assert chain.classes_.tolist() == ["a", "b", "c"]
        assert label_log_loss(data.counts[:, [2, 0, 1]], dist.mean()) < 0.9
        assert chain.score(data.X, frame) > 0.5


def test_training_a_trained_network_again_is_said(data):
    net = NeuralClassifier(MLP, lr=0.05, max_epochs=2, random_state=0).fit(data.X, data.counts)
    expected = net.predict_proba(data.X)
    with pytest.warns(UserWarning, match="FrozenEstimator"):
        TemperatureScaling(net, cv=2).fit(data.X, data.counts)
    assert_array_equal(net.predict_proba(data.X), expected)
    TemperatureScaling(FrozenEstimator(net)).fit(data.X, data.counts)


@pytest.mark.slow
def test_out_of_fold_scores_of_networks_by_hand(data):
    net = NeuralClassifier(MLP, lr=0.05, max_epochs=10, random_state=0)
    calibrator = TemperatureScaling(net, cv=KFold(3)).fit(data.X, data.counts)
    scores = [
        np.log(clone(net).fit(data.X[train], data.counts[train]).predict_proba(data.X[test]))
        for train, test in KFold(3).split(data.X)
    ]
    by_hand = TemperatureScaling("logits").fit(np.concatenate(scores), data.counts)
    assert_allclose(calibrator.temperature_, by_hand.temperature_, rtol=1e-6)


@pytest.mark.slow
def test_weights_under_metadata_routing(data):
    w = np.random.default_rng(0).uniform(0, 3, 300)
    net = NeuralClassifier(Affine, **FULL_BATCH)
    plain = TemperatureScaling(net, cv=3).fit(data.X, data.counts, sample_weight=w)
    with config_context(enable_metadata_routing=True):
        routed = TemperatureScaling(net.set_fit_request(sample_weight=True), cv=3)
        routed.set_fit_request(sample_weight=True).fit(data.X, data.counts, sample_weight=w)
        unweighted = TemperatureScaling(clone(net).set_fit_request(sample_weight=False), cv=3)
        unweighted.set_fit_request(sample_weight=True).fit(data.X, data.counts, sample_weight=w)
        search = GridSearchCV(
            net.set_score_request(sample_weight=True), {"lr": [0.05]}, cv=3, error_score="raise"
        )
        search.fit(data.X, data.counts, sample_weight=w)
    assert_allclose(routed.predict_proba(data.X), plain.predict_proba(data.X))
    direct = clone(net).fit(data.X, data.counts, sample_weight=w)
    assert_allclose(search.predict_proba(data.X), direct.predict_proba(data.X))
    assert np.abs(unweighted.predict_proba(data.X) - plain.predict_proba(data.X)).max() > 1e-3


def test_progress_is_printed_on_demand(data, capsys):
    options = {"max_epochs": 20, "early_stopping": 2, "lr": 0.5, "random_state": 0}
    NeuralClassifier(MLP, **options).fit(data.X, data.counts)
    assert capsys.readouterr() == ("", "")
    NeuralClassifier(MLP, verbose=1, **options).fit(data.X, data.counts)
    assert "valid_loss" in capsys.readouterr().out


# --- errors ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "hinge"}, r"loss must be a torch module or one of \['brier', .*\], got 'hinge'"),
        ({"loss": LabelLogLoss}, "loss must be a "),
        ({"criterion": nn.CrossEntropyLoss}, "takes its criterion as loss="),
        ({"module__n_classes": 4}, r"one logit a class, shape \(n, 3\); it returned \(64, 4\)"),
        (
            {"module": lambda: nn.Sequential(nn.Linear(5, 1), nn.Flatten(0))},
            r"shape \(n, 3\); it returned \(64,\)",
        ),
        ({"max_iter": 3}, "max_iter"),
    ],
)
def test_wrong_parameters(data, options, message):
    with pytest.raises(ValueError, match=message):
        NeuralClassifier(**{"module": MLP} | options).fit(data.X, data.counts)


def test_wrong_data(data):
    net = NeuralClassifier(MLP, max_epochs=1)
    with pytest.raises(ValueError, match="X has 299 samples, expected 300"):
        net.fit(data.X[:299], data.counts)
    with pytest.raises(ValueError, match="fractional"):
        net.fit(data.X, data.counts / 2)
    with pytest.raises(ValueError, match="requires y"):
        net.fit(data.X)
    with pytest.raises(ValueError, match="sample_weight"):
        net.fit(data.X, data.counts, sample_weight=-np.ones(300))
    with pytest.raises(ValueError, match=r"shape \(n, 2\); it returned \(64, 3\)"):
        NeuralClassifier.from_trained(MLP(), ["a", "b"]).predict_proba(data.X)
    with pytest.raises(ValueError, match="classes must hold 3 different names"):
        NeuralClassifier.from_trained(MLP(), ["a", "b", "a"])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_absent_cuda_is_an_error(data):
    for device in ("cuda", "cuda:1"):
        with pytest.raises(ValueError, match="no CUDA device here; use device='cpu'"):
            NeuralClassifier(MLP, device=device).fit(data.X, data.counts)
        with pytest.raises(ValueError, match="no CUDA device"):
            NeuralClassifier.from_trained(MLP(), [0, 1, 2], device=device)


def test_targets_go_to_the_device_of_the_outputs():
    """Without a GPU at hand, by torch's device that holds no data."""
    net = NeuralClassifier(MLP, device="meta", classes=[0, 1, 2]).initialize()
    logits = torch.zeros(2, 3, device="meta")
    for y in (torch.ones(2, 3), (torch.ones(2, 3), torch.ones(2)), torch.tensor([0, 2])):
        assert net.get_loss(logits, y).device.type == "meta"


@pytest.mark.parametrize("dtype", [">f8", ">f4"])
def test_foreign_byte_order(dtype, data):
    native = data.X.astype(dtype[1:])
    assert_array_equal(proba(data, X=native.astype(dtype)), proba(data, X=native))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_cuda(data):
    torch.cuda.manual_seed(3)
    expected = torch.rand(1, device="cuda").item()
    torch.cuda.manual_seed(3)
    options = {"module__dropout": 0.5, "device": "cuda", "early_stopping": 5}
    first, second = (proba(data, module=MLP, **options) for _ in range(2))
    assert torch.rand(1, device="cuda").item() == expected
    assert_allclose(first, second, atol=1e-4)
    assert_allclose(proba(data, device="cuda"), proba(data), atol=1e-4)
