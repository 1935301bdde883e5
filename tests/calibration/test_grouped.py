"""Calibration of groups: effects at the minimum, invariances, forms of groups, and what is gained.

The designs of the simulations were written down before any result was seen.
"""

import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from scipy.special import expit, log_softmax, softmax
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sklearn_lhcal.calibration import (
    AlphaCalibration,
    GroupedCalibration,
    PrecomputedClassifier,
    StackedCalibration,
    TemperatureScaling,
)
from sklearn_lhcal.distributions import Ensemble
from sklearn_lhcal.label_histogram import Annotations, KnownProbabilities
from sklearn_lhcal.metrics import label_log_loss, subgroup_audit

SITES = np.array(["north", "south", "west"])
SAVED = PrecomputedClassifier("proba", columns=["p0", "p1", "p2"])


def outputs(n=400, n_raters=1, seed=0, effect=0.7):
    """Saved outputs of three classes beside site and sex, label counts, and what is true."""
    rng = np.random.default_rng(seed)
    u = 1.5 * rng.normal(size=(n, 3))
    site, sex = rng.choice(3, n, p=[0.5, 0.3, 0.2]), rng.integers(2, size=n)
    bias = effect * np.random.default_rng(7).normal(size=(3, 3))
    Q = softmax(u * np.array([1, 0.6, 1.3])[site, None] + bias[site], axis=1)
    X = pd.DataFrame(softmax(u, axis=1), columns=["p0", "p1", "p2"])
    X["site"], X["sex"] = SITES[site], np.array(["f", "m"])[sex]
    return X, rng.multinomial(n_raters, Q), Q


def grouped(by, inside=SAVED):
    return GroupedCalibration(TemperatureScaling(inside), by=by)


@pytest.fixture(scope="module")
def data():
    return outputs()


@pytest.fixture(scope="module")
def fitted(data):
    return grouped(["site", "sex"]).fit(*data[:2])


# --- the minimum, by an outside search ---


def design(X, columns, u):
    """∂u'/∂x as a dense array (n, K, q(K+1)), column by column."""
    K = u.shape[1]
    parts = []
    for column in columns:
        for group in np.unique(X[column]):
            here = (X[column] == group).to_numpy()[:, None]
            parts.append(u * here)
            parts += [np.eye(K)[k] * here for k in range(K)]
    return np.stack(parts, axis=2)


@pytest.mark.parametrize("n_raters", [1, 4])
def test_effects_are_at_the_minimum_and_the_largest_evidence(n_raters):
    X, counts, _ = outputs(n_raters=n_raters)
    model = grouped(["site", "sex"]).fit(X, counts)
    z = model.estimator_.predict_proba(X)
    mu = counts / n_raters
    worth = (1 - (z**2).sum(axis=1)).sum() / ((mu - z) ** 2).sum()
    u = np.log(z)
    G = design(X, ["site", "sex"], u)
    y = mu * np.clip(worth, 1, n_raters)
    K, q = 3, 5
    of = np.repeat([0, 0, 0, 1, 1], K + 1) * 2 + np.tile(np.arange(K + 1) > 0, q)
    v = model.spread_.ravel()[of] ** 2

    def J(x):
        return -(y * log_softmax(u + G @ x, axis=1)).sum() + (x**2 / v).sum() / 2

    best = minimize(J, np.zeros(len(v)), method="BFGS", options={"gtol": 1e-4}).x
    table = model.effects_.columns
    x = np.column_stack([table["slope"] - 1, table["bias"]])
    assert_allclose(x.ravel(), best, atol=2e-4)
    # the evidence, where a variance is inside its range
    p = softmax(u + G @ best, axis=1)
    C = (p[:, :, None] * np.eye(K) - p[:, :, None] * p[:, None]) * y.sum(axis=1)[:, None, None]
    S = np.linalg.inv(np.einsum("nkx,nkl,nly->xy", G, C, G) + np.diag(1 / v))
    known = np.bincount(of, 1 - S.diagonal() / v)
    assert (model.spread_ > 0.002).sum() >= 2
    for j in np.flatnonzero(model.spread_.ravel() > 0.002):
        assert_allclose(
            np.bincount(of, best**2)[j] / known[j], model.spread_.ravel()[j] ** 2, rtol=0.02
        )
    # standard errors are those of x, biases with mean 0
    centre = np.eye(K) - 1 / K
    here = S.reshape(q, K + 1, q, K + 1)[0, :, 0]
    expected = np.append(here[0, 0], (centre @ here[1:, 1:] @ centre).diagonal()) ** 0.5
    shown = np.append(table["slope_standard_error"][0], table["bias_standard_error"][0])
    assert_allclose(shown, expected, rtol=0.01)
    assert_allclose(table["bias"].sum(axis=1), 0, atol=1e-8)


