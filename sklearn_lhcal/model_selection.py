"""Splitters and cross-validated predictions that respect label histograms."""

import warnings
from collections.abc import Callable, Iterator
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import BaseCrossValidator, StratifiedGroupKFold, StratifiedKFold
from sklearn.model_selection import check_cv as sklearn_check_cv
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_array, check_random_state, indexable
from sklearn.utils.metadata_routing import UNUSED
from tqdm.auto import tqdm

from ._ground.arrays import Indices
from ._ground.checks import check_positive_int, check_same_length, take_params, take_rows
from ._ground.estimators import class_order, fit_on_labels, own_classes
from ._ground.names import check_row_names, positions
from ._ground.types import Estimator, Folds, LabelsLike, Samples, Seed, Splitter
from .distributions import Distribution, predict_dist
from .label_histogram._labels import read_labels

__all__ = ["BallCarvingSplit", "StratifiedVotesKFold", "check_cv", "cross_val_predict"]

# Share of all rows in balls that do not overlap, where the radius is "auto".
_AUTO_SHARE = 0.3
# Rows for each ball among which its centre is sought.
_CANDIDATES = 50
# Parts of the rows in a split.
_TRAIN, _AUGMENTED_ONLY, _TEST = range(3)


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
        self, X: Samples, y: LabelsLike, groups: ArrayLike | None = None
    ) -> Iterator[tuple[Indices, Indices]]:
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
        votes = read_labels(y).majority
        kind = StratifiedKFold if groups is None else StratifiedGroupKFold
        seed = self.random_state if self.shuffle else None
        splitter = kind(self.n_splits, shuffle=self.shuffle, random_state=seed)
        # A rare class is no reason to warn at each of many splits.
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message="The least populated class", category=UserWarning
            )
            yield from splitter.split(votes, votes, groups)

    def get_n_splits(
        self, X: Samples = None, y: LabelsLike | None = None, groups: ArrayLike | None = None
    ) -> int:
        """Number of folds."""
        return self.n_splits


