"""α-calibration: the optimum and its limits, and the losses of label histograms it minimises.

The likelihoods are private: their derivatives are seen nowhere else.
"""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize, minimize_scalar
from scipy.special import softmax
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from sklearn_lhcal.calibration import AlphaCalibration, StackedCalibration, TemperatureScaling
from sklearn_lhcal.calibration._alpha_fit import dirichlet_multinomial, pairwise
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import (
    Dirichlet,
    DirichletMixture,
    Ensemble,
    PointMass,
    predict_dist,
)
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import (
    disagreement_squared_loss,
    label_log_loss,
    posterior_epistemic_loss,
)
from sklearn_lhcal.neural_network import DirichletMultinomialLoss, LabelLogLoss, PairwiseLoss


def dirichlet_multinomial_loss(x, h, z, y, penalty, w=None):
    """P1 App. D.2 by lgamma, which is exact enough for moderate totals."""
    from scipy.special import gammaln

    log_total = h @ x[:-1] + x[-1]
    total = np.exp(log_total)[:, None]
    rising = (gammaln(total * z + y) - gammaln(total * z)).sum(axis=1)
    rising += gammaln(total[:, 0]) - gammaln(total[:, 0] + y.sum(axis=1))
    return np.average(-rising + penalty * log_total**2, weights=w)


def pairwise_loss(x, h, z, y, penalty, w=None):
    """The mean over pairs of raters, pair by pair."""
    log_total = h @ x[:-1] + x[-1]
    losses = []
    for z_i, y_i, log_a in zip(z, y, log_total, strict=True):
        a, raters = np.exp(log_a), np.repeat(np.arange(len(y_i)), y_i)
        pairs = [(k, m) for i, k in enumerate(raters) for m in raters[:i]]
        p = [
            z_i[k] * (a * z_i[k] + 1) / (a + 1) if k == m else 2 * a * z_i[k] * z_i[m] / (a + 1)
            for k, m in pairs
        ]
        losses.append(-np.mean(np.log(p)) + penalty * log_a**2)
    return np.average(losses, weights=w)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("likelihood", "oracle"),
    [("dirichlet_multinomial", dirichlet_multinomial_loss), ("pairwise", pairwise_loss)],
)
def test_alpha_is_the_optimum(data, likelihood, oracle, weighted):
    z, several = data.prediction[:100], data.counts[:100].sum(axis=1) > 1
    w = np.random.default_rng(0).uniform(0, 3, 100) if weighted else np.ones(100)
    how = {"likelihood": likelihood, "penalty": 0.01, "features": "logits", "fallback": False}
    calibrator = AlphaCalibration("proba", **how).fit(z, data.counts[:100], sample_weight=w)
    h = (np.log(z) - calibrator.feature_mean_) / calibrator.feature_scale_
    assert_allclose([h.mean(), h.std()], [0, 1], atol=1e-9)
    args = (h[several], z[several], data.counts[:100][several], 0.01, w[several])
    best = minimize(oracle, np.zeros(4), args=args, tol=1e-8)
    x = np.append(calibrator.coef_, calibrator.intercept_)
    assert oracle(x, *args) <= best.fun + 1e-9
    assert_allclose(x, best.x, atol=2e-3)


LOSSES = {"dirichlet_multinomial": DirichletMultinomialLoss, "pairwise": PairwiseLoss}


def slope(calibrator, log_z, y, w, *log_weights):
    """The gradient of the public loss, by autograd, where a fit with features "logits" ended."""
    loss = LOSSES[calibrator.likelihood](calibrator.penalty)
    h = torch.as_tensor((log_z - calibrator.feature_mean_) / calibrator.feature_scale_)
    x = torch.tensor([*calibrator.coef_, calibrator.intercept_], requires_grad=True)
    several = y.sum(axis=1) > 1
    arrays = (log_z, h @ x[:-1] + x[-1], *log_weights)
    prediction = tuple(torch.as_tensor(a)[several] for a in arrays)
    value = loss(prediction, torch.as_tensor(y)[several], torch.as_tensor(w)[several])
    return torch.autograd.grad(value, x)[0].numpy()