def test_the_prediction_is_that_of_the_table(data, fitted):
    X, _, _ = data
    frame = fitted.effects_.to_frame()
    u = np.log(fitted.estimator_.predict_proba(X[:20]))
    for i, (site, sex) in enumerate(zip(X.site[:20], X.sex[:20], strict=True)):
        each = [frame.loc[f"site={site}"], frame.loc[f"sex={sex}"]]
        slope = 1 + sum(of.slope.to_numpy()[0] - 1 for of in each)
        z = softmax(u[i] * slope + sum(of.bias.to_numpy() for of in each))
        assert_allclose(fitted.predict_proba(X[i : i + 1])[0], z, rtol=1e-9)


def test_effects_are_a_table(data, fitted):
    X, _, _ = data
    effects = fitted.effects_
    names = [*(f"site={one}" for one in SITES), "sex=f", "sex=m"]
    assert effects.subgroups == names
    sizes = effects.to_frame().xs("p0", level="class").n_samples
    assert sizes.to_dict() == {
        f"{column}={value}": size
        for column in ("site", "sex")
        for value, size in X[column].value_counts().items()
    }
    assert "site=north" in str(effects)
    audit = subgroup_audit(data[1], X[["p0", "p1", "p2"]], X[["site", "sex"]], n_draws=20)
    assert set(audit.subgroups) == set(names)


def test_effects_need_no_pandas(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert fitted.effects_.columns["bias"].shape == (5, 3)
    assert str(fitted.effects_) == repr(fitted.effects_)
    with pytest.raises(ImportError, match="pandas"):
        fitted.effects_.to_frame()


@pytest.mark.slow
def test_effects_are_covered_by_their_errors():
    """True effects of 40 sites, in standard errors of the posterior: mean square 1 by 4 errors."""
    squares = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        u, site = rng.normal(size=(8000, 2)) * 1.5, rng.integers(40, size=8000)
        a, b = 0.3 * rng.normal(size=40), 0.5 * rng.normal(size=(40, 2))
        Q = softmax(u * (1 + a[site, None]) + b[site], axis=1)
        X = np.column_stack([softmax(u, axis=1), site])
        saved = FrozenEstimator(PrecomputedClassifier("proba", columns=[0, 1]).fit(X))
        model = GroupedCalibration(saved, by=[2]).fit(X, rng.multinomial(1, Q))
        order = [f"column 2={i}" for i in range(40)]
        table = model.effects_.to_frame().xs(1, level="class").loc[order]
        squares.append(((table.slope - 1 - a) / table.slope_standard_error) ** 2)
        bias = b[:, 1] - b.mean(axis=1)
        squares.append(((table.bias - bias) / table.bias_standard_error) ** 2)
        assert_allclose(model.spread_[0], [0.3, 0.5], rtol=0.4)
    squares = np.ravel(squares)
    assert abs(squares.mean() - 1) < 4 * squares.std() / np.sqrt(len(squares))


# --- invariances ---


def test_nothing_depends_on_the_order_of_samples_or_factors(data, fitted):
    X, counts, _ = data
    p = fitted.predict_proba(X)
    order = np.random.default_rng(0).permutation(len(X))
    shuffled = X.iloc[order].reset_index(drop=True)
    other = grouped(["sex", "site"]).fit(shuffled, counts[order])
    assert_allclose(other.predict_proba(X), p, atol=2e-6)
    assert_allclose(other.spread_[::-1], fitted.spread_, rtol=1e-3, atol=1e-4)


def test_names_of_groups_say_nothing(data, fitted):
    X, counts, _ = data
    renamed = X.assign(site=X.site.map({"north": 7, "south": 1, "west": 4}))
    other = grouped(["site", "sex"]).fit(renamed, counts)
    assert_allclose(other.predict_proba(renamed), fitted.predict_proba(X), atol=2e-6)


def test_names_of_classes_say_nothing(data, fitted):
    X, counts, _ = data
    names = ["p2", "p0", "p1"]
    swapped = X.rename(columns=dict(zip(["p0", "p1", "p2"], names, strict=True)))
    inside = PrecomputedClassifier("proba", columns=names)
    other = grouped(["site", "sex"], inside).fit(swapped, pd.DataFrame(counts, columns=names))
    assert other.classes_.tolist() == ["p0", "p1", "p2"]
    p = other.predict_proba(swapped)[:, [2, 0, 1]]
    assert_allclose(p, fitted.predict_proba(X), atol=2e-6)


def test_a_weight_of_two_is_a_sample_twice(data):
    X, counts, _ = data
    weight = 1 + np.arange(len(X)) % 3 % 2
    twice = np.repeat(np.arange(len(X)), weight)
    one = grouped(["site"]).fit(X, counts, sample_weight=weight)
    other = grouped(["site"]).fit(X.iloc[twice].reset_index(drop=True), counts[twice])
    assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=2e-6)


