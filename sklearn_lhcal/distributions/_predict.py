"""The predictive distribution of any classifier, and the value of one more label."""

import numpy as np
from sklearn.utils import check_array

from .._utils.checks import check_samples, checked
from .._utils.costs import expected_costs
from .._utils.distances import Distance, points
from .._utils.estimators import resolve
from .._utils.simplex import in_columns
from .._utils.types import ArrayLike, Estimator, Floats, Samples
from ._arithmetic import by_blocks
from ._base import Distribution, PointMass
from ._label_policy import costs_of
from ._mixture import Ensemble


@checked
def second_opinion_value(
    distribution: Distribution, cost_matrix: ArrayLike | None = None, *, distance: Distance = None
) -> Floats:
    """Value of one more label in each sample: larger where a second opinion helps more.

    It is the expected drop of the epistemic loss, or of the cost, from that label.

    Parameters
    ----------
    distribution : Distribution
        A batch of n samples.
    cost_matrix : array-like or frame of shape (K, n_decisions), or array (n, K, n_decisions), \
optional
        Cost of each decision under each class, for all samples, or for each. None: the squared loss
        ``E‖Q − z‖²``, whose expected drop is ``Σ_k E[z_k]·‖E[z|k] − E[z]‖²``.
    distance : None, "linear", "quadratic" or array-like of shape (K, K), default=None
        Of the classes, for the squared loss: as in `sklearn_lhcal.metrics.expected_squared_loss`.

    Returns
    -------
    value : ndarray of shape (n,)
        Squared probability, or the unit of the costs. At least 0, and 0 for a point mass.

    Raises
    ------
    ValueError
        NaN or infinite costs, other classes or samples than those of the distribution; costs and a
        distance.

    Examples
    --------
    >>> from sklearn_lhcal.distributions import Dirichlet
    >>> second_opinion_value(Dirichlet([[1.0, 1.0], [100.0, 100.0]])).round(6)
    array([5.5556e-02, 1.2000e-05])
    """
    B = points(distance, distribution.n_classes, distribution.classes, False)
    if B is not None and cost_matrix is not None:
        raise ValueError("Give costs or a distance, not both.")
    if cost_matrix is None:
        return by_blocks(lambda rows: rows._expected_move(B), distribution)
    C = costs_of(distribution, cost_matrix).C
    before = expected_costs(distribution.mean(), C).min(axis=1)
    return np.maximum(before - distribution._least_cost_after(C), 0.0)


@checked
def predict_dist(estimator: Estimator, X: Samples) -> Distribution:
    """Predictive distribution over class probabilities of any fitted classifier.

    The estimator's own `predict_dist` is called where it has one. A fitted forest, bagging or
    soft-voting classifier becomes an `Ensemble` of its members, and any other classifier a
    `PointMass`. The mean is always what `predict_proba` returns. Pipelines (whose steps transform
    X), search objects and FrozenEstimator are seen through.

    Parameters
    ----------
    estimator : fitted classifier
    X : array-like of shape (n_samples, ...)

    Returns
    -------
    Distribution
        A batch of n_samples samples.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> predict_dist(RandomForestClassifier(10, random_state=0).fit(X, y), X)
    Ensemble(n=150, n_classes=3)
    """
    X = check_samples(X)
    inner, seen = resolve(estimator, X, "predict_dist")
    if hasattr(inner, "predict_dist"):
        distribution = inner.predict_dist(seen)
    elif members := _member_proba(inner, seen):
        distribution = Ensemble(*members)
    else:
        distribution = PointMass(inner.predict_proba(seen))
    if distribution.classes is None:
        distribution = distribution.with_classes(getattr(inner, "classes_", None))
    classes = getattr(estimator, "classes_", distribution.classes)
    if classes is None:
        return distribution
    classes = np.asarray(classes)
    own = np.asarray(distribution.classes)
    if len(own) != len(classes) or np.array_equal(own, classes):
        return distribution
    if set(own.tolist()) == set(classes.tolist()):
        return distribution.in_order(classes)
    # an inner estimator that was given counts and saw no names calls its classes 0, 1, 2, …
    return distribution.with_classes(classes)


@checked
def predict_epistemic(estimator: Estimator, X: Samples) -> Floats:
    """Epistemic uncertainty of any fitted classifier: larger where more data would teach more.

    The estimator's own `predict_epistemic` is called where it has one. That of
    `EpistemicCalibration` is the gain in accuracy to be expected from more data, a probability.
    For any other classifier it is the mutual information of `predict_dist`, in nats. Pipelines,
    search objects and FrozenEstimator are seen through. After `AlphaCalibration` it also holds what
    raters know and the model does not; around an ensemble,
    ``predict_dist(model.estimator_, X).member_information()`` leaves that out.

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


def _member_proba(estimator, X) -> tuple[Floats, list | None] | None:
    """Probabilities (S, n, K) and weights of the members of a fitted scikit-learn ensemble.

    None for anything else.
    """
    # Here, because `import sklearn_lhcal` shall stay quick.
    from sklearn import ensemble

    forests = ensemble.RandomForestClassifier, ensemble.ExtraTreesClassifier
    weights = None
    if isinstance(estimator, forests):
        X = _plain(X)
        members = [tree.predict_proba(X) for tree in estimator.estimators_]
    elif isinstance(estimator, ensemble.VotingClassifier) and estimator.voting == "soft":
        members = [member.predict_proba(X) for member in estimator.estimators_]
        weights = estimator.weights
        if weights is not None:
            pairs = zip(weights, estimator.estimators, strict=True)
            weights = [weight for weight, (_, voter) in pairs if voter != "drop"]
    elif isinstance(estimator, ensemble.BaggingClassifier) and hasattr(
        estimator.estimators_[0], "predict_proba"
    ):
        X, K = _plain(X), len(estimator.classes_)
        pairs = zip(estimator.estimators_, estimator.estimators_features_, strict=True)
        # each saw some features and perhaps not all of the classes
        members = [
            in_columns(member.predict_proba(X[:, features]), member.classes_.astype(int), K)
            for member, features in pairs
        ]
    else:
        return None
    return np.stack(members), weights


def _plain(X):
    """Array or CSR matrix: members of forests and bagging never saw the names of X's columns."""
    return check_array(X, accept_sparse="csr", dtype=None, ensure_all_finite=False)
