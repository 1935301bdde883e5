"""Figure 2 of P2 at the size of the paper, 16,384 samples, and how fast its estimates converge.

    python benchmarks/papers/kernel_convergence.py [--draws 100]

Fig. 2a. Points are uniform on the simplex and sharpened with the temperature 0.6, labels are drawn
from them, and sharpened once more they are the predictions. The squared canonical error is
estimated at 250 fixed predictions z, where E[y|z] is known, from samples drawn anew --draws times.
Its truth is the mean over these points. Bins look at the samples themselves: their truth is that of
all predictions, the mean over 2,000,000. The bandwidth of each draw is that of `loo_bandwidth` on
all of its samples; the median is printed.

The top label, whose L1 and L2 errors Appendix F of the paper has, from the same samples. Its
bandwidth is found in the same way, and the truth is that of narrow bins of 4,000,000 samples.

Fig. 2b. The sharpness of two classes at one fixed prediction, 0.17, with the bandwidth 0.5, as the
ratio of U-statistics and with its correction, from samples drawn 2²⁵/n times, from a million to
2,048: the bias is the smaller the more samples there are, and so is its noise. The truth is the
limit of both, by quadrature.

Printed are means and half of their 90% interval. The last line of a table is the rate: by which
power of the samples the root mean squared distance to the truth changes, and in Fig. 2b also the
bias, where that stands out from noise."""

import argparse

import numpy as np
from scipy.integrate import quad
from scipy.special import expit, gammaln, logit, xlogy

from sklearn_lhcal.metrics import (
    binned_canonical_error,
    expected_calibration_error,
    kernel_calibration_error,
    kernel_sharpness,
    loo_bandwidth,
)

SIZES = [64, 256, 1024, 4096, 16_384]
LOCATIONS = 250
POPULATION = 2_000_000
BLOCK = 2**20  # kernels in memory at a time
EFFORT = 2**25  # kernels for each size of Fig. 2b
TEMPERATURE = 0.6


def sharpened(q):
    z = q ** (1 / TEMPERATURE)
    return z / z.sum(axis=1, keepdims=True)


def problem(n: int, n_classes: int, rng):
    """E[y|z] and predictions z, each (n, K)."""
    q = sharpened(rng.dirichlet(np.ones(n_classes), size=n))
    return q, sharpened(q)


# Fig. 2a


def errors_at(points, z, y, h: float):
    """(Published, residual) squared errors at each of the points (m, K), from samples z and y (n,
    K).

    Samples are no points, so that none is left out."""
    n, n_classes = z.shape
    e = y - z
    log_norm = gammaln(1 / h + n_classes) - gammaln(z / h + 1).sum(axis=1)
    found = []
    for x in np.array_split(points, np.ceil(len(points) * n / BLOCK)):
        log_k = log_norm + np.log(x) @ z.T / h  # Eq. (10)
        # the largest kernel of a point stands apart: pairs then never cancel
        star = log_k.argmax(axis=1)[:, None]
        first = np.take_along_axis(log_k, star, axis=1)
        np.put_along_axis(log_k, star, -np.inf, axis=1)
        second = log_k.max(axis=1, keepdims=True)
        k, f = np.exp(log_k - second), np.exp(second - first)
        total = k.sum(axis=1, keepdims=True)
        r = (y[star[:, 0]] + f * (k @ y)) / (1 + f * total)  # Eq. (3)
        published = ((r - x) ** 2).sum(axis=1)  # Eq. (9), p = 2
        # the residual in place of the label, and pairs of samples as in Eq. (7)
        a, squares = k @ e, (k**2).sum(axis=1, keepdims=True)
        pairs = 2 * e[star[:, 0]] * a + f * (a**2 - k**2 @ e**2)
        pairs /= 2 * total + f * (total**2 - squares)
        found.append([published, pairs.sum(axis=1)])
    return np.concatenate(found, axis=1)


def check_errors() -> None:
    """Every sample as a point, with the others around it: the estimates of the package."""
    rng = np.random.default_rng(1)
    q, z = problem(40, 3, rng)
    y, h = rng.multinomial(1, q), 0.1
    others = [np.delete(np.arange(40), j) for j in range(40)]
    ours = [errors_at(z[[j]], z[rows], y[rows], h) for j, rows in enumerate(others)]
    theirs = [
        kernel_calibration_error(y, z, bandwidth=h, bias_correction=correction)
        for correction in (None, "residual")
    ]
    assert np.allclose(np.mean(ours, axis=0).ravel(), theirs, rtol=1e-9)


