"""Batches of distributions and the parts of their laws, for the tests of all of them."""

import numpy as np

from sklearn_lhcal.distributions import second_opinion_value

TOTALS = [1e-12, 1e-9, 1e-6, 1e-3, 0.1, 0.999, 1.0, 1.001, 7.0, 19.0, 1e3, 1e6, 1e9, 1e12]

# exact in binary, rows sum to exactly 1: the oracle sees the same numbers
DYADIC = [
    (0.5, 0.25, 0.25),
    (0.9375, 0.0625, 0.0),
    (1 - 2.0**-20, 2.0**-21, 2.0**-21),
    (1 - 2.0**-40, 2.0**-40, 0.0),
]

BATCH = {"n": 4, "K": 3, "seed": 5}


def methods(d):
    """Everything a distribution says, by name."""
    y = np.arange(len(d) * d.n_classes).reshape(len(d), -1) % 4
    return {
        "mean": d.mean(),
        "second_moment": d.second_moment(),
        "variance": d.variance(),
        "disagreement": d.disagreement(),
        "pairs": d.disagreement(np.eye(d.n_classes)[::-1] * (1 - np.eye(d.n_classes))),
        "class_disagreement": d.class_disagreement(),
        "entropy": d.entropy(),
        "expected_entropy": d.expected_entropy(),
        "mutual_information": d.mutual_information(),
        "posterior mean": d.posterior(y).mean(),
        "posterior variance": d.posterior(y).variance(),
        "mean_after": np.stack([d.mean_after(k) for k in range(d.n_classes)]),
        "log_prob_counts": d.log_prob_counts(y),
        "interval": d.interval(0.8),
        "second_opinion_value": second_opinion_value(d),
    }


def assert_same(a, b, rtol=1e-12, atol=1e-14, but=()):
    a, b = methods(a), methods(b)
    for name in a:
        if name not in but:
            np.testing.assert_allclose(a[name], b[name], rtol=rtol, atol=atol, err_msg=name)


def label_pairs(d):
    """P(one label is k, the other l) for k ≤ l, from the likelihood of two labels."""
    K = d.n_classes
    two = [(k, other) for k in range(K) for other in range(k, K)]
    counts = [np.eye(K, dtype=int)[k] + np.eye(K, dtype=int)[other] for k, other in two]
    return two, np.array([np.exp(d.log_prob_counts(np.tile(y, (len(d), 1)))) for y in counts])
