"""The oracle: what report.json says, computed again from the same files.

A random study is written as CSV files, which the command and pandas read. Estimates are computed
with numpy; intervals, p-values and fitted numbers are those of one public call on the labels that
pandas read. Every entry of the table of numbers is asked for.
"""

import json
from functools import cached_property, partial
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import cohen_kappa_score
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils import check_random_state

from sklearn_lhcal import metrics
from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.distributions import Distribution
from sklearn_lhcal.label_histogram import (
    Annotations,
    KnownProbabilities,
    cohen_kappa,
    fleiss_kappa,
    gwet_ac,
    krippendorff_alpha,
    percent_agreement,
)
from sklearn_lhcal.metrics import confidence_interval, paired_difference, rater_comparison
from sklearn_lhcal.report import command

jsonschema = pytest.importorskip("jsonschema")
pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

GRADES = ["mild", "moderate", "severe"]
FINDINGS = ["edema", "mass"]
KINDS = ["nominal", "ordered", "judge", "ordered judge", "findings"]
COSTS = pd.DataFrame([[0.0, 1.0], [2.0, 1.0], [6.0, 1.0]], GRADES, ["treat", "wait"])
FAST = [0, 1, 2, 3, 4, 6, 11, 13]


# ----------------------------------------------------------------------------------- random studies


def labels_of(rng, p, ids, classes, n_raters):
    """A row for each label; raters leave out some cases, and tend to classes of their own."""
    taste = 1.5 * rng.random() * rng.dirichlet(np.ones(len(classes)), n_raters)
    share = rng.choice([0.6, 0.8, 1.0])
    rows = []
    for i, case in enumerate(ids):
        for r in range(n_raters):
            if rng.random() < share:
                q = p[i] + taste[r]
                rows.append((case, f"R{r}", rng.choice(classes, p=q / q.sum())))
    return pd.DataFrame(rows, columns=["image", "reader", "label"])


