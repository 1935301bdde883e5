"""Splitters and cross-validated predictions that respect label histograms."""

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.model_selection import BaseCrossValidator, StratifiedGroupKFold, StratifiedKFold, check_cv
from sklearn.utils import indexable
from tqdm.auto import tqdm

from ._fit import check_same_length, fit_on_counts, is_per_row, take_rows
from .distributions import Distribution, concatenate, predict_dist
from .label_histogram import check_counts, sorted_counts

__all__ = ["StratifiedVotesKFold", "cross_val_predict"]


class StratifiedVotesKFold(BaseCrossValidator):
    """K folds with the same shares of majority classes; with `groups`, no group is in two folds.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, 2 at least.
    shuffle : bool, default=False
        Whether to shuffle the rows first.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffling.

    Notes
    -----
    Groups reach the folds of a calibrator within a search or a cross-validation by themselves where scikit-learn's
    metadata routing is on. Where it is off, a search keeps `groups` for its own folds; those of the calibrator
    then need them as a fit parameter: ``<step>__groups=`` of a Pipeline or in the ``params`` of `cross_validate`.

    Examples
    --------
    >>> import numpy as np
    >>> counts = np.array([[3, 0], [2, 1], [0, 3], [1, 2]])
    >>> for train, test in StratifiedVotesKFold(2).split(counts, counts):
    ...     print(train, test)
    [1 3] [0 2]
    [0 2] [1 3]
    """

    __metadata_request__split = {"groups": True}  # noqa: RUF012 - the form that metadata routing reads

    def __init__(self, n_splits=5, *, shuffle=False, random_state=None):
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def split(self, X, y, groups=None):
        """Yield (train, test) index arrays.

        Parameters
        ----------
        X : anything with n_samples rows
            Not read.
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes; ties of the vote go to the first class.
        groups : array-like of shape (n_samples,), optional
            Rows of one group (one patient, say) stay together.
        """
        votes = majority(check_counts(y)[0])
        kind = StratifiedKFold if groups is None else StratifiedGroupKFold
        splitter = kind(self.n_splits, shuffle=self.shuffle, random_state=self.random_state if self.shuffle else None)
        with warnings.catch_warnings():  # a rare class is no reason to warn at each of many splits
            warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
            yield from splitter.split(np.zeros((len(votes), 1)), votes, groups)

    def get_n_splits(self, X=None, y=None, groups=None):
        """Number of folds."""
        return self.n_splits


def majority(counts: NDArray) -> NDArray[np.intp]:
    """Column of the most voted class of each row, the first of several."""
    return np.asarray(counts).argmax(axis=1)


def make_splits(cv, X, votes: NDArray, **split_params) -> list[tuple[NDArray, NDArray]]:
    """The (train, test) pairs of an int (stratified by votes, groups honoured), a splitter, or a list of pairs."""
    if cv is None or isinstance(cv, (int, np.integer)):
        cv = StratifiedVotesKFold(5 if cv is None else int(cv))
    X = np.zeros((len(votes), 1)) if isinstance(X, dict) else X
    return list(check_cv(cv).split(X, votes, **split_params))


def cross_val_predict(
    estimator, X, y, *, cv=None, groups=None, method="predict_proba", fit_params=None, verbose=0
) -> NDArray | Distribution:
    """Out-of-fold predictions of a classifier trained on label histograms.

    Scikit-learn's function of this name encodes each column of counts as if it held labels, which corrupts them
    silently; this one does not.

    Parameters
    ----------
    estimator : classifier
        Cloned for each fold, and fitted on counts where it takes them, else on weighted or repeated rows.
    X : anything with n_samples rows that can be indexed
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes; named columns are sorted.
    cv : int, splitter or list of splits, default=None
        An int stratifies by majority vote; None is 5. Every row must be in one test part, once.
    groups : array-like of shape (n_samples,), optional
        Goes to the splitter. A calibrator whose own folds shall keep groups together needs them in `fit_params`, too.
    method : {"predict_proba", "predict_dist", "predict"}
        What to predict.
    fit_params : dict, optional
        Goes to fit; entries with one value a row are split.
    verbose : int, default=0
        Above 0: a progress bar.

    Returns
    -------
    prediction : ndarray of shape (n_samples, n_classes), Distribution, or ndarray of shape (n_samples,)
        In the order of the rows of X, columns in the order of the sorted classes. Labels predicted with more data
        (``method="predict"``) are what the epistemic scorers take as `reference_prediction`.

    Raises
    ------
    ValueError
        Test parts that are no partition of the rows, a class missing from a training part, an unknown method.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(100, random_state=0)
    >>> cross_val_predict(LogisticRegression(), data.X, data.counts, method="predict_dist")
    PointMass(n=100, n_classes=3)
    """
    if method not in ("predict_proba", "predict_dist", "predict"):
        raise ValueError(f'method must be "predict_proba", "predict_dist" or "predict", got {method!r}.')
    if not is_classifier(estimator):
        raise ValueError(f"estimator must be a classifier, got {type(estimator).__name__}.")
    (X,) = indexable(X)
    counts, classes = sorted_counts(y)
    check_same_length(len(counts), X=X, groups=groups)
    splits = make_splits(cv, X, majority(counts), groups=groups)
    rows = np.concatenate([test for _, test in splits])
    if not np.array_equal(np.sort(rows), np.arange(len(counts))):
        raise ValueError("cv must put every row into one test part, once: use a K-fold splitter.")
    folds = []
    for i, (train, test) in enumerate(tqdm(splits, desc="folds", disable=not verbose)):
        params = {k: take_rows(v, train) if is_per_row(v, len(counts)) else v for k, v in (fit_params or {}).items()}
        check_all_classes(counts[train], classes, f"training fold {i}")
        model = fit_on_counts(clone(estimator), take_rows(X, train), counts[train], classes, **params)
        folds.append(_predict(model, take_rows(X, test), method, classes))
    order = np.argsort(rows)
    return (concatenate(folds) if method == "predict_dist" else np.concatenate(folds))[order]


def _predict(model, X, method: str, classes: NDArray) -> NDArray | Distribution:
    """What `method` says; labels by position, because a classifier that was given counts knows no names."""
    if method == "predict_dist":
        return predict_dist(model, X)
    if method == "predict_proba":
        return model.predict_proba(X)
    return classes[(np.asarray(model.predict(X))[:, None] == model.classes_).argmax(axis=1)]


def check_all_classes(counts: NDArray, classes: NDArray, where: str) -> None:
    """Raise a ValueError that names the classes without a label."""
    missing = np.asarray(counts).sum(axis=0) == 0
    if missing.any():
        raise ValueError(
            f"No label of class {classes[missing].tolist()} in {where}; give more data of this class, use fewer "
            "folds or stratified ones, or drop the class."
        )
