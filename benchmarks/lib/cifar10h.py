"""Human labels of CIFAR-10's test images, beside the class probabilities of a network."""

import os

import numpy as np

from sklearn_lhcal.datasets import fetch_cifar10h, make_label_histograms


def cifar10h() -> tuple[str, np.ndarray, np.ndarray]:
    """What it is, counts and class probabilities, both (n, 10): those in the file PREDICTIONS.

    The environment names it: a ``.npy`` file of class probabilities, (10,000, 10), in CIFAR-10's
    order of images and classes, whose label histograms `fetch_cifar10h` downloads once; or an
    ``.npz`` file that holds both, as ``proba`` and ``counts``. Without it, samples are simulated.
    """
    path = os.environ.get("PREDICTIONS")
    if path is None:
        print("PREDICTIONS names no file: simulated samples in place of CIFAR-10H.\n")
        data = make_label_histograms(
            5000, 10, 51, total=8.0, class_sep=4.0, overconfidence=1.5, random_state=0
        )
        return "Simulated samples, no CIFAR-10H", data.counts, data.prediction
    file = np.load(path)
    if isinstance(file, np.ndarray):
        return "CIFAR-10H", fetch_cifar10h().counts, file
    return "CIFAR-10H", file["counts"], file["proba"]


def some_labels(counts: np.ndarray, n: int, rng) -> np.ndarray:
    """At most n labels of each sample, drawn without replacement."""
    drawn = [rng.multivariate_hypergeometric(y, min(n, y.sum())) for y in counts]
    return np.array(drawn, dtype=counts.dtype)
