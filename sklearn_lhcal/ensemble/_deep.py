"""Deep ensembles: many clones of one classifier, asked once each."""

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import nn

from .._utils.arrays import Floats
from .._utils.checks import checked
from .._utils.estimators import fit_on_labels, take_feature_names
from .._utils.types import Estimator, Samples, Seed
from ._base import EnsembleClassifier


@dataclass(eq=False, repr=False)
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
                "apart, or is frozen; use an estimator that is random and not fitted yet."
            )
        shared = [
            k
            for k, v in params.items()
            if isinstance(v, nn.Module) and next(v.parameters(), None) is not None
        ]
        if shared:
            raise ValueError(
                f"{shared[0]} is an instance, from whose weights all networks would start; give "
                f"the class with its arguments as {shared[0]}__…, or a function that makes a new "
                "one."
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
        return {"estimators_": fitted}

    def _member(self):
        return self.estimators_[0]

    @checked
    def sample_proba(
        self, X: Samples, n_samples: int | None = None, random_state: Seed = None
    ) -> Floats:
        """Class probabilities (S, n, K) of all members, or of S = `n_samples` drawn from them."""
        check_is_fitted(self, "seed_")
        members = np.stack([self._proba(e, X) for e in self.estimators_])
        if n_samples is None:
            return members
        return members[self._rng(random_state).randint(len(members), size=n_samples)]