@pytest.mark.filterwarnings("ignore:Raters of the calibration samples disagree:UserWarning")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("likelihood", LOSSES)
def test_the_slope_is_zero_where_a_fit_ends(likelihood, weighted):
    """Of overconfident predictions too, and around an ensemble."""
    data = make_label_histograms(
        300, n_classes=3, n_raters=(1, 6), total=3.0, overconfidence=3.0, random_state=0
    )
    w = np.random.default_rng(0).uniform(0, 3, 300) if weighted else np.ones(300)
    calibrator = AlphaCalibration(
        "proba", likelihood=likelihood, features="logits", fallback=False, penalty=0.01
    )
    calibrator.fit(data.prediction, data.counts, sample_weight=w)
    # as the calibrator clips them
    z = np.maximum(data.prediction, 1e-12)
    log_z = np.log(z / z.sum(axis=1, keepdims=True))
    assert_allclose(slope(calibrator, log_z, data.counts, w), 0, atol=1e-7)
    calibrator.intercept_ += 0.1
    assert np.abs(slope(calibrator, log_z, data.counts, w)).max() > 1e-3
    z, y = members_and_labels(of_members=True, n=300)
    calibrator.fit(Ensemble(z), y, sample_weight=w)
    assert calibrator.uses_members_
    log_z = np.log(z).swapaxes(0, 1)
    found = slope(calibrator, log_z, y, w, np.full((300, 3), -np.log(3)))
    assert_allclose(found, 0, atol=1e-7)


@pytest.mark.parametrize("likelihood", LOSSES)
def test_members_that_are_alike_are_one(likelihood, data):
    """Two routes, by second derivatives and by first ones, to one optimum."""
    calibrator = AlphaCalibration(
        "proba", likelihood=likelihood, features="logits", fallback=False, penalty=0.01
    )
    z = data.prediction
    one = clone(calibrator).fit(z, data.counts)
    both = clone(calibrator).fit(Ensemble([z, z]), data.counts)
    assert_allclose(both.coef_, one.coef_, atol=5e-6)
    assert_allclose(both.intercept_, one.intercept_, atol=5e-6)


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["dirichlet_multinomial", "pairwise"])
def test_alpha_recovers_the_best_total(likelihood):
    """Q ~ Dirichlet(5 z): the optimum of both likelihoods is α0 = 5."""
    data = make_label_histograms(6000, n_raters=4, total=5.0, random_state=0)
    constant = AlphaCalibration(
        "proba", features=lambda X: np.zeros((len(X), 1)), likelihood=likelihood, penalty=0.0
    )
    log_total, log_best = [], []
    for part in np.split(np.arange(6000), 12):
        z, Q = data.prediction[part], data.proba[part]
        log_total.append(constant.fit(z, data.counts[part]).intercept_)
        u, v = 1 - (z**2).sum(axis=1).mean(), 1 - (Q**2).sum(axis=1).mean()
        log_best.append(np.log(v / (u - v)))  # α0* of Theorem 1
    for truth in (np.log(5.0), np.array(log_best)):
        error = np.array(log_total) - truth
        assert abs(error.mean()) < 4 * error.std(ddof=1) / np.sqrt(12)


def test_alpha_keeps_the_class_probabilities(data):
    calibrator = AlphaCalibration("proba").fit(data.prediction, data.counts)
    assert_allclose(calibrator.predict_proba(data.prediction), data.prediction, atol=1e-12)


def test_alpha_calibrates_a_stack_by_default(data):
    X = np.log(data.prediction)
    default = AlphaCalibration().fit(X, data.counts)
    named = AlphaCalibration(StackedCalibration()).fit(X, data.counts)
    for part in ("mean", "disagreement"):
        a, b = (getattr(model.predict_dist(X), part)() for model in (default, named))
        assert_array_equal(a, b)
    # as given, so that it can be cloned and searched
    assert default.estimator is None
    assert isinstance(default.estimator_, StackedCalibration)


def test_alpha_with_single_labels_warns_and_is_one(data):
    calibrator = AlphaCalibration("proba")
    with pytest.warns(UserWarning, match="No calibration sample has two labels"):
        calibrator.fit(data.prediction, data.counts.argmax(axis=1))
    assert_allclose(calibrator.predict_dist(data.prediction).total, 1)


