"""The pages of the papers: what a row says is in the tables that the page shows."""

import re
from pathlib import Path

import pytest

PAPERS = Path(__file__).parents[2] / "doc" / "papers"
if not PAPERS.exists():
    pytest.skip("a distribution has no pages", allow_module_level=True)

DECIMAL = re.compile(r"(?<![\w.^−])−?\d*\.(\d+)(?!\d)")


def tables(text: str) -> str:
    names = re.findall(r"literalinclude:: (tables/\S+)", text)
    return "\n".join((PAPERS / name).read_text(encoding="utf-8") for name in names)


def rows(text: str) -> list[tuple[str, str]]:
    """(Here, program) of the rows of the page's list of claims."""
    found = []
    for row in re.split(r"\n   \* - ", text)[2:]:
        _, here, program = re.split(r"\n     - ", row.split("\n\n")[0])
        found.append((here, program))
    return found


@pytest.mark.parametrize("page", ["canonical_calibration", "decisions", "epistemic_uncertainty"])
def test_rows_are_what_the_tables_print(page):
    """To half a unit of the last digit that the row has."""
    text = (PAPERS / f"{page}.rst").read_text(encoding="utf-8")
    printed = {abs(float(x)) for x in re.findall(r"\d*\.\d+(?:e[+-]\d+)?", tables(text))}
    from_tables = [here for here, program in rows(text) if re.search("tables? below", program)]
    assert from_tables
    for here in from_tables:
        for number in DECIMAL.finditer(here):
            value = abs(float(number[0].replace("−", "-")))
            near = 0.51 * 10.0 ** -len(number[1])
            assert any(abs(value - x) <= near for x in printed), (number[0], here)
