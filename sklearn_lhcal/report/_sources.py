"""From tables to a study: labels and predictions of the same cases, under the same names."""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from .._utils.names import column_names, sorted_names
from ..label_histogram import Annotations
from . import _cells, _matching
from ._files import Table, as_ids
from ._study import SHOWN, Step, Study, read_study


def tables_of(options: Namespace, read) -> dict[str, Table]:
    """The files that were given, read by ``read(file, what, ...)``."""
    given = {
        "proba": options.proba or options.predicted_labels,
        "counts": options.counts,
        "groups": options.groups,
    }
    text = [*options.subgroups, *filter(None, [options.patient])]
    names = {"id_column": options.id, "likely_id": options.columns[0], "as_text": text}
    tables = {what: read(file, what, **names) for what, file in given.items() if file}
    if options.costs:
        tables["costs"] = read(options.costs, "costs")
    if options.annotations:
        if tables["proba"].ids is None:
            raise ValueError("--proba needs a column that names the cases; which, says --id.")
        text = [*text, *options.columns]
        table = read(options.annotations, "annotations", with_ids=False, as_text=text)
        tables["annotations"] = _annotations(table, options.columns)
    return tables


def _annotations(table: Table, columns: list[str]) -> Table:
    """A long table of annotations, whose ids are its first column."""
    own = list(getattr(table.values, "columns", ()))
    absent = [name for name in columns if name not in own]
    if absent:
        raise ValueError(
            f"--annotations has no columns {absent}, only {own[:20]}: add --columns CASE RATER "
            "LABEL."
        )
    return table._replace(ids=as_ids(table.values[columns[0]]).to_numpy(object))


def studies_of(tables: Mapping[str, Table], options: Namespace) -> dict[str, Study]:
    """A study for each model or judge; of probabilities there is one, whose name is empty."""
    ids = _matching.ids_of(tables, ("proba", "counts"))
    if ids is None:
        ids = np.arange(len(tables["proba"].values)).astype(object)
    about = [*options.subgroups, *filter(None, [options.patient])]
    own, sources = {}, {}
    for what in [what for what in tables if what != "costs"]:
        table = _matching.named(tables[what], what, ids)
        own[what], sources[what] = _matching.split(table, about)
    patient = options.patient
    if "groups" in tables:
        frame = _cells.frame_of(tables["groups"]).rename(columns=str)
        sources["groups"] = sources["groups"]._replace(values=frame)
        patient = patient or next((name for name in frame if name not in about), None)
    votes, steps, labels_of = _labels(own, options)
    predictions, notes = _predictions(own["proba"], votes, options)
    costs = _costs(tables.get("costs"), options.map)
    studies = {}
    for judge, prediction in predictions.items():
        names = column_names(prediction, "prediction")
        classes = None if names is None else names.tolist()
        _cells.check_known(votes, "labels", classes)
        y, rows, filled = labels_of(ids, classes)
        seen = ids[rows]
        study = read_study(
            y,
            _matching.rows_of(prediction, rows),
            ids=seen,
            groups=None if patient is None else _matching.about_cases(patient, sources, seen, None),
            subgroups={
                name: _matching.about_cases(name, sources, seen, "unknown")
                for name in options.subgroups
            },
            cost_matrix=costs,
            distance=None if options.ordered is None else "ordinal",
            title=options.title,
            model_name=options.model_name or judge,
        )
        studies[judge] = _with_flow(study, ids, rows, steps, [*notes, *filled])
    return studies


def _with_flow(study: Study, ids, rows, steps: list[Step], notes: list[str]) -> Study:
    """The study with what was left out before it."""
    unread = np.delete(ids, rows)
    named = unread[:SHOWN].tolist()
    flow = [
        Step("cases with a prediction", len(ids)),
        *steps,
        Step("left out: without a label", len(unread), named),
    ]
    return replace(study, n_dropped=len(unread), notes=notes, flow=flow)


