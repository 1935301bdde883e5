"""Classes that have an order: grades, scores and scales."""

import numpy as np

from .._rows import Labels
from .._utils.arrays import Floats


def check_order(labels: Labels, who: str) -> None:
    """ValueError for classes of text without an order of their own; two classes need none."""
    if labels.shape[1] > 2 and not labels.has_order:
        raise ValueError(
            f"{who} needs an order of the classes, but {labels.classes.tolist()[:20]} are text: "
            "make the labels an ordered Categorical, or give Annotations or the classifier "
            "classes=[...], or pass counts and probabilities without names, whose columns are in "
            "order."
        )


def median_scores(z: Floats) -> Floats:
    """max(F_{k−1} − ½, ½ − F_k), shape (n, K): at most 0 for the median class alone.

    It falls up to the median and rises behind it, so that the classes below a threshold have no
    hole. F_k is the probability of the classes up to k.
    """
    F = np.cumsum(z, axis=1)
    F[:, -1] = 1.0
    before = np.pad(F[:, :-1], ((0, 0), (1, 0)))
    return np.maximum(before - 0.5, 0.5 - F)
