"""Any file of labels as a long table: one row is what one rater said of one item.

Columns, or paths into records, say where items, raters and labels stand. A path is made of names
and steps: ``a.b`` goes down, ``[]`` into the entries of a list, ``[,]`` into the parts of a text,
``{key}`` and ``{}`` into the keys and values of a dict. Paths that pass the same list take its
entries together; lists side by side must have one length.
"""

import ast
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .._utils.checks import checked, is_gap, plainly, warn
from .._utils.files import read_source
from .._utils.results import DataFrame
from ._long_table import sortable

# One or several names of columns, or paths.
Where = str | Sequence[str] | None
_STEP = re.compile(r"\[([^\]]*)\]|\{(key)?\}")
_CONDITION = re.compile(r"(.+?)(!=|=)(.*)", re.S)
# "1 - mild", "1 (not at all)"
_GRADE = re.compile(r"(-?\d+(?:[.,]\d+)?)(?: *[-–:=] +(\S.*)| *\((.*)\))")
_DECIMAL_COMMA = re.compile(r"-?\d+(,\d+)?")
_JOINED = " / "


@checked
def label_table(
    source: object,
    *,
    item: Where = None,
    rater: Where = None,
    label: Where = None,
    finding: Where = None,
    order: Where = None,
    weight: Where = None,
    items: Where = None,
    raters: Where = None,
    labels: Where = None,
    findings: Where = None,
    total: Where = None,
    where: Where = None,
    several: bool = False,
    none: Where = None,
    tidy: bool = False,
    classes: Where = None,
    on_duplicate: Literal["raise", "first", "last"] = "raise",
    sheet: str | None = None,
    also: Where = None,
) -> "DataFrame":
    """A long table of labels, from a file or a table of nearly any layout.

    Parameters
    ----------
    source : str, Path, frame, or parsed JSON
        A file: .csv, .tsv, .txt, .xlsx, .xlsm, .parquet, .json, .jsonl, .manifest, packed as .gz
        too. A pattern such as ``"readings/*.csv"`` reads several, whose names without suffix are a
        column `file`.
    item : str, or sequence of str
        The column, or path, that names the item. Several name it together.
    rater, label : str, optional
        Who said what. Without a rater the table has no such column.
    finding : str, optional
        What the label is about, where it is a yes or no for each of several findings.
    order : str, optional
        When the label was given: numbers, or times, which are parsed.
    weight : str, optional
        How many labels a row stands for.
    items, raters, labels, findings : str with one ``*``, or sequence of names, optional
        A wide table: columns that are an item, a rater, a class or a finding each, by patterns or
        by their names; what ``*`` stands for is the name. Their cells hold labels; those of classes
        hold how many labels, or ones and zeros.
    total : str, optional
        The column that shares of classes are multiplied by.
    where : str, or sequence of str, optional
        Rows to keep: ``"status=Approved"``, ``"status!=Rejected"``, ``"gold="``.
    several : bool, default=False
        Whether a rater names any number of findings of an item. The table then has a row for each
        item, rater and finding, whose label is 1 or 0.
    none : str, or sequence of str, optional
        With `several`: labels that say that there is no finding.
    tidy : bool, default=False
        Whether labels and raters that differ only in case and blanks are one, the most frequent
        spelling; and the labels "1 - mild", "1 (mild)" and "1" are 1. Each merger is a warning.
    classes : str, or sequence of str, optional
        With `tidy`: how labels shall be spelt. Of "1 - mild" it may hold the number or the word.
        Labels that are none of them stay, and ``Annotations.from_long(classes=)`` names them;
        ``table.replace({"label": {"modrate": "moderate"}})`` corrects them.
    on_duplicate : {"raise", "first", "last"}, default="raise"
        What counts where a rater labels an item twice, by `order`, else as in the file.
    sheet : str, optional
        Of a workbook; None: the first. "*": all with the columns of the first, whose names are a
        column `sheet`.
    also : str, or sequence of str, optional
        Further columns to keep, under their own names: the patient, the site.

    Returns
    -------
    DataFrame
        Columns `item`, `rater`, `label`, and `finding` and `order` where asked for; `Annotations`
        and `MultiLabelCounts` read it. Rows without a label are left out; ``attrs["n_blank"]``
        counts them. Labels and orders that are all numbers are numbers. Items and raters of a file
        are text, since 001 is not 1: ``table.astype({"item": int})``.

    Raises
    ------
    ValueError
        Names that the source lacks, an item without a name, labels given twice, an order that is
        neither numbers nor times.
    OSError
        A file that is not there.
    ImportError
        Without pandas, which the extra `report` brings.

    Warns
    -----
    UserWarning
        Labels that differ only in words behind a number; what `tidy` made one; raters who share no
        item. Of spellings that differ in case and blanks `Annotations` warn.

    Examples
    --------
    >>> import pandas as pd
    >>> wide = pd.DataFrame({"case": [1, 2], "Dr. A": ["cyst", "none"], "Dr. B": ["cyst", None]})
    >>> label_table(wide, item="case", raters="Dr. *")
       item rater label
    0     1     A  cyst
    1     2     A  none
    2     1     B  cyst
    >>> records = [{"id": "q1", "votes": {"Ann": "yes", "Bob": "no"}}]
    >>> label_table(records, item="id", rater="votes{key}", label="votes{}").values.tolist()
    [['q1', 'Ann', 'yes'], ['q1', 'Bob', 'no']]
    """
    roles: dict[str, Any] = {"rater": rater, "label": label, "finding": finding}
    roles |= {"order": order, "weight": weight, "total": total}
    roles = {f"item{i}": name for i, name in enumerate(_names(item))} | roles
    kept = [_condition(words) for words in _names(where)]
    others = _names(also)
    roles |= {f"also{i}": name for i, name in enumerate(others)}
    roles |= {f"where{i}": name for i, (name, _, _) in enumerate(kept)}
    roles = {role: name for role, name in roles.items() if name is not None}
    wide = {"item": items, "rater": raters, "label": labels, "finding": findings}
    wide = {role: pattern for role, pattern in wide.items() if pattern is not None}
    if not (item or items) or not (label or wide) or len(wide) > 1:
        raise ValueError(
            "Name the items and the labels: item= and label=, or one of items=, raters=, labels= "
            "and findings= for a table with columns of these."
        )
    table = _columns(_read(source, sheet), roles, wide)
    for i, (_, same, value) in enumerate(kept):
        table = table[table.pop(f"where{i}").map(lambda cell, v=value: _equal(cell, v)) == same]
    named = [name for name in table if name.startswith("item") and name != "item"]
    if named:
        table = _joined(table, named)
    table = _weighted(table)
    if "label" not in table or table["label"].isna().all():
        raise ValueError("No label is left: all are blank, or left out by where=.")
    table["label"] = _numbers(table["label"])
    for column in {"item", "rater", "finding"} & set(table):
        table[column] = _ids(table[column])
    table = _tidied(table, tidy, _names(classes))
    if several:
        table = _findings_of(table, _names(none))
    n_blank = int(table["label"].isna().sum())
    table = table[table["label"].notna()]
    lost = table["item"].isna()
    if lost.any():
        raise ValueError(f"{lost.sum()} labels have no item, the first in row {lost.idxmax()}.")
    if "rater" in table:
        table = _without_repeats(table, on_duplicate)
    table = table.rename(columns={f"also{i}": name for i, name in enumerate(others)})
    columns = ["item", "rater", "finding", "label", "order", *others]
    made = table[[name for name in columns if name in table]].reset_index(drop=True)
    made.attrs["n_blank"] = n_blank
    return made