def test_a_weight_of_zero_leaves_the_group_unknown(data):
    X, counts, _ = data
    west = (X.site == "west").to_numpy()
    model = grouped(["site"]).fit(X, counts, sample_weight=1.0 * ~west)
    assert model.effects_.subgroups == ["site=north", "site=south"]
    part = X[~west].reset_index(drop=True)
    other = grouped(["site"]).fit(part, counts[~west])
    assert_allclose(model.predict_proba(X), other.predict_proba(X), atol=2e-6)


def test_batches_and_columns_of_a_prediction(data, fitted):
    X, _, _ = data
    p = fitted.predict_proba(X)
    assert_allclose(
        np.concatenate([fitted.predict_proba(X[i:][:37]) for i in range(0, 400, 37)]), p
    )
    assert_array_equal(fitted.predict_proba(X[X.columns[::-1]]), p)


# --- groups ---


def test_a_group_that_was_not_met_has_the_common_calibrator(data, fitted):
    X = data[0]
    new = X.assign(site="east", sex=None)
    common = fitted.estimator_.predict_proba(new)
    assert_allclose(fitted.predict_proba(new), common, rtol=1e-12)
    # of one factor, the other acts
    by_site = fitted.predict_proba(X.assign(sex=None))
    assert np.abs(by_site - common).max() > 0.05


def test_missing_values_are_a_group(data):
    X, counts, _ = data
    gaps = X.assign(site=X.site.where(X.site != "west", None), number=np.nan)
    model = grouped(["site"]).fit(gaps, counts)
    assert model.effects_.subgroups == ["site missing", "site=north", "site=south"]
    named = grouped(["site"]).fit(X, counts)
    assert_allclose(model.predict_proba(gaps), named.predict_proba(X), atol=2e-6)


def test_a_number_is_the_same_group_beside_gaps(data):
    """pandas makes floats of integers where some are missing."""
    X, counts, _ = data
    coded = X.assign(site=X.site.map({"north": 1, "south": 2, "west": 3}))
    model = grouped(["site"]).fit(coded, counts)
    assert model.effects_.subgroups == ["site=1", "site=2", "site=3"]
    gaps = coded.assign(site=coded.site.astype(float))
    assert_array_equal(model.predict_proba(gaps), model.predict_proba(coded))


def test_a_tuple_is_a_factor_of_combinations(data):
    X, counts, _ = data
    pairs = X.assign(both=X.site + "/" + X.sex)
    one = grouped(["site", ("site", "sex")]).fit(X, counts)
    other = grouped(["site", "both"]).fit(pairs, counts)
    assert one.effects_.subgroups[3] == "site=north & sex=f"
    assert len(one.effects_.subgroups) == 9
    assert_allclose(one.predict_proba(X), other.predict_proba(pairs), atol=1e-9)


