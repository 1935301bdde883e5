"""Studies whose readers differ, and who reads what in them."""

import numpy as np

from sklearn_lhcal.label_histogram import Annotations

K = 3
SURE = 1.3
# mean log-odds: one class is common, one rare
COMMON = np.array([1.0, 0.0, -1.0])


def softmax(u):
    p = np.exp(u - u.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def study(design, n: int, R: int, s: float, rng, sure: float = SURE):
    """Annotations, and the probabilities of a model that knows samples but no readers.

    Samples have true log-odds N(COMMON, 1), readers tilts N(0, s²) of the log-odds of each class.
    The model is `sure` times overconfident.
    """
    u = COMMON + rng.normal(size=(n, K))
    read = design(n, R, rng)
    row, rater = np.nonzero(read)
    tilt = s * rng.normal(size=(read.shape[1], K))
    p = softmax(u[row] + tilt[rater])
    label = (p.cumsum(axis=1) < rng.random((len(row), 1))).sum(axis=1).clip(max=K - 1)
    indptr = np.append(0, np.cumsum(read.sum(axis=1)))
    raters = np.arange(read.shape[1])
    return Annotations(indptr, rater, label, raters=raters, classes=np.arange(K)), softmax(sure * u)


# --- who reads what ---


def crossed(n: int, R: int, rng):
    """Each reader reads each sample."""
    return np.ones((n, R), dtype=bool)


def some(n: int, R: int, rng, m: int = 3):
    """m readers a sample, at random."""
    return rng.random((n, R)).argsort(axis=1).argsort(axis=1) < m


def unequal(n: int, R: int, rng, m: int = 3):
    """m readers a sample; the first readers read far more than the last."""
    keys = rng.random((n, R)) ** np.linspace(0.2, 2, R)
    return keys.argsort(axis=1).argsort(axis=1) >= R - m


def heavy(n: int, R: int, rng, m: int = 2):
    """m readers a sample; the first two are drawn eight times as readily as any other."""
    keys = rng.gumbel(size=(n, R))
    keys[:, :2] += np.log(8)
    return keys.argsort(axis=1).argsort(axis=1) >= R - m


def star(n: int, R: int, rng):
    """The first reader reads each sample, the others in turn."""
    read = np.arange(n)[:, None] % (R - 1) == np.arange(R) - 1
    read[:, 0] = True
    return read


def split_plot(n: int, R: int, rng, m: int = 4):
    """Teams of m readers, each with samples of its own."""
    team = np.arange(n) % (R // m)
    return team[:, None] == np.arange(R) // m


def nested(n: int, R: int, rng):
    """One reader a sample: nobody disagrees."""
    return rng.integers(0, R, n)[:, None] == np.arange(R)


def two(n: int, R: int, rng):
    """Two readers a sample, at random."""
    return some(n, R, rng, m=2)


def crowd(n: int, R: int, rng):
    """Three readers a sample, nobody twice."""
    return np.repeat(np.arange(n), 3)[None, :] == np.arange(n)[:, None]


# who reads what, samples, readers, their spread s
DESIGNS = [
    (crossed, 200, 3, 0.3),
    (crossed, 200, 3, 0.8),
    (crossed, 200, 5, 0.0),
    (crossed, 200, 5, 0.3),
    (crossed, 200, 5, 0.8),
    (crossed, 100, 5, 0.3),
    (crossed, 500, 5, 0.3),
    (crossed, 200, 8, 0.3),
    (crossed, 200, 20, 0.3),
    (some, 200, 5, 0.3),
    (some, 200, 8, 0.3),
    (some, 200, 20, 0.3),
    (unequal, 200, 8, 0.3),
    (unequal, 200, 20, 0.3),
    (split_plot, 200, 8, 0.3),
    (split_plot, 200, 20, 0.3),
    (nested, 300, 5, 0.3),
    (nested, 300, 8, 0.3),
    (nested, 300, 20, 0.3),
    (two, 200, 5, 0.3),
    (crowd, 200, 600, 0.3),
    (heavy, 200, 5, 0.8),
    (heavy, 200, 8, 0.3),
    (star, 200, 6, 0.3),
    (star, 200, 6, 0.8),
]
