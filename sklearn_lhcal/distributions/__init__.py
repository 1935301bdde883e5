"""Distributions over class probabilities: moments, disagreement, uncertainty, and the posterior after more labels.

A distribution is a batch of n rows; each row is a random point of the simplex. All are immutable.
"""

from ._base import Distribution as Distribution
from ._base import PointMass
from ._base import concatenate as concatenate
from ._logistic_normal import LogisticNormal
from ._mixture import Dirichlet, DirichletMixture, Ensemble
from ._mixture import Mixture as Mixture
from ._mixture import mixture_of as mixture_of
from ._predict import predict_dist, second_opinion_value
from ._predict import resolve as resolve

__all__ = [
    "Dirichlet",
    "DirichletMixture",
    "Ensemble",
    "LogisticNormal",
    "PointMass",
    "predict_dist",
    "second_opinion_value",
]
