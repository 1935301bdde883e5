"""Good input for every public door, by the name of the argument, and the ways to spoil it."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import cached_property
from typing import Any, get_args, get_origin

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from torch import nn

import sklearn_lhcal
from sklearn_lhcal import (
    calibration,
    distributions,
    ensemble,
    gaussian_process,
    label_histogram,
    metrics,
    model_selection,
    neural_network,
)

# what is array-like, as signatures say it
ArrayLike = inspect.signature(distributions.PointMass).parameters["proba"].annotation

N, K = 8, 3
_RNG = np.random.default_rng(0)
Y = _RNG.multinomial(4, [0.5, 0.3, 0.2], N) + np.eye(K, dtype=int)[np.arange(N) % K]
Z = _RNG.dirichlet([2, 2, 2], N).round(3)
Z[:, -1] = 1 - Z[:, :-1].sum(axis=1)
X = np.column_stack([np.log(Z), _RNG.normal(size=N)])
COSTS = np.array([[0.0, 1.0], [2.0, 0.5], [4.0, 0.0]])
ANNOTATIONS = label_histogram.Annotations.from_matrix(_RNG.integers(0, K, (N, 4)))
PAIR = label_histogram.Annotations.from_matrix(np.indices((N, 2)).sum(axis=0) % K)

# Valid values by the name of an argument that takes data. A new name needs a line here.
VALUES: dict[str, Any] = {
    "y": Y,
    "prediction": Z,
    "reference": Z[:, ::-1].copy(),
    "X": X,
    "sample_weight": 1.0 + np.arange(N) % 3,
    "sample_weight_rest": 1.0 + np.arange(N) % 3,
    "groups": np.arange(N) // 2,
    "groups_rest": np.arange(N) // 2 + N,
    "proxy": Y[::-1].copy(),
    "proxy_rest": Y,
    "prediction_rest": Z,
    "cost_matrix": COSTS,
    "decisions": np.arange(N) % 2,
    "subgroups": np.arange(N) % 2,
    "gain": np.linspace(-0.5, 1, N),
    "uncertainty": np.linspace(0, 1, N) ** 2,
    "calibrated": np.linspace(0, 1, N),
    "rate": Y[:, 0] / Y.sum(axis=1),
    "predicted": Z[:, 0],
    "y_pred": np.arange(N) % K,
    "y_reference": (np.arange(N) + 1) % K,
    "reference_prediction": np.arange(N) % K,
    "classes": np.arange(K),
    "quantiles": np.array([0.1, 0.5, 0.9]),
    "grid": np.array([0.05, 0.2]),
    "n_bins": np.array([0.0, 0.4, 1.0]),
    "concentration": 1.0 + Y,
    "proba": Z,
    "mean": Z,
    "total": 5.0 + np.arange(N),
    "weights": np.full(2, 0.5),
    "loc": np.linspace(-1, 1, N),
    "scale": np.linspace(0.5, 1, N),
    "which": np.arange(K),
    "thresholds": np.array([0.2, 0.5]),
    "annotations": _RNG.integers(0, K, (N, 4)),
}
VALUES |= {
    "predictions": Z,
    "counts": Y,
    "log_total": np.linspace(0, 3, N),
    "prices": np.array([0.01, 0.1]),
    "price": np.linspace(0.01, 0.1, N),
    "pairs": 1 - np.eye(K),
    "distance": np.abs(np.subtract.outer(np.arange(K), np.arange(K))),
    "columns": np.arange(K),
    "log_weights": np.log(np.full((2, N // 2), 0.5)),
    "rule": np.linspace(0, 1, N),
    "item": np.arange(N) // 2,
    "rater": np.arange(N) % 2,
    "label": np.arange(N) % K,
    "items": np.arange(N // 2),
    "matrix": _RNG.integers(0, K, (N, 4)),
    "raters": np.arange(4),
    "ratings": np.arange(4 * N) % 3 > 0,
    "given": Y,
    "indptr": np.arange(0, N + 1, 2),
    "values": np.linspace(0.5, 1, N),
    "positive": Y[:, :2] // 2,
    "asked": Y[:, :2],
    "findings": np.arange(2),
    "finding": np.arange(N) // 4,
    "rater_groups": np.arange(4) // 2,
    "scores": np.arange(K) + 0.5,
    "bins_of": np.linspace(0, 1, N) ** 3,
}
VALUES |= {
    "reader": np.arange(N) % 2,
    "score": np.linspace(0, 1, N) ** 2,
    "truth": np.arange(N) // 2 % 2,
    "condition": np.zeros(N, dtype=int),
}
READINGS = label_histogram.Readings.from_matrix(np.arange(N) % 2, {"a": Z[:, [0]], "b": Z[:, 1]})
FINDINGS = label_histogram.MultiLabelCounts(VALUES["positive"], VALUES["asked"] + 1)
# Where an argument of this name means something else.
OWN: dict[tuple[str, str], Any] = {
    ("Ensemble.__init__", "proba"): np.stack([Z, Z[:, ::-1]]),
    ("DirichletMixture.__init__", "proba"): np.stack([Z, Z[:, ::-1]]),
    ("DirichletMixture.__init__", "total"): np.stack([5.0 + np.arange(N)] * 2),
    ("make_label_histograms", "total"): 5.0 + np.arange(N),
    ("make_label_histograms", "n_raters"): 1 + np.arange(N) % 3,
    ("Annotations.from_long", "items"): np.arange(N // 2),
    ("Ratings.__init__", "raters"): np.arange(2),
    ("SparseGPClassifier.__init__", "lengthscale"): 1.0,
    ("LabelPolicy.ask", "counts"): np.zeros((N, K), dtype=int),
    ("LabelPolicy.decide", "counts"): np.zeros((N, K), dtype=int),
    ("referral_curve", "prediction"): distributions.Dirichlet(1.0 + Y),
    ("policy_curve", "prediction"): distributions.Dirichlet(1.0 + Y),
    # beside pairs, weights or costs
    ("Distribution.disagreement", "distance"): None,
    ("second_opinion_value", "distance"): None,
    # of probabilities it is a word
    ("reliability_curve", "distance"): None,
    # of two classes
    ("cost_curve", "y"): Y[:, :2] + 1,
    ("cost_curve", "prediction"): Z[:, 0],
    ("CostCurveDisplay.from_estimator", "y"): Y[:, :2] + 1,
    ("CalibrationDispersionDisplay.analysis", "n_bins"): np.array([0.0, 1.0]),
    ("RaterEffects.predict_proba", "rater"): np.arange(N) % 4,
    ("RaterEffects.predict_dist", "rater"): np.arange(N) % 4,
    ("RaterEffects.predict_proba", "X"): Z,
    ("RaterEffects.predict_dist", "X"): Z,
    **{
        (name, "weights"): np.eye(K)
        for name in (
            *("conger_kappa", "fleiss_kappa", "gwet_ac", "krippendorff_alpha"),
            "percent_agreement",
        )
    },
    **{
        (name, "y"): ANNOTATIONS
        for name in (
            *("conger_kappa", "rater_comparison", "rater_table", "study_size"),
            *("alternative_annotator_test", "RaterDisplay.from_estimator"),
            "rater_group_difference",
        )
    },
    ("MultiLabelCounts.from_long", "classes"): np.arange(2),
    ("MultiLabelCounts.from_long", "label"): np.arange(N) % 2,
    ("per_finding", "y"): FINDINGS,
    ("per_finding", "prediction"): Z[:, :2],
    ("cohen_kappa", "y"): PAIR,
    ("cohen_kappa", "weights"): np.eye(K),
    ("study_size", "n_raters"): [4, 8],
    ("make_mixed_images", "n_raters"): 3,
    ("PerFinding.fit", "y"): FINDINGS,
    **{
        (f"PerFinding.{name}", "X"): Z[:, :2]
        for name in ("fit", "predict_dist", "predict_proba", "predict")
    },
    ("PrecomputedClassifier.predict_dist", "X"): Z,
    ("PrecomputedClassifier.fit", "X"): Z,
    ("PrecomputedClassifier.predict_proba", "X"): Z,
    ("PrecomputedClassifier.predict_log_proba", "X"): Z,
    ("PrecomputedClassifier.predict", "X"): Z,
    ("DecisionCalibration.decide", "X"): Z,
    ("DecisionCalibration.expected_cost", "X"): Z,
    ("decide", "X"): Z,
    ("expected_cost", "X"): Z,
}
DIRICHLET = distributions.Dirichlet(1.0 + Y)
MODEL = LogisticRegression().fit(X, np.arange(N) % K)
TWO = LogisticRegression().fit(X, np.arange(N) % 2)
FOREST = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, np.arange(N) % K)
DECIDING = calibration.DecisionCalibration("proba", COSTS, inner_cv=2)


class Thirds:
    """A splitter for `EpistemicCalibration` that needs no geometry."""

    def split_augmented(self, X):
        """Every third row is tested, the next joins."""
        rows = np.arange(N)
        return rows[rows % 4 < 2], rows[rows % 4 < 3], rows[rows % 4 == 3]


# Arguments without a default that take no data. A new name needs a line here.
FIXED: dict[str, Any] = {
    "not_a_class": None,
    "y": ANNOTATIONS,
    "prediction": Z,
    "readings": READINGS,
    "estimator": MODEL,
    "estimators": {"model": MODEL},
    "metric": metrics.epistemic_loss,
    "distribution": DIRICHLET,
    "parts": distributions.PointMass(Z),
    "n_classes": K,
    "threshold": 0.3,
    "margin": 0.1,
    "half_width": 0.1,
    "budget": 3,
    "n_samples": N,
    "module": nn.Linear(X.shape[1], K),
    "kernel": lambda counts: counts.max(axis=1) == 1,
    "order": 2,
    "augment": lambda X, random_state: X,
    "splitter": [(np.arange(4), np.arange(6, N))],
}
OPTIONS: dict[str, dict] = {
    "make_label_histograms": {"n_samples": N, "random_state": 0},
    "decide": {"estimator": DECIDING.fit(Z, Y)},
    "expected_cost": {"estimator": DECIDING},
    "CalibrationDispersionDisplay.analysis": {"predictions": {"model": Z}},
    "CostCurveDisplay.from_estimator": {"estimator": TWO},
    "DecisionCurveDisplay.from_estimator": {"class_index": 0},
    "PolicyCurveDisplay.from_estimator": {"estimator": FOREST, "random_state": 0},
    "ReferralCurveDisplay.from_estimator": {"estimator": FOREST},
    "EpistemicScorer.score": {"estimator": FOREST},
    "EpistemicScorer.__call__": {"estimator": FOREST},
    "net_benefit": {"class_index": 0},
    "Readings.from_matrix": {"scores": {"a": Z[:, [0]], "b": Z[:, 1]}},
    "Readings.from_imrmc": {"path": "no file"},
    "ReaderStudy.study_size": {"effect": 0.1},
    "per_finding": {"metric": metrics.expected_squared_loss, "random_state": 0},
    "study_size": {"metric": metrics.expected_accuracy, "random_state": 0},
    "alternative_annotator_test": {"least_rows": 2},
    "rater_comparison": {"n_blocks": 4},
    "rater_group_difference": {"raters": "fixed"},
    "subgroup_audit": {"min_rows": 2, "n_draws": 20},
    "RaterDisplay.from_estimator": {"margin": 0.1, "n_blocks": 4},
    "SubgroupDisplay.from_estimator": {
        "subgroups": VALUES["subgroups"],
        "min_rows": 2,
        "n_draws": 20,
    },
    "decision_curve": {"class_index": 0},
    "policy_curve": {"random_state": 0},
    "cross_val_predict": {"cv": 2},
    "evaluate_methods": {"predictions": {"model": Z}, "metrics": [metrics.epistemic_loss]},
}


def network() -> neural_network.NeuralClassifier:
    sizes = {"module__in_features": X.shape[1], "module__out_features": K}
    return neural_network.NeuralClassifier(nn.Linear, **sizes, max_epochs=1, random_state=0)


# How a class makes the object whose methods are called, fitted where fitting is a method. A
# calibrator that is not here wraps a classifier, with two folds.
INSTANCES: dict[str, Callable] = {
    "AlphaCalibration": lambda: calibration.AlphaCalibration(MODEL, cv=2, penalty=0.1),
    "DecisionCalibration": lambda: calibration.DecisionCalibration("proba", COSTS, inner_cv=2),
    "EpistemicCalibration": lambda: calibration.EpistemicCalibration(
        FOREST, splitter=Thirds(), n_bins=1
    ),
    "GroupedCalibration": lambda: calibration.GroupedCalibration(
        calibration.TemperatureScaling(MODEL, cv=2), by=lambda X: np.arange(len(X)) % 2
    ),
    "ConformalClassifier": lambda: calibration.ConformalClassifier(
        MODEL, calibration_size=0.5, random_state=0
    ),
    "RiskControlledDecision": lambda: calibration.RiskControlledDecision(
        MODEL, COSTS, budget=4.0, calibration_size=0.5, random_state=0
    ),
    "RaterEffects": lambda: calibration.RaterEffects("proba", effect_std=1.0),
    "PerFinding": lambda: calibration.PerFinding(calibration.TemperatureScaling("proba")),
    "PrecomputedClassifier": lambda: calibration.PrecomputedClassifier(),
    "DeepEnsembleClassifier": lambda: ensemble.DeepEnsembleClassifier(
        network(), n_estimators=2, random_state=0
    ),
    "MCDropoutClassifier": lambda: ensemble.MCDropoutClassifier(
        neural_network.NeuralClassifier(
            nn.Sequential(nn.Linear(X.shape[1], K), nn.Dropout()), max_epochs=1, random_state=0
        ),
        n_samples=2,
        random_state=0,
    ),
    "TestTimeAugmentationClassifier": lambda: ensemble.TestTimeAugmentationClassifier(
        MODEL, FIXED["augment"], n_samples=2, random_state=0
    ),
    "SparseGPClassifier": lambda: gaussian_process.SparseGPClassifier(
        optimize_hyperparameters=False, max_iter=5, random_state=0
    ),
    "LabelHistogramClassifier": label_histogram.LabelHistogramClassifier,
    "NeuralClassifier": network,
    "LayerFeatures": lambda: neural_network.LayerFeatures(
        neural_network.NeuralClassifier(
            nn.Sequential(nn.Linear(X.shape[1], K), nn.Identity()), max_epochs=1, random_state=0
        ),
        "0",
    ),
    "Annotations": lambda: ANNOTATIONS,
    "ReaderStudy": lambda: metrics.reader_study(READINGS),
    "MultiLabelCounts": lambda: FINDINGS,
    "KnownProbabilities": lambda: label_histogram.KnownProbabilities(Z),
    "Dirichlet": lambda: DIRICHLET,
    "DirichletMixture": lambda: distributions.DirichletMixture(np.stack([Z, Z]), np.ones((2, N))),
    "Distribution": lambda: DIRICHLET,
    "Mixture": lambda: distributions.Ensemble(np.stack([Z, Z])),
    "Ensemble": lambda: distributions.Ensemble(np.stack([Z, Z[:, ::-1]])),
    "LogisticNormal": lambda: distributions.LogisticNormal(VALUES["loc"], VALUES["scale"]),
    "PointMass": lambda: distributions.PointMass(Z),
    "LabelPolicy": lambda: distributions.label_policy(DIRICHLET, COSTS, 0.1, horizon=2),
    "MetricAccumulator": lambda: metrics.MetricAccumulator(metrics.calibration_error),
    "CalibrationMonitor": metrics.CalibrationMonitor,
    "LabelHistogramScorer": lambda: metrics.get_scorer("expected_accuracy"),
    "EpistemicScorer": lambda: metrics.get_scorer("epistemic_correlation"),
    "BallCarvingSplit": lambda: model_selection.BallCarvingSplit(n_balls=1, random_state=0),
    "StratifiedVotesKFold": lambda: model_selection.StratifiedVotesKFold(2),
}
# Functions and methods that are no doors, with the reason.
NO_DOOR = {
    "half_width": "of a StudySize: its numbers are small integers, read one by one",
    "power": "of a ReaderStudySize, likewise",
    "report": "hands its arguments to the metrics and the displays, which are doors",
    "fit_loop": "skorch's, called by skorch only",
    "check_data": "skorch's",
    "get_split_datasets": "skorch's",
    "get_loss": "skorch's",
    "get_n_splits": "looks at no data",
}


class Door:
    """A public function or method, with good input for every argument."""

    def __init__(self, name: str, function: Callable, owner: type | None = None):
        self.name = name
        self.function = function
        self.owner = owner
        parameters = [
            p for p in inspect.signature(function).parameters.values() if p.name != "self"
        ]
        self.data = [p.name for p in parameters if _takes_data(p)]
        self.required = {
            p.name
            for p in parameters
            if p.default is p.empty and type(None) not in get_args(p.annotation)
        }
        self.unknown = [
            p.name
            for p in parameters
            if p.name not in VALUES
            and (name, p.name) not in OWN
            and (_takes_data(p) or p.default is p.empty)
            and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
            and p.name not in FIXED
        ]
        self.fixed = {
            p.name: FIXED[p.name]
            for p in parameters
            if p.name in FIXED and p.default is p.empty and p.name not in self.data
        }

    def good(self) -> dict:
        """Good input."""
        data = {name: OWN.get((self.name, name), VALUES.get(name)) for name in self.data}
        required = {
            name: OWN[owner, name] for owner, name in OWN if owner == self.name and name not in data
        }
        return self.fixed | required | OPTIONS.get(self.name, {}) | data

    def call(self, **changed):
        """The function of good input, but for what is changed."""
        function = self.function
        arguments = self.good() | changed
        if self.owner is not None:
            made = instance(self.owner)
            if hasattr(made, "fit") and self.name.rpartition(".")[2] not in ("fit", "partial_fit"):
                made = _fitted(self.owner)
            function = getattr(made, self.name.rpartition(".")[2])
        return function(**arguments)


_FITTED: dict[str, Any] = {}


def instance(owner: type):
    """An object of a public class."""
    if owner.__name__ in INSTANCES:
        return INSTANCES[owner.__name__]()
    # a calibrator, else a TypeError: it needs a line in INSTANCES
    return owner(MODEL, cv=2)


def _fitted(owner: type):
    name = owner.__name__
    if name not in _FITTED:
        first = OWN.get((f"{name}.predict_proba", "X"), OWN.get((f"{name}.decide", "X"), X))
        labels = {"RaterEffects": ANNOTATIONS, "PerFinding": FINDINGS}.get(name, Y)
        _FITTED[name] = instance(owner).fit(first, labels)
    return _FITTED[name]


def _takes_data(parameter: inspect.Parameter) -> bool:
    """Whether its type says so: anything array-like, or X."""
    kind = parameter.annotation
    allowed = () if get_origin(kind) is Callable else get_args(kind)
    return parameter.name == "X" or ArrayLike in (parameter.annotation, *allowed)


def _methods(owner: type):
    """(name of its class and its own, function, whether it needs an object)."""
    for base in owner.__mro__:
        if not base.__module__.startswith("sklearn_lhcal"):
            continue
        for name, value in vars(base).items():
            if name.startswith("_") and name not in ("__init__", "__call__"):
                continue
            if name in NO_DOOR or isinstance(value, (property, cached_property)):
                continue
            if name == "__init__" and (
                hasattr(owner, "get_params") or inspect.isabstract(owner) or is_dataclass(owner)
            ):
                continue
            bound = isinstance(value, (classmethod, staticmethod)) or name == "__init__"
            function = getattr(value, "fn", value)
            if bound:
                function = owner if name == "__init__" else getattr(owner, name)
            # one door of all displays, which hand on to other functions
            of = owner if base.__name__ == "PredictionDisplay" else base
            if callable(function):
                yield f"{of.__name__}.{name}", function, not bound


def public():
    """(name, thing) of every public name."""
    for module in pkgutil.iter_modules(sklearn_lhcal.__path__):
        if module.name.startswith("_"):
            continue
        subpackage = importlib.import_module(f"sklearn_lhcal.{module.name}")
        yield from ((name, getattr(subpackage, name)) for name in subpackage.__all__)


def doors() -> dict[str, Door]:
    """Every public function and method that takes data, once."""
    found: dict[str, Door] = {}
    for name, thing in public():
        if inspect.isclass(thing):
            for method, function, needs in _methods(thing):
                found.setdefault(method, Door(method, function, thing if needs else None))
        elif callable(thing):
            found[name] = Door(name, thing)
    # what a display calls is a door by its own name
    again = {
        name
        for name, door in found.items()
        if name.endswith(".analysis") and door.function.__name__ in found
    }
    return {
        name: door
        for name, door in found.items()
        if door.data and name not in NO_DOOR and name not in again
    }


DOORS = doors()
