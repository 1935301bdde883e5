"""Scaling of logits, u' = W u + b in four families, and their mixture (P1 App. D.1, P4 §5)."""

from dataclasses import KW_ONLY, replace
from typing import ClassVar, Literal

import numpy as np

from .._base import _BaseCalibrator
from .._rows import CalibrationRows, parameters
from .fit import (
    as_read,
    fit_penalised,
    fit_shrunk,
    fit_temperature,
    mixing_probabilities,
    resolved_mixing,
    rows_for_fit,
    warn_of,
)
from .maps import BiasCorrectedMap, Family, FittedMap, MatrixMap, TemperatureMap, VectorMap
from .ordinal import FORMS, check_order
from .stack import StackedMap, fit_stack

# what is mixed in
Mixing = Literal["auto", "uniform", "prior"] | None


@parameters
class Scaling(_BaseCalibrator):
    """Mixing, warnings of calibration samples, predictions; a subclass fills `_fitted`."""

    _: KW_ONLY
    mixing: Mixing = "auto"
    # What to do about zeros, and about a search that did not end.
    _remedies = 'mixing="uniform"', "calibrate on more samples"

    def _fitted(self, rows: CalibrationRows, mixing: str | None) -> FittedMap | StackedMap:
        """What is fitted on samples of positive weight, with this mixing."""
        raise NotImplementedError

    def _fit_map(self, rows):
        mixing = resolved_mixing(self.mixing, rows)
        rows = rows_for_fit(rows, mixing)
        fitted = self._fitted(rows, mixing)
        warn_of(rows, fitted.maps, *self._remedies)
        return {"_fitted_map": fitted, **fitted.attributes()}

    def _map(self, rows):
        return rows.moved(self._log_z(rows))

    def _log_z(self, rows):
        return self._fitted_map.log_z(as_read(rows, self._fitted_map.pi).log_proba)


@parameters
class ShrunkScaling(Scaling):
    """One family of transforms, shrunk to the temperature."""

    _: KW_ONLY
    shrinkage: float | None = None
    _family: ClassVar[type[Family]]
    _remedies = 'mixing="uniform"', "raise shrinkage, or calibrate on more samples"

    def _fitted(self, rows, mixing):
        pi = mixing_probabilities(mixing, rows)
        _, alone = self._families()
        return self._fitted_from(fit_temperature(rows, pi, alone), rows)

    def _families(self) -> tuple[type[Family], type[Family]]:
        """The family, and that without what is shrunk."""
        return self._family, TemperatureMap

    def _fitted_from(self, below: FittedMap, rows: CalibrationRows) -> FittedMap:
        strengths = None if self.shrinkage is None else [_strength(self.shrinkage)]
        family, _ = self._families()
        return fit_shrunk(family(rows.n_classes), rows, below, strengths)


def _strength(shrinkage: float) -> tuple[float, float]:
    """Standard deviations of scales and biases: a unit of a bias is a tenth as unlikely."""
    sd = shrinkage**-0.5 if shrinkage else np.inf
    return sd, sd * 10**0.5


@parameters
class PublishedScaling(ShrunkScaling):
    """A family that may be fitted with the penalties of P1 in place of shrinkage."""

    _: KW_ONLY
    bias_penalty: float | None = None
    _family: ClassVar[type[VectorMap | MatrixMap]]
    _remedies = 'mixing="uniform"', "raise shrinkage or the penalty, or calibrate on more samples"

    def _check(self, one_model):
        given = self._penalties()
        if given and self.shrinkage is not None:
            raise ValueError(f"Give shrinkage or {' and '.join(given)}, not both.")

    def _penalties(self) -> dict:
        """Those that are given."""
        names = "off_diagonal_penalty", "bias_penalty"
        found = {name: getattr(self, name, None) for name in names}
        return {name: value for name, value in found.items() if value is not None}

    def _fitted_from(self, temperature, rows):
        penalties = self._penalties()
        if not penalties:
            below = temperature
            if self.shrinkage is None:
                below = fit_shrunk(BiasCorrectedMap(rows.n_classes), rows, temperature)
            return super()._fitted_from(below, rows)
        family = self._family(rows.n_classes)
        precision = family.published_precision(**penalties)
        return fit_penalised(family, rows, temperature, rows.weight.sum() * precision)


