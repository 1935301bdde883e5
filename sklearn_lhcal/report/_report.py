"""`report`: labels and saved predictions in, one page and its numbers out."""

import datetime
import html
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import chain
from pathlib import Path

import numpy as np

from .._rows import PredictionLike
from .._utils.checks import checked, take_rows
from .._utils.distances import Distance
from .._utils.types import ArrayLike, LabelsLike, Samples
from .._utils.version import __version__
from . import _cases, _page, _raters, _verdict
from ._classes import captured, of_classes, referral, subgroups
from ._figures import pictures
from ._numbers import Intervals, Number, numbers
from ._raters import raters_of
from ._study import Recalibrated, Study, read_study, recalibrate
from ._words import said

SCHEMA_VERSION = "4.1"
SETTINGS = ("confidence_level", "random_state", "sensitive", "margin")


@dataclass(frozen=True)
class Report:
    """What `report` found.

    Parameters
    ----------
    data : dict
        All of it as ``report.json`` holds it; the schema is beside the module, ``schema.json``.
    html : str
        The page: self-contained, readable without scripts and without a network. A notebook shows
        it.
    files : dict of str to bytes
        Figures (SVG, and PNG of 300 dots an inch) and tables (CSV), by the names that `save` gives
        them: ``figures/…`` and ``tables/…``.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(100, random_state=0)
    >>> made = report(data.counts, data.prediction)
    >>> made.html.startswith("<!DOCTYPE html>")
    True
    """

    data: dict
    html: str
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def status(self) -> int:
        """1 where a check of the data warns, else 0."""
        return int(any(check["severity"] != "info" for check in self.data["checks"]))

    def _repr_html_(self) -> str:
        """The page in a frame of a notebook."""
        page = html.escape(self.html)
        return (
            f'<iframe srcdoc="{page}" width="100%" height="700" sandbox="allow-scripts"></iframe>'
        )

    @checked
    def save(self, directory: str | os.PathLike) -> Path:
        """Write ``report.html``, ``report.json``, figures and tables: all or none.

        Figures and tables of a report that stood there go, other files stay.

        Parameters
        ----------
        directory : path
            It is made where it does not exist.

        Returns
        -------
        page : Path
            The file of the page.

        Raises
        ------
        OSError
            Where nothing can be written.
        """
        texts = {"report.json": _page.as_json(self.data), "report.html": self.html}
        contents = {name: text.encode("utf-8") for name, text in texts.items()}
        _page.write_together(Path(directory), {**contents, **self.files})
        return Path(directory) / "report.html"


@checked
def report(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    groups: ArrayLike | None = None,
    cost_matrix: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    ids: ArrayLike | None = None,
    subgroups: Mapping | Samples | None = None,
    distance: Distance = None,
    rater_groups: Mapping | None = None,
    margin: float = 0.05,
    title: str | None = None,
    model_name: str | None = None,
    sensitive: bool = False,
    confidence_level: float = 0.95,
    random_state: int = 0,
    inputs: dict | None = None,
    verbose: bool = False,
) -> Report:
    """One page about saved predictions: are they right, and where do raters disagree?

    The page begins with one verdict, which the mean of confidence minus accuracy decides: see the
    guide. Then come the cases, the calibration of the probabilities, of all classes and of each,
    sensitivity and the like, the raters, the parts of the loss, the cases to refer, paragraphs for
    a paper and what reporting guidelines ask. Intervals hold for these raters and new cases; where
    raters are named, the verdict has one for new raters too.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes, and `Annotations`; samples that were not used for training.
    prediction : array-like of shape (n_samples, n_classes) or Distribution
        Saved class probabilities of these samples.
    groups : array-like of shape (n_samples,), optional
        Samples of one group (a patient, say) are dependent: they stay together in folds and
        intervals.
    cost_matrix : array-like or frame of shape (n_classes, n_decisions), optional
        Cost of each decision under each class, as in `sklearn_lhcal.metrics.bayes_decision`.
    classes : array-like of shape (n_classes,), optional
        Names of the columns of a bare prediction.
    ids : array-like of shape (n_samples,), optional
        Names of the samples, for the list of samples worth a second opinion. None: the items of
        `Annotations`, or the index of a frame, where it is not 0, 1, 2, …; else numbers from 0.
    subgroups : frame, or dict of array-likes of shape (n_samples,), optional
        What each case is by each column, its site or its device: the page compares them.
    distance : {"linear", "quadratic"} or array-like of shape (n_classes, n_classes), optional
        Classes that are grades, numbers, or so far apart (squared distances). The order of grades
        is that of numbers, else that of the columns of the prediction.
    rater_groups : dict or Series, optional
        From raters to groups, as in `sklearn_lhcal.metrics.rater_group_difference`: the page
        compares groups, experts with trainees say.
    margin : float, default=0.05
        By how much more often a rater may disagree with the model than with another rater, for
        the model to be "as good": a share of comparisons, 0.05 is 5 percentage points.
    title, model_name : str, optional
        What the page is called, and what it calls the model.
    sensitive : bool, default=False
        Leaves the names of samples and files out of the page and of the data.
    confidence_level : float, default=0.95
        Of all intervals.
    random_state : int, default=0
        Decides folds and blocks.
    inputs : dict, optional
        What the page says of the data's origin: names of files and their SHA-256. None: the arrays'
        own.
    verbose : bool, default=False
        Shows progress.

    Returns
    -------
    Report
        With `html`, `data` and `save`.

    Raises
    ------
    ValueError
        Whatever the metrics refuse: lengths or classes that differ, samples that do not sum to 1,
        no labels at all, `KnownProbabilities` for y.
    ImportError
        Without jinja2 and matplotlib: ``pip install 'sklearn-lhcal[report]'``.

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(300, overconfidence=3.0, random_state=0)
    >>> found = report(data.counts, data.prediction)
    >>> found.data["verdict"][0]["state"]
    'overconfident'
    """
    given = dict(locals())
    how = {name: given.pop(name) for name in ("inputs", "verbose")}
    settings = {name: given.pop(name) for name in SETTINGS}
    return report_on(read_study(**given), settings=settings, **how)


