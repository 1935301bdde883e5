"""Splitters and cross-validated predictions that respect label histograms."""

from ._balls import BallCarvingSplit
from ._carved import evaluate_epistemic
from ._cross_validation import StratifiedVotesKFold, check_cv, cross_val_predict

__all__ = [
    "BallCarvingSplit",
    "StratifiedVotesKFold",
    "check_cv",
    "cross_val_predict",
    "evaluate_epistemic",
]
