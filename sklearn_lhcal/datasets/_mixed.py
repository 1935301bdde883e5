"""Images mixed in pairs, so that raters have something to disagree on; and such digits."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.utils import Bunch, check_random_state

from .._utils.checks import check_same_length, checked, plain_array
from .._utils.types import ArrayLike, Floats, LabelsLike, NDArray, Seed
from ..label_histogram._labels import names_of, read_labels
from ._download import description
from ._made import check_raters, draw_counts

# Samples mixed at a time.
_BLOCK = 1_024


@checked
def make_mixed_images(
    X: ArrayLike,
    y: LabelsLike,
    n_raters: int | tuple[int, int] | ArrayLike = 1,
    *,
    mixed: float = 0.5,
    random_state: Seed = None,
) -> Bunch:
    """Images of your own mixed in pairs, with known class probabilities and labels drawn from them.

    Mix-MNIST and Mix-CIFAR of P1 (section 7) from any images. A random half of them is paired. Each
    pair (a, b) becomes the one image ``r a + (1 − r) b`` with r uniform on [0, 1], whose raters say
    the class of a with probability r and that of b with probability 1 − r. The other half is kept,
    and its raters all say its class. So a third of the samples are mixed. Split images into parts
    before, and mix each part by itself: no image is then in two parts.

    Parameters
    ----------
    X : array-like of shape (n_images, ...)
        Images, numbers of any shape. Integers of up to two bytes become float32, others float64.
    y : label histogram of shape (n_images, n_classes)
        Anything `check_counts` takes, most often one label an image. Of several the frequencies are
        its class probabilities.
    n_raters : int, tuple (low, high) or array-like of shape (n_samples,), default=1
        Labels per sample that comes out: P1 has 1 for training, 2 or 5 for validation.
    mixed : float, default=0.5
        Share of the images that are paired, from 0 to 1.
    random_state : int, RandomState instance or None, default=None
        Decides the pairs, the ratios, the order of samples and the labels. The number of raters
        changes only the labels.

    Returns
    -------
    Bunch
        n_samples is n_images minus the number of pairs.

        - ``X`` : ndarray of shape (n_samples, ...); the images
        - ``counts`` : ndarray of shape (n_samples, n_classes), int64; the label histograms
        - ``proba`` : ndarray of shape (n_samples, n_classes); the true class probabilities
        - ``indices`` : ndarray of shape (n_samples, 2); which images were mixed, the same one twice
          in samples that are not
        - ``ratio`` : ndarray of shape (n_samples,); the share r of the first of the two, 1 in
          samples that are not mixed
        - ``classes`` : ndarray of shape (n_classes,); their names

    Raises
    ------
    ValueError
        If `mixed` is no share, or the number of raters is not a positive integer.

    References
    ----------
    Mimori, Sasada, Matsui and Sato (2021), Diagnostic uncertainty calibration, section 7 (P1).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> digits = load_digits()
    >>> data = make_mixed_images(digits.images / 16, digits.target, 2, random_state=0)
    >>> data.X.shape, data.counts.shape
    ((1348, 8, 8), (1348, 10))
    """
    images = plain_array(X, "X")
    labels = read_labels(y)
    check_same_length(len(labels), X=images)
    if images.dtype.kind not in "biuf":
        raise ValueError(f"X must hold numbers, got an array of {images.dtype}.")
    rng = check_random_state(random_state)
    pairs, ratio = mixed_pairs(rng.permutation(len(images)), rng, mixed)
    raters = check_raters(n_raters, len(pairs), rng)
    proba = _mixture(labels.mu, pairs, ratio)
    return Bunch(
        X=_mixture(images, pairs, ratio),
        counts=draw_counts(proba, raters, rng),
        proba=proba,
        indices=pairs,
        ratio=ratio,
        classes=names_of(labels),
    )


def mixed_pairs(images: NDArray, rng, mixed: float = 0.5) -> tuple[NDArray, Floats]:
    """Pairs of shape (n, 2) and the share of the first of each, shape (n,), in random order.

    That share of the images is paired, rounded down to whole pairs, others with themselves.
    """
    n_pairs = int(mixed * len(images) / 2)
    a, b, kept = np.split(images, [n_pairs, 2 * n_pairs])
    pairs = np.stack([np.append(a, kept), np.append(b, kept)], axis=1)
    ratio = np.append(rng.random_sample(n_pairs), np.ones(len(kept)))
    shuffled = rng.permutation(len(pairs))
    return pairs[shuffled], ratio[shuffled]


def _mixture(images: NDArray, pairs: NDArray, ratio: Floats) -> Floats:
    """r a + (1 − r) b of each pair; what is not mixed keeps its bits."""
    dtype = np.result_type(images.dtype, np.float32)
    result = images[pairs[:, 0]].astype(dtype)
    rows = np.flatnonzero(ratio < 1)
    for begin in range(0, len(rows), _BLOCK):
        part = rows[begin : begin + _BLOCK]
        r = ratio[part].reshape(-1, *[1] * (images.ndim - 1))
        a = images[pairs[part, 0]]
        b = images[pairs[part, 1]]
        result[part] = r * a + (1 - r) * b
    return result


_TEST_RATERS = 10
# Shares of the images.
_PARTS = {"train": 0.6, "validation": 0.2, "test": 0.2}


@checked
def load_mixed_digits(*, raters: int = 2, random_state: Seed = 0) -> Bunch:
    """Handwritten digits, half of them mixed in pairs, with labels drawn from known probabilities.

    It is the Mix-MNIST of P1 on the 8 x 8 digits that come with scikit-learn: nothing is
    downloaded. Images are split first and mixed within each part, so that no image leaks from one
    part into another.

    Parameters
    ----------
    raters : int, default=2
        Labels per validation sample. It changes nothing but ``counts_validation``: training samples
        have one label, test samples ten.
    random_state : int, RandomState instance or None, default=0
        Decides the split, the pairs, the ratios and the labels.

    Returns
    -------
    Bunch
        For each part of ``train`` (810 samples), ``validation`` (270) and ``test`` (270):

        - ``X_<part>`` : ndarray of shape (n, 64), float64 in [0, 1]; the pixels
        - ``images_<part>`` : ndarray of shape (n, 8, 8); the same memory
        - ``counts_<part>`` : ndarray of shape (n, 10), int64; how many raters said each digit
        - ``proba_<part>`` : ndarray of shape (n, 10); the true class probabilities
        - ``indices_<part>`` : ndarray of shape (n, 2); which of scikit-learn's digits were mixed,
          the same one twice in samples that are not
        - ``ratio_<part>`` : ndarray of shape (n,); the share of the first of the two, 1 in samples
          that are not mixed

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
    rng = check_random_state(random_state)
    source = load_digits()
    pixels = source.data / 16.0
    classes = np.eye(10)[source.target]
    order = rng.permutation(len(pixels))
    shares = np.cumsum(list(_PARTS.values()))
    ends = np.ceil(shares[:-1] * len(order)).astype(int)
    data = Bunch(target_names=source.target_names, DESCR=description("mixed_digits"))
    for part, images in zip(_PARTS, np.split(order, ends), strict=True):
        pairs, ratio = mixed_pairs(images, rng)
        X = _mixture(pixels, pairs, ratio)
        data[f"X_{part}"] = X
        data[f"images_{part}"] = X.reshape(-1, 8, 8)
        data[f"proba_{part}"] = _mixture(classes, pairs, ratio)
        data[f"indices_{part}"] = pairs
        data[f"ratio_{part}"] = ratio
    # Validation comes last, so that its raters change no other label.
    for part, n in (("train", 1), ("test", _TEST_RATERS), ("validation", raters)):
        data[f"counts_{part}"] = draw_counts(data[f"proba_{part}"], n, rng)
    return data
