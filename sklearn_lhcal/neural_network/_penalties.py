"""Calibration errors of a batch as torch modules, to add to a loss.

They serve `NeuralClassifier`, or one's own training loop. Each is called as ``penalty(logits,
counts, weight)`` with logits and counts of shape (n, K), or class indices of shape (n,), and sample
weights of shape (n,). Only ratios of weights count. They are scikit-learn estimators too, so that a
search can set their parameters.
"""

from functools import partial
from typing import Literal

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from .._rows import parameters
from .._utils.checks import check_params
from .._utils.kernels.errors import (
    SmoothingProblem,
    best_bandwidth,
    plugin_rows,
    problems,
    residual_rows,
    sharpness_rows,
    top_share,
)
from .._utils.types import KernelKind
from ._losses import as_counts, frequencies


class _Penalty(BaseEstimator, nn.Module):
    """A torch module whose fields are its parameters."""

    def __post_init__(self):
        super().__init__()


@parameters
class KernelCalibrationPenalty(_Penalty):
    """Calibration error of a batch by Dirichlet kernels, to the power p: smaller is better.

    z are the predictions of the batch, e = μ̂ − z, and k_ji is the Dirichlet kernel at z_j that
    belongs to z_i. There are two forms:

    - corrected (``"residual"``), p = 2 only: the mean over samples j of the products e_i·e_l of
      pairs of other samples, weighted by k_ji k_jl. Its mean is 0 for a calibrated predictor,
      whatever the size of the batch. For others it is positive, but for the kernel's smoothing. A
      single batch can give a negative value.
    - plug-in (None), as published (P2 eq. 9): the mean over samples j of ``Σ_k |r_jk − z_jk|^p``,
      where r_j is the mean of the other samples' μ̂_i weighted by k_ji. It is biased: on batches it
      is far from 0 for a calibrated predictor, and smaller for others (see Notes).

    The penalty is 0 for batches with less than three samples of positive weight (plug-in: two).

    Parameters
    ----------
    p : float, default=2
        p ≥ 1.
    bandwidth : float or "loo", default=0.1
        h > 0 of the kernels. ``"loo"``: that of `sklearn_lhcal.metrics.loo_bandwidth` for each
        batch, a constant to derivatives. It takes several times as long. Where predictions are
        spread evenly its kernels are too wide to see much.
    kind : {"canonical", "marginal", "top_label"}, default="canonical"
        The whole vector of probabilities; the sum over classes, one by one; or the probability of
        the top class.
    bias_correction : {"residual", None}, default="residual"
        None: the plug-in.

    Raises
    ------
    ValueError
        At the first batch: for other parameters than those above, or ``"residual"`` with p ≠ 2.

    Notes
    -----
    Everything is computed in float64. Sample weights weight samples in all sums; they are no
    repetition. Derivatives also go through the kernels. They are finite for every batch.

    The plug-in alone prefers predictors that are far from calibrated. The guide to training
    networks says which.

    References
    ----------
    Popordanoska, Sayer and Blaschko (2022), A consistent and differentiable Lp canonical
    calibration error estimator, sections 3 and 5 (P2).

    Examples
    --------
    >>> import torch
    >>> logits = torch.randn(64, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    >>> counts = torch.eye(3)[torch.arange(64) % 3]
    >>> penalty = KernelCalibrationPenalty()(logits, counts)
    >>> penalty.backward()
    >>> logits.grad.shape
    torch.Size([64, 3])
    """

    p: float = 2
    bandwidth: float | Literal["loo"] = 0.1
    kind: KernelKind = "canonical"
    bias_correction: Literal["residual"] | None = "residual"

    def forward(self, logits: Tensor, counts: Tensor, weight: Tensor | None = None) -> Tensor:
        """The penalty of a batch, a scalar."""
        check_params(self)
        if np.isinf(self.p):
            raise ValueError(f"p must be a finite number, 1 or more, got {self.p!r}.")
        if self.bias_correction == "residual" and self.p != 2:
            raise ValueError(
                f"The residual form exists for p = 2 only, got {self.p!r}; use "
                "bias_correction=None."
            )
        batch = self.kind, self.bandwidth, logits, counts, weight
        if self.bias_correction is None:
            return _kernel_mean(partial(plugin_rows, p=self.p), 2, *batch)
        return _kernel_mean(residual_rows, 3, *batch)


