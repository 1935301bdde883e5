"""Folds that are stratified by majority labels, and predictions out of fold."""

import warnings
from collections.abc import Iterator
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.model_selection import BaseCrossValidator, StratifiedGroupKFold, StratifiedKFold
from sklearn.model_selection import check_cv as sklearn_check_cv

from .._rows import parameters, predicted_classes, predicted_dist, read_labels
from .._utils.arrays import Indices
from .._utils.checks import (
    check_params,
    check_same_length,
    check_samples,
    checked,
    read_groups,
    take_params,
    take_rows,
)
from .._utils.estimators import class_order, fit_on_labels, own_columns
from .._utils.names import check_row_names
from .._utils.progress import Progress
from .._utils.types import Estimator, Folds, Groups, LabelsLike, Samples, Seed, Splitter, Verbose
from ..distributions import Distribution


@parameters
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

    n_splits: int = 5
    _: KW_ONLY
    shuffle: bool = False
    random_state: Seed = None

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

    def get_n_splits(self, X: Samples = None, y: object = None, groups: object = None) -> int:
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


@checked
def cross_val_predict(
    estimator: Estimator,
    X: Samples,
    y: LabelsLike,
    *,
    cv: Folds = None,
    groups: Groups = None,
    method: Literal["predict_proba", "predict_dist", "predict"] = "predict_proba",
    fit_params: dict | None = None,
    verbose: Verbose = 0,
) -> NDArray | Distribution:
    """Out-of-fold predictions of a classifier trained on label histograms.

    Counts stay counts. Scikit-learn's function of this name encodes each column as if it held
    labels, and so corrupts them silently.

    Parameters
    ----------
    estimator : classifier
        Cloned for each fold. It is fitted on counts where it takes them, else on weighted or
        repeated samples.
    X : anything that holds n_samples samples and can be indexed
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes; named columns are sorted.
    cv : int, splitter or list of splits, default=None
        An int stratifies by majority label; None is 5. Every sample must be in one test part, once.
    groups : array-like of shape (n_samples,), optional
        Goes to the splitter. A calibrator whose own folds shall keep groups together needs them in
        `fit_params`, too.
    method : {"predict_proba", "predict_dist", "predict"}
        What to predict.
    fit_params : dict, optional
        Goes to fit; entries with one value per sample are split.
    verbose : int, default=0
        Above 0: a progress bar.

    Returns
    -------
    prediction : ndarray of shape (n_samples, n_classes), Distribution, or ndarray of (n_samples,)
        Rows are in the order of X. Columns are in the order of the sorted classes, or of those that
        the estimator brings: a frozen one, or saved outputs.

    Raises
    ------
    ValueError
        Test parts that are no partition of the samples, a class missing from a training part, an
        unknown method.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(100, random_state=0)
    >>> cross_val_predict(LogisticRegression(), data.X, data.counts, method="predict_dist")
    PointMass(n=100, n_classes=3)
    """
    if not is_classifier(estimator):
        raise ValueError(f"estimator must be a classifier, got {type(estimator).__name__}.")
    X = check_samples(X)
    given = read_labels(y)
    labels = given.for_fit(class_order(estimator, X, given))
    n = len(labels)
    check_same_length(n, X=X)
    read_groups(groups, n)
    fit_params = fit_params or {}
    check_row_names(X=X, y=y, groups=groups, sample_weight=fit_params.get("sample_weight"))
    splits = list(check_cv(cv).split(np.zeros((n, 1)), labels.majority, groups))
    rows = np.concatenate([test for _, test in splits])
    if not np.array_equal(np.sort(rows), np.arange(n)):
        raise ValueError("cv must put every sample into one test part: use a K-fold splitter.")
    folds = []
    for i, (train, test) in enumerate(Progress(splits, desc="folds", disable=not verbose)):
        part = labels.take(train)
        part.check_all_seen(f"training fold {i}")
        params = take_params(fit_params, train, n)
        model = fit_on_labels(clone(estimator), take_rows(X, train), part, **params)
        folds.append(_predict(model, take_rows(X, test), method, labels.classes))
    join: Any = Distribution.concatenate if method == "predict_dist" else np.concatenate
    return join(folds)[np.argsort(rows)]


def _predict(model, X, method: str, classes: NDArray) -> NDArray | Distribution:
    """What `method` says, in the order and with the names of the classes."""
    if method == "predict":
        return predicted_classes(model, X, classes)
    if method == "predict_proba":
        return model.predict_proba(X)[:, own_columns(model, classes)]
    return predicted_dist(model, X, classes)
