"""α-calibration: how sure a model is of its class probabilities (P1 §5.3, App. D.2)."""

from dataclasses import KW_ONLY, replace
from functools import partial
from typing import Literal

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from .._rows import parameters
from .._utils.arrays import in_blocks
from .._utils.checks import as_features, warn
from .._utils.simplex import entropy, gini
from .._utils.types import Floats, Mask
from ..distributions import Dirichlet, Mixture
from ._alpha_fit import (
    MAX_LOG_TOTAL,
    Concentration,
    Objective,
    check_means,
    dirichlet_multinomial,
    do_features_pay,
    is_any_spread_left,
    pairwise,
    standardised,
)
from ._base import _BaseCalibrator
from ._rows import CalibrationRows
from ._scaling.scalings import StackedCalibration

_LIKELIHOODS = {
    "dirichlet_multinomial": (dirichlet_multinomial, 5e-3),
    "pairwise": (pairwise, 5e-4),
    "paper": (dirichlet_multinomial, 5e-3),
}
_RANGE = (-MAX_LOG_TOTAL, MAX_LOG_TOTAL)
# Values of log α0 that findings are compared at; above 12 it cannot be told from infinity.
GRID = np.arange(-4.0, 12.1, 0.2)


@parameters
class AlphaCalibration(_BaseCalibrator):
    """Adds to each prediction a Dirichlet distribution around it: how far it can be trusted.

    The class probabilities z stay as they are. The total concentration ``α0 = exp(w·h + c)``
    depends on features h of the sample. It is fitted on the labels of several raters. A large α0
    says that the sample is known to be ambiguous: raters will be split as z says. A small α0 says
    that raters would agree, and that only the model is unsure.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `TemperatureScaling`, but None is `StackedCalibration()`, which calibrates z first.
        The loss of the predicted disagreement was then smaller than around a temperature.
    features : None, "logits", layer name, callable or transformer, default=None
        h. None: log(1−Σz²) and the entropy of z, which do not depend on the order of the classes.
        "logits": the log-probabilities. Any other word names a layer of the torch network at the
        bottom: its outputs, averaged over positions. This needs one network, so a FrozenEstimator
        or ``cv="holdout"``. A callable maps X to an array of shape (n_samples, n_features); a
        transformer is cloned and fitted on the calibration samples. All are standardised.
    likelihood : {"pairwise", "dirichlet_multinomial", "paper"}, default="pairwise"
        What is maximised. "pairwise" is the composite likelihood of pairs of raters.
        "dirichlet_multinomial" is P1's likelihood of the histogram, which many raters per sample
        distort. The validation pages show by how much. "paper" is P1's method: the same likelihood,
        features always, and a penalty on samples with one label too. Its features are the last
        hidden layer, ``AlphaCalibration(net, features=layer, likelihood="paper")``.
    penalty : float or None, default=None
        λ_α, weight of ``mean (log α0)²``, nats per sample. A positive one keeps α0 finite. None:
        5e-4 for pairs; P1's 5e-3 for histograms, since a sample then carries more information; and
        where a constant α0 is fitted to labels whose frequencies do not vary around z, none, so
        that α0 is infinite.
    fallback : bool or None, default=None
        Whether features are used only where they pay: where they predict left-out calibration
        samples better than a constant α0 does, in five folds. With more than 5,000 samples and 50
        samples a parameter, features cost next to nothing and are kept. False: features always.
        None: True, but False for the method of the paper.
    cv, ensemble, random_state, verbose
        As in `TemperatureScaling`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        w, for the standardised features; 0 where α0 is constant.
    intercept_ : float
        The c of log α0.
    feature_mean_, feature_scale_ : ndarray of shape (n_features,)
        What standardises the features.
    uses_members_ : bool
        Around an ensemble: whether each member has a Dirichlet distribution, or their mean one,
        whichever makes the labels likelier. `predict_dist` is a mixture in both cases.
    is_infinite_ : bool
        Whether α0 is infinite (1e12): no penalty is given, and the likelihood of a constant α0
        still rises there, as raters disagree as often as z says. All spread is then in z.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    estimator_ : classifier
        The fitted classifier.

    Warns
    -----
    UserWarning
        Where no calibration sample has two labels: α0 is then 1, since single labels say nothing
        about it. Where α0 is infinite by default (`is_infinite_`). Where raters disagree more often
        than 1−Σz², which no α0 can mend, since it only lowers the predicted disagreement. Five bins
        of samples predicted alike are compared; the excess must be three standard errors, and a
        tenth of all disagreement. The class probabilities are then not calibrated, or the raters
        are not exchangeable.

    Notes
    -----
    Samples with one label are left out of the fit, as they only add penalty; "paper" keeps them.

    References
    ----------
    Mimori, Sasada, Matsui and Sato (2021), Diagnostic uncertainty calibration, eq. (19) and (50).

    Examples
    --------
    >>> import numpy as np
    >>> proba = np.array([[0.5, 0.5]] * 4)
    >>> counts = [[2, 0], [0, 2], [1, 1], [2, 0]]
    >>> dist = AlphaCalibration("proba", penalty=0.0).fit(proba, counts).predict_dist(proba[:1])
    >>> dist.disagreement().round(3)  # one pair of four disagrees
    array([0.25])
    """

    _default = StackedCalibration
    # Whether it is of one of several findings, which tell each other what c is: `PerFinding` says
    # so, and a fit then keeps how likely each c of `GRID` is.
    _is_one_of_several = False

    _: KW_ONLY
    features: object = None
    likelihood: Literal["pairwise", "dirichlet_multinomial", "paper"] = "pairwise"
    penalty: float | None = None
    fallback: bool | None = None

    def _check(self, one_model):
        is_named = isinstance(self.features, str)
        if is_named and self.features != "logits" and not one_model:
            raise ValueError(
                f"features={self.features!r} names a layer of one network, but each fold trains "
                'its own; use FrozenEstimator(net), or cv="holdout".'
            )
        known = self.features is None or is_named or callable(self.features)
        if not known and not hasattr(self.features, "transform"):
            raise ValueError(
                'features must be None, "logits", a layer name, a callable or a transformer, got '
                f"{self.features!r}."
            )

    def _fit_map(self, rows):
        feature_map = self.features
        if hasattr(feature_map, "transform"):
            feature_map = clone(feature_map).fit(rows.X)
        several = self._informative(rows)
        # single labels add penalty alone
        kept = rows.weight > 0 if self.likelihood == "paper" else several
        kept = slice(None) if kept.all() else kept
        members = rows.of_members()
        if not several.any():
            h, standard = _standardised(members, feature_map)
            one = Concentration.constant(0.0, h.shape[-1])
            learnt = _stored(one, members) | standard
            if self._is_one_of_several:
                return learnt | {"losses_": np.zeros(len(GRID))}
            warn(
                "No calibration sample has two labels, so α0 is set to 1. "
                "Calibrate on samples with two raters or more."
            )
            return learnt
        total = self._objective(0.0).total
        fits = []
        for some in [members, rows] if members.is_ensemble else [rows]:
            h, standard = _standardised(some, feature_map)
            some = replace(some, X=None, prediction=None).take(kept)
            h = h[kept]
            fit = self._chosen(some, h)
            loss = total(some, fit.log_total(h))
            fits.append((loss, fit, some, h, standard))
        # members that always agree with themselves, as trees do, know less than their mean
        _, fit, rows, h, standard = min(fits, key=lambda one: one[0])
        are_sharp = check_means(rows.take(several[kept]))
        learnt = _stored(fit, rows) | standard
        if self._is_one_of_several:
            lines = (fit._replace(intercept=c) for c in GRID.tolist())
            losses = np.array([total(rows, line.log_total(h)) for line in lines])
            return learnt | {"losses_": losses}
        if learnt["is_infinite_"] and self.penalty is None and not are_sharp:
            warn(
                "Raters disagree as often as the class probabilities say, so α0 is infinite "
                "(1e12): predictions are point masses. A penalty, 5e-4 say, makes α0 finite."
            )
        return learnt

    def _informative(self, rows) -> Mask:
        """Samples with two labels or more, and a positive weight."""
        if not rows.known:
            return (rows.counts.sum(axis=1) > 1) & (rows.weight > 0)
        if self.likelihood != "pairwise":
            raise ValueError(
                'KnownProbabilities have no histogram likelihood; use likelihood="pairwise".'
            )
        return rows.weight > 0

    def _chosen(self, rows, h) -> Concentration:
        """With features (n, …, f) where they pay on samples that are left out, else constant."""
        fallback = self.fallback
        if fallback is None:
            fallback = self.likelihood != "paper"
        # A part of the samples may be separable: without a penalty it has no optimum.
        penalty = self.penalty or None
        fits = [partial(fit, penalty=penalty) for fit in (self._featured, self._constant)]
        if not fallback or do_features_pay(rows, h, self._objective(0.0), fits):
            return self._featured(rows, h, self.penalty)
        return self._constant(rows, h, self.penalty)

    def _featured(self, rows, h, penalty) -> Concentration:
        """The optimum of w and c."""
        return self._objective(penalty).fitted(rows, h)

    def _constant(self, rows, h, penalty) -> Concentration:
        """The optimum of c; infinite without a penalty where labels are as alike as z says."""
        objective = self._objective(penalty)
        c = MAX_LOG_TOTAL
        if self.penalty or is_any_spread_left(rows, objective.likelihood):
            no_features = np.empty((*h.shape[:-1], 0))
            c = objective.fitted(rows, no_features).intercept
        return Concentration.constant(c, h.shape[-1])

    def _objective(self, penalty: float | None) -> Objective:
        """With the penalty that is asked for, or that of the likelihood."""
        likelihood, default = _LIKELIHOODS[self.likelihood]
        return Objective(likelihood, float(default if penalty is None else penalty))

    def _map(self, rows):
        if not self.uses_members_:
            # Unclipped; where it is 0, a label of that class stays possible.
            z = np.maximum(rows.whole.mean(), 1e-300)
            dist = Dirichlet.of_checked(z, self._log_total(rows))
            if not isinstance(rows.prediction, Mixture):
                return dist
            return Mixture.of(dist, np.zeros((1, len(rows))))
        rows = rows.of_members()
        z = np.exp(np.moveaxis(rows.log_proba, 1, 0)).reshape(-1, rows.n_classes)
        parts = Dirichlet.from_log_total(z, self._log_total(rows).T.ravel())
        return Mixture.of(parts, rows.log_weights.T)

    def _log_total(self, rows):
        """log α0 of each sample, (n,), or of each member, (n, S)."""
        fit = Concentration(self.coef_, self.intercept_)
        if not self.coef_.any():
            # No feature is looked at.
            return np.full(rows.log_proba.shape[:-1], np.clip(fit.intercept, *_RANGE))
        h = _features(rows, self.feature_map_)

        def of_rows(some):
            return fit.log_total((h[some] - self.feature_mean_) / self.feature_scale_)

        return in_blocks(of_rows, len(h), h[0].size)


