"""Table 6 of P1: one label against all labels in training, MDS-1 against MDS-full.

    python benchmarks/papers/one_label.py [--seeds 10] [--labels 5] [--epochs 30]
    PREDICTIONS=cifar10h.npz python benchmarks/papers/one_label.py --human

The cells of the paper are private. Here the 1,797 digits of scikit-learn are split anew for each
seed, 60% to train, 20% to calibrate and 20% to test, and mixed in pairs within each part, so that
raters disagree. Training samples have --labels labels; a network learns from one of them, drawn at
random, or from all. Calibration samples have two, test samples ten.

With --human it is CIFAR-10H, of which PREDICTIONS holds counts and class probabilities of a
network. There are no images to train on: what learns from one label or from all, some 51, is a map
of log-probabilities, on 250 or on half of the images. The other half tests.

Printed are means over seeds, and the mean of the differences all − one with its 95% interval
(Nadeau and Bengio, for splits that share samples). Accuracy is better when large, all else when
small.
"""

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split

sys.path.append(str(Path(__file__).parents[2] / "examples"))
from saved_predictions import cifar10h, some_labels
from small_network import small_network

from sklearn_lhcal.calibration import (
    AlphaCalibration,
    MatrixScaling,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_lhcal.datasets import make_mixed_images
from sklearn_lhcal.distributions import predict_dist
from sklearn_lhcal.metrics import evaluate_methods, interval_over_splits
from sklearn_lhcal.neural_network import NeuralClassifier

MAPS = {"ts": TemperatureScaling, "vs": VectorScaling, "ms": MatrixScaling}


def digits(seed: int, n_labels: int, epochs: int):
    """Distributions of the test samples by (method, "one" or "all"), and their labels."""
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
    X, X_cal, y, y_cal = train_test_split(X, y, test_size=0.25, stratify=y, random_state=seed)
    train = make_mixed_images(X, y, n_labels, random_state=seed)
    cal = make_mixed_images(X_cal, y_cal, 2, random_state=seed)
    test = make_mixed_images(X_test, y_test, 10, random_state=seed)
    drawn = some_labels(train.counts, 1, np.random.default_rng(seed))
    found = {}
    for labels, counts in (("one", drawn), ("all", train.counts)):
        net = NeuralClassifier(
            small_network, lr=2e-3, batch_size=64, max_epochs=epochs, random_state=seed
        )
        raw = FrozenEstimator(net.fit(train.X, counts))
        scaled = FrozenEstimator(TemperatureScaling(raw).fit(cal.X, cal.counts))
        for name, model in (("Raw", raw), ("Raw+ts", scaled)):
            alpha = AlphaCalibration(model).fit(cal.X, cal.counts)
            found[name, labels] = predict_dist(model, test.X)
            found[f"{name}+α", labels] = predict_dist(alpha, test.X)
    return found, test.counts


def human(seed: int, z: np.ndarray, counts: np.ndarray):
    """The same of maps, fitted on few images or on many."""
    rng = np.random.default_rng(seed)
    fit, test = np.array_split(rng.permutation(len(z)), 2)
    drawn = some_labels(counts[fit], 1, rng)
    found = {}
    for n in (250, len(fit)):
        for labels, y in (("one", drawn), ("all", counts[fit])):
            for name, scaling in MAPS.items():
                # few images may lack a class in their one label: a sample of each comes first
                first = np.unique(drawn.argmax(axis=1), return_index=True)[1]
                rows = np.concatenate([first, np.setdiff1d(np.arange(len(fit)), first)])[:n]
                model = scaling("proba").fit(z[fit][rows], y[rows])
                found[f"{name}, {n}", labels] = predict_dist(model, z[test])
    return found, counts[test]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Table 6 of P1.")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--labels", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--human", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    # of few calibration samples, and of overconfident probabilities
    warnings.simplefilter("ignore")
    if options.human:
        source, counts, z = cifar10h()
        title, share = f"{source}, {len(z)} images, one label or all in calibration", 0.5
    else:
        title, share = f"mixed digits, one label or {options.labels} in training", 0.2
    tables = []
    for seed in range(options.seeds):
        if options.human:
            found, y = human(seed, z, counts)
        else:
            found, y = digits(seed, options.labels, options.epochs)
        methods = {f"{name} {labels}": dist for (name, labels), dist in found.items()}
        tables.append(evaluate_methods(methods, y, random_state=seed).intervals)
    print(f"{title}; {options.seeds} seeds")
    print(f"{'':12}{'':34}{'one':>8}{'all':>8}   all − one, 95 % interval")
    for name in dict.fromkeys(name for name, _ in found):
        for metric in tables[0][f"{name} one"]:
            one, many = (
                np.array([table[f"{name} {labels}"][metric].estimate for table in tables])
                for labels in ("one", "all")
            )
            change, low, high, _ = interval_over_splits(many - one, test_fraction=share)
            row = f"{name:12}{metric:34}{one.mean():8.4f}{many.mean():8.4f}"
            print(f"{row}   {change:.4f} ({low:.4f}, {high:.4f})")


if __name__ == "__main__":
    main()
