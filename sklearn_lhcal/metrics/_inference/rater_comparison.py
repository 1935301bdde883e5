"""A model beside the raters, and judges beside each other.

A label is compared with the other labels of its sample. Letters: n_i labels of sample i, y_i its
counts, s_ik the model's share of a label (more than one class where probabilities tie); of judges,
Q class probabilities of people, x what a judge says, μ̂ class frequencies.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.utils import check_random_state

from ..._rows import Annotations, PredictionLike, Rows, read_labels, read_rows, with_votes
from ..._utils.checks import checked, errors_of, spelt_alike
from ..._utils.distances import Distance, half_squares, placed
from ..._utils.names import check_row_names
from ..._utils.results import ConfidenceInterval, DataFrame, fields, frame_of, frame_of_rows, result
from ..._utils.simplex import accuracy, row_sum, votes_of
from ..._utils.types import Floats, Groups, Indices, Integers, LabelsLike, Raters, Seed, Weights
from .._evaluate import apart, mean, points_of
from .intervals import interval_between, interval_from, interval_of, with_ends
from .replicates import MeanStatistic
from .two_way import Design, Replicates, spread_of

# of a RaterComparison in a table of judges
_SHOWN = ("non_inferior", "worth", "worth_low", "worth_high")


def statistic_of_pairs(terms: Callable, rows: Rows) -> MeanStatistic:
    """A ratio of sums over samples with two readers or more; ``terms(rows)`` are its terms."""
    return MeanStatistic(lambda rows, _: terms(rows), rows, least_raters=2)


def rows_of_pairs(rows: Rows) -> Rows:
    """The samples with two readers or more."""
    rows.labels.warn_if_adjudicated()
    seen = rows.contributing(2)
    if seen is None:
        raise ValueError("No sample of y with a positive weight has labels of two readers.")
    return seen


class Comparisons(NamedTuple):
    """Labels of samples with two or more, each against the others of its sample.

    Attributes
    ----------
    row, reader, label : ndarray of shape (n_ratings,)
    reader_error, model_error : ndarray of shape (n_ratings,)
        Share of the other readers who disagree with the reader, and with the model; or by how
        much, on average.
    """

    row: Integers
    reader: Integers
    label: Integers
    reader_error: Floats
    model_error: Floats

    def excess(self, rows: Rows, k: int) -> Floats:
        """Whether each label is of class k, minus the share of k among the others of its sample."""
        own = (self.label == k).astype(float)
        return own - (rows.labels.counts[self.row, k] - own) / (rows.n[self.row] - 1)


def of_reader(y: LabelsLike, prediction: PredictionLike) -> tuple[Annotations, PredictionLike]:
    """Labels that know who gave them, and the prediction as probabilities, by `with_votes`."""
    labels = named_raters(y)
    # of classes that were not named
    if labels.single and (alike := spelt_alike(labels.classes)):
        raise ValueError(
            f"The classes {alike[0]} of y differ only in case or blanks: make them one, or name "
            "all classes on purpose, classes=[...]."
        )
    check_row_names(y=y, prediction=prediction)
    return labels, with_votes(labels, prediction)[1]


def named_raters(y: LabelsLike) -> Annotations:
    """Labels that know who gave them; else a ValueError."""
    labels = read_labels(y)
    if not isinstance(labels, Annotations):
        raise ValueError(
            "y does not say who gave the labels: make Annotations of it, by Annotations.from_long "
            "or Annotations.from_matrix."
        )
    return labels


def compared(rows: Rows, P: Floats | None = None) -> Comparisons:
    """Every label of samples with two or more against the others of its sample.

    P, (K, K), is how much two labels disagree; None: 1 where they differ.
    """
    labels = named_raters(rows.labels)
    row = labels.row
    several = rows.n[row] > 1
    row = row[several]
    a = labels.label[several].astype(np.int64)
    reader = labels.rater[several].astype(np.int64)
    y = labels.counts
    share = votes_of(rows.z)
    others = rows.n[row] - 1
    if P is None:
        P = 1 - np.eye(y.shape[1])
    apart = y @ P
    model = (row_sum(share * apart)[row] - row_sum(share[row] * P[a])) / others
    return Comparisons(row, reader, a, apart[row, a] / others, model)


class Means(NamedTuple):
    """Means of each reader over her samples, with intervals that hold for all readers together.

    Attributes
    ----------
    mean : ndarray of shape (n_raters, ...)
    interval : ndarray of shape (n_raters, ..., 2)
    """

    mean: Floats
    interval: Floats


def reader_means(
    values: Floats,
    at: Comparisons,
    weight: Floats,
    block: Indices,
    n_readers: int,
    confidence_level: float,
    n_each: int = 1,
) -> Means:
    """Weighted means of one value a label, reader by reader, by the jackknife over blocks of rows.

    Bonferroni's intervals over readers and the `n_each` means that each has. NaN for a
    reader all of whose samples are in one block.
    """
    B = int(block.max()) + 1
    w = weight[at.row]
    cell = block[at.row] * n_readers + at.reader
    N, D = (
        np.bincount(cell, a, minlength=B * n_readers).reshape(B, n_readers) for a in (w * values, w)
    )
    total = D.sum(axis=0)
    blocks = (D > 0).sum(axis=0)
    several = blocks > 1
    mean = N.sum(axis=0) / np.where(total > 0, total, np.nan)
    left = np.where(several, total - D, np.nan)
    without = (N.sum(axis=0) - N) / left
    # (b − 1)/b Σ_b (value without b − value)²; blocks without her samples add nothing
    variance = ((without - mean) ** 2).sum(axis=0) * (blocks - 1) / np.maximum(blocks, 1)
    asked = n_each * max(int((total > 0).sum()), 1)
    tail = (1 - confidence_level) / (2 * asked)
    reach = student.ppf(1 - tail, np.where(several, blocks - 1, np.nan)) * np.sqrt(variance)
    return Means(mean, np.stack([mean - reach, mean + reach], axis=-1))


@result
class RaterRows(NamedTuple):
    """Each reader against the others; NaN for one who shares samples with nobody.

    Attributes
    ----------
    raters : ndarray of shape (n_raters,)
        Names.
    n_rows : ndarray of shape (n_raters,)
        Samples that the reader shares with others.
    error, model_error : ndarray of shape (n_raters,)
        How often another reader of these samples disagrees with this one, and with the model.
    error_interval : ndarray of shape (n_raters, 2)
        Of `error`.
    difference : ndarray of shape (n_raters,)
        ``model_error − error``; below 0 the model agrees better with the others.
    difference_interval : ndarray of shape (n_raters, 2)
    """

    raters: NDArray
    n_rows: Integers
    error: Floats
    model_error: Floats
    error_interval: Floats
    difference: Floats
    difference_interval: Floats

    def to_frame(self) -> "DataFrame":
        """A pandas DataFrame, one row for each reader."""
        columns = fields(self, "n_rows", "difference_interval")
        return frame_of({"rater": self.raters}, **columns)


@result
class RaterComparison(NamedTuple):
    """What `rater_comparison` returns.

    Attributes
    ----------
    difference : ConfidenceInterval
        Δ, how much more often a reader disagrees with the model than with another reader.
    margin : float
    non_inferior : bool
        Whether `difference` ends below `margin`. Of a 95% interval this is the one-sided test at
        2.5%.
    model_error, reader_error : ConfidenceInterval
        How often a reader disagrees with the model, and with another reader.
    loss_difference : ConfidenceInterval
        ``EL − IL``, the epistemic loss of the model's probabilities minus that of a reader's label.
    worth : float
        m* = IL/EL: the mean label of so many readers has the model's epistemic loss. NaN where the
        interval of EL holds 0.
    worth_low, worth_high : float
        Interval of m*; inf where EL may be 0.
    readers : RaterRows
        Each reader; intervals hold for all of them together, for these readers and new samples.
    distance : None, "linear", "quadratic" or ndarray of shape (n_classes, n_classes)
    confidence_level : float
    """

    difference: ConfidenceInterval
    margin: float
    non_inferior: bool
    model_error: ConfidenceInterval
    reader_error: ConfidenceInterval
    loss_difference: ConfidenceInterval
    worth: float
    worth_low: float
    worth_high: float
    readers: RaterRows
    distance: Distance
    confidence_level: float


@result
class JudgeTable(NamedTuple):
    """What `rater_comparison` returns for several judges.

    Attributes
    ----------
    comparisons : dict of RaterComparison
        Each judge beside one more reader.
    differences : dict of ConfidenceInterval
        By pairs of judges, how much more often a reader disagrees with the first than with the
        second; below 0 the first is better.
    correlations : dict of ConfidenceInterval
        By pairs of judges, whether they err together: 0 for two that err as independently as two
        readers of one sample, 1 for copies. NaN where a judge has no errors that these labels show.
    confidence_level : float
    """

    comparisons: dict[str, RaterComparison]
    differences: dict[tuple[str, str], ConfidenceInterval]
    correlations: dict[tuple[str, str], ConfidenceInterval]

    confidence_level: float

    def to_frame(self, by: Literal["judge", "pair"] = "judge") -> "DataFrame":
        """A pandas DataFrame, one row for each judge, or for each pair of judges."""
        if by == "pair":
            return frame_of_rows(
                {
                    pair: _ends("difference", found) | _ends("correlation", self.correlations[pair])
                    for pair, found in self.differences.items()
                }
            )
        return frame_of_rows(
            {
                judge: _ends("difference", found.difference)
                | {name: getattr(found, name) for name in _SHOWN}
                for judge, found in self.comparisons.items()
            }
        )


def _ends(name: str, interval: ConfidenceInterval) -> dict:
    names = name, f"{name}_low", f"{name}_high"
    return dict(zip(names, interval[:3], strict=True))


class Losses(NamedTuple):
    """What is compared in a sample, with classes at points B, (K, m), or all alike."""

    B: Floats | None

    def disagreement(self, mu, n, z):
        """IL_i: the probability that two readers disagree, or half their squared distance."""
        _, s, _ = placed(mu, mu, self.B)
        return n / (n - 1) * row_sum(s)

    def model_error(self, mu, n, z):
        """The same of a reader and the model."""
        if self.B is None:
            return 1 - accuracy(mu, z)
        return row_sum(mu @ half_squares(self.B) * votes_of(z))

    def epistemic(self, mu, n, z):
        """EL_i, Eq. (10) of P1: ‖μ̂ − z‖² minus the sampling variance of μ̂."""
        x, s, p = placed(mu, z, self.B)
        return row_sum((x - p) ** 2) - row_sum(s) / (n - 1)

    def excess_error(self, mu, n, z):
        """(1 − acc_i) − IL_i."""
        return self.model_error(mu, n, z) - self.disagreement(mu, n, z)

    def excess_loss(self, mu, n, z):
        """EL_i − IL_i."""
        return self.epistemic(mu, n, z) - self.disagreement(mu, n, z)

    def ratio(self, rows: Rows):
        """EL/IL, a ratio of sums."""
        return tuple(mean(loss)(rows)[0] for loss in (self.epistemic, self.disagreement))

    def compared(self) -> tuple[Callable, ...]:
        """Terms of differences and of what they are between."""
        losses = self.excess_error, self.model_error, self.disagreement, self.excess_loss
        return *map(mean, losses), self.ratio


def correlation_of(
    B: Floats | None, one: Rows, other: Rows, design: Design, confidence_level: float
) -> ConfidenceInterval:
    """The interval of ``E⟨x − Q, x′ − Q⟩ / √(E‖x − Q‖² E‖x′ − Q‖²)``, of two judges' samples."""

    def terms(rows: Rows, at: Indices):
        # of ⟨x − μ̂, x′ − μ̂⟩ the variance of μ̂ is taken off, Eq. (10) of P1
        mu, s, x = placed(rows.mu, one.z[at], B)
        _, _, other_x = placed(rows.mu, other.z[at], B)
        own = row_sum(s) / (rows.n - 1)
        pairs = (x, other_x), (x, x), (other_x, other_x)
        products = [row_sum((a - mu) * (b - mu)) - own for a, b in pairs]
        return rows.weight[:, None] * np.stack(products, axis=1), rows.weight

    found = MeanStatistic(terms, one, least_raters=2).replicates(design)
    found = Replicates._make(None if C is None else _correlation(C) for C in found)
    spread = spread_of(found, design, second_order=True)
    interval = interval_from(found.estimate, spread, confidence_level, False, design.panel)
    return with_ends(interval, *np.clip([interval.low, interval.high], -1, 1).tolist())


