"""The Gaussian process classifier.

Against dense integration, MCMC and GPyTorch; the laws of its inference.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import expit, log_expit
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Ensemble, PointMass, predict_dist
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.gaussian_process._hyperparameters import learn, local_terms, value_and_gradient
from sklearn_lhcal.gaussian_process._kernels import PROFILES, Kernel
from sklearn_lhcal.gaussian_process._variational import (
    MEAN_VARIANCE,
    BinaryLabels,
    Features,
    prior,
    solve,
    sweep,
)
from sklearn_lhcal.label_histogram import KnownProbabilities


def fixed(kernel="rbf", **kwargs):
    """A classifier with given hyper-parameters, run until nothing moves."""
    options = {
        "variance": 2.0,
        "lengthscale": 0.8,
        "tol": 1e-12,
        "max_iter": 5000,
        "batch_size": None,
    }
    return SparseGPClassifier(
        kernel, optimize_hyperparameters=False, random_state=0, **(options | kwargs)
    )


def waves(n=60, seed=0, raters=1):
    """Rows in the plane, and counts of two classes whose log-odds are a wave."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    y = rng.binomial(raters, expit(3 * np.sin(2 * X[:, 0]) + X[:, 1]))
    return X, np.column_stack([raters - y, y])


def covariance(A, B, variance=2.0, lengthscale=0.8):
    r2 = ((A[:, None] - B) ** 2).sum(axis=2) / lengthscale**2
    return variance * np.exp(-r2 / 2)


def covariance_with_mean(A, B, **kwargs):
    """That of log-odds with a normal prior of their constant mean: its variance is added."""
    return covariance(A, B, **kwargs) + MEAN_VARIANCE


# Against exact inference


def dense_posterior(counts, K):
    """Mean and variance of the log-odds at two points, and the log-evidence, summed over a grid."""
    grid = np.linspace(-60, 60, 1201)
    g = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    log_p = -np.einsum("abi,ij,abj->ab", g, np.linalg.inv(K), g) / 2
    log_p -= np.log(2 * np.pi) + np.linalg.slogdet(K)[1] / 2
    log_p = log_p + (counts[:, 1] * log_expit(g) + counts[:, 0] * log_expit(-g)).sum(axis=-1)
    p = np.exp(log_p) * (grid[1] - grid[0]) ** 2
    evidence = p.sum()
    first = np.einsum("ab,abi->i", p, g) / evidence
    return first, np.einsum("ab,abi->i", p, (g - first) ** 2) / evidence, np.log(evidence)


@pytest.mark.parametrize("polish", [False, True])
@pytest.mark.parametrize("counts", [[[3, 1], [1, 4]], [[0, 2], [1, 0]], [[10, 10], [0, 6]]])
def test_two_points_agree_with_dense_integration(counts, polish):
    X, counts = np.array([[0.0, 0.0], [0.7, 0.2]]), np.array(counts)
    gp = fixed(polish=polish).fit(X, counts)
    mean, var, log_evidence = dense_posterior(counts, covariance_with_mean(X, X))
    d = gp.predict_dist(X)
    np.testing.assert_allclose(d.loc, mean, atol=(0.05 if polish else 0.15) * np.sqrt(var).max())
    np.testing.assert_allclose(d.scale**2, var, rtol=0.1 if polish else 0.4)
    assert gp.elbo_[-1] < log_evidence
    assert gp.elbo_[-1] > log_evidence - (0.02 if polish else 0.2)


