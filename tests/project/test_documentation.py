"""README and guide: every snippet runs and prints what it says.

Public names are documented and in the reference.
"""

import csv
import importlib
import inspect
import io
import json
import re
import runpy
import shlex
import sys
import tomllib
from codeop import compile_command
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path
from pkgutil import iter_modules
from shutil import copytree

import numpy as np
import pytest

import sklearn_lhcal
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.metrics import get_scorer_names

ROOT = Path(__file__).parents[2]
DOC = ROOT / "doc"
BUILT = ("_build", "_templates", "api", "auto_examples")
PAGES = [
    ROOT / "README.md",
    *(p for p in sorted(DOC.rglob("*.rst")) if p.relative_to(DOC).parts[0] not in BUILT),
]
RST_BLOCK = re.compile(r"^( *)\.\. code-block:: (\w+)\n((?:[ ]*\n|\1 +.*\n)*)", re.M)
MD_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```\n", re.M | re.S)


def blocks(page):
    """(language, text, lines before it, whether it follows the block before it at once)."""
    text, end = page.read_text(encoding="utf-8") + "\n", 0
    for found in (MD_BLOCK if page.suffix == ".md" else RST_BLOCK).finditer(text):
        adjacent = not text[end : found.start()].strip()
        yield (
            found[2],
            inspect.cleandoc("\n" + found[3]),
            text[: found.start(3)].count("\n"),
            adjacent,
        )
        end = found.end()


def snippets(page):
    """(code, lines before it, what it says to print).

    The `text` block right after a `python` block is its output.
    """
    python = None
    for language, text, line, adjacent in blocks(page):
        if python is not None:
            yield *python, text if language == "text" and adjacent else ""
        python = (text, line) if language == "python" else None
    if python is not None:
        yield *python, ""


# relative; one unit of the last decimal too, since processors round differently
TOLERANCE = 0.01


def assert_prints(printed, said):
    """The same words, and the same numbers to within a hundredth or the last decimal.

    p-values of 200 draws, which rounding may draw otherwise, are within three standard errors.
    """
    number = re.compile(r"(?:p = )?-?\d+\.\d+")
    assert number.sub("#", printed).split() == number.sub("#", said).split(), (
        f"it prints:\n{printed}"
    )
    for got, shown in zip(number.findall(printed), number.findall(said), strict=True):
        unit = 1.001 * 10.0 ** -len(shown.partition(".")[2])
        x, expected = (float(one.removeprefix("p = ")) for one in (got, shown))
        slack = max(unit, TOLERANCE * abs(expected))
        if shown.startswith("p = "):
            slack = max(slack, 3 * np.sqrt(expected * (1 - expected) / 200))
        assert abs(x - expected) <= slack, f"it prints:\n{printed}"


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets_run_and_print_what_they_say(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # recipes and small files lie beside their page
    monkeypatch.syspath_prepend(page.parent)
    if (page.parent / "samples").exists():
        copytree(page.parent / "samples", tmp_path / "samples")
    data = make_label_histograms(1000, n_raters=3, overconfidence=2.0, random_state=0)
    np.save("proba.npy", data.prediction)
    np.save("counts.npy", data.counts)
    namespace = {"__name__": "__main__"}
    for code, line, said in snippets(page):
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile("\n" * line + code, str(page), "exec"), namespace)
        assert_prints(printed.getvalue(), said)


@pytest.mark.slow
def test_the_first_example_prints_one_table(tmp_path, monkeypatch):
    """α keeps the class probabilities and corrects the predicted disagreement."""
    example, printed = ROOT / "examples" / "plot_quickstart.py", io.StringIO()
    monkeypatch.chdir(tmp_path)
    with redirect_stdout(printed):
        runpy.run_path(str(example), run_name="__main__")
    rows = re.findall(r"^([a-z][a-zα+ ]*?) {2,}(\d.*)$", printed.getvalue(), re.M)
    of = {name: [float(x) for x in numbers.split()] for name, numbers in rows}
    log_loss, disagreement, after = 1, 4, 5  # columns
    stacked, alpha = of["stacked"], of["stacked + α"]
    assert alpha[:disagreement] == stacked[:disagreement]
    assert abs(alpha[disagreement]) < abs(stacked[disagreement])
    assert alpha[after] < stacked[after]
    assert stacked[log_loss] < of["uncalibrated"][log_loss]


@pytest.mark.slow
def test_the_commands_of_the_spreadsheet_page_run(tmp_path, monkeypatch, capsys):
    """On the sheets that its snippet writes; a text block below says what a command prints."""
    monkeypatch.chdir(tmp_path)
    page = DOC / "guide" / "spreadsheet.rst"
    (code, _, _) = next(snippets(page))
    exec(compile(code, str(page), "exec"), {})
    found = list(blocks(page))
    for (language, command, _, _), (_, said, _, adjacent) in pairwise([*found, ("", "", 0, False)]):
        if language == "bash":
            words = shlex.split(command.replace("\\\n", ""))
            assert words[:3] == ["python", "-m", "sklearn_lhcal"]
            monkeypatch.setattr(sys, "argv", words[2:])
            with pytest.raises(SystemExit) as left:
                runpy.run_module("sklearn_lhcal", run_name="__main__")
            assert left.value.code == 0
            printed = capsys.readouterr().out
            if adjacent:
                assert_prints(printed, said)
    assert (tmp_path / "out" / "report.html").exists()
    assert "5.5 [−0.4, 11.4]" in (tmp_path / "out" / "report.json").read_text("utf-8")


def test_snippets_can_be_pasted():
    """Plain code, and what it prints in a text block below."""
    assert [page.name for page in PAGES if ">>>" in page.read_text(encoding="utf-8")] == []


def test_the_quickstart_can_be_pasted_into_plain_python():
    """Its prompt takes line after line: a blank line ends a block, and nothing else does."""
    pasted = list(snippets(DOC / "quickstart.rst"))
    assert pasted
    for code, _, _ in pasted:
        typed = []
        for line in [*code.split("\n"), ""]:
            typed.append(line)
            typed = [] if compile_command("\n".join(typed)) else typed
        assert not typed


def test_the_table_of_speed_shows_what_was_measured():
    path = ROOT / "benchmarks" / "run.py"
    if not path.exists():
        pytest.skip("a distribution has no benchmarks")
    run = runpy.run_path(str(path))
    files = [json.loads(p.read_text("utf-8")) for p in sorted(run["RESULTS"].glob("*.json"))]
    with open(run["RESULTS"] / "table.csv", encoding="utf-8", newline="") as table:
        assert list(csv.reader(table)) == run["cells"](files)


FRONT = [ROOT / "README.md", DOC / "index.rst", DOC / "choose.rst", DOC / "faq.rst"]


@pytest.mark.parametrize("page", FRONT, ids=lambda page: page.name)
def test_numbers_in_front_are_printed_by_a_program(page):
    """Each decimal in the prose is in an output or a table that a test compares."""
    said = [text for page in PAGES for language, text, _, _ in blocks(page) if language == "text"]
    said += [table.read_text("utf-8") for table in (DOC / "papers" / "tables").glob("*.txt")]
    printed = {abs(float(x)) for x in re.findall(r"\d+\.\d{3,}", "\n".join(said))}
    block = MD_BLOCK if page.suffix == ".md" else RST_BLOCK
    for number in re.findall(r"\b0\.\d{3}\b", block.sub("", page.read_text("utf-8"))):
        assert any(abs(float(number) - x) <= 0.00051 for x in printed), number


def test_the_readme_names_the_repository():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    cloned = f"git clone {project['urls']['Repository']}\n"
    assert cloned in (ROOT / "README.md").read_text("utf-8")


def test_each_benchmark_is_cited_and_each_that_is_cited_is_there():
    folder = ROOT / "benchmarks"
    if not folder.exists():
        pytest.skip("a distribution has no benchmarks")
    pages = [ROOT / "README.md", ROOT / "Makefile", *DOC.rglob("*.rst")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    cited = set(re.findall(r"benchmarks/((?:papers/)?\w+\.py)", text))
    programs = [*folder.glob("*.py"), *folder.glob("papers/*.py")]
    assert cited == {program.relative_to(folder).as_posix() for program in programs}


def test_the_guide_has_snippets():
    with_code = {page.name for page in PAGES if list(snippets(page))}
    assert {"README.md", "quickstart.rst", "several_labels.rst", "scikit_learn.rst"} <= with_code


def public_modules():
    """The rooms of the package."""
    names = [
        module.name
        for module in iter_modules(sklearn_lhcal.__path__)
        if not module.name.startswith("_")
    ]
    return [importlib.import_module(f"sklearn_lhcal.{name}") for name in names]


PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in public_modules()
    for name in module.__all__
}
DOCUMENTED = {
    name: thing
    for name, thing in PUBLIC.items()
    if inspect.isclass(thing) or inspect.isfunction(thing)
}
CLASSES = {name: thing for name, thing in DOCUMENTED.items() if inspect.isclass(thing)}


def test_the_reference_lists_every_public_name():
    listed = []
    for module in public_modules():
        page = DOC / "reference" / f"{module.__name__.rpartition('.')[2]}.rst"
        names = re.findall(r"^   (\w+)$", page.read_text(encoding="utf-8"), re.M)
        listed += [f"{module.__name__}.{name}" for name in names]
    missing, gone = sorted(set(PUBLIC) - set(listed)), sorted(set(listed) - set(PUBLIC))
    assert not missing, f"add to doc/reference: {missing}"
    assert not gone, f"take from doc/reference: {gone}"
    assert len(listed) == len(set(listed))


def test_the_reference_lists_every_scorer_string():
    page = DOC / "reference" / "metrics.rst"
    table = set(re.findall(r"\* - ``(\w+)``", page.read_text(encoding="utf-8")))
    assert table == set(get_scorer_names())


def words(texts):
    return set(re.findall(r"\w+", "\n".join(texts)))


def prose(page):
    """The text of a page without the lists of names that stand in the reference."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"^   \w+$", "", text, flags=re.M) if page.parent.name == "reference" else text


def test_every_public_name_stands_in_a_sentence_or_a_table():
    """On a page of the guide, or in the reference outside of its lists."""
    lists = ("api.rst", "changelog.rst")
    spoken = words(prose(page) for page in PAGES[1:] if page.name not in lists)
    missing = sorted(name for name in PUBLIC if name.rpartition(".")[2] not in spoken)
    assert not missing, (
        f"say what it is for on a page of doc/, its page of reference/ say: {missing}"
    )


def returned_by(thing):
    """Names of what a function says that it returns."""
    if not inspect.isfunction(thing):
        return set()
    return words([str(inspect.signature(thing).return_annotation)])


def test_every_public_name_is_used_in_an_example():
    """In examples/, a snippet or a docstring; a result, by a function that returns it."""
    sources = [p.read_text(encoding="utf-8") for p in (ROOT / "examples").glob("*.py")]
    sources += [code + said for page in PAGES for code, _, said in snippets(page)]
    for thing in DOCUMENTED.values():
        for documented in [thing, *vars(thing).values()]:
            sources += re.findall(r"(?:>>>|\.\.\.).*", inspect.getdoc(documented) or "")
    used = words(sources)
    makers = {name.rpartition(".")[2]: returned_by(thing) for name, thing in DOCUMENTED.items()}
    made = set().union(*(names for maker, names in makers.items() if maker in used))
    missing = sorted(name for name in PUBLIC if name.rpartition(".")[2] not in used | made)
    assert not missing, f"show it in a docstring, a snippet or an example: {missing}"


def test_the_gallery_holds_every_example_in_one_section():
    page = (DOC / "gallery.rst").read_text(encoding="utf-8")
    listed = re.findall(r"^   \.\./examples/(\w+\.py)$", page, re.M)
    assert sorted(listed) == sorted(path.name for path in (ROOT / "examples").glob("plot_*.py"))


@pytest.mark.parametrize(
    "typed", ["ECE", "soft labels", "netcal", "crowd", "inter-rater", "temperature scaling"]
)
def test_the_search_finds_what_people_type(typed):
    """The search of the pages weighs keywords and index entries."""
    entries = r"^   :keywords: (.*)$|^\.\. index:: (.*)$"
    found = [
        page.name
        for page in PAGES[1:]
        for entry in re.findall(entries, page.read_text(encoding="utf-8"), re.M)
        if typed in " ".join(entry)
    ]
    assert found


def section(doc, title):
    """The text of a section of a docstring; None where it is missing."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w[\w ]*\n---|\Z)", doc, re.M | re.S)
    return found and found[1]


def parameters_of(thing):
    """Names of the parameters.

    None of named tuples, whose fields stand under Attributes, warnings and ``**kwargs``.
    """
    if inspect.isclass(thing) and issubclass(thing, (tuple, Warning)):
        return []
    constructor = (
        thing.__new__ if inspect.isclass(thing) and thing.__init__ is object.__init__ else thing
    )
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [
        p.name
        for p in inspect.signature(constructor).parameters.values()
        if p.kind in named and p.name != "cls"
    ]


def missing_in(thing):
    """What a docstring does not say."""
    doc = inspect.getdoc(thing) or ""
    if inspect.isclass(thing) and issubclass(thing, Warning):
        return [] if doc.count("`") >= 2 else ["what raises it, and what to do"]
    parameters = section(doc, "Parameters") or ""
    described = set(re.findall(r"\w+", " ".join(re.findall(r"^(\S.*?)(?: :|$)", parameters, re.M))))
    missing = [parameter for parameter in parameters_of(thing) if parameter not in described]
    if inspect.isfunction(thing) and inspect.signature(thing).return_annotation is not None:
        missing += [] if section(doc, "Returns") or section(doc, "Yields") else ["Returns"]
    if inspect.isclass(thing) and issubclass(thing, tuple):
        fields = section(doc, "Attributes") or ""
        missing += [field for field in thing._fields if not re.search(rf"\b{field}\b", fields)]
    elif ">>>" not in (section(doc, "Examples") or ""):
        missing.append("Examples")
    return missing


