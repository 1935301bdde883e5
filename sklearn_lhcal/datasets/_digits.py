"""Handwritten digits, half of them mixed in pairs."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.utils import Bunch, check_random_state

from .._utils.checks import checked
from .._utils.types import Seed
from ._description import description
from ._made import check_raters, draw_counts
from ._mixed import mixed_pairs

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
    raters = int(check_raters(raters, 1)[0])
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
        share = np.stack([ratio, 1 - ratio], axis=1)
        X = np.einsum("ij,ijk->ik", share, pixels[pairs])
        data[f"X_{part}"] = X
        data[f"images_{part}"] = X.reshape(-1, 8, 8)
        data[f"proba_{part}"] = np.einsum("ij,ijk->ik", share, classes[pairs])
        data[f"indices_{part}"] = pairs
        data[f"ratio_{part}"] = ratio
    # Validation comes last, so that its raters change no other label.
    for part, n in (("train", 1), ("test", _TEST_RATERS), ("validation", raters)):
        data[f"counts_{part}"] = draw_counts(data[f"proba_{part}"], n, rng)
    return data
