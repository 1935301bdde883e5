"""A sparse Gaussian process classifier for labels and label histograms."""

from dataclasses import KW_ONLY
from typing import Literal, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .._rows import DistributionClassifierMixin, parameters, read_labels, weight_of
from .._utils.checks import check_samples, plain_array, warn_unconverged
from .._utils.devices import check_device, moved, on_cpu, on_host
from .._utils.estimators import atomic
from .._utils.names import check_row_names
from .._utils.progress import Progress
from .._utils.simplex import row_sum, softmax
from .._utils.types import ArrayLike, Floats, LabelsLike, Samples, Seed, Verbose, Weights
from ..distributions import Distribution, Ensemble, LogisticNormal, PointMass
from ._hyperparameters import (
    Learned,
    choose_epsilon,
    learn_in_stages,
    range_named,
    starting_lengthscale,
)
from ._kernels import PROFILES, Kernel
from ._likelihoods import Dirichlet, Logistic, normal_draws
from ._variational import Data, Features, Labels, follow, moments, natural_gradients, prior

_DTYPES = {"float64": torch.float64, "float32": torch.float32}
# Entries of Φ that are kept in memory.
_KEPT = 2**24
# Samples times squared inducing points up to which "auto" takes every pass over all samples.
_EXACT = 5e10
# Samples times squared inducing points times latents from which "auto" takes products in float32,
# and for which tol.
_LARGE = 1e9
_FINE = 1e-6
# Samples for each inducing point from which hyper-parameters are learned.
_LEARNED = 10
# Where the search for ε and for the noise of more than two classes begins.
_EPSILON = 0.01
_NOISE = 1.0


