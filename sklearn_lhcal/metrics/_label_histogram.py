"""Scores of class probabilities against label histograms (P1 §3, App. B).

P1 is Mimori, Sasada, Matsui and Sato (2021), Diagnostic uncertainty calibration. Letters: y counts, n_i raters of a
row, μ̂ = y/n_i, z class probabilities, Q true class probabilities.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._ground.bins import Bins, BinSums, check_bias_correction
from .._ground.facts import Facts, metric
from .._rows import Rows, read_rows
from ._evaluate import mean, score, undefined


def _check(bias_correction: str | None = "residual", **others) -> None:
    check_bias_correction(bias_correction)


def _least(bias_correction: str | None = "residual", **others) -> int:
    """Raters that a corrected loss needs, and a plugin."""
    return 1 if bias_correction is None else 2


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


def _corrected_mean(corrected, plugin):
    """Facts of a mean over rows that has a correction, as a function of the options."""

    def facts(bias_correction: str | None = "residual") -> Facts:
        row_loss = plugin if bias_correction is None else corrected
        least = _least(bias_correction)
        return Facts(False, least_raters=least, terms=mean(row_loss), check=_check)

    return facts


@metric(Facts(False, terms=mean(_squared_rows)))
def expected_squared_loss(y, prediction, *, sample_weight=None) -> float:
    """Expected squared loss of class probabilities for a new label: smaller is better, minimum 0, maximum 2.

    Unbiased for ``E‖Y − z‖²`` with one rater or more: ``L_i = Σ_k (μ̂−z)² + μ̂(1−μ̂)`` (P1 eq. 7). With one label per row
    it is the probability (Brier) score. It is the sum of `epistemic_loss` and `irreducible_loss`.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes; 1-D integers are column numbers.
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
        Class probabilities, those of the second of two classes, or a distribution, of which the mean counts.
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


@metric(_corrected_mean(_epistemic_rows, _epistemic_plugin_rows))
def epistemic_loss(
    y, prediction, *, sample_weight=None, bias_correction: str | None = "residual"
) -> float:
    """Squared distance of the prediction from the true class probabilities: smaller is better, minimum 0.

    Unbiased for ``E‖Q − z‖²`` from rows with two raters or more, hence possibly negative:
    ``EL_i = Σ_k (μ̂−z)² − μ̂(1−μ̂)/(n_i−1)`` (P1 eq. 9).

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes; rows with one rater are left out unless `bias_correction` is None.
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
        Class probabilities, those of the second of two classes, or a distribution, of which the mean counts.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows; only their ratios matter.
    bias_correction : {"residual", "label", None}
        None: the plugin ``Σ_k (μ̂−z)²`` (eq. 8), which also counts the raters' sampling. The others are the same here.

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


@metric(_corrected_mean(_irreducible_rows, _spread_rows))
def irreducible_loss(
    y, prediction=None, *, sample_weight=None, bias_correction: str | None = "residual"
) -> float:
    """The part of the expected squared loss that no prediction can avoid, between 0 and 1.

    Unbiased for ``E[1 − ΣQ²]`` from rows with two raters or more: ``IL_i = Σ_k μ̂(1−μ̂)·n_i/(n_i−1)``, which is also
    the probability that two raters of the row disagree.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes; rows with one rater are left out unless `bias_correction` is None.
    prediction : ignored
        Accepted so that all metrics are called alike; only its number of classes is used.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows; only their ratios matter.
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


def _correction(rows: Rows, bias_correction: str | None) -> str | None:
    """The correction to make: none where the class probabilities are known."""
    return None if rows.labels.known else bias_correction


def _bin_sums(rows: Rows, n_bins, strategy) -> BinSums:
    sums = BinSums(Bins(rows.z, n_bins, strategy), rows.z.shape[1])
    add_rows(sums, rows)
    return sums


def add_rows(sums: BinSums, rows: Rows) -> None:
    """Add checked rows to the sums, block by block."""
    # the raters' correction of rows with one rater, never read
    with np.errstate(divide="ignore", invalid="ignore"):
        for block in rows.blocks():
            sums.add(*block)


def _calibration(
    rows: Rows, n_bins=15, strategy="uniform", bias_correction: str | None = "residual"
) -> float:
    sums = _bin_sums(rows, n_bins, strategy)
    return float(sums.calibration_loss(_correction(rows, bias_correction)).sum())


def _dispersion(
    rows: Rows, n_bins=15, strategy="uniform", bias_correction: str | None = "residual"
) -> float:
    sums = _bin_sums(rows, n_bins, strategy)
    correction = _correction(rows, bias_correction)
    parts = sums.epistemic_loss(correction) - sums.calibration_loss(correction)
    return float(parts.sum(axis=1).sum())


