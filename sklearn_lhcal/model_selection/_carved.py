"""The evaluation of estimates of epistemic uncertainty by carving (P3 §4.2, Tables 1 and 2).

P3 is the paper "The evaluation and calibration of epistemic uncertainty estimates"."""

from collections.abc import Mapping
from functools import partial

import joblib
import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone, is_classifier

from .. import metrics
from .._rows import Labels, predicted_classes, read_labels
from .._utils.checks import check_same_length, check_samples, checked, take_rows
from .._utils.estimators import epistemic_estimates, fit_on_labels
from .._utils.names import check_row_names
from .._utils.types import Estimator, Floats, Folds, Indices, LabelsLike, Samples, Seed
from ..distributions import predict_epistemic
from ..metrics import EpistemicScorer, get_scorer
from ._cross_validation import check_cv


@checked
def evaluate_epistemic(
    estimators: Mapping[str, Estimator],
    X: Samples,
    y: LabelsLike,
    splitter: Folds,
    *,
    n_bins: int = 20,
    confidence_level: float = 0.95,
    random_state: Seed = None,
) -> metrics.MethodTable:
    """Table of estimates of epistemic uncertainty against what more data gain (P3 Tables 1, 2).

    For each split of a `BallCarvingSplit` each classifier is fitted twice: f_tr on the training
    samples, f_aug on all samples but the test samples, so that the carved samples are back. At the
    test samples the estimate of f_tr is compared with `metrics.accuracy_gain` of f_aug over f_tr.
    That of a `calibration.EpistemicCalibration` is evaluated before and after calibration; it
    carves the training samples once more. P3 has two of them, around one Gaussian process, of
    mutual information and of entropy.

    Candidates of a search are evaluated in the same way, as other rows of the table; for
    GridSearchCV, ``BallCarvingSplit.scorer`` gives the same numbers.

    Parameters
    ----------
    estimators : dict of classifiers
        By the names of the samples; they are cloned. Those with `predict_uncalibrated` are
        evaluated before and after calibration, others by `distributions.predict_epistemic`.
    X : anything that holds n_samples samples and can be indexed
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.
    splitter : splitter or list of (train, test)
        ``BallCarvingSplit(n_splits=6)`` carves six times. Any other must leave samples out of both
        parts.
    n_bins : int, default=20
        Bins of the errors, of equal numbers of test samples: quantiles of the uncalibrated
        estimate, for the calibrated one too (P3 §5.2). Equal quantiles are merged.
    confidence_level : float, default=0.95
    random_state : int, RandomState instance or None, default=None
        Seed of the noise level.

    Returns
    -------
    MethodTable
        Means over splits and their intervals (`metrics.interval_over_splits`, which allows for
        splits that share samples), whose ends are NaN for one split, or where splits are all
        alike: where no prediction changes in any, each gain is 0. The columns:

        - ``mean_gain``: accuracy of f_aug minus that of f_tr at the test samples
        - ``epistemic_correlation``: of the estimate with the gain
        - ``epistemic_calibration_error``: of the estimate as it is
        - ``calibrated_error``: the same after calibration, in the same bins; NaN for classifiers
          without it. `EpistemicCalibration` with ``method="paper"`` also fits γ in them
        - ``noise_level``: the error that a calibrated estimate would have in these bins, see
          `metrics.null_epistemic_error`; NaN where the estimate exceeds 1
        - ``n_bins``: how many bins are left when equal quantiles are merged

        A cell is NaN where its value is undefined in some split.

    Raises
    ------
    ValueError
        No estimator, one that is no classifier, a splitter that takes no samples away, a class
        that is missing from training.

    References
    ----------
    The evaluation and calibration of epistemic uncertainty estimates, sections 4.2 and 5.2 (P3).

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn_lhcal.calibration import EpistemicCalibration
    >>> from sklearn_lhcal.datasets import make_random_checkerboard
    >>> from sklearn_lhcal.model_selection import BallCarvingSplit
    >>> X, y = make_random_checkerboard(2000, n_rows=8, n_columns=8, cell_std=0.25, random_state=0)
    >>> forest = RandomForestClassifier(10, min_samples_leaf=5, random_state=0)
    >>> methods = {
    ...     "M": EpistemicCalibration(forest),
    ...     "E": EpistemicCalibration(forest, uncertainty="entropy"),
    ... }
    >>> carve = BallCarvingSplit(n_splits=2, random_state=0)
    >>> found = evaluate_epistemic(methods, X, y, carve, random_state=0).intervals
    >>> found["E"]["epistemic_calibration_error"] > found["M"]["epistemic_calibration_error"]
    True
    """
    if not estimators or not all(map(is_classifier, estimators.values())):
        raise ValueError(
            f"estimators must be a dict of names and classifiers, got {estimators!r:.80}."
        )
    X = check_samples(X)
    labels = read_labels(y).for_fit()
    check_same_length(len(labels), X=X)
    check_row_names(y=y, X=X)
    splits = list(check_cv(splitter).split(X, labels))
    for i, (train, test) in enumerate(splits):
        if len(np.union1d(train, test)) == len(labels):
            raise ValueError(
                f"Split {i} leaves no sample out of training and test; give a BallCarvingSplit."
            )
        labels.take(train).check_all_seen(f"training of split {i}", "smaller or fewer balls")
    share = float(np.mean([len(test) / (len(train) + len(test)) for train, test in splits]))
    options = {"test_fraction": share, "confidence_level": confidence_level}
    table = {}
    for name, estimator in estimators.items():
        results = [
            _evaluated(estimator, X, labels, split, n_bins, random_state) for split in splits
        ]
        table[name] = {
            column: _interval(np.array([one[column] for one in results]), options)
            for column in results[0]
        }
    return metrics.MethodTable(table, None, confidence_level)


