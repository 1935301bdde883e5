"""Distributions over class probabilities: moments, disagreement, uncertainty, and posteriors.

A distribution is a batch of n samples, each of which is a random point of the simplex. It is
immutable.
"""

from ._base import Distribution, PointMass
from ._dirichlet import Dirichlet
from ._label_policy import LabelPolicy, allocate_labels, label_policy
from ._logistic_normal import LogisticNormal
from ._mixture import DirichletMixture, Ensemble, Mixture
from ._predict import predict_dist, predict_epistemic, second_opinion_value

__all__ = [
    "Dirichlet",
    "DirichletMixture",
    "Distribution",
    "Ensemble",
    "LabelPolicy",
    "LogisticNormal",
    "Mixture",
    "PointMass",
    "allocate_labels",
    "label_policy",
    "predict_dist",
    "predict_epistemic",
    "second_opinion_value",
]
