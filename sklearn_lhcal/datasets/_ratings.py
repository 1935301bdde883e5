"""Published tables of ratings."""

import numpy as np
from sklearn.utils import Bunch

from .._utils.arrays import Integers
from ._description import description

# The counts of each patient, a digit a category.
_DIAGNOSES = """
00060 03003 01401 00006 03030 20400 00402 20310 20040 00006 10050 11040 03300 10050 02031
00501 30012 51000 02040 10203 00006 01050 02013 20040 10041 05010 40002 02040 10500 00006
"""

# The ratings of each patient: the first anaesthetist's three, then one of each of the others.
_ANESTHESIA = """
1111111 3334334 1122122 2223121 2223222 2223322 1222111 3333433 2222223 2322223 4444444 2223343
1111111 2223212 1211111 1112111 1111111 1111111 2222221 2221322 2222222 2222221 2223222 2212222
1111111 1111111 2322222 1111111 1111111 1121121 1111111 3333233 1111111 2222222 2223232 4334343
2212232 2323233 3333432 1111111 1111111 1212111 2322222 1211111 2222222
"""


def _digits(table: str) -> Integers:
    """The digits of each word, a row a word."""
    return np.array([list(row) for row in table.split()], dtype=np.int64)


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
    return Bunch(counts=_digits(_DIAGNOSES), target_names=np.array(names), DESCR=DESCR)


def load_anesthesia_ratings() -> Bunch:
    """Fitness of 45 patients for an anaesthetic, rated by 5 anaesthetists (Dawid and Skene 1979).

    Each patient has 7 ratings. One rater is asked three times: the ratings of a row are not all of
    independent raters.

    Returns
    -------
    Bunch
        - ``counts`` : ndarray of shape (45, 4), int64; how often each rating was given, 7 a row
        - ``annotations`` : ndarray of shape (45, 7), int64; the ratings, 1 to 4
        - ``raters`` : ndarray of shape (7,), int64; whose the columns of `annotations` are:
          1, 1, 1, 2, 3, 4, 5
        - ``target_names`` : ndarray of shape (4,), int64; the ratings, 1 to 4
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
    annotations = _digits(_ANESTHESIA)
    names = np.arange(1, 5)
    return Bunch(
        counts=(annotations[:, :, None] == names).sum(axis=1),
        annotations=annotations,
        raters=np.array([1, 1, 1, 2, 3, 4, 5]),
        target_names=names,
        DESCR=description("anesthesia_ratings"),
    )
