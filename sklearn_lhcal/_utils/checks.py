"""What is asked of arguments before anything is computed, and samples of anything."""

import re
import sys
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache, wraps
from inspect import Parameter, signature
from itertools import pairwise
from numbers import Integral, Real
from types import FunctionType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

import numpy as np
from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning
from sklearn.utils import indexable

from .types import ArrayLike, Estimator, Floats, Indices, NDArray

Function = TypeVar("Function", bound=Callable)

# Their gaps, NaN and NaT, are not equal to themselves.
_MAY_BE_GAPS = (float, np.floating, datetime, np.datetime64, np.timedelta64)
# What missing values are as text.
_GAPS = ("", "none", "nan", "nat", "<na>")
# Modules that warnings do not point at.
_INSIDE = ("sklearn_lhcal.", "contextlib")
_KINDS = {"m": "time spans", "M": "dates", "V": "records"}


def is_lazy(a) -> bool:
    """Whether it is a frame that was not computed yet."""
    return hasattr(a, "collect") and not hasattr(a, "__array__")


def check_values(a, name: str) -> None:
    """Refuse what would lose its meaning, masked entries, and what holds no values yet.

    These are iterators and lazy frames. `name` is what messages call it.
    """
    if isinstance(a, np.ma.MaskedArray) and np.ma.getmaskarray(a).any():
        raise ValueError(
            f"{name} is a masked array, whose mask would be lost; drop or fill its masked entries."
        )
    if isinstance(a, Iterator):
        raise TypeError(f"{name} is an iterator, {type(a).__name__}; make a list of it.")
    if is_lazy(a):
        raise TypeError(f"{name} is a lazy frame, {type(a).__name__}; pass {name}.collect().")


def any_array(a, name: str) -> NDArray:
    """Anything array-like as an array of whatever it holds; tensors are detached."""
    check_values(a, name)
    try:
        if hasattr(a, "detach"):
            a = a.detach().cpu()
            # NumPy has no such numbers
            a = a.float() if "bfloat16" in str(a.dtype) else a
        return np.asarray(a)
    # a tensor without values raises NotImplementedError, which is a RuntimeError
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must hold values, or rows of one length: {error}.") from None


def as_names(a, name: str) -> NDArray:
    """Names, one each of something: a 1-D array of whatever they are."""
    names = any_array(a, name)
    if names.ndim != 1:
        raise ValueError(f"{name} must be 1-D, got shape {names.shape} of {type(a).__name__}.")
    if names.dtype.kind == "V":
        raise ValueError(f"{name} holds records (dtype {names.dtype}); give one name each.")
    if names.dtype.kind == "O" and not all(isinstance(one, Hashable) for one in names):
        raise ValueError(f"{name} must hold names, strings or numbers, not arrays or lists.")
    if names.dtype.kind == "U" and isinstance(a, (list, tuple)):
        # numbers among strings stay numbers
        return np.array(a, dtype=object)
    return names


def plain_array(a, name: str) -> NDArray:
    """Anything array-like as an array of numbers or labels, `name` being what messages call it.

    Tensors are detached. What would lose its meaning is refused: masked entries, complex numbers,
    dates and time spans, records; and what holds no values yet, iterators and lazy frames.
    """
    array = any_array(a, name)
    if array.dtype.kind == "c":
        raise ValueError(
            f"Complex data not supported: {name} holds complex numbers ({array.dtype})."
        )
    if array.dtype.kind in _KINDS:
        kind = _KINDS[array.dtype.kind]
        raise ValueError(
            f"{name} must be numeric, or hold labels; it holds {kind} (dtype {array.dtype})."
        )
    return array


def as_floats(a, name: str) -> Floats:
    """Anything array-like that holds numbers, as float64."""
    array = plain_array(a, name)
    if holds_text(array):
        raise ValueError(f"{name} must be numeric, but holds text; convert it to numbers.")
    try:
        return array.astype(float, copy=False)
    except OverflowError:
        raise ValueError(f"{name} holds an integer too large for float64.") from None
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numeric, got an array of dtype {array.dtype}.") from None


def holds_text(a: NDArray) -> bool:
    """Whether an array holds strings, which NumPy would read as numbers where they look so."""
    if a.dtype.kind == "O":
        return any(isinstance(value, (str, bytes)) for value in a.flat)
    return a.dtype.kind in "UST"