class TemperatureScaling(Scaling):
    """Divides the logits by one positive temperature, fitted on label histograms.

    ``u' = u/T``. T minimises the log loss of all labels plus ``½ (log T)²`` for one sample's worth
    of labels: a weak prior, which keeps T finite where labels are separable. The argmax of point
    predictions never changes. The method sees log-probabilities, so that ``"logits"`` and
    ``"proba"`` give the same model. Probabilities are clipped at 1e-12 first; with uniform mixing
    they are not.

    Around an ensemble (a forest, bagging, soft voting, several networks) T acts on the mean of its
    members, which is what the ensemble predicts. `predict_dist` keeps what a label says about the
    members, see `sklearn_lhcal.distributions.Mixture.with_mean`.

    Parameters
    ----------
    estimator : classifier, default=None
        What to calibrate: any scikit-learn classifier (None: LogisticRegression), a skorch net, a
        FrozenEstimator (then all data goes to calibration), another calibrator, or ``"logits"`` /
        ``"proba"`` where X holds the outputs of a model that ran elsewhere.
    mixing : {"auto", "uniform", "prior", None}, default="auto"
        Mixing with a fixed distribution π, so that no probability is 0: ``z = (1−e) softmax(u/T) +
        e π`` with a fitted e. π is uniform, or the shares of the classes among the labels. "auto":
        uniform where the classifier gives calibration samples probabilities of 0 (below 1e-12), as
        forests, nearest neighbours, naive Bayes and rounded files do; else None.
    cv : int, splitter, list of splits or "holdout", default=None
        How the classifier's out-of-fold predictions are made. None: what a wrapped calibrator says,
        else 5 folds. An int stratifies by majority label. "holdout": fit on 80%, calibrate that
        model on the rest, no refit.
    ensemble : bool, default=False
        Whether the folds' fits are kept, in place of a fit on all samples: the prediction is the
        mean of theirs, each calibrated. The calibrator has seen predictions of the folds' fits; a
        fit on all samples may be more overconfident, and boosters then overpredict a rare class.
        The mean is somewhat underconfident, and a classifier that gains much by more samples is
        better fitted on all.
    random_state : int, RandomState or None, default=None
        Seed of the holdout split.
    verbose : int, default=0
        Above 0: progress bars.

    Attributes
    ----------
    temperature_ : float
        T; above 1 where the classifier was overconfident.
    mixing_weight_ : float
        e, the weight of uniform mixing, where there is one.
    mixing_proba_ : ndarray of shape (n_classes,)
        π, the distribution mixed in, where there is one.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    estimator_ : classifier
        The fitted classifier.

    Warns
    -----
    UserWarning
        Where labels have probability 0 and there is no uniform mixing. Where the labels are
        separable, so that the prior alone bounds T. Where the weights, which count samples, sum to
        far less than the number of samples.
    ConvergenceWarning
        Where the search for the minimum did not end there, with the remedy.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger (2017), On calibration of modern neural networks. Zhang,
    Kailkhura and Han (2020), Mix-n-match: ensemble and compositional methods for uncertainty
    calibration, for a relative of uniform mixing.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0]] * 100)
    >>> counts = [[3, 1], [3, 1], [1, 3]] * 100
    >>> calibrator = TemperatureScaling("logits").fit(logits, counts)
    >>> calibrator.predict_proba(logits[:1]).round(2)
    array([[0.75, 0.25]])
    """

    def _fitted(self, rows, mixing):
        return fit_temperature(rows, mixing_probabilities(mixing, rows))