def _names(given: Where) -> list[str]:
    if given is None:
        return []
    return [given] if isinstance(given, str) else list(given)


def _condition(words: str) -> tuple[str, bool, str]:
    """A name, whether it shall be equal, and to what."""
    parts = _CONDITION.fullmatch(words)
    if parts is None:
        raise ValueError(f"where={words!r}: write NAME=VALUE or NAME!=VALUE.")
    return parts[1].strip(), parts[2] == "=", parts[3].strip()


def _equal(cell, value: str) -> bool:
    """Whether a cell is what was written; blank cells are the empty text, 1.0 is 1."""
    text = "" if is_gap(cell) else str(cell).strip()
    if text.casefold() == value.casefold():
        return True
    with suppress(ValueError):
        return float(text) == float(value)
    return False


# ------------------------------------------------------------------------------------------ reading


def _read(source, sheet: str | None):
    """A frame, or records."""
    import pandas as pd

    if isinstance(source, (list, dict)):
        return source
    if not isinstance(source, (str, Path)):
        return pd.DataFrame(source.to_pandas() if hasattr(source, "to_pandas") else source)
    read, notes = read_source(source, sheet)
    for note in notes:
        warn(note)
    return read


def _columns(source, roles: Mapping[str, str], wide: Mapping[str, Where]):
    """A frame with a column for each role; of a wide table those of the cells too."""
    import pandas as pd

    frame = source if isinstance(source, pd.DataFrame) else None
    if frame is not None and all(name in frame for name in roles.values()):
        # one column may have several roles
        table = pd.DataFrame({role: frame[name] for role, name in roles.items()})
        for role, pattern in wide.items():
            return _melted(frame, table, role, pattern, set(roles.values()))
        return table
    if wide:
        absent = [n for n in roles.values() if frame is None or n not in frame]
        has = "records" if frame is None else list(frame)[:20]
        raise ValueError(f"The source has no column {absent}, it has {has}.")
    records = source
    if frame is not None:
        records = frame.astype(object).where(frame.notna(), None).to_dict("records")
    if not isinstance(records, list):
        records = [records]
    rows = [row for record in records for row in _rows({r: (record, p) for r, p in roles.items()})]
    table = pd.DataFrame(rows, columns=list(roles))
    for role, name in roles.items():
        if table[role].isna().all() and not role.startswith("where"):
            keys = list(records[0])[:20] if records and isinstance(records[0], dict) else []
            raise ValueError(f"The source has no {name!r}; its names are {keys}.")
    return table