def _dispersion_facts(**options) -> Facts:
    return Facts(False, least_raters=_least(**options), value=_dispersion, check=_check)


def _dispersion_error_facts(**options) -> Facts:
    return Facts(False, least_raters=_least(**options), loss=_dispersion, check=_check)


@metric(Facts(False, value=_calibration, check=_check))
def calibration_loss(
    y,
    prediction,
    *,
    sample_weight=None,
    n_bins=15,
    strategy="uniform",
    bias_correction: str | None = "residual",
) -> float:
    """Squared distance of the predictions from the label frequencies among rows predicted alike: smaller is better.

    Minimum 0; may be negative when corrected. Class by class, over bins of z_k, then summed over classes:
    plugin ``CL_kb = W_b/W·(c̄−z̄)²`` (P1 eq. 12).

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes; one rater a row is enough.
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
        Class probabilities, those of the second of two classes, or a distribution, of which the mean counts.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows. The plugin reads them as repetition; corrected values do not depend on their scale.
    n_bins : int or array-like of edges
        Number of bins for each class, or their edges.
    strategy : {"uniform", "quantile"}
        Equal widths on [0, 1], or ``np.quantile`` of z_k with equal edges merged (weights do not enter the edges).
    bias_correction : {"residual", "label", None}
        What is taken off for the sampling of rows: the variance within the bin of ``μ̂ − z`` (exactly unbiased for the
        binned loss given bins of two rows or more), of μ̂ (P1 eq. 13, biased by the spread of z within bins; for one
        label a row the debiased reliability of Bröcker 2012 and Ferro and Fricker 2012), or nothing. A corrected bin
        with one row contributes 0.

    Returns
    -------
    loss : float
        Squared probability, summed over classes.

    Examples
    --------
    >>> calibration_loss([[3, 1], [2, 2]], [[0.5, 0.5], [0.5, 0.5]], bias_correction=None)
    0.03125
    """
    return score(
        calibration_loss,
        y,
        prediction,
        sample_weight,
        n_bins=n_bins,
        strategy=strategy,
        bias_correction=bias_correction,
    )


@metric(Facts(False, loss=_calibration, check=_check))
def calibration_error(
    y,
    prediction,
    *,
    sample_weight=None,
    n_bins=15,
    strategy="uniform",
    bias_correction: str | None = "residual",
) -> float:
    """Signed root of `calibration_loss`: smaller is better, minimum 0; negative where the corrected loss is.

    ``CE = sign(CL)·sqrt|CL|``, the root of the sum over classes.

    Parameters
    ----------
    y, prediction, sample_weight, n_bins, strategy, bias_correction
        As in `calibration_loss`.

    Returns
    -------
    error : float
        In units of probability.

    Examples
    --------
    >>> calibration_error([[4, 0], [2, 2]], [[0.5, 0.5], [0.5, 0.5]], bias_correction=None).__round__(4)
    0.3536
    """
    return score(
        calibration_error,
        y,
        prediction,
        sample_weight,
        n_bins=n_bins,
        strategy=strategy,
        bias_correction=bias_correction,
    )


@metric(_dispersion_facts)
def dispersion_loss(
    y,
    prediction,
    *,
    sample_weight=None,
    n_bins=15,
    strategy="uniform",
    bias_correction: str | None = "residual",
) -> float:
    """The epistemic loss that calibration cannot remove, ``DL = EL − CL``: smaller is better, minimum 0.

    How much the true probabilities of rows predicted alike differ (P1 eq. 14, 34, 35). May be negative when corrected.
    Both parts are taken on one row set: two raters or more for corrected values, one for plugins.

    Parameters
    ----------
    y, prediction, sample_weight, n_bins, strategy, bias_correction
        As in `calibration_loss`.

    Returns
    -------
    loss : float
        Squared probability, summed over classes.

    Examples
    --------
    >>> round(dispersion_loss([[4, 0], [2, 2]], [[0.5, 0.5], [0.5, 0.5]], bias_correction=None), 4)
    0.125
    """
    return score(
        dispersion_loss,
        y,
        prediction,
        sample_weight,
        n_bins=n_bins,
        strategy=strategy,
        bias_correction=bias_correction,
    )


@metric(_dispersion_error_facts)
def dispersion_error(
    y,
    prediction,
    *,
    sample_weight=None,
    n_bins=15,
    strategy="uniform",
    bias_correction: str | None = "residual",
) -> float:
    """Signed root of `dispersion_loss`: smaller is better, minimum 0; negative where the corrected loss is.

    Parameters
    ----------
    y, prediction, sample_weight, n_bins, strategy, bias_correction
        As in `calibration_loss`.

    Returns
    -------
    error : float
        In units of probability.

    Examples
    --------
    >>> round(dispersion_error([[4, 0], [2, 2]], [[0.5, 0.5], [0.5, 0.5]], bias_correction=None), 4)
    0.3536
    """
    return score(
        dispersion_error,
        y,
        prediction,
        sample_weight,
        n_bins=n_bins,
        strategy=strategy,
        bias_correction=bias_correction,
    )


