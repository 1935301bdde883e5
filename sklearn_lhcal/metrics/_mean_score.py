"""Grades as scores: their mean over samples, and how far a prediction's lies from it.

Letters as in `_label_histogram`; s the score of each class."""

from collections.abc import Callable, Mapping

import numpy as np

from .._rows import PredictionLike, Rows, names_of, read_labels, read_rows, with_votes
from .._utils.arrays import Floats
from .._utils.checks import as_floats, check_finite
from .._utils.names import check_row_names, numbers_of
from .._utils.simplex import row_sum
from .._utils.tags import MeanOfTerms, metric
from .._utils.types import ArrayLike, LabelsLike, Weights
from ._evaluate import score, weighted

Scores = ArrayLike | Mapping | None
# whose squares are sums of floats
_LARGEST = 1e100


def _scores_of(rows: Rows, scores: Scores) -> Floats:
    """s, (K,), in the order of the classes of the samples."""
    names = names_of(rows.labels)
    if scores is None:
        scores = numbers_of(names)
    elif isinstance(scores, Mapping):
        scores = [scores.get(name, np.nan) for name in names.tolist()]
    s = as_floats([] if scores is None else scores, "scores")
    check_finite(s, "scores")
    if s.shape != names.shape or np.abs(s).max() > _LARGEST:
        example = dict.fromkeys(names.tolist()[:-1], 0) | {names[-1]: 1}
        raise ValueError(
            f"scores must be one number for each class of {names.tolist()[:20]}: scores={example} "
            f"gives the share of {names[-1]!r}."
        )
    return s


def _range_of_scores(rows: Rows, scores: Scores) -> tuple[float, float]:
    s = _scores_of(rows, scores)
    return s.min(), s.max()


def _mean_of_scores(shares: Callable, facts: Callable) -> Callable[..., MeanOfTerms]:
    """Tags of ``mean Σ_k shares_k s_k``, and what ``facts(scores)`` say of it."""

    def tags(*, scores: Scores) -> MeanOfTerms:
        return MeanOfTerms(
            ordered=True,
            terms=lambda rows, **_: weighted(
                rows, row_sum(shares(rows) * _scores_of(rows, scores))
            ),
            **facts(scores),
        )

    return tags


def _read_grades(y: LabelsLike, prediction: PredictionLike, *how: Weights, scores: Scores) -> Rows:
    """Samples, of a prediction that may be one grade a sample."""
    check_row_names(y=y, prediction=prediction)
    return read_rows(*with_votes(read_labels(y), prediction, add=True), *how)


_of_labels = _mean_of_scores(
    lambda rows: rows.mu,
    lambda scores: {"limits": lambda rows: _range_of_scores(rows, scores), "of_labels": True},
)
# few labels may decide a bias, which is far from the ends of its range
_of_both = _mean_of_scores(
    lambda rows: rows.z - rows.mu, lambda _: {"bounds": (-np.inf, np.inf), "read": _read_grades}
)


@metric(_of_labels)
def mean_score(
    y: LabelsLike,
    prediction: PredictionLike | None = None,
    *,
    sample_weight: Weights = None,
    scores: Scores = None,
) -> float:
    """Mean score of graded labels: between the least and the largest score.

    ``mean Σ_k μ̂_k s_k``: the mean grade of each sample, averaged over samples, so that a sample
    counts once however many raters it has. It is unbiased with any number of raters, where these do
    not depend on the grade.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.
    prediction : ignored
        Accepted so that all metrics are called alike. Only its number of classes is used.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples; only their ratios matter.
    scores : array-like of shape (n_classes,), dict or None, optional
        The score of each class, in the order of the classes, or by class. None: classes are
        numbers, and their own scores.

    Returns
    -------
    score : float
        In the unit of the scores.

    Raises
    ------
    ValueError
        Classes that are no numbers, without scores; a class without a score; scores that are not
        finite.

    See Also
    --------
    score_bias : How far a model's or a judge's scores are from those of people.
    prediction_powered : The mean from people's labels of few samples and a judge's of many.

    Examples
    --------
    >>> mean_score([[1, 1, 0], [0, 0, 2]])  # grades 0, 1 and 2
    1.25
    >>> mean_score(["good", "bad", "good"], scores={"bad": 0, "good": 10})
    6.666666666666667
    """
    return score(mean_score, **locals())


@metric(_of_both)
def score_bias(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: Weights = None,
    scores: Scores = None,
) -> float:
    """Mean score of a prediction less that of the labels: 0 is best, above 0 it grades too high.

    ``mean Σ_k (z_k − μ̂_k) s_k``. Too high on some samples and too low on others may cancel;
    `expected_squared_loss` with ``distance="quadratic"`` counts both.

    Parameters
    ----------
    y, sample_weight, scores
        As in `mean_score`.
    prediction : array-like of shape (n_samples, n_classes) or (n_samples,), or Distribution
        Class probabilities, or those of the second of two classes, or a distribution, whose mean
        counts. 1-D integers, words or categories: one grade a sample, as a judge gives.

    Returns
    -------
    bias : float
        In the unit of the scores.

    Raises
    ------
    ValueError
        As `mean_score`.

    Examples
    --------
    >>> judge = [[0, 1, 0], [0, 0, 1]]
    >>> score_bias([[1, 1, 0], [0, 0, 2]], judge)
    0.25
    >>> score_bias([3, 4, 2], [4, 5, 2])  # what a judge said
    0.6666666666666666
    """
    return score(score_bias, **locals())
