"""What raters agree and disagree on: U-statistics of a sample's labels."""

from collections.abc import Callable
from itertools import combinations_with_replacement

import numpy as np
from scipy.special import gammaln

from .._utils.arrays import in_blocks
from .._utils.checks import checked
from .._utils.types import ArrayLike, Floats, Integers, LabelsLike, NDArray
from ._labels import Labels, read_labels


def pairwise_disagreement(y: LabelsLike) -> Floats:
    """Unbiased estimate, for each sample, of the probability that two raters give different labels.

    It is the U-statistic of P1 eq. (16) for ``Y¹ ≠ Y²``,
    ``d_i = 1 − Σ_k y_k(y_k−1) / (n_i(n_i−1))``.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.

    Returns
    -------
    disagreement : ndarray of shape (n_samples,)
        Probabilities; NaN for samples with fewer than two raters.

    Examples
    --------
    >>> pairwise_disagreement([[1, 1, 0], [3, 0, 0]])
    array([1., 0.])
    """
    return class_disagreement(y).sum(axis=1) / 2


def class_disagreement(y: LabelsLike) -> Floats:
    """Unbiased estimate of the probability that exactly one of two raters names a class.

    For each sample and class it is ``d_ik = 2·y_k(n_i−y_k) / (n_i(n_i−1))``.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.

    Returns
    -------
    disagreement : ndarray of shape (n_samples, n_classes)
        Probabilities; NaN for samples with fewer than two raters. The sample sum is twice
        `pairwise_disagreement`.

    Examples
    --------
    >>> class_disagreement([[1, 1, 0], [3, 0, 0]])
    array([[1., 1., 0.],
           [0., 0., 0.]])
    """
    return read_labels(y).class_disagreement


@checked
def u_statistic(y: LabelsLike, kernel: Callable[[Integers], ArrayLike], order: int) -> Floats:
    """Unbiased estimate, for each sample, of the mean of a symmetric statistic of `order` raters.

    It is the mean of the kernel over all subsets of `order` raters of the sample (P1 eq. 16).

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.
    kernel : callable
        The statistic. It takes counts of shape (n_subsets, n_classes), each sample with `order`
        labels. It returns one value per sample, shape (n_subsets,), or m of them, (n_subsets, m).
    order : int
        How many raters the statistic takes.

    Returns
    -------
    estimate : ndarray of shape (n_samples,) or (n_samples, m)
        NaN for samples with fewer raters.

    Raises
    ------
    ValueError
        If `order` is below 1, or the kernel returns another number of samples than it was given.

    Examples
    --------
    >>> all_differ = lambda counts: counts.max(axis=1) == 1
    >>> u_statistic([[2, 1, 1]], all_differ, order=3)
    array([0.5])
    """
    labels = read_labels(y)
    K = labels.shape[1]
    # (n_subsets, K), each row sums to `order`
    draws = combinations_with_replacement(range(K), order)
    subsets = np.array([np.bincount(draw, minlength=K) for draw in draws])
    values = np.asarray(kernel(subsets), dtype=float)
    if values.ndim not in (1, 2) or len(values) != len(subsets):
        raise ValueError(
            f"The kernel must return one value per sample, {len(subsets)}; it returned shape "
            f"{values.shape}."
        )

    def of_rows(rows: slice) -> Floats:
        return _subset_probability(labels.take(rows), subsets) @ values

    estimate = in_blocks(of_rows, len(labels), subsets.size)
    estimate[labels.n < order] = np.nan
    return estimate


def _subset_probability(labels: Labels, subsets: NDArray) -> Floats:
    """How often a random subset of m raters shows the counts c, shape (n, n_subsets).

    It is Π_k C(y_k, c_k) / C(n, m), as a product over the m draws, so that nothing overflows. For
    known probabilities it is m!/Π c! · Π Q^c.
    """
    m = int(subsets[0].sum())
    coefficient = np.exp(gammaln(m + 1) - gammaln(subsets + 1.0).sum(axis=1)).round()
    counts = labels.counts
    if labels.known:
        return coefficient * (counts[:, None, :] ** subsets).prod(axis=2)
    p = np.ones((len(counts), len(subsets)))
    for y, c in zip(counts.T, subsets.T, strict=True):
        for j in range(c.max()):
            p *= np.where(c > j, np.maximum(y[:, None] - j, 0), 1.0)
    left = np.maximum(labels.n[:, None] - np.arange(m), 1)
    return coefficient * p / left.prod(axis=1, keepdims=True)
