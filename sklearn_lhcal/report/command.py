"""Compare the saved predictions of a model with the labels of raters.

A case is what the model predicts: an image, a biopsy. A rater is a person who labelled it. The
command reads files (.csv, .tsv, .txt, .xlsx, .parquet, .npy, .npz; labels also .json, .jsonl) and
writes DIR/report.html, a page to read, and DIR/report.json, its numbers; beside them its tables in
DIR/tables (CSV) and its figures in DIR/figures (SVG, PNG). Cases meet by a column of ids, classes
by the names of columns.

Three examples
--------------
readings.csv has the columns image, reader, finding and patient, and a row for each label.
model.csv has a column image, and a column of probabilities for each finding:

  python -m sklearn_lhcal report --annotations readings.csv --columns image reader finding \\
      --patient patient --proba model.csv --output out

counts.xlsx says how many pathologists gave each biopsy each grade:

  python -m sklearn_lhcal report --counts counts.xlsx --proba model.xlsx \\
      --ordered mild moderate severe --title "Grades of biopsies" --output out

study.xlsx has a sheet "Readings" with a column for each rater, and a sheet "Model":

  python -m sklearn_lhcal report --annotations study.xlsx --proba study.xlsx \\
      --sheet Readings Model --columns "Case ID" --raters "Reader *" --tidy --output out

Columns of --annotations may be paths into JSON, see sklearn_lhcal.label_histogram.label_table. Add
--dry-run to see the first cases as they were understood, without computing. Exit status: 0 written;
1 written, and what --fail-on names is so; 2 nothing written, and one line says why.
"""

import argparse
import re
import sys
import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from . import _sources
from ._files import read_table
from ._page import check_folder
from ._readings import report_on_readings
from ._report import SETTINGS, Report, report_on
from ._study import Study
from ._words import lines

__all__ = ["main"]

_USUAL = ["item", "rater", "label"]
_OF_READINGS = ["case", "reader", "condition", "score", "truth"]
_OPTIONS_OF_READINGS = {
    *("readings", "columns", "patient", "sheet", "map", "compare", "threshold", "margin"),
    *("level", "title", "sensitive", "fail_on", "command", "output", "seed", "quiet", "dry_run"),
}

# What each option holds. One of the first two is needed, and one of the next two.
LABELS = {
    "--counts": "how many raters chose each class (a column)",
    "--annotations": "a row for each label: its case, rater and class; see --columns",
    "--readings": "a reader study: case, reader, condition, score and truth (0, 1), or .imrmc",
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
    "--decision": "the column of --proba with the model's own class: a second page, DIR/NAME",
    "--model-name": "what the page calls the model",
}
LISTS = {
    "--subgroups": "columns of any file to compare cases by: site, device",
    "--classes": "names of the classes, where columns have none",
    "--not-a-class": "labels that are no answer: left out and counted",
}
# How labels stand in their file, where they are no row each.
LAYOUTS = {
    "--total": "the column that shares are multiplied by",
    "--weight": "the column that says how many labels a row stands for",
    "--order": "the column that says when a label was given",
    "--rater-groups": "the column of --annotations that says which group its rater is in",
}
# Columns are names, or patterns with one *.
MANY = {
    "--raters": "columns of --annotations that are a rater each",
    "--items": "columns of --annotations that are a case each",
    "--labels": "columns of --annotations that are a class each: ones, counts or shares",
    "--findings": "columns of --annotations that are a finding each",
    "--sheet": "the sheet of workbooks; two of one: of the labels, then the predictions; * for all",
    "--none": "with --several: labels that say there is no finding",
    "--where": "rows to keep, status=Approved or status!=Rejected",
    "--fail-on": "verdicts, or check, that make the exit status 1",
}
SWITCHES = {
    "--tidy": "one spelling of labels that differ in case and blanks; 1 - mild is 1, or mild",
    "--several": "a rater names any number of findings of a case",
    "--sensitive": "leave ids and names of files out of the page",
    "--dry-run": "say what the files support, and compute nothing",
    "--quiet": "show no progress",
}


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if bool(options.readings) == bool(options.proba or options.predicted_labels):
        parser.error(
            "one of --proba and --predicted-labels is required, but not by --readings. Raters "
            "without a model are compared in Python: label_histogram.krippendorff_alpha, "
            "metrics.rater_table"
        )
    _check_options(parser, options)
    options.map = dict(options.map)
    options.classes = options.ordered or options.classes or None
    # a case alone, or with a rater and a label
    usual = _OF_READINGS if options.readings else _USUAL
    options.columns = [*options.columns, *usual[len(options.columns) :]]
    for name in ("raters", "items", "labels", "findings", "none", "where"):
        setattr(options, name, getattr(options, name) or None)
    try:
        check_folder(Path(options.output))
        if options.readings:
            made = report_on_readings(options)
            if options.dry_run:
                print(made.data["paragraphs"]["design"])
                return 0
            return _told(options, Path(options.output), made)
        studies, files = _studies(options)
        if options.dry_run:
            for name, study in studies.items():
                print(*lines("supported", study=study, name=name), *_first(study), sep="\n")
            return 0
        folders = _folders(Path(options.output), list(studies))
        for folder in folders.values():
            check_folder(folder)
        return max(_write(options, folders[name], study, files) for name, study in studies.items())
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
    with warnings.catch_warnings(record=True, action="always") as caught:
        tables = _sources.tables_of(options, read_table)
        notes = [note for table in tables.values() for note in table.notes]
        try:
            studies = _sources.studies_of(tables, options)
        except ValueError as error:
            # perhaps another sheet was meant
            unread = " ".join(note for note in notes if "the sheet" in note)
            advice = f" {unread} Another: --sheet." if unread else ""
            raise ValueError(f"{error}{advice}") from None
    notes += dict.fromkeys(str(warning.message) for warning in caught)
    files = {what: table.facts for what, table in tables.items()}
    studies = {n: replace(study, notes=[*notes, *study.notes]) for n, study in studies.items()}
    return studies, files