def draw(seed, folder):
    """The files of a study, and the options of the command."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    n = int(rng.integers(45, 70))
    ids = [f"{i:03d}" for i in range(n)]
    options = []
    n_raters = int(rng.integers(3, 6))
    if kind == "findings":
        p = pd.DataFrame(rng.beta(1, 1, (n, 2)), columns=FINDINGS)
        every = []
        for name in FINDINGS:
            both = np.column_stack([1 - p[name], p[name]])
            own = labels_of(rng, both, ids, ["0", "1"], n_raters)
            every.append(own.assign(what=name))
        long, proba = pd.concat(every), p**2 / (p**2 + (1 - p) ** 2)
        options += ["--finding", "what", "--only", "mass"]
    else:
        q = rng.dirichlet([0.7, 0.7, 0.7], n)
        long = labels_of(rng, q, ids, GRADES, n_raters)
        power = q ** rng.choice([0.5, 1.0, 3.0])
        proba = pd.DataFrame(power / power.sum(axis=1, keepdims=True), columns=GRADES)
    if "judge" in kind:
        proba = pd.DataFrame({"gpt": np.array(GRADES)[proba.to_numpy().argmax(axis=1)]})
        options += ["--classes", *GRADES]
    if "ordered" in kind:
        options = ["--ordered", *GRADES]
    proba.insert(0, "image", ids)
    if rng.random() < 0.5:
        proba["patient"] = [f"p{i // 2:02d}" for i in range(n)]
        options += ["--patient", "patient"]
    if rng.random() < 0.5 and "judge" not in kind:
        proba["site"] = rng.choice(["north", "south"], n)
        options += ["--subgroups", "site"]
    if rng.random() < 0.4 and kind in ("nominal", "ordered"):
        COSTS.to_csv(folder / "costs.csv")
        options += ["--costs", str(folder / "costs.csv")]
    proba.sample(frac=1, random_state=seed).to_csv(folder / "proba.csv", index=False)
    named = kind == "findings" or rng.random() < 0.7
    options += ["--margin", str([0.05, 0.1, 0.02][seed % 3])]
    if named:
        if seed % 3:
            long["status"] = np.where(long["reader"] < "R2", "expert", "trainee")
            options += ["--rater-groups", "status"]
        long.sample(frac=1, random_state=seed).to_csv(folder / "labels.csv", index=False)
        options += ["--columns", "image", "reader", "label"]
    else:
        counts = pd.crosstab(long["image"], long["label"]).reset_index()
        counts.to_csv(folder / "labels.csv", index=False)
    labels = "--annotations" if named else "--counts"
    predicted = "--predicted-labels" if "judge" in kind else "--proba"
    return [*options, labels, str(folder / "labels.csv"), predicted, str(folder / "proba.csv")]


# ------------------------------------------------------------------------------ what pandas reads


class Read:
    """The files of a study, as pandas reads them: cases in the order of the predictions."""

    def __init__(self, folder, options, finding=None):
        text = {"image": str, "label": str}
        labels = pd.read_csv(folder / "labels.csv", dtype=text)
        proba = pd.read_csv(folder / "proba.csv", dtype=text).set_index("image")
        about = proba[proba.columns.intersection(["patient", "site"])]
        proba = proba.drop(columns=about.columns)
        if finding is not None:
            labels = labels[labels["what"] == finding]
            labels["label"] = labels["label"].map({"0": f"no {finding}", "1": finding})
            proba = pd.DataFrame({f"no {finding}": 1 - proba[finding], finding: proba[finding]})
        if "gpt" in proba:
            proba = pd.get_dummies(proba["gpt"], dtype=float).reindex(columns=GRADES, fill_value=0)
        self.hard = "--predicted-labels" in options
        self.classes = list(proba)
        self.named = "reader" in labels
        self.long = labels if self.named else None
        counts = labels.set_index("image")
        if self.named:
            counts = pd.crosstab(labels["image"], labels["label"])
        counts = counts.reindex(index=proba.index, columns=self.classes).fillna(0).astype(int)
        self.seen = counts.sum(axis=1) > 0
        self.ids = proba.index[self.seen]
        self.frame, self.proba = counts[self.seen], proba[self.seen]
        self.counts, self.z = self.frame.to_numpy(), self.proba.to_numpy()
        self.about = about.loc[self.ids]
        self.groups = self.about["patient"].to_numpy() if "patient" in about else None
        self.first = self.z.argmax(axis=1)
        self.n = self.counts.sum(axis=1)
        self.mu = self.counts / self.n[:, None]
        self.how = {"groups": self.groups, "random_state": 0}

    @cached_property
    def y(self):
        """What public functions take: labels that know their raters, else counts."""
        if not self.named:
            return self.frame
        parts = (self.long[name] for name in ("image", "reader", "label"))
        return Annotations.from_long(*parts, items=self.ids, classes=self.classes)

    @cached_property
    def pairs(self):
        """Each label beside each other one of its case, and what the model says."""
        others = self.long.merge(self.long, on="image")
        others = others[others["reader_x"] != others["reader_y"]]
        first = pd.Series(self.first, self.ids)
        place = {name: k for k, name in enumerate(self.classes)}
        return pd.DataFrame(
            {
                "case": others["image"],
                "rater": others["reader_x"],
                "own": others["label_x"].map(place),
                "other": others["label_y"].map(place),
                "model": first[others["image"]].to_numpy(),
            }
        )

    @cached_property
    def recalibrated(self):
        """Out of fold, in five folds."""
        folds = KFold if self.groups is None else GroupKFold
        splits = folds(5, shuffle=True, random_state=check_random_state(0))
        parts, order = [], []
        for train, test in splits.split(self.z, groups=self.groups):
            scaling = AlphaCalibration(TemperatureScaling("proba"))
            fitted = scaling.fit(self.z[train], self.counts[train])
            parts.append(fitted.predict_dist(self.z[test]))
            order.append(test)
        whole = Distribution.concatenate(parts)[np.argsort(np.concatenate(order))]
        return whole.with_classes(self.classes)

    def prediction(self, subset):
        return self.recalibrated if subset == "recalibrated" else self.proba


# ------------------------------------------------------------------- estimates, by pandas and numpy


def shares(y):
    counts = np.asarray(y, dtype=float)
    return counts / counts.sum(axis=1, keepdims=True)


def disagreement(y):
    """Of each case: the share of pairs of labels that differ."""
    n = np.asarray(y).sum(axis=1)
    return n / (n - 1) * (1 - (shares(y) ** 2).sum(axis=1))


def mean_of(prediction):
    return prediction.mean() if hasattr(prediction, "disagreement") else np.asarray(prediction)


def predicted_disagreement(prediction):
    if hasattr(prediction, "disagreement"):
        return prediction.disagreement()
    return 1 - (np.asarray(prediction) ** 2).sum(axis=1)


def agreement(y, prediction):
    z = mean_of(prediction)
    return shares(y)[np.arange(len(z)), z.argmax(axis=1)]


def brier(y, prediction):
    mu, z = shares(y), mean_of(prediction)
    return ((mu - z) ** 2 + mu * (1 - mu)).sum(axis=1)


def confidence(y, prediction):
    return mean_of(prediction).max(axis=1).mean()


def overconfidence(y, prediction):
    return confidence(y, prediction) - agreement(y, prediction).mean()


def excess_disagreement(y, prediction):
    return (predicted_disagreement(prediction) - disagreement(y)).mean()


def excess_error(y, prediction):
    return (1 - agreement(y, prediction) - disagreement(y)).mean()


def as_accuracy(p):
    """Labels and a prediction whose accuracy in each case is p."""
    return KnownProbabilities(np.column_stack([1 - p, p])), np.tile([0.0, 1.0], (len(p), 1))


def as_difference(z):
    """Two predictions, and what their difference in Brier score lacks to the overconfidence.

    With e the first choice they are q, where q_e = max z − (1 − 1/K)/2, and p = q + (e − 1/K)/2.
    """
    K = z.shape[1]
    e = np.eye(K)[z.argmax(axis=1)]
    top = z.max(axis=1, keepdims=True) - (1 - 1 / K) / 2
    q = np.where(e == 1, top, (1 - top) / (K - 1))
    return (q + (e - 1 / K) / 2).clip(0), q, (1 - 1 / K) / 4


def auc(y, prediction, k):
    mu, p = shares(y)[:, k], np.asarray(prediction)[:, k]
    pairs = mu[:, None] * (1 - mu)
    np.fill_diagonal(pairs, 0)
    return (pairs * ((p[:, None] > p) + (p[:, None] == p) / 2)).sum() / pairs.sum()


def captured(y, prediction, above, of):
    loss = of(y, prediction)
    return loss[predicted_disagreement(prediction) >= above].sum() / loss.sum()


def logit(prediction, k):
    p = np.asarray(prediction)[:, k].clip(1e-6, 1 - 1e-6)
    return np.log(p / (1 - p))


def calibration_slope(y, prediction, k):
    mu = shares(y)[:, k]
    x = np.repeat(logit(prediction, k), 2)[:, None]
    weight = np.column_stack([mu, 1 - mu]).ravel()
    fit = LogisticRegression(C=1e12, tol=1e-10, solver="newton-cholesky")
    return fit.fit(x, np.tile([1, 0], len(mu)), sample_weight=weight).coef_[0, 0]


def calibration_intercept(y, prediction, k):
    """As many labels as are expected, by halving."""
    low, high = -30.0, 30.0
    x, observed = logit(prediction, k), shares(y)[:, k].mean()
    for _ in range(60):
        a = (low + high) / 2
        low, high = (a, high) if (1 / (1 + np.exp(-a - x))).mean() < observed else (low, a)
    return a


def common_slope(mu, z):
    """β at which ``Σ log z (μ̂ − softmax(β log z))`` is 0, by halving."""
    low, high = 0.0, 20.0
    u = np.log(np.maximum(z, 1e-6))
    for _ in range(60):
        b = (low + high) / 2
        q = np.exp(b * u)
        q /= q.sum(axis=1, keepdims=True)
        low, high = (b, high) if (u * (mu - q)).sum() > 0 else (low, b)
    return b


def of_pairs(read, quantity, rater):
    """Of comparisons of two labels of a case, each case or each rater's label counting once."""
    who, what = quantity.split("_")
    pairs = read.pairs if rater is None else read.pairs[read.pairs["rater"] == rater]
    one = ["case"] if rater is None else ["case", "rater"]
    weight = 1 / pairs.groupby(one)["own"].transform("size")
    far = {"error": lambda a, b: a != b, "steps": lambda a, b: (a - b).abs()}[what]
    found = {
        "rater": np.average(far(pairs["own"], pairs["other"]), weights=weight),
        "model": np.average(far(pairs["model"], pairs["other"]), weights=weight),
    }
    found["excess"] = found["model"] - found["rater"]
    return found[who]


