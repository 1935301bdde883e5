"""What a display needs of an estimator: counts and prediction with the same columns, and their names."""

import numpy as np

from ..distributions import predict_dist
from ..label_histogram import check_counts
from ..metrics._scorers import aligned


def response(estimator, X, y):
    """Counts, predictive distribution and class names, aligned as scorers do: a class never seen has probability 0."""
    if not hasattr(estimator, "predict_proba") and not hasattr(estimator, "predict_dist"):
        raise ValueError(
            f"{type(estimator).__name__} predicts no probabilities; pass a classifier with predict_proba, "
            "sklearn.calibration.CalibratedClassifierCV around it, say."
        )
    distribution = predict_dist(estimator, X)
    classes = np.asarray(estimator.classes_)
    counts, distribution = aligned(y, distribution, classes)
    if counts.shape[1] > len(classes):  # y has classes that training never saw
        classes = np.union1d(classes, check_counts(y)[1])
    return counts, distribution, classes
