"""Classifiers that predict a distribution by asking many times.

They ask under dropout, of augmented inputs, or of several networks. Each offers ``sample_proba(X,
n_samples, random_state)``, class probabilities of shape (n_samples, n, K), and `predict_dist`, an
`Ensemble` of such draws.
"""

from ._classifiers import (
    DeepEnsembleClassifier,
    MCDropoutClassifier,
    TestTimeAugmentationClassifier,
)

__all__ = ["DeepEnsembleClassifier", "MCDropoutClassifier", "TestTimeAugmentationClassifier"]
