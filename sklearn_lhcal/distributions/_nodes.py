"""Nodes that stand for a distribution: few points of the simplex, the same for the same sample."""

import numpy as np
from scipy.special import betaincinv, ndtri

from .._utils.simplex import row_sum
from .._utils.types import Floats
from ._arithmetic import quotient

# Parameters of a Beta distribution above which it is normal to a skewness of 0.06.
_NEARLY_NORMAL = 1e3


def lattice(n_nodes: int, dimension: int) -> Floats:
    """Points that fill the unit cube evenly, shape (n_nodes, dimension).

    The first coordinates are midpoints of equal intervals; the others are multiples of the powers
    of a generalised golden ratio, φ^d = φ + 1 (Roberts 2018).
    """
    s = np.arange(n_nodes)
    phi = 2.0
    for _ in range(60):
        phi = (1 + phi) ** (1 / dimension)
    powers = phi ** -np.arange(1.0, dimension)
    first = (s[:, None] + 0.5) / n_nodes
    return np.hstack([first, (0.5 + s[:, None] * powers) % 1])


def dirichlet_nodes(z: Floats, total: Floats, n_nodes: int) -> Floats:
    """Draws of Dirichlet distributions at the points of a lattice, shape (n_nodes, n, K).

    z_k = B_k Π_{j<k} (1 − B_j) with B_k ~ Beta(α_k, α_{k+1} + … + α_K).
    """
    K = z.shape[1]
    alpha = total[:, None] * z
    rest = np.cumsum(alpha[:, ::-1], axis=1)[:, ::-1]
    u = lattice(n_nodes, max(K - 1, 1))
    nodes = np.empty((n_nodes, *z.shape))
    left = np.ones((n_nodes, len(z)))
    for k in range(K - 1):
        B = _beta_quantile(alpha[:, k], rest[:, k + 1], u[:, [k]])
        nodes[..., k] = left * B
        left = left * (1 - B)
    nodes[..., K - 1] = left
    return nodes


def _beta_quantile(a, b, u):
    """The quantiles u of Beta(a, b), shape (n_nodes, n).

    Those of a normal distribution where a and b are large. Where SciPy finds none, the mean.
    """
    random = (a > 0) & (b > 0)
    total = np.where(a + b > 0, a + b, 1.0)
    mean = np.where(a > 0, a / total, 0.0)
    nearly_normal = np.minimum(a, b) > _NEARLY_NORMAL
    exact = random & ~nearly_normal
    q = betaincinv(np.where(exact, a, 1.0), np.where(exact, b, 1.0), u)
    q = np.where(exact & np.isfinite(q), q, mean)
    spread = np.sqrt(mean * (1 - mean) / (total + 1))
    return np.where(nearly_normal, np.clip(mean + spread * ndtri(u), 0, 1), q)


def with_mean(z: Floats, mean: Floats, w: Floats | float) -> tuple[Floats, Floats]:
    """Nodes and weights, (S, n, K) and (S, n), whose mean is that given, (n, K).

    A node of weight w, (S, n, 1) or one number, and a label of its class probabilities z have a
    joint distribution. Its shares of labels are scaled to the mean, class by class; a class that no
    node has is spread over all. A node without weight says nothing, and stays where it is.
    """
    # P(s, k)
    joint = mean * quotient(w * z, np.einsum("snk->nk", w * z), w)
    weight = row_sum(joint)
    return quotient(joint, weight[..., None], z), weight
