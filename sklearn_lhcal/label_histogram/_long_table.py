"""Single annotations as long arrays: read from tables and matrices, coded, put in order of rows."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .._utils.checks import any_array, as_names, check_values, holds_text, is_gap
from .._utils.names import check_classes, column_names, numbers_of, positions, sorted_names, typed
from .._utils.types import Indices, NDArray
from ._labels import Labels, given_order, one_hot

# a day and a month, whichever comes first
_DAY_AND_MONTH = re.compile(r"(\d{1,2})[/.-](\d{1,2})[/.-]\d{2,4}\b")
# behind a time of day
_ZONE = re.compile(r"(:\d\d(?:\.\d+)?(?: ?[AaPp][Mm])?) ?(?:[A-Z]{1,4}T|UTC)\b")


class Long(NamedTuple):
    """One annotation an entry: item, rater, label, and what labels of an item are sorted by.

    `classes` are the categories of labels that have an order, `finding` what is a yes or no.
    """

    item: NDArray
    rater: NDArray
    label: NDArray
    order: NDArray | None = None
    finding: NDArray | None = None
    classes: list | None = None


def read_table(table: tuple, item, rater, label, order, finding=None) -> Long:
    """The columns of a frame by their names; or the arrays, as arguments or by keyword."""
    named = {"item": item, "rater": rater, "label": label, "order": order, "finding": finding}
    if len(table) == 3:
        named |= zip(("item", "rater", "label"), table, strict=True)
        table = ()
    named = named_by(table, named)
    classes = given_order(named["label"])
    categories = given_order(named["order"])
    if categories is not None:
        place = {name: i for i, name in enumerate(categories)}
        named["order"] = [place.get(name) for name in named["order"]]
    return Long(*as_columns(named, 3))._replace(classes=classes)


def named_by(table: tuple, named: dict[str, Any]) -> dict[str, Any]:
    """The columns of the one frame of a table that are named; what is named where there is none."""
    if len(table) > 1:
        raise ValueError(
            f"A long table is one frame, or the arrays {', '.join(named)}; got {len(table)} "
            "arguments."
        )
    return {name: _column(table[0], at, named) for name, at in named.items()} if table else named


def as_columns(named: dict[str, Any], n_needed: int) -> list[Any]:
    """Arrays of one length, of which the first ones are needed."""
    # in a list numbers stay what they are
    named = {
        name: np.fromiter(a, object) if isinstance(a, (list, tuple)) else a
        for name, a in named.items()
    }
    columns = [a if a is None else as_names(a, name) for name, a in named.items()]
    given = [a.shape for a in columns if a is not None]
    if any(a is None for a in columns[:n_needed]):
        raise ValueError(f"{', '.join([*named][:n_needed])} are all needed, got None.")
    if len(set(given)) > 1 or len(given[0]) != 1:
        raise ValueError(
            f"{', '.join(named)} must be 1-D arrays of one length, or names of columns of a frame, "
            f"which then comes first; got the shapes {given}."
        )
    return columns


def sortable(order: NDArray) -> NDArray:
    """What labels are sorted by: numbers in text as numbers, and times in text by their places."""
    if not holds_text(order):
        return order
    cells = [str(cell).strip() for cell in order.tolist()]
    numbers = numbers_of(np.array(cells, dtype=object))
    return _times(cells) if numbers is None else numbers


def _times(cells: list[str]) -> Indices:
    """The places of times among the sorted times; ValueError where they have no one order."""
    import pandas

    text = [_ZONE.sub(r"\1", cell) for cell in cells]
    dates = [date for cell in text if (date := _DAY_AND_MONTH.match(cell))]
    # the place of the month holds at most 12; of other dates the year comes first
    ways = [d for d in (False, True) if all(int(date[1 + d]) <= 12 for date in dates)]
    ways = ways if dates else [False]
    try:
        read = [pandas.to_datetime(text, format="mixed", utc=True, dayfirst=d) for d in ways]
    except (ValueError, TypeError):
        read = []
    # in the year 1 are words such as "may"
    known = [times for times in read if not times.hasnans and times.year.min() > 1]
    orders = {tuple(times.factorize(sort=True)[0]) for times in known}
    if len(orders) != 1:
        raise ValueError(
            "order must hold a number, or a time that can be read in one way only, such as "
            f"2024-05-31 13:05, for each label, or be an ordered Categorical; got {cells[:3]}."
        )
    return np.array(orders.pop())


def _column(table, name, named: dict) -> NDArray | None:
    """A column of a frame; None where there is no name. `named` are all that are asked for."""
    if name is None:
        return None
    if not hasattr(table, "columns") and not isinstance(table, Mapping):
        raise TypeError(
            "A long table is a frame or a dict of arrays, got "
            f"{type(table).__name__}; without one, pass {'=, '.join([*named][:3])}= alone."
        )
    columns = list(getattr(table, "columns", table))
    if not isinstance(name, str) and np.ndim(name) == 1:
        return name
    if name not in columns:
        raise ValueError(
            f"The long table has no column {name!r}, it has {columns[:20]}; name its columns by "
            f"{'=, '.join(named)}=."
        )
    return table[name]


def read_matrix(matrix) -> tuple[Long, NDArray]:
    """The entries of a matrix (n_items, n_raters), gaps among them, and the items of its samples.

    Items and raters are numbers here, those of rows and columns.
    """
    check_values(matrix, "matrix")
    if hasattr(matrix, "dtype"):
        matrix = any_array(matrix, "matrix")
    values = np.asarray(matrix, dtype=object)
    if values.ndim != 2:
        raise ValueError(
            f"matrix must have shape (n_items, n_raters), rows of one length, got {values.shape}."
        )
    n, R = values.shape
    frame = hasattr(matrix, "iloc")
    if hasattr(matrix, "columns"):
        _check_raters(as_names(values.ravel(), "matrix").reshape(n, R), list(matrix.columns))
    items = np.asarray(matrix.index) if frame else np.arange(n)
    orders = [given_order(matrix.iloc[:, r]) for r in range(R)] if frame else [None]
    if any(order != orders[0] for order in orders):
        raise ValueError(
            "The columns of matrix have categories in different orders; make them one ordered "
            "Categorical, or give classes=[...]."
        )
    entries = np.repeat(np.arange(n), R), np.tile(np.arange(R), n), values.ravel()
    return Long(*entries)._replace(classes=orders[0]), items


def _check_raters(values: NDArray, columns: list) -> None:
    """ValueError for a column of ids, which is no rater.

    Its values are all different, those of others are not. Text occurs in no other column; or there
    are more than ten rows, and others have at most half as many different values as there are rows.
    """
    n = len(values)
    listed = values.T.tolist()
    for r, name in enumerate(columns):
        own = {value for value in listed[r] if not is_gap(value)}
        if len(own) < max(n, 3):
            continue
        given = [v for column in listed[:r] + listed[r + 1 :] for v in column if not is_gap(v)]
        others = set(given)
        text = holds_text(values[:, r]) and not own & others
        if len(others) < len(given) and (text or (n > 10 and 2 * len(others) <= n)):
            raise ValueError(
                f"The column {name!r} of matrix looks like ids: its values are all different. Make "
                f"it the index, frame.set_index({name!r}), or leave it out."
            )


def rater_names(matrix, raters) -> NDArray:
    """Names of the columns of a matrix: those given, else those of a frame, else 0, 1, 2, …."""
    R = np.shape(matrix)[1]
    own = column_names(matrix, "matrix") if raters is None else raters
    return check_classes(np.arange(R) if own is None else own, R, "raters")


def coded(values: NDArray, name: str) -> tuple[Indices, NDArray]:
    """The number of each value among the sorted distinct ones, −1 for gaps; and these."""
    if values.dtype.kind != "O":
        names, codes = np.unique(values, return_inverse=True)
        codes = codes.ravel()
        real = names == names
        codes[~real[codes]] = -1
        return codes, names[real]
    listed = values.tolist()
    try:
        distinct = set(listed)
        order = sorted(value for value in distinct if not is_gap(value))
    except TypeError:
        raise ValueError(
            f"{name}: this mixes {name}s of types that cannot be sorted together; make numbers "
            "strings, and lists rows, by label_table."
        ) from None
    place = {value: code for code, value in enumerate(order)}
    return np.array([place.get(value, -1) for value in listed], dtype=np.intp), typed(order)


def placed(row: Indices, found: NDArray, items: NDArray, what="items") -> tuple[Indices, NDArray]:
    """Samples, or findings, in the order of given ones."""
    if items.ndim != 1 or len(set(items.tolist())) < len(items):
        raise ValueError(f"{what} must be a 1-D array of different names, one for each of them.")
    place = positions(found, items)
    if (place < 0).any():
        hint = ""
        if typed(items.tolist()).dtype.kind != found.dtype.kind:
            hint = " Their types differ: make both strings, or both integers."
        raise ValueError(f"{what} lacks {found[place < 0].tolist()[:5]}, which have labels.{hint}")
    return place[row], items


def without_others(long: Long, others) -> tuple[Long, dict]:
    """Annotations with gaps for labels among `others`, and how often each of these was given."""
    if others is None:
        return long, {}
    names = as_names(others, "not_a_class").tolist()
    listed = as_names(long.label, "label").tolist()
    label = np.array([None if value in names else value for value in listed], dtype=object)
    classes = long.classes and [name for name in long.classes if name not in names]
    left_out = {name: listed.count(name) for name in names}
    return long._replace(label=label, classes=classes), left_out


def assembled(long: Long, items: NDArray, raters: NDArray, classes, on_duplicate: str) -> dict:
    """What `Annotations` are made of; items and raters of the table are numbers by now."""
    label, result = coded(long.label, "label")
    given = label >= 0
    if not given.any():
        raise ValueError("label holds no labels: all labels are missing.")
    when = None
    if long.order is not None:
        when, _ = coded(sortable(long.order[given]), "order")
        if (when < 0).any():
            raise ValueError("order has missing values; give each label one, or drop order.")
    said = Long(long.item[given], long.rater[given], label[given], when)
    order, indptr = arranged(said, items, raters, on_duplicate)
    # labels that were dropped have no class
    seen, label = np.unique(said.label[order], return_inverse=True)
    found = result[seen]
    # distinct labels are 1-D labels, and are checked and meet classes as such
    labels = Labels(*one_hot(found, graded=classes is not None), single=True)
    labels = labels.in_order(sorted_names(found) if classes is None else classes)
    return {
        "indptr": indptr,
        "rater": said.rater[order],
        "label": labels.majority[label],
        "raters": raters,
        "classes": labels.classes,
        "items": items,
        "ordered": when is not None,
    }


def arranged(
    said: Long, items: NDArray, raters: NDArray, on_duplicate: str
) -> tuple[Indices, Indices]:
    """The order of labels by sample, and where each sample begins in it.

    Within a sample they are in the order in which they were given, else by rater: the order of a
    table's rows makes no difference then.
    """
    row, rater, _, when = said[:4]
    # one number for a sample's rater sorts faster than two
    pair = row * len(raters) + rater
    order = np.argsort(pair, kind="stable") if when is None else np.lexsort((when, pair))
    again = np.diff(pair[order]) == 0
    if again.any() and on_duplicate == "raise":
        first = order[1:][again][0]
        who = raters.tolist()[rater[first]]
        what = items.tolist()[row[first]]
        raise ValueError(
            f"{again.sum()} labels are given twice (first: rater {who!r}, item {what!r}); keep "
            "one of them, the first or the last by on_duplicate=."
        )
    order = order[np.append(True, ~again) if on_duplicate == "first" else np.append(~again, True)]
    if when is not None:
        order = order[np.lexsort((when[order], row[order]))]
    sizes = np.bincount(row[order], minlength=len(items))
    return order, np.append(0, np.cumsum(sizes))
