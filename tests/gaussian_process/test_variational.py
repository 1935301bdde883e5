"""Inference of the Gaussian process: dense integration, MCMC, GPyTorch and its bound.

Private modules are imported: the bound and its gradient are compared one evaluation at a time.
"""

import warnings

import numpy as np
import pytest
import torch
from gaussian_process_cases import fixed, waves
from scipy.spatial.distance import cdist, pdist
from scipy.special import expit, log_expit, logsumexp, softmax

from sklearn_lhcal.distributions import Ensemble
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.gaussian_process._hyperparameters import gradient, learn
from sklearn_lhcal.gaussian_process._likelihoods import Logistic, Settled, Softmax, nodes
from sklearn_lhcal.gaussian_process._variational import (
    MEAN_VARIANCE,
    Features,
    Labels,
    local_terms,
    prior,
    solve,
    sums_of,
    sweep,
)

KERNELS = ["rbf", "matern12", "matern32", "matern52"]


def kernel_of(name, variance, lengthscale):
    """That of a classifier, with other hyper-parameters."""
    fitted = fixed(name, max_iter=1).fit(*waves(5))
    return fitted._kernel._replace(variance=variance, lengthscale=lengthscale)


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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.parametrize("kernel", KERNELS)
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
    return X, X[:m].clone(), Labels(n_labels, y)


