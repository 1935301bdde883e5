"""The bandwidth of kernel calibration errors.

The most likely one, or the one that predicts best.
"""

import warnings

import numpy as np
from sklearn.utils import check_random_state

from .._rows import PredictionLike, Rows, proba_of, read_prediction
from .._utils.checks import as_floats, checked, take_rows
from .._utils.types import ArrayLike, KernelKind, Seed

# a bandwidth is searched on so many samples at most
_LOO_ROWS = 5_000
_CV_ROWS = 20_000


@checked
def loo_bandwidth(
    prediction: PredictionLike,
    *,
    kind: KernelKind = "canonical",
    grid: ArrayLike | None = None,
    random_state: Seed = 0,
    device: str = "cpu",
) -> float:
    """Bandwidth of the most likely kernel density of the predictions, which leaves each sample out.

    It maximises ``Σ_j log[Σ_{i≠j} k(z_j, z_i)/(n−1)]`` with the kernel of the kind. Samples that
    tie with sample j are left out, too. For "marginal" there is one bandwidth for all classes. It
    follows the density of the predictions, not their miscalibration.

    Parameters
    ----------
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
        Class probabilities, or a distribution, whose mean counts.
    kind : {"canonical", "marginal", "top_label"}, default="canonical"
        Which predictions the density is of.
    grid : array-like of float, optional
        Bandwidths to choose from. None: three a decade from 1e-5 to 1, and a parabola around the
        best of them.
    random_state : int, RandomState instance or None, default=0
        Draws 5,000 samples where there are more.
    device : str, default="cpu"
        Where torch computes.

    Returns
    -------
    bandwidth : float

    Raises
    ------
    ValueError
        Fewer than two samples, all predictions equal, an unknown kind.

    Warns
    -----
    UserWarning
        Where the search ends at 1e-5 or 1. At 1 it does so for predictions that are spread evenly,
        and for those with few different values.

    Examples
    --------
    >>> loo_bandwidth([0.1, 0.11, 0.12, 0.8, 0.81, 0.82], grid=[0.0001, 0.01, 1.0])
    0.01
    """
    z = proba_of(read_prediction(prediction)[0])
    if len(z) < 2:
        raise ValueError("prediction has one sample; a bandwidth needs two at least.")
    if grid is not None:
        grid = as_floats(grid, "grid")
        # the squares of smaller ones are 0
        if grid.ndim != 1 or not grid.size or not 1e-150 <= grid.min() <= grid.max() < np.inf:
            raise ValueError("grid must hold positive bandwidths, of 1e-150 or more.")
    return _loo(z, kind, random_state, device, grid)


def choose_bandwidth(
    bandwidth, kind, rows: Rows, random_state, device, of_residuals: bool = True
) -> float:
    """The bandwidth as a number.

    A rule finds it from z, or from z and what is smoothed: residuals or frequencies.
    """
    if bandwidth == "loo":
        return _loo(rows.z, kind, random_state, device, groups=rows.groups)
    if bandwidth == "cv":
        return _cv(rows, kind, random_state, device, of_residuals)
    return float(bandwidth)


def _loo(z, kind, random_state, device, grid=None, groups=None) -> float:
    # torch is imported where it is needed only
    from .._utils.kernels import errors

    keep = _sample(len(z), _LOO_ROWS, random_state)
    z = as_tensor(z[keep], device)
    g = groups_of(take_rows(groups, keep), device)
    parts = list(errors.problems(kind, z, z[:, None], g=g))

    def cost(hs):
        return -np.sum([part.log_likelihoods(hs) for part in parts], axis=0)

    if grid is not None:
        return float(grid[np.argmin(cost(grid))])
    h = errors.best_bandwidth(cost)
    if not 1e-5 < h < 1:
        warnings.warn(
            f"The search for the most likely bandwidth ended at its bound, {h:g}: it may hide "
            "miscalibration. Pass a number, or bandwidth='cv' where there are labels.",
            stacklevel=4,
        )
    return h


def _cv(rows: Rows, kind, random_state, device, of_residuals: bool) -> float:
    from .._utils.kernels import errors

    some = rows.take(_sample(len(rows), _CV_ROWS, random_state))
    z = as_tensor(some.z, device)
    y = as_tensor(some.mu[:, None], device)
    v = log_weight_of(some, device)
    parts = list(errors.problems(kind, z, y, v, groups_of(some.groups, device)))

    def cost(hs):
        costs = [errors.cross_validation_errors(part, hs, of_residuals) for part in parts]
        return np.sum(costs, axis=0)

    return errors.best_bandwidth(cost)


def _sample(n: int, most: int, random_state):
    """Which samples to look at: all, or so many drawn from them."""
    if n <= most:
        return slice(None)
    return check_random_state(random_state).choice(n, most, replace=False)


def log_weight_of(rows: Rows, device):
    """Logarithms of the weights of samples as a tensor; None stays None."""
    return None if rows.w is None else as_tensor(rows.w, device).log()


def groups_of(groups, device):
    """Numbers of the groups of samples as a tensor; None stays None."""
    import torch

    return None if groups is None else torch.as_tensor(np.ascontiguousarray(groups), device=device)


def as_tensor(a, device):
    """An array in float64 on the device.

    It shares memory with the array where that is writeable.
    """
    import torch

    from .._utils.devices import check_device

    check_device(device)
    return torch.as_tensor(np.require(a, np.float64, ["C", "W"]), device=device)
