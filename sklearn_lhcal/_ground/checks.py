"""What is asked of arguments before anything is computed, and rows of anything."""

from numbers import Integral, Real

import numpy as np
from numpy.typing import NDArray


def take_rows(X, rows):
    """Rows of an array, a sparse matrix, a tensor, a frame, a list, or a dict of these."""
    if isinstance(X, dict):
        return {key: take_rows(value, rows) for key, value in X.items()}
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "tocsr"):
        return X.tocsr()[rows]
    if isinstance(X, (list, tuple)):
        return [X[i] for i in rows]
    return X[rows]


def n_rows(X) -> int:
    """Number of rows of anything `take_rows` can index."""
    if isinstance(X, dict):
        return n_rows(next(iter(X.values())))
    return X.shape[0] if hasattr(X, "shape") else len(X)


def is_per_row(value, n: int) -> bool:
    """Whether a fit parameter holds one entry for each of n rows."""
    listed = hasattr(value, "shape") or isinstance(value, (list, tuple))
    return listed and np.ndim(value) > 0 and n_rows(value) == n


def take_params(params: dict, rows, n: int) -> dict:
    """Fit parameters for some of n rows: those with one entry a row are cut."""
    return {k: take_rows(v, rows) if is_per_row(v, n) else v for k, v in params.items()}


def check_same_length(n: int, **named) -> None:
    """Raise a ValueError that names the first argument whose number of rows is not n."""
    for name, value in named.items():
        if value is not None and n_rows(value) != n:
            raise ValueError(
                f"{name} has {n_rows(value)} rows, expected {n}: inconsistent numbers of samples."
            )


def check_sample_weight(sample_weight, n: int) -> NDArray[np.float64] | None:
    """Weights of shape (n,), float64, finite, not negative, not all zero; None stays None."""
    if sample_weight is None:
        return None
    w = np.asarray(sample_weight, dtype=np.float64)
    if w.ndim == 0:
        w = np.full(n, float(w))
    if w.shape != (n,):
        raise ValueError(
            f"sample_weight must have shape ({n},), got {w.shape}: inconsistent numbers of samples."
        )
    if not np.isfinite(w).all() or (w < 0).any():
        raise ValueError("sample_weight contains NaN, infinite or negative values.")
    if not w.any():
        raise ValueError("All values of sample_weight are zero; at least one row must count.")
    return w


def check_not_negative(**named) -> None:
    """Raise a ValueError that names the first argument that is no finite number of at least 0."""
    for name, value in named.items():
        if not (isinstance(value, Real) and 0 <= value < np.inf):
            raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}.")


def check_fraction(**named) -> None:
    """Raise a ValueError that names the first argument that is not between 0 and 1."""
    for name, value in named.items():
        if not (isinstance(value, Real) and 0 < value < 1):
            raise ValueError(f"{name} must lie between 0 and 1, got {value!r}.")


def check_positive_int(**named) -> None:
    """Raise a ValueError that names the first argument that is no whole number of at least 1."""
    for name, value in named.items():
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} must be an int of at least 1, got {value!r}.")
