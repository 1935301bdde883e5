"""Scorer objects and strings: pickles, other processes, and scikit-learn's registry."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from scorer_cases import CV, MODEL, SCORERS, problem
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate

from sklearn_lhcal.metrics import get_scorer, register_scorers

# Scorer objects and their registration


@pytest.mark.parametrize("name", SCORERS)
def test_scorers_pickle_and_clone(name):
    X, counts = problem()
    model = clone(MODEL).fit(X, counts)
    score = SCORERS[name](model, X, counts)
    assert pickle.loads(pickle.dumps(SCORERS[name]))(model, X, counts) == score
    assert clone(SCORERS[name])(model, X, counts) == score
    fitted = GridSearchCV(MODEL, {}, scoring=name, cv=CV).fit(X, counts)
    assert pickle.loads(pickle.dumps(fitted)).score(X, counts) == fitted.score(X, counts)


@pytest.mark.slow
@pytest.mark.parametrize(
    "scoring", ["neg_posterior_epistemic_loss", SCORERS["neg_label_log_loss"], list(SCORERS)]
)
def test_scorers_work_in_other_processes(scoring):
    X, counts = problem()
    parallel = cross_validate(MODEL, X, counts, scoring=scoring, cv=CV, n_jobs=2)
    serial = cross_validate(MODEL, X, counts, scoring=scoring, cv=CV)
    for key in (k for k in serial if k.startswith("test_")):
        np.testing.assert_allclose(parallel[key], serial[key], rtol=1e-9)


def test_get_scorer_falls_back_to_scikit_learn():
    X, counts = problem()
    labels = counts.argmax(axis=1)
    model = LogisticRegression().fit(X, labels)
    assert get_scorer("accuracy")(model, X, labels) == model.score(X, labels)

    def own(estimator, X, y):
        return 1.0

    assert get_scorer(own) is own
    with pytest.raises(ValueError, match="no_such_scorer"):
        get_scorer("no_such_scorer")


def test_without_the_registry_importing_warns_and_objects_work(monkeypatch):
    from sklearn.metrics import _scorer

    monkeypatch.delattr(_scorer, "_SCORERS")
    with pytest.warns(RuntimeWarning, match="scorer objects"):
        register_scorers()
    X, counts = problem()
    scores = cross_val_score(MODEL, X, counts, scoring=SCORERS["neg_epistemic_loss"], cv=CV)
    assert np.isfinite(scores).all()


def test_a_name_that_scikit_learn_has_too_is_skipped_alone(monkeypatch):
    from sklearn.metrics import _scorer

    theirs = _scorer._SCORERS["accuracy"]
    registry = {name: one for name, one in _scorer._SCORERS.items() if name not in SCORERS}
    monkeypatch.setattr(_scorer, "_SCORERS", registry | {"neg_epistemic_loss": theirs})
    # warnings are errors here
    register_scorers()
    assert _scorer._SCORERS["neg_epistemic_loss"] is theirs
    assert set(SCORERS) <= set(_scorer._SCORERS)
    X, counts = problem()
    ours = cross_val_score(MODEL, X, counts, scoring=SCORERS["neg_epistemic_loss"], cv=CV)
    by_name = cross_val_score(MODEL, X, counts, scoring="neg_label_log_loss", cv=CV)
    assert np.isfinite([*ours, *by_name]).all()
    assert get_scorer("neg_epistemic_loss").metric is SCORERS["neg_epistemic_loss"].metric


SCRIPT = """
import numpy as np
{before}
import sklearn_lhcal
{after}
from sklearn.metrics import check_scoring, get_scorer, get_scorer_names
from sklearn.model_selection import (
    GridSearchCV, RandomizedSearchCV, cross_val_score, cross_validate, learning_curve,
    permutation_test_score,
    validation_curve,
)
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.inspection import permutation_importance
from sklearn.naive_bayes import GaussianNB
from sklearn_lhcal.label_histogram import LabelHistogramClassifier
from sklearn_lhcal.metrics import LabelHistogramScorer, get_scorer_names
from sklearn_lhcal.metrics import get_scorer as own

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 2))
counts = np.array([rng.multinomial(4, q) for q in rng.dirichlet(np.ones(3), 60)])
model = LabelHistogramClassifier(GaussianNB())
# those of y and X alone
names = [name for name in get_scorer_names() if isinstance(own(name), LabelHistogramScorer)]
grid = {{"estimator__var_smoothing": [1e-9, 1.0]}}
assert set(names) < set(get_scorer_names())
for name in names:
    get_scorer(name), check_scoring(model, scoring=name)
    scores = cross_val_score(model, X, counts, scoring=name, cv=2, error_score="raise")
    assert np.isfinite(scores).all()
    GridSearchCV(model, grid, scoring=name, cv=2, error_score="raise").fit(X, counts)
name = names[0]
RandomizedSearchCV(model, grid, n_iter=2, scoring=name, cv=2, error_score="raise").fit(X, counts)
cross_validate(model, X, counts, scoring=names, cv=2, error_score="raise")
learning_curve(model, X, counts, scoring=name, cv=2, train_sizes=[0.5, 1.0], error_score="raise")
validation_curve(
    model, X, counts, param_name="estimator__var_smoothing", param_range=[1e-9, 1.0], scoring=name,
    cv=2,
)
permutation_test_score(model, X, counts, scoring=name, cv=2, n_permutations=2)
permutation_importance(model.fit(X, counts), X, counts, scoring=name, n_repeats=1)
SequentialFeatureSelector(model, n_features_to_select=1, scoring=name, cv=2).fit(X, counts)
print("all fine")
"""

FIRST = (
    "import sklearn.model_selection, sklearn.feature_selection, sklearn.inspection, "
    "sklearn.linear_model"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after"), [(FIRST, ""), ("", FIRST)], ids=["sklearn first", "sklearn_lhcal first"]
)
def test_strings_work_in_either_import_order(before, after):
    code = SCRIPT.format(before=before, after=after)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "all fine", done.stderr
