"""Scores of class probabilities against label histograms (P1 §3, App. B).

P1 is Mimori, Sasada, Matsui and Sato (2021), Diagnostic uncertainty calibration. Letters: y counts,
n_i raters of a sample, μ̂ = y/n_i, z class probabilities, Q true class probabilities."""

from .._rows import PredictionLike
from .._utils.distances import Distance
from .._utils.tags import MeanOfTerms, metric
from .._utils.types import LabelsLike, Weights
from ._binned import Correction
from ._evaluate import mean_at, mean_loss, score


def least_raters(bias_correction: Correction) -> int:
    """Raters that a bias-corrected loss needs, and a plug-in; the correction is checked."""
    if bias_correction is None:
        return 1
    return 2


# Eq. (8)
def _squared_rows(x, s, z, n):
    return ((x - z) ** 2 + s).sum(axis=1)


# Eq. (9)
def _epistemic_plugin_rows(x, s, z, n):
    return ((x - z) ** 2).sum(axis=1)


# Eq. (10)
def _epistemic_rows(x, s, z, n):
    return ((x - z) ** 2).sum(axis=1) - s.sum(axis=1) / (n - 1)


def _spread_rows(x, s, z, n):
    return s.sum(axis=1)


def _irreducible_rows(x, s, z, n):
    return (1 + 1 / (n - 1)) * s.sum(axis=1)


def _squared_tags(*, distance: Distance) -> MeanOfTerms:
    limits = (0.0, 2.0) if distance is None else None
    return mean_loss(terms=mean_at(_squared_rows), limits=limits)


def _ranked_terms(rows, **options):
    return mean_at(_squared_rows)(rows, distance="linear")


def _epistemic_tags(*, bias_correction: Correction, distance: Distance) -> MeanOfTerms:
    least = least_raters(bias_correction)
    rows = _epistemic_rows if least > 1 else _epistemic_plugin_rows
    return mean_loss(least_raters=least, terms=mean_at(rows), biased=least == 1)


def _irreducible_tags(*, bias_correction: Correction, distance: Distance) -> MeanOfTerms:
    least = least_raters(bias_correction)
    return mean_loss(
        greater_is_better=None,
        ruled_by_raters=True,
        least_raters=least,
        terms=mean_at(_irreducible_rows if least > 1 else _spread_rows),
        of_labels=True,
        limits=(0.0, 1.0) if distance is None else None,
    )


@metric(_squared_tags)
def expected_squared_loss(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: Weights = None,
    distance: Distance = None,
) -> float:
    """Expected squared loss of class probabilities: smaller is better, minimum 0, maximum 2.

    ``L_i = Σ_k (μ̂−z)² + μ̂(1−μ̂)`` (P1 eq. 8) is unbiased for ``E‖Y − z‖²``, where Y is a new
    label. One rater per sample is enough; then it is the probability (Brier) score. The loss is the
    sum of `epistemic_loss` and `irreducible_loss`.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes. 1-D integers are column numbers.
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
        Class probabilities, or those of the second of two classes, or a distribution, whose mean
        counts.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples; only their ratios matter.
    distance : None, "linear", "quadratic" or array-like of shape (n_classes, n_classes), optional
        How far classes are apart: the loss is ``‖Bᵀ(y − z)‖²``, with classes at points B_k. None:
        all alike, the probability score. "linear": d² is the number of steps, which makes the
        ranked probability score. "quadratic": classes are numbers, which makes the squared error of
        the mean. A table of squared distances d² of points: the energy score of that distance.

    Returns
    -------
    loss : float
        Mean over samples, squared probability summed over classes; with a distance in units of d².

    Raises
    ------
    ValueError
        "linear" for text without an order, "quadratic" for classes that are no numbers, and a
        table that is not symmetric, or of distances that no points have.

    Notes
    -----
    The ranked probability score is the squared distance of cumulative probabilities, summed over
    steps. It is not divided by K − 1, its maximum. With two classes it is half of the probability
    score.

    Examples
    --------
    >>> expected_squared_loss([[1, 1], [2, 0]], [[0.5, 0.5], [1.0, 0.0]])
    0.25

    Missing by two grades costs more than missing by one:

    >>> one, two = [[0, 1, 0]], [[0, 0, 1]]
    >>> [expected_squared_loss(y, [[1, 0, 0]], distance="linear") for y in (one, two)]
    [1.0, 2.0]
    """
    return score(expected_squared_loss, **locals())


