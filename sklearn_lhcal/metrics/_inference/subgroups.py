"""Subgroups of samples: the values of columns, and of pairs of columns."""

from collections.abc import Mapping
from itertools import combinations, pairwise
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._utils.arrays import Indices
from ..._utils.checks import (
    any_array,
    as_floats,
    as_names,
    check_same_length,
    check_values,
    distinct,
    is_gap,
)
from ..._utils.names import column_names

# numbers with more distinct values are cut at their quartiles
_CATEGORIES = 10


# names of subgroups, and the number of that of each sample, shape (n,)
Levels = tuple[list[str], Indices]


def read_columns(subgroups: Any, n: int) -> dict[str, NDArray]:
    """The columns of a frame, a dict or an array by their names, each of shape (n,)."""
    check_values(subgroups, "subgroups")
    named = _named(subgroups)
    if not named:
        raise ValueError("subgroups has no columns.")
    columns = {str(name): as_names(a, f"subgroups[{name!r}]") for name, a in named.items()}
    check_same_length(n, **{f"subgroups[{name!r}]": a for name, a in columns.items()})
    return columns


def _named(subgroups: Any) -> dict:
    """The columns by name, as they came."""
    if isinstance(subgroups, Mapping):
        return dict(subgroups)
    if hasattr(subgroups, "columns"):
        names = column_names(subgroups, "subgroups")
        values = [subgroups[column] for column in subgroups.columns]
        if names is not None:
            return dict(zip(names.tolist(), values, strict=True))
    else:
        array = any_array(subgroups, "subgroups")
        if array.ndim == 1:
            return {getattr(subgroups, "name", None) or "subgroup": subgroups}
        if array.ndim != 2:
            raise ValueError(f"subgroups must have one or two axes, got shape {array.shape}.")
        values = list(array.T)
    return {f"column {j}": column for j, column in enumerate(values)}


def subgroups_of(
    columns: dict[str, NDArray], max_depth: int, min_rows: int, groups: NDArray | None
) -> tuple[list[str], NDArray[np.bool_], dict[str, int]]:
    """Names and samples (G, n) of the subgroups, and the sizes of those that are too small.

    They are those of single columns, and of pairs of them for ``max_depth=2``. `groups` are those
    whose number is the size of a subgroup; None: that of its samples.
    """
    found = [_levels(name, values) for name, values in columns.items()]
    if max_depth > 1:
        found += [_pairs(*both) for both in combinations(found, 2)]
    names, members, left_out = [], [], {}
    for named, code in found:
        for j in np.unique(code):
            mask = code == j
            unit = np.flatnonzero(mask) if groups is None else np.unique(groups[mask])
            if len(unit) < min_rows:
                left_out[named[j]] = len(unit)
            else:
                names.append(named[j])
                members.append(mask)
    if not names:
        raise ValueError(
            f"All subgroups are below min_rows={min_rows}: "
            f"the largest of {len(left_out)} has {max(left_out.values())}."
        )
    return names, np.array(members), left_out


def _pairs(one: Levels, other: Levels) -> Levels:
    """Those who are in a subgroup of both columns."""
    names = [f"{a} & {b}" for a in one[0] for b in other[0]]
    return names, one[1] * len(other[0]) + other[1]


def _levels(name: str, values: NDArray) -> Levels:
    """The values of a column, or quarters of its numbers; missing values are one of their own."""
    gaps = np.array([is_gap(value) for value in values.tolist()], dtype=bool)
    found, own = distinct(values[~gaps], f"subgroups[{name!r}]")
    names = [f"{name}={value}" for value in found.tolist()]
    numbers = all(isinstance(x, Real) and not isinstance(x, bool) for x in found.tolist())
    if len(found) > _CATEGORIES and numbers:
        names, own = _quarters(name, values[~gaps])
    code = np.full(len(values), len(names))
    code[~gaps] = own
    if gaps.any():
        names = [*names, f"{name} missing"]
    if len(names) < 2:
        raise ValueError(f"subgroups[{name!r}] has one value only, {names[0]}; leave it out.")
    return names, code


def _quarters(name: str, values: NDArray) -> Levels:
    """Names of the quarters of numbers, and that of each; ties may leave fewer than four."""
    x = as_floats(values, f"subgroups[{name!r}]")
    cuts = np.quantile(x, [0.25, 0.5, 0.75], method="lower")
    # each quarter has a sample
    cuts = np.unique(np.minimum(cuts, x[x < x.max()].max()))
    shown = [f"{cut:.4g}" if abs(cut) < 1e4 else f"{cut:.0f}" for cut in cuts]
    between = [f"{low} < {name} ≤ {high}" for low, high in pairwise(shown)]
    names = [f"{name} ≤ {shown[0]}", *between, f"{name} > {shown[-1]}"]
    return names, np.searchsorted(cuts, x, side="left")