@parameters
class SharpnessPenalty(_Penalty):
    """Sharpness of a batch by Dirichlet kernels, ``E‖E[y|z]‖²`` (P2 eq. 7): the γ-term of P2's
    regularised squared error.

    By itself a smaller sharpness is no merit. But ``BrierLoss() + γ·SharpnessPenalty()`` is the
    squared error plus ``λ·CE_2²``, up to a factor and a constant. Here CE_2 is the canonical
    calibration error, and ``γ = λ/(1+λ)`` (P2 eq. 6). The estimate is P2's ratio of U-statistics,
    whose bias on batches is of order 1/n; `KernelCalibrationPenalty` has a form without it.

    Batches with fewer than three samples of positive weight have penalty 0.

    Parameters
    ----------
    bandwidth : float or "loo", default=0.1
        As in `KernelCalibrationPenalty`.
    kind : {"canonical", "marginal", "top_label"}, default="canonical"
        As in `KernelCalibrationPenalty`.

    Raises
    ------
    ValueError
        At the first batch: parameters other than those above.

    References
    ----------
    Popordanoska, Sayer and Blaschko (2022), A consistent and differentiable Lp canonical
    calibration error estimator, section 3 (P2).

    Examples
    --------
    >>> import torch
    >>> logits = torch.randn(64, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    >>> counts = torch.eye(3)[torch.arange(64) % 3]
    >>> round(SharpnessPenalty()(logits, counts).item(), 2)  # of a constant it is 1/3
    0.31
    """

    bandwidth: float | Literal["loo"] = 0.1
    kind: KernelKind = "canonical"

    def forward(self, logits: Tensor, counts: Tensor, weight: Tensor | None = None) -> Tensor:
        """The penalty of a batch, a scalar."""
        check_params(self)
        return _kernel_mean(sharpness_rows, 3, self.kind, self.bandwidth, logits, counts, weight)


@parameters
class MMCEPenalty(_Penalty):
    """Maximum mean calibration error of a batch (Kumar et al. 2018): smaller is better, minimum 0.

    The root of ``Σ_ij a_i a_j k_ij``, at most 1, where ``a_i = w_i (c_i − r_i) / Σ w``. The
    confidence is r = max_k z_k, the accuracy c is the share of a sample's raters who chose that
    class, and the kernel is ``k_ij = exp(−|r_i − r_j| / 0.4)``. It looks at the top class only. It
    is positive for a calibrated predictor too, as it counts pairs i = j.

    Parameters
    ----------
    weighted : bool, default=False
        Correct and wrong labels count alike: ``a_i = w_i c_i (1−r_i) / Σ w c − w_i (1−c_i) r_i / Σ
        w (1−c)``. It is meant for training samples, of which few are predicted wrongly. Both sums
        are over the batch; a term whose sum is 0 is left out. The penalty is then at most 2.

    References
    ----------
    Kumar, Sarawagi and Jain (2018), Trainable calibration measures for neural networks from kernel
    mean embeddings.

    Examples
    --------
    >>> import torch
    >>> z = torch.tensor([[0.75, 0.25]])
    >>> MMCEPenalty()(z.log(), torch.tensor([[1.0, 0.0]]))
    tensor(0.2500)
    """

    weighted: bool = False

    def forward(self, logits: Tensor, counts: Tensor, weight: Tensor | None = None) -> Tensor:
        """The penalty of a batch, a scalar."""
        check_params(self)
        counts = as_counts(counts, logits, weight)
        z = torch.softmax(logits, dim=-1)
        r = z.max(dim=-1).values
        c = (frequencies(counts, r.dtype) * top_share(z)).sum(dim=-1)
        w = torch.ones_like(r) if weight is None else weight.to(r.dtype)
        a = _share(w) * (c - r)
        if self.weighted:
            a = _share(w * c) * (1 - r) - _share(w * (1 - c)) * r
        k = torch.exp(-(r[:, None] - r).abs() / 0.4)
        return _root(a @ k @ a)


def _kernel_mean(rows_of, least: int, kind, bandwidth, logits, counts, weight) -> Tensor:
    """Weighted mean of ``rows_of(problem, h)``, summed over the kind's problems.

    0 where fewer than `least` samples count.
    """
    counts = as_counts(counts, logits, weight)
    if weight is not None:
        logits, counts, weight = (a[weight > 0] for a in (logits, counts, weight))
    z = torch.softmax(logits.double(), dim=-1)
    if len(z) < least:
        return (0 * z.sum()).to(logits.dtype)
    w = z.new_ones(len(z)) if weight is None else weight.double()
    parts = list(problems(kind, z, frequencies(counts, z.dtype)[:, None], w.log()))
    h = _density_bandwidth(parts) if bandwidth == "loo" else bandwidth
    errors = [w @ rows_of(part, h)[:, 0] / w.sum() for part in parts]
    return torch.stack(errors).sum().to(logits.dtype)


def _density_bandwidth(parts: list[SmoothingProblem]) -> float:
    """The bandwidth with the largest leave-one-out likelihood of the points of all problems.

    It is 1 where no points differ.
    """
    varied = [part for part in parts if (part.x != part.x[:1]).any()]
    if not varied:
        return 1.0
    return best_bandwidth(lambda hs: -np.sum([part.log_likelihoods(hs) for part in varied], axis=0))


def _share(w: Tensor) -> Tensor:
    """w / Σ w, and 0 where all are 0."""
    return w / w.sum().clamp(min=torch.finfo(w.dtype).tiny)


def _root(x: Tensor) -> Tensor:
    """√x, and 0 with derivative 0 up to rounding; NaN stays."""
    zero = x <= torch.finfo(x.dtype).tiny
    return torch.where(zero, 0.0, torch.where(zero, 1.0, x).sqrt())
