"""Calibration over time: two e-processes that bet against a model."""

from math import log
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import logsumexp

from ..._rows import PredictionLike, Rows, read_rows
from ..._utils.arrays import row_blocks
from ..._utils.checks import checked
from ..._utils.results import result
from ..._utils.types import Floats, LabelsLike, NDArray
from .._disagreement import pair_rates

# the stakes λ, and the least log-probability in a residual
_STAKES = np.array([-0.8, -0.4, -0.2, -0.1, 0.1, 0.2, 0.4, 0.8])
_LEAST_LOG = -4.0
# points of a history
_MOST_POINTS = 200


@result
class MonitorHistory(NamedTuple):
    """The e-processes of a `CalibrationMonitor` over time.

    Attributes
    ----------
    sample : ndarray of shape (n_points,)
        Numbers of samples, from 1 on: at most 201, evenly spaced, and the latest one.
    log_e : ndarray of shape (n_points,)
        Natural logarithm of the e-value of the class means behind each of these samples.
    log_e_disagreement : ndarray of shape (n_points,)
        The same of the predicted disagreement.
    """

    sample: NDArray
    log_e: NDArray
    log_e_disagreement: NDArray


class _EProcess(NamedTuple):
    """The log of what each bet has won, shape (n_residuals, 8); and the sample of the alarm."""

    won: Floats
    alarm: int | None = None