def test_forms_of_groups(data, fitted):
    """Names, positions, functions; frames, dicts and arrays."""
    X, counts, _ = data
    p = fitted.predict_proba(X)
    codes = np.column_stack(
        [X[["p0", "p1", "p2"]], X.site == "west", X.site == "south", X.sex == "m"]
    )
    site = 2 * codes[:, 3] + codes[:, 4]
    array = np.column_stack([codes[:, :3], site, codes[:, 5]])
    positions = PrecomputedClassifier("proba", columns=[0, 1, 2])
    cases = [
        (["site", -1], X, SAVED),
        ([3, 4], X, SAVED),
        (("site", "sex"), pl.from_pandas(X), SAVED),
        (lambda X: X[["site", "sex"]], X, SAVED),
        (lambda X: {"a": X.site.tolist(), "b": X.sex}, X, SAVED),
        ([3, 4], array, positions),
        (lambda X: X[:, 3:].astype(int), array, positions),
        ([3, -1], array.tolist(), positions),
    ]
    for by, form, inside in cases:
        model = grouped(by, inside).fit(form, counts)
        assert_allclose(model.predict_proba(form), p, atol=2e-6)
    one, other = (grouped(by).fit(X, counts) for by in ("site", lambda X: X.site))
    assert other.effects_.subgroups == [f"site={site}" for site in SITES]
    assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-12)


def test_a_group_of_one_sample(data):
    X, counts, _ = data
    alone = X.assign(site=np.where(np.arange(len(X)) == 5, "alone", X.site))
    model = grouped(["site"]).fit(alone, counts)
    table = model.effects_.to_frame().xs("p0", level="class")
    assert table.n_samples["site=alone"] == 1
    assert abs(table.bias["site=alone"]) < 2 * model.spread_[0, 1]
    assert np.isfinite(model.predict_proba(alone)).all()


