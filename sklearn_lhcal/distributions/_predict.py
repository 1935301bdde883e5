"""The predictive distribution of any classifier; batches joined; the value of one more label."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from .._ground.costs import check_cost_matrix
from .._ground.estimators import resolve
from ._base import Distribution, PointMass, in_columns
from ._mixture import Ensemble


def second_opinion_value(
    distribution: Distribution, cost_matrix: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Expected drop of the epistemic loss, or of the cost, from one more label: where a second opinion helps most.

    Parameters
    ----------
    distribution : Distribution
        A batch of n rows.
    cost_matrix : array-like or frame of shape (K, n_decisions), optional
        Cost of each decision under each class. None: squared loss, ``E‖Q − z‖²`` now less its expectation after one
        label, which is ``Σ_k E[z_k]·‖E[z|k] − E[z]‖²``.

    Returns
    -------
    value : ndarray of shape (n,)
        At least 0; 0 for a point mass. Squared probability, or the unit of the costs.

    Examples
    --------
    >>> from sklearn_lhcal.distributions import Dirichlet
    >>> second_opinion_value(Dirichlet([[1.0, 1.0], [100.0, 100.0]])).round(6)
    array([5.5556e-02, 1.2000e-05])
    """
    z = distribution.mean()
    K = z.shape[1]
    if cost_matrix is None:
        return sum(z[:, k] * ((distribution.mean_after(k) - z) ** 2).sum(axis=1) for k in range(K))
    C = check_cost_matrix(cost_matrix).for_classes(distribution.classes, K).C
    after = sum(z[:, k] * (distribution.mean_after(k) @ C).min(axis=1) for k in range(K))
    return np.maximum((z @ C).min(axis=1) - after, 0.0)


def predict_dist(estimator, X) -> Distribution:
    """Predictive distribution over class probabilities of any fitted classifier.

    Sees through Pipeline (transforming X), search objects and FrozenEstimator; takes the estimator's own
    `predict_dist`; makes an `Ensemble` of a fitted forest, bagging or soft-voting classifier; else a `PointMass` of
    `predict_proba`. The mean is always what `predict_proba` returns.

    Parameters
    ----------
    estimator : fitted classifier
    X : array-like of shape (n_samples, ...)

    Returns
    -------
    Distribution
        A batch of n_samples rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> predict_dist(RandomForestClassifier(10, random_state=0).fit(X, y), X)
    Ensemble(n=150, n_classes=3)
    """
    inner, seen = resolve(estimator, X, "predict_dist")
    if hasattr(inner, "predict_dist"):
        distribution = inner.predict_dist(seen)
    else:
        members = _member_proba(inner, seen)
        distribution = (
            PointMass(inner.predict_proba(seen)) if members is None else Ensemble(*members)
        )
    if distribution.classes is None:
        distribution = distribution.with_classes(getattr(inner, "classes_", None))
    classes = getattr(estimator, "classes_", distribution.classes)
    return distribution if classes is None else _renamed(distribution, np.asarray(classes))


def _renamed(distribution: Distribution, classes: NDArray) -> Distribution:
    """With the names and in the order of the outermost estimator.

    An estimator inside that was given counts and looked at no names calls its classes 0, 1, 2, ….
    """
    own = distribution.classes
    if len(own) != len(classes) or np.array_equal(own, classes):
        return distribution
    if set(own.tolist()) == set(classes.tolist()):
        return distribution.in_order(classes)
    return distribution.with_classes(classes)


def predict_epistemic(estimator, X) -> NDArray[np.float64]:
    """Epistemic uncertainty of any fitted classifier: larger where more data would teach more.

    Sees through Pipeline, search objects and FrozenEstimator. The estimator's own
    `predict_epistemic` where it offers one, as `EpistemicCalibration` does: the gain in accuracy to
    be expected from more data, a probability. Else the mutual information of `predict_dist`, nats.

    Parameters
    ----------
    estimator : fitted classifier
    X : array-like of shape (n_samples, ...)

    Returns
    -------
    uncertainty : ndarray of shape (n_samples,)
        At least 0.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    >>> predict_epistemic(forest, X).shape
    (150,)
    """
    inner, seen = resolve(estimator, X, "predict_epistemic")
    if hasattr(inner, "predict_epistemic"):
        return np.asarray(inner.predict_epistemic(seen))
    return predict_dist(estimator, X).mutual_information()


def _member_proba(estimator, X) -> tuple[NDArray[np.float64], list | None] | None:
    """Members of a fitted scikit-learn ensemble: probabilities (S, n, K) and weights; None for anything else."""
    # here, because `import sklearn_lhcal` shall stay quick
    from sklearn.ensemble import (
        BaggingClassifier,
        ExtraTreesClassifier,
        RandomForestClassifier,
        VotingClassifier,
    )

    if isinstance(estimator, (RandomForestClassifier, ExtraTreesClassifier)):
        X = _plain(X)
        return np.stack([tree.predict_proba(X) for tree in estimator.estimators_]), None
    if isinstance(estimator, VotingClassifier) and estimator.voting == "soft":
        weights = estimator.weights
        if weights is not None:
            weights = [
                w for w, (_, e) in zip(weights, estimator.estimators, strict=True) if e != "drop"
            ]
        return np.stack([member.predict_proba(X) for member in estimator.estimators_]), weights
    if isinstance(estimator, BaggingClassifier) and hasattr(
        estimator.estimators_[0], "predict_proba"
    ):
        X = _plain(X)
        return np.stack([_bagged(estimator, i, X) for i in range(len(estimator.estimators_))]), None
    return None


def _plain(X):
    """Array or CSR matrix: the members of forests and of bagging never saw the names of X's columns."""
    return check_array(X, accept_sparse="csr", dtype=None, ensure_all_finite=False)


def _bagged(bagging, i, X):
    """Probabilities of one member, which saw some of the features and perhaps not all of the classes."""
    member, features = bagging.estimators_[i], bagging.estimators_features_[i]
    return in_columns(
        member.predict_proba(X[:, features]), member.classes_.astype(int), len(bagging.classes_)
    )
