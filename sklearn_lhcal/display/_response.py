"""What a display needs of an estimator: counts and prediction with the same columns, and their names."""

import numpy as np

from ..distributions import predict_dist
from ..label_histogram import check_counts
from ..metrics._scorers import _aligned


def response(estimator, X, y, *, mean: bool):
    """Counts, prediction (a distribution, or its mean) and class names, aligned as the scorers do."""
    if not hasattr(estimator, "predict_proba") and not hasattr(estimator, "predict_dist"):
        raise ValueError(
            f"{type(estimator).__name__} predicts no probabilities; pass a classifier with predict_proba, "
            "sklearn.calibration.CalibratedClassifierCV around it, say."
        )
    prediction = predict_dist(estimator, X)
    classes = np.asarray(estimator.classes_)
    counts, prediction = _aligned(y, prediction.mean() if mean else prediction, classes)
    if counts.shape[1] > len(classes):  # y has classes that training never saw
        classes = np.union1d(classes, check_counts(y)[1])
    return counts, prediction, classes
