"""Names decide, never luck: the rules by which the classes and the samples of two sides meet.

Two named sides meet by name. A named side and a bare one meet by position where the names are
sorted, else not at all. Two bare sides meet by position. Numbers that only count are no names.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import combinations
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from .checks import any_array, as_names, is_lazy, warn
from .types import ArrayLike, Indices, NDArray

_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def typed(names: Sequence) -> NDArray:
    """Names as an array that keeps their types: numbers among strings stay numbers."""
    array = np.asarray(names)
    mixed = array.dtype.kind == "U" and not all(isinstance(name, str) for name in names)
    # of tuples NumPy makes rows
    if mixed or array.ndim > 1:
        return np.fromiter(names, dtype=object)
    return array


def column_names(frame, name: str) -> NDArray | None:
    """Names of the columns of a frame or a pyarrow table, shape (K,); None where there are none.

    The columns that a frame gets by itself, and names on several levels, are none. A name that
    comes twice is a ValueError; `name` is what messages call the frame.
    """
    # to ask a lazy frame for them would compute something
    columns = None if is_lazy(frame) else getattr(frame, "columns", None)
    # pyarrow's columns are arrays
    columns = getattr(frame, "column_names", columns)
    if columns is None or getattr(columns, "nlevels", 1) > 1 or _counts_up(columns):
        return None
    names = list(columns)
    # what polars calls the columns of an array
    if names == [f"column_{k}" for k in range(len(names))]:
        return None
    if len(set(names)) < len(names):
        raise ValueError(f"{name} names columns twice: {names[:20]}.")
    return typed(names)


def named_columns(table, name: str) -> dict:
    """The columns of a dict, a frame or an array by name, as given.

    Those without names are "column 0", "column 1"; one without a name is "subgroup".
    """
    if isinstance(table, Mapping):
        return dict(table)
    if hasattr(table, "columns"):
        names = column_names(table, name)
        values = [table[column] for column in table.columns]
        if names is not None:
            return dict(zip(names.tolist(), values, strict=True))
    else:
        array = any_array(table, name)
        if array.ndim == 1:
            return {getattr(table, "name", None) or "subgroup": table}
        if array.ndim != 2:
            raise ValueError(f"{name} must have one or two axes, got shape {array.shape}.")
        values = list(array.T)
    return {f"column {j}": column for j, column in enumerate(values)}


def _counts_up(index) -> bool:
    """Whether a pandas index is the one that a frame gets by itself: 0, 1, 2, …."""
    return getattr(index, "start", None) == 0 and getattr(index, "step", None) == 1


def is_numeric(names: NDArray | None) -> bool:
    """Whether there are names, and these are numbers."""
    return names is not None and names.dtype.kind in "iubf"


def numbers_of(names: NDArray) -> NDArray | None:
    """Names that are numbers, or strings of numbers, as numbers; None where they are neither."""
    strings = names.tolist()
    if all(isinstance(s, Real) for s in strings):
        return names
    if all(isinstance(s, str) and _NUMBER.fullmatch(s) for s in strings):
        return np.array([float(s) if "." in s else int(s) for s in strings], dtype=object)
    return None


def sorted_names(names: ArrayLike, side: str = "classes") -> NDArray:
    """Distinct names in ascending order, the one order in which estimators keep them.

    `side` is what messages call who has them.
    """
    names = np.asarray(names)
    if len(set(names.tolist())) < len(names):
        raise ValueError(f"{side}: the class names {names.tolist()[:20]} are not distinct.")
    try:
        numbers = numbers_of(names)
        return names[np.argsort(names if numbers is None else numbers, kind="stable")]
    except TypeError:
        raise ValueError(
            f"{side}: the class names {names.tolist()[:20]} cannot be sorted together; make them "
            "all strings."
        ) from None


def is_sorted(names: NDArray, side: str = "classes") -> bool:
    """Whether names are in the order of `sorted_names`."""
    return np.array_equal(names, sorted_names(names, side))


def check_classes(classes: ArrayLike, K: int, noun: str = "classes") -> NDArray:
    """Names for K columns, all different; `noun` is what messages call them."""
    names = as_names(classes, noun)
    if names.shape != (K,) or len(set(names.tolist())) < K:
        raise ValueError(
            f"{noun} must hold {K} different names, one for each column, got {names.tolist()}."
        )
    return names


def positions(names: ArrayLike, among: NDArray) -> Indices:
    """Where each of `names` stands among the others; -1 where it does not."""
    place = {name: i for i, name in enumerate(among.tolist())}
    return np.array([place.get(name, -1) for name in np.asarray(names).tolist()], dtype=np.intp)


def columns_by_name(
    own: NDArray, classes: NDArray, side: str, other: str, noun: str = "classes"
) -> Indices:
    """The columns of one side in the order of the `classes` of the other; both have names.

    `noun` is what messages call them.
    """
    columns = positions(classes, own)
    if (columns < 0).any() or len(own) != len(classes):
        alone = sorted(set(own.tolist()) ^ set(classes.tolist()), key=str)
        raise ValueError(
            f"{side} has the {noun} {own.tolist()[:20]}, {other} has {classes.tolist()[:20]}: "
            f"the sets differ by {alone[:20]}."
        )
    return columns


def check_by_position(
    names: NDArray, named: str, bare: str, array: str, axis="columns", noun="classes"
) -> None:
    """ValueError unless names are sorted: only then may a bare side meet them by position.

    `named` and `bare` are what messages call the sides, `array` what the user calls the bare one,
    `noun` what its columns are.
    """
    if not is_sorted(names, named):
        raise ValueError(
            f"{named} has the {noun} {names.tolist()[:20]}, which are not sorted, and {bare} has "
            f"no names, so the two cannot be matched. Name its {noun} in their order, "
            f"pd.DataFrame({array}, {axis}=[...]), and they are matched by name."
        )


class Side(NamedTuple):
    """One of two sides that meet: K columns, and their names where they have some.

    Messages call it `who`; a user names its columns by the `axis` of a frame of its `array`. Names
    are `single` where they are those that occur among labels, which need not be all; `numbered`
    where they may be column numbers, if they are numbers; `graded` where they stand in an order of
    their own.
    """

    who: str
    # an array or None
    names: Any
    K: int
    array: str = "proba"
    axis: str = "columns"
    single: bool = False
    numbered: bool = False
    graded: bool = False
    # what columns are, for messages
    noun: str = "classes"


def matched(
    own: Side, other: Side, *, add: bool = False, sure: bool = False
) -> tuple[Any, Indices]:
    """The classes of two sides, and the number among them of each own column: the one table.

    =============  ===========================  ================================================
    own            the other bare               the other named
    =============  ===========================  ================================================
    bare           by position                  by position, if names are sorted, or `sure`
    named          by position, if in order     by name: the same set, or more with `add`
    single         by position, if as many      by name: some of the set, or more with `add`
    `numbered`     as column numbers            by name among numbers, else as column numbers,
                                                if names are sorted, or `sure`
    =============  ===========================  ================================================

    Names are in order if they are sorted, or graded.

    Parameters
    ----------
    own, other : Side
    add : bool, default=False
        Whether classes that the other side never saw join its own, in sorted order.
    sure : bool, default=False
        Whether own columns without names are known to be in the other's order.

    Returns
    -------
    classes : ndarray of shape (n_classes,) or None
        In the order of the other side, if it has names; None where neither has.
    columns : ndarray of shape (own.K,)
    """
    names, classes = own.names, other.names
    columns = np.arange(other.K)
    if own.numbered and is_numeric(names) and not is_numeric(classes):
        # 1, 2, …, K − 1 count K > 2 columns: they may be scores 1, 2, …, K
        if own.K > 1 and own.K + 1 == other.K and np.array_equal(names, np.arange(1, other.K)):
            warn(
                f"The labels {names.tolist()[:20]} of {own.who} were read as column numbers: "
                f"nobody gave column 0 of {other.who}. If they are scores from 1, name the "
                f"columns, pd.DataFrame({other.array}, {other.axis}=[...])."
            )
        columns = _known(names, columns)
        names = None
    elif own.single and not own.graded and classes is None and own.K == other.K:
        classes = sorted_names(names)
    elif own.K != other.K and (names is None or classes is None):
        raise _other_number(own, other)
    match names, classes:
        case None, None:
            return None, columns
        case None, _:
            if not sure:
                check_by_position(classes, other.who, own.who, own.array, own.axis, own.noun)
            return classes, columns
        case _, None:
            if not own.graded:
                check_by_position(names, own.who, other.who, other.array, other.axis, own.noun)
            return names, columns
    unseen = names[positions(names, classes) < 0]
    joins = own.single or (positions(classes, names) >= 0).all()
    if add and joins and len(unseen) and is_numeric(unseen) == is_numeric(classes):
        classes = sorted_names([*classes.tolist(), *unseen.tolist()])
    if not own.single:
        columns_by_name(names, classes, own.who, other.who, own.noun)
    return classes, _known(names, classes)


def _known(names: NDArray, classes: NDArray) -> Indices:
    """Where names stand among classes that hold all of them."""
    columns = positions(names, classes)
    if (columns < 0).any():
        # words first, which may be no class at all
        unseen = sorted(names[columns < 0].tolist(), key=lambda name: str(name).isdigit())
        hint = "(1-D integers are column numbers where no class name is a number.)"
        if set(map(str, unseen)) & set(map(str, classes.tolist())):
            hint = "Text is no number: make both sides text, .astype(str), or both numbers."
        elif isinstance(unseen[0], str):
            hint = "Leave these samples out, or name all classes, classes=[...]."
            if likely := get_close_matches(unseen[0], map(str, classes.tolist()), 1):
                hint = f"Correct the labels, .replace({{{unseen[0]!r}: {likely[0]!r}}}) of pandas."
        raise ValueError(
            f"y has classes that are not known: {unseen[:5]}; known are {classes.tolist()[:20]}. "
            f"{hint}"
        )
    return columns


def _other_number(own: Side, other: Side) -> ValueError:
    """Two sides of which one is bare have other numbers of classes."""
    if own.single:
        return ValueError(
            f"{own.who} has the {own.K} distinct labels {own.names.tolist()[:20]} but {other.who} "
            f"{other.K} columns; name the columns, pd.DataFrame({other.array}, "
            f"{other.axis}=[...]), pass counts, or give Annotations classes=[...]."
        )
    listed = "" if other.names is None else f": {other.names.tolist()[:20]}"
    return ValueError(
        f"{own.who} has {own.K} {own.noun}, but {other.who} has {other.K} columns{listed}."
    )


def row_names(frame) -> NDArray | None:
    """The index of a pandas object, shape (n,); None where it is not unique or only counts."""
    if not hasattr(frame, "iloc") or _counts_up(frame.index) or not frame.index.is_unique:
        return None
    return typed(list(frame.index))


def check_row_names(**named) -> None:
    """ValueError where two pandas objects hold the same samples in another order, or share some.

    Indices are compared only where they are unique; one that only counts fits any other set. The
    items of annotations are an index where they do more than count.
    """
    given = [(name, _row_index(a)) for name, a in named.items()]
    unique = [(name, index) for name, index in given if index is not None and index.is_unique]
    for (other_name, other), (name, index) in combinations(unique, 2):
        if index.equals(other) or not (shared := index.isin(other)).any():
            continue
        if shared.all() and len(index) == len(other):
            problem = "the same samples in another order"
        elif _counts_up(index) or _counts_up(other):
            continue
        else:
            problem = f"only {int(shared.sum())} of {len(index)} samples in common"
        order = f"{other_name}.{'index' if hasattr(named[other_name], 'iloc') else 'items'}"
        raise ValueError(
            f"{name} and {other_name} are pandas objects with {problem}: bring them into one order "
            f"by {name}.loc[{order}], or drop the row names by "
            ".reset_index(drop=True). (Annotations take the order of samples by items=.)"
        )


def check_apart(**named) -> None:
    """ValueError where two pandas objects have samples in common, by an index that is no count."""
    (name, index), (other_name, other) = ((name, _row_index(a)) for name, a in named.items())
    if index is None or other is None or _counts_up(index) or _counts_up(other):
        return
    if shared := int(other.isin(index).sum()):
        raise ValueError(
            f"{shared} samples of {name} are in {other_name} too: leave them out, "
            f"{other_name}.drop({name}.index)."
        )


def _row_index(a):
    """The pandas index of an object, or of the items of annotations; None where it has none."""
    if hasattr(a, "iloc"):
        return a.index
    items = getattr(a, "items", None)
    if not isinstance(items, np.ndarray) or np.array_equal(items, np.arange(len(items))):
        return None
    # without pandas there is nothing to compare with
    pandas = sys.modules.get("pandas")
    return pandas and pandas.Index(items)
