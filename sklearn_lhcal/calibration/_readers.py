"""Reader effects: what each rater will say, and what a new rater will say."""

import warnings
from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .._rows import Annotations, read_labels
from .._utils.arrays import Floats, Indices
from .._utils.checks import any_array, as_names, check_same_length, check_samples
from .._utils.names import positions
from .._utils.simplex import EPS, log
from .._utils.types import ArrayLike, LabelsLike, Samples, Seed, Verbose
from ..distributions import Distribution, Mixture, PointMass
from ._base import Calibrated, Cv, _BaseCalibrator
from ._reader_tilt import NewReader, Ratings, fit_effects, posterior, tilted
from ._rows import CalibrationRows

# Points that stand for a distribution of class probabilities without members.
_NODES = 32


class RaterEffects(_BaseCalibrator):
    """Adds to each prediction who is asked: readers differ in how readily they name a class.

    A reader r names class k with probability ``P(k) ∝ Q_k exp(b_rk)``, where Q are the class
    probabilities of the sample. The effects b are normal with standard deviation τ. They are fitted
    to the labels of each reader, Q being as uncertain as the classifier's `predict_dist` says.
    ``predict_proba(X, rater=...)`` is what this rater will say. Without `rater` it is what a new
    reader will say, with effects drawn at random. `predict_dist` is for new readers too: each label
    comes from a different one.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `TemperatureScaling`. Effects are 0 on average over readers, so put a scaling
        around a classifier that is not calibrated. Labels given to `predict_proba` tell more around
        an `AlphaCalibration`.
    effect_std : float or None, default=None
        τ, logits. None: the τ of the largest evidence, which is 0 where readers do not differ.
    cv, random_state, verbose
        As in `TemperatureScaling`.

    Attributes
    ----------
    raters_ : ndarray of shape (n_raters,)
        Names of the readers with labels among the calibration samples.
    effects_ : ndarray of shape (n_raters, n_classes)
        b, logits; above 0 where a reader names a class more readily than others.
    effect_std_ : float
        τ.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    estimator_ : classifier
        The fitted classifier.

    Warns
    -----
    UserWarning
        Where y does not say who gave the labels, or nobody gave two: all effects are then 0.

    Notes
    -----
    Readers are exchangeable, and their labels of a sample independent given Q. A reader's effect is
    the same in every sample. Where Q has no closed sum, 32 nodes stand for it, see
    `sklearn_lhcal.distributions.Distribution.nodes`.

    References
    ----------
    Skene and Wakefield (1990), Hierarchical models for multicentre binary response studies; a
    multinomial logit with random intercepts of readers, around given class probabilities.

    Examples
    --------
    >>> from sklearn_lhcal.label_histogram import Annotations
    >>> proba = np.full((40, 2), 0.5)
    >>> said = [["a", "b", ["a", "b"][i % 2]] for i in range(40)]
    >>> y = Annotations.from_matrix(said, raters=["Ann", "Bob", "Cem"])
    >>> model = RaterEffects("proba", effect_std=1.0).fit(proba, y)
    >>> model.predict_proba(proba[:3], rater=["Ann", "Bob", "Cem"]).round(2)
    array([[0.96, 0.04],
           [0.04, 0.96],
           [0.5 , 0.5 ]])
    """

    def __init__(
        self,
        estimator: Calibrated = None,
        *,
        effect_std: float | None = None,
        cv: Cv = None,
        random_state: Seed = None,
        verbose: Verbose = 0,
    ) -> None:
        super().__init__(estimator, cv=cv, random_state=random_state, verbose=verbose)
        self.effect_std = effect_std

    def _fit_map(self, rows):
        ratings, raters = _ratings(rows)
        if ratings is None:
            effects = np.zeros((0, rows.n_classes))
            return {"raters_": raters, "effects_": effects, "effect_std_": 0.0}
        effects, spread = fit_effects(ratings, self.effect_std)
        return {"raters_": raters, "effects_": effects, "effect_std_": spread}

    def _map(self, rows):
        return self._asked(rows.whole, None)

    def _asked(self, Q: Distribution, reader: Indices | None) -> Distribution:
        """Class probabilities of the reader of each sample; of new ones, −1 or None."""
        if self.effect_std_ == 0:
            return Q
        if isinstance(Q, PointMass):
            return PointMass.of_checked(self._said(Q.mean(), reader))
        return self._at_nodes(*Q.nodes(_NODES), reader)

    def _at_nodes(self, nodes: Floats, weights: Floats, reader: Indices | None) -> Distribution:
        z = self._said(nodes, reader)
        return Mixture.of(PointMass.of_checked(z.reshape(-1, z.shape[2])), log(weights))

    def _said(self, Q: Floats, reader: Indices | None) -> Floats:
        """What is said where class probabilities are Q, (n, K) or (S, n, K)."""
        if reader is None:
            reader = np.full(Q.shape[-2], -1)
        if self.effect_std_ == 0:
            return Q
        new = reader < 0
        z = np.empty_like(Q)
        if new.any():
            z[..., new, :] = NewReader(self.effect_std_)(Q[..., new, :])
        if not new.all():
            z[..., ~new, :] = tilted(Q[..., ~new, :], self.effects_[reader[~new]])
        return z

    def predict_proba(
        self, X: Samples, rater: ArrayLike | None = None, given: LabelsLike | None = None
    ) -> Floats:
        """What the next reader of each sample will say, shape (n_samples, n_classes).

        Parameters
        ----------
        X : as in `fit`
        rater : object or array-like of shape (n_samples,), optional
            Who is asked: the name of one reader, or one name a sample, each in `raters_`. None: a
            new reader.
        given : Annotations or label histogram of shape (n_samples, n_classes), optional
            What has been said of these samples already, and by whom. A sample may be without
            labels. Readers that are not in `raters_`, and those of a histogram, are new.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)

        Raises
        ------
        ValueError
            An unknown reader, lengths that differ.
        """
        return np.array(self.predict_dist(X, rater, given).mean())

    def predict_dist(
        self, X: Samples, rater: ArrayLike | None = None, given: LabelsLike | None = None
    ) -> Distribution:
        """Distribution of the class probabilities of the reader asked, a batch of n_samples.

        Parameters
        ----------
        X, rater, given
            As in `predict_proba`.

        Returns
        -------
        Distribution
            Without `rater` each label comes from a different new reader, so ``disagreement`` is
            that of two new readers.
        """
        check_is_fitted(self, "estimator_")
        X = check_samples(X)
        Q = CalibrationRows.predicted(self.estimator_, X, self.classes_).whole
        reader = self._numbers(rater, len(Q))
        if given is None:
            with np.errstate(under="ignore"):
                return self._asked(Q, reader).with_classes(self.classes_)
        nodes, weights = self._after(Q, given)
        return self._at_nodes(nodes, weights, reader).with_classes(self.classes_)

    def _numbers(self, rater, n: int) -> Indices | None:
        """The number of the reader of each sample."""
        if rater is None:
            return None
        names = any_array(rater, "rater")
        if names.ndim:
            names = as_names(names, "rater")
            check_same_length(n, rater=names)
        elif not isinstance(rater, Hashable):
            raise ValueError(f"rater must hold names of readers, got {type(rater).__name__}.")
        names = np.broadcast_to(names, n)
        numbers = positions(names, self.raters_)
        unknown = sorted(set(names[numbers < 0].tolist()), key=str)
        if unknown:
            raise ValueError(
                f"rater: {unknown[:5]} gave no labels at fit; known are "
                f"{self.raters_.tolist()[:20]}. Leave rater out to ask a new reader."
            )
        return numbers

    def _after(self, Q: Distribution, given) -> tuple[Floats, Floats]:
        """Nodes of the class probabilities and their weights, after labels that were given."""
        nodes, weights = Q.nodes(_NODES)
        labels = read_labels(given, empty_rows=True).in_order(self.classes_)
        check_same_length(len(Q), given=labels)
        if labels.known:
            raise ValueError("given holds known probabilities; pass counts or Annotations.")
        if not isinstance(labels, Annotations):
            labels = Annotations.from_counts(labels)
            reader = np.full(len(labels.rater), -1)
        else:
            reader = positions(labels.raters, self.raters_)[labels.rater]
        rated = np.flatnonzero(labels.n > 0)
        if not len(rated):
            return nodes, weights
        z = self._said(np.maximum(nodes[:, labels.row], EPS), reader)
        log_p = np.log(np.take_along_axis(z, labels.label[None, :, None], axis=2)[..., 0])
        indptr = labels.indptr[np.append(rated, rated[-1] + 1)]
        weights[:, rated] = posterior(log(weights[:, rated]), log_p, indptr)[0]
        return nodes, weights


def _ratings(rows: CalibrationRows) -> tuple[Ratings | None, NDArray]:
    """Who said what of rows of positive weight, and the readers; None where effects are unknown."""
    labels = rows.labels
    nobody = np.empty(0)
    if not isinstance(labels, Annotations):
        _warn("y does not say who gave the labels; pass Annotations.")
        return None, nobody
    seen = rows.weight > 0
    rows = rows.take(seen)
    labels = labels.take(np.flatnonzero(seen))
    number, reader = np.unique(labels.rater, return_inverse=True)
    if len(number) == len(labels.rater):
        _warn("No reader gave two labels.")
        return None, nobody
    nodes, weights = rows.whole.nodes(_NODES)
    said = (labels.indptr, reader, labels.label.astype(np.intp))
    ratings = Ratings(nodes, log(weights), *said, rows.weight, len(number))
    return ratings, labels.raters[number]


def _warn(why: str) -> None:
    warnings.warn(f"{why} All effects of readers are 0.", stacklevel=6)
