"""Agreement of raters, and agreement beyond what each author calls chance.

Letters: y_ik counts, n_i raters and μ̂_i shares of sample i, w_i weights of samples, S similarity
of classes, π class shares, p_r those of rater r.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from scipy import sparse

from .._utils.checks import as_floats, check_finite, warn_undefined
from .._utils.names import numbers_of
from .._utils.tags import MeanOfTerms, OfSums, metric
from .._utils.types import ArrayLike, Floats, LabelsLike, Weights
from ._annotations import Annotations
from ._labels import Labels, read_labels, weight_of

Similarity = Literal["nominal", "ordinal", "linear", "quadratic", "interval"] | ArrayLike


class _Labelled(NamedTuple):
    """Labels and weights of samples: all that agreement depends on."""

    labels: Labels
    weight: Floats
    scale: int = 0


def score(function: Callable, y, weights, sample_weight) -> float:
    """What a public function does: read, check, return."""
    labels = read_labels(y)
    labels.warn_if_adjudicated()
    w = weight_of(labels, None, y, sample_weight)
    w = np.ones(len(labels)) if w is None else w
    rated = labels.rated
    rows = _Labelled(labels.take(rated), w[rated])
    with np.errstate(invalid="ignore"):
        result = vars(function)["tags"].value(rows, weights=weights)
    if np.isnan(result):
        warn_undefined(
            "Agreement is undefined and set to NaN: no sample with a positive weight has two "
            "labels, or all labels are of one class."
        )
    return result


def agreement_terms(rows, *, weights: Similarity) -> tuple[Floats, Floats]:
    """Numerators and denominators of p_a, for samples with two raters or more."""
    labels = rows.labels
    W, N = (rows.weight[:, None] * _pairs(labels.mu, labels.n, similarity(weights, labels))).T
    return N, W


def _pairs(mu, n, S: Floats) -> Floats:
    """1{n_i > 1} and 1{n_i > 1} p_a of samples, (n, 2)."""
    # q is the agreement of two draws with replacement
    q = np.einsum("ik,kl,il->i", mu, S, mu, optimize=True)
    several = np.broadcast_to(n > 1, len(mu))
    return np.stack([several, several * (q - (1 - q) / np.maximum(n - 1, 1))], axis=1)


def _shared(mu, n, rows, *, weights: Similarity) -> Floats:
    """``[1{n_i > 1}, 1{n_i > 1} p_a, μ̂_i]``, (n, 2 + K)."""
    return np.hstack([_pairs(mu, n, similarity(weights, rows.labels)), mu])


def _shared_terms(rows, **options) -> Floats:
    """The same times w_i."""
    return rows.weight[:, None] * _shared(rows.labels.mu, rows.labels.n, rows, **options)


def _of_raters(mu, n, rows, *, weights: Similarity) -> Floats:
    """The same with labels of each rater in place of μ̂_i, as many as of a sample on average."""
    y = rows.labels
    load = np.bincount(y.rater, rows.weight[y.row], len(y.raters)) / rows.weight.sum()
    return np.hstack([_pairs(mu, n, similarity(weights, y)), np.kron(load, mu)])


def _rater_terms(rows, *, weights: Similarity) -> sparse.csr_array:
    """``w_i [1{n_i > 1}, 1{n_i > 1} p_a, 1{r says k}]``, (n, 2 + RK)."""
    y = _annotated(rows.labels)
    n, K = y.shape
    pairs = rows.weight[:, None] * _pairs(y.mu, y.n, similarity(weights, y))
    said = rows.weight[y.row], (y.row, y.rater * K + y.label)
    table = sparse.coo_array(said, shape=(n, len(y.raters) * K))
    return sparse.hstack([sparse.coo_array(pairs), table], format="csr")


def _annotated(labels: Labels) -> Annotations:
    """Labels that say who gave them; others are refused."""
    if not isinstance(labels, Annotations):
        raise TypeError(
            "This coefficient needs to know who said what: y must be Annotations, got counts or "
            "labels. fleiss_kappa and gwet_ac need no names."
        )
    return labels


@np.errstate(all="ignore")
def _beyond(p_e: Floats, sums: Floats) -> Floats:
    """``(p_a − p_e)/(1 − p_e)``; where all labels are of one class nothing is beyond chance."""
    p_a = sums[..., 1] / sums[..., 0]
    return np.where(p_e < 1 - 1e-12, (p_a - p_e) / (1 - p_e), np.nan)


@np.errstate(all="ignore")
def _shares(sums: Floats) -> Floats:
    """Sums over classes, in shares; NaN where there are none."""
    return sums / sums.sum(axis=-1, keepdims=True)


def fleiss(sums: Floats, labels: Labels, *, weights: Similarity) -> Floats:
    """The coefficient of ``p_e = πᵀSπ``, with the mean π of μ̂_i over the samples."""
    pi = _shares(sums[..., 2:])
    return _beyond((pi @ similarity(weights, labels) * pi).sum(axis=-1), sums)


def gwet(sums: Floats, labels: Labels, *, weights: Similarity) -> Floats:
    """The coefficient of ``p_e = ΣS/(K(K − 1)) Σ_k π_k(1 − π_k)``, of the same π."""
    pi = _shares(sums[..., 2:])
    # classes of a model alone do not count
    S = similarity(weights, labels)[labels.own][:, labels.own]
    K = len(S)
    p_e = S.sum() / max(K * (K - 1), 1) * (pi * (1 - pi)).sum(axis=-1)
    return _beyond(p_e if K > 1 else np.nan * p_e, sums)


@np.errstate(all="ignore")
def conger(sums: Floats, labels: Labels, *, weights: Similarity) -> Floats:
    """The coefficient of ``p_e = [(Σp_r)ᵀS(Σp_r) − Σ p_rᵀSp_r] / (R(R − 1))``.

    That is two different raters with a label, a sample each.
    """
    S = similarity(weights, labels)
    p = np.nan_to_num(_shares(sums[..., 2:].reshape(*sums.shape[:-1], -1, len(S))))
    R = (p.sum(axis=-1) > 0).sum(axis=-1)
    total = p.sum(axis=-2)
    same = (p @ S * p).sum(axis=(-2, -1))
    return _beyond(((total @ S * total).sum(axis=-1) - same) / (R * (R - 1)), sums)


def _two_raters(rows, *, weights: Similarity) -> sparse.csr_array:
    """`conger`'s of two raters, or one."""
    labels = _annotated(rows.labels)
    R = np.count_nonzero(np.bincount(labels.rater, rows.weight[labels.row]))
    if R > 2:
        raise ValueError(
            f"cohen_kappa is of two raters, y has {R}; use conger_kappa for any number of raters."
        )
    return _rater_terms(rows, weights=weights)


