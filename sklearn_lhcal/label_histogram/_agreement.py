"""Agreement of raters, and agreement beyond what each author calls chance."""

from functools import partial

from .._utils.distances import Distance
from .._utils.tags import MeanOfTerms, OfRows, metric
from .._utils.types import LabelsLike, Weights
from ._chance import (
    Similarity,
    agreement_terms,
    alpha,
    cohen,
    conger,
    fleiss,
    gwet,
    observed_agreement,
    score,
)

_coefficient = partial(OfRows, greater_is_better=True, compares_raters=True, of_labels=True)


@metric(MeanOfTerms(greater_is_better=True, least_raters=2, terms=agreement_terms, of_labels=True))
def percent_agreement(
    y: LabelsLike, *, weights: Similarity = "nominal", sample_weight: Weights = None
) -> float:
    """Share of pairs of raters who agree, a mean over samples: larger is better, at most 1.

    ``p_a = mean_i Σ_k y_ik ((yS)_ik − 1) / (n_i(n_i − 1))`` over samples with two raters or more.
    It is unbiased for the probability that two raters agree, where raters are exchangeable.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes, `Annotations` too.
    weights : {"nominal", "ordinal", "linear", "quadratic", "interval"} or array-like of shape \
(n_classes, n_classes), default="nominal"
        How much two different classes agree, S.

        - "nominal": not at all.
        - "ordinal": by the number of pairs of classes from one to the other.
        - "linear": by their distance.
        - "quadratic", or "interval": by its square.

        Distances are those of classes that are numbers, else of their places. Text needs an order,
        of an ordered Categorical or ``classes=[...]``. A matrix has 1 on its diagonal.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of samples.

    Returns
    -------
    agreement : float
        NaN with an UndefinedMetricWarning where no sample has two raters.

    Raises
    ------
    ValueError
        Bad labels, weights of another shape, not symmetric or above 1.

    See Also
    --------
    pairwise_disagreement : One minus the same of each sample.

    Examples
    --------
    >>> percent_agreement([[2, 0], [1, 1]])
    0.5
    """
    return score(observed_agreement, y, weights, sample_weight)


@metric(_coefficient(of_rows=fleiss))
def fleiss_kappa(
    y: LabelsLike, *, weights: Similarity = "nominal", sample_weight: Weights = None
) -> float:
    """Fleiss' kappa, agreement between raters beyond chance: larger is better, maximum 1.

    It is 0 at chance. Chance is two labels drawn from all samples: ``p_e = πᵀSπ`` with π the mean
    of the samples' class shares. Samples may have different numbers of raters, and raters need no
    names.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.
    weights, sample_weight
        As in `percent_agreement`.

    Returns
    -------
    kappa : float
        NaN with an UndefinedMetricWarning where no sample has two raters, or all labels are of
        one class.

    Raises
    ------
    ValueError
        As `percent_agreement`.

    References
    ----------
    Fleiss (1971), Measuring nominal scale agreement among many raters. Gwet (2014), Handbook of
    inter-rater reliability, for incomplete labels and weights.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import load_psychiatric_diagnoses
    >>> round(fleiss_kappa(load_psychiatric_diagnoses().counts), 3)
    0.43
    """
    return score(fleiss, y, weights, sample_weight)


@metric(_coefficient(of_rows=gwet))
def gwet_ac(
    y: LabelsLike, *, weights: Similarity = "nominal", sample_weight: Weights = None
) -> float:
    """Gwet's AC1, and AC2 with weights: agreement beyond chance, larger is better, maximum 1.

    It is 0 at chance. Chance is ``p_e = ΣS/(K(K − 1)) Σ_k π_k(1 − π_k)``: it stays small where
    nearly all labels are of one class. Kappas are near 0 there whatever the agreement.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes. Classes without a label count among the K.
    weights, sample_weight
        As in `percent_agreement`.

    Returns
    -------
    coefficient : float
        NaN with an UndefinedMetricWarning where no sample has two raters, or there is one class.

    Raises
    ------
    ValueError
        As `percent_agreement`.

    References
    ----------
    Gwet (2008), Computing inter-rater reliability and its variance in the presence of high
    agreement.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import load_psychiatric_diagnoses
    >>> round(gwet_ac(load_psychiatric_diagnoses().counts), 3)
    0.448
    """
    return score(gwet, y, weights, sample_weight)


