"""Losses on label histograms as torch modules.

They serve the calibrators, and anyone's own training loop. Shapes: n samples, K classes, S members
of an ensemble. Each loss is a (weighted) mean over samples or labels, in nats: its `total` divided
by its `size`. Average the totals over batches, as `NeuralClassifier` does. Dividing each by its own
size favours samples that share their batch with few labels.
"""

import copy
import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .._utils.checks import checked, warn
from .._utils.rising import DIRECT, stirling

# Rows of so many outputs sum to 1 only if they are made so.
_MANY = 20


class _MeanLoss(nn.Module):
    """A mean, ``total / size``; subclasses fill `row_loss`, or `total`, and `size`."""

    row_loss: Callable[..., Tensor]
    size: Callable[..., Tensor | int]

    def forward(self, prediction: Any, counts: Tensor, weight: Tensor | None = None) -> Tensor:
        """The loss of a prediction under counts of shape (n, K) and sample weights of shape (n,).

        Class indices of shape (n,) are one label each.
        """
        logits = prediction
        if not isinstance(prediction, Tensor):
            logits = prediction[0]
        counts = as_counts(counts, logits, weight)
        return self.total(prediction, counts, weight) / self.size(counts, weight)

    def total(self, prediction: Any, counts: Tensor, weight: Tensor | None = None) -> Tensor:
        """``Σ_i w_i loss_i``, of logits and counts of shape (n, K)."""
        return _weighted_sum(self.row_loss(prediction, counts), weight)


class _MeanOverRows(_MeanLoss):
    """A mean over samples."""

    def size(self, counts: Tensor, weight: Tensor | None = None) -> Tensor | int:
        """The number of samples, ``Σ_i w_i``."""
        if weight is None:
            return len(counts)
        return weight.sum()


class LabelLogLoss(_MeanLoss):
    """Log loss per label, in nats: minimum 0.

    ``−Σ_i w_i Σ_k y_ik log z_ik / Σ_i w_i n_i`` (P1 eq. 82).

    Examples
    --------
    >>> import torch
    >>> LabelLogLoss()(torch.zeros(1, 2), torch.tensor([[3.0, 1.0]]))
    tensor(0.6931)
    """

    def row_loss(self, logits: Tensor, counts: Tensor) -> Tensor:
        """``−Σ_k y_ik log z_ik`` of each sample, shape (n,)."""
        return -_dot(counts.to(logits.dtype), torch.log_softmax(logits, dim=-1))

    def size(self, counts: Tensor, weight: Tensor | None = None) -> Tensor:
        """The number of labels, ``Σ_i w_i n_i``."""
        return _weighted_sum(counts.sum(dim=-1), weight)


class FocalLoss(LabelLogLoss):
    """Focal loss per label, in nats: minimum 0.

    ``−Σ_i w_i Σ_k y_ik (1−z_ik)^γ log z_ik / Σ_i w_i n_i``; for γ = 0 it is `LabelLogLoss`.
    Networks trained with it are less confident, as labels that are predicted well already count
    less. It is not a proper score: its minimum is not at the true probabilities, but nearer to
    uniform ones.

    Parameters
    ----------
    gamma : float or "53", default=3.0
        γ ≥ 0. ``"53"`` is the sample-dependent rule FL-53: γ = 5 for labels of probability below
        0.2, else 3.

    Raises
    ------
    ValueError
        γ is negative, infinite or another word.

    References
    ----------
    Lin, Goyal, Girshick, He and Dollár (2017), Focal loss for dense object detection. Mukhoti,
    Kulharia, Sanyal, Golodetz, Torr and Dokania (2020), Calibrating deep neural networks using
    focal loss: FL-53.

    Examples
    --------
    >>> import torch
    >>> FocalLoss(gamma=2.0)(torch.zeros(1, 2), torch.tensor([[3.0, 1.0]]))  # log(2) / 4
    tensor(0.1733)
    """

    @checked
    def __init__(self, gamma: float | Literal["53"] = 3.0) -> None:
        super().__init__()
        self.gamma = gamma

    def row_loss(self, logits: Tensor, counts: Tensor) -> Tensor:
        """``−Σ_k y_ik (1−z_ik)^γ log z_ik`` of each sample, shape (n,)."""
        log_z = torch.log_softmax(logits, dim=-1)
        gamma: Any = self.gamma
        if gamma == "53":
            gamma = torch.where(log_z < math.log(0.2), 5.0, 3.0)
        # 0^γ has no derivative where γ < 1
        rest = (-torch.expm1(log_z)).clamp(min=torch.finfo(log_z.dtype).tiny)
        y = counts.to(log_z.dtype)
        return -_dot(y * rest**gamma, log_z)