def rater_bias(read, k, rater):
    pairs = read.pairs[read.pairs["rater"] == rater]
    own = (pairs["own"] == k).astype(float) - (pairs["other"] == k)
    return np.average(own, weights=1 / pairs.groupby("case")["own"].transform("size"))


# ------------------------------------------------------------ one number: estimate, and public call


PUBLIC = {
    "accuracy": (metrics.expected_accuracy, lambda y, p: agreement(y, p).mean()),
    "log_loss": (
        metrics.label_log_loss,
        lambda y, p: -(y * np.log(mean_of(p).clip(np.finfo(float).eps))).sum() / y.sum(),
    ),
    "expected_squared_loss": (metrics.expected_squared_loss, lambda y, p: brier(y, p).mean()),
    "irreducible_loss": (metrics.irreducible_loss, lambda y, p: disagreement(y).mean()),
    "epistemic_loss": (metrics.epistemic_loss, lambda y, p: (brier(y, p) - disagreement(y)).mean()),
    "calibration_error": (metrics.calibration_error, None),
    "calibration_loss": (metrics.calibration_loss, None),
    "dispersion_loss": (metrics.dispersion_loss, None),
    "disagreement_squared_loss": (metrics.disagreement_squared_loss, None),
    "disagreement_calibration_error": (metrics.disagreement_calibration_error, None),
    # of the report alone
    "confidence": (confidence, confidence),
    "overconfidence": (overconfidence, overconfidence),
    "excess_disagreement": (excess_disagreement, excess_disagreement),
    "excess_error": (excess_error, excess_error),
}
PAIRS = {"irreducible_loss", "epistemic_loss", "excess_disagreement", "excess_error"}
COEFFICIENTS = {
    "percent_agreement": (percent_agreement, "nominal"),
    "fleiss_kappa": (fleiss_kappa, "nominal"),
    "krippendorff_alpha": (krippendorff_alpha, "nominal"),
    "gwet_ac": (gwet_ac, "nominal"),
    "fleiss_kappa_linear": (fleiss_kappa, "linear"),
    "fleiss_kappa_quadratic": (fleiss_kappa, "quadratic"),
    "krippendorff_alpha_ordinal": (krippendorff_alpha, "ordinal"),
}