class BiasCorrectedTemperatureScaling(ShrunkScaling):
    """Divides the logits by one positive temperature after adding a bias to each class.

    ``u' = (u+b)/T``, for models whose class frequencies are off: by a shift of the label
    distribution, say. Biases are shrunk to 0, by standard deviations from 0.1 to 10, and
    temperatures as in `TemperatureScaling`.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `TemperatureScaling`.
    mixing : {"auto", "uniform", "prior", None}, default="auto"
        As in `TemperatureScaling`.
    shrinkage : float or None, default=None
        λ of the penalty ``λ/20 Σ (b/T)²``, in nats for all samples. None: by evidence, as in
        `VectorScaling`. 0: none.
    cv, ensemble, random_state, verbose
        As in `TemperatureScaling`.

    Attributes
    ----------
    temperature_ : float
        The temperature T.
    bias_ : ndarray of shape (n_classes,)
        b, with mean 0: a constant for all classes changes nothing.
    mixing_weight_, mixing_proba_
        As in `TemperatureScaling`.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    estimator_ : classifier
        The fitted classifier.

    Warns
    -----
    UserWarning, ConvergenceWarning
        As `TemperatureScaling` does.

    References
    ----------
    Alexandari, Kundaje and Shrikumar (2020), Maximum likelihood with bias-corrected calibration is
    hard-to-beat at label shift adaptation.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]] * 100)
    >>> counts = [[3, 1], [1, 1], [2, 1]] * 100
    >>> calibrator = BiasCorrectedTemperatureScaling("logits").fit(logits, counts)
    >>> calibrator.predict_proba(logits[2:3]).round(2)
    array([[0.64, 0.36]])
    """

    _family = BiasCorrectedMap


@parameters
class OrdinalScaling(ShrunkScaling):
    """Scales and shifts the logits of classes with an order: grades, scores, scales.

    "classwise": ``u'_k = a u_k + b_k`` of log-probabilities u, where b is shrunk to a line in k.
    It is for any classifier, and holds `TemperatureScaling` and
    `BiasCorrectedTemperatureScaling`. It is the default: over six ordinal problems
    (``benchmarks/lib/grades.py``) its log loss was 0.979, 0.960 and 0.956 times that of a
    temperature after 50, 200 and 1,000 samples, its ranked probability score 0.977, 0.963 and 0.960
    times. The cumulative form had 1.024, 1.014 and 1.013, and 1.001, 0.992 and 0.990.

    "cumulative": ``logit F'_j = a logit F_j + b``, where F_j is the probability of the classes up
    to j, a > 0, and b is common to all j, so that F' rises with j. It is for models of cumulative
    probabilities, such as proportional odds. An improbable class between probable ones stays
    improbable, and F = 0 and F = 1 stay what they are. So a temperature is better for most
    classifiers that do not know the order.

    The log loss of all labels is least, a convex problem. log a has the prior of the log
    temperature in `TemperatureScaling`, and so has the slope of the line. The common b, and how far
    b_k is off the line, are shrunk to 0 by the evidence, as in `VectorScaling`.

    The order of the classes is that of their numbers, of an ordered Categorical, of the
    ``classes=[…]`` of `Annotations` or of the classifier, or of columns without names. `classes_`
    has it.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `TemperatureScaling`.
    form : {"classwise", "cumulative"}, default="classwise"
        Which of the two.
    mixing : {"auto", "uniform", "prior", None}, default="auto"
        As in `TemperatureScaling`.
    shrinkage : float or None, default=None
        λ of the penalty, λ/20 times the sum of squares off the line, or ``λ/20 b²``, in nats for
        all samples. None: by evidence. 0: none.
    cv, ensemble, random_state, verbose
        As in `TemperatureScaling`.

    Attributes
    ----------
    scale_ : float
        a; below 1 where the classifier was overconfident.
    intercept_ : ndarray of shape (n_classes,), or float
        b_k, with mean 0; or the common b, above 0 where labels are lower than predicted.
    mixing_weight_, mixing_proba_
        As in `TemperatureScaling`.
    classes_ : ndarray of shape (n_classes,)
        Class names in their order.
    estimator_ : classifier
        The fitted classifier.

    Warns
    -----
    UserWarning, ConvergenceWarning
        As `TemperatureScaling` does.

    Raises
    ------
    ValueError
        Three classes or more of text without an order, an unknown form or `mixing`, a negative
        shrinkage.

    References
    ----------
    McCullagh (1980), Regression models for ordinal data, for such a model of cumulative logits.

    Examples
    --------
    >>> import numpy as np
    >>> proba = np.array([[0.1, 0.6, 0.3], [0.5, 0.4, 0.1]] * 100)
    >>> counts = [[2, 5, 1], [6, 2, 0]] * 100
    >>> calibrator = OrdinalScaling("proba").fit(proba, counts)
    >>> calibrator.predict_proba(proba[:2]).round(2)
    array([[0.24, 0.65, 0.11],
           [0.76, 0.22, 0.02]])
    """

    _: KW_ONLY
    form: Literal["classwise", "cumulative"] = "classwise"

    def _families(self):
        return FORMS[self.form]

    def _check_data(self, X, labels):
        check_order(labels, "OrdinalScaling")