class BrierLoss(_MeanOverRows):
    """Expected squared loss (P1 §3): between 0 and 2.

    The mean over samples of ``Σ_k (μ̂−z)² + μ̂(1−μ̂)`` with μ̂ = y/n_i. It is the mean over a
    sample's labels of the probability score ``Σ_k (1[label = k] − z_k)²``, as
    `sklearn_lhcal.metrics.expected_squared_loss`.

    Examples
    --------
    >>> import torch
    >>> BrierLoss()(torch.zeros(1, 2), torch.tensor([[3.0, 1.0]]))
    tensor(0.5000)
    """

    def row_loss(self, logits: Tensor, counts: Tensor) -> Tensor:
        """``Σ_k (μ̂−z)² + μ̂(1−μ̂)`` of each sample, shape (n,)."""
        z = torch.softmax(logits, dim=-1)
        mu = frequencies(counts, logits.dtype)
        return ((mu - z) ** 2 + mu * (1 - mu)).sum(dim=-1)


_LOSSES: dict[str, Callable[[], nn.Module]] = {
    "label_log_loss": LabelLogLoss,
    "focal": FocalLoss,
    "focal_53": partial(FocalLoss, gamma="53"),
    "brier": BrierLoss,
}


def loss_of(loss: str | nn.Module) -> nn.Module:
    """A loss by name, or a copy of the caller's."""
    if isinstance(loss, nn.Module):
        return copy.deepcopy(loss)
    if isinstance(loss, str) and loss in _LOSSES:
        return _LOSSES[loss]()
    raise ValueError(f"loss must be a torch module or one of {sorted(_LOSSES)}, got {loss!r}.")


def logits_of(outputs):
    """The logits of an output that names them; any other as it is."""
    if isinstance(outputs, Mapping) and "logits" in outputs:
        return outputs["logits"]
    return getattr(outputs, "logits", outputs)


def warn_of_probabilities(logits) -> None:
    """Warn of outputs that a softmax or a sigmoid has made."""
    z = logits.detach().double()
    sums = (z >= 0).all() and ((z.sum(dim=1) - 1).abs() < 1e-3).all()
    # few logits, or those of zero weights, can sum to 1 by chance
    softmax = sums and z.numel() >= _MANY and (z != z[:1]).any()
    if softmax or type(logits.grad_fn).__name__.startswith("Sigmoid"):
        warn(
            "The module returns probabilities, but it must return logits: take the softmax or the "
            "sigmoid off that ends its forward."
        )


def check_called(name: str, loss: nn.Module) -> None:
    """A ValueError where a loss does not take logits, counts and weights."""
    try:
        inspect.signature(loss.forward).bind("logits", "counts", "weight")
    except TypeError:
        raise ValueError(
            f"{name} is called with logits, counts and weights, which {type(loss).__name__} does "
            'not take. The cross-entropy of counts is loss="label_log_loss".'
        ) from None