def distinct(names: NDArray, name: str) -> tuple[NDArray, Indices]:
    """The distinct names, sorted, and the number of each one among them."""
    try:
        result, codes = np.unique(names, return_inverse=True)
        # sets can be compared, but not sorted
        if names.dtype.kind == "O" and not all(a < b for a, b in pairwise(result.tolist())):
            raise TypeError
    # a ValueError where names are arrays themselves
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} holds types that cannot be sorted together; make them all strings."
        ) from None
    return result, codes.ravel()


def check_finite(a: NDArray, name: str, remedy: str = "drop or repair these samples") -> None:
    """Raise a ValueError that names the first sample with a value that is no number or infinite."""
    finite = np.isfinite(a)
    if finite.all():
        return
    row = finite.reshape(len(a), -1).all(axis=1).argmin()
    raise ValueError(f"{name} contains NaN or infinite values (first in sample {row}); {remedy}.")


def is_gap(value) -> bool:
    """Whether a label is missing: None, NaN, NaT, or pandas' NA."""
    # there is none of pandas where nobody has imported it
    pandas_na = getattr(sys.modules.get("pandas"), "NA", None)
    if value is None or value is pandas_na:
        return True
    return isinstance(value, _MAY_BE_GAPS) and bool(value != value)


def plainly(name) -> str:
    """A name without what people write in different ways: case and blanks."""
    return " ".join(str(name).split()).casefold()


