"""Data sets with several labels per row: real, semi-synthetic, and made to measure."""

import hashlib
import io
import shutil
import tempfile
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.datasets import get_data_home, load_digits
from sklearn.utils import Bunch, check_random_state

from ._simplex import softmax
from .distributions import Dirichlet

__all__ = ["fetch_cifar10h", "load_mixed_digits", "load_psychiatric_diagnoses", "make_label_histograms"]

_TEST_RATERS = 10
_PARTS = {"train": 0.6, "validation": 0.2, "test": 0.2}

_DIGITS_DESCR = """\
Mixed digits
------------

The 1,797 handwritten 8 x 8 digits that come with scikit-learn, half of them mixed in pairs, so that the class
probabilities of every row are known and raters have something to disagree on. It follows Mix-MNIST of Mimori, Sasada,
Matsui and Sato (2021), Diagnostic uncertainty calibration, section 7.

The images are first split at random into train (60 %), validation (20 %) and test (20 %); no image is in two parts.
Within each part a random half is paired, and each pair (a, b) becomes the one image r*a + (1 - r)*b, r uniform on
[0, 1], whose raters say the class of a with probability r, that of b with probability 1 - r. The other half is kept,
and its raters all say its class. So a third of the rows are mixed, as there.

=========== ====== ==== ===== ====== ===============
part        digits kept mixed rows   labels per row
=========== ====== ==== ===== ====== ===============
train       1,079  541  269   810    1
validation  359    181  89    270    `raters`
test        359    181  89    270    10
=========== ====== ==== ===== ====== ===============
"""

_DIAGNOSES_DESCR = """\
Psychiatric diagnoses
---------------------

30 patients, each diagnosed by 6 psychiatrists out of a larger pool, in 5 categories: table 1 of Fleiss (1971),
Measuring nominal scale agreement among many raters, Psychological Bulletin 76 (5), 378-382. Fleiss' kappa is 0.430.
"""

_DIAGNOSES = """
00060 03003 01401 00006 03030 20400 00402 20310 20040 00006 10050 11040 03300 10050 02031
00501 30012 51000 02040 10203 00006 01050 02013 20040 10041 05010 40002 02040 10500 00006
"""

_CIFAR10H_DESCR = """\
CIFAR-10H
---------

How many of about 51 people chose each of ten classes for each of the 10,000 test images of CIFAR-10. Peterson,
Battleday, Griffiths and Russakovsky (2019), Human uncertainty makes classification more robust, ICCV.

Source: https://github.com/jcpeterson/cifar-10h, data/cifar10h-counts.npy.
Licence: CC BY-NC-SA 4.0, https://creativecommons.org/licenses/by-nc-sa/4.0/ (no commercial use). No image is included.
"""

_CIFAR10H_URL = "https://raw.githubusercontent.com/jcpeterson/cifar-10h/master/data"
_CIFAR10H_FILE = "cifar10h-counts.npy"
_CIFAR10H_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_CIFAR10H_RATERS = (40, 70)  # each row has about 51
_CIFAR10H_FIRST_HALF = "c677e7a514a9b967e41ba00ddde3305063dc9e034a1e19b923503ba0be0909fb"  # SHA256, int64, C order


