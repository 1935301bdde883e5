"""Scores of class probabilities against label histograms (P1 §3, App. B).

P1 is Mimori, Sasada, Matsui and Sato (2021), Diagnostic uncertainty calibration. Letters: y counts,
n_i raters of a row, μ̂ = y/n_i, z class probabilities, Q true class probabilities."""

from .._rows import PredictionLike
from .._utils.tags import MeanOfTerms, metric
from .._utils.types import ArrayLike, LabelsLike
from ._binned import Correction, check_bias_correction
from ._evaluate import mean, score


def least_raters(bias_correction: Correction) -> int:
    """Raters that a corrected loss needs, and a plugin; the correction is checked."""
    check_bias_correction(bias_correction)
    if bias_correction is None:
        return 1
    return 2


def _squared_rows(mu, n, z):  # Eq. (7)
    return ((mu - z) ** 2 + mu * (1 - mu)).sum(axis=1)


def _epistemic_plugin_rows(mu, n, z):  # Eq. (8)
    return ((mu - z) ** 2).sum(axis=1)


def _epistemic_rows(mu, n, z):  # Eq. (9)
    return ((mu - z) ** 2).sum(axis=1) - (mu * (1 - mu)).sum(axis=1) / (n - 1)


def _spread_rows(mu, n, z):
    return (mu * (1 - mu)).sum(axis=1)


def _irreducible_rows(mu, n, z):
    return (1 + 1 / (n - 1)) * (mu * (1 - mu)).sum(axis=1)


def _epistemic_tags(*, bias_correction: Correction) -> MeanOfTerms:
    least = least_raters(bias_correction)
    rows = _epistemic_rows if least > 1 else _epistemic_plugin_rows
    return MeanOfTerms(
        greater_is_better=False, least_raters=least, terms=mean(rows), biased=least == 1
    )


def _irreducible_tags(*, bias_correction: Correction) -> MeanOfTerms:
    least = least_raters(bias_correction)
    return MeanOfTerms(
        least_raters=least,
        terms=mean(_irreducible_rows if least > 1 else _spread_rows),
        of_labels=True,
        limits=(0.0, 1.0),
    )


@metric(MeanOfTerms(greater_is_better=False, terms=mean(_squared_rows), limits=(0.0, 2.0)))
def expected_squared_loss(
    y: LabelsLike, prediction: PredictionLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Expected squared loss of class probabilities: smaller is better, minimum 0, maximum 2.

    ``L_i = Σ_k (μ̂−z)² + μ̂(1−μ̂)`` (P1 eq. 7) is unbiased for ``E‖Y − z‖²``, where Y is a new
    label. One rater a row is enough; then it is the probability (Brier) score. The loss is the sum
    of `epistemic_loss` and `irreducible_loss`.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes. 1-D integers are column numbers.
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
        Class probabilities, or those of the second of two classes, or a distribution, whose mean
        counts.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows; only their ratios matter.

    Returns
    -------
    loss : float
        Mean over rows, squared probability summed over classes.

    Examples
    --------
    >>> expected_squared_loss([[1, 1], [2, 0]], [[0.5, 0.5], [1.0, 0.0]])
    0.25
    """
    return score(expected_squared_loss, y, prediction, sample_weight)


@metric(_epistemic_tags)
def epistemic_loss(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: ArrayLike | None = None,
    bias_correction: Correction = "residual",
) -> float:
    """Squared distance from the true class probabilities: smaller is better, minimum 0.

    ``EL_i = Σ_k (μ̂−z)² − μ̂(1−μ̂)/(n_i−1)`` (P1 eq. 9) is unbiased for ``E‖Q − z‖²`` on rows with
    two raters or more, and so may be negative.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes. Rows with one rater are left out unless `bias_correction` is
        None.
    prediction, sample_weight
        As in `expected_squared_loss`.
    bias_correction : {"residual", "label", None}
        None: the plugin ``Σ_k (μ̂−z)²`` (eq. 8), which also counts the raters' sampling. The others
        are the same here.

    Returns
    -------
    loss : float
        Mean over rows; NaN with an UndefinedMetricWarning where no row has enough raters.

    Examples
    --------
    >>> epistemic_loss([[1, 1], [2, 0]], [[0.5, 0.5], [1.0, 0.0]])
    -0.25
    """
    return score(epistemic_loss, y, prediction, sample_weight, bias_correction=bias_correction)


@metric(_irreducible_tags)
def irreducible_loss(
    y: LabelsLike,
    prediction: PredictionLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    bias_correction: Correction = "residual",
) -> float:
    """The part of the expected squared loss that no prediction can avoid, between 0 and 1.

    ``IL_i = Σ_k μ̂(1−μ̂)·n_i/(n_i−1)`` is unbiased for ``E[1 − ΣQ²]`` on rows with two raters or
    more. It is also the probability that two raters of the row disagree.

    Parameters
    ----------
    y, sample_weight
        As in `epistemic_loss`.
    prediction : ignored
        Accepted so that all metrics are called alike. Only its number of classes is used.
    bias_correction : {"residual", "label", None}
        None: the plugin ``Σ_k μ̂(1−μ̂)``. The others are the same here.

    Returns
    -------
    loss : float
        Mean over rows; NaN with an UndefinedMetricWarning where no row has enough raters.

    Examples
    --------
    >>> irreducible_loss([[1, 1], [2, 0]])
    0.5
    """
    return score(irreducible_loss, y, prediction, sample_weight, bias_correction=bias_correction)
