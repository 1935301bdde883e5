"""A metric of each of several findings, with intervals that hold for all of them together."""

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning

from ..._rows import MultiLabelCounts
from ..._utils.arrays import Floats, Integers
from ..._utils.checks import (
    check_same_length,
    check_sample_weight,
    checked,
    read_groups,
    take_rows,
)
from ..._utils.findings import about_finding, finding_table, warn_of_findings
from ..._utils.names import check_row_names
from ..._utils.results import result
from ..._utils.tags import tags_of
from ..._utils.types import ArrayLike, Seed
from .intervals import confidence_interval

if TYPE_CHECKING:
    from pandas import DataFrame

_TOO_FEW = "fewer than two samples count, and the metric is set to NaN."


@result
class FindingTable(NamedTuple):
    """What `per_finding` returns; all arrays have shape (n_findings,), in the order of y.

    Attributes
    ----------
    finding : ndarray
        Names of the findings.
    estimate, low, high : ndarray
        The metric and its interval, which holds for one finding chosen beforehand.
    simultaneous_low, simultaneous_high : ndarray
        Intervals that hold for all findings together.
    n : ndarray
        Samples that count.
    confidence_level : float
    """

    finding: NDArray
    estimate: Floats
    low: Floats
    high: Floats
    simultaneous_low: Floats
    simultaneous_high: Floats
    n: Integers
    confidence_level: float

    @property
    def frame(self) -> "DataFrame":
        """A pandas DataFrame with one row for each finding; needs pandas."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("frame needs pandas, of sklearn-lhcal[report].") from error
        return pd.DataFrame(dict(zip(self._fields[:-1], self[:-1], strict=True)))


@checked
def per_finding(
    metric: Callable[..., float],
    y: MultiLabelCounts,
    prediction: ArrayLike | Mapping | None,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    raters: Literal["random", "fixed"] | None = None,
    confidence_level: float = 0.95,
    n_blocks: int = 50,
    random_state: Seed = None,
    **options: Any,
) -> FindingTable:
    """A metric of each finding, with intervals for each one and for all of them together.

    Each finding is a yes or no, scored by itself as two classes, over the samples of which somebody
    was asked about it. ``low`` and ``high`` are those of `confidence_interval`: 95% of such
    intervals hold the truth of their finding. With 14 findings, one or more then often misses. All
    14 simultaneous intervals hold the truth together in 95% of the studies. Use these to say which
    findings are above or below a value.

    Parameters
    ----------
    metric : callable
        ``metric(y, prediction, **options)``, as in `confidence_interval`.
    y : MultiLabelCounts of shape (n_samples, n_findings)
        Labels. A sample does not count for a finding of which nobody was asked there.
    prediction : array-like or frame of shape (n_samples, n_findings), dict, or None
        Probability that each finding is present. Columns with names meet findings by name. A dict
        ``{finding: prediction}`` may hold anything that the metric takes. None: for
        metrics of labels alone.
    sample_weight, groups, n_blocks, random_state
        As in `confidence_interval`. Samples, or groups, are independent.
    raters : {"random", "fixed"}, optional
        As in `confidence_interval`; "random" needs y of `MultiLabelCounts.from_long`.
    confidence_level : float, default=0.95
        Of each interval, and of all simultaneous ones together.
    **options
        Go to the metric.

    Returns
    -------
    FindingTable
        Its `frame` has one row for each finding: finding, estimate, low, high, simultaneous_low,
        simultaneous_high, n.

    Raises
    ------
    TypeError
        y that is no MultiLabelCounts.
    ValueError
        Findings of y and the prediction that differ, values that are no probabilities, lengths that
        differ; what `confidence_interval` raises, with the name of the finding.

    Warns
    -----
    UndefinedMetricWarning
        A finding with fewer than two samples that count: its row is NaN, and it is none of the F
        findings below.
    UserWarning
        As `confidence_interval`, with the names of the findings.

    Notes
    -----
    Simultaneous intervals are Bonferroni's: those of `confidence_interval` at the level 1 − α/F,
    with α = 1 − confidence_level. They hold whatever the findings have in common, and are wider
    than they need be where findings go together.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_lhcal.label_histogram import MultiLabelCounts
    >>> from sklearn_lhcal.metrics import expected_squared_loss, per_finding
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(1, 3, size=(300, 2))
    >>> y = MultiLabelCounts(rng.binomial(3, p), 3, findings=["edema", "mass"])
    >>> per_finding(expected_squared_loss, y, p, random_state=0).frame.round(2)
      finding  estimate   low  high  simultaneous_low  simultaneous_high    n
    0   edema      0.31  0.27  0.34              0.27               0.34  300
    1    mass      0.28  0.24  0.31              0.24               0.31  300
    """
    if not isinstance(y, MultiLabelCounts):
        raise TypeError(f"y must be MultiLabelCounts, got {type(y).__name__}.")
    check_row_names(y=y, prediction=prediction, sample_weight=sample_weight, groups=groups)
    given = _predictions(y, prediction)
    w = check_sample_weight(sample_weight, len(y))
    groups = read_groups(groups, len(y))
    counts = y.asked >= tags_of(metric, **options).least_raters
    if w is not None:
        counts &= (w > 0)[:, None]
    n = counts.sum(axis=0)
    tail = (1 - confidence_level) / max(int((n > 1).sum()), 1)
    ends = np.full((5, len(n)), np.nan)
    heard: dict = {}
    for f, name in enumerate(y.findings.tolist()):
        rows = np.flatnonzero(counts[:, f])
        how = options | {"raters": raters, "n_blocks": n_blocks, "random_state": random_state}
        how |= {"sample_weight": take_rows(w, rows), "groups": take_rows(groups, rows)}
        data = metric, y.of(name).take(rows), take_rows(given[f], rows)
        with about_finding(name, heard):
            if n[f] < 2:
                warnings.warn(_TOO_FEW, UndefinedMetricWarning, stacklevel=2)
                continue
            ends[:3, f] = confidence_interval(*data, confidence_level=confidence_level, **how)[:3]
            ends[3:, f] = confidence_interval(*data, confidence_level=1 - tail, **how)[1:3]
    warn_of_findings(heard)
    return FindingTable._make([y.findings, *ends, n, confidence_level])


def _predictions(y: MultiLabelCounts, prediction: Any) -> list:
    """The prediction of each finding."""
    if prediction is None:
        return [None] * len(y.findings)
    if not isinstance(prediction, Mapping):
        check_same_length(len(y), prediction=prediction)
        return list(finding_table(y.side, prediction, "prediction").T)
    names = y.findings.tolist()
    alone = set(prediction) ^ set(names)
    if alone:
        raise ValueError(
            f"The findings of y and prediction differ by {sorted(alone, key=str)[:20]}."
        )
    check_same_length(len(y), **{f"prediction of {name!r}": prediction[name] for name in names})
    return [prediction[name] for name in names]
