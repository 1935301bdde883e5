"""Folds that are stratified by the majority labels of label histograms."""

import warnings
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from sklearn.model_selection import BaseCrossValidator, StratifiedGroupKFold, StratifiedKFold
from sklearn.model_selection import check_cv as sklearn_check_cv

from .._rows import read_labels
from .._utils.arrays import Indices
from .._utils.checks import check_params, checked, read_groups
from .._utils.types import Folds, Groups, LabelsLike, Samples, Seed, Splitter


class StratifiedVotesKFold(BaseCrossValidator):
    """K folds with the same shares of majority classes; with `groups`, no group is in two folds.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, 2 at least.
    shuffle : bool, default=False
        Whether to shuffle the samples first.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffling.

    Notes
    -----
    With scikit-learn's metadata routing, `groups` reach the folds of a calibrator inside a search
    or a cross-validation by themselves. Without it, a search keeps `groups` for its own folds.
    Those of the calibrator then need them as a fit parameter: ``<step>__groups=`` of a Pipeline, or
    in the ``params`` of `cross_validate`.

    Examples
    --------
    >>> import numpy as np
    >>> counts = np.array([[3, 0], [2, 1], [0, 3], [1, 2]])
    >>> for train, test in StratifiedVotesKFold(2).split(counts, counts):
    ...     print(train, test)
    [1 3] [0 2]
    [0 2] [1 3]
    """

    __metadata_request__split: ClassVar = {"groups": True}

    def __init__(
        self, n_splits: int = 5, *, shuffle: bool = False, random_state: Seed = None
    ) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def split(
        self, X: Samples, y: LabelsLike, groups: Groups = None
    ) -> Iterator[tuple[Indices, Indices]]:
        """Yield (train, test) index arrays.

        Parameters
        ----------
        X : anything that holds n_samples samples
            Not read.
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes; ties of the label go to the first class.
        groups : array-like of shape (n_samples,), optional
            Samples of one group (one patient, say) stay together.
        """
        check_params(self)
        votes = read_labels(y).majority
        groups = read_groups(groups, len(votes))
        kind = StratifiedKFold if groups is None else StratifiedGroupKFold
        seed = self.random_state if self.shuffle else None
        splitter = kind(self.n_splits, shuffle=self.shuffle, random_state=seed)
        # A rare class is no reason to warn at each of many splits. All are made here, so that the
        # filter is gone before the caller goes on.
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message="The least populated class", category=UserWarning
            )
            splits = list(splitter.split(votes, votes, groups))
        yield from splits

    def get_n_splits(
        self, X: Samples = None, y: LabelsLike | None = None, groups: Groups = None
    ) -> int:
        """Number of folds."""
        return self.n_splits


@checked
def check_cv(cv: Folds = 5) -> Splitter:
    """A splitter from what is given as ``cv=``: scikit-learn's function, for label histograms.

    Parameters
    ----------
    cv : int, splitter, list of splits or None, default=5
        An int, or None for 5, becomes a `StratifiedVotesKFold`.

    Returns
    -------
    splitter : object with ``split(X, y, groups)``

    Examples
    --------
    >>> check_cv(3).get_n_splits()
    3
    """
    if cv is None:
        return StratifiedVotesKFold()
    if isinstance(cv, (int, np.integer)):
        return StratifiedVotesKFold(int(cv))
    return sklearn_check_cv(cv)