@metric(mean_loss(ordered=True, terms=_ranked_terms))
def ranked_probability_score(
    y: LabelsLike, prediction: PredictionLike, *, sample_weight: Weights = None
) -> float:
    """Ranked probability score of ordered classes: smaller is better, minimum 0, maximum K − 1.

    It is `expected_squared_loss` with ``distance="linear"``: the squared distance of cumulative
    probabilities from those of a new label, summed over the K − 1 steps (Epstein 1969). Some divide
    it by K − 1.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes. Its classes must have an order: numbers, an ordered
        Categorical, ``classes=[...]`` of Annotations, or columns without names.
    prediction, sample_weight
        As in `expected_squared_loss`.

    Returns
    -------
    score : float
        In steps.

    Examples
    --------
    >>> ranked_probability_score([[0, 0, 1]], [[0.5, 0.5, 0.0]])
    1.25
    """
    return score(ranked_probability_score, **locals())


@metric(_epistemic_tags)
def epistemic_loss(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: Weights = None,
    bias_correction: Correction = "residual",
    distance: Distance = None,
) -> float:
    """Epistemic loss, the squared distance from true class probabilities: 0 for a perfect model.

    ``EL_i = Σ_k (μ̂−z)² − μ̂(1−μ̂)/(n_i−1)`` (P1 eq. 10) is unbiased for ``E‖Q − z‖²`` on samples
    with two raters or more, and so may be negative.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes. Samples with one rater are left out unless `bias_correction`
        is None.
    prediction, sample_weight
        As in `expected_squared_loss`.
    bias_correction : {"residual", "label", None}
        None: the plug-in ``Σ_k (μ̂−z)²`` (eq. 9), which also counts the raters' sampling. The
        others are the same here.
    distance : None, "linear", "quadratic" or array-like of shape (n_classes, n_classes), optional
        As in `expected_squared_loss`.

    Returns
    -------
    loss : float
        Mean over samples; NaN with an UndefinedMetricWarning where no sample has enough raters.

    Examples
    --------
    >>> epistemic_loss([[1, 1], [2, 0]], [[0.5, 0.5], [1.0, 0.0]])
    -0.25
    """
    return score(epistemic_loss, **locals())


@metric(_irreducible_tags)
def irreducible_loss(
    y: LabelsLike,
    prediction: PredictionLike | None = None,
    *,
    sample_weight: Weights = None,
    bias_correction: Correction = "residual",
    distance: Distance = None,
) -> float:
    """The part of the expected squared loss that no prediction can avoid, between 0 and 1.

    ``IL_i = Σ_k μ̂(1−μ̂)·n_i/(n_i−1)`` is unbiased for ``E[1 − ΣQ²]`` on samples with two raters or
    more. It is also the probability that two raters of the sample disagree. Where hard samples have
    more raters, samples with one are easier than those that count, and the mean is too large for
    all; the `notes` of a `confidence_interval` say how many count.

    Parameters
    ----------
    y, sample_weight
        As in `epistemic_loss`.
    prediction : ignored
        Accepted so that all metrics are called alike. Only its number of classes is used.
    bias_correction : {"residual", "label", None}
        None: the plug-in ``Σ_k μ̂(1−μ̂)``. The others are the same here.
    distance : None, "linear", "quadratic" or array-like of shape (n_classes, n_classes), optional
        As in `expected_squared_loss`. The loss is then half the mean squared distance of two
        raters.

    Returns
    -------
    loss : float
        Mean over samples; NaN with an UndefinedMetricWarning where no sample has enough raters.

    Examples
    --------
    >>> irreducible_loss([[1, 1], [2, 0]])
    0.5
    """
    return score(irreducible_loss, **locals())
