"""What raters agree and disagree on: U-statistics of a row's labels, and Fleiss' kappa."""

from collections.abc import Callable
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from ._labels import Labels, read_labels


def pairwise_disagreement(y) -> NDArray[np.float64]:
    """Unbiased estimate, for each row, of the probability that two raters give different labels.

    ``d_i = 1 − Σ_k y_k(y_k−1) / (n_i(n_i−1))``, the U-statistic of P1 eq. (17) for ``Y¹ ≠ Y²``.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.

    Returns
    -------
    disagreement : ndarray of shape (n_samples,)
        Probabilities; NaN for rows with fewer than two raters.

    Examples
    --------
    >>> pairwise_disagreement([[1, 1, 0], [3, 0, 0]])
    array([1., 0.])
    """
    labels = read_labels(y)
    mu = labels.mu
    return _rater_scale(labels.n) * (mu * (1 - mu)).sum(axis=1)


def class_disagreement(y) -> NDArray[np.float64]:
    """Unbiased estimate, for each row and class, of the probability that one of two raters names the class and one not.

    ``d_ik = 2·y_k(n_i−y_k) / (n_i(n_i−1))``.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.

    Returns
    -------
    disagreement : ndarray of shape (n_samples, n_classes)
        Probabilities; NaN for rows with fewer than two raters. The row sum is twice `pairwise_disagreement`.

    Examples
    --------
    >>> class_disagreement([[1, 1, 0], [3, 0, 0]])
    array([[1., 1., 0.],
           [0., 0., 0.]])
    """
    labels = read_labels(y)
    mu = labels.mu
    return 2 * _rater_scale(labels.n)[:, None] * mu * (1 - mu)


def _rater_scale(n: NDArray[np.float64]) -> NDArray[np.float64]:
    """n/(n−1): 1 for infinitely many raters, NaN for one."""
    return 1 + 1 / np.where(n > 1, n - 1, np.nan)


def u_statistic(
    y, kernel: Callable[[NDArray[np.int64]], ArrayLike], order: int
) -> NDArray[np.float64]:
    """Unbiased estimate, for each row, of the mean of a symmetric statistic of `order` raters.

    The mean of the kernel over all subsets of `order` raters of the row (P1 eq. 17).

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.
    kernel : callable
        Takes counts of shape (n_subsets, n_classes), each row with `order` labels, and returns the statistic of each
        row: shape (n_subsets,), or (n_subsets, m) for m statistics at once.
    order : int
        How many raters the statistic takes.

    Returns
    -------
    estimate : ndarray of shape (n_samples,) or (n_samples, m)
        NaN for rows with fewer raters.

    Raises
    ------
    ValueError
        If `order` is below 1, or the kernel returns another number of rows than it was given.

    Examples
    --------
    >>> all_differ = lambda counts: counts.max(axis=1) == 1
    >>> u_statistic([[2, 1, 1]], all_differ, order=3)
    array([0.5])
    """
    labels = read_labels(y)
    if order < 1:
        raise ValueError(f"order must be at least 1, got {order}.")
    K = labels.shape[1]
    draws = np.array(list(combinations_with_replacement(range(K), order)))
    subsets = (draws[:, :, None] == np.arange(K)).sum(
        axis=1
    )  # (n_subsets, K), each row sums to `order`
    values = np.asarray(kernel(subsets), dtype=np.float64)
    if values.ndim not in (1, 2) or len(values) != len(subsets):
        raise ValueError(
            f"The kernel must return one value a row, {len(subsets)}; it returned shape {values.shape}."
        )
    estimate = np.empty((len(labels), *values.shape[1:]))
    step = max(1, 2_000_000 // subsets.size)
    for start in range(0, len(labels), step):
        block = slice(start, start + step)
        estimate[block] = _subset_probability(labels.take(block), subsets) @ values
    estimate[labels.n < order] = np.nan
    return estimate


def _subset_probability(labels: Labels, subsets: NDArray) -> NDArray[np.float64]:
    """Π_k C(y_k, c_k) / C(n, m): how often a random subset of m raters shows the counts c; shape (n, n_subsets).

    As a product over the m draws, so that nothing overflows; m!/Π c! · Π Q^c for known probabilities.
    """
    m = int(subsets[0].sum())
    coefficient = np.exp(gammaln(m + 1) - gammaln(subsets + 1.0).sum(axis=1)).round()
    counts, n = labels.counts, labels.n[:, None]
    if labels.known:
        return coefficient * (counts[:, None, :] ** subsets).prod(axis=2)
    p = np.ones((len(counts), len(subsets)))
    for k in range(counts.shape[1]):
        for j in range(int(subsets[:, k].max())):
            p *= np.where(subsets[:, k] > j, np.maximum(counts[:, k, None] - j, 0), 1.0)
    return coefficient * p / np.prod(np.maximum(n - np.arange(m), 1), axis=1, keepdims=True)


def fleiss_kappa(y) -> float:
    """Fleiss' kappa, the agreement between raters beyond chance: larger is better, maximum 1, 0 at chance.

    Rows may have different numbers of raters: the observed agreement is the mean over rows of ``1 − d_i`` (rows with
    two raters or more), the chance agreement ``Σ_k p_k²`` with p the class frequencies over all labels.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.

    Returns
    -------
    kappa : float
        NaN where no row has two raters, or all labels are of one class.

    References
    ----------
    Fleiss (1971), Measuring nominal scale agreement among many raters.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import load_psychiatric_diagnoses
    >>> round(fleiss_kappa(load_psychiatric_diagnoses().counts), 3)
    0.43
    """
    labels = read_labels(y)
    agreement = 1 - pairwise_disagreement(labels)
    known = ~np.isnan(agreement)
    p = labels.counts.sum(axis=0) / labels.counts.sum()
    chance = (p**2).sum()
    if not known.any() or chance == 1:
        return float("nan")
    return float((agreement[known].mean() - chance) / (1 - chance))
