"""Distributions over class probabilities: moments, disagreement, uncertainty, and the posterior after more labels.

A distribution is a batch of n rows; each row is a random point of the simplex. All are immutable.
"""

from ._base import Distribution, PointMass
from ._logistic_normal import LogisticNormal
from ._mixture import Dirichlet, DirichletMixture, Ensemble, Mixture
from ._predict import predict_dist, predict_epistemic, second_opinion_value

__all__ = [
    "Dirichlet",
    "DirichletMixture",
    "Distribution",
    "Ensemble",
    "LogisticNormal",
    "Mixture",
    "PointMass",
    "predict_dist",
    "predict_epistemic",
    "second_opinion_value",
]
