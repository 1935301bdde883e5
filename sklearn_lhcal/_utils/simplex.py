"""Probabilities on the simplex: the gate for predictions, softmax, and entropies."""

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .checks import as_floats, check_finite, plain_array
from .types import ArrayLike, Floats

# The smallest probability that calibrators and kernels read.
EPS = 1e-12
# A maximum is taken column by column where rows have at most so many entries, and there are so many
# samples for each of them.
_SHORT = 50
_MANY = 10


def check_proba(proba: ArrayLike, *, name: str = "proba") -> Floats:
    """Check class probabilities: the only gate through which predictions enter.

    Parameters
    ----------
    proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Class probabilities, rows on the simplex. A 1-D array holds those of the second of two
        classes. Frames are read by position.
    name : str
        How messages call the array.

    Returns
    -------
    proba : ndarray of shape (n_samples, n_classes), float64
        The caller's own memory where that is float64 already; it is never written to.

    Raises
    ------
    ValueError
        NaN or infinite values, negative values, samples that do not sum to 1 (tolerance 1e-6, in
        bfloat16 1e-2, in float16 and float32 1e-3, in float64 with values of float32 alone
        1e-5), a wrong number of dimensions
        or of classes. Nothing is renormalised.

    Examples
    --------
    >>> check_proba([0.25, 1.0])
    array([[0.75, 0.25],
           [0.  , 1.  ]])
    """
    z = plain_array(proba, name)
    tolerance = 1e-3 if z.dtype in (np.float32, np.float16) else 1e-6
    if z.dtype == np.float32 and not (z.view(np.uint32) & 0xFFFF).any():
        # bfloat16, which NumPy does not know
        tolerance = 1e-2
    z = as_floats(z, name)
    if z.ndim == 1:
        check_finite(z, name)
        if z.max(initial=0.0) > 1:
            row = (z > 1).argmax()
            raise ValueError(
                f"{name} has probabilities above 1 (first in sample {row}: {z[row]:.6g}). Of "
                "labels make columns, pd.get_dummies(pd.Series(labels).astype(pd.CategoricalDtype("
                "classes)), dtype=float); of log-odds take scipy.special.expit."
            )
        z = np.column_stack([1 - z, z])
    if z.ndim != 2:
        raise ValueError(f"{name} must have shape (n_samples, n_classes), got {z.shape}.")
    if not z.size:
        raise ValueError(f"{name} has no samples, or no columns.")
    check_finite(z, name)
    if z.min() < 0:
        row = (z < 0).any(axis=1).argmax()
        raise ValueError(
            f"{name} has negative values (first in sample {row}). If it holds logits, convert them "
            'with scipy.special.softmax, or tell a calibrator so with estimator="logits".'
        )
    total = row_sum(z)
    off = np.abs(total - 1) > tolerance
    # far beyond 1 no tolerance helps, and float32 ends at 3e38
    near = tolerance == 1e-6 and off.any() and z.max() < 2
    if near and np.array_equal(z, z.astype(np.float32)):
        # a softmax in float32, stored as float64
        tolerance = 1e-5
        off = np.abs(total - 1) > tolerance
    if off.any():
        row = off.argmax()
        if not total[row]:
            raise ValueError(
                f"{name} has probability 0 for every class (first in sample {row}); drop the "
                "samples that were not predicted, of y as well."
            )
        raise ValueError(
            f"Each sample of {name} must sum to 1 (within {tolerance:g}); sample {row} sums to "
            f"{total[row]:.9g}. Divide by the sums if they were rounded or are unnormalised, "
            f"{name} / {name}.sum(axis=1, keepdims=True), .div(….sum(axis=1), axis=0) of a frame; "
            'if they are logits, convert them, or tell a calibrator so with estimator="logits".'
        )
    return z


def row_sum(a: NDArray) -> NDArray:
    """Sum over the last axis: where it is short, several times as fast as ``a.sum(axis=-1)``."""
    return np.einsum("...k->...", a)


def row_max(a: NDArray) -> NDArray:
    """Maximum over the last axis: of many short rows several times as fast as ``a.max(-1)``."""
    K = a.shape[-1]
    if len(a) <= _MANY * K or not 0 < K <= _SHORT:
        return a.max(axis=-1)
    most = a[..., 0].copy()
    for k in range(1, K):
        np.maximum(most, a[..., k], out=most)
    return most


def in_columns(z: NDArray, columns, n_classes: int, dtype: DTypeLike = np.float64) -> NDArray:
    """z with its columns (axis 1) spread over `n_classes`; the other columns are 0."""
    wide = np.zeros((len(z), n_classes, *z.shape[2:]), dtype)
    wide[:, columns] = z
    return wide


def log(a: Floats) -> Floats:
    """log a, with log 0 = −inf and no warning."""
    with np.errstate(divide="ignore"):
        return np.log(a)


def softmax(u: Floats) -> Floats:
    """Probabilities of logits u, softmax over the last axis."""
    z = u - row_max(u)[..., None]
    np.exp(z, out=z)
    z /= row_sum(z)[..., None]
    return z


def entropy(z: Floats) -> Floats:
    """Shannon entropy over the last axis, in nats."""
    return -row_sum(z * np.log(np.where(z > 0, z, 1.0)))


def gini(z: Floats) -> Floats:
    """1 − Σ z² over the last axis, as Σ z(1−z), which does not cancel near a corner."""
    return row_sum(z * (1 - z))


def votes_of(z: Floats) -> Floats:
    """The share of each class in a model's label, (n, K): probabilities that tie share evenly."""
    best = z == z.max(axis=1, keepdims=True)
    return best / best.sum(axis=1, keepdims=True)


def accuracy(mu: Floats, z: Floats) -> Floats:
    """Share of labels μ̂ on the most probable class of each row, (n,); ties of z share evenly."""
    return row_sum(mu * votes_of(z))