def _melted(frame, table, role: str, pattern: Where, used: set):
    """One row for each column of the pattern, which names the role."""
    import pandas as pd

    names: dict[Any, Any] = {}
    for one in _names(pattern):
        before, star, after = map(re.escape, str(one).partition("*"))
        wanted = f"{before}(.*){after}" if star else f"({before})"
        found = {name: re.fullmatch(wanted, str(name)) for name in frame}
        others = used | {"file", "sheet"} if star else set()
        like = {n: m[1] if star else n for n, m in found.items() if m and n not in others}
        if not like:
            raise ValueError(f"No column is like {one!r}; the columns are {list(frame)[:20]}.")
        names |= like
    cell = "weight" if role == "label" else "label"
    parts = [table.assign(**{role: name, cell: frame[column]}) for column, name in names.items()]
    return pd.concat(parts, ignore_index=True)


# -------------------------------------------------------------------------------------------- paths


def _rows(cursors: dict[str, tuple[Any, str]]) -> list[dict]:
    """The rows of one record: where each role stands, and the rest of its path."""
    cursors = {role: _down(*cursor) for role, cursor in cursors.items()}
    lists = {role: _entries(*cursor) for role, cursor in cursors.items() if cursor[1]}
    if not lists:
        return [{role: _plain(node) for role, (node, _) in cursors.items()}]
    lengths = {role: len(entries) for role, entries in lists.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"Lists side by side must have one length: {', '.join(lengths)} have "
            f"{list(lengths.values())} entries in one record."
        )
    closed = {role: cursor for role, cursor in cursors.items() if role not in lists}
    rows = []
    for entries in zip(*lists.values(), strict=True):
        rows += _rows(closed | dict(zip(lists, entries, strict=True)))
    return rows


