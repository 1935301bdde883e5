"""What a kernel calibration error would be if the predictions were calibrated: labels drawn from the predictions."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from .._ground.bins import signed_root
from .._rows import read_rows
from ._kernel import check_enough, check_options, choose_bandwidth, mean_errors, one_version

_DRAWS = 2**21  # numbers per array while draws are scored together


class NullCalibrationError(NamedTuple):
    """What a calibration error would be if the predictions were calibrated.

    Attributes
    ----------
    estimate : float
        The error of the data.
    mean : float
        Mean of the error over draws of labels from the predictions.
    quantiles : ndarray
        Quantiles of the error over the draws.
    p_value : float
        Share of draws (the data counted as one) with an error as large as the data's: small where the predictions are
        not calibrated, uniform where they are.
    """

    estimate: float
    mean: float
    quantiles: NDArray[np.float64]
    p_value: float


def null_calibration_error(
    y,
    prediction,
    *,
    notion: str = "canonical",
    p: float = 1,
    bandwidth: float | str = "loo",
    root: bool = False,
    bias_correction: str | None = None,
    n_draws: int = 200,
    quantiles=(0.05, 0.5, 0.95),
    sample_weight=None,
    random_state=0,
    device: str = "cpu",
) -> NullCalibrationError:
    """Level of `kernel_calibration_error` under perfect calibration, and a test of calibration.

    Labels are drawn from the predictions, as many in each row as it has. Kernels are computed once for all draws.

    Parameters
    ----------
    y, prediction, notion, p, root, bias_correction, sample_weight, device
        As in `kernel_calibration_error`.
    bandwidth : float or "loo", default="loo"
        "cv" depends on the labels and would have to be sought for every draw; it is refused.
    n_draws : int, default=200
    quantiles : array-like of float, default=(0.05, 0.5, 0.95)
    random_state : int, RandomState instance or None, default=0
        Draws the labels, and the rows for a bandwidth.

    Returns
    -------
    NullCalibrationError
        ``(estimate, mean, quantiles, p_value)``.

    Raises
    ------
    ValueError
        As `kernel_calibration_error`; ``bandwidth="cv"``; known probabilities, which have no labels to draw.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(300, overconfidence=3.0, random_state=0)
    >>> null = null_calibration_error(data.counts, data.prediction, bandwidth=0.05)
    >>> bool(null.p_value < 0.01 and null.estimate > null.quantiles[-1])
    True
    """
    check_options(p, bias_correction)
    if isinstance(bandwidth, str) and bandwidth == "cv":
        raise ValueError(
            "bandwidth='cv' depends on the labels; give 'loo' or a number for the null distribution."
        )
    rows = read_rows(y, prediction, sample_weight).contributing()
    check_enough(rows, 2 if bias_correction is None else 3)
    if rows.labels.known:
        raise ValueError("KnownProbabilities have no labels to draw; give label histograms.")
    rng = check_random_state(random_state)
    mu = one_version(rows)
    h = choose_bandwidth(bandwidth, notion, rows, mu, rng, device)
    generator = np.random.default_rng(rng.randint(2**31, size=4))
    n, pvals = rows.n.astype(np.int64), rows.z / rows.z.sum(axis=1, keepdims=True)
    batch = max(_DRAWS // rows.z.size, 1)
    draws = []
    for start in range(0, n_draws, batch):
        S = min(batch, n_draws - start)
        drawn = (
            generator.multinomial(n[:, None], pvals[:, None, :], size=(len(n), S))
            / n[:, None, None]
        )
        draws.append(mean_errors(rows, drawn, notion, h, p, bias_correction, device))
    null = signed_root(np.concatenate(draws), p if root else 1)
    estimate = signed_root(
        mean_errors(rows, mu, notion, h, p, bias_correction, device)[0], p if root else 1
    )
    p_value = (1 + (null >= estimate).sum()) / (1 + n_draws)
    return NullCalibrationError(
        float(estimate), float(null.mean()), np.quantile(null, quantiles), float(p_value)
    )
