"""α-calibration where features do not pay, where no spread is left, and around wrong means."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from scipy.special import poch, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

from sklearn_lhcal.calibration import AlphaCalibration, PrecomputedClassifier, TemperatureScaling
from sklearn_lhcal.distributions import DirichletMixture, Ensemble
from sklearn_lhcal.label_histogram import KnownProbabilities, pairwise_disagreement
from sklearn_lhcal.metrics import disagreement_squared_loss, histogram_log_loss

LIKELIHOODS = ["pairwise", "dirichlet_multinomial"]
SHARPER = "Raters of the calibration samples disagree more often"


def exact(n, m=4, seed=0, K=3):
    """Predictions, and m labels drawn from them: no spread, α0 = ∞."""
    rng = np.random.default_rng(seed)
    z = rng.dirichlet(np.full(K, 2.0), size=n)
    return z, rng.multinomial(m, z)


def spread(n, total, m=4, seed=0):
    """Predictions and labels of Q ~ Dirichlet(total z), total one for all samples or (n,)."""
    rng = np.random.default_rng(seed)
    z = rng.dirichlet(np.full(3, 2.0), size=n)
    gamma = rng.standard_gamma(np.broadcast_to(total, n)[:, None] * z) + 1e-300
    return z, rng.multinomial(m, gamma / gamma.sum(axis=1, keepdims=True))


def sharpened(z, power):
    return softmax(power * np.log(z), axis=1)


def beside(z, h):
    """Saved probabilities with features beside them, and the estimator that reads them."""
    columns = list(range(z.shape[1]))
    model = AlphaCalibration(
        PrecomputedClassifier("proba", columns=columns), features=lambda X: X[:, len(columns) :]
    )
    return np.hstack([z, h]), model


class Saved(ClassifierMixin, BaseEstimator):
    """Members (S, n, K) that were saved; X holds numbers of rows."""

    def __init__(self, members=None):
        self.members = members

    def fit(self, X, y=None):
        self.classes_ = np.arange(self.members.shape[2])
        return self

    def predict_dist(self, X):
        return Ensemble(self.members[:, X[:, 0]]).with_classes(self.classes_)

    def predict_proba(self, X):
        return self.predict_dist(X).mean()


def saved(members):
    return FrozenEstimator(Saved(members).fit(None))


# ----------------------------------------------------------------------------- wrong means


def test_means_that_are_too_sure_are_a_warning_that_names_the_remedy():
    z, counts = exact(2000)
    sharp = sharpened(z, 3.0)
    with pytest.warns(UserWarning, match=r"AlphaCalibration\(TemperatureScaling\(…\)\)") as caught:
        AlphaCalibration("proba").fit(sharp, counts)
    observed = pairwise_disagreement(counts).mean()
    allowed = (1 - (sharp**2).sum(axis=1)).mean()
    said = f"with probability {observed:.3f} where these leave {allowed:.3f} at most"
    assert said in str(caught[0].message)


def test_the_remedy_works():
    """No warning (it would be an error here), and the disagreement is predicted."""
    z, counts = spread(4000, 5.0)
    sharp = sharpened(z, 4.0)
    fit, test = slice(0, 2000), slice(2000, None)
    with pytest.warns(UserWarning, match=SHARPER):
        raw = AlphaCalibration("proba").fit(sharp[fit], counts[fit])
    chain = AlphaCalibration(TemperatureScaling("proba")).fit(sharp[fit], counts[fit])
    losses = [
        disagreement_squared_loss(counts[test], m.predict_dist(sharp[test])) for m in (raw, chain)
    ]
    assert losses[1] < losses[0] - 0.02


def test_raters_who_always_oppose_each_other_are_said():
    """P1, App. D.6: calibrated means, and correlated raters."""
    z = 0.5 + np.random.default_rng(0).normal(0, 0.03, size=(400, 1)) * [1, -1]
    with pytest.warns(UserWarning, match=r"1\.000 where these leave 0\.498 .* two opposed readers"):
        AlphaCalibration("proba").fit(z, np.ones((400, 2), dtype=int))


def test_means_may_be_too_sure_in_some_rows_only():
    """On average they allow more disagreement than there is: other rows are not sure enough."""
    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.full(3, 0.7), size=2000)
    counts = rng.multinomial(4, z)
    sharp = np.concatenate([sharpened(z[:700], 4.0), sharpened(z[700:], 0.0)])
    assert (1 - (sharp**2).sum(axis=1)).mean() > pairwise_disagreement(counts).mean()
    with pytest.warns(UserWarning, match=SHARPER):
        AlphaCalibration("proba").fit(sharp, counts)


@pytest.mark.filterwarnings("ignore:.*so α0 is infinite:UserWarning")
@pytest.mark.parametrize("m", [2, 20])
def test_calibrated_means_are_no_warning(m):
    """Observed disagreement is at most that of calibrated means; warnings are errors here."""
    for seed in range(12):
        AlphaCalibration("proba").fit(*exact(300, m, seed))
        AlphaCalibration("proba").fit(*spread(300, 20.0, m, seed))


@pytest.mark.filterwarnings("ignore:.*so α0 is infinite:UserWarning")
def test_an_ensemble_is_judged_by_its_members():
    """Sharp members may disagree with each other: the ensemble's mean is not what counts."""
    rng = np.random.default_rng(0)
    z, counts = exact(400)
    members = np.stack([sharpened(z, 4.0), sharpened(z[:, ::-1], 4.0)])
    rows = np.arange(400)[:, None]
    with pytest.warns(UserWarning, match=SHARPER):
        AlphaCalibration(saved(members)).fit(rows, counts)
    # Q is one of the members: as much disagreement as they have.
    member = rng.integers(2, size=400)
    counts = rng.multinomial(4, members[member, np.arange(400)])
    AlphaCalibration(saved(members)).fit(rows, counts)


