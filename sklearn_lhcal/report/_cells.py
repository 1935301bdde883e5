"""What the tables of a report hold: numbers, named columns, probabilities, rows with labels."""

import difflib

import numpy as np

from .._utils.names import column_names
from ._files import Table

# How far from 1 the sums of probabilities may lie that were rounded in a file.
ROUNDED = 0.02


def check_named(table: Table, what: str, classes: list[str] | None) -> None:
    """ValueError where columns of more than two classes have no names, and none were given."""
    K = np.shape(table.values)[-1]
    if K > 2 and classes is None and column_names(table.values, "prediction") is None:
        raise ValueError(
            f"--{what} has {K} columns without names: say what they stand for, --classes a b c …, "
            "in their order."
        )


def with_classes(table: Table, classes: list[str] | None):
    """The values as a frame with these names, where it has none of its own."""
    if classes is None or column_names(table.values, "prediction") is not None:
        return table.values
    import pandas as pd

    values = np.asarray(table.values)
    if values.shape[-1] != len(classes):
        raise ValueError(
            f"--classes names {len(classes)} classes, but a file has {values.shape[-1]} columns."
        )
    return pd.DataFrame(values, columns=classes)


def check_numbers(table: Table, what: str) -> None:
    """ValueError that says which cell holds no number."""
    frame = _frame(table)
    for name in frame.columns:
        if not np.issubdtype(np.asarray(frame[name]).dtype, np.number):
            raise ValueError(
                f"--{what}: column {name!r} holds text, not numbers. If it names the rows, say so: "
                f"--id {name}; else drop it."
            )
        absent = ~np.isfinite(frame[name].to_numpy(float))
        if absent.any():
            place = f"column {name!r} of {_row(table, absent.argmax())}"
            raise ValueError(f"--{what}: {place} has no number; complete or drop the row.")


def one_column(table: Table, classes: list[str] | None) -> Table:
    """A single column is the probability of the second class: the table with both."""
    values = np.asarray(table.values)
    if values.ndim == 2 and values.shape[1] > 1:
        return table
    if classes is None or len(classes) != 2:
        raise ValueError(
            "--proba has one column: name the two classes, --classes a b; the column holds the "
            "probability of the second."
        )
    p = values.reshape(-1)
    return table._replace(values=np.column_stack([1 - p, p]))


def probabilities(table: Table) -> tuple[Table, list[str]]:
    """Rows that were rounded in the file sum to 1 again; and what is to be said of it."""
    sums = np.asarray(table.values).sum(axis=1)
    off = np.abs(sums - 1)
    if (np.asarray(table.values) < 0).any() or off.max(initial=0) > ROUNDED + 1e-9:
        row = off.argmax()
        raise ValueError(
            f"--proba holds no probabilities: {_row(table, row)} sums to {sums[row]:.6g}, or "
            "numbers are negative. Of logits take the softmax first; divide per cent by 100."
        )
    if off.max(initial=0) <= 1e-6:
        return table, []
    note = f"Rows of --proba sum to 1 only within {off.max():.1g}; each was divided by its sum."
    return table._replace(values=_frame(table).div(sums, axis=0)), [note]


def labels_of(table: Table, classes: list[str] | None):
    """Named counts; a single column holds one label a row."""
    if np.shape(table.values)[-1] == 1:
        return np.asarray(table.values)[:, 0]
    check_numbers(table, "counts")
    counts = np.asarray(table.values)
    wrong = (counts < 0) | (counts != np.floor(counts))
    if wrong.any():
        row = wrong.any(axis=1).argmax()
        raise ValueError(
            f"--counts: {_row(table, row)} holds {counts[row][wrong[row]][0]:.6g}. Counts say how "
            "many raters chose each class; of shares of votes, multiply by the number of raters."
        )
    return with_classes(table, classes)


def check_known(votes: dict, what: str, classes: list) -> None:
    """ValueError that counts the labels of unknown classes, and names the nearest that is known."""
    told = []
    for name in [name for name in votes if name not in classes][:20]:
        near = difflib.get_close_matches(str(name), map(str, classes), n=1)
        told.append(f"{name!r} ({votes[name]} labels{''.join(f'; {a!r}?' for a in near)})")
    if told:
        said = ", ".join(told)
        raise ValueError(f"--{what} has unknown classes: {said}. --proba has {classes[:20]}.")


def with_unchosen(counts, prediction) -> tuple:
    """Counts with zeros for the classes that only the prediction names; and what is to be said."""
    own = column_names(counts, "counts")
    classes = column_names(prediction, "prediction")
    if own is None or classes is None:
        return counts, []
    check_known(counts.sum().to_dict(), "counts", classes.tolist())
    absent = [name for name in classes.tolist() if name not in own]
    if not absent:
        return counts, []
    note = f"--counts has no column for {absent[:20]}: taken for classes that nobody chose."
    return counts.reindex(columns=[*own.tolist(), *absent], fill_value=0), [note]


def with_labels(tables: dict[str, Table], ids) -> tuple:
    """Rows of counts without any label are left out of all tables; and how many they were."""
    counts = np.asarray(tables["counts"].values)
    n = {len(table.values) for table in tables.values()}
    if len(n) > 1 or counts.ndim != 2 or counts.shape[1] == 1:
        return tables, ids, 0
    rated = np.flatnonzero(counts.any(axis=1))
    if len(rated) == len(counts):
        return tables, ids, 0
    kept = {}
    for what, table in tables.items():
        names = None if table.ids is None else table.ids[rated]
        kept[what] = table._replace(values=_take(table.values, rated), ids=names)
    ids = None if ids is None else ids[rated]
    return kept, ids, len(counts) - len(rated)


def _take(values, rows):
    return values.iloc[rows].reset_index(drop=True) if hasattr(values, "iloc") else values[rows]


def _frame(table: Table):
    import pandas as pd

    return pd.DataFrame(table.values)


def _row(table: Table, i) -> str:
    """What messages call a row."""
    return f"row {int(i)}" if table.ids is None else f"row {table.ids[i]!r}"
