"""Compare the saved predictions of a model with the labels of raters.

A case is what the model predicts: an image, a biopsy. A rater is a person who labelled it. The
command reads files (.csv, .tsv, .xlsx, .parquet, .npy, .npz) with one row for each case, and writes
DIR/report.html, a page to read, and DIR/report.json, its numbers. Cases meet by a column of ids,
classes by the names of columns.

Two examples
------------
readings.csv has the columns image, reader, finding and patient, and a row for each label.
model.csv has a column image, and a column of probabilities for each finding:

  python -m sklearn_lhcal report --annotations readings.csv --columns image reader finding \\
      --patient patient --proba model.csv --output out

counts.xlsx says how many pathologists gave each biopsy each grade:

  python -m sklearn_lhcal report --counts counts.xlsx --proba model.xlsx \\
      --ordered mild moderate severe --title "Grades of biopsies" --output out

Add --dry-run to see what the files support, without computing. Exit status: 0 written; 1 written,
and a check of the data warns; 2 nothing written, and one line says why.
"""

import argparse
import re
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import _sources
from ._files import read_table
from ._page import check_folder
from ._report import report_on
from ._study import Study
from ._words import lines

__all__ = ["main"]

# What each option holds. One of the first two is needed, and one of the next two.
LABELS = {
    "--counts": "how many raters chose each class (a column)",
    "--annotations": "a row for each label: its case, rater and class; see --columns",
}
PREDICTIONS = {
    "--proba": "predicted probability of each class (a column)",
    "--predicted-labels": "predicted classes instead, a column a model or judge",
}
FILES = {
    "--groups --cases": "what each case is: patient, site, … (columns)",
    "--costs": "cost of each decision (a column) under each class (a row)",
}
NAMES = {
    "--id": "the column that names the cases",
    "--patient --group-column": "the column, of any file, that names the patient",
    "--finding": "the column of findings, where cases have several",
    "--only": "the finding that the page is about",
    "--title": "the title of the page",
    "--model-name": "what the page calls the model",
}
LISTS = {
    "--subgroups": "columns of any file to compare cases by: site, device",
    "--classes": "names of the classes, where columns have none",
    "--not-a-class": "labels that are no answer: left out and counted",
}
SWITCHES = {
    "--sensitive": "leave ids and names of files out of the page",
    "--dry-run": "say what the files support, and compute nothing",
    "--quiet": "show no progress",
}


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit status."""
    options = _parser().parse_args(arguments)
    options.map = dict(options.map)
    options.classes = options.ordered or options.classes or None
    if options.only:
        options.title = f"{options.title or 'Calibration report'}: {options.only}"
    try:
        check_folder(Path(options.output))
        studies, files = _studies(options)
        if options.dry_run:
            for name, study in studies.items():
                print(*lines("supported", study=study, name=name), sep="\n")
            return 0
        return max(_write(options, name, study, files) for name, study in studies.items())
    except OSError as error:
        said = f"{error.filename or f'--output {options.output}'}: {error.strerror or error}"
    except MemoryError:
        said = "the data do not fit into memory"
    except (ValueError, TypeError, ImportError) as error:
        said = str(error)
    print(f"error: {said}", file=sys.stderr)
    return 2


def _studies(options: argparse.Namespace) -> tuple[dict[str, Study], dict]:
    """A study for each page, by the name of its folder; and the facts of all files."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tables = _sources.tables_of(options, read_table)
        studies = _sources.studies_of(tables, options)
    notes = [note for table in tables.values() for note in table.notes]
    notes += dict.fromkeys(str(warning.message) for warning in caught)
    files = {what: table.facts for what, table in tables.items()}
    studies = {n: replace(study, notes=[*notes, *study.notes]) for n, study in studies.items()}
    return studies, files


def _write(options: argparse.Namespace, name: str, study: Study, files: dict) -> int:
    """One page, in a folder of its own where it has a name; its status."""
    settings = {
        "confidence_level": options.level,
        "random_state": options.seed,
        "sensitive": options.sensitive,
    }
    made = report_on(study, settings=settings, inputs=files, verbose=not options.quiet)
    page = made.save(Path(options.output) / re.sub(r"[^\w.-]+", "_", name))
    for verdict in made.data["verdict"]:
        print(f"{verdict['state']}: {verdict['words']}")
    for check in made.data["checks"]:
        print(f"{check['severity']}: {check['message']}")
    print(f"Page: {page}")
    return made.status


def _parser() -> argparse.ArgumentParser:
    words: dict = {"description": __doc__}
    words["formatter_class"] = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m sklearn_lhcal", **words)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("report", help="one page about saved predictions", **words)
    labels = command.add_mutually_exclusive_group(required=True)
    predictions = command.add_mutually_exclusive_group(required=True)
    _add(labels, LABELS, metavar="FILE")
    _add(predictions, PREDICTIONS, metavar="FILE")
    _add(command, FILES, metavar="FILE")
    _add(command, {"--output": "the folder to write into"}, metavar="DIR", required=True)
    _add(command, NAMES, metavar="NAME")
    _add(command, LISTS, metavar="NAME", nargs="+", default=[])
    grades = {"--ordered": "classes are grades, in this or their order"}
    _add(command, grades, metavar="NAME", nargs="*")
    usual = ["item", "rater", "label"]
    columns = {"--columns": "columns of --annotations"}
    _add(command, columns, metavar=("CASE", "RATER", "LABEL"), nargs=3, default=usual)
    change = {"--map": "another name of a class; can be repeated"}
    _add(command, change, metavar="OLD=NEW", action="append", default=[], type=_change)
    _add(command, {"--level": "level of all intervals (default: 0.95)"}, type=float, default=0.95)
    _add(command, {"--seed": "seed of random splits (default: 0)"}, type=int, default=0)
    _add(command, SWITCHES, action="store_true")
    return parser


def _add(command, options: dict[str, str], **how: Any) -> None:
    """Options of one kind; other names of an option stand behind it."""
    for names, meaning in options.items():
        command.add_argument(*names.split(), help=meaning, **how)


def _change(words: str) -> tuple[str, str]:
    old, sign, new = words.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"{words}: write OLD=NEW, Bengin=Benign")
    return old, new
