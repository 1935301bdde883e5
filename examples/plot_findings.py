"""
Fourteen findings of a chest film
=================================

A model is worse than the raters' true frequencies for 6 of 14 findings. Intervals of 95% for one
finding each would name 10, but they do not hold for all findings at once; simultaneous intervals
do. The data are **simulated**: 600 films, three raters, prevalences from 1% to 30%, and a model
that is overconfident.
"""

# %%
# Simulated films
# ---------------
# Findings of a film go together, and raters disagree: the probability of a yes is a Beta variable
# around what the model could know.
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, logit

from sklearn_lhcal.calibration import AlphaCalibration, PerFinding, TemperatureScaling
from sklearn_lhcal.label_histogram import MultiLabelCounts
from sklearn_lhcal.metrics import epistemic_loss, expected_squared_loss, per_finding

BLUE = "#0072B2"
FINDINGS = [
    *("hernia", "pneumonia", "fibrosis", "edema", "emphysema", "cardiomegaly", "thickening"),
    *("consolidation", "pneumothorax", "mass", "nodule", "atelectasis", "effusion", "infiltration"),
]
rng = np.random.default_rng(0)
prevalence = np.geomspace(0.01, 0.3, 14)
log_odds = logit(prevalence) - 0.6 + rng.normal(size=(1200, 1)) + rng.normal(size=(1200, 14))
p = expit(log_odds)
y = MultiLabelCounts(rng.binomial(3, rng.beta(6 * p, 6 * (1 - p))), asked=3, findings=FINDINGS)
prediction = expit(1.6 * log_odds + 0.3 * rng.normal(size=(1200, 14)))
calibration, test = np.arange(600), np.arange(600, 1200)
print(y[test])

# %%
# Each finding, and all together
# ------------------------------
# The epistemic loss is what the Brier score (sum over both classes) has beyond the disagreement of
# raters: 0 for a perfect model. The unbiased estimate may be negative.
table = per_finding(epistemic_loss, y[test], prediction[test], random_state=0).to_frame()
print(table.round(4).to_string())
for limit in ("low", "simultaneous_low"):
    print(f"{limit} lies above 0 for {(table[limit] > 0).sum()} of {len(table)} findings")

# %%
# The thin line is the simultaneous interval. Where it lies above 0 the model is not perfect; this
# holds for all findings at once, with an error in 5% of studies. The rarest finding, at the top,
# has an interval for few events, which is not symmetric.
fig, ax = plt.subplots(figsize=(6.5, 5), layout="constrained")
at = np.arange(14)
ax.hlines(
    at,
    table["simultaneous_low"],
    table["simultaneous_high"],
    color=BLUE,
    linewidth=1,
    label="all 14 findings together, 95%",
)
ax.hlines(at, table["low"], table["high"], color=BLUE, linewidth=4, label="one finding, 95%")
ax.plot(table["estimate"], at, "o", color="white", markeredgecolor=BLUE, markersize=6)
ax.axvline(0, color="0.5", linestyle=":")
shares = y[test].positive.sum(axis=0) / y[test].asked.sum(axis=0)
ax.set_yticks(at, [f"{name} ({share:.0%})" for name, share in zip(FINDINGS, shares, strict=True)])
ax.invert_yaxis()
ax.set(
    xlabel="epistemic loss (0 for a perfect model)",
    ylabel="finding (share of yes)",
    title="An overconfident model of 14 findings, simulated",
)
ax.legend()

# %%
# One calibrator for each finding
# -------------------------------
# `PerFinding` fits a temperature for each finding. `AlphaCalibration` adds how far raters disagree;
# findings share what they know of it, since few raters disagree about a rare one. The true value is
# α0 = 6 for all.
model = PerFinding(AlphaCalibration(TemperatureScaling("proba")))
model.fit(prediction[calibration], y[calibration])
alphas = np.exp([each.intercept_ for each in model.calibrators_])
print(f"alpha0 between {alphas.min():.1f} and {alphas.max():.1f}")

calibrated = model.predict_proba(prediction[test])
for name, z in (("uncalibrated", prediction[test]), ("calibrated", calibrated)):
    loss = per_finding(expected_squared_loss, y[test], z, random_state=0).estimate
    excess = per_finding(epistemic_loss, y[test], z, random_state=0).estimate
    print(f"{name}: mean Brier score {loss.mean():.4f}, of it epistemic {excess.mean():.4f}")
plt.show()
