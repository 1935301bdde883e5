"""From tables to a study: labels and predictions of the same cases, under the same names."""

import re
import warnings
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._utils.checks import errors_of, take_rows, warn
from .._utils.files import paths_of, read_source, sheets_of
from .._utils.names import column_names, sorted_names
from ..label_histogram import Annotations, label_table
from ._files import Table, as_ids, facts_of, from_percent, warn_unmapped
from ._study import SHOWN, Step, Study, read_study

Tables = Mapping[str, Table]
# How many there are of each name.
Tally = Mapping[str, int]

# What `label_table` is told as it is.
PASSED = (
    *("items", "raters", "labels", "findings", "order", "weight", "total", "where"),
    *("several", "none", "tidy", "on_duplicate"),
)
# How far from 1 the sums of probabilities may lie that were rounded in a file.
ROUNDED = 0.02
# What messages about arrays call them, and what is to be said of files.
OF_FILES = {
    "prediction": ("--proba", "Of logits take the softmax first."),
    "y": ("--counts", "Of shares of labels, multiply by the number of raters."),
}


def tables_of(options: Namespace, read) -> dict[str, Table]:
    """The files that were given, read by ``read(file, what, ...)``."""
    every = vars(options) | {"proba": options.proba or options.predicted_labels}
    # columns that say what a case is are looked for in this order
    kinds = ("groups", "proba", "counts", "costs", "annotations")
    files = {what: every[what] for what in kinds if every[what]}
    text = [*options.subgroups, options.patient, options.finding, options.decision]
    names = {"id_column": options.id, "likely_id": options.columns[0], "as_text": text}
    sheets = _sheets(files, options.sheet)
    how = {what: {} if what == "costs" else names for what in files if what != "annotations"}
    tables = {what: read(files[what], what, sheet=sheets.get(what), **how[what]) for what in how}
    if options.annotations:
        own = list(tables["proba"].values)
        if tables["proba"].ids is None:
            told = f"say by --id which of {own[:20]} it is."
            raise ValueError(f"--proba needs a column that names the cases; {told}")
        classes = options.classes or (own if options.proba else None)
        tables["annotations"] = _annotations(options, sheets.get("annotations"), classes)
    elif options.finding or options.only:
        raise ValueError("Several findings need --annotations: a row for each label.")
    return tables


def _sheets(files: Mapping[str, str], sheets: list[str]) -> dict[str, str]:
    """The sheet of each table: the first that its workbook has, the next where it is read again.

    Of workbooks that have none of them the first is read; * stands for all, of labels.
    """
    labels = next(what for what in ("annotations", "counts") if what in files)
    twice = files["proba"] == files[labels]
    if sheets == ["*"] or not (sheets or twice):
        return dict(zip([labels], sheets, strict=False))
    there = {file: sheets_of(paths_of(file)[0]) for file in files.values()}
    for sheet in sheets:
        if not any(sheet in names for names in there.values()):
            have = {file: names for file, names in there.items() if names}
            raise ValueError(f"No file has a sheet {sheet!r}; there are {have}.")
    names = there[files[labels]]
    if twice and len(names) > 1 and len(sheets) < 2:
        raise ValueError(
            f"{files[labels]} holds labels and predictions: name the sheet of each, that of the "
            f"labels first, --sheet LABELS PREDICTIONS; it has {names}."
        )
    left = {file: [s for s in sheets if s in names] for file, names in there.items()}
    chosen = {}
    for what in dict.fromkeys((labels, "proba", *files)):
        if own := left[files[what]]:
            # the last one stays for all that follow
            chosen[what] = own.pop(0) if len(own) > 1 else own[0]
    return chosen