def load_mixed_digits(*, raters: int = 2, random_state=0) -> Bunch:
    """Handwritten digits, half of them mixed in pairs, with labels drawn from the known class probabilities.

    The Mix-MNIST of P1 on the 8 x 8 digits that come with scikit-learn: nothing is downloaded. Images are split first
    and mixed within each part, so that no image leaks from one part into another.

    Parameters
    ----------
    raters : int, default=2
        Labels per validation row. (Training rows have one, test rows ten.) It changes nothing but
        ``counts_validation``.
    random_state : int, RandomState instance or None, default=0
        Decides the split, the pairs, the ratios and the labels.

    Returns
    -------
    Bunch
        For each part of ``train`` (810 rows), ``validation`` (270) and ``test`` (270):

        - ``X_<part>`` : ndarray of shape (n, 64), float64 in [0, 1]; the pixels
        - ``images_<part>`` : ndarray of shape (n, 8, 8); the same memory
        - ``counts_<part>`` : ndarray of shape (n, 10), int64; how many raters said each digit
        - ``proba_<part>`` : ndarray of shape (n, 10); the true class probabilities
        - ``indices_<part>`` : ndarray of shape (n, 2); which of scikit-learn's digits were mixed (the same one twice
          in rows that are not)
        - ``ratio_<part>`` : ndarray of shape (n,); the share of the first of the two, 1 in rows that are not mixed

        and ``target_names``, ndarray of shape (10,), and ``DESCR``.

    Raises
    ------
    ValueError
        If `raters` is not a positive integer.

    References
    ----------
    Mimori, Sasada, Matsui and Sato (2021), Diagnostic uncertainty calibration, section 7 (P1).

    Examples
    --------
    >>> digits = load_mixed_digits(raters=5)
    >>> digits.X_train.shape, digits.counts_validation.sum(axis=1).max()
    ((810, 64), np.int64(5))
    """
    raters = int(_check_raters(raters, 1)[0])
    rng = check_random_state(random_state)
    source = load_digits()
    pixels, classes = source.data / 16.0, np.eye(10)[source.target]
    order = rng.permutation(len(pixels))
    ends = np.ceil(np.cumsum(list(_PARTS.values()))[:-1] * len(order)).astype(int)
    data = Bunch(target_names=source.target_names, DESCR=_DIGITS_DESCR)
    for part, images in zip(_PARTS, np.split(order, ends), strict=True):
        pairs, r = _mix(images, rng)
        a, b = pairs.T
        data[f"X_{part}"] = r[:, None] * pixels[a] + (1 - r[:, None]) * pixels[b]
        data[f"images_{part}"] = data[f"X_{part}"].reshape(-1, 8, 8)
        data[f"proba_{part}"] = r[:, None] * classes[a] + (1 - r[:, None]) * classes[b]
        data[f"indices_{part}"], data[f"ratio_{part}"] = pairs, r
    # validation comes last, so that its raters change no other label
    for part, n in (("train", 1), ("test", _TEST_RATERS), ("validation", raters)):
        data[f"counts_{part}"] = _draw_counts(data[f"proba_{part}"], n, rng)
    return data


def _mix(images: NDArray, rng) -> tuple[NDArray, NDArray[np.float64]]:
    """Pairs of shape (n, 2) and ratios of shape (n,), in random order: a quarter of the images with another quarter."""
    quarter = len(images) // 4
    a, b, kept = np.split(images, [quarter, 2 * quarter])
    pairs = np.concatenate([np.column_stack([a, b]), np.column_stack([kept, kept])])
    r = np.concatenate([rng.random_sample(quarter), np.ones(len(kept))])
    shuffled = rng.permutation(len(pairs))
    return pairs[shuffled], r[shuffled]


