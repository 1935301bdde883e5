"""
Which samples need a second opinion?
====================================

A fifth of the samples, those with the largest expected value of one more label, has 45% of the gain
of one more label for all. Entropy ranks as well here; the fifth with the largest predicted
disagreement has 22%, no more than a random fifth. The data are **simulated** raters of real digits.
"""

# %%
# The images
# ----------
# Half of the digits are mixed in pairs, and raters disagree about the mixtures. Half of all images
# reach the model as thumbnails of 2 x 2 pixels, while raters see the originals: there a label tells
# the model much.
import matplotlib.pyplot as plt
import numpy as np

from sklearn_lhcal.datasets import load_mixed_digits


def blocks(X: np.ndarray) -> np.ndarray:
    """Axes: image, row of squares and row in it, column of squares and column in it."""
    return X.reshape(-1, 2, 4, 2, 4)


def thumbnails(X: np.ndarray, rng) -> np.ndarray:
    """The images with a random half of them reduced to 2 x 2 grey squares."""
    means = blocks(X).mean(axis=(2, 4), keepdims=True)
    small = np.broadcast_to(means, blocks(X).shape).reshape(X.shape)
    return np.where(rng.random((len(X), 1)) < 0.5, small, X)


# %%
# The model
# ---------
# Any classifier will do: here logistic regression on kernel features, trained on one label per
# sample. A stack of scalings and α-calibration, on two labels per sample, put a Dirichlet
# distribution around each prediction. Its concentration may depend on any feature of the sample:
# here on whether it is a thumbnail.
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_lhcal.calibration import AlphaCalibration, StackedCalibration


def is_thumbnail(X: np.ndarray) -> np.ndarray:
    """The feature for α-calibration, shape (n, 1): 1 where the squares are uniform."""
    contrast = np.ptp(blocks(X), axis=(2, 4)).max(axis=(1, 2))
    return (contrast < 1e-9).astype(float)[:, None]


data = load_mixed_digits(raters=2)
rng = np.random.default_rng(0)
X_train = thumbnails(data.X_train, rng)
X, counts = thumbnails(data.X_validation, rng), data.counts_validation
X_test, counts_test = thumbnails(data.X_test, rng), data.counts_test
kernel = Nystroem(gamma=0.1, n_components=300, random_state=0)
classifier = make_pipeline(kernel, LogisticRegression(C=10, max_iter=1000))
classifier.fit(X_train, data.counts_train.argmax(axis=1))

model = AlphaCalibration(StackedCalibration(FrozenEstimator(classifier)), features=is_thumbnail)
model.fit(X, counts)

# %%
# What one more label gains
# -------------------------
# `second_opinion_value` is the expected drop of the epistemic loss, the squared distance to the
# true class probabilities, by one more label. The left panel shows the gain if the samples of
# largest value are referred first. The dashed line is known before any rater is asked.
#
# The right panel compares three rules by their share of the gain of referring all samples.
from sklearn_lhcal.display import ReferralCurveDisplay

figure, (left, right) = plt.subplots(1, 2, figsize=(7.5, 4.4), layout="constrained")
for ax in (left, right):
    ax.set_prop_cycle(color=["#0072B2", "#D55E00", "#009E73"])
gain = ReferralCurveDisplay.from_estimator(
    model, X_test, counts_test, name="by second opinion value", ax=left
).result
shares = [
    ReferralCurveDisplay.from_estimator(
        model,
        X_test,
        counts_test,
        rule=rule,
        normalize=True,
        name=f"by {rule.replace('_', ' ')}",
        ax=right,
        plot_expected=False,
    )
    for rule in ("second_opinion_value", "entropy", "disagreement")
]
plt.show()

# %%
# Left: the expected gain agrees with the realised gain. Right: the value of a second opinion and
# the entropy find the same samples here; the intervals overlap everywhere. Disagreement refers the
# mixed digits first, about which a label tells little: its first fifth is no better than a random
# order.

# %%
# The same in numbers
# -------------------
expected, realised = gain.expected_gain[-1], gain.realised_gain[-1]
print(f"One more label for each of the {len(counts_test)} test samples lowers the epistemic loss")
print(
    f"by {expected:.4f} as expected, by {realised:.4f} ± {gain.standard_error[-1]:.4f} in fact.\n"
)

FRACTIONS = [0.01, 0.05, 0.1, 0.2]
print("Share of that in the samples referred first, ± standard error")
print(f"{'':24}" + "".join(f"{f'first {fraction:.0%}':>16}" for fraction in FRACTIONS))
for display in shares:
    share = 100 * np.interp(FRACTIONS, display.result.fraction, display.result.realised_gain)
    error = 100 * np.interp(FRACTIONS, display.result.fraction, display.result.standard_error)
    cells = [f"{v:8.1f}% ± {s:3.1f}" for v, s in zip(share, error, strict=True)]
    print(f"{display.name:24}" + "".join(cells))
