"""Folds of calibration rows that do not depend on the order of the rows."""

import numpy as np
from numpy.typing import NDArray

from .._ground.arrays import Indices
from ._rows import CalibrationRows

Split = tuple[Indices, Indices]


def deal(rows: CalibrationRows, n_folds: int) -> list[Split]:
    """(training rows, test rows) of folds that are alike in votes and in predictions.

    Rows are sorted by their majority vote and the log-probability of it, and dealt to the folds in
    turn. Ties are sorted by all else that the rows hold, so rows that still tie are the same.
    """
    order = _sorted(rows)
    fold = np.empty(len(rows), dtype=np.intp)
    fold[order] = np.arange(len(rows)) % n_folds
    return [(np.flatnonzero(fold != j), np.flatnonzero(fold == j)) for j in range(n_folds)]


def _sorted(rows: CalibrationRows) -> Indices:
    vote = rows.counts.argmax(axis=1)
    u = rows.log_proba.reshape(len(rows), -1, rows.n_classes)
    own = u[np.arange(len(rows)), :, vote].mean(axis=1)
    order = np.lexsort([own, vote])
    tied = (np.diff(own[order]) == 0) & (np.diff(vote[order]) == 0)
    if not tied.any():
        return order
    return np.lexsort([*_content(rows).T, own, vote])


def _content(rows: CalibrationRows) -> NDArray:
    parts = [rows.weight[:, None], rows.counts, rows.log_proba.reshape(len(rows), -1)]
    if rows.log_weights is not None:
        parts.append(rows.log_weights)
    return np.concatenate(parts, axis=1)
