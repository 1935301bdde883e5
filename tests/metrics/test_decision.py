"""Risk of decisions: the decomposition, bounds of confidence, names and scorers."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Dirichlet, PointMass
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import (
    bayes_decision,
    confidence_interval,
    decision_risk,
    make_decision_scorer,
    model_risk,
    paired_difference,
    risk_bound,
    risk_decomposition,
    risk_gap,
)
from sklearn_lhcal.neural_network import DirectLoss


@pytest.fixture
def data():
    return make_label_histograms(
        300, n_classes=3, n_raters=(1, 5), overconfidence=2.0, random_state=0
    )


@pytest.fixture
def C():
    """Four decisions for three classes: the last is to reject."""
    return np.array([[0.0, 1.0, 2.0, 0.5], [5.0, 0.0, 1.0, 0.5], [20.0, 3.0, 0.0, 0.5]])


def frame(C, kind=pd.DataFrame):
    classes, decisions = ["a", "b", "c"], ["leave", "watch", "treat", "ask"]
    if kind is pd.DataFrame:
        return pd.DataFrame(C, index=classes, columns=decisions)
    return pl.DataFrame({"class": classes} | {d: C[:, i] for i, d in enumerate(decisions)})


# --- decisions ---


def test_bayes_decision_has_the_least_expected_cost(data, C):
    d = bayes_decision(data.prediction, C)
    costs = data.prediction @ C
    assert_allclose(costs[np.arange(300), d], costs.min(axis=1), atol=1e-12)
    assert len(set(d.tolist())) == 4
    assert_array_equal(bayes_decision(PointMass(data.prediction), C), d)
    assert_array_equal(bayes_decision(Dirichlet.from_mean(data.prediction, 3.0), C), d)


def test_a_column_is_the_second_of_two_classes():
    z = np.linspace(0, 1, 11)
    assert_array_equal(bayes_decision(z, [[0, 1], [4, 0]]), z > 0.2)


def test_zero_one_costs_decide_for_the_most_probable_class(data):
    assert_array_equal(
        bayes_decision(data.prediction, 1 - np.eye(3)), data.prediction.argmax(axis=1)
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(1e-6, 1e6), st.floats(-1e3, 1e3))
def test_decisions_do_not_depend_on_the_unit_nor_on_a_constant_of_a_class(seed, unit, constant):
    rng = np.random.default_rng(seed)
    z, C = rng.dirichlet(np.ones(3), 20), rng.exponential(size=(3, 4))
    d = bayes_decision(z, C)
    shift = constant * rng.normal(size=(3, 1))
    costs = z @ C
    clear = np.diff(np.sort(costs, axis=1)[:, :2], axis=1)[:, 0] > 1e-9
    assert_array_equal(bayes_decision(z, unit * C)[clear], d[clear])
    assert_array_equal(bayes_decision(z, C + shift)[clear], d[clear])


def test_decisions_have_names(data, C):
    numbers = bayes_decision(data.prediction, C)
    for kind in (pd.DataFrame, pl.DataFrame):
        named = bayes_decision(data.prediction, frame(C, kind))
        assert_array_equal(named, np.array(["leave", "watch", "treat", "ask"])[numbers])
        assert decision_risk(data.counts, named, frame(C, kind)) == decision_risk(
            data.counts, numbers, C
        )
        assert decision_risk(data.counts, numbers, frame(C, kind)) == decision_risk(
            data.counts, numbers, C
        )


def test_frames_meet_by_name(data, C):
    z = pd.DataFrame(data.prediction, columns=["a", "b", "c"])
    counts = pd.DataFrame(data.counts, columns=["a", "b", "c"])
    order = ["c", "a", "b"]
    shuffled = frame(C).loc[order]
    d = bayes_decision(z, frame(C))
    assert_array_equal(bayes_decision(z, shuffled), d)
    assert_array_equal(bayes_decision(z[order], frame(C)), d)
    assert_allclose(
        decision_risk(counts[order], d, shuffled), decision_risk(data.counts, d, frame(C))
    )
    assert_allclose(risk_gap(counts[order], z, shuffled), risk_gap(data.counts, data.prediction, C))
    whole = risk_decomposition(data.counts, data.prediction, C)
    assert_allclose(risk_decomposition(counts[order], z, shuffled), whole)
    labels = np.array(["a", "b", "c"])[data.counts.argmax(axis=1)]
    expected = decision_risk(data.counts.argmax(axis=1), d, frame(C))
    assert_allclose(decision_risk(labels, d, shuffled), expected)


# --- risk ---


def test_risk_is_the_mean_cost(C):
    assert decision_risk([0, 2, 1], [1, 0, 3], C) == pytest.approx((1 + 20 + 0.5) / 3)
    assert decision_risk([0, 2, 1], [1, 0, 3], C, sample_weight=[1, 0, 3]) == pytest.approx(
        (1 + 3 * 0.5) / 4
    )


def test_histograms_are_repeated_labels_for_equal_numbers_of_raters(C):
    data = make_label_histograms(100, n_classes=3, n_raters=4, random_state=0)
    d = bayes_decision(data.prediction, C)
    rows, labels = np.nonzero(data.counts)
    repeat = data.counts[rows, labels]
    rows, labels = np.repeat(rows, repeat), np.repeat(labels, repeat)
    assert decision_risk(data.counts, d, C) == pytest.approx(decision_risk(labels, d[rows], C))
    assert decision_risk(csr_matrix(data.counts), d, C) == pytest.approx(
        decision_risk(data.counts, d, C)
    )
    coarse = softmax(2.0 * (data.prediction > 0.3), axis=1)
    assert_allclose(
        risk_decomposition(data.counts, coarse, C),
        risk_decomposition(labels, coarse[rows], C),
        atol=1e-12,
    )


def test_histogram_risk_is_unbiased_for_the_risk_under_known_probabilities(C):
    rng = np.random.default_rng(0)
    Q = rng.dirichlet(np.ones(3), 50)
    d = bayes_decision(rng.dirichlet(np.ones(3), 50), C)
    true = decision_risk(KnownProbabilities(Q), d, C)
    risks = [decision_risk(rng.multinomial(3, Q), d, C) for _ in range(400)]
    assert abs(np.mean(risks) - true) < 4 * np.std(risks) / 20


def test_weights_are_repetition(data, C):
    w = np.random.default_rng(0).integers(0, 4, 300)
    rows = np.repeat(np.arange(300), w)
    z, y = data.prediction, data.counts
    d = bayes_decision(z, C)
    assert_allclose(decision_risk(y, d, C, sample_weight=w), decision_risk(y[rows], d[rows], C))
    assert_allclose(model_risk(z, C, sample_weight=w), model_risk(z[rows], C))
    assert_allclose(risk_gap(y, z, C, sample_weight=w), risk_gap(y[rows], z[rows], C))
    coarse = softmax(2.0 * (z > 0.3), axis=1)
    assert_allclose(
        risk_decomposition(y, coarse, C, sample_weight=w),
        risk_decomposition(y[rows], coarse[rows], C),
        atol=1e-12,
    )
    # a prediction without any weight
    w = 1.0 * (coarse.argmax(axis=1) > 0)
    seen = w > 0
    assert_allclose(
        risk_decomposition(y, coarse, C, sample_weight=w),
        risk_decomposition(y[seen], coarse[seen], C),
        atol=1e-12,
    )


def test_gap_vanishes_for_the_truth_and_shows_overconfidence(C):
    rng = np.random.default_rng(0)
    Q = rng.dirichlet(np.ones(3), 500)
    assert risk_gap(KnownProbabilities(Q), Q, C) == pytest.approx(0, abs=1e-12)
    sharp = Q**4 / (Q**4).sum(axis=1, keepdims=True)
    assert risk_gap(KnownProbabilities(Q), sharp, C) > 0.1


def test_constants_and_units_of_cost(data, C):
    a = np.array([[3.0], [-7.0], [0.5]])
    mu, z = data.counts / data.counts.sum(axis=1, keepdims=True), data.prediction
    d = bayes_decision(z, C)
    assert_allclose(
        decision_risk(data.counts, d, C + a), decision_risk(data.counts, d, C) + (mu @ a).mean()
    )
    assert_allclose(model_risk(z, C + a), model_risk(z, C) + (z @ a).mean())
    parts, shifted = (
        risk_decomposition(data.counts, z, C),
        risk_decomposition(data.counts, z, C + a),
    )
    assert_allclose(shifted[2:], parts[2:], atol=1e-12)
    assert_allclose(risk_decomposition(data.counts, z, 50 * C), 50 * np.array(parts))


# --- decomposition ---


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_decomposition_on_discrete_data(seed):
    """Eq. (8), its terms written out from the scoring rule, eq. (13), and all of the right sign."""
    rng = np.random.default_rng(seed)
    atoms = rng.dirichlet(np.ones(3), 4)
    group = rng.integers(4, size=240)
    y, C = rng.integers(3, size=240), rng.normal(size=(3, 3))

    def s(pi, rho):
        return rho @ C[:, (pi @ C).argmin()]

    present = np.unique(group)
    share = np.array([(group == g).mean() for g in present])
    phi = [np.bincount(y[group == g], minlength=3) / (group == g).sum() for g in present]
    prior = np.bincount(y, minlength=3) / 240
    resolution = share @ [s(prior, p) - s(p, p) for p in phi]
    reliability = share @ [s(atoms[g], p) - s(p, p) for g, p in zip(present, phi, strict=True)]
    parts = risk_decomposition(y, atoms[group], C)
    assert parts.risk == pytest.approx(decision_risk(y, bayes_decision(atoms[group], C), C))
    assert_allclose(parts[1:], [s(prior, prior), resolution, reliability], atol=1e-12)
    assert parts.risk == pytest.approx(parts.uncertainty - parts.resolution + parts.reliability)
    assert min(parts.resolution, parts.reliability) > -1e-12


def test_few_samples_of_a_prediction_do_not_choose_their_own_decision():
    """As of a forest: labels are drawn from its 83 predictions, so that nothing is to be saved."""
    reliability = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p = rng.choice(np.linspace(0.001, 0.08, 83), 3000)
        ill = (rng.random(3000) < p).astype(int)
        parts = risk_decomposition(ill, np.column_stack([1 - p, p]), [[0, 1], [20, 0]])
        reliability.append(parts.reliability)
    error = np.std(reliability) / np.sqrt(20)
    assert abs(np.mean(reliability)) < 3 * error + 0.005


def test_uncertainty_is_the_best_constant_decision(data, C):
    constant = min(decision_risk(data.counts, np.full(300, d), C) for d in range(4))
    assert risk_decomposition(data.counts, data.prediction, C).uncertainty == pytest.approx(
        constant
    )


# --- intervals ---


def test_jackknife_intervals(data, C):
    z = data.prediction
    d, constant = bayes_decision(z, C), np.full(300, 3)
    interval = confidence_interval(decision_risk, data.counts, d, cost_matrix=C, random_state=0)
    assert interval.low < decision_risk(data.counts, d, C) == interval.estimate < interval.high
    difference = paired_difference(
        decision_risk, data.counts, d, constant, cost_matrix=C, random_state=0
    )
    assert difference.estimate == pytest.approx(
        interval.estimate - decision_risk(data.counts, constant, C)
    )
    gap = confidence_interval(risk_gap, data.counts, z, cost_matrix=C, random_state=0)
    assert gap.estimate == risk_gap(data.counts, z, C)


def test_bounds_are_their_formulas():
    y, d, C = np.repeat([0, 1], [90, 10]), np.zeros(100, dtype=int), [[0.0, 3.0], [2.0, -1.0]]
    h = risk_bound(y, d, C, confidence_level=0.9)
    reach = 4 * np.sqrt(np.log(2 / 0.1) / 200)
    assert_allclose([h.estimate, h.low, h.high], [0.2, 0.2 - reach, 0.2 + reach])
    e = risk_bound(y, d, C, method="empirical_bernstein", confidence_level=0.9)
    V, log = 4 * 0.09 * 100 / 99, np.log(40)
    assert_allclose(e.high - e.estimate, np.sqrt(2 * V * log / 100) + 7 * 4 * log / (3 * 99))
    assert e.standard_error == pytest.approx(np.sqrt(V / 100))
    two = risk_bound([0, 1], [0, 0], C, method="empirical_bernstein", confidence_level=0.9)
    # V = 2, and a reach beyond the largest cost
    assert (two.estimate, two.high, two.standard_error) == (1.0, 3.0, 1.0)


@pytest.mark.parametrize("method", ["hoeffding", "empirical_bernstein"])
def test_bounds_hold_where_a_mistake_is_rare_and_expensive(method):
    """One row in 1000 costs 1000: intervals of the spread miss the risk whenever there is none."""
    rng, C = np.random.default_rng(0), [[0.0, 1000.0], [1000.0, 0.0]]
    held = jackknife = 0
    for _ in range(200):
        y = (rng.random(200) < 0.001).astype(int)
        d = np.zeros(200, dtype=int)
        bound = risk_bound(y, d, C, method=method, confidence_level=0.9)
        held += bound.low <= 1.0 <= bound.high
        jackknife += y.any()
    assert held == 200
    assert jackknife < 60


@pytest.mark.parametrize("method", ["hoeffding", "empirical_bernstein"])
def test_bounds_of_groups_count_each_once(method):
    """A group is the mean of its rows; rows that are alike tell no more than one of them."""
    rng, C = np.random.default_rng(0), [[0.0, 1.0], [4.0, 0.0]]
    y, d = rng.integers(0, 2, (2, 50))
    once = risk_bound(y, d, C, method=method)
    times = rng.integers(1, 6, 50)
    group = rng.permutation(50)
    y_many, d_many, group_many = (np.repeat(a, times) for a in (y, d, group))
    many = risk_bound(y_many, d_many, C, method=method, groups=group_many)
    assert_allclose(many, once, rtol=1e-12)
    # half of the rows of each group cost 4
    found = risk_bound([1, 1] * 25, [0, 1] * 25, C, method=method, groups=np.repeat(group[:25], 2))
    assert found.estimate == 2
    assert found.standard_error == 0
    with pytest.raises(TypeError, match="sample_weight"):
        risk_bound(y, d, C, sample_weight=np.ones(50))


def test_bernstein_is_shorter_where_costs_vary_little():
    y, d, C = np.zeros(20_000, dtype=int), np.zeros(20_000, dtype=int), [[1.0, 100.0], [100.0, 1.0]]
    bernstein, hoeffding = (
        risk_bound(y, d, C, method=m).high for m in ("empirical_bernstein", "hoeffding")
    )
    assert 1 < bernstein < hoeffding


# --- gates ---


@pytest.mark.parametrize(
    ("C", "message"),
    [
        (
            [[0, np.nan], [1, 0]],
            "NaN or infinite costs|contains NaN or infinite values .first in sample 0",
        ),
        ([0, 1], "must have shape .n_classes, n_decisions. or .n_samples, .*, got .2,."),
        ([[0, 1], [1, 0], [1, 1]], "has 3 rows, expected one for each of 2 classes"),
        ([["a", "b"], ["c", "d"]], "cost_matrix must be numeric"),
        (pd.DataFrame([[0, 1], [1, 0]], columns=["x", "x"]), "names columns twice"),
    ],
)
def test_cost_matrices_that_are_refused(C, message):
    with pytest.raises(ValueError, match=message):
        bayes_decision([[0.5, 0.5]], C)


def test_decisions_that_are_refused(C):
    with pytest.raises(ValueError, match="between 0 and 3, got 0 to 4"):
        decision_risk([0, 1], [0, 4], C)
    with pytest.raises(ValueError, match="by name need a cost matrix that is a frame"):
        decision_risk([0, 1], ["leave", "ask"], C)
    with pytest.raises(ValueError, match=r"Unknown decisions \['eat'\]"):
        decision_risk([0, 1], ["leave", "eat"], frame(C))
    with pytest.raises(ValueError, match="1-D, one per sample"):
        decision_risk([0, 1], [[0], [1]], C)
    with pytest.raises(ValueError, match="decisions has 3 samples, expected 2"):
        decision_risk([0, 1], [0, 1, 2], C)
    with pytest.raises(ValueError, match="confidence_level must lie between"):
        risk_bound([0], [0], C, confidence_level=1.0)
    with pytest.raises(ValueError, match="needs two samples"):
        risk_bound([0], [0], C, method="empirical_bernstein")
    with pytest.raises(ValueError, match="method must be"):
        risk_bound([0], [0], C, method="bootstrap")
    with pytest.raises(ValueError, match=r"has the classes \['a', 'b', 'c'\], .*\['a', 'b', 'd'\]"):
        bayes_decision(pd.DataFrame([[0.2, 0.3, 0.5]], columns=["a", "b", "d"]), frame(C))


def test_costs_and_classes_meet_by_name_or_in_sorted_order(data, C):
    z, names = data.prediction, ["a", "b", "c"]
    shuffled, named = frame(C).loc[["c", "a", "b"]], pd.DataFrame(z, columns=names)
    d = bayes_decision(z, C)
    assert len(set(d)) > 2
    assert_array_equal(bayes_decision(named, shuffled), bayes_decision(named, frame(C)))
    assert_array_equal(bayes_decision(named, C), d)
    assert_array_equal(bayes_decision(pd.DataFrame(z, columns=[3, 5, 7]), pd.DataFrame(C)), d)
    with pytest.raises(ValueError, match=r"not sorted.*pd.DataFrame\(cost_matrix, index="):
        bayes_decision(named[["c", "a", "b"]], C)
    with pytest.raises(ValueError, match=r"not sorted.*pd.DataFrame\(proba, columns="):
        bayes_decision(z, shuffled)


def test_nothing_is_written_to(data, C):
    C.flags.writeable = False
    z = data.prediction.copy()
    z.flags.writeable = False
    d = bayes_decision(z, C)
    decision_risk(data.counts, d, C)
    DirectLoss(C)(torch.zeros(1, 3), torch.ones(1, 3))


# --- scorers ---


def test_scorer_is_minus_the_risk_of_bayes_decisions():
    X, y = load_iris(return_X_y=True)
    C = np.array([[0, 1, 2], [4, 0, 1], [9, 2, 0]])
    model = GaussianNB().fit(X, y)
    risk = decision_risk(y, bayes_decision(model.predict_proba(X), C), C)
    scorer = make_decision_scorer(C)
    assert scorer(model, X, y) == pytest.approx(-risk)
    assert clone(scorer)(model, X, y) == pytest.approx(-risk)
    w = np.arange(150.0)
    weighted = decision_risk(y, bayes_decision(model.predict_proba(X), C), C, sample_weight=w)
    assert scorer(model, X, y, sample_weight=w) == pytest.approx(-weighted)


def test_scorer_in_a_search_with_named_classes_and_counts():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    C = pd.DataFrame([[0, 1, 2], [9, 2, 0], [4, 0, 1]], index=["setosa", "virginica", "versicolor"])
    pipe = make_pipeline(StandardScaler(), LogisticRegression())
    grid = {"logisticregression__C": [1e-4, 1.0]}
    search = GridSearchCV(pipe, grid, scoring=make_decision_scorer(C), cv=3).fit(X, names)
    assert search.best_params_ == {"logisticregression__C": 1.0}
    by_number = C.loc[["setosa", "versicolor", "virginica"]].to_numpy()
    scores = cross_val_score(GaussianNB(), X, y, scoring=make_decision_scorer(by_number), cv=3)
    assert_allclose(
        scores, cross_val_score(GaussianNB(), X, names, scoring=make_decision_scorer(C), cv=3)
    )
    counts = np.eye(3, dtype=int)[y]
    model = GaussianNB().fit(X, y)
    assert make_decision_scorer(by_number)(model, X, counts) == make_decision_scorer(by_number)(
        model, X, y
    )


def test_weights_of_a_search_reach_the_scorer():
    """From scikit-learn 1.7 on, where they are not routed."""
    X, y = load_iris(return_X_y=True)
    scorer, folds = make_decision_scorer(1 - np.eye(3)), KFold(3, shuffle=True, random_state=0)
    w = np.random.default_rng(0).uniform(0.1, 2, 150)
    reach = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 7)
    expected = []
    for train, test in folds.split(X):
        model = GaussianNB().fit(X[train], y[train], sample_weight=w[train])
        given = {"sample_weight": w[test]} if reach else {}
        expected.append(scorer(model, X[test], y[test], **given))
    search = GridSearchCV(GaussianNB(), {}, scoring={"cost": scorer}, refit=False, cv=folds)
    found = search.fit(X, y, sample_weight=w).cv_results_["mean_test_cost"][0]
    assert found == pytest.approx(np.mean(expected), rel=1e-12)


def test_scorer_knows_classes_that_training_never_saw():
    X, y = load_iris(return_X_y=True)
    C = np.array([[0, 1, 2], [4, 0, 1], [9, 2, 0]])
    model = GaussianNB().fit(X[y < 2], y[y < 2])
    z = np.column_stack([model.predict_proba(X), np.zeros(150)])
    expected = decision_risk(y, bayes_decision(z, C), C)
    assert make_decision_scorer(C)(model, X, y) == pytest.approx(-expected)


# --- continuous predictions ---


def test_kernels_find_the_reliability_of_continuous_predictions(C):
    """Known probabilities predicted by their fourth power: what better decisions would save.

    Nothing for themselves.
    """
    rng = np.random.default_rng(0)
    Q = rng.dirichlet(np.ones(3), 1200)
    sharp = Q**4 / (Q**4).sum(axis=1, keepdims=True)
    y = (np.cumsum(Q, axis=1) < rng.random((1200, 1))).sum(axis=1)
    known = KnownProbabilities(Q)
    true = decision_risk(known, bayes_decision(sharp, C), C) - decision_risk(
        known, bayes_decision(Q, C), C
    )
    parts = risk_decomposition(y, sharp, C)
    assert parts.risk == pytest.approx(parts.uncertainty - parts.resolution + parts.reliability)
    assert abs(parts.reliability - true) < 0.35 * true
    assert abs(risk_decomposition(y, Q, C).reliability) < 0.1 * true


def test_narrow_kernels_are_groups_of_equal_predictions(C):
    """But for the row itself, which kernels leave out: with many rows a group the two agree."""
    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.ones(3), 4)[rng.integers(4, size=800)]
    y = rng.integers(3, size=800)
    groups, kernels = risk_decomposition(y, z, C), risk_decomposition(y, z, C, bandwidth=1e-4)
    assert_allclose(kernels, groups, atol=0.02)
    w = (rng.random(800) < 0.7).astype(float)
    weighted = risk_decomposition(y, z, C, bandwidth=1e-4, sample_weight=w)
    assert_allclose(weighted, risk_decomposition(y[w > 0], z[w > 0], C, bandwidth=1e-4), atol=1e-12)
    with pytest.raises(ValueError, match="bandwidth must be"):
        risk_decomposition(y, z, C, bandwidth="wide")


def test_whether_to_act_is_one_of_two_decisions():
    p, y = np.array([0.1, 0.6, 0.03, 0.9]), [0, 1, 1, 0]
    costs = [[0, 1], [20, 0]]
    numbers = decision_risk(y, (p > 1 / 21).astype(int), costs)
    assert decision_risk(y, p > 1 / 21, costs) == numbers
    frame = pd.DataFrame(costs, columns=["wait", "act"])
    assert decision_risk(y, p > 1 / 21, frame) == numbers
    with pytest.raises(ValueError, match="column numbers, got dtype bool"):
        decision_risk(y, p > 1 / 21, [[0, 1, 2], [20, 0, 2]])