def spelt_alike(names: NDArray) -> list[list]:
    """The names that differ only in case or blanks, in groups."""
    groups: dict[str, list] = {}
    for name in names.tolist():
        groups.setdefault(plainly(name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the first caller outside this package."""
    frame = sys._getframe(1)
    stacklevel = 2
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(_INSIDE):
        frame = frame.f_back
        stacklevel += 1
    warnings.warn(message, category, stacklevel=stacklevel)


def warn_undefined(message: str) -> None:
    """Warn of a metric that is NaN."""
    warn(message, UndefinedMetricWarning)


def warn_unconverged(message: str) -> None:
    """Warn of a search that stopped before its end."""
    warn(message, ConvergenceWarning)


def warn_alike(names: NDArray, what: str, remedy: str = "see tidy= of label_table") -> None:
    """Warn of names that differ only in case or blanks, and of text that once was no name."""
    text = [name for name in names.tolist() if isinstance(name, str)]
    alike = f"differ only in case or blanks, {remedy}"
    notes = [f"{group} {alike}" for group in spelt_alike(names)]
    notes += [f"{name!r} may be a missing value" for name in text if plainly(name) in _GAPS]
    notes += [f"{name!r} may be a list, see label_table" for name in text if name[:1] in ("[", "{")]
    if notes:
        warn(f"Among the {what}, {'; '.join(notes[:10])}.")


def take_rows(X, rows):
    """Rows of an array, a sparse matrix, a tensor, a frame, a list, or a dict; None stays None."""
    if X is None:
        return None
    if hasattr(X, "__array_namespace__") and not isinstance(X, np.ndarray):
        xp = X.__array_namespace__()
        return xp.take(X, xp.asarray(np.arange(X.shape[0])[rows]), axis=0)
    if isinstance(X, dict):
        return {key: take_rows(value, rows) for key, value in X.items()}
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "tocsr"):
        return X.tocsr()[rows]
    if isinstance(X, (list, tuple)):
        return [X[i] for i in rows]
    return X[rows]


def samples_of(key):
    """What an index selects: scikit-learn takes samples by ``y[samples, ...]``."""
    if not isinstance(key, tuple) or len(key) != 2:
        if key is None or np.ndim(key) > 1:
            raise IndexError("Samples are selected by a slice or by 1-D positions or bools.")
        if holds_text(np.asarray(key)):
            raise IndexError(
                "Samples are selected by position or by bools; of items write "
                "y[np.isin(y.items, items)]."
            )
        return key
    samples, rest = key
    everything = rest is Ellipsis or (isinstance(rest, slice) and rest == slice(None))
    return samples if everything else key


def check_samples(X):
    """X as it is, whose rows can be counted and indexed; tensors without their history.

    What it may hold is for the classifier inside to say, but for masked entries, complex numbers,
    and what holds no values yet.
    """
    check_values(X, "X")
    if hasattr(X, "column_names") and hasattr(X, "to_pandas"):
        # a pyarrow table, which has no index of rows
        X = X.to_pandas()
    if hasattr(X, "dataset") and hasattr(X, "batch_size"):
        raise TypeError(f"X is a {type(X).__name__}; pass all samples of X and y, in one order.")
    if isinstance(X, (str, bytes)) or not _has_rows(X):
        raise TypeError(f"X must have samples, got {type(X).__name__}; make an array of it.")
    if isinstance(X, memoryview):
        X = np.asarray(X)
    # a sparse matrix may be a dict too
    if isinstance(X, dict) and not hasattr(X, "shape"):
        n_rows(X)
    if getattr(X, "requires_grad", False):
        X = X.detach()
    if "bfloat16" in str(getattr(X, "dtype", "")):
        X = X.float()
    if getattr(X, "is_meta", False) or "sparse" in str(getattr(X, "layout", "")):
        raise TypeError("X is a sparse tensor, or one without values; make a dense one of it.")
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise ValueError(f"Complex data not supported: X holds complex numbers ({X.dtype}).")
    return indexable(X)[0]


def _has_rows(X) -> bool:
    if hasattr(X, "shape"):
        return len(X.shape) > 0
    return hasattr(X, "__len__") or hasattr(X, "__array__")


def n_rows(X, name: str = "X") -> int:
    """Number of samples of anything `take_rows` can index; `name` is what messages call it."""
    if isinstance(X, dict):
        if not X:
            raise ValueError(f"{name} is an empty dict; it has no samples.")
        return n_rows(next(iter(X.values())))
    if not _has_rows(X):
        raise TypeError(
            f"{name} must have samples, got {type(X).__name__} without a length; make it an array."
        )
    if hasattr(X, "shape"):
        return X.shape[0]
    return len(X)


def as_features(found, X, owner: str) -> Floats:
    """Features that a callable or transformer gave for X: (n,) or (n, …) as finite (n, f).

    `owner` is who asked for them, in messages.
    """
    if hasattr(found, "toarray"):
        found = found.toarray()
    h = as_floats(found, f"What features returns to {owner}")
    if h.ndim == 0 or len(h) != n_rows(X):
        rows = f"{len(h)} samples" if h.ndim else "a single number"
        raise ValueError(
            f"features must return one row for each of the {n_rows(X)} samples of X, it returned "
            f"{rows}."
        )
    h = h.reshape(len(h), -1)
    if not np.isfinite(h).all():
        raise ValueError(f"The features of {owner} contain NaN or infinite values.")
    return h


def take_params(params: dict, rows, n: int) -> dict:
    """Fit parameters for some of n samples: those with one entry per sample are cut.

    A list of arrays or pairs is of other samples, and so is what boosters call eval_set, eval_X, ….
    """
    taken = dict(params)
    for name, value in params.items():
        if isinstance(value, (list, tuple)):
            listed = all(isinstance(v, str) or not hasattr(v, "__len__") for v in value)
        else:
            listed = hasattr(value, "shape") and np.ndim(value) > 0
        if listed and not name.startswith("eval_") and n_rows(value) == n:
            taken[name] = take_rows(value, rows)
    return taken


def check_same_length(n: int, **named) -> None:
    """Raise a ValueError that names the first argument whose number of samples is not n."""
    for name, value in named.items():
        if value is not None and (m := n_rows(value, name)) != n:
            raise ValueError(
                f"{name} has {m} samples, expected {n}: inconsistent numbers of samples."
            )


def read_groups(groups, n: int) -> Indices | None:
    """The number of the group of each sample, shape (n,); None stays None."""
    if groups is None:
        return None
    names = as_names(groups, "groups")
    check_same_length(n, groups=names)
    if any(is_gap(g) for g in names.tolist()):
        raise ValueError("groups must not have missing values; give each a group of its own.")
    return distinct(names, "groups")[1]


def check_grouped(groups: NDArray | None, bias_correction: str | None) -> None:
    """ValueError for groups with the one correction that cannot leave their pairs out."""
    if groups is not None and bias_correction == "label":
        raise ValueError(
            "bias_correction='label' takes samples as independent; with groups use 'residual'."
        )


def check_sample_weight(sample_weight, n: int) -> Floats | None:
    """Weights of shape (n,), float64, finite, not negative, not all zero; None stays None."""
    if sample_weight is None:
        return None
    w = as_floats(sample_weight, "sample_weight")
    if w.ndim == 0:
        w = np.full(n, float(w))
    if w.shape != (n,):
        raise ValueError(
            f"sample_weight must have shape ({n},), got {w.shape}: inconsistent numbers of samples."
        )
    if not np.isfinite(w).all() or (w < 0).any():
        raise ValueError("sample_weight contains NaN, infinite or negative values.")
    if not w.any():
        raise ValueError("All values of sample_weight are zero; at least one sample must count.")
    with np.errstate(over="ignore"):
        total = w.sum()
    if not 1e-300 < total < np.inf:
        raise ValueError(f"sample_weight sums to {total}, too far from 1 for floats; scale it.")
    return w if total < _ALL else w * (_ALL / total)


def is_real(value) -> bool:
    """Whether it is a real number; bool counts as one."""
    return isinstance(value, Real)


def is_count(value) -> bool:
    """Whether it is a whole number of at least 1."""
    return is_real(value) and 1 <= value < np.inf and value == int(value)


# what a number must be, by its name, beside what its type in the signature says
_MOST = 10**6
# of more samples only the ratios of weights matter, and searches would be lost in rounding
_ALL = 1e8
# an int may be larger
_LARGEST = sys.float_info.max
_DEVICE = re.compile(r"(cpu|cuda|mps|xpu|meta)(:\d+)?")
_RULES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "lie between 0 and 1": (
        "alpha confidence_level calibration_size false_discovery_rate power prevalence "
        "test_fraction",
        lambda x: 0 < x < 1,
    ),
    "be at least 0 and below 1": ("epsilon threshold", lambda x: 0 <= x < 1),
    "be a number from 0 to 1": ("mixed", lambda x: 0 <= x <= 1),
    "be a number from 0 to 0.25": ("tolerance disagreement_tolerance", lambda x: 0 <= x <= 0.25),
    "be a number, 1 or more": ("p", lambda x: x >= 1),
    "be a finite number": ("budget class_index label referral", lambda x: abs(x) <= _LARGEST),
    "be a finite number above 0": (
        "cell_std half_width lengthscale radius timeout variance",
        lambda x: 0 < x <= _LARGEST,
    ),
    # below, differences of costs are lost in rounding
    "be a finite number of at least 1e-8": ("beta lam", lambda x: 1e-8 <= x <= _LARGEST),
    "be a finite number of at least 0": (
        "bias_penalty class_sep effect_std gamma margin off_diagonal_penalty "
        "overconfidence penalty rater_std regularizer_weight row_std safeguard shrinkage slope_std "
        "tol",
        lambda x: 0 <= x <= _LARGEST,
    ),
    "be a number from 1e-100 to 1e100": ("bandwidth", lambda x: 1e-100 <= x <= 1e100),
    f"be an int from 1 to {_MOST}": (
        "least_rows n_blocks n_draws n_nodes",
        lambda x: 1 <= x <= _MOST,
    ),
    f"be an int from 2 to {_MOST}": ("n_classes n_points min_rows", lambda x: 2 <= x <= _MOST),
    "be an int of at least 2": ("inner_cv", lambda x: x >= 2),
    "be an int of at least 0": ("verbose", lambda x: x >= 0),
    "be an int other than 0": ("n_jobs", bool),
    'be "cpu", "cuda" or another device of torch': ("device", _DEVICE.fullmatch),
    "be -1 or an int of at least 1": ("batch_size", lambda x: x == -1 or x >= 1),
    "be an int from 0 to 2**32 - 1": ("random_state", lambda x: 0 <= x < 2**32),
}
_RULE_OF = {
    name: (what, holds) for what, (names, holds) in _RULES.items() for name in names.split()
}
_ANY: dict[Any, tuple[str, Callable[[Any], Any]]] = {
    int: ("be an int of at least 1", lambda x: 1 <= x < 2**63),
    float: ("be a finite number", lambda x: abs(x) <= _LARGEST),
}
_WORDS: dict[Any, str] = {
    int: "an int",
    float: "a number",
    type(None): "None",
    str: "a string",
    Callable: "a function",
    Mapping: "a dict",
    Sequence: "a list",
    Iterable: "a list",
    Estimator: "a classifier",
}
_METHODS = ("fit", "predict", "predict_proba", "predict_dist")


def checked(function: Function) -> Function:
    """Decorator that refuses named arguments before anything is computed, by `check_arguments`."""
    check = check_arguments
    names = tuple(signature(function).parameters)
    chooses = "class_index" in names

    def door(*args, **kwargs):
        if chooses and "pos_label" in kwargs:
            raise TypeError("pos_label is class_index here: the name of the class, or its column.")
        check(function, dict(zip(names, args, strict=False)) | kwargs)
        return function(*args, **kwargs)

    # doctest knows whose function it is by its globals
    made = FunctionType(door.__code__, function.__globals__, closure=door.__closure__)
    return cast(Function, wraps(function)(made))


@contextmanager
def errors_of(what: str) -> Iterator[None]:
    """Errors begin with what they are about."""
    try:
        yield
    except (ImportError, TypeError, ValueError) as error:
        raise type(error)(f"{what}: {error}") from error


def check_params(estimator) -> None:
    """The same of the parameters of an estimator."""
    check_arguments(type(estimator), vars(estimator))


def check_arguments(function: Callable, named: dict) -> None:
    """ValueError that names the first argument that is not what the signature's type says.

    Numbers must lie in the range of their name, too. Data are left to their readers.
    """
    for name, kinds in _allowed(function).items():
        if name not in named:
            continue
        value = named[name]
        if not any(_fits(value, kind) for kind in kinds):
            what = f"be {_listed(kinds)}"
        elif name != "device" and (not isinstance(value, Real) or isinstance(value, bool)):
            continue
        else:
            rule = next((_ANY[kind] for kind in _ANY if kind in kinds), None)
            rule = _RULE_OF.get(name, rule)
            if rule is None or rule[1](value):
                continue
            what = rule[0]
        raise ValueError(f"{name} must {what}, got {value!r:.99}{_hint(kinds, value)}.")


def _hint(kinds: tuple, value) -> str:
    """What to do with networks where a classifier is asked for."""
    if Estimator in kinds and hasattr(value, "forward"):
        return "; wrap a trained module by NeuralClassifier.from_trained(module, classes)"
    if Estimator in kinds and isinstance(value, (list, tuple)):
        return "; make one of a list of nets by DeepEnsembleClassifier.from_trained(nets)"
    return ""


@cache
def _allowed(function: Callable) -> dict[str, tuple]:
    """What each argument may be; arguments that hold data, or may be anything, are left out."""
    results = {}
    for name, p in signature(function).parameters.items():
        kinds = (p.annotation,)
        if get_origin(p.annotation) in (Union, UnionType):
            kinds = get_args(p.annotation)
        plain = p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and name != "y"
        if plain and all(_is_checked(kind) for kind in kinds):
            results[name] = kinds
    return results


def _is_checked(kind) -> bool:
    if get_origin(kind) is not None:
        return True
    # strings name what is not imported yet
    return isinstance(kind, type) and kind not in (ArrayLike, Any, object, Parameter.empty)


def _fits(value, kind) -> bool:
    if get_origin(kind) is Literal:
        if isinstance(value, bool):
            return False
        return any(isinstance(value, type(one)) and value == one for one in get_args(kind))
    if kind is bool:
        return isinstance(value, (bool, np.bool_))
    if kind in (int, float):
        number = {int: Integral, float: Real}[kind]
        return isinstance(value, number) and not isinstance(value, bool)
    if kind is Estimator:
        # of a fitted model, whoever made it, no more is asked; a class has the methods, too
        return not isinstance(value, type) and any(hasattr(value, name) for name in _METHODS)
    return isinstance(value, get_origin(kind) or kind)


def _listed(kinds: tuple) -> str:
    words = []
    for kind in kinds:
        if get_origin(kind) is Literal:
            words += [repr(one).replace("'", '"') for one in get_args(kind)]
        else:
            kind = get_origin(kind) or kind
            words.append(_WORDS.get(kind, f"a {kind.__name__}"))
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last
