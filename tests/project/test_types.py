"""Public signatures say what they take and return; `make lint` holds the code to it by mypy."""

import importlib
import inspect
import pkgutil
from functools import cached_property
from typing import Any

import sklearn_lhcal

ROOMS = [m.name for m in pkgutil.iter_modules(sklearn_lhcal.__path__) if m.name[0] != "_"]
SPECIAL = ("__init__", "__len__", "__getitem__", "__call__")
# What may be Any, by the name of the parameter: X is opaque, the others go to somebody else.
ANYTHING = {
    "X": "anything with samples: an array, a frame, a sparse matrix, a tensor, a list, a dict",
    "fit_params": "goes to the fit of the estimator inside",
    "options": "goes to the metric, or to skorch",
    "kwargs": "goes to another constructor",
    "result": "of any analysis, which a display draws",
    "args": "goes to the function of a display",
    "estimator": "of a display: one, or a dict of them",
    "params": "parameters of any estimator",
    "prediction": "of a torch loss: a tensor or a tuple of them",
    "table": "a frame, or its columns one by one",
    "key": "of a container: whatever numpy takes",
}
# Methods that override skorch's, called by skorch only: data is whatever it hands on.
SKORCH = {"fit_loop", "check_data", "get_iterator", "get_split_datasets", "infer", "get_loss"}


def functions_of(thing):
    """(name, function) of a public function, or of the public methods of a class."""
    if not inspect.isclass(thing):
        yield thing.__name__, inspect.unwrap(thing)
        return
    for base in thing.__mro__:
        for name, value in vars(base).items():
            if name.startswith("_") and name not in SPECIAL:
                continue
            if isinstance(value, property):
                value = value.fget
            if isinstance(value, cached_property):
                value = value.func
            if isinstance(value, (classmethod, staticmethod)):
                value = value.__func__
            value = inspect.unwrap(getattr(value, "fn", value))
            if inspect.isfunction(value) and value.__module__.startswith("sklearn_lhcal"):
                yield f"{base.__name__}.{name}", value


def public_functions():
    found = {}
    for room in ROOMS:
        module = importlib.import_module(f"sklearn_lhcal.{room}")
        for name in module.__all__:
            thing = getattr(module, name)
            if callable(thing):
                found |= dict(functions_of(thing))
    return found


FUNCTIONS = public_functions()


def test_public_signatures_are_typed():
    untyped, vague, silent = [], [], []
    for name, function in FUNCTIONS.items():
        signature = inspect.signature(function)
        for parameter in signature.parameters.values():
            if parameter.name in ("self", "cls"):
                continue
            if parameter.annotation is inspect.Parameter.empty:
                untyped.append((name, parameter.name))
            handed_on = name.rpartition(".")[2] in SKORCH or parameter.name in ANYTHING
            if parameter.annotation is Any and not handed_on:
                vague.append((name, parameter.name))
        if signature.return_annotation in (inspect.Signature.empty, Any):
            silent.append(name)
    assert not untyped, "give them types; aliases stand in _utils/types.py"
    assert not vague, "say what they may be; aliases stand in _utils/types.py"
    assert not silent, "say what is returned"


def test_all_rooms_are_looked_at():
    assert len(FUNCTIONS) > 200
    assert {"calibration_error", "Distribution.disagreement", "_BaseCalibrator.fit"} <= set(
        FUNCTIONS
    )