@metric(_coefficient(of_rows=conger))
def conger_kappa(
    y: LabelsLike, *, weights: Similarity = "nominal", sample_weight: Weights = None
) -> float:
    """Conger's kappa, Cohen's of any number of raters: larger is better, maximum 1.

    It is 0 at chance. Chance is two different raters, each with a label drawn from all that he
    gave: ``p_e = [(Σ_r p_r)ᵀ S (Σ_r p_r) − Σ_r p_rᵀ S p_r] / (R(R − 1))``.

    Parameters
    ----------
    y : Annotations of shape (n_samples, n_classes)
        Raters may leave samples out.
    weights, sample_weight
        As in `percent_agreement`.

    Returns
    -------
    kappa : float
        NaN with an UndefinedMetricWarning where no sample has two raters, or all labels are of
        one class.

    Raises
    ------
    TypeError
        Labels that do not know their raters.
    ValueError
        As `percent_agreement`.

    References
    ----------
    Conger (1980), Integration and generalization of kappas for multiple raters.

    Examples
    --------
    >>> from sklearn_lhcal.label_histogram import Annotations
    >>> y = Annotations.from_matrix([["a", "a", "b"], ["b", "b", "b"], ["a", "b", None]])
    >>> round(conger_kappa(y), 3)
    -0.071
    """
    return score(conger, y, weights, sample_weight)


@metric(_coefficient(of_rows=cohen))
def cohen_kappa(
    y: LabelsLike, *, weights: Similarity = "nominal", sample_weight: Weights = None
) -> float:
    """Cohen's kappa of two raters: larger is better, maximum 1.

    It is 0 at chance, ``p_e = p_1ᵀ S p_2`` with the class shares of either rater.

    Parameters
    ----------
    y : Annotations of shape (n_samples, n_classes)
        Of two raters. Samples that one of them left out count for his shares only.
    weights, sample_weight
        As in `percent_agreement`.

    Returns
    -------
    kappa : float
        NaN with an UndefinedMetricWarning where no sample has both raters, or all labels are of
        one class.

    Raises
    ------
    TypeError
        Labels that do not know their raters.
    ValueError
        More than two raters; as `percent_agreement`.

    References
    ----------
    Cohen (1960), A coefficient of agreement for nominal scales; (1968) with weights.

    Examples
    --------
    >>> from sklearn_lhcal.label_histogram import Annotations
    >>> y = Annotations.from_matrix([["a", "a"], ["b", "b"], ["a", "b"], ["b", "b"]])
    >>> cohen_kappa(y)
    0.5
    """
    return score(cohen, y, weights, sample_weight)


@metric(_coefficient(of_rows=alpha, least_raters=2))
def krippendorff_alpha(
    y: LabelsLike,
    *,
    weights: Similarity = "nominal",
    sample_weight: Weights = None,
    distance: Distance = None,
) -> float:
    """Krippendorff's alpha, one minus observed by expected disagreement: larger is better.

    The maximum is 1, and it is 0 at chance. ``α = 1 − D_o/D_e`` with
    ``D_o = Σ_i y_iᵀ δ y_i/(n_i − 1) / N`` and ``D_e = Yᵀ δ Y / (N(N − 1))`` over samples with two
    raters or more, N labels in all, Y of each class, and distances ``δ = 1 − S``. Raters need no
    names.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes but known probabilities.
    weights
        As in `percent_agreement`; but "ordinal" distances are Krippendorff's, the squared number of
        labels between two classes, and depend on the data.
    sample_weight
        Weights of samples, read as repetition: N counts them.
    distance : None, "ordinal", "interval" or array-like of shape (n_classes, n_classes), optional
        Squared distances δ, as in `sklearn_lhcal.metrics.expected_squared_loss`: "ordinal" is
        the number of steps.

    Returns
    -------
    alpha : float
        NaN with an UndefinedMetricWarning where no sample has two raters, or all labels are of
        one class.

    Raises
    ------
    ValueError
        As `percent_agreement`; known probabilities; weights whose N is at most 1.

    References
    ----------
    Krippendorff (2011), Computing Krippendorff's alpha-reliability.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import load_psychiatric_diagnoses
    >>> round(krippendorff_alpha(load_psychiatric_diagnoses().counts), 3)
    0.433
    """
    return score(alpha, y, weights, sample_weight, distance=distance)
