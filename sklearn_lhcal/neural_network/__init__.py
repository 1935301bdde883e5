"""Neural networks on label histograms.

A classifier, losses and penalties, and features of hidden layers.
"""

from ._decision_losses import DirectLoss, MarginRescalingLoss
from ._features import LayerFeatures
from ._losses import BrierLoss, DirichletMultinomialLoss, FocalLoss, LabelLogLoss, PairwiseLoss
from ._neural_classifier import NeuralClassifier
from ._penalties import KernelCalibrationPenalty, MMCEPenalty, SharpnessPenalty

__all__ = [
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
    "PairwiseLoss",
    "SharpnessPenalty",
]
