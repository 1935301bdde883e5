"""How often the range of rows that `study_size` gives holds the right number.

    python benchmarks/study_size.py [pilots]

Pilots of 200 rows and five or eight readers, as in `reader_intervals.py`, ask how many rows eight
readers need. The half-width wanted is the mean one of studies of 200 rows and eight readers, so
that 200 is right. Printed: that half-width; the quotient of the pilots' forecast and it, 10 %, 50 %
and 90 % points; the share of the pilots whose range holds 200, nominally .80, and of those whose
range asks for more, and for fewer.
"""

import sys
import warnings

import numpy as np
from reader_intervals import crossed, some, study

from sklearn_lhcal.label_histogram import conger_kappa
from sklearn_lhcal.metrics import (
    confidence_interval,
    expected_accuracy,
    expected_squared_loss,
    irreducible_loss,
    study_size,
)

METRICS = {
    "accuracy": expected_accuracy,
    "L": expected_squared_loss,
    "IL": irreducible_loss,
    "kappa": conger_kappa,
}
ROWS = 200
READERS = 8
# who reads what, readers of the pilot, and their spread
DESIGNS = [
    (crossed, 5, 0.3),
    (crossed, 5, 0.5),
    (crossed, 5, 0.8),
    (some, 5, 0.5),
    (crossed, 8, 0.5),
]


def half_width(metric, s: float, studies: int) -> float:
    """The mean one of studies of eight readers."""
    found = []
    for seed in range(studies):
        y, z = study(crossed, ROWS, READERS, s, np.random.default_rng(10**6 + seed))
        interval = confidence_interval(metric, y, z, random_state=0)
        found.append((interval.high - interval.low) / 2)
    return float(np.mean(found))


def main() -> None:
    warnings.filterwarnings("ignore", "There are only")
    pilots = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print(f"{pilots} pilots of {ROWS} rows, for {READERS} readers")
    print(f"{'':32}{'wanted':>8}{'forecast/wanted':>22}{'holds':>8}{'more':>6}{'fewer':>6}")
    wanted: dict = {}
    for name, metric in METRICS.items():
        for design, R, s in DESIGNS:
            if (name, s) not in wanted:
                wanted[name, s] = half_width(metric, s, pilots // 2)
            h = wanted[name, s]
            ratio, low, high = [], [], []
            for seed in range(pilots):
                y, z = study(design, ROWS, R, s, np.random.default_rng(seed))
                how = {"half_width": h, "n_raters": [READERS], "random_state": 0}
                size = study_size(metric, y, z, **how)
                ratio.append(size.half_width(ROWS, READERS, READERS) / h)
                low.append(size.n_rows_range[0, 0])
                high.append(size.n_rows_range[0, 1])
            more = np.mean(np.array(low) > ROWS)
            fewer = np.mean(np.array(high) < ROWS)
            quotients = " ".join(f"{q:.2f}" for q in np.quantile(ratio, [0.1, 0.5, 0.9]))
            head = f"{name}, {design.__name__} {R}, s = {s}"
            shares = f"{1 - more - fewer:8.2f}{more:6.2f}{fewer:6.2f}"
            print(f"{head:32}{h:8.4f}{quotients:>22}{shares}", flush=True)


if __name__ == "__main__":
    main()