def elliptical_slices(counts, K, n_steps, rng):
    """Draws of the process at the rows (n_steps, n) and of the constant mean (n_steps, 1).

    Elliptical slice sampling of the exact posterior, one of the two after the other.
    """
    factors = np.linalg.cholesky(K + 1e-9 * np.eye(len(K))), np.array([[np.sqrt(MEAN_VARIANCE)]])
    draws = [np.zeros((n_steps + 1, len(L))) for L in factors]

    def log_likelihood(g):
        return (counts[:, 1] * log_expit(g) + counts[:, 0] * log_expit(-g)).sum()

    for step in range(n_steps):
        now = [a[step] for a in draws]
        for i, L in enumerate(factors):
            f, rest = now[i], now[1 - i]
            nu, level = L @ rng.normal(size=len(L)), log_likelihood(f + rest) + np.log(rng.random())
            angle = rng.uniform(0, 2 * np.pi)
            low, high = angle - 2 * np.pi, angle
            while log_likelihood((new := f * np.cos(angle) + nu * np.sin(angle)) + rest) <= level:
                low, high = (angle, high) if angle < 0 else (low, angle)
                angle = rng.uniform(low, high)
            now[i] = draws[i][step + 1] = new
    return [a[n_steps // 20 :] for a in draws]


def test_sixty_points_agree_with_mcmc_and_the_polish_widens_towards_it():
    """The Pólya–Gamma bound makes mutual information too small; the true bound does not."""
    X, counts = waves(60)
    plain = fixed(n_inducing=60).fit(X, counts).predict_dist(X)
    polished = fixed(n_inducing=60, polish=True).fit(X, counts).predict_dist(X)
    draws = sum(elliptical_slices(counts, covariance(X, X), 15_000, np.random.default_rng(0)))
    z = expit(draws)
    exact = Ensemble(np.stack([1 - z[::10], z[::10]], axis=2))
    np.testing.assert_allclose(polished.mean()[:, 1], z.mean(axis=0), atol=0.03)
    np.testing.assert_allclose(plain.mean()[:, 1], z.mean(axis=0), atol=0.04)
    np.testing.assert_allclose(polished.scale, draws.std(axis=0), rtol=0.1)
    information = exact.mutual_information().mean()
    plain_share = plain.mutual_information().mean() / information
    polished_share = polished.mutual_information().mean() / information
    assert plain_share < polished_share - 0.05
    assert polished_share == pytest.approx(1, abs=0.05)


def test_far_from_data_the_variance_is_that_of_the_prior_and_of_the_mean():
    X, counts = waves(25)
    _, means = elliptical_slices(counts, covariance(X, X), 10_000, np.random.default_rng(0))
    assert means.var() > 0.3
    for polish in (False, True):
        gp = fixed(polish=polish).fit(X, counts)
        d = gp.predict_dist([[50.0, -80.0]])
        np.testing.assert_allclose(d.loc, gp.mean_, atol=1e-9)
        np.testing.assert_allclose(gp.mean_, means.mean(), atol=0.05 if polish else 0.15)
        np.testing.assert_allclose(d.scale**2, 2.0 + means.var(), rtol=0.05)
        assert d.scale[0] ** 2 > 2.3


def dense_polya_gamma(counts, K, k_new, new_variance, n_steps=3000):
    """Moments of log-odds at new points and the bound, for a zero mean, without inducing points.

    q(g) = N(m, V) with V = (K⁻¹ + Θ)⁻¹ = K − K(K + Θ⁻¹)⁻¹K and m = Vκ.
    """
    n = counts.sum(axis=1)
    kappa, theta = counts[:, 1] - n / 2, n / 4
    for _ in range(n_steps):
        V = K - K @ np.linalg.solve(K + np.diag(1 / theta), K)
        c = np.sqrt((V @ kappa) ** 2 + np.diag(V))
        theta = n * np.tanh(c / 2) / (2 * c)
    inverse = np.linalg.inv(K + np.diag(1 / theta))
    mean = k_new.T @ (kappa - np.diag(theta) @ V @ kappa)
    var = new_variance - np.einsum("ij,ik,kj->j", k_new, inverse, k_new)
    constant = theta * c**2 / 2 - n * (c / 2 + np.log1p(np.exp(-c)))
    log_det = np.linalg.slogdet(np.eye(len(K)) + theta[:, None] * K)[1]
    return mean, var, kappa @ V @ kappa / 2 - log_det / 2 + constant.sum()


@pytest.mark.parametrize("raters", [1, 4])
@pytest.mark.parametrize("n", [3, 25, 60])
def test_the_posterior_of_the_mean_is_that_of_a_constant_in_the_kernel(n, raters):
    """Every row an inducing point; near the rows, between them and far away."""
    X, counts = waves(n, raters=raters)
    new = np.random.default_rng(1).uniform(-6, 6, (50, 2))
    K, k_new = covariance_with_mean(X, X), covariance_with_mean(X, new)
    mean, var, bound = dense_polya_gamma(counts, K, k_new, 2.0 + MEAN_VARIANCE)
    gp = fixed().fit(X, counts)
    d = gp.predict_dist(new)
    np.testing.assert_allclose(d.loc, mean, atol=1e-3)
    np.testing.assert_allclose(d.scale**2, var, rtol=1e-3)
    assert gp.elbo_[-1] == pytest.approx(bound, abs=1e-3)


# The bound


@pytest.mark.parametrize("kernel", PROFILES)
@pytest.mark.parametrize("n_inducing", [10, 60])
def test_the_bound_never_falls(kernel, n_inducing):
    X, counts = waves(60, raters=3)
    gp = fixed(kernel, n_inducing=n_inducing, polish=True).fit(X, counts)
    assert len(gp.elbo_) > 5
    assert (np.diff(gp.elbo_) > -1e-8).all()


def test_more_inducing_points_raise_the_bound():
    X, counts = waves(80)
    bounds = [fixed(n_inducing=m).fit(X, counts).elbo_[-1] for m in (5, 20, 80)]
    assert bounds[0] < bounds[1] < bounds[2]


def problem(C=2, n=40, m=15, dtype=torch.float64):
    rng = np.random.default_rng(0)
    X = torch.tensor(rng.normal(size=(n, 2)))
    n_labels = torch.tensor(rng.integers(1, 5, n), dtype=torch.float64).expand(C, n)
    y = torch.tensor(rng.binomial(n_labels.numpy().astype(int), 0.3), dtype=torch.float64)
    return X, X[:m].clone(), BinaryLabels(n_labels, y)


@pytest.mark.parametrize("kernel", PROFILES)
def test_the_gradient_is_that_of_finite_differences(kernel):
    X, Z, labels = problem()

    def make_kernel(p):
        return Kernel(PROFILES[kernel], p.exp()[0], p.exp()[1:])

    def features(p):
        return Features(X, Z, make_kernel(p), dtype=torch.float64, keep=True)

    p = torch.tensor([0.3, 0.1, 0.4], dtype=torch.float64)
    latent, _ = solve(sweep(features(p), labels, prior(2, Z)), make_kernel(p).variance)
    local = local_terms(features(p), labels, latent)
    bound, gradient, _ = value_and_gradient(features(p), local, p, make_kernel)
    h = 1e-4 * torch.eye(3, dtype=torch.float64)
    values = [
        [value_and_gradient(features(p + s * e), local, p, make_kernel)[0] for s in (1, -1)]
        for e in h
    ]
    np.testing.assert_allclose(gradient, [(up - down) / 2e-4 for up, down in values], rtol=1e-4)
    _, at_q = solve(sweep(features(p), labels, latent), make_kernel(p).variance)
    assert bound == pytest.approx(at_q, rel=1e-12)


@pytest.mark.parametrize("ard", [False, True])
def test_learned_hyperparameters_are_a_maximum_of_the_bound(ard):
    X, counts = waves(150, raters=2)
    learned = SparseGPClassifier(ard=ard, tol=1e-9, max_iter=2000, random_state=0).fit(X, counts)
    best = learned.elbo_[-1]
    for name, factor in ((name, f) for name in ("variance", "lengthscale") for f in (0.7, 1 / 0.7)):
        values = {"variance": learned.variance_, "lengthscale": learned.lengthscale_}
        values[name] = values[name] * factor
        assert fixed(ard=ard, tol=1e-9, **values).fit(X, counts).elbo_[-1] < best + 0.05


@pytest.mark.parametrize("variance", [1e-6, 1.0, 500.0, 1e5])
@pytest.mark.parametrize("lengthscale", [None, 1e-4, 1e5])
def test_learning_never_ends_below_its_start(variance, lengthscale):
    """Nor is a start beyond the range of learning brought into it."""
    start = {"variance": variance, "lengthscale": lengthscale}
    for seed in range(2):
        X, counts = waves(40, seed=seed)
        kept = fixed(**start, tol=1e-9).fit(X, counts)
        learned = SparseGPClassifier(**start, tol=1e-9, max_iter=5000).fit(X, counts)
        assert learned.elbo_[-1] > kept.elbo_[-1] - 1e-5


def test_learned_variances_go_where_the_bound_is_largest():
    """Fifty raters who always agree: the best variance is far above 100."""
    X = np.linspace(-2, 2, 100)[:, None]
    y = np.sin(2 * X[:, 0]) > 0
    counts = 50 * np.column_stack([~y, y])
    gp = SparseGPClassifier(variance=500.0, random_state=0).fit(X, counts)
    assert gp.variance_ > 200
    at_hundred = fixed(variance=100.0, lengthscale=gp.lengthscale_).fit(X, counts)
    assert gp.elbo_[-1] > at_hundred.elbo_[-1]


def test_irrelevant_features_get_long_lengthscales():
    X, counts = waves(200, raters=3)
    X = np.column_stack([X, np.random.default_rng(1).normal(size=200)])
    gp = SparseGPClassifier(ard=True, random_state=0).fit(X, counts)
    assert gp.lengthscale_.shape == (3,)
    assert gp.lengthscale_[2] > 3 * gp.lengthscale_[0]


def test_learning_raises_the_bound():
    X, Z, labels = problem(C=1)
    reports, kernel = [], Kernel(PROFILES["rbf"], X.new_tensor(1.0), X.new_tensor([0.3]))
    options = {"dtype": torch.float64, "max_iter": 30, "tol": 1e-5}
    learn(X, Z, labels, kernel, prior(1, Z), report=reports.append, **options)
    assert len(reports) > 3
    assert max(reports) > reports[0] + 1
    assert max(reports) < reports[-1] + 1e-3


GPYTORCH = {"rbf": None, "matern12": 0.5, "matern32": 1.5, "matern52": 2.5}


@pytest.mark.parametrize("kernel", GPYTORCH)
@pytest.mark.parametrize("n_inducing", [30, 60])
def test_the_bound_is_that_of_gpytorch(kernel, n_inducing):
    """The same likelihood and inducing points; a constant in the kernel in place of our mean.

    With all rows inducing the models are one. With fewer, theirs knows the sum of process and
    constant at the inducing points, ours the constant too: our bound may be larger.
    """
    X, counts = waves(60)
    ours = fixed(kernel, n_inducing=n_inducing).fit(X, counts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gpytorch = pytest.importorskip("gpytorch")
        theirs = gpytorch_bound(gpytorch, X, 2.0 * counts[:, 1] - 1, ours, GPYTORCH[kernel])
    assert theirs < ours.elbo_[-1] + 1e-3
    assert theirs == pytest.approx(ours.elbo_[-1], rel=1e-4 if n_inducing == len(X) else 5e-3)


def gpytorch_bound(gpytorch, X, t, ours, nu):
    """Pólya–Gamma bound of GPyTorch's sparse model at the hyper-parameters of ours."""

    class Likelihood(gpytorch.likelihoods._OneDimensionalLikelihood):
        def expected_log_prob(self, target, input, *args, **kwargs):
            mean, var = input.mean, input.variance
            c = torch.sqrt(mean.detach() ** 2 + var.detach())
            theta = torch.tanh(c / 2) / (2 * c)
            return (target * mean - theta * (mean**2 + var - c**2) - c) / 2 - torch.log1p(
                torch.exp(-c)
            )

        def forward(self, f):
            return torch.distributions.Bernoulli(logits=f)

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self, Z):
            q = gpytorch.variational.NaturalVariationalDistribution(len(Z))
            super().__init__(
                gpytorch.variational.VariationalStrategy(self, Z, q, learn_inducing_locations=False)
            )
            base = (
                gpytorch.kernels.RBFKernel() if nu is None else gpytorch.kernels.MaternKernel(nu=nu)
            )
            base.lengthscale = ours.lengthscale_
            scaled = gpytorch.kernels.ScaleKernel(base)
            scaled.outputscale = ours.variance_
            constant = gpytorch.kernels.ConstantKernel()
            constant.constant = torch.tensor(MEAN_VARIANCE)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = scaled + constant

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    X, t = torch.tensor(X), torch.tensor(t)
    model, likelihood = Model(torch.tensor(ours.inducing_points_)).double(), Likelihood()
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(X))
    optimizer = gpytorch.optim.NGD(model.variational_parameters(), num_data=len(X), lr=0.9)
    for _ in range(60):
        optimizer.zero_grad()
        loss = -objective(model(X), t)
        loss.backward()
        optimizer.step()
    return -loss.item() * len(X)


# Counts, weights, order


@pytest.mark.parametrize("kwargs", [{}, {"n_inducing": 12}, {"n_inducing": 12, "batch_size": 20}])
def test_counts_are_repeated_rows_are_weights_and_order_does_not_matter(kwargs):
    X, counts = waves(50, raters=4)
    gp = SparseGPClassifier("matern52", random_state=0, **kwargs)
    new = np.random.default_rng(1).uniform(-3, 3, (20, 2))
    expected = gp.fit(X, counts).predict_proba(new)
    rows, labels = np.repeat(np.arange(50), 2), np.tile([0, 1], 50)
    repeated = np.repeat(np.arange(100), counts.ravel())
    np.testing.assert_allclose(
        gp.fit(X[rows][repeated], labels[repeated]).predict_proba(new), expected, atol=1e-7
    )
    weighted = gp.fit(X[rows], labels, sample_weight=counts.ravel())
    np.testing.assert_allclose(weighted.predict_proba(new), expected, atol=1e-7)
    order = np.random.default_rng(0).permutation(50)
    np.testing.assert_allclose(
        gp.fit(X[order], counts[order]).predict_proba(new), expected, atol=1e-7
    )


def test_known_probabilities_are_one_label_a_row():
    X, counts = waves(40, raters=4)
    gp = fixed()
    known = gp.fit(X, KnownProbabilities(counts / 4)).predict_proba(X)
    np.testing.assert_allclose(
        gp.fit(X, counts, sample_weight=np.full(40, 0.25)).predict_proba(X), known, atol=1e-9
    )


# Precision, batches, seeds


@pytest.mark.parametrize("polish", [False, True])
def test_float32_agrees_with_float64(polish):
    X, counts = waves(300, raters=2)
    double, single = (
        SparseGPClassifier(n_inducing=40, dtype=dtype, polish=polish, random_state=0).fit(X, counts)
        for dtype in ("float64", "float32")
    )
    np.testing.assert_allclose(single.predict_proba(X), double.predict_proba(X), atol=5e-3)
    np.testing.assert_allclose(single.elbo_[-1], double.elbo_[-1], rtol=1e-3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_predictions_do_not_depend_on_the_other_rows(n_classes, monkeypatch):
    monkeypatch.setattr("sklearn_lhcal.gaussian_process._variational._BLOCK", 20 * 1000)
    data = make_label_histograms(80, n_classes=n_classes, random_state=0)
    gp = SparseGPClassifier(n_inducing=20, random_state=0).fit(data.X, data.counts)
    many = np.random.default_rng(0).normal(size=(3500, data.X.shape[1]))
    p = gp.predict_proba(many)
    np.testing.assert_allclose(gp.predict_proba(many[-5:]), p[-5:], atol=1e-10)
    np.testing.assert_allclose(gp.predict_proba(many[:1]), p[:1], atol=1e-10)


def test_blocks_add_up(monkeypatch):
    X, counts = waves(200)
    whole = fixed(n_inducing=20).fit(X, counts)
    monkeypatch.setattr("sklearn_lhcal.gaussian_process._variational._BLOCK", 20 * 17)
    monkeypatch.setattr("sklearn_lhcal.gaussian_process._classifier._KEPT", 0)
    blocks = fixed(n_inducing=20).fit(X, counts)
    np.testing.assert_allclose(blocks.elbo_, whole.elbo_, rtol=1e-10)
    np.testing.assert_allclose(blocks.predict_proba(X), whole.predict_proba(X), atol=1e-9)


def test_mini_batches_come_near_the_optimum():
    X, counts = waves(2000)
    exact = fixed(n_inducing=20).fit(X, counts)
    near = fixed(n_inducing=20, batch_size=200, tol=3e-4).fit(X, counts)
    assert near.n_iter_ < 8
    assert exact.elbo_[-1] - 1.0 < near.elbo_[-1] <= exact.elbo_[-1] + 1e-6
    np.testing.assert_allclose(near.predict_proba(X), exact.predict_proba(X), atol=0.02)


def test_much_data_is_taken_in_batches(monkeypatch):
    monkeypatch.setattr("sklearn_lhcal.gaussian_process._classifier._EXACT", 1e4)
    X, counts = waves(500)
    gp = SparseGPClassifier(n_inducing=10, random_state=0).fit(X, counts)
    assert gp.n_iter_ == 4  # an epoch, three exact passes
    assert gp.score(X, counts) > 0.75


@pytest.mark.parametrize("n_classes", [2, 3])
def test_seeds_are_honoured_and_global_states_untouched(n_classes):
    data = make_label_histograms(100, n_classes=n_classes, random_state=0)
    before = np.random.get_state()[1].copy(), torch.random.get_rng_state().clone()  # noqa: NPY002
    fits = [
        SparseGPClassifier(n_inducing=15, batch_size=30, random_state=seed).fit(data.X, data.counts)
        for seed in (0, 0, np.random.RandomState(0), 1)
    ]
    p = [gp.predict_proba(data.X) for gp in fits]
    np.testing.assert_array_equal(before[0], np.random.get_state()[1])  # noqa: NPY002
    assert torch.equal(before[1], torch.random.get_rng_state())
    np.testing.assert_array_equal(p[0], p[1])
    np.testing.assert_array_equal(p[0], p[2])
    np.testing.assert_array_equal(p[0], fits[0].predict_proba(data.X))
    assert not np.array_equal(p[0], p[3])


def test_callers_arrays_are_left_alone():
    X, counts = waves(30)
    w = np.ones(30)
    for a in (X, counts, w):
        a.flags.writeable = False
    SparseGPClassifier(n_inducing=10, random_state=0).fit(X, counts, sample_weight=w).predict_proba(
        X
    )


# More classes


def test_latents_are_those_of_one_class_against_the_rest():
    data = make_label_histograms(60, n_classes=3, random_state=0)
    gp = fixed(lengthscale=2.0).fit(data.X, data.counts)
    mean, scale = gp._log_odds((data.X - gp._center) / gp._unit)
    for k in range(3):
        own = data.counts[:, k]
        binary = fixed(lengthscale=2.0).fit(
            data.X, np.column_stack([data.counts.sum(axis=1) - own, own])
        )
        d = binary.predict_dist(data.X)
        np.testing.assert_allclose(d.loc, mean[k], atol=1e-4)
        np.testing.assert_allclose(d.scale, scale[k], rtol=1e-4)
        assert binary.mean_[0] == pytest.approx(gp.mean_[k], abs=1e-4)


def test_draws_of_more_classes_are_normalised_and_nearly_integrate():
    data = make_label_histograms(100, n_classes=4, random_state=0)
    gp = SparseGPClassifier(random_state=0).fit(data.X, data.counts)
    d = gp.predict_dist(data.X)
    assert isinstance(d, Ensemble)
    assert d.proba.shape == (128, 100, 4)
    np.testing.assert_allclose(d.proba.sum(axis=2), 1, rtol=1e-12)
    mean, scale = gp._log_odds((data.X - gp._center) / gp._unit)
    g = mean.T + scale.T * np.random.default_rng(0).normal(size=(20_000, 1, 4))
    z = expit(g) / expit(g).sum(axis=2, keepdims=True)
    np.testing.assert_allclose(d.mean(), z.mean(axis=0), atol=0.01)


@pytest.mark.parametrize("n_classes", [3, 5])
def test_the_order_of_the_classes_does_not_matter(n_classes):
    data = make_label_histograms(80, n_classes=n_classes, random_state=0)
    new = np.random.default_rng(0).normal(size=(40, data.X.shape[1]))
    for learned in (False, True):
        gp = SparseGPClassifier(n_inducing=30, random_state=0, optimize_hyperparameters=learned)
        expected = gp.fit(data.X, data.counts).predict_dist(new).proba
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(n_classes)
            permuted = gp.fit(data.X, data.counts[:, order]).predict_dist(new).proba
            np.testing.assert_allclose(permuted, expected[:, :, order], atol=1e-6)


# A classifier among others


def test_predict_proba_is_the_mean_of_predict_dist():
    for n_classes in (2, 3):
        data = make_label_histograms(60, n_classes=n_classes, random_state=0)
        gp = SparseGPClassifier(n_inducing=20, random_state=0).fit(data.X, data.counts)
        np.testing.assert_allclose(
            gp.predict_proba(data.X), gp.predict_dist(data.X).mean(), atol=1e-12
        )
        np.testing.assert_array_equal(gp.predict(data.X), gp.predict_proba(data.X).argmax(axis=1))


def test_it_lives_in_pipelines_and_searches_on_counts():
    data = make_label_histograms(120, n_classes=3, random_state=0)
    pipe = make_pipeline(
        StandardScaler(), PCA(3), SparseGPClassifier(n_inducing=20, random_state=0)
    )
    grid = {"sparsegpclassifier__kernel": ["rbf", "matern32"]}
    search = GridSearchCV(pipe, grid, scoring="neg_histogram_log_loss", cv=2).fit(
        data.X, data.counts
    )
    d = predict_dist(search, data.X)
    assert isinstance(d, Ensemble)
    np.testing.assert_allclose(d.mean(), search.predict_proba(data.X), atol=1e-12)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_named_classes_are_sorted_and_a_class_may_have_no_label():
    X, counts = waves(40)
    frame = pd.DataFrame({"yes": counts[:, 1], "never": 0, "no": counts[:, 0]})
    gp = SparseGPClassifier(random_state=0).fit(X, frame)
    assert gp.classes_.tolist() == ["never", "no", "yes"]
    assert set(gp.predict(X)) <= {"no", "yes"}
    assert gp.predict_proba(X)[:, 0].max() < 0.1


def test_one_class_is_certain():
    gp = SparseGPClassifier().fit([[0.0], [1.0]], ["a", "a"])
    assert isinstance(gp.predict_dist([[3.0]]), PointMass)
    assert gp.predict([[3.0]]).tolist() == ["a"]
    assert gp.score([[3.0], [4.0]], ["a", "a"]) == 1
    with pytest.raises(ValueError, match=r"not known: \['b'\]"):
        gp.score([[3.0]], ["b"])


def test_rows_that_are_all_alike_are_one_point():
    gp = SparseGPClassifier().fit(np.ones((5, 2)), [0, 1, 1, 1, 1])
    assert gp.predict_proba([[1.0, 1.0]])[0, 1] == pytest.approx(0.8, abs=0.05)


def test_the_units_of_x_do_not_matter():
    X, counts = waves(80)
    a = SparseGPClassifier(n_inducing=30, random_state=0).fit(X, counts)
    b = SparseGPClassifier(n_inducing=30, random_state=0).fit(1000 * X + 7, counts)
    np.testing.assert_allclose(b.predict_proba(1000 * X + 7), a.predict_proba(X), atol=2e-3)
    assert b.lengthscale_ == pytest.approx(1000 * a.lengthscale_, rel=0.01)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"kernel": "linear"}, "kernel must be one of"),
        ({"dtype": "float16"}, "dtype must be one of"),
        ({"n_inducing": 0}, "n_inducing must be an int of at least 1"),
        ({"max_iter": 1.5}, "max_iter must be an int of at least 1"),
        ({"batch_size": "all"}, 'batch_size must be None, "auto" or an int'),
        ({"variance": 0.0}, "variance must be positive"),
        ({"lengthscale": [1.0, np.nan]}, "lengthscale must be positive"),
        ({"device": "cuda:99"}, "device"),
    ],
)
def test_bad_parameters_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        SparseGPClassifier(**kwargs).fit(*waves(10))


def test_too_few_passes_are_said_to_be_too_few():
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        fixed(max_iter=2).fit(*waves(40, raters=5))
