"""Every public door, every argument that takes data, and a table of bad input.

Out comes the right number, or one of the exceptions allowed, whose message names the argument. The
doors are found by the types of their signatures; `fuzz_cases.py` holds good input by the name of
the argument, to which a new name is added.
"""

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from fuzz_cases import DOORS
from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning

from sklearn_lhcal import display
from sklearn_lhcal.distributions import Distribution

ALLOWED = (ValueError, TypeError, IndexError)

# The same values in another form: nothing changes.
SAME = {
    "list": lambda a: a.tolist(),
    "tuple": lambda a: tuple(a.tolist()),
    "Fortran order": np.asfortranarray,
    "strided": lambda a: np.repeat(a, 2, axis=0)[::2],
    "read-only": lambda a: _frozen(a),
    "objects": lambda a: a.astype(object),
    "tensor with gradient": lambda a: torch.tensor(a, requires_grad=a.dtype.kind == "f"),
    "pandas": lambda a: pd.DataFrame(a) if a.ndim == 2 else pd.Series(a.tolist()),
    "polars": lambda a: pl.DataFrame(a) if a.ndim == 2 else pl.Series(a),
    "mask of nothing": lambda a: np.ma.masked_array(a, False),
}
# What has no meaning as data.
REFUSED = {
    "masked": lambda a: np.ma.masked_array(a, np.arange(a.size).reshape(a.shape) == 1),
    "complex": lambda a: a + 1j,
    "records": lambda a: np.zeros(a.shape, [("a", float), ("b", int)]),
    "iterator": iter,
    "lazy frame": lambda a: pl.LazyFrame({"a": [1, 2]}),
    "dict": lambda a: {"a": [1, 2], "b": [0, 1]},
    "empty dict": lambda a: {},
    "word": lambda a: "abc",
    "object": lambda a: object(),
    "no samples": lambda a: a[:0],
    "ragged": lambda a: [[1, 2], [1]],
    "four axes": lambda a: a.reshape((1, 1, 1, -1)),
    "no values": lambda a: torch.empty(a.shape, device="meta"),
    "sparse tensor": lambda a: torch.ones(a.shape).to_sparse(),
}
# What has none as numbers.
NO_NUMBERS = {
    "NaN": lambda a: _spoiled(a, np.nan),
    "infinite": lambda a: _spoiled(a, np.inf),
    "words": lambda a: np.full(a.shape, "a"),
    "dates": lambda a: np.zeros(a.shape, "datetime64[s]"),
    "time spans": lambda a: np.ones(a.shape, "timedelta64[s]"),
    "numbers in words": lambda a: a.astype(str),
    "a number in words": lambda a: _spoiled(a.astype(object), "1"),
    "beyond floats": lambda a: _spoiled(a.astype(object), 10**400),
}
# A right number or an exception.
ODD = {
    "None": lambda a: None,
    "negative": lambda a: _spoiled(a, -1.0),
    "huge": lambda a: a * 1e30,
    "too short": lambda a: a[:-1],
    "too long": lambda a: np.concatenate([a, a[:1]]),
    "too narrow": lambda a: a[..., :-1],
    "too wide": lambda a: np.concatenate([a, a[..., :1]], axis=-1),
    "one number": lambda a: 1.0,
    "half precision": lambda a: a.astype(np.float16),
    "bool": lambda a: a.astype(bool),
    "bytes": lambda a: np.full(a.shape, b"a"),
    "gaps": lambda a: _spoiled(a.astype(object), None),
    "largest": lambda a: np.full(a.shape, 1.7e308),
    "smallest": lambda a: np.full(a.shape, 5e-324),
    "no columns": lambda a: a[..., :0],
    "arrays": lambda a: _of_arrays(a),
}


def _of_arrays(a):
    found = np.empty(len(a), dtype=object)
    found[:] = [np.zeros(2) for _ in a]
    return found


def _frozen(a):
    a = a.copy()
    a.flags.writeable = False
    return a


def _spoiled(a, value):
    if a.dtype.kind != "O":
        a = a.astype(float)
    a = a.copy()
    a.flat[1] = value
    return a


# Arguments that hold names of something: whatever can be told apart will do.
NAMES = {
    *(
        "groups",
        "groups_rest",
        "subgroups",
        "classes",
        "decisions",
        "y_pred",
        "y_reference",
        "reference_prediction",
        "which",
        "rater_groups",
    ),
    *("reader", "condition"),
    *("annotations", "matrix", "raters", "item", "rater", "label", "items", "finding", "findings"),
}
# What a message may call an argument besides its own name and those of the other data.
ALSO = {
    "predictions": "prediction",
    "reference_prediction": "y_reference",
    "y": "y_pred|class|labels",
    "groups": "fold|samples|train_size",
    "groups_rest": "groups|rows",
    "counts": "y",
    "given": "y",
    "classes": "class",
    "cost_matrix": "decision",
    "matrix": "annotations|labels|ratings|raters|y",
    "annotations": "matrix|labels|ratings",
    "n_bins": "bins|Bin",
}
# X is opaque: what it may hold is for the classifier inside to say, in its words, but for these.
OF_X = {"masked", "complex", "iterator", "lazy frame", "word", "object", "None", "one number"}
# Arguments that are there because scikit-learn passes them.
UNREAD = {("BallCarvingSplit.split", "groups"), ("StratifiedVotesKFold.split", "X")}

