"""Out-of-fold predictions of classifiers trained on label histograms."""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from .._rows import predicted_classes, predicted_dist, read_labels
from .._utils.checks import (
    check_same_length,
    check_samples,
    checked,
    read_groups,
    take_params,
    take_rows,
)
from .._utils.estimators import class_order, fit_on_labels, own_columns
from .._utils.names import check_row_names
from .._utils.progress import Progress
from .._utils.types import Estimator, Folds, Groups, LabelsLike, Samples, Verbose
from ..distributions import Distribution
from ._folds import check_cv


@checked
def cross_val_predict(
    estimator: Estimator,
    X: Samples,
    y: LabelsLike,
    *,
    cv: Folds = None,
    groups: Groups = None,
    method: Literal["predict_proba", "predict_dist", "predict"] = "predict_proba",
    fit_params: dict | None = None,
    verbose: Verbose = 0,
) -> NDArray | Distribution:
    """Out-of-fold predictions of a classifier trained on label histograms.

    Counts stay counts. Scikit-learn's function of this name encodes each column as if it held
    labels, and so corrupts them silently.

    Parameters
    ----------
    estimator : classifier
        Cloned for each fold. It is fitted on counts where it takes them, else on weighted or
        repeated samples.
    X : anything that holds n_samples samples and can be indexed
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes; named columns are sorted.
    cv : int, splitter or list of splits, default=None
        An int stratifies by majority label; None is 5. Every sample must be in one test part, once.
    groups : array-like of shape (n_samples,), optional
        Goes to the splitter. A calibrator whose own folds shall keep groups together needs them in
        `fit_params`, too.
    method : {"predict_proba", "predict_dist", "predict"}
        What to predict.
    fit_params : dict, optional
        Goes to fit; entries with one value per sample are split.
    verbose : int, default=0
        Above 0: a progress bar.

    Returns
    -------
    prediction : ndarray of shape (n_samples, n_classes), Distribution, or ndarray of (n_samples,)
        Rows are in the order of X. Columns are in the order of the sorted classes, or of those that
        the estimator brings: a frozen one, or saved outputs.

    Raises
    ------
    ValueError
        Test parts that are no partition of the samples, a class missing from a training part, an
        unknown method.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(100, random_state=0)
    >>> cross_val_predict(LogisticRegression(), data.X, data.counts, method="predict_dist")
    PointMass(n=100, n_classes=3)
    """
    if not is_classifier(estimator):
        raise ValueError(f"estimator must be a classifier, got {type(estimator).__name__}.")
    X = check_samples(X)
    labels = read_labels(y).for_fit(class_order(estimator, X))
    n = len(labels)
    check_same_length(n, X=X)
    read_groups(groups, n)
    fit_params = fit_params or {}
    check_row_names(X=X, y=y, groups=groups, sample_weight=fit_params.get("sample_weight"))
    splits = list(check_cv(cv).split(np.zeros((n, 1)), labels.majority, groups))
    rows = np.concatenate([test for _, test in splits])
    if not np.array_equal(np.sort(rows), np.arange(n)):
        raise ValueError(
            "cv must put every sample into one test part, once: use a K-fold splitter."
        )
    folds = []
    for i, (train, test) in enumerate(Progress(splits, desc="folds", disable=not verbose)):
        part = labels.take(train)
        part.check_all_seen(f"training fold {i}")
        params = take_params(fit_params, train, n)
        model = fit_on_labels(clone(estimator), take_rows(X, train), part, **params)
        folds.append(_predict(model, take_rows(X, test), method, labels.classes))
    join: Callable = np.concatenate
    if method == "predict_dist":
        join = Distribution.concatenate
    return join(folds)[np.argsort(rows)]


def _predict(model, X, method: str, classes: NDArray) -> NDArray | Distribution:
    """What `method` says, in the order and with the names of the classes."""
    if method == "predict":
        return predicted_classes(model, X, classes)
    if method == "predict_proba":
        return model.predict_proba(X)[:, own_columns(model, classes)]
    return predicted_dist(model, X, classes)
