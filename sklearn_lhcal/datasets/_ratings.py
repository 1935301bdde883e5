"""Published tables of labels."""

import numpy as np
from sklearn.utils import Bunch

from .._utils.types import Integers
from ._download import description, text_of


def _digits(name: str) -> Integers:
    """The digits of each line of a table: counts of categories, or labels."""
    rows = text_of("data", f"{name}.txt").split()
    return np.array([list(row) for row in rows], dtype=np.int64)


def load_psychiatric_diagnoses() -> Bunch:
    """Diagnoses of 30 patients by 6 psychiatrists each, in 5 categories (Fleiss 1971).

    Returns
    -------
    Bunch
        - ``counts`` : ndarray of shape (30, 5), int64; how many of the six gave each diagnosis
        - ``target_names`` : ndarray of shape (5,), str
        - ``DESCR`` : str

    References
    ----------
    Fleiss (1971), Measuring nominal scale agreement among many raters, Psychological Bulletin 76
    (5), 378-382.

    Examples
    --------
    >>> load_psychiatric_diagnoses().counts.sum(axis=0)
    array([26, 26, 30, 55, 43])
    """
    names = ["depression", "personality disorder", "schizophrenia", "neurosis", "other"]
    DESCR = description("psychiatric_diagnoses")
    return Bunch(counts=_digits("psychiatric_diagnoses"), target_names=np.array(names), DESCR=DESCR)


def load_anesthesia_ratings() -> Bunch:
    """Fitness of 45 patients for an anaesthetic, rated by 5 anaesthetists (Dawid and Skene 1979).

    Each patient has 7 labels. One rater is asked three times: the labels of a sample are not all of
    independent raters.

    Returns
    -------
    Bunch
        - ``counts`` : ndarray of shape (45, 4), int64; how often each label was given, 7 a sample
        - ``annotations`` : ndarray of shape (45, 7), int64; the labels, 1 to 4
        - ``raters`` : ndarray of shape (7,), int64; whose the columns of `annotations` are:
          1, 1, 1, 2, 3, 4, 5
        - ``target_names`` : ndarray of shape (4,), int64; the labels, 1 to 4
        - ``DESCR`` : str

    References
    ----------
    Dawid and Skene (1979), Maximum likelihood estimation of observer error-rates using the EM
    algorithm, Applied Statistics 28 (1), 20-28.

    Examples
    --------
    >>> load_anesthesia_ratings().counts.sum(axis=0)
    array([127, 125,  48,  15])
    """
    # the first anaesthetist's three labels of a patient, then one of each of the others
    annotations = _digits("anesthesia_ratings")
    names = np.arange(1, 5)
    return Bunch(
        counts=(annotations[:, :, None] == names).sum(axis=1),
        annotations=annotations,
        raters=np.array([1, 1, 1, 2, 3, 4, 5]),
        target_names=names,
        DESCR=description("anesthesia_ratings"),
    )


def load_viper_readings() -> Bunch:
    """Readings of 239 mammograms by 20 radiologists under two conditions (Gallas et al. 2019).

    A split plot: each of four groups of cases was read by five radiologists, as digital images
    (FFDM) and as films (SFM), without prior images, half of the cases with cancer. License: CC0.

    Returns
    -------
    Bunch
        One reading an entry, for `Readings.from_long`:

        - ``case``, ``reader`` : ndarray of shape (2379,), str
        - ``condition`` : ndarray of shape (2379,), str; FFDM or SFM
        - ``score`` : ndarray of shape (2379,), float64; 1 to 200, recalled above 100
        - ``truth`` : ndarray of shape (2379,), int64; whether there was a cancer
        - ``DESCR`` : str

    References
    ----------
    Gallas et al. (2019), Impact of prevalence and case distribution in lab-based diagnostic imaging
    studies, Journal of Medical Imaging 6 (1), 015501.

    Examples
    --------
    >>> from sklearn_lhcal.label_histogram import Readings
    >>> Readings.from_long(load_viper_readings()).scores.shape
    (239, 40)
    """
    lines = text_of("data", "viper_readings.txt").split()
    case, reader, condition, score, truth = np.array([line.split(",") for line in lines]).T
    columns = {"case": case, "reader": reader, "condition": condition}
    numbers = {"score": score.astype(float), "truth": truth.astype(np.int64)}
    return Bunch(**columns, **numbers, DESCR=description("viper_readings"))