CASES = [
    (name, argument)
    for name, door in DOORS.items()
    for argument in door.data
    if (name, argument) not in UNREAD
]


def outcome(door, **changed):
    """What comes out: a result, or an exception; warnings that are no part of the package raise."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for category in (ConvergenceWarning, UndefinedMetricWarning, UserWarning):
            warnings.simplefilter("ignore", category)
        try:
            result = door.call(**changed)
            return list(result) if hasattr(result, "__next__") else result
        except Exception as error:
            return error


def complaint(door, argument, kind, error):
    """What is wrong with an exception; empty where nothing is."""
    if not isinstance(error, ALLOWED):
        return f"{type(error).__name__}: {error}"
    if argument == "X" and kind not in OF_X:
        return ""
    words = set(re.findall(r"\w+", str(error)))
    known = {
        argument,
        *door.data,
        *door.fixed,
        *ALSO.get(argument, "").split("|"),
        door.name.split(".")[0],
    }
    if not words & known:
        return f"names no argument: {type(error).__name__}: {error}"
    return ""


def applies(kind, good, argument):
    """Whether a way to spoil fits the shape and the type of good input."""
    if argument == "X" and kind in ("huge", "largest", "beyond floats"):
        # a forest warns in float32, scikit-learn has words of its own
        return False
    if kind == "NaN" and argument in ("rate", "score"):
        # of samples with too few raters, and of cases that were not read
        return False
    if kind == "infinite" and argument == "total":
        # no spread at all, where data are made
        return False
    if kind in ("pandas", "polars"):
        return good.ndim <= 2
    if kind == "tuple":
        # a tuple of numbers is a range there
        return argument != "n_raters"
    if kind == "objects":
        return good.dtype.kind not in "bi" or argument in ("y", "counts", "X")
    return kind != "words" or argument not in NAMES


def must_fail(kind, kinds, argument, door):
    """Whether no number may come out."""
    if kind == "None":
        return argument in door.required
    if argument == "X":
        return kind in OF_X
    if argument in NAMES:
        return kind in ("masked", "iterator", "lazy frame", "object", "four axes", "ragged")
    return kinds is REFUSED or kinds is NO_NUMBERS


def numbers(result):
    """A result as an array; None where it is no numbers."""
    if isinstance(result, Distribution):
        result = result.mean()
    if isinstance(result, (float, int, np.ndarray)) and np.asarray(result).dtype.kind in "biuf":
        return np.asarray(result, dtype=float)
    return None


def differs(expected, result):
    """What differs between the results of the same values in two forms; empty where nothing."""
    expected, result = numbers(expected), numbers(result)
    if expected is None or np.allclose(expected, result, rtol=1e-6, atol=1e-9, equal_nan=True):
        return ""
    return f"{result} for {expected}"


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    """Displays are made and not drawn: what is drawn was checked before."""
    for name in display.__all__:
        monkeypatch.setattr(getattr(display, name), "plot", lambda self, *args, **kwargs: self)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "argument"), CASES)
def test_bad_input(name, argument):
    door = DOORS[name]
    assert not door.unknown, (
        f"{name} takes {door.unknown}: add values of these names to VALUES in fuzz_cases.py where "
        "they take data, else to FIXED"
    )
    good = door.good()[argument]
    expected = outcome(door)
    if isinstance(expected, AttributeError):
        pytest.skip("the estimator inside does not offer it")
    assert not isinstance(expected, Exception), f"good input is refused: {expected}"
    if not isinstance(good, np.ndarray):
        pytest.skip("another object, which has doors of its own")
    wrong = []
    for kinds in (SAME, REFUSED, NO_NUMBERS, ODD):
        for kind, change in kinds.items():
            if not applies(kind, good, argument):
                continue
            result = outcome(door, **{argument: change(good)})
            if isinstance(result, Exception):
                said = complaint(door, argument, kind, result)
                if not said and kinds is SAME and (argument != "X" or kind in OF_X):
                    said = f"refused: {result}"
            elif must_fail(kind, kinds, argument, door):
                said = "accepted"
            elif kinds is SAME:
                said = differs(expected, result)
            else:
                said = ""
            if said:
                wrong.append(f"{kind}: {said}")
    assert not wrong, "\n".join(wrong)