def _down(node, path: str) -> tuple[Any, str]:
    """Down to the next list or dict whose entries are asked for; None where a name is missing."""
    while path:
        if _STEP.match(path):
            return node, path
        path = path.removeprefix(".")
        node = _opened(node)
        ends = {len(path), *(m.start() for m in re.finditer(r"[.\[{]", path))}
        known = node if isinstance(node, Mapping) else {}
        key = next((path[:end] for end in sorted(ends, reverse=True) if path[:end] in known), "")
        if not key:
            # its entries are none
            step = _STEP.search(path)
            return None, path[step.start() :] if step else ""
        node = node[key]
        path = path[len(key) :]
    return node, ""


def _entries(node, path: str) -> list[tuple[Any, str]]:
    """The entries of a list, a text or a dict, each with the rest of the path; None for none."""
    step: Any = _STEP.match(path)
    rest = path[step.end() :]
    separator = step[1]
    node = node if separator else _opened(node)
    if separator and isinstance(node, str):
        found: Iterable = [part.strip() for part in node.split(separator) if part.strip()]
    elif step[0].startswith("["):
        found = node if isinstance(node, (list, tuple, np.ndarray)) else []
    else:
        entries = node.items() if isinstance(node, Mapping) else []
        found = [key if step[2] else value for key, value in entries]
    return [(entry, rest) for entry in found] or [(None, "")]


def _opened(node: Any) -> Any:
    """JSON, or a list as Python prints it, in a text."""
    if not isinstance(node, str) or node.strip()[:1] not in ("[", "{"):
        return node
    with suppress(ValueError):
        return json.loads(node)
    with suppress(ValueError, SyntaxError):
        return ast.literal_eval(node)
    return node


def _plain(node: Any) -> Any:
    """One value; of a person or a thing as a dict its id."""
    if isinstance(node, Mapping):
        node = next((node[key] for key in ("id", "value", "name") if key in node), None)
    if isinstance(node, (list, tuple, np.ndarray)):
        node = node[0] if len(node) == 1 else (None if len(node) == 0 else str(list(node)))
    return str(node).lower() if isinstance(node, bool) else node


# ------------------------------------------------------------------------------------------ columns


def _joined(table, names: list[str]):
    """The columns of an item as one."""
    if len(names) == 1:
        return table.rename(columns={names[0]: "item"})
    parts = table[names].apply(_ids)
    item = parts.astype(str).agg(_JOINED.join, axis=1).where(parts.notna().all(axis=1))
    return table.drop(columns=names).assign(item=item)


def _weighted(table) -> Any:
    """As many rows as there are labels."""
    import pandas as pd

    if "weight" not in table:
        return table
    weight = pd.to_numeric(table.pop("weight"), errors="coerce").fillna(0.0)
    if "total" in table:
        weight = weight * pd.to_numeric(table.pop("total"), errors="coerce").fillna(0.0)
    n = weight.round()
    # shares of a total are rounded in files
    wrong = ((weight - n).abs() > 0.02 * np.maximum(weight.abs(), 1)) | (n < 0)
    if wrong.any():
        row = wrong.idxmax()
        raise ValueError(
            f"Numbers of labels must be whole, row {row} has {weight[row]:g}; of shares name the "
            "column of their total, total=."
        )
    return table.loc[table.index.repeat(n.astype(int))].reset_index(drop=True)


def _numbers(column) -> Any:
    """A column as numbers, where all of it are; whole ones as integers."""
    text = column.dropna().astype(str).str.strip()
    text = text[text != ""]
    if text.map(lambda t: bool(_DECIMAL_COMMA.fullmatch(t))).all():
        text = text.str.replace(",", ".")
    with suppress(ValueError):
        numbers = text.astype(float)
        if len(numbers) and np.isfinite(numbers).all():
            whole = (numbers == numbers.round()).all()
            numbers = numbers.astype("int64") if whole else numbers
            return numbers.astype(object).reindex(column.index)
    stripped = column.map(lambda cell: cell.strip() or None if isinstance(cell, str) else cell)
    return stripped.astype(object).where(stripped.notna(), None)