def expected(read, entry):
    """The estimate by pandas, or None; and the public call's (estimate, low, high), or None."""
    quantity, subset = entry["quantity"], entry["subset"]
    raters = "random" if subset == "new_raters" else "fixed"
    how = {**read.how, "confidence_level": entry["level"]}
    interval = partial(confidence_interval, raters=raters, **how)
    if quantity in ("percent_agreement", "cohen_kappa") and entry["part"] is not None:
        return of_two(read, entry)
    if quantity in COEFFICIENTS:
        function, weights = COEFFICIENTS[quantity]
        by_hand = None
        if quantity == "percent_agreement":
            by_hand = 1 - disagreement(read.counts[read.n >= 2]).mean()
        # columns of text have no order, those of an array do
        y = read.y if read.named or weights == "nominal" else read.counts
        return by_hand, interval(function, y, None, weights=weights)
    if quantity in ("accuracy_difference", "agreement_difference"):
        return between_groups(read, entry, raters)
    if quantity.split("_")[-1] in ("error", "steps") and read.named and "calib" not in quantity:
        return of_raters(read, entry, raters)
    if quantity in ("temperature", "mixing_weight"):
        fitted = TemperatureScaling("proba").fit(read.z, read.counts)
        return None, (getattr(fitted, f"{quantity}_", 0.0), np.nan, np.nan)
    if quantity == "equivalent_raters":
        found = comparison(read, "fixed")
        return None, (found.worth, found.worth_low, found.worth_high)
    if quantity in ("raters_alike_p", "rater_bias"):
        return of_table(read, entry)
    if entry["class_name"] is not None and entry["part"] not in (None, *FINDINGS):
        return of_subgroup(read, entry)
    if quantity == "subgroups_calibrated_p" or str(entry["part"]).startswith("site="):
        return of_subgroup(read, entry)
    if entry["class_name"] is not None or quantity == "share_of_labels":
        return of_class(read, entry, interval)
    if quantity.startswith("captured"):
        return of_referral(read, entry, interval)
    if quantity in ("decision_risk", "default_risk"):
        return of_costs(read, entry, interval)
    if quantity == "expected_calibration_error":
        prediction = read.prediction(subset)
        found = metrics.expected_calibration_error(read.y, prediction)
        return None, (found, np.nan, np.nan)
    function, by_hand = PUBLIC[quantity]
    y, z, some = read.y, read.prediction(subset), np.ones(len(read.n), bool)
    if quantity in PAIRS:
        some = read.n >= 2
    if subset == "difference":
        estimate = None
        if by_hand:
            estimate = by_hand(read.counts[some], read.recalibrated[some])
            estimate -= by_hand(read.counts[some], read.z[some])
        call = paired_difference(function, y, read.recalibrated, z, raters="fixed", **how)
        return estimate, call
    z = z[some] if subset == "recalibrated" else z.loc[some]
    estimate = None if by_hand is None else by_hand(read.counts[some], z)
    if raters == "random":
        p, q, rest = as_difference(read.z)
        call = paired_difference(metrics.expected_squared_loss, y, p, q, raters=raters, **how)
        return estimate, np.array(call[:3]) + rest
    if function is by_hand:
        labels = read.counts[some]
        groups = None if read.groups is None else read.groups[some]
        z = z if hasattr(z, "disagreement") else z.to_numpy()
        if quantity == "confidence":
            return estimate, interval(
                metrics.expected_accuracy, *as_accuracy(mean_of(z).max(axis=1))
            )
        # as a mean of the package
        own = {**how, "groups": groups, "n_blocks": 1000}
        call = confidence_interval(by_hand, labels, z, raters=raters, **own)
        return estimate, call
    return estimate, interval(function, y, read.prediction(subset))