class BallCarvingSplit(BaseEstimator):
    """Splits that take away most of the data within balls, so that much is left to learn there.

    Balls are carved around centres in dense regions. A part of a ball's rows stays in training,
    another part is for testing, and the rest is what more data would add. Training and this rest
    are the *augmented* rows. A model fitted on these is the reference to which
    `metrics.accuracy_gain` compares the one fitted on training, at the test rows. Distances are
    Euclidean, so features should be on one scale.

    Parameters
    ----------
    radius : "auto" or float, default="auto"
        Radius of the balls, in the unit of X. "auto" does not depend on scale or dimension: it is
        the lower quartile, over candidate centres, of the radius of a ball that holds
        ``.3·n_samples/n_balls`` rows.
    n_balls : int, default=12
        Number of balls.
    keep_fraction : float or tuple (low, high), default=(0, 0.3)
        Share of a ball's rows that stays in training. From a range it is drawn uniformly for each
        ball, so that epistemic uncertainty varies.
    test_fraction : float, default=0.3
        Share of a ball's rows that is for testing. What is left goes to the augmented rows.
    n_splits : int, default=1
        How many splits `split` yields, each with balls of its own.
    random_state : int, RandomState instance or None, default=None
        Seed of centres, fractions and rows. An integer makes `split` and `split_augmented` repeat.

    Notes
    -----
    Candidates are ``50·n_balls`` rows at random, or all where there are fewer. The quarter with the
    most neighbours within the radius may be centres. Taken in random order, each keeps two radii
    away from the earlier ones, so that balls do not overlap. Where no more such centres are left,
    one radius suffices, and then any centre does. A row belongs to the first ball that holds it.

    References
    ----------
    The evaluation and calibration of epistemic uncertainty estimates, section 4.2.1 (P3).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(1000, 2))
    >>> train, augmented, test = BallCarvingSplit(random_state=0).split_augmented(X)
    >>> len(train), len(augmented), len(test)
    (727, 901, 99)
    """

    __metadata_request__split: ClassVar = {"groups": UNUSED}

    def __init__(
        self,
        radius: float | Literal["auto"] = "auto",
        n_balls: int = 12,
        keep_fraction: float | tuple[float, float] = (0, 0.3),
        test_fraction: float = 0.3,
        n_splits: int = 1,
        random_state: Seed = None,
    ) -> None:
        self.radius = radius
        self.n_balls = n_balls
        self.keep_fraction = keep_fraction
        self.test_fraction = test_fraction
        self.n_splits = n_splits
        self.random_state = random_state

    def split(
        self, X: Samples, y: LabelsLike | None = None, groups: ArrayLike | None = None
    ) -> Iterator[tuple[Indices, Indices]]:
        """Yield (train, test) index arrays, without the rows that only the augmented set holds.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : label histogram of shape (n_samples, n_classes), optional
            Where it is given, each of its classes must be left in training.
        groups : ignored
        """
        self._check_parameters()
        rng = check_random_state(self.random_state)
        for _ in range(self.n_splits):
            train, _, test = self._split(X, y, rng)
            yield train, test

    def split_augmented(
        self, X: Samples, y: LabelsLike | None = None
    ) -> tuple[Indices, Indices, Indices]:
        """One (train, augmented, test) triple of ascending index arrays: the first of the splits.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : label histogram of shape (n_samples, n_classes), optional
            Where it is given, each of its classes must be left in training.

        Returns
        -------
        train, augmented, test : ndarray of int
            Training is part of the augmented rows; test rows are in neither. The three leave no row
            out.

        Raises
        ------
        ValueError
            Parameters out of range, a class that is missing from training, balls that hold no test
            row.
        """
        return self._split(X, y, check_random_state(self.random_state))

    def get_n_splits(
        self, X: Samples = None, y: LabelsLike | None = None, groups: ArrayLike | None = None
    ) -> int:
        """Number of splits."""
        return self.n_splits

    def _split(self, X, y, rng):
        low, high = self._check_parameters()
        X = check_array(X, accept_sparse="csr")
        balls = self._balls(X, rng)
        part = np.full(X.shape[0], _TRAIN)
        free = np.ones(len(part), dtype=bool)
        for ball in balls:
            rows = rng.permutation(np.sort(ball[free[ball]]))
            free[rows] = False
            keep = round(rng.uniform(low, high) * len(rows))
            left = rows[keep:]
            part[left] = _AUGMENTED_ONLY
            part[left[: round(self.test_fraction * len(rows))]] = _TEST
        train = np.flatnonzero(part == _TRAIN)
        test = np.flatnonzero(part == _TEST)
        if not len(test) or not len(train):
            better = "smaller" if len(test) else "larger"
            raise ValueError(
                f"The {len(balls)} balls leave {len(train)} of {len(part)} rows for training and "
                f"{len(test)} for testing; give a {better} radius than {self.radius!r}, or more "
                "rows."
            )
        if y is not None:
            labels = read_labels(y).for_fit()
            check_same_length(len(labels), X=X)
            where = "the training rows beside the balls"
            labels.take(train).check_all_seen(where, "smaller or fewer balls")
        return train, np.flatnonzero(part != _TEST), test

    def _check_parameters(self) -> tuple[float, float]:
        """The range of the fraction that stays in training."""
        low, high = np.broadcast_to(self.keep_fraction, 2).tolist()
        if not 0 <= low <= high < 1 or not 0 < self.test_fraction <= 1 - high + 1e-12:
            raise ValueError(
                "keep_fraction must be a number in [0, 1) or an ascending range of these, and "
                "test_fraction positive and at most what is left, got "
                f"{self.keep_fraction!r} and {self.test_fraction!r}."
            )
        check_positive_int(n_balls=self.n_balls, n_splits=self.n_splits)
        if self.radius != "auto" and not 0 < self.radius < np.inf:
            raise ValueError(f'radius must be "auto" or a positive number, got {self.radius!r}.')
        return low, high

    def _balls(self, X, rng) -> list[NDArray]:
        """The rows within the radius of each centre."""
        n = X.shape[0]
        neighbours = NearestNeighbors().fit(X)
        candidates = X[rng.choice(n, size=min(n, _CANDIDATES * self.n_balls), replace=False)]
        R = self.radius
        if R == "auto":
            m = min(max(2, round(_AUTO_SHARE * n / self.n_balls)), n)
            distances, _ = neighbours.kneighbors(candidates, m)
            R = np.quantile(distances[:, -1], 0.25)
        balls = neighbours.radius_neighbors(candidates, R, return_distance=False)
        size = np.array([len(ball) for ball in balls])
        dense = np.flatnonzero(size >= np.quantile(size, 0.75))
        chosen = _apart(euclidean_distances(candidates[dense]), R, self.n_balls)
        return list(balls[dense[chosen]])


