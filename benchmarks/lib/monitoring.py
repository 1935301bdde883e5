"""Streams of samples on which a calibration monitor is tried, and how often and when it alarms.

Written down before any result was seen. Three classes; the log-odds u of a sample are
N((1, 0, −1), 1), the prediction is z = softmax(u), and labels are drawn from z while the model is
exact. α = 0.05, the tolerance is 0.01. Streams are independent.

"Fitted": the scores are 1.5·u (temperature), or 1.5·u + (0.3, 0, −0.3) (bias-corrected); each
stream has a calibrator of its own, fitted on 2,000 samples with one label. False alarms are counted
in 5,000 samples. The detector at a tolerance of 0.02 was added after a look at ten streams.

The z-test is looked at every 25 samples: the largest over classes of |Σ(μ̂ − z)| over the root of
Σz(1 − z)/n, at level 0.05 with Bonferroni's correction for the classes, but none for the looks.

Changes, of labels and not of predictions: "temperature 0.6" draws them from softmax(0.6·log z), so
that the model is overconfident; "odds × 1.7" multiplies the odds of the last class. They begin at
the first sample or at sample 301; streams have 3,000 samples. The oracle knows the change and when
it began: it alarms when the likelihood ratio from then on reaches 1/α. "CUSUM" knows the change but
not its time; its threshold is 10,000, as that of the detector. Times are medians of the number of
samples from the change on, of the streams with an alarm after it.

Adjudicated: two labels a sample, and a third where they differ; the model is exact.

Raters: π ~ Dirichlet(4z), three labels a sample are drawn from π, and the prediction is
Dirichlet(4z). From sample 301 on π ~ Dirichlet(c·z) with c = 1.5 or 20: raters agree more or less,
and means stay.

Samples that depend on each other, of an exact model, with several tolerances. "Five raters": all
read all samples; in a share of 0.1 or 0.2 of their labels they name a class at random, with
frequencies Dirichlet(2, 2, 2) of their own, and the model knows the mean of all raters. "Patients":
four images in sequence, whose labels come from normal variables with correlation 0.5, and the first
image of each alone. These were written down before any of their results were seen.

Runs of the detector with mean_run = 10,000: exact model, 100,000 samples; the restricted mean of
the run counts streams without an alarm as 100,000. "Tolerance 0" is the least favourable: an exact
model at the edge of what is tolerated.
"""

import time
import tracemalloc
from functools import partial

import numpy as np
from scipy.special import softmax
from scipy.stats import norm

from sklearn_lhcal.calibration import BiasCorrectedTemperatureScaling, TemperatureScaling
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.metrics import CalibrationMonitor

ALPHA = 0.05
MEAN_RUN = 10_000
MEANS = np.array([1.0, 0.0, -1.0])
K = len(MEANS)


def log_odds(n: int, rng):
    return MEANS + rng.normal(size=(n, K))


def labels(p, rng):
    """One-hot labels."""
    return rng.multinomial(1, p)


def colder(z):
    return softmax(0.6 * np.log(z), axis=1)


def likelier(z):
    return softmax(np.log(z) + np.log(1.7) * (np.arange(K) == K - 1), axis=1)


# --- false alarms: an alarm in 5,000 samples ---


def exact(rng):
    z = softmax(log_odds(5000, rng), axis=1)
    return labels(z, rng), z


def fitted(calibrator, bias, rng):
    u = log_odds(7000, rng)
    y, scores = labels(softmax(u, axis=1), rng), 1.5 * u + bias
    model = calibrator("logits").fit(scores[:2000], y[:2000])
    return y[2000:], model.predict_proba(scores[2000:])


def adjudicated(first_two: bool, rng):
    z = softmax(log_odds(5000, rng), axis=1)
    y = labels(z, rng) + labels(z, rng)
    if not first_two:
        differ = y.max(axis=1) == 1
        y[differ] += labels(z[differ], rng)
    return y, z


