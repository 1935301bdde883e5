"""What runs on a GPU: seconds on both devices, and how far the results are apart.

    python benchmarks/devices.py

Training a network with and without the kernel penalty, draws of MC dropout, a Gaussian process, and
the kernel calibration error, on the CPU and on the first CUDA device. Each is run twice and timed
the second time. Without a CUDA device only the CPU's seconds are printed. The difference is the
largest one of class probabilities, of draws, or of the error. Training in float32 sums in another
order on a GPU, and a difference of .01 is no fault there; seeded dropout masks are the same on both
devices. In float64 the Gaussian process and the error should agree to 1e-6."""

import time
from collections.abc import Callable

import numpy as np
import torch
from sklearn.frozen import FrozenEstimator
from torch import nn

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.ensemble import MCDropoutClassifier
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.metrics import kernel_calibration_error
from sklearn_lhcal.neural_network import KernelCalibrationPenalty, NeuralClassifier

N_ROWS, N_FEATURES = 20_000, 100
data = make_label_histograms(N_ROWS, 10, n_features=N_FEATURES, n_raters=3, random_state=0)
X = data.X.astype(np.float32)


def network():
    wide = nn.Linear(N_FEATURES, 512), nn.ReLU(), nn.Dropout(0.3)
    return nn.Sequential(*wide, nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def trained(device: str, **options) -> NeuralClassifier:
    net = NeuralClassifier(
        network, max_epochs=2, batch_size=512, device=device, random_state=0, **options
    )
    return net.fit(X, data.counts)


def training(device: str):
    return trained(device).predict_proba(X)


def training_with_penalty(device: str):
    penalty = KernelCalibrationPenalty(bandwidth=0.1)
    return trained(device, regularizer=penalty).predict_proba(X)


torch.manual_seed(0)
WEIGHTS = network().state_dict()


def dropout_draws(device: str):
    """Of one network, with the same weights on both devices."""
    module = network()
    module.load_state_dict(WEIGHTS)
    net = NeuralClassifier.from_trained(module, list(range(10)), device=device, batch_size=4096)
    ensemble = MCDropoutClassifier(FrozenEstimator(net), n_samples=10, random_state=0)
    return ensemble.fit(X[:10], data.counts[:10]).sample_proba(X)


def gaussian_process(device: str):
    gp = SparseGPClassifier(
        n_inducing=300,
        optimize_hyperparameters=False,
        lengthscale=10.0,
        max_iter=5,
        tol=0.0,
        device=device,
        random_state=0,
    )
    with np.errstate(all="ignore"):
        return gp.fit(X[:5000, :10], data.counts[:5000].argmax(axis=1) > 4).predict_proba(X[:, :10])


def kernel_error(device: str):
    return kernel_calibration_error(
        data.counts, data.prediction, bandwidth=0.05, device=device, random_state=0
    )


def timed(run: Callable, device: str):
    """The result and the seconds of the second run."""
    run(device)
    begin = time.perf_counter()
    found = run(device)
    return found, time.perf_counter() - begin


def main() -> None:
    """Print the table."""
    cuda = torch.cuda.is_available()
    print(torch.cuda.get_device_name(0) if cuda else "torch finds no CUDA device")
    print(f"{'':24}{'cpu, s':>9}{'cuda, s':>9}{'ratio':>8}{'difference':>12}")
    for run in (training, training_with_penalty, dropout_draws, gaussian_process, kernel_error):
        here, seconds = timed(run, "cpu")
        line = f"{run.__name__.replace('_', ' '):24}{seconds:9.2f}"
        if cuda:
            there, fast = timed(run, "cuda")
            line += f"{fast:9.2f}{seconds / fast:8.1f}{np.abs(here - there).max():12.1e}"
        print(line)


if __name__ == "__main__":
    main()
