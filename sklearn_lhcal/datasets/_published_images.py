"""Published images with many labels each: CIFAR-10H and DermaMNIST."""

import hashlib
import io
from os import PathLike

import numpy as np
from sklearn.utils import Bunch

from .._utils.checks import checked
from .._utils.types import Integers, NDArray
from ._download import PublishedFile, description, fetch

_CIFAR10H_COMMIT = "48da312b193b82e6939ec20f23d1f09cbdd849c8"
_CIFAR10H_URL = f"https://raw.githubusercontent.com/jcpeterson/cifar-10h/{_CIFAR10H_COMMIT}/data"
_CIFAR10H_SHA256 = "9b36b4550349af56c79083356312eb4af856cc5fd3caf1f669d40b9d0bbb69ff"
# bytes; the published file has 800,128
_LARGEST_CIFAR10H = 8_000_000
_CIFAR10H_FILE = "cifar10h-counts.npy"
_CIFAR10H_CLASSES = "airplane automobile bird cat deer dog frog horse ship truck"
# each sample has about 51
_CIFAR10H_RATERS = (40, 70)
# SHA256, int64, C order
_CIFAR10H_FIRST_HALF = "c677e7a514a9b967e41ba00ddde3305063dc9e034a1e19b923503ba0be0909fb"


@checked
def fetch_cifar10h(
    *,
    data_home: str | PathLike | None = None,
    download_if_missing: bool = True,
    base_url: str = _CIFAR10H_URL,
    checksum: str | None = None,
    timeout: float = 30.0,
) -> Bunch:
    """CIFAR-10H, downloaded once: how many of about 51 people chose each class for the test images
    of CIFAR-10.

    One small file goes into scikit-learn's data home; the images are not part of it. It is
    downloaded beside its place, checked, and only then renamed: a broken download leaves nothing
    behind, and nothing is resumed. Whenever it is read, the digest of the whole file is compared
    with that of the published one.

    Parameters
    ----------
    data_home : str or path-like, optional
        Folder of the data; None: that of :func:`sklearn.datasets.get_data_home`.
    download_if_missing : bool, default=True
        False: an error if the file is not there, instead of a download.
    base_url : str
        Where ``cifar10h-counts.npy`` is found: the folder of the authors' repository, or of a copy;
        an address that begins with https, http or file.
    checksum : str, optional
        SHA256 of the file, in hexadecimal digits, which it must have. None: that of the published
        file. A copy that was saved anew needs its own; its counts are checked as far as they are
        known.
    timeout : float, default=30.0
        Seconds without an answer after which the download is given up; all of it may take ten
        times as long.

    Returns
    -------
    Bunch
        - ``counts`` : ndarray of shape (10000, 10), int64; people who chose each class; samples in
          CIFAR-10's order
        - ``target_names`` : ndarray of shape (10,), str; the classes, in the order of CIFAR-10
        - ``DESCR`` : str; source and licence (CC BY-NC-SA 4.0)

    Raises
    ------
    OSError
        The file may not or cannot be downloaded (the message says what to put where), is truncated,
        or another one.
    ValueError
        An address with another scheme, a checksum that is none, a timeout that is not positive.

    References
    ----------
    Peterson, Battleday, Griffiths and Russakovsky (2019), Human uncertainty makes classification
    more robust, ICCV.

    Examples
    --------
    >>> fetch_cifar10h().counts.shape  # doctest: +SKIP
    (10000, 10)
    """
    file = PublishedFile(_CIFAR10H_FILE, _CIFAR10H_SHA256, "sha256", _LARGEST_CIFAR10H, _counts_of)
    counts = fetch(file, data_home, download_if_missing, base_url, checksum, timeout)
    names = np.array(_CIFAR10H_CLASSES.split())
    return Bunch(counts=counts, target_names=names, DESCR=description("cifar10h"))


def _counts_of(data: bytes) -> Integers:
    """Counts of shape (10000, 10), checked."""
    try:
        counts = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception as error:
        # a header may ask for anything
        raise OSError(f"is truncated or no .npy file: {error}.") from error
    if problem := _problem_of_cifar10h(counts):
        raise OSError(f"does not hold the counts of CIFAR-10H: {problem}.")
    return counts.astype(np.int64)


def _problem_of_cifar10h(counts) -> str | None:
    """What tells an array from the counts of CIFAR-10H; None if nothing does."""
    if getattr(counts, "shape", None) != (10_000, 10) or counts.dtype.kind not in "iuf":
        return "it is no array of numbers of shape (10000, 10)"
    if not np.isfinite(counts).all() or (counts < 0).any() or (counts != np.floor(counts)).any():
        return "some are no whole numbers, or negative"
    raters, (low, high) = counts.sum(axis=1), _CIFAR10H_RATERS
    if raters.min() < low or raters.max() > high:
        return f"samples have {raters.min():g} to {raters.max():g} raters, expected about 51"
    if hashlib.sha256(counts[:5_000].astype("<i8").tobytes()).hexdigest() != _CIFAR10H_FIRST_HALF:
        return "its first 5,000 samples are not those that were published"
    return None


