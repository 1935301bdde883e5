"""Reader effects: their optimum, a reader not yet met, what labels tell, and names."""

import itertools

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import expit, logit, logsumexp
from scipy.stats import norm
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate

from sklearn_lhcal.calibration import AlphaCalibration, RaterEffects, TemperatureScaling
from sklearn_lhcal.distributions import Dirichlet, Ensemble
from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import label_log_loss


def tilt(Q, b):
    P = Q * np.exp(b)
    return P / P.sum(axis=-1, keepdims=True)


def drawn(P, rng):
    """One class for each row of probabilities."""
    return (P.cumsum(axis=-1) < rng.random((*P.shape[:-1], 1))).sum(axis=-1)


def study(n, effects, rng, Q=None):
    """Class probabilities, and labels of n rows by readers with these effects, (R, K)."""
    R, K = effects.shape
    Q = rng.dirichlet(np.ones(K), n) if Q is None else Q
    said = drawn(tilt(Q[:, None], effects), rng)
    names = [f"reader {r}" for r in range(R)]
    return Q, Annotations.from_matrix(said, raters=names, classes=np.arange(K))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


# ------------------------------------------------------------------------------------- the optimum


def test_without_a_prior_effects_are_those_of_a_binomial_regression_with_offsets(rng):
    Q, y = study(300, np.array([[0.0, 0.8], [0.0, -0.5], [0.0, 0.1]]), rng)
    model = RaterEffects("proba", effect_std=1e4).fit(Q, y)
    for r, effect in enumerate(model.effects_):
        said = y.label[y.rater == r]
        glm = sm.GLM(said, np.ones(300), family=sm.families.Binomial(), offset=logit(Q[:, 1]))
        # statsmodels stops where the deviance changes by less than 1e-8
        assert_allclose(effect[1] - effect[0], glm.fit().params[0], atol=1e-5)


@pytest.mark.slow
def test_effects_are_the_mode_of_the_posterior_where_class_probabilities_are_uncertain(rng):
    members = rng.dirichlet(np.ones(3), (2, 40))
    weights = rng.dirichlet(np.ones(2), 40).T
    y = Annotations.from_matrix(rng.integers(3, size=(40, 3)), classes=np.arange(3))
    tau = 0.7

    class Known(LogisticRegression):
        def predict_dist(self, X):
            rows = np.asarray(X)[:, 0].astype(int)
            return Ensemble(members[:, rows], weights[:, rows])

    X = np.arange(40.0)[:, None]
    calibrator = RaterEffects(Known(), effect_std=tau, cv=2).fit(X, y)

    def loss(x):
        b = x.reshape(3, 3)
        total = (x**2).sum() / (2 * tau**2)
        for i in range(40):
            own = slice(y.indptr[i], y.indptr[i + 1])
            P = tilt(members[:, i, None], b[y.rater[own]])
            log_p = np.log(P[:, np.arange(3), y.label[own]]).sum(axis=1)
            total -= logsumexp(np.log(weights[:, i]) + log_p)
        return total

    found = minimize(loss, np.zeros(9), method="BFGS", options={"gtol": 1e-6})
    # BFGS ends by differences of a loss of 100 nats
    assert_allclose(calibrator.effects_.ravel(), found.x, atol=1e-4)


def test_the_spread_of_readers_is_found(rng):
    effects = 0.7 * rng.standard_normal((40, 2))
    Q, y = study(100, effects, rng)
    found = RaterEffects("proba").fit(Q, y).effect_std_
    # of the difference of 40 pairs: a relative standard error of 1/√80, and that of their fit
    assert 0.45 < found < 1.0


def test_readers_who_do_not_differ_have_no_effects(rng):
    Q, y = study(300, np.zeros((4, 3)), rng)
    model = RaterEffects("proba").fit(Q, y)
    # of effects of this size, the largest of 12 moves a probability by .05
    assert model.effect_std_ < 0.1
    assert_allclose(model.predict_proba(Q, rater="reader 1"), Q, atol=0.06)