class VectorScaling(PublishedScaling):
    """Scales and shifts the logit of each class: ``u' = v∘u + b``.

    Scales are shrunk to that of a common temperature, ``v = (1+d)/T``, and shifts to 0, so that
    few samples do not overfit. T is that beside shifts, of `BiasCorrectedTemperatureScaling`. The
    samples decide how much: the transform is the average over six strengths, weighted by their
    evidence. There five raters who always agree count as one sample,
    and five who label independently as five. It depends on a constant added to the logits of a
    sample, so it always sees log-probabilities. This deviates from P1; otherwise ``"logits"`` and
    ``"proba"`` would give two models.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `TemperatureScaling`.
    mixing : {"auto", "uniform", "prior", None}, default="auto"
        As in `TemperatureScaling`.
    shrinkage : float or None, default=None
        λ of the penalty ``λ/2 (Σ d² + Σ b²/10)``, in nats for all samples. None: by evidence. 0:
        none.
    bias_penalty : float or None, default=None
        λ_b of P1's penalty ``λ_b mean(b²)``, nats per label, in place of shrinkage.
    cv, ensemble, random_state, verbose
        As in `TemperatureScaling`.

    Attributes
    ----------
    scale_ : ndarray of shape (n_classes,)
        The factor v of each class.
    intercept_ : ndarray of shape (n_classes,)
        The shift b of each class.
    mixing_weight_, mixing_proba_
        As in `TemperatureScaling`.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    estimator_ : classifier
        The fitted classifier.

    Warns
    -----
    UserWarning, ConvergenceWarning
        As `TemperatureScaling` does.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger (2017), On calibration of modern neural networks; P1 App. D.1.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    >>> calibrator = VectorScaling("logits").fit(logits, [[3, 1], [1, 3], [2, 2]])
    >>> calibrator.predict_proba(logits[2:]).round(2)
    array([[0.5, 0.5]])
    """

    _family = VectorMap


@parameters
class MatrixScaling(PublishedScaling):
    """Any affine transform of the logits, ``u' = W u + b``.

    W is shrunk to that of the common temperature, ``W = (1+D)/T``, and b to 0, by the evidence, as
    in `VectorScaling`. Or both are penalised as P1 does. It sees log-probabilities, as there; with
    uniform mixing those after `BiasCorrectedTemperatureScaling` with that mixing.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `TemperatureScaling`.
    mixing : {"auto", "uniform", "prior", None}, default="auto"
        As in `TemperatureScaling`.
    shrinkage : float or None, default=None
        As in `VectorScaling`; the squares of D off the diagonal count K times.
    off_diagonal_penalty, bias_penalty : float or None, default=None
        λ_w and λ_b of P1's penalty ``λ_w ΣW_offdiag²/(K(K−1)) + λ_b mean(b²)`` (ODIR), nats per
        label, in place of shrinkage. None: shrinkage, or 0 where the other penalty is given.
    cv, ensemble, random_state, verbose
        As in `TemperatureScaling`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_classes)
        The matrix W.
    intercept_ : ndarray of shape (n_classes,)
        The shift b of each class.
    mixing_weight_, mixing_proba_
        As in `TemperatureScaling`.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    estimator_ : classifier
        The fitted classifier.

    Warns
    -----
    UserWarning, ConvergenceWarning
        As `TemperatureScaling` does.

    References
    ----------
    Kull, Perello Nieto, Kängsepp, Silva Filho, Song and Flach (2019), Beyond temperature scaling;
    P1 App. D.1.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    >>> calibrator = MatrixScaling("logits").fit(logits, [[3, 1], [1, 3], [2, 2]])
    >>> calibrator.predict_proba(logits[2:]).round(2)
    array([[0.5, 0.5]])
    """

    _family = MatrixMap

    _: KW_ONLY
    off_diagonal_penalty: float | None = None

    def _fitted(self, rows, mixing):
        if mixing is None:
            return super()._fitted(rows, None)
        # a matrix mixes logarithms, which must not come from zeros
        temperature = fit_temperature(rows, mixing_probabilities(mixing, rows))
        first = fit_shrunk(BiasCorrectedMap(rows.n_classes), rows, temperature)
        after = replace(rows, log_proba=first.log_z(rows.log_proba))
        return super()._fitted(after, None).after(first)