def test_readers_who_always_oppose_each_other_are_a_warning():
    """P1 App. D.6: two fixed raters, of whom one says 0 and the other 1."""
    z = np.full((200, 2), 0.5)
    with pytest.warns(UserWarning, match="the raters are not exchangeable"):
        AlphaCalibration("proba").fit(z, np.ones((200, 2), dtype=int))


@pytest.mark.filterwarnings("ignore:.*so α0 is infinite:UserWarning")
def test_known_probabilities_are_judged_too():
    z, _ = exact(500)
    AlphaCalibration("proba").fit(z, KnownProbabilities(z))
    with pytest.warns(UserWarning, match=SHARPER):
        AlphaCalibration("proba").fit(sharpened(z, 3.0), KnownProbabilities(z))


@pytest.mark.filterwarnings("ignore:.*so α0 is infinite:UserWarning")
def test_rows_of_weight_zero_and_repetitions():
    z, counts = exact(400)
    sharp = z.copy()
    sharp[:200] = sharpened(z[:200], 6.0)
    weight = np.repeat([0.0, 1.0], 200)
    AlphaCalibration("proba").fit(sharp, counts, sample_weight=weight)
    with pytest.warns(UserWarning, match=SHARPER):
        AlphaCalibration("proba").fit(sharp, counts, sample_weight=weight[::-1])


# -------------------------------------------------------------------------------- no spread


@pytest.mark.parametrize("penalty", [0.0, None])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_infinite_where_no_spread_is_left(likelihood, penalty):
    """Rows in which every class has its share exactly: raters are even less alike than z says.

    The default says so, once; a penalty of 0 asks for it.
    """
    z = np.full((100, 2), 0.5)
    rng = np.random.default_rng(0)
    counts = np.array([[3, 3], [2, 4], [4, 2]])[rng.integers(3, size=100)]
    model = AlphaCalibration("proba", likelihood=likelihood, penalty=penalty)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(z, counts)
    assert ["α0 is infinite" in str(one.message) for one in caught] == [True] * (penalty is None)
    dist = model.predict_dist(z)
    assert model.is_infinite_
    assert_array_equal(model.coef_, 0)
    assert_allclose(dist.total, 1e12)
    assert_allclose(dist.disagreement(), 0.5, rtol=1e-9)


def best_log_total(y, penalty):
    """The optimum of P1's loss of one row, z = (.5, .5), by SciPy: eq. 51, Fig. 3."""

    def loss(log_total):
        a = np.exp(log_total)
        return -np.log(poch(a / 2, y).prod() / poch(a, np.sum(y))) + penalty * log_total**2

    return minimize_scalar(loss, bounds=(-20, 20), method="bounded", options={"xatol": 1e-9}).x


