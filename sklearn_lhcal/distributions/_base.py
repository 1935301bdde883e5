"""What every distribution over class probabilities offers, and what several kinds share."""

from abc import ABC, abstractmethod
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, xlogy
from sklearn.utils import check_random_state

from .._simplex import check_proba, entropy, gini
from ..label_histogram import KnownProbabilities, as_array, check_counts, count_matrix


class Distribution(ABC):
    """A batch of n distributions over class probabilities z, points of the simplex with K corners."""

    @abstractmethod
    def mean(self) -> NDArray[np.float64]:
        """E[z], shape (n, K)."""

    @abstractmethod
    def variance(self) -> NDArray[np.float64]:
        """Var[z_k], shape (n, K)."""

    @abstractmethod
    def mean_after(self, label: int) -> NDArray[np.float64]:
        """E[z | one more label, of class `label`], shape (n, K): the mean of the posterior after that label."""

    @abstractmethod
    def mutual_information(self) -> NDArray[np.float64]:
        """H(E[z]) − E[H(z)], shape (n,), nats, at least 0: what one label would tell about z."""

    @abstractmethod
    def posterior(self, counts: ArrayLike) -> "Distribution":
        """The distribution after more labels: counts of shape (n, K), rows without labels allowed, or n 1-D labels."""

    @abstractmethod
    def log_prob_counts(self, counts: ArrayLike) -> NDArray[np.float64]:
        """Log-probability, shape (n,), of counts (n, K) or of n 1-D labels, with the multinomial coefficient."""

    @abstractmethod
    def interval(self, level: float = 0.9) -> NDArray[np.float64]:
        """Equal-tailed interval of each z_k at the given level, shape (n, K, 2)."""

    @abstractmethod
    def embed(self, columns: ArrayLike, n_classes: int) -> "Distribution":
        """The same distribution over more classes: class k moves to ``columns[k]``, the others have probability 0."""

    @classmethod
    @abstractmethod
    def _joined(cls, batches: list[Self]) -> Self:
        """One batch of the rows of several of this kind, in order."""

    @abstractmethod
    def _sample(self, n_draws: int, rng: np.random.RandomState) -> NDArray[np.float64]: ...

    @abstractmethod
    def __getitem__(self, rows) -> Self: ...

    def __len__(self) -> int:
        return len(self.mean())

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={len(self)}, n_classes={self.n_classes})"

    @property
    def n_classes(self) -> int:
        """K, the number of classes."""
        return self.mean().shape[1]

    def second_moment(self) -> NDArray[np.float64]:
        """E[z_k²], shape (n, K)."""
        return self.variance() + self.mean() ** 2

    def disagreement(self, pairs: ArrayLike | None = None) -> NDArray[np.float64]:
        """Probability that two raters disagree, shape (n,): ``1 − Σ_k E[z_k²]`` (P1 eq. 49).

        `pairs` is a symmetric 0/1 matrix of shape (K, K) with a zero diagonal: which pairs of different labels count as
        disagreeing (two grades apart, say). None: all of them.
        """
        z = self.mean()
        if pairs is None:
            return np.maximum(gini(z) - self.variance().sum(axis=1), 0.0)
        P = np.asarray(pairs, dtype=np.float64)
        if (
            P.shape != (z.shape[1],) * 2
            or not np.array_equal(P, P.T)
            or np.diag(P).any()
            or not np.isin(P, (0, 1)).all()
        ):
            raise ValueError(f"pairs must be a symmetric 0/1 matrix with a zero diagonal, shape {(z.shape[1],) * 2}.")
        return sum(z[:, k] * (self.mean_after(k) @ P[k]) for k in range(z.shape[1]))

    def class_disagreement(self) -> NDArray[np.float64]:
        """Probability that one of two raters names class k and the other does not, shape (n, K) (P1 eq. 50)."""
        z = self.mean()
        return 2 * np.maximum(z * (1 - z) - self.variance(), 0.0)

    def entropy(self) -> NDArray[np.float64]:
        """Total uncertainty H(E[z]), shape (n,), nats."""
        return entropy(self.mean())

    def expected_entropy(self) -> NDArray[np.float64]:
        """Aleatoric uncertainty E[H(z)], shape (n,), nats."""
        return np.maximum(self.entropy() - self.mutual_information(), 0.0)

    def sample(self, n_draws: int, random_state=None) -> NDArray[np.float64]:
        """Draws of z, shape (n_draws, n, K). `random_state` as everywhere in scikit-learn."""
        return self._sample(n_draws, check_random_state(random_state))


