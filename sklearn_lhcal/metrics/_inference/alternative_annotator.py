"""The alternative annotator test of Calderon, Reichart and Dror (2025)."""

from typing import NamedTuple

import numpy as np
from scipy.stats import beta, false_discovery_control
from scipy.stats import t as student

from ..._rows import Annotations, PredictionLike, read_rows
from ..._utils.checks import checked, warn_undefined
from ..._utils.distances import Distance
from ..._utils.results import DataFrame, frame_of, result
from ..._utils.types import Floats, Mask, NDArray
from .._evaluate import apart
from .rater_comparison import compared, named_raters, of_reader

# samples that she or the model wins alone, below which Student's test is not believed
_FEW = 20
# quantiles that stand for a distribution
_LEVELS = (np.arange(400) + 0.5)[:, None] / 400


@result
class AlternativeAnnotatorTest(NamedTuple):
    """What `alternative_annotator_test` returns.

    Attributes
    ----------
    winning_rate : float
        Share of the raters whom the model may replace, ω.
    passed : bool
        Whether the winning rate is 0.5 or more.
    advantage : float
        Mean over raters of the probability that the model agrees with the others at least as well
        as the rater, ρ.
    raters : ndarray of shape (n_tested,)
        The raters with enough samples.
    p_value : ndarray of shape (n_tested,)
        One-sided, of the hypothesis that the rater wins more samples than the model, by epsilon or
        more.
    replaced : ndarray of shape (n_tested,), bool
        Whose hypothesis is rejected at the false discovery rate.
    """

    winning_rate: float
    passed: bool
    advantage: float
    raters: NDArray
    p_value: Floats
    replaced: Mask

    def to_frame(self) -> "DataFrame":
        """A pandas DataFrame, one row for each rater who was tested."""
        return frame_of({"rater": self.raters}, p_value=self.p_value, replaced=self.replaced)


@checked
def alternative_annotator_test(
    y: Annotations,
    prediction: PredictionLike,
    *,
    epsilon: float = 0.2,
    false_discovery_rate: float = 0.05,
    least_rows: int = 30,
    distance: Distance = None,
) -> AlternativeAnnotatorTest:
    """Whether a model may replace most of these raters, by the test of Calderon et al. (2025).

    Each rater is left out in turn. On each of her samples, whoever agrees better with the other
    raters wins, she or the model; both, where they agree equally well. Her hypothesis is that the
    share of samples she wins exceeds the model's by `epsilon` or more. Student's one-sided test
    decides, at the false discovery rate of Benjamini and Yekutieli over raters. The model passes
    where half of the hypotheses are rejected.

    Where fewer than 20 of her samples are won by one of them alone, Student's test rejects true
    hypotheses too often. The p-value is then that of the endpoint interval of
    `confidence_interval`, binomial where the model wins none alone. The paper has Student's there.

    For comparison with the literature: raters are fixed here, and a sample counts by who wins it.
    `rater_comparison` speaks of readers like these, and has more power.

    Parameters
    ----------
    y : Annotations of shape (n_samples, n_classes)
    prediction : array-like of shape (n_samples,) or (n_samples, n_classes), or Distribution
        The model's labels, or class probabilities, whose largest is its label.
    epsilon : float, default=0.2
        What the model is given for being cheaper. The paper has 0.2 for experts, 0.15 for skilled
        annotators, 0.1 for crowds.
    false_discovery_rate : float, default=0.05
    least_rows : int, default=30
        Raters with fewer samples are not tested. A sample counts where another rater has rated it
        too.
    distance : None, "linear", "quadratic" or array-like of shape (n_classes, n_classes), optional
        As in `rater_comparison`: whoever is nearer to the other raters wins.

    Returns
    -------
    AlternativeAnnotatorTest
        NaN and no raters, with an UndefinedMetricWarning, where nobody has enough samples.

    Raises
    ------
    ValueError
        Labels without raters, a sample without a label of the model, unknown classes, lengths that
        differ.

    Warns
    -----
    UndefinedMetricWarning
        No rater has `least_rows` samples.

    References
    ----------
    Calderon, Reichart and Dror (2025), The alternative annotator test for LLM-as-a-judge,
    section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_lhcal.label_histogram import Annotations
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(2, size=(100, 1))
    >>> y = Annotations.from_matrix(np.where(rng.random((100, 3)) < 0.8, truth, 1 - truth))
    >>> test = alternative_annotator_test(y, truth[:, 0])
    >>> test.winning_rate, test.passed
    (1.0, True)
    """
    rows = read_rows(*of_reader(y, prediction))
    labels = named_raters(rows.labels)
    at = compared(rows, apart(rows, distance))
    # compared with a margin: equal shares of other raters may differ in their last bit
    model_wins = at.model_error <= at.reader_error + 1e-9
    reader_wins = at.reader_error <= at.model_error + 1e-9
    difference = reader_wins.astype(float) - model_wins
    R = len(labels.raters)
    terms = None, difference, difference**2, model_wins
    sums = np.stack([np.bincount(at.reader, a, minlength=R) for a in terms])
    tested = np.flatnonzero(sums[0] >= max(least_rows, 2))
    n, total, squares, wins = sums[:, tested]
    mean = total / n
    spread = np.sqrt(np.maximum(squares / n - mean**2, 0.0) * n / (n - 1))
    p_value = _p_value(mean - epsilon, spread / np.sqrt(n), n - 1)
    p_value = np.where(squares < _FEW, _p_of_few(total, squares, n, epsilon), p_value)
    replaced = false_discovery_control(p_value, method="by") <= false_discovery_rate
    raters = labels.raters[tested]
    if not len(tested):
        least = max(least_rows, 2)
        warn_undefined(f"No rater has {least} samples that another rated: nobody is tested.")
        return AlternativeAnnotatorTest(np.nan, False, np.nan, raters, p_value, replaced)
    rate = float(replaced.mean())
    return AlternativeAnnotatorTest(
        rate, rate >= 0.5, float((wins / n).mean()), raters, p_value, replaced
    )


def _p_value(difference: Floats, error: Floats, df) -> Floats:
    """P(T ≤ difference/error); where all samples are alike, 0 or 1."""
    constant = error < 1e-12
    p = student.cdf(difference / np.where(constant, 1.0, error), df)
    return np.where(constant, difference >= 0, p)


def _p_of_few(total: Floats, squares: Floats, n: Floats, epsilon: float) -> Floats:
    """P(D_a − D_b ≥ ε), D ~ Dirichlet(a + 1, b, n − a − b): a and b are samples won alone."""
    a = (squares + total) / 2
    b = (squares - total) / 2
    neither = np.maximum(n - squares, 1e-9)
    D_b = beta.ppf(_LEVELS, np.maximum(b, 1e-9), n + 1 - b)
    return beta.sf((epsilon + D_b) / (1 - D_b), a + 1, neither).mean(axis=0)
