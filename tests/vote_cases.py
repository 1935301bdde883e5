"""Rows whose raters are read in several ways, for what promises something of their votes."""

import numpy as np

from sklearn_lhcal.label_histogram import KnownProbabilities


def votes(Q, kind, rng):
    """Labels of samples with the distributions Q."""
    if kind == "all":
        return KnownProbabilities(Q)
    if kind == "majority":
        counts = rng.multinomial(11, Q)
        return np.eye(3, dtype=int)[(counts + rng.random(counts.shape)).argmax(axis=1)]
    if kind == "until two agree":
        counts = rng.multinomial(2, Q)
        split = (counts == 1).any(axis=1)
        counts[split] += rng.multinomial(1, Q[split])
        return counts
    if kind == "more where they differ":
        return rng.multinomial(np.where(Q.max(axis=1) < 0.6, 6, 1), Q)
    return rng.multinomial(kind, Q)