class PointMass(Distribution):
    """No uncertainty about the class probabilities: z is known.

    Parameters
    ----------
    proba : array-like of shape (n, K) or (n,)
        The class probabilities, or those of the second of two classes.

    Examples
    --------
    >>> PointMass([[0.5, 0.5], [0.9, 0.1]]).disagreement()
    array([0.5 , 0.18])
    """

    def __init__(self, proba: ArrayLike):
        self._z = frozen(check_proba(proba))

    @classmethod
    def of_checked(cls, z: NDArray[np.float64]) -> "PointMass":
        """Of probabilities (n, K) that passed the gate, perhaps in float32, whose rows need not sum to 1 in float64."""
        self = cls.__new__(cls)
        self._z = frozen(z)
        return self

    def __getitem__(self, rows) -> "PointMass":
        return PointMass.of_checked(self._z[row_index(rows)])

    def mean(self):
        return self._z

    def variance(self):
        return np.zeros_like(self._z)

    def mean_after(self, label):
        return self._z

    def mutual_information(self):
        return np.zeros(len(self._z))

    def posterior(self, counts):
        more_labels(counts, self)
        return self

    def log_prob_counts(self, counts):
        y = more_labels(counts, self)
        return log_coefficient(y) + xlogy(y, self._z).sum(axis=1)

    def interval(self, level=0.9):
        check_level(level)
        return np.stack([self._z, self._z], axis=2)

    def embed(self, columns, n_classes):
        return PointMass.of_checked(in_columns(self._z, columns, n_classes))

    @classmethod
    def _joined(cls, batches):
        return cls.of_checked(np.concatenate([b._z for b in batches]))

    def _sample(self, n_draws, rng):
        return np.broadcast_to(self._z, (n_draws, *self._z.shape)).copy()


def concatenate(batches: list[Distribution]) -> Distribution:
    """One batch of the rows of several of one kind, in order; mixtures must have equal numbers of members."""
    kinds = {type(b) for b in batches}
    if len(kinds) > 1:
        raise ValueError(f"Distributions of several kinds cannot be joined: {sorted(k.__name__ for k in kinds)}.")
    return batches[0]._joined(batches)


def in_columns(z, columns, n_classes: int) -> NDArray[np.float64]:
    """z with its columns spread over `n_classes`, shape (n, n_classes); the others are 0."""
    wide = np.zeros((len(z), n_classes))
    wide[:, columns] = z
    return wide


def frozen(a: NDArray[np.float64]) -> NDArray[np.float64]:
    """A private, read-only copy."""
    a = np.array(a, dtype=np.float64)
    a.flags.writeable = False
    return a


def row_index(rows):
    """Row indices that keep the batch a batch: an integer selects one row."""
    return [int(rows)] if isinstance(rows, (int, np.integer)) else rows


def log(a):
    """log a, with log 0 = −inf and no warning."""
    with np.errstate(divide="ignore"):
        return np.log(a)


def more_labels(counts, distribution: Distribution) -> NDArray[np.float64]:
    """Counts of further labels, shape (n, K), float64; a row may have none. 1-D labels are column numbers."""
    n, K = len(distribution), distribution.n_classes
    if isinstance(counts, KnownProbabilities):
        raise ValueError("Infinitely many labels have no posterior and no likelihood; pass counts.")
    y = as_array(counts)
    if y.ndim == 2 and y.shape[1] > 1:
        y = count_matrix(y, empty_rows=True)
    else:
        y, _ = check_counts(y, classes=np.arange(K))
    if y.shape != (n, K):
        raise ValueError(f"counts must have shape {(n, K)}, got {y.shape}.")
    return y.astype(np.float64)


def log_coefficient(y):
    """log( n! / Π_k y_k! ), shape (n,)."""
    return gammaln(y.sum(axis=1) + 1) - gammaln(y + 1).sum(axis=1)


def check_level(level: float) -> None:
    """ValueError for a level of intervals outside (0, 1)."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}.")


def tails(level: float) -> NDArray[np.float64]:
    """Probabilities below either end of an equal-tailed interval, shape (2,)."""
    check_level(level)
    return np.array([(1 - level) / 2, (1 + level) / 2])