@pytest.mark.filterwarnings("ignore:Raters:UserWarning")
@pytest.mark.parametrize("fallback", [None, True, False])
@pytest.mark.parametrize("penalty", [0.005, 0.1, 10.0])
@pytest.mark.parametrize("y", [[1, 1], [2, 0]])
def test_a_penalty_that_is_given_is_used(y, penalty, fallback):
    """Whether features may fall back on a constant or not."""
    model = AlphaCalibration(
        "proba", likelihood="dirichlet_multinomial", penalty=penalty, fallback=fallback
    ).fit([[0.5, 0.5]] * 30, [y] * 30)
    assert not model.is_infinite_
    found = np.log(model.predict_dist([[0.5, 0.5]]).total)
    assert_allclose(found, best_log_total(y, penalty), atol=1e-5)


@pytest.mark.filterwarnings("ignore:Raters:UserWarning")
def test_more_penalty_is_less_alpha_on_calibrated_rows():
    """A search over the penalty has something to search."""
    z, counts = exact(1000, 3)
    models = [AlphaCalibration("proba", penalty=lam).fit(z, counts) for lam in (5e-4, 5e-3, 0.1)]
    totals = [model.predict_dist(z).total.mean() for model in models]
    assert totals[0] > 1.5 * totals[1] > 2 * totals[2] > 2


@pytest.mark.filterwarnings("ignore:Raters:UserWarning")
def test_the_method_of_the_paper():
    """P1 Fig. 3 at its λ = .005, and single labels that add penalty alone."""
    for y, said in (([1, 1], 3.36), ([2, 0], -2.79)):
        model = AlphaCalibration("proba", likelihood="paper").fit([[0.5, 0.5]] * 30, [y] * 30)
        assert np.log(model.predict_dist([[0.5, 0.5]]).total) == pytest.approx(said, abs=0.005)
        half = AlphaCalibration("proba", likelihood="paper")
        half = half.fit([[0.5, 0.5]] * 60, [y] * 30 + [[1, 0]] * 30)
        found = np.log(half.predict_dist([[0.5, 0.5]]).total)
        assert_allclose(found, best_log_total(y, 0.01), atol=1e-5)
    z, counts = spread(200, 5.0)
    rng = np.random.default_rng(0)
    X, model = beside(z, rng.normal(size=(200, 2)))
    ours = AlphaCalibration(
        model.estimator, features=model.features, likelihood="dirichlet_multinomial"
    )
    papers = AlphaCalibration(model.estimator, features=model.features, likelihood="paper")
    assert not ours.fit(X, counts).coef_.any()
    assert papers.fit(X, counts).coef_.all()
    always = ours.set_params(fallback=False).fit(X, counts)
    assert_allclose(papers.coef_, always.coef_, atol=1e-6)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_infinite_exactly_where_the_likelihood_says_so(likelihood):
    """Against SciPy's optimum of a constant log α0, which it finds anywhere between −5 and 25."""
    seen = []
    for seed in range(16):
        z, counts = exact(60, 3, seed)
        model = AlphaCalibration(
            "proba", features=lambda X: np.zeros((len(X), 1)), likelihood=likelihood, penalty=0.0
        ).fit(z, counts)

        def loss(log_total, z=z, counts=counts):
            a = np.exp(log_total)
            if likelihood == "pairwise":
                y = counts[:, :, None] * (counts[:, None] - np.eye(3)) / 6
                both = a / (a + 1) * z[:, :, None] * z[:, None]
                both += np.eye(3) * (z / (a + 1))[:, :, None]
                return -(y * np.log(both)).sum()
            return -np.log(poch(a * z, counts).prod(axis=1) / poch(a, 3)).sum()

        best = minimize_scalar(loss, bounds=(-5, 25), method="bounded", options={"xatol": 1e-6})
        seen.append(model.intercept_ > 27)
        if seen[-1]:
            assert loss(15.0) <= best.fun + 1e-4
        else:
            # The likelihood is flat about it: compare values.
            assert loss(model.intercept_) <= best.fun + 1e-6
            assert best.fun < loss(18.0)
    assert 0 < sum(seen) < 16