def make_label_histograms(
    n_samples: int = 1000,
    n_classes: int = 3,
    n_raters: int | tuple[int, int] | ArrayLike = 5,
    *,
    n_features: int = 5,
    total: float | ArrayLike = 10.0,
    class_sep: float = 2.0,
    overconfidence: float = 1.0,
    random_state=None,
) -> Bunch:
    """Label histograms with known class probabilities, and a prediction whose best calibration is known.

    Features are standard normal, scores u are linear in them, and the true class probabilities of a row are
    ``Q ~ Dirichlet(total·softmax(u))``: the features do not tell everything. Raters draw from Q. So ``softmax(u)`` is
    E[Q | X], perfectly calibrated, and `total` is the best α0 to go with it.

    Parameters
    ----------
    n_samples, n_classes : int
        Rows, and classes (two or more).
    n_raters : int, tuple (low, high) or array-like of shape (n_samples,), default=5
        Labels per row: the same for all, drawn uniformly from low to high, both included, or given row by row.
    n_features : int, default=5
        Columns of X.
    total : float or array-like of shape (n_samples,), default=10.0
        α0, how well the features tell Q: positive, and infinite where they tell it exactly.
    class_sep : float, default=2.0
        Standard deviation of the scores u: 0 makes all classes equally likely, large values the rows easy.
    overconfidence : float, default=1.0
        The prediction is ``softmax(overconfidence·u)``: 1 is calibrated, more is overconfident, and always it is the
        temperature that calibrates the prediction.
    random_state : int, RandomState instance or None, default=None
        As everywhere in scikit-learn. The same integer gives the same model (`coef`) and first rows of X, whatever
        `n_samples`: draw training and test rows together and split them.

    Returns
    -------
    Bunch
        - ``X`` : ndarray of shape (n_samples, n_features)
        - ``counts`` : ndarray of shape (n_samples, n_classes), int64; the label histograms
        - ``proba`` : ndarray of shape (n_samples, n_classes); the true class probabilities Q
        - ``prediction`` : ndarray of shape (n_samples, n_classes); what a model would predict from X
        - ``total`` : ndarray of shape (n_samples,); α0
        - ``coef`` : ndarray of shape (n_classes, n_features); the scores are ``u = X @ coef.T``

    Raises
    ------
    ValueError
        Sizes or numbers of raters below their least values, a negative or infinite `class_sep` or `overconfidence`, a
        `total` that is not positive.

    Examples
    --------
    >>> from sklearn_lhcal.metrics import epistemic_loss
    >>> data = make_label_histograms(200, n_raters=(2, 7), overconfidence=2.0, random_state=0)
    >>> data.counts.shape
    (200, 3)
    >>> bool(epistemic_loss(data.counts, data.prediction) > 0)
    True
    """
    for name, size, least in (("n_samples", n_samples, 1), ("n_classes", n_classes, 2), ("n_features", n_features, 1)):
        if size != int(size) or size < least:
            raise ValueError(f"{name} must be an integer of at least {least}, got {size!r}.")
    for name, scale in (("class_sep", class_sep), ("overconfidence", overconfidence)):
        if not 0 <= scale < np.inf:
            raise ValueError(f"{name} must be finite and not negative, got {scale!r}.")
    total = _check_total(total, n_samples)
    rng = check_random_state(random_state)
    coef = rng.standard_normal((n_classes, n_features))  # first, so that n_samples does not change it
    coef *= class_sep / np.linalg.norm(coef, axis=1, keepdims=True)
    X = rng.standard_normal((n_samples, n_features))
    raters = _check_raters(n_raters, n_samples, rng)
    u = X @ coef.T
    Q = softmax(u)
    some = np.isfinite(total)
    if some.any():
        Q[some] = Dirichlet.from_mean(Q[some], total[some]).sample(1, rng)[0]
    return Bunch(
        X=X,
        counts=_draw_counts(Q, raters, rng),
        proba=Q,
        prediction=softmax(overconfidence * u),
        total=total,
        coef=coef,
    )


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
    Fleiss (1971), Measuring nominal scale agreement among many raters, Psychological Bulletin 76 (5), 378-382.

    Examples
    --------
    >>> load_psychiatric_diagnoses().counts.sum(axis=0)
    array([26, 26, 30, 55, 43])
    """
    counts = np.array([[int(digit) for digit in row] for row in _DIAGNOSES.split()], dtype=np.int64)
    names = np.array(["depression", "personality disorder", "schizophrenia", "neurosis", "other"])
    return Bunch(counts=counts, target_names=names, DESCR=_DIAGNOSES_DESCR)


def fetch_cifar10h(
    *,
    data_home=None,
    download_if_missing: bool = True,
    base_url: str = _CIFAR10H_URL,
    checksum: str | None = None,
    timeout: float = 30.0,
) -> Bunch:
    """CIFAR-10H, downloaded once: how many of about 51 people chose each class for the test images of CIFAR-10.

    One small file goes into scikit-learn's data home; the images are not part of it. It is downloaded beside its place,
    checked, and only then renamed: a broken download leaves nothing behind, and nothing is resumed. Whenever it is read
    its form is checked and a digest of its first 5,000 rows; a `checksum` also vouches for the other half.

    Parameters
    ----------
    data_home : str or path-like, optional
        Folder of the data; None: that of :func:`sklearn.datasets.get_data_home`.
    download_if_missing : bool, default=True
        False: an error if the file is not there, instead of a download.
    base_url : str
        Where ``cifar10h-counts.npy`` is found: the folder of the authors' repository, or of a copy.
    checksum : str, optional
        SHA256 of the file, in hexadecimal digits, which it must have.
    timeout : float, default=30.0
        Seconds without an answer after which the download is given up.

    Returns
    -------
    Bunch
        - ``counts`` : ndarray of shape (10000, 10), int64; people who chose each class; rows in CIFAR-10's order
        - ``target_names`` : ndarray of shape (10,), str; the classes, in the order of CIFAR-10
        - ``DESCR`` : str; source and licence (CC BY-NC-SA 4.0)

    Raises
    ------
    OSError
        The file may not or cannot be downloaded (the message says what to put where), is truncated, or another one.

    References
    ----------
    Peterson, Battleday, Griffiths and Russakovsky (2019), Human uncertainty makes classification more robust, ICCV.

    Examples
    --------
    >>> fetch_cifar10h().counts.shape  # doctest: +SKIP
    (10000, 10)
    """
    path, url = Path(get_data_home(data_home)) / _CIFAR10H_FILE, f"{base_url.rstrip('/')}/{_CIFAR10H_FILE}"
    if path.exists():
        counts = _read_cifar10h(path, checksum, f"{path} (remove it to download it again)")
    elif download_if_missing:
        counts = _download_cifar10h(url, path, checksum, timeout)
    else:
        raise OSError(f"Data not found and `download_if_missing` is False: download {url} and put it at {path}.")
    return Bunch(counts=counts, target_names=np.array(_CIFAR10H_CLASSES), DESCR=_CIFAR10H_DESCR)


def _download_cifar10h(url: str, path: Path, checksum: str | None, timeout: float) -> NDArray[np.int64]:
    """Counts of the file at `url`, which is at `path` only once it has been checked."""
    with tempfile.TemporaryDirectory(prefix=f"{path.name}.part_", dir=path.parent) as folder:
        part = Path(folder) / path.name
        try:
            with urlopen(url, timeout=timeout) as response, part.open("wb") as file:
                shutil.copyfileobj(response, file)
                size, said = file.tell(), response.headers.get("Content-Length")
        except (OSError, HTTPException) as error:
            if isinstance(error, HTTPError):
                error.close()
            raise OSError(f"Could not download {url} ({error}). Download it elsewhere and put it at {path}.") from error
        if said is not None and size != int(said):
            raise OSError(f"The download of {url} is truncated: {size} of {said} bytes came. Try again.")
        counts = _read_cifar10h(part, checksum, f"The file at {url}")
        part.replace(path)
    return counts


def _read_cifar10h(path: Path, checksum: str | None, origin: str) -> NDArray[np.int64]:
    """Counts of shape (10000, 10), checked; `origin` is what an error calls the file."""
    content = path.read_bytes()
    if checksum is not None and (found := hashlib.sha256(content).hexdigest()) != checksum.lower():
        raise OSError(f"{origin} has the SHA256 checksum {found}, expected {checksum}.")
    try:
        counts = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise OSError(f"{origin} is truncated or no .npy file: {error}.") from error
    if problem := _problem_of_cifar10h(counts):
        raise OSError(f"{origin} does not hold the counts of CIFAR-10H: {problem}.")
    return counts.astype(np.int64)


def _problem_of_cifar10h(counts) -> str | None:
    """What tells an array from the counts of CIFAR-10H; None if nothing does."""
    if getattr(counts, "shape", None) != (10_000, 10) or counts.dtype.kind not in "iuf":
        return "it is no array of numbers of shape (10000, 10)"
    if not np.isfinite(counts).all() or (counts < 0).any() or (counts != np.floor(counts)).any():
        return "some are no whole numbers, or negative"
    raters, (low, high) = counts.sum(axis=1), _CIFAR10H_RATERS
    if raters.min() < low or raters.max() > high:
        return f"rows have {raters.min():g} to {raters.max():g} raters, expected about 51"
    if hashlib.sha256(counts[:5_000].astype("<i8").tobytes()).hexdigest() != _CIFAR10H_FIRST_HALF:
        return "its first 5,000 rows are not those that were published"
    return None


def _check_raters(raters, n_samples: int, rng=None) -> NDArray[np.int64]:
    """Raters of each row, shape (n_samples,), from a number, a range (low, high) or one number a row."""
    n = np.asarray(raters)
    if n.dtype.kind not in "iuf" or not np.isfinite(n).all() or (n != np.floor(n)).any() or (n < 1).any():
        raise ValueError(f"The number of raters must be a positive integer, got {raters!r}.")
    if isinstance(raters, tuple) and rng is not None:
        if len(raters) != 2 or raters[0] > raters[1]:
            raise ValueError(f"A range of raters must be a tuple (low, high) with low <= high, got {raters!r}.")
        return rng.randint(raters[0], raters[1] + 1, size=n_samples)
    if n.shape not in ((), (n_samples,)):
        raise ValueError(f"n_raters must be one number, a tuple (low, high), or have shape ({n_samples},): {n.shape}.")
    return np.broadcast_to(n.astype(np.int64), n_samples)


def _check_total(total, n_samples: int) -> NDArray[np.float64]:
    t = np.asarray(total, dtype=np.float64)
    if t.shape not in ((), (n_samples,)) or not (t > 0).all():
        raise ValueError(f"total must be positive: one number or shape ({n_samples},), got {total!r}.")
    return np.array(np.broadcast_to(t, n_samples))


def _draw_counts(Q: NDArray[np.float64], raters, rng) -> NDArray[np.int64]:
    """Counts of n_i labels drawn from row Q_i, shape (n, K): one binomial a class, of the labels still to be given."""
    left = np.array(np.broadcast_to(np.asarray(raters, dtype=np.int64), len(Q)))
    mass = np.cumsum(Q[:, ::-1], axis=1)[:, ::-1]  # Σ_{j≥k} Q_j: exactly Q_k in the last class that is possible
    counts = np.empty(Q.shape, dtype=np.int64)
    for k in range(Q.shape[1]):
        share = np.divide(Q[:, k], mass[:, k], out=np.zeros(len(Q)), where=mass[:, k] > 0)
        counts[:, k] = rng.binomial(left, np.minimum(share, 1.0))
        left -= counts[:, k]
    return counts
