"""DermaMNIST, downloaded once."""

import io
from os import PathLike

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from .._utils.checks import checked
from ._description import description
from ._download import PublishedFile, fetch

_DERMAMNIST_URL = "https://zenodo.org/records/10519652/files"
_DERMAMNIST_FILE = "dermamnist.npz"
# The authors publish this digest, and no other.
_DERMAMNIST_MD5 = "0744692d530f8e62ec473284d019b0c7"
_LARGEST = 40_000_000  # bytes
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
_SHAPE = (28, 28, 3)


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
    file = PublishedFile(_DERMAMNIST_FILE, _DERMAMNIST_MD5, "md5", _LARGEST, _parts_of)
    parts = fetch(file, data_home, download_if_missing, base_url, checksum, timeout)
    return Bunch(
        **parts, target_names=np.array(_DERMAMNIST_CLASSES), DESCR=description("dermamnist")
    )


def _parts_of(data: bytes) -> dict[str, NDArray]:
    """Images and labels by the names of the bunch, checked."""
    found = {}
    for part, n in _DERMAMNIST_ROWS.items():
        images, labels = _arrays(data, f"{part}_images", f"{part}_labels")
        if images.shape != (n, *_SHAPE) or images.dtype != np.uint8:
            raise OSError(f"does not hold DermaMNIST: {part}_images are no {n} images of 28 x 28.")
        target = labels.astype(np.int64).ravel()
        if len(target) != n or not ((target >= 0) & (target < len(_DERMAMNIST_CLASSES))).all():
            raise OSError(f"does not hold DermaMNIST: {part}_labels are no {n} classes of seven.")
        found[f"images_{part}"] = images
        found[f"target_{part}"] = target
    return found


def _arrays(data: bytes, *names: str) -> list[NDArray]:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            if sum(part.file_size for part in file.zip.infolist()) > _UNPACKED:
                raise OSError(f"it unpacks to more than {_UNPACKED} bytes")
            return [file[name] for name in names]
    except Exception as error:
        # a header may ask for anything
        raise OSError(f"is truncated or no .npz file of DermaMNIST: {error}.") from error
