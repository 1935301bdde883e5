"""How near a prediction is to the labels of one sample: distribution, entropy and order of classes.

The measures of Baan, Aziz, Plank and Fernández (2022), Stop measuring calibration when humans
disagree, section 4. Letters as in `_label_histogram`; H is Shannon entropy."""

from functools import partial
from typing import Literal

import numpy as np
from scipy.special import digamma

from .._rows import PredictionLike
from .._utils.simplex import entropy, row_sum
from .._utils.tags import MeanOfTerms, metric
from .._utils.types import Floats, LabelsLike, Mask, Weights
from ._evaluate import mean, score

Harmonic = Literal["harmonic"] | None


# ½ Σ_k |μ̂ − z|: total variation
_distance_terms = mean(lambda mu, n, z: 0.5 * np.abs(mu - z).sum(axis=1))


def _harmonic_entropy(mu: Floats, n: Floats) -> Floats:
    """Σ_k μ̂ (1/y + … + 1/(n−1)), the U-statistic of Σ_{v<n} Σ_k Q(1−Q)^v / v; H of known Q."""
    known = np.isinf(n)
    n = np.where(known, 2.0, n)[:, None]
    y = np.maximum(np.rint(mu * n), 1.0)
    return np.where(known, entropy(mu), row_sum(mu * (digamma(n) - digamma(y))))


def _entropy_rows(mu, n, z, *, absolute: bool, bias_correction: Harmonic) -> Floats:
    labels = entropy(mu) if bias_correction is None else _harmonic_entropy(mu, n)
    away = entropy(z) - labels
    return np.abs(away) if absolute else away


def _entropy_tags(*, absolute: bool, bias_correction: Harmonic) -> MeanOfTerms:
    return MeanOfTerms(
        # a signed error has no better end
        greater_is_better=False if absolute else None,
        least_raters=1 if bias_correction is None else 2,
        biased=True,
        terms=mean(partial(_entropy_rows, absolute=absolute, bias_correction=bias_correction)),
    )


def _ranking_rows(mu, n, z):
    """Probability that μ̂ and z order the classes alike where ties are broken at random."""
    # From the largest z down; of those alike from the largest μ̂ down.
    order = np.lexsort((-mu, -z))
    mu_sorted = np.take_along_axis(mu, order, axis=1)
    z_sorted = np.take_along_axis(z, order, axis=1)
    same_z = z_sorted[:, 1:] == z_sorted[:, :-1]
    same_mu = mu_sorted[:, 1:] == mu_sorted[:, :-1]
    possible = (mu_sorted[:, 1:] <= mu_sorted[:, :-1]).all(axis=1)
    # Orders that both allow, among all pairs of orders that each allows.
    log_share = _log_orders(same_z & same_mu) - _log_orders(same_z) - _log_orders(same_mu)
    return np.where(possible, np.exp(log_share), 0.0)


def _log_orders(tied: Mask) -> Floats:
    """Σ log (size!) over runs of ties, where tied (n, K−1) says that a class equals the last."""
    column = np.arange(tied.shape[1])
    # where the run began of which a class is the last so far
    first = np.maximum.accumulate(np.where(tied, -1, column), axis=1)
    return np.log(column - first + 1).sum(axis=1)


@metric(MeanOfTerms(greater_is_better=False, terms=_distance_terms, limits=(0.0, 1.0), biased=True))
def distribution_calibration_error(
    y: LabelsLike, prediction: PredictionLike, *, sample_weight: Weights = None
) -> float:
    """Mean distance of predicted from observed class frequencies (DistCE): smaller is better,
    minimum 0, maximum 1.

    ``½ Σ_k |μ̂_k − z_k|``, the total variation distance, averaged over samples (Baan et al. 2022,
    section 4). With few raters it is too large: μ̂ is off by itself, by up to
    ``½ Σ_k √(Q_k(1−Q_k)/n)``, and the absolute value has no unbiased estimate. Compare samples with
    the same number of raters only; `epistemic_loss` is the squared distance without that bias.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
        Class probabilities, those of the second of two classes, or a distribution, of which the
        mean counts.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples; only their ratios matter.

    Returns
    -------
    error : float
        A difference of probabilities.

    References
    ----------
    Baan, Aziz, Plank and Fernández (2022), Stop measuring calibration when humans disagree, EMNLP.

    Examples
    --------
    >>> distribution_calibration_error([[3, 1], [4, 0]], [[0.5, 0.5], [1.0, 0.0]])
    0.125
    """
    return score(distribution_calibration_error, **locals())


@metric(_entropy_tags)
def entropy_calibration_error(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: Weights = None,
    absolute: bool = True,
    bias_correction: Harmonic = None,
) -> float:
    """Mean difference of predicted and observed entropy (EntCE): smaller is better, minimum 0;
    signed, best at 0.

    ``|H(z) − H(μ̂)|``, or without the bars, averaged over samples (Baan et al. 2022, section 4).
    Signed it is positive where the model is less sure than the raters are. The entropy of few
    labels is too small, by about (K − 1)/(2n).

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes; samples with one rater are left out of the bias-corrected
        error.
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
        Class probabilities, those of the second of two classes, or a distribution; the entropy is
        that of its mean.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples; only their ratios matter.
    absolute : bool, default=True
        False: the mean signed difference, which may hide errors that cancel.
    bias_correction : {None, "harmonic"}, default=None
        None: the entropy of μ̂. "harmonic": ``Σ_k μ̂_k (1/y_k + 1/(y_k+1) + … + 1/(n−1))``,
        unbiased for all but the tail ``Σ_k Σ_{v≥n} Q_k (1−Q_k)^v / v`` of the entropy's series, by
        which it is too small (Zhang 2012): an interval of the signed error lies too high with few
        raters, and warns. Absolute errors stay too large with few raters: the noise of the entropy
        counts in them, and has no unbiased estimate.

    Returns
    -------
    error : float
        Nats; NaN with an UndefinedMetricWarning where no sample has enough raters.

    Raises
    ------
    ValueError
        An unknown correction.

    References
    ----------
    Baan, Aziz, Plank and Fernández (2022), Stop measuring calibration when humans disagree, EMNLP.
    Zhang (2012), Entropy estimation in Turing's perspective, Neural Computation 24.

    Examples
    --------
    >>> round(entropy_calibration_error([[2, 2], [4, 0]], [[0.5, 0.5], [0.5, 0.5]]), 4)
    0.3466
    """
    return score(entropy_calibration_error, **locals())


@metric(MeanOfTerms(greater_is_better=True, terms=mean(_ranking_rows), limits=(0.0, 1.0)))
def ranking_score(
    y: LabelsLike, prediction: PredictionLike, *, sample_weight: Weights = None
) -> float:
    """Share of samples whose classes are predicted in order of frequency (RankCS): larger
    is better, maximum 1.

    All classes have to be in order (Baan et al. 2022, section 4). Ties on either side are broken at
    random: a sample counts the exact probability that both orders come out the same. Few raters
    leave many classes without a label, so that even the true class probabilities score low. No
    correction is known. Compare samples with the same number of raters only.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
        Class probabilities, those of the second of two classes, or a distribution, of which the
        mean counts.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples; only their ratios matter.

    Returns
    -------
    score : float
        Between 0 and 1.

    References
    ----------
    Baan, Aziz, Plank and Fernández (2022), Stop measuring calibration when humans disagree, EMNLP.

    Examples
    --------
    >>> z = [[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]]
    >>> ranking_score([[5, 3, 2], [8, 1, 1]], z)  # a tie, right in one of two cases
    0.75
    """
    return score(ranking_score, **locals())
