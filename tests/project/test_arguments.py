"""Options of the wrong kind or out of range are errors that name them, whoever takes them."""

import inspect
import pickle
import types
import typing

import numpy as np
import pytest
import torch
from fuzz_cases import COSTS, DIRICHLET, DOORS, K, N, X, Y, Z
from sklearn.linear_model import LogisticRegression

from sklearn_lhcal import datasets, metrics, model_selection
from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.distributions import allocate_labels, label_policy, second_opinion_value
from sklearn_lhcal.model_selection import StratifiedVotesKFold
from sklearn_lhcal.neural_network import KernelCalibrationPenalty, LabelLogLoss, PairwiseLoss

NO_OPTION = {
    # handed on, or drawn
    *("ax", "name", "title", "inputs", "verbose"),
    # data that happens to have a plain type
    *("predictions", "columns", "label", "batches", "parts", "log_weights"),
}

# a base, and what the estimator inside does not offer
NO_DOOR = {"Labels.in_order", "EpistemicCalibration.sample_proba"}


class Nothing:
    """An object that is no option."""


def plain(annotation) -> bool:
    """Whether a type is made of flags, numbers and words alone."""
    parts = (annotation,)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        parts = typing.get_args(annotation)
    known = [bool, int, float, type(None), np.random.RandomState]
    return all(p in known or typing.get_origin(p) is typing.Literal for p in parts)


OPTIONS = [
    (name, p.name)
    for name, door in DOORS.items()
    for p in inspect.signature(door.function).parameters.values()
    if plain(p.annotation) and p.name not in NO_OPTION and name not in NO_DOOR
]


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_every_option_is_checked(name, option):
    """Every flag, number and word of every public function, by the types of its signature."""
    for value in (Nothing(), [1, 2], np.array([]), b"a"):
        with pytest.raises(ValueError, match=f"^{option} must be .*, got "):
            DOORS[name].call(**{option: value})


REFUSED = [
    (metrics.kernel_calibration_error, {"root": "abc"}),
    (metrics.kernel_calibration_error, {"bandwidth": 1e-320}),
    (metrics.kernel_calibration_error, {"device": "abc", "bandwidth": "loo"}),
    (metrics.kernel_calibration_error, {"random_state": "abc"}),
    (metrics.kernel_calibration_error, {"p": True}),
    (metrics.entropy_calibration_error, {"absolute": 1}),
    (metrics.calibration_error, {"bias_correction": False}),
    (metrics.calibration_error, {"strategy": np.array([])}),
    (metrics.null_calibration_error, {"n_draws": 10**30}),
    (metrics.null_calibration_error, {"random_state": -1}),
    (metrics.net_benefit, {"threshold": 1.0}),
]


@pytest.mark.parametrize(("metric", "options"), REFUSED)
def test_metrics(metric, options):
    options = ({"threshold": 0.2} if metric is metrics.net_benefit else {}) | options
    with pytest.raises(ValueError, match=f"^{next(reversed(options))} must|^device must"):
        metric(Y, Z, **options)


def test_options_reach_the_door_through_intervals():
    with pytest.raises(ValueError, match=r"^root must be a bool, got 'abc'"):
        metrics.confidence_interval(metrics.kernel_calibration_error, Y, Z, root="abc")


def test_other_functions():
    for call, match in (
        (lambda: metrics.referral_curve(Y, DIRICHLET, normalize=2), "normalize must be a bool"),
        (
            lambda: model_selection.cross_val_predict(LogisticRegression(), X, Y, fit_params="x"),
            "fit_params must be a dict or None, got 'x'",
        ),
        (lambda: datasets.make_mixed_images(None, [0, 1]), "X"),
        (lambda: datasets.make_rater_study(30, 5, random_state="abc"), "random_state must"),
        (lambda: DIRICHLET.sample(10**30), "n_draws must be an int from 1 to 1000000"),
        (lambda: second_opinion_value(Z), "distribution must be a Distribution, got array"),
        (lambda: label_policy(Z, COSTS, 0.1), "distribution must be a Distribution, got array"),
        (lambda: allocate_labels(Z, COSTS, 3), "distribution must be a Distribution, got array"),
        (lambda: metrics.confidence_interval("abc", Y, Z), "metric must be a function"),
    ):
        with pytest.raises((ValueError, TypeError), match=match):
            call()


def test_parameters_of_estimators():
    """Those of inner calibrators, too; before anything is fitted."""
    for model, match in (
        (AlphaCalibration(features="logits", fallback=1), "fallback must be a bool or None"),
        (AlphaCalibration(TemperatureScaling(mixing=3)), "mixing must"),
        (TemperatureScaling(random_state="abc"), "random_state must"),
        (TemperatureScaling(LogisticRegression), "estimator must be a classifier, .*got <class"),
    ):
        with pytest.raises(ValueError, match=match):
            model.fit(Z, Y)
    with pytest.raises(ValueError, match="shuffle must be a bool, got 'abc'"):
        next(StratifiedVotesKFold(shuffle="abc").split(X, Y))


def test_torch_losses():
    """What is no tensor, weights of other shapes, and a lone tensor for a pair."""
    z, y = torch.zeros(N, K), torch.tensor(Y)
    with pytest.raises(TypeError, match="Labels must be a tensor, got ndarray"):
        LabelLogLoss()(z, Y)
    with pytest.raises(ValueError, match=rf"Weights must have shape \({N},\), got \({N}, 1\)"):
        LabelLogLoss()(z, y, torch.ones(N, 1))
    with pytest.raises(TypeError, match=r"a tuple \(logits, log_total\)"):
        PairwiseLoss()(z, y)
    with pytest.raises(ValueError, match=r"^bandwidth must be a number from 1e-100"):
        KernelCalibrationPenalty(bandwidth=0)(z, y)


def test_checked_functions_are_what_they_were():
    """They pickle, and their signatures and docstrings are those of the function."""
    for function in (metrics.confidence_interval, datasets.make_rater_study):
        assert pickle.loads(pickle.dumps(function)) is function
        assert "random_state" in inspect.signature(function).parameters
        assert function.__doc__.lstrip()
        with pytest.raises(TypeError, match=function.__name__):
            function(no_such_argument=1)