def _of_alpha(mu, n, rows, *, weights: Similarity) -> sparse.csr_array:
    """``[y_i, y_iᵀδy_i/(n_i − 1)]``, (n, K + 1), with the power of two that weights lack.

    Of "ordinal", whose δ depends on the sums, all ``y_ik y_il/(n_i − 1)``, (n, K + K²).
    """
    y = sparse.csr_array((np.ldexp(n, rows.scale) * mu.T).T)
    others = (n / np.maximum(n - 1, 1) * mu.T).T
    if not _is_ordinal(weights):
        others = others @ (1 - similarity(weights, rows.labels))
        return sparse.hstack([y, y.multiply(others).sum(axis=1)[:, None]], format="csr")
    pairs = [y.multiply(others[:, [k]]) for k in range(y.shape[1])]
    return sparse.hstack([y, *pairs], format="csr")


def _alpha_terms(rows, *, weights: Similarity) -> sparse.csr_array:
    """The same times w_i, of samples with two raters."""
    labels = rows.labels
    if labels.known:
        raise ValueError("krippendorff_alpha needs finitely many raters; give counts.")
    w = rows.weight * (labels.n > 1)
    N = np.ldexp(w, rows.scale) @ labels.n
    if N and not N > 1:
        raise ValueError(
            f"sample_weight repeats samples: all labels weigh {N:.3g}, no more than one."
        )
    return sparse.diags_array(w) @ _of_alpha(labels.mu, labels.n, rows, weights=weights)


@np.errstate(all="ignore")
def alpha(sums: Floats, labels: Labels, *, weights: Similarity) -> Floats:
    """``1 − D_o/D_e``, over samples with two raters or more."""
    K = labels.shape[1]
    Y, apart = sums[..., :K], sums[..., K:]
    N = Y.sum(axis=-1)
    delta = 1 - similarity(weights, labels)
    if _is_ordinal(weights):
        # δ_kl = (Σ_{g=k..l} Y_g − (Y_k + Y_l)/2)²: how many labels lie between
        middle = np.cumsum(Y, axis=-1) - Y / 2
        delta = (middle[..., :, None] - middle[..., None, :]) ** 2
        apart = apart * delta.reshape(apart.shape)
    D_o = apart.sum(axis=-1) / N
    D_e = (Y[..., None, :] @ delta @ Y[..., None])[..., 0, 0] / (N * (N - 1))
    return np.where(D_e > 0, 1 - D_o / D_e, np.nan)


def _is_ordinal(weights: Similarity) -> bool:
    """Whether distances are Krippendorff's ordinal ones."""
    return isinstance(weights, str) and weights == "ordinal"


