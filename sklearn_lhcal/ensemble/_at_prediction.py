"""One classifier asked many times: a network under many masks, or many versions of the input."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import nn

from .._utils.checks import check_samples
from .._utils.estimators import resolve, with_own_module
from .._utils.types import Estimator, Samples, Seed
from ._base import EnsembleClassifier

_DROPOUTS = (
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
)


@dataclass(eq=False, repr=False)
class MCDropoutClassifier(EnsembleClassifier):
    """Monte Carlo dropout: predictions of a network with its dropout left on.

    Dropout modules are found by type, at any depth; everything else, batch normalisation too, stays
    as in prediction. One mask is drawn for each draw and module and shared by all samples, so that
    predictions depend neither on the size of batches nor on the order of samples.
    (``torch.nn.functional.dropout`` inside a module's code cannot be found.)

    Parameters
    ----------
    estimator : skorch net, Pipeline that ends in one, or FrozenEstimator of these
        The network, such as a `NeuralClassifier`. It is fitted here unless frozen.
    n_samples : int, default=20
        Draws.
    random_state : int, RandomState instance or None, default=None
        Seed of the masks. They are decided at fit, so that predictions repeat.

    Attributes
    ----------
    estimator_ : classifier
        The fitted net.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.

    Raises
    ------
    ValueError
        Where the network has no dropout with a positive rate: all draws would be the same.

    References
    ----------
    Gal and Ghahramani (2016), Dropout as a Bayesian approximation.

    Examples
    --------
    >>> from torch import nn
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> from sklearn_lhcal.neural_network import NeuralClassifier
    >>> data = make_label_histograms(100, random_state=0)
    >>> body = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))
    >>> net = NeuralClassifier(body, max_epochs=5, random_state=0)
    >>> MCDropoutClassifier(net, n_samples=7, random_state=0).fit(data.X, data.counts).predict_dist(
    ...     data.X
    ... ).proba.shape
    (7, 100, 3)
    """

    estimator: Estimator
    _: KW_ONLY
    n_samples: int = 20
    random_state: Seed = None

    def _fit(self, X, labels, weight, seed, fit_params):
        fitted = super()._fit(X, labels, weight, seed, fit_params)
        net, _ = resolve(fitted["estimator_"], None, "module_")
        if not isinstance(getattr(net, "module_", None), nn.Module):
            raise ValueError(
                "MCDropoutClassifier needs a skorch net, a NeuralClassifier say, not "
                f"{type(net).__name__}."
            )
        _dropouts(net.module_)
        return fitted

    def _draws(self, X, n, rng):
        net, X = resolve(self.estimator_, X, "module_")
        draws = []
        for _ in range(n):
            # a copy of the module, for hooks on the net's own are seen by all threads
            masked = with_own_module(net)
            _hook_masks(masked.module_, rng.randint(2**31 - 1))
            draws.append(self._proba(masked, X))
        return draws


def _dropouts(network: nn.Module) -> list[nn.Module]:
    """The dropout modules of a network; a ValueError where there is none."""
    modules: list[nn.Module] = [
        m for m in network.modules() if isinstance(m, _DROPOUTS) and m.p > 0
    ]
    if not modules:
        raise ValueError(
            "The network has no dropout module with a positive rate, so that all draws would be "
            "the same; add torch.nn.Dropout, or use DeepEnsembleClassifier."
        )
    return modules


def _hook_masks(network: nn.Module, seed: int) -> None:
    """Each use of a dropout module multiplies by one mask, the same for all samples and batches."""
    masks = {m: _Masked(seed + i) for i, m in enumerate(_dropouts(network))}

    def begin(module, inputs):
        for masked in masks.values():
            masked.uses = 0

    network.register_forward_pre_hook(begin)
    for module, masked in masks.items():
        module.register_forward_hook(masked)


class _Masked:
    """Forward hook of a dropout module in evaluation mode, where its output is its input."""

    def __init__(self, seed: int):
        self.generator = torch.Generator().manual_seed(seed)
        self.masks: list[torch.Tensor] = []  # one for each use in a forward pass
        self.uses = 0

    def __call__(self, module, inputs, output):
        x = output
        if self.uses == len(self.masks):
            self.masks.append(self._keep(module, x.shape[1:]).to(device=x.device, dtype=x.dtype))
        mask, self.uses = self.masks[self.uses], self.uses + 1
        if isinstance(module, (nn.AlphaDropout, nn.FeatureAlphaDropout)):
            return _alpha_dropout(x, mask, module.p)
        if module.p < 1:
            return x * mask / (1 - module.p)
        return x * 0

    def _keep(self, module, shape):
        whole_channels = isinstance(
            module, (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.FeatureAlphaDropout)
        )
        shape = (shape[0], *[1] * (len(shape) - 1)) if whole_channels else tuple(shape)
        return torch.rand(shape, generator=self.generator) >= module.p


def _alpha_dropout(x, keep, p: float):
    """Dropout that keeps mean 0 and variance 1 behind a SELU; dropped units take its limit."""
    limit = -1.7580993408473766
    a = ((1 - p) * (1 + p * limit**2)) ** -0.5
    return a * (x * keep + limit * (1 - keep)) - a * limit * p


@dataclass(eq=False, repr=False)
class TestTimeAugmentationClassifier(EnsembleClassifier):
    """Predictions for several random versions of the input.

    Parameters
    ----------
    estimator : classifier
        What to fit, on X as it is. A FrozenEstimator stays as it is.
    augment : callable
        ``augment(X, random_state)`` returns a changed copy of X; called once a draw with a numpy
        RandomState. If it draws one change for the whole batch (one angle, one shift), the
        prediction of a sample does not depend on the other samples.
    n_samples : int, default=20
        Draws.
    random_state : int, RandomState instance or None, default=None
        Seed of the draws, decided at fit, so that predictions repeat.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.

    References
    ----------
    Ayhan and Berens (2018), Test-time data augmentation for estimation of heteroscedastic aleatoric
    uncertainty.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(100, random_state=0)
    >>> def shift(X, random_state):
    ...     return X + 0.1 * random_state.standard_normal(X.shape[1])
    >>> tta = TestTimeAugmentationClassifier(
    ...     LogisticRegression(), shift, n_samples=5, random_state=0
    ... )
    >>> tta.fit(data.X, data.counts).predict_dist(data.X)
    Ensemble(n=100, n_classes=3)
    """

    __test__ = False  # the name is the method's; it is no test

    estimator: Estimator
    augment: Callable[[Samples, np.random.RandomState], Samples]
    _: KW_ONLY
    n_samples: int = 20
    random_state: Seed = None

    def _draws(self, X, n, rng):
        X = check_samples(X)
        seeds = rng.randint(2**31 - 1, size=n)
        versions = (self.augment(X, check_random_state(int(s))) for s in seeds)
        return [self._proba(self.estimator_, version) for version in versions]
