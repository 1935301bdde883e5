"""Sets of classes that cover the votes of new rows."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .._ground.checks import check_fraction
from .._ground.types import Calibrated, Samples, Seed
from ._guarantee import HeldOut, _Guarantee
from ._risk_control import adaptive_scores, least_scores, vote_threshold

_SCORES = {"lac": least_scores, "aps": adaptive_scores}


class ConformalClassifier(_Guarantee):
    """Around a classifier: sets of classes that cover the votes of new rows.

    The set of a row holds the classes with scores of at most `threshold_`, the least t with ``Σ_i
    Σ_k μ̂_ik 1{s_ik ≤ t} ≥ (n + 1)·level`` over n calibration rows. This is split conformal
    prediction in which a row's votes share one unit.

    **What is promised.** For a new row, drawn as the calibration rows were, one rater's vote lies
    in the set with a probability of at least `confidence_level`, on average over calibration sets
    and new rows. One vote a row is enough. What counts is the mean over rows of the share of votes
    covered. Votes are not pooled over rows with unequal numbers of raters. Nothing is promised for
    every kind of row, nor for every class. The probability is at most 2/(n + 1) above the level
    where no two scores are equal. It is higher where scores are tied (forests, nearest neighbours).

    **When it fails.** The promise fails where labels are majorities: they hide the votes of those
    who disagreed, and too few of these are covered. It fails where the number of raters depends on
    what they said. If raters were asked until they agreed, give only the first m votes, with m
    fixed beforehand. It fails where the classifier or its calibrator was fitted on these rows, or
    new rows come from elsewhere. Where few raters label all rows, the promise is for these raters.

    Parameters
    ----------
    estimator : classifier, default=None
        Any scikit-learn classifier with `predict_proba`, a calibrator, "proba" or "logits", as in
        `TemperatureScaling`. It is fitted on a part of the rows; a ``FrozenEstimator`` and saved
        outputs leave all rows for the promise. None: a logistic regression.
    conformity_score : {"lac", "aps"}, default="lac"
        "lac": ``1 − z_k``, which gives the smallest sets on average. "aps": the sum of the
        probabilities above z_k, plus half of z_k; sets then grow with the uncertainty of the row.
        The published score draws a number in place of the half. Sets of both may be empty.
    confidence_level : float, default=0.95
        Share of the votes to be covered.
    calibration_size : float, default=0.25
        Share of the rows, or of the groups, that is held out of the fit.
    random_state : int, RandomState instance or None, default=None
        Decides which.

    Attributes
    ----------
    threshold_ : float
        In the unit of the scores; inf where there are too few calibration rows: sets then hold all
        classes.
    n_calibration_ : int
        Calibration rows, or groups where there are such.
    estimator_ : classifier
        As it was fitted.
    classes_ : ndarray of shape (n_classes,)
        The columns of sets and probabilities.
    n_features_in_, feature_names_in_
        Where the classifier has them.

    Raises
    ------
    ValueError
        An unknown score, `confidence_level` or `calibration_size` outside (0, 1), a class missing
        from the rows that the classifier is fitted on, a classifier without probabilities.

    References
    ----------
    Vovk, Gammerman and Shafer (2005), Algorithmic learning in a random world. Sadinle, Lei and
    Wasserman (2019), Least ambiguous set-valued classifiers. Romano, Sesia and Candès (2020),
    Classification with valid and adaptive coverage. Angelopoulos, Bates, Fisch, Lei and Schuster
    (2024), Conformal risk control, of which fractional labels are a case.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(1000, n_raters=(1, 4), random_state=0)
    >>> model = ConformalClassifier("proba", confidence_level=0.8)
    >>> model = model.fit(data.prediction[:500], data.counts[:500])
    >>> sets = model.predict_set(data.prediction[500:])
    >>> shares = data.counts[500:] / data.counts[500:].sum(axis=1, keepdims=True)
    >>> float((shares * sets).sum(axis=1).mean().round(2)), float(sets.sum(axis=1).mean().round(2))
    (0.81, 1.31)
    """

    def __init__(
        self,
        estimator: Calibrated = None,
        *,
        conformity_score: Literal["lac", "aps"] = "lac",
        confidence_level: float = 0.95,
        calibration_size: float = 0.25,
        random_state: Seed = None,
    ) -> None:
        super().__init__(estimator, calibration_size=calibration_size, random_state=random_state)
        self.conformity_score = conformity_score
        self.confidence_level = confidence_level

    def predict_set(self, X: Samples) -> NDArray[np.bool_]:
        """The set of each row: whether it holds each class, shape (n_samples, n_classes)."""
        check_is_fitted(self, "estimator_")
        return _SCORES[self.conformity_score](self.predict_proba(X)) <= self.threshold_

    def _check(self, classes):
        if self.conformity_score not in _SCORES:
            raise ValueError(
                f"conformity_score must be one of {list(_SCORES)}, got {self.conformity_score!r}."
            )
        check_fraction(confidence_level=self.confidence_level)

    def _learn(self, rows: HeldOut, checked):
        s = _SCORES[self.conformity_score](rows.z)
        return {"threshold_": vote_threshold(s, rows.mu, rows.units, self.confidence_level)}
