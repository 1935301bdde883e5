"""Gaussian process classification: sparse variational inference on labels or label histograms."""

from ._gp_classifier import SparseGPClassifier

__all__ = ["SparseGPClassifier"]
