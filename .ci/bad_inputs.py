"""Bad input for every public function, class and method, found by their signatures.

``python .ci/bad_inputs.py --cases 20000`` gives each argument, one at a time, values that its type
or its name excludes. It prints what was accepted, and every exception that is none of those that
users may meet. It needs nothing of the tests, and runs on older code:
``PYTHONPATH=<checkout> python .ci/bad_inputs.py``.
"""

import argparse
import importlib
import inspect
import pkgutil
import signal
import sys
import tempfile
import types
import typing
import warnings
from collections import Counter
from contextlib import suppress

import matplotlib as mpl
import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import sklearn_lhcal
from sklearn_lhcal import calibration, distributions, label_histogram, metrics, neural_network

mpl.use("Agg")
EXPECTED = (ValueError, TypeError, NotFittedError, ImportError, IndexError, OSError)
SECONDS = 20
N, K = 24, 3
RNG = np.random.default_rng(1)
CODES = np.arange(N) % K
COUNTS = RNG.multinomial(3, [0.5, 0.3, 0.2], N) + np.eye(K, dtype=int)[CODES]
PROBA = RNG.dirichlet([2, 2, 2], N)
FEATURES = np.column_stack([np.log(PROBA[:, :2]), RNG.normal(size=N)])
COSTS = np.array([[0.0, 1.0], [2.0, 0.5], [4.0, 0.0]])
SAID = RNG.integers(0, K, (N, 4))
ANNOTATED = label_histogram.Annotations.from_matrix(SAID)
DIRICHLET = distributions.Dirichlet(1.0 + COUNTS)
MODEL = LogisticRegression().fit(FEATURES, CODES)
OF_TWO = LogisticRegression().fit(FEATURES, CODES % 2)
FOREST = RandomForestClassifier(3, max_depth=2, random_state=0).fit(FEATURES, CODES)
INDEX = torch.tensor(CODES)
COLUMN = torch.ones(N, 1)
MANY = COUNTS + 2
DECIDING = calibration.DecisionCalibration(MODEL, COSTS, inner_cv=2, cv=2).fit(FEATURES, COUNTS)
LOGITS = torch.tensor(FEATURES, dtype=torch.float32)
TARGETS = torch.tensor(COUNTS)

