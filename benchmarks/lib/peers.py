"""Calibrators of other packages as functions: fitted to labels, they map probabilities.

scikit-learn's three methods ("sigmoid", "isotonic", "sk T"), beta calibration of betacal, of more
classes one against the rest ("beta"), Venn–Abers predictors of venn-abers, inductive for two
classes and pairwise for more ("VA"), and any calibrator of probmetrics by its name there, with the
suffix "-mix" where it smooths the labels. A package that is not installed has no names.
"""

import contextlib
import io
from functools import partial

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from sklearn_lhcal.calibration import PrecomputedClassifier

try:
    from probmetrics.calibrators import get_calibrator
except ImportError:
    get_calibrator = None
try:
    from betacal import BetaCalibration
except ImportError:
    BetaCalibration = None
try:
    from venn_abers import VennAbersCalibrator
except ImportError:
    VennAbersCalibrator = None

SKLEARN = {"sigmoid": "sigmoid", "isotonic": "isotonic", "sk T": "temperature"}
BETA = ("beta",) if BetaCalibration is not None else ()
VENN_ABERS = ("VA",) if VennAbersCalibrator is not None else ()
HAS_PROBMETRICS = get_calibrator is not None
# Classes of which Venn–Abers predictors calibrate each pair.
MOST_PAIRED = 12


def fitted_peer(name: str, proba, labels):
    """A function of probabilities, the peer of that name; `labels` are column numbers."""
    if name in SKLEARN:
        saved = FrozenEstimator(PrecomputedClassifier("proba").fit(proba))
        # one fold of all samples: the classifier is frozen, and a class may have a single one
        everything = np.arange(len(labels))
        peer = CalibratedClassifierCV(saved, method=SKLEARN[name], cv=[(everything, everything)])
        return peer.fit(proba, labels).predict_proba
    if name in VENN_ABERS:
        if proba.shape[1] > MOST_PAIRED:
            raise ValueError("too many pairs")
        return partial(venn_abers, proba, labels)
    if name in BETA:
        return one_against_rest(proba, labels)
    smoothed = name.endswith("-mix")
    with contextlib.redirect_stdout(io.StringIO()):
        peer = get_calibrator(name.removesuffix("-mix"), calibrate_with_mixture=smoothed)
        return peer.fit(proba, labels).predict_proba


def venn_abers(proba, labels, test):
    """Of a calibrator that calibrates while it predicts."""
    with contextlib.redirect_stdout(io.StringIO()):
        return VennAbersCalibrator().predict_proba(p_cal=proba, y_cal=labels, p_test=test)


def one_against_rest(proba, labels):
    """Beta calibration of each class, and then shares of the sum."""
    classes = range(proba.shape[1]) if proba.shape[1] > 2 else [1]
    p = np.clip(proba, 1e-12, 1 - 1e-12)
    each = [BetaCalibration("abm").fit(p[:, k], labels == k) for k in classes]

    def predict(z):
        z = np.clip(z, 1e-12, 1 - 1e-12)
        q = np.column_stack([one.predict(z[:, k]) for k, one in zip(classes, each, strict=True)])
        q = q if len(classes) > 1 else np.column_stack([1 - q, q])
        return q / q.sum(axis=1, keepdims=True)

    return predict
