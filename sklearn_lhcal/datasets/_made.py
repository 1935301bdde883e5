"""Data made to measure, and how labels are drawn."""

import numpy as np
from sklearn.utils import Bunch, check_random_state

from .._utils.checks import as_floats, checked, plain_array
from .._utils.simplex import softmax
from .._utils.types import ArrayLike, Floats, Integers, Seed
from ..distributions import Dirichlet


@checked
def make_label_histograms(
    n_samples: int = 1000,
    n_classes: int = 3,
    n_raters: int | tuple[int, int] | ArrayLike = 5,
    *,
    n_features: int = 5,
    total: float | ArrayLike = 10.0,
    class_sep: float = 2.0,
    overconfidence: float = 1.0,
    random_state: Seed = None,
) -> Bunch:
    """Label histograms with known class probabilities, and a prediction of known calibration.

    Features are standard normal, and scores u are linear in them. The true class probabilities of a
    sample are ``Q ~ Dirichlet(total·softmax(u))``: the features do not tell everything. Raters draw
    from Q. So ``softmax(u)`` is E[Q | X], perfectly calibrated, and `total` is the best α0 to go
    with it.

    Parameters
    ----------
    n_samples, n_classes : int
        Samples, and classes (two or more).
    n_raters : int, tuple (low, high) or array-like of shape (n_samples,), default=5
        Labels per sample: the same for all, drawn uniformly from low to high, both included, or
        given sample by sample.
    n_features : int, default=5
        Columns of X.
    total : float or array-like of shape (n_samples,), default=10.0
        α0, how well the features tell Q: positive, and infinite where they tell it exactly.
    class_sep : float, default=2.0
        Standard deviation of the scores u. At 0 all classes are equally likely; large values make
        the samples easy.
    overconfidence : float, default=1.0
        The prediction is ``softmax(overconfidence·u)``: calibrated at 1, overconfident above. It is
        the temperature that calibrates the prediction.
    random_state : int, RandomState instance or None, default=None
        As everywhere in scikit-learn. The same integer gives the same model (`coef`) and first
        samples of X, whatever `n_samples`: draw training and test samples together and split them.

    Returns
    -------
    Bunch
        - ``X`` : ndarray of shape (n_samples, n_features)
        - ``counts`` : ndarray of shape (n_samples, n_classes), int64; the label histograms
        - ``proba`` : ndarray of shape (n_samples, n_classes); the true class probabilities Q
        - ``prediction`` : ndarray of shape (n_samples, n_classes); what a model would predict
        - ``total`` : ndarray of shape (n_samples,); α0
        - ``coef`` : ndarray of shape (n_classes, n_features); the scores are ``u = X @ coef.T``

    Raises
    ------
    ValueError
        Sizes or numbers of raters below their least values, a negative or infinite `class_sep` or
        `overconfidence`, a `total` that is not positive.

    Examples
    --------
    >>> from sklearn_lhcal.metrics import epistemic_loss
    >>> data = make_label_histograms(200, n_raters=(2, 7), overconfidence=2.0, random_state=0)
    >>> data.counts.shape
    (200, 3)
    >>> bool(epistemic_loss(data.counts, data.prediction) > 0)
    True
    """
    total = as_floats(total, "total")
    if total.shape not in ((), (n_samples,)) or not (total > 0).all():
        raise ValueError(
            f"total must be positive: one number or shape ({n_samples},), got {total}."
        )
    total = np.array(np.broadcast_to(total, n_samples))
    rng = check_random_state(random_state)
    coef, X = model_and_rows(n_samples, n_classes, n_features, class_sep, rng)
    raters = check_raters(n_raters, n_samples, rng)
    u = X @ coef.T
    Q = softmax(u)
    some = np.isfinite(total)
    if some.any():
        Q[some] = Dirichlet.from_mean(Q[some], total[some]).sample(1, rng)[0]
    return Bunch(
        X=X,
        counts=draw_counts(Q, raters, rng),
        proba=Q,
        prediction=softmax(overconfidence * u),
        total=total,
        coef=coef,
    )