def _annotations(options: Namespace, sheet: str | None, classes: list | None) -> Table:
    """The labels as a long table, whatever the layout of the file."""
    case, rater, label = options.columns
    with errors_of("--annotations"):
        source, notes = read_source(options.annotations, sheet)
    columns = [] if isinstance(source, (list, dict)) else list(source)
    about = [*options.subgroups, options.patient, options.rater_groups]
    about = [name for name in about if name in columns]
    options_of = {name: getattr(options, name) for name in PASSED}
    options_of |= {"item": None if options.items else case.split("+"), "also": about}
    options_of["classes"] = classes
    if not options.raters and rater != "-":
        options_of["rater"] = rater
    if options.finding or options.only:
        options_of |= _columns_of_findings(options, columns, [*about, case, rater])
    wide = options.items or options.raters or options.labels or options_of["findings"]
    if not wide:
        options_of["label"] = label
        named = [*case.split("+"), rater, label]
        absent = [name for name in named if name not in (*columns, "-")]
        if columns and absent and not any("[" in name or "{" in name for name in named):
            raise ValueError(
                f"--annotations has no column {absent}, its columns are {columns[:20]}: add "
                "--columns CASE RATER LABEL, - for no rater; where each rater is a column, "
                f'--columns CASE --raters "Reader *". {" ".join(notes)}'
            )
    heard = warnings.catch_warnings(record=True, action="always")
    with heard as caught, errors_of("--annotations"):
        table = label_table(source, **options_of)
    notes += [f"--annotations: {warning.message}" for warning in caught]
    options.n_blank = table.attrs["n_blank"]
    ids = as_ids(table.pop("item")).to_numpy(object)
    return Table(table, ids, facts_of(paths_of(options.annotations)), notes)


def _columns_of_findings(options: Namespace, columns: list, others: list) -> dict[str, Any]:
    """Whether findings are the values of a column, or a column each."""
    column = options.finding or "finding"
    if column in columns:
        return {"finding": column}
    if options.findings or options.several:
        return {}
    return {"findings": [name for name in columns if name not in others]}


def studies_of(tables: Tables, options: Namespace) -> dict[str, Study]:
    """A study for each model or judge; of probabilities there is one, whose name is empty.

    Of several findings it is about one, and holds the studies of all.
    """
    # what --map may change
    options = Namespace(**vars(options), met=set())
    studies = _of_findings(tables, options)
    costs = tables["costs"].ids if "costs" in tables else None
    warn_unmapped(options.map, options.met.union([] if costs is None else costs))
    return studies


def _of_findings(tables: Tables, options: Namespace) -> dict[str, Study]:
    """The studies of one finding, which hold those of all."""
    if not (options.finding or options.only):
        return _studies_of(tables, options)
    if options.decision:
        raise ValueError("--decision is the class of a case, which has one finding.")
    if options.classes and len(options.classes) != 2:
        raise ValueError("--classes names two answers: absent and present.")
    every = {}
    for name, own in _by_finding(tables, options).items():
        # its classes are its absence and itself
        classes = [f"no {name}", name]
        names = dict(zip(options.classes or ("0", "1"), classes, strict=True))
        changes = {old: names.get(new, new) for old, new in options.map.items()} | names
        of_presence = Namespace(**vars(options) | {"map": changes, "classes": classes})
        with errors_of(f"Finding {name!r}"):
            every[name] = _studies_of({**tables, **own}, of_presence)
    if options.only not in every:
        told = f"The findings with labels and a prediction are {list(every)[:50]}"
        raise ValueError(f"{told}: say which one, --only NAME.")
    chosen = {}
    for judge, study in every[options.only].items():
        findings = {name: studies[judge] for name, studies in every.items()}
        title = f"{study.heading}: {options.only}"
        chosen[judge] = replace(study, findings=findings, title=title)
    return chosen