# ---------------------------------------------------------------------- features that do not pay


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_whether_features_pay_does_not_depend_on_the_order_of_samples_or_classes(likelihood):
    """Of 20 small studies, in some of which they do by chance."""
    kept = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        z, counts = spread(60, 4.0, seed=seed)
        X, model = beside(z, rng.normal(size=(60, 2)))
        model.set_params(likelihood=likelihood)
        first = model.fit(X, counts).coef_
        kept.append(first.any())
        rows = rng.permutation(60)
        assert_allclose(model.fit(X[rows], counts[rows]).coef_, first, atol=1e-6)
        X, model = beside(z[:, ::-1], X[:, 3:])
        model.set_params(likelihood=likelihood)
        assert_allclose(model.fit(X, counts[:, ::-1]).coef_, first, atol=1e-6)
    assert 0 < sum(kept) < 20


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_features_that_say_nothing_are_dropped(likelihood):
    rng = np.random.default_rng(0)
    z, counts = spread(1300, 4.0)
    X, model = beside(z, rng.normal(size=(1300, 20)))
    model.set_params(likelihood=likelihood).fit(X[:300], counts[:300])
    assert_array_equal(model.coef_, np.zeros(20))
    total = model.predict_dist(X[300:]).total
    assert np.ptp(total) == 0
    loss = histogram_log_loss(counts[300:], model.predict_dist(X[300:]))
    model.set_params(fallback=False).fit(X[:300], counts[:300])
    assert model.coef_.all()
    assert loss < histogram_log_loss(counts[300:], model.predict_dist(X[300:])) - 0.01


@pytest.mark.parametrize("of_members", [False, True])
def test_features_that_say_much_are_kept(of_members):
    rng = np.random.default_rng(0)
    h = rng.normal(size=(600, 2))
    z, counts = spread(600, np.exp(1.0 + 2.0 * h[:, 0]))
    X, model = beside(z, h)
    if of_members:
        X = np.arange(600)[:, None]
        members = saved(np.stack([z, sharpened(z, 0.8)]))
        model = AlphaCalibration(members, features=lambda X: h[X[:, 0]])
    model.fit(X, counts)
    assert model.coef_[0] > 1
    kept = model.coef_, model.intercept_
    model.set_params(fallback=False).fit(X, counts)
    assert_array_equal(kept[0], model.coef_)
    assert kept[1] == model.intercept_


def test_rows_have_no_order():
    """Sorted by what the feature says, the folds see all of it."""
    rng = np.random.default_rng(0)
    h = np.sort(rng.normal(size=(600, 1)), axis=0)
    z, counts = spread(600, np.exp(1.0 + 2.0 * h[:, 0]))
    X, model = beside(z, h)
    model.fit(X, counts)
    order = rng.permutation(600)
    coef = model.coef_
    assert_allclose(model.fit(X[order], counts[order]).coef_, coef, rtol=1e-6)
    assert coef > 1


def test_features_that_were_dropped_are_not_computed():
    z, counts = spread(200, 4.0)
    rng = np.random.default_rng(1)
    calls = []

    def noise(X):
        calls.append(len(X))
        return rng.normal(size=(len(X), 15))

    model = AlphaCalibration("proba", features=noise).fit(z, counts)
    assert not model.coef_.any()
    model.predict_dist(z[:10])
    assert calls == [200]


def test_with_few_rows_a_constant():
    z, counts = spread(9, 4.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert not AlphaCalibration("proba").fit(z, counts).coef_.any()


def test_with_very_many_rows_features_are_kept_unjudged():
    rng = np.random.default_rng(0)
    z, counts = spread(5100, 4.0)
    X, model = beside(z, rng.normal(size=(5100, 2)))
    assert model.fit(X, counts).coef_.all()
    # They cost nearly nothing.
    assert np.abs(model.coef_).max() < 0.2


def test_features_of_members_are_dropped_too():
    z, counts = spread(300, 3.0)
    members = np.stack([z, sharpened(z, 0.8)])
    noise = np.random.default_rng(0).normal(size=(300, 10))
    model = AlphaCalibration(saved(members), features=lambda X: noise[X[:, 0]])
    rows = np.arange(300)[:, None]
    assert_array_equal(model.fit(rows, counts).coef_, np.zeros(10))
    same = DirichletMixture(members, np.full((2, 300), np.exp(model.intercept_)))
    assert_allclose(model.predict_dist(rows).disagreement(), same.disagreement(), rtol=1e-9)