def figure_2a(n_classes: int, draws: int) -> None:
    q, points = problem(LOCATIONS, n_classes, np.random.default_rng(0))
    truth = ((q - points) ** 2).sum(axis=1).mean()
    q, z = problem(POPULATION, n_classes, np.random.default_rng(2))
    everywhere = ((q - z) ** 2).sum(axis=1).mean()
    print(
        f"\nFig. 2a, {n_classes} classes, squared canonical error; truth {everywhere:.4f} (bins), "
        f"{truth:.4f} at the points (kernels)"
    )
    values, bandwidths = np.empty((len(SIZES), draws, 3)), np.empty((len(SIZES), draws))
    for i, n in enumerate(SIZES):
        for draw in range(draws):
            rng = np.random.default_rng([1, draw])
            q, z = problem(n, n_classes, rng)
            y = rng.multinomial(1, q)
            bandwidths[i, draw] = loo_bandwidth(z)
            kernels = errors_at(points, z, y, bandwidths[i, draw]).mean(axis=1)
            values[i, draw] = binned_canonical_error(y, z, p=2), *kernels
    names = "bins (Doane)", "kernel, published", "kernel, residual"
    table(names, values, np.array([everywhere, truth, truth]), bandwidths)


# The top label


def top_label_truth(n_classes: int):
    """E|E[y|z] − z|^p of the top label, for p = 1 and 2."""
    q, z = problem(4_000_000, n_classes, np.random.default_rng(0))
    top = z.argmax(axis=1)[:, None]
    z, q = (np.take_along_axis(a, top, axis=1)[:, 0] for a in (z, q))
    order = np.argsort(z).reshape(2000, -1)
    gap = np.abs((q[order] - z[order]).mean(axis=1))
    return gap.mean(), (gap**2).mean()


def top_label(n_classes: int, draws: int) -> None:
    truth = top_label_truth(n_classes)
    print(f"\nTop label, {n_classes} classes; truth L1 {truth[0]:.4f}, squared L2 {truth[1]:.4f}")
    values, bandwidths = np.empty((len(SIZES), draws, 4)), np.empty((len(SIZES), draws))
    for i, n in enumerate(SIZES):
        for draw in range(draws):
            rng = np.random.default_rng([2, draw])
            q, z = problem(n, n_classes, rng)
            y = rng.multinomial(1, q)
            bandwidths[i, draw] = loo_bandwidth(z, kind="top_label")
            options = {"kind": "top_label", "bandwidth": bandwidths[i, draw]}
            values[i, draw] = (
                expected_calibration_error(y, z),
                kernel_calibration_error(y, z, p=1, bias_correction=None, **options),
                kernel_calibration_error(y, z, bias_correction=None, **options),
                kernel_calibration_error(y, z, **options),
            )
    names = "15 bins, L1", "kernel, L1", "kernel, L2", "L2, residual"
    table(names, values, np.array(truth)[[0, 0, 1, 1]], bandwidths)


# Fig. 2b

LOCATION, WIDTH = 0.17, 0.5


def prediction(q):
    """The sigmoid of the sharpened logit."""
    return expit(logit(q) / TEMPERATURE)


def beta_kernel(x: float, z):
    """k(x; z) for two classes, Eq. (8)."""
    a, b = z / WIDTH + 1, (1 - z) / WIDTH + 1
    log_norm = gammaln(a + b) - gammaln(a) - gammaln(b)
    return np.exp(log_norm + xlogy(a - 1, x) + xlogy(b - 1, 1 - x))


def sharpness(k, y):
    """(Ratio of U-statistics, corrected) by kernels and labels of shape (draws, n)."""
    n = k.shape[1]
    a = k * y
    square = a.sum(axis=1) ** 2 - (a**2).sum(axis=1)
    rho = square / (k.sum(axis=1) ** 2 - (k**2).sum(axis=1))  # Eq. (7), without its stray y
    mean_a, mean_k = a.mean(axis=1), k.mean(axis=1)
    s_ak = ((a - mean_a[:, None]) * k).sum(axis=1) / (n - 1)
    s_kk = k.var(axis=1, ddof=1)
    relative = np.divide(s_ak, mean_a * mean_k, out=np.zeros_like(rho), where=mean_a > 0)
    # to second order in 1/n, by the delta method
    return np.stack([rho, rho * (1 + 4 / n * (relative - s_kk / mean_k**2))])


