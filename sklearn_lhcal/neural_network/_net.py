"""skorch's net with the manners of a scikit-learn estimator, whatever it learns."""

import copy
from collections.abc import Callable, Iterable
from typing import Any, Self

import torch
from sklearn.utils.validation import validate_data
from skorch import NeuralNetClassifier
from skorch.utils import to_tensor
from torch import Tensor, nn

from .._ground.types import Samples
from ._atomic import Enough, Interrupted
from ._data import as_arrays, check_table, infer_numbers, is_table, whole_batches
from ._training import SteadySteps


class _Aside:
    """An attribute that skorch sets before any fit, kept where scikit-learn looks for none."""

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, net, owner=None):
        if net is None:
            return self
        if f"_{self.name}" not in vars(net):
            raise AttributeError(f"{type(net).__name__} has no {self.name} yet.")
        return vars(net)[f"_{self.name}"]

    def __set__(self, net, value):
        vars(net)[f"_{self.name}"] = value


class ArrayNet(SteadySteps, NeuralNetClassifier):
    """skorch's net that knows its features, copies modules, and is interrupted by anyone."""

    history_ = _Aside()
    initialized_ = _Aside()
    virtual_params_ = _Aside()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def get_params(self, deep: bool = True, **options: Any) -> dict[str, Any]:
        """skorch's, without what it notes for itself."""
        params = super().get_params(deep=deep, **options)
        return {name: value for name, value in params.items() if not name.startswith("_")}

    def set_params(self, **params: Any) -> Self:
        """skorch's, but callbacks wait for the next fit."""
        if "callbacks" in params:
            # skorch would first make those that go, and fail where they are wrong
            self.callbacks = params.pop("callbacks")
        return super().set_params(**params)

    def initialized_instance(
        self, instance_or_cls: nn.Module | Callable[..., nn.Module], kwargs: dict
    ) -> nn.Module:
        """skorch's rule, but an instance of a module is copied: the caller's stays as it is."""
        made = super().initialized_instance(instance_or_cls, kwargs)
        if made is instance_or_cls:
            made = copy.deepcopy(made)
        return made

    def notify(self, method_name: str, **options: Any) -> None:
        """skorch's; callbacks, early stopping among them, end training by a KeyboardInterrupt."""
        try:
            super().notify(method_name, **options)
        except KeyboardInterrupt:
            raise Enough from None

    def fit_loop(
        self, X: Samples, y: Any = None, epochs: int | None = None, **options: Any
    ) -> Self:
        """skorch's loop; an interruption by anyone but callbacks is not taken for its end."""
        try:
            return super().fit_loop(X, y, epochs, **options)
        except Enough:
            raise
        except KeyboardInterrupt:
            raise Interrupted from None

    def check_data(self, X: Samples, y: Any) -> None:
        """Nothing is left to check, or to infer from y."""

    def get_iterator(self, dataset: Any, training: bool = False) -> Iterable:
        """skorch's, a batch at a time where X is arrays."""
        return whole_batches(super().get_iterator(dataset, training))

    def infer(self, x: Any, **fit_params: Any) -> Tensor | tuple[Tensor, ...]:
        """The module's outputs for a batch, which is brought to the module's precision."""
        dtype = next(
            (p.dtype for p in self.module_.parameters() if p.is_floating_point()), torch.float32
        )

        def infer(x):
            return super(ArrayNet, self).infer(x, **fit_params)

        return infer_numbers(infer, to_tensor(x, device=self.device), dtype)

    def _arrays(self, X: Samples, first: bool = False):
        """X as arrays; a table has the columns that the `first` one had, in their order."""
        arrays = as_arrays(X)
        known = hasattr(self, "n_features_in_")
        if known and not first:
            check_table(arrays, self.n_features_in_)
        elif not (first and is_table(X, arrays)):
            return arrays
        # only a frame has names to tell
        table = X if hasattr(X, "columns") else arrays
        validate_data(self, table, skip_check_array=True, reset=first)
        return arrays

    def _forget_features(self) -> None:
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
