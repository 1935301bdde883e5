"""What every distribution over class probabilities offers, and what several kinds share."""

import copy
from abc import ABC, abstractmethod
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from .._ground.checks import as_floats, check_fraction
from .._ground.names import column_names, columns_by_name, is_sorted
from .._ground.simplex import check_proba, entropy, gini
from ..label_histogram._labels import read_labels
from ._likelihood import log_multinomial


class Distribution(ABC):
    """A batch of n distributions over class probabilities z, points of the simplex with K corners.

    Base of all distributions: immutable, rows taken by indexing. It may know the names of its
    `classes`; parts, posteriors and mixtures of it know them too.

    Examples
    --------
    >>> from sklearn_lhcal.distributions import Dirichlet
    >>> dist = Dirichlet([[3.0, 1.0]]).with_classes(["benign", "malignant"])
    >>> dist.posterior(["malignant"]).mean()
    array([[0.6, 0.4]])
    >>> dist.in_order(["malignant", "benign"]).mean()
    array([[0.25, 0.75]])
    """

    _classes: NDArray | None = None

    @abstractmethod
    def mean(self) -> NDArray[np.float64]:
        """E[z], shape (n, K)."""

    @abstractmethod
    def variance(self) -> NDArray[np.float64]:
        """Var[z_k], shape (n, K)."""

    @abstractmethod
    def mutual_information(self) -> NDArray[np.float64]:
        """H(E[z]) − E[H(z)], shape (n,), nats, at least 0: what one label would tell about z."""

    @abstractmethod
    def _interval(self, level: float) -> NDArray[np.float64]:
        """Equal-tailed interval of each z_k, shape (n, K, 2)."""

    @abstractmethod
    def _mean_after(self, k: int) -> NDArray[np.float64]:
        """E[z | one more label, of class k], shape (n, K)."""

    @abstractmethod
    def _posterior(self, y: NDArray[np.float64]) -> "Distribution":
        """The distribution after more labels, counts (n, K)."""

    @abstractmethod
    def _log_prob(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log-probability of counts (n, K), shape (n,)."""

    @abstractmethod
    def _embed(self, columns: NDArray[np.intp], n_classes: int) -> "Distribution":
        """Over more classes: class k moves to ``columns[k]``, the others have probability 0."""

    @classmethod
    @abstractmethod
    def _joined(cls, batches: list[Self]) -> Self:
        """One batch of the rows of several of this kind, in order."""

    @abstractmethod
    def _sample(self, n_draws: int, rng: np.random.RandomState) -> NDArray[np.float64]: ...

    @abstractmethod
    def _take(self, rows) -> Self: ...

    def __getitem__(self, rows) -> Self:
        return self._take(row_index(rows))._named(self._classes)

    def __len__(self) -> int:
        return len(self.mean())

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={len(self)}, n_classes={self.n_classes})"

    @property
    def n_classes(self) -> int:
        """K, the number of classes."""
        return self.mean().shape[1]

    @property
    def classes(self) -> NDArray | None:
        """Names of the classes in the order of the columns, shape (K,); None where they have none."""
        return self._classes

    def with_classes(self, classes: ArrayLike | None) -> Self:
        """The same distribution, its columns named; None takes the names away."""
        if classes is not None:
            classes = np.asarray(classes)
            if classes.shape != (self.n_classes,) or len(set(classes.tolist())) < len(classes):
                raise ValueError(f"classes must hold {self.n_classes} different names, got {classes.tolist()}.")
        return copy.copy(self)._named(classes)

    def _named(self, classes: NDArray | None) -> Self:
        self._classes = classes
        return self

    def in_order(self, classes: ArrayLike) -> "Distribution":
        """The same distribution with its columns in the order of these names.

        Where it has no names of its own, they have to be sorted: it takes them as they are.
        """
        classes = np.asarray(classes)
        if self._classes is None:
            if not is_sorted(classes):
                raise ValueError(
                    f"The classes {classes.tolist()[:20]} are not sorted and this distribution has "
                    "no names: name its columns by with_classes(...)."
                )
            return self.with_classes(classes)
        columns = columns_by_name(classes, self._classes, "the order", "the distribution")
        if np.array_equal(columns, np.arange(len(columns))):
            return self
        return self._embed(columns, len(columns))._named(classes)

    def embed(self, columns: ArrayLike, n_classes: int) -> "Distribution":
        """The same distribution over more classes, without names.

        Class k moves to ``columns[k]``; the others have probability 0.
        """
        columns = np.asarray(columns)
        fits = columns.shape == (self.n_classes,) and len(set(columns.tolist())) == len(columns)
        if not fits or columns.dtype.kind not in "iu":
            raise ValueError(f"columns must hold {self.n_classes} different column numbers, got {columns.tolist()}.")
        if columns.min() < 0 or columns.max() >= n_classes:
            raise ValueError(f"columns must lie between 0 and {n_classes - 1}, got {columns}.")
        return self._embed(columns, n_classes)

    @staticmethod
    def concatenate(batches: "list[Distribution]") -> "Distribution":
        """One batch of the rows of several of one kind, in order.

        Mixtures must have equal numbers of members, all batches the same classes.
        """
        kinds = {type(b) for b in batches}
        if len(kinds) > 1:
            raise ValueError(f"Distributions of several kinds cannot be joined: {sorted(k.__name__ for k in kinds)}.")
        classes = batches[0].classes
        if classes is not None:
            batches = [b.in_order(classes) for b in batches]
        return batches[0]._joined(batches)._named(classes)

    def mean_after(self, label: int) -> NDArray[np.float64]:
        """E[z | one more label], shape (n, K): the mean of the posterior after a label.

        `label` is the column number of its class.
        """
        if not isinstance(label, (int, np.integer)) or not 0 <= label < self.n_classes:
            raise ValueError(f"label must be a column number from 0 to {self.n_classes - 1}, got {label!r}.")
        return self._mean_after(int(label))

    def posterior(self, counts: ArrayLike) -> "Distribution":
        """The distribution after more labels.

        `counts` of shape (n, K), where rows may have no labels, or n 1-D labels: names where the
        distribution knows its classes, else column numbers.
        """
        return self._posterior(self._more_labels(counts))._named(self._classes)

    def log_prob_counts(self, counts: ArrayLike) -> NDArray[np.float64]:
        """Log-probability, shape (n,), nats, of labels as in `posterior`, multinomial coefficient
        included.
        """
        return self._log_prob(self._more_labels(counts))

    def interval(self, confidence_level: float = 0.95) -> NDArray[np.float64]:
        """Equal-tailed interval of each z_k, shape (n, K, 2): lower and upper end."""
        check_fraction(confidence_level=confidence_level)
        return self._interval(confidence_level)

    def _more_labels(self, counts) -> NDArray[np.float64]:
        """Counts of further labels, shape (n, K), float64; a row may have none."""
        labels = read_labels(counts, empty_rows=True)
        if labels.known:
            raise ValueError("Infinitely many labels have no posterior and no likelihood; pass counts.")
        n, K = len(self), self.n_classes
        if len(labels) != n or (not labels.single and labels.shape[1] != K):
            shape = (len(labels),) if labels.single else labels.shape
            raise ValueError(f"counts must have shape {(n, K)} or {(n,)}, got {shape}.")
        if self._classes is None:
            labels = labels.of_width(K)
        else:
            labels = labels.in_order(self._classes, other="the distribution")
        return labels.counts.astype(np.float64)

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
        P = as_floats(pairs, "pairs")
        if (
            P.shape != (z.shape[1],) * 2
            or not np.array_equal(P, P.T)
            or np.diag(P).any()
            or not np.isin(P, (0, 1)).all()
        ):
            raise ValueError(f"pairs must be a symmetric 0/1 matrix with a zero diagonal, shape {(z.shape[1],) * 2}.")
        return sum(z[:, k] * (self._mean_after(k) @ P[k]) for k in range(z.shape[1]))

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
    proba : array-like or frame of shape (n, K) or (n,)
        The class probabilities, or those of the second of two classes. The columns of a frame name
        the classes.

    Examples
    --------
    >>> PointMass([[0.5, 0.5], [0.9, 0.1]]).disagreement()
    array([0.5 , 0.18])
    """

    def __init__(self, proba: ArrayLike):
        self._z = frozen(check_proba(proba))
        self._classes = column_names(proba)

    @classmethod
    def of_checked(cls, z: NDArray[np.float64]) -> "PointMass":
        """Of probabilities (n, K) that passed the gate, perhaps in float32.

        Their rows need not sum to 1 in float64.
        """
        self = cls.__new__(cls)
        self._z = frozen(z)
        return self

    def mean(self):
        return self._z

    def variance(self):
        return np.zeros_like(self._z)

    def mutual_information(self):
        return np.zeros(len(self._z))

    def _take(self, rows):
        return PointMass.of_checked(self._z[rows])

    def _mean_after(self, k):
        return self._z

    def _posterior(self, y):
        return self

    def _log_prob(self, y):
        return log_multinomial(y, self._z)

    def _interval(self, level):
        return np.stack([self._z, self._z], axis=2)

    def _embed(self, columns, n_classes):
        return PointMass.of_checked(in_columns(self._z, columns, n_classes))

    @classmethod
    def _joined(cls, batches):
        return cls.of_checked(np.concatenate([b._z for b in batches]))

    def _sample(self, n_draws, rng):
        return np.broadcast_to(self._z, (n_draws, *self._z.shape)).copy()


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


def tails(level: float) -> NDArray[np.float64]:
    """Probabilities below either end of an equal-tailed interval, shape (2,)."""
    return np.array([(1 - level) / 2, (1 + level) / 2])
