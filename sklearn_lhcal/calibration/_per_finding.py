"""One calibrator for each of several findings, which share what they know of α0."""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from .._rows import MultiLabelCounts, parameters, weight_of
from .._utils.checks import check_finite, check_samples, take_params, take_rows
from .._utils.estimators import atomic
from .._utils.finding_tables import about_finding, finding_table, warn_of_findings
from .._utils.names import Side, column_names, positions
from .._utils.types import ArrayLike, Estimator, Floats, NDArray, Samples, Weights
from ..distributions import Distribution
from ._alpha import GRID
from ._base import _Wrapper
from ._precomputed import PrecomputedClassifier

# τ, how far findings differ in c
_DEVIATIONS = np.array([0.1, 0.2, 0.5, 1.0, 2.0, 4.0])


@parameters
class PerFinding(MetaEstimatorMixin, BaseEstimator):
    """Calibrates each finding by itself, as two classes: absent and present.

    A clone of the calibrator is fitted for each finding, on the samples of which somebody was asked
    about it. Around `AlphaCalibration` the findings share their knowledge of α0, see the notes.

    Parameters
    ----------
    calibrator : classifier
        A calibrator such as ``StackedCalibration("proba")``, or any classifier. Around ``"proba"``
        or ``"logits"``, X holds one column for each finding: the probability that it is present, or
        its log-odds. Around a classifier, X is what that takes, and each finding has a fit of it.

    Attributes
    ----------
    calibrators_ : list of n_findings fitted calibrators
        In the order of `findings_`.
    findings_ : ndarray of shape (n_findings,)
        Names of the findings.

    Notes
    -----
    Few raters disagree about a rare finding, so that its α0 is hardly known. With
    ``calibrator=AlphaCalibration(…)`` the constant c of ``log α0 = w·h + c`` is therefore a
    posterior mean. Its prior is N(m, τ²), the same for all findings, and m and τ maximise the
    marginal likelihood of all labels (empirical Bayes). A common finding keeps its own c, a rare
    one goes to m. Its log α0 lies between −4 and 12; a penalty of `AlphaCalibration` does not
    enter. A single finding keeps its own c.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_lhcal.calibration import PerFinding, TemperatureScaling
    >>> from sklearn_lhcal.label_histogram import MultiLabelCounts
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(2, 2, size=(300, 2))
    >>> y = MultiLabelCounts(rng.binomial(3, p), 3, findings=["edema", "mass"])
    >>> overconfident = p**2 / (p**2 + (1 - p) ** 2)
    >>> model = PerFinding(TemperatureScaling("proba")).fit(overconfident, y)
    >>> bool(np.abs(model.predict_proba(overconfident) - p).max() < 0.05)
    True
    """

    calibrator: Estimator

    @atomic
    def fit(
        self, X: Samples, y: MultiLabelCounts, sample_weight: Weights = None, **fit_params: Any
    ) -> Self:
        """Fit one calibrator for each finding, all or nothing.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_findings), or what the classifier takes
            Columns with names meet findings by name.
        y : MultiLabelCounts of shape (n_samples, n_findings)
        sample_weight : array-like of shape (n_samples,), optional
        **fit_params
            As in the calibrator's `fit`.

        Returns
        -------
        self

        Raises
        ------
        TypeError
            y that is no MultiLabelCounts.
        ValueError
            A finding that nobody was asked about, other findings in X; what the calibrator raises,
            with the name of the finding.
        """
        if not isinstance(y, MultiLabelCounts):
            raise TypeError(f"y must be MultiLabelCounts, got {type(y).__name__}.")
        X = check_samples(X)
        weight = weight_of(y, X, y, sample_weight)
        heard: dict = {}
        models = []
        for name, own in zip(y.findings.tolist(), self._inputs(X, y.side), strict=True):
            labels = y.of(name)
            rows = labels.rated
            with about_finding(name, heard):
                if not len(rows):
                    raise ValueError("y has no label of it; leave the finding out.")
                model = clone(self.calibrator)
                if hasattr(model, "_is_one_of_several"):
                    model._is_one_of_several = True
                params = take_params(fit_params, rows, len(y))
                if weight is not None:
                    params["sample_weight"] = weight[rows]
                counts = labels.take(rows).plain()
                models.append(model.fit(take_rows(own, rows), counts, **params))
        warn_of_findings(heard)
        if hasattr(models[0], "losses_") and len(models) > 1:
            shared = shrunk(np.array([model.losses_ for model in models]))
            for model, c in zip(models, shared.tolist(), strict=True):
                model.intercept_ = c
                model.is_infinite_ = False
        self.calibrators_ = models
        self.findings_ = y.findings
        self._side = y.side
        return self

    def predict_dist(self, X: Samples) -> dict[Any, Distribution]:
        """The distribution of each finding's probabilities, ``{finding: Distribution}``.

        It goes into `sklearn_lhcal.metrics.per_finding` as it is.
        """
        dists = (model.predict_dist(own) for model, own in self._asked(X))
        return dict(zip(self.findings_.tolist(), dists, strict=True))

    def predict_proba(self, X: Samples) -> ArrayLike:
        """The probability that each finding is present, shape (n_samples, n_findings).

        Its columns follow `findings_`. Where X is a frame with the findings as columns, it is a
        frame with the columns of X, in their order.
        """
        return self._in_columns(X, self._present(X))

    def predict(self, X: Samples) -> ArrayLike:
        """1 where a finding is more probably present than absent, shape (n_samples, n_findings).

        A frame where `predict_proba` is one.
        """
        return self._in_columns(X, (self._present(X) > 0.5).astype(np.int64))

    def _present(self, X: Samples) -> Floats:
        return np.column_stack([model.predict_proba(own)[:, 1] for model, own in self._asked(X)])

    def _in_columns(self, X: Samples, values: NDArray):
        """The values of findings as a frame with the columns of X, where these are findings."""
        X = check_samples(X)
        names = column_names(X, "X")
        if names is None or set(names.tolist()) != set(self.findings_.tolist()):
            return values
        table = dict(zip(names.tolist(), values.T[positions(names, self.findings_)], strict=True))
        if hasattr(X, "iloc"):
            return type(X)(table, index=X.index)
        return type(X)(table)

    def _asked(self, X: Samples) -> Iterator[tuple[Any, Any]]:
        """Each calibrator, and what it sees."""
        check_is_fitted(self, "calibrators_")
        return zip(self.calibrators_, self._inputs(check_samples(X), self._side), strict=True)

    def _inputs(self, X: Samples, findings: Side) -> list:
        """What the calibrator of each finding sees."""
        model = self.calibrator
        inner = model._wrapped() if isinstance(model, _Wrapper) else model
        if not isinstance(inner, PrecomputedClassifier):
            return [X] * findings.K
        table = finding_table(findings, X, "X")
        check_finite(table, "X")
        columns = table.T
        if inner.response == "logits":
            return [np.column_stack([np.zeros_like(u), u]) for u in columns]
        return [np.column_stack([1 - p, p]) for p in columns]


def shrunk(losses: Floats) -> Floats:
    """Posterior means of c, (F,), from minus the log-likelihood of each value of the grid, (F, G).

    Their prior N(m, τ²) has the largest marginal likelihood.
    """
    likelihood = np.exp(losses.min(axis=1, keepdims=True) - losses)
    # (m, τ, c)
    away = (GRID - GRID[:, None, None]) / _DEVIATIONS[:, None]
    prior = np.exp(-(away**2) / 2)
    prior /= prior.sum(axis=-1, keepdims=True)
    evidence = np.log(np.maximum(prior @ likelihood.T, 1e-300)).sum(axis=-1)
    best = prior[np.unravel_index(evidence.argmax(), evidence.shape)]
    posterior = best * likelihood
    return posterior @ GRID / posterior.sum(axis=1)