class CalibrationMonitor:
    """Says when a model in use has stopped being calibrated, however often one looks.

    Two e-processes bet against the model, sample by sample, in the order of time. The expected
    e-value is at most 1 as long as the model is calibrated; it grows when the model is not. The
    first sample at which an e-value reaches 1/α is the alarm, which stays. Whether one looks after
    each sample or once a year, a process ever gives a false alarm with probability α at most.

    **What an alarm means.** `alarm`: labels no longer agree with the class probabilities; the
    model, the cases or the raters changed. `disagreement_alarm` alone: how often two raters
    disagree changed, while class means were not seen to. More cannot be told apart. Each
    process has its own α; halve α where either alarm stops a service.

    **Conditions.** The guarantee needs all of them.

    - Samples come in the order of time, or in any order that was fixed without looking at labels.
      That holds for labels that arrive late, too: keep the order of the predictions.
    - Whether a sample is labelled depends on its prediction and on earlier samples only; for the
      disagreement, also whether it gets two labels. Samples without labels do not count.
    - How many labels a sample has may depend on its features, never on its labels. Where a
      third rater is asked because two disagree, give the first two labels of each sample.
    - Given the past, the mean of each residual is within its tolerance of 0. For the class means,
      the labels of one sample may depend on each other in any way.
    - Residuals of later samples do not depend on earlier ones. Raters who have habits of their own
      and read many samples break this, and so do several samples of one patient. Give one sample of
      each patient. Where the same few raters go on reading, set the tolerance to how far their
      mean label may lie from that of other raters: 0.05 held for five raters of whom each names
      classes of his own liking in a fifth of the samples, and 0.01 did not.
    - A prediction was made before the labels of its sample were seen. A model that is fitted
      again may go on in the same monitor.

    Parameters
    ----------
    alpha : float, default=0.05
        Probability of a false alarm of a process, ever: between 0 and 1. Not used with `mean_run`.
    tolerance : float, default=0.01
        How far the mean of a residual may be from 0, a probability from 0 to 0.25: a fitted
        calibrator is never exact, and with 0 nearly any model is found wrong in the end. A class
        whose mean prediction so far is below 0.1 has less: ten times that share of it, so that a
        class of 3% that becomes twice as frequent is found.
    mean_run : int, optional
        Makes it a detector for endless use: each sample starts a new bet, and the sum of all of
        them alarms at this threshold. False alarms are then `mean_run` samples or more apart on
        average, and `alpha` plays no part. A change after a long time is found sooner.
    disagreement_tolerance : float, default=0.01
        The tolerance of the predicted disagreement.

    Attributes
    ----------
    n_samples : int
        How many samples with labels it has seen.
    e_value, disagreement_e_value : float
        The e-values now, at least 0; of a detector, its sums, which are 0 at first. Infinite above
        1e308.
    alarm, disagreement_alarm : int or None
        The number of the sample, from 1 on, at which the threshold was reached; None before.
    history : MonitorHistory
        The logarithms of both e-values over time.
    threshold : float
        1/α, or `mean_run`.

    Raises
    ------
    ValueError
        Arguments out of their range.

    See Also
    --------
    sklearn_lhcal.display.MonitorDisplay : Draws the history.
    null_calibration_error : A test of calibration on a fixed number of samples.

    Notes
    -----
    ``E_t`` is the mean over residuals x and stakes λ of ``Π_{s≤t} (1 + λ(x_s − ε_s sign λ))``, λ in
    ±{0.1, 0.2, 0.4, 0.8}. Residuals of class means are ``x_s = ⟨f(z_s), μ̂_s − z_s⟩``, f the
    indicator of each class or ``max(log z, −4)/4``, so that ``|x| ≤ 1``. ε is the tolerance, for
    the indicator of class k times ``min(1, 10 z̄_sk)``, z̄_s the mean of z up to s. The residual of
    disagreement is the share of pairs of labels that differ minus what is predicted, of samples
    with two labels or more. Under ``|E[x_s | past]| ≤ ε_s`` each product is a non-negative
    supermartingale, and Ville's inequality bounds its maximum. A detector has
    ``M_t = (M_{t−1} + 1)(1 + λ(x_t − ε_t sign λ))`` in place of each product (Shin et al. 2023).
    Its runs are counted in the samples that its process uses.

    Without `mean_run`, each calibrated sample lowers the e-value a little, and a change after many
    thousands of them is found late. Monitors cannot be merged.

    Class probabilities in an array predict the disagreement ``1 − Σ z_k²``, which is too much for
    most calibrated models. Give a `Distribution`, as of `AlphaCalibration`, or ignore the second
    alarm. A sample costs O(K) time. Memory does not grow with samples: it is some kilobytes, and 64
    bytes a class. There are no weights: a false alarm is about this sequence of samples.

    References
    ----------
    Shafer, G. (2021). Testing by betting. JRSS A 184, 407-431.
    Shin, J., Ramdas, A. and Rinaldo, A. (2023). E-detectors: a nonparametric framework for
    sequential change detection. NEJSDS 2, 229-260.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(1000, overconfidence=2.0, random_state=0)
    >>> monitor = CalibrationMonitor()
    >>> for rows in (slice(0, 400), slice(400, 1000)):
    ...     seen = monitor.update(data.counts[rows], data.prediction[rows])
    >>> monitor.n_samples, monitor.alarm
    (1000, 140)
    >>> isinstance(monitor.history, MonitorHistory)
    True
    """

    @checked
    def __init__(
        self,
        alpha: float = 0.05,
        tolerance: float = 0.01,
        mean_run: int | None = None,
        *,
        disagreement_tolerance: float = 0.01,
    ) -> None:
        self.alpha = alpha
        self.tolerance = tolerance
        self.mean_run = mean_run
        self.disagreement_tolerance = disagreement_tolerance
        self.n_samples = 0
        self._classes: NDArray | None = None
        self._means = self._fresh(1)
        self._pairs = self._fresh(1)
        # Σ_s z_sk
        self._predicted: Any = 0.0
        # number of the sample, and log E of both processes
        self._points = np.empty((0, 3))

    def __repr__(self) -> str:
        return (
            f"CalibrationMonitor(n_samples={self.n_samples}, e_value={self.e_value:.4g}, "
            f"alarm={self.alarm}, disagreement_e_value={self.disagreement_e_value:.4g}, "
            f"disagreement_alarm={self.disagreement_alarm})"
        )

    @property
    def threshold(self) -> float:
        """The value at which a process alarms."""
        return 1 / self.alpha if self.mean_run is None else float(self.mean_run)

    @property
    def e_value(self) -> float:
        """The e-value of the class means."""
        return _exp(self._log_e[0])

    @property
    def disagreement_e_value(self) -> float:
        """The e-value of the predicted disagreement."""
        return _exp(self._log_e[1])

    @property
    def alarm(self) -> int | None:
        """The sample at which the class means alarmed."""
        return self._means.alarm

    @property
    def disagreement_alarm(self) -> int | None:
        """The sample at which the predicted disagreement alarmed."""
        return self._pairs.alarm

    @property
    def history(self) -> MonitorHistory:
        """Both processes over time."""
        points = self._points
        if self.n_samples and (not len(points) or points[-1, 0] < self.n_samples):
            points = np.vstack([points, [self.n_samples, *self._log_e]])
        return MonitorHistory(points[:, 0].astype(int), *points[:, 1:].T)

    def update(self, y: LabelsLike, prediction: PredictionLike) -> Self:
        """Add the next samples, in the order of time. Returns itself.

        One update of many samples is the same as many updates of one. An error leaves everything
        as it was.

        Parameters
        ----------
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes. `Annotations` may have samples without labels, which do
            not count. `KnownProbabilities` count as infinitely many labels.
        prediction : Distribution, or array-like of shape (n_samples, n_classes) or (n_samples,)
            What the model predicted before the labels were seen. Its classes are those of the
            first update: named ones meet by name.

        Returns
        -------
        monitor : CalibrationMonitor

        Raises
        ------
        ValueError
            Labels or predictions that are none; other classes than before.

        Warns
        -----
        AdjudicatedRatingsWarning
            Samples on which raters disagree have more labels.
        """
        rows = self._fitting(read_rows(y, prediction))
        rows.labels.warn_if_adjudicated()
        n, points = self.n_samples, self._points
        K = rows.labels.shape[1]
        means = self._means if n else self._fresh(K + 1)
        pairs = self._pairs
        # ε_k = tolerance·min(1, 10 z̄_k), of predictions alone; of log z the tolerance
        number = n + 1 + np.arange(len(rows))
        predicted = self._predicted + np.cumsum(rows.z, axis=0)
        share = np.minimum(10 * predicted / number[:, None], 1)
        epsilon = self.tolerance * np.pad(share, [(0, 0), (0, 1)], constant_values=1)
        for block in row_blocks(len(rows), means.won.size):
            part = rows.take(block)
            sample = number[block]
            two = np.flatnonzero(part.n >= 2)
            means, log_e = self._bet(means, _residuals(part), epsilon[block], sample)
            seen = part.take(two)
            # observed minus predicted
            e = pair_rates(seen) - seen.distribution.disagreement()[:, None]
            pairs, of_pairs = self._bet(pairs, e, self.disagreement_tolerance, sample[two])
            # the other samples leave the second process where it is
            steps = np.cumsum(part.n >= 2)
            new = np.column_stack([sample, log_e[1:], of_pairs[steps]])
            points = _thinned(np.vstack([points, new]), sample[-1])
        self._means, self._pairs, self._points = means, pairs, points
        self._predicted, self.n_samples = predicted[-1], n + len(rows)
        if rows.classes is not None:
            self._classes = rows.classes
        return self

    def _fitting(self, rows: Rows) -> Rows:
        """The samples in the order of the classes of the first update."""
        if not self.n_samples:
            return rows
        rows = rows.in_order(self._classes, "the first one")
        K = rows.labels.shape[1]
        known = len(self._means.won) - 1
        if known != K:
            raise ValueError(
                f"y and prediction have {K} classes, but the first update had {known}; give a "
                "model with other classes another monitor."
            )
        return rows

    @property
    def _log_e(self) -> list[float]:
        """log E of both processes: the mean over bets."""
        return [float(_log_mean(e.won[None])[0]) for e in (self._means, self._pairs)]

    def _fresh(self, n_residuals: int) -> _EProcess:
        """A process before the first sample: E = 1, or no restart yet."""
        start = 0.0 if self.mean_run is None else -np.inf
        return _EProcess(np.full((n_residuals, len(_STAKES)), start))

    def _bet(
        self, process: _EProcess, x: Floats, epsilon, sample: NDArray
    ) -> tuple[_EProcess, Floats]:
        """The process behind more samples; and log E before and behind each, shape (n + 1,)."""
        path = _paths(process.won, x, epsilon, self.mean_run is not None)
        log_e = _log_mean(path)
        alarm = process.alarm
        crossed = np.flatnonzero(log_e[1:] >= log(self.threshold))
        if alarm is None and len(crossed):
            alarm = int(sample[crossed[0]])
        return _EProcess(path[-1].copy(), alarm), log_e


