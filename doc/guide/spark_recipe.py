"""Metrics and scores of a table of Spark, partition by partition, by `mapInPandas`."""

import pickle
from copy import deepcopy

import pandas as pd

from sklearn_lhcal.distributions import predict_dist


def sums_of(empty, counts, proba):
    """A function of the frames of a partition, which yields one row: its sums."""

    def sums(frames):
        seen = deepcopy(empty)
        for frame in frames:
            seen.update(frame[counts].to_numpy(), frame[proba].to_numpy())
        yield pd.DataFrame({"sums": [pickle.dumps(seen)]})

    return sums


def accumulate(table, empty, counts, proba):
    """An accumulator that has seen every partition of a table."""
    total = deepcopy(empty)
    rows = table.mapInPandas(sums_of(empty, counts, proba), schema="sums binary")
    for row in rows.toLocalIterator():
        # pickled by our own tasks
        total.merge(pickle.loads(bytes(row["sums"])))  # noqa: S301
    return total


def scores_of(model, features, key):
    """A function of the frames of a partition, which yields scores of their rows."""

    def scores(frames):
        for frame in frames:
            dist = predict_dist(model, frame[features].to_numpy())
            yield frame[[key]].assign(
                decision=dist.mean().argmax(axis=1), disagreement=dist.disagreement()
            )

    return scores
