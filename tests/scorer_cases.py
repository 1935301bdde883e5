"""All scorers, and a problem to score.

Tags are private; they say which scorers need an order.
"""

import numpy as np
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB

from sklearn_lhcal._utils.tags import tags_of
from sklearn_lhcal.label_histogram import LabelHistogramClassifier
from sklearn_lhcal.metrics import LabelHistogramScorer, get_scorer, get_scorer_names

ALL_SCORERS = {name: get_scorer(name) for name in get_scorer_names()}
# of y and X alone
SCORERS = {k: v for k, v in ALL_SCORERS.items() if isinstance(v, LabelHistogramScorer)}
# of classes with any names, in any order
NOMINAL = {k: v for k, v in SCORERS.items() if not tags_of(v.metric).ordered}
CV = KFold(3)
MODEL = LabelHistogramClassifier(GaussianNB())


def problem(K=3, n=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    Q = np.exp(X @ rng.normal(size=(4, K)))
    counts = np.array([rng.multinomial(rng.integers(1, 6), q / q.sum()) for q in Q])
    return X, counts