def as_counts(y: Tensor, logits: Tensor, weight: Tensor | None = None) -> Tensor:
    """Counts of shape (n, K) for logits of shape (n, …, K); class indices (n,) become one-hot."""
    for name, given in (("Logits", logits), ("Labels", y), ("Weights", weight)):
        if not isinstance(given, Tensor) and not (given is None and name == "Weights"):
            raise TypeError(f"{name} must be a tensor, got {type(given).__name__}.")
    if weight is not None and weight.shape != (len(logits),):
        shape = tuple(weight.shape)
        raise ValueError(f"Weights must have shape ({len(logits)},), got {shape}.")
    if weight is not None and not weight.is_meta and not (weight >= 0).all():
        raise ValueError("Weights must be numbers of at least 0.")
    n, K = len(logits), logits.shape[-1]
    whole = not (y.is_floating_point() or y.is_complex() or y.dtype == torch.bool)
    if y.shape == (n,) and whole:
        if n and not y.is_meta and not (int(y.min()) >= 0 and int(y.max()) < K):
            raise ValueError(
                f"Class indices must lie between 0 and {K - 1}, got {int(y.min())} to "
                f"{int(y.max())}."
            )
        return nn.functional.one_hot(y.long(), K).to(logits.dtype)
    if y.shape != (n, K):
        raise ValueError(
            f"Labels must be counts of shape {(n, K)}, as the logits, or {n} class indices of an "
            f"integer type; got shape {tuple(y.shape)} and {y.dtype}."
        )
    total = y.sum(dim=-1)
    if not y.is_meta and not ((y >= 0).all() and (total > 0).all() and total.isfinite().all()):
        raise ValueError("Counts must not be negative or infinite; each sample needs a label.")
    return y


def frequencies(counts: Tensor, dtype: torch.dtype) -> Tensor:
    """Shares of the classes among the labels of each sample, μ̂, shape (n, K)."""
    return counts.to(dtype) / counts.sum(dim=-1, keepdim=True).to(dtype)


class _HistogramLoss(_MeanOverRows):
    """Mean over samples of a loss of (logits, log α0), plus ``penalty·(log α0)²``.

    Parameters
    ----------
    penalty : float, default=0.0
        λ_α of P1: pulls the total towards 1, nats per sample.
    """

    _row_loss: Callable[..., Tensor]

    @checked
    def __init__(self, penalty: float = 0.0) -> None:
        super().__init__()
        self.penalty = penalty

    def total(
        self, prediction: tuple[Tensor, ...], counts: Tensor, weight: Tensor | None = None
    ) -> Tensor:
        """Sum over samples of the loss of ``(logits, log_total[, log_weights])``.

        Logits (n, K) or, for ensembles, (n, S, K); log α0 (n,) or (n, S); log-weights of members
        (n, S)."""
        if isinstance(prediction, Tensor):
            raise TypeError("The prediction must be a tuple (logits, log_total), got a tensor.")
        logits, log_total, *log_weights = prediction
        return _weighted_sum(self.row_loss(logits, log_total, counts, *log_weights), weight)

    def row_loss(
        self, logits: Tensor, log_total: Tensor, counts: Tensor, log_weights: Tensor | None = None
    ) -> Tensor:
        """The loss of each sample, shape (n,), penalty included; float32 or float64."""
        dtype = torch.promote_types(logits.dtype, torch.float32)
        logits, log_total, counts = logits.double(), log_total.double(), counts.double()
        loss = self._row_loss(torch.log_softmax(logits, dim=-1), log_total, counts, log_weights)
        square = log_total**2
        if log_weights is not None:
            square = (log_weights.exp() * square).sum(dim=1)
        elif square.ndim == 2:
            square = square.mean(dim=1)
        return (loss + float(self.penalty) * square).to(dtype)


class DirichletMultinomialLoss(_HistogramLoss):
    """Negative log-likelihood of histograms under Dirichlet distributions, in nats per sample.

    See P1 App. D.2. The multinomial coefficient is left out. In ensembles the likelihood is that of
    the mixture.

    Parameters
    ----------
    penalty : float, default=0.0
        λ_α of P1: pulls log α0 towards 0, nats per sample.

    Examples
    --------
    >>> import torch
    >>> loss = DirichletMultinomialLoss()
    >>> loss((torch.zeros(1, 2), torch.zeros(1)), torch.tensor([[2.0, 0.0]]))
    tensor(0.9808)
    """

    def _row_loss(self, log_z, log_total, y, log_w):
        if log_z.ndim == 3:
            y = y[:, None, :].expand_as(log_z)
        classes = _log_rising(log_z, log_total[..., None], y).sum(dim=-1)
        labels = _log_rising(torch.zeros_like(log_total), log_total, y.sum(dim=-1))
        return -_mix(classes - labels, log_w)


