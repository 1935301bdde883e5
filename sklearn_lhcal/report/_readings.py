"""The page of a reader study with known truth."""

import warnings
from argparse import Namespace
from pathlib import Path
from typing import Any

from .._utils.checks import errors_of
from .._utils.files import read_file
from .._utils.version import __version__
from ..display import ReaderStudyDisplay
from ..label_histogram import Readings
from ..metrics import reader_study
from . import _page
from ._figures import drawn_by
from ._files import as_ids, facts_of, from_percent, warn_unmapped
from ._report import Report, head
from ._words import said

_SHOWN = {"auc": "AUC", "sensitivity": "Sensitivity", "specificity": "Specificity"}


def report_on_readings(options: Namespace) -> Report:
    """The page of the file that --readings names, its numbers, figures and tables."""
    path = Path(options.readings)
    margin = options.margin if options.compare else None
    with warnings.catch_warnings(record=True, action="always") as caught, errors_of("--readings"):
        readings, groups = _read(path, options)
        calls = options.threshold is not None or set(readings.scores.ravel().tolist()) <= {0, 1}
        at = dict.fromkeys(_SHOWN if calls else ["auc"], options.threshold) | {"auc": None}
        how: dict = {"compare": options.compare, "margin": margin, "groups": groups}
        how["confidence_level"] = options.level
        found = {m: reader_study(readings, metric=m, threshold=at[m], **how) for m in at}
    drawn, verdict, values, readers = {}, [], [], []
    for m, study in found.items():
        drawn[m] = [drawn_by(ReaderStudyDisplay(study).plot, (4.2, 3.8), _SHOWN[m])]
        words = said("reader_verdict", study=study, name=_SHOWN[m])
        if not options.compare:
            words += " To compare two conditions add --compare NEW OLD."
        verdict.append({"state": said("reader_state", study=study), "words": words})
        ends = study.values | ({"difference": study.difference} if study.difference else {})
        for name, found_of in ends.items():
            one = {"metric": m, "condition": str(name), **found_of._asdict()}
            one["p_value"] = study.p_value if name == "difference" else float("nan")
            values.append(one | {"notes": "; ".join(found_of.notes)})
        of_readers = study.to_frame().rename(index=str).to_dict("index")
        readers += [{"metric": m, "reader": name} | row for name, row in of_readers.items()]
    made = _page.images(drawn) | _page.tables({"values": values, "readers": readers})
    about = {"found": found, "shown": _SHOWN, "version": __version__}
    n_patients = None if options.patient is None else len(set(groups.tolist()))
    about |= {"threshold": options.threshold, "n_patients": n_patients}
    data = head(options.title or "Reader study") | {
        "inputs": {"files": {} if options.sensitive else {"readings": facts_of([path])}},
        "settings": {"confidence_level": options.level, "margin": margin},
        "verdict": verdict,
        "checks": [{"severity": "warning", "message": str(one.message)} for one in caught],
        "values": values,
        "readers": readers,
        "components": found["auc"].components,
        "paragraphs": {
            of: said(f"reader_{of}", **about) for of in ("design", "results", "methods")
        },
        "files": sorted(made),
    }
    return Report(data, _page.filled("readings.html", data=data, pictures=drawn, **about), made)


def _read(path: Path, options: Namespace) -> tuple[Readings, Any]:
    """Readings, and the patient of each case."""
    if path.suffix == ".imrmc":
        return Readings.from_imrmc(path), None
    columns = options.columns
    patient = options.patient
    names = [*columns[:3], patient]
    table, _ = read_file(path, names.__contains__, sheet=next(iter(options.sheet), None))
    absent = [name for name in (*columns, patient) if name not in (*table, None)]
    if absent:
        raise ValueError(
            f"there is no column {absent}, only {list(table)[:20]}: add --columns CASE READER "
            "CONDITION SCORE TRUTH."
        )
    case, reader, condition, score, truth = columns
    if options.map:
        renamed = [reader, condition, truth]
        known = {name for of in renamed for name in as_ids(table[of]).dropna()}
        warn_unmapped(options.map, known)
        for of in renamed:
            table[of] = as_ids(table[of]).replace(options.map)
        table[truth] = [{"0": 0, "1": 1}.get(one, one) for one in table[truth]]
    table[score] = from_percent(table[score])
    how = {"item": case, "reader": reader, "condition": condition, "score": score, "truth": truth}
    readings = Readings.from_long(table, **how)
    of_case = table.groupby(case)[patient or case].first()
    return readings, of_case[readings.items].to_numpy()
