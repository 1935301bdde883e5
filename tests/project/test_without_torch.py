"""Torch is imported only where a network, a Gaussian process, a torch loss or a tensor is."""

import pickle
import subprocess
import sys

import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from sklearn_lhcal.calibration import AlphaCalibration, DecisionCalibration, StackedCalibration
from sklearn_lhcal.datasets import make_label_histograms

# The guards of other libraries look in sys.modules: an importer that refuses leaves them alone.
BLOCKED = """
import sys
import warnings

class Refuses:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "skorch"):
            raise ImportError(f"{name} was imported")

sys.meta_path.insert(0, Refuses())
"""
EVERYTHING = """
import matplotlib
matplotlib.use("Agg")
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn_lhcal import calibration, display, metrics
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.label_histogram import Annotations, adjudication_test, fleiss_kappa
from sklearn_lhcal.report import report

data = make_label_histograms(200, n_classes=3, random_state=0)
y, z = data.counts, data.prediction
for name in (
    "TemperatureScaling", "BiasCorrectedTemperatureScaling", "VectorScaling", "MatrixScaling",
    "OrdinalScaling", "StackedCalibration", "AlphaCalibration", "ConformalClassifier",
):
    fitted = getattr(calibration, name)("proba").fit(z, y)
    fitted.predict_dist(z).disagreement()
calibration.AlphaCalibration("proba", likelihood="paper", features="logits").fit(z, y)
calibration.RiskControlledDecision("proba", 1 - np.eye(3), budget=0.9).fit(z, y).decide(z)
calibration.EpistemicCalibration(LogisticRegression()).fit(z, y)
calibration.GroupedCalibration("proba", by=lambda z: z[:, 0] > 0.5).fit(z, y).predict_dist(z)
names = np.random.default_rng(0).integers(0, 3, (200, 3))
calibration.RaterEffects("proba").fit(z, Annotations.from_matrix(names, classes=[0, 1, 2]))
fleiss_kappa(y)
metrics.confidence_interval(metrics.calibration_loss, y, z)
metrics.loss_decomposition(y, z)
display.ReliabilityDisplay.from_predictions(y, z)
report(y, z)
print("done")
"""
SAVED = """
import pickle
from pathlib import Path
for path in sys.argv[1:]:
    calibrator, X = pickle.loads(Path(path).read_bytes())
    calibrator.predict_dist(X).mean().tofile(path + ".proba")
print("done")
"""


def run(code, *args):
    code = BLOCKED + code
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True)
    assert done.stdout.endswith("done\n"), done.stderr


@pytest.mark.slow
def test_what_needs_no_tensor_imports_no_torch():
    run(EVERYTHING)


@pytest.mark.slow
def test_saved_calibrators_of_sklearn_models_load_and_predict(tmp_path):
    data = make_label_histograms(200, n_classes=3, random_state=0)
    X, y = data.prediction, data.counts
    calibrators = [
        StackedCalibration(HistGradientBoostingClassifier(max_iter=5), random_state=0),
        AlphaCalibration(LogisticRegression(), random_state=0),
        DecisionCalibration(LogisticRegression(), [[0, 1, 1], [9, 0, 1], [1, 1, 0]], inner_cv=3),
    ]
    paths = [tmp_path / f"{type(calibrator).__name__}.pickle" for calibrator in calibrators]
    for calibrator, path in zip(calibrators, paths, strict=True):
        path.write_bytes(pickle.dumps((calibrator.fit(X, y), X)))
    run(SAVED, *map(str, paths))
    for calibrator, path in zip(calibrators, paths, strict=True):
        proba = path.with_suffix(".pickle.proba").read_bytes()
        assert proba == calibrator.predict_dist(X).mean().tobytes()