@pytest.mark.parametrize(
    ("by", "words"),
    [
        (["ward"], r"by asks for the column 'ward', but X has \['p0', 'p1', 'p2', 'site', 'sex'\]"),
        ([5], "by asks for the column 5"),
        ([("site", "ward")], "the column 'ward'"),
        ([["site", "sex"]], "by asks for the column"),
        (["p0"], r"by='p0' holds fractions, not groups; bin them"),
        (lambda X: X.site[:-1], r"by\(X\) has 399 samples, expected 400"),
        (lambda X: np.zeros((400, 2, 2)), r"by\(X\) must have one or two axes"),
        ([], "by names no column"),
        ("ward", "by asks for the column 'ward'"),
        (0, "by must be a list or a function"),
        (None, "by must be a list or a function"),
    ],
)
def test_wrong_groups_are_refused_before_anything_is_computed(data, by, words):
    X, counts, _ = data

    class Untouched(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            raise AssertionError

    with pytest.raises((ValueError, TypeError), match=words):
        GroupedCalibration(Untouched(), by=by).fit(X, counts)


def test_groups_that_a_prediction_lacks(data, fitted):
    with pytest.raises(ValueError, match="by asks for the column 'site'"):
        fitted.predict_proba(data[0].drop(columns="site"))


def test_arrays_and_sparse_matrices_have_no_names(data):
    X = csr_matrix(np.eye(6))
    with pytest.raises(ValueError, match="pass one of these, or a function of X"):
        GroupedCalibration(LogisticRegression(), by=[0]).fit(X, [0, 1, 0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"the column 'a', but X has \['column 0', 'column 1'\]"):
        GroupedCalibration(LogisticRegression(), by=["a"]).fit(np.eye(2), [0, 1])


def test_many_groups(data):
    X, counts, _ = data
    some = X[:60].assign(id=np.arange(60))
    with pytest.warns(UserWarning, match=r"by makes 60 group\(s\) of 60 samples, such as 'id=0'"):
        grouped(["id"]).fit(some, counts[:60])
    many = pd.concat([X] * 3, ignore_index=True)
    many["id"] = np.arange(1200) // 2
    with pytest.raises(ValueError, match=r"\[600\] groups, with 2400 effects.* more than 2000"):
        grouped(["id"]).fit(many, np.tile(counts, (3, 1)))


def test_one_group_says_nothing(data):
    X, counts, _ = data
    with pytest.warns(UserWarning, match=r"by makes 1 group\(s\).* a single group teaches nothing"):
        model = grouped(["site"]).fit(X.assign(site="here"), counts)
    assert np.isfinite(model.predict_proba(X)).all()


# --- labels, classifiers, and what is around them ---


def test_known_probabilities_are_met():
    """A model that is wrong by group alone, in the family: the truth follows."""
    X, _, Q = outputs(effect=1.0)
    inside = FrozenEstimator(SAVED.fit(X))
    model = GroupedCalibration(inside, by=["site"]).fit(X, KnownProbabilities(Q))
    assert np.abs(model.predict_proba(X) - Q).max() < 0.01
    calibrated = X.assign(**dict(zip(["p0", "p1", "p2"], Q.T, strict=True)))
    same = GroupedCalibration(inside, by=["site"]).fit(calibrated, KnownProbabilities(Q))
    assert_allclose(same.predict_proba(calibrated), Q, atol=1e-6)


def test_forms_of_labels(data):
    X, counts, _ = data
    labels = counts.argmax(axis=1)
    p = grouped(["site"]).fit(X, counts).predict_proba(X)
    names = np.array(["p0", "p1", "p2"])
    forms = [pd.DataFrame(counts, columns=names), names[labels]]
    forms.append(Annotations.from_matrix(names[labels][:, None]))
    for y in forms:
        assert_allclose(grouped(["site"]).fit(X, y).predict_proba(X), p, atol=1e-9)


def test_a_class_that_a_group_never_has(data):
    X, counts, _ = data
    west = (X.site == "west").to_numpy()
    fewer = counts.copy()
    fewer[west & (counts[:, 2] > 0)] = [1, 0, 0]
    model = grouped(["site"]).fit(X, fewer)
    p = model.predict_proba(X[west])[:, 2]
    assert (p > 0).all()
    assert p.mean() < 0.05


def test_the_mean_of_the_distribution_is_the_prediction(data):
    """Around an ensemble; a label tells its members apart as before."""
    X, counts, _ = data
    rng = np.random.default_rng(0)
    features = np.column_stack([X[["p0", "p1", "p2"]], rng.normal(size=400), X.site == "west"])
    forest = RandomForestClassifier(10, min_samples_leaf=5, random_state=0)
    model = GroupedCalibration(StackedCalibration(forest), by=[4]).fit(features, counts)
    dist, inside = (one.predict_dist(features) for one in (model, model.estimator_))
    p = model.predict_proba(features)
    assert_allclose(dist.mean(), p, rtol=0, atol=1e-12)
    assert_allclose(np.exp(model.predict_log_proba(features)), p, atol=1e-12)
    assert len(dist.member_means()) == 10
    joints = [one.weights[..., None] * one.member_means() / one.mean() for one in (dist, inside)]
    assert_allclose(*joints, atol=1e-9)


def test_members_that_were_saved(data):
    X, counts, _ = data
    z = X[["p0", "p1", "p2"]].to_numpy()
    members = Ensemble(np.stack([z, z[:, ::-1] * 0.2 + 0.8 * z]))
    sites = X.site.to_numpy()
    model = GroupedCalibration("proba", by=lambda members: sites).fit(members, counts)
    assert len(model.predict_dist(members).member_means()) == 2


def test_searches_pipelines_and_calibrators_around():
    X, counts, _ = outputs(800, effect=1.5)
    labels = counts.argmax(axis=1)
    kinds = make_column_transformer((OneHotEncoder(), ["sex"]), (StandardScaler(), ["p0", "p1"]))
    classifier = make_pipeline(kinds, LogisticRegression())
    model = GroupedCalibration(TemperatureScaling(classifier), by=["site"])
    grid = {
        "by": [["sex"], ["site"], ["site", "sex"]],
        "estimator": [TemperatureScaling(classifier)],
    }
    search = GridSearchCV(model, grid, scoring="neg_log_loss", cv=3).fit(X, labels)
    assert "site" in search.best_params_["by"]
    scores = cross_validate(model, X, labels, scoring="neg_log_loss", cv=3)["test_score"]
    plain = cross_validate(model.estimator, X, labels, scoring="neg_log_loss", cv=3)["test_score"]
    assert scores.mean() > plain.mean()
    assert cross_val_predict(model, X, labels, cv=3, method="predict_proba").shape == (800, 3)
    around = AlphaCalibration(clone(model)).fit(X, counts * 2)
    p = around.estimator_.predict_proba(X)
    assert_allclose(around.predict_proba(X), p, atol=1e-12)
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert_array_equal(again.predict_proba(X), search.predict_proba(X))


def test_the_default_is_the_stack(data):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(200, 2)), np.arange(200) % 2])
    y = rng.random(200) < expit(X[:, 0] * (1 + X[:, 2]))
    model = GroupedCalibration(by=[2]).fit(X, y)
    assert isinstance(model.estimator_, StackedCalibration)
    assert_allclose(
        model.estimator_.predict_proba(X), StackedCalibration().fit(X, y).predict_proba(X)
    )


