"""GPyTorch's sparse Gaussian process classifier, the peer of ours.

It has the same kernel, number of inducing points and start, the same inducing points, a logistic
likelihood with Pólya–Gamma bound, natural gradients (step 0.1) for q and Adam (step 0.05) for
variance, lengthscale and mean, in float32 as ours."""

import time

import numpy as np


def log_loss(mean, scale, y):
    """Mean log loss of held-out labels, nats, by normal log-odds, (n,), or K latents, (K, n)."""
    import torch
    from scipy.special import ndtri, softmax

    from sklearn_lhcal.distributions import LogisticNormal

    if mean.ndim == 1:
        return -float(LogisticNormal(mean, scale).log_prob_counts(y).mean())
    # 128 quasi-random draws
    sobol = torch.quasirandom.SobolEngine(len(mean), scramble=True, seed=0)
    uniform = sobol.draw(128, dtype=torch.float64).clamp(1e-9, 1 - 1e-9).numpy()
    z = softmax(mean + scale * ndtri(uniform)[:, :, None], axis=1).mean(axis=0)
    return -float(np.log(z[y, np.arange(len(y))]).mean())


def gpytorch_losses(X, y, X_test, y_test, m, epochs, clock=time.perf_counter):
    """Seconds and held-out losses of GPyTorch while it trains.

    More than two classes have a latent each, with one kernel for all, and a softmax likelihood.
    """
    import warnings

    warnings.simplefilter("ignore")
    import torch

    from sklearn_lhcal.gaussian_process import SparseGPClassifier

    n = len(X)
    quick = SparseGPClassifier(
        n_inducing=m, optimize_hyperparameters=False, max_iter=1, tol=1e9, random_state=0
    )
    quick.fit(X, y)  # inducing points and the start of the lengthscale
    torch.manual_seed(0)
    X, X_test, Z = (
        torch.tensor(a, dtype=torch.float32) for a in (X, X_test, quick.inducing_points_)
    )
    n_classes = len(quick.classes_)
    t = torch.tensor(y[None] == np.arange(n_classes)[:, None]).float()
    if n_classes == 2:
        t = 2 * t[1] - 1
    model, likelihood = gpytorch_model(Z, quick.lengthscale_, t.shape[:-1])
    objective, natural, adam = gpytorch_optimizers(model, likelihood, n)
    batch, seconds, history = 1024, 0.0, []
    steps = -(-n // batch)
    for _ in range(epochs):
        for i, rows in enumerate(torch.randperm(n).split(batch)):
            start = clock()
            natural.zero_grad()
            adam.zero_grad()
            (-objective(model(X[rows]), t[..., rows]).sum()).backward()
            natural.step()
            adam.step()
            seconds += clock() - start
            if i % max(1, steps // 4) == steps // 8:
                model.eval()
                with torch.no_grad():
                    q = model(X_test)
                    moments = q.mean.double().numpy(), q.stddev.double().numpy()
                history.append((seconds, log_loss(*moments, y_test)))
                model.train()
    return history


def gpytorch_model(Z, lengthscale, latents=()):
    """GPyTorch's sparse model at our start, of one latent or, for (K,), of K with one kernel.

    And a logistic likelihood with the Pólya–Gamma bound, or a softmax likelihood by ten draws (as
    many as GPyTorch's own has), with the targets 0 and 1.
    """
    import gpytorch
    import torch

    shape = torch.Size(latents)

    class Likelihood(gpytorch.likelihoods._OneDimensionalLikelihood):
        def expected_log_prob(self, target, input, *args, **kwargs):
            mean, var = input.mean, input.variance
            c = torch.sqrt(mean.detach() ** 2 + var.detach())
            theta = torch.tanh(c / 2) / (2 * c)
            return (target * mean - theta * (mean**2 + var)) / 2

        def forward(self, f):
            return torch.distributions.Bernoulli(logits=f)

    class Softmax(Likelihood):
        def expected_log_prob(self, target, input, *args, **kwargs):
            g = input.mean + input.stddev * torch.randn(10, *input.mean.shape)
            return (target * g.log_softmax(dim=-2)).mean(dim=0)

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self):
            q = gpytorch.variational.NaturalVariationalDistribution(len(Z), batch_shape=shape)
            super().__init__(
                gpytorch.variational.VariationalStrategy(self, Z, q, learn_inducing_locations=False)
            )
            base = gpytorch.kernels.RBFKernel()
            base.lengthscale = lengthscale
            self.mean_module, self.covar_module = (
                gpytorch.means.ConstantMean(batch_shape=shape),
                gpytorch.kernels.ScaleKernel(base),
            )
            self.covar_module.outputscale = 1.0

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    likelihood = Softmax() if latents else Likelihood()
    return Model().train(), likelihood.train()


def gpytorch_optimizers(model, likelihood, n, hyper_step=0.05):
    """Objective, natural gradients for q, Adam for the rest."""
    import gpytorch
    import torch

    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=n)
    natural = gpytorch.optim.NGD(model.variational_parameters(), num_data=n, lr=0.1)
    return objective, natural, torch.optim.Adam(model.hyperparameters(), lr=hyper_step)