def five_raters(share: float, rng):
    z = softmax(log_odds(5000, rng), axis=1)
    own = rng.dirichlet(np.full(K, 2.0), size=5)
    y = sum(labels((1 - share) * z + share * of_rater, rng) for of_rater in own)
    return y, (1 - share) * z + share / K


def patients(rng):
    z = softmax(log_odds(5000, rng), axis=1)
    u = norm.cdf(np.sqrt(0.5) * (np.repeat(rng.normal(size=1250), 4) + rng.normal(size=5000)))
    label = (z.cumsum(axis=1) < u[:, None]).sum(axis=1).clip(max=K - 1)
    return np.eye(K, dtype=int)[label], z


def z_test(y, z):
    """Whether it rejects at one look of those every 25 samples; the sample."""
    n = y.sum(axis=1, keepdims=True)
    residual = (y / n - z).cumsum(axis=0)
    variance = (z * (1 - z) / n).cumsum(axis=0)
    largest = (np.abs(residual) / np.sqrt(variance)).max(axis=1)[24::25]
    looks = np.flatnonzero(largest > norm.isf(ALPHA / 2 / K))
    return 25 * (int(looks[0]) + 1) if len(looks) else None


def monitored(y, z, **how):
    return CalibrationMonitor(ALPHA, **how).update(y, z).alarm


def pairs_monitored(y, z, **how):
    return CalibrationMonitor(ALPHA, **how).update(y, z).disagreement_alarm


# --- changes ---


def changed(change, start: int, rng):
    """Labels, predictions, and the log likelihood ratio of each sample."""
    z = softmax(log_odds(3000, rng), axis=1)
    q = z.copy()
    q[start:] = change(z[start:])
    y = labels(q, rng)
    return y, z, (y * (np.log(change(z)) - np.log(z))).sum(axis=1)


def oracle(ratio, start: int):
    """Alarm of the likelihood ratio that knows the change and its time."""
    crossed = np.flatnonzero(ratio[start:].cumsum() >= np.log(1 / ALPHA))
    return start + 1 + int(crossed[0]) if len(crossed) else None


def cusum(ratio):
    """Alarm of CUSUM, max over j of Π_{s≥j}, which knows the change."""
    S = np.concatenate([[0], ratio.cumsum()])
    crossed = np.flatnonzero((S - np.minimum.accumulate(S))[1:] >= np.log(MEAN_RUN))
    return 1 + int(crossed[0]) if len(crossed) else None


def raters(c: float, rng):
    z = softmax(log_odds(3000, rng), axis=1)
    total = np.where(np.arange(3000) < 300, 4.0, c)
    gamma = np.maximum(rng.gamma(total[:, None] * z), 1e-300)
    pi = gamma / gamma.sum(axis=1, keepdims=True)
    return rng.multinomial(3, pi), Dirichlet.from_mean(z, np.full(3000, 4.0))


# --- the table ---


def line(design: str, what: str, alarms: list, start: int = 0) -> list:
    """Share of alarms and its standard error, and the median of samples since the change."""
    early = np.mean([a is not None and a <= start for a in alarms])
    after = [a - start for a in alarms if a is not None and a > start]
    share = len(after) / len(alarms)
    error = np.sqrt(share * (1 - share) / len(alarms))
    median = f"{np.median(after):.0f}" if after else ""
    before = f"{early:.3f}" if start else ""
    return [design, what, len(alarms), before, f"{share:.3f}", f"{error:.3f}", median]


def runs(streams: int, tolerance: float) -> list:
    """Restricted mean of the run of the detector."""
    n = 100_000
    found = []
    for seed in range(streams):
        rng = np.random.default_rng(seed)
        z = softmax(log_odds(n, rng), axis=1)
        monitor = CalibrationMonitor(tolerance=tolerance, mean_run=MEAN_RUN)
        found.append(monitor.update(labels(z, rng), z).alarm)
    run = np.mean([n if a is None else a for a in found])
    what = f"detector, tolerance {tolerance:g}: mean run at least {run:,.0f}"
    row = line("exact, 100,000 samples", what, found)
    return [*row[:-1], ""]


