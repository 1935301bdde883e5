"""A reliability curve that is no line in log-odds, and what calibrators make of it."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from sklearn_lhcal.calibration import StackedCalibration, TemperatureScaling, VectorScaling
from sklearn_lhcal.metrics import label_log_loss

X, y = load_digits(return_X_y=True)
is_round = np.isin(y, [0, 6, 8, 9]).astype(int)
X, X_other, y, y_other = train_test_split(X, is_round, train_size=400, random_state=0)
proba = GaussianNB(var_smoothing=1e-2).fit(X, y).predict_proba(X_other)
half = len(proba) // 2
METHODS = {
    "temperature": (TemperatureScaling("proba", mixing="uniform"), "#E69F00", ":"),
    "vector": (VectorScaling("proba", mixing="uniform"), "#56B4E9", "--"),
    "stacked": (StackedCalibration("proba"), "#0072B2", "-"),
}
log_odds = np.linspace(-30, 20, 200)
grid = np.column_stack([1 / (1 + np.exp(log_odds)), 1 / (1 + np.exp(-log_odds))])

_, ax = plt.subplots(figsize=(6, 3.6))
for name, (model, color, line) in METHODS.items():
    model.fit(proba[:half], y_other[:half])
    loss = label_log_loss(y_other[half:], model.predict_proba(proba[half:]))
    # what the page says
    print(f"{name}: {loss:.3f}")
    ax.plot(log_odds, model.predict_proba(grid)[:, 1], line, color=color, label=name)
o = np.log(np.maximum(proba[:, 1], 1e-300)) - np.log(np.maximum(proba[:, 0], 1e-300))
bins = np.array_split(np.argsort(o), 12)
at = [np.median(o[b]) for b in bins]
share = np.array([y_other[b].mean() for b in bins])
error = [1.96 * np.sqrt(p * (1 - p) / len(b)) for p, b in zip(share, bins, strict=True)]
ax.errorbar(at, share, error, fmt="o", color="black", label="share of labels, a twelfth each")
ax.set(xlabel="Predicted log-odds", ylabel="Probability of a round digit", xlim=(-30, 20))
ax.legend()
