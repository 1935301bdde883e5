"""A training of skorch's that happens whole or not at all."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

from skorch import NeuralNet
from torch.nn.parameter import is_lazy


class Enough(KeyboardInterrupt):
    """How a callback ends the training."""


class Interrupted(BaseException):
    """A KeyboardInterrupt that skorch does not swallow."""


@contextmanager
def all_or_nothing(net: NeuralNet) -> Iterator[None]:
    """Whatever is raised inside leaves the net as before, and weights that are trained in place."""
    before = dict(vars(net))
    names = net._modules + net._criteria + net._optimizers if net.initialized_ else []
    parts = [getattr(net, f"{name}_") for name in names]
    # Before the first batch, lazy modules have no weights to go back to.
    if any(map(is_lazy, net.module_.parameters() if names else [])):
        parts = []
    states = [copy.deepcopy(part.state_dict()) for part in parts]
    epochs = len(net.history) if names else 0
    try:
        yield
    except BaseException as error:
        net.__dict__ = before
        for part, state in zip(parts, states, strict=True):
            part.load_state_dict(state)
        if names:
            del net.history[epochs:]
        if isinstance(error, Interrupted):
            raise KeyboardInterrupt from None
        raise
