"""What one more label of a sample is worth, replayed: when to stop, and whom to ask about first.

    python benchmarks/more_labels.py stopping|referral [--cifar10h FILE.npz]
        [--only NAME] [--draws N]

"stopping": labels and decisions together, against simpler rules. Samples with many labels are
replayed: `metrics.policy_curve` asks for a few, and charges decisions by the others. At each
of six prices the total cost of optimal stopping is compared with that of the best fixed number of
labels and of the best threshold of the entropy, both tuned on other samples; the 95% interval of
the difference is over samples. Of mixed digits five splits stand one below the other. Of reader
studies too; ten readers read all samples of a study, and 500 other samples calibrate. FILE.npz
holds "counts" of human labels and "proba" of a trained network: 1000 samples calibrate it, and the
labels of the others are replayed. "spread" is a mixture of nine Dirichlet distributions around each
prediction, whose weights maximise the likelihood of five labels a sample. Then a fixed budget: the
drop of the cost of decisions by `allocate_labels`, by the value of one label, and by entropy. Last,
of people: what either distribution expects after two labels that differ, and how likely it says
that five labels of a sample are.

"referral": which rule finds the samples where one more label gains most, of three simulated data
sets or of FILE.npz. Temperature scaling and α-calibration are fitted on two labels of each sample
of a random half; the gain is measured on the other half, with all its labels. Printed: the share of
the gain of referring every sample that the first fifth captures, its mean over ten splits, ± two
standard errors over splits (splits share samples: a lower bound of the uncertainty).
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.special import softmax
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.datasets import load_mixed_digits, make_label_histograms, make_rater_study
from sklearn_lhcal.distributions import (
    Dirichlet,
    Distribution,
    Mixture,
    allocate_labels,
    second_opinion_value,
)
from sklearn_lhcal.metrics import policy_curve, referral_curve

# --- when to stop ---

DANGER = np.array([[0.0, 1.0, 2.0], [5.0, 0.0, 1.0], [20.0, 3.0, 0.0]])
BUDGET = 0.5
SPREAD = np.exp(np.linspace(-4, 4, 9))


def simulated():
    """(labels, distribution) of samples as the distribution expects them."""
    total = np.exp(np.random.default_rng(0).normal(0.5, 1, size=2000))
    data = make_label_histograms(2000, 3, 10, total=total, random_state=0)
    return data.counts, Dirichlet.from_mean(data.prediction, data.total)


def digits():
    """The same of mixed digits, ten raters a sample, five splits."""
    counts, predicted = [], []
    for seed in range(5):
        data = load_mixed_digits(raters=3, random_state=seed)
        kernel = Nystroem(gamma=0.1, n_components=300, random_state=0)
        classifier = make_pipeline(kernel, LogisticRegression(C=10, max_iter=1000))
        classifier.fit(data.X_train, data.counts_train.argmax(axis=1))
        scaled = TemperatureScaling("proba").fit(
            classifier.predict_proba(data.X_validation), data.counts_validation
        )
        model = AlphaCalibration("proba")
        model.fit(
            scaled.predict_proba(classifier.predict_proba(data.X_validation)),
            data.counts_validation,
        )
        z = scaled.predict_proba(classifier.predict_proba(data.X_test))
        predicted.append(model.predict_dist(z))
        counts.append(data.counts_test)
    return np.concatenate(counts), Distribution.concatenate(predicted)


def studies(row_std):
    """The same of five reader studies, ten readers a sample who differ.

    The larger `row_std`, the less the features tell, and the more labels are worth.
    """
    counts, predicted = [], []
    for seed in range(5):
        readers = {"rater_std": 0.5, "slope_std": 0.3}
        data = make_rater_study(1500, 10, row_std=row_std, random_state=seed, **readers)
        fit, test = slice(0, 500), slice(500, 1500)
        model = AlphaCalibration(TemperatureScaling("proba"))
        model.fit(data.prediction[fit], data.y.counts[fit])
        predicted.append(model.predict_dist(data.prediction[test]))
        counts.append(data.y.counts[test])
    return np.concatenate(counts), Distribution.concatenate(predicted)


def people(path: Path, with_spread=False):
    """The same of CIFAR-10H, some fifty people a sample; a label is that of a person."""
    with np.load(path) as file:
        z = file["proba"] / file["proba"].sum(axis=1, keepdims=True)
        counts = file["counts"].astype(int)
    order = np.random.default_rng(0).permutation(len(z))
    fit, test = order[:1000], order[1000:]
    model = AlphaCalibration(TemperatureScaling("proba", mixing="uniform"))
    model.fit(z[fit], counts[fit])
    distribution = model.predict_dist(z[test])
    if with_spread:
        distribution = spread(model.predict_dist(z[fit]), counts[fit], distribution)
    return counts[test], distribution


def spread(fitted, counts, distribution):
    """A mixture of Dirichlet distributions whose totals lie about those of the prediction."""
    rng = np.random.default_rng(1)
    votes = [np.array([rng.multivariate_hypergeometric(y, 5) for y in counts]) for _ in range(4)]
    log_p = np.array(
        [[member.log_prob_counts(y) for y in votes] for member in members(fitted)]
    ).reshape(len(SPREAD), -1)
    weights = np.full(len(SPREAD), 1 / len(SPREAD))
    # EM, which is concave in the weights
    for _ in range(500):
        weights = softmax(log_p + np.log(weights)[:, None], axis=0).mean(axis=1)
    log_w = np.tile(np.log(weights)[:, None], len(distribution))
    return Mixture.of(Distribution.concatenate(members(distribution)), log_w)


def members(distribution):
    """Dirichlet distributions with the same mean, of smaller and larger total."""
    z, total = distribution.mean(), distribution.total
    return [Dirichlet.from_mean(z, total * times) for times in SPREAD]


def one_danger(K, k=-1):
    """0/1 costs, but that one class, the last, costs ten times as much to miss."""
    C = 1.0 - np.eye(K)
    C[k] *= 10
    return C


def totals(name, counts, distribution, C, horizon):
    """Optimal stopping against two rules, at six prices."""
    curve = policy_curve(counts, distribution, C, horizon=horizon, random_state=0)
    shown = np.linspace(1, len(curve.prices) - 1, 6).astype(int)
    print(f"{name}, horizon {horizon}: total cost of a row, and the others' less it")
    for j in shown:
        ours, fixed, doubt = curve.total_cost[:, j]
        low, high = curve.difference_interval[1:, j].T
        print(
            f"  price {curve.prices[j]:.4f}   stopping {ours:.4f}"
            f"   best fixed number {fixed:.4f} [{low[0]:+.4f}, {high[0]:+.4f}]"
            f"   entropy {doubt:.4f} [{low[1]:+.4f}, {high[1]:+.4f}]"
        )
    # but for rounding where labels are free
    below = (curve.difference_interval[1:, :, 1] < -1e-12).sum(axis=1)
    lowest = curve.difference_interval[1:, :, 1].min()
    print(
        f"  significantly cheaper than stopping at {len(curve.prices)} prices: fixed {below[0]}, "
        f"entropy {below[1]}; lowest upper end {lowest:+.4f}"
    )


def allocation(name, counts, distribution, C, replays):
    """Drop of the cost of decisions, in percent, by BUDGET labels a sample, asked for at once."""
    n = len(counts)
    budget = int(BUDGET * n)
    value, doubt = second_opinion_value(distribution, C), distribution.entropy()
    rules = {
        "allocate_labels": allocate_labels(distribution, C, budget),
        "value of one": _first(value, budget),
        "entropy": _first(doubt, budget),
    }
    drops = {rule: [] for rule in rules}
    for seed in range(replays):
        rng = np.random.default_rng(seed)
        for rule, m in rules.items():
            labels = rng.multivariate_hypergeometric
            bought = np.array([labels(y, k) for y, k in zip(counts, m, strict=True)])
            truth = counts - bought
            truth = truth / truth.sum(axis=1, keepdims=True)
            cost = [
                np.einsum("nk,nk->n", truth, C.T[(d.mean() @ C).argmin(axis=1)]).mean()
                for d in (distribution, distribution.posterior(bought))
            ]
            drops[rule].append(100 * (1 - cost[1] / cost[0]))
    said = "   ".join(f"{r} {np.mean(d):.1f} % ± {np.std(d):.1f}" for r, d in drops.items())
    print(f"{name}, {BUDGET} labels a row: {said}")


def votes_to_come(name, counts, distribution):
    """Labels against the likelier class after two that differ; log-likelihood of five."""
    rng = np.random.default_rng(0)
    two = np.array([rng.multivariate_hypergeometric(y, 2) for y in counts])
    five = np.array([rng.multivariate_hypergeometric(y, 5) for y in counts])
    differ = two.max(axis=1) == 1
    z = distribution.posterior(two).mean()[differ]
    rest = (counts - two)[differ]
    likelier = np.arange(len(z)), z.argmax(axis=1)
    against = 1 - (rest / rest.sum(axis=1, keepdims=True))[likelier].mean()
    print(
        f"{name}: two votes differ in {len(z)} rows; of the others against the likelier class"
        f" {1 - z[likelier].mean():.2f} expected, {against:.2f} seen;"
        f" log-likelihood of five votes {distribution.log_prob_counts(five).mean():.3f}"
    )


def _first(priority, budget):
    """One label for each of the first samples."""
    m = np.zeros(len(priority), dtype=int)
    m[np.argsort(-priority, kind="stable")[:budget]] = 1
    return m


def stopping(draws: int, cifar10h: Path | None, only: str) -> None:
    worlds = {
        "simulated": lambda: (*simulated(), DANGER, 5),
        "digits": lambda: (*digits(), one_danger(10), 4),
        "studies": lambda: (*studies(1.5), DANGER, 5),
        "studies, 0/1": lambda: (*studies(1.5), 1 - np.eye(3), 5),
        "studies, good features": lambda: (*studies(0.5), DANGER, 5),
        "studies, good features, 0/1": lambda: (*studies(0.5), 1 - np.eye(3), 5),
    }
    if cifar10h is not None:
        rows = people(cifar10h)
        worlds["people, a missed cat costs 10"] = lambda: (*rows, one_danger(10, 3), 4)
        worlds["people, 0/1"] = lambda: (*rows, 1 - np.eye(10), 4)
        wide = people(cifar10h, with_spread=True)
        worlds["people, a missed cat costs 10, spread"] = lambda: (*wide, one_danger(10, 3), 4)
        worlds["people, 0/1, spread"] = lambda: (*wide, 1 - np.eye(10), 4)
    for name, world in worlds.items():
        if only not in name:
            continue
        counts, distribution, C, horizon = world()
        totals(name, counts, distribution, C, horizon)
        allocation(name, counts, distribution, C, draws)
        if name.startswith("people, 0/1"):
            votes_to_come(name, counts, distribution)


# --- whom to ask about first ---

RULES = ["second_opinion_value", "entropy", "disagreement"]


def made(seed):
    """An overconfident prediction of samples whose concentration no feature tells."""
    data = make_label_histograms(
        4000, n_raters=10, total=3.0, overconfidence=2.0, random_state=seed
    )
    return data.counts, np.log(data.prediction)


def shares(counts, logits, seed):
    """Of each rule, the share of the gain in the first fifth."""
    rng = np.random.default_rng(seed)
    first, second = np.array_split(rng.permutation(len(counts)), 2)
    two = rng.multivariate_hypergeometric
    few = np.array([two(y, min(2, y.sum())) for y in counts[first]])
    model = AlphaCalibration(TemperatureScaling("logits")).fit(logits[first], few)
    dist = model.predict_dist(logits[second])
    for rule in RULES:
        curve = referral_curve(counts[second], dist, rule=rule, normalize=True)
        yield float(np.interp(0.2, curve.fraction, curve.realised_gain))


def referral(draws: int, cifar10h: Path | None, only: str) -> None:
    if cifar10h is not None:
        stored = np.load(cifar10h)
        sets = {cifar10h.name: (stored["counts"], np.log(stored["proba"]))}
    else:
        sets = {f"made, seed {seed}": made(seed) for seed in range(3)}
    print(f"{'':28}" + "".join(f"{rule:>24}" for rule in RULES))
    for name, (counts, logits) in sets.items():
        if only not in name:
            continue
        found = np.array([list(shares(counts, logits, seed)) for seed in range(draws)])
        error = 2 * found.std(axis=0, ddof=1) / np.sqrt(draws)
        cells = zip(found.mean(axis=0), error, strict=True)
        print(f"{name:28}" + "".join(f"{f'{m:.3f} ± {e:.3f}':>24}" for m, e in cells))


STUDIES = {"stopping": (stopping, 20), "referral": (referral, 10)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--cifar10h", type=Path, metavar="FILE")
    parser.add_argument("--only", default="", help="part of the name of the rows")
    parser.add_argument("--draws", type=int, help="replays, or splits")
    options = parser.parse_args()
    run, draws = STUDIES[options.study]
    run(options.draws or draws, options.cifar10h, options.only)


if __name__ == "__main__":
    main()
