"""The pages of the papers: what a row says is in the tables that the page shows."""

import csv
import inspect
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sklearn_lhcal import calibration, datasets, metrics, model_selection, neural_network

ROOT = Path(__file__).parents[2]
PAPERS = ROOT / "doc" / "papers"
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
        _, here, method, program = re.split(r"\n     - ", row.split("\n\n")[0])
        assert set(method.split(", ")) <= {"published", "ours"}, method
        found.append((here, program))
    return found


PAGES = ["canonical_calibration", "decisions", "epistemic_uncertainty", "label_histograms"]


@pytest.mark.parametrize("page", PAGES)
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


STUDIES = PAPERS.parents[1] / "benchmarks" / "papers" / "studies.mk"
RECIPE = re.compile(r"(\S+/plot_\w+\.py|benchmarks/papers/\w+\.py).* > \S+/(\w+)\.txt\.part")


def programs(folder) -> dict[str, str]:
    """The program of each table that `make studies` would make, by its name."""
    command = ["make", "-n", "-f", STUDIES, "BIN=bin", f"TABLES={folder}", "PREDICTIONS=a.npz"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {table: program for program, table in RECIPE.findall(done.stdout)}


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_studies_are_all_programs_of_the_pages(tmp_path):
    """What a page includes, what it cites that has a full size, and what stands beside them."""
    found = programs(tmp_path)
    assert all((ROOT / program).exists() for program in found.values())
    pages = "\n".join(path.read_text(encoding="utf-8") for path in sorted(PAPERS.glob("*.rst")))
    assert set(re.findall(r"tables/(\w+)\.txt", pages)) <= set(found)
    cited = {f"examples/{name}.py" for name in re.findall(r"/auto_examples/(\w+)", pages)}
    full = {path for path in cited if '"FULL"' in (ROOT / path).read_text(encoding="utf-8")}
    beside = {f"benchmarks/papers/{path.name}" for path in STUDIES.parent.glob("*.py")}
    assert full | beside <= set(found.values())


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_a_table_that_exists_is_not_made_again(tmp_path):
    (tmp_path / "lesions.txt").touch()
    assert set(programs(tmp_path / "empty")) - set(programs(tmp_path)) == {"lesions"}


PAGE_OF = dict(zip(("P2", "P4", "P3", "P1"), PAGES, strict=True))


HOMES = (calibration, datasets, metrics, model_selection, neural_network)
# what data, models and seeds are, and what no paper has: how samples depend on each other, and
# distances of classes
OURS = {"X", "y", "prediction", "gain", "uncertainty", "cost_matrix", "estimator", "estimators"}
OURS |= {"splitter", "cv", "random_state", "verbose", "device", "sample_weight", "groups"}
OURS |= {"distance", "ensemble"}


def named(name: str):
    """The class or function of that name."""
    (thing,) = {getattr(home, name) for home in HOMES if hasattr(home, name)}
    return thing


def choices() -> list[tuple[str, ...]]:
    """(Paper, class or function, parameter, default, published) of the table of choices."""
    with open(PAPERS / "choices.csv", encoding="utf-8", newline="") as table:
        return [tuple(cell.strip("`") for cell in row) for row in csv.reader(table)][1:]


@pytest.mark.parametrize("choice", choices(), ids=lambda choice: " ".join(choice[1:3]))
def test_defaults_are_those_of_the_table_of_choices(choice):
    """And the paper's page names what it sets otherwise among its deviations."""
    paper, name, parameter, default, published = choice
    found = inspect.signature(named(name)).parameters[parameter].default
    assert repr(found) == default.replace('"', "'")
    text = (PAPERS / f"{PAGE_OF[paper]}.rst").read_text(encoding="utf-8")
    deviations = text[text.index("\nDeviations\n") : text.index("\nNot run here\n")]
    if default != published:
        assert re.search(rf"\b{parameter.removeprefix('n_')}\b", deviations, re.IGNORECASE)


@pytest.mark.parametrize("name", sorted({choice[1] for choice in choices()}))
def test_the_table_of_choices_has_all_parameters(name):
    """Each parameter of a class or function of a paper has a row, once, beside data and seeds."""
    rows = [choice[2] for choice in choices() if choice[1] == name]
    parameters = set(inspect.signature(named(name)).parameters)
    given = {"splitter", "uncertainty"} if name == "EpistemicCalibration" else set()
    assert sorted(rows) == sorted(parameters - (OURS - given))


DEVIATIONS = {
    "P1": "log-probabilities; clipped at 1e-12; product; Adam; residual; Uniform mixing",
    "P2": "all samples; 20,000; ties; 1e-12; stray y; list",
    "P3": "Bins; test samples; quadrature; Transform; 1/T",
    "P4": "log-probabilities; 1e-12; hat-shaped; default decision; λ; Folds; Safeguard",
}


@pytest.mark.parametrize("paper", DEVIATIONS)
def test_deviations_that_no_parameter_shows_are_listed(paper):
    """What a reading of the papers' algorithms beside the code found."""
    text = (PAPERS / f"{PAGE_OF[paper]}.rst").read_text(encoding="utf-8")
    deviations = text[text.index("\nDeviations\n") : text.index("\nNot run here\n")]
    said = " ".join(deviations.split())
    missing = [words for words in DEVIATIONS[paper].split("; ") if words not in said]
    assert not missing
