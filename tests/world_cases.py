"""The matrix of models: what people calibrate × every calibrator × situations, with oracles.

A cell is a model, a calibrator and a situation. Its oracles are named "a" to "e":

a) what CalibratedClassifierCV fits, ours fits;
b) the log loss of a scaling is at most that of the same scaling on saved out-of-fold probabilities
   + 0.02, that of a sigmoid (``ensemble=False``) + 0.01 and that of the model itself + 0.01; of a
   temperature that of the model itself; α-calibration keeps the probabilities that it calibrates,
   and its disagreement loss is at most the model's; groups lose at most 0.01 to the common
   calibrator inside; prediction sets cover; decisions cost at most what the model's own cost;
c) where class frequencies changed, the mean probability of a class is within 0.01 of its frequency;
d) probabilities lie in [0, 1], sum to 1 and suit scikit-learn's metrics, and the decision function
   is finite and has their order;
e) warnings come from a list.

Numbers may be off by two standard errors over the splits too.
"""

import re
import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix
from scipy.special import log_softmax
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import all_estimators

from sklearn_lhcal.calibration import (
    AlphaCalibration,
    BiasCorrectedTemperatureScaling,
    ConformalClassifier,
    DecisionCalibration,
    GroupedCalibration,
    MatrixScaling,
    StackedCalibration,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_lhcal.label_histogram import LabelHistogramClassifier
from sklearn_lhcal.metrics import disagreement_squared_loss

SCALINGS = {
    "T": TemperatureScaling,
    "BC": BiasCorrectedTemperatureScaling,
    "V": VectorScaling,
    "M": MatrixScaling,
    "S": StackedCalibration,
}
CALIBRATORS = {
    **SCALINGS,
    "α": AlphaCalibration,
    "groups": GroupedCalibration,
    "sets": ConformalClassifier,
    "decisions": DecisionCalibration,
}
LEVEL = 0.9
# Classes that are missed cost five times as much as others.
MISSED = 5.0
# The largest differences that oracles allow, beside two standard errors.
OF_SAVED, OF_SIGMOID, OF_ITSELF, OF_FREQUENCY = 0.02, 0.01, 0.01, 0.01
EXPECTED_WARNINGS = [
    # of the package, where they are right
    "have labels to which the classifier gives no probability",
    "The calibration labels are separable",
    "Raters of the calibration samples disagree more often",
    "Raters disagree as often as the class probabilities say",
    "cannot tell whether calibrating for decisions pays",
    "takes no sample_weight in fit",
    # of the models themselves
    "did not converge|failed to converge|hasn't converged yet|Liblinear failed",
    "collinear",
    "The default (of|value)|is deprecated|will be (removed|simplified)",
    "X does not have valid feature names",
]


class Sample(NamedTuple):
    """Features (n, 6), class probabilities (n, K) that are known, and one label each."""

    X: np.ndarray
    Q: np.ndarray
    y: np.ndarray


def drawn(n: int, share, seed: int) -> Sample:
    """Two clusters of each class, some of which overlap; `share` are the class frequencies."""
    K = len(share)
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(7).normal(0, 1.1, (K, 2, 6))
    spreads = np.random.default_rng(8).uniform(0.6, 1.6, (K, 2, 6))
    y = np.searchsorted(np.cumsum(share), rng.random(n)).clip(max=K - 1)
    c = rng.integers(0, 2, n)
    X = centers[y, c] + spreads[y, c] * rng.normal(size=(n, 6))
    density = [
        [multivariate_normal.logpdf(X, centers[k, j], np.diag(spreads[k, j] ** 2)) for j in (0, 1)]
        for k in range(K)
    ]
    log_q = np.logaddexp.reduce(np.array(density), axis=1).T + np.log(share)
    return Sample(X, np.exp(log_softmax(log_q, axis=1)), y)


def raters(Q, m: int, seed: int) -> np.ndarray:
    """Counts of m labels of each sample, drawn from its class probabilities."""
    return np.random.default_rng(seed).multinomial(m, Q)


SHARES = {
    "balanced": np.full(3, 1 / 3),
    "rare": np.array([0.97, 0.03]),
    "shifted": np.array([0.97, 0.03]),
}


def rows() -> dict:
    """Models that people calibrate, by name; those of packages that are absent are left out."""
    trees = [("tree", DecisionTreeClassifier(max_depth=4, random_state=0)), ("NB", GaussianNB())]
    found = {
        "logistic regression": LogisticRegression(),
        "linear discriminant": LinearDiscriminantAnalysis(),
        "quadratic discriminant": QuadraticDiscriminantAnalysis(),
        "naive Bayes": GaussianNB(),
        "nearest neighbours": KNeighborsClassifier(15),
        "tree": DecisionTreeClassifier(random_state=0),
        "forest": RandomForestClassifier(100, random_state=0),
        "forest, leaves of 5": RandomForestClassifier(50, min_samples_leaf=5, random_state=0),
        "extra trees": ExtraTreesClassifier(100, random_state=0),
        "bagging": BaggingClassifier(n_estimators=20, random_state=0),
        "soft voting": VotingClassifier([*trees, ("LR", LogisticRegression())], voting="soft"),
        "stacking": StackingClassifier(trees, LogisticRegression()),
        "AdaBoost": AdaBoostClassifier(n_estimators=30, random_state=0),
        "gradient boosting": GradientBoostingClassifier(n_estimators=30, random_state=0),
        "boosting": HistGradientBoostingClassifier(max_iter=40, random_state=0),
        "SVC": SVC(),
        "linear SVC": LinearSVC(),
        "SGD": make_pipeline(StandardScaler(), SGDClassifier(random_state=0)),
        "network": MLPClassifier((20,), max_iter=80, random_state=0),
    }
    return found | _of_other_packages()


def _of_other_packages() -> dict:
    found = {}
    try:
        from lightgbm import LGBMClassifier
        from xgboost import XGBClassifier

        found["LightGBM"] = LGBMClassifier(n_estimators=40, n_jobs=1, verbose=-1)
        found["XGBoost"] = XGBClassifier(n_estimators=40, n_jobs=1)
    except ImportError:
        pass
    try:
        from catboost import CatBoostClassifier

        found["CatBoost"] = CatBoostClassifier(
            iterations=40, thread_count=1, verbose=False, allow_writing_files=False
        )
    except ImportError:
        pass
    try:
        from imblearn.ensemble import BalancedRandomForestClassifier, EasyEnsembleClassifier
        from imblearn.over_sampling import SMOTE
        from imblearn.pipeline import make_pipeline as with_sampler
        from imblearn.under_sampling import RandomUnderSampler

        found["SMOTE, logistic regression"] = with_sampler(
            StandardScaler(), SMOTE(k_neighbors=3, random_state=0), LogisticRegression()
        )
        found["undersampling, forest"] = with_sampler(
            RandomUnderSampler(random_state=0), RandomForestClassifier(50, random_state=0)
        )
        found["balanced forest"] = BalancedRandomForestClassifier(
            50, sampling_strategy="all", replacement=True, bootstrap=False, random_state=0
        )
        found["EasyEnsemble"] = EasyEnsembleClassifier(
            4, estimator=AdaBoostClassifier(n_estimators=10), random_state=0
        )
    except ImportError:
        pass
    return found | _networks()


def _networks() -> dict:
    import torch
    from skorch import NeuralNetClassifier

    from sklearn_lhcal.neural_network import NeuralClassifier

    class Net(torch.nn.Sequential):
        def __init__(self, n_outputs=3):
            super().__init__(
                torch.nn.Linear(6, 20), torch.nn.Tanh(), torch.nn.Linear(20, n_outputs)
            )
            self.double()

    options = {"max_epochs": 15, "lr": 0.02, "verbose": 0, "optimizer": torch.optim.Adam}
    plain = NeuralNetClassifier(
        Net, criterion=torch.nn.CrossEntropyLoss, train_split=None, **options
    )
    return {"NeuralClassifier": NeuralClassifier(Net, random_state=0, **options), "skorch": plain}


def of_classes(model, K: int):
    """A clone of the model for K classes."""
    model = clone(model)
    if "module" in model.get_params(deep=False):
        model.set_params(module__n_outputs=K)
    return model


def others() -> dict:
    """Every other classifier of scikit-learn that is built without arguments."""
    # they take no negative numbers, no single labels, or are no classifiers for such data
    left_out = {"CategoricalNB", "ComplementNB", "MultinomialNB", "RadiusNeighborsClassifier"}
    used = {type(one).__name__ for one in rows().values()} | left_out
    found = {}
    for name, kind in all_estimators("classifier"):
        if name in used:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                model = kind()
        except (TypeError, FutureWarning):
            # it needs arguments, or is to go
            continue
        if hasattr(model, "predict_proba") or hasattr(model, "decision_function"):
            found[name] = model
    return found


class Cell(NamedTuple):
    """What was measured of a calibrator in one split: numbers by name, and what failed."""

    numbers: dict
    faults: list


def outputs(model, X) -> tuple[str, np.ndarray]:
    """Whether a fitted model has "proba" or "logits", and what they are, (n, K)."""
    if hasattr(model, "predict_proba"):
        return "proba", np.asarray(model.predict_proba(X), dtype=np.float64)
    return "logits", two_columns(model.decision_function(X))


def two_columns(u) -> np.ndarray:
    """Log-odds of the second of two classes as logits; others as they are."""
    u = np.asarray(u, dtype=np.float64)
    return np.column_stack([np.zeros_like(u), u]) if u.ndim == 1 else u


def loss_of(p, y) -> float:
    """The log loss, of probabilities that are at least 1e-12."""
    p = np.maximum(np.asarray(p, dtype=np.float64), 1e-12)
    return -float(np.log(p[np.arange(len(y)), y] / p.sum(axis=1)).mean())


def faults_of(model, X, y, classes) -> list[str]:
    """Oracle d."""
    p = model.predict_proba(X)
    found = []
    if not (np.isfinite(p).all() and p.min() >= 0 and p.max() <= 1):
        found.append(f"d: probabilities from {p.min()} to {p.max()!r}")
    # prediction sets keep the model's own, which may be in float32
    if np.abs(p.sum(axis=1) - 1).max() > 1e-6:
        found.append("d: sums")
    log_loss(y, p, labels=classes)
    if len(classes) == 2:
        brier_score_loss(y, p[:, 1], pos_label=classes[1])
    if not hasattr(model, "decision_function"):
        return found
    u = model.decision_function(X)
    if not np.isfinite(u).all():
        found.append("d: decision_function")
    if u.ndim == 1:
        order = np.argsort(u, kind="stable")
        if (np.diff(p[order, 1]) < -1e-9).any():
            found.append("d: order")
    elif (p[np.arange(len(p)), u.argmax(axis=1)] < p.max(axis=1) - 1e-9).any():
        found.append("d: order")
    return found


def costs(K: int) -> np.ndarray:
    """0/1 costs, but of the last class, which is dear to miss."""
    C = 1.0 - np.eye(K)
    C[-1] *= MISSED
    return C


class Setting(NamedTuple):
    """What a cell is measured on: a model, samples, and what the model itself says.

    `classes` are the names of the columns; `saved` are its outputs for the calibration samples, out
    of fold unless it is frozen, and `tested` those for the test samples, "proba" or "logits".
    """

    model: object
    train: Sample
    test: Sample
    classes: np.ndarray
    response: str
    saved: np.ndarray
    tested: np.ndarray
    sigmoid: np.ndarray
    is_counted: bool = False


def setting(model, train: Sample, test: Sample, classes=None, is_counted=False) -> Setting:
    """Fits the model, and a sigmoid around it."""
    classes = np.arange(train.Q.shape[1]) if classes is None else np.asarray(classes)
    y = classes[train.y]
    is_frozen = isinstance(model, FrozenEstimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sample, label = labels_of_raters(train) if is_counted else (slice(None), train.y)
        response, tested = outputs(clone(model).fit(train.X[sample], classes[label]), test.X)
        if is_frozen:
            _, saved = outputs(model, train.X)
        else:
            saved = out_of_fold(model, train, y, response, is_counted)
        peer = CalibratedClassifierCV(clone(model), cv=None if is_frozen else 5, ensemble=False)
        sigmoid = peer.fit(train.X, y).predict_proba(test.X)
    return Setting(model, train, test, classes, response, saved, tested, sigmoid, is_counted)


def out_of_fold(model, train: Sample, y, response: str, is_counted: bool) -> np.ndarray:
    """Outputs for samples that the model was not fitted on; of three raters on each of them."""
    method = "predict_proba" if response == "proba" else "decision_function"
    if not is_counted:
        return two_columns(cross_val_predict(clone(model), train.X, y, cv=5, method=method))
    sample, label = labels_of_raters(train)
    folds = GroupKFold(5).split(sample, groups=sample)
    u = cross_val_predict(clone(model), train.X[sample], label, cv=folds, method=method)
    return two_columns(u)[::3]


def labels_of_raters(train: Sample) -> tuple[np.ndarray, np.ndarray]:
    """Sample and class of each label of three raters."""
    counts = raters(train.Q, 3, 11)
    sample, k = np.nonzero(counts)
    times = counts[sample, k]
    return np.repeat(sample, times), np.repeat(k, times)


def measured(key: str, at: Setting) -> Cell:
    """The cell of one calibrator."""
    given = at.classes[at.train.y]
    if at.is_counted or key == "α":
        given = pd.DataFrame(raters(at.train.Q, 3, 11), columns=at.classes)
    numbers: dict = {}
    faults = []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            calibrator = calibrator_of(key, at).fit(at.train.X, given)
            p = calibrator.predict_proba(at.test.X)
        except Exception as error:
            return Cell({}, [f"a: {type(error).__name__}: {str(error)[:150]}"])
    known = re.compile("|".join(EXPECTED_WARNINGS))
    said = {str(one.message) for one in heard}
    faults += [f"e: {text[:100]}" for text in sorted(said) if not known.search(text)]
    faults += faults_of(calibrator, at.test.X, at.classes[at.test.y], at.classes)
    y = at.test.y
    numbers["loss"] = loss_of(p, y)
    if at.response == "proba":
        numbers["itself"] = loss_of(at.tested, y)
    if key in SCALINGS:
        numbers["saved"] = loss_of(on_saved(key, at, given), y)
        numbers["sigmoid"] = loss_of(at.sigmoid, y)
        numbers["away"] = float(p[:, -1].mean() - (y == len(at.classes) - 1).mean())
    if key == "α":
        # what it calibrates, and the model inside, which was fitted on the same counts
        inside = calibrator.estimator_
        numbers["inside"] = loss_of(inside.predict_proba(at.test.X), y)
        seen = raters(at.test.Q, 3, 12)
        dist = calibrator.predict_dist(at.test.X)
        numbers["disagreement"] = disagreement_squared_loss(seen, dist)
        if at.response == "proba":
            itself = outputs(inside.estimator_, at.test.X)[1]
            numbers["itself"] = loss_of(itself, y)
            itself = itself / itself.sum(axis=1, keepdims=True)
            numbers["its disagreement"] = disagreement_squared_loss(seen, itself)
    if key == "groups":
        numbers["common"] = loss_of(calibrator.estimator_.predict_proba(at.test.X), y)
    if key == "sets":
        sets = calibrator.predict_set(at.test.X)
        numbers["coverage"] = float(sets[np.arange(len(y)), y].mean())
    if key == "decisions":
        C = costs(len(at.classes))
        decided = [at.classes.tolist().index(d) for d in calibrator.decide(at.test.X).tolist()]
        numbers["cost"] = float(C[y, decided].mean())
        if at.response == "proba":
            numbers["its cost"] = float(C[y, (at.tested @ C).argmin(axis=1)].mean())
    return Cell(numbers, faults)


def calibrator_of(key: str, at: Setting):
    """Around the model; sets need probabilities, and a cost matrix has the classes' names."""
    model = clone(at.model)
    if key == "sets":
        model = model if at.response == "proba" else TemperatureScaling(model)
        return ConformalClassifier(model, confidence_level=LEVEL, random_state=0)
    if key == "decisions":
        names = at.classes
        C = pd.DataFrame(costs(len(names)), index=names, columns=names)
        return DecisionCalibration(model, C)
    if key == "groups":
        return GroupedCalibration(StackedCalibration(model), by=is_positive)
    return CALIBRATORS[key](StackedCalibration(model) if key == "α" else model)


def is_positive(X) -> np.ndarray:
    """Two groups, by the first column of an array, a sparse matrix or a frame."""
    first = X.iloc[:, 0] if hasattr(X, "iloc") else X[:, [0]]
    first = first.toarray() if hasattr(first, "toarray") else np.asarray(first)
    return first.ravel() > 0


def on_saved(key: str, at: Setting, given) -> np.ndarray:
    """What the same scaling makes of saved outputs."""
    given = np.asarray(given) if at.is_counted else at.train.y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SCALINGS[key](at.response).fit(at.saved, given).predict_proba(at.tested)


def judged(key: str, splits: list[Cell], is_shifted: bool, slack: float = 0.0) -> list[str]:
    """What fails of a cell over its splits; `slack` stands for the standard errors of one split."""
    faults = sorted({fault for cell in splits for fault in cell.faults})
    numbers = [cell.numbers for cell in splits if cell.numbers]

    def check(what, names, allowed, sign=1.0):
        """Whether the first, minus the second where there is one, is at most what is allowed."""
        if not all(name in one for name in names for one in numbers) or not numbers:
            return
        a = np.array([sign * (one[names[0]] - sum(one[n] for n in names[1:])) for one in numbers])
        error = 2 * a.std(ddof=1) / np.sqrt(len(a)) if len(a) > 1 else slack
        if a.mean() > allowed + error:
            faults.append(f"{what} by {a.mean():.3f}")

    if key == "T":
        check("b: above itself", ("loss", "itself"), 0.0)
    elif key in SCALINGS or key in ("α", "groups"):
        check("b: above itself", ("loss", "itself"), OF_ITSELF)
        check("b: above what is inside", ("loss", "inside"), 1e-6)
        check("b: below what is inside", ("loss", "inside"), 1e-6, -1.0)
        check("b: above saved", ("loss", "saved"), OF_SAVED)
        check("b: above a sigmoid", ("loss", "sigmoid"), OF_SIGMOID)
        if is_shifted:
            check("c: mean p above the frequency", ("away",), OF_FREQUENCY)
            check("c: mean p below the frequency", ("away",), OF_FREQUENCY, -1.0)
    check("b: above the common calibrator", ("loss", "common"), OF_ITSELF)
    check("b: disagreement loss above itself", ("disagreement", "its disagreement"), 0.0)
    check("b: cost above itself", ("cost", "its cost"), 0.0)
    check("b: coverage", ("coverage",), -LEVEL, -1.0)
    return faults


# Forms that people give a model, and situations of its data: each a function of the model and of
# samples.


def as_frame(X) -> pd.DataFrame:
    """Columns with names, of which one holds text and one has gaps."""
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame["f"] = np.array(["low", "middle", "high"])[np.digitize(X[:, 5], [-1, 1])]
    frame.loc[np.arange(len(X)) % 11 == 3, "a"] = np.nan
    return frame


def around_frames(model):
    """A pipeline for such a frame."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler()), list("abcde")
    text = OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["f"]
    columns = ColumnTransformer([("numbers", *numbers), ("text", *text)])
    return make_pipeline(columns, model)


FORMS = {
    "pipeline": (lambda model: make_pipeline(StandardScaler(), model), None),
    "frame": (around_frames, as_frame),
    "search": (lambda model: GridSearchCV(model, {}, cv=3), None),
    "LabelHistogramClassifier": (LabelHistogramClassifier, None),
}
UNITS = np.array([1.0, 1e3, 1e-3, 1.0, 50.0, 1.0])
# what becomes of X, names of the classes, samples for calibration, whether three raters label
SITUATIONS = {
    "unscaled": (lambda X: X * UNITS, None, 1000, False),
    "text": (None, ["mild", "none", "severe"], 1000, False),
    "labels from 1": (None, [1, 2, 3], 1000, False),
    "100 samples": (None, None, 100, False),
    "three raters": (None, None, 1000, True),
    "discrete": (lambda X: np.sign(X), None, 1000, False),
    "float32": (lambda X: X.astype(np.float32), None, 1000, False),
    "sparse": (csr_matrix, None, 1000, False),
}


def situation(model, name: str, n: int, n_test: int, seed: int) -> Setting:
    """One of the main three: balanced, a rare class, or a model that was trained balanced."""
    share = SHARES[name]
    train, test = drawn(n, share, 1000 + seed), drawn(n_test, share, 2000 + seed)
    if name == "shifted":
        model = shifted(model, n, seed)
    return setting(model, train, test)


def shifted(model, n: int, seed: int) -> FrozenEstimator:
    """Fitted with balanced class weights, or where it has none on balanced classes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "class_weight" in model.get_params(deep=False):
            other = drawn(n, SHARES["shifted"], 3000 + seed)
            model = clone(model).set_params(class_weight="balanced")
        else:
            other = drawn(n, np.full(2, 0.5), 3000 + seed)
        return FrozenEstimator(clone(model).fit(other.X, other.y))


def formed(model, name: str, seed: int, n_test: int = 4000) -> Setting:
    """A model in one of the forms, or in one of the other situations."""
    form, of_X, classes, n, is_counted = None, None, None, 1000, False
    if name in FORMS:
        form, of_X = FORMS[name]
    elif name in SITUATIONS:
        of_X, classes, n, is_counted = SITUATIONS[name]
    share = SHARES["balanced"]
    train, test = drawn(n, share, 1000 + seed), drawn(n_test, share, 2000 + seed)
    if of_X is not None:
        train, test = (one._replace(X=of_X(one.X)) for one in (train, test))
    if name == "frozen":
        other = drawn(n, share, 3000 + seed)
        model = FrozenEstimator(clone(model).fit(other.X, other.y))
    elif form is not None:
        model = form(clone(model))
    return setting(model, train, test, classes, is_counted)
