"""The bandwidth of kernel calibration errors.

The most likely one, or the one that predicts best.
"""

from contextlib import suppress
from functools import partial

import numpy as np
from sklearn.utils import check_random_state

from .._rows import PredictionLike, Rows, proba_of, read_prediction
from .._utils.checks import as_floats, checked, take_rows, warn
from .._utils.types import ArrayLike, KernelKind, Seed

# a bandwidth is searched on so many samples at most, beginning with so many
_MOST_ROWS = 20_000
_START_ROWS = 5_000


@checked
def loo_bandwidth(
    prediction: PredictionLike,
    *,
    kind: KernelKind = "canonical",
    grid: ArrayLike | None = None,
    n_samples: int | None = None,
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
    n_samples : int, optional
        Number of samples to search on, drawn where there are more. None: all samples, as published,
        or 20,000 where there are more, with a warning.
    random_state : int, RandomState instance or None, default=0
        Draws these samples.
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
        and for those with few different values. Where samples were drawn because there are more
        than 20,000.

    Notes
    -----
    From more than 5,000 samples without a grid, every m-th in the order of their probabilities, at
    most 5,000, shows where to begin; then the likelihood of all of them is followed upwards. That
    takes a quarter of the time, and finds the same maximum unless there are several.

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
    return _loo(z, kind, random_state, device, grid, n_samples=n_samples)


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


def _loo(z, kind, random_state, device, grid=None, groups=None, n_samples=None) -> float:
    # torch is imported where it is needed only
    from .._utils.kernels import errors

    n = n_samples or _MOST_ROWS
    if n_samples is None and len(z) > n:
        warn(
            f"The most likely bandwidth is that of {n} of {len(z)} samples, drawn at random. For "
            "more of them pass loo_bandwidth(prediction, n_samples=...) as bandwidth."
        )
    keep = _sample(len(z), n, random_state)
    z = z[keep]
    # in the order of the samples' probabilities, which no other order of samples changes
    begin = np.lexsort(z.T)[:: -(-len(z) // _START_ROWS)]
    x = as_tensor(z, device)
    g = groups_of(take_rows(groups, keep), device)

    def cost(hs, some=slice(None)):
        parts = errors.problems(kind, x[some], x[some, None], g=g if g is None else g[some])
        return -np.sum([part.log_likelihoods(hs) for part in parts], axis=0)

    if grid is not None:
        return float(grid[np.argmin(cost(grid))])
    start = None
    if len(begin) < len(z):
        # of so few all may be equal, or of one group
        with suppress(ValueError):
            start = errors.best_bandwidth(partial(cost, some=begin))
    h = errors.best_bandwidth(cost, start)
    if not 1e-5 < h < 1:
        warn(
            f"The search for the most likely bandwidth ended at its bound, {h:g}: it may hide "
            "miscalibration. Pass a number, or bandwidth='cv' where there are labels."
        )
    return h


def _cv(rows: Rows, kind, random_state, device, of_residuals: bool) -> float:
    from .._utils.kernels import errors

    some = rows.take(_sample(len(rows), _MOST_ROWS, random_state))
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
