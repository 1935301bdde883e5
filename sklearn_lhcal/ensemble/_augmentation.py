"""Test-time augmentation: one classifier asked about many versions of the input."""

from collections.abc import Callable

import numpy as np
from sklearn.utils import check_random_state

from .._utils.checks import check_samples
from .._utils.types import Estimator, Samples, Seed
from ._base import EnsembleClassifier


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

    def __init__(
        self,
        estimator: Estimator,
        augment: Callable[[Samples, np.random.RandomState], Samples],
        *,
        n_samples: int = 20,
        random_state: Seed = None,
    ) -> None:
        self.estimator = estimator
        self.augment = augment
        self.n_samples = n_samples
        self.random_state = random_state

    def _draws(self, X, n, rng):
        X = check_samples(X)
        seeds = rng.randint(2**31 - 1, size=n)
        versions = (self.augment(X, check_random_state(int(s))) for s in seeds)
        return [self._proba(self.estimator_, version) for version in versions]