def test_weights_are_repetitions(rng):
    Q, y = study(60, rng.standard_normal((3, 3)), rng)
    rows = np.repeat(np.arange(60), np.arange(60) % 3)
    weighted = RaterEffects("proba", effect_std=0.5)
    weighted.fit(Q, y, sample_weight=np.arange(60) % 3)
    repeated = RaterEffects("proba", effect_std=0.5).fit(Q[rows], y[rows])
    assert_allclose(weighted.effects_, repeated.effects_, atol=1e-5)


@pytest.mark.slow
def test_many_rows_are_fitted_block_by_block(rng):
    """Twice the rows are two blocks of ratings, twice the weight is one."""
    members = rng.dirichlet(np.ones(3), (32, 2000))

    class Known(LogisticRegression):
        def predict_dist(self, X):
            return Ensemble(members[:, np.asarray(X)[:, 0].astype(int)])

    _, y = study(2000, 0.7 * rng.standard_normal((3, 3)), rng)
    X = np.arange(2000.0)[:, None]
    inner = FrozenEstimator(Known().fit(X, np.arange(2000) % 3))
    model = RaterEffects(inner, effect_std=0.5)
    twice = np.repeat(np.arange(2000), 2)
    doubled = clone(model).fit(X[twice], y[twice])
    weighted = clone(model).fit(X, y, sample_weight=np.full(2000, 2.0))
    assert_allclose(doubled.effects_, weighted.effects_, atol=1e-5)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_orders_of_rows_readers_and_classes_make_no_difference(order, rng):
    Q, y = study(80, rng.standard_normal((3, 3)), rng)
    model = RaterEffects("proba", effect_std=0.5).fit(Q, y)
    order = list(order)
    rows = rng.permutation(80)
    names = np.array(["a", "b", "c"])[np.argsort(order)]
    said = y.label.reshape(80, 3)[rows][:, order]
    other = Annotations.from_matrix(names[said], raters=y.raters[order])
    twin = RaterEffects("proba", effect_std=0.5).fit(Q[rows][:, order], other)
    expected = model.predict_proba(Q, rater="reader 2")
    assert_allclose(
        twin.predict_proba(Q[:, order], rater="reader 2"), expected[:, order], atol=1e-6
    )
    expected = model.predict_proba(Q)
    assert_allclose(twin.predict_proba(Q[:, order]), expected[:, order], atol=1e-12)


# ------------------------------------------------------------------------- a reader not yet met


@pytest.fixture(params=[0.2, 1.0, 3.0])
def of_spread(request, rng):
    """A model with two and one with three classes, and its τ."""
    return request.param, {
        K: RaterEffects("proba", effect_std=request.param).fit(*study(10, np.zeros((2, K)), rng))
        for K in (2, 3)
    }


def test_a_new_reader_is_the_mean_over_effects(of_spread):
    tau, models = of_spread
    for q in (1e-6, 0.1, 0.5, 0.93):
        spread = np.sqrt(2) * tau
        exact, _ = quad(
            lambda d, q=q, spread=spread: expit(logit(q) + spread * d) * norm.pdf(d), -9, 9
        )
        found = models[2].predict_proba([[1 - q, q]])[0, 1]
        # the trapezoidal rule of the reference
        assert_allclose(found, exact, rtol=2e-5, atol=1e-6)


