"""Outputs of a hidden layer of a fitted network."""

import numpy as np
from numpy.typing import NDArray
from torch import nn

from .._ground.arrays import Floats
from .._ground.checks import n_rows
from .._ground.estimators import resolve, with_own_module


def forward_features(estimator, X, layer: str) -> Floats:
    """Outputs of a named layer of the network at the bottom of a fitted estimator.

    It sees through pipelines, which transform X, searches, FrozenEstimator, calibrators and dropout
    ensembles.

    Parameters
    ----------
    estimator : fitted classifier
    X : anything the estimator takes
    layer : str
        A name of ``module_.named_modules()``.

    Returns
    -------
    features : ndarray of shape (n_samples, n_features)
        Axes beyond the second, positions in an image say, are averaged.

    Raises
    ------
    ValueError
        There is no network at the bottom; or no such layer, and the message lists those that there
        are; or a forward pass does not use it exactly once.

    Examples
    --------
    >>> import numpy as np
    >>> from torch import nn
    >>> from sklearn_lhcal.neural_network import NeuralClassifier
    >>> net = NeuralClassifier.from_trained(
    ...     nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3)), [0, 1, 2]
    ... )
    >>> forward_features(net, np.zeros((5, 2)), "1").shape
    (5, 4)
    """
    net, X = _network(estimator, X)
    net = with_own_module(net)
    layers = {name: module for name, module in net.module_.named_modules() if name}
    if layer not in layers:
        raise ValueError(f"The network has no layer {layer!r}; its layers are {', '.join(layers)}.")
    batches: list[NDArray] = []
    layers[layer].register_forward_hook(
        lambda module, inputs, output: batches.append(_rows(output))
    )
    net.predict_proba(X)
    if (found := sum(map(len, batches))) != n_rows(X):
        raise ValueError(
            f"Layer {layer!r} gave {found} rows for {n_rows(X)}; name a layer that a forward pass "
            "uses once, and whose first axis is the rows."
        )
    return np.concatenate(batches).astype(np.float64)


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
    return output.detach().clone().cpu().numpy()  # what follows may write into it