# what an argument is given where nothing is wrong, by its name
GOOD: dict[str, object] = {
    **{name: COUNTS for name in ("y", "counts", "given", "proxy", "proxy_rest")},
    **{name: PROBA for name in ("prediction", "proba", "prediction_rest")},
    "reference": PROBA[:, ::-1].copy(),
    "predictions": {"model": PROBA},
    "X": FEATURES,
    "cost_matrix": COSTS,
    "decisions": CODES % 2,
    "gain": np.linspace(-0.5, 1, N),
    "uncertainty": np.linspace(0, 1, N),
    "rate": COUNTS[:, 0] / COUNTS.sum(axis=1),
    "predicted": PROBA[:, 0],
    **{name: CODES for name in ("y_pred", "reference_prediction", "label")},
    "y_reference": (CODES + 1) % K,
    "concentration": 1.0 + COUNTS,
    "total": 5.0 + np.arange(N),
    "log_total": np.linspace(0, 3, N),
    "loc": np.linspace(-1, 1, N),
    "scale": np.linspace(0.5, 1, N),
    "item": np.arange(N) // 2,
    "rater": np.arange(N) % 2,
    "raters": np.arange(2),
    "indptr": np.arange(0, N + 1, 2),
    "matrix": SAID,
    "values": np.linspace(0.5, 1, N),
    "price": 0.1,
    "distribution": DIRICHLET,
    "estimator": MODEL,
    "estimators": {"model": MODEL},
    "metric": metrics.expected_squared_loss,
    "metrics": [metrics.expected_squared_loss],
    "kernel": lambda counts: counts.max(axis=1) == 1,
    "order": 2,
    "threshold": 0.3,
    "budget": 3,
    "n_samples": N,
    "n_classes": K,
    "half_width": 0.1,
    "logits": LOGITS,
    "module": torch.nn.Linear(3, K),
    "layer": "0",
    "augment": lambda X, random_state: X,
    "columns": np.arange(K),
    "classes": np.arange(K),
    "log_weights": np.log(np.full((2, N // 2), 0.5)),
    "parts": DIRICHLET,
    "splitter": [(np.arange(12), np.arange(18, N))],
    "scoring": "expected_accuracy",
    "rows": slice(3),
    "ratings": np.arange(4 * N) % 3 > 0,
    "directory": tempfile.gettempdir(),
    "n_raters": 5,
}
# of one function, by (function, argument)
OWN: dict[tuple[str, str], object] = {
    **{
        (name, "y"): ANNOTATED
        for name in (
            *("rater_comparison", "rater_table", "alternative_annotator_test", "study_size"),
            *("RaterDisplay.from_predictions", "cohen_kappa", "conger_kappa"),
        )
    },
    ("study_size", "metric"): metrics.expected_accuracy,
    ("DeepEnsembleClassifier.from_trained", "estimators"): [FOREST, FOREST],
    ("study_size", "n_raters"): [4, 8],
    **{
        (f"{name}.from_predictions", "prediction"): DIRICHLET
        for name in ("LabelPolicyDisplay", "SecondOpinionDisplay")
    },
    ("referral_curve", "prediction"): DIRICHLET,
    ("policy_curve", "prediction"): DIRICHLET,
    ("net_benefit", "class_index"): 0,
    ("decision_curve", "class_index"): 0,
    ("cost_curve", "y"): COUNTS[:, :2] + 1,
    ("cost_curve", "prediction"): PROBA[:, 0],
    ("Ensemble", "proba"): np.stack([PROBA, PROBA[:, ::-1]]),
    ("DirichletMixture", "proba"): np.stack([PROBA, PROBA[:, ::-1]]),
    ("DirichletMixture", "total"): np.full((2, N), 5.0),
    ("MetricAccumulator", "metric"): metrics.calibration_error,
    ("interval_over_splits", "values"): np.linspace(0.5, 1, 5),
    **{
        (name, argument): value
        for name in (
            *("policy_curve", "LabelPolicyDisplay.from_predictions"),
            "LabelPolicyDisplay.from_estimator",
        )
        for argument, value in (("horizon", 2), ("y", MANY))
    },
    ("LabelPolicyDisplay.from_estimator", "estimator"): FOREST,
    ("SecondOpinionDisplay.from_estimator", "estimator"): FOREST,
    ("DecisionRiskDisplay.from_estimator", "cost_matrix"): COSTS,
    ("DecisionCurveDisplay.from_predictions", "class_index"): 0,
    # of three classes one would have to be chosen
    ("DecisionCurveDisplay.from_estimator", "estimator"): OF_TWO,
    ("DecisionCurveDisplay.from_estimator", "y"): CODES % 2,
    ("RaterDisplay.from_estimator", "y"): ANNOTATED,
    **{("Annotations.from_long", name): CODES for name in ("item", "rater", "label")},
    ("Annotations.from_long", "rater"): np.arange(N) // K,
    ("cohen_kappa", "y"): label_histogram.Annotations.from_matrix(SAID[:, :2]),
    ("study_size", "prediction"): PROBA,
    ("BallCarvingSplit", "n_balls"): 1,
    **{(name, "estimator"): DECIDING for name in ("decide", "expected_cost")},
    ("LabelPolicyDisplay.from_predictions", "cost_matrix"): COSTS,
    ("null_calibration_error", "n_draws"): 20,
    ("null_epistemic_error", "n_draws"): 20,
    ("make_mixed_images", "n_raters"): 3,
}
# how an estimator is made whose defaults do not do
MADE = {
    "DecisionCalibration": {"estimator": MODEL, "cost_matrix": COSTS, "inner_cv": 2, "cv": 2},
    "RiskControlledDecision": {"estimator": MODEL, "cost_matrix": COSTS, "budget": 4.0},
    "ConformalClassifier": {"estimator": MODEL, "calibration_size": 0.5, "random_state": 0},
    "RaterEffects": {"estimator": "proba", "effect_std": 1.0},
    "PrecomputedClassifier": {},
    "LabelHistogramClassifier": {"estimator": LogisticRegression()},
    "SparseGPClassifier": {"optimize_hyperparameters": False, "max_iter": 5},
    "TestTimeAugmentationClassifier": {
        "estimator": MODEL,
        "augment": lambda X, random_state: X,
        "n_samples": 2,
    },
    **{
        name: {"estimator": MODEL, "cv": 2}
        for name in (
            *("TemperatureScaling", "BiasCorrectedTemperatureScaling", "VectorScaling"),
            *("MatrixScaling", "AlphaCalibration"),
        )
    },
}
SCORED = {"estimator": FOREST, "X": FEATURES, "y": COUNTS}
SCORERS = {
    "LabelHistogramScorer": {"metric": metrics.expected_squared_loss},
    "EpistemicScorer": {"metric": metrics.epistemic_correlation},
}


def use_pair(loss):
    """A loss of logits and totals."""
    return loss((LOGITS, torch.zeros(N)), TARGETS)


# what is checked where it is used
USED = {
    "BallCarvingSplit": lambda splitter: list(splitter.split(FEATURES, COUNTS)),
    "StratifiedVotesKFold": lambda splitter: list(splitter.split(FEATURES, COUNTS)),
}
ON_PROBA = ("RaterEffects", "PrecomputedClassifier")
# arguments that nobody reads, or that take whatever comes
FREE = {
    *("fit_params", "kwargs", "plot_kwargs", "options", "ax", "params", "args", "name", "title"),
    *("inputs", "ids", "data_home", "base_url", "checksum", "question", "cmap", "not_a_class"),
}
NEGATIVE = {"n_jobs", "batch_size", "class_index", "label", "referral", "budget"}
INFINITE = {"p"}
FRACTIONS = {"confidence_level", "calibration_size", "false_discovery_rate", "test_share"}
SHARES = {"margin", "epsilon"}
TALL = {"n_draws", "n_blocks", "n_nodes"}


class Anything:
    """An object that is nothing in particular."""


OUTSIDE: dict[str, object] = {
    "word": "abc",
    "object": Anything(),
    "list": [1, 2],
    "empty array": np.array([]),
    "None": None,
    "NaN": np.nan,
    "inf": np.inf,
    "-inf": -np.inf,
    "negative": -5,
    "fraction": 1.5,
    "huge": 10**30,
    "tiny": 1e-320,
    "bool": True,
    "bytes": b"a",
    "complex": 1j,
    "dict": {"a": 1},
    "class": dict,
    "array": np.ones((3, 3)),
    "zero": 0,
    "percent": 95,
    "two": 2,
}


def members(annotation) -> tuple:
    """The types of a union."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return tuple(m for part in typing.get_args(annotation) for m in members(part))
    return (annotation,)


def is_data(kinds) -> bool:
    """Whether anything array-like will do."""
    return any("ArrayLike" in repr(kind) or "_SupportsArray" in repr(kind) for kind in kinds)


def is_outside(value, kinds, name: str) -> bool | None:
    """Whether a value is certainly none of these types, or out of range; None: who knows."""
    literals = [one for k in kinds if typing.get_origin(k) is typing.Literal for one in k.__args__]
    plain = [k for k in kinds if typing.get_origin(k) is not typing.Literal]
    if typing.Any in kinds:
        return None
    known = {bool, int, float, str, type(None), np.random.RandomState}
    named = {"Distribution", "Annotations", "Estimator", "Splitter", "Module"}
    names = {getattr(typing.get_origin(k) or k, "__name__", "?") for k in plain if k not in known}
    if names - named - {"Callable", "Mapping", "dict", "Iterable", "Sequence", "AugmentedSplitter"}:
        return None
    if isinstance(value, str):
        return str not in plain and value not in literals and "Iterable" not in names
    if value is None:
        return type(None) not in plain
    if isinstance(value, (bool, np.bool_)):
        return bool not in plain and name != "verbose"
    if isinstance(value, (int, float)):
        if int not in plain and float not in plain:
            return value not in literals
        if value != value or ((value in (np.inf, -np.inf)) and name not in INFINITE):
            return True
        if value in (np.inf, -np.inf):
            return value < 0 or float not in plain
        if float not in plain and value != int(value):
            return True
        if name in FRACTIONS:
            return not 0 < value < 1
        if name in SHARES:
            return not 0 <= value < 1
        if value == 10**30:
            return name in TALL or (int in plain and float not in plain and name == "random_state")
        if value == 1e-320:
            return name == "bandwidth"
        return value < 0 and name not in NEGATIVE
    if isinstance(value, type):
        # a class is a function, too
        return "Callable" not in names
    if isinstance(value, (list, np.ndarray)):
        return not names & {"Iterable", "Sequence"} and list not in plain
    if isinstance(value, dict):
        return not names & {"Mapping", "dict", "Iterable"}
    return True


def spoiled(a: np.ndarray, value, rng) -> np.ndarray:
    """A copy with one entry replaced."""
    a = a.astype(float)
    a.flat[rng.integers(a.size)] = value
    return a


def bad_data(name: str, a, rng, optional: bool, beside: bool) -> dict[str, object]:
    """Data that have no meaning in place of good data."""
    found: dict[str, object] = {"object": Anything(), "iterator": iter([1]), "bytes": b"abc"}
    if not optional:
        found["None"] = None
    if not isinstance(a, np.ndarray) or name == "X":
        return found
    found["four axes"] = a.reshape(1, 1, 1, -1)
    found["masked"] = np.ma.masked_array(a, np.arange(a.size).reshape(a.shape) == 1)
    found["ragged"] = [[1, 2], [1]]
    if a.dtype.kind in "if" and name not in LABELS_1D:
        found["complex"] = a + 1j
        # a rate may be missing where too few raters gave it
        if name != "rate":
            found["NaN"] = spoiled(a, np.nan, rng)
        found["inf"] = spoiled(a, np.inf, rng)
        found["words"] = np.full(a.shape, "abc")
        found["records"] = np.zeros(a.shape, [("a", float)])
    if name in ("y", "counts") and a.ndim == 2:
        found["negative"] = spoiled(a, -1, rng)
        found["fractions"] = spoiled(a, 0.5, rng)
    if name in ("prediction", "reference", "proba") and a.ndim == 2:
        found["negative"] = spoiled(a, -0.3, rng)
        found["of sum 2"] = a * 2
    if beside and name in ("y", "prediction", "X", "sample_weight", "groups"):
        found["too short"] = a[:-1]
    if name == "sample_weight":
        found["negative"] = spoiled(a, -1, rng)
        found["zeros"] = 0 * a
    return found


LABELS_1D = {
    *("y_pred", "y_reference", "reference_prediction", "label", "item", "rater", "raters"),
    *("decisions", "groups", "classes", "matrix", "ratings", "columns", "indptr", "rows"),
}


class Door:
    """A callable with good arguments, and how bad ones are given to it."""

    def __init__(self, name, call, parameters, good):
        self.name = name
        self.call = call
        self.parameters = parameters
        self.good = good

    def bad(self, rng) -> list[tuple[str, str, object]]:
        """(argument, what is wrong, value)."""
        found = []
        for p in self.parameters:
            if p.name in FREE or p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
                continue
            kinds = members(p.annotation)
            # other arguments of as many rows
            beside = len({"X", "y", "prediction", "distribution"} & set(self.good)) > 1
            optional = type(None) in kinds or p.default is None
            good = self.good.get(p.name, p.default)
            if p.name == "cv":
                # that of what is fitted already is not read
                continue
            if is_data(kinds) or p.name in ("X", "y"):
                a = GOOD_OPTIONAL.get(p.name) if good is None else good
                values = bad_data(p.name, a, rng, optional, beside)
                found += [(p.name, label, value) for label, value in values.items()]
            elif p.annotation is not p.empty:
                outside = {k: v for k, v in OUTSIDE.items() if is_outside(v, kinds, p.name)}
                found += [(p.name, label, value) for label, value in outside.items()]
        return found


GOOD_OPTIONAL = {"sample_weight": np.ones(N), "groups": np.arange(N) // 2}


def good_arguments(name: str, parameters) -> dict | None:
    """What a callable is given; None where a required argument has no entry."""
    good = {}
    for p in parameters:
        if (name, p.name) in OWN:
            good[p.name] = OWN[name, p.name]
        elif p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
            if p.name not in GOOD:
                return None
            good[p.name] = GOOD[p.name]
    return good


def parameters_of(function) -> list:
    """Of a signature, but self."""
    return [p for p in inspect.signature(function).parameters.values() if p.name != "self"]


def fitted_with(owner, fixed):
    """An estimator made with some parameters, and fitted."""

    def call(**changed):
        known = inspect.signature(owner).parameters
        data = {"X": PROBA if owner.__name__ in ON_PROBA else FEATURES, "y": COUNTS}
        if owner.__name__ == "RaterEffects":
            data["y"] = ANNOTATED
        options = fixed | {k: v for k, v in changed.items() if k in known}
        data |= {k: v for k, v in changed.items() if k not in known}
        return owner(**options).fit(**data)

    return call


def scored(owner, fixed):
    """Its score, after a fit."""

    def call(**changed):
        X = PROBA if owner.__name__ in ON_PROBA else FEATURES
        model = fitted_with(owner, fixed)()
        return model.score(**({"X": X, "y": COUNTS} | changed))

    return call


def scored_by(owner, fixed):
    """The score of a scorer made with some parameters."""

    def call(**changed):
        known = inspect.signature(owner).parameters
        options = fixed | {k: v for k, v in changed.items() if k in known}
        data = {k: v for k, v in (SCORED | changed).items() if k not in known}
        if owner.__name__ == "EpistemicScorer":
            data = {"reference_prediction": GOOD["y_reference"]} | data
        return owner(**options).score(**data)

    return call


def doors() -> list[Door]:
    """All that can be called."""
    found = []
    for module in pkgutil.iter_modules(sklearn_lhcal.__path__):
        if module.name.startswith("_"):
            continue
        package = importlib.import_module(f"sklearn_lhcal.{module.name}")
        for name in package.__all__:
            thing = getattr(package, name)
            if inspect.isclass(thing):
                found += of_class(name, thing)
            elif callable(thing) and not name.startswith(("fetch_", "check_cv")):
                found.append(of_function(name, thing))
    return [door for door in found if door is not None]


def of_function(name, function):
    """The door of a function; None where it cannot be called."""
    parameters = parameters_of(function)
    good = good_arguments(name, parameters)
    if good is None:
        return None
    return Door(name, lambda **changed: function(**(good | changed)), parameters, good)


def of_class(name, owner) -> list:
    """Its constructor, or its fit; and its public methods."""
    if issubclass(owner, (tuple, Exception)) or name == "NeuralClassifier":
        return []
    if name.endswith("Scorer"):
        parameters = parameters_of(owner)
        used = parameters_of(owner.score)
        fixed = SCORERS[name]
        return [Door(f"{name}.score", scored_by(owner, fixed), parameters + used, fixed | SCORED)]
    if name in USED or issubclass(owner, torch.nn.Module):
        use = USED.get(name, lambda loss: loss(LOGITS, TARGETS))
        if "Histogram" in str(owner.__mro__):
            use = use_pair
        parameters = parameters_of(owner)
        good = good_arguments(name, parameters)
        return [Door(name, lambda **changed: use(owner(**(good | changed))), parameters, good)]
    if name in MADE and hasattr(owner, "fit"):
        parameters = parameters_of(owner)
        fixed = MADE[name]
        X = PROBA if name in ON_PROBA else FEATURES
        y = ANNOTATED if name == "RaterEffects" else COUNTS
        good = {"X": X, "y": y} | fixed
        made = [
            Door(
                f"{name}.fit",
                fitted_with(owner, fixed),
                parameters + parameters_of(owner.fit),
                good,
            )
        ]
        if hasattr(owner, "score"):
            good = {"X": X, "y": COUNTS}
            made.append(
                Door(f"{name}.score", scored(owner, fixed), parameters_of(owner.score), good)
            )
        return made
    made = []
    for method in vars(owner):
        member = inspect.getattr_static(owner, method)
        if isinstance(member, classmethod) and not method.startswith("_"):
            made.append(of_function(f"{name}.{method}", getattr(owner, method)))
    if not name.endswith("Display") and not hasattr(owner, "fit") and not inspect.isabstract(owner):
        with suppress(ValueError):
            made.append(of_function(name, owner))
    return made


def outcome(door, changed):
    """The result, or the exception; an alarm ends what takes too long."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return door.call(**changed)
    except Exception as error:
        return error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def too_long(number, frame):
    """Ends a call."""
    raise RuntimeError(f"it took more than {SECONDS} s")


def value_of(call):
    """A number, or None where an exception that users may meet was raised."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return float(call())
    except EXPECTED:
        return None


def twins() -> list[tuple[str, object, object]]:
    """(name, call, right value or None): what must be refused, or be that number."""
    found = []
    hard = torch.nn.functional.one_hot(torch.tensor(CODES), K)
    for name in neural_network.__all__:
        loss = getattr(neural_network, name)
        if not (isinstance(loss, type) and issubclass(loss, torch.nn.Module)):
            continue
        options = {"cost_matrix": COSTS} if "cost" in str(inspect.signature(loss)) else {}
        loss = loss(**options)
        totals = torch.zeros(N)
        pair = "Histogram" in str(type(loss).__mro__)
        z = (LOGITS, totals) if pair else LOGITS
        some = (LOGITS[:K], totals[:K]) if pair else LOGITS[:K]
        right = value_of(lambda loss=loss, z=z: loss(z, hard))
        few = value_of(lambda loss=loss, some=some: loss(some, hard[:K]))
        if right is None:
            continue
        found += [
            (f"{name}: indices", lambda loss=loss, z=z: loss(z, INDEX), right),
            (f"{name}: K indices", lambda loss=loss, z=some: loss(z, INDEX[:K]), few),
            (f"{name}: doubles", lambda loss=loss, z=z: loss(z, hard.double()), right),
            (f"{name}: one row", lambda loss=loss, z=z: loss(z, hard[:1]), None),
            (f"{name}: negative", lambda loss=loss, z=z: loss(z, hard - 1), None),
            (f"{name}: no labels", lambda loss=loss, z=z: loss(z, hard * 0), None),
            (f"{name}: fewer columns", lambda loss=loss, z=z: loss(z, hard[:, :2]), None),
            (f"{name}: weights (n, 1)", lambda loss=loss, z=z: loss(z, hard, COLUMN), None),
            (f"{name}: NumPy", lambda loss=loss, z=z: loss(z, hard.numpy()), None),
        ]
    wide = np.column_stack([COUNTS, np.ones((N, 2), dtype=int)])
    for name, fixed in MADE.items():
        owner = getattr(calibration, name, None)
        if owner is None or name == "RaterEffects" or not hasattr(owner, "score"):
            continue
        X = PROBA if name in ON_PROBA else FEATURES
        call = scored(owner, fixed)
        found.append((f"{name}.score: wide counts", lambda call=call: call(y=wide), None))
        found.append((f"{name}.score: counts", call, "any"))
        fit = fitted_with(owner, fixed)
        short = lambda fit=fit, X=X: fit(X=X[:-1]).classes_[0]  # noqa: E731
        found.append((f"{name}.fit: too short", short, None))
    return found


def run(cases: int, seed: int, verbose: bool = True):
    """(number of cases, accepted, odd), the last two as {what: message}."""
    signal.signal(signal.SIGALRM, too_long)
    rng = np.random.default_rng(seed)
    usable, unusable = [], {}
    for door in doors():
        result = outcome(door, {})
        if isinstance(result, Exception):
            unusable[door.name] = result
        else:
            usable.append(door)
    accepted, odd, tried = {}, {}, 0
    for what, call, right in twins():
        tried += 1
        try:
            value = value_of(call)
        except Exception as error:
            odd[what] = repr(error)[:160]
            continue
        if right == "any":
            if value is None:
                accepted[what] = "refused, though it is right"
        elif value is not None and (right is None or abs(value - right) > 1e-5):
            accepted[what] = f"{value} for {right}"
    while tried < cases:
        for door in usable:
            for argument, label, value in door.bad(rng):
                if tried >= cases:
                    break
                tried += 1
                result = outcome(door, {argument: value})
                what = f"{door.name}({argument}={label})"
                if not isinstance(result, Exception):
                    accepted[what] = repr(type(result))
                elif not isinstance(result, EXPECTED):
                    odd[what] = f"{type(result).__name__}: {result}"[:160]
    if verbose:
        print(f"{len(usable)} callables, {len(unusable)} of which good input is missing:")
        for name, error in unusable.items():
            print("   ", name, f"{type(error).__name__}: {error}"[:120])
    return tried, accepted, odd


def main() -> int:
    """Print what was found; 1 where something was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    tried, accepted, odd = run(args.cases, args.seed)
    for title, found in (("accepted", accepted), ("odd exceptions", odd)):
        print(f"{len(found)} different cases {title}:")
        for what, message in sorted(found.items()):
            print("   ", what, "->", message)
    print(tried, "cases tried;", Counter(w.partition("(")[0] for w in accepted).most_common(5))
    return bool(accepted) or len(odd) > tried / 1000


if __name__ == "__main__":
    sys.exit(main())
