"""Outputs of a hidden layer of a network."""

from typing import Self

import numpy as np
import torch
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    MetaEstimatorMixin,
    TransformerMixin,
    clone,
)
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted
from torch import nn

from .._utils.checks import check_samples, n_rows, take_rows
from .._utils.estimators import atomic, resolve, weight_params, with_own_module
from .._utils.types import Estimator, Floats, LabelsLike, NDArray, Samples, Weights


class LayerFeatures(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, MetaEstimatorMixin, BaseEstimator
):
    """Transformer: what a hidden layer of a network makes of each sample.

    In a pipeline before a `SparseGPClassifier` it is a deep kernel: a Gaussian process on what a
    network has learnt to see. As ``features`` of a `BallCarvingSplit` it carves balls among images.

    Parameters
    ----------
    estimator : classifier
        With a torch network at its bottom: pipelines, searches, calibrators and dropout ensembles
        are seen through. It is cloned and fitted with the transformer. Within a FrozenEstimator it
        stays as it is, and labels are not needed.
    layer : str
        A name of ``module_.named_modules()``. Axes of its outputs beyond the second, positions in
        an image say, are averaged.

    Attributes
    ----------
    estimator_ : classifier
        The one whose network is asked.

    Raises
    ------
    ValueError
        There is no network at the bottom; or no such layer, and the message lists those that there
        are; or a forward pass does not use it exactly once; or a network is to be fitted without
        labels.

    Notes
    -----
    A network that is fitted on the samples it then transforms has seen their labels. Its features
    separate the classes better there than on new samples, and what follows is overconfident.
    Train the network on other samples, and freeze it, where there are enough.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.frozen import FrozenEstimator
    >>> from torch import nn
    >>> from sklearn_lhcal.neural_network import NeuralClassifier
    >>> images = np.random.default_rng(0).uniform(size=(5, 1, 8, 8)).astype(np.float32)
    >>> body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
    >>> net = FrozenEstimator(NeuralClassifier.from_trained(body, ["cat", "dog"]))
    >>> LayerFeatures(net, "1").fit_transform(images).shape
    (5, 4)
    """

    def __init__(self, estimator: Estimator, layer: str) -> None:
        self.estimator = estimator
        self.layer = layer

    @atomic
    def fit(self, X: Samples, y: LabelsLike | None = None, sample_weight: Weights = None) -> Self:
        """Fit the network, unless it is frozen, and look for the layer.

        Parameters
        ----------
        X : anything the estimator takes, of n_samples samples
        y : label histogram of shape (n_samples, n_classes), optional
            Anything the estimator takes. Not read where it is frozen.
        sample_weight : array-like of shape (n_samples,), optional
            Handed on to the estimator.
        """
        X = check_samples(X)
        frozen = isinstance(self.estimator, FrozenEstimator)
        if y is None and not frozen:
            raise ValueError(
                f"LayerFeatures has to fit its {type(self.estimator).__name__}, and y is missing; "
                "give y, or wrap a fitted one: FrozenEstimator(net)."
            )
        model = self.estimator if frozen else clone(self.estimator)
        self.estimator_ = model.fit(X, y, **weight_params(sample_weight))
        first = forward_features(model, take_rows(X, [0]), self.layer)
        self._n_features_out = first.shape[1]
        return self

    def transform(self, X: Samples) -> Floats:
        """Outputs of the layer, shape (n_samples, n_features)."""
        check_is_fitted(self, "estimator_")
        return forward_features(self.estimator_, check_samples(X), self.layer)


def forward_features(estimator, X, layer: str) -> Floats:
    """Outputs (n, f) of a named layer of the network at the bottom of a fitted estimator."""
    net, X = _network(estimator, X)
    net = with_own_module(net)
    layers = {name: module for name, module in net.module_.named_modules() if name}
    if layer not in layers:
        raise ValueError(f"The network has no layer {layer!r}; its layers are {', '.join(layers)}.")
    batches: list[NDArray] = []
    current: list[NDArray] = []
    # a pass that refuses integers is begun again with floats: only whole passes count
    net.module_.register_forward_pre_hook(lambda module, inputs: current.clear())
    layers[layer].register_forward_hook(
        lambda module, inputs, output: current.append(_rows(output))
    )
    net.module_.register_forward_hook(lambda module, inputs, output: batches.extend(current))
    net.predict_proba(X)
    if (result := sum(map(len, batches))) != n_rows(X):
        raise ValueError(
            f"Layer {layer!r} gave {result} samples for {n_rows(X)}; name a layer that a forward "
            "pass uses once, and whose first axis is the samples."
        )
    return np.concatenate(batches)


def _network(estimator, X):
    """The skorch net at the bottom, and X as it sees it."""
    while True:
        estimator, X = resolve(estimator, X, "module_")
        if isinstance(getattr(estimator, "module_", None), nn.Module):
            return estimator, X
        if not hasattr(estimator, "estimator_"):
            raise ValueError(
                "A layer's outputs need a torch network, but at the bottom there is a "
                f"{type(estimator).__name__}; use features=None, or a callable."
            )
        estimator = estimator.estimator_


def _rows(output) -> NDArray:
    """(n, C, …) to (n, C): the mean over positions."""
    output = output[0] if isinstance(output, tuple) else output
    if output.ndim > 2:
        output = output.flatten(start_dim=2).mean(dim=2)
    # a copy, as what follows may write into it; numpy knows no bfloat16
    return output.detach().to("cpu", torch.float64, copy=True).numpy()
