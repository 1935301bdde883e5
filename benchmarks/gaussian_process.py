"""The Gaussian process classifier against GPyTorch's sparse one, on random checkerboards.

    python benchmarks/gaussian_process.py [small] [full] [--cpu]

GPyTorch: the same kernel, number of inducing points and start, the same inducing points, logistic
likelihood with Pólya–Gamma bound, natural gradients (step .1) for q and Adam (step .05) for
variance, lengthscale and mean, in float32 as ours. Printed: time of our whole fit (k-means
included), time in which GPyTorch comes within 1 % of its own best held-out log loss (evaluations
not counted), both final losses, and the peak memory of each, in a process of its own. With --cpu,
seconds are those of the processor, which tell more on a machine that others use too (one thread
each)."""

import json
import resource
import subprocess
import sys
import time

import numpy as np

CLOCK = time.process_time if "--cpu" in sys.argv else time.perf_counter
SIZES = {  # rows, inducing points, cells down and across, epochs of GPyTorch
    "small": (20_000, 400, 14, 17, 30),
    "full": (142_693, 1000, 38, 46, 12),
}


def data(size):
    """Training rows and 10 000 held-out ones."""
    from sklearn_lhcal.datasets import make_random_checkerboard

    n, _, n_rows, n_columns, _ = SIZES[size]
    X, y = make_random_checkerboard(n + 10_000, n_rows, n_columns, cell_std=0.3, random_state=0)
    return X[:n], y[:n], X[n:], y[n:]


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


def ours(size, dtype="float32"):
    """Seconds, held-out loss and inducing points of our fit."""
    from sklearn_lhcal.gaussian_process import SparseGPClassifier

    X, y, X_test, y_test = data(size)
    SparseGPClassifier(n_inducing=20, random_state=0).fit(X[:500], y[:500])  # warm-up
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = CLOCK()
    gp = SparseGPClassifier(n_inducing=SIZES[size][1], dtype=dtype, random_state=0).fit(X, y)
    seconds = CLOCK() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    d = gp.predict_dist(X_test)
    found = {"variance": gp.variance_, "lengthscale": gp.lengthscale_}
    return {
        "seconds": seconds,
        "loss": log_loss(d.loc, d.scale, y_test),
        "megabytes": memory / 1024,
    } | found


def gpytorch(size):
    """Seconds and held-out losses of GPyTorch, four evaluations an epoch."""
    X, y, X_test, y_test = data(size)
    _, m, _, _, epochs = SIZES[size]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    history, found = gpytorch_losses(X, y, X_test, y_test, m, epochs, CLOCK)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"history": history, "seconds": history[-1][0], "megabytes": memory / 1024} | found


def gpytorch_losses(X, y, X_test, y_test, m, epochs, clock=time.perf_counter):
    """Seconds and held-out losses of GPyTorch while it trains; its variance and lengthscale.

    More than two classes have a latent each, with one kernel for all, and a softmax likelihood.
    """
    import warnings

    warnings.simplefilter("ignore")
    import torch

    from sklearn_lhcal.gaussian_process import SparseGPClassifier

    n = len(X)
    quick = SparseGPClassifier(
        n_inducing=m, optimize_hyperparameters=False, max_iter=1, tol=np.inf, random_state=0
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
    found = {"variance": float(model.covar_module.outputscale)}
    found["lengthscale"] = float(model.covar_module.base_kernel.lengthscale)
    return history, found


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


def in_a_process(which, size) -> dict:
    """What one of the two returns, run alone in a fresh process."""
    command = [sys.executable, __file__, which, size, *[a for a in sys.argv if a == "--cpu"]]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def compare(size):
    """Run both and print."""
    n, m, n_rows, n_columns, epochs = SIZES[size]
    print(f"{size}: {n} rows, {m} inducing points, {n_rows} x {n_columns} cells")
    a = in_a_process("ours", size)
    print(
        f"  ours      {a['seconds']:7.1f} s, loss {a['loss']:.4f}, {a['megabytes']:.0f} MB, "
        f"variance {a['variance']:.3g}, lengthscale {a['lengthscale']:.3g}"
    )
    b = in_a_process("gpytorch", size)
    best = min(loss for _, loss in b["history"])
    near = next(seconds for seconds, loss in b["history"] if loss <= 1.01 * best)
    print(
        f"  GPyTorch  {near:7.1f} s to within 1 % of its best loss {best:.4f} ({epochs} epochs: "
        f"{b['seconds']:.1f} s, last {b['history'][-1][1]:.4f}), {b['megabytes']:.0f} MB, variance "
        f"{b['variance']:.3g}, lengthscale {b['lengthscale']:.3g}"
    )
    print(f"  ratio {near / a['seconds']:.1f}   our loss less its best: {a['loss'] - best:+.4f}")


def main() -> None:
    asked = [a for a in sys.argv[1:] if a != "--cpu"]
    if asked and asked[0] in ("ours", "gpytorch"):
        print(json.dumps({"ours": ours, "gpytorch": gpytorch}[asked[0]](asked[1])))
        return
    for size in asked or SIZES:
        compare(size)


if __name__ == "__main__":
    main()