def _correlation(C: Floats) -> Floats:
    """Of a covariance and two variances, in the last axis; NaN where one is not above 0."""
    scale = np.where((C[..., 1:] > 0).all(axis=-1), C[..., 1] * C[..., 2], np.nan)
    return C[..., 0] / np.sqrt(scale)


Judges = Mapping[str, PredictionLike]


@checked
def rater_comparison(
    y: Annotations,
    prediction: PredictionLike | Judges,
    *,
    margin: float,
    sample_weight: Weights = None,
    groups: Groups = None,
    raters: Raters = None,
    confidence_level: float = 0.95,
    n_blocks: int | None = None,
    random_state: Seed = None,
    distance: Distance = None,
) -> "RaterComparison | JudgeTable":
    """Whether a model is as good as one more reader.

    Two readers of a sample disagree with probability IL. A reader disagrees with the model's label
    with probability 1 − accuracy. The model is non-inferior at a margin ε where the interval of
    ``Δ = (1 − accuracy) − IL`` ends below ε. Probabilities are compared by squared loss: a reader's
    label has the epistemic loss IL, the mean label of m readers IL/m, the model EL.

    Parameters
    ----------
    y : Annotations of shape (n_samples, n_classes)
        Samples with two readers or more count.
    prediction : array-like of shape (n_samples,) or (n_samples, n_classes), Distribution or dict
        The model's labels, or class probabilities, whose largest is its label; ties share evenly.
        Labels are names of classes, or their column numbers where no class is a number. They are
        taken as certain where losses are compared. (1-D floats are probabilities of the second
        class.) A dict holds several judges by their names; of a frame with a column of labels a
        judge, ``dict(frame.items())``.
    margin : float
        ε, a difference of probabilities of disagreement that does not matter. Choose it before the
        data are seen.
    sample_weight, groups, n_blocks, random_state
        As in `confidence_interval`.
    raters : {"random", "fixed"}, optional
        As in `confidence_interval`: by default for new readers and new samples.
    confidence_level : float, default=0.95
        Of intervals, which have two sides, and of the verdict, which has one.
    distance : None, "linear", "quadratic" or array-like of shape (n_classes, n_classes), optional
        As in `expected_squared_loss`. Errors are then half of the squared distance of two readers,
        or of a reader and the model: for "linear" half a unit a step. The margin is in that unit.

    Returns
    -------
    RaterComparison or JudgeTable
        For a dict a `JudgeTable`: a `RaterComparison` of each judge, and for each pair of judges
        the difference of their errors, and whether they err together. Each interval holds by
        itself, not all together.

    Raises
    ------
    ValueError
        Labels without raters, fewer than three raters where these are random, a sample without a
        label of the model, unknown classes, classes of y that were not given and differ only in
        case or blanks, lengths that differ; of a dict with the judge's name.

    Warns
    -----
    UserWarning
        Fewer than five raters.

    Notes
    -----
    Whether judges a and b err together is the correlation ``E⟨x − Q, x′ − Q⟩ / √(E‖x − Q‖² E‖x′ −
    Q‖²)`` of what they say, x and x′, one-hot or probabilities, minus the class probabilities Q of
    people. Sampling of the labels is taken off each of the three means, as from EL. Samples on
    which people disagree do not make it positive: two readers have 0. It tells what more judges
    would add: the mean of J judges of one EL has ``EL (1 + (J − 1)ρ)/J``.

    Readers are exchangeable. Each reader's own sample speaks of that reader; its intervals are
    those of the jackknife over samples, Bonferroni's over readers.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_lhcal.label_histogram import Annotations
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(2, size=(300, 1))
    >>> said = np.where(rng.random((300, 6)) < 0.8, truth, 1 - truth)
    >>> y = Annotations.from_matrix(said[:, :5])
    >>> result = rater_comparison(y, said[:, 5], margin=0.05, random_state=0)
    >>> bool(result.difference.low < 0 < result.difference.high)
    True

    Two judges, of whom the second mostly says what the first says:

    >>> judges = {"a": said[:, 5], "b": np.where(rng.random(300) < 0.7, said[:, 5], truth[:, 0])}
    >>> table = rater_comparison(y, judges, margin=0.05, random_state=0)
    >>> isinstance(table, JudgeTable), bool(table.correlations["a", "b"].low > 0.5)
    (True, True)
    """
    if distance is None and margin >= 1:
        raise ValueError(f"margin must be below 1 without a distance, got {margin!r}.")
    judges = prediction if isinstance(prediction, Mapping) else {"": prediction}
    rows = _read_judges(y, judges, sample_weight, groups)
    one = next(iter(rows.values()))
    losses = Losses(points_of(one, distance))
    P = apart(one, distance)
    terms = mean(losses.model_error)
    errors = {name: statistic_of_pairs(terms, own) for name, own in rows.items()}
    rng = check_random_state(random_state)
    design = next(iter(errors.values())).design(raters, n_blocks, rng)
    how = design, confidence_level
    found = {}
    for name, own in rows.items():
        statistics = [statistic_of_pairs(terms, own) for terms in losses.compared()]
        difference, model, reader, loss, ratio = (interval_of(of, *how) for of in statistics)
        # m* = IL/EL and its interval, from those of EL/IL
        low, high = (1 / end if end > 0 else np.inf for end in (ratio.high, ratio.low))
        found[name] = RaterComparison(
            difference=difference,
            margin=float(margin),
            non_inferior=bool(difference.high < margin),
            model_error=model,
            reader_error=reader,
            loss_difference=loss,
            worth=1 / ratio.estimate if ratio.low > 0 else np.nan,
            worth_low=low,
            worth_high=high,
            readers=_each(own, P, design.rows.code, confidence_level),
            distance=distance,
            confidence_level=confidence_level,
        )
    if not isinstance(prediction, Mapping):
        return found[""]
    pairs = list(combinations(rows, 2))
    return JudgeTable(
        found,
        {(a, b): interval_between(errors[a], errors[b], *how) for a, b in pairs},
        {(a, b): correlation_of(losses.B, rows[a], rows[b], *how) for a, b in pairs},
        confidence_level,
    )


def _read_judges(y, judges: Judges, sample_weight, groups) -> dict[str, Rows]:
    """The samples of each judge, with one order of the classes; an error says whose."""
    rows: dict[str, Rows] = {}
    for name, said in judges.items():
        with errors_of(f"prediction, judge {name!r}") if name else nullcontext():
            own = rows_of_pairs(read_rows(*of_reader(y, said), sample_weight, groups))
            classes = next(iter(rows.values()), own).classes
            rows[name] = own.in_order(classes, "the first judge")
    if not rows:
        raise ValueError("prediction is an empty dict; give judges by their names.")
    return rows


def _each(rows: Rows, P: Floats | None, block, confidence_level: float) -> RaterRows:
    """Each reader's errors and the model's, against the other readers of the same samples."""
    at = compared(rows, P)
    names = named_raters(rows.labels).raters
    R = len(names)
    options = (at, rows.weight, block, R, confidence_level)
    error = reader_means(at.reader_error, *options)
    model = reader_means(at.model_error, *options)
    difference = reader_means(at.model_error - at.reader_error, *options)
    n_rows = np.bincount(at.reader, minlength=R)
    return RaterRows(names, n_rows, error.mean, model.mean, error.interval, *difference)