@parameters
class StackedCalibration(Scaling):
    """Mixes scalings of the logits and class frequencies, with weights that were found out of fold.

    ``z = Σ_m w_m z_m`` over `TemperatureScaling`, the class frequencies of the labels, which are
    the same in every sample, `BiasCorrectedTemperatureScaling`, `VectorScaling`, up to 21 classes
    `MatrixScaling`, and up to 83 classes a spline. Each scaling has uniform mixing. The weights
    minimise the log loss of predictions for samples that the scalings were not fitted on, a convex
    problem. A prior of half a sample favours the temperature where the others are no
    better.

    The temperature is shrunk towards 1, ``log T ← (1 − 1/(h log²T))₊ log T`` with 1/h about the
    variance of log T: few labels leave a model as it is that needs no temperature. Known
    probabilities hardly shrink it.

    The spline follows reliability curves that are no lines in log-odds, as of naive Bayes:
    ``u'_k = β_k u_k + b_k + f_k(o_k)`` of the log-odds o_k of each class after the bias-corrected
    method, with natural cubic splines f_k on six knots that all classes share. The evidence shrinks
    it to that method. It need not be monotone. Of fewer than 200 or 6 K (K + 1) samples the
    evidence shrinks the matrix to the temperature. Of more it is shrunk to the bias-corrected
    method, weakly, with standard deviations of 1 for scales and 3 for shifts.

    Three classes or more that are said to have an order, by an ordered Categorical or
    ``classes=[…]``, also have the cumulative form of `OrdinalScaling`; numbers alone may be names,
    and have not.

    Folds are random, by one fixed permutation of the sorted samples, so that their order does not
    matter. Folds with like labels would know each other's. Weights count samples, but a sample is
    in one fold. Copies of it may be in several, which favours scalings with many parameters: give a
    weight, not copies.

    Fits: five scalings on all samples, and five on each of the `inner_cv` folds.

    Parameters
    ----------
    estimator : classifier, default=None
        As in `TemperatureScaling`.
    mixing : {"auto", "uniform", "prior", None}, default="uniform"
        As in `TemperatureScaling`.
    inner_cv : int, default=5
        Number of folds for the weights, at least 2; no more than samples with one majority label.
    cv, ensemble, random_state, verbose
        As in `TemperatureScaling`.

    Attributes
    ----------
    weights_ : ndarray of shape (6,)
        w, in the order of `parameters_`, with sum 1. Of more than 21 classes without the matrix, of
        more than 83 without the spline; of classes that are said to have an order with one more.
    parameters_ : dict of dicts
        Parameters of the scalings, by the names "temperature", "frequencies", "bias_corrected",
        "vector", "matrix", "spline", "ordinal". The frequencies are those of a vector scaling whose
        scales are 0: the intercepts are their logarithms, of counts with one sample more, spread
        over all classes. The spline, and the matrix as said above, transform what another scaling
        predicts. f_k is the natural spline through ``curve_[k]`` at ``knots_``, a line beyond.
    mixing_weight_ : float
        Weight of the distribution mixed in, where there is one.
    mixing_proba_ : ndarray of shape (n_classes,)
        π, the distribution mixed in, where there is one.
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    estimator_ : classifier
        The fitted classifier.

    Warns
    -----
    UserWarning, ConvergenceWarning
        As `TemperatureScaling` does.

    Raises
    ------
    ValueError
        An unknown `mixing`, an `inner_cv` below 2.

    References
    ----------
    Wolpert (1992), Stacked generalization. Van der Laan, Polley and Hubbard (2007), Super learner.
    James and Stein (1961), Estimation with quadratic loss.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(600, overconfidence=3.0, random_state=0)
    >>> calibrator = StackedCalibration("proba").fit(data.prediction, data.counts)
    >>> calibrator.weights_.shape
    (6,)
    """

    _: KW_ONLY
    mixing: Mixing = "uniform"
    inner_cv: int = 5

    def _fitted(self, rows, mixing):
        return fit_stack(rows, mixing, self.inner_cv, self.verbose)[0]
