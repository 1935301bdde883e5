"""Each class of a report: how often it is named, how well told apart and calibrated; subgroups; and
which cases to refer, by the share captured by those with the most predicted disagreement.

Labels are the truth: each label of a case counts 1/n_i of it. Letters: p the predicted probability
of a class, μ the share of a case's labels in it, w weights."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from .. import metrics
from .._rows import Rows, read_rows
from .._utils.tags import MeanOfTerms, OfRows, defaults_of, metric, tags_of
from .._utils.types import Floats
from ..metrics import expected_calibration_error, subgroup_audit
from ._numbers import MOST_CLASSES, Intervals, Number, ratio
from ._words import said

# Of a subgroup, and all of its classes.
OF_SUBGROUP = ("slope", "irreducible_loss", "epistemic_loss")
# Nearer to 0 or 1 no logarithm of odds is taken.
_LEAST = 1e-6
_NEWTON_STEPS = 30
# Without convergence there is no estimate: labels may be separable.
_MOST_SLOPE = 100.0


def _terms(rows: Rows, *, of, what: Callable) -> tuple:
    return rows.weight * what(rows, of), rows.weight


@metric(lambda **_: MeanOfTerms(terms=_terms, limits=(0.0, 1.0)))
def class_mean(y, prediction, *, of: Any, what: Callable, sample_weight=None) -> float:
    """Mean over cases of ``what(rows, of)``, which is about class `of`."""
    return ratio(_terms, read_rows(y, prediction, sample_weight), of=of, what=what)


def share(rows: Rows, of: int) -> Floats:
    """Share of a case's labels in the class."""
    return rows.mu[:, of]


def probability(rows: Rows, of: int) -> Floats:
    """Predicted probability of the class."""
    return rows.z[:, of]


def hit(rows: Rows, of: int) -> Floats:
    """Whether the first choice is the class, for labels in it.

    Weighted by the share of a case's labels in it, the mean is the sensitivity.
    """
    return rows.z.argmax(axis=1) == of


def miss(rows: Rows, of: int) -> Floats:
    """Whether the first choice is another class, for labels in others."""
    return 1 - hit(rows, of)


def area(rows: Rows, *, of) -> float:
    """Area under the ROC curve of the class.

    The probability that p is larger for a label in the class than for one outside it, of another
    case; ties count one half.
    """
    p = rows.z[:, of]
    positive = rows.weight * rows.mu[:, of]
    negative = rows.weight * (1 - rows.mu[:, of])
    _, place = np.unique(p, return_inverse=True)
    P, N = (np.bincount(place, side) for side in (positive, negative))
    below = np.cumsum(N) - N
    # pairs within a case are no pairs of cases, and tie
    own = (positive * negative).sum()
    pairs = P.sum() * N.sum() - own
    if pairs <= 0:
        return np.nan
    return float(((P * (below + N / 2)).sum() - own / 2) / pairs)


def intercept(rows: Rows, *, of) -> float:
    """Calibration in the large, a of logit P(label in class) = a + logit p."""
    x = _odds(rows, of)
    return _logistic(np.ones((len(x), 1)), x, rows, of)[0]


def slope(rows: Rows, *, of) -> float:
    """Calibration slope, b of logit P(label in class) = a + b logit p."""
    x = _odds(rows, of)
    return _logistic(np.column_stack([np.ones(len(x)), x]), np.zeros(len(x)), rows, of)[1]


def _odds(rows: Rows, of: int) -> Floats:
    return logit(np.clip(rows.z[:, of], _LEAST, 1 - _LEAST))


def _logistic(X: Floats, offset: Floats, rows: Rows, of: int) -> Floats:
    """Coefficients of most likelihood of the labels, by Newton's method; NaN if it diverges."""
    mu = rows.mu[:, of]
    w = rows.weight
    beta = np.zeros(X.shape[1])
    for _ in range(_NEWTON_STEPS):
        p = expit(X @ beta + offset)
        gradient = X.T @ (w * (mu - p))
        H = (X * (w * p * (1 - p))[:, None]).T @ X
        if np.abs(beta).max() > _MOST_SLOPE or np.linalg.cond(H) > 1 / np.finfo(float).eps:
            break
        step = np.linalg.solve(H, gradient)
        beta = beta + step
        if np.abs(step).max() < 1e-9:
            return beta
    return np.full(len(beta), np.nan)


def _of_rows(of_rows: Callable) -> Callable:
    @metric(lambda **_: OfRows(of_rows=of_rows))
    def function(y, prediction, *, of: Any) -> float:
        return of_rows(read_rows(y, prediction), of=of)

    return function


def of_classes(intervals: Intervals) -> list[Number]:
    """All numbers of each class that is shown, of the uncalibrated prediction."""
    shown = intervals.study.shown(MOST_CLASSES)
    return [number for k in shown for number in _of_class(intervals, k)]