def _studies_of(tables: Tables, options: Namespace) -> dict[str, Study]:
    """The studies of one finding."""
    import pandas as pd

    ids = _ids(tables)
    frames = {what: _by_case(tables[what], what, ids) for what in tables if what != "costs"}
    steps = []
    for what in (name for name in ("annotations", "counts", "groups") if name in frames):
        frames[what], notes = _with_ids(frames[what], what, ids)
        steps += notes
    # columns that say what a case is, in any file, are no classes
    about = [*options.subgroups, options.patient, options.rater_groups]
    own = {what: frame.drop(columns=about, errors="ignore") for what, frame in frames.items()}
    first = next(iter(own.get("groups", ())), None)
    patient = first if options.patient is None else options.patient
    y, seen, left_out = _labels(own, ids, options)
    votes = _votes(y)
    decided = own["proba"].loc[:, own["proba"].columns == options.decision]
    predictions, notes, renamed = _predictions(own["proba"].drop(columns=decided), votes, options)
    if options.decision:
        if decided.empty:
            raise ValueError(f"--proba has no column {options.decision!r}, the model's own class.")
        same = {"classes": options.classes or list(predictions[""])}
        judged, _, of_decision = _hard(decided, votes, Namespace(**vars(options) | same))
        predictions, renamed = predictions | judged, renamed + of_decision
    unread = pd.Index(ids).difference(seen, sort=False)
    flow = [
        Step("cases with a prediction", len(ids)),
        *steps,
        *left_out,
        *renamed,
        Step("left out: without a label", len(unread), list(unread[:SHOWN])),
    ]
    about_cases = {
        "ids": seen,
        "groups": None if patient is None else _about(patient, frames, seen, needed=True),
        "subgroups": {name: _about(name, frames, seen) for name in options.subgroups},
    }
    about_all: dict = {
        "cost_matrix": _costs(tables.get("costs"), options.map),
        "distance": None if options.ordered is None else "linear",
        "title": options.title,
        "rater_groups": _rater_groups(frames, options.rater_groups),
    }
    studies = {}
    for judge, prediction in predictions.items():
        labels, filled = _with_unchosen(y, votes, prediction)
        # a judge may say nothing of some cases
        told = np.flatnonzero(np.isin(seen, prediction.index))
        facts = about_all | take_rows(about_cases, told)
        facts["model_name"] = options.model_name or judge
        cases = seen[told]
        try:
            study = read_study(take_rows(labels, told), prediction.loc[cases], **facts)
        except ValueError as error:
            raise ValueError(_of_files(str(error), cases)) from None
        silent = np.delete(seen, told).tolist()
        step = Step(f"left out: {judge} says nothing", len(silent), silent[:SHOWN])
        studies[judge] = replace(
            study,
            n_dropped=len(unread) + len(silent),
            notes=[*notes, *filled],
            flow=[*flow, step] if silent else flow,
        )
    return studies


def _rater_groups(frames: Mapping, name: str | None) -> dict:
    """The group of each rater, by a column of the labels."""
    if name is None:
        return {}
    if not {"rater", name} <= set(frames.get("annotations", ())):
        told = f"no column {name!r} that says in which group raters are"
        raise ValueError(f"--annotations has {told}.")
    known = frames["annotations"][["rater", name]].dropna().drop_duplicates()
    twice = known["rater"].duplicated()
    if twice.any():
        raise ValueError(f"The rater {known['rater'][twice].iloc[0]!r} is in several of {name!r}.")
    return dict(zip(known["rater"], known[name], strict=True))


def _of_files(message: str, ids: NDArray) -> str:
    """A message about arrays, in the words of files and with the names of cases."""
    # what can be done in code
    said = message.partition("; if y holds")[0].partition(". Divide by")[0]
    said = re.sub(r"\bsample (\d+)", lambda match: f"case {ids[int(match[1])]!r}", said)
    for array, (option, advice) in OF_FILES.items():
        said, n = re.subn(rf"\b{array}\b", option, said)
        if n:
            return f"{said.rstrip('.')}. {advice}"
    return said


# -------------------------------------------------------------------------------------- findings


def _by_finding(tables: Tables, options: Namespace) -> dict[str, dict]:
    """The tables of each finding that has labels and a prediction."""
    column = options.finding or "finding"
    labels = tables["annotations"]
    about = [*options.subgroups, options.patient]
    proba = tables["proba"]
    predicted = proba.values.drop(columns=about, errors="ignore")
    given = sorted(labels.values["finding"].unique())
    # the values of the column, or the columns of numbers where there is none
    known = set(predicted.get(column, predicted.select_dtypes("number")))
    both = [name for name in given if name in known]
    alone = {"prediction": set(given) - set(known), "label": set(known) - set(given)}
    for what, names in alone.items():
        if names:
            warn(f"Findings without a {what} are left out: {sorted(names)[:20]}.")
    values = proba.values.drop(columns=alone["label"], errors="ignore")
    # a row for each case and finding, from one with a column for each finding too
    frame = values.set_axis(proba.ids, axis=0)
    if column not in frame:
        about = frame.columns.difference(both).tolist()
        frame = frame.melt(about, both, column, "probability", ignore_index=False)
    long = proba._replace(values=frame, ids=frame.index.to_numpy(object))
    return {
        name: {"annotations": _of(labels, "finding", name), "proba": _of(long, column, name)}
        for name in both
    }


def _of(table: Table, column: str, name: str) -> Table:
    """The rows of one finding."""
    own = (table.values[column] == name).to_numpy()
    return table._replace(values=table.values[own].drop(columns=column), ids=table.ids[own])