def test_rows_with_one_label_do_not_change_alpha(data):
    several = data.counts.sum(axis=1) > 1
    features = AlphaCalibration("proba", features=lambda X: X[:, :1])
    a = clone(features).fit(data.prediction, data.counts).predict_dist(data.prediction)
    b = (
        clone(features)
        .fit(data.prediction[several], data.counts[several])
        .predict_dist(data.prediction)
    )
    assert_allclose(a.total, b.total, rtol=1e-3)  # but for what standardises the features


@pytest.mark.parametrize(
    "features",
    [None, "logits", lambda X: X**2, PolynomialFeatures(2), StandardScaler()],
    ids=["default", "logits", "callable", "polynomial", "scaler"],
)
def test_alpha_features(features, data):
    calibrator = AlphaCalibration("proba", features=features).fit(data.prediction, data.counts)
    total = calibrator.predict_dist(data.prediction).total
    assert np.isfinite(total).all()
    assert_allclose(calibrator.predict_dist(data.prediction[:7]).total, total[:7], rtol=1e-12)


def test_refit_with_other_features_forgets_the_old(data):
    calibrator = AlphaCalibration("proba", features=StandardScaler()).fit(
        data.prediction, data.counts
    )
    calibrator.set_params(features=None).fit(data.prediction, data.counts)
    fresh = AlphaCalibration("proba").fit(data.prediction, data.counts)
    assert_allclose(calibrator.coef_, fresh.coef_)