def _stored(fit: Concentration, rows: CalibrationRows) -> dict:
    infinite = fit.intercept == MAX_LOG_TOTAL and not fit.coef.any()
    stored = {"coef_": fit.coef, "intercept_": fit.intercept}
    return stored | {"is_infinite_": infinite, "uses_members_": rows.is_ensemble}


def _standardised(rows: CalibrationRows, feature_map) -> tuple[Floats, dict]:
    """Standardised features, and what standardises them."""
    h, mean, scale = standardised(_features(rows, feature_map))
    standard = {"feature_mean_": mean, "feature_scale_": scale}
    return h, standard | {"feature_map_": feature_map}


def _features(rows: CalibrationRows, feature_map) -> Floats:
    """h of the samples, shape (n, n_features), or (n, S, n_features) for members."""
    u = rows.log_proba
    if feature_map is None:
        z = np.exp(u)
        return np.stack([np.log(np.maximum(gini(z), 1e-6)), entropy(z)], axis=-1)
    if feature_map == "logits":
        return u
    if isinstance(feature_map, str):
        from ..neural_network import LayerFeatures

        layer = LayerFeatures(FrozenEstimator(rows.model), feature_map)
        h = layer.fit(rows.X).transform(rows.X)
    else:
        features = getattr(feature_map, "transform", feature_map)
        h = as_features(features(rows.X), rows.X, "AlphaCalibration")
    if not rows.is_ensemble:
        return h
    return np.broadcast_to(h[:, None], (*u.shape[:2], h.shape[1]))