def _of_class(intervals: Intervals, k: int):
    study = intervals.study
    mu = study.labels.mu[:, k]
    own = {"kind": study.labels.classes.tolist()[k], "p": 2, "bias_correction": "residual"}
    # name, function and its options
    plan: list[tuple] = [
        ("share_of_labels", class_mean, {"of": k, "what": share}),
        ("mean_probability", class_mean, {"of": k, "what": probability}),
        ("sensitivity", class_mean, {"of": k, "what": hit, "sample_weight": mu}),
        ("specificity", class_mean, {"of": k, "what": miss, "sample_weight": 1 - mu}),
        ("auc", _of_rows(area), {"of": k}),
        ("calibration_intercept", _of_rows(intercept), {"of": k}),
        ("calibration_slope", _of_rows(slope), {"of": k}),
        ("calibration_error", expected_calibration_error, own),
    ]
    for name, function, options in plan[: 5 if study.hard else None]:
        subset = "labels" if name == "share_of_labels" else "uncalibrated"
        number = intervals.sought(name, function, subset, **options)
        number = number._replace(class_name=study.classes[k])
        # the end of an interval, by Student's t, may lie above
        yield number._replace(high=min(number.high, 1.0)) if name == "auc" else number


def subgroups(intervals: Intervals) -> tuple[dict | None, list[Number]]:
    """Class frequencies and slopes of the subgroups; None where no columns were named."""
    study = intervals.study
    if not study.subgroups or study.hard:
        return None, []
    options = {name: value for name, value in intervals.how.items() if name != "n_blocks"}
    try:
        audit = subgroup_audit(study.labels, study.prediction, study.subgroups, **options)
    except ValueError as error:
        return {"words": str(error), "table": []}, []
    table = audit.to_frame().reset_index().astype({"class": str}).to_dict("records")
    about = np.nan, np.nan, intervals.level, len(study), "subgroup_audit().p_value"
    p = Number("subgroups_calibrated_p", "uncalibrated", audit.p_value, *about)
    found = {"words": said("subgroups", audit=audit), "table": table}
    return found, [p, *_of_subgroups(table, intervals.level)]


def _of_subgroups(table: list[dict], level: float) -> Iterator[Number]:
    """The numbers of a table; slope and losses of a subgroup are those of all classes together."""
    for row in table:
        part = row["subgroup"]
        about = (level, row["n"], "subgroup_audit()")
        ends = row["estimate"], row["low"], row["high"]
        yield Number("excess_probability", "uncalibrated", *ends, *about, row["class"], part)
        if row["class"] == table[0]["class"]:
            for name in OF_SUBGROUP:
                ends = row[name], row[f"{name}_low"], row[f"{name}_high"]
                yield Number(name, "uncalibrated", *ends, *about, None, part)


# Shares of the cases that are referred.
SENT = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
# The metrics of what is captured, in words: the disagreement between raters, and the loss.
WORDS = {"irreducible_loss": "disagreement between raters", "expected_squared_loss": "Brier score"}
# A sentence is about that share of the cases.
_TENTH = 0.1
# Rounding does not decide which cases are referred.
_ROUNDING = 1e-9


class Referral(NamedTuple):
    """Shares captured by cases that are referred in the order of their predicted disagreement.

    Attributes
    ----------
    sent : list of float
        Shares of the cases, ascending; cases with one predicted disagreement go together.
    captured : dict of str to list of Number
        Of each quantity, the share in these cases.
    """

    sent: list[float]
    captured: dict[str, list[Number]]


def referral(intervals: Intervals) -> Referral:
    """Cases by predicted disagreement, the largest first: how much each share captures."""
    study = intervals.study
    if study.hard:
        return Referral([], {})
    predicted = study.prediction.disagreement()
    place = np.ceil(np.array(SENT) * len(study)).astype(int) - 1
    above = np.unique(-np.sort(-predicted)[place] - _ROUNDING)[::-1].tolist()
    sent = [float((predicted >= a).mean()) for a in above]
    wanted = [name for name in WORDS if study.has_pairs or name != "irreducible_loss"]
    captured: dict = {name: [] for name in wanted}
    for name, found in captured.items():
        how = f"captured_{name}", share_captured, study.prediction
        for referred, a in zip(sent, above, strict=True):
            number = intervals.measure(*how, of=getattr(metrics, name), above=a)
            found.append(number._replace(part=f"{referred:.4g}"))
    return Referral(sent, captured)


def captured(sent: Referral) -> str:
    """What the tenth of the cases with the most predicted disagreement captures."""
    at = int(np.abs(np.array(sent.sent) - _TENTH).argmin())
    points = {WORDS[name]: points[at] for name, points in sent.captured.items()}
    return said("captured", share=sent.sent[at], points=points)


def _captured_terms(rows: Rows, *, of, above: float) -> tuple:
    tags: Any = tags_of(of)
    whole = tags.terms(rows, **defaults_of(of))[0]
    return np.where(rows.distribution.disagreement() >= above, whole, 0.0), whole


def _tags(*, of, above: float) -> MeanOfTerms:
    return MeanOfTerms(least_raters=tags_of(of).least_raters, terms=_captured_terms)


@metric(_tags)
def share_captured(y, prediction, *, of, above: float) -> float:
    """Share of the sum of a metric over rows in those with a predicted disagreement above some."""
    rows = read_rows(y, prediction)
    return ratio(_captured_terms, rows, tags_of(of).least_raters, of=of, above=above)
