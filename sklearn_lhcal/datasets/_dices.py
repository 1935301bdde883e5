"""DICES, downloaded once: safety of conversations, judged by many raters with names."""

import csv
import io
from functools import partial
from os import PathLike
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from .._utils.checks import checked
from ..label_histogram import Annotations
from ._download import PublishedFile, description, fetch

_URL = "https://raw.githubusercontent.com/google-research-datasets/dices-dataset/main"
_ANSWERS = ("No", "Unsure", "Yes")


class _Form(NamedTuple):
    """How many labels, items and raters a version holds."""

    ratings: int
    items: int
    raters: int


_FORMS = {"350": _Form(43_050, 350, 123), "990": _Form(72_104, 990, 173)}
_OF_ITEMS = ("context", "response", "degree_of_harm", "harm_type", "safety_gold")


@checked
def fetch_dices(
    *,
    version: Literal["350", "990"] = "350",
    question: str = "Q_overall",
    data_home: str | PathLike | None = None,
    download_if_missing: bool = True,
    base_url: str = _URL,
    checksum: str | None = None,
    timeout: float = 60.0,
) -> Bunch:
    """DICES, downloaded once: the safety of conversations, judged by raters who are known.

    In version "350" each of 123 raters judged all of 350 conversations: a crossed study. In version
    "990" 173 raters judged some 70 each of 990 conversations. The file goes into scikit-learn's
    data home; it is checked before it is kept there.

    Parameters
    ----------
    version : {"350", "990"}, default="350"
        How many conversations.
    question : str, default="Q_overall"
        Which column of answers: "Q_overall", whether the last response is unsafe for any reason, or
        another column that begins with Q2, Q3, Q4, Q5 or Q6. An empty answer is no label.
    data_home : str or path-like, optional
        Folder of the data; None: that of :func:`sklearn.datasets.get_data_home`.
    download_if_missing : bool, default=True
        False: an error if the file is not there, instead of a download.
    base_url : str
        Where the folders "350" and "990" are found: the authors' repository, or a copy; an address
        that begins with https, http or file.
    checksum : str, optional
        SHA256 of the file, in hexadecimal digits, which it must have. None: its form alone is
        checked, the numbers of labels, conversations and raters.
    timeout : float, default=60.0
        Seconds without an answer after which the download is given up; all of it may take ten
        times as long.

    Returns
    -------
    Bunch
        - ``y`` : `Annotations` of shape (n_items, 3); classes "No", "Unsure", "Yes" (unsafe)
        - ``raters`` : dict of ndarrays of shape (n_raters,); what is known of each rater, his
          "rater_gender", say, in the order of ``y.raters``
        - ``conversations`` : dict of ndarrays of shape (n_items,); texts ("context", "response")
          and experts' judgements ("degree_of_harm", …), in the order of ``y.items``
        - ``DESCR`` : str; source and licence (CC BY 4.0)

    Raises
    ------
    OSError
        The file may not or cannot be downloaded (the message says what to put where), is truncated,
        or another one.
    ValueError
        An unknown version or question, an address with another scheme, a checksum that is none, a
        timeout that is not positive.

    References
    ----------
    Aroyo and others (2023), DICES dataset: diversity in conversational AI evaluation for safety,
    NeurIPS datasets and benchmarks.

    Examples
    --------
    >>> fetch_dices(version="350").y  # doctest: +SKIP
    Annotations(350 samples, 123 raters, 43050 labels of 3 classes)
    """
    if not question.startswith(("Q_", "Q2", "Q3", "Q4", "Q5", "Q6")):
        raise ValueError(
            f"question must be 'Q_overall' or a column that begins with Q2 to Q6, got {question!r}."
        )
    form = _FORMS[version]
    name = f"diverse_safety_adversarial_dialog_{version}.csv"
    file = PublishedFile(name, None, "sha256", 500_000_000, partial(_columns, form=form))
    folder = f"{str(base_url).rstrip('/')}/{version}"
    columns = fetch(file, data_home, download_if_missing, folder, checksum, timeout)
    if question not in columns:
        known = [name for name in columns if name.startswith("Q") and not name.startswith("Q1")]
        raise ValueError(f"question {question!r} is no column; there are {known}.")
    said = [answer or None for answer in columns[question]]
    if unknown := set(columns[question]) - {*_ANSWERS, ""}:
        raise ValueError(f"question {question!r} has the answers {sorted(unknown)[:5]}.")
    item = columns["item_id"]
    rater = columns["rater_id"]
    items = np.unique(item)
    y = Annotations.from_long(item, rater, said, items=items, classes=_ANSWERS)
    of_raters = [name for name in columns if name.startswith("rater_") and name != "rater_id"]
    return Bunch(
        y=y,
        raters=_described(columns, of_raters, rater, y.raters),
        conversations=_described(columns, [k for k in _OF_ITEMS if k in columns], item, items),
        DESCR=description("dices"),
    )


def _columns(data: bytes, form: _Form) -> dict[str, NDArray]:
    """The columns of the table, checked."""
    try:
        header, *rows = csv.reader(io.StringIO(data.decode("utf-8"), newline=""))
    except (ValueError, csv.Error) as error:
        raise OSError(f"is truncated or no table: {error}.") from error
    if problem := _problem(header, rows, form):
        raise OSError(f"does not hold the labels of DICES: {problem}.")
    values = dict(zip(header, zip(*rows, strict=True), strict=True))
    # objects, because a text of each sample would be as wide as the longest
    columns = {name: np.array(column, dtype=object) for name, column in values.items()}
    for name in ("item_id", "rater_id"):
        # in the order of numbers, not of their digits
        columns[name] = columns[name].astype(np.int64)
    return columns


def _problem(header: list[str], rows: list[list[str]], form: _Form) -> str | None:
    """What tells a table from that of a version; None if nothing does."""
    lacking = {"item_id", "rater_id", "Q_overall"} - set(header)
    if lacking:
        return f"it has no columns {sorted(lacking)}"
    if len(set(header)) < len(header) or any(len(row) != len(header) for row in rows):
        return f"not all rows have {len(header)} different columns"
    if len(rows) != form.ratings:
        return f"it has {len(rows)} rows, expected {form.ratings}"
    item = header.index("item_id")
    rater = header.index("rater_id")
    pairs = [(row[item], row[rater]) for row in rows]
    if not all(name.isdecimal() and len(name) < 19 for pair in pairs for name in pair):
        return "not all items and raters are numbers"
    if len(set(pairs)) < len(pairs):
        return "a rater judged an item twice"
    result = _Form(len(rows), len({i for i, _ in pairs}), len({r for _, r in pairs}))
    if result != form:
        return f"it has {result.items} items and {result.raters} raters, expected {form[1:]}"
    return None


def _described(columns: dict, names: list[str], key: NDArray, order: NDArray) -> dict[str, NDArray]:
    """What the columns say of each item, or rater, in that order: his first sample speaks."""
    result, first = np.unique(key, return_index=True)
    rows = first[np.searchsorted(result, order)]
    return {name: np.array(columns[name][rows].tolist()) for name in names}
