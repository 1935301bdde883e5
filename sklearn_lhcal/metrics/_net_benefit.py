"""Net benefit of acting where a probability reaches a threshold: what decision curves show.

Letters: p_i the predicted probability of the class, μ̂_i its share among the raters of row i, t the
threshold."""

from .._rows import PredictionLike, Rows, class_column
from .._utils.bins import below
from .._utils.checks import checked
from .._utils.tags import MeanOfTerms, metric
from .._utils.types import LabelsLike, Weights
from ._evaluate import score, weighted


def _terms(rows: Rows, *, threshold: float, class_index) -> tuple:
    """``1{p_i ≥ t} [μ̂_i − (1 − μ̂_i) t/(1 − t)]`` of each row."""
    k = class_column(class_index, rows)
    t = threshold
    mu = rows.mu[:, k]
    # 1 − .9 is below .1, and .7 in float32 below .7
    acts = rows.z[:, k] >= t - below(t, t)
    return weighted(rows, acts * (mu - (1 - mu) * t / (1 - t)))


def _tags(*, threshold: float, class_index) -> MeanOfTerms:
    limits = (-threshold / (1 - threshold), 1.0)
    return MeanOfTerms(greater_is_better=True, terms=_terms, limits=limits)


@metric(_tags)
@checked
def net_benefit(
    y: LabelsLike,
    prediction: PredictionLike,
    threshold: float,
    *,
    sample_weight: Weights = None,
    class_index: object = None,
) -> float:
    """Net benefit of acting on the rows with ``p ≥ threshold``: larger is better, at most the
    share of the class.

    ``NB(t) = mean 1{p_i ≥ t} [μ̂_i − (1 − μ̂_i) t/(1 − t)]``: true alarms a row, less false ones at
    their exchange rate. To act from a probability t on means that a false alarm weighs t/(1 − t)
    missed cases. Acting on no row has net benefit 0; acting on every row has that of ``p = 1``. A
    model is useful at this threshold where it is above both.

    It is unbiased with any number of raters a row. Rows count alike, however many raters they have.
    Where a missed case costs 1 − t and a false alarm t, ``NB = share − R / (1 − t)`` with R the
    `decision_risk`.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
        Class probabilities, those of the second of two classes, or a distribution, of which the
        mean counts.
    threshold : float
        The probability t from which on one acts, at least 0 and below 1. Predictions that rounding
        alone puts below it count as at it.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows; only their ratios matter.
    class_index : int or class name, optional
        The class that calls for acting, against all others: its name, or its column number where
        names are no numbers. None: the second of two.

    Returns
    -------
    benefit : float
        In true alarms a row: .05 is worth five true alarms in 100 rows without a false one.

    Raises
    ------
    ValueError
        A threshold outside [0, 1), an unknown class, more than two classes and no `class_index`.

    See Also
    --------
    sklearn_lhcal.display.DecisionCurveDisplay : Net benefit over thresholds, with intervals.

    References
    ----------
    Vickers and Elkin (2006), Decision curve analysis: a novel method for evaluating prediction
    models.

    Examples
    --------
    >>> y, p = [0, 0, 1, 1], [0.1, 0.6, 0.4, 0.9]
    >>> net_benefit(y, p, 0.5), round(net_benefit(y, p, 0.25), 3)
    (0.0, 0.417)

    Its interval:

    >>> from sklearn_lhcal.metrics import confidence_interval
    >>> confidence_interval(net_benefit, y * 50, p * 50, threshold=0.25, random_state=0).low > 0
    True
    """
    options = {"threshold": threshold, "class_index": class_index}
    return score(net_benefit, y, prediction, sample_weight, **options)
