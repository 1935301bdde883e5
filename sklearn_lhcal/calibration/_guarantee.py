"""Guarantees: what is learnt on samples that the classifier has not seen. Sets that cover labels.

Letters: s_ik the score of class k in sample i; μ̂_i the labels of sample i as frequencies; n the
number of units, samples or groups of samples; w_i the share of sample i in its unit.
"""

from abc import abstractmethod
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from sklearn.model_selection import GroupShuffleSplit

from .._rows import Labels, parameters, predicted_dist
from .._utils.arrays import in_blocks, row_units
from .._utils.checks import check_sample_weight, check_samples, read_groups, take_rows, warn
from .._utils.estimators import atomic, resolve
from .._utils.names import check_row_names
from .._utils.types import Floats, Groups, Indices, LabelsLike, Mask, NDArray, Samples, Seed
from ._base import Calibrated, TrainingRows, _Wrapper, classifier_of, read_for_fit
from ._scaling.ordinal import check_order, median_scores

# of sums of n labels
ROUNDING = 1e-9


class HeldOut(NamedTuple):
    """Calibration samples, which the classifier has not seen.

    Attributes
    ----------
    z : ndarray of shape (n, K)
        What it predicts.
    mu : ndarray of shape (n, K)
        Labels as frequencies.
    n : ndarray of shape (n,)
        Their number; inf where probabilities are known.
    units : ndarray of shape (n,)
        Number of the unit of each sample: its group, else the sample itself.
    X : anything with n rows
        What the classifier takes.
    """

    z: Floats
    mu: Floats
    n: NDArray
    units: Indices
    X: Samples


@parameters
class _Guarantee(_Wrapper):
    """A classifier with a guarantee, which is learnt on held-out rows; subclasses fill `_learn`."""

    # with metadata routing, groups reach it inside a search by themselves
    __metadata_request__fit: ClassVar = {"groups": True}

    estimator: Calibrated = None
    _: KW_ONLY
    calibration_size: float = 0.25
    random_state: Seed = None

    @abstractmethod
    def _check(self, labels: Labels) -> Any:
        """Refuse wrong parameters before anything is fitted; returns what `_learn` needs of them.

        Labels have their classes, in order.
        """

    @abstractmethod
    def _learn(self, rows: HeldOut, checked: Any) -> dict:
        """What is learnt from calibration samples, by name of attribute; nothing is set here."""

    @atomic
    def fit(self, X: Samples, y: LabelsLike, *, groups: Groups = None, **fit_params: Any) -> Self:
        """Fit the classifier, and learn the guarantee on rows that it has not seen, all or nothing.

        Parameters
        ----------
        X : array-like, frame, list or anything that has a length and whose rows can be indexed
            What the classifier takes.
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes. One rater per sample is enough. Samples count alike,
            however many raters they have.
        groups : array-like of shape (n_samples,), optional
            Samples of one group (one patient, say) may depend on each other. A group goes to one
            side of the split whole. The guarantee is for a sample drawn from a new group, so that
            there must be many groups.
        **fit_params
            Passed to the classifier's fit, sample by sample where they have one entry per sample.
            So is `sample_weight`, since the guarantee uses no weights. A classifier that is fitted
            already takes none.

        Returns
        -------
        self
        """
        X = check_samples(X)
        base = classifier_of(self.estimator)
        check_row_names(X=X, y=y, groups=groups, sample_weight=fit_params.get("sample_weight"))
        labels, fitted = read_for_fit(base, X, y, fit_params)
        n = len(labels)
        codes = read_groups(groups, n)
        checked = self._check(labels)
        held_out = np.arange(n)
        if not fitted:
            size = self.calibration_size
            seed = self.random_state
            splitter = GroupShuffleSplit(1, test_size=size, random_state=seed)
            train, held_out = next(splitter.split(np.zeros(n), groups=row_units(codes, n)))
            params, _ = self._routed(fit_params)
            weight = check_sample_weight(params.pop("sample_weight", None), n)
            training = TrainingRows(X, labels, weight, params)
            where = "the samples that the classifier is fitted on"
            base = training.fit(base, train, where, "another split")
        X_held_out = take_rows(X, held_out)
        inner, _ = resolve(base, None, "predict_dist")
        if not hasattr(inner, "predict_dist") and not hasattr(inner, "predict_proba"):
            name = type(inner).__name__
            raise ValueError(f"{name} predicts no probabilities; put TemperatureScaling around it.")
        z = predicted_dist(base, X_held_out, labels.classes).mean()
        units = row_units(take_rows(codes, held_out), len(held_out))
        own = labels.take(held_out)
        rows = HeldOut(z, own.mu, own.n, units, X_held_out)
        learnt = self._learn(rows, checked)
        self._keep(base, labels.classes, learnt | {"n_calibration_": int(units.max()) + 1})
        return self


def unit_shares(units: Indices) -> Floats:
    """1/(samples in the unit) of each sample, shape (n,): their sum is the number of units."""
    return 1 / np.bincount(units)[units]


def least_scores(z: Floats) -> Floats:
    """1 − z_k, shape (n, K): sets of least ambiguity (Sadinle, Lei and Wasserman 2019)."""
    return 1 - z