def comparison(read, raters, distance=None):
    options = {"margin": 0.05, "raters": raters, "distance": distance}
    return rater_comparison(read.y, read.proba, **options, **read.how)


def of_raters(read, entry, raters):
    """In steps `rater_comparison` has half."""
    who, what = entry["quantity"].split("_")
    rater = entry["part"]
    factor, distance = (1, None) if what == "error" else (2, "linear")
    found = comparison(read, raters, distance)
    if rater is None:
        field = {"excess": "difference", "model": "model_error", "rater": "reader_error"}[who]
        ends = getattr(found, field)[:3]
    else:
        r = found.readers.raters.tolist().index(rater)
        field = {"excess": "difference", "rater": "error"}[who]
        low_high = getattr(found.readers, f"{field}_interval")[r]
        ends = getattr(found.readers, field)[r], *low_high
    return of_pairs(read, entry["quantity"], rater), factor * np.array(ends)


def between_groups(read, entry, raters):
    """Experts minus trainees, by the mean over the cases of each."""
    of_accuracy = entry["quantity"] == "accuracy_difference"
    means = []
    for group in entry["part"].split(" minus "):
        own = read.long[(read.long["status"] == group) & read.long["image"].isin(read.ids)]
        counts = pd.crosstab(own["image"], own["label"]).reindex(columns=read.classes, fill_value=0)
        if of_accuracy:
            means.append(agreement(counts, read.proba.loc[counts.index]).mean())
        else:
            means.append(1 - disagreement(counts[counts.sum(axis=1) >= 2]).mean())
    of = read.long.drop_duplicates("reader").set_index("reader")["status"]
    how = {**read.how, "raters": raters, "confidence_level": entry["level"]}
    function = metrics.expected_accuracy if of_accuracy else percent_agreement
    call = metrics.rater_group_difference(
        function, read.y, of, read.proba if of_accuracy else None, **how
    )
    return means[0] - means[1], call


