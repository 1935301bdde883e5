"""Calibration errors of a batch as torch modules: regularisers for `NeuralClassifier`, or for one's own training loop.

Each is called as ``penalty(logits, counts, weight)`` with logits and counts of shape (n, K) and row weights of shape
(n,). Only ratios of weights count. They are scikit-learn estimators too, so that a search can set their parameters.
"""

import torch
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from ._losses import frequencies


class MMCEPenalty(BaseEstimator, nn.Module):
    """Maximum mean calibration error of a batch (Kumar et al. 2018): smaller is better, minimum 0, at most 1.

    With confidence r = max_k z_k, accuracy c, the share of a row's raters who chose that class, and the kernel
    ``k_ij = exp(−|r_i − r_j| / 0.4)``: the root of ``Σ_ij a_i a_j k_ij``, where ``a_i = w_i (c_i − r_i) / Σ w``. It looks
    at the top class only, and counts pairs i = j, so that it is positive for a calibrated predictor as well.

    Parameters
    ----------
    weighted : bool, default=False
        Put correct and wrong labels at equal footing: ``a_i = w_i c_i (1−r_i) / Σ w c − w_i (1−c_i) r_i / Σ w (1−c)``.
        It is what its authors train with, since few labels of a training set are predicted wrongly. (Both sums are
        taken over the batch; one that is 0 leaves its term out.) At most 2.

    References
    ----------
    Kumar, Sarawagi and Jain (2018), Trainable calibration measures for neural networks from kernel mean embeddings.

    Examples
    --------
    >>> import torch
    >>> z = torch.tensor([[0.75, 0.25]])
    >>> MMCEPenalty()(z.log(), torch.tensor([[1.0, 0.0]]))
    tensor(0.2500)
    """

    def __init__(self, weighted: bool = False):
        super().__init__()
        self.weighted = weighted

    def forward(self, logits: Tensor, counts: Tensor, weight: Tensor | None = None) -> Tensor:
        """The penalty of a batch, a scalar."""
        r, top = torch.softmax(logits, dim=-1).max(dim=-1)
        c = frequencies(counts, r.dtype).gather(1, top[:, None])[:, 0]
        w = torch.ones_like(r) if weight is None else weight.to(r.dtype)
        a = _share(w * c) * (1 - r) - _share(w * (1 - c)) * r if self.weighted else _share(w) * (c - r)
        k = torch.exp(-(r[:, None] - r).abs() / 0.4)
        return _root(a @ k @ a)


def _share(w: Tensor) -> Tensor:
    """w / Σ w, and 0 where all are 0."""
    return w / w.sum().clamp(min=torch.finfo(w.dtype).tiny)


def _root(x: Tensor) -> Tensor:
    """√x, and 0 with derivative 0 up to rounding."""
    positive = x > torch.finfo(x.dtype).tiny
    return torch.where(positive, torch.where(positive, x, 1.0).sqrt(), 0.0)
