"""The same fits and predictions on the CPU and on a GPU: seconds of each, and how far they differ.

    python benchmarks/gpu.py [--device cuda] [--rows 20000] [--epochs 5]

Everything that computes with torch runs once on each: a network with a proper loss, one with a
kernel calibration penalty, α-calibration on a hidden layer, a sparse Gaussian process, and kernel
errors. Seconds are of the clock, of fit and of prediction, after a run with few samples that is not
counted. "Apart" is the largest difference of predicted probabilities, or of the error, relative to
the larger of it and 1. Networks start from the same weights and see the same batches; float32
rounding alone may part them.
"""

import argparse
import time
import warnings

import numpy as np
import torch
from sklearn.frozen import FrozenEstimator
from torch import nn

from sklearn_lhcal.calibration import AlphaCalibration
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import predict_dist
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.metrics import kernel_calibration_error
from sklearn_lhcal.neural_network import KernelCalibrationPenalty, NeuralClassifier

K = 3


class Network(nn.Sequential):
    """Of the logits of a simulated model, two hidden layers."""

    def __init__(self):
        super().__init__(
            nn.Linear(K, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, K)
        )


def net(device: str, epochs: int, **options) -> NeuralClassifier:
    """A classifier that is trained for so many epochs."""
    return NeuralClassifier(
        Network,
        device=device,
        max_epochs=epochs,
        batch_size=256,
        lr=0.05,
        random_state=0,
        verbose=0,
        **options,
    )


def of_network(device, data, epochs):
    X, y = data
    return fitted(net(device, epochs), X, y)


def of_penalty(device, data, epochs):
    X, y = data
    return fitted(net(device, epochs, regularizer=KernelCalibrationPenalty()), X, y)


def of_layer(device, data, epochs):
    X, y = data
    half = len(X) // 2
    model = net(device, epochs).fit(X[:half], y[:half])
    calibrated = AlphaCalibration(FrozenEstimator(model), features="3")
    return fitted(calibrated, X[half:], y[half:])


def of_process(device, data, epochs):
    X, y = data
    model = SparseGPClassifier(
        n_inducing=100, max_iter=10 * epochs, device=device, random_state=0, dtype="float64"
    )
    return fitted(model, X, y)


def of_kernel_errors(device, data, epochs):
    X, y = data
    z = torch.softmax(torch.as_tensor(X, dtype=torch.float64), dim=1).numpy()
    start = time.perf_counter()
    error = kernel_calibration_error(y, z, bandwidth=0.05, device=device)
    return [time.perf_counter() - start, 0.0], np.array([error])


def fitted(model, X, y):
    """Seconds of fit and prediction, and the predicted probabilities."""
    start = time.perf_counter()
    model.fit(X, y)
    middle = time.perf_counter()
    z = predict_dist(model, X).mean()
    return [middle - start, time.perf_counter() - middle], z


CASES = {
    "network": of_network,
    "network with a kernel penalty": of_penalty,
    "α on a hidden layer": of_layer,
    "sparse Gaussian process": of_process,
    "kernel error": of_kernel_errors,
}


def simulated(n: int):
    """Logits in float32, and counts of three raters."""
    data = make_label_histograms(n, n_classes=K, n_raters=3, random_state=0)
    return np.log(np.maximum(data.prediction, 1e-6)).astype(np.float32), data.counts


def compared(device: str, n: int, epochs: int) -> list[tuple]:
    """A line a case: name, seconds of fit and prediction on both, and how far they are apart."""
    lines = []
    for name, case in CASES.items():
        case(device, simulated(200), 1)
        (cpu, z), (gpu, other) = (case(where, simulated(n), epochs) for where in ("cpu", device))
        apart = np.abs(z - other) / np.maximum(np.abs(z), 1.0)
        lines.append((name, *cpu, *gpu, float(apart.max())))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()
    if args.device.startswith("cuda") and not torch.cuda.is_available():
        parser.error("torch finds no CUDA device here; --device cpu compares the CPU with itself.")
    warnings.simplefilter("ignore")
    where = torch.cuda.get_device_name(0) if args.device.startswith("cuda") else args.device
    print(f"{args.rows} samples of {K} classes, {args.epochs} epochs, {where}")
    print(f"{'':32}{'CPU fit':>10}{'predict':>10}{'device fit':>12}{'predict':>10}{'apart':>10}")
    for name, *seconds, apart in compared(args.device, args.rows, args.epochs):
        a, b, c, d = seconds
        print(f"{name:32}{a:10.2f}{b:10.2f}{c:12.2f}{d:10.2f}{apart:10.1e}")


if __name__ == "__main__":
    main()
