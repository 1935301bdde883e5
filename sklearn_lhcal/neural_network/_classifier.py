"""A skorch net that trains on label histograms and lives in scikit-learn."""

import copy

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from skorch import NeuralNetClassifier
from skorch.callbacks import EarlyStopping
from skorch.helper import SliceDict
from skorch.utils import is_dataset
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from .._fit import check_same_length, check_sample_weight
from .._simplex import softmax
from ..label_histogram import aligned_counts, sorted_counts
from ..metrics import expected_accuracy
from ..model_selection import StratifiedVotesKFold
from ._losses import LabelLogLoss
from ._training import check_device, seeded

_LOSSES = {"label_log_loss": LabelLogLoss}


class NeuralClassifier(NeuralNetClassifier):
    """A torch module as a scikit-learn classifier that trains on labels or label histograms.

    skorch's `NeuralNetClassifier` with its names (`lr`, `batch_size`, `max_epochs`, `optimizer`, ``module__…``,
    `callbacks`, `device`, …) and these differences: y may be anything `check_counts` takes, X may be float64 or a
    frame, the outputs of the module are logits and predictions their softmax, a module *instance* is copied before
    training, and `random_state` makes everything reproducible without touching torch's global generator.

    Parameters
    ----------
    module : torch.nn.Module class or instance, or a function that returns one
        Maps X to logits of shape (n, n_classes), or to a tuple that begins with them.
    loss : {"label_log_loss"} or torch.nn.Module, default="label_log_loss"
        Called as ``loss(logits, counts, weight)``, weights of shape (n,).
    early_stopping : int or None, default=None
        Patience in epochs: a fifth of the rows, stratified by majority vote, is held out, training stops when its loss
        has not fallen for so long, and the best weights are kept. None: train all epochs on all rows.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial weights, the batches, dropout and the held-out rows.
    optimizer, lr, max_epochs, batch_size, train_split, verbose, **kwargs
        As in skorch; the defaults are Adam, 0.001, 50, 64, None and 0.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    module_ : torch.nn.Module
        The trained module.
    history_ : skorch.history.History
        Losses by epoch.

    Raises
    ------
    ValueError
        A module with another number of outputs than classes, a device that is absent, an unknown loss.

    Examples
    --------
    >>> from torch import nn
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(200, n_classes=3, n_features=5, random_state=0)
    >>> net = NeuralClassifier(nn.Linear(5, 3), lr=0.1, max_epochs=20, random_state=0).fit(data.X, data.counts)
    >>> net.predict_proba(data.X).shape
    (200, 3)
    """

    accepts_label_histograms = True

    def __init__(
        self,
        module,
        *,
        loss="label_log_loss",
        early_stopping=None,
        random_state=None,
        optimizer=torch.optim.Adam,
        lr=1e-3,
        max_epochs=50,
        batch_size=64,
        train_split=None,
        verbose=0,
        **kwargs,
    ):
        kwargs.setdefault("criterion", LabelLogLoss)  # replaced by `loss` at initialisation
        super().__init__(
            module,
            optimizer=optimizer,
            lr=lr,
            max_epochs=max_epochs,
            batch_size=batch_size,
            train_split=train_split,
            verbose=verbose,
            **kwargs,
        )
        self.loss = loss
        self.early_stopping = early_stopping
        self.random_state = random_state

    @classmethod
    def from_trained(cls, module: nn.Module, classes: ArrayLike, **kwargs) -> "NeuralClassifier":
        """A fitted classifier from a module that is trained already; put it into a FrozenEstimator.

        Parameters
        ----------
        module : torch.nn.Module
            Copied; its outputs are logits.
        classes : array-like of shape (n_classes,)
            What the outputs stand for, in their order.
        **kwargs
            As in the constructor (`device`, `batch_size`, …).
        """
        return cls(module, classes=list(np.asarray(classes).tolist()), **kwargs).initialize()

    @property
    def _default_callbacks(self):
        callbacks = [c for c in super()._default_callbacks if c[0] != "valid_acc"]  # it knows labels only
        if self.early_stopping is not None:
            callbacks.append(
                ("early_stopping", EarlyStopping(patience=self.early_stopping, load_best=True, sink=_silent))
            )
        return callbacks

    def initialized_instance(self, instance_or_cls, kwargs):
        """skorch's rule, but an instance of a module is copied, so that training leaves the caller's as it is."""
        instance = super().initialized_instance(instance_or_cls, kwargs)
        return copy.deepcopy(instance) if instance is instance_or_cls else instance

    def initialize_criterion(self):
        """Make the loss."""
        if isinstance(self.loss, str) and self.loss not in _LOSSES:
            raise ValueError(f"loss must be a torch module or one of {sorted(_LOSSES)}, got {self.loss!r}.")
        self.criterion_ = _LOSSES[self.loss]() if isinstance(self.loss, str) else copy.deepcopy(self.loss)
        return self

    def fit(self, X, y, sample_weight=None, **fit_params):
        """Train from the start.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, ...), or a dict of arrays
            Floating point data is converted to float32.
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes. The columns of frames are sorted by name.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows.
        **fit_params
            Goes to the module's forward, as in skorch.
        """
        check_device(self.device)
        with seeded(self.random_state, self.device):
            if not self.warm_start or not self.initialized_:
                self.initialize()
            return self.partial_fit(X, y, sample_weight=sample_weight, **fit_params)

    def partial_fit(self, X, y=None, classes=None, sample_weight=None, **fit_params):
        """Train on from where the module is; parameters as in `fit`."""
        if is_dataset(X):
            return super().partial_fit(X, y, classes=classes, **fit_params)
        counts, found = sorted_counts(y) if self.classes is None else (aligned_counts(y, self.classes_), self.classes_)
        X = _as_float32(X)
        check_same_length(len(counts), X=X)
        w = check_sample_weight(sample_weight, len(counts))
        target = np.column_stack([counts, np.ones(len(counts)) if w is None else w]).astype(np.float32)
        self.classes_inferred_ = found
        split = self.train_split
        if self.early_stopping is not None and split is None:
            self.train_split = _HeldOutVotes(self.random_state)
        try:
            return super().partial_fit(X, target, **fit_params)
        finally:
            self.train_split = split

    def check_data(self, X, y):
        """Nothing is left to check, or to infer from y."""

    def get_loss(self, y_pred, y_true, X=None, training=False):
        """The loss of a batch; the last column of y_true holds the weights of the rows."""
        logits = y_pred[0] if isinstance(y_pred, tuple) else y_pred
        counts, weight = y_true[:, :-1], y_true[:, -1]
        if logits.shape != counts.shape:
            raise ValueError(
                f"The module returns {tuple(logits.shape[1:])} logits a row, but y has {counts.shape[1]} classes."
            )
        return self.criterion_(logits, counts, weight)

    def predict_proba(self, X) -> NDArray[np.float64]:
        """Class probabilities, shape (n_samples, n_classes): the softmax of the module's logits, in float64."""
        return softmax(self.decision_logits(X))

    def decision_logits(self, X) -> NDArray[np.float64]:
        """The module's logits, shape (n_samples, n_classes)."""
        batches = self.forward_iter(X if is_dataset(X) else _as_float32(X))
        logits = [(b[0] if isinstance(b, tuple) else b).detach().cpu().numpy() for b in batches]
        return np.concatenate(logits).astype(np.float64)

    def predict(self, X):
        """The most probable class of each row, shape (n_samples,)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def score(self, X, y, sample_weight=None) -> float:
        """Expected accuracy, see `sklearn_lhcal.metrics.expected_accuracy`: larger is better, between 0 and 1."""
        return expected_accuracy(aligned_counts(y, self.classes_), self.predict_proba(X), sample_weight=sample_weight)


class WarmUpMultiStepLR(LambdaLR):
    """Learning rate that rises linearly at first, and is multiplied by `gamma` at each milestone.

    Use it with skorch: ``callbacks=[skorch.callbacks.LRScheduler(WarmUpMultiStepLR, warm_up=5)]``.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
    warm_up : int, default=5
        Epochs of the rise: the first has 1/warm_up of the learning rate.
    milestones : tuple of int, default=(50, 100, 150)
        Epochs at whose end the rate falls.
    gamma : float, default=0.1

    Examples
    --------
    >>> import torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    >>> scheduler = WarmUpMultiStepLR(optimizer, warm_up=2, milestones=(3,))
    >>> rates = []
    >>> for epoch in range(4):
    ...     rates.append(round(scheduler.get_last_lr()[0], 6))
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [0.5, 1.0, 1.0, 0.1]
    """

    def __init__(self, optimizer, warm_up=5, milestones=(50, 100, 150), gamma=0.1):
        super().__init__(optimizer, _Rate(warm_up, tuple(milestones), gamma))


class _Rate:
    """A function of the epoch that can be pickled."""

    def __init__(self, warm_up, milestones, gamma):
        self.warm_up, self.milestones, self.gamma = warm_up, milestones, gamma

    def __call__(self, epoch: int) -> float:
        return min(1.0, (epoch + 1) / max(self.warm_up, 1)) * self.gamma ** sum(epoch >= m for m in self.milestones)


class _HeldOutVotes:
    """skorch's train_split: a fifth of the rows, stratified by the majority of their votes."""

    def __init__(self, random_state):
        self.random_state = random_state

    def __call__(self, dataset, y=None, **_):
        splitter = StratifiedVotesKFold(5, shuffle=True, random_state=self.random_state)
        train, valid = next(splitter.split(None, np.asarray(y)[:, :-1]))
        return torch.utils.data.Subset(dataset, train), torch.utils.data.Subset(dataset, valid)


def _as_float32(X):
    """Arrays and frames as float32, integers as they are; tensors, lists and dicts by their parts."""
    if isinstance(X, dict):
        return SliceDict(**{k: _as_float32(v) for k, v in X.items()})
    if isinstance(X, torch.Tensor):
        return X.float() if X.is_floating_point() else X
    a = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    if a.dtype == object:
        a = a.astype(np.float32)
    return np.ascontiguousarray(a, dtype=np.float32) if a.dtype.kind == "f" else np.ascontiguousarray(a)


def _silent(*_):
    """Early stopping is told by the history, not on the screen."""
