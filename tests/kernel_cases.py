"""The published plugin and the options, predictions, and kernels in plain numpy."""

from functools import partial

import numpy as np
from scipy.special import gammaln, xlogy

from sklearn_lhcal import metrics

# the published plugin, where a test does not say otherwise
kernel_calibration_error = partial(metrics.kernel_calibration_error, p=1, bias_correction=None)
null_calibration_error = partial(metrics.null_calibration_error, p=1, bias_correction=None)
KINDS = ["canonical", "marginal", "top_label"]
RESIDUAL = {"p": 2, "bias_correction": "residual"}
SECOND = {"p": 2, "bias_correction": "second_order"}


def draw(n, K, raters=1, temperature=1.0, concentration=1.0, seed=0):
    """Counts of calibrated predictions, and the predictions sharpened by a temperature."""
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.full(K, concentration), size=n)
    z = q ** (1 / temperature)
    return rng.multinomial(raters, q), z / z.sum(axis=1, keepdims=True)


def naive_log_kernels(x, h):
    """log k(x_j, x_i), one row i after the other."""
    x = np.clip(x, 1e-12, None)
    x = x / x.sum(axis=1, keepdims=True)
    L = np.empty((len(x), len(x)))
    for i in range(len(x)):
        a = x[i] / h + 1
        L[:, i] = gammaln(a.sum()) - gammaln(a).sum() + xlogy(a - 1, x).sum(axis=1)
    return L


def naive_problems(kind, z, mu):
    if kind == "canonical":
        return [(z, z, mu)]
    if kind == "marginal":
        return [(np.c_[z[:, k], 1 - z[:, k]], z[:, [k]], mu[:, [k]]) for k in range(z.shape[1])]
    top = z.argmax(axis=1)
    rows = np.arange(len(z))
    c = z[rows, top]
    return [(np.c_[c, 1 - c], c[:, None], mu[rows, top][:, None])]
