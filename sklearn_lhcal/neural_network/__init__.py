"""Losses on label histograms, and the solvers that train torch modules with them."""

from ._losses import DirichletMultinomialLoss, LabelLogLoss, PairwiseLoss
from ._training import LBFGS, Newton

__all__ = ["LBFGS", "DirichletMultinomialLoss", "LabelLogLoss", "Newton", "PairwiseLoss"]
