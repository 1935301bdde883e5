"""Neural networks on label histograms: a classifier, losses, and the solvers that train torch modules."""

from ._classifier import NeuralClassifier
from ._losses import DirichletMultinomialLoss, LabelLogLoss, PairwiseLoss
from ._schedule import WarmUpMultiStepLR
from ._training import LBFGS, Adam, Newton

__all__ = [
    "LBFGS",
    "Adam",
    "DirichletMultinomialLoss",
    "LabelLogLoss",
    "NeuralClassifier",
    "Newton",
    "PairwiseLoss",
    "WarmUpMultiStepLR",
]