def _evaluated(estimator, X, labels, split, n_bins, random_state) -> dict[str, float]:
    """The columns of one split."""
    train, test = split
    f_tr = fit_on_labels(clone(estimator), take_rows(X, train), labels.take(train))
    augmented = np.setdiff1d(np.arange(len(labels)), test)
    f_aug = fit_with_more(estimator, X, labels, augmented)
    X_test = take_rows(X, test)
    predicted = (predicted_classes(f, X_test, labels.classes) for f in (f_tr, f_aug))
    g = metrics.accuracy_gain(labels.take(test), *predicted)
    both = epistemic_estimates(f_tr, X_test)
    e, after = both or (predict_epistemic(f_tr, X_test),) * 2
    error = partial(metrics.epistemic_calibration_error, g, n_bins=n_bins, bins_of=e)
    null = partial(metrics.null_epistemic_error, g, n_bins=n_bins, bins_of=e)
    return {
        "mean_gain": g.mean(),
        "epistemic_correlation": metrics.epistemic_correlation(g, e),
        "epistemic_calibration_error": error(e),
        "calibrated_error": error(after) if both else np.nan,
        "noise_level": null(after, random_state=random_state).mean if after.max() <= 1 else np.nan,
        "n_bins": len(metrics.gain_curve(g, e, n_bins=n_bins).bin_counts),
    }


def _interval(values: Floats, options: dict) -> metrics.ConfidenceInterval:
    """Of the mean over splits; NaN where it is unknown, or splits that are alike say nothing."""
    if len(values) < 2 or not np.isfinite(values).all() or np.ptp(values) < 1e-12:
        return metrics.ConfidenceInterval(float(values.mean()), *[np.nan] * 3)
    return metrics.interval_over_splits(values, **options)


# ------------------------------------------------------------------------------- scores of searches


def fit_with_more(estimator, X: Samples, labels: Labels, rows: Indices) -> Estimator:
    """f_aug of P3, fitted to these samples. That of a calibrator is the classifier inside.

    Calibration changes no class.
    """
    if hasattr(estimator, "predict_uncalibrated"):
        estimator = estimator.estimator
    return fit_on_labels(clone(estimator), take_rows(X, rows), labels.take(rows))


def rows_key(X: Samples) -> str:
    """Equal for equal samples, whatever memory they are in."""
    X = check_samples(X)
    if issparse(X):
        X = X.toarray()
    return joblib.hash(np.ascontiguousarray(X), coerce_mmap=True)


class CarvedScorer:
    """The epistemic scorer of a split, which it knows by its test samples.

    `augmented` holds the augmented samples by `rows_key` of the test samples.
    """

    def __init__(self, X: Samples, y: LabelsLike, augmented: dict[str, Indices], scoring: str):
        self.scorer = get_scorer(scoring)
        if not isinstance(self.scorer, EpistemicScorer):
            raise ValueError(
                "scoring must be 'neg_epistemic_calibration_error' or 'epistemic_correlation', "
                f"got {scoring!r}."
            )
        self.X = check_samples(X)
        self.labels = read_labels(y).for_fit()
        self.augmented = augmented

    def __call__(self, estimator: Estimator, X: Samples, y: LabelsLike) -> float:
        rows = self.augmented.get(rows_key(X))
        if rows is None:
            raise ValueError(
                "The samples to score are not the test samples of one of the splitter's splits: "
                "give the search cv= the same splitter and fit the same X, without training scores."
            )
        f_aug = fit_with_more(estimator, self.X, self.labels, rows)
        return self.scorer(estimator, X, y, reference_prediction=f_aug.predict(X))
