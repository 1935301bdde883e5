"""The page of a reader study with known truth."""

import datetime
import hashlib
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
from ._report import Report
from ._words import said

_SHOWN = {"auc": "AUC", "sensitivity": "Sensitivity", "specificity": "Specificity"}


def report_on_readings(options: Namespace) -> Report:
    """The page of the file that --readings names, its numbers, figures and tables."""
    path = Path(options.readings)
    with warnings.catch_warnings(record=True) as caught, errors_of("--readings"):
        warnings.simplefilter("always")
        readings, groups = _read(path, options.patient)
        calls = options.threshold is not None or set(readings.scores.ravel().tolist()) <= {0, 1}
        margin = options.margin if options.compare else None
        how: dict = {"compare": options.compare, "margin": margin, "groups": groups}
        how |= {"confidence_level": options.level}
        found = {"auc": reader_study(readings, **how)}
        for metric in ("sensitivity", "specificity") if calls else ():
            own = {"metric": metric, "threshold": options.threshold}
            found[metric] = reader_study(readings, **how, **own)
    about = {"found": found, "shown": _SHOWN, "version": __version__}
    drawn, verdict, values, rows = {}, [], [], []
    for metric, study in found.items():
        drawn[metric] = [drawn_by(ReaderStudyDisplay(study).plot, (4.2, 3.8), _SHOWN[metric])]
        words = said("reader_verdict", study=study, name=_SHOWN[metric])
        verdict.append({"state": said("reader_state", study=study), "words": words})
        ends = study.values | ({"difference": study.difference} if study.difference else {})
        values += [{"metric": metric, "condition": str(m)} | _ends(one) for m, one in ends.items()]
        table = study.to_frame().rename(index=str).to_dict("index")
        rows += [{"metric": metric, "reader": name} | row for name, row in table.items()]
    made = _page.images(drawn) | _page.tables({"values": values, "readers": rows})
    facts = {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    texts = "design", "results", "methods"
    data = {
        "package": {"name": "sklearn_lhcal", "version": __version__},
        "title": options.title or "Reader study",
        "date": datetime.date.today().isoformat(),
        "inputs": {"files": {} if options.sensitive else {"readings": facts}},
        "settings": {"confidence_level": options.level, "margin": margin},
        "verdict": verdict,
        "checks": [{"severity": "warning", "message": str(one.message)} for one in caught],
        "values": values,
        "readers": rows,
        "components": found["auc"].components,
        "paragraphs": {name: said(f"reader_{name}", **about) for name in texts},
        "files": sorted(made),
    }
    page = _page.filled("readings.html", data=data, pictures=drawn, **about)
    return Report(data, page, made)


def _ends(interval: Any) -> dict[str, float]:
    return dict(zip(("estimate", "low", "high"), interval[:3], strict=True))


def _read(path: Path, patient: str | None) -> tuple[Readings, Any]:
    """Readings, and the patient of each case."""
    if path.suffix == ".imrmc":
        return Readings.from_imrmc(path), None
    names = "case", "reader", "condition", patient
    table, _ = read_file(path, lambda name: name in names)
    readings = Readings.from_long(table)
    if patient is None:
        return readings, None
    if patient not in table:
        raise ValueError(f"there is no column {patient!r}, only {list(table)[:20]}.")
    return readings, table.groupby("case")[patient].first()[readings.items].to_numpy()
