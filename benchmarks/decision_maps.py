"""What maps with mixing, their stack, and calibration for decisions do to risks, on real data.

    python benchmarks/decision_maps.py [--splits 20] [--cifar10h FILE.npz] [--only NAME] [--auto]
    python benchmarks/decision_maps.py --clip
    python benchmarks/decision_maps.py --few [--aside] [--splits 20]

Each problem: repeated random splits into samples for training, calibration (at most 1500) and test,
and eight kinds of costs. A number is the geometric mean over these of a ratio: the mean test risk
over splits, over that of the temperature of least log loss without mixing. Behind stands its 95%
interval, by the jackknife over splits (which share samples) with t quantiles. "auto", on request,
is `DecisionCalibration` as it is by default and takes most of the time, "constant" the best
constant decision of the calibration samples, "worst cost" the largest of the eight ratios of the
stack. FILE.npz holds "counts" of human labels and "proba" of a trained network.

``--clip``: the log loss where zeros and small probabilities of the classifier are clipped. Where it
prints no zeros, also what the clip of 1e-3 takes away: the share of test samples whose label lies
below it, and how often that label is the most probable of the classes below it.

``--few``: 50, 200 and 500 calibration samples of five problems, and with ``--aside`` of four that
were set aside before any result was seen, under five cost matrices each. For each problem and
number of samples: the geometric mean over the matrices of the mean test risk over that of the
temperature; then over all, with the largest ratio of a cell to the best default decision, which is
the decision of least cost that is the same for all samples: "constant" is that of the calibration
samples, and compared is with that of the test samples, whichever is known to nobody. Peers:
structured vector and matrix scaling of probmetrics ("svs", "sms"), where installed.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import torch
from lib.problems import cancer, digits, health, marriage, mnist, party, visits
from maps import PROBMETRICS, fitted, module_text, source_in_five, text_in_five, trained
from scipy.stats import t
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal.calibration import (
    BiasCorrectedTemperatureScaling,
    DecisionCalibration,
    MatrixScaling,
    StackedCalibration,
    TemperatureScaling,
)
from sklearn_lhcal.metrics import bayes_decision, decision_risk, label_log_loss

MOST_ROWS = 1500
CLIPS = (0.0, 1e-12, 1e-9, 1e-6, 1e-3)
DEAREST = 10_000


# --------------------------------------------------------------------------------------- problems


def mushrooms():
    """Six uneven classes, four features three times each: naive Bayes is overconfident."""
    rng = np.random.default_rng(0)
    y = rng.choice(6, size=5000, p=[0.02, 0.08, 0.35, 0.2, 0.2, 0.15])
    means = rng.normal(0, 2.0, (6, 4))
    hidden = means[y] + rng.normal(size=(5000, 4))
    return hidden @ np.tile(np.eye(4), 3) + 0.5 * rng.normal(size=(5000, 12)), y


NETWORK = make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=400, random_state=0))
LOGISTIC = make_pipeline(StandardScaler(), LogisticRegression(C=10.0, max_iter=2000))
FOREST = RandomForestClassifier(100, random_state=0)
BOOSTING = HistGradientBoostingClassifier(max_iter=30, random_state=0)
# name: (data, classifier, samples for training, whether the classifier prints zeros)
PROBLEMS = {
    "text, forest": (module_text, FOREST, 1500, True),
    "text, neighbours": (module_text, KNeighborsClassifier(20, metric="cosine"), 1500, True),
    "digits, forest": (digits, FOREST, 300, True),
    "digits, neighbours": (digits, KNeighborsClassifier(10), 300, True),
    "cancer, forest": (cancer, FOREST, 100, True),
    "mushrooms, forest": (mushrooms, FOREST, 1000, True),
    "text, naive Bayes": (module_text, MultinomialNB(alpha=0.1), 1500, False),
    "digits, naive Bayes": (digits, GaussianNB(var_smoothing=1e-3), 300, False),
    "cancer, naive Bayes": (cancer, GaussianNB(), 100, False),
    "mushrooms, naive Bayes": (mushrooms, GaussianNB(), 1000, False),
    "text, logistic": (module_text, LogisticRegression(max_iter=500), 1500, False),
    "digits, network": (digits, NETWORK, 300, False),
    "cancer, logistic": (cancer, LOGISTIC, 100, False),
}


def problems(cifar10h: Path | None) -> dict:
    """Functions of a seed that return probabilities and counts, and whether there are zeros."""
    found = {}
    for name, (data, model, n_train, zeros) in PROBLEMS.items():
        found[name] = (
            (lambda seed, a=(model, data, n_train): trained(a[0], *a[1](), a[2], seed)),
            zeros,
        )
    if cifar10h is not None:
        with np.load(cifar10h) as file:
            z = file["proba"] / file["proba"].sum(axis=1, keepdims=True)
            votes = z, file["counts"].astype(int)
        found["CIFAR-10H, network"] = (lambda seed: votes), False
    return found


def costs(K: int) -> dict[str, list[np.ndarray]]:
    """Eight kinds of costs for K classes; a kind's risk is the mean over its matrices.

    Each class is the dangerous one in turn: one alone could be the easiest, or the hardest.
    """
    rng = np.random.default_rng(0)
    plain = 1.0 - np.eye(K)
    found = {"0/1": [plain], "reject at .2": [np.column_stack([plain, np.full(K, 0.2)])]}
    for times in (10, 100, DEAREST):
        dear = [np.where(np.arange(K) == k, times, 1.0)[:, None] for k in range(K)]
        found[f"one danger x{times}"] = [plain * one for one in dear]
    found["random"] = [rng.exponential(size=(K, K)) * plain]
    found["random, squared"] = [rng.exponential(size=(K, K)) ** 2 * plain]
    # The first half of the classes is bad, the first of them deadly.
    half = K // 2
    eat = np.append(np.geomspace(10_000, 40, half), np.zeros(K - half))
    good = np.where(np.arange(K - half) % 2 == 0, 10.0, 20.0)
    reject = np.append(np.zeros(half), good)
    found["mushrooms"] = [np.column_stack([eat, reject])]
    return found


# Few samples: written down before any result was seen, as were the costs. At least a third of the
# samples that were not for training are for testing.
FEW_ROWS = (50, 200, 500)
FEW = {
    "health, boosting": (health, BOOSTING, 1000),
    "marriage, forest": (marriage, FOREST, 1000),
    "cancer, logistic": (cancer, LOGISTIC, 60),
    "text in five, naive Bayes": (text_in_five, MultinomialNB(alpha=0.1), 600),
    "digits of 28 × 28, forest": (mnist, FOREST, 1000),
}
ASIDE = {
    "visits, naive Bayes": (visits, GaussianNB(), 1000),
    "party, logistic": (party, LOGISTIC, 200),
    "digits, network": (digits, NETWORK, 300),
    "source in five, logistic": (source_in_five, LogisticRegression(max_iter=300), 1000),
}


def few_costs(y) -> dict[str, np.ndarray]:
    """Five cost matrices for labels of classes 0 … K − 1."""
    frequency = np.bincount(y)
    K = len(frequency)
    plain = 1.0 - np.eye(K)
    rarest = (np.arange(K) == frequency.argmin())[:, None]
    # ill are the rarer half of the classes
    ill = np.isin(np.arange(K), np.argsort(frequency, kind="stable")[: K // 2])
    return {
        "reject at .2": np.column_stack([plain, np.full(K, 0.2)]),
        "one danger x10": plain * np.where(rarest, 10.0, 1.0),
        "one danger x100": plain * np.where(rarest, 100.0, 1.0),
        "random": np.random.default_rng(1).exponential(size=(K, K)) * plain,
        "leave or treat": np.column_stack([np.where(ill, 5.0, 0.0), np.where(ill, 0.0, 1.0)]),
    }


# ----------------------------------------------------------------------------------------- methods

MAPS = {
    "T": TemperatureScaling("proba"),
    "T + mixing": TemperatureScaling("proba", mixing="uniform"),
    "stack": StackedCalibration("proba"),
}


def halves(proba, counts, seed: int):
    """Calibration samples, and test samples."""
    order = np.random.default_rng(seed).permutation(len(proba))
    n = min(MOST_ROWS, len(proba) // 2)
    fit, test = order[:n], order[n:]
    return proba[fit], counts[fit], proba[test], counts[test]


def risks(proba, counts, seed: int, with_auto: bool) -> dict[str, list[float]]:
    """Test risk by method, one for each cost matrix; and the log loss."""
    z, y, z_test, y_test = halves(proba, counts, seed)
    mapped = {name: one.fit(z, y).predict_proba(z_test) for name, one in MAPS.items()}
    mapped = {"none": z_test, **mapped}
    found = {name: [] for name in (*mapped, "auto", "constant")}
    share = (y / y.sum(axis=1, keepdims=True)).mean(axis=0)
    for matrices in costs(proba.shape[1]).values():
        for name, p in mapped.items():
            risk = [decision_risk(y_test, bayes_decision(p, C), C) for C in matrices]
            found[name].append(np.mean(risk))
        if with_auto:
            fits = [DecisionCalibration("proba", C).fit(z, y).decide(z_test) for C in matrices]
            pairs = zip(fits, matrices, strict=True)
            found["auto"].append(np.mean([decision_risk(y_test, d, C) for d, C in pairs]))
        best = [np.full(len(y_test), (share @ C).argmin()) for C in matrices]
        pairs = zip(best, matrices, strict=True)
        found["constant"].append(np.mean([decision_risk(y_test, d, C) for d, C in pairs]))
    losses = {name: label_log_loss(y_test, mapped[name]) for name in MAPS}
    dearest = costs(proba.shape[1])[f"one danger x{DEAREST}"]
    struck = {name: struck_rows(y_test, mapped[name], dearest) for name in MAPS}
    return found | {"log loss": losses, "struck": struck}


def struck_rows(y, p, matrices) -> int:
    """Test samples in which a twentieth of the raters or more suffers the dearest mistake."""
    share = y / y.sum(axis=1, keepdims=True)
    each = [np.einsum("nk,nk->n", share, C.T[bayes_decision(p, C)]) for C in matrices]
    return int((np.max(each, axis=0) >= DEAREST / 20).sum())


def ratio(a, b) -> tuple[float, float, float]:
    """Geometric mean over costs of the ratio of risks (splits, costs), with its 95% interval."""
    total_a = a.sum(axis=0)
    total_b = b.sum(axis=0)
    # A risk of 0 on both sides is no difference.
    tiny = 1e-9 * total_b.max()

    def log_ratio(x, y):
        return np.log((x + tiny) / (y + tiny)).mean(axis=-1)

    estimate = log_ratio(total_a, total_b)
    n = len(a)
    left_out = log_ratio(total_a - a, total_b - b)
    error = np.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum())
    reach = t.ppf(0.975, n - 1) * error
    return tuple(np.exp([estimate, estimate - reach, estimate + reach]))


def table(options) -> None:
    columns = ["none", "T + mixing", "stack", "constant"]
    if options.auto:
        columns.insert(3, "auto")
    print("problem".ljust(24) + "log loss T, T + mixing, stack".rjust(30), end="")
    print("".join(name.rjust(22) for name in columns) + "worst cost".rjust(12))
    groups = {True: [], False: []}
    for name, (problem, zeros) in problems(options.cifar10h).items():
        if options.only not in name:
            continue
        found = [risks(*problem(seed), seed, options.auto) for seed in range(options.splits)]
        of = {m: np.array([one[m] for one in found]) for m in (*columns, "T")}
        loss = [np.mean([one["log loss"][m] for one in found]) for m in MAPS]
        cells = [ratio(of[m], of["T"]) for m in columns]
        groups[zeros].append([cell[0] for cell in cells])
        worst = (of["stack"].sum(axis=0) / np.maximum(of["T"].sum(axis=0), 1e-300)).max()
        if options.costs:
            print_costs(of, [one["struck"] for one in found])
        print(name.ljust(24) + " ".join(f"{v:9.4f}" for v in loss).rjust(30), end="")
        shown = [f"{m:.3f} ({low:.3f}-{high:.3f})" for m, low, high in cells]
        print("".join(cell.rjust(22) for cell in shown) + f"{worst:12.3f}", flush=True)
    for zeros, rows in groups.items():
        if rows:
            means = np.exp(np.log(rows).mean(axis=0))
            what = "prints zeros" if zeros else "prints none"
            print(what.ljust(54) + "".join(f"{m:.3f}".rjust(22) for m in means))


def print_costs(of, struck) -> None:
    """Mean risks, and the stack's over T's, one kind of costs below the other."""
    for i, kind in enumerate(costs(2)):
        print(
            f"  {kind:20}" + "".join(f"{m} {r[:, i].mean():.4f}   " for m, r in of.items()), end=""
        )
        m, low, high = ratio(of["stack"][:, [i]], of["T"][:, [i]])
        print(f"stack over T {m:.3f} ({low:.3f}-{high:.3f})")
    rows = {m: sum(one[m] for one in struck) for m in MAPS}
    print(f"  test rows with a mistake of {DEAREST}, in all splits: {rows}")


FEW_MAPS = {
    "T": TemperatureScaling("proba"),
    "BC mixing": BiasCorrectedTemperatureScaling("proba", mixing="uniform"),
    "matrix": MatrixScaling(TemperatureScaling("proba", mixing="uniform")),
    "stack": StackedCalibration("proba"),
}


def few_risks(proba, counts, n: int, seed: int, matrices) -> dict[str, list[float]]:
    """Mean test risk by method, one for each cost matrix; NaN where a peer has not all classes."""
    order = np.random.default_rng(seed).permutation(len(proba))
    fit, test = order[:n], order[-len(order) // 3 :][:3000]
    z, y, z_test, y_test = proba[fit], counts[fit], proba[test], counts[test]
    mapped = {name: one.fit(z, y).predict_proba(z_test) for name, one in FEW_MAPS.items()}
    for name in PROBMETRICS:
        try:
            mapped[name] = np.asarray(fitted(name, z, y, seed)(z_test), dtype=np.float64)
        except (ValueError, AssertionError, IndexError):
            mapped[name] = np.full(z_test.shape, np.nan)
    found = {name: [] for name in (*mapped, "decision", "constant", "default")}
    share = (y / y.sum(axis=1, keepdims=True)).mean(axis=0)
    for C in matrices:
        for name, p in mapped.items():
            risk = np.nan
            if p.shape == z_test.shape and np.isfinite(p).all():
                risk = decision_risk(y_test, bayes_decision(p / p.sum(axis=1, keepdims=True), C), C)
            found[name].append(risk)
        chosen = DecisionCalibration("proba", C).fit(z, y).decide(z_test)
        found["decision"].append(decision_risk(y_test, chosen, C))
        alike = [decision_risk(y_test, np.full(len(test), d), C) for d in range(C.shape[1])]
        found["constant"].append(alike[(share @ C).argmin()])
        found["default"].append(alike)
    return found


def few_table(options) -> None:
    """Of each problem and number of samples, and of all together."""
    cells = {}
    names = [*FEW_MAPS, *PROBMETRICS, "decision", "constant"]
    print("over the temperature".ljust(34) + "".join(name.rjust(10) for name in names))
    for problem, (data, model, n_train) in {**(ASIDE if options.aside else FEW)}.items():
        X, labels = data()
        matrices = list(few_costs(labels).values())
        splits = [trained(model, X, labels, n_train, seed) for seed in range(options.splits)]
        for n in FEW_ROWS:
            if n > len(splits[0][0]) - -(-len(splits[0][0]) // 3):
                continue
            runs = [few_risks(*split, n, i, matrices) for i, split in enumerate(splits)]
            of = {m: np.array([run[m] for run in runs]) for m in names}
            default = np.array(
                [
                    np.mean([run["default"][i] for run in runs], axis=0).min()
                    for i in range(len(matrices))
                ]
            )
            line = []
            for name in names:
                seen = np.isfinite(of[name])
                ratio = np.where(seen, of[name], 0).sum(axis=0) / (of["T"] * seen).sum(axis=0)
                cells[problem, n, name] = ratio, of[name].mean(axis=0) / default
                line.append(np.exp(np.log(ratio).mean()))
            said = f"{problem}, {n}".ljust(34)
            print(said + "".join(f"{one:10.3f}" for one in line), flush=True)
    for title, i in (("all", 0), ("largest over the best default", 1)):
        values = [np.array([v[i] for k, v in cells.items() if k[2] == m]) for m in names]
        each = [np.exp(np.nanmean(np.log(v))) if i == 0 else np.nanmax(v) for v in values]
        print(title.ljust(34) + "".join(f"{one:10.3f}" for one in each))
    constants = np.array([v[0] for k, v in cells.items() if k[2] == "constant"])
    each = [np.array([v[0] for k, v in cells.items() if k[2] == m]) / constants for m in names]
    title = "largest over that of the rows"
    print(title.ljust(34) + "".join(f"{np.nanmax(one):10.3f}" for one in each))


def clip_table(options) -> None:
    print(
        "log loss by clip".ljust(36) + "".join(f"{clip:10.0e}" for clip in CLIPS) + "   most/least"
    )
    for name, (problem, zeros) in problems(None).items():
        if options.only not in name:
            continue
        z, y, z_test, y_test = halves(*problem(0), 0)
        if z.min() > CLIPS[1]:
            continue
        for label, one in MAPS.items():
            losses = []
            for clip in CLIPS:
                fit, test = (clipped(p, clip) for p in (z, z_test))
                losses.append(label_log_loss(y_test, one.fit(fit, y).predict_proba(test)))
            said = "".join(f"{v:10.4f}" for v in losses) + f"{max(losses) / min(losses):13.4f}"
            print(f"{name}, {label}".ljust(36) + said, flush=True)
        if not zeros:
            print_below(z_test, y_test)


def print_below(z, y) -> None:
    """Of the samples whose label lies below the largest clip: is it the likeliest there?"""
    below = z < CLIPS[-1]
    lost = (below & (y > 0)).any(axis=1)
    if not lost.any():
        return
    z, y, below = z[lost], y[lost], below[lost]
    likeliest = np.where(below, z, -1).argmax(axis=1)
    right = (y[np.arange(len(y)), likeliest] > 0).mean()
    chance = (1 / below.sum(axis=1)).mean()
    print(
        f"  label below {CLIPS[-1]:.0e} in {lost.mean():.0%} of {len(lost)} rows, likeliest of the"
        f" classes there in {right:.0%} of these, by chance in {chance:.0%}"
    )


def clipped(z, clip: float):
    z = np.maximum(z, clip)
    return z / z.sum(axis=1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Maps for decisions against the temperature.")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--cifar10h", type=Path, metavar="FILE")
    parser.add_argument("--only", default="", help="part of the name of a problem")
    parser.add_argument("--auto", action="store_true")
    parser.add_argument("--costs", action="store_true", help="print the risks of each kind")
    parser.add_argument("--clip", action="store_true")
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--aside", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", UserWarning)
    if options.clip:
        clip_table(options)
    elif options.few:
        few_table(options)
    else:
        table(options)


if __name__ == "__main__":
    main()
