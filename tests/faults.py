"""Faults at the calls that a fit makes, and what an estimator holds before and after them."""

import copy
import sys
from contextlib import contextmanager
from functools import wraps
from types import FunctionType

import numpy as np
import pandas as pd
import torch
from torch import nn

rng = np.random.default_rng(0)
X, OTHER = rng.normal(size=(60, 2)), rng.normal(size=(50, 3))
Y = rng.multinomial(4, [0.5, 0.3, 0.2], size=60)
# other features, another number of classes, and their names: nothing of the first fit fits
OTHER_Y = pd.DataFrame(rng.multinomial(3, [0.4, 0.6], size=50), columns=["a", "b"])


class Fault(Exception):
    """Raised by the tests alone."""


def held_functions():
    """(module, name, function) of every function that a loaded module of the package holds."""
    modules = [m for name, m in sys.modules.items() if name.startswith("sklearn_lhcal")]
    for module in modules:
        for name, thing in list(vars(module).items()):
            if isinstance(thing, FunctionType) and thing.__module__.startswith("sklearn_lhcal"):
                yield module, name, thing


@contextmanager
def failing(at, error):
    """The call number `at` of all functions of the package raises.

    What was called last.
    """
    seen = {"calls": 0}

    def watched(function):
        @wraps(function)
        def call(*args, **kwargs):
            seen["calls"] += 1
            if seen["calls"] == at:
                raise error(function.__name__)
            return function(*args, **kwargs)

        return call

    held = list(held_functions())
    try:
        for module, name, function in held:
            setattr(module, name, watched(function))
        yield seen
    finally:
        for module, name, function in held:
            setattr(module, name, function)


def state(estimator):
    """What an estimator holds, weights of networks copied."""
    return {name: copy.deepcopy(value) for name, value in vars(estimator).items()}


def same(a, b) -> bool:
    if isinstance(a, nn.Module):
        a, b = a.state_dict(), b.state_dict()
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (np.ndarray, torch.Tensor, float, int, str, bool, type(None))):
        return np.array_equal(np.asarray(a), np.asarray(b))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b)


def points(calls) -> list[int]:
    """At most 25 of the calls, the first and the last ones among them."""
    return sorted({*range(1, min(calls, 8)), *np.linspace(1, calls, 18).astype(int).tolist()})