def _labels(tables: Mapping[str, Table], options: Namespace) -> tuple:
    """Votes of each class, what was left out, and ``f(ids, classes) -> y, rows of ids, notes``."""
    if "annotations" in tables:
        return _answers(tables["annotations"], "annotations", options)
    counts = tables["counts"]
    if np.ndim(counts.values) == 1 or np.shape(counts.values)[1] == 1:
        frame = _cells.frame_of(counts).set_axis(options.columns[2:], axis=1)
        return _answers(counts._replace(values=frame), "counts", options)
    values = _cells.renamed(_cells.counts_of(counts, options.classes), options.map)
    values, steps = _cells.without_answers(values, options.not_a_class)
    votes = {} if column_names(values, "counts") is None else values.sum().to_dict()
    return votes, steps, partial(_counted, counts._replace(values=values))


def _counted(table: Table, ids: NDArray, classes: list | None) -> tuple:
    place = _matching.places(table.ids, "counts", ids)
    order = np.argsort(place)
    order = order[np.asarray(table.values)[order].sum(axis=1) > 0]
    counts, notes = _cells.with_unchosen(_matching.rows_of(table.values, order), classes)
    return counts, place[order], notes


def _answers(table: Table, what: str, options: Namespace) -> tuple:
    """Labels that a file holds one by one: those of raters, or one a case."""
    item, _, label = options.columns
    labels = as_ids(table.values[label])
    labels, steps = _cells.answers(labels, options.map, options.not_a_class)
    frame = table.values.assign(**{item: table.ids, label: labels})[labels.notna()]
    return labels.value_counts().to_dict(), steps, partial(_answered, frame, what, options.columns)


def _answered(frame, what: str, columns: list[str], ids: NDArray, classes: list | None) -> tuple:
    item, rater, label = columns
    rows = np.unique(_matching.places(frame[item].to_numpy(), what, ids))
    if rater not in frame:
        return frame.set_index(item)[label].reindex(ids[rows]).to_numpy(), rows, []
    columns = [frame[name] for name in columns]
    return Annotations.from_long(*columns, items=ids[rows]), rows, []


def _predictions(table: Table, votes: Mapping[str, int], options: Namespace) -> tuple[dict, list]:
    """Named class probabilities by the names of judges, and what is to be said of them."""
    kinds = [np.asarray(column).dtype.kind for _, column in _cells.frame_of(table).items()]
    if options.predicted_labels or not set(kinds) & set("iufb"):
        return _hard(table, votes, options), []
    _cells.check_numbers(table, "proba")
    table = _cells.one_column(table, options.classes)
    _cells.check_named(table, "proba", options.classes)
    table, notes = _cells.probabilities(table)
    prediction = _cells.renamed(_cells.with_classes(table, options.classes), options.map)
    if options.ordered:
        own = list(prediction.columns)
        if set(options.ordered) != set(own):
            raise ValueError(f"--ordered names {options.ordered}, but --proba has {own}.")
        prediction = prediction[options.ordered]
    return {"": prediction}, notes


def _hard(table: Table, votes: Mapping[str, int], options: Namespace) -> dict:
    """Labels as predictions, by the names of those who gave them."""
    said = {
        str(judge): _cells.answers(as_ids(column), options.map, [])[0]
        for judge, column in _cells.frame_of(table).items()
    }
    every = set(votes).union(*(labels.dropna() for labels in said.values()))
    classes = options.classes or sorted_names(list(every)).tolist()
    for judge, labels in said.items():
        if labels.isna().any():
            case = table.ids[labels.isna().argmax()]
            raise ValueError(f"{judge!r} has no label for case {case!r}.")
        _cells.check_known(labels.value_counts().to_dict(), "predicted-labels", classes)
    return {judge: _cells.one_class(labels, classes) for judge, labels in said.items()}


def _costs(table: Table | None, changes: Mapping[str, str]):
    """A cost matrix; a first column of text names the classes."""
    if table is None:
        return None
    _cells.check_numbers(table, "costs")
    if table.ids is None:
        return table.values
    return table.values.set_index(np.array([changes.get(name, name) for name in table.ids]))
