"""Which uncertainty method, with which calibration?

Three ways to predict, four ways to calibrate the class probabilities, with and without
α-calibration on top: the method table of Mimori, Sasada, Matsui and Sato (2021), Diagnostic
uncertainty calibration, section 7, on mixed digits.

- Raw: the network as it is; MCDO: Monte Carlo dropout; TTA: test-time augmentation, by shifts of up
  to half a pixel.
- none, ts, vs, ms: no, temperature, vector and matrix scaling, of every member of an ensemble
  alike.
- α: a Dirichlet distribution around each class probability, or around that of every member.

``FULL=1`` in the environment trains longer, makes 50 draws in place of 10, and adds a table for
five labels on each calibration sample."""

import os
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy.ndimage import shift
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

from sklearn_lhcal.calibration import (
    AlphaCalibration,
    MatrixScaling,
    PrecomputedClassifier,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_lhcal.datasets import load_mixed_digits
from sklearn_lhcal.distributions import Ensemble, predict_dist
from sklearn_lhcal.ensemble import MCDropoutClassifier, TestTimeAugmentationClassifier
from sklearn_lhcal.metrics import (
    calibration_error,
    class_disagreement_calibration_error,
    class_disagreement_squared_loss,
    disagreement_calibration_error,
    disagreement_squared_loss,
    dispersion_error,
    epistemic_loss,
    evaluate_methods,
    expected_accuracy,
    expected_squared_loss,
    paired_difference,
    posterior_epistemic_loss,
)
from sklearn_lhcal.neural_network import NeuralClassifier

# what benchmarks share
sys.path.insert(0, str(Path(__file__).parents[1]))
from lib.small_network import small_network

# The predictors.
# One network, trained on every image and on a shifted copy of it, so that shifts are nothing new to
# it. It is asked once, and the calibrators work on what it said: class probabilities, or draws of
# them.
torch.set_num_threads(1)  # networks so small are no slower so
FULL = os.environ.get("FULL") == "1"
EPOCHS, DRAWS = (100, 50) if FULL else (25, 10)


def shifted(X: np.ndarray, random_state) -> np.ndarray:
    """All images moved by one shift of up to half a pixel."""
    by = random_state.uniform(-0.5, 0.5, size=2)
    return shift(X.reshape(-1, 8, 8), (0, *by), order=1).reshape(X.shape)


data = load_mixed_digits()
random_state = np.random.RandomState(0)
moved = np.vstack([shifted(x, random_state) for x in data.X_train])
net = NeuralClassifier(small_network, lr=2e-3, batch_size=64, max_epochs=EPOCHS, random_state=0)
net.fit(np.vstack([data.X_train, moved]), np.vstack([data.counts_train] * 2))

frozen = FrozenEstimator(net)
ensembles = {
    "MCDO": MCDropoutClassifier(frozen, n_samples=DRAWS, random_state=0),
    "TTA": TestTimeAugmentationClassifier(frozen, shifted, n_samples=DRAWS, random_state=0),
}
parts = data.X_validation, data.X_test
said = {"Raw": [net.predict_proba(X) for X in parts]}
for name, ensemble in ensembles.items():
    # the network is frozen: only the draws are decided
    ensemble.fit(data.X_validation, np.arange(len(data.X_validation)) % 10)
    # draws stand behind the samples, so that one can take some of these
    said[name] = [np.moveaxis(ensemble.sample_proba(X), 0, 1) for X in parts]

# The calibrators.
# A classifier hands what was said to the calibrators.


class SavedDraws(ClassifierMixin, BaseEstimator):
    """An ensemble that was asked before.

    X holds its class probabilities, shape (n_samples, n_draws, n_classes).
    """

    def fit(self, X, y=None):
        self.classes_ = np.arange(X.shape[2])
        return self

    def predict_dist(self, X):
        return Ensemble(np.moveaxis(X, 1, 0))

    def predict_proba(self, X):
        return self.predict_dist(X).mean()


SCALINGS = {"ts": TemperatureScaling, "vs": VectorScaling, "ms": MatrixScaling}


def calibrated(counts) -> dict:
    """Distributions of the test samples by predictor and scaling, with "+α" where there is α.

    Calibrators are fitted on counts of the calibration samples.
    """
    # α-calibration warns of overconfident probabilities; they are the point here.
    warnings.filterwarnings("ignore", "Raters of the calibration")
    dists = {}
    for name, (X, X_test) in said.items():
        saved = PrecomputedClassifier("proba") if name == "Raw" else SavedDraws()
        saved = FrozenEstimator(saved.fit(X))
        models = {"none": saved}
        for scaling, calibrator in SCALINGS.items():
            models[scaling] = FrozenEstimator(calibrator(saved).fit(X, counts))
        for scaling, model in models.items():
            alpha = AlphaCalibration(model).fit(X, counts)
            dists[f"{name} {scaling}"] = predict_dist(model, X_test)
            dists[f"{name} {scaling} +α"] = predict_dist(alpha, X_test)
    return dists


# The posterior of an ensemble.
# After an expert's label y, members are weighted by the probability they gave it, the product of
# z_k^y_k. The code published with the paper takes the sum over classes instead, in which the K − 1
# classes not named count 1 each. It is not defined for class probabilities alone, nor for mixtures.


def published_mean_after(dist, k):
    """Members weighted, after a label of class k, by Σ_j z_j^y_j = z_k + K − 1."""
    w = dist.weights * (dist.proba[:, :, k] + dist.n_classes - 1)
    return np.einsum("sn,snk->nk", w / w.sum(axis=0), dist.proba)


def published_posterior_loss(counts, dist) -> float:
    """Epistemic loss after one label under that rule; NaN where it is not defined.

    Each label of a sample is the expert's in turn, and the others judge.
    """
    if not isinstance(dist, Ensemble):
        return np.nan
    losses, labels = [], []
    for k in range(dist.n_classes):
        named = counts[:, k] > 0
        others = counts[named]
        others[:, k] -= 1
        after = published_mean_after(dist, k)[named]
        losses.append(epistemic_loss(others, after, sample_weight=counts[named, k]))
        labels.append(counts[:, k].sum())
    return np.average(losses, weights=labels)


# The table.
# Acc is better when large, all else when small. L: expected squared loss, CE and DE: calibration
# and dispersion error of the class probabilities. CE₁ is the calibration error with p = 1 (P1 Def.
# 2), absolute distances in place of squared ones, for which there is no correction. L_φ, CE_φ: loss
# and calibration error of the predicted disagreement of two raters, L_φk and CE_φk the same class
# by class. EL: epistemic loss, the squared distance to the true probabilities; EL′: after one
# expert label, by the published rule (sum) and by ours. `evaluate_methods` makes the table, and
# an interval of each cell.
# Below it is the change of the disagreement loss by α, sample by sample, with its paired interval.
METRICS = {
    "Acc": expected_accuracy,
    "L": expected_squared_loss,
    "CE": calibration_error,
    "CE₁": partial(calibration_error, p=1, bias_correction=None),
    "DE": dispersion_error,
    "L_φ": disagreement_squared_loss,
    "CE_φ": disagreement_calibration_error,
    "L_φk": class_disagreement_squared_loss,
    "CE_φk": class_disagreement_calibration_error,
    "EL": epistemic_loss,
    "EL′ sum": published_posterior_loss,
    "EL′": posterior_epistemic_loss,
}
ORDER_2 = ["L_φ", "CE_φ", "L_φk", "CE_φk"]

counts = data.counts_test
for labels in [2, 5] if FULL else [2]:
    dists = calibrated(load_mixed_digits(raters=labels).counts_validation)
    table = evaluate_methods(dists, counts, metrics=METRICS, random_state=0)

    print(f"{labels} labels per calibration sample\n")
    estimates = table.to_frame().xs("estimate", axis=1, level=1)
    print(estimates.to_string(float_format="%.4f", na_rep="–"))

    print("\nL_φ with α minus L_φ without, and its 95% interval")
    worse = []
    for method in [name for name in dists if not name.endswith("α")]:
        alpha = f"{method} +α"
        change = paired_difference(
            disagreement_squared_loss, counts, dists[alpha], dists[method], random_state=0
        )
        print(f"{method:12}{change.estimate:9.4f}   {change.low:7.4f} – {change.high:7.4f}")
        with_alpha, without = table.intervals[alpha], table.intervals[method]
        worse += [
            (alpha, metric)
            for metric in ORDER_2
            if with_alpha[metric].estimate >= without[metric].estimate
        ]
    print(f"\nOrder-2 metrics that α makes worse: {worse or 'none'}\n")
