"""What every meta-estimator needs: rows of anything, weights, and any classifier fitted on counts."""

from numbers import Real

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter


def take_rows(X, rows):
    """Rows of anything indexable: array, sparse matrix, tensor, pandas or polars frame, list, or a dict of these."""
    if isinstance(X, dict):
        return {key: take_rows(value, rows) for key, value in X.items()}
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "tocsr"):
        return X.tocsr()[rows]
    if isinstance(X, (list, tuple)):
        return [X[i] for i in rows]
    return X[rows]


def n_rows(X) -> int:
    """Number of rows of anything `take_rows` can index."""
    if isinstance(X, dict):
        return n_rows(next(iter(X.values())))
    return X.shape[0] if hasattr(X, "shape") else len(X)


def is_per_row(value, n: int) -> bool:
    """Whether a fit parameter holds one entry for each of n rows."""
    return (hasattr(value, "shape") or isinstance(value, (list, tuple))) and np.ndim(value) > 0 and n_rows(value) == n


def check_same_length(n: int, **named) -> None:
    """Raise a ValueError that names the first of the arguments whose number of rows is not n."""
    for name, value in named.items():
        if value is not None and n_rows(value) != n:
            raise ValueError(f"{name} has {n_rows(value)} rows, expected {n}: inconsistent numbers of samples.")


def check_sample_weight(sample_weight, n: int) -> NDArray[np.float64] | None:
    """Weights of shape (n,), float64, finite, not negative, not all zero; None stays None."""
    if sample_weight is None:
        return None
    w = np.asarray(sample_weight, dtype=np.float64)
    if w.ndim == 0:
        w = np.full(n, float(w))
    if w.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), got {w.shape}: inconsistent numbers of samples.")
    if not np.isfinite(w).all() or (w < 0).any():
        raise ValueError("sample_weight contains NaN, infinite or negative values.")
    if not w.any():
        raise ValueError("All values of sample_weight are zero; at least one row must count.")
    return w


def default_classifier():
    """What ``estimator=None`` stands for."""
    from sklearn.linear_model import LogisticRegression  # here, because `import sklearn_lhcal` shall stay quick

    routed = get_config()["enable_metadata_routing"]
    return LogisticRegression().set_fit_request(sample_weight=True) if routed else LogisticRegression()


def takes_label_histograms(estimator) -> bool:
    """Whether an estimator's fit takes counts: its class says so, or that of what a Pipeline or a search ends in."""
    while not getattr(type(estimator), "accepts_label_histograms", False):
        if isinstance(estimator, Pipeline):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "scoring") and hasattr(estimator, "refit") and hasattr(estimator, "estimator"):
            estimator = estimator.estimator
        else:
            return False
    return True


def class_order(estimator, X):
    """The classes that an estimator brings, in the order of its outputs; None where those of y are sorted.

    They are brought by what is fitted already, by outputs saved in X, and by a network that is told its `classes`.
    """
    while not isinstance(estimator, FrozenEstimator):
        if hasattr(estimator, "_class_order"):
            return estimator._class_order(X)
        if isinstance(estimator, Pipeline):
            kept = all(step in (None, "passthrough") for _, step in estimator.steps[:-1])
            estimator, X = estimator.steps[-1][1], X if kept else None
        elif not takes_label_histograms(estimator):
            return None
        elif not hasattr(estimator, "estimator"):
            classes = getattr(estimator, "classes", None)
            return None if classes is None else np.asarray(classes)
        else:
            estimator = estimator.estimator
    return np.asarray(estimator.classes_) if hasattr(estimator, "classes_") else None


def fit_on_counts(estimator, X, counts, classes, sample_weight=None, **fit_params):
    """Fit any scikit-learn classifier, in place, on label histograms.

    Counts as they are where the estimator takes them; labels where every row has one; else every row once for each
    class that it was given, with the count as its weight, or as often as it was given where weights are not taken.
    """
    if takes_label_histograms(estimator):
        if sample_weight is not None:
            fit_params["sample_weight"] = sample_weight
        one = len(classes) == 1  # a column of counts would read as labels
        estimator.fit(X, np.repeat(classes, len(counts)) if one else counts, **fit_params)
        own = np.asarray(estimator.classes_).tolist()
        if own != classes.tolist() and set(own) == set(classes.tolist()):
            raise ValueError(
                f"{type(estimator).__name__} has the classes in the order {own}, where {classes.tolist()} is wanted; "
                "bring them into that order."
            )
        return estimator
    values = np.asarray(counts)
    takes_weights = has_fit_parameter(estimator, "sample_weight")
    if sample_weight is not None and not takes_weights:
        raise ValueError(f"{type(estimator).__name__} takes no sample_weight in fit; fit it without weights.")
    rows, codes = np.nonzero(values)
    weight = values[rows, codes].astype(np.float64)
    if len(rows) == len(values) and (weight == 1).all():
        if sample_weight is not None:
            fit_params["sample_weight"] = sample_weight
        return estimator.fit(X, classes[codes], **fit_params)
    if takes_weights:
        weight = weight if sample_weight is None else weight * sample_weight[rows]
    elif values.dtype.kind == "f":
        raise ValueError(f"{type(estimator).__name__} takes no weights and cannot be fitted on KnownProbabilities.")
    else:
        repeat = np.repeat(np.arange(len(rows)), values[rows, codes])
        rows, codes = rows[repeat], codes[repeat]
    fit_params = {k: take_rows(v, rows) if is_per_row(v, len(values)) else v for k, v in fit_params.items()}
    if takes_weights:
        fit_params["sample_weight"] = weight
    return estimator.fit(take_rows(X, rows), classes[codes], **fit_params)


def take_feature_names(estimator, fitted) -> None:
    """Set number and names of the features as what `estimator` wraps has them; names of an earlier fit go."""
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(fitted, name):
            setattr(estimator, name, getattr(fitted, name))
        else:
            vars(estimator).pop(name, None)


def check_not_negative(**named) -> None:
    """Raise a ValueError that names the first of the numbers that is negative, infinite, NaN or no number."""
    for name, value in named.items():
        if not (isinstance(value, Real) and 0 <= value < np.inf):
            raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}.")
