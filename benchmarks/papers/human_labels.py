"""Human labels: the table on CIFAR-10H.

About 51 people said which of ten classes each test image of CIFAR-10 shows: CIFAR-10H of Peterson,
Battleday, Griffiths and Russakovsky (2019). A network's class probabilities for those images are
calibrated on half of them, of which only two labels each are used, and scored on the other half
against all labels.

    PREDICTIONS=my_network.npy python benchmarks/papers/human_labels.py

`cifar10h` in ``benchmarks/lib/cifar10h.py`` says what that file holds, and what runs without it.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV

from sklearn_lhcal.calibration import (
    AlphaCalibration,
    MatrixScaling,
    PrecomputedClassifier,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_lhcal.distributions import predict_dist
from sklearn_lhcal.metrics import (
    calibration_error,
    class_disagreement_calibration_error,
    disagreement_calibration_error,
    disagreement_squared_loss,
    dispersion_error,
    epistemic_loss,
    expected_accuracy,
    expected_squared_loss,
    paired_difference,
    posterior_epistemic_loss,
)

# what benchmarks share
sys.path.insert(0, str(Path(__file__).parents[1]))
from lib.cifar10h import cifar10h, some_labels

# The data.
# A random half of the images calibrates, with two labels each, drawn without replacement; the other
# half tests, with all labels.
torch.set_num_threads(1)  # small problems are no slower so
LABELS = 2

source, counts, z = cifar10h()
rng = np.random.default_rng(0)
rows = rng.permutation(len(z))
fit, test = rows[: len(z) // 2], rows[len(z) // 2 :]
z, z_test = z[fit], z[test]
counts, counts_test = some_labels(counts[fit], LABELS, rng), counts[test]

# Four scalings, with and without α.
# none, ts, vs, ms: no, temperature, vector and matrix scaling, the last with the penalties that a
# grid search finds best. Each is fitted once and frozen: α is fitted on what it says.
PENALTIES = {"off_diagonal_penalty": [0.1, 1.0, 10.0, 100.0], "bias_penalty": [0.01, 0.1, 1.0]}

network = FrozenEstimator(PrecomputedClassifier("proba").fit(z))
matrix = GridSearchCV(MatrixScaling(network), PENALTIES, scoring="neg_label_log_loss", cv=5)
scaled = {
    "none": network,
    "ts": FrozenEstimator(TemperatureScaling(network).fit(z, counts)),
    "vs": FrozenEstimator(VectorScaling(network).fit(z, counts)),
    "ms": FrozenEstimator(matrix.fit(z, counts)),
}
# α-calibration warns of overconfident probabilities; they are the point here.
warnings.filterwarnings("ignore", "Raters of the calibration")
without, with_alpha = {}, {}
for name, model in scaled.items():
    without[name] = predict_dist(model, z_test)
    with_alpha[name] = predict_dist(AlphaCalibration(model).fit(z, counts), z_test)

# The table.
# Acc is better when large, all else when small. L: expected squared loss; CE and DE: calibration
# and dispersion error; L_φ, CE_φ and CE_φk: loss and calibration errors of predicted disagreement,
# for any two labels and class by class; EL and EL′: epistemic loss before and after one label.

METRICS = {
    "Acc": expected_accuracy,
    "L": expected_squared_loss,
    "CE": calibration_error,
    "DE": dispersion_error,
    "L_φ": disagreement_squared_loss,
    "CE_φ": disagreement_calibration_error,
    "CE_φk": class_disagreement_calibration_error,
    "EL": epistemic_loss,
    "EL′": posterior_epistemic_loss,
}
print(
    f"{source}: {len(fit)} samples with {LABELS} labels for calibration, {len(test)} samples with "
    "all labels for scores\n"
)
print(f"{'':8}" + "".join(f"{name:>9}" for name in METRICS))
for name in scaled:
    for title, dist in ((f"{name} ", without[name]), (f"{name} +α", with_alpha[name])):
        values = [metric(counts_test, dist) for metric in METRICS.values()]
        print(f"{title:8}" + "".join(f"{value:9.4f}" for value in values))

# What α changes. The change of the disagreement loss, sample by sample, with its paired interval. α
# starts from calibrated probabilities. On the simulated samples, whose prediction is overconfident,
# it is wrong without scaling: there L_φ rises from 0.200 to 0.205, and falls from 0.192 to 0.190
# after each kind of scaling.

print("\nL_φ with α minus L_φ without, and its 95% interval")
for name in scaled:
    change = paired_difference(
        disagreement_squared_loss, counts_test, with_alpha[name], without[name], random_state=0
    )
    print(f"{name:8}{change.estimate:9.4f}   {change.low:7.4f} – {change.high:7.4f}")
