"""What every distribution over class probabilities offers, and the point mass."""

import copy
from abc import ABC, abstractmethod
from typing import Self

import numpy as np
from sklearn.utils import check_random_state

from .._utils.checks import as_floats, as_names, checked, samples_of
from .._utils.costs import expected_costs
from .._utils.distances import Distance, half_squares, points
from .._utils.names import Side, check_classes, column_names, columns_by_name, is_sorted
from .._utils.simplex import check_proba, entropy, in_columns
from .._utils.types import ArrayLike, Floats, Indices, NDArray, Seed, Selection
from ..label_histogram._labels import read_labels
from ._arithmetic import by_blocks, cross_moment, frozen
from ._likelihood import log_multinomial


class Distribution(ABC):
    """A batch of n distributions over class probabilities z, points of the simplex with K corners.

    The base of all distributions. It is immutable, and indexing selects samples. It may know the
    names of its `classes`: samples, posteriors and mixtures of it then know them too.

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
    def mean(self) -> Floats:
        """E[z], shape (n, K)."""

    @abstractmethod
    def variance(self) -> Floats:
        """Var[z_k], shape (n, K)."""

    @abstractmethod
    def mutual_information(self) -> Floats:
        """What one label would tell about z: H(E[z]) − E[H(z)], shape (n,), nats, at least 0.

        After `AlphaCalibration` most of it is the spread of the Dirichlet distributions: how far
        raters agree on a sample more than the model knows. What more data would teach the model is
        `member_information`.
        """

    @abstractmethod
    def _disagreement(self, pairs: Floats | None) -> Floats:
        """E[zᵀPz] for a symmetric P of zero diagonal, shape (n,); None: 1 for different classes."""

    @abstractmethod
    def _interval(self, level: float) -> Floats:
        """Equal-tailed interval of each z_k, shape (n, K, 2)."""

    @abstractmethod
    def _mean_after(self, k: int) -> Floats:
        """E[z | one more label, of class k], shape (n, K)."""

    @abstractmethod
    def _posterior(self, y: Floats) -> "Distribution":
        """The distribution after more labels, counts (n, K)."""

    @abstractmethod
    def _log_prob(self, y: Floats) -> Floats:
        """Log-probability of counts (n, K), shape (n,)."""

    @abstractmethod
    def _embed(self, columns: Indices, n_classes: int) -> "Distribution":
        """The same over more classes: class k in ``columns[k]``, the others of probability 0."""

    @classmethod
    @abstractmethod
    def _joined(cls, batches: list[Self]) -> Self:
        """One batch of the samples of several of this kind, in order."""

    @abstractmethod
    def _sample(self, n_draws: int, rng: np.random.RandomState) -> Floats:
        """Draws of z, shape (n_draws, n, K)."""

    @abstractmethod
    def _take(self, rows) -> Self:
        """Some of the samples, without names."""

    @abstractmethod
    def _nodes(self, n_nodes: int) -> tuple[Floats, Floats]:
        """What `nodes` returns."""

    def __getitem__(self, rows: Selection) -> Self:
        rows = samples_of(rows)
        # An integer selects a batch of one sample.
        if isinstance(rows, (int, np.integer)):
            rows = [int(rows)]
        return self._take(rows)._named(self._classes)

    def __len__(self) -> int:
        return len(self.mean())

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={len(self)}, n_classes={self.n_classes})"

    @property
    def shape(self) -> tuple[int, int]:
        """(n, K), by which scikit-learn sees how many samples there are."""
        return len(self), self.n_classes

    @property
    def n_classes(self) -> int:
        """K, the number of classes."""
        return self.mean().shape[1]

    @property
    def classes(self) -> NDArray | None:
        """Names of the columns in their order, shape (K,); None where they have none."""
        return self._classes

    def with_classes(self, classes: ArrayLike | None) -> Self:
        """The same distribution with names for its columns; None takes the names away."""
        if classes is not None:
            classes = check_classes(classes, self.n_classes)
        return copy.copy(self)._named(classes)

    def _named(self, classes: NDArray | None) -> Self:
        self._classes = classes
        return self

    def in_order(self, classes: ArrayLike) -> "Distribution":
        """The same distribution with its columns in the order of these names.

        A distribution without names takes them as they are, provided that they are sorted.
        """
        classes = as_names(classes, "classes")
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

    @checked
    def embed(self, columns: ArrayLike, n_classes: int) -> "Distribution":
        """The same distribution over more classes, without names.

        Class k moves to ``columns[k]``. All other columns have probability 0.
        """
        columns = as_names(columns, "columns")
        fits = columns.shape == (self.n_classes,) and len(set(columns.tolist())) == len(columns)
        if not fits or columns.dtype.kind not in "iu":
            raise ValueError(
                f"columns must be {self.n_classes} different column numbers, got {columns}."
            )
        if columns.min() < 0 or columns.max() >= n_classes:
            raise ValueError(f"columns must lie between 0 and {n_classes - 1}, got {columns}.")
        return self._embed(columns, n_classes)

    @staticmethod
    def concatenate(batches: "list[Distribution]") -> "Distribution":
        """One batch of the samples of several batches of one kind, in order.

        All batches must have the same classes. Of mixtures with different numbers of members, those
        with fewer get members of weight 0.
        """
        kinds = sorted({type(batch).__name__ for batch in batches})
        if len(kinds) > 1:
            raise ValueError(f"Distributions of several kinds cannot be joined: {kinds}.")
        classes = batches[0].classes
        if classes is not None:
            batches = [batch.in_order(classes) for batch in batches]
        return batches[0]._joined(batches)._named(classes)

    @checked
    def mean_after(self, label: int) -> Floats:
        """Mean of the posterior after one more label, E[z | label], shape (n, K).

        `label` is the column number of its class.
        """
        if not 0 <= label < self.n_classes:
            raise ValueError(
                f"label must be a column number from 0 to {self.n_classes - 1}, got {label!r}."
            )
        return self._mean_after(int(label))

    def posterior(self, counts: ArrayLike) -> "Distribution":
        """The distribution after more labels.

        `counts` has shape (n, K), and a sample may be without labels. Or it holds n 1-D labels:
        names where the distribution knows its classes, else column numbers.
        """
        return self._posterior(self._more_labels(counts))._named(self._classes)

    def log_prob_counts(self, counts: ArrayLike) -> Floats:
        """Log-probability of labels as in `posterior`, shape (n,), nats.

        It includes the multinomial coefficient.
        """
        return self._log_prob(self._more_labels(counts))

    @checked
    def interval(self, confidence_level: float = 0.95) -> Floats:
        """Equal-tailed interval of each z_k, shape (n, K, 2): lower and upper end."""
        return by_blocks(lambda rows: rows._interval(confidence_level), self)

    def _more_labels(self, counts) -> Floats:
        """Counts of further labels, shape (n, K), float64; a sample may have none."""
        labels = read_labels(counts, name="counts", empty_rows=True)
        if labels.known:
            raise ValueError("Infinitely many labels have no posterior or likelihood; pass counts.")
        n, K = self.mean().shape
        fits = labels.single or labels.shape[1] == K
        if len(labels) != n or not fits:
            raise ValueError(f"counts must have shape {(n, K)} or {(n,)}, got {np.shape(counts)}.")
        labels = labels.matched(Side("the distribution", self._classes, K))
        return labels.counts.astype(float)

    def second_moment(self) -> Floats:
        """E[z_k²], shape (n, K)."""
        return self.variance() + self.mean() ** 2

    def disagreement(self, pairs: ArrayLike | None = None, *, distance: Distance = None) -> Floats:
        """Probability that two raters disagree, shape (n,): ``1 − Σ_k E[z_k²]`` (P1 eq. 17).

        With a `distance`, as in `sklearn_lhcal.metrics.expected_squared_loss`, it is half the mean
        squared distance of two raters: for "linear" half of the steps between them.

        `pairs` says which pairs of different labels count as disagreeing: those two grades apart,
        say. It is a symmetric 0/1 matrix of shape (K, K) with a zero diagonal. None: all pairs.
        """
        B = points(distance, self.n_classes, self.classes, False)
        if B is not None:
            if pairs is not None:
                raise ValueError("Give pairs or a distance, not both.")
            return self._disagreement(half_squares(B))
        if pairs is None:
            return self._disagreement(None)
        P = as_floats(pairs, "pairs")
        shape = (self.n_classes,) * 2
        binary = P.shape == shape and np.isin(P, (0, 1)).all()
        if not binary or P.diagonal().any() or not np.array_equal(P, P.T):
            raise ValueError(
                f"pairs must be a symmetric 0/1 matrix with a zero diagonal, shape {shape}."
            )
        return self._disagreement(P)

    def class_disagreement(self) -> Floats:
        """Probability that exactly one of two raters names class k, shape (n, K).

        P1's preprint, eq. 50.
        """
        z = self.mean()
        return 2 * np.maximum(z * (1 - z) - self.variance(), 0.0)

    def _move(self, k: int) -> Floats:
        """How far one label of class k moves the mean, E[z | k] − E[z], shape (n, K)."""
        return self._mean_after(k) - self.mean()

    def _expected_move(self, B: Floats | None) -> Floats:
        """Σ_k E[z_k]·‖E[z | k] − E[z]‖², shape (n,), with classes at points B."""
        z = self.mean()
        result = np.zeros(len(z))
        for k in range(z.shape[1]):
            move = self._move(k)
            if B is not None:
                move = move @ B
            result += z[:, k] * (move**2).sum(axis=1)
        return result

    def _least_cost_after(self, C: Floats) -> Floats:
        """Σ_k E[z_k] min_d E[z | k]ᵀC_d: the cost to expect after one label, shape (n,).

        Costs C are (K, D), or one matrix a row, (n, K, D).
        """
        z = self.mean()
        after = (expected_costs(self._mean_after(k), C) for k in range(z.shape[1]))
        return sum(z[:, k] * costs.min(axis=1) for k, costs in enumerate(after))

    def entropy(self) -> Floats:
        """Total uncertainty H(E[z]), shape (n,), nats."""
        return entropy(self.mean())

    def expected_entropy(self) -> Floats:
        """Aleatoric uncertainty E[H(z)], shape (n,), nats: `entropy` less `mutual_information`."""
        return np.maximum(self.entropy() - self.mutual_information(), 0.0)

    @checked
    def nodes(self, n_nodes: int = 64) -> tuple[Floats, Floats]:
        """Weighted points z that stand for the distribution, for sums without closed form.

        They depend on nothing but the sample, and their mean is that of the distribution. A point
        mass has one node, and an ensemble its members; others have about `n_nodes`.

        Returns
        -------
        nodes : ndarray of shape (S, n, K)
        weights : ndarray of shape (S, n)
            The sum over nodes is 1.
        """
        return self._nodes(n_nodes)

    @checked
    def sample(self, n_draws: int, random_state: Seed = None) -> Floats:
        """Draws of z, shape (n_draws, n, K); `random_state` is as everywhere in scikit-learn."""
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

    def __init__(self, proba: ArrayLike) -> None:
        self._z = frozen(check_proba(proba))
        self._classes = column_names(proba, "proba")

    @classmethod
    def of_checked(cls, z: Floats) -> Self:
        """A point mass at probabilities (n, K) that were checked before.

        For calibrators, which must not be refused for rounding.
        """
        self = cls.__new__(cls)
        self._z = frozen(z)
        return self

    def mean(self) -> Floats:
        return self._z

    def variance(self) -> Floats:
        return np.zeros_like(self._z)

    def mutual_information(self) -> Floats:
        return np.zeros(len(self._z))

    def _take(self, rows):
        return self.of_checked(self._z[rows])

    def _disagreement(self, pairs):
        return cross_moment(self._z, pairs)

    def _mean_after(self, k):
        return self._z

    def _least_cost_after(self, C):
        return expected_costs(self._z, C).min(axis=1)

    def _posterior(self, y):
        return self

    def _log_prob(self, y):
        return log_multinomial(y, self._z)

    def _interval(self, level):
        return np.stack([self._z, self._z], axis=2)

    def _embed(self, columns, n_classes):
        return self.of_checked(in_columns(self._z, columns, n_classes))

    @classmethod
    def _joined(cls, batches):
        return cls.of_checked(np.concatenate([b._z for b in batches]))

    def _sample(self, n_draws, rng):
        return np.repeat(self._z[None], n_draws, axis=0)

    def _nodes(self, n_nodes):
        return self._z[None], np.ones((1, len(self._z)))
