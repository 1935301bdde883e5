"""Scalings of grades: one of cumulative probabilities, and one of each class.

1. F_j ↦ σ(a logit F_j + b), two parameters for any number of classes.

Letters: F_j is the probability of the classes up to j, and l_j = logit F_j for j < K − 1; a class k
between the ends has d_k = l_k − l_{k−1}. With t_j = a l_j + b

    log p'_k = log σ(t_k) + log σ(−t_{k−1}) + log(1 − e^{−a d_k}),

of which the first class has only the first term, and the last class only the second. With the
logarithms C_k of Σ_{j≤k} p_j and B_k of Σ_{j≥k} p_j

    l_j = C_j − B_{j+1},   d_k = log(1 + e^{u_k − C_{k−1}}) + log(1 + e^{u_k − B_{k+1}}),

since a difference of l would lose the digits of an improbable class. In a and b −log p' is convex.

2. u'_k = a u_k + c g_k + r_k with the line g_k = k − (K − 1)/2; r is shrunk to 0.
"""

import numpy as np
from scipy.special import expit, exprel, log_expit

from ..._utils.types import Floats
from .._rows import Labels
from .maps import BIASES, Family, Information, _DiagonalMap, beta_of


def check_order(labels: Labels, who: str) -> None:
    """ValueError for classes of text without an order of their own; two classes need none."""
    if labels.shape[1] > 2 and not labels.has_order:
        raise ValueError(
            f"{who} needs an order of the classes, but {labels.classes.tolist()[:20]} are text: "
            "make the labels an ordered Categorical, or give Annotations or the classifier classes."
        )


def median_scores(z: Floats) -> Floats:
    """max(F_{k−1} − ½, ½ − F_k), shape (n, K): at most 0 for the median class alone.

    It falls up to the median and rises behind it, so that the classes below a threshold have no
    hole. F_k is the probability of the classes up to k.
    """
    F = np.cumsum(z, axis=1)
    F[:, -1] = 1.0
    before = np.pad(F[:, :-1], ((0, 0), (1, 0)))
    return np.maximum(before - 0.5, 0.5 - F)


# Below it log(1 + e^t) and 1 − exp(−e^t) are e^t to all digits.
_TINY = -37.0


class OrdinalScaleMap(Family):
    """t_j = a l_j, x = (log a,); its functions of x and u are those of `OrdinalMap` too."""

    def read(self, u):
        """The K − 1 of l, and the K − 2 of log d."""
        C = np.logaddexp.accumulate(u, axis=-1)
        B = np.logaddexp.accumulate(u[..., ::-1], axis=-1)[..., ::-1]
        own = u[..., 1:-1]
        up = _log_softplus(own - C[..., :-2])
        down = _log_softplus(own - B[..., 2:])
        return np.concatenate([C[..., :-1] - B[..., 1:], np.logaddexp(up, down)], axis=-1)

    def mapped(self, x, u):
        t, log_ad = self._terms(x, u)
        v = np.zeros((*u.shape[:-1], self.K))
        v[..., :-1] += log_expit(t)
        v[..., 1:] += log_expit(-t)
        s = np.exp(np.maximum(log_ad, _TINY))
        v[..., 1:-1] += np.where(log_ad < _TINY, log_ad, np.log(-np.expm1(-s)))
        return v

    def best(self, v):
        return median_scores(np.exp(v)) <= 0

    def start(self, beta=1.0, c=0.0):
        return np.log([beta])

    def attributes(self, x):
        return {"scale_": float(np.exp(x[0])), "intercept_": float(x[1:].sum())}

    def slope(self, x, u, a):
        return np.einsum("nkp,nk->p", self._derivatives(x, u), a)

    def information(self, x, u, p, n):
        """That which is expected of labels with the probabilities p: Σ p J is 0."""
        J = np.sqrt(n[:, None] * p)[:, :, None] * self._derivatives(x, u)
        J = J.reshape(-1, len(x))
        return Information(J.T @ J)

    def _terms(self, x: Floats, u: Floats) -> tuple[Floats, Floats]:
        """t (…, K−1), and log(a d) (…, K−2)."""
        t = beta_of(x) * u[..., : self.K - 1] + x[1:].sum()
        return t, x[0] + u[..., self.K - 1 :]

    def _derivatives(self, x: Floats, u: Floats) -> Floats:
        """J = ∂log p'/∂x, shape (n, K, p)."""
        t, log_ad = self._terms(x, u)
        # ∂t/∂x
        T = np.stack([t - x[1:].sum(), np.ones_like(t)], axis=-1)
        J = np.zeros((len(u), self.K, 2))
        J[:, :-1] += expit(-t)[..., None] * T
        J[:, 1:] -= expit(t)[..., None] * T
        # s/(e^s − 1) of s = a d
        J[:, 1:-1, 0] += 1 / exprel(np.exp(log_ad))
        return J[..., : len(x)]


class OrdinalMap(OrdinalScaleMap):
    """t_j = a l_j + b, x = (log a, b)."""

    strengths = BIASES

    def start(self, beta=1.0, c=0.0):
        return np.array([np.log(beta), c])

    def prior_sd(self, beta, scale, bias):
        return np.array([np.inf, bias])


class LineMap(_DiagonalMap):
    """u' = au + cg, x = (log a, c)."""

    def start(self, beta=1.0, c=0.0):
        return np.array([np.log(beta), c])

    def affine(self, x, xp=np):
        _, B = self._derivatives(x)
        return beta_of(x), B @ x

    def attributes(self, x):
        a, b = self.affine(x)
        # a constant for all classes changes nothing
        return {"scale_": float(a), "intercept_": b - b.mean()}

    def _derivatives(self, x):
        V = np.zeros((self.K, self.K + 2))
        V[:, 0] = beta_of(x)
        g = np.arange(self.K) - (self.K - 1) / 2
        B = np.column_stack([np.zeros(self.K), g, np.eye(self.K)])
        return V[:, : len(x)], B[:, : len(x)]


class ShiftMap(LineMap):
    """u' = au + cg + r, x = (log a, c, r)."""

    strengths = BIASES

    def start(self, beta=1.0, c=0.0):
        return self.embedded(super().start(beta, c))

    def embedded(self, x):
        return np.append(x, np.zeros(self.K))

    def prior_sd(self, beta, scale, bias):
        return np.append([np.inf, np.inf], np.full(self.K, bias))


# by name: the family, and it without what is shrunk
FORMS: dict[str, tuple[type[Family], type[Family]]] = {
    "cumulative": (OrdinalMap, OrdinalScaleMap),
    "classwise": (ShiftMap, LineMap),
}


def _log_softplus(t: Floats) -> Floats:
    """log log(1 + e^t)."""
    return np.where(t < _TINY, t, np.log(np.logaddexp(0.0, np.maximum(t, _TINY))))
