"""Which temperature the kernel calibration penalty alone would choose, on batches.

    python benchmarks/penalties.py [batches]

Labels are drawn from the true probabilities q, which are uniform on the simplex. Predictions are
q^(1/T): they are right at T = 1. For each number of classes, size of batches and bandwidth: the T
at which the mean penalty is least, for the plugin (p = 1 and 2) and for the residual form. Of the
residual form also its mean at T = 1, and the least mean elsewhere, each in its standard errors. The
default, 60 batches, takes some minutes.
"""

import sys
from itertools import product

import numpy as np
import torch

from sklearn_lhcal.neural_network import KernelCalibrationPenalty

TEMPERATURES = (0.4, 0.7, 0.9, 1.0, 1.1, 1.5, 2.0)
CLASSES = (2, 5, 10)
SIZES = (64, 128)
BANDWIDTHS = (0.01, 0.05, 0.2, "loo")


def batches(K: int, size: int, count: int) -> list:
    """Log-probabilities q and one-hot labels."""
    rng = np.random.default_rng(K)
    q = rng.dirichlet(np.ones(K), (count, size))
    labels = rng.multinomial(1, q)
    pairs = zip(np.log(q), labels, strict=True)
    return [(torch.as_tensor(u), torch.as_tensor(y)) for u, y in pairs]


def penalties(penalty, data) -> np.ndarray:
    """Of each temperature (rows) and batch (columns)."""
    with torch.no_grad():
        return np.array([[float(penalty(u / T, y)) for u, y in data] for T in TEMPERATURES])


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    torch.set_num_threads(1)
    right = TEMPERATURES.index(1.0)
    print("classes  rows  bandwidth  plugin, p = 1  plugin, p = 2  residual  at T = 1  elsewhere")
    for K, size in product(CLASSES, SIZES):
        data = batches(K, size, count)
        for bandwidth in BANDWIDTHS:
            cells = []
            for p in (1, 2):
                plugin = KernelCalibrationPenalty(p=p, bandwidth=bandwidth, bias_correction=None)
                cells.append(TEMPERATURES[penalties(plugin, data).mean(axis=1).argmin()])
            found = penalties(KernelCalibrationPenalty(bandwidth=bandwidth), data)
            mean = found.mean(axis=1)
            z = mean / (found.std(axis=1, ddof=1) / np.sqrt(count))
            others = np.delete(z, right)
            line = f"{K:7} {size:5} {bandwidth!s:>10} {cells[0]:14} {cells[1]:14}"
            line += f"{TEMPERATURES[mean.argmin()]:10} {z[right]:9.1f} {others.min():10.1f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