def test_a_failed_fit_changes_nothing(data, fitted):
    X, counts, _ = data
    model = clone(fitted).fit(X, counts)
    p = model.predict_proba(X)
    with pytest.raises(ValueError, match="ward"):
        model.set_params(by=["ward"]).fit(X, counts)
    assert_array_equal(model.set_params(by=["site", "sex"]).predict_proba(X), p)


# --- what is gained ---


def segments(seed, n):
    """24 segments, of six values of one column and four of another: slopes exp(N(0, 0.5²)) by the
    first, biases N(0, 0.5²) by both; logits N(0, 2²), one label."""
    rng = np.random.default_rng([seed, 24])
    s, b, c = np.exp(0.5 * rng.normal(size=6)), 0.5 * rng.normal(size=6), 0.5 * rng.normal(size=4)

    def draw(n):
        u, g, h = 2 * rng.normal(size=n), rng.integers(6, size=n), rng.integers(4, size=n)
        q = expit(u * s[g] + b[g] + c[h])
        label = rng.random(n) < q
        z = softmax(np.column_stack([0 * u, u]), axis=1)
        return (
            np.column_stack([z, g, h]),
            np.column_stack([1 - q, q]),
            np.eye(2, dtype=int)[label * 1],
        )

    return draw(n), draw(3000)


def sites(effect):
    """12 sites of shares 1:2:…:12 and two sexes, four classes, three raters; logits N(0, 2²),
    slopes 1 + effect/2 N(0, 1) and biases effect N(0, 1) by site, effect/3 N(0, 1) by sex."""

    def design(seed, n):
        rng = np.random.default_rng([seed, 12])
        s, b = 1 + effect / 2 * rng.normal(size=12), effect * rng.normal(size=(12, 4))
        c = effect / 3 * rng.normal(size=(2, 4))

        def draw(n):
            u, g = 2 * rng.normal(size=(n, 4)), rng.choice(12, n, p=np.arange(1, 13) / 78)
            h = rng.integers(2, size=n)
            Q = softmax(u * s[g, None] + b[g] + c[h], axis=1)
            counts = rng.multinomial(3, Q)
            return np.column_stack([softmax(u, axis=1), g, h]), Q, counts

        return draw(n), draw(5000)

    return design


def losses(design, n, seeds):
    """Log losses of the stack, of groups around it, and of the truth, a row for each seed."""
    found = []
    for seed in range(seeds):
        (X, Q, counts), (X_test, Q_test, _) = design(seed, n)
        K = Q.shape[1]
        saved = PrecomputedClassifier("proba", columns=list(range(K)))
        model = GroupedCalibration(StackedCalibration(saved), by=[K, K + 1]).fit(X, counts)
        truth = KnownProbabilities(Q_test)
        predicted = [one.predict_proba(X_test) for one in (model.estimator_, model)]
        found.append([label_log_loss(truth, p) for p in (*predicted, Q_test)])
    return np.array(found).T


@pytest.mark.slow
@pytest.mark.parametrize(("n", "seeds"), [(300, 40), (3000, 10)])
def test_where_groups_do_not_differ_next_to_nothing_is_lost(n, seeds):
    stack, model, _ = losses(sites(0), n, seeds)
    assert (model - stack).mean() <= 0.001


@pytest.mark.slow
@pytest.mark.parametrize(("n", "share"), [(300, 0.8), (3000, 0.9)])
def test_sites_that_differ(n, share):
    """The share of the loss of the stack over the truth that groups take away."""
    stack, model, truth = losses(sites(1), n, 10)
    assert (stack - model).mean() > share * (stack - truth).mean()


@pytest.mark.slow
def test_segments():
    """At 3,000 samples all but 0.005 nats of what the stack loses, 0.034 or more, are gained."""
    stack, model, truth = losses(segments, 3000, 10)
    assert (stack - truth).mean() > 0.034
    assert (model - truth).mean() <= 0.005
