"""The calibration loss of calibrated predictions, as it is and corrected."""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_lhcal.metrics import calibration_loss

rng = np.random.default_rng(0)
usual, corrected = [], []
for _ in range(400):
    z = rng.dirichlet([1.0, 1.0, 1.0], size=500)
    y = rng.multinomial(1, z)
    usual.append(calibration_loss(y, z, bias_correction=None))
    corrected.append(calibration_loss(y, z))
# what the caption says
print(f"not corrected: {np.mean(usual):.3f} on average, {min(usual):.3f} at least")
print(f"corrected: below 0 in {np.mean(np.array(corrected) < 0):.2f} of the draws")

_, ax = plt.subplots(figsize=(6, 3))
bins = np.linspace(-0.02, 0.04, 61)
ax.hist(corrected, bins, color="#0072B2", label="bias-corrected")
ax.hist(usual, bins, color="#E69F00", hatch="//", label="plug-in")
ax.axvline(0, color="black", linestyle=":", label="the truth")
ax.set(xlabel="Squared calibration error, summed over classes", ylabel="Replicates")
ax.legend()
