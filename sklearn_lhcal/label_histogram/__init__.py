"""Label histograms: the gate for ``y``, what raters disagree on, and classifiers trained on counts."""

from ._annotations import AnnotationCounts, counts_from_annotations
from ._classifier import LabelHistogramClassifier
from ._counts import KnownProbabilities, check_counts
from ._counts import aligned_counts as aligned_counts
from ._counts import as_array as as_array
from ._counts import count_matrix as count_matrix
from ._counts import counts_for as counts_for
from ._counts import frequencies as frequencies
from ._counts import is_gap as is_gap
from ._counts import sorted_counts as sorted_counts
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