def _first(study: Study) -> list[str]:
    """The first cases as they were understood."""
    ids = range(len(study)) if study.ids is None else study.ids
    raters = study.rater_names()
    return [f"case {ids[i]}: {study.said(i, raters)}" for i in range(min(3, len(study)))]


def _folders(output: Path, names: list[str]) -> dict[str, Path]:
    """A folder for each page, within the output, whatever the judges are called."""
    plain = [re.sub(r"[^\w-]+", "_", name).strip("_") or "judge" for name in names]
    # judges whose names differ in signs alone have numbers
    own = [
        name if plain.count(name) == 1 else f"{name}_{i}" for i, name in enumerate(plain, start=1)
    ]
    return {
        name: output / folder if name else output for name, folder in zip(names, own, strict=True)
    }


def _write(options: argparse.Namespace, folder: Path, study: Study, files: dict) -> int:
    """One page in its folder; its status."""
    margin = 0.05 if options.margin is None else options.margin
    own = options.level, options.seed, options.sensitive, margin
    settings = dict(zip(SETTINGS, own, strict=True))
    made = report_on(study, settings=settings, inputs=files, verbose=not options.quiet)
    return _told(options, folder, made)


def _told(options: argparse.Namespace, folder: Path, made: Report) -> int:
    """Save a page and say what it says; its status."""
    page = made.save(folder)
    for verdict in made.data["verdict"]:
        print(f"{verdict['state']}: {verdict['words']}")
    for check in made.data["checks"]:
        print(f"{check['severity']}: {check['message']}")
    print(f"Page: {page}")
    states = {verdict["state"] for verdict in made.data["verdict"]}
    states |= {"check"} if made.status else set()
    return int(bool(states & set(options.fail_on)))


def _parser() -> argparse.ArgumentParser:
    words: dict = {"description": __doc__}
    words["formatter_class"] = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m sklearn_lhcal", **words)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("report", help="one page about saved predictions", **words)
    labels = command.add_mutually_exclusive_group(required=True)
    predictions = command.add_mutually_exclusive_group()
    _add(labels, LABELS, metavar="FILE")
    _add(predictions, PREDICTIONS, metavar="FILE")
    _add(command, FILES, metavar="FILE")
    _add(command, {"--output": "the folder to write into"}, metavar="DIR", required=True)
    _add(command, NAMES, metavar="NAME")
    _add(command, LISTS, metavar="NAME", nargs="+", default=[])
    grades = {"--ordered": "classes are grades, in this or their order"}
    _add(command, grades, metavar="NAME", nargs="*")
    _add(command, LAYOUTS, metavar="NAME")
    _add(command, MANY, metavar="NAME", nargs="+", default=[])
    columns = "columns of --annotations: CASE [RATER LABEL], - for no rater; of --readings: CASE "
    columns += "READER CONDITION SCORE TRUTH"
    _add(command, {"--columns": columns}, metavar="NAME", nargs="+", default=[])
    twice = {"--on-duplicate": "which label counts of a rater who gave two (default: an error)"}
    _add(command, twice, choices=["raise", "first", "last"], default="raise")
    change = {"--map": "other names of classes"}
    _add(command, change, metavar="OLD=NEW", nargs="+", action="extend", default=[], type=_change)
    _add(command, {"--level": "level of all intervals (default: 0.95)"}, type=float, default=0.95)
    compare = {"--compare": "two conditions of --readings"}
    _add(command, compare, metavar=("NEW", "OLD"), nargs=2)
    calls = {"--threshold": "scores of --readings from which on a case is called positive"}
    _add(command, calls, metavar="SCORE", type=float)
    margin = "how much more often raters may disagree with the model, a share (default: 0.05); of "
    margin += (
        "--readings how much lower the first of --compare may be, in each metric (default: none)"
    )
    _add(command, {"--margin": margin}, metavar="SHARE", type=_share)
    _add(command, {"--seed": "seed of random splits (default: 0)"}, type=int, default=0)
    _add(command, SWITCHES, action="store_true")
    return parser


def _check_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """A usage error for options that would not be read."""
    given = {name for name, x in vars(options).items() if x not in (None, [], False, "raise")}
    other = given - _OPTIONS_OF_READINGS if options.readings else given & {"compare", "threshold"}
    if other:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(other))
        parser.error(f"{names}: {'not' if options.readings else 'only'} with --readings")


def _add(command, options: dict[str, str], **how) -> None:
    """Options of one kind; other names of an option stand behind it."""
    for names, meaning in options.items():
        command.add_argument(*names.split(), help=meaning, **how)


def _share(words: str) -> float:
    with suppress(ValueError):
        if 0 <= float(words) < 1:
            return float(words)
    raise argparse.ArgumentTypeError(f"{words}: write a share, 0.05 is 5 percentage points")


def _change(words: str) -> tuple[str, str]:
    # names of classes may hold "=", as 3+4=7
    old, sign, new = words.rpartition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"{words}: write OLD=NEW, Bengin=Benign")
    return old, new
