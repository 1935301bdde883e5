"""Neural networks on label histograms.

A classifier, losses, and the solvers that train torch modules.
"""

from .._utils.solvers import LBFGS, Newton
from ._classifier import NeuralClassifier
from ._decision_losses import DirectLoss, MarginRescalingLoss
from ._features import LayerFeatures
from ._losses import BrierLoss, DirichletMultinomialLoss, FocalLoss, LabelLogLoss, PairwiseLoss
from ._penalties import KernelCalibrationPenalty, MMCEPenalty, SharpnessPenalty
from ._solvers import Adam

__all__ = [
    "LBFGS",
    "Adam",
    "BrierLoss",
    "DirectLoss",
    "DirichletMultinomialLoss",
    "FocalLoss",
    "KernelCalibrationPenalty",
    "LabelLogLoss",
    "LayerFeatures",
    "MMCEPenalty",
    "MarginRescalingLoss",
    "NeuralClassifier",
    "Newton",
    "PairwiseLoss",
    "SharpnessPenalty",
]