# ----------------------------------------------------------------------------------------- cases


def _ids(tables: Tables) -> NDArray:
    """Names of the cases: those of the first of these tables that has some, else numbers."""
    named = [tables[what] for what in ("proba", "counts") if what in tables]
    named = [table for table in named if table.ids is not None]
    for table in named:
        twice, n = Counter(table.ids).most_common(1)[0]
        if n > 1:
            raise ValueError(
                f"{table.facts['file']}: the id {twice!r} occurs twice; --proba and --counts have "
                "a row for each case, --annotations one for each label."
            )
    return named[0].ids if named else np.arange(len(tables["proba"].values)).astype(object)


def _by_case(table: Table, what: str, ids: NDArray):
    """The values by names of cases; without such names rows are in the order of the cases."""
    own = ids if table.ids is None else table.ids
    if len(table.values) != len(own):
        raise ValueError(
            f"--{what} has {len(table.values)} rows without ids, for {len(ids)} cases: add "
            "a column of ids and name it by --id."
        )
    return table.values.set_axis(own, axis=0)


def _with_ids(frame, what: str, ids: NDArray) -> tuple[Any, list[Step]]:
    """The table with ids that the predictions have, and a step where they were spelt otherwise.

    Of what cases are, more may be said than there are predictions.
    """
    import pandas as pd

    strange = frame.index[~frame.index.isin(ids)].unique()
    if len(strange) == frame.index.nunique():
        place = {_bare(name): name for name in ids}
        new = {name: place[_bare(name)] for name in strange if _bare(name) in place}
        # one to one
        if len(place) == len(ids) and len(set(new.values())) == len(strange):
            words = f"ids of --{what} spelt otherwise than those of --proba, such as {strange[0]!r}"
            return frame.rename(index=new), [Step(f"{words} for {new[strange[0]]!r}", len(strange))]
    if len(strange) and what != "groups":
        unread = pd.Index(ids).difference(frame.index)
        raise ValueError(
            f"--{what} has {len(strange)} ids that --proba lacks, {strange[:5].tolist()}; it lacks "
            f"{unread[:5].tolist()}; ids are text, and 001 is not 1."
        )
    return frame, []


def _bare(name) -> str:
    """An id without its suffix, case, blanks, punctuation and leading zeros."""
    text = re.sub(r"\.(png|jpe?g|tiff?|dcm|nii|svs|csv|txt)$", "", str(name).casefold())
    text = re.sub(r"0*(\d+)", r"\1", text)
    return re.sub(r"[\W_]+", "", text)


def _about(name: str, frames: Mapping, ids: NDArray, needed: bool = False) -> NDArray:
    """What each case is by a column of the first table that has it, shape (n,).

    Where this is not known, it is "unknown"; that is an error where it is `needed`, or of no case.
    """
    what = next((what for what, frame in frames.items() if name in frame), None)
    if what is None:
        raise ValueError(f"No file has a column {name!r} that says what a case is.")
    column = frames[what][name].dropna()
    own = column.groupby(level=0)
    several = own.nunique() > 1
    if several.any():
        case = several.idxmax()
        raise ValueError(f"--{what}: case {case!r} has several values of {name!r}.")
    values = own.first().reindex(ids)
    absent = ids[values.isna()]
    if len(absent) > (0 if needed else len(ids) - 1):
        raise ValueError(
            f"--{what} has no {name!r} of {len(absent)} cases: {absent[:5].tolist()}; ids are "
            "text, and 001 is not 1."
        )
    return values.astype(object).where(values.notna(), "unknown").to_numpy()


# ---------------------------------------------------------------------------------------- labels