def of_two(read, entry):
    """Of the cases that both raters labelled, by pandas and scikit-learn."""
    pair = entry["part"].split(" and ")
    long = read.long[read.long["image"].isin(read.ids) & read.long["reader"].isin(pair)]
    place = {name: k for k, name in enumerate(read.classes)}
    wide = long.assign(label=long["label"].map(place)).pivot(
        index="image", columns="reader", values="label"
    )
    wide = wide.reindex(read.ids).dropna().astype(int)
    weights = "quadratic" if "quadratic" in entry["computed"] else None
    y = Annotations.from_matrix(wide.to_numpy(), classes=list(place.values()))
    groups = None if read.groups is None else pd.Series(read.groups, read.ids)[wide.index]
    how = {**read.how, "groups": None if groups is None else groups.to_numpy()}
    options = {"weights": weights} if weights else {}
    function = cohen_kappa if entry["quantity"] == "cohen_kappa" else percent_agreement
    call = confidence_interval(
        function, y, None, raters="fixed", confidence_level=entry["level"], **how, **options
    )
    a, b = wide.to_numpy().T
    by_hand = (a == b).mean()
    if function is cohen_kappa:
        by_hand = cohen_kappa_score(a, b, weights=weights, labels=list(place.values()))
    assert entry["n"] == len(wide)
    return by_hand, call


def of_table(read, entry):
    table = metrics.rater_table(read.y, **read.how)
    if entry["quantity"] == "raters_alike_p":
        p = table.p_values.get(entry["part"], table.pvalue)
        return None, (p, np.nan, np.nan)
    k = read.classes.index(entry["class_name"])
    r = table.raters.tolist().index(entry["part"])
    return rater_bias(read, k, entry["part"]), (table.bias[r, k], *table.interval[r, k])


def of_subgroup(read, entry):
    audit = metrics.subgroup_audit(read.y, read.proba, read.about[["site"]], **read.how)
    if entry["part"] is None:
        return None, (audit.p_value, np.nan, np.nan)
    table = audit.to_frame()
    own = (read.about["site"] == entry["part"].removeprefix("site=")).to_numpy()
    if entry["quantity"] == "excess_probability":
        k = read.classes.index(entry["class_name"])
        estimate = (read.z - read.mu)[own, k].mean()
        return estimate, table.loc[entry["part"], entry["class_name"]][["estimate", "low", "high"]]
    if entry["quantity"] == "slope":
        shown = table.loc[entry["part"]].iloc[0][["slope", "slope_low", "slope_high"]]
        return common_slope(read.mu[own], read.z[own]), shown
    some = own & (read.n >= 2)
    estimate = PUBLIC[entry["quantity"]][1](read.counts[some], read.z[some])
    names = [entry["quantity"] + end for end in ("", "_low", "_high")]
    return estimate, table.loc[entry["part"]].iloc[0][names]


