"""Which kernel estimate of the canonical calibration error (p = 2) to believe: root mean squared
error on six problems.

    python benchmarks/kernel_estimates.py [n ...]

Labels are drawn from known E[y|z], so that the true error is known. Columns: the published plugin,
the residual and the second-order correction, each at the density ("loo") and at the cross-validated
bandwidth."""

import sys

import numpy as np

from sklearn_lhcal.metrics import kernel_calibration_error

ESTIMATES = {
    "plugin loo": {"bandwidth": "loo", "bias_correction": None},
    "residual loo": {"bandwidth": "loo"},
    "residual cv": {"bandwidth": "cv"},
    "second loo": {"bandwidth": "loo", "bias_correction": "second_order"},
    "second cv": {"bandwidth": "cv", "bias_correction": "second_order"},
}


def softmax(u):
    e = np.exp(u - u.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def overconfident(n, rng):
    q = rng.dirichlet(np.full(3, 2.0), n)
    return softmax(np.log(q) / 0.5), q


def underconfident_sparse(n, rng):
    q = rng.dirichlet(np.full(5, 0.4), n) + 1e-9
    q /= q.sum(axis=1, keepdims=True)
    return softmax(np.log(q) / 1.6), q


def wave(n, rng):
    z = rng.uniform(0.02, 0.98, n)
    q = np.clip(z + 0.1 * np.sin(6 * z), 0, 1)
    return np.column_stack([1 - z, z]), np.column_stack([1 - q, q])


def shifted_classes(n, rng):
    u = rng.normal(size=(n, 4)) * 1.5
    return softmax(u), softmax(u + np.array([0.6, 0, -0.4, 0]))


def ten_classes(n, rng):
    u = rng.normal(size=(n, 10)) * 2
    return softmax(u), softmax(0.7 * u)


def calibrated(n, rng):
    q = rng.dirichlet(np.ones(3), n)
    return q, q


def main() -> None:
    sizes = [int(n) for n in sys.argv[1:]] or [300, 1000, 3000]
    print(
        f"{'':24}{'rows':>7}{'truth':>9}"
        + "".join(f"{name:>19}" for name in ESTIMATES)
        + "   (RMSE, bias)"
    )
    for problem in (
        overconfident,
        underconfident_sparse,
        wave,
        shifted_classes,
        ten_classes,
        calibrated,
    ):
        rng = np.random.default_rng(1)
        z, q = problem(400_000, rng)
        truth = ((z - q) ** 2).sum(axis=1).mean()
        for n in sizes:
            errors = []
            for _ in range(max(12_000 // n, 8)):
                z, q = problem(n, rng)
                y = rng.multinomial(1, q / q.sum(axis=1, keepdims=True))
                errors.append(
                    [kernel_calibration_error(y, z, **o) - truth for o in ESTIMATES.values()]
                )
            cells = zip(
                np.sqrt(np.mean(np.square(errors), axis=0)), np.mean(errors, axis=0), strict=True
            )
            line = "".join(f"{rmse:10.4f} {bias:+.4f}".rjust(19) for rmse, bias in cells)
            print(f"{problem.__name__:24}{n:7d}{truth:9.4f}{line}", flush=True)


if __name__ == "__main__":
    main()
