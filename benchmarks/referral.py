"""Whom to refer to a second rater: which rule finds the rows where one more label gains most.

    python benchmarks/referral.py [FILE]

FILE holds human label histograms and a network's outputs, arrays "counts" and "proba" of an .npz;
without it, three made data sets. Temperature scaling and α-calibration are fitted on two labels of
each row of a random half; the gain is measured on the other half, with all its labels. Printed: the
share of the gain of referring every row that the first fifth captures, its mean over ten splits,
± two standard errors over splits (splits share rows: a lower bound of the uncertainty).
"""

import sys

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.display import SecondOpinionDisplay

RULES = ["second_opinion_value", "entropy", "disagreement"]
SPLITS = 10


def made(seed):
    """An overconfident prediction of rows whose concentration does not depend on their features."""
    data = make_label_histograms(
        4000, n_raters=10, total=3.0, overconfidence=2.0, random_state=seed
    )
    return data.counts, np.log(data.prediction)


def shares(counts, logits, seed):
    """Of each rule, the share of the gain in the first fifth."""
    rng = np.random.default_rng(seed)
    first, second = np.array_split(rng.permutation(len(counts)), 2)
    two = rng.multivariate_hypergeometric
    few = np.array([two(y, min(2, y.sum())) for y in counts[first]])
    model = AlphaCalibration(TemperatureScaling("logits")).fit(logits[first], few)
    dist = model.predict_dist(logits[second])
    for rule in RULES:
        display = SecondOpinionDisplay.from_predictions(
            counts[second], dist, rule=rule, normalize=True
        )
        plt.close(display.figure_)
        yield float(np.interp(0.2, display.fraction, display.realised_gain))


def main() -> None:
    matplotlib.use("Agg")
    if len(sys.argv) > 1:
        stored = np.load(sys.argv[1])
        sets = {sys.argv[1].rpartition("/")[2]: (stored["counts"], np.log(stored["proba"]))}
    else:
        sets = {f"made, seed {seed}": made(seed) for seed in range(3)}
    print(f"{'':28}" + "".join(f"{rule:>24}" for rule in RULES))
    for name, (counts, logits) in sets.items():
        found = np.array([list(shares(counts, logits, seed)) for seed in range(SPLITS)])
        error = 2 * found.std(axis=0, ddof=1) / np.sqrt(SPLITS)
        cells = zip(found.mean(axis=0), error, strict=True)
        print(f"{name:28}" + "".join(f"{f'{m:.3f} ± {e:.3f}':>24}" for m, e in cells))


if __name__ == "__main__":
    main()
