"""Neural networks on label histograms: a classifier, losses, and the solvers that train torch modules."""

from ._classifier import NeuralClassifier
from ._decision_losses import DirectLoss, MarginRescalingLoss
from ._losses import DirichletMultinomialLoss, LabelLogLoss, PairwiseLoss
from ._schedule import WarmUpMultiStepLR
from ._training import LBFGS, Adam, Newton

__all__ = [
    "LBFGS",
    "Adam",
    "DirectLoss",
    "DirichletMultinomialLoss",
    "LabelLogLoss",
    "MarginRescalingLoss",
    "NeuralClassifier",
    "Newton",
    "PairwiseLoss",
    "WarmUpMultiStepLR",
]
