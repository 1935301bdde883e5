"""Canonical calibration error from bins on the simplex (P2 §4).

It is the baseline of the kernel estimates.
"""

from typing import Literal

import numpy as np
from scipy.stats import skew

from .._rows import PredictionLike, Rows
from .._utils.bins import Bins
from .._utils.tags import OfRows, metric
from .._utils.types import LabelsLike, Weights
from ._evaluate import score, signed_root
from ._kernel import check_options


def _tags(*, p: float, **others) -> OfRows:
    check_options(p, None)
    return OfRows(greater_is_better=False, biased=True, of_rows=_value)


def _value(rows: Rows, *, p: float, n_bins: int | str, root: bool) -> float:
    B = _doane(rows.z) if n_bins == "doane" else int(n_bins)
    cells = Bins(rows.z, B, "uniform").index(rows.z)
    cell = np.unique(cells, axis=0, return_inverse=True)[1].ravel()
    w = rows.weight
    H = np.zeros((cell.max() + 1, rows.z.shape[1]))
    np.add.at(H, cell, w[:, None] * rows.mu)
    H /= np.bincount(cell, weights=w)[:, None]
    errors = (np.abs(H[cell] - rows.z) ** p).sum(axis=1)
    return float(signed_root(np.average(errors, weights=w), p if root else 1))


@metric(_tags)
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
    return score(
        binned_canonical_error, y, prediction, sample_weight, p=p, n_bins=n_bins, root=root
    )


def _doane(z) -> int:
    """Doane's number of bins, 1 + log2 n + log2(1 + |g|/σ_g), its mean over classes."""
    n = len(z)
    sigma = np.sqrt(6 * (n - 2) / ((n + 1) * (n + 3))) if n > 2 else np.inf
    varied = np.ptp(z, axis=0) > 1e-12
    g = np.abs(skew(z[:, varied], axis=0)) if varied.any() else np.zeros(1)
    return int(np.ceil(np.mean(1 + np.log2(n) + np.log2(1 + g / sigma))))