def dependent(streams: int):
    """Rows of the samples that depend on each other."""
    designs = {
        "five raters, 0.1": partial(five_raters, 0.1),
        "five raters, 0.2": partial(five_raters, 0.2),
        "patients of four images": patients,
    }
    for name, design in designs.items():
        data = [design(np.random.default_rng(seed)) for seed in range(streams)]
        for tolerance in (0.0, 0.01, 0.03, 0.05):
            alarms = [monitored(*one, tolerance=tolerance) for one in data]
            yield line(name, f"tolerance {tolerance:g}", alarms)
    first = [(y[::4], z[::4]) for y, z in data]
    for tolerance in (0.0, 0.01):
        alarms = [monitored(*one, tolerance=tolerance) for one in first]
        yield line("the first image of each", f"tolerance {tolerance:g}", alarms)


def table(streams: int):
    """Rows of the table, one by one."""
    yield ["design", "what", "streams", "before", "share", "standard error", "median"]
    nulls = {
        "exact": exact,
        "temperature fitted": partial(fitted, TemperatureScaling, 0.0),
        "bias-corrected fitted": partial(
            fitted, BiasCorrectedTemperatureScaling, np.array([0.3, 0.0, -0.3])
        ),
        "third label where two differ": partial(adjudicated, False),
        "the first two of these": partial(adjudicated, True),
    }
    for name, design in nulls.items():
        data = [design(np.random.default_rng(seed)) for seed in range(streams)]
        yield line(name, "false alarms", [monitored(*one) for one in data])
        none = [monitored(*one, tolerance=0.0) for one in data]
        yield line(name, "tolerance 0", none)
        yield line(name, "detector", [monitored(*one, mean_run=MEAN_RUN) for one in data])
        wide = [monitored(*one, mean_run=MEAN_RUN, tolerance=0.02) for one in data]
        yield line(name, "detector, tolerance 0.02", wide)
        yield line(name, "z-test every 25", [z_test(*one) for one in data])
    yield from dependent(streams)
    for name, change in {"temperature 0.6": colder, "odds × 1.7": likelier}.items():
        for start in (0, 300):
            design = f"{name} from {start + 1}"
            data = [changed(change, start, np.random.default_rng(s)) for s in range(streams)]
            yield line(design, "monitor", [monitored(y, z) for y, z, _ in data], start)
            found = [monitored(y, z, mean_run=MEAN_RUN) for y, z, _ in data]
            yield line(design, "detector", found, start)
            yield line(design, "oracle", [oracle(r, start) for *_, r in data], start)
            yield line(design, "CUSUM", [cusum(r) for *_, r in data], start)
    for c in (4.0, 1.5, 20.0):
        data = [raters(c, np.random.default_rng(seed)) for seed in range(streams)]
        design = f"raters, Dirichlet({c:g}z) from 301"
        yield line(design, "class means", [monitored(*one) for one in data], 300)
        yield line(design, "disagreement", [pairs_monitored(*one) for one in data], 300)
    yield runs(streams, 0.01)
    yield runs(streams, 0.0)


def cost(n: int = 10**6) -> str:
    """Time and memory of n samples in batches of 1,000."""
    rng = np.random.default_rng(0)
    z = softmax(log_odds(n, rng), axis=1)
    y = labels(z, rng)
    monitor = CalibrationMonitor()
    tracemalloc.start()
    peaks = []
    began = time.perf_counter()
    for start in range(0, n, 1000):
        monitor.update(y[start : start + 1000], z[start : start + 1000])
        if start in (9000, n - 1000):
            peaks.append(tracemalloc.get_traced_memory())
    seconds = time.perf_counter() - began
    tracemalloc.stop()
    held = ", ".join(f"{now / 1024:.0f} KiB held, {peak / 1024:.0f} at most" for now, peak in peaks)
    return f"{n:,} samples: {seconds:.1f} s (traced); after 10,000 and all: {held}"