def _labels(frames: Mapping, ids: NDArray, options: Namespace) -> tuple:
    """Annotations, or a frame of counts, of the cases with labels; these; and what was left out."""
    import pandas as pd

    what = "annotations" if "annotations" in frames else "counts"
    frame = frames[what]
    if what == "counts" and frame.shape[1] > 1:
        _check_numbers(frame, what)
        counts = _named(frame, what, options.classes)
        counts, steps = _renamed(counts, "labels", counts.sum(), options)
    else:
        if what == "counts":
            frame = frame.set_axis(["label"], axis=1)
        given = as_ids(frame["label"])
        steps = _mapped("labels", given.value_counts(), options)
        given = given.replace(options.map)
        blank = int(given.isna().sum()) + getattr(options, "n_blank", 0)
        if blank:
            steps.append(Step("labels that are blank, left out", blank))
        if "rater" in frame:
            how: dict = {"items": ids, "not_a_class": options.not_a_class}
            # a class that was named, as none, is no gap; others are told of later
            if set(given.dropna()) <= {*(options.classes or ()), *options.not_a_class}:
                how["classes"] = options.classes
            y: Any = Annotations.from_long(frame.index, frame["rater"], given, **how)
            y = y[y.rated]
            return y, y.items, [*steps, *_no_answers(y.left_out)]
        counts = pd.crosstab(frame.index, given)
    others = [name for name in options.not_a_class if name in counts]
    steps += _no_answers(counts[others].sum())
    counts = counts.drop(columns=others).reindex(ids, fill_value=0)
    counts = counts[counts.any(axis=1)]
    return counts, counts.index.to_numpy(), steps


def _no_answers(left_out) -> list[Step]:
    words = "labels {!r}, which is no class, left out".format
    return [Step(words(name), int(n)) for name, n in left_out.items()]


def _mapped(what: str, n_cells: Tally, options: Namespace) -> list[Step]:
    """What --map changed, and in how many cells."""
    options.met.update(n_cells.keys())
    words = what + " {!r} read as {!r}, by --map"
    changes = [(old, new) for old, new in options.map.items() if old in n_cells]
    return [Step(words.format(old, new), int(n_cells[old])) for old, new in changes]


def _votes(y) -> dict[str, int]:
    """How many labels each class has; nothing where classes have no names."""
    if isinstance(y, Annotations):
        return dict(zip(y.classes.tolist(), y.counts.sum(axis=0).tolist(), strict=True))
    return {} if column_names(y, "counts") is None else y.sum().astype(int).to_dict()


def _with_unchosen(y, votes: Tally, prediction) -> tuple:
    """Labels with the classes that only the prediction names; and what is to be said of it."""
    names = column_names(prediction, "prediction")
    if names is None or not votes:
        return y, []
    classes = names.tolist()
    _check_known(votes, "labels", classes)
    absent = [name for name in classes if name not in votes]
    if isinstance(y, Annotations) or not absent:
        return y, []
    note = f"--counts has no column for {absent[:20]}: taken for classes that nobody chose."
    return y.reindex(columns=[*y.columns, *absent], fill_value=0), [note]


def _check_known(votes: Tally, what: str, classes: list) -> None:
    """ValueError that says how to mend the names of classes that the prediction does not know."""
    strange = {name: n for name, n in votes.items() if name not in classes}
    if not strange:
        return
    told = ", ".join(f"{name!r} ({n} labels)" for name, n in list(strange.items())[:20])
    alike = {_same(name): str(name) for name in classes}
    equal = {name: alike[_same(name)] for name in strange if _same(name) in alike}
    remedy = (
        "say what they are by --map OLD=NEW, or that they are no class by --not-a-class; --tidy "
        "reads 1 - mild as 1."
    )
    if len(equal) == len(strange):
        remedy = f"if they are the same but for spelling, add: {_maps(equal)}"
    raise ValueError(f"The {what} have unknown classes: {told}; known are {classes[:20]}; {remedy}")


def _same(name) -> str:
    """What two spellings of a class have in common: letters and digits, or the number."""
    with suppress(ValueError):
        return f"{float(name):g}"
    return re.sub(r"[\s\W_]+", "", str(name).casefold())


def _maps(changes: Mapping[str, str]) -> str:
    """The options --map of new names, as a command line takes them."""
    words = [f"{old}={new}" for old, new in changes.items()]
    return " ".join(f'--map "{word}"' if " " in word else f"--map {word}" for word in words)


# ----------------------------------------------------------------------------------- predictions


