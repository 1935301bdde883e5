"""Whether further labels were asked for where the first disagreed."""

from typing import NamedTuple

import numpy as np
from scipy.stats import norm, rankdata

from .._utils.arrays import Floats
from .._utils.types import LabelsLike
from ._labels import Labels, read_labels
from ._statistics import pairwise_disagreement

# Below this p-value Annotations warn: with 40 adjudicated rows or more it is far below.
_ALARM = 1e-6


class AdjudicatedRatingsWarning(UserWarning):
    """Raised by `Annotations` whose rows have more ratings where raters disagree.

    Where a third rater is asked only if two disagree, pairs of ratings disagree too seldom.
    `Annotations.first` keeps the ratings that everybody was asked for.
    """


class AdjudicationTest(NamedTuple):
    """What `adjudication_test` returns.

    Attributes
    ----------
    statistic : float
        Standard normal where the number of ratings does not depend on agreement; positive where
        rows on which raters disagree have more.
    p_value : float
        One-sided; NaN where all rows with two ratings or more have equally many, or disagree
        equally.
    n_rows : int
        Rows with two ratings or more.
    """

    statistic: float
    p_value: float
    n_rows: int


def adjudication_test(y: LabelsLike) -> AdjudicationTest:
    """Test whether rows on which raters disagree have more ratings, as adjudicated data have.

    Where a third rater is asked only if two disagree, pairs of ratings are not random pairs. The
    irreducible loss, every disagreement and every agreement coefficient are then biased.

    ``z = Σ_i a_i e_i / √Σ_i (a_i e_i)²`` is the association of a row's disagreement with its number
    of ratings n_i, over the rows with two ratings or more: a_i is the rank of n_i less the mean
    rank, and e_i = d_i − d̄. Where the order of ratings is known, d_i is whether the first two
    differ. Else it is the mean over all pairs, which varies less the more ratings there are: hence
    the variance that does not take it for constant.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes; `Annotations` may know the order of their ratings.

    Returns
    -------
    AdjudicationTest
        ``(statistic, p_value, n_rows)``.

    Raises
    ------
    ValueError
        As `check_counts`.

    Notes
    -----
    The test also finds rows that were known to be hard beforehand and got more raters
    for that. Their ratings are unbiased, but the test cannot tell the two cases apart.

    References
    ----------
    Agresti (2002), Categorical data analysis, section 3.4, for such scores. White (1980), A
    heteroskedasticity-consistent covariance matrix estimator, for their variance.

    Examples
    --------
    >>> test = adjudication_test([[2, 0]] * 40 + [[2, 1]] * 10)
    >>> test.p_value < 1e-4
    True
    >>> adjudication_test([[3, 0], [2, 1]]).p_value
    nan
    """
    labels = read_labels(y)
    several = np.isfinite(labels.n) & (labels.n > 1)
    d = _first_disagreement(labels) if labels.ordered else pairwise_disagreement(labels)
    N = int(several.sum())
    z = _association(d[several], labels.n[several])
    return AdjudicationTest(z, float(norm.sf(z)), N)


def looks_adjudicated(y: Labels) -> bool:
    """Whether the test is beyond doubt."""
    return adjudication_test(y).p_value < _ALARM


def _first_disagreement(y) -> Floats:
    """Whether the first two ratings of each row differ, shape (n,); NaN where there are fewer."""
    several = np.flatnonzero(y.n > 1)
    first = y.indptr[several]
    d = np.full(len(y), np.nan)
    d[several] = y.label[first] != y.label[first + 1]
    return d


def _association(d: Floats, n: Floats) -> float:
    """``Σ a e / √Σ (a e)²`` with a = rank n less its mean, e = d − d̄; NaN where one is 0."""
    if len(n) < 3 or n.min() == n.max() or np.ptp(d) == 0:
        return float("nan")
    products = (rankdata(n) - (len(n) + 1) / 2) * (d - d.mean())
    if not products.any():
        return float("nan")
    return float(products.sum() / np.linalg.norm(products))