def _log_rising(log_z: Tensor, log_total: Tensor, y: Tensor) -> Tensor:
    """Σ_{j<y} log(z + j/α0), elementwise, from log z and log α0: no z is too small."""
    total = torch.where(y > 0, log_z, 0.0)
    most = int(y.max()) if y.numel() else 0
    for j in range(1, min(most, DIRECT)):
        total = total + torch.where(y > j, torch.logaddexp(log_z, math.log(j) - log_total), 0.0)
    if most <= DIRECT:
        return total
    # the rest as in `log_rising`
    q = torch.where(y > DIRECT, y - DIRECT, 1.0)
    A = (log_z + log_total).clamp(max=700).exp() + DIRECT
    log_last = torch.logaddexp(log_z, (q + DIRECT).log() - log_total)
    tail = (A - 0.5) * torch.log1p(q / A) + q * log_last - q + stirling(A + q) - stirling(A)
    return total + torch.where(y > DIRECT, tail, 0.0)


class PairwiseLoss(_HistogramLoss):
    """Negative log-likelihood of pairs of raters under Dirichlet distributions, in nats per sample.

    A composite likelihood: for each sample the mean over its n(n−1)/2 pairs of raters. A pair that
    agrees on k has ``log[z_k(α0 z_k+1)/(α0+1)]``, and one that disagrees ``log[2 α0 z_k
    z_l/(α0+1)]``. Unlike the Dirichlet-multinomial likelihood it is not distorted by many raters
    per sample. Samples with one rater contribute the penalty alone.

    Parameters
    ----------
    penalty : float, default=0.0
        Pulls log α0 towards 0, nats per sample.

    Examples
    --------
    >>> import torch
    >>> loss = PairwiseLoss()
    >>> loss((torch.zeros(1, 2), torch.zeros(1)), torch.tensor([[2.0, 0.0]]))
    tensor(0.9808)
    """

    def _row_loss(self, log_z, log_total, y, log_w):
        n = y.sum(dim=-1, keepdim=True)
        pairs = (n * (n - 1)).clamp(min=1.0)
        # shares of the pairs that agree on k, and half of those split on k
        agree = y * (y - 1) / pairs
        split = y * (n - y) / pairs
        # beyond, where all is flat, second derivatives overflow
        log_total = log_total.clamp(-500, 500)
        # of α0/(α0+1) and of 1/(α0+1)
        log_p = nn.functional.logsigmoid(log_total)
        log_q = nn.functional.logsigmoid(-log_total)
        log_agree = log_z + torch.logaddexp(
            log_z + log_p[..., None], log_q[..., None].expand_as(log_z)
        )
        likelihood = _dot(agree, _mix(log_agree, log_w))
        if log_w is None:
            # Σ_{k<l} of log(2 z_k z_l α0/(α0+1)), collected class by class
            return -(likelihood + _dot(2 * split, log_z) + split.sum(dim=1) * (math.log(2) + log_p))
        for k in range(y.shape[1] - 1):
            split = 2 * y[:, k, None] * y[:, k + 1 :] / pairs
            log_split = math.log(2) + log_z[..., k, None] + log_z[..., k + 1 :] + log_p[..., None]
            likelihood = likelihood + _dot(split, _mix(log_split, log_w))
        return -likelihood


def _weighted_sum(rows: Tensor, weight: Tensor | None) -> Tensor:
    if weight is None:
        return rows.sum()
    return (weight * rows).sum()


def _mix(log_p: Tensor, log_w: Tensor | None) -> Tensor:
    """log Σ_s w_s p_s over members, the second axis; without members the values themselves."""
    if log_w is None:
        return log_p
    log_w = log_w.reshape(*log_w.shape, *[1] * (log_p.ndim - 2))
    return torch.logsumexp(log_p + log_w, dim=1)


def _dot(weight: Tensor, log_p: Tensor) -> Tensor:
    """Σ_k weight·log p, where weight 0 silences log 0, but not NaN."""
    counts = (weight != 0) | log_p.isnan()
    return torch.where(counts, weight * torch.where(counts, log_p, 0.0), 0.0).sum(dim=1)