def _apart(distance: NDArray, R: float, n: int) -> list[int]:
    """At most n points: the earliest that keep 2R from those before; then R; then any."""
    chosen: list[int] = []
    for separation in (2 * R, R, 0.0):
        for c in range(len(distance)):
            apart = c not in chosen and (distance[c, chosen] >= separation).all()
            if apart and len(chosen) < n:
                chosen.append(c)
    return chosen


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


def cross_val_predict(
    estimator: Estimator,
    X: Samples,
    y: LabelsLike,
    *,
    cv: Folds = None,
    groups: ArrayLike | None = None,
    method: Literal["predict_proba", "predict_dist", "predict"] = "predict_proba",
    fit_params: dict | None = None,
    verbose: int = 0,
) -> NDArray | Distribution:
    """Out-of-fold predictions of a classifier trained on label histograms.

    Scikit-learn's function of this name encodes each column of counts as if it held labels, which
    corrupts them silently; this one does not.

    Parameters
    ----------
    estimator : classifier
        Cloned for each fold. It is fitted on counts where it takes them, else on weighted or
        repeated rows.
    X : anything with n_samples rows that can be indexed
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes; named columns are sorted.
    cv : int, splitter or list of splits, default=None
        An int stratifies by majority vote; None is 5. Every row must be in one test part, once.
    groups : array-like of shape (n_samples,), optional
        Goes to the splitter. A calibrator whose own folds shall keep groups together needs them in
        `fit_params`, too.
    method : {"predict_proba", "predict_dist", "predict"}
        What to predict.
    fit_params : dict, optional
        Goes to fit; entries with one value a row are split.
    verbose : int, default=0
        Above 0: a progress bar.

    Returns
    -------
    prediction : ndarray of shape (n_samples, n_classes), Distribution, or ndarray of (n_samples,)
        Rows are in the order of X. Columns are in the order of the sorted classes, or of those that
        the estimator brings: a frozen one, or saved outputs. Labels predicted with more data
        (``method="predict"``) are what the epistemic scorers take as `reference_prediction`.

    Raises
    ------
    ValueError
        Test parts that are no partition of the rows, a class missing from a training part, an
        unknown method.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(100, random_state=0)
    >>> cross_val_predict(LogisticRegression(), data.X, data.counts, method="predict_dist")
    PointMass(n=100, n_classes=3)
    """
    if method not in ("predict_proba", "predict_dist", "predict"):
        raise ValueError(
            f'method must be "predict_proba", "predict_dist" or "predict", got {method!r}.'
        )
    if not is_classifier(estimator):
        raise ValueError(f"estimator must be a classifier, got {type(estimator).__name__}.")
    (X,) = indexable(X)
    labels = read_labels(y).for_fit(class_order(estimator, X))
    n = len(labels)
    check_same_length(n, X=X, groups=groups)
    check_row_names(y=y, groups=groups)
    splits = list(check_cv(cv).split(np.zeros((n, 1)), labels.majority, groups))
    rows = np.concatenate([test for _, test in splits])
    if not np.array_equal(np.sort(rows), np.arange(n)):
        raise ValueError("cv must put every row into one test part, once: use a K-fold splitter.")
    folds = []
    for i, (train, test) in enumerate(tqdm(splits, desc="folds", disable=not verbose)):
        part = labels.take(train)
        part.check_all_seen(f"training fold {i}")
        params = take_params(fit_params or {}, train, n)
        model = fit_on_labels(clone(estimator), take_rows(X, train), part, **params)
        folds.append(_predict(model, take_rows(X, test), method, labels.classes))
    join: Callable = np.concatenate
    if method == "predict_dist":
        join = Distribution.concatenate
    return join(folds)[np.argsort(rows)]


def _predict(model, X, method: str, classes: NDArray) -> NDArray | Distribution:
    """What `method` says, in the order and with the names of the classes."""
    own = own_classes(model, classes)
    if method == "predict":
        predicted = np.asarray(model.predict(X))
        return own[(predicted[:, None] == model.classes_).argmax(axis=1)]
    if method == "predict_proba":
        return model.predict_proba(X)[:, positions(classes, own)]
    return predict_dist(model, X).with_classes(own).in_order(classes)
