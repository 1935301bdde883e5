"""Compare the saved predictions of a model with the labels of raters.

A case is what the model predicts: an image, a biopsy. A rater is a person who labelled it. The
command reads files (.csv, .tsv, .xlsx, .parquet, .npy, .npz) with one row a case, and writes
DIR/report.html, a page to read, and DIR/report.json, its numbers. Cases meet by a column of ids,
classes by the names of columns.

Two examples
------------
readings.csv has the columns image, reader, finding and patient, and a row for each label. model.csv
has a column image, and a column of probabilities for each finding:

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
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from . import _sources
from ._files import read_table
from ._report import report_on
from ._saving import check_folder
from ._study import LEAST_RATERS, Study

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit status."""
    options = _parser().parse_args(arguments)
    options.map = dict(options.map)
    options.classes = options.ordered or options.classes or None
    try:
        check_folder(Path(options.output))
        studies, files = _studies(options)
        if options.dry_run:
            for name, study in studies.items():
                print(*_supported(study, name), sep="\n")
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
    made = report_on(
        study,
        sensitive=options.sensitive,
        confidence_level=options.level,
        random_state=options.seed,
        inputs=files,
        verbose=not options.quiet,
    )
    page = made.save(Path(options.output) / re.sub(r"[^\w.-]+", "_", name))
    for verdict in made.data["verdict"]:
        print(f"{verdict['state']}: {verdict['words']}")
    for check in made.data["checks"]:
        print(f"{check['severity']}: {check['message']}")
    print(f"Page: {page}")
    return made.status


def _supported(study: Study, name: str = "") -> Iterator[str]:
    """Lines: what was read, what it supports, and what is missing for more."""
    yield f"{name or study.title or 'Report'}:"
    for step in study.flow:
        ids = ", ".join(map(str, step.ids))
        yield f"  {step.words}: {step.n:,} {ids}".rstrip()
    yield f"  cases in this report: {len(study):,}"
    yield f"  classes: {', '.join(study.classes[:20])}"
    for note in study.notes:
        yield f"  note: {note}"
    for what, has, gives, lacks in _facts(study):
        yield f"  {what} → {gives if has else lacks}"


def _facts(study: Study) -> Iterator[tuple[str, bool, str, str]]:
    """What there may be, whether it is there, what it gives, and what is missing without it."""
    n = study.n_raters or 0
    named = n >= LEAST_RATERS
    yield f"raters named: {n}", named, "comparison with raters", "for these raters only"
    pairs = "disagreement of raters"
    yield "two labels of a case", study.has_pairs, pairs, f"no case has two: no {pairs}"
    together = f"{study.n_groups} stay together"
    yield "patients", study.groups is not None, together, "none (--patient): cases are independent"
    yield "costs", study.costs is not None, "mean cost of decisions", "none (--costs)"
    yield "probabilities", not study.hard, "calibration", "none: accuracy, no calibration"
    yield "grades", study.distance is not None, "errors in steps", "none (--ordered)"
    for name, values in study.subgroups.items():
        yield f"subgroups by {name}", True, f"{len(set(values))} values", ""


def _parser() -> argparse.ArgumentParser:
    words: dict = {"description": __doc__}
    words["formatter_class"] = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m sklearn_lhcal", **words)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("report", help="one page about saved predictions", **words)
    _add_files(command)
    _add_names(command)
    add = command.add_argument
    add(
        "--output",
        metavar="DIR",
        required=True,
        help="the folder to write into",
    )
    add("--title", help="the title of the page")
    add(
        "--model-name",
        metavar="NAME",
        help="what the page calls the model",
    )
    add(
        "--level",
        type=float,
        default=0.95,
        help="level of all intervals (default: 0.95)",
    )
    add(
        "--seed",
        type=int,
        default=0,
        help="seed of random splits (default: 0)",
    )
    add(
        "--sensitive",
        action="store_true",
        help="leave ids and names of files out of the page",
    )
    add(
        "--dry-run",
        action="store_true",
        help="say what the files support, and compute nothing",
    )
    add("--quiet", action="store_true", help="show no progress")
    return parser


def _add_files(command: argparse.ArgumentParser) -> None:
    a_file: dict = {"metavar": "FILE"}
    add = command.add_mutually_exclusive_group(required=True).add_argument
    add(
        "--counts",
        **a_file,
        help="how many raters chose each class (a column)",
    )
    add(
        "--annotations",
        **a_file,
        help="a row a label: its case, rater and class; see --columns",
    )
    add = command.add_mutually_exclusive_group(required=True).add_argument
    add(
        "--proba",
        **a_file,
        help="predicted probability of each class (a column)",
    )
    add(
        "--predicted-labels",
        **a_file,
        help="predicted classes instead, a column a model or judge",
    )
    add = command.add_argument
    add(
        "--groups",
        "--cases",
        **a_file,
        help="what each case is: patient, site, … (columns)",
    )
    add(
        "--costs",
        **a_file,
        help="cost of each decision (a column) under each class (a row)",
    )


def _add_names(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    names = ("CASE", "RATER", "LABEL")
    usual = ["item", "rater", "label"]
    several: dict = {"nargs": "+", "default": [], "metavar": "NAME"}
    patient = "the column, of any file, that names the patient"
    add(
        "--columns",
        nargs=3,
        default=usual,
        metavar=names,
        help="columns of --annotations",
    )
    add(
        "--id",
        metavar="NAME",
        help="the column that names the cases",
    )
    add("--patient", "--group-column", metavar="NAME", help=patient)
    add(
        "--subgroups",
        **several,
        help="columns of any file to compare cases by: site, device",
    )
    add(
        "--classes",
        **several,
        help="names of the classes, where columns have none",
    )
    add(
        "--ordered",
        nargs="*",
        metavar="NAME",
        help="classes are grades, in this or their order",
    )
    change: dict = {"action": "append", "default": [], "type": _change}
    add(
        "--map",
        **change,
        metavar="OLD=NEW",
        help="another name of a class; can be repeated",
    )
    add(
        "--not-a-class",
        **several,
        help="labels that are no answer: left out and counted",
    )


def _change(words: str) -> tuple[str, str]:
    old, sign, new = words.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"{words}: write OLD=NEW, Bengin=Benign")
    return old, new
