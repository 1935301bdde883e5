"""Classes at a distance: points in space, whose mean points labels and predictions are.

Letters: K classes at points B of shape (K, m), d²(k, l) = ‖B_k − B_l‖². Without a distance B is the
identity, and no product is made.
"""

from typing import Literal

import numpy as np

from .checks import any_array, as_floats, check_finite
from .names import numbers_of
from .types import ArrayLike, Floats, NDArray

Distance = Literal["linear", "quadratic"] | ArrayLike | None
# Eigenvalues of a table may be this far below 0, as parts of the largest: by rounding.
_ROUNDING = 1e-9


def is_linear(distance: Distance) -> bool:
    """Whether squared distances are steps between classes."""
    return isinstance(distance, str) and distance == "linear"


def points(distance: Distance, K: int, names: NDArray | None, graded: bool) -> Floats | None:
    """B, shape (K, m); None without a distance.

    Parameters
    ----------
    distance : None, "linear", "quadratic" or table of d², shape (K, K)
    K : int
    names : ndarray of shape (K,) or None
        None: columns are in order, and numbers.
    graded : bool
        Whether names that are no numbers stand in an order of their own.
    """
    if distance is None:
        return None
    is_word = isinstance(distance, str)
    if not is_word and any_array(distance, "distance").ndim == 2:
        return _root(as_floats(distance, "distance"), K)
    if not is_word or distance not in ("linear", "quadratic"):
        raise ValueError(
            "distance must be None, 'linear', 'quadratic' or a table of squared distances of shape "
            f"(n_classes, n_classes), got {distance!r}."
        )
    classes: NDArray = np.arange(K) if names is None else names
    numbers = numbers_of(classes)
    if distance == "quadratic":
        if numbers is None:
            raise ValueError(
                f"distance='quadratic' needs classes that are numbers, got {classes.tolist()[:20]};"
                " 'linear' needs an order alone."
            )
        return numbers.astype(float)[:, None]
    if numbers is None and not graded:
        raise ValueError(
            f"distance='linear' needs an order of the classes; {classes.tolist()[:20]} are text: "
            "make labels an ordered Categorical, give Annotations classes=[...], or drop the names "
            "(of a distribution whose columns are in order, .with_classes(None))."
        )
    # 1{k ≤ j} for j = 1, …, K−1: the mean point of a prediction is its cumulative distribution
    return np.triu(np.ones((K, K)))[:, : K - 1]


def _root(squares: Floats, K: int) -> Floats:
    """B = U√Λ Uᵀ of G = −½ J d² J, J = I − 11ᵀ/K: the symmetric root, which alone is unique."""
    if squares.shape != (K, K):
        raise ValueError(f"distance must have shape ({K}, {K}), got {squares.shape}.")
    check_finite(squares, "distance")
    if not np.array_equal(squares, squares.T) or squares.diagonal().any() or (squares < 0).any():
        raise ValueError("distance must be symmetric, 0 on the diagonal and nowhere negative.")
    J = np.eye(K) - 1 / K
    values, U = np.linalg.eigh(-J @ squares @ J / 2)
    if values[0] < -_ROUNDING * values[-1]:
        raise ValueError(
            "distance is no table of squared distances of points: an eigenvalue of its centred "
            f"form is {values[0]:.3g}, the largest {values[-1]:.3g}; square the distances?"
        )
    return (U * np.sqrt(np.maximum(values, 0.0))) @ U.T


def half_squares(B: Floats) -> Floats:
    """½ d² of all pairs of classes, (K, K)."""
    size = (B**2).sum(axis=1)
    return np.maximum((size[:, None] + size) / 2 - B @ B.T, 0.0)


def placed(mu: Floats, z: Floats, B: Floats | None) -> tuple[Floats, Floats, Floats]:
    """μ̂B, the variance of a row's labels in each column of B, and zB, each (n, m)."""
    if B is None:
        return mu, mu * (1 - mu), z
    x = mu @ B
    return x, np.maximum(mu @ B**2 - x**2, 0.0), z @ B
