"""Several methods by several metrics, in one table with intervals (P1 Tables 2, 4 to 6).

P1 is Mimori, Sasada, Matsui and Sato (2021), Diagnostic uncertainty calibration."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sklearn.utils import check_random_state

from ..._rows import PredictionLike, read_labels, read_rows
from ..._utils.checks import checked, errors_of
from ..._utils.results import ConfidenceInterval, DataFrame, frame_of_rows, result
from ..._utils.tags import tags_of, unwrapped
from ..._utils.types import Groups, LabelsLike, MetricFunction, Seed, Weights
from .._calibration import calibration_error
from .._disagreement import disagreement_calibration_error, disagreement_squared_loss
from .._label_histogram import epistemic_loss, expected_squared_loss
from .._predicted_labels import expected_accuracy
from .intervals import confidence_interval, paired_difference

# the columns of P1 Table 6: Acc, L_sq, EL, CE, L_φ, CE_φ
_P1 = (
    expected_accuracy,
    expected_squared_loss,
    epistemic_loss,
    calibration_error,
    disagreement_squared_loss,
    disagreement_calibration_error,
)
# of a table that is printed
_LINES = 18

Metrics = Mapping[str, MetricFunction] | Iterable[MetricFunction] | None


@result
class MethodTable(NamedTuple):
    """A table of methods and metrics, with intervals.

    Attributes
    ----------
    intervals : dict of dicts of ConfidenceInterval
        ``intervals[method][metric]`` is ``(estimate, low, high, standard_error)``.
    reference : str or None
        The method that they are paired differences to.
    confidence_level : float
    """

    intervals: dict[str, dict[str, ConfidenceInterval]]
    reference: str | None
    confidence_level: float

    def __str__(self) -> str:
        """One line a method and metric: estimate (low, high)."""
        cells = [(m, name, x) for m, row in self.intervals.items() for name, x in row.items()]
        left = max(len(str(method)) for method, _, _ in cells)
        right = max(len(name) for _, name, _ in cells)
        lines = [
            f"{method!s:{left}} {name:{right}} {x[0]:.3g} ({x[1]:.3g}, {x[2]:.3g})"
            for method, name, x in cells[:_LINES]
        ]
        more = len(cells) - len(lines)
        return "\n".join([*lines, f"... and {more} more"] if more else lines)

    def to_frame(self) -> "DataFrame":
        """A pandas DataFrame, one row a method.

        Its columns have two levels: the metric; estimate, low, high and standard_error. So
        ``frame.xs("estimate", axis=1, level=1)`` is the table of estimates.

        Raises
        ------
        ImportError
            Without pandas, which the extra `report` brings.
        """
        of_methods = {
            method: {
                (metric, name): value
                for metric, interval in row.items()
                for name, value in interval._asdict().items()
            }
            for method, row in self.intervals.items()
        }
        return frame_of_rows(of_methods)


@checked
def evaluate_methods(
    predictions: Mapping[str, PredictionLike],
    y: LabelsLike,
    *,
    metrics: Metrics = None,
    reference: str | None = None,
    sample_weight: Weights = None,
    groups: Groups = None,
    random_state: Seed = None,
    **options: Any,
) -> MethodTable:
    """Table of several methods by several metrics, on the same samples, with intervals.

    It is `confidence_interval` of each cell, all with one seed. Methods share their samples,
    so that their differences are surer than their intervals suggest: `reference` asks for these.

    Parameters
    ----------
    predictions : dict of array-like of shape (n_samples, ...) or Distribution
        Predictions of the same samples by the name of the method.
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.
    metrics : dict of callables, list of callables or None, default=None
        Functions ``metric(y, prediction)``, by the name of the column or under their own. None: the
        columns of P1 Table 6: accuracy, expected squared loss, epistemic loss, calibration error,
        and loss and calibration error of the predicted disagreement. Where each sample has one
        label, those that one label allows.
    reference : str, optional
        A method. The other samples are then their paired differences to it, see
        `paired_difference`.
    sample_weight, groups, random_state
        As in `confidence_interval`.
    **options
        ``raters``, ``confidence_level`` and ``n_blocks``, as there.

    Returns
    -------
    MethodTable
        Its ``intervals[method][metric]`` are `ConfidenceInterval`; `to_frame` makes a frame.

    Raises
    ------
    ValueError
        Predictions that do not fit y or each other, with the name of the method; predictions that
        are no dict, an unknown reference, two metrics of one name.
    TypeError
        Metrics that are no callables.

    References
    ----------
    Mimori, Sasada, Matsui and Sato (2021), Diagnostic uncertainty calibration, Tables 2, 4 to 6.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(500, overconfidence=2.0, random_state=0)
    >>> methods = {"overconfident": data.prediction, "true": data.proba}
    >>> table = evaluate_methods(methods, data.counts, random_state=0)
    >>> table.to_frame().xs("estimate", axis=1, level=1).iloc[:, :2].round(2)
                   expected_accuracy  expected_squared_loss
    overconfident               0.72                   0.41
    true                        0.74                   0.36
    """
    functions = _named(metrics, y)
    if not predictions:
        raise ValueError(
            f"predictions must be a dict of names and predictions, got {predictions!r:.80}."
        )
    n_classes = {}
    for method, prediction in predictions.items():
        with errors_of(f"Method {method!r}"):
            rows = read_rows(y, prediction, sample_weight, groups)
        n_classes[method] = rows.labels.shape[1]
    if len(set(n_classes.values())) > 1:
        raise ValueError(f"Methods must predict the same classes, got n_classes {n_classes}.")
    if reference is not None and reference not in predictions:
        raise ValueError(f"reference={reference!r} is none of the methods {list(predictions)}.")
    if not isinstance(random_state, int):
        # the same blocks in all cells
        random_state = check_random_state(random_state).randint(2**31 - 1)
    options |= {"sample_weight": sample_weight, "groups": groups, "random_state": random_state}

    def cell(metric: MetricFunction, prediction: PredictionLike) -> ConfidenceInterval:
        if reference is None:
            return confidence_interval(metric, y, prediction, **options)
        return paired_difference(metric, y, prediction, predictions[reference], **options)

    intervals = {
        method: {name: cell(metric, prediction) for name, metric in functions.items()}
        for method, prediction in predictions.items()
        if method != reference
    }
    return MethodTable(intervals, reference, options.get("confidence_level", 0.95))


def _named(metrics: Metrics, y: LabelsLike) -> dict[str, MetricFunction]:
    """Metrics by the names of their columns."""
    if metrics is None:
        most = read_labels(y).n.max(initial=0)
        metrics = [metric for metric in _P1 if tags_of(metric).least_raters <= most]
    if isinstance(metrics, Mapping):
        pairs = list(metrics.items())
    else:
        pairs = [(getattr(unwrapped(m, {})[0], "__name__", ""), m) for m in metrics]
    for _, metric in pairs:
        if not callable(metric):
            raise TypeError(f"metrics must be functions such as epistemic_loss, got {metric!r}.")
    if len(dict(pairs)) < len(pairs):
        raise ValueError("Two metrics have the same name; give a dict of names and metrics.")
    return dict(pairs)
