"""
Films or digital images: 20 radiologists
========================================

Twenty radiologists read mammograms with and without cancer, as films (SFM) and as digital images
(FFDM). On films their mean AUC was larger by 0.046; the 95% interval for new radiologists and new
cases holds 0. The scores are **real** (VIPER, CC0; Gallas et al. 2019).
"""

# %%
# The study
# ---------
# Each of four groups of cases was read by five of the radiologists: a split plot. Each of them read
# a case under both conditions.
import matplotlib.pyplot as plt

from sklearn_lhcal.datasets import load_viper_readings
from sklearn_lhcal.display import ReaderStudyDisplay
from sklearn_lhcal.label_histogram import Readings
from sklearn_lhcal.metrics import reader_study

readings = Readings.from_long(load_viper_readings())
print(f"{len(readings.truth)} cases, {readings.truth.sum()} with cancer")

# %%
# The difference of two AUCs
# --------------------------
# The margin of non-inferiority is a choice, made here for the example.
found = reader_study(readings, compare=("SFM", "FFDM"), margin=0.05)
for condition, value in found.values.items():
    print(f"{condition:5} AUC {value.estimate:.3f} ({value.low:.3f} to {value.high:.3f})")
difference = found.difference
print(f"SFM minus FFDM {difference.estimate:.3f} ({difference.low:.3f} to {difference.high:.3f})")
print(f"standard error {difference.standard_error:.4f}, p = {found.p_value:.3f}")

ReaderStudyDisplay(found).plot()

# %%
# A line is a radiologist; dashed lines fall. The published analysis of these readings, by iMRMC's
# moments, has a difference of 0.047, a standard error of 0.023 and p = 0.047. The estimate weighs
# pairs of cases there, and radiologists here. The standard error is larger here because the 20
# radiologists look more alike than chance lets them: `reader_study` then takes the variance for
# these radiologists, and the verdict at 5% differs.
published = {"difference": 0.047, "standard error": 0.023, "p": 0.047}
print("published:", published)
print(difference.notes)

# %%
# The next study
# --------------
# So many cases would show a difference of 0.05 with a probability of 80%, in a study of this
# design: each radiologist reads a quarter of them.
size = found.study_size(effect=0.05, margin=None, power=0.8, n_readers=(5, 10, 20))
for n_readers, n_cases in zip(size.n_readers, size.n_cases, strict=True):
    print(f"{n_readers:3} radiologists: {n_cases:.0f} cases")
plt.show()