def _residuals(rows: Rows) -> Floats:
    """x = ⟨f(z), μ̂ − z⟩ of each class and of log z, shape (n, K + 1)."""
    e = rows.mu - rows.z
    f = np.log(np.maximum(rows.z, np.exp(_LEAST_LOG))) / -_LEAST_LOG
    return np.column_stack([e, (f * e).sum(axis=1)])


def _paths(start: Floats, x: Floats, epsilon, restarts: bool) -> Floats:
    """What each bet has won, as logarithms, before and behind each sample: (n + 1, ..., 8)."""
    steps = np.log1p(_STAKES * (x[:, :, None] - np.multiply.outer(epsilon, np.sign(_STAKES))))
    if not restarts:
        return np.cumsum(np.concatenate([start[None], steps]), axis=0)
    # M_t = (M_{t−1} + 1) factor_t = e^{S_t} (M_0 + Σ_{j<t} e^{−S_j})
    S = np.cumsum(np.concatenate([np.zeros_like(start)[None], steps]), axis=0)
    return S + np.logaddexp.accumulate(np.concatenate([start[None], -S[:-1]]), axis=0)


def _log_mean(won: Floats) -> Floats:
    """The log of the mean over bets, shape (n,)."""
    return logsumexp(won.reshape(len(won), -1), axis=1) - log(won[0].size)


def _thinned(points: Floats, n: int) -> Floats:
    """Those whose number is a multiple of the least power of two that leaves few of n."""
    step = 1
    while n // step > _MOST_POINTS:
        step *= 2
    return points[points[:, 0] % step == 0]


def _exp(x: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(x))
