"""Whether further labels were asked for where the first disagreed."""

from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata
from sklearn.utils import check_random_state

from .._utils.checks import checked, read_groups
from .._utils.types import Floats, Groups, Indices, LabelsLike, Seed
from ._labels import Labels, read_labels
from ._statistics import pairwise_disagreement

_PERMUTATIONS = 9_999
# Annotations warn where neither permutations nor the normal distribution leave a doubt.
_ALARM = 1e-3
_ALARM_SPREADS = 5.0
_ROUNDING = 1e-15


class AdjudicatedRatingsWarning(UserWarning):
    """Raised by `Annotations` whose samples have more labels where raters disagree.

    Where a third rater is asked only if two disagree, pairs of labels disagree too seldom.
    `Annotations.first` keeps the labels that everybody was asked for.
    """


class AdjudicationTest(NamedTuple):
    """What `adjudication_test` returns.

    Attributes
    ----------
    statistic : float
        In standard deviations under the hypothesis; positive where labels were added to samples on
        which the first raters disagreed.
    p_value : float
        Two-sided; NaN where nothing can be tested: all samples with two labels or more have equally
        many (in each group), or the labels leave no choice of a pair.
    n_rows : int
        Samples with two labels or more.
    hypothesis : str
        What is tested.
    """

    statistic: float
    p_value: float
    n_rows: int
    hypothesis: str

    def __str__(self) -> str:
        # below, rounding decides
        p = "< 1e-10" if self.p_value < 1e-10 else f"= {self.p_value:.2g}"
        return f"H0: {self.hypothesis}; p {p}"


@checked
def adjudication_test(
    y: LabelsLike, *, groups: Groups = None, random_state: Seed = 0
) -> AdjudicationTest:
    """Test whether labels were added to samples on which raters disagreed, as in adjudicated data.

    Where a third rater is asked only if two disagree, pairs of labels are not random pairs. The
    irreducible loss, every disagreement and every agreement coefficient are then biased.

    - Where the order of labels is known, they are permuted within samples. ``T = Σ_i (d_i −
      d̄_i)``, with d_i whether the first two differ, and d̄_i the share of pairs of the sample that
      do. Under the hypothesis d_i is 1 with probability d̄_i. The p-value is exact, whatever the
      number of labels depends on apart from the labels.
    - Where only counts are known, numbers of labels are permuted over samples. ``T = Σ_i a_i d_i``,
      with a_i the rank of n_i in its group minus the mean, and d_i whether one random pair of the
      sample differs. The p-value of 9,999 permutations holds if the number of labels does not
      depend on how hard a sample is.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes; `Annotations` may know the order of their labels.
    groups : array-like of shape (n_samples,), optional
        Numbers of labels are permuted within these groups: sites, say, with numbers of readers of
        their own. Where the order is known they make no difference.
    random_state : int, RandomState instance or None, default=0
        Draws the pairs and the permutations where only counts are known: p depends somewhat on it,
        and on the order of the samples.

    Returns
    -------
    AdjudicationTest
        ``(statistic, p_value, n_rows, hypothesis)``. As text it names the hypothesis.

    Raises
    ------
    ValueError
        As `check_counts`; groups of another length.

    Notes
    -----
    The test also rejects for innocent reasons. From counts: hard samples that were known as such
    and got more raters; a site with harder samples and more readers, unless ``groups`` names the
    sites; further raters who are noisier than the first, though they were asked at random. From the
    order: further raters who are noisier or better than the first.

    References
    ----------
    Lehmann and Romano (2005), Testing statistical hypotheses, section 15.2, for permutations.

    Examples
    --------
    >>> test = adjudication_test([[2, 0]] * 40 + [[2, 1]] * 10)
    >>> print(test)
    H0: the number of labels does not depend on disagreement; p = 0.0001
    >>> adjudication_test([[3, 0], [2, 1]]).p_value
    nan
    """
    labels = read_labels(y)
    unit = read_groups(groups, len(labels))
    several = np.flatnonzero(np.isfinite(labels.n) & (labels.n > 1))
    n = labels.n[several]
    share = pairwise_disagreement(labels)[several]
    if labels.ordered:
        T, p = _of_order(_first_disagreement(labels, several), share, n)
        hypothesis = "the first two labels of a sample differ as often as any two"
    else:
        unit = np.zeros_like(several) if unit is None else unit[several]
        T, p = _of_counts(share, n, unit, check_random_state(random_state))
        hypothesis = "the number of labels does not depend on disagreement"
    return AdjudicationTest(T, p, len(several), hypothesis)


def looks_adjudicated(y: Labels) -> bool:
    """Whether the test is beyond doubt that labels were added where raters disagreed."""
    test = adjudication_test(y)
    return test.statistic > _ALARM_SPREADS and test.p_value < _ALARM


def _first_disagreement(y, rows: Indices) -> Floats:
    """Whether the first two labels differ, of samples that have two."""
    first = y.indptr[rows]
    return (y.label[first] != y.label[first + 1]).astype(float)


def _of_order(d: Floats, share: Floats, n: Floats) -> tuple[float, float]:
    """T in standard deviations, and p of ``Σ d`` where d_i is Bernoulli with probability d̄_i."""
    mixed = (share > 0) & (share < 1)
    d, share = d[mixed], share[mixed]
    if not len(d) or n.min() == n.max():
        return float("nan"), float("nan")
    # the distribution of Σ d is the inverse transform of Π_i (1 − d̄_i + d̄_i e^{iω})
    turn = np.exp(2j * np.pi * np.arange(len(d) + 1) / (len(d) + 1))
    transform = np.ones_like(turn)
    for v, times in zip(*np.unique(share, return_counts=True), strict=True):
        transform *= (1 - v + v * turn) ** times
    chances = np.fft.fft(transform).real.clip(min=0) / len(turn)
    seen = int(d.sum())
    tail = min(chances[seen:].sum(), chances[: seen + 1].sum())
    T = (d - share).sum() / np.sqrt((share * (1 - share)).sum())
    return float(T), float(np.clip(2 * tail, _ROUNDING, 1))


def _of_counts(share: Floats, n: Floats, unit: Indices, rng) -> tuple[float, float]:
    """T in standard deviations, and its p-value where numbers n are permuted within units."""
    d = rng.random_sample(len(n)) < share
    generator = np.random.default_rng(rng.randint(2**31, size=4))
    T = np.zeros(1 + _PERMUTATIONS)
    variance = 0.0
    for rows in (unit == u for u in np.unique(unit)):
        a = rankdata(n[rows]) - (rows.sum() + 1) / 2
        values, c = np.unique(a, return_counts=True)
        m = int(d[rows].sum())
        N = len(a)
        if len(values) == 1 or m in (0, N):
            continue
        # how many of the m samples that disagree have each number of labels
        T[0] += a @ d[rows]
        T[1:] += generator.multivariate_hypergeometric(c, m, _PERMUTATIONS) @ values
        variance += (a @ a) * m * (N - m) / (N * (N - 1))
    if variance == 0:
        return float("nan"), float("nan")
    p = (np.abs(T) >= abs(T[0]) - 1e-9).mean()
    return float(T[0] / np.sqrt(variance)), float(p)
