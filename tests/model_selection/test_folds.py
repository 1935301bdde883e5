"""Folds: nothing leaks, shares of classes are equal, and groups stay whole at every level."""

import warnings
from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.label_histogram import KnownProbabilities, LabelHistogramClassifier
from sklearn_lhcal.metrics import label_log_loss
from sklearn_lhcal.model_selection import StratifiedVotesKFold, cross_val_predict


@pytest.fixture
def data():
    return make_label_histograms(240, n_classes=3, n_raters=(1, 6), total=3.0, random_state=0)


GROUPS = np.random.default_rng(0).permutation(np.arange(240) // 8)


SPLIT = StratifiedVotesKFold.split


class Spy(StratifiedVotesKFold):
    """Records, for each split, how many rows it divides and the groups that it was given."""

    seen: ClassVar[list] = []

    def split(self, X, y, groups=None):
        Spy.seen.append((len(y), None if groups is None else np.asarray(groups)))
        yield from SPLIT(self, X, y, groups)


@pytest.fixture
def seen():
    Spy.seen = []
    return Spy.seen


# --- StratifiedVotesKFold ---


@pytest.mark.parametrize("shuffle", [False, True])
def test_folds_have_equal_shares_of_majority_classes(shuffle):
    votes = np.repeat(
        [0, 1, 2], [100, 40, 10]
    )  # sorted, so that plain folds would be one class each
    counts = 3 * np.eye(3, dtype=int)[votes] + 1
    splitter = StratifiedVotesKFold(5, shuffle=shuffle, random_state=0 if shuffle else None)
    tests = [test for _, test in splitter.split(counts, counts)]
    assert_array_equal(np.sort(np.concatenate(tests)), np.arange(150))
    for test in tests:
        assert_array_equal(np.bincount(votes[test]), [20, 8, 2])
    for (train, test), (_, again) in zip(
        splitter.split(None, counts), splitter.split(None, votes), strict=True
    ):
        assert_array_equal(np.sort([*train, *test]), np.arange(150))
        assert_array_equal(test, again)


@pytest.mark.parametrize("shuffle", [False, True])
def test_groups_are_never_split(data, shuffle):
    splitter = StratifiedVotesKFold(5, shuffle=shuffle, random_state=0 if shuffle else None)
    votes, tests = data.counts.argmax(axis=1), []
    for train, test in splitter.split(data.X, data.counts, GROUPS):
        assert not set(GROUPS[train]) & set(GROUPS[test])
        assert_allclose(np.bincount(votes[test]) / len(test), np.bincount(votes) / 240, atol=0.12)
        tests.append(test)
    assert_array_equal(np.sort(np.concatenate(tests)), np.arange(240))


def test_filters_of_warnings_are_the_callers_between_folds():
    """A class rarer than the folds is no reason to warn, nor to silence whoever loops over them."""
    labels = np.repeat([0, 1], [20, 2])
    before = list(warnings.filters)
    seen = [list(warnings.filters) for _ in StratifiedVotesKFold(3).split(labels, labels)]
    assert seen == [before] * 3


def test_folds_are_reproducible(data):
    def folds(seed, groups=None):
        splitter = StratifiedVotesKFold(3, shuffle=True, random_state=seed)
        return [test.tolist() for _, test in splitter.split(data.X, data.counts, groups)]

    for groups in (None, GROUPS):
        assert folds(0, groups) == folds(0, groups)
        assert folds(0, groups) != folds(1, groups)


@pytest.mark.parametrize(
    "form",
    [
        np.ndarray.tolist,
        pd.DataFrame,
        lambda y: pl.DataFrame(y, schema=["c", "a", "b"]),
        sp.csr_array,
        lambda y: KnownProbabilities(y / y.sum(axis=1, keepdims=True)),
        lambda y: y.argmax(axis=1),
        lambda y: np.array(["a", "b", "c"])[y.argmax(axis=1)],
    ],
)
def test_votes_of_any_form_of_y(data, form):
    expected = StratifiedKFold(4).split(data.X, data.counts.argmax(axis=1))
    got = StratifiedVotesKFold(4).split(None, form(data.counts))
    for a, b in zip(expected, got, strict=True):
        assert_array_equal(a[0], b[0])
        assert_array_equal(a[1], b[1])


def test_a_rare_class_is_no_reason_to_warn():
    counts = np.repeat([[3, 0], [0, 3]], [30, 2], axis=0)
    assert len(list(StratifiedVotesKFold(5).split(counts, counts))) == 5
    with pytest.raises(ValueError, match="n_splits=5"):
        next(StratifiedVotesKFold(5).split(None, counts[28:]))
    with pytest.raises(ValueError, match="k-fold"):
        next(StratifiedVotesKFold(1).split(None, counts))


@pytest.mark.parametrize("routing", [False, True])
def test_folds_in_cross_validation_and_searches(data, seen, routing):
    model = LabelHistogramClassifier()
    with config_context(enable_metadata_routing=routing):
        groups = {"params": {"groups": GROUPS}} if routing else {"groups": GROUPS}
        folds = cross_validate(
            model,
            data.X,
            data.counts,
            cv=Spy(3),
            scoring="neg_label_log_loss",
            return_indices=True,
            **groups,
        )["indices"]
        search = GridSearchCV(
            model, {"estimator": [LogisticRegression(C=c) for c in (1e-3, 1)]}, cv=Spy(3)
        )
        search.set_params(scoring="neg_epistemic_loss").fit(data.X, data.counts, groups=GROUPS)
    for train, test in zip(folds["train"], folds["test"], strict=True):
        assert not set(GROUPS[train]) & set(GROUPS[test])
    assert len(seen) == 2
    for n, groups in seen:
        assert n == 240
        assert_array_equal(groups, GROUPS)
    assert search.best_params_["estimator"].C == 1


# --- groups through calibrators ---


CHAIN = AlphaCalibration(TemperatureScaling())


@pytest.mark.parametrize("cv", [Spy(3), 3, "holdout", GroupKFold(3)], ids=str)
def test_groups_reach_every_level_with_metadata_routing(data, seen, cv, monkeypatch):
    """A search over a chain of calibrators.

    Its own folds, and those of the chain within each of them.
    """
    monkeypatch.setattr(StratifiedVotesKFold, "split", Spy.split)
    with config_context(enable_metadata_routing=True):
        chain = clone(CHAIN).set_params(cv=cv, random_state=0)
        search = GridSearchCV(
            chain, {"penalty": [0.01, 1.0]}, cv=Spy(2), scoring="neg_disagreement_squared_loss"
        )
        search.fit(data.X, data.counts, groups=GROUPS)
        cross_validate(
            chain,
            data.X,
            data.counts,
            cv=GroupKFold(2),
            params={"groups": GROUPS},
            error_score="raise",
        )
    # the search; within chains its folds for two candidates, its refit, and two folds
    in_chains = 0 if isinstance(cv, GroupKFold) else 2 * 2 + 1 + 2
    assert len(seen) == 1 + in_chains
    for n, groups in seen:
        assert len(groups) == n


def test_groups_reach_calibrators_without_metadata_routing(data, seen):
    """As fit parameters: of a step of a Pipeline in a search, which keeps `groups` for itself.

    Of cross_validate.
    """
    pipeline = make_pipeline(StandardScaler(), clone(CHAIN).set_params(cv=Spy(3)))
    search = GridSearchCV(
        pipeline,
        {"alphacalibration__penalty": [0.01, 1.0]},
        cv=Spy(2),
        scoring="neg_epistemic_loss",
    )
    search.fit(data.X, data.counts, groups=GROUPS, alphacalibration__groups=GROUPS)
    assert len(seen) == 6
    inner = clone(CHAIN).set_params(cv=Spy(3))
    cross_validate(
        inner,
        data.X,
        data.counts,
        cv=Spy(2),
        groups=GROUPS,
        params={"groups": GROUPS},
        error_score="raise",
    )
    assert len(seen) == 6 + 3
    assert all(len(groups) == n for n, groups in seen)
    seen.clear()
    GridSearchCV(inner, {"penalty": [0.01]}, cv=Spy(2), scoring="neg_epistemic_loss").fit(
        data.X, data.counts, groups=GROUPS
    )
    assert [groups is None for _, groups in seen] == [
        False,
        True,
        True,
        True,
    ]  # what the docstring warns of


def test_groups_reach_the_folds_of_calibrators_in_cross_val_predict(data, seen):
    inner = clone(CHAIN).set_params(cv=Spy(3))
    cross_val_predict(
        inner, data.X, data.counts, cv=Spy(2), groups=GROUPS, fit_params={"groups": GROUPS}
    )
    assert [n == len(groups) for n, groups in seen] == [True] * 3


def patients(rng, n_patients):
    """8 rows a patient in random order, 3 raters a row.

    30 features tell the patient, whose labels have a tendency.
    """
    patient = rng.permutation(np.repeat(np.arange(n_patients), 8))
    tendency, looks = 2 * rng.normal(size=n_patients), rng.normal(size=(n_patients, 30))
    x = rng.normal(size=(len(patient), 2))
    votes = rng.binomial(3, 1 / (1 + np.exp(-(x[:, 0] + tendency[patient]))))
    X = np.column_stack([x, looks[patient] + 0.1 * rng.normal(size=(len(patient), 30))])
    return X, np.column_stack([3 - votes, votes]), patient


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Classes are labelled less often")
def test_calibration_for_new_patients_needs_folds_of_patients():
    """The classifier learns patients by heart.

    Folds that split patients do not notice; folds of patients do.
    """
    gains = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        (X, y, patient), (X_new, y_new, _) = patients(rng, 40), patients(rng, 100)
        model = TemperatureScaling(LogisticRegression(C=10.0, max_iter=2000))
        by_patient, by_row = clone(model).fit(X, y, groups=patient), clone(model).fit(X, y)
        assert by_patient.temperature_ > 2 * by_row.temperature_
        losses = [label_log_loss(y_new, m.predict_proba(X_new)) for m in (by_row, by_patient)]
        gains.append(losses[0] - losses[1])
    assert np.mean(gains) > 4 * np.std(gains, ddof=1) / np.sqrt(len(gains))  # nats per label


def test_saved_outputs_without_names_meet_labels_in_words():
    """As in fit: columns stand for the sorted names."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(90, 3))
    label = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    named = np.array(["cat", "dog", "elk"])[label]
    model = TemperatureScaling("logits")
    found = cross_val_predict(model, logits, named, cv=3)
    np.testing.assert_array_equal(found, cross_val_predict(model, logits, label, cv=3))
