"""Calibration errors by Dirichlet and Beta kernels: canonical, marginal, top-label.

The corrections are our own. P2 is Popordanoska, Sayer and Blaschko (2022), A consistent and
differentiable Lp canonical calibration error estimator. Letters: z predictions, μ̂ observed
frequencies, e = μ̂ − z, h bandwidth, k the kernel, r the smooth of μ̂.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.stats import skew

from .._rows import PredictionLike, Rows
from .._utils.bins import Bins
from .._utils.checks import warn
from .._utils.distances import Distance
from .._utils.simplex import accuracy
from .._utils.tags import OfRows, metric
from .._utils.types import Bandwidth, Floats, Groups, KernelKind, LabelsLike, Seed, Weights
from ._binned import check_exponent, group_means
from ._evaluate import points_of, score, signed_root
from ._kernel_bandwidth import as_tensor, choose_bandwidth, groups_of, log_weight_of

# values of some classes that are in memory at a time
_VALUES = 2**23
# Samples above which all their pairs take long, and seconds of a pair.
_MANY = 50_000
_SECONDS = 6e-9


def check_options(p, bias_correction) -> None:
    """ValueError for an infinite exponent, or a correction that p does not have."""
    if np.isinf(p):
        raise ValueError(f"p must be a finite number, 1 or more, got {p!r}.")
    check_exponent(p, bias_correction)


def check_enough(rows: Rows, estimate: str | None) -> None:
    """ValueError unless there are two samples, or groups, for a plug-in, three for all else."""
    least = 2 if estimate is None else 3
    if len(rows) < least:
        raise ValueError(f"A leave-one-out estimate needs {least} rows at least, got {len(rows)}.")
    if rows.groups is not None and len(np.unique(rows.groups)) < least:
        raise ValueError(f"An estimate that leaves groups out needs {least} groups at least.")


def _estimate(
    rows: Rows,
    bias_correction,
    p,
    *,
    kind,
    bandwidth,
    random_state,
    device,
    distance: Distance = None,
    **others,
) -> float:
    """One of the kernel estimates of all samples."""
    check_enough(rows, bias_correction)
    B = points_of(rows, distance)
    of_residuals = bias_correction in ("residual", "second_order")
    h = choose_bandwidth(bandwidth, kind, rows, random_state, device, of_residuals)
    return float(mean_errors(rows, None, kind, h, p, bias_correction, device, B)[0])


def _plugin(rows: Rows, *, p: float, root, bias_correction=None, **options) -> float:
    return signed_root(_estimate(rows, bias_correction, p, **options), p if root else 1)


def _error_tags(*, p, root, bias_correction, kind, distance: Distance, **others) -> OfRows:
    """A bias-corrected error may be negative: its root is a signed one, of p = 2."""
    check_options(p, bias_correction)
    if distance is not None and (kind != "canonical" or p != 2):
        raise ValueError("A distance is for kind='canonical' and p=2 only.")
    if bias_correction is not None:
        return OfRows(greater_is_better=False, of_rows=_estimate, signed_root=root)
    return OfRows(greater_is_better=False, of_rows=_plugin, biased=True)


def _ratio_tags(*, p, **others) -> OfRows:
    check_options(p, None)
    return OfRows(greater_is_better=False, of_rows=partial(_plugin, bias_correction="ratio"))


def _sharpness(rows: Rows, *, bias_correction, **options) -> float:
    estimate = "sharpness" if bias_correction is None else "ratio_sharpness"
    return _estimate(rows, estimate, 2, **options)


def _sharpness_tags(*, bias_correction, **others) -> OfRows:
    return OfRows(greater_is_better=True, of_rows=_sharpness, biased=bias_correction is None)


@metric(_error_tags)
def kernel_calibration_error(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: Weights = None,
    groups: Groups = None,
    kind: KernelKind = "canonical",
    p: float = 2,
    bandwidth: Bandwidth = "cv",
    root: bool = False,
    bias_correction: Literal["residual", "second_order"] | None = "residual",
    random_state: Seed = 0,
    device: str = "cpu",
    distance: Distance = None,
) -> float:
    """Kernel estimate of the calibration error ``E‖E[y|z] − z‖_p^p``: 0 if calibrated.

    E[y|z] is a kernel smooth over all other samples, of labels or label histograms. The corrected
    estimates smooth the residual e instead. Their mean is 0 for a calibrated predictor, whatever n,
    K and h, and so they may be negative. A bandwidth that labels chose, as "cv" does, leaves that
    true within 0.001 in simulations. The published plug-in (P2 eq. 9: p = 1,
    ``bias_correction=None`` and ``bandwidth="loo"``) compares smoothed frequencies with unsmoothed
    predictions. For a calibrated predictor it is far from 0 unless n is large.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes. 1-D integers are column numbers.
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
        Class probabilities, or those of the second of two classes, or a distribution, whose mean
        counts.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples, in the smooth and in the mean. Only their ratios matter. They do not
        count as repetition: a repeated sample would answer for itself.
    groups : array-like of shape (n_samples,), optional
        Samples of one group (one patient, say) may depend on each other; groups are independent.
        Pairs of samples of one group are left out, of the smooth and of the search for a bandwidth.
        Without groups the samples themselves are taken as independent.
    kind : {"canonical", "marginal", "top_label"}, default="canonical"
        Calibration of the whole vector; of every class by itself, summed over classes; or of the
        largest probability, whose frequency classes that tie share evenly.
    p : float, default=2
        Exponent, 1 or more. Only p = 2 has corrections; for others pass ``bias_correction=None``.
    bandwidth : float, "loo" or "cv", default="cv"
        "cv": the one whose smooth predicts left-out samples best: their residuals where the
        estimate is corrected, else their frequencies. It is 1 where residuals have no pattern.
        "loo", as published: the most likely one for the predictions (`loo_bandwidth`). It knows
        nothing of their miscalibration, and smooths it away where predictions are spread evenly or
        have few different values. Both depend on the data: to compare models give a number.
    root : bool, default=False
        Whether to return the p-th root, with the sign of the estimate.
    bias_correction : {"residual", "second_order", None}, default="residual"
        For p = 2. "residual": ``S2``, the U-statistic of pairs of neighbours' residuals. It
        smooths, and so loses some of the error at a wide bandwidth. "second_order": ``2·S1 − S2``
        with S1 = mean e_j·(Se)_j, which loses less: its loss is of second order. Use it with
        ``bandwidth="cv"``. None: the plug-in.
    random_state : int, RandomState instance or None, default=0
        Draws the samples on which a bandwidth is searched, 20,000 where there are more; "loo" then
        warns.
    device : str, default="cpu"
        Where torch computes.
    distance : None, "linear", "quadratic" or array-like of shape (n_classes, n_classes), optional
        As in `expected_squared_loss`; for the canonical kind and p = 2. The bandwidth does not
        depend on it.

    Returns
    -------
    error : float
        Sum over classes of ``|probability|^p``, or its p-th root.

    Raises
    ------
    ValueError
        p below 1, a correction for p ≠ 2, unknown words, fewer than two samples or groups (three
        for corrections), a bandwidth that is not positive.

    Warns
    -----
    UserWarning
        Of more than 50,000 samples whose pairs all count, how long it takes, and what is faster.

    Notes
    -----
    The defaults are the advice: p = 2 with a correction. The raters of a sample need not be
    independent of each other, since pairs of neighbours are pairs of samples. The interval of a
    small second-order estimate is short: with few samples and a rare class it covers too rarely.

    Memory grows with n. Predictions in float64 and counts in int64 may be read-only files, mapped
    by `numpy.memmap`, of which "marginal" and "top_label" hold few columns at a time.

    Time grows with n² for the canonical kind, and for all kinds with groups. For the others it
    grows about with n: from 2,000 samples on their kernels are summed by interpolation, whose
    relative error is below 1e-14, but for rounding.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(500, overconfidence=3.0, random_state=0)
    >>> calibrated = kernel_calibration_error(data.counts, data.proba, bandwidth=0.05)
    >>> calibrated < 0.01 < kernel_calibration_error(data.counts, data.prediction, bandwidth=0.05)
    True
    """
    return score(kernel_calibration_error, **locals())


@metric(_ratio_tags)
def ratio_corrected_calibration_error(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: Weights = None,
    groups: Groups = None,
    kind: KernelKind = "canonical",
    p: float = 1,
    bandwidth: Bandwidth = "cv",
    root: bool = False,
    random_state: Seed = 0,
    device: str = "cpu",
) -> float:
    """The plug-in with each ratio of sums corrected to second order: smaller is better, minimum 0.

    It is the correction of P2, by Tin (1965). It makes the smooth r less biased, not the error,
    which remains positive for a calibrated predictor. `kernel_calibration_error` has corrections of
    the error itself.

    Parameters
    ----------
    y, prediction, sample_weight, groups, kind, p, bandwidth, root, random_state, device
        As in `kernel_calibration_error`.

    Returns
    -------
    error : float
        Sum over classes of ``|probability|^p``, or its p-th root; smaller is better, minimum 0.

    Examples
    --------
    >>> round(ratio_corrected_calibration_error([0, 1, 1], [0.2, 0.7, 0.9], bandwidth=0.5), 2)
    0.77
    """
    return score(ratio_corrected_calibration_error, **locals())


@metric(_sharpness_tags)
def kernel_sharpness(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: Weights = None,
    groups: Groups = None,
    kind: KernelKind = "canonical",
    bandwidth: Bandwidth = "cv",
    bias_correction: Literal["ratio"] | None = None,
    random_state: Seed = 0,
    device: str = "cpu",
) -> float:
    """Kernel estimate of the sharpness ``E‖E[y|z]‖²``, at most 1.

    The larger it is, the better predictions tell samples apart. It is a ratio of U-statistics over
    pairs of neighbours (P2 eq. 7). The calibration error for p = 2 is ``sharpness − 2E[z·y] +
    E‖z‖²``.

    Parameters
    ----------
    y, prediction, sample_weight, groups, kind, bandwidth, random_state, device
        As in `kernel_calibration_error`.
    bias_correction : {"ratio", None}, default=None
        "ratio" removes the bias of the ratio to second order. It helps at wide bandwidths.

    Returns
    -------
    sharpness : float
        Squared probability, summed over classes (one class for "top_label").

    Raises
    ------
    ValueError
        As `kernel_calibration_error`; three samples, or groups, at least.

    Examples
    --------
    >>> round(kernel_sharpness([0, 1, 1, 1], [0.2, 0.7, 0.8, 0.9], bandwidth=0.5), 2)
    0.79
    """
    return score(kernel_sharpness, **locals())


def mean_errors(
    rows: Rows, mu, kind, h: float, p: float, estimate: str | None, device, B: Floats | None = None
) -> Floats:
    """Weighted means over samples, shape (S,), of S versions of the frequencies μ̂ (n, S, K).

    None stands for the one version observed.
    """
    import torch

    from .._utils.kernels import errors

    n, K = rows.z.shape
    # two classes are interpolated, as single ones are
    if n > _MANY and (rows.groups is not None or (kind == "canonical" and K > 2)):
        warn(
            f"The {n} samples have {n * n:.0e} pairs, which take about {_SECONDS * n * n:.0f} "
            f"seconds of one core. A random sample of {_MANY} takes {_SECONDS * _MANY**2:.0f}; "
            'kind="marginal" without groups grows with n alone.'
        )
    w = as_tensor(rows.weight, device)
    row_errors: Any = {
        None: partial(errors.plugin_rows, p=p),
        "ratio": partial(errors.ratio_corrected_rows, p=p),
        "residual": errors.residual_rows,
        "second_order": errors.second_order_rows,
        "sharpness": errors.sharpness_rows,
        "ratio_sharpness": partial(errors.sharpness_rows, corrected=True),
    }[estimate]
    total: Floats = np.zeros(1)
    with torch.no_grad():
        for part in _problems(kind, rows, mu, device):
            if B is not None:
                # neighbours are those of z, what is compared are mean points
                to = as_tensor(B, device)
                part = part._replace(z=part.z @ to, y=part.y @ to)
            losses = row_errors(part, h)
            total = total + (w @ losses / w.sum()).cpu().numpy()
    return total


def _problems(kind: str, rows: Rows, mu, device):
    """The problems of a kind; where each is of one class, few columns are read at a time."""
    from .._utils.kernels import errors

    weights_and_groups = log_weight_of(rows, device), groups_of(rows.groups, device)
    if mu is not None or kind == "canonical":
        parts = iter([(rows.z, rows.mu[:, None] if mu is None else mu)])
    elif kind == "marginal":
        parts = _some_classes(rows)
    else:
        top = rows.each(_top)
        parts = iter([(top[:, :1], top[:, 1:, None])])
        kind = "marginal"
    for z, y in parts:
        yield from errors.problems(
            kind, as_tensor(z, device), as_tensor(y, device), *weights_and_groups
        )


def _some_classes(rows: Rows) -> Iterator[tuple[Floats, Floats]]:
    """Predictions (n, n_columns) and frequencies (n, 1, n_columns) of some classes at a time."""
    step = max(_VALUES // len(rows), 1)
    # known probabilities are frequencies
    n = np.where(np.isinf(rows.n), 1.0, rows.n)[:, None]
    for start in range(0, rows.z.shape[1], step):
        columns = slice(start, start + step)
        yield rows.z[:, columns], (rows.labels.counts[:, columns] / n)[:, None]


def _top(rows: Rows) -> Floats:
    """The largest probability of each sample, and how often its class was seen, shape (n, 2).

    Classes that tie share the frequency evenly.
    """
    return np.column_stack([rows.z.max(axis=1), accuracy(rows.mu, rows.z)])


def _bin_tags(*, p: float, **others) -> OfRows:
    check_options(p, None)
    return OfRows(greater_is_better=False, biased=True, of_rows=_binned_value)


def _binned_value(rows: Rows, *, p: float, n_bins: int | str, root: bool) -> float:
    B = _doane(rows.z) if n_bins == "doane" else int(n_bins)
    cells = Bins(rows.z, B, "uniform").index(rows.z)
    cell = np.unique(cells, axis=0, return_inverse=True)[1].ravel()
    H = group_means(rows.mu, rows.weight, cell)
    errors = (np.abs(H - rows.z) ** p).sum(axis=1)
    return float(signed_root(np.average(errors, weights=rows.weight), p if root else 1))


@metric(_bin_tags)
def binned_canonical_error(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: Weights = None,
    p: float = 1,
    n_bins: int | Literal["doane"] = "doane",
    root: bool = False,
) -> float:
    """Canonical calibration error in cells of the simplex: smaller is better, minimum 0.

    The classic baseline. Every class axis is cut into equal intervals; for three classes the cells
    are triangles. Each sample is compared with the label frequencies of its cell: ``mean_j Σ_k
    |H(z_j)_k − z_jk|^p``. With more than a few classes cells are nearly empty, and the estimate is
    far too large.

    Parameters
    ----------
    y, prediction, sample_weight, p, root
        As in `kernel_calibration_error`, but sample_weight counts as repetition.
    n_bins : int or "doane", default="doane"
        Intervals per class. "doane": by Doane's rule from n and the skewness of the predictions,
        the mean over classes; weights do not enter it.

    Returns
    -------
    error : float
        Sum over classes of ``|probability|^p``, or its p-th root.

    Raises
    ------
    ValueError
        p below 1, n_bins below 1.

    Examples
    --------
    >>> binned_canonical_error([0, 1], [0.25, 0.25], n_bins=2)
    0.5
    """
    return score(binned_canonical_error, **locals())


def _doane(z) -> int:
    """Doane's number of bins, 1 + log2 n + log2(1 + |g|/σ_g), its mean over classes."""
    n = len(z)
    sigma = np.sqrt(6 * (n - 2) / ((n + 1) * (n + 3))) if n > 2 else np.inf
    varied = np.ptp(z, axis=0) > 1e-12
    g = np.abs(skew(z[:, varied], axis=0)) if varied.any() else np.zeros(1)
    return int(np.ceil(np.mean(1 + np.log2(n) + np.log2(1 + g / sigma))))