def check_sharpness() -> None:
    """At every sample, with the others around it and for both classes: those of the package."""
    rng = np.random.default_rng(1)
    q = rng.random(30)
    z, y = prediction(q), rng.random(30) < q
    k = np.array([beta_kernel(z[j], np.delete(z, j)) for j in range(30)])
    others = np.array([np.delete(y, j) for j in range(30)])
    ours = (sharpness(k, others) + sharpness(k, ~others)).mean(axis=1)
    for found, correction in zip(ours, (None, "ratio"), strict=True):
        theirs = kernel_sharpness(y.astype(int), z, bandwidth=WIDTH, bias_correction=correction)
        assert np.isclose(found, theirs, rtol=1e-9)


def sharpness_errors(n: int, repetitions: int, A: float, C: float):
    """Distances to the truth (A/C)², shape (2, repetitions), and their linear part.

    That is linear in the sums, and its mean is 0: without it a bias of 1/n stands out."""
    rng = np.random.default_rng(n)
    errors, linear = [], []
    for rows in np.array_split(np.arange(repetitions), np.ceil(repetitions * n / BLOCK)):
        q = rng.random((len(rows), n))
        k, y = beta_kernel(LOCATION, prediction(q)), rng.random(q.shape) < q
        errors.append(sharpness(k, y) - (A / C) ** 2)
        linear.append(2 * (A / C) ** 2 * ((k * y).mean(axis=1) / A - k.mean(axis=1) / C))
    return np.concatenate(errors, axis=1), np.concatenate(linear)


def figure_2b() -> None:
    A = quad(lambda q: q * beta_kernel(LOCATION, prediction(q)), 0, 1)[0]
    C = quad(lambda q: beta_kernel(LOCATION, prediction(q)), 0, 1)[0]
    print(f"\nFig. 2b, sharpness at z = .17, two classes, bandwidth .5; truth {(A / C) ** 2:.6f}")
    print(f"{'samples':>7}{'bias':>25}{'bias, corrected':>25}{'RMSE':>11}{'RMSE, corr.':>13}")
    sizes = 2 ** np.arange(5, 15)
    bias, reach, rmse = np.empty((3, len(sizes), 2))
    for i, n in enumerate(sizes):
        repetitions = EFFORT // n
        errors, linear = sharpness_errors(n, repetitions, A, C)
        rmse[i] = np.sqrt((errors**2).mean(axis=1))
        bias[i] = (errors - linear).mean(axis=1)
        reach[i] = 1.645 * (errors - linear).std(axis=1) / np.sqrt(repetitions)
        cells = [f"{m:.2e} ± {half:.0e}" for m, half in zip(bias[i], reach[i], strict=True)]
        line = "".join(f"{cell:>25}" for cell in cells)
        print(f"{n:7,}{line}{rmse[i, 0]:11.5f}{rmse[i, 1]:13.5f}", flush=True)
    seen = np.abs(bias) > 2 * reach
    biases = zip(np.abs(bias).T, seen.T, strict=True)
    rates = [rate(sizes[s], b[s]) for b, s in biases] + [rate(sizes, r) for r in rmse.T]
    cells = [f"{r:{width}.2f}" for r, width in zip(rates, (25, 25, 11, 13), strict=True)]
    print("rate   " + "".join(cells))


def rate(n, error) -> float:
    """The slope of log error on log n."""
    if len(n) < 2:
        return np.nan
    return float(np.polyfit(np.log(n), np.log(error), 1)[0])


def table(names, values, truth, bandwidths) -> None:
    """Means of values (sizes, draws, columns) with half of their 90% interval, and rates."""
    print(f"{'samples':>7}{'bandwidth':>11}" + "".join(f"{name:>21}" for name in names))
    reach = 1.645 * values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
    for i, n in enumerate(SIZES):
        pairs = zip(values[i].mean(axis=0), reach[i], strict=True)
        cells = [f"{mean:.4f} ± {half:.4f}" for mean, half in pairs]
        print(f"{n:7,}{np.median(bandwidths[i]):11.4f}" + "".join(f"{cell:>21}" for cell in cells))
    rmse = np.sqrt(((values - truth) ** 2).mean(axis=1))
    print(f"{'rate':18}" + "".join(f"{rate(SIZES, error):21.2f}" for error in rmse.T), flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Fig. 2 of P2, and its rates.")
    parser.add_argument("--draws", type=int, default=100)
    options = parser.parse_args()
    check_errors()
    check_sharpness()
    print(f"{options.draws} draws; mean ± half a 90 % interval")
    for n_classes in (4, 8):
        figure_2a(n_classes, options.draws)
    for n_classes in (4, 8):
        top_label(n_classes, options.draws)
    figure_2b()


if __name__ == "__main__":
    main()
