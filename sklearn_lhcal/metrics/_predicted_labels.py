"""Log losses of labels and histograms, and accuracies (P1 App. B, D).

P1 is Mimori, Sasada, Matsui and Sato (2021), Diagnostic uncertainty calibration. Letters as in
`_label_histogram`."""

import numpy as np

from .._rows import PredictionLike, Rows
from .._utils.simplex import accuracy, votes_of
from .._utils.tags import MeanOfTerms, metric
from .._utils.types import Floats, LabelsLike, Weights
from ._evaluate import mean, mean_loss, mean_of, score

EPS = np.finfo(np.float64).eps


def _label_terms(rows: Rows) -> tuple:
    """−w_i Σ_k y_ik log z_ik and w_i n_i, Eq. (82); a row of known probabilities is one label."""
    n = np.where(np.isinf(rows.n), 1.0, rows.n)
    losses, weight = mean(_log_rows)(rows)
    return n * losses, n * weight


def _log_rows(mu, n, z):
    return -(mu * np.log(np.maximum(z, EPS))).sum(axis=1)


@mean_of
def _histogram_terms(rows: Rows) -> Floats:
    log_p = rows.distribution.log_prob_counts(rows.labels)
    return -np.maximum(log_p, rows.n * np.log(EPS))


_accuracy_terms = mean(lambda mu, n, z: accuracy(mu, z))
_vote_terms = mean(lambda mu, n, z: accuracy(votes_of(mu), z))


@metric(mean_loss(terms=_label_terms, ruled_by_raters=True))
def label_log_loss(
    y: LabelsLike, prediction: PredictionLike, *, sample_weight: Weights = None
) -> float:
    """Log loss per label: smaller is better, minimum 0.

    ``−Σ_i w_i Σ_k y_ik log z_ik / Σ_i w_i n_i`` (P1 eq. 82). With one label per sample it is
    scikit-learn's `log_loss`.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes. A sample of `KnownProbabilities` counts as one label.
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
        Class probabilities, clipped below at 2.2e-16, or a distribution, whose mean counts.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples, read as repetition.

    Returns
    -------
    loss : float
        Nats per label.

    Examples
    --------
    >>> round(label_log_loss([[1, 1], [2, 0]], [[0.5, 0.5], [0.5, 0.5]]), 4)
    0.6931
    """
    return score(label_log_loss, **locals())


@metric(mean_loss(terms=_histogram_terms, takes_distribution=True))
def histogram_log_loss(
    y: LabelsLike, prediction: PredictionLike, *, sample_weight: Weights = None
) -> float:
    """Log loss of whole histograms under a predictive distribution: smaller is better, minimum 0.

    ``−mean_i log P(y_i)``, with the multinomial coefficient. A label of predicted probability 0
    does not make it infinite: a sample's loss is at most ``n_i·36``, where 36 is −log(2.2e-16).

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes but `KnownProbabilities`.
    prediction : Distribution, or array-like of shape (n_samples, n_classes) or (n_samples,)
        Predictive distribution. Class probabilities are taken for a point mass.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples; only their ratios matter.

    Returns
    -------
    loss : float
        Nats per sample.

    Examples
    --------
    >>> from sklearn_lhcal.distributions import Dirichlet
    >>> round(histogram_log_loss([[2, 0]], Dirichlet([[1.0, 1.0]])), 4)
    1.0986
    """
    return score(histogram_log_loss, **locals())


@metric(MeanOfTerms(greater_is_better=True, terms=_accuracy_terms, limits=(0.0, 1.0)))
def expected_accuracy(
    y: LabelsLike, prediction: PredictionLike, *, sample_weight: Weights = None
) -> float:
    """Probability that a rater gives the predicted class: larger is better, between 0 and 1.

    The mean of ``μ̂[argmax z]``. Its expectation does not depend on the number of raters. Ties of z
    are shared evenly.

    Parameters
    ----------
    y, prediction, sample_weight
        As in `expected_squared_loss`.

    Returns
    -------
    accuracy : float

    Examples
    --------
    >>> expected_accuracy([[3, 1], [0, 2]], [[0.6, 0.4], [0.3, 0.7]])
    0.875
    """
    return score(expected_accuracy, **locals())


@metric(MeanOfTerms(greater_is_better=True, terms=_vote_terms, limits=(0.0, 1.0)))
def vote_accuracy(
    y: LabelsLike, prediction: PredictionLike, *, sample_weight: Weights = None
) -> float:
    """Share of samples whose predicted class has most labels: larger is better, between 0 and 1.

    Ties on either side are shared evenly. The share depends on the number of raters: that of the
    true class probabilities rises with it, where their `expected_accuracy` stays.

    Parameters
    ----------
    y, prediction, sample_weight
        As in `expected_squared_loss`.

    Returns
    -------
    accuracy : float

    Examples
    --------
    >>> vote_accuracy([[3, 1], [1, 1]], [[0.6, 0.4], [0.3, 0.7]])
    0.75
    """
    return score(vote_accuracy, **locals())
