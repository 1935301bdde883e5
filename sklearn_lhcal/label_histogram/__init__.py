"""Label histograms: the gate for ``y``, disagreement of raters, classifiers trained on counts."""

from ._adjudication import AdjudicatedRatingsWarning, AdjudicationTest, adjudication_test
from ._agreement import (
    cohen_kappa,
    conger_kappa,
    fleiss_kappa,
    gwet_ac,
    krippendorff_alpha,
    percent_agreement,
)
from ._annotations import Annotations
from ._findings import MultiLabelCounts
from ._histogram_classifier import LabelHistogramClassifier
from ._label_table import label_table
from ._labels import KnownProbabilities, check_counts
from ._readings import Readings
from ._statistics import class_disagreement, pairwise_disagreement, u_statistic

__all__ = [
    "AdjudicatedRatingsWarning",
    "AdjudicationTest",
    "Annotations",
    "KnownProbabilities",
    "LabelHistogramClassifier",
    "MultiLabelCounts",
    "Readings",
    "adjudication_test",
    "check_counts",
    "class_disagreement",
    "cohen_kappa",
    "conger_kappa",
    "fleiss_kappa",
    "gwet_ac",
    "krippendorff_alpha",
    "label_table",
    "pairwise_disagreement",
    "percent_agreement",
    "u_statistic",
]
