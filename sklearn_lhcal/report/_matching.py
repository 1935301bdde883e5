"""Cases of several tables, brought together by their ids."""

from collections.abc import Mapping, Sequence

from numpy.typing import NDArray

from ._files import Table


def ids_of(tables: Mapping[str, Table], whose: Sequence[str]) -> NDArray | None:
    """Names of the cases: those of the first of these tables that has some."""
    own = [tables[what].ids for what in whose if what in tables]
    return next((ids for ids in own if ids is not None), None)


def named(table: Table, what: str, ids: NDArray) -> Table:
    """The table with these ids where it has none: its rows are then in their order."""
    if table.ids is not None:
        return table
    if len(table.values) != len(ids):
        raise ValueError(
            f"--{what} has {len(table.values)} rows without ids, for {len(ids)} cases: add a "
            "column of ids; which, says --id."
        )
    return table._replace(ids=ids)


def places(own: NDArray, what: str, ids: NDArray) -> NDArray:
    """Places of own ids among `ids`, which must hold all of them."""
    import pandas as pd

    found = pd.Index(ids).get_indexer(own)
    strange = own[found < 0]
    if len(strange):
        raise ValueError(
            f"--{what} has {len(set(strange))} ids that --proba lacks, {_few(strange)}; it lacks "
            f"{_few(pd.Index(ids).difference(own))}."
            f"{_of_zeros(strange, ids)}"
        )
    return found


def rows_of(values, rows: NDArray):
    """Some rows of a frame or an array."""
    if hasattr(values, "iloc"):
        return values.iloc[rows].reset_index(drop=True)
    return values[rows]


def split(table: Table, names: list[str]) -> tuple[Table, Table]:
    """The table without the columns that say what a case is, and these."""
    own = [name for name in names if name in getattr(table.values, "columns", ())]
    if not own:
        return table, table._replace(values=None)
    rest = table.values.drop(columns=own)
    return table._replace(values=rest), table._replace(values=table.values[own])


def about_cases(name: str, sources: Mapping[str, Table], ids: NDArray, gap: str | None) -> NDArray:
    """What each case is by a column of the first table that has it, shape (n,).

    `gap` stands for what is not known; None: it is an error.
    """
    for what, source in sources.items():
        if name in getattr(source.values, "columns", ()):
            return _about_cases(name, what, source, ids, gap)
    raise ValueError(f"No file has a column {name!r} that says what a case is.")


def _about_cases(name: str, what: str, source: Table, ids: NDArray, gap: str | None):
    import pandas as pd

    pairs = pd.DataFrame({"id": source.ids, "value": source.values[name].to_numpy()})
    pairs = pairs.dropna().drop_duplicates()
    twice = pairs["id"].duplicated()
    if twice.any():
        case = pairs["id"][twice].iloc[0]
        raise ValueError(f"--{what}: case {case!r} has several values of {name!r}.")
    values = pairs.set_index("id")["value"].reindex(ids)
    absent = values.isna().to_numpy()
    if absent.any() and gap is None:
        raise ValueError(
            f"--{what} has no {name!r} of {absent.sum()} cases: {_few(ids[absent])}."
            f"{_of_zeros(ids[absent], source.ids)}"
        )
    return values.astype(object).where(~absent, gap).to_numpy()


def _few(ids) -> list:
    return sorted(set(ids.tolist()), key=str)[:5]


def _of_zeros(some: NDArray, others: NDArray) -> str:
    """A hint where ids differ in leading zeros only."""
    bare = {str(name).lstrip("0") for name in others.tolist()}
    if any(str(name).lstrip("0") in bare for name in some.tolist()):
        return " Leading zeros differ: spreadsheets drop them where cells are no text."
    return ""
