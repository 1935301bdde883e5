"""
Five raters per text, and three seeds of a model
================================================

Five people have called each text toxic or not, and a model was trained three times. Is the model
unsure because people disagree about the text, or because it does not know?
"""

# %%
# Arrays to try it with
# ---------------------
# Yours come from ``np.load``: counts of shape (texts, classes), probabilities of shape (seeds,
# texts, classes). These are made up:
#
# .. literalinclude:: ../../examples/start_data.py
#    :pyobject: toxic_texts
from start_data import FOLDER, toxic_texts

counts, proba = toxic_texts()

# %%
# Three predictions
# -----------------
# An `Ensemble` keeps the members, and calibration is of their mixture. Averaging first is simpler
# and quicker, and forgets where members disagree.
from sklearn_lhcal import metrics
from sklearn_lhcal.calibration import AlphaCalibration, StackedCalibration
from sklearn_lhcal.distributions import Ensemble

members, fit, test = Ensemble(proba), slice(0, 1000), slice(1000, 2000)
mean = proba.mean(axis=0)
model = AlphaCalibration(StackedCalibration("proba"))
predictions = {
    "members as given": members[test],
    "members, stack + α": model.fit(members[fit], counts[fit]).predict_dist(members[test]),
    "average, stack + α": model.fit(mean[fit], counts[fit]).predict_dist(mean[test]),
}
print("Epistemic loss, and error of the predicted disagreement (95 % intervals)")
for name, prediction in predictions.items():
    cells = []
    for metric in (metrics.epistemic_loss, metrics.disagreement_calibration_error):
        found = metrics.confidence_interval(metric, counts[test], prediction, random_state=0)
        cells.append(f"{found.estimate:7.3f} ({found.low:.3f} to {found.high:.3f})")
    print(f"{name:18}" + "".join(cells))

# %%
# Where members agree that people are split, the disagreement is the texts' own. Is its size right?

# %%
# As a picture
# ------------
from sklearn_lhcal.display import DisagreementReliabilityDisplay

ax = None
colours = "#0072B2", "#009E73", "#CC79A7"  # blue, green, purple
for (name, z), color in zip(predictions.items(), colours, strict=True):
    show, look = DisagreementReliabilityDisplay.from_predictions, {"color": color}
    ax = show(counts[test], z, name=name, n_bins=6, ax=ax, line_kwargs=look).ax_
ax.figure.savefig(FOLDER / "start_seeds.png", dpi=150)

# %%
# As given, the members promise less disagreement than there is. Calibrated, both lie on the
# diagonal: of these texts, averaging first tells as much about disagreement.