def _ids(column) -> Any:
    """Names: whole numbers that all were saved as floats are integers again; text is stripped."""
    text = column.dropna().astype(str).str.strip()
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iu":
        return column
    if len(text) and text.str.fullmatch(r"-?\d+\.0").all():
        text = text.str.removesuffix(".0")
        if column.dtype.kind == "f":
            text = text.astype("int64")
    elif column.map(lambda cell: isinstance(cell, (int, np.integer)) or is_gap(cell)).all():
        return column.astype(object)
    text = text.astype(object)
    return text.where(text != "").reindex(column.index)


def _spellings(cell, graded: bool) -> list[str]:
    """A name without further blanks; of a grade its number, then its words."""
    text = " ".join(str(cell).split())
    grade = _GRADE.fullmatch(text) if graded else None
    return [part for part in grade.groups() if part] if grade else [text]


def _tidied(table, tidy: bool, classes: list):
    """One spelling of each label and rater; or a warning that there are several."""
    known = {plainly(name): name for name in classes}
    for column in {"label", "rater"} & set(table):
        graded = column == "label"
        given = table[column].dropna().map(str)
        groups: dict[str, list] = {}
        for name in given.value_counts().index:
            groups.setdefault(plainly(_spellings(name, graded)[0]), []).append(name)
        # of those that differ in case and blanks alone Annotations warn
        alike = [names for names in groups.values() if len(set(map(plainly, names))) > 1]
        if alike and not tidy:
            warn(
                f"{column}: {'; '.join(', '.join(map(repr, names)) for names in alike[:10])} "
                "differ only in case, blanks or words behind a number; tidy=True makes them one."
            )
        if tidy:
            new: dict[str, str] = {}
            for names in groups.values():
                parts = [part for name in names for part in _spellings(name, graded)]
                wanted = {known[plainly(p)] for p in parts if graded and plainly(p) in known}
                if len(wanted) > 1:
                    raise ValueError(f"The labels {names[:10]} are {sorted(wanted)} at once.")
                new |= dict.fromkeys(names, wanted.pop() if wanted else parts[0])
            changed = [f"{old!r} → {name!r}" for old, name in new.items() if old != name]
            if changed:
                warn(f"{column}: {', '.join(changed[:20])}.")
                table = table.assign(**{column: _numbers(given.map(new).reindex(table.index))})
    return table


def _findings_of(table, none: list[str]):
    """A row for each item, rater and finding: whether the rater named it."""
    if "rater" not in table:
        raise ValueError("several=True needs rater=: who was asked is known by the raters alone.")
    asked = table[["item", "rater"]].drop_duplicates()
    said = table[table["label"].notna() & ~table["label"].astype(str).isin(none)]
    named = set(zip(said["item"], said["rater"], said["label"], strict=True))
    names = sorted(said["label"].unique(), key=str)
    pairs = asked.loc[asked.index.repeat(len(names))].assign(finding=names * len(asked))
    cells = zip(pairs["item"], pairs["rater"], pairs["finding"], strict=True)
    return pairs.assign(label=[int(cell in named) for cell in cells])


def _without_repeats(table, on_duplicate: str):
    """One label of each rater and item, and finding."""
    pair = [name for name in ("item", "rater", "finding") if name in table]
    if "order" in table:
        # in time, whatever the order of rows
        if table["order"].isna().any():
            raise ValueError("order has missing values; give each label one, or drop order.")
        when = np.argsort(sortable(table["order"].to_numpy(object)), kind="stable")
        table = table.iloc[when]
    if on_duplicate != "raise":
        return table[~table.duplicated(pair, keep=on_duplicate)].sort_index()
    again = table.duplicated(pair)
    if again.any():
        first = table.loc[again.idxmax(), pair].tolist()
        raise ValueError(
            f"{again.sum()} labels are given twice, the first by "
            f"{dict(zip(pair, first, strict=True))}. If rows "
            "differ in something else, keep some by where= or name the item by several columns; "
            "else on_duplicate='last' keeps the last."
        )
    n_labels = table.groupby("item")["rater"].size()
    if len(n_labels) > 1 and (n_labels == 1).all() and table["rater"].nunique() > 1:
        warn("No item has labels of two raters: does the column of items number rows instead?")
    return table
