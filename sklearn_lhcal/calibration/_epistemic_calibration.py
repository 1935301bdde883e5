"""Epistemic uncertainty on the scale of accuracy (P3).

What more data gains is learnt by carving the training data.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import KW_ONLY
from typing import Any, Literal, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._rows import labels_for, parameters, predicted_classes, shares_of, weight_of
from .._utils.bins import Bins
from .._utils.checks import check_sample_weight, check_samples, take_rows, warn
from .._utils.estimators import atomic, own_columns
from .._utils.names import check_row_names
from .._utils.types import ArrayLike, Estimator, Floats, Indices, LabelsLike, Samples, Seed, Weights
from ..distributions import predict_dist
from ..model_selection import BallCarvingSplit
from ._base import TrainingRows, _Wrapper, read_for_fit
from ._precomputed import PrecomputedClassifier

# How often data are carved for a fit; samples of a bin, and the weight of the line, of a rising
# one.
_CARVINGS = {"rising": 3, "paper": 1}
_LEAST_ROWS = 25
_LINE = 0.1


def _offers(method: str):
    """Whether the classifier has a method: the fitted one, or the one to be fitted."""

    def check(self):
        # an AttributeError says what is missing
        getattr(getattr(self, "estimator_", self.estimator), method)
        return True

    return check


@runtime_checkable
class AugmentedSplitter(Protocol):
    """What splits samples for `EpistemicCalibration`."""

    def split_augmented(self, X: Samples) -> tuple[Indices, Indices, Indices]:
        """Indices (train, augmented, test)."""


@parameters
class EpistemicCalibration(_Wrapper):
    """A classifier whose epistemic uncertainty is calibrated: `predict_epistemic` is the accuracy
    that more data gains.

    At fit, balls are carved out of the training data. One clone of the classifier learns from the
    samples that remain. A second clone learns from these and most of the balls. The other samples
    of the balls are test samples: the estimate e of the first clone is compared there with what the
    second gains in accuracy, g (`metrics.accuracy_gain`). This is done for several carvings. Their
    samples together give the function

        γ(e) = 0.9·γ_iso(e) + 0.1·b·e,   b = Σ g / Σ e,

    with γ_iso the isotonic regression, on the estimate, of the mean gain in bins. With its line γ
    rises strictly up to 1, so that it keeps the order of the estimate. Then the classifier is
    fitted on everything. All other methods (`predict`, `predict_proba`, `predict_dist`, …) are its
    own.

    γ holds for new samples that are as far from the training data as the balls are from the
    samples that remained.

    Parameters
    ----------
    estimator : classifier
        Fitted twice for each carving, and once on everything. One with a predictive distribution: a
        Gaussian process, a forest, an ensemble, MC dropout.
    uncertainty : {"mutual_information", "entropy"} or callable, default="mutual_information"
        The estimate to be calibrated. A word names what `predict_dist` has, in nats: both rank
        samples, and do not measure the gain by themselves. A callable
        ``uncertainty(estimator, X)`` returns one number of at least 0 per sample, larger for
        samples that are more uncertain: a distance from the training data, say.
    splitter : object with ``split_augmented(X)``, default=None
        Returns indices (train, augmented, test). None: ``BallCarvingSplit(random_state=0)``, for
        which X must hold numbers, none missing.
    n_bins : int, default=20
        Bins with equal numbers of carved test samples, of 25 samples at least: with fewer samples
        there are fewer bins.
    method : {"rising", "paper"}, default="rising"
        How γ is fitted. "rising" is the function above, in bins of the carved test samples. "paper"
        is P3's method: the isotonic regression alone, with all bins and one carving. Samples
        between which it is flat, all of them at worst, are no longer told apart. Its bins are those
        of the samples to evaluate, see `with_bins_of`; before these are known, of the carved ones.
    n_carvings : int or None, default=None
        How often the data are carved. None: three times, or once for the method of the paper. A
        splitter without a `random_state` carves once.

    Attributes
    ----------
    estimator_ : classifier
        Fitted on everything.
    isotonic_ : IsotonicRegression or None
        γ_iso, from the estimate to a gain in [0, 1]; None where there were too few samples to fit
        one.
    slope_ : float or None
        b; None for the method of the paper, and where there were too few samples. Where more data
        gained nothing, it is as if they had gained half a sample.
    carved_uncertainty_, carved_gain_ : ndarray of shape (n_carved,)
        What γ was fitted on: estimate and gain at the carved test samples.
    carved_weight_ : ndarray of shape (n_carved,)
        Weights of these samples.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.

    Warns
    -----
    UserWarning
        Where the carved samples are too few, where their estimates are equal, and where γ_iso is
        flat, as more data did not gain more where the estimate is larger. The rising γ keeps the
        order of the samples even so, but its size says nothing.

    Raises
    ------
    ValueError
        For an unknown `uncertainty` or `method`, an estimator that cannot be fitted anew, a
        class that is missing beside the balls.

    References
    ----------
    The evaluation and calibration of epistemic uncertainty estimates, section 4.3 (P3).

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn_lhcal.datasets import make_random_checkerboard
    >>> X, y = make_random_checkerboard(
    ...     3000, n_rows=10, n_columns=10, cell_std=0.25, random_state=0
    ... )
    >>> model = EpistemicCalibration(RandomForestClassifier(20, random_state=0)).fit(X, y)
    >>> model.predict_epistemic([[5.0, 5.0], [-9.0, 20.0]]).shape
    (2,)
    """

    estimator: Estimator
    _: KW_ONLY
    uncertainty: (
        Literal["mutual_information", "entropy"] | Callable[[Estimator, Samples], ArrayLike]
    ) = "mutual_information"
    splitter: AugmentedSplitter | None = None
    n_bins: int = 20
    method: Literal["rising", "paper"] = "rising"
    n_carvings: int | None = None

    @atomic
    def fit(
        self, X: Samples, y: LabelsLike, sample_weight: Weights = None, **fit_params: Any
    ) -> Self:
        """Carve the data, fit γ, and fit the classifier on everything, all or nothing.

        Parameters
        ----------
        X : array-like, frame or anything that has a length and whose rows can be indexed
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes. The columns of frames are sorted by name.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples, for the classifier and γ.
        **fit_params
            Goes to the classifier's fit, sample by sample where it has one entry per sample; with
            scikit-learn's metadata routing switched on, what the classifier requests.

        Returns
        -------
        self
        """
        self._check_parameters()
        X = check_samples(X)
        check_row_names(X=X, y=y, sample_weight=sample_weight)
        labels, _ = read_for_fit(self.estimator, X, y, fit_params)
        weight = check_sample_weight(sample_weight, len(labels))
        params, _ = self._routed(fit_params, weight)
        training = TrainingRows(X, labels, params.pop("sample_weight", None), params)
        labels.check_all_seen("y")
        learnt = self._carve(training, weight)
        model = training.fit(clone(self.estimator), np.arange(len(labels)), "y")
        self._keep(model, labels.classes, learnt)
        return self

    def _wrapped(self):
        return self.estimator

    def _check_parameters(self):
        inner = self.estimator
        while isinstance(inner, Pipeline):
            inner = inner.steps[-1][1]
        if isinstance(inner, (FrozenEstimator, PrecomputedClassifier)):
            raise ValueError(
                f"{type(inner).__name__} cannot be fitted anew, as EpistemicCalibration has to; "
                "pass the classifier itself."
            )
        if not hasattr(inner, "fit") or not hasattr(inner, "predict"):
            raise ValueError(
                f"estimator must be a classifier with fit and predict, got {self.estimator!r}."
            )

    def _carve(self, training: TrainingRows, weight) -> dict:
        """γ, estimates and gains."""
        parts = []
        if len(training.labels) >= self.n_bins:
            splitter = self.splitter
            if splitter is None:
                splitter = BallCarvingSplit(random_state=0)
            n = self.n_carvings or _CARVINGS[self.method]
            parts = _carvings(splitter, training.X, n, weight)
        none = np.empty(0, dtype=np.intp)
        test = np.concatenate([none, *(rows for *_, rows in parts)])
        isotonic = slope = None
        if len(test) < self.n_bins:
            warn(
                f"{len(test)} carved samples are too few for {self.n_bins} bins: predict_epistemic "
                "returns the estimate as it is. Give more data, a larger radius, or fewer bins."
            )
            e = g = w = np.empty(0)
        else:
            e, g = np.concatenate([self._observed(training, *part) for part in parts], axis=1)
            w = np.ones(len(test)) if weight is None else weight[test]
            n_bins = self.n_bins
            if self.method == "rising":
                n_bins = max(min(n_bins, len(e) // _LEAST_ROWS), 1)
                slope = float(max(w @ g, w.mean() / 2) / max(w @ e, 1e-300))
            isotonic = isotonic_map(e, g, n_bins, w, e)
            low, high = isotonic.predict([e.min(), e.max()])
            if e.min() == e.max():
                warn(
                    f"The estimate is {e[0]:.3g} for all carved samples, and so is "
                    "predict_epistemic; give a classifier with a predictive distribution, or "
                    'uncertainty="entropy".'
                )
            elif high - low < 1e-9:
                warn(
                    f"The fitted gain is flat at {low:.3g}: on {len(e)} carved samples more data "
                    "gained no more where the estimate is larger. Give more data."
                )
        found = {"carved_uncertainty_": e, "carved_gain_": g, "carved_weight_": w}
        return found | {"isotonic_": isotonic, "slope_": slope}

    def _observed(self, training: TrainingRows, train, augmented, test) -> tuple[Floats, Floats]:
        """Estimates and gains of test samples.

        From f_tr2, fitted beside the balls, and f_aug2, fitted on most of their samples too.
        """
        where = "the samples beside the balls"
        remedy = "a splitter with smaller or fewer balls"
        f_tr2 = training.fit(clone(self.estimator), train, where, remedy)
        f_aug2 = training.fit(clone(self.estimator), augmented, where, remedy)
        X_test = take_rows(training.X, test)
        labels = training.labels.take(test)
        predicted = (predicted_classes(f, X_test, labels.classes) for f in (f_tr2, f_aug2))
        before, after = (shares_of(labels, names) for names in predicted)
        return self._estimate(f_tr2, X_test), after - before

    def _estimate(self, model, X) -> Floats:
        """The estimate of each sample, uncalibrated."""
        if not callable(self.uncertainty):
            return getattr(predict_dist(model, X), self.uncertainty)()
        e = np.asarray(self.uncertainty(model, X), dtype=float)
        if e.ndim != 1 or not np.isfinite(e).all() or (e < 0).any():
            raise ValueError(
                "uncertainty must return one finite number per sample, at least 0; it returned an "
                f"array of shape {e.shape} between {e.min():.3g} and {e.max():.3g}."
            )
        return e

    def predict_epistemic(self, X: Samples) -> Floats:
        """Calibrated epistemic uncertainty, shape (n_samples,).

        The gain in accuracy to be expected from more data.
        """
        e = self.predict_uncalibrated(X)
        if self.isotonic_ is None:
            return e
        gamma = self.isotonic_.predict(e)
        if self.slope_ is not None:
            gamma = (1 - _LINE) * gamma + _LINE * self.slope_ * e
        # rounding may lead out of it
        return np.clip(gamma, 0.0, 1.0)

    def predict_uncalibrated(self, X: Samples) -> Floats:
        """The uncalibrated estimate, shape (n_samples,): nats, or the unit of the callable."""
        check_is_fitted(self, "estimator_")
        return self._estimate(self.estimator_, X)

    def with_bins_of(self, X: Samples) -> Self:
        """A copy whose map has bins with equal numbers of these samples, as published (P3 §5.2).

        `model_selection.evaluate_epistemic` calls it with the test samples. With other methods than
        "paper" the copy predicts the same.
        """
        e = self.predict_uncalibrated(X)
        model = copy(self)
        if self.method == "paper" and self.isotonic_ is not None:
            carved = self.carved_uncertainty_, self.carved_gain_
            model.isotonic_ = isotonic_map(*carved, self.n_bins, self.carved_weight_, e)
        return model

    def predict(self, X: Samples) -> NDArray:
        """The classifier's class of each sample, shape (n_samples,)."""
        check_is_fitted(self, "estimator_")
        return predicted_classes(self.estimator_, X, self.classes_)

    @available_if(_offers("predict_proba"))
    def predict_proba(self, X: Samples) -> Floats:
        """The classifier's class probabilities, shape (n_samples, n_classes)."""
        return self._outputs("predict_proba", X)

    @available_if(_offers("predict_log_proba"))
    def predict_log_proba(self, X: Samples) -> Floats:
        """Logarithm of `predict_proba`, shape (n_samples, n_classes)."""
        with np.errstate(divide="ignore"):
            return self._outputs("predict_log_proba", X)

    @available_if(_offers("decision_function"))
    def decision_function(self, X: Samples) -> Floats:
        """The classifier's decision function.

        Shape (n_samples,) for two classes, (n_samples, n_classes) for more.
        """
        return self._outputs("decision_function", X)

    @available_if(_offers("sample_proba"))
    def sample_proba(
        self, X: Samples, n_samples: int | None = None, random_state: Seed = None
    ) -> Floats:
        """The classifier's draws of class probabilities, shape (n_draws, n_samples, n_classes)."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.sample_proba(X, n_samples, random_state)

    def score(self, X: Samples, y: LabelsLike, sample_weight: Weights = None) -> float:
        """Expected accuracy on label histograms: larger is better, between 0 and 1.

        A label of a class that training never saw counts as wrong, as with scikit-learn's
        classifiers.
        """
        check_is_fitted(self, "estimator_")
        labels = labels_for(self, y)
        weight = weight_of(labels, X, y, sample_weight)
        return float(np.average(shares_of(labels, self.predict(X)), weights=weight))

    def _outputs(self, method: str, X):
        """What a method of the classifier returns, with columns in the order of the classes."""
        check_is_fitted(self, "estimator_")
        outputs = getattr(self.estimator_, method)(check_samples(X))
        if outputs.ndim == 1:
            return outputs
        return outputs[:, own_columns(self.estimator_, self.classes_)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # there are no distances to missing values
        tags.input_tags.allow_nan &= self.splitter is not None
        return tags


def _carvings(splitter, X, n: int, weight) -> list:
    """(train, augmented, test) of each carving, the first as the splitter makes it."""
    if not hasattr(splitter, "random_state"):
        n = 1
    elif n > 1:
        # carvings of one seed would be alike
        splitter = copy(splitter)
        splitter.random_state = check_random_state(splitter.random_state)
    parts = [splitter.split_augmented(X) for _ in range(n)]
    if weight is None:
        return parts
    return [(train, more, test[weight[test] > 0]) for train, more, test in parts]


def isotonic_map(e: Floats, g: Floats, n_bins: int, w: Floats, of: Floats) -> IsotonicRegression:
    """γ_iso: isotonic regression, on the estimate, of the mean gain in its bin (P3 §4.3).

    Bins hold equal numbers of other estimates, or of e.
    """
    bins = Bins(of[:, None], n_bins, "quantile").index(e[:, None])[:, 0]
    _, m = np.unique(bins, return_inverse=True)
    # γ̄_m of each sample
    gamma = (np.bincount(m, w * g) / np.bincount(m, w))[m]
    return IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(e, gamma, w)