@checked
def make_random_checkerboard(
    n_samples: int = 142_693,
    n_rows: int = 38,
    n_columns: int = 46,
    cell_std: float = 1.0,
    random_state: Seed = None,
) -> tuple[Floats, Integers]:
    """Points of two classes in the plane: Gaussian cells on a grid, a random half of either class.

    The toy data of P3 section 5.3. A sample's cell (j, k) is uniform on 1..n_rows × 1..n_columns,
    its place is ``N((j, k), cell_std²·I)``, and its label is that of the cell. Between cells of
    different classes the labels are random: the wider the cells, the more of the uncertainty is
    aleatoric.

    Parameters
    ----------
    n_samples, n_rows, n_columns : int
        Points, and cells along either axis. The defaults are those of the paper.
    cell_std : float, default=1.0
        Standard deviation of a cell, where neighbouring centres are 1 apart. The default is that of
        the paper's formula; its results look like those of 0.35 (see Notes).
    random_state : int, RandomState instance or None, default=None
        As everywhere in scikit-learn. The same integer gives the same cells, whatever `n_samples`.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Places.
    y : ndarray of shape (n_samples,), int64
        Labels, 0 and 1.

    Raises
    ------
    ValueError
        Sizes below 1, fewer than two cells, a `cell_std` that is not positive and finite.

    Notes
    -----
    The entropy of the best prediction is on average, in nats:

    ======== ==== ==== ==== ==== ==== ====
    cell_std 0.2  0.3  0.35 0.4  0.5  1
    entropy  0.03 0.22 0.32 0.40 0.51 0.65
    ======== ==== ==== ==== ==== ==== ====

    References
    ----------
    The evaluation and calibration of epistemic uncertainty estimates, section 5.3 (P3).

    Examples
    --------
    >>> X, y = make_random_checkerboard(1000, n_rows=4, n_columns=6, cell_std=0.25, random_state=0)
    >>> X.shape, y.mean().round(2)
    ((1000, 2), np.float64(0.48))
    """
    cells = n_rows * n_columns
    if cells < 2:
        raise ValueError("A checkerboard needs two cells or more.")
    rng = check_random_state(random_state)
    # The cells are drawn first, so that n_samples does not change them.
    label = np.zeros(cells, dtype=np.int64)
    label[rng.permutation(cells)[: cells // 2]] = 1
    z = rng.randint(cells, size=n_samples)
    centres = 1 + np.column_stack(np.divmod(z, n_columns))
    return centres + cell_std * rng.standard_normal((n_samples, 2)), label[z]


def model_and_rows(
    n: int, n_classes: int, n_features: int, class_sep: float, rng
) -> tuple[Floats, Floats]:
    """Coefficients (K, f) whose rows have the length `class_sep`, and Gaussian samples X (n, f)."""
    # The model is drawn first, so that n does not change it.
    coef = rng.standard_normal((n_classes, n_features))
    coef *= class_sep / np.linalg.norm(coef, axis=1, keepdims=True)
    return coef, rng.standard_normal((n, n_features))


def check_raters(raters, n_samples: int, rng) -> Integers:
    """Raters of each row, shape (n_samples,): one number, a range (low, high), or one per row."""
    n = as_floats(raters, "n_raters")
    whole = (n == np.floor(n)) & (n >= 1) & (n < 2**53)
    if plain_array(raters, "n_raters").dtype.kind == "b" or not whole.all():
        raise ValueError(
            f"n_raters, the number of raters must be a positive integer, got {raters!r}."
        )
    if isinstance(raters, tuple):
        if len(raters) != 2 or raters[0] > raters[1]:
            raise ValueError(
                f"n_raters as a range must be a tuple (low, high) with low <= high, got {raters!r}."
            )
        return rng.randint(raters[0], raters[1] + 1, size=n_samples)
    if n.shape not in ((), (n_samples,)):
        raise ValueError(
            f"n_raters must be one number, (low, high), or have shape ({n_samples},): {n.shape}."
        )
    return np.broadcast_to(n.astype(np.int64), n_samples)


def draw_counts(Q: Floats, raters, rng) -> Integers:
    """Counts of n_i labels drawn from sample Q_i, shape (n, K).

    One binomial a class: how many of the labels still to be given go to it.
    """
    left = np.full(len(Q), raters, dtype=np.int64)
    # Σ_{j≥k} Q_j: exactly Q_k in the last class that is possible.
    mass = np.cumsum(Q[:, ::-1], axis=1)[:, ::-1]
    share = np.divide(Q, mass, out=np.zeros_like(Q), where=mass > 0)
    share = np.minimum(share, 1.0)
    counts = np.empty(Q.shape, dtype=np.int64)
    for k in range(Q.shape[1]):
        counts[:, k] = rng.binomial(left, share[:, k])
        left -= counts[:, k]
    return counts