class LossDecomposition(NamedTuple):
    """Parts of the expected squared loss, all on one row set: ``L = EL + IL``, ``EL = CL + DL``.

    The equalities hold in total, per class, and for EL, CL, DL per bin. K classes, B bins.

    Attributes
    ----------
    expected_squared_loss, epistemic_loss, irreducible_loss, calibration_loss, dispersion_loss : float
        The totals, summed over classes.
    class_expected_squared_loss, class_epistemic_loss, class_irreducible_loss : ndarray of shape (n_classes,)
        Their parts by class.
    class_calibration_loss, class_dispersion_loss : ndarray of shape (n_classes,)
        Likewise.
    bin_epistemic_loss, bin_calibration_loss, bin_dispersion_loss : ndarray of shape (n_classes, n_bins)
        Their parts by class and bin.
    bin_weight : ndarray of shape (n_classes, n_bins)
        Share of the weight in each bin; sums to 1 over bins.
    bin_mean_proba, bin_mean_frequency : ndarray of shape (n_classes, n_bins)
        Mean prediction and mean label frequency; NaN in empty bins.
    bin_edges : ndarray of shape (n_classes, n_bins + 1)
        Edges; NaN where merged quantiles left fewer.
    n_rows : int
        How many rows were used.
    """

    expected_squared_loss: float
    epistemic_loss: float
    irreducible_loss: float
    calibration_loss: float
    dispersion_loss: float
    class_expected_squared_loss: NDArray[np.float64]
    class_epistemic_loss: NDArray[np.float64]
    class_irreducible_loss: NDArray[np.float64]
    class_calibration_loss: NDArray[np.float64]
    class_dispersion_loss: NDArray[np.float64]
    bin_epistemic_loss: NDArray[np.float64]
    bin_calibration_loss: NDArray[np.float64]
    bin_dispersion_loss: NDArray[np.float64]
    bin_weight: NDArray[np.float64]
    bin_mean_proba: NDArray[np.float64]
    bin_mean_frequency: NDArray[np.float64]
    bin_edges: NDArray[np.float64]
    n_rows: int


def loss_decomposition(
    y,
    prediction,
    *,
    sample_weight=None,
    n_bins=15,
    strategy="uniform",
    bias_correction: str | None = "residual",
) -> LossDecomposition:
    """All parts of the expected squared loss at once: ``L = EL + IL`` and ``EL = CL + DL`` (P1 §3).

    Parameters
    ----------
    y, prediction, sample_weight, n_bins, strategy, bias_correction
        As in `calibration_loss`. Corrected parts use the rows with two raters or more, all of them; plugins all rows.

    Returns
    -------
    LossDecomposition
        Totals, class parts, bin parts, and the number of rows used. All losses are better when smaller.

    Examples
    --------
    >>> parts = loss_decomposition([[3, 1], [4, 0], [1, 3]], [[0.7, 0.3], [0.8, 0.2], [0.3, 0.7]])
    >>> round(parts.expected_squared_loss - parts.epistemic_loss - parts.irreducible_loss, 12)
    0.0
    >>> parts.n_rows
    3
    """
    check_bias_correction(bias_correction)
    rows = read_rows(y, prediction, sample_weight)
    seen = rows.contributing(_least(bias_correction))
    if seen is None:
        sums = BinSums(Bins(rows.z, n_bins, strategy), rows.z.shape[1])
        nan = undefined("loss_decomposition", _least(bias_correction))
        totals = dict.fromkeys(LossDecomposition._fields[:5], nan)
        return decomposition(sums, bias_correction, 0)._replace(**totals)
    sums = _bin_sums(seen, n_bins, strategy)
    return decomposition(sums, _correction(seen, bias_correction), len(seen))


def decomposition(sums: BinSums, bias_correction: str | None, n_rows: int) -> LossDecomposition:
    """The public result, from sums over bins."""
    with np.errstate(divide="ignore", invalid="ignore"):  # no rows at all: everything NaN
        el, cl = sums.epistemic_loss(bias_correction), sums.calibration_loss(bias_correction)
        by_class = (
            sums.expected_squared_loss(),
            el.sum(axis=1),
            sums.irreducible_loss(bias_correction),
            cl.sum(axis=1),
            (el - cl).sum(axis=1),
        )
        weight = sums.w / sums.w[0].sum()
    totals = (float(part.sum()) for part in by_class)
    return LossDecomposition(
        *totals, *by_class, el, cl, el - cl, weight, *sums.means(), sums.bins.edges, n_rows
    )
