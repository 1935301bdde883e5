"""Reader studies made to measure: who reads what, and readers who differ."""

from typing import Literal

import numpy as np
from scipy.stats import norm, qmc
from sklearn.utils import Bunch, check_random_state

from .._utils.arrays import in_blocks
from .._utils.checks import checked
from .._utils.simplex import softmax
from .._utils.types import Floats, Indices, Seed
from ..label_histogram import Annotations
from ._made import model_and_rows

Design = Literal["crossed", "partial", "nested", "split_plot", "crowd"]
# points of the integral over raters
_POINTS = 4096


@checked
def make_rater_study(
    n_rows: int = 200,
    n_raters: int = 5,
    n_classes: int = 3,
    *,
    design: Design = "crossed",
    per_row: int = 3,
    rater_std: float = 0.3,
    slope_std: float = 0.0,
    row_std: float = 0.5,
    class_sep: float = 1.5,
    n_features: int = 5,
    overconfidence: float = 1.0,
    random_state: Seed = None,
) -> Bunch:
    """A reader study with its truth: readers who differ, and a design of who reads what.

    Features x are standard normal, the scores of a sample are ``v = W x + row_std · ε``, and reader
    r says class k with probability ``softmax(exp(slope_r) · v + bias_r)_k``. Biases and slopes are
    normal, so that reader r is one of a population.

    Parameters
    ----------
    n_rows, n_raters : int
        Samples, and readers; a crowd has as many readers as labels, whatever `n_raters`.
    n_classes : int, default=3
        Two or more.
    design : {"crossed", "partial", "nested", "split_plot", "crowd"}, default="crossed"
        Who reads what.

        - "crossed": everybody reads everything.
        - "partial": `per_row` readers read each sample, drawn at random.
        - "nested": one reader reads a sample; samples are dealt out evenly.
        - "split_plot": panels of `per_row` readers or one more have a block of samples each.
        - "crowd": `per_row` labels per sample, by readers who give no other.
    per_row : int, default=3
        Readings of a sample, where the design has this number.
    rater_std : float, default=0.3
        Standard deviation of the readers' biases, in logits.
    slope_std : float, default=0.0
        Standard deviation of the readers' slopes: the logarithm of how sharply they tell classes
        apart.
    row_std : float, default=0.5
        Standard deviation of what the features do not tell, in logits.
    class_sep : float, default=1.5
        Standard deviation of the scores that the features tell.
    n_features : int, default=5
        Columns of X.
    overconfidence : float, default=1.0
        The prediction is ``E[label | x]`` to this power, normalised: calibrated at 1.
    random_state : int, RandomState instance or None, default=None
        As everywhere in scikit-learn.

    Returns
    -------
    Bunch
        - ``X`` : ndarray of shape (n_rows, n_features)
        - ``y`` : `Annotations` of shape (n_rows, n_classes); who said what
        - ``proba`` : ndarray of shape (n_rows, n_classes); what a new reader says of each sample:
          the truth, by quasi-Monte Carlo over readers, to about 1e-3
        - ``prediction`` : ndarray of shape (n_rows, n_classes); what a model would predict
        - ``scores`` : ndarray of shape (n_rows, n_classes); v
        - ``bias`` : ndarray of shape (n_raters, n_classes)
        - ``slope`` : ndarray of shape (n_raters,)
        - ``coef`` : ndarray of shape (n_classes, n_features); W

    Raises
    ------
    ValueError
        Sizes below their least values, more readings a sample than readers, fewer than two panels,
        an unknown design, negative spreads.

    Examples
    --------
    >>> study = make_rater_study(100, 8, design="partial", rater_std=0.8, random_state=0)
    >>> study.y
    Annotations(100 samples, 8 raters, 300 labels of 3 classes)
    >>> from sklearn_lhcal.label_histogram import KnownProbabilities
    >>> from sklearn_lhcal.metrics import irreducible_loss
    >>> truth = irreducible_loss(KnownProbabilities(study.proba))
    >>> abs(irreducible_loss(study.y) - truth) < 0.1
    True
    """
    rng = check_random_state(random_state)
    coef, X = model_and_rows(n_rows, n_classes, n_features, class_sep, rng)
    u = X @ coef.T
    v = u + row_std * rng.standard_normal((n_rows, n_classes))
    row, rater = _readings(design, n_rows, n_raters, per_row, rng)
    R = rater.max() + 1 if design == "crowd" else n_raters
    bias = rater_std * rng.standard_normal((R, n_classes))
    slope = slope_std * rng.standard_normal(R)
    p = softmax(np.exp(slope[rater])[:, None] * v[row] + bias[rater])
    indptr = np.searchsorted(row, np.arange(n_rows + 1))
    classes = np.arange(n_classes)
    prediction = _mean_reader(u, rater_std, slope_std, row_std) ** overconfidence
    return Bunch(
        X=X,
        y=Annotations(indptr, rater, _labels(p, rng), raters=np.arange(R), classes=classes),
        proba=_mean_reader(v, rater_std, slope_std, 0.0),
        prediction=prediction / prediction.sum(axis=1, keepdims=True),
        scores=v,
        bias=bias,
        slope=slope,
        coef=coef,
    )


def _readings(design: str, n: int, R: int, m: int, rng) -> tuple[Indices, Indices]:
    """Sample and reader of each reading, sorted by sample."""
    if design == "partial" and m > R:
        raise ValueError(f"per_row is {m}, but there are {R} raters.")
    if design == "split_plot" and 2 * m > R:
        raise ValueError(f"A split plot has two panels at least, of per_row={m} of {R} raters.")
    rows = np.arange(n)
    if design == "crossed":
        return np.repeat(rows, R), np.tile(np.arange(R), n)
    if design == "partial":
        order = rng.random_sample((n, R)).argsort(axis=1)
        return np.repeat(rows, m), np.sort(order[:, :m], axis=1).ravel()
    if design == "nested":
        return rows, rng.permutation(n) % R
    if design == "crowd":
        return np.repeat(rows, m), np.arange(n * m)
    panels = np.array_split(np.arange(R), R // m)
    readers = [panels[b] for b in rng.permutation(n) % len(panels)]
    return np.repeat(rows, [len(panel) for panel in readers]), np.concatenate(readers)


def _labels(p: Floats, rng) -> Indices:
    """One label of each row of probabilities (n, K)."""
    label = (p.cumsum(axis=1) < rng.random_sample((len(p), 1))).sum(axis=1)
    return np.minimum(label, p.shape[1] - 1)


def _mean_reader(v: Floats, rater_std: float, slope_std: float, row_std: float) -> Floats:
    """What readers say on average, ``E softmax(exp(slope)·(v + row_std·ε) + bias)``, (n, K)."""
    n, K = v.shape
    points = norm.ppf(qmc.Sobol(2 * K + 1, seed=0).random(_POINTS))
    bias = rater_std * points[:, :K]
    slope = np.exp(slope_std * points[:, K])[:, None]
    noise = row_std * points[:, K + 1 :]

    def of_rows(rows: slice) -> Floats:
        return softmax(slope * (v[rows, None, :] + noise) + bias).mean(axis=1)

    return in_blocks(of_rows, n, _POINTS * K)
