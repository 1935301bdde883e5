"""Splits that leave most of the data out within balls."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_array, check_random_state
from sklearn.utils.metadata_routing import UNUSED

from .._rows import parameters, read_labels
from .._utils.checks import as_features, check_params, check_same_length, check_samples, take_rows
from .._utils.types import ArrayLike, Groups, Indices, LabelsLike, MetricFunction, Samples, Seed
from ._carved import CarvedScorer, rows_key

# Share of all samples in balls that do not overlap, where the radius is "auto".
_AUTO_SHARE = 0.3
# Samples for each ball among which its centre is searched for.
_CANDIDATES = 50
# Parts of the samples in a split.
_TRAIN, _AUGMENTED_ONLY, _TEST = range(3)


@parameters
class BallCarvingSplit(BaseEstimator):
    """Splits that take away most of the data within balls, so that much is left to learn there.

    Balls are carved around centres in dense regions. A part of a ball's samples stays in training,
    another part is for testing, and the rest is what more data would add. Training and this rest
    are the *augmented* samples. A model fitted on these is the reference to which
    `metrics.accuracy_gain` compares the one fitted on training, at the test samples. Distances are
    Euclidean, so features should be on one scale. Between the pixels of images they mean little:
    carve these in what a network sees, ``features=LayerFeatures(FrozenEstimator(net), layer)``.

    Parameters
    ----------
    radius : "auto" or float, default="auto"
        Radius of the balls, in the unit of X. "auto" does not depend on scale or dimension: it is
        the lower quartile, over candidate centres, of the radius of a ball that holds
        ``.3·n_samples/n_balls`` samples.
    n_balls : int, default=12
        Number of balls, where no centres are given.
    keep_fraction : float or tuple (low, high), default=(0, 0.3)
        Share of a ball's samples that stays in training. From a range it is drawn uniformly for
        each ball, so that epistemic uncertainty varies.
    test_fraction : float or tuple (low, high), default=0.3
        Share of a ball's samples that is for testing, drawn likewise from a range. What is left
        goes to the augmented samples.
    n_splits : int, default=1
        How many splits `split` yields, each with balls of its own.
    features : None, transformer or callable, default=None
        Where samples lie. None: at X. A transformer is cloned, and fitted on X alone: a scaler, a
        PCA, `LayerFeatures` of a frozen network. A callable maps X to an array of shape (n_samples,
        n_features). X may then hold images, or anything else that has samples. What is fitted on
        the classes of samples knows the test labels: let it learn from other samples.
    centers : array-like of shape (n_balls, n_features), default=None
        Centres of the balls, in the space of `features`: a grid over a plane, say. Balls may
        overlap. None: dense places are searched for.
    random_state : int, RandomState instance or None, default=None
        Seed of centres, fractions and samples. An integer makes `split` and `split_augmented`
        repeat.

    Notes
    -----
    Candidates are ``50·n_balls`` samples at random, or all where there are fewer. The quarter with
    the most neighbours within the radius may be centres. Taken in random order, each keeps two
    radii away from the earlier ones, so that balls do not overlap. Where no more such centres are
    left, one radius suffices, and then any centre does. A sample belongs to the first ball that
    holds it.

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

    radius: float | Literal["auto"] = "auto"
    n_balls: int = 12
    keep_fraction: float | tuple[float, float] = (0, 0.3)
    test_fraction: float | tuple[float, float] = 0.3
    n_splits: int = 1
    features: Any | Callable[[Samples], ArrayLike] | None = None
    centers: ArrayLike | None = None
    random_state: Seed = None

    def split(
        self, X: Samples, y: LabelsLike | None = None, groups: Groups = None
    ) -> Iterator[tuple[Indices, Indices]]:
        """Yield (train, test) index arrays, without the samples that only the augmented set holds.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            With `features`, anything that has samples.
        y : label histogram of shape (n_samples, n_classes), optional
            Where it is given, each of its classes must be left in training.
        groups : ignored
        """
        for train, _, test in self._splits(X, y):
            yield train, test

    def split_augmented(
        self, X: Samples, y: LabelsLike | None = None
    ) -> tuple[Indices, Indices, Indices]:
        """One (train, augmented, test) triple of ascending index arrays: the first of the splits.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            With `features`, anything that has samples.
        y : label histogram of shape (n_samples, n_classes), optional
            Where it is given, each of its classes must be left in training.

        Returns
        -------
        train, augmented, test : ndarray of int
            Training is part of the augmented samples; test samples are in neither. The three leave
            no sample out.

        Raises
        ------
        ValueError
            Parameters out of range, centres outside the data, a class that is missing from
            training, balls that hold no test sample.
        """
        return next(self._splits(X, y))

    def scorer(
        self, X: Samples, y: LabelsLike, scoring: str = "neg_epistemic_calibration_error"
    ) -> MetricFunction:
        """A scorer for searches over these splits, whose reference is P3's f_aug.

        A fitted candidate is cloned and fitted again, to the augmented samples of the split whose
        test samples are scored. The gain is of this model over the candidate.

        Parameters
        ----------
        X, y
            Those that the search is fitted to.
        scoring : {"neg_epistemic_calibration_error", "epistemic_correlation"}
            See `metrics.EpistemicScorer`.

        Returns
        -------
        scorer : callable
            ``scorer(estimator, X, y)``, for ``GridSearchCV(scoring=scorer, cv=splitter)``. It
            raises ValueError for samples that are no test part, training samples say. It holds X
            and y.

        Raises
        ------
        ValueError
            Another `scoring`, a `random_state` that is no int: splits would not repeat.

        Examples
        --------
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> from sklearn.model_selection import GridSearchCV
        >>> from sklearn_lhcal.datasets import make_random_checkerboard
        >>> X, y = make_random_checkerboard(2000, 8, 8, cell_std=0.25, random_state=0)
        >>> carve = BallCarvingSplit(random_state=0)
        >>> scorer = carve.scorer(X, y, "epistemic_correlation")
        >>> forest = RandomForestClassifier(10, random_state=0)
        >>> grid = {"min_samples_leaf": [5, 100]}
        >>> GridSearchCV(forest, grid, scoring=scorer, cv=carve).fit(X, y).best_params_
        {'min_samples_leaf': 5}
        """
        if not isinstance(self.random_state, (int, np.integer)):
            raise ValueError(
                f"random_state must be an int, got {self.random_state!r}: splits must repeat."
            )
        augmented = {rows_key(take_rows(X, test)): both for _, both, test in self._splits(X, y)}
        return CarvedScorer(X, y, augmented, scoring)

    def get_n_splits(self, X: Samples = None, y: object = None, groups: object = None) -> int:
        """Number of splits."""
        return self.n_splits

    def _splits(self, X, y) -> Iterator[tuple[Indices, Indices, Indices]]:
        """All triples."""
        shares = self._check_parameters()
        h = self._places(X)
        rng = check_random_state(self.random_state)
        for _ in range(self.n_splits):
            yield self._split(h, y, shares, rng)

    def _places(self, X):
        """Where the samples lie, h of shape (n, f)."""
        X = check_samples(X)
        if self.features is None and len(getattr(X, "shape", ())) > 2:
            raise ValueError(
                f"X has shape {X.shape}, but balls need one vector a sample; give the splitter "
                "BallCarvingSplit(features=LayerFeatures(FrozenEstimator(net), layer))."
            )
        if self.features is None:
            X = check_array(X, accept_sparse="csr", input_name="X", copy=issparse(X))
            if issparse(X):
                # an entry that is stored in parts
                X.sum_duplicates()
            return X
        if hasattr(self.features, "transform"):
            result = clone(self.features).fit(X).transform(X)
        elif callable(self.features):
            result = self.features(X)
        else:
            raise ValueError(
                f"features must be None, a transformer or a callable, got {self.features!r}; a "
                "layer of a network is LayerFeatures(FrozenEstimator(net), layer)."
            )
        return as_features(result, X, "BallCarvingSplit")

    def _split(self, X, y, shares, rng):
        (low, high), tested = shares
        balls = self._balls(X, rng)
        part = np.full(X.shape[0], _TRAIN)
        free = np.ones(len(part), dtype=bool)
        for ball in balls:
            rows = rng.permutation(np.sort(ball[free[ball]]))
            free[rows] = False
            keep = round(rng.uniform(low, high) * len(rows))
            share = tested[0] if tested[0] == tested[1] else rng.uniform(*tested)
            left = rows[keep:]
            part[left] = _AUGMENTED_ONLY
            part[left[: round(share * len(rows))]] = _TEST
        train = np.flatnonzero(part == _TRAIN)
        test = np.flatnonzero(part == _TEST)
        if not len(test) or not len(train):
            better = "smaller" if len(test) else "larger"
            raise ValueError(
                f"The {len(balls)} balls leave {len(train)} of {len(part)} samples for training "
                f"and {len(test)} for testing; give a {better} radius than {self.radius!r}."
            )
        if y is not None:
            labels = read_labels(y).for_fit()
            check_same_length(len(labels), X=X)
            where = "the training samples beside the balls"
            labels.take(train).check_all_seen(where, "smaller or fewer balls")
        return train, np.flatnonzero(part != _TEST), test

    def _check_parameters(self) -> list[list[float]]:
        """The ranges of the shares that stay in training, and that are for testing."""
        check_params(self)
        shares = [np.broadcast_to(a, 2).tolist() for a in (self.keep_fraction, self.test_fraction)]
        (low, high), (least, most) = shares
        if not 0 <= low <= high < 1 or not 0 < least <= most <= 1 - high + 1e-12:
            raise ValueError(
                "keep_fraction must be a number in [0, 1) or an ascending range of these, and "
                "test_fraction positive and at most what is left, or such a range, got "
                f"{self.keep_fraction!r} and {self.test_fraction!r}."
            )
        return shares

    def _balls(self, X, rng) -> list[NDArray]:
        """The samples within the radius of each centre."""
        n, n_balls = X.shape[0], self.n_balls
        centers = self.centers
        if centers is not None:
            centers = check_array(centers, input_name="centers")
            n_balls = len(centers)
        neighbours = NearestNeighbors().fit(X)
        candidates = X[rng.choice(n, size=min(n, _CANDIDATES * n_balls), replace=False)]
        R = self.radius
        if R == "auto":
            m = min(max(2, round(_AUTO_SHARE * n / n_balls)), n)
            distances, _ = neighbours.kneighbors(candidates, m)
            R = np.quantile(distances[:, -1], 0.25)
        if centers is not None:
            return _around(centers, R, neighbours)
        balls = neighbours.radius_neighbors(candidates, R, return_distance=False)
        size = np.array([len(ball) for ball in balls])
        dense = np.flatnonzero(size >= np.quantile(size, 0.75))
        distance = euclidean_distances(candidates[dense])
        # the earliest that keep 2R from those before; then R; then any
        chosen: list[int] = []
        for separation in (2 * R, R, 0.0):
            for c in range(len(distance)):
                apart = c not in chosen and (distance[c, chosen] >= separation).all()
                if apart and len(chosen) < n_balls:
                    chosen.append(c)
        return list(balls[dense[chosen]])


def _around(centers: NDArray, R: float, neighbours: NearestNeighbors) -> list[NDArray]:
    """The samples within the radius of each of the centres that the user names."""
    if centers.shape[1] != neighbours.n_features_in_:
        raise ValueError(
            f"centers has shape {centers.shape}, samples {neighbours.n_features_in_} dimensions."
        )
    balls = list(neighbours.radius_neighbors(centers, R, return_distance=False))
    empty = {i: centers[i].tolist() for i, ball in enumerate(balls) if not len(ball)}
    if empty:
        raise ValueError(
            f"{len(empty)} of {len(centers)} centers lie outside the data, with no sample within "
            f"{R:.3g}: {empty}; leave them out, or give a larger radius."
        )
    return balls