def report_on(study: Study, *, settings: dict, inputs: dict | None, verbose: bool) -> Report:
    """The page about samples that were checked."""
    _page.check_extras()
    level, seed, sensitive, margin = (settings[name] for name in SETTINGS)
    if margin >= 1:
        raise ValueError(f"margin is a share of comparisons, 0.05 is 5 points; got {margin!r}.")
    recalibrated = Recalibrated(None, "", []) if study.hard else recalibrate(study, seed)
    intervals = Intervals(study, level, seed, margin)
    with warnings.catch_warnings(record=True, action="always") as caught:
        # the page has its own words for these
        known = ".*(raters|biased upwards|the standard error|of equal size)"
        warnings.filterwarnings("ignore", message=known, category=UserWarning)
        result = numbers(intervals, recalibrated.prediction, verbose)
        raters = raters_of(intervals, sensitive)
        every = _verdict.of_findings(intervals)
        # of very many cases some do for all that follows
        intervals = intervals._replace(study=study.few)
        by_class = of_classes(intervals)
        sent = referral(intervals)
        audited, of_subgroups = subgroups(intervals)
        whole = [n for n in (*raters, *of_subgroups) if n.part is None]
        result |= {(n.quantity, n.subset): n for n in whole}
        after = take_rows(recalibrated.prediction, study.drawn)
        drawn = pictures(study.few, after, result, by_class, raters, sent, level)
    checks = _cases.checks(study, recalibrated.reason, _messages(recalibrated, caught))
    failures = [check.message for check in checks if check.severity == "failure"]
    verdict = _verdict.verdicts(result, study, failures, margin)
    settings = {**settings, "tolerance": _verdict.TOLERANCE}
    rows = _rows(
        cases=result.values(),
        classes=by_class,
        findings=chain(*every),
        referral=chain(*sent.captured.values()),
        subgroups=(n for n in of_subgroups if n.part is not None),
        raters=(n for n in raters if n.part is not None),
    )
    classes = _page.by_name(by_class)
    state_of = partial(_verdict.error_state, margin=margin)
    about = {"study": study, "settings": settings, "numbers": result}
    data = {
        "schema_version": SCHEMA_VERSION,
        **head(study.heading),
        "model_name": study.model_name,
        "inputs": _inputs(study, inputs, sensitive),
        "settings": settings,
        "verdict": verdict,
        "reconciled": _verdict.reconciled(result, verdict[0]["state"], margin),
        "checks": [check._asdict() for check in checks],
        "findings": [
            {"finding": gap.part, "state": _verdict.confidence_state(gap)} for gap, _ in every
        ],
        "flow": _cases.flow(study, sensitive),
        "numbers": [row for table in rows.values() for row in table],
        "raters": _raters.facts(raters, result, margin),
        "confusion": _raters.confusion(study),
        "disputed": _cases.disputed(study, sensitive),
        "referral": {"words": captured(sent) if sent.sent else ""},
        "subgroups": audited,
        "paragraphs": {
            "results": said("results", classes=classes, state_of=state_of, **about),
            "methods": said("methods", version=__version__, **about),
        },
    }
    files = _page.images(drawn) | _page.tables(rows | {"disputed": data["disputed"]})
    data["files"] = sorted(files)
    about |= {"data": data, "found": result, "by_class": classes, "pictures": drawn}
    return Report(data, _page.filled("page.html", **about), files)


def _rows(**tables: Iterable[Number]) -> dict[str, list[dict]]:
    """The lines of each table, an entry each."""
    return {
        name: [{"quantity": n.quantity, "unit": n.unit} | n._asdict() for n in entries]
        for name, entries in tables.items()
    }


def _messages(recalibrated: Recalibrated, caught: list) -> list[str]:
    """What was warned of, once for all folds: their messages begin alike."""
    messages = [*recalibrated.messages, *(str(one.message) for one in caught)]
    return sorted({message[:30]: message for message in messages}.values())


def head(title: str) -> dict:
    """What a page is called, who made it, and when."""
    package = {"name": "sklearn_lhcal", "version": __version__}
    return {"package": package, "title": title, "date": datetime.date.today().isoformat()}


def _inputs(study: Study, given: dict | None, sensitive: bool) -> dict:
    """What was read: shapes, classes, hashes."""
    if given is None or sensitive:
        arrays = {"counts": study.labels.counts, "proba": study.z}
        contents = {name: np.ascontiguousarray(a).tobytes() for name, a in arrays.items()}
        given = {name: {"sha256": sha256(held).hexdigest()} for name, held in contents.items()}
    return {
        "files": given,
        "shape": [len(study), len(study.classes)],
        "classes": study.classes,
        "n_labels": int(study.n_labels.sum()),
        "n_raters": study.n_raters,
        "n_groups": None if study.groups is None else study.n_groups,
        "n_rows_without_labels": study.n_dropped,
    }
