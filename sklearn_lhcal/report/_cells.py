"""What the tables of a report hold: numbers, named columns, probabilities, labels."""

import difflib
from collections.abc import Mapping

import numpy as np

from .._utils.names import column_names
from ._files import Table
from ._study import Step

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
    frame = frame_of(table)
    for name in frame.columns:
        if not np.issubdtype(np.asarray(frame[name]).dtype, np.number):
            raise ValueError(
                f"--{what}: column {name!r} holds text, not numbers. If it names the cases, add "
                f"--id {name}; if it says what they are, --subgroups {name}; else drop it."
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
    return table._replace(values=frame_of(table).div(sums, axis=0)), [note]


def counts_of(table: Table, classes: list[str] | None):
    """Counts, checked and named."""
    check_named(table, "counts", classes)
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


def renamed(values, names: Mapping[str, str]):
    """A frame whose columns have other names; those that come to one name are added."""
    if not names or column_names(values, "file") is None:
        return values
    new = [names.get(name, name) for name in values.columns]
    values = values.set_axis(new, axis=1)
    merged = {name: values[[name]].sum(axis=1) for name in dict.fromkeys(new)}
    return type(values)(merged)


def without_answers(counts, others: list[str]) -> tuple:
    """Counts without the columns that are no classes, and how many votes they held."""
    own = [name for name in others if name in getattr(counts, "columns", ())]
    steps = [_no_answer(name, int(counts[name].sum())) for name in own]
    return (counts.drop(columns=own) if own else counts), steps


def answers(labels, names: Mapping[str, str], others: list[str]) -> tuple:
    """A column of labels under their new names, missing where they are no classes; and steps."""
    steps = []
    blank = int(labels.isna().sum())
    if blank:
        steps.append(Step("labels that are blank, left out", blank))
    labels = labels.replace(dict(names))
    for name in others:
        steps.append(_no_answer(name, int((labels == name).sum())))
    return labels.mask(labels.isin(others)), steps


def _no_answer(name: str, n: int) -> Step:
    return Step(f"labels {name!r}, which is no class, left out", n)


def check_known(votes: Mapping[str, int], what: str, classes: list | None) -> None:
    """ValueError that says how to mend the names of classes that the prediction does not know."""
    strange = {name: n for name, n in votes.items() if name not in (classes or votes)}
    if not strange or classes is None:
        return
    told = ", ".join(f"{name!r} ({n} labels)" for name, n in list(strange.items())[:20])
    alike = {str(name).lower(): str(name) for name in classes}
    remedies, others = [], []
    for name in map(str, strange):
        near = difflib.get_close_matches(name.lower(), alike, n=1, cutoff=0.5)
        if near:
            remedies.append(f"--map {_quoted(f'{name}={alike[near[0]]}')}")
        else:
            others.append(_quoted(name))
    if others:
        remedies += ["--not-a-class", *others]
    raise ValueError(
        f"The {what} have unknown classes: {told}; known are {classes[:20]}. If they are what "
        f"they look like, add: {' '.join(remedies)}"
    )


def _quoted(words: str) -> str:
    """Words as a command line takes them."""
    return f'"{words}"' if " " in words else words


def with_unchosen(counts, classes: list | None) -> tuple:
    """Counts with zeros for the classes that only the prediction names; and what is to be said."""
    own = column_names(counts, "counts")
    if own is None or classes is None:
        return counts, []
    absent = [name for name in classes if name not in own]
    if not absent:
        return counts, []
    note = f"--counts has no column for {absent[:20]}: taken for classes that nobody chose."
    return counts.reindex(columns=[*own.tolist(), *absent], fill_value=0), [note]


def one_class(labels, classes: list):
    """Labels as predictions: 1 for the class that is named, 0 for the others."""
    import pandas as pd

    named = np.asarray(labels, dtype=object)[:, None] == np.array(classes, dtype=object)
    return pd.DataFrame(named.astype(float), columns=classes)


def frame_of(table: Table):
    """The values as a frame."""
    import pandas as pd

    return pd.DataFrame(table.values)


def _row(table: Table, i) -> str:
    """What messages call a row."""
    return f"row {int(i)}" if table.ids is None else f"row {table.ids[i]!r}"
