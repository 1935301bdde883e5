"""A skorch net that trains on label histograms and lives in scikit-learn."""

import copy
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Self

import numpy as np
import torch
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data
from skorch import NeuralNetClassifier
from skorch.dataset import Dataset
from skorch.utils import is_dataset, to_device, to_tensor
from torch import Tensor, nn

from .._rows import DistributionClassifierMixin, read_labels, weight_of
from .._utils.checks import as_names, checked, warn_unconverged
from .._utils.devices import check_device, recorded, seeded
from .._utils.estimators import atomic
from .._utils.names import check_classes, check_row_names, sorted_names
from .._utils.simplex import softmax
from .._utils.types import ArrayLike, Floats, LabelsLike, NDArray, Samples, Seed, Verbose, Weights
from ..distributions import PointMass
from ._losses import LabelLogLoss, check_called, logits_of, loss_of, warn_of_probabilities
from ._training import (
    ArrayRows,
    OnCPU,
    as_arrays,
    batch_loss,
    converted,
    early_stopping,
    is_table,
    scaled_weight,
    stratified_fifth,
    whole_batches,
)


class _Enough(KeyboardInterrupt):
    """How a callback ends the training."""


class NeuralClassifier(DistributionClassifierMixin, NeuralNetClassifier):
    """A torch module as a scikit-learn classifier that trains on labels or label histograms.

    It is skorch's `NeuralNetClassifier` with its names (`lr`, `batch_size`, `max_epochs`,
    `optimizer`, ``module__…``, `callbacks`, `device`, …) and these differences:

    - y may be anything `check_counts` takes, and X may be float64 or a frame;
    - the module returns logits, and predictions are their softmax;
    - a module *instance* is copied before training, and batches are shuffled;
    - `random_state` makes everything reproducible, and torch's global generators are put back;
    - a fit that fails or is interrupted raises, and leaves the classifier as it was.

    Parameters
    ----------
    module : torch.nn.Module class or instance, or a function that returns one
        Maps X to logits of shape (n, n_classes), to a tuple that begins with them, or to an output
        that names them ``logits``. It receives floating point inputs in the precision of its
        parameters, and integers as they are, or as floating point inputs where its layers refuse
        integers.
    loss : str or torch.nn.Module, default="label_log_loss"
        Called as ``loss(logits, counts, weight)``: counts of shape (n, n_classes), weights of shape
        (n,) with mean 1. Where X is a Dataset there are no weights. A loss is taken as a mean over
        samples, unless it says what it divides by the methods ``total(logits, counts, weight)`` and
        ``size(counts, weight)``, as `LabelLogLoss` does. The names "label_log_loss", "focal",
        "focal_53" and "brier" stand for `LabelLogLoss`, `FocalLoss` (γ = 3, and ``gamma="53"``)
        and `BrierLoss`.
    regularizer : torch.nn.Module or None, default=None
        A penalty on each batch, `KernelCalibrationPenalty` or `MMCEPenalty` say. It is called as
        the loss is, with weights of any scale. Its parameters can be set as
        ``regularizer__bandwidth`` and so on.
    regularizer_weight : float, default=1.0
        λ ≥ 0: training minimises loss + λ·penalty. A first grid: 0.1 to 5 for the residual form of
        `KernelCalibrationPenalty`, 0.001 to 0.1 for its plug-in, 0.01 to 1 for `MMCEPenalty`.
    early_stopping : int or None, default=None
        Patience in epochs. A fifth of the samples is held out, stratified by majority label, unless
        skorch's `train_split` says otherwise. Training stops when their loss has had no new minimum
        for so many epochs, and goes back to the weights of the minimum. None: all epochs, all
        samples.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial weights, the batches, dropout and the held-out samples. None draws from
        torch's generator.
    optimizer, lr, max_epochs, batch_size, train_split, verbose, iterator_train__shuffle, **kwargs
        As in skorch; the defaults are Adam, 0.001, 50, 64, None, 0 and True.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted class names; `classes` where that was given.
    n_features_in_ : int
        Columns of X, where it is a frame or a 2-D array of floats. X has as many from then on.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X is a frame with names.
    module_ : torch.nn.Module
        The trained module.
    history_ : skorch.history.History
        Losses by epoch: of all samples trained on, and of all samples held out. They do not depend
        on the size of the batches. With a regularizer, λ times its mean over batches is added.

    Raises
    ------
    ValueError
        The module has more or fewer outputs than there are classes, the device is absent, or the
        loss is unknown or takes other arguments.

    Warns
    -----
    ConvergenceWarning
        The loss is no longer a number: the learning rate is too large, or X is not scaled.
    UserWarning
        The module returns probabilities: a softmax or a sigmoid ends its forward.

    Notes
    -----
    ``"label_log_loss"`` is a mean over labels, not over samples. The gradients of batches are, on
    average, the gradient of P1 eq. (82): a batch's sum is divided by the mean number of labels of
    *all* samples. A plain loop over `LabelLogLoss` divides by the batch's own number of labels, and
    so gives a sample less weight the more labels it has. Only a torch Dataset is trained so, as its
    labels are not known beforehand.

    `partial_fit`, and `fit` with ``warm_start=True``, train the weights in place. Where such a
    training fails or is interrupted, the weights keep the steps that were made.

    With a seed torch's global generators are seeded for the time of the fit. Fits with a seed wait
    for each other where threads of one process run them. A thread that draws random numbers by
    itself meanwhile disturbs them, and is given others than without them. Processes do not meet.

    Examples
    --------
    >>> from torch import nn
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(200, n_classes=3, n_features=5, random_state=0)
    >>> net = NeuralClassifier(nn.Linear(5, 3), lr=0.1, max_epochs=20, random_state=0).fit(
    ...     data.X, data.counts
    ... )
    >>> net.predict_proba(data.X).shape
    (200, 3)
    """

    accepts_label_histograms = True

    def __init__(
        self,
        module: type[nn.Module] | nn.Module | Callable[..., nn.Module],
        *,
        loss: str | nn.Module = "label_log_loss",
        regularizer: nn.Module | None = None,
        regularizer_weight: float = 1.0,
        early_stopping: int | None = None,
        random_state: Seed = None,
        optimizer: type[torch.optim.Optimizer] = torch.optim.Adam,
        lr: float = 1e-3,
        max_epochs: int = 50,
        batch_size: int = 64,
        train_split: Callable | None = None,
        verbose: Verbose = 0,
        iterator_train__shuffle: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            module,
            optimizer=optimizer,
            lr=lr,
            max_epochs=max_epochs,
            batch_size=batch_size,
            train_split=train_split,
            verbose=verbose,
            iterator_train__shuffle=iterator_train__shuffle,
            **{"dataset": ArrayRows, "criterion": LabelLogLoss} | kwargs,
        )
        self.loss = loss
        self.regularizer = regularizer
        self.regularizer_weight = regularizer_weight
        self.early_stopping = early_stopping
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __setattr__(self, name, value):
        # skorch takes modules only while it makes its own
        if name in ("loss", "regularizer", "regularizer_"):
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    @classmethod
    @checked
    def from_trained(
        cls, module: nn.Module, classes: ArrayLike, **kwargs: Any
    ) -> "NeuralClassifier":
        """A fitted classifier from a module that is trained already; put it into a FrozenEstimator.

        Parameters
        ----------
        module : torch.nn.Module
            Copied; its outputs are logits.
        classes : array-like of shape (n_classes,)
            What the outputs stand for, in their order, each by another name.
        **kwargs
            As in the constructor (`device`, `batch_size`, …).
        """
        names = as_names(classes, "classes")
        names = check_classes(names, len(names)).tolist()
        return cls(module, classes=names, **kwargs).initialize()

    def get_default_callbacks(self) -> list:
        """skorch's without accuracy, which knows labels only; with early stopping if asked for."""
        callbacks = [c for c in super().get_default_callbacks() if c[0] != "valid_acc"]
        if self.early_stopping is not None:
            callbacks.append(("early_stopping", early_stopping(self.early_stopping)))
        return callbacks

    def get_params(self, deep: bool = True, **options: Any) -> dict:
        """skorch's, without what it notes for itself."""
        params = super().get_params(deep=deep, **options)
        return {name: value for name, value in params.items() if not name.startswith("_")}

    def set_params(self, **params: Any) -> Self:
        """skorch's; callbacks wait for the next fit, ``regularizer__…`` go to the regularizer."""
        if "callbacks" in params:
            self.callbacks = params.pop("callbacks")
        inner = {
            name: params.pop(name) for name in list(params) if name.startswith("regularizer__")
        }
        super().set_params(**params)
        if "device" in params and self.initialized_:
            check_device(self.device)
            self.module_: nn.Module = to_device(self.module_, self.device)
        if inner and not hasattr(self.regularizer, "set_params"):
            raise ValueError(
                f"{sorted(inner)} cannot be set: the regularizer {self.regularizer!r} has no "
                "parameters."
            )
        if inner:
            regularizer: Any = self.regularizer
            regularizer.set_params(
                **{name.removeprefix("regularizer__"): v for name, v in inner.items()}
            )
        return self

    def initialize(self) -> Self:
        """Make module, loss and optimizer anew, and forget classes and features."""
        check_device(self.device)
        for name in ("classes_inferred_", "n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        # skorch would empty the list that a twin of this net still holds
        self.history_ = None
        return super().initialize()

    def initialized_instance(
        self, instance_or_cls: nn.Module | Callable[..., nn.Module], kwargs: dict
    ) -> nn.Module:
        """skorch's rule, but an instance of a module is copied: the caller's stays as it is."""
        made: Any = super().initialized_instance(instance_or_cls, kwargs)
        if made is instance_or_cls:
            made = copy.deepcopy(made)
        parts = list(made.modules())
        if isinstance(parts[-1], (nn.Softmax, nn.Sigmoid)):
            last = type(parts[-1]).__name__
            raise ValueError(
                f"The module ends in a {last}, but it must return logits: take the {last} off."
            )
        return made

    def initialize_criterion(self) -> Self:
        """Make the loss and the regularizer."""
        if self.criterion is not LabelLogLoss:
            raise ValueError("NeuralClassifier takes its criterion as loss=.")
        self.regularizer_ = copy.deepcopy(self.regularizer)
        if self.regularizer_ is not None:
            self.regularizer_ = to_device(self.regularizer_, self.device)
        self.criterion_ = loss_of(self.loss)
        return self

    @atomic
    def fit(
        self,
        X: Samples,
        y: LabelsLike | None = None,
        sample_weight: Weights = None,
        **fit_params: Any,
    ) -> Self:
        """Train from the start.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, ...), a dict of arrays, or a torch Dataset
            A Dataset gives pairs of an input and counts of shape (n_classes,), or of an input and
            the number of a class. The estimator then needs `classes`, and y serves only to stratify
            the held-out samples.
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes. The columns of frames are sorted by name.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples.
        **fit_params
            Goes to the module's forward, as in skorch.
        """
        with recorded(), seeded(self.random_state, self.device):
            if not (self.warm_start and self.initialized_):
                self.initialize()
            return self.partial_fit(X, y, sample_weight=sample_weight, **fit_params)

    @atomic
    def partial_fit(
        self,
        X: Samples,
        y: LabelsLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: Weights = None,
        **fit_params: Any,
    ) -> Self:
        """Train on from where the module is, in place; X, y and weights as in `fit`.

        `classes` names all classes where the first y lacks some. Only the initial weights follow
        `random_state`, no other randomness. A training that fails or is interrupted keeps the steps
        that it made.
        """
        if not self.initialized_:
            with seeded(self.random_state, self.device):
                self.initialize()
        # a name may come several times
        names = None if classes is None else as_names(classes, "classes").tolist()
        known = getattr(self, "classes_", names and sorted_names(list(dict.fromkeys(names))))
        if is_dataset(X):
            target: Any = self._dataset_target(y, known, sample_weight)
        else:
            check_row_names(X=X, y=y)
            X = self._arrays(X, first=not hasattr(self, "classes_inferred_"))
            target = self._target(X, y, known, sample_weight)
        with recorded(), suppress(_Enough):
            self.notify("on_train_begin", X=X, y=target)
            self.fit_loop(X, target, **fit_params)
        self.notify("on_train_end", X=X, y=target)
        if self.history and not np.isfinite(self.history[-1].get("train_loss", 0.0)):
            warn_unconverged("The training loss is not finite; lower lr, or scale X.")
        return self

    def notify(self, method_name: str, **options: Any) -> None:
        """skorch's; callbacks see labels as `fit` was given them, without the weights.

        They end a training by a KeyboardInterrupt, anyone else interrupts it.
        """
        seen = {name: self._seen(value) for name, value in options.items() if name != "batch"}
        if "batch" in options:
            X, y = options["batch"]
            seen["batch"] = X, self._seen(y)
        try:
            super().notify(method_name, **seen)
        except KeyboardInterrupt:
            raise _Enough from None
        except KeyError as error:
            if options.get("dataset_valid", ...) is not None:
                raise
            raise ValueError(
                f"A callback monitors {error}, but no samples are held out: pass early_stopping= "
                "or train_split=."
            ) from error

    def _seen(self, value):
        """A target, or a data set with it, as callbacks see it: names of classes, or counts."""
        if isinstance(value, torch.utils.data.Subset):
            return torch.utils.data.Subset(self._seen(value.dataset), value.indices)
        if isinstance(value, Dataset):
            value = copy.copy(value)
            value.y = self._seen(value.y)
        elif isinstance(value, (tuple, list)):
            return self.classes_[value[0].argmax(dim=1)] if self._single else value[0]
        return value

    def check_data(self, X: Samples, y: Any) -> None:
        """Nothing is left to check, or to infer from y."""

    def _arrays(self, X, first: bool = False):
        """X as arrays; a table has the columns that the `first` one had, in their order."""
        arrays = as_arrays(X)
        known = hasattr(self, "n_features_in_")
        if known and not first:
            # a single row, or a single column, is no table
            if not isinstance(arrays, Mapping) and arrays.ndim == 1:
                raise ValueError(
                    f"X must be 2-D, with {self.n_features_in_} columns, got shape "
                    f"{tuple(arrays.shape)}. Reshape your data: X.reshape(1, -1) is one sample."
                )
        elif not (first and is_table(X, arrays)):
            return arrays
        # only a frame has names to tell
        table = X if hasattr(X, "columns") else arrays
        validate_data(self, table, skip_check_array=True, reset=first)
        return arrays

    def _target(self, X, y, known, sample_weight) -> tuple[Tensor, Tensor]:
        """Counts and weights of the samples."""
        labels = read_labels(y)
        self._single = labels.single
        labels = labels.for_fit(known)
        weight = weight_of(labels, X, y, sample_weight)
        self.classes_inferred_ = labels.classes
        check_called("loss", self.criterion_)
        if self.regularizer_ is not None:
            check_called("regularizer", self.regularizer_)
        if weight is None:
            weight = np.ones(len(labels))
        weight = weight / weight.max()
        counts = torch.as_tensor(labels.counts.astype(np.float32))
        return counts, torch.as_tensor(weight)

    def _dataset_target(self, y, known, sample_weight) -> NDArray | None:
        """Of a Dataset, what stratifies: the counts that were passed beside it."""
        if known is None or sample_weight is not None:
            raise ValueError(
                "To train on a Dataset, pass classes= to NeuralClassifier, and no sample_weight."
            )
        self.classes_inferred_ = known
        return None if y is None else read_labels(y).in_order(known).counts

    def get_split_datasets(self, X: Samples, y: Any = None, **fit_params: Any) -> tuple:
        """skorch's, or the fifth of `early_stopping`; each part's weights fit its own labels."""
        if self.early_stopping is None or self.train_split:
            return super().get_split_datasets(X, self._scaled(y, [slice(None)]), **fit_params)
        n = len(X) if is_dataset(X) else len(y[0])
        parts = stratified_fifth(n, y[0] if isinstance(y, tuple) else y)
        dataset = self.get_dataset(X, self._scaled(y, parts))
        return tuple(torch.utils.data.Subset(dataset, part.tolist()) for part in parts)

    def _scaled(self, y, parts):
        if not isinstance(y, tuple):
            return y
        counts, weight = y[0], y[1].clone()
        for rows in parts:
            weight[rows] = scaled_weight(self.criterion_, counts[rows], weight[rows])
        return counts, weight

    def get_iterator(self, dataset: Any, training: bool = False) -> Iterable:
        """skorch's, a batch at a time where X is arrays."""
        return OnCPU(whole_batches(super().get_iterator(dataset, training)))

    def infer(self, x: Any, **fit_params: Any) -> Tensor | tuple[Tensor, ...]:
        """The module's outputs for a batch of its device, floats in the module's precision.

        Integers stay integers, as an embedding needs them, unless the module refuses them.
        """
        dtypes = (a.dtype for a in self.module_.parameters() if a.is_floating_point())
        dtype = next(dtypes, torch.float32)
        x = to_tensor(x, device=self.device)
        try:
            return logits_of(super().infer(converted(x, dtype), **fit_params))
        except RuntimeError as refusal:
            # its own kinds of error, out of memory say, stay
            if type(refusal) is not RuntimeError:
                raise
        try:
            return logits_of(super().infer(converted(x, dtype, integers=True), **fit_params))
        except RuntimeError as error:
            raise ValueError(f"The module cannot take this X: {error}.") from error

    def get_loss(
        self, y_pred: Any, y_true: Any, X: Samples = None, training: bool = False
    ) -> Tensor:
        """The loss of a batch: of counts and scaled weights, or of what a Dataset gives."""
        logits = self._logits(y_pred)
        if training and len(self.history) == 1 == len(self.history[0, "batches"]):
            warn_of_probabilities(logits)
        weight = None
        if isinstance(y_true, (tuple, list)):
            y_true, weight = y_true
        counts = to_tensor(y_true, device=self.device)
        if counts.ndim == 1:
            counts = nn.functional.one_hot(counts.long(), len(self.classes_))
        if weight is None:
            loss = self.criterion_(logits, counts)
        else:
            precision = torch.promote_types(logits.dtype, torch.float32)
            weight = to_tensor(weight.to(precision), device=self.device)
            loss = batch_loss(self.criterion_, logits, counts, weight)
        if self.regularizer_ is None or not self.regularizer_weight:
            return loss
        return loss + self.regularizer_weight * self.regularizer_(logits, counts, weight)

    def _logits(self, outputs) -> Tensor:
        """The first of the module's outputs, shape (n, n_classes)."""
        logits = outputs[0] if isinstance(outputs, (tuple, list)) else outputs
        if logits.ndim != 2 or logits.shape[1] != len(self.classes_):
            raise ValueError(
                f"The module must return one logit a class, shape (n, {len(self.classes_)}); "
                f"it returned {tuple(logits.shape)}."
            )
        return logits

    def predict_proba(self, X: Samples) -> Floats:
        """Class probabilities (n_samples, n_classes): the softmax of the logits, in float64."""
        self.check_is_fitted()
        if not hasattr(self, "classes_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit before.")
        batches = self.forward_iter(X if is_dataset(X) else self._arrays(X))
        logits = torch.cat([self._logits(batch).detach().cpu().double() for batch in batches])
        warn_of_probabilities(logits)
        return softmax(logits.numpy())

    def predict_dist(self, X: Samples) -> PointMass:
        """The class probabilities as a distribution, a batch of n_samples samples."""
        return PointMass.of_checked(self.predict_proba(X)).with_classes(self.classes_)
