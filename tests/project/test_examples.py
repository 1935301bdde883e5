"""Examples as they are downloaded: each runs alone, prints the numbers of its prose, can be read.

What a notebook runs is what the program runs.
"""

import ast
import json
import os
import platform
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import sklearn_lhcal

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
each = pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)

# inches; wider figures are shown smaller
COLUMN = 7.5

# runs the program whose path it is given, and says on stderr what its figures are like
RUN = """
import json, runpy, sys
runpy.run_path(sys.argv[1], run_name="__main__")
import matplotlib.pyplot as plt
from matplotlib.text import Text
figures = [plt.figure(number) for number in plt.get_fignums()]
shown = [
    [figure.get_figwidth(), min(t.get_fontsize() for t in figure.findobj(Text) if t.get_text())]
    for figure in figures
    if figure.canvas.draw() is None
]
json.dump(shown, sys.stderr)
"""


@cache
def run(example):
    """What it prints, and (width, size of the smallest text) of its figures.

    It runs in an empty folder, with the package on the path and no data that were downloaded.
    """
    with TemporaryDirectory() as folder:
        work, data = Path(folder, "work"), Path(folder, "data")
        work.mkdir()
        (work / example.name).write_bytes(example.read_bytes())
        settings = {
            "MPLBACKEND": "Agg",
            "PYTHONPATH": str(Path(sklearn_lhcal.__file__).parents[1]),
            "PYTHONIOENCODING": "utf-8",
            "SCIKIT_LEARN_DATA": str(data),
        }
        command = [sys.executable, "-c", RUN, example.name]
        done = subprocess.run(
            command, cwd=work, env=os.environ | settings, capture_output=True, encoding="utf-8"
        )
        assert done.returncode == 0, done.stderr
        assert {path.name for path in work.iterdir()} <= {example.name, "output"}
    return done.stdout, json.loads(done.stderr)


def prose(example):
    """The text of the page: the docstring, and the comments below a line ``# %%``."""
    source = example.read_text(encoding="utf-8")
    found = re.findall(r"^# %%\n((?:#.*\n)*)", source, re.M)
    return "\n".join([ast.get_docstring(ast.parse(source)), *found])


def numbers(text):
    """Value and unit of the last decimal of each number; a percentage is one of hundredths."""
    for digits, percent in re.findall(r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)(%?)(?!\w|\.\d)", text):
        plain = digits.strip(",").replace(",", "")
        scale = 100 if percent else 1
        yield float(plain) / scale, 10.0 ** -len(plain.partition(".")[2]) / scale


@pytest.mark.slow
@each
def test_a_download_runs_alone_and_its_figures_can_be_read(example):
    _, figures = run(example)
    assert figures
    for width, text in figures:
        # points
        assert text * min(1, COLUMN / width) >= 8


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="other dropout masks")
@each
def test_numbers_of_the_prose_are_printed_or_set(example):
    """Printed to so many decimals or more, or a setting in the code; or a level by default."""
    printed = [*numbers(run(example)[0]), (0.95, 0.01), (0.05, 0.01)]
    code = re.sub(r"^#.*", "", example.read_text(encoding="utf-8"), flags=re.M)
    code = code.replace(ast.get_docstring(ast.parse(code), clean=False), "").replace("_", "")
    settings = {value for value, _ in numbers(code)}
    for value, unit in numbers(re.sub(r"\((?:[^()]* )?(?:19|20)\d\d[^()]*\)", "", prose(example))):
        rounded = (abs(value - x) <= 0.501 * unit for x, fine in printed if fine < 1.01 * unit)
        assert value in settings or any(rounded), value


@each
def test_a_notebook_runs_the_code_of_the_program(example):
    """As sphinx-gallery makes it, which the pages offer beside the program."""
    gallery = pytest.importorskip("sphinx_gallery.gen_gallery").DEFAULT_GALLERY_CONF
    notebook = pytest.importorskip("sphinx_gallery.notebook")
    parser = pytest.importorskip("sphinx_gallery.py_source_parser")
    _, blocks = parser.split_code_and_text_blocks(str(example))
    made = notebook.jupyter_notebook(blocks, gallery, str(example.parent))
    cells = ["".join(cell["source"]) for cell in made["cells"] if cell["cell_type"] == "code"]
    program = ast.parse(example.read_text(encoding="utf-8"))
    # the docstring is prose
    code = ast.Module(program.body[1:], type_ignores=[])
    assert ast.dump(ast.parse("\n".join(cells))) == ast.dump(code)