def of_class(read, entry, interval):
    quantity, name = entry["quantity"], entry["class_name"] or read.classes[-1]
    k = read.classes.index(name)
    hit, mu = read.first == k, read.mu[:, k]
    binary = np.column_stack([read.n - read.counts[:, k], read.counts[:, k]])
    accuracy = partial(interval, metrics.expected_accuracy)
    always = np.tile([0.0, 1.0], (len(mu), 1))
    if quantity == "share_of_labels":
        return mu.mean(), accuracy(binary, always)
    if quantity == "sensitivity":
        said = np.column_stack([~hit, hit]).astype(float)
        return np.average(hit, weights=mu), accuracy(always.astype(int), said, sample_weight=mu)
    if quantity == "specificity":
        said = np.column_stack([hit, ~hit]).astype(float)
        call = accuracy(always.astype(int), said, sample_weight=1 - mu)
        return np.average(~hit, weights=1 - mu), call
    if quantity == "mean_probability":
        return read.z[:, k].mean(), accuracy(*as_accuracy(read.z[:, k]))
    if quantity == "auc":
        estimate, low, high = interval(partial(auc, k=k), read.counts, read.z)[:3]
        return auc(read.counts, read.z, k), (estimate, low, min(high, 1.0))
    if quantity == "calibration_error":
        options = {"kind": name, "p": 2, "bias_correction": "residual"}
        function = metrics.expected_calibration_error
        return None, interval(function, read.y, read.proba, **options)
    fit = {"calibration_slope": calibration_slope, "calibration_intercept": calibration_intercept}
    own = partial(fit[quantity], k=k)
    return own(read.counts, read.z), interval(own, read.counts, read.z)


def of_referral(read, entry, interval):
    several = np.ones(len(read.n), bool)
    of = brier
    if "irreducible" in entry["quantity"]:
        several, of = read.n >= 2, lambda y, _: disagreement(y)
    predicted = predicted_disagreement(read.z)
    at = round(float(entry["part"]) * len(predicted))
    above = np.sort(predicted)[::-1][at - 1] - 1e-9
    own = partial(captured, above=above, of=of)
    data = read.counts[several], read.z[several]
    groups = None if read.groups is None else read.groups[several]
    how = {"n_blocks": 1000, "raters": "fixed", "groups": groups}
    return own(*data), confidence_interval(own, *data, **how)


def of_costs(read, entry, interval):
    costs = COSTS.loc[read.classes].to_numpy()
    z = mean_of(read.prediction(entry["subset"]))
    advised = (z @ costs).argmin(axis=1)
    if entry["quantity"] == "default_risk":
        advised[:] = (read.mu @ costs).mean(axis=0).argmin()
    estimate = (read.mu @ costs)[np.arange(len(z)), advised].mean()
    named = COSTS.columns.to_numpy()[advised]
    return estimate, interval(metrics.decision_risk, read.y, named, cost_matrix=COSTS)


# -------------------------------------------------------------------------------------- the studies


def check(read, entry):
    estimate, call = expected(read, entry)
    found = [np.nan if entry[k] is None else entry[k] for k in ("estimate", "low", "high")]
    about = f"{entry['quantity']} {entry['subset']} {entry['class_name']} {entry['part']}"
    # solvers stop at a tolerance of their own
    tolerance = 1e-4 if entry["quantity"] == "calibration_slope" else 1e-9
    if estimate is not None:
        assert found[0] == pytest.approx(estimate, abs=tolerance, rel=tolerance), about
    if call is not None:
        ends = np.asarray(call[:3], dtype=float)
        ends[~np.isfinite(ends)] = np.nan
        np.testing.assert_allclose(found, ends, atol=tolerance, rtol=tolerance, err_msg=about)


def check_counts(read, data):
    assert data["inputs"]["shape"] == list(read.counts.shape)
    assert data["inputs"]["n_labels"] == read.counts.sum()
    groups = None if read.groups is None else len(set(read.groups))
    assert data["inputs"]["n_groups"] == groups
    raters = read.long["reader"].nunique() if read.named else None
    assert data["inputs"]["n_raters"] == raters
    assert data["flow"][0]["n"] == len(read.seen)
    assert data["flow"][-1]["n"] == read.seen.sum()
    by_model = np.array(data["confusion"]["model"], dtype=float)
    for k in set(read.first.tolist()):
        np.testing.assert_allclose(by_model[k], read.mu[read.first == k].mean(axis=0), atol=1e-9)


