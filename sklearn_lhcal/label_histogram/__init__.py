"""Label histograms: the gate for ``y``, disagreement of raters, classifiers trained on counts."""

from ._annotations import AnnotationCounts, counts_from_annotations
from ._classifier import LabelHistogramClassifier
from ._labels import KnownProbabilities, check_counts
from ._statistics import class_disagreement, fleiss_kappa, pairwise_disagreement, u_statistic

__all__ = [
    "AnnotationCounts",
    "KnownProbabilities",
    "LabelHistogramClassifier",
    "check_counts",
    "class_disagreement",
    "counts_from_annotations",
    "fleiss_kappa",
    "pairwise_disagreement",
    "u_statistic",
]
