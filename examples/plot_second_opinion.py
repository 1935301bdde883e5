"""
Who needs a second opinion?
===========================

A second rater for every row is expensive, and for most rows a waste. What one more label of a row
is worth can be told beforehand: a predictive distribution over its class probabilities knows how
far the label would move it. This is `second_opinion_value`, the expected drop of the epistemic
loss, the squared distance to the true class probabilities.

It is large where the model does not know what raters would know, and small both where the model is
sure and where raters are split anyway. Two simpler rules are compared with it: the entropy of the
class probabilities, and the predicted probability that two raters disagree. Raters of the test rows
tell what was really gained.

The same for the saved predictions of any model on any data with several labels per row::

    python examples/plot_second_opinion.py --counts counts.npy --proba proba.npy

Files are .npy, .npz (with arrays "counts" and "proba") or .csv, whose header names the classes:
where both have names, they meet by name. A first column without a name or numbers names the rows.
"""

# %%
# What can be asked for
# ---------------------
# Without options the program runs on digits.
import argparse
import os
import sys
from pathlib import Path

FIGURE = Path(os.path.relpath(Path(sys.argv[0]).parent), "output", "second_opinion.png")

parser = argparse.ArgumentParser(
    description="Which rows to refer to a second rater, and what is gained."
)
add = parser.add_argument
add("--counts", metavar="FILE", help="label histograms, shape (n_samples, n_classes)")
add("--proba", metavar="FILE", help="predicted class probabilities, of the same shape")
add("--figure", type=Path, default=FIGURE, metavar="FILE")
options = parser.parse_args()
if (options.counts is None) != (options.proba is None):
    parser.error("--counts and --proba go together")

# %%
# The images
# ----------
# Digits, a third of which are two digits mixed, on which raters are split. And half of the images
# reach the model as thumbnails of 2 x 2 pixels only, while raters see the originals: there a label
# tells it much.
import matplotlib
import matplotlib.pyplot as plt
import numpy as np

from sklearn_lhcal.datasets import load_mixed_digits

matplotlib.use("Agg")


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
# Any classifier will do: here logistic regression on kernel features, trained on one label per row.
# Temperature scaling and α-calibration, on two labels per row, put a Dirichlet distribution around
# each prediction. Its concentration may depend on any feature of the row: here on whether it is a
# thumbnail.
#
# Predictions from files are calibrated in the same way, without that feature: a random half of the
# rows calibrates, the other tests.
from saved_predictions import halves
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling


def is_thumbnail(X: np.ndarray) -> np.ndarray:
    """The feature for α-calibration, shape (n, 1): 1 where the squares are uniform."""
    contrast = np.ptp(blocks(X), axis=(2, 4)).max(axis=(1, 2))
    return (contrast < 1e-9).astype(float)[:, None]


if options.counts is None:
    data = load_mixed_digits(raters=2)
    rng = np.random.default_rng(0)
    X_train = thumbnails(data.X_train, rng)
    X, counts = thumbnails(data.X_validation, rng), data.counts_validation
    X_test, counts_test = thumbnails(data.X_test, rng), data.counts_test
    kernel = Nystroem(gamma=0.1, n_components=300, random_state=0)
    classifier = make_pipeline(kernel, LogisticRegression(C=10, max_iter=1000))
    classifier.fit(X_train, data.counts_train.argmax(axis=1))
    features = is_thumbnail
else:
    classifier, (X, counts), (X_test, counts_test) = halves(options.counts, options.proba)
    features = None

model = AlphaCalibration(TemperatureScaling(FrozenEstimator(classifier)), features=features)
model.fit(X, counts)

# %%
# What one more label gains
# -------------------------
# The left panel shows the gain itself, in the order of the rule that knows its size. The dashed
# line is known before anyone is asked: where it flattens, further labels are wasted, and a price
# per label says where to stop. It can be believed as far as the solid one follows it.
#
# The right panel compares three rules, each by its share of the gain of asking about every row.
# Disagreement sends the mixed digits to the raters, who are split on them and have little to tell:
# worse than drawing rows at random. Entropy finds the thumbnails, as there are ten digits to be
# unsure of and two in a mixture, but not what they are worth. As an order of rows it does no worse
# here than the value itself: the intervals overlap everywhere.
from colours import PALETTE

from sklearn_lhcal.display import SecondOpinionDisplay

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
for ax in (left, right):
    ax.set_prop_cycle(color=PALETTE)
gain = SecondOpinionDisplay.from_estimator(
    model, X_test, counts_test, name="by second opinion value", ax=left
)
shares = [
    SecondOpinionDisplay.from_estimator(
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
options.figure.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(options.figure, dpi=150)

# %%
# Left: what is expected is what happens. Right: the value of a second opinion and entropy find the
# same rows here; disagreement does not.

# %%
# The same in numbers
# -------------------
expected, realised = gain.expected_gain[-1], gain.realised_gain[-1]
print(f"One more label for each of the {len(counts_test)} test rows lowers the epistemic loss by")
print(f"{expected:.4f} as expected, {realised:.4f} ± {gain.standard_error[-1]:.4f} in fact.\n")

FRACTIONS = [0.01, 0.05, 0.1, 0.2]
print("Share of that in the rows referred first, ± standard error")
print(f"{'':24}" + "".join(f"{f'first {fraction:.0%}':>16}" for fraction in FRACTIONS))
for display in shares:
    share = 100 * np.interp(FRACTIONS, display.fraction, display.realised_gain)
    error = 100 * np.interp(FRACTIONS, display.fraction, display.standard_error)
    cells = [f"{v:8.1f} ± {s:3.1f} %" for v, s in zip(share, error, strict=True)]
    print(f"{display.name:24}" + "".join(cells))
print(f"\nFigure: {options.figure}")
