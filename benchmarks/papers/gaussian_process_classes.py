"""More than two classes in a Gaussian process: eight data sets, beside GPyTorch's Dirichlet model.

    python benchmarks/papers/gaussian_process_classes.py [--seeds 3] [--data digits wine ...]

Held-out log loss, share of held-out labels that are predicted, and seconds of processor time for
fit and prediction, means over splits. Columns of X are standardised by the training samples.

digits     300 of 1,797 images of 8 × 8, ten classes
iris       75 of 150 flowers, three classes
wine       90 of 178 wines, three classes
diabetes   300 of 442 patients, five classes: fifths of the progression, noisy and in order
mixed      400 of 1,350 digits, half of them mixed in pairs, ten classes (`load_mixed_digits`)
raters     300 of 2,000 simulated samples, four classes, two to six labels a sample
hypercube  400 of 2,000 simulated samples, six classes of two clusters each, a label in ten wrong
letters    600 of 2,000 simulated samples, 26 classes in eight dimensions

The peer is the model of GPyTorch's tutorial: exact, one kernel and mean a class, noise learnt, 50
steps of Adam (0.1), probabilities from 256 draws. It takes one label a sample: samples with several
are repeated. Ours has 500 inducing points, that is all samples but of letters."""

import argparse
import time
import warnings

import gpytorch
import numpy as np
import torch
from sklearn.datasets import (
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
    make_classification,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from sklearn_lhcal.datasets import load_mixed_digits, make_label_histograms
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.label_histogram import LabelHistogramClassifier
from sklearn_lhcal.metrics import expected_accuracy, label_log_loss


def diabetes():
    """Fifths of the progression after a year."""
    X, progression = load_diabetes(return_X_y=True)
    return X, np.searchsorted(np.quantile(progression, [0.2, 0.4, 0.6, 0.8]), progression)


def mixed():
    """All three parts, one label a sample."""
    data = load_mixed_digits(raters=1)
    X = np.concatenate([data.X_train, data.X_validation, data.X_test])
    proba = np.concatenate([data.proba_train, data.proba_validation, data.proba_test])
    u = check_random_state(0).uniform(size=(len(X), 1))
    return X, (proba.cumsum(axis=1) < u).sum(axis=1).clip(max=9)


def raters():
    """Label histograms."""
    data = make_label_histograms(2000, 4, (2, 6), random_state=0)
    return data.X, data.counts


def hypercube():
    """Clusters at the corners of a cube."""
    options = {"n_informative": 8, "n_classes": 6, "n_clusters_per_class": 2, "flip_y": 0.1}
    return make_classification(2000, 15, **options, random_state=0)


def letters():
    """Clusters that overlap."""
    return make_blobs(2000, 8, centers=26, cluster_std=4.0, random_state=0)


# samples for training, X and y
DATA = {
    "digits": (300, lambda: load_digits(return_X_y=True)),
    "iris": (75, lambda: load_iris(return_X_y=True)),
    "wine": (90, lambda: load_wine(return_X_y=True)),
    "diabetes": (300, diabetes),
    "mixed": (400, mixed),
    "raters": (300, raters),
    "hypercube": (400, hypercube),
    "letters": (600, letters),
}


class Dirichlet(gpytorch.models.ExactGP):
    """A latent a class, each with its own constant mean and kernel."""

    def __init__(self, X, y):
        likelihood = gpytorch.likelihoods.DirichletClassificationLikelihood(
            y, learn_additional_noise=True
        )
        super().__init__(X, likelihood.transformed_targets, likelihood)
        K = torch.Size((likelihood.num_classes,))
        self.mean_module = gpytorch.means.ConstantMean(batch_shape=K)
        self.covar_module = gpytorch.kernels.ScaleKernel(
            gpytorch.kernels.RBFKernel(batch_shape=K), batch_shape=K
        )

    def forward(self, x):
        """The prior at some samples."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def of_gpytorch(X, counts, X_test):
    """Class probabilities of test samples."""
    torch.manual_seed(0)
    row, label = counts.nonzero()
    times = counts[row, label]
    X = torch.tensor(X[np.repeat(row, times)], dtype=torch.float32)
    model = Dirichlet(X, torch.tensor(np.repeat(label, times)))
    model.train()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    adam = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(50):
        adam.zero_grad()
        loss = -objective(model(X), model.train_targets).sum()
        loss.backward()
        adam.step()
    model.eval()
    with torch.no_grad():
        draws = model(torch.tensor(X_test, dtype=torch.float32)).sample(torch.Size((256,)))
    return draws.double().softmax(1).mean(0).T.numpy()


def ours(X, counts, X_test):
    """Those of this package."""
    return SparseGPClassifier(random_state=0).fit(X, counts).predict_proba(X_test)


def logistic(X, counts, X_test):
    """Those of a logistic regression, which the counts weigh."""
    model = LabelHistogramClassifier(LogisticRegression(max_iter=2000))
    return model.fit(X, counts).predict_proba(X_test)


METHODS = {"ours": ours, "GPyTorch": of_gpytorch, "logistic": logistic}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Gaussian processes of several classes.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", choices=DATA, nargs="*", default=list(DATA))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{options.seeds} splits: log loss ± standard error, accuracy, seconds")
    print(f"{'data':11}{'classes':>7}" + "".join(f"{name:>27}" for name in METHODS))
    means = []
    for name in options.data:
        n, load = DATA[name]
        X, y = load()
        counts = y if y.ndim == 2 else np.eye(y.max() + 1, dtype=int)[y]
        found = []
        for seed in range(options.seeds):
            parts = train_test_split(X, counts, train_size=n, random_state=seed)
            scaler = StandardScaler().fit(parts[0])
            train, test = (scaler.transform(part) for part in parts[:2])
            for method in METHODS.values():
                start = time.process_time()
                p = method(train, parts[2], test)
                took = time.process_time() - start
                loss = label_log_loss(parts[3], p)
                found.append((loss, expected_accuracy(parts[3], p), took))
        found = np.array(found).reshape(options.seeds, len(METHODS), 3)
        spread = found[:, :, 0].std(axis=0, ddof=1) / np.sqrt(options.seeds)
        line = f"{name:11}{counts.shape[1]:7}"
        for (loss, accuracy, took), error in zip(found.mean(axis=0), spread, strict=True):
            line += f"{loss:11.3f} ± {error:.3f}{accuracy:5.2f}{took:5.1f} s".rjust(27)
        print(line, flush=True)
        means.append(found.mean(axis=0))
    line = f"{'mean':11}{'':7}"
    for loss, accuracy, took in np.mean(means, axis=0):
        line += f"{loss:11.3f}{'':8}{accuracy:5.2f}{took:5.1f} s".rjust(27)
    print(line)


if __name__ == "__main__":
    main()