_DERMAMNIST_URL = "https://zenodo.org/records/10519652/files"
# The authors publish this digest, and no other.
_DERMAMNIST_MD5 = "0744692d530f8e62ec473284d019b0c7"
_UNPACKED = 50_000_000
_DERMAMNIST_CLASSES = (
    "actinic keratoses and intraepithelial carcinoma",
    "basal cell carcinoma",
    "benign keratosis-like lesions",
    "dermatofibroma",
    "melanoma",
    "melanocytic nevi",
    "vascular lesions",
)
_DERMAMNIST_ROWS = {"train": 7_007, "val": 1_003, "test": 2_005}


@checked
def fetch_dermamnist(
    *,
    data_home: str | PathLike | None = None,
    download_if_missing: bool = True,
    base_url: str = _DERMAMNIST_URL,
    checksum: str | None = None,
    timeout: float = 30.0,
) -> Bunch:
    """DermaMNIST, downloaded once: 10,015 small images of skin lesions, of seven kinds.

    One file of about 20 MB goes into scikit-learn's data home, as `fetch_cifar10h` does it.
    Whenever it is read, its digest is compared with the published one, an MD5. That finds broken
    files, but no forged ones: against these give a `checksum` that you trust.

    Parameters
    ----------
    data_home : str or path-like, optional
        Folder of the data; None: that of :func:`sklearn.datasets.get_data_home`.
    download_if_missing : bool, default=True
        False: an error if the file is not there, instead of a download.
    base_url : str
        Where ``dermamnist.npz`` is found: an address that begins with https, http or file.
    checksum : str, optional
        SHA256 of the file, in hexadecimal digits, which it must have. None: the published MD5.
    timeout : float, default=30.0
        Seconds without an answer after which the download is given up; all of it may take ten
        times as long.

    Returns
    -------
    Bunch
        For each part of ``train`` (7,007 samples), ``val`` (1,003) and ``test`` (2,005):

        - ``images_<part>`` : ndarray of shape (n, 28, 28, 3), uint8; rows, columns, colours
        - ``target_<part>`` : ndarray of shape (n,), int64; numbers of classes

        and ``target_names``, ndarray of shape (7,), and ``DESCR``, with source and licence (CC
        BY-NC 4.0).

    Raises
    ------
    OSError
        The file may not or cannot be downloaded (the message says what to put where), is truncated,
        or another one.
    ValueError
        An address with another scheme, a checksum that is none, a timeout that is not positive.

    References
    ----------
    Yang et al. (2023), MedMNIST v2, Scientific Data 10. Tschandl, Rosendahl and Kittler (2018), The
    HAM10000 dataset, Scientific Data 5.

    Examples
    --------
    >>> fetch_dermamnist().images_train.shape  # doctest: +SKIP
    (7007, 28, 28, 3)
    """
    file = PublishedFile("dermamnist.npz", _DERMAMNIST_MD5, "md5", 40_000_000, _parts_of)
    parts = fetch(file, data_home, download_if_missing, base_url, checksum, timeout)
    return Bunch(
        **parts, target_names=np.array(_DERMAMNIST_CLASSES), DESCR=description("dermamnist")
    )


def _parts_of(data: bytes) -> dict[str, NDArray]:
    """Images and labels by the names of the bunch, checked."""
    results = {}
    for part, n in _DERMAMNIST_ROWS.items():
        images, labels = _arrays(data, f"{part}_images", f"{part}_labels")
        if images.shape != (n, 28, 28, 3) or images.dtype != np.uint8:
            raise OSError(f"does not hold DermaMNIST: {part}_images are no {n} images of 28 x 28.")
        target = labels.astype(np.int64).ravel()
        if len(target) != n or not ((target >= 0) & (target < len(_DERMAMNIST_CLASSES))).all():
            raise OSError(f"does not hold DermaMNIST: {part}_labels are no {n} classes of seven.")
        results[f"images_{part}"] = images
        results[f"target_{part}"] = target
    return results


def _arrays(data: bytes, *names: str) -> list[NDArray]:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            if sum(part.file_size for part in file.zip.infolist()) > _UNPACKED:
                raise OSError(f"it unpacks to more than {_UNPACKED} bytes")
            return [file[name] for name in names]
    except Exception as error:
        # a header may ask for anything
        raise OSError(f"is truncated or no .npz file of DermaMNIST: {error}.") from error