def test_the_first_lengthscale_lies_between_neighbours_and_pairs():
    """One of five, by distances of inducing points; their own is 0, not a rounding error."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(121, 6)) + 3
    gp = SparseGPClassifier(n_inducing=121, optimize_hyperparameters=False)
    gp.fit(X, X[:, 0] + X[:, 1] > 6)
    between = cdist(X, X)
    near = np.sort(np.where(between > 0, between, np.inf).min(axis=1))[60]
    pairs = np.sort(pdist(X))
    candidates = np.geomspace(near, pairs[(len(pairs) - 1) // 2], 5)
    assert np.isclose(candidates, gp.lengthscale_, rtol=1e-9).any()


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_gradient_is_that_of_finite_differences(kernel):
    X, Z, labels = problem()

    def make_kernel(p):
        return kernel_of(kernel, p.exp()[0], p.exp()[1:])

    def features(p):
        return Features(X, Z, make_kernel(p), dtype=torch.float64, keep=True)

    p = torch.tensor([0.3, 0.1, 0.4], dtype=torch.float64)
    terms = Logistic().local
    latent, _ = solve(sweep(features(p), labels, prior(2, Z), terms), make_kernel(p).variance)
    local = local_terms(features(p), labels, latent, terms)

    def best(p):
        sums = sums_of(features(p), local)
        return Settled(local, sums, *solve(sums, make_kernel(p).variance))

    h = 1e-4 * torch.eye(3, dtype=torch.float64)
    values = [[best(p + s * e).bound for s in (1, -1)] for e in h]
    found = gradient(features(p), best(p))
    np.testing.assert_allclose(found, [(up - down) / 2e-4 for up, down in values], rtol=1e-4)


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
    reports, kernel = [], kernel_of("rbf", X.new_tensor(1.0), X.new_tensor([0.3]))
    options = {"dtype": torch.float64, "max_iter": 30, "tol": 1e-5}
    learn(X, Z, labels, Logistic(), kernel, prior(1, Z), report=reports.append, **options)
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


# More classes: the softmax


def softmax_problem(K=3, n=40, m=15):
    rng = np.random.default_rng(0)
    X = torch.tensor(rng.normal(size=(n, 2)))
    n_labels = rng.integers(1, 5, n)
    y = rng.multinomial(n_labels, rng.dirichlet(np.ones(K), n)).T
    labels = Labels(torch.tensor(n_labels).double().expand(K, n), torch.tensor(y).double())
    return X, X[:m].clone(), labels


@pytest.mark.parametrize("K", [3, 16, 20])
def test_nodes_integrate_cubic_polynomials(K):
    """Of 16 classes at a time; of others nearly."""
    z = nodes(K, 0)
    assert z.shape == (32, K)
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-12)
    second = z.T @ z / 32
    for part in (slice(0, 16), slice(16, K)):
        np.testing.assert_allclose(second[part, part], np.eye(K)[part, part], atol=1e-12)
    np.testing.assert_allclose(np.einsum("si,sj,sk->ijk", z, z, z), 0, atol=1e-10)


def test_softmax_terms_are_derivatives_of_the_expected_log_likelihood():
    """κ − θm is that in the mean, at every q; θ is the mean of p(1 − p)."""
    _, _, labels = softmax_problem(n=10)
    rng = np.random.default_rng(1)
    mean, var = torch.tensor(rng.normal(size=(3, 10))), torch.tensor(rng.uniform(0.2, 2, (3, 10)))
    likelihood = Softmax(torch.tensor(nodes(3, 0)))
    here = likelihood.local(labels, mean, var)
    for k in range(3):
        e = torch.zeros_like(mean)
        e[k] = 1e-5
        up, down = (likelihood.local(labels, mean + s * e, var).constant.sum(0) for s in (1, -1))
        np.testing.assert_allclose(
            (here.kappa - here.theta * mean)[k], (up - down) / 2e-5, atol=1e-6
        )
    g = mean.numpy() + np.sqrt(var.numpy()) * rng.normal(size=(50_000, 3, 1))
    p = softmax(g, axis=1)
    np.testing.assert_allclose(
        (here.theta / labels.n).numpy(), (p * (1 - p)).mean(axis=0), atol=0.01
    )
    expected = (labels.y * mean).sum(0).numpy()
    expected -= labels.n[0].numpy() * logsumexp(g, axis=1).mean(axis=0)
    np.testing.assert_allclose(here.constant.sum(0), expected, atol=0.05)


@pytest.mark.parametrize("kernel", ["rbf", "matern32"])
def test_the_gradient_of_the_softmax_is_that_of_finite_differences(kernel):
    """At the best q, which need not be followed to the side."""
    X, Z, labels = softmax_problem()
    likelihood = Softmax(torch.tensor(nodes(3, 0)))

    def features(p):
        there = kernel_of(kernel, p.exp()[0], p.exp()[1:])
        return Features(X, Z, there, dtype=torch.float64, keep=True)

    def best(p):
        start = likelihood.start(labels, Z)
        *_, (latent, _) = likelihood.ascent(features(p), labels, start, max_iter=200, tol=1e-9)
        local = local_terms(features(p), labels, latent, likelihood.local)
        sums = sums_of(features(p), local)
        bound = likelihood.bound(sums, latent, p.exp()[0])
        return Settled(local, sums, latent, bound)

    p = torch.tensor([0.3, 0.1, 0.4], dtype=torch.float64)
    h = 1e-2 * torch.eye(3, dtype=torch.float64)
    values = [[best(p + s * e).bound for s in (1, -1)] for e in h]
    found = gradient(features(p), best(p))
    # θ stands for the derivative in the variance, whose nodes are 32
    np.testing.assert_allclose(found, [(up - down) / 2e-2 for up, down in values], atol=0.05)


def weighted_draws(counts, K, n_draws=2**16):
    """Draws of three latents at two points from the prior, and their likelihoods."""
    root = np.linalg.cholesky(K)
    z = np.random.default_rng(0).normal(size=(n_draws, len(counts[0]), len(K)))
    g = z @ root.T
    log_p = g - logsumexp(g, axis=1, keepdims=True)
    return g, (np.transpose(counts) * log_p).sum(axis=(1, 2))


@pytest.mark.parametrize("counts", [[[1, 0, 0], [0, 1, 0]], [[2, 1, 0], [0, 1, 1]]])
def test_two_points_of_three_classes_agree_with_weighted_draws(counts):
    """The bound, and what the classifier predicts, by importance sampling from the prior."""
    X = np.array([[0.0, 0.0], [0.7, 0.2]])
    gp = fixed().fit(X, counts)
    g, log_weight = weighted_draws(counts, covariance_with_mean(X, X))
    log_evidence = logsumexp(log_weight) - np.log(len(g))
    # the sum of the latents is free, and independent latents cannot say so
    assert log_evidence - 3 < gp.elbo_[-1] < log_evidence
    weight = softmax(log_weight)
    expected = np.einsum("s,skn->nk", weight, softmax(g, axis=1))
    np.testing.assert_allclose(gp.predict_proba(X), expected, atol=0.06)


def test_the_bound_of_the_softmax_never_falls():
    X, counts = waves(60, raters=3)
    third = np.random.default_rng(0).binomial(3, 0.3, 60)
    gp = fixed(n_inducing=20).fit(X, np.column_stack([counts, third]))
    assert len(gp.elbo_) > 5
    assert (np.diff(gp.elbo_) >= 0).all()


@pytest.mark.slow
def test_the_loss_of_rows_left_out_is_that_of_fits_without_them():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (30, 2))
    p = softmax(2 * np.column_stack([X, np.sin(3 * X[:, 0])]), axis=1)
    counts = rng.multinomial(3, p)
    gp = fixed().fit(X, counts)
    order = np.lexsort(X.T[::-1])
    scaled = torch.tensor((X[order] - gp._center) / gp._unit)
    labels = Labels(*(torch.tensor(a).double() for a in (np.full((3, 30), 3), counts[order].T)))
    likelihood = Softmax(torch.tensor(nodes(3, 0)))
    features = Features(scaled, gp._Z, gp._kernel, dtype=torch.float64)
    local = local_terms(features, labels, gp._latent, likelihood.local)
    found = likelihood.left_out_loss(features, labels, gp._latent, local)
    losses = []
    for i in range(30):
        others = np.arange(30) != i
        without = fixed(tol=1e-6).fit(X[others], counts[others])
        losses.append(-np.log(without.predict_proba(X[[i]])[0]) @ counts[i] / 3)
    # κ and θ of the others are those with the row; seen: 6 %
    assert found == pytest.approx(np.mean(losses), rel=0.15)
    fitted = -(np.log(gp.predict_proba(X)) * counts).sum() / counts.sum()
    assert np.mean(losses) > 1.1 * fitted
    assert found > 1.1 * fitted


def test_labels_of_one_row_that_have_more_in_common_lessen_the_variance():
    """Fifty labels of a row agree by a draw of their own, which says nothing about other rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (150, 2))
    mean = softmax(np.column_stack([X, np.zeros(150)]), axis=1)
    q = rng.standard_gamma(3 * mean)
    counts = rng.multinomial(50, q / q.sum(axis=1, keepdims=True))
    gp = SparseGPClassifier(n_inducing=50, random_state=0).fit(X, counts)
    p = gp.predict_proba(X)
    assert np.abs(p - mean).mean() < 0.08
