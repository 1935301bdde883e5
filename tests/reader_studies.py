"""Studies in which readers and a model label rows, for tests of what is said of them."""

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

EASE = 1.5


def study(n, R, tau, s, rng):
    """Labels of R readers with skills N(0, τ²), and in the last column of a model with skill s."""
    truth = rng.integers(2, size=(n, 1))
    skill = np.append(tau * rng.standard_normal(R), s)
    right = rng.random((n, R + 1)) < expit(EASE - rng.standard_normal((n, 1)) + skill)
    return np.where(right, truth, 1 - truth)


def skill_at(difference, tau):
    """The skill of a model with whom a reader disagrees so much more often than with a reader."""
    x, w = np.polynomial.hermite_e.hermegauss(61)
    w /= w.sum()
    p = expit(EASE - x[:, None] + tau * x) @ w

    def excess(s):
        q = expit(EASE - x + s)
        agree = p * q + (1 - p) * (1 - q)
        return (p**2 + (1 - p) ** 2 - agree) @ w - difference

    return brentq(excess, -5, 3)


def read_by(d, R, s, rng):
    """Two classes: new rows of a distribution, read by readers with thresholds of their own."""
    q = d.sample(1, random_state=rng)[0, :, 1].clip(1e-6, 1 - 1e-6)
    logit = np.log(q / (1 - q))[:, None] + s * rng.normal(size=R)
    return (rng.random_sample(logit.shape) < 1 / (1 + np.exp(-logit))).astype(int)
