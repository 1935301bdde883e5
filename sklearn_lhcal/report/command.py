"""Compare the saved predictions of a model with the labels of raters.

A case is what the model predicts: an image, a biopsy. A rater is a person who labelled it. The
command reads files with a row for each case, and writes DIR/report.html, a page to read, and
DIR/report.json, its numbers. Cases meet by a column of ids, classes by the names of columns.

Two examples
------------
readings.csv has the columns image, reader and finding, and a row for each label. model.csv has a
column image, and a column of probabilities for each finding. patients.csv has the columns image and
patient:

  python -m sklearn_lhcal report --annotations readings.csv --columns image reader finding \\
      --groups patients.csv --proba model.csv --output out

counts.xlsx says how many pathologists gave each biopsy each grade:

  python -m sklearn_lhcal report --counts counts.xlsx --proba model.xlsx \\
      --ordered --title "Grades of biopsies" --output out

Exit status: 0 written; 1 written, and a check of the data warns; 2 nothing written, and one line
says why.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from .._utils.names import column_names
from ..label_histogram import Annotations
from ._cells import (
    check_known,
    check_named,
    check_numbers,
    labels_of,
    one_column,
    probabilities,
    with_classes,
    with_labels,
    with_unchosen,
)
from ._files import Table, as_ids, in_one_order, read_table
from ._report import report_on
from ._saving import check_folder
from ._study import read_study

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit status."""
    options = _parser().parse_args(arguments)
    try:
        check_folder(Path(options.output))
        made = _report(options)
        page = made.save(options.output)
    except OSError as error:
        place = error.filename or f"--output {options.output}"
        print(f"error: {place}: {error.strerror or error}", file=sys.stderr)
        return 2
    except MemoryError:
        print("error: the data do not fit into the memory of this computer", file=sys.stderr)
        return 2
    except (ValueError, TypeError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
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
    labels.add_argument(
        "--counts", metavar="FILE", help="how many raters chose each class (a column) of each case"
    )
    labels.add_argument(
        "--annotations", metavar="FILE", help="a row a label: its case, rater and class"
    )
    command.add_argument(
        "--columns",
        nargs=3,
        default=["item", "rater", "label"],
        metavar=("CASE", "RATER", "LABEL"),
        help="what the table of annotations calls its columns (default: item rater label)",
    )
    command.add_argument(
        "--proba", metavar="FILE", required=True, help="predicted class probabilities"
    )
    command.add_argument("--groups", metavar="FILE", help="the patient of each case")
    command.add_argument("--costs", metavar="FILE", help="classes × decisions")
    command.add_argument("--classes", nargs="+", metavar="NAME", help="names of unnamed columns")
    command.add_argument("--id", metavar="COLUMN", help="the column that names the cases")
    command.add_argument("--level", type=float, default=0.95, help="of intervals (default: 0.95)")
    command.add_argument("--seed", type=int, default=0, help="of random splits (default: 0)")
    command.add_argument(
        "--sensitive", action="store_true", help="leave ids and names of files out"
    )
    command.add_argument(
        "--not-a-class", nargs="+", metavar="NAME", help="labels that are no answer: left out"
    )
    command.add_argument("--ordered", action="store_true", help="the classes are grades")
    command.add_argument("--title", help="the title of the page")
    command.add_argument("--model-name", metavar="NAME", help="what the page calls the model")
    command.add_argument("--output", metavar="DIR", required=True, help="where to write")
    command.add_argument("--quiet", action="store_true", help="show no progress")
    return parser


def _report(options: argparse.Namespace):
    given = {"proba": options.proba, "counts": options.counts, "groups": options.groups}
    tables = {
        what: read_table(file, what, id_column=options.id)
        for what, file in given.items()
        if file is not None
    }
    files = {what: table.facts for what, table in tables.items()}
    tables, ids = in_one_order(tables)
    n_dropped = 0
    if options.counts is not None:
        tables, ids, n_dropped = with_labels(tables, ids)
    prediction, notes = _prediction(tables["proba"], options.classes)
    if options.counts is not None:
        check_named(tables["counts"], "counts", options.classes)
        y, filled = with_unchosen(labels_of(tables["counts"], options.classes), prediction)
        notes = notes + filled
    else:
        y, files["annotations"] = _annotations(options, ids, prediction)
    notes = [note for table in tables.values() for note in table.notes] + notes
    costs = None
    if options.costs is not None:
        costs, files["costs"] = _costs(options.costs)
    groups = None
    if options.groups is not None:
        groups = np.asarray(tables["groups"].values).reshape(len(tables["groups"].values), -1)[:, 0]
    study = read_study(
        y,
        prediction,
        groups=groups,
        cost_matrix=costs,
        ids=ids,
        distance="ordinal" if options.ordered else None,
        title=options.title,
        model_name=options.model_name,
    )
    return report_on(
        replace(study, n_dropped=study.n_dropped + n_dropped, notes=notes),
        sensitive=options.sensitive,
        confidence_level=options.level,
        random_state=options.seed,
        inputs=files,
        verbose=not options.quiet,
    )


def _prediction(table: Table, classes: list[str] | None):
    """Named class probabilities, and what is to be said of them."""
    check_numbers(table, "proba")
    table = one_column(table, classes)
    check_named(table, "proba", classes)
    table, notes = probabilities(table)
    return with_classes(table, classes), notes


def _annotations(options: argparse.Namespace, ids, prediction):
    """Annotations in the order of the rows of the prediction, and the facts of their file."""
    table = read_table(options.annotations, "annotations", with_ids=False, as_text=options.columns)
    columns = list(getattr(table.values, "columns", ()))
    absent = [name for name in options.columns if name not in columns]
    if absent:
        raise ValueError(
            f"--annotations has no columns {absent}, only {columns[:20]}: say which of them are "
            "the item, the rater and the label, --columns ITEM RATER LABEL."
        )
    if ids is None:
        raise ValueError(
            "--annotations needs ids in --proba: a column that names the items; which, says --id."
        )
    item, rater, label = options.columns
    table.values[item] = as_ids(table.values[item])
    strange = sorted(set(table.values[item].dropna()) - set(ids))
    if strange:
        raise ValueError(
            f"--annotations has {len(strange)} items that --proba lacks: {strange[:5]}."
        )
    votes = table.values[label].value_counts().drop(options.not_a_class or [], errors="ignore")
    if column_names(prediction, "prediction") is not None:
        check_known(votes.to_dict(), "annotations", list(prediction.columns))
    names = {"item": item, "rater": rater, "label": label, "not_a_class": options.not_a_class}
    y = Annotations.from_long(table.values, items=ids, **names)
    return y, table.facts


def _costs(file: str):
    """A cost matrix, and the facts of its file; a first column of text names the classes."""
    table = read_table(file, "costs")
    check_numbers(table, "costs")
    costs = table.values
    if table.ids is not None:
        costs = costs.set_index(table.ids)
    return costs, table.facts
