"""Coverage of the bands of displays whose quantities are no metric, for new rows and new readers.

    python benchmarks/reader_bands.py [draws]

Two classes, one in five labels of the second; readers call it by thresholds of standard deviation s
in log-odds. The predictions of 200 rows stay; truths of rows, readers and labels are drawn anew
each time. What bands of 90 % should hold is the mean of the estimates over all draws. Printed is
the share of the draws in which they do: bands over rows alone, and over rows and readers.
"""

import sys
import warnings

import numpy as np

from sklearn_lhcal._rows import read_rows
from sklearn_lhcal.display._gain_bins import binned_gains, gains_of_raters
from sklearn_lhcal.display._policy_curves import policy_curves
from sklearn_lhcal.display._referral import gains, referral_curves
from sklearn_lhcal.display._referral_raters import gains_without
from sklearn_lhcal.display._replay import replay
from sklearn_lhcal.distributions import Dirichlet, second_opinion_value
from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import accuracy_gain

LEVEL = 0.9
ROWS = 200
# of decisions, and of a label; how many are asked for at most
COSTS = np.array([[0.0, 1.0], [4.0, 0.0]])
PRICE = 0.05
HORIZON = 2
# readers, readings a row, s
DESIGNS = [
    (5, 5, 0.0),
    (8, 8, 0.0),
    (5, 5, 1.0),
    (8, 8, 1.0),
    (8, 3, 1.0),
    (5, 2, 1.0),
    (3, 3, 1.0),
]


def predictions(rng):
    """What is known of the rows beforehand."""
    p = rng.beta(1, 4, size=ROWS).clip(0.02, 0.98)
    return Dirichlet.from_mean(np.column_stack([1 - p, p]), np.exp(rng.normal(1, 1, size=ROWS)))


def read_by(d, R: int, m: int, s: float, rng) -> Annotations:
    """New rows of these predictions, each read by m of R new readers."""
    q = d.sample(1, random_state=rng)[0, :, 1].clip(1e-6, 1 - 1e-6)
    logit = np.log(q / (1 - q))[:, None] + s * rng.normal(size=R)
    votes = (rng.random_sample(logit.shape) < 1 / (1 + np.exp(-logit))).astype(float)
    votes[rng.random_sample(votes.shape).argsort(axis=1).argsort(axis=1) >= m] = np.nan
    return Annotations.from_matrix(votes, classes=[0, 1])


def second_opinion(d, y: Annotations, raters: str):
    """Gain where half of the rows are referred, and all of them; and the ends of the bands."""
    v = second_opinion_value(d)
    rows = read_rows(y, d)
    how = {"confidence_level": LEVEL, "normalize": False}
    each = (v, v, gains(rows)[1], rows.weight, None, gains_without(rows, raters))
    curves = referral_curves(np.array([0.5, 1.0]), *each, **how)
    return curves.realised_gain, curves.interval


def gain_of_more_data(d, y: Annotations, raters: str):
    """Mean gain in accuracy in two bins, of saying 1 of every other row."""
    p = d.mean()[:, 1]
    labels = (np.zeros(ROWS, int), np.arange(ROWS) % 2)
    by_rater = gains_of_raters(y, *labels, raters)
    how = {"n_bins": 2, "strategy": "quantile", "confidence_level": LEVEL, "by_rater": by_rater}
    _, interval, mean, _ = binned_gains(accuracy_gain(y, *labels), p, **how)
    return mean, interval


def price_of_a_label(d, y: Annotations, raters: str):
    """Total cost of optimal stopping, and that of the best number less it, at one price."""
    rows = read_rows(y, d)
    prices = np.array([PRICE])
    rng = np.random.RandomState(0)
    found = replay(rows, COSTS, prices, HORIZON, 20, rng)
    total, ends, less, ends_less, *_ = policy_curves(found, rows, COSTS, prices, rng, raters, LEVEL)
    return np.stack([total[0], less[1]])[:, 0], np.stack([ends[0], ends_less[1]])[:, 0]


def coverage(show, d, design, draws: int):
    """Of bands over rows, and over rows and readers: (2, number of points)."""
    rng = np.random.RandomState(1)
    found: dict = {"fixed": [], "random": []}
    for _ in range(draws):
        y = read_by(d, *design, rng)
        for raters, shown in found.items():
            mean, interval = show(d, y, raters)
            shown.append([mean, *interval.T])
    shares = []
    for shown in found.values():
        mean, low, high = np.moveaxis(shown, 1, 0)
        truth = mean.mean(axis=0)
        shares.append(((low <= truth) & (truth <= high)).mean(axis=0))
    return shares


SHOWN = {
    second_opinion: "gain where half of the rows are referred, and all",
    gain_of_more_data: "mean gain in each of two bins",
    price_of_a_label: "cost of optimal stopping; that of the best number of labels less it",
}


def main() -> None:
    warnings.filterwarnings("ignore", "There are only")
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    d = predictions(np.random.RandomState(0))
    print(f"{draws} draws; over rows, and over rows and readers")
    for show, what in SHOWN.items():
        print(f"{show.__name__}: {what}")
        for R, m, s in DESIGNS:
            if show is price_of_a_label and m <= HORIZON + 1:
                continue
            rows, both = coverage(show, d, (R, m, s), draws)
            head = f"{ROWS} x {R}, {m} a row, s = {s:.0f}"
            cells = [" ".join(f"{share:.3f}" for share in of) for of in (rows, both)]
            print(f"{head:28}" + "".join(f"{cell:>16}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