@parameters
class SparseGPClassifier(DistributionClassifierMixin, BaseEstimator):
    """Gaussian process classifier: class probabilities that know where data are missing.

    Log-odds have a Gaussian process prior with a stationary kernel and an unknown constant mean.
    The posterior is approximated through the values at `n_inducing` points, by variational
    inference with Pólya–Gamma augmentation. Steps are closed formulas without a learning rate, and
    the bound rises with each pass. The kernel's variance and lengthscales maximise that bound.

    More than two classes have a latent each, with one kernel for all, and probabilities are their
    softmax. The latents are those of a Dirichlet distribution with α = labels + ε, which makes them
    a regression with known noise: one pass is exact but for the inducing points. Kernel and the
    variance of further noise, for what labels of one sample have in common, maximise the likelihood
    of that regression. ε is the power of ten with the smallest leave-one-out loss.

    A count is a repeated label, exactly. Repeated samples, counts or weights in their place, and
    the order of the samples make no difference to the fit. X should have columns of like scale, as
    after a StandardScaler.

    Parameters
    ----------
    kernel : {"rbf", "matern12", "matern32", "matern52"}, default="rbf"
        How the covariance of log-odds falls with distance. The smaller the Matérn number, the
        rougher are the functions.
    n_inducing : int, default=500
        Inducing points, chosen by k-means++; all distinct samples of X where there are no more than
        that. Time grows with the square, memory too.
    ard : bool, default=False
        One lengthscale for each feature instead of one for all.
    optimize_hyperparameters : bool, default=True
        Whether variance and lengthscales are learned; else they are kept as given.
    variance : float, default=1.0
        Prior variance of the log-odds around their constant mean, or where learning starts.
        Learning looks from 1e-4 to 1e4, and as far as its start where that lies outside.
    lengthscale : float, array-like of shape (n_features,) or None, default=None
        Distance over which log-odds change, in the units of X, or where learning starts. None: the
        best of five between the distance of neighbouring inducing points and that of any two.
    polish : bool, default=False
        Go on from the Pólya–Gamma bound to the bound itself, by natural gradients, for a few more
        passes. The Pólya–Gamma bound makes the posterior too narrow, and this nearly mends it; the
        guide has the measured figures. More than two classes have no such bound.
    max_iter : int, default=200
        Largest number of passes over the samples. More than two classes need one.
    tol : float, default=1e-4
        Passes end when one raises the bound by less than this, nats per label.
    batch_size : int, "auto" or None, default="auto"
        None: every pass is exact coordinate ascent over all samples. An int: a pass of
        natural-gradient steps on mini-batches of so many samples comes first, then exact ones.
        "auto": None for samples times squared inducing points up to 5e10; for more data
        mini-batches of four times `n_inducing`, and then three exact passes at most. More than two
        classes have no batches.
    dtype : {"auto", "float64", "float32"}, default="auto"
        Precision of the large matrix products in `fit`. Features, sums over blocks of samples and
        predictions are in float64. "auto": float32 for samples times squared inducing points times
        latents from 1e9 on, where `tol` is no smaller than 1e-6. The bounds of both agree to 1e-6
        a label.
    device : str, default="cpu"
        Where torch computes, "cuda" say.
    random_state : int, RandomState instance or None, default=None
        Seed of k-means, of the subset that hyper-parameters are learned from, of batches, and for
        more than two classes of draws.
    verbose : int, default=0
        Above 0: a progress bar that shows the bound.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted class names.
    inducing_points_ : ndarray of shape (n_inducing, n_features)
        Where the process is represented.
    variance_ : float
        Prior variance of the log-odds, for more than two classes of each latent.
    alpha_epsilon_ : float or None
        The ε that is added to the labels of each class, from 1e-6 to 100. None for two classes.
    noise_variance_ : float or None
        Variance of what the latents of a sample have beside the process, from 0.01 to 100; 0 where
        nothing is learned. It is no part of predictions. None for two classes.
    lengthscale_ : float, or ndarray of shape (n_features,) with `ard`
        In the units of X.
    mean_ : ndarray of shape (1,) for two classes, else (n_classes,)
        Posterior mean of the constant mean of each latent. The constant has a normal prior of
        standard deviation 10; its posterior variance is part of every prediction.
    elbo_ : ndarray of shape (n_passes,)
        Lower bound of the log-likelihood of all labels after each pass, nats. Values of
        mini-batches are estimates. For more than two classes that of the targets, densities, which
        another ε changes.
    n_iter_ : int
        Passes over all samples after the hyper-parameters were learned.
    n_features_in_ : int
        Number of columns of X.

    Raises
    ------
    ValueError
        An unknown kernel, dtype or device, numbers out of their range.

    Warns
    -----
    ConvergenceWarning
        Where `max_iter` passes did not suffice.

    Notes
    -----
    Memory is O(block·n_inducing + n_inducing²) beside X; features of all samples are kept where
    they take less than 128 MB. Hyper-parameters are learned on a random subset of 10 samples for
    each inducing point, and on a fifth of these first.

    `predict_dist` is a `LogisticNormal` for two classes, whose moments and entropies are exact
    quadrature. For more, it is an `Ensemble` of the softmax of 128 quasi-random draws of all
    latents; all samples have the same draws. Each class has its column of draws by the rank of
    its `mean_`, so that the order of the classes does not change predictions. Only among classes
    with the same labels, several without any say, does it matter a little.


    References
    ----------
    Wenzel, Galy-Fajou, Donner, Kloft and Opper (2019), Efficient Gaussian process classification
    using Pólya–Gamma data augmentation.

    Khan and Lin (2017), Conjugate-computation variational inference: natural gradients as blends of
    sums.

    Milios, Camoriano, Michiardi, Rosasco and Filippone (2018), Dirichlet-based Gaussian processes
    for large-scale calibrated classification.

    Vehtari, Mononen, Tolvanen, Sivula and Winther (2016), Bayesian leave-one-out cross-validation
    approximations for Gaussian latent variable models, section 3.2.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> gp = SparseGPClassifier(n_inducing=50, random_state=0).fit(X, y)
    >>> near, far = gp.predict_dist([[0.0, 1.0], [9.0, 9.0]]).mutual_information()
    >>> bool(near < 0.05 < 0.2 < far)
    True
    """

    accepts_label_histograms = True

    kernel: Literal["rbf", "matern12", "matern32", "matern52"] = "rbf"
    _: KW_ONLY
    n_inducing: int = 500
    ard: bool = False
    optimize_hyperparameters: bool = True
    variance: float = 1.0
    lengthscale: ArrayLike | None = None
    polish: bool = False
    max_iter: int = 200
    tol: float = 1e-4
    batch_size: int | Literal["auto"] | None = "auto"
    dtype: Literal["auto", "float64", "float32"] = "auto"
    device: str = "cpu"
    random_state: Seed = None
    verbose: Verbose = 0

    @atomic
    def fit(self, X: Samples, y: LabelsLike, sample_weight: Weights = None) -> Self:
        """Fit inducing points, kernel and posterior, all or nothing.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes. The columns of frames are sorted by name.
        sample_weight : array-like of shape (n_samples,), optional
            Multiplies the counts of the samples.

        Returns
        -------
        self
        """
        check_device(self.device)
        scale = self.lengthscale
        if scale is not None and not (np.isfinite(scale) & (np.asarray(scale) > 0)).all():
            raise ValueError(f"lengthscale must be positive and finite, got {scale!r}.")
        check_row_names(X=X, y=y)
        X = self._read(X)
        labels = read_labels(y).for_fit()
        weight = weight_of(labels, X, y, sample_weight)
        X, counts = _merged(X, labels.counts.astype(float), weight)
        self.classes_ = labels.classes
        rng = check_random_state(self.random_state)
        self._draw_seed = _seed(rng)
        self._center = X.mean(axis=0)
        self._unit = _units(X, self.ard)
        X = (X - self._center) / self._unit
        Z, m = X, self.n_inducing
        if len(X) > m:
            some = np.sort(rng.choice(len(X), min(len(X), 50 * m), replace=False))
            kmeans = KMeans(m, n_init=1, max_iter=10, random_state=_seed(rng))
            Z = kmeans.fit(X[some]).cluster_centers_
        self.inducing_points_ = Z * self._unit + self._center
        self.alpha_epsilon_ = None
        self.noise_variance_ = None
        self.elbo_ = np.empty(0)
        self.n_iter_ = 0
        if len(self.classes_) > 1:
            bar = Progress(desc="passes", disable=not self.verbose)
            with bar, range_named(), on_cpu():
                self._fit_latents(self._tensor(X), self._tensor(Z), counts, rng, bar)
        return self

    def _fit_latents(self, X, Z, counts, rng, bar):
        labels = self._labels(counts)
        data = Data(X, Z, labels, self._precision(len(X), Z, labels))

        def report(bound):
            bar.update()
            bar.set_postfix(bound=f"{bound:.6g}")

        likelihood, kernel, latent, _ = self._fit_kernel(data, rng, report)
        features = Features(data, kernel, keep=len(X) * len(Z) <= _KEPT)
        history = []
        max_iter = self.max_iter
        batch = self._batch(len(X), len(Z))
        # a regression needs one pass
        if batch is not None and isinstance(likelihood, Logistic):
            generator = torch.Generator().manual_seed(_seed(rng))
            steps = natural_gradients(features, latent, likelihood.local, batch, generator)
            latent = follow(latent, steps, history, report)
            if self.batch_size == "auto":
                max_iter = min(max_iter, 3)
        passes = {"max_iter": max_iter, "tol": self.tol}
        steps = likelihood.ascent(features, latent, **passes)
        latent = follow(latent, steps, history, report)
        rose = np.diff(history[-2:]).max(initial=0.0)
        if len(history) >= self.max_iter and rose > labels.of_bound(self.tol):
            rise = f"The bound still rose by {rose:.3g} nats in the last of {self.max_iter} passes"
            warn_unconverged(f"{rise}; raise max_iter.")
        if self.polish:
            steps = likelihood.polish(features, latent, **passes)
            latent = follow(latent, steps, history, report)
        self.elbo_ = np.array(history)
        self.n_iter_ = len(history)
        if isinstance(likelihood, Dirichlet):
            self.alpha_epsilon_ = likelihood.epsilon
            self.noise_variance_ = likelihood.noise
        # a model fitted on a GPU is stored and loaded without one
        self._kernel, self._latent = (moved(part, "cpu") for part in (kernel, latent))
        self._Z = Z.cpu()
        self.variance_ = float(kernel.variance)
        self.mean_ = latent.mean.cpu().numpy()
        lengthscale = kernel.lengthscale.cpu().numpy() * self._unit
        self.lengthscale_ = lengthscale if self.ard else float(lengthscale[0])

    def _fit_kernel(self, data: Data, rng, report) -> Learned:
        """Likelihood, kernel in units of the scaled X, and q from where passes start."""
        X, Z, labels, _ = data

        def some(most):
            return data.at(np.sort(rng.choice(len(X), min(len(X), most), replace=False)))

        two = len(labels.n) == 1
        noise = _NOISE if self.optimize_hyperparameters else 0.0
        likelihood = Logistic() if two else Dirichlet(_EPSILON, noise)
        profile = PROFILES[self.kernel]
        few = some(max(2000, 4 * len(Z)))
        if self.lengthscale is None:
            given = starting_lengthscale(few, likelihood, profile, self.variance)
        else:
            given = np.asarray(self.lengthscale, np.float64) / self._unit
        lengthscale = self._tensor(np.broadcast_to(given, X.shape[1] if self.ard else 1))
        kernel = Kernel(profile, X.new_tensor(self.variance), lengthscale)
        start = Learned(likelihood, kernel, prior(len(labels.n), Z))
        if two and not self.optimize_hyperparameters:
            return start
        part = some(_LEARNED * len(Z))
        tol = 3e-5 if len(part.X) == len(X) else 3e-4

        def fit(start):
            if self.optimize_hyperparameters:
                return learn_in_stages(part, start, tol, max_iter=30, report=report)
            features = Features(part, kernel)
            *_, (latent, _) = start.likelihood.ascent(features, start.latent)
            return start._replace(latent=latent)

        if two:
            return fit(start)
        return choose_epsilon(part, start, fit, self._draw_seed)

    def _precision(self, n: int, Z, labels) -> torch.dtype:
        if self.dtype != "auto":
            return _DTYPES[self.dtype]
        large = n * len(Z) ** 2 * len(labels.n) >= _LARGE
        return torch.float32 if large and self.tol >= _FINE else torch.float64

    def _batch(self, n: int, m: int) -> int | None:
        if self.batch_size != "auto":
            return self.batch_size
        return 4 * m if n * m**2 > _EXACT else None

    def _labels(self, counts) -> Labels:
        """Labels of the second of two classes, or of each class."""
        y = counts.T
        if len(y) == 2:
            y = y[1:]
        n = np.broadcast_to(row_sum(counts), y.shape)
        return Labels(self._tensor(n), self._tensor(y))

    def _read(self, X: Samples, reset: bool = True) -> Floats:
        plain_array(X, "X")
        return validate_data(self, on_host(check_samples(X)), dtype=float, reset=reset)

    def _tensor(self, a) -> torch.Tensor:
        return torch.as_tensor(np.array(a, dtype=float), device=self.device)

    def predict_dist(self, X: Samples) -> Distribution:
        """Predictive distribution, a batch of n samples.

        A `LogisticNormal` for two classes, an `Ensemble` of 128 for more.
        """
        check_is_fitted(self, "elbo_")
        check_device(self.device)
        X = self._read(X, reset=False)
        with on_cpu():
            return self._distribution(X).with_classes(self.classes_)

    def _distribution(self, X) -> Distribution:
        if len(self.classes_) == 1:
            return PointMass(np.ones((len(X), 1)))
        mean, scale = self._log_odds((X - self._center) / self._unit)
        if len(mean) == 1:
            return LogisticNormal(mean[0], scale[0])
        draws = normal_draws(torch.tensor(self.mean_), self._draw_seed).numpy()
        return Ensemble(softmax(mean.T + scale.T * draws[:, None, :]))

    def _log_odds(self, X) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the latents, both of shape (C, n)."""
        kernel, latent = (moved(part, self.device) for part in (self._kernel, self._latent))
        data = Data(self._tensor(X), self._Z.to(self.device), None, torch.float64)
        parts = [moments(latent, block) for block in Features(data, kernel)]
        mean, var = (torch.cat(a, dim=1).cpu().numpy() for a in zip(*parts, strict=True))
        return mean, np.sqrt(var)


def _seed(rng) -> int:
    """A seed for another generator."""
    return int(rng.randint(2**31 - 1))


def _merged(X, counts, weight) -> tuple[Floats, Floats]:
    """Distinct rows of X, sorted, and the weighted counts of each; rows without weight are gone."""
    if weight is not None:
        counts = counts * weight[:, None]
    some = counts.any(axis=1)
    X, where = np.unique(X[some], axis=0, return_inverse=True)
    merged = np.zeros((len(X), counts.shape[1]))
    np.add.at(merged, where.ravel(), counts[some])
    return X, merged


def _units(X, ard: bool):
    """Standard deviation of each feature with ARD, else of the average feature; 1 where it is 0."""
    variance = X.var(axis=0)
    if not ard:
        variance = variance.mean(keepdims=True)
    s = np.sqrt(variance)
    return np.where(s > 0, s, 1.0)
