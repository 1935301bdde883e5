"""The alternative annotator test, as published."""

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.exceptions import UndefinedMetricWarning

from ..._ground.arrays import Floats
from ..._ground.checks import check_fraction, check_positive_int
from ..._rows import PredictionLike
from ...label_histogram import Annotations
from .each_reader import compared, read_compared

__all__ = ["AlternativeAnnotatorTest", "alternative_annotator_test"]


class AlternativeAnnotatorTest(NamedTuple):
    """What `alternative_annotator_test` returns.

    Attributes
    ----------
    winning_rate : float
        Share of the raters whom the model may replace, ω.
    passed : bool
        Whether the winning rate is .5 or more.
    advantage : float
        Mean over raters of the probability that the model agrees with the others at least as well
        as the rater, ρ.
    raters : ndarray of shape (n_tested,)
        The raters with enough rows.
    p_value : ndarray of shape (n_tested,)
        One-sided, of each rater.
    replaced : ndarray of shape (n_tested,), bool
        Whose hypothesis is rejected at the false discovery rate.
    """

    winning_rate: float
    passed: bool
    advantage: float
    raters: NDArray
    p_value: Floats
    replaced: NDArray[np.bool_]


def alternative_annotator_test(
    y: Annotations,
    prediction: PredictionLike,
    *,
    epsilon: float = 0.2,
    false_discovery_rate: float = 0.05,
    least_rows: int = 30,
) -> AlternativeAnnotatorTest:
    """Whether a model may replace most of these raters, by the test of Calderon et al. (2025).

    Each rater is left out in turn. On each of her rows, whoever agrees better with the other raters
    wins, she or the model; both, where they agree equally well. Her hypothesis is that the share of
    rows she wins exceeds the model's by `epsilon` or more. Student's one-sided test decides, at the
    false discovery rate of Benjamini and Yekutieli over raters. The model passes where half of the
    hypotheses are rejected.

    For comparison with the literature: raters are fixed here, and a row counts by who wins it.
    `reader_comparison` speaks of readers like these, and has more power.

    Parameters
    ----------
    y : Annotations of shape (n_samples, n_classes)
    prediction : array-like of shape (n_samples,) or (n_samples, n_classes), or Distribution
        The model's labels, or class probabilities, whose largest is its label.
    epsilon : float, default=0.2
        What the model is given for being cheaper. The paper has .2 for experts, .15 for skilled
        annotators, .1 for crowds.
    false_discovery_rate : float, default=0.05
    least_rows : int, default=30
        Raters with fewer rows are not tested. A row counts where another rater has rated it too.

    Returns
    -------
    AlternativeAnnotatorTest
        NaN and no raters, with an UndefinedMetricWarning, where nobody has enough rows.

    Raises
    ------
    ValueError
        Labels without raters, unknown classes, lengths that differ.

    References
    ----------
    Calderon, Reichart and Dror (2025), The alternative annotator test for LLM-as-a-judge,
    section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_lhcal.label_histogram import Annotations
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(2, size=(100, 1))
    >>> y = Annotations.from_matrix(np.where(rng.random((100, 3)) < 0.8, truth, 1 - truth))
    >>> test = alternative_annotator_test(y, truth[:, 0])
    >>> test.winning_rate, test.passed
    (1.0, True)
    """
    check_fraction(false_discovery_rate=false_discovery_rate)
    check_positive_int(least_rows=least_rows)
    rows, labels = read_compared(y, prediction)
    at = compared(rows)
    # compared with a margin: equal shares of other raters may differ in their last bit
    model_wins = at.model_error <= at.reader_error + 1e-9
    reader_wins = at.reader_error <= at.model_error + 1e-9
    difference = reader_wins.astype(np.float64) - model_wins
    R = len(labels.raters)
    n, total, squares, wins = (
        np.bincount(at.reader, a, minlength=R)
        for a in (None, difference, difference**2, model_wins)
    )
    tested = np.flatnonzero(n >= max(least_rows, 2))
    n, total, squares, wins = n[tested], total[tested], squares[tested], wins[tested]
    mean = total / n
    spread = np.sqrt(np.maximum(squares / n - mean**2, 0.0) * n / (n - 1))
    p_value = _p_value(mean - epsilon, spread / np.sqrt(n), n - 1)
    replaced = _discoveries(p_value, false_discovery_rate)
    raters = labels.raters[tested]
    if not len(tested):
        warnings.warn(
            f"No rater has {max(least_rows, 2)} rows that another has rated too: nobody is tested.",
            UndefinedMetricWarning,
            stacklevel=2,
        )
        return AlternativeAnnotatorTest(np.nan, False, np.nan, raters, p_value, replaced)
    rate = float(replaced.mean())
    return AlternativeAnnotatorTest(
        rate, rate >= 0.5, float((wins / n).mean()), raters, p_value, replaced
    )


def _p_value(difference: Floats, error: Floats, df) -> Floats:
    """P(T ≤ difference/error); where all rows are alike, 0 or 1."""
    constant = error < 1e-12
    p = student.cdf(difference / np.where(constant, 1.0, error), df)
    return np.where(constant, (difference >= 0).astype(np.float64), p)


def _discoveries(p: Floats, q: float) -> NDArray[np.bool_]:
    """Which hypotheses Benjamini and Yekutieli's procedure rejects at the rate q."""
    m = len(p)
    order = np.argsort(p, kind="stable")
    rank = np.arange(1, m + 1)
    below = np.flatnonzero(p[order] <= rank / m * q / (1 / rank).sum())
    rejected = np.zeros(m, dtype=bool)
    rejected[order[: below.max(initial=-1) + 1]] = True
    return rejected