def state_of(number, hard, margin):
    """What an interval says, by the rules of the guide."""
    low, high = number["low"], number["high"]
    if hard:
        rules = {"better": high < 0, "as_good": high < margin, "worse": low > 0}
    else:
        within = low >= -0.02 and high <= 0.02
        rules = {"calibrated": within, "overconfident": low > 0.02, "underconfident": high < -0.02}
    return next((state for state, holds in rules.items() if holds), "inconclusive")


def check_tables(folder, data):
    """Each number stands in one table; figures are there twice."""
    written = sorted(path.relative_to(folder).as_posix() for path in folder.glob("*/*"))
    assert written == data["files"]
    places = [place for place in folder.glob("tables/*.csv") if place.stem != "disputed"]
    tables = [pd.read_csv(place, dtype=str) for place in places]
    rows = pd.concat(tables).astype(object)
    found = rows.where(rows.notna(), None).to_dict("records")
    names = {
        (row["quantity"], row["subset"], str(row.get("class_name")), str(row.get("part"))): row
        for row in found
    }
    assert len(found) == len(data["numbers"])
    for m in data["numbers"]:
        row = names[m["quantity"], m["subset"], str(m["class_name"]), str(m["part"])]
        ends = [None if row[end] is None else float(row[end]) for end in ("estimate", "low")]
        expected = [m["estimate"], m["low"]]
        assert row["unit"] == m["unit"]
        assert ends == [None if x is None else float(f"{x:.6g}") for x in expected]
    pictures = {name.removesuffix(".svg") for name in data["files"] if name.endswith(".svg")}
    assert pictures == {name.removesuffix(".png") for name in data["files"] if ".png" in name}


def check_verdict(data, hard):
    """It follows from one number, on which the section of the raters rests too."""
    entries = {(m["quantity"], m["subset"], m["class_name"], m["part"]): m for m in data["numbers"]}
    assert len(entries) == len(data["numbers"])
    primary = "excess_error" if hard else "overconfidence"
    these, new = (
        entries.get((primary, subset, None, None)) for subset in ("uncalibrated", "new_raters")
    )
    verdict = {said["about"]: said for said in data["verdict"]}
    if "data" in verdict:
        return
    state = state_of(these, hard, data["settings"]["margin"])
    assert verdict["these_raters"]["state"] == state
    if hard and data["raters"]:
        assert data["raters"]["sentences"][0].startswith(verdict["these_raters"]["title"])
    assert ("any_rater" in verdict) == (new is not None)
    if new is not None and new["low"] is not None:
        wider = new["high"] - new["low"] > these["high"] - these["low"] + 1e-9
        assert verdict["any_rater"]["title"].endswith("for any rater") == wider
        assert ("interval is wider" in verdict["any_rater"]["words"]) <= wider


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "seed", [pytest.param(s, marks=[] if s in FAST else pytest.mark.slow) for s in range(40)]
)
def test_every_number_is_that_of_pandas_and_of_one_public_call(seed, tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    # figures are drawn, and take long to be laid out
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **_: file.write(b"<svg/>"))
    options = draw(seed, tmp_path)
    output = tmp_path / "out"
    command.main(["report", *options, "--quiet", "--output", str(output)])
    folder = output / "gpt" if "--predicted-labels" in options else output
    data = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    schema = files("sklearn_lhcal.report").joinpath("schema.json").read_text(encoding="utf-8")
    jsonschema.validate(data, json.loads(schema))
    finding = "mass" if "--finding" in options else None
    read = {finding: Read(tmp_path, options, finding)}
    if finding:
        read |= {name: Read(tmp_path, options, name) for name in FINDINGS}
    check_counts(read[finding], data)
    check_verdict(data, "--predicted-labels" in options)
    check_tables(folder, data)
    for entry in data["numbers"]:
        part = entry["part"] if entry["part"] in FINDINGS else finding
        check(read[part], entry)