def test_docstrings_have_their_sections():
    wrong = {name: missing_in(thing) for name, thing in DOCUMENTED.items()}
    assert {name: missing for name, missing in wrong.items() if missing} == {}


def test_methods_are_documented():
    silent = [
        (name, method)
        for name, owner in CLASSES.items()
        for method, function in vars(owner).items()
        if inspect.isfunction(function) and not method.startswith("_")
        if not inspect.getdoc(getattr(owner, method))
    ]
    assert not silent


@pytest.mark.parametrize(
    "example", sorted((ROOT / "examples").glob("plot_*.py")), ids=lambda path: path.name
)
def test_examples_read_from_top_to_bottom(example):
    """Nothing runs at the end alone: blocks of prose and code take turns."""
    text = example.read_text(encoding="utf-8")
    assert "__main__" not in text
    assert text.count("\n# %%\n") >= 2


@pytest.mark.parametrize("inventory", sorted((DOC / "inventories").iterdir()), ids=lambda p: p.stem)
def test_names_of_other_libraries_exist_and_are_linked(inventory):
    # scikit-learn hides the names of halving searches before
    importlib.import_module("sklearn.experimental.enable_halving_search_cv")
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for line in inventory.read_text(encoding="utf-8").splitlines()[3:]:
        name, kind, _ = line.split()
        module, _, last = name.rpartition(".")
        found = getattr(pytest.importorskip(module), last)
        assert inspect.isclass(found) == (kind == "class")
        assert re.search(rf"`~?{re.escape(name)}`", text), f"no page links to {name}"
