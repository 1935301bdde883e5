"""What the validation pages promise stands in a table that a program wrote.

A comment block ``.. rows:`` of a section names, for each number that its sentences promise, the
rows and the column of a table; or says why there is none.
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "doc/project/validation.rst", ROOT / "doc/validation/index.rst"]
TABLES = [ROOT / "benchmarks/results/coverage", ROOT / "doc/validation/tables"]
# words of coverage, size and power
PROMISES = re.compile(
    r"\b(contain|contains|cover|covered|hold|holds|held|reject|rejects|level|power|finds|found|alarms?|missed|wrong)\b"
)
NUMBER = re.compile(r"(?<![\w.])(?:0\.\d+|1\.0+)(?![\w%])")
CLAIM = re.compile(r"([\d.]+): (?:no row, (.+)|(\S+\.csv); (.+))")
CONDITION = re.compile(r"(.+?) (~|>=|<=|=) (.+)")


def sections(page):
    """Name and text of each section."""
    parts = re.split(r"^(.+)\n[=-]{4,}\n", page.read_text(encoding="utf-8"), flags=re.M)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def claims(text):
    """(number, reason or None, table, conditions) of each line of the block of rows."""
    block = re.search(r"^\.\. rows:\n((?:   .+\n)+)", text, flags=re.M)
    lines = [] if block is None else block[1].splitlines()
    return [CLAIM.fullmatch(line.strip()).groups() for line in lines]


def sentences(text):
    """Sentences of the prose, without directives and comments."""
    prose = re.sub(r"^\.\. .*\n(?:\s*\n)?(?:   .*\n|\s*\n(?=   ))*", "", text, flags=re.M)
    return [" ".join(one.split()) for one in re.split(r"(?<=[.:;])\s+(?=[A-Z`*-])", prose)]


SECTIONS = [(page.name, *section) for page in PAGES for section in sections(page)]
ROWS = [(name, *claim) for _, name, text in SECTIONS for claim in claims(text) if claim[1] is None]


@pytest.mark.parametrize(("page", "name", "text"), SECTIONS, ids=[s[1] for s in SECTIONS])
def test_each_promise_names_its_rows(page, name, text):
    named = {claim[0] for claim in claims(text)}
    promised = {
        number
        for sentence in sentences(text)
        if PROMISES.search(sentence)
        for number in NUMBER.findall(sentence)
    }
    assert promised <= named, f"{page}, {name}: no rows of {sorted(promised - named)}"


@pytest.mark.parametrize(
    ("name", "number", "reason", "table", "conditions"),
    ROWS,
    ids=[f"{row[0]}-{i}-{row[1]}" for i, row in enumerate(ROWS)],
)
def test_the_rows_say_so(name, number, reason, table, conditions):
    path = next(folder / table for folder in TABLES if (folder / table).exists())
    rows = pd.read_csv(path, dtype=str)
    *which, (column, sign, value) = (
        CONDITION.fullmatch(condition).groups() for condition in conditions.split("; ")
    )
    for where, _, pattern in which:
        rows = rows[rows[where].fillna("").str.fullmatch(pattern)]
    assert len(rows)
    # a cell such as "0.94 (0.91)" begins with its number
    found = rows[column].str.extract(r"(\d*\.?\d+)")[0].astype(float)
    # as the page rounds, halves upwards
    unit = 10.0 ** -len(value.partition(".")[2])
    found = (np.floor(found / unit + 0.5 + 1e-9) * unit).round(9)
    held = {">=": found.min(), "<=": found.max()}.get(sign)
    if sign == "=":
        assert set(found) == {float(value)}
    else:
        assert held == float(value) or (held > float(value)) == (sign == ">=")
