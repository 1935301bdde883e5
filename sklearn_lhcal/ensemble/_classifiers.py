"""One classifier asked many times: under many masks, of many versions of X, or as many networks."""

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted
from torch import nn

from .._rows import DistributionClassifierMixin, parameters, read_labels, weight_of
from .._utils.checks import check_samples, checked, warn
from .._utils.estimators import (
    atomic,
    class_order,
    fit_on_labels,
    own_columns,
    resolve,
    take_feature_names,
    with_own_module,
)
from .._utils.types import Estimator, Floats, LabelsLike, Samples, Seed, Weights
from ..distributions import Ensemble

# those that drop whole channels, and all
_OF_CHANNELS = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.FeatureAlphaDropout)
_DROPOUTS = (nn.Dropout, nn.AlphaDropout, *_OF_CHANNELS)


class EnsembleClassifier(DistributionClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """What they share: everything but how members are fitted and asked."""

    accepts_label_histograms = True

    @checked
    def sample_proba(
        self, X: Samples, n_samples: int | None = None, random_state: Seed = None
    ) -> Floats:
        """Class probabilities of `n_samples` draws of a member, shape (n_samples, n, K).

        With `n_samples` of None they are the draws of `predict_dist`; of a deep ensemble these are
        all members, from which others are drawn.
        """
        check_is_fitted(self, "seed_")
        rng = check_random_state(self.seed_ if random_state is None else random_state)
        return np.stack(self._draws(X, n_samples, rng))

    def _draws(self, X, n: int | None, rng) -> list[Floats]:
        """Class probabilities of n draws, or of those of `predict_dist`, each (n_samples, K)."""
        raise NotImplementedError

    @atomic
    def fit(
        self, X: Samples, y: LabelsLike, sample_weight: Weights = None, **fit_params: Any
    ) -> Self:
        """Fit the estimator; a fit that fails or is interrupted leaves it as it was.

        Parameters
        ----------
        X : anything that holds n_samples samples
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes.
        sample_weight : array-like of shape (n_samples,), optional
        **fit_params
            Goes to the estimator's fit.

        Returns
        -------
        self
        """
        X = check_samples(X)
        if isinstance(self.estimator, FrozenEstimator):
            check_is_fitted(self.estimator)
        given = read_labels(y)
        labels = given.for_fit(class_order(self.estimator, X, given))
        weight = weight_of(labels, X, y, sample_weight)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        fitted = self._fit(X, labels, weight, seed, fit_params)
        self.__dict__.update(fitted, classes_=labels.classes, seed_=seed)
        return self

    def _fit(self, X, labels, weight, seed, fit_params) -> dict:
        """The attributes that hold what was fitted, which knows the features."""
        if vars(self.estimator).get("initialized_", False):
            warn(
                "The network is trained already, and will be trained again; "
                "FrozenEstimator(network) stays as it is."
            )
        model = fit_on_labels(clone(self.estimator), X, labels, weight, **fit_params)
        take_feature_names(self, model)
        return {"estimator_": model}

    def predict_dist(self, X: Samples) -> Ensemble:
        """An `Ensemble` of the members' class probabilities, the same at every call."""
        return Ensemble(self.sample_proba(X)).with_classes(self.classes_)

    def _proba(self, estimator, X) -> Floats:
        """Class probabilities of a fitted estimator, columns in the order of `classes_`."""
        proba = estimator.predict_proba(check_samples(X))
        return proba[:, own_columns(estimator, self.classes_)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


@parameters
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
        for _ in range(n or self.n_samples):
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
            "The network has no dropout module with a positive rate; all draws would be the same. "
            "Add torch.nn.Dropout, or use DeepEnsembleClassifier."
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
        # one for each use in a forward pass
        self.masks: list[torch.Tensor] = []
        self.uses = 0

    def __call__(self, module, inputs, x):
        if self.uses == len(self.masks):
            self.masks.append(self._keep(module, x.shape[1:]).to(device=x.device, dtype=x.dtype))
        mask, self.uses = self.masks[self.uses], self.uses + 1
        if isinstance(module, (nn.AlphaDropout, nn.FeatureAlphaDropout)):
            # mean 0 and variance 1 behind a SELU, whose limit dropped units take
            limit, p = -1.7580993408473766, module.p
            a = ((1 - p) * (1 + p * limit**2)) ** -0.5
            return a * (x * mask + limit * (1 - mask)) - a * limit * p
        if module.p < 1:
            return x * mask / (1 - module.p)
        return x * 0

    def _keep(self, module, shape):
        if isinstance(module, _OF_CHANNELS):
            shape = (shape[0], *[1] * (len(shape) - 1))
        return torch.rand(shape, generator=self.generator) >= module.p


@parameters
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

    # the name is the method's; it is no test
    __test__ = False

    estimator: Estimator
    augment: Callable[[Samples, np.random.RandomState], Samples]
    _: KW_ONLY
    n_samples: int = 20
    random_state: Seed = None

    def _draws(self, X, n, rng):
        X = check_samples(X)
        seeds = rng.randint(2**31 - 1, size=n or self.n_samples)
        versions = (self.augment(X, check_random_state(int(s))) for s in seeds)
        return [self._proba(self.estimator_, version) for version in versions]


@parameters
class DeepEnsembleClassifier(EnsembleClassifier):
    """Several clones of one classifier, fitted with different seeds.

    Parameters
    ----------
    estimator : classifier with a `random_state`
        Every parameter called `random_state`, also of its parts, gets a different seed in each
        clone.
    n_estimators : int, default=5
        Clones.
    n_jobs : int or None, default=None
        How many are fitted at once, by joblib.
    random_state : int, RandomState instance or None, default=None
        Seed of the seeds.

    Attributes
    ----------
    estimators_ : list of classifiers
        The fitted clones.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.

    Raises
    ------
    ValueError
        For an estimator without a `random_state`, a frozen one, or a network whose `module` is an
        instance with weights of its own: all clones would be the same, or start from the same
        weights.

    References
    ----------
    Lakshminarayanan, Pritzel and Blundell (2017), Simple and scalable predictive uncertainty
    estimation using deep ensembles.

    Examples
    --------
    >>> from torch import nn
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> from sklearn_lhcal.neural_network import NeuralClassifier
    >>> data = make_label_histograms(100, random_state=0)
    >>> net = NeuralClassifier(
    ...     nn.Linear, module__in_features=5, module__out_features=3, max_epochs=5
    ... )
    >>> DeepEnsembleClassifier(net, n_estimators=3, random_state=0).fit(
    ...     data.X, data.counts
    ... ).predict_dist(data.X)
    Ensemble(n=100, n_classes=3)
    """

    estimator: Estimator
    _: KW_ONLY
    n_estimators: int = 5
    n_jobs: int | None = None
    random_state: Seed = None

    @classmethod
    def from_trained(cls, estimators: Iterable[Estimator]) -> Self:
        """A fitted ensemble of classifiers that are trained already, each with the same classes.

        Put it into a FrozenEstimator where it is not to be trained again. A torch module becomes a
        classifier by `NeuralClassifier.from_trained`.
        """
        members: list[Any] = list(estimators)
        if not members or not all(hasattr(one, "classes_") for one in members):
            raise ValueError(
                "estimators must be a list of fitted classifiers; a torch module becomes one by "
                "NeuralClassifier.from_trained(module, classes)."
            )
        classes = np.asarray(members[0].classes_)
        if any(set(one.classes_) != set(classes) for one in members):
            raise ValueError("The estimators were trained on different classes.")
        made = cls(members[0], n_estimators=len(members))
        made.estimators_, made.classes_, made.seed_ = members, classes, 0
        take_feature_names(made, members[0])
        return made

    def _fit(self, X, labels, weight, seed, fit_params):
        params = self.estimator.get_params()
        seeded = [k for k in params if k == "random_state" or k.endswith("__random_state")]
        if not seeded or isinstance(self.estimator, FrozenEstimator):
            raise ValueError(
                f"{type(self.estimator).__name__} has no random_state that would tell its clones "
                "apart, or is frozen; use one that is random and not fitted."
            )
        shared = [
            k
            for k, v in params.items()
            if isinstance(v, nn.Module) and next(v.parameters(), None) is not None
        ]
        if shared:
            raise ValueError(
                f"{shared[0]} is an instance, from whose weights all networks would start; give "
                f"the class with its arguments as {shared[0]}__…, or a function."
            )
        rng = check_random_state(seed)
        clones = [
            clone(self.estimator).set_params(
                **{k: int(rng.randint(2**31 - 1)) for k in sorted(seeded)}
            )
            for _ in range(self.n_estimators)
        ]
        fitted = Parallel(n_jobs=self.n_jobs)(
            delayed(fit_on_labels)(c, X, labels, weight, **fit_params) for c in clones
        )
        take_feature_names(self, fitted[0])
        return {"estimators_": fitted}

    def _draws(self, X, n, rng):
        members = [self._proba(e, X) for e in self.estimators_]
        if n is None:
            return members
        return [members[i] for i in rng.randint(len(members), size=n)]
