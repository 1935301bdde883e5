"""A model against one more reader."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student
from sklearn.utils import check_random_state

from ..._ground.arrays import Floats, Integers
from ..._ground.simplex import gini, row_sum, votes_of
from ..._ground.types import Seed
from ..._rows import PredictionLike, Rows
from ...label_histogram import Annotations
from .._evaluate import mean
from .each_reader import (
    compared,
    named_raters,
    reader_means,
    rows_of_pairs,
    statistic_of_pairs,
    with_votes,
)
from .intervals import ConfidenceInterval, interval_of

__all__ = ["ReaderComparison", "ReaderRows", "reader_comparison"]


class ReaderRows(NamedTuple):
    """Each reader against the others; NaN for one who shares rows with nobody.

    Attributes
    ----------
    raters : ndarray of shape (n_raters,)
        Names.
    n_rows : ndarray of shape (n_raters,)
        Rows that the reader shares with others.
    error, model_error : ndarray of shape (n_raters,)
        How often another reader of these rows disagrees with this one, and with the model.
    error_interval : ndarray of shape (n_raters, 2)
        Of `error`.
    difference : ndarray of shape (n_raters,)
        ``model_error − error``; below 0 the model agrees better with the others.
    difference_interval : ndarray of shape (n_raters, 2)
    """

    raters: NDArray
    n_rows: Integers
    error: Floats
    model_error: Floats
    error_interval: Floats
    difference: Floats
    difference_interval: Floats


class ReaderComparison(NamedTuple):
    """What `reader_comparison` returns.

    Attributes
    ----------
    difference : ConfidenceInterval
        Δ, how much more often a reader disagrees with the model than with another reader.
    upper : float
        Upper bound of Δ, one-sided.
    margin : float
    non_inferior : bool
        Whether `upper` is below `margin`.
    model_error, reader_error : ConfidenceInterval
        How often a reader disagrees with the model, and with another reader.
    loss_difference : ConfidenceInterval
        ``EL − IL``, the epistemic loss of the model's probabilities less that of a reader's vote.
    worth : float
        m* = IL/EL: the mean vote of so many readers has the model's epistemic loss. NaN where the
        interval of EL holds 0.
    worth_low, worth_high : float
        Interval of m*; inf where EL may be 0.
    readers : ReaderRows
        Each reader; intervals hold for all of them together, for these readers and new rows.
    """

    difference: ConfidenceInterval
    upper: float
    margin: float
    non_inferior: bool
    model_error: ConfidenceInterval
    reader_error: ConfidenceInterval
    loss_difference: ConfidenceInterval
    worth: float
    worth_low: float
    worth_high: float
    readers: ReaderRows


def _disagreement_rows(mu, n, z):
    """Probability that two readers disagree: IL_i."""
    return n / (n - 1) * gini(mu)


def _model_error_rows(mu, n, z):
    return 1 - row_sum(votes_of(z) * mu)


def _excess_error_rows(mu, n, z):
    """(1 − acc_i) − IL_i."""
    return _model_error_rows(mu, n, z) - _disagreement_rows(mu, n, z)


def _epistemic_rows(mu, n, z):
    """EL_i, Eq. (9) of P1: ‖μ̂ − z‖² less the sampling variance of μ̂."""
    return row_sum((mu - z) ** 2) - gini(mu) / (n - 1)


def _excess_loss_rows(mu, n, z):
    return _epistemic_rows(mu, n, z) - _disagreement_rows(mu, n, z)


def _loss_ratio_terms(rows: Rows):
    """EL/IL, a ratio of sums."""
    numerator, _ = mean(_epistemic_rows)(rows)
    denominator, _ = mean(_disagreement_rows)(rows)
    return numerator, denominator


_COMPARED = (
    mean(_excess_error_rows),
    mean(_model_error_rows),
    mean(_disagreement_rows),
    mean(_excess_loss_rows),
    _loss_ratio_terms,
)


def reader_comparison(
    y: Annotations,
    prediction: PredictionLike,
    *,
    margin: float,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    raters: Literal["random", "fixed"] | None = None,
    confidence_level: float = 0.95,
    n_blocks: int = 50,
    random_state: Seed = None,
) -> ReaderComparison:
    """Whether a model is as good as one more reader.

    Two readers of a row disagree with probability IL. A reader disagrees with the model's label
    with probability 1 − accuracy. The model is non-inferior at a margin ε where the upper bound of
    ``Δ = (1 − accuracy) − IL`` is below ε. Probabilities are compared by squared loss: a reader's
    vote has the epistemic loss IL, the mean vote of m readers IL/m, the model EL.

    Parameters
    ----------
    y : Annotations of shape (n_samples, n_classes)
        Rows with two readers or more count.
    prediction : array-like of shape (n_samples,) or (n_samples, n_classes), or Distribution
        The model's labels, or class probabilities, whose largest is its label; ties share evenly.
        Labels are taken as certain where losses are compared. (1-D floats are probabilities of the
        second class.)
    margin : float
        ε, a difference of probabilities of disagreement that does not matter. Choose it before the
        data are seen.
    sample_weight, groups, n_blocks, random_state
        As in `confidence_interval`.
    raters : {"random", "fixed"}, optional
        As in `confidence_interval`: by default for new readers and new rows.
    confidence_level : float, default=0.95
        Of intervals, which have two sides, and of the verdict, which has one.

    Returns
    -------
    ReaderComparison

    Raises
    ------
    ValueError
        Labels without raters, fewer than three raters where these are random, unknown classes,
        lengths that differ.

    Warns
    -----
    UserWarning
        Fewer than five raters.

    Notes
    -----
    Readers are exchangeable. Each reader's own row speaks of that reader; its intervals are those
    of the jackknife over rows, Bonferroni's over readers.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_lhcal.label_histogram import Annotations
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(2, size=(300, 1))
    >>> said = np.where(rng.random((300, 6)) < 0.8, truth, 1 - truth)
    >>> y = Annotations.from_matrix(said[:, :5])
    >>> result = reader_comparison(y, said[:, 5], margin=0.05, random_state=0)
    >>> bool(result.difference.low < 0 < result.difference.high)
    True
    """
    labels, prediction = with_votes(y, prediction)
    rows = rows_of_pairs(labels, prediction, sample_weight, groups)
    found = [statistic_of_pairs(terms, rows) for terms in _COMPARED]
    design = found[0].design(raters, n_blocks, check_random_state(random_state))
    difference, model, reader, loss, ratio = (
        interval_of(statistic, design, confidence_level) for statistic in found
    )
    t = student.ppf(confidence_level, difference.df)
    upper = difference.estimate + t * difference.standard_error
    worth, low, high = _worth(ratio)
    return ReaderComparison(
        difference=difference,
        upper=float(upper),
        margin=float(margin),
        non_inferior=bool(upper < margin),
        model_error=model,
        reader_error=reader,
        loss_difference=loss,
        worth=worth,
        worth_low=low,
        worth_high=high,
        readers=_each(rows, design.rows.code, confidence_level),
    )


def _worth(ratio: ConfidenceInterval) -> tuple[float, float, float]:
    """m* = IL/EL and its interval, from those of EL/IL."""
    low, high = (1 / end if end > 0 else np.inf for end in (ratio.high, ratio.low))
    worth = np.nan
    if ratio.low > 0:
        worth = 1 / ratio.estimate
    return worth, low, high


def _each(rows: Rows, block, confidence_level: float) -> ReaderRows:
    """Each reader's errors and the model's, against the other readers of the same rows."""
    at = compared(rows)
    names = named_raters(rows.labels).raters
    R = len(names)
    how = (at, rows.weight, block, R, confidence_level)
    error = reader_means(at.reader_error, *how)
    model = reader_means(at.model_error, *how)
    difference = reader_means(at.model_error - at.reader_error, *how)
    n_rows = np.bincount(at.reader, minlength=R)
    return ReaderRows(names, n_rows, error.mean, model.mean, error.interval, *difference)