def test_a_new_reader_of_three_classes(of_spread, rng):
    tau, models = of_spread
    b = tau * rng.standard_normal((200_000, 3))
    Q = np.array([[0.2, 0.3, 0.5], [0.9, 0.1, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    for q, found in zip(Q, models[3].predict_proba(Q), strict=True):
        P = tilt(q, b)
        error = P.std(axis=0) / np.sqrt(len(b))
        assert (np.abs(found - P.mean(axis=0)) <= 4 * error + 1e-9).all()


def test_labels_of_the_distribution_are_those_of_different_new_readers(rng):
    """Two new readers disagree as often as ``disagreement`` says."""
    Q, y = study(10, np.zeros((2, 2)), rng)
    model = RaterEffects("proba", effect_std=1.0).fit(Q, y)
    q = np.array([0.3, 0.7])
    first, second = (tilt(q, rng.standard_normal((400_000, 2))) for _ in range(2))
    differ = 1 - (first * second).sum(axis=1)
    error = differ.std() / np.sqrt(len(differ))
    assert abs(model.predict_dist(q[None]).disagreement()[0] - differ.mean()) < 4 * error


# --------------------------------------------------------------------------- what has been said


def test_given_labels_count_by_who_gave_them(rng):
    """Bayes' rule over the members, by hand."""
    members = np.array([[[0.9, 0.1]], [[0.2, 0.8]]])

    class Known(LogisticRegression):
        def predict_dist(self, X):
            return Ensemble(np.repeat(members, len(X), axis=1))

    _, y = study(30, np.array([[0.0, 2.0], [0.0, 0.0], [0.0, -2.0]]), rng)
    model = RaterEffects(Known(), effect_std=1.0, cv=2).fit(np.zeros((30, 1)), y)
    b = model.effects_
    new = model.predict_dist(np.zeros((1, 1))).proba[:, 0]
    spoke = Annotations.from_long(
        [0, 0], ["reader 0", "a stranger"], [1, 0], classes=np.array([0, 1])
    )
    likelihood = tilt(members[:, 0], b[0])[:, 1] * new[:, 0]
    w = likelihood / likelihood.sum()
    X = np.zeros((1, 1))
    found = model.predict_proba(X, rater="reader 2", given=spoke)
    assert_allclose(found[0], w @ tilt(members[:, 0], b[2]), atol=1e-10)
    assert_allclose(model.predict_proba(X, given=spoke)[0], w @ new, atol=1e-10)
    # counts: two strangers
    likelihood = new[:, 0] * new[:, 1]
    w = likelihood / likelihood.sum()
    assert_allclose(model.predict_proba(X, given=[[1, 1]])[0], w @ new, atol=1e-10)


@pytest.mark.filterwarnings("ignore:.*so α0 is infinite:UserWarning")
def test_rows_without_given_labels_stay_as_they_were(rng):
    Q, y = study(50, rng.standard_normal((3, 2)), rng)
    model = RaterEffects(AlphaCalibration("proba"), effect_std=0.5).fit(Q, y)
    given = np.zeros((50, 2), dtype=int)
    given[::2, 1] = 2
    found = model.predict_proba(Q, given=given)
    before = model.predict_proba(Q)
    assert_allclose(found[1::2], before[1::2], atol=1e-12)
    # a class of nearly no probability has nodes alike
    assert (found[::2, 1] >= before[::2, 1]).all()
    assert (found[::2, 1] > before[::2, 1]).mean() > 0.9
    assert_array_equal(model.predict_proba(Q, given=np.zeros((50, 2), int)), before)


@pytest.mark.slow
def test_knowing_who_is_asked_and_what_others_said_helps_on_held_out_rows(rng):
    n, R, K = 400, 6, 3
    X = rng.standard_normal((n, K))
    u = 2 * X + rng.standard_normal((n, K))
    Q = np.exp(u) / np.exp(u).sum(axis=1, keepdims=True)
    _, y = study(n, 0.8 * rng.standard_normal((R, K)), rng, Q)
    train, test = np.arange(250), np.arange(250, n)
    model = RaterEffects(AlphaCalibration(TemperatureScaling())).fit(X[train], y[train])
    losses = {"blind": [], "asked": [], "given": []}
    for rater, rest in y[test].leave_one_rater_out():
        own = y[test].label[y.raters[y[test].rater] == rater]
        for name, z in (
            ("blind", model.predict_proba(X[test])),
            ("asked", model.predict_proba(X[test], rater=rater)),
            ("given", model.predict_proba(X[test], rater=rater, given=rest)),
        ):
            losses[name].append(-np.log(z[np.arange(len(test)), own]))
    rows = {name: np.mean(loss, axis=0) for name, loss in losses.items()}
    for better, worse in (("asked", "blind"), ("given", "asked")):
        gain = rows[worse] - rows[better]
        assert gain.mean() > 3 * gain.std() / np.sqrt(len(gain)), (better, worse)


# ------------------------------------------------------------------- a calibrator like others


@pytest.mark.filterwarnings("ignore:.*so α0 is infinite:UserWarning")
@pytest.mark.parametrize(
    "inner",
    [
        LogisticRegression(),
        RandomForestClassifier(5, min_samples_leaf=20, random_state=0),
        AlphaCalibration(LogisticRegression()),
        TemperatureScaling(LogisticRegression()),
    ],
)
def test_probabilities_are_the_mean_of_the_distribution(inner, rng):
    Q, y = study(200, rng.standard_normal((4, 3)), rng)
    X = np.log(Q)
    model = RaterEffects(inner, effect_std=0.8, cv=2).fit(X, y)
    for options in ({}, {"rater": "reader 3"}, {"rater": y.raters[np.arange(200) % 4]}):
        found = model.predict_proba(X, **options)
        assert_allclose(found, model.predict_dist(X, **options).mean(), atol=1e-12)
        assert_allclose(found.sum(axis=1), 1, atol=1e-12)
        # a row does not depend on the others
        if "rater" not in options:
            assert_allclose(model.predict_proba(X[:7]), found[:7], atol=1e-12)


def test_a_chain_around_a_dirichlet_keeps_what_it_does_not_know(rng):
    """Small effects leave the distribution nearly as it was, to the accuracy of its nodes."""
    Q, y = study(100, np.zeros((4, 2)), rng)
    inner = AlphaCalibration("proba").fit(Q, y)
    model = RaterEffects(AlphaCalibration("proba"), effect_std=1e-3).fit(Q, y)
    before, after = inner.predict_dist(Q), model.predict_dist(Q)
    assert isinstance(before, Dirichlet)
    assert_allclose(after.mean(), before.mean(), atol=1e-5)
    assert_allclose(after.disagreement(), before.disagreement(), atol=0.02)


@pytest.mark.parametrize("y", ["counts", "labels", "single"])
def test_without_raters_effects_are_0_with_a_warning(y, rng):
    Q, annotations = study(50, np.zeros((3, 2)), rng)
    given = {
        "counts": annotations.counts,
        "labels": annotations.label[::3],
        "single": Annotations.from_counts(annotations.counts),
    }[y]
    with pytest.warns(UserWarning, match=r"All effects of readers are 0\.$"):
        model = RaterEffects("proba").fit(Q, given)
    assert model.effects_.shape == (0, 2)
    assert model.raters_.shape == (0,)
    assert_allclose(model.predict_proba(Q), Q, rtol=1e-12)
    with pytest.raises(ValueError, match="gave no labels at fit"):
        model.predict_proba(Q, rater="reader 0")


def test_raters_arrive_through_searches(rng):
    """Warnings are errors: a fold without raters would not pass."""
    Q, y = study(90, rng.standard_normal((3, 2)), rng)
    X = np.log(Q)
    search = GridSearchCV(
        RaterEffects(cv=2), {"effect_std": [0.1, 1.0]}, scoring="neg_label_log_loss", cv=2
    ).fit(X, y)
    assert search.best_estimator_.raters_.tolist() == y.raters.tolist()
    scores = cross_validate(RaterEffects(cv=2), X, y, cv=3, scoring="neg_label_log_loss")
    assert np.isfinite(scores["test_score"]).all()
    assert label_log_loss(y, search.predict_proba(X)) > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rater": "nobody"}, r"rater: \['nobody'\] gave no labels at fit"),
        ({"rater": ["reader 0"] * 3}, "rater has 3 samples, expected 50"),
        ({"given": [[1, 0]]}, "given has 1 samples, expected 50"),
    ],
)
def test_errors_of_predictions(options, message, rng):
    Q, y = study(50, np.zeros((3, 2)), rng)
    model = RaterEffects("proba", effect_std=0.5).fit(Q, y)
    with pytest.raises(ValueError, match=message):
        model.predict_proba(Q, **options)


def test_errors_of_parameters(rng):
    with pytest.raises(ValueError, match="effect_std must be a finite number of at least 0"):
        RaterEffects("proba", effect_std=-1.0).fit(*study(50, np.zeros((3, 2)), rng))
