"""Inference of the Gaussian process: dense integration, MCMC, GPyTorch and its bound.

Private modules are imported: the bound and its gradient are compared one evaluation at a time.
"""

import warnings

import numpy as np
import pytest
import torch
from gaussian_process_cases import fixed, waves
from scipy import stats
from scipy.spatial.distance import cdist, pdist
from scipy.special import expit, log_expit, softmax

from sklearn_lhcal.distributions import Ensemble
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.gaussian_process._hyperparameters import Learned, gradient, learn
from sklearn_lhcal.gaussian_process._likelihoods import Dirichlet, Logistic, Settled, normal_draws
from sklearn_lhcal.gaussian_process._variational import (
    MEAN_VARIANCE,
    Data,
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
        return Features(Data(X, Z, labels, torch.float64), make_kernel(p), keep=True)

    p = torch.tensor([0.3, 0.1, 0.4], dtype=torch.float64)
    terms = Logistic().local
    latent, _ = solve(sweep(features(p), prior(2, Z), terms), make_kernel(p).variance)
    local = local_terms(features(p), latent, terms)

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
    start = Learned(Logistic(), kernel, prior(1, Z))
    data = Data(X, Z, labels, torch.float64)
    learn(data, start, report=reports.append, max_iter=30, tol=1e-5)
    assert len(reports) > 3
    assert max(reports) > reports[0] + 1
    assert max(reports) < reports[-1] + 1e-3


GPYTORCH = {"rbf": None, "matern12": 0.5, "matern32": 1.5, "matern52": 2.5}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", GPYTORCH)
@pytest.mark.parametrize("n_inducing", [30, 60])
def test_the_bound_is_that_of_gpytorch(kernel, n_inducing):
    """The same likelihood and inducing points; a constant in the kernel in place of our mean.

    With all samples inducing the models are one. With fewer, theirs knows the sum of process and
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


# More classes: a regression


def three_classes(n=30, raters=3, slope=3.0):
    """Rows in the plane, and counts of three classes: the smaller the slope, the noisier."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (n, 2))
    p = softmax(slope * np.column_stack([X, np.sin(3 * X[:, 0])]), axis=1)
    return X, rng.multinomial(raters, p)


class DenseRegression:
    """The exact process of each class on targets of which moments are those of gamma variables."""

    def __init__(self, X, counts, epsilon, noise=0.0, variance=2.0, lengthscale=0.8):
        self.kernel = {"variance": variance, "lengthscale": lengthscale}
        self.X = X
        alpha = counts.T + epsilon
        # E and Var of exp(N(t, s)) are exp(t + s/2) and (exp(s) − 1)·exp(2t + s): both are α
        self.s = np.log(1 + alpha / alpha**2)
        self.t = np.log(alpha) - self.s / 2
        self.K = [covariance_with_mean(X, X, **self.kernel) + np.diag(s + noise) for s in self.s]

    def moments(self, new):
        """Of each class at new rows, both (K, rows)."""
        k = covariance_with_mean(self.X, new, **self.kernel)
        mean = [k.T @ np.linalg.solve(K, t) for K, t in zip(self.K, self.t, strict=True)]
        less = [np.einsum("ij,ij->j", k, np.linalg.solve(K, k)) for K in self.K]
        return np.array(mean), self.kernel["variance"] + MEAN_VARIANCE - np.array(less)

    def evidence(self):
        """Log density of all targets."""
        normal = stats.multivariate_normal
        return sum(normal.logpdf(t, cov=K) for t, K in zip(self.t, self.K, strict=True))


@pytest.mark.parametrize("raters", [1, 4])
@pytest.mark.parametrize("n", [3, 30])
def test_more_classes_are_the_exact_regression(n, raters):
    """Every row an inducing point; near the rows, between them and far away."""
    X, counts = three_classes(n, raters)
    gp = fixed().fit(X, counts)
    dense = DenseRegression(X, counts, gp.alpha_epsilon_)
    new = np.random.default_rng(1).uniform(-6, 6, (50, 2))
    mean, var = dense.moments(new)
    found, scale = gp._log_odds((new - gp._center) / gp._unit)
    # what is added to the diagonal is a millionth of the variance
    np.testing.assert_allclose(found, mean, atol=1e-3)
    np.testing.assert_allclose(scale**2, var, rtol=1e-3)
    assert gp.elbo_[-1] == pytest.approx(dense.evidence(), abs=1e-3)
    draws = np.random.default_rng(0).normal(size=(20_000, 3, 1))
    expected = softmax(mean + np.sqrt(var) * draws, axis=1).mean(axis=0).T
    np.testing.assert_allclose(gp.predict_proba(new), expected, atol=0.02)


def test_fewer_inducing_points_are_a_lower_bound():
    X, counts = three_classes(60)
    found = [fixed(n_inducing=m).fit(X, counts) for m in (5, 20, 60)]
    epsilon = {gp.alpha_epsilon_ for gp in found}
    assert len(epsilon) == 1
    bounds = [gp.elbo_[-1] for gp in found]
    assert (
        bounds[0] < bounds[1] < bounds[2] < DenseRegression(X, counts, *epsilon).evidence() + 0.01
    )


@pytest.mark.parametrize("kernel", ["rbf", "matern32"])
def test_the_gradient_of_the_regression_is_that_of_finite_differences(kernel):
    X, Z, labels = problem(C=3)

    def settled(p):
        there = kernel_of(kernel, p.exp()[0], p.exp()[1:3])
        features = Features(Data(X, Z, labels, torch.float64), there, keep=True)
        likelihood = Dirichlet(0.1, 1.0).at(p[3:])
        at = likelihood.settled(features, None)
        return at.bound, gradient(features, at), likelihood.slope(features, at)

    p = torch.tensor([0.3, 0.1, 0.4, -1.0], dtype=torch.float64)
    h = 1e-4 * torch.eye(4, dtype=torch.float64)
    values = [[settled(p + s * e)[0] for s in (1, -1)] for e in h]
    found = torch.cat(settled(p)[1:])
    np.testing.assert_allclose(found, [(up - down) / 2e-4 for up, down in values], rtol=1e-4)


def rows_with_draws_of_their_own(n, raters):
    """Labels of a row agree by a draw of its own, which says nothing about other rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (n, 2))
    mean = softmax(np.column_stack([X, np.zeros(n)]), axis=1)
    q = rng.standard_gamma(3 * mean)
    return X, mean, rng.multinomial(raters, q / q.sum(axis=1, keepdims=True))


def test_kernel_and_noise_of_more_classes_are_a_maximum_of_the_evidence():
    X, _, counts = rows_with_draws_of_their_own(60, 10)
    gp = SparseGPClassifier(random_state=0).fit(X, counts)
    learned = {"variance": gp.variance_, "lengthscale": gp.lengthscale_}
    learned["noise"] = gp.noise_variance_
    best = DenseRegression(X, counts, gp.alpha_epsilon_, **learned).evidence()
    assert gp.elbo_[-1] == pytest.approx(best, abs=1e-2)
    for name, factor in ((name, f) for name in learned for f in (0.7, 1 / 0.7)):
        other = learned | {name: factor * learned[name]}
        # the search ends with a rise of 3e-5 of the evidence
        assert DenseRegression(X, counts, gp.alpha_epsilon_, **other).evidence() < best + 0.05


def loss_of_fits_without(X, counts, epsilon):
    """Mean log loss of each row's labels by the exact regression on all other rows."""
    z = np.random.default_rng(0).normal(size=(20_000, 3))
    total = 0.0
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        dense = DenseRegression(X[others], counts[others], epsilon)
        mean, var = (a[:, 0] for a in dense.moments(X[[i]]))
        total -= np.log(softmax(mean + np.sqrt(var) * z, axis=1).mean(axis=0)) @ counts[i]
    return total / counts.sum()


@pytest.mark.parametrize("epsilon", [0.001, 0.1])
def test_the_loss_of_rows_left_out_is_that_of_fits_without_them(epsilon):
    X, counts = three_classes()
    gp = fixed().fit(X, counts)
    order = np.lexsort(X.T[::-1])
    scaled = torch.tensor((X[order] - gp._center) / gp._unit)
    labels = Labels(*(torch.tensor(a).double() for a in (np.full((3, 30), 3), counts[order].T)))
    likelihood = Dirichlet(epsilon, 0.0)
    features = Features(Data(scaled, gp._Z, labels, torch.float64), gp._kernel)
    *_, (latent, _) = likelihood.ascent(features, prior(3, gp._Z))
    draws = normal_draws(latent.mean, 0)
    found = likelihood.left_out_loss(features, latent, draws)
    # 128 draws; seen: .4 %
    assert found == pytest.approx(loss_of_fits_without(X, counts, epsilon), rel=0.03)


def test_epsilon_has_the_smallest_loss_of_rows_left_out_and_noise_needs_a_larger_one():
    found = []
    for slope in (20.0, 1.0):
        X, counts = three_classes(40, slope=slope)
        epsilon = fixed().fit(X, counts).alpha_epsilon_
        here, *beside = (loss_of_fits_without(X, counts, epsilon * f) for f in (1, 0.1, 10))
        # the walk ends where a step gains less than a thousandth
        assert here < 1.002 * min(beside)
        found.append(epsilon)
    assert found[0] < found[1]


def test_labels_of_one_row_that_have_more_in_common_are_not_followed():
    X, mean, counts = rows_with_draws_of_their_own(150, 50)
    gp = SparseGPClassifier(n_inducing=50, random_state=0).fit(X, counts)
    assert gp.noise_variance_ > 0.2
    # seen: .046, and .074 without the noise
    assert np.abs(gp.predict_proba(X) - mean).mean() < 0.06
