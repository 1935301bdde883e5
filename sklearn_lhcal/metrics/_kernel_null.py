"""A test of calibration, and what a kernel error would be if the predictions were calibrated.

Letters: z predictions, μ̂ observed frequencies in S versions (n, S, K), w weights of samples.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.utils import check_random_state

from .._rows import Annotations, PredictionLike, Rows, read_rows
from .._utils.arrays import in_batches
from .._utils.checks import checked
from .._utils.simplex import EPS, votes_of
from .._utils.types import ArrayLike, Floats, Groups, Indices, KernelKind, LabelsLike, Seed, Weights
from ._binned import raters_repeat
from ._epistemic import check_levels
from ._evaluate import signed_root
from ._kernel import check_enough, check_options, mean_errors
from ._kernel_bandwidth import choose_bandwidth

# (generator, number of draws S) -> μ̂ of shape (n, S, K)
Draw = Callable[[np.random.Generator, int], Floats]


def signs(rows: Rows) -> Draw:
    """``z + ε(μ̂ − z − b) + Σ_r η_r B_r / n_i`` with b_i = Σ_r B_r / n_i, B_r the bias of rater r.

    ε = ±1 is one sign for each group, or sample without groups; η_r = ±1 is one for each rater.
    """
    n, K = rows.z.shape
    unit = _units(rows.groups, n)
    M, B = _biases(rows)
    z = rows.z[:, None, :]
    own = (rows.mu - rows.z - M @ B)[:, None, :]

    def draw(generator, S: int):
        epsilon = generator.choice([-1.0, 1.0], size=(unit.max() + 1, S))
        eta = generator.choice([-1.0, 1.0], size=(len(B), S))
        flipped = (eta[:, :, None] * B[:, None, :]).reshape(len(B), S * K)
        return z + epsilon[unit][:, :, None] * own + (M @ flipped).reshape(n, S, K)

    return draw


def check_draws(rows: Rows) -> None:
    """ValueError for known probabilities without groups, whose signs are drawn."""
    if rows.labels.known and rows.groups is None:
        raise ValueError(
            "KnownProbabilities have no labels to draw; give histograms, or groups, one a sample."
        )


def _units(groups: Indices | None, n: int) -> Indices:
    """The number of the unit of each row, in the order of the rows, whatever groups are called."""
    if groups is None:
        return np.arange(n)
    _, first, unit = np.unique(groups, return_index=True, return_inverse=True)
    return first.argsort().argsort()[unit]


def _biases(rows: Rows) -> tuple[csr_matrix, Floats]:
    """The mean over the raters of each sample, (n, R), and the raters' biases B, (R, K).

    ``B_r = √(σ²/(σ² + (τ² − σ²)/n_r)) · mean_i e_ir``: as large on average as the biases are, of
    variance σ², where single residuals have τ².
    """
    n, K = rows.z.shape
    if not raters_repeat(rows):
        return csr_matrix((n, 0)), np.zeros((0, K))
    labels = cast(Annotations, rows.labels)
    R = len(labels.raters)
    ones = np.ones(len(labels.rater))
    incidence = csr_matrix((ones, labels.rater, labels.indptr), shape=(n, R))
    n_r = np.bincount(labels.rater, minlength=R)
    said = np.bincount(labels.rater * K + labels.label, minlength=R * K).reshape(R, K)
    sums = said - incidence.T @ rows.z
    # |e_ir|² = 1 − 2 z_ia + |z_i|²
    squares = 1 - 2 * rows.z[labels.row, labels.label] + (rows.z**2).sum(axis=1)[labels.row]
    tau2 = squares.mean()
    # pairs of samples of one rater
    sigma2 = ((sums**2).sum() - squares.sum()) / (n_r * (n_r - 1.0)).sum()
    sigma2 = min(max(sigma2, 0.0), tau2)
    seen = np.maximum(n_r, 1)
    # 0 where all residuals are 0
    shrink = np.sqrt(sigma2 / np.maximum(sigma2 + (tau2 - sigma2) / seen, 1e-300))
    means = csr_matrix((1 / rows.n[labels.row], labels.rater, labels.indptr), shape=(n, R))
    return means, (shrink / seen)[:, None] * sums


# ρ: raters of a sample who all but always agree
_MOST_ALIKE = 1 - 1e-6
# bandwidths of the kernel statistic where none is given
_BANDWIDTHS = (0.02, 0.1, 0.5)
_STATISTICS = ("sharpness", "class frequencies", "shape")
# What the first counts: no statistic then finds much more by itself than the three together.
_OF_SHARPNESS = 0.9
# differences that are none, in standard deviations
_ROUNDING = 1e-9


class NullCalibrationError(NamedTuple):
    """A test of calibration, and what a kernel error would be if the predictions were calibrated.

    Attributes
    ----------
    estimate : float
        The kernel calibration error of the data.
    mean : float
        Mean of the kernel error over the replicates.
    quantiles : ndarray
        Quantiles of the kernel error over the replicates.
    p_value : float
        Of the three statistics together: the share of replicates in which one of them stands out as
        far, the data counted as one. It is small where the predictions are not calibrated, and
        about uniform where they are.
    bandwidth : float
        That of the kernel error; of several, the one at which the data stand out most.
    p_values : dict of str to float
        Of "sharpness", "class frequencies" and "shape", each by itself.
    culprit : str
        What stands out most: "overconfident" or "underconfident", "class frequencies", or "shape"
        where its p-value is smaller than those of the other two.
    """

    estimate: float
    mean: float
    quantiles: Floats
    p_value: float
    bandwidth: float
    p_values: dict[str, float]
    culprit: str

    def __str__(self) -> str:
        return (
            f"H0: the predictions are calibrated; p = {self.p_value:.2g}; "
            f"what stands out most: {self.culprit}"
        )


@checked
def null_calibration_error(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: Weights = None,
    groups: Groups = None,
    kind: KernelKind = "canonical",
    p: float = 2,
    bandwidth: float | Literal["loo"] | None = None,
    root: bool = False,
    bias_correction: Literal["residual", "second_order"] | None = "residual",
    n_draws: int = 200,
    quantiles: ArrayLike = (0.05, 0.5, 0.95),
    random_state: Seed = 0,
    device: str = "cpu",
) -> NullCalibrationError:
    """Test of calibration, and the level of `kernel_calibration_error` under perfect calibration.

    Three statistics are computed from the data, and from replicates under calibration:

    - "sharpness", ``|Σ_i w_i ⟨log z_i, μ̂_i − z_i⟩|``, finds wrong temperatures. The sum is below
      0 where predictions are overconfident.
    - "class frequencies", ``√(rᵀV⁺r)`` with ``r = Σ_i w_i (μ̂_i − z_i)`` and
      ``V = Σ_i w_i² (diag z_i − z_i z_iᵀ)``, finds classes that are predicted too often.
    - "shape", the kernel error, finds anything else.

    Each is measured in its standard deviations over the replicates, and the largest of the three is
    compared with the largest of each replicate; sharpness counts nine tenths, as it looks in one
    direction and the others in many. For "top_label" there are two classes, the predicted one and
    the rest.

    Calibrated predictions are the mean of the true class probabilities, ``E[Q | z] = z``. But Q may
    vary around z, and then the raters of a sample agree more than independent labels from z would.
    So a replicate depends on the samples:

    - samples with one rater: a label from z. This is exact.
    - samples with several: counts from a Dirichlet-multinomial with mean z. Its correlation of two
      raters is that of the data, ``ρ = Σ EL_i / Σ (1 − Σ_k z_ik²)``, between 0 and 1, with EL the
      sample's `epistemic_loss`. It is one number for all samples.
    - with groups: ``z ± (μ̂ − z)``, one random sign for all samples of a group. This takes from the
      data how samples and raters depend on each other.
    - with `Annotations` of raters who rated several samples: the same, with one sign a sample where
      there are no groups. The part of the residuals that belongs to a rater has a sign of its own.
      Calibrated then means for new raters: a panel may lean to one side by chance.

    Kernels are computed once for all replicates of a batch.

    Parameters
    ----------
    y, prediction, sample_weight, kind, p, root, bias_correction, device
        As in `kernel_calibration_error`. The plug-in (``bias_correction=None``) is small where
        predictions are underconfident: "shape" then never finds that.
    groups : array-like of shape (n_samples,), optional
        Samples of one group (one patient, say) may depend on each other; groups are independent.
        The kernel error leaves pairs of one group out. Names of groups make no difference. One
        group a sample, ``groups=np.arange(n)``, tests by signs without the Dirichlet-multinomial.
    bandwidth : None, float or "loo", default=None
        None: 0.02, 0.1 and 0.5, of which the one counts that stands out most, in the data and in
        each replicate. "cv" is refused: it depends on the labels and would have to be sought for
        every replicate.
    n_draws : int, default=200
        Number of replicates.
    quantiles : array-like of float, default=(0.05, 0.5, 0.95)
        Which quantiles of the replicates to return.
    random_state : int, RandomState instance or None, default=0
        Draws the labels or signs, and the samples for a bandwidth.

    Returns
    -------
    NullCalibrationError
        ``(estimate, mean, quantiles, p_value, bandwidth, p_values, culprit)``. As text it names the
        hypothesis and what stands out most.

    Raises
    ------
    ValueError
        As `kernel_calibration_error`; ``bandwidth="cv"``; known probabilities without groups, which
        have no labels to draw.

    Notes
    -----
    Raters of a sample are taken as exchangeable, and samples (or groups) as independent. The
    test is exact for one rater per sample, and approximate for several and for groups. Where
    classes are so rare that fewer than 30 of their labels are expected, calibrated predictions are
    rejected somewhat more often than the level says. ``benchmarks/kernels.py null`` prints how
    often.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(300, overconfidence=3.0, random_state=0)
    >>> null = null_calibration_error(data.counts, data.prediction)
    >>> print(null)
    H0: the predictions are calibrated; p = 0.005; what stands out most: overconfident
    >>> bool(null.estimate > null.quantiles[-1])
    True
    """
    check_options(p, bias_correction)
    levels = check_levels(quantiles)
    rows = read_rows(y, prediction, sample_weight, groups).weighted()
    check_enough(rows, bias_correction)
    check_draws(rows)
    rng = check_random_state(random_state)
    given = _BANDWIDTHS if bandwidth is None else (bandwidth,)
    hs = [choose_bandwidth(h, kind, rows, rng, device) for h in given]
    generator = np.random.default_rng(rng.randint(2**31, size=4))
    by_sign = rows.groups is not None or raters_repeat(rows)
    draw = signs(rows)
    if not by_sign:
        draw = label_draws(rows, np.full(len(rows), correlation(rows)))

    def statistics(mu) -> Floats:
        """Of the versions of the frequencies μ̂, shape (2 + number of bandwidths, S)."""
        errors = [mean_errors(rows, mu, kind, h, p, bias_correction, device) for h in hs]
        return np.array([*_leaning(rows, mu, kind), *signed_root(errors, p if root else 1)])

    drawn = [statistics(mu) for mu in in_batches(draw, rows.z.size, n_draws, generator)]
    T = np.concatenate([statistics(rows.mu[:, None]), *drawn], axis=1)
    E = T[2:]
    errors = _in_spreads(E)
    best = errors[:, 0].argmax()
    # the kernel error counts at the bandwidth where it stands out most, in each draw anew
    each = _in_spreads(np.array([np.abs(T[0]), T[1], errors.max(axis=0)]))
    each[0] *= _OF_SHARPNESS
    lean = "overconfident" if T[0, 0] < 0 else "underconfident"
    words = lean, lean if kind == "top_label" else "class frequencies"
    p_values = [_share_as_large(t) for t in each]
    return NullCalibrationError(
        float(E[best, 0]),
        float(E[best, 1:].mean()),
        np.quantile(E[best, 1:], levels),
        _share_as_large(each.max(axis=0)),
        hs[best],
        dict(zip(_STATISTICS, p_values, strict=True)),
        "shape" if p_values[2] < min(p_values[:2]) else words[each[:2, 0].argmax()],
    )


@np.errstate(under="ignore")
def _leaning(rows: Rows, mu: Floats, kind: str) -> tuple[Floats, Floats]:
    """``Σ w ⟨log z, μ̂ − z⟩`` and ``√(rᵀV⁺r)`` of versions of the frequencies μ̂, (S,) each."""
    z, w = rows.z, rows.weight
    if kind == "top_label":
        # (n, K, 2): the predicted class, whose frequency classes that tie share, and the rest
        share = votes_of(z)
        share = np.stack([share, 1 - share], axis=2)
        z = (z[:, None] @ share)[:, 0]
        mu = mu @ share
    e = mu - z[:, None]
    log_z = np.log(np.maximum(z, EPS))
    r = np.tensordot(w, e, 1)
    V = np.diag(w**2 @ z) - (w[:, None] * z).T @ (w[:, None] * z)
    squares = (r @ np.linalg.pinv(V, hermitian=True) * r).sum(axis=1)
    return np.einsum("n,nk,nsk->s", w, log_z, e), np.sqrt(np.maximum(squares, 0))


def _in_spreads(T: Floats) -> Floats:
    """Statistics (..., 1 + S) in standard deviations from their mean; 0 where they are constant."""
    spread = T.std(axis=-1, keepdims=True)
    varies = spread > _ROUNDING * np.abs(T).max(axis=-1, keepdims=True)
    return np.where(varies, T - T.mean(axis=-1, keepdims=True), 0) / np.where(varies, spread, 1)


def _share_as_large(t: Floats) -> float:
    """Share of values as large as the first; signs may give the data themselves, up to rounding."""
    return float((t >= t[0] - _ROUNDING).mean())


def label_draws(rows: Rows, rho: Floats) -> Draw:
    """Frequencies of labels from ``Q ~ Dirichlet((1 − ρ_i)/ρ_i · z_i)``; from z where n_i = 1."""
    z = rows.z / rows.z.sum(axis=1, keepdims=True)
    n = rows.n.astype(np.int64)
    alike = np.flatnonzero((n > 1) & (rho > 0))
    alpha = ((1 - rho[alike]) / rho[alike])[:, None] * z[alike]

    def draw(generator, S: int):
        Q = np.broadcast_to(z[:, None, :], (len(z), S, z.shape[1]))
        if len(alike):
            Q = Q.copy()
            Q[alike] = _dirichlet(alpha[:, None, :], S, generator)
        return generator.multinomial(n[:, None], Q) / n[:, None, None]

    return draw


@np.errstate(under="ignore")
def correlation(rows: Rows) -> float:
    """``ρ̂ = Σ w EL_i / Σ w (1 − Σ_k z_ik²)``, which is 1/(α0 + 1) for Dirichlet Q; in [0, 1).

    Of the samples with two raters or more; 0 where there are none.
    """
    rows = rows.take(rows.n > 1)
    mu, z, n = rows.mu, rows.z, rows.n
    el = ((mu - z) ** 2).sum(axis=1) - (mu * (1 - mu)).sum(axis=1) / (n - 1)
    spread = rows.weight @ (1 - (z * z).sum(axis=1))
    if spread <= 0:
        return 0.0
    return float(np.clip(rows.weight @ el / spread, 0.0, _MOST_ALIKE))


@np.errstate(under="ignore")
def _dirichlet(alpha: NDArray, S: int, generator) -> Floats:
    """S draws for each α (m, 1, K), shape (m, S, K), in log space: small α underflow otherwise.

    ``log G(α) = log G(α + 1) + log(U)/α``; a class with α = 0 is never drawn.
    """
    shape = (len(alpha), S, alpha.shape[2])
    log_gamma = np.log(generator.standard_gamma(alpha + 1, size=shape))
    # in (0, 1]: its logarithm is finite
    log_u = np.log1p(-generator.random(shape))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_gamma = np.where(alpha > 0, log_gamma + log_u / alpha, -np.inf)
    top = log_gamma.max(axis=2, keepdims=True)
    Q = np.exp(log_gamma - top)
    return Q / Q.sum(axis=2, keepdims=True)