def _predictions(frame, votes: Tally, options: Namespace) -> tuple:
    """Named class probabilities by the names of judges, notes of them, and what --map changed."""
    frame = frame.apply(from_percent)
    if options.predicted_labels or not frame.select_dtypes(["number", "bool"]).shape[1]:
        return _hard(frame, votes, options)
    _check_numbers(frame, "proba")
    if frame.shape[1] == 1:
        if options.classes is None or len(options.classes) != 2:
            raise ValueError(
                "--proba has one column: name the two classes, --classes a b; the column holds "
                "the probability of the second."
            )
        p = frame.iloc[:, 0]
        frame = type(frame)(dict(zip(options.classes, (1 - p, p), strict=True)))
    sums = frame.sum(axis=1)
    notes = []
    if (np.abs(sums / 100 - 1) <= ROUNDED).all():
        notes = ["--proba sums to 100: it was read as per cent."]
        frame, sums = frame / 100, sums / 100
    off = np.abs(sums - 1).max()
    if 1e-6 < off <= ROUNDED + 1e-9:
        notes.append(f"--proba sums to 1 only within {off:.1g}: each case was divided by its sum.")
        frame = frame.div(sums, axis=0)
    prediction = _named(frame, "proba", options.classes)
    n_cells = prediction.count()
    prediction, renamed = _renamed(prediction, "probabilities of", n_cells, options)
    if options.ordered:
        if set(options.ordered) != set(prediction):
            own = list(prediction)
            raise ValueError(
                f"--ordered names {options.ordered}, but --proba has {own}: --map OLD=NEW."
            )
        prediction = prediction[options.ordered]
    return {"": prediction}, notes, renamed


def _hard(frame, votes: Tally, options: Namespace) -> tuple:
    """Labels as predictions, 1 for the class that is named, by the names of those who gave them."""
    import pandas as pd

    said = frame.apply(as_ids)
    renamed = _mapped("predicted labels", said.stack().value_counts(), options)
    said = said.replace(options.map)
    known = {_same(name) for name in (*votes, *(options.classes or ()))}
    if options.proba and not options.decision and not said.stack().map(_same).isin(known).any():
        own = f"its columns {list(frame)[:20]} hold text that is no class"
        raise ValueError(f"--proba has no probabilities, {own}; give a column for each class.")
    said = said.where(~said.isin(options.not_a_class))
    seen = set(votes).union(said.stack().dropna())
    alike: dict[str, list[str]] = {}
    for name in seen:
        alike.setdefault(_same(name), []).append(str(name))
    for several in alike.values():
        if len(several) > 1:
            # a comparison would be turned round
            new, *others = sorted(several, key=lambda name: (-votes.get(name, 0), name))
            changes = _maps(dict.fromkeys(others, new))
            raise ValueError(f"The classes {several} differ only in spelling; add: {changes}")
    classes = options.classes or sorted_names(list(seen)).tolist()
    predictions = {}
    for judge, labels in said.items():
        labels = labels.dropna()
        _check_known(labels.value_counts().to_dict(), "predicted-labels", classes)
        named = pd.get_dummies(labels, dtype=float)
        predictions[str(judge)] = named.reindex(columns=classes, fill_value=0.0)
    return predictions, [], renamed


# ----------------------------------------------------------------------------------------- cells


def _check_numbers(frame, what: str) -> None:
    """ValueError where a column, or a row, has something else."""
    for name in frame.select_dtypes(exclude="number"):
        raise ValueError(
            f"--{what}: column {name!r} holds text, not numbers. If it names the cases, add "
            f"--id {name}; if it says what they are, --subgroups {name}; if it is the model's own "
            f"class, --decision {name}; else drop it."
        )
    gaps = frame.isna().any(axis=1)
    if gaps.any():
        raise ValueError(f"--{what}: case {gaps.idxmax()!r} has an empty cell; fill or drop it.")


def _named(frame, what: str, classes: list[str] | None):
    """The frame with these names of columns, where it has none of its own."""
    K = frame.shape[1]
    if column_names(frame, what) is not None or (classes is None and K <= 2):
        return frame
    if classes is None or len(classes) != K:
        raise ValueError(
            f"--{what} has {K} columns without names: say what they stand for, --classes a b c …, "
            "in their order."
        )
    return frame.set_axis(classes, axis=1)


def _renamed(frame, what: str, n_cells: Tally, options: Namespace) -> tuple:
    """The frame after --map, where columns that come to one name are added; and the changes."""
    if options.map:
        frame = frame.rename(columns=options.map).T.groupby(level=0, sort=False).sum().T
    return frame, _mapped(what, n_cells, options)


def _costs(table: Table | None, changes: Mapping[str, str]):
    """A cost matrix; a first column of text names the classes."""
    if table is None:
        return None
    _check_numbers(table.values, "costs")
    if table.ids is None:
        return table.values
    return table.values.set_axis(table.ids, axis=0).rename(index=changes)