def test_pairwise_likelihood_is_not_distorted_by_many_raters():
    """z informative but overdispersed in a way no Dirichlet has.

    Most rows are certain, some are split.
    """
    rng = np.random.default_rng(0)
    n = 20_000
    z = np.clip(rng.beta(2, 2, n), 0.05, 0.95)
    split = rng.random(n) < 0.3
    q = np.where(split, z, rng.random(n) < z)
    Q, z = np.column_stack([q, 1 - q]), np.column_stack([z, 1 - z])
    test = slice(n // 2, n)
    loss = {
        (name, m): posterior_epistemic_loss(
            KnownProbabilities(Q[test]),
            AlphaCalibration("proba", likelihood=name)
            .fit(z[: n // 2], rng.multinomial(m, Q[: n // 2]))
            .predict_dist(z[test]),
        )
        for name in ("pairwise", "dirichlet_multinomial")
        for m in (2, 50)
    }
    assert abs(loss["pairwise", 50] - loss["pairwise", 2]) < 0.0005
    assert loss["dirichlet_multinomial", 50] > loss["dirichlet_multinomial", 2] + 0.002


# --- around ensembles ---


def members_and_labels(of_members, n=400, n_raters=2, total=6.0):
    """Labels spread about one of three members, or about the mean of ten one-hot members."""
    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.ones(3), (3, n))
    truth = z[rng.integers(3, size=n), np.arange(n)]
    if not of_members:
        # as trees are that have one class in each leaf
        p = 0.1 + 0.7 * truth
        z = np.eye(3)[(p.cumsum(axis=1) < rng.random((10, n, 1))).sum(axis=2)]
        truth = z.mean(axis=0)
    spread = rng.standard_gamma(total * truth) + 1e-300
    return z, rng.multinomial(n_raters, spread / spread.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("likelihood", ["dirichlet_multinomial", "pairwise"])
def test_alpha_around_an_ensemble_is_a_mixture(likelihood):
    z, y = members_and_labels(of_members=True)
    X = Ensemble(z)
    chain = AlphaCalibration(TemperatureScaling("proba"), likelihood=likelihood).fit(X, y)
    dist = chain.predict_dist(X)
    assert chain.uses_members_
    assert isinstance(dist, DirichletMixture)
    assert_allclose(dist.mean(), chain.estimator_.predict_proba(X), atol=1e-12)
    # what members do not agree on is as before; α adds what raters know more than a member
    before = predict_dist(chain.estimator_, X)
    assert_allclose(dist.member_information(), before.mutual_information(), atol=1e-12)
    assert_array_equal(before.member_information(), before.mutual_information())
    information = dist.mutual_information() - dist.member_information()
    assert (information > 0).all()
    assert information.mean() > 0.01
    assert disagreement_squared_loss(y, dist) < disagreement_squared_loss(y, dist.mean())
    penalised = clone(chain).set_params(penalty=1e3).fit(X, y).predict_dist(X)
    assert not np.allclose(penalised.disagreement(), dist.disagreement())


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["dirichlet_multinomial", "pairwise"])
def test_alpha_around_a_forest(data, likelihood):
    forest = RandomForestClassifier(12, min_samples_leaf=20, random_state=0).fit(
        data.X, data.counts.argmax(axis=1)
    )
    chain = AlphaCalibration(TemperatureScaling(FrozenEstimator(forest)), likelihood=likelihood)
    dist = chain.fit(data.X, data.counts).predict_dist(data.X)
    assert isinstance(dist, DirichletMixture)
    assert_allclose(dist.mean(), chain.estimator_.predict_proba(data.X), atol=1e-12)
    losses = [disagreement_squared_loss(data.counts, z) for z in (dist, dist.mean())]
    assert losses[0] < losses[1]


@pytest.mark.parametrize("likelihood", ["dirichlet_multinomial", "pairwise"])
def test_members_that_know_less_than_their_mean_are_left(likelihood):
    """Under a member that is sure of a class a pair of raters agrees, whatever α0 is."""
    z, y = members_and_labels(of_members=False)
    mean = z.mean(axis=0)
    found = AlphaCalibration("proba", likelihood=likelihood).fit(Ensemble(z), y)
    expected = AlphaCalibration("proba", likelihood=likelihood).fit(mean, y)
    assert not found.uses_members_
    dist = found.predict_dist(Ensemble(z))
    # a mixture of one, so that folds which choose otherwise can be joined
    assert isinstance(dist, DirichletMixture)
    assert_allclose(dist.mean(), mean, atol=1e-12)
    assert_allclose(dist.variance(), expected.predict_dist(mean).variance(), rtol=1e-6, atol=1e-12)
    assert found.coef_.shape == expected.coef_.shape


@pytest.mark.parametrize(
    ("likelihood", "n_raters"),
    [("dirichlet_multinomial", 4), ("dirichlet_multinomial", 2), ("pairwise", 2)],
)
@pytest.mark.parametrize("of_members", [False, True])
def test_the_likelier_of_members_and_mean_is_kept(likelihood, n_raters, of_members):
    """By the public likelihood, of two raters that of their pair, and a search by scipy."""
    z, y = members_and_labels(of_members, n_raters=n_raters)
    z = np.maximum(z, 1e-12) / np.maximum(z, 1e-12).sum(axis=2, keepdims=True)
    X = Ensemble(z)

    def mixture(total):
        return DirichletMixture(z, np.full(z.shape[:2], total))

    def whole(total):
        return Dirichlet.from_mean(z.mean(axis=0), np.full(len(y), total))

    losses = {
        kind: minimize_scalar(
            lambda t, kind=kind: -kind(np.exp(t)).log_prob_counts(y).sum(), bounds=(-4, 12)
        ).fun
        for kind in (mixture, whole)
    }
    # features that say nothing leave one α0
    model = AlphaCalibration(
        "proba", likelihood=likelihood, features=lambda X: np.zeros((len(X), 1)), penalty=0.0
    ).fit(X, y)
    assert model.uses_members_ == (losses[mixture] < losses[whole]) == of_members
    found = -model.predict_dist(X).log_prob_counts(y).sum()
    assert found == pytest.approx(min(losses.values()), rel=1e-7)


# --- losses ---


@pytest.mark.parametrize("loss", [PairwiseLoss(0.01), DirichletMultinomialLoss(0.01)])
@pytest.mark.parametrize("members", [0, 3])
def test_gradients_of_the_losses(loss, members):
    rng = np.random.default_rng(0)
    shape = (4, members, 3) if members else (4, 3)
    u = torch.as_tensor(rng.normal(size=shape)).requires_grad_()
    eta = torch.as_tensor(rng.normal(size=shape[:-1])).requires_grad_()
    y = torch.tensor([[2, 0, 1], [0, 0, 5], [40, 3, 0], [1, 0, 0]])
    log_w = (torch.full((4, members), -np.log(members)),) if members else ()
    assert torch.autograd.gradcheck(lambda u, eta: loss((u, eta, *log_w), y), (u, eta))


LIKELIHOODS = [(pairwise, PairwiseLoss()), (dirichlet_multinomial, DirichletMultinomialLoss())]


@pytest.mark.parametrize(("likelihood", "loss"), LIKELIHOODS)
@pytest.mark.parametrize("most", [9, 400])
def test_likelihoods_and_their_derivatives_are_those_of_autograd(likelihood, loss, most):
    rng = np.random.default_rng(0)
    z = np.clip(rng.dirichlet(np.full(6, 0.3), 400), 1e-12, None)
    u = np.log(z / z.sum(axis=1, keepdims=True))
    y = rng.multinomial(rng.integers(1, most, 400), np.full(6, 1 / 6)).astype(float)
    log_total = rng.normal(scale=8, size=400)
    eta = torch.as_tensor(log_total).requires_grad_()
    rows = loss.row_loss(torch.as_tensor(u), eta, torch.as_tensor(y))
    (g,) = torch.autograd.grad(rows.sum(), eta, create_graph=True)
    (s,) = torch.autograd.grad(g.sum(), eta)
    for ours, theirs in zip(likelihood(u, y)(log_total), (rows, g, s), strict=True):
        # rounding of terms as large as the number of labels
        assert_allclose(ours, theirs.detach(), rtol=1e-11, atol=1e-12 * most)


def test_the_likelihood_of_many_labels_is_that_of_exact_arithmetic():
    """Its tail is a series; mpmath differentiates lnΓ with 40 digits."""
    mpmath = pytest.importorskip("mpmath")
    z, y = [0.2, 0.5, 0.3], [70, 4000, 33]
    with mpmath.workdps(40):

        def exact(eta):
            a = mpmath.exp(eta)
            rows = [
                mpmath.loggamma(a * p + k) - mpmath.loggamma(a * p)
                for p, k in zip(z, y, strict=True)
            ]
            return mpmath.loggamma(a + sum(y)) - mpmath.loggamma(a) - sum(rows)

        for log_total in (-20.0, 0.0, 5.0, 20.0):
            ours = dirichlet_multinomial(np.log([z]), np.array([y], float))(np.array([log_total]))
            for order, value in enumerate(ours):
                wanted = float(mpmath.diff(exact, log_total, order))
                assert_allclose(value, [wanted], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("sign", [-1, 1])
def test_pairs_at_an_extreme_log_total(sign):
    u, y = np.log([[0.2, 0.8]]), np.array([[2.0, 1.0]])
    value, first, second = (a.item() for a in pairwise(u, y)(np.array([sign * 100.0])))
    # certain of 0.2 and 0.8, or of one class, which two of three pairs contradict
    certain = -(np.log(0.2**2) + 2 * np.log(2 * 0.2 * 0.8)) / 3
    one_class = -(np.log(0.2) + 2 * (np.log(2 * 0.2 * 0.8) - 100)) / 3
    assert_allclose(value, certain if sign > 0 else one_class, rtol=1e-12)
    assert_allclose(first, 0 if sign > 0 else -2 / 3, rtol=1e-12, atol=1e-12)
    assert_allclose(second, 0, atol=1e-12)


def test_label_log_loss_module_is_the_metric(data, logits):
    w = torch.linspace(0, 2, 300)
    module = LabelLogLoss()(torch.as_tensor(logits), torch.as_tensor(data.counts), w)
    metric = label_log_loss(data.counts, softmax(logits, axis=1), sample_weight=w.numpy())
    assert_allclose(module.item(), metric, rtol=1e-6)


def test_dirichlet_multinomial_loss_is_the_distribution(data, logits):
    z = softmax(logits, axis=1)
    for log_total in (-20.0, 0.0, 20.0):
        rows = DirichletMultinomialLoss().row_loss(
            torch.as_tensor(np.log(z)),
            torch.full((300,), log_total, dtype=torch.float64),
            torch.as_tensor(data.counts),
        )
        dist = Dirichlet.from_log_total(z, log_total)
        coefficient = PointMass(z).log_prob_counts(data.counts) - (data.counts * np.log(z)).sum(
            axis=1
        )
        assert_allclose(
            -rows.numpy() + coefficient, dist.log_prob_counts(data.counts), rtol=1e-9, atol=1e-9
        )


# --- small numbers ---


@pytest.mark.filterwarnings("ignore:.*so α0 is infinite:UserWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_alpha_keeps_probabilities_of_zero_and_tiny_ones(dtype):
    """To the bit, though its features see clipped ones.

    A label of a class of probability 0 remains possible.
    """
    rng = np.random.default_rng(0)
    z = softmax(40 * rng.normal(size=(300, 10)), axis=1).astype(dtype)
    z[:5] = np.eye(10)[:5]
    counts = rng.multinomial(3, z.astype(float) / z.astype(float).sum(axis=1, keepdims=True))
    for estimator in ("proba", TemperatureScaling("proba")):
        model = AlphaCalibration(estimator).fit(z, counts)
        expected = z if estimator == "proba" else model.estimator_.predict_proba(z)
        assert_allclose(model.predict_proba(z), expected, rtol=0, atol=1e-15)
        dist = model.predict_dist(z)
        surprised = dist.posterior(
            np.roll(np.eye(10, dtype=int), 1, axis=0)[rng.integers(10, size=300)]
        )
        for values in (
            surprised.mean(),
            dist.mutual_information(),
            dist.log_prob_counts(counts),
            dist.disagreement(),
        ):
            assert np.isfinite(values).all()


def test_a_member_of_weight_zero_does_not_count():
    """In the penalty of α-calibration either."""
    data = make_label_histograms(200, n_classes=3, n_raters=4, random_state=0)
    log_z = torch.as_tensor(np.log(np.stack([data.prediction, data.prediction[::-1]], axis=1)))
    eta, y = (
        torch.full((200, 2), 1.5, dtype=torch.float64) * torch.tensor([1.0, -3.0]),
        torch.as_tensor(data.counts),
    )
    log_w = torch.tensor([0.0, -1e9], dtype=torch.float64).expand(200, 2)
    for loss in (PairwiseLoss(0.7), DirichletMultinomialLoss(0.7)):
        mixed, single = (
            loss.row_loss(log_z, eta, y, log_w),
            loss.row_loss(log_z[:, 0], eta[:, 0], y),
        )
        assert_allclose(mixed, single, rtol=1e-12)


def test_rows_of_weight_zero_say_nothing_on_alpha(data):
    """Nor does a row with two labels make a fit of rows that have one."""
    single = np.eye(3, dtype=int)[data.counts.argmax(axis=1)]
    single[0] = [2, 1, 0]
    w = np.ones(len(single))
    w[0] = 0
    for likelihood in ("pairwise", "dirichlet_multinomial"):
        model = AlphaCalibration("proba", likelihood=likelihood)
        with pytest.warns(UserWarning, match="No calibration sample has two labels"):
            model.fit(data.prediction, single, sample_weight=w)
        assert_allclose(model.predict_dist(data.prediction).total, 1)


@pytest.mark.filterwarnings("ignore:The search for the parameters stopped before its minimum")
@pytest.mark.parametrize("seed", [4, 19, 20, 26])
def test_pairs_that_a_line_explains_leave_the_total_unbounded(seed):
    """Few rows and no penalty: |log α0| grows until the search ends, and nothing overflows."""
    data = make_label_histograms(24, n_raters=(1, 6), total=3.0, random_state=seed)
    calibrator = AlphaCalibration("proba", penalty=0.0, fallback=False)
    calibrator.fit(data.prediction, data.counts)
    assert np.isfinite([*calibrator.coef_, calibrator.intercept_]).all()
    assert np.abs(np.log(calibrator.predict_dist(data.prediction).total)).max() > 20
