"""Scores of searches that fit each candidate once more, to the rows that were carved out."""

import joblib
import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone

from .._rows import Labels, read_labels
from .._utils.arrays import Indices
from .._utils.checks import check_samples, take_rows
from .._utils.estimators import fit_on_labels
from .._utils.types import Estimator, LabelsLike, Samples
from ..metrics import EpistemicScorer, get_scorer


def fit_with_more(estimator, X: Samples, labels: Labels, rows: Indices) -> Estimator:
    """f_aug of P3, fitted to these rows. That of a calibrator is the classifier inside.

    Calibration changes no class.
    """
    if hasattr(estimator, "predict_uncalibrated"):
        estimator = estimator.estimator
    return fit_on_labels(clone(estimator), take_rows(X, rows), labels.take(rows))


def rows_key(X: Samples) -> str:
    """Equal for equal rows, whatever memory they are in."""
    X = check_samples(X)
    if issparse(X):
        X = X.toarray()
    return joblib.hash(np.ascontiguousarray(X), coerce_mmap=True)


class CarvedScorer:
    """The epistemic scorer of a split, which it knows by its test rows.

    `augmented` holds the augmented rows by `rows_key` of the test rows.
    """

    def __init__(self, X: Samples, y: LabelsLike, augmented: dict[str, Indices], scoring: str):
        self.scorer = get_scorer(scoring)
        if not isinstance(self.scorer, EpistemicScorer):
            raise ValueError(
                "scoring must be 'neg_epistemic_calibration_error' or 'epistemic_correlation', "
                f"got {scoring!r}."
            )
        self.X = check_samples(X)
        self.labels = read_labels(y).for_fit()
        self.augmented = augmented

    def __call__(self, estimator: Estimator, X: Samples, y: LabelsLike) -> float:
        rows = self.augmented.get(rows_key(X))
        if rows is None:
            raise ValueError(
                "The rows to score are not the test rows of one of the splitter's splits: give the "
                "search cv= the same splitter and fit the same X, without training scores."
            )
        f_aug = fit_with_more(estimator, self.X, self.labels, rows)
        return self.scorer(estimator, X, y, reference_prediction=f_aug.predict(X))
