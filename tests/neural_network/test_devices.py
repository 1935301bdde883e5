"""Losses and penalties on torch's meta device.

It holds no values: a tensor that is made on the CPU within, or a number that is fetched from the
device, is an error there, as it is an error or a wait on a GPU.
"""

import numpy as np
import pytest
import torch
from sklearn.frozen import FrozenEstimator
from torch import nn

from sklearn_lhcal.neural_network import (
    BrierLoss,
    DirectLoss,
    FocalLoss,
    KernelCalibrationPenalty,
    LabelLogLoss,
    LayerFeatures,
    MarginRescalingLoss,
    MMCEPenalty,
    NeuralClassifier,
    SharpnessPenalty,
)

COSTS = np.array([[0.0, 1.0, 1.0], [4.0, 0.0, 1.0], [9.0, 1.0, 0.0]])
FUNCTIONS = {
    "label log loss": LabelLogLoss(),
    "focal": FocalLoss(),
    "Brier": BrierLoss(),
    "direct": DirectLoss(COSTS, beta=10.0),
    "margin": MarginRescalingLoss(COSTS),
    "kernel, plugin": KernelCalibrationPenalty(bandwidth=0.1, bias_correction=None),
    "kernel, residual": KernelCalibrationPenalty(bandwidth=0.1, bias_correction="residual"),
    "kernel, marginal": KernelCalibrationPenalty(bandwidth=0.1, kind="marginal"),
    "kernel, top label": KernelCalibrationPenalty(bandwidth=0.1, kind="top_label"),
    "MMCE": MMCEPenalty(),
    "sharpness": SharpnessPenalty(bandwidth=0.1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_losses_stay_on_their_device(name):
    function = FUNCTIONS[name].to("meta")
    logits = torch.empty(8, 3, device="meta", requires_grad=True)
    counts, weight = torch.empty(8, 3, device="meta"), torch.empty(8, device="meta")
    # kernels leave out the rows of weight 0, whose number has to be fetched
    weights = [None] if hasattr(function, "bandwidth") else [None, weight]
    for w in weights:
        value = function(logits, counts, w)
        assert value.device.type == "meta"
        assert value.shape == ()
        (gradient,) = torch.autograd.grad(value, logits)
        assert gradient.device.type == "meta"
        assert gradient.dtype == logits.dtype


def test_batches_of_tensors_stay_on_their_device():
    net = NeuralClassifier(nn.Linear(4, 3), classes=[0, 1, 2], batch_size=3).initialize()
    X = {"input": torch.empty(8, 4, device="meta")}
    batches = list(net.get_iterator(net.get_dataset(X)))
    assert [len(x["input"]) for x, _ in batches] == [3, 3, 2]
    assert {x["input"].device.type for x, _ in batches} == {"meta"}


def test_features_of_half_precision():
    """numpy has no bfloat16."""
    body = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)).to(torch.bfloat16)
    net = NeuralClassifier.from_trained(body, [0, 1])
    X = np.ones((5, 4), dtype=np.float32)
    h = LayerFeatures(FrozenEstimator(net), "1").fit_transform(X)
    assert h.dtype == np.float64
    with torch.no_grad():
        expected = body[:2](torch.ones(5, 4, dtype=torch.bfloat16)).double().numpy()
    np.testing.assert_array_equal(h, expected)