def adaptive_scores(z: Floats) -> Floats:
    """Σ_j z_j over the classes more probable than k, and half of those as probable, shape (n, K).

    The mean of the randomised score of Romano, Sesia and Candès (2020), which is a draw between the
    two ends. It tells a sure class (½) from an impossible one (1).
    """

    def of_rows(rows: slice) -> Floats:
        z_j = z[rows, :, None]
        z_k = z[rows, None, :]
        return (z_j * ((z_j > z_k) + 0.5 * (z_j == z_k))).sum(axis=1)

    return in_blocks(of_rows, len(z), z.shape[1] ** 2)


_SCORES = {"lac": least_scores, "aps": adaptive_scores, "ordinal": median_scores}


def vote_threshold(s: Floats, mu: Floats, units: Indices, confidence_level: float) -> float:
    """The smallest t with ``Σ_i w_i Σ_k μ̂_ik 1{s_ik ≤ t} ≥ (n + 1)·level``; inf if there is none.

    Split conformal prediction with labels as fractional labels.
    """
    w = unit_shares(units)
    order = np.argsort(s, axis=None, kind="stable")
    covered = np.cumsum((w[:, None] * mu).ravel()[order])
    needed = (units.max() + 2) * confidence_level - ROUNDING
    first = int(np.searchsorted(covered, needed))
    return float(np.append(s.ravel()[order], np.inf)[first])


@parameters
class ConformalClassifier(_Guarantee):
    """Around a classifier: sets of classes that cover the labels of new samples.

    The set of a sample holds the classes with scores of at most `threshold_`, the least t with
    ``Σ_i Σ_k μ̂_ik 1{s_ik ≤ t} ≥ (n + 1)·level`` over n calibration samples. This is split
    conformal prediction in which a sample's labels share one unit.

    **What is guaranteed.** For a new sample, drawn as the calibration samples were, one rater's
    label lies in the set with a probability of at least `confidence_level`, on average over
    calibration sets and new samples. One label per sample is enough. What counts is the mean over
    samples of the share of labels covered. Labels are not pooled over samples with unequal numbers
    of raters. Nothing is guaranteed for every kind of sample, nor for every class. The probability
    is at most 2/(n + 1) above the level where no two scores are equal. It is higher where scores
    are tied (forests, nearest neighbours).

    **When it fails.** The guarantee fails where labels are majorities: they hide the labels of
    those who disagreed, and too few of these are covered. It fails where the number of raters
    depends on what they said. If raters were asked until they agreed, give only the first m labels,
    with m fixed beforehand. It fails where the classifier or its calibrator was fitted on these
    samples, or new samples come from elsewhere. Where few raters label all samples, the guarantee
    is for these raters.

    Parameters
    ----------
    estimator : classifier, default=None
        Any scikit-learn classifier with `predict_proba`, a calibrator, "proba" or "logits", as in
        `TemperatureScaling`. It is fitted on a part of the samples; a ``FrozenEstimator`` and saved
        outputs leave all samples for the guarantee. None: a logistic regression.
    conformity_score : {"lac", "aps", "ordinal"}, default="lac"
        "lac": ``1 − z_k``, which gives the smallest sets on average. "aps": the sum of the
        probabilities above z_k, plus half of z_k; sets then grow with the uncertainty of the
        sample. The published score draws a number in place of the half. "ordinal", for classes with
        an order: ``max(F_{k−1} − ½, ½ − F_k)`` of cumulative probabilities F; sets are then
        intervals around the median, without holes. Sets of all three may be empty.
    confidence_level : float, default=0.95
        Share of the labels to be covered.
    calibration_size : float, default=0.25
        Share of the samples, or of the groups, that is held out of the fit.
    random_state : int, RandomState instance or None, default=None
        Decides which.

    Attributes
    ----------
    threshold_ : float
        In the unit of the scores; inf where there are too few calibration samples: sets then hold
        all classes.
    n_calibration_ : int
        Calibration samples, or groups where there are such.
    estimator_ : classifier
        As it was fitted.
    classes_ : ndarray of shape (n_classes,)
        The columns of sets and probabilities.
    n_features_in_, feature_names_in_
        Where the classifier has them.

    Warns
    -----
    UserWarning
        Where the threshold is that of the least probable classes, so that sets hold all classes:
        one-hot outputs that are wrong too often, or too few different probabilities.

    Raises
    ------
    ValueError
        An unknown score, `confidence_level` or `calibration_size` outside (0, 1), a class missing
        from the samples that the classifier is fitted on, a classifier without probabilities, text
        without an order for "ordinal".

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

    _: KW_ONLY
    conformity_score: Literal["lac", "aps", "ordinal"] = "lac"
    confidence_level: float = 0.95

    def predict_set(self, X: Samples) -> Mask:
        """The set of each sample: whether it holds each class, shape (n_samples, n_classes)."""
        return _SCORES[self.conformity_score](self.predict_proba(X)) <= self.threshold_

    def _check(self, labels):
        if self.conformity_score == "ordinal":
            check_order(labels, 'conformity_score="ordinal"')

    def _learn(self, rows: HeldOut, checked):
        s = _SCORES[self.conformity_score](rows.z)
        threshold = vote_threshold(s, rows.mu, rows.units, self.confidence_level)
        if s.max() <= threshold < np.inf:
            warn(
                "Sets hold all classes: smaller ones cover too few labels, and the outputs do not "
                "tell which classes come next, as one-hot outputs do not. Give probabilities."
            )
        return {"threshold_": threshold}