def similarity(weights: Similarity, labels: Labels) -> Floats:
    """How alike two classes are, shape (K, K): 1 on the diagonal, less elsewhere.

    Distances are those among the classes of y, which a model's other classes do not stretch.
    """
    K = labels.shape[1]
    own = labels.own
    if not isinstance(weights, str):
        return _checked(as_floats(weights, "weights"), K)
    if weights not in ("nominal", "ordinal", "linear", "quadratic", "interval"):
        raise ValueError(
            "weights must be 'nominal', 'ordinal', 'linear', 'quadratic' (or 'interval') or a "
            f"matrix, got {weights!r}."
        )
    S = np.eye(K)
    if weights == "nominal" or own.sum() == 1:
        return S
    numbers = None if labels.classes is None else numbers_of(labels.classes[own])
    if not labels.has_order:
        raise ValueError(
            f"weights={weights!r} needs an order of the classes, but {labels.classes.tolist()[:20]}"
            " are text: make the labels an ordered Categorical, or give Annotations classes=[...], "
            "or pass counts without names, y.to_numpy(), whose columns are in order."
        )
    place = np.arange(own.sum(), dtype=float)
    if numbers is not None and weights != "ordinal":
        place = numbers.astype(float)
    distance = np.abs(place[:, None] - place)
    # "ordinal": pairs among the classes from k to l
    apart = {"ordinal": distance * (distance + 1) / 2, "linear": distance}
    distance = apart.get(weights, distance**2)
    S[np.ix_(own, own)] = 1 - distance / distance.max()
    return S


def _checked(S: Floats, K: int) -> Floats:
    """The user's similarities, refused unless they are symmetric with 1 on the diagonal."""
    if S.shape != (K, K):
        raise ValueError(f"weights must have shape ({K}, {K}), one row a class, got {S.shape}.")
    check_finite(S, "weights")
    if not np.array_equal(S, S.T) or (np.diag(S) != 1).any() or (S > 1).any():
        raise ValueError(
            "weights must be a symmetric matrix of similarities, 1 on the diagonal and at most 1 "
            "elsewhere."
        )
    return S


_AGREEMENT: dict = {"greater_is_better": True, "of_labels": True, "bounds": (-np.inf, 1.0)}
_coefficient = partial(OfSums, compares_raters=True, **_AGREEMENT)
_of_shares = partial(_coefficient, terms=_shared_terms, of_unit=_shared)
_by_raters = partial(_coefficient, of_unit=_of_raters, of_sums=conger)


@metric(MeanOfTerms(least_raters=2, terms=agreement_terms, **_AGREEMENT))
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
    return score(percent_agreement, y, weights, sample_weight)


@metric(_of_shares(of_sums=fleiss))
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
    return score(fleiss_kappa, y, weights, sample_weight)


@metric(_of_shares(of_sums=gwet))
def gwet_ac(
    y: LabelsLike, *, weights: Similarity = "nominal", sample_weight: Weights = None
) -> float:
    """Gwet's AC1, and AC2 with weights: agreement beyond chance, larger is better, maximum 1.

    It is 0 at chance. Chance is ``p_e = ΣS/(K(K − 1)) Σ_k π_k(1 − π_k)``: it stays small where
    nearly all labels are of one class. Kappas are near 0 there whatever the agreement.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes. K counts the columns of counts and classes that were given,
        those without a label too; else the classes that the raters of y use.
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
    return score(gwet_ac, y, weights, sample_weight)


@metric(_by_raters(terms=_rater_terms))
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
    return score(conger_kappa, y, weights, sample_weight)


@metric(_by_raters(terms=_two_raters))
def cohen_kappa(
    y: LabelsLike, *, weights: Similarity = "nominal", sample_weight: Weights = None
) -> float:
    """Cohen's kappa of two raters: larger is better, maximum 1.

    It is 0 at chance, ``p_e = p_1ᵀ S p_2`` with the class shares of either rater.

    Parameters
    ----------
    y : Annotations of shape (n_samples, n_classes)
        Of two raters. Samples that one of them left out count for the shares of the other only;
        ``y[y.n == 2]`` is without them, as in the report and in scikit-learn. An interval is for
        these two raters: ``confidence_interval(cohen_kappa, y, None, raters="fixed")``.
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
    return score(cohen_kappa, y, weights, sample_weight)


@metric(_coefficient(of_sums=alpha, least_raters=2, terms=_alpha_terms, of_unit=_of_alpha))
def krippendorff_alpha(
    y: LabelsLike, *, weights: Similarity = "nominal", sample_weight: Weights = None
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
    return score(krippendorff_alpha, y, weights, sample_weight)
