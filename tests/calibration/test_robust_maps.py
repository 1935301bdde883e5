"""Maps that cannot hurt: mixings, shrinkage by evidence, and what calibration rows are warned of.

Fits of one strength are private: their evidence has no public door.
"""

import warnings

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logit, logsumexp, rel_entr, softmax
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from sklearn_lhcal.calibration import (
    AlphaCalibration,
    BiasCorrectedTemperatureScaling,
    MatrixScaling,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_lhcal.calibration._rows import CalibrationRows
from sklearn_lhcal.calibration._scaling import fit as search
from sklearn_lhcal.calibration._scaling.fit import LogLoss
from sklearn_lhcal.calibration._scaling.maps import (
    BiasCorrectedMap,
    FittedMap,
    MatrixMap,
    TemperatureMap,
    VectorMap,
)
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Dirichlet, DirichletMixture, Ensemble, predict_dist
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import label_log_loss

FLOORED = [
    TemperatureScaling("proba", mixing="uniform"),
    BiasCorrectedTemperatureScaling("proba", mixing="uniform"),
    VectorScaling("proba", mixing="uniform"),
]
SHRUNK = [BiasCorrectedTemperatureScaling("proba"), VectorScaling("proba"), MatrixScaling("proba")]


def name(thing):
    return type(thing).__name__


@pytest.fixture(scope="module")
def digits():
    """Outputs of a classifier that prints zeros, some of them for the true class, and labels."""
    X, y = load_digits(return_X_y=True)
    X, X_rest, y, y_rest = train_test_split(X, y, train_size=300, stratify=y, random_state=0)
    return KNeighborsClassifier(10).fit(X, y).predict_proba(X_rest), np.eye(10, dtype=int)[y_rest]


@pytest.fixture
def data():
    return make_label_histograms(400, n_raters=(1, 4), overconfidence=2.5, random_state=0)


def mixed(n, e, seed=0):
    """Probabilities, and labels of z = (1−e) softmax(u/2) + e/3."""
    rng = np.random.default_rng(seed)
    u = 4 * rng.normal(size=(n, 3))
    z = (1 - e) * softmax(u / 2, axis=1) + e / 3
    return softmax(u, axis=1), rng.multinomial(2, z)


# ------------------------------------------------------------------------------------ mixings


@pytest.mark.parametrize(
    "calibrator", [*FLOORED, MatrixScaling("proba", mixing="uniform")], ids=name
)
def test_with_mixing_no_clip_matters(calibrator, digits):
    z, counts = digits
    losses = []
    for clip in (1e-12, 1e-9, 1e-6, 1e-3):
        clipped = np.maximum(z, clip)
        clipped /= clipped.sum(axis=1, keepdims=True)
        model = clone(calibrator).fit(clipped[:200], counts[:200])
        losses.append(label_log_loss(counts[200:], model.predict_proba(clipped[200:])))
    assert max(losses) < 1.01 * min(losses)


@pytest.mark.parametrize("of", [np.asarray, lambda z: Ensemble(z[None])], ids=["point", "one"])
def test_with_mixing_small_probabilities_are_those_of_logits(of):
    """Probabilities down to 1e-87 are no zeros; float64 holds them to 16 digits."""
    rng = np.random.default_rng(0)
    u = log_softmax(30 * rng.normal(size=(300, 3)), axis=1)
    u = log_softmax(np.maximum(u, -200), axis=1)
    counts = rng.multinomial(2, 0.9 * softmax(u / 20, axis=1) + 0.1 / 3)
    z = np.exp(u)
    assert (z < 1e-20).mean() > 0.1
    logits = TemperatureScaling("logits", mixing="uniform").fit(u, counts)
    proba = TemperatureScaling("proba", mixing="uniform").fit(of(z), counts)
    assert proba.temperature_ == pytest.approx(logits.temperature_, rel=1e-5)
    assert_allclose(proba.predict_proba(of(z)), logits.predict_proba(u), atol=1e-6)


def test_without_mixing_clips_matter_and_a_warning_names_the_remedy(digits):
    z, counts = digits
    plain = TemperatureScaling("proba", mixing=None)
    with pytest.warns(UserWarning, match=r'gives no probability.*mixing="uniform"'):
        plain.fit(z[:200], counts[:200])
    with_mixing = TemperatureScaling("proba", mixing="uniform")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with_mixing.fit(z[:200], counts[:200])
    losses = [label_log_loss(counts[200:], m.predict_proba(z[200:])) for m in (plain, with_mixing)]
    assert losses[1] < 0.9 * losses[0]
    with pytest.warns(UserWarning, match=r'gives no probability.*mixing="uniform"'):
        MatrixScaling("proba", mixing=None).fit(z[:200], counts[:200])
    # The remedy works.
    MatrixScaling("proba", mixing="uniform").fit(z[:200], counts[:200])


@pytest.mark.parametrize("mixing", ["uniform", "prior"])
@pytest.mark.parametrize(
    "options", [{}, {"shrinkage": 1.0}, {"bias_penalty": 0.1, "off_diagonal_penalty": 1.0}], ids=str
)
def test_a_matrix_with_mixing_is_around_biases_with_that_floor(mixing, options, digits):
    """It mixes logarithms, which must not come from zeros."""
    z, counts = digits
    model = MatrixScaling("proba", mixing=mixing, **options).fit(z[:200], counts[:200])
    inner = BiasCorrectedTemperatureScaling("proba", mixing=mixing)
    chain = MatrixScaling(inner, mixing=None, **options).fit(z[:200], counts[:200])
    # searches end where the slope is 1e-7, from probabilities that differ in their last bit
    assert_allclose(model.predict_proba(z), chain.predict_proba(z), atol=1e-6)
    assert_allclose(model.coef_, chain.coef_, atol=1e-5)
    assert model.mixing_weight_ == pytest.approx(chain.estimator_.mixing_weight_, rel=1e-9)
    assert_array_equal(model.mixing_proba_, chain.estimator_.mixing_proba_)


def test_mixing_and_temperature_are_scipys_optimum():
    """The log loss with the priors, one row's worth of ½ (log T)² and of −.1 (log e + log(1−e))."""
    z, counts = mixed(300, 0.1)
    u = np.log(z)

    def loss(x):
        e = expit(x[1])
        p = (1 - e) * softmax(np.exp(x[0]) * u, axis=1) + e / 3
        prior = 0.5 * x[0] ** 2 - 0.1 * (np.log(e) + np.log1p(-e))
        return -(counts * np.log(p)).sum() / counts.sum() + prior / 300

    best = minimize(loss, [0.0, -3.0], tol=1e-10)
    model = TemperatureScaling("proba", mixing="uniform").fit(z, counts)
    e = model.mixing_weight_
    found = [-np.log(model.temperature_), np.log(e / (1 - e))]
    assert loss(found) <= best.fun + 1e-12
    assert_allclose(found, best.x, atol=1e-4)
    assert_array_equal(model.mixing_proba_, np.full(3, 1 / 3))


@pytest.mark.parametrize("seed", [53, 1012, 2334, 2755, 2851, 4758])
def test_no_mixing_and_temperature_of_a_grid_are_better(seed):
    """The loss has several valleys; where the search begins decides which is found."""
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 12))
    n = int(rng.integers(50, 500))
    scale = rng.uniform(0.5, 4)
    e = rng.uniform(0, 0.15)
    u = scale * rng.normal(size=(n, K))
    p = (1 - e) * softmax(u, axis=1) + e / K
    k = (p.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    found = TemperatureScaling("logits", mixing="uniform").fit(u, np.eye(K, dtype=int)[k])

    def loss(T, e):
        z = (1 - e) * softmax(u / T, axis=1)[np.arange(n), k] + e / K
        prior = 0.5 * np.log(T) ** 2 - 0.1 * (np.log(e) + np.log(1 - e))
        return prior - np.log(z).sum()

    grid = [loss(T, e) for T in np.geomspace(0.1, 10, 30) for e in expit(np.linspace(-20, 2, 40))]
    # nats of all samples: the search leaves none
    assert loss(found.temperature_, found.mixing_weight_) <= min(grid) + 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_large_biases_are_not_lost_to_the_floor(seed):
    """Without biases all would be due to the mixing, from where no slope leads back."""
    rng = np.random.default_rng(seed)
    shift = np.array([16.0, 0.0, -16.0])
    u = 2 * rng.normal(size=(300, 3))
    counts = rng.multinomial(1, 0.98 * softmax(u, axis=1) + 0.02 / 3)
    u = log_softmax(u - shift, axis=1)

    def objective(x):
        beta, c, e = np.exp(x[0]), x[1:4], expit(x[4])
        z = (1 - e) * softmax(beta * u + c, axis=1) + e / 3
        prior = 0.5 * x[0] ** 2 + 0.05 * (c**2).sum() - 0.1 * np.log(e * (1 - e))
        return prior - (counts * np.log(z)).sum()

    best = minimize(objective, [0.0, *shift, -4.0], method="BFGS")
    model = BiasCorrectedTemperatureScaling("logits", mixing="uniform", shrinkage=1.0).fit(
        u, counts
    )
    T, e = model.temperature_, model.mixing_weight_
    found = np.array([-np.log(T), *model.bias_ / T, logit(e)])
    assert objective(found) <= best.fun + 1e-6
    assert e < 0.02


@pytest.mark.parametrize("calibrator", FLOORED, ids=name)
def test_attributes_mean_what_they_say(calibrator):
    z, counts = mixed(300, 0.1)
    model = clone(calibrator).fit(z, counts)
    if isinstance(model, VectorScaling):
        v = model.scale_ * np.log(z) + model.intercept_
    elif isinstance(model, BiasCorrectedTemperatureScaling):
        v = (np.log(z) + model.bias_) / model.temperature_
    else:
        v = np.log(z) / model.temperature_
    e = model.mixing_weight_
    expected = (1 - e) * softmax(v, axis=1) + e * model.mixing_proba_
    assert_allclose(model.predict_proba(z), expected, atol=1e-12)


def test_the_truth_is_recovered():
    """Labels of z with T = 2 and e = .1, within standard errors over ten draws."""
    found = []
    for seed in range(10):
        z, counts = mixed(1000, 0.1, seed)
        model = TemperatureScaling("proba", mixing="uniform").fit(z, counts)
        found.append([np.log(model.temperature_ / 2), model.mixing_weight_ - 0.1])
    found = np.array(found)
    error = found.std(axis=0, ddof=1) / np.sqrt(10)
    assert (np.abs(found.mean(axis=0)) < 4 * error).all()


def test_shapes_of_the_floor(digits):
    z, counts = digits
    w = np.linspace(0, 2, 200)
    uniform, prior = (
        VectorScaling("proba", mixing=shape).fit(z[:200], counts[:200], sample_weight=w)
        for shape in ("uniform", "prior")
    )
    assert_array_equal(uniform.mixing_proba_, np.full(10, 0.1))
    shares = w @ counts[:200]
    assert_allclose(prior.mixing_proba_, (shares + 0.1) / (shares.sum() + 1))
    for model in (uniform, prior):
        least = model.mixing_weight_ * model.mixing_proba_
        assert (model.predict_proba(z) >= least * (1 - 1e-12)).all()
    kept = TemperatureScaling("proba", mixing="uniform").fit(z[:200], counts[:200])
    assert_array_equal(kept.predict_proba(z).argmax(axis=1), z.argmax(axis=1))
    with pytest.raises(ValueError, match=r'mixing must be "auto", "uniform", "prior" or None, got'):
        TemperatureScaling("proba", mixing=0.1).fit(z, counts)


@pytest.mark.parametrize(
    "calibrator", [*FLOORED, MatrixScaling("proba", mixing="uniform")], ids=name
)
def test_weights_are_repetition_and_known_probabilities_many_labels(calibrator):
    z, counts = mixed(200, 0.2)
    w = np.arange(200) % 3
    weighted = clone(calibrator).fit(z, counts, sample_weight=w).predict_proba(z)
    repeated = clone(calibrator).fit(np.repeat(z, w, axis=0), np.repeat(counts, w, axis=0))
    assert_allclose(weighted, repeated.predict_proba(z), atol=1e-7)
    Q = 0.9 * z**0.5 / (z**0.5).sum(axis=1, keepdims=True) + 0.1 / 3
    known = clone(calibrator).fit(z, KnownProbabilities(Q)).predict_proba(z)
    # As many labels in each row as rounding leaves.
    many = clone(calibrator).fit(z, np.round(1e7 * Q).astype(int)).predict_proba(z)
    assert_allclose(known, many, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("calibrator", FLOORED, ids=name)
def test_around_an_ensemble_the_weight_is_mixed_into_the_mean(calibrator):
    """A class to which no member gives a probability tells members apart by their weights alone."""
    X, y = load_digits(return_X_y=True)
    forest = FrozenEstimator(RandomForestClassifier(6, random_state=0).fit(X[:200], y[:200]))
    model = clone(calibrator).set_params(estimator=forest).fit(X[200:600], y[200:600])
    before, dist = predict_dist(forest, X[600:900]), model.predict_dist(X[600:900])
    assert isinstance(dist, Ensemble)
    assert dist.proba.shape == (6, 300, 10)
    bare = clone(calibrator).fit(forest.predict_proba(X[200:600]), y[200:600])
    expected = bare.predict_proba(forest.predict_proba(X[600:900]))
    assert_allclose(dist.mean(), expected, atol=1e-12)
    assert (dist.mean() >= model.mixing_weight_ / 10 * (1 - 1e-9)).all()
    z = before.mean()
    assert (z == 0).any()
    joint = before.weights[..., None] * before.proba
    given = np.where(z > 0, joint / np.where(z > 0, z, 1), before.weights[..., None])
    found = dist.weights[..., None] * dist.proba / dist.mean()
    assert_allclose(found, given, rtol=1e-9)
    counts = np.eye(10, dtype=int)[y[600:900]]
    raw = np.maximum(z, 1e-12)
    raw /= raw.sum(axis=1, keepdims=True)
    assert label_log_loss(counts, dist.mean()) < 0.9 * label_log_loss(counts, raw)
    chain = AlphaCalibration(model).fit(X[200:600], np.eye(10, dtype=int)[y[200:600]] * 3)
    kind = DirichletMixture if chain.uses_members_ else Dirichlet
    assert isinstance(chain.predict_dist(X[600:900]), kind)


def test_alpha_calibration_on_top_of_a_floor(data):
    inner = TemperatureScaling("proba", mixing="prior")
    chain = AlphaCalibration(inner).fit(data.prediction, data.counts)
    alone = clone(inner).fit(data.prediction, data.counts)
    assert_allclose(
        chain.predict_proba(data.prediction), alone.predict_proba(data.prediction), atol=1e-12
    )


def test_mixing_in_log_space():
    """Logits far beyond the range of exponentials."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(300, 4)) * 2000
    counts = rng.multinomial(1, 0.9 * np.eye(4)[u.argmax(axis=1)] + 0.025)
    model = TemperatureScaling("logits", mixing="uniform").fit(u, counts)
    z = model.predict_proba(u)
    assert np.isfinite(np.log(z)).all()
    assert_allclose(z.sum(axis=1), 1)
    assert label_log_loss(counts, z) < label_log_loss(counts, np.full((300, 4), 0.25))


# ----------------------------------------------------------------------------------- shrinkage


@pytest.mark.slow
@pytest.mark.parametrize("calibrator", SHRUNK, ids=name)
@pytest.mark.parametrize(
    "base", [GaussianNB(var_smoothing=0.1), LogisticRegression(max_iter=2000)], ids=name
)
def test_shrunk_maps_do_not_hurt(calibrator, base):
    """200 rows, ten classes, ten splits: at most temperature's mean log loss and a per cent."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    counts = np.eye(10, dtype=int)[y]
    z = base.fit(X[:300], y[:300]).predict_proba(X[300:])
    counts = counts[300:]
    away = []
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(len(z))
        fit, test = order[:200], order[200:]
        models = [
            clone(c).fit(z[fit], counts[fit]) for c in (TemperatureScaling("proba"), calibrator)
        ]
        T, ours = (label_log_loss(counts[test], m.predict_proba(z[test])) for m in models)
        away.append(ours / T - 1)
    error = np.std(away, ddof=1) / np.sqrt(10)
    assert np.mean(away) < 0.01 + 2 * error


def test_strengths_behind_one_that_is_far_behind_do_not_matter(monkeypatch):
    """Calibrated by a temperature, so that a matrix has nothing to add."""
    rng = np.random.default_rng(0)
    u = 2 * rng.normal(size=(2_000, 30))
    y = rng.multinomial(1, softmax(u / 2, axis=1))
    fits = []
    fit = search.fit
    monkeypatch.setattr(search, "fit", lambda *given: fits.append(given) or fit(*given))
    z = MatrixScaling("logits").fit(u, y).predict_proba(u)
    n_fits = len(fits)
    monkeypatch.setattr(search, "_FAR_BEHIND", np.inf)
    of_all = MatrixScaling("logits").fit(u, y).predict_proba(u)
    assert n_fits < len(fits) - n_fits
    # e^-20, the weight of what is left out, is 2e-9.
    assert_allclose(z, of_all, rtol=0, atol=2e-8)


def test_few_rows_give_the_temperature_and_many_the_optimum():
    rng = np.random.default_rng(0)
    u = log_softmax(2 * rng.normal(size=(20_000, 3)), axis=1)
    scales = np.array([0.5, 1.0, 1.5])
    counts = rng.multinomial(1, softmax(scales * u + [0.5, 0, -0.5], axis=1))
    many = VectorScaling("logits").fit(u, counts)
    free = VectorScaling("logits", shrinkage=0.0).fit(u, counts)
    # The loosest prior moves an optimum of 20 000 rows by about a standard error, .005 here.
    assert_allclose(many.predict_proba(u), free.predict_proba(u), atol=2e-2)
    calibrated = rng.multinomial(1, np.exp(u))
    few = VectorScaling("logits").fit(u[:50], calibrated[:50])
    T = TemperatureScaling("logits").fit(u[:50], calibrated[:50]).temperature_
    assert np.abs(few.scale_ * T - 1).max() < 0.15
    assert np.abs(few.intercept_).max() < 0.3


@pytest.mark.parametrize("mixing", [None, "uniform"])
@pytest.mark.parametrize("calibrator", SHRUNK, ids=name)
def test_strong_shrinkage_is_the_temperature(calibrator, mixing, data):
    """Of a matrix with mixing that around the biases which it is around."""
    T = TemperatureScaling("proba", mixing=mixing)
    if mixing is not None and isinstance(calibrator, MatrixScaling):
        T = TemperatureScaling(BiasCorrectedTemperatureScaling("proba", mixing=mixing), mixing=None)
    z, expected = (
        one.fit(data.prediction, data.counts).predict_proba(data.prediction)
        for one in (clone(calibrator).set_params(shrinkage=1e9, mixing=mixing), T)
    )
    assert_allclose(z, expected, atol=1e-6)


def test_scales_are_shrunk_to_a_temperature_beside_biases():
    """Where class frequencies changed, a temperature alone makes up for them."""
    rng = np.random.default_rng(0)
    u = 3 * rng.normal(size=(200, 3))
    counts = rng.multinomial(1, softmax(u / 1.5 + [4.0, 0.0, -4.0], axis=1))
    alone, beside = (
        kind("logits").fit(u, counts).temperature_
        for kind in (TemperatureScaling, BiasCorrectedTemperatureScaling)
    )
    assert alone > 2 * beside
    scales = VectorScaling("logits").fit(u, counts).scale_
    assert np.abs(scales * beside - 1).max() < 0.1
    scales = np.diag(MatrixScaling("logits").fit(u, counts).coef_)
    assert np.abs(scales * beside - 1).max() < 0.1


@pytest.mark.parametrize("mixing", [None, "uniform"])
@pytest.mark.parametrize("kind", [BiasCorrectedTemperatureScaling, VectorScaling])
def test_biases_of_orders_of_magnitude_are_found(kind, mixing):
    """A fit of five parameters without a prior loses 5/(2n) on average, a temperature .8."""
    n, losses = 400, []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        u = 3 * rng.normal(size=(n, 3))
        q = softmax(u / 1.5 + [4.0, 0.0, -4.0], axis=1)
        z = kind("logits", mixing=mixing).fit(u, rng.multinomial(1, q)).predict_proba(u)
        losses.append(rel_entr(q, z).sum(axis=1).mean())
    assert np.mean(losses) < 5 / (2 * n)


@pytest.mark.parametrize("calibrator", SHRUNK, ids=name)
def test_rows_in_any_order_give_the_same_map(calibrator, data):
    order = np.random.default_rng(0).permutation(400)
    a = clone(calibrator).fit(data.prediction, data.counts)
    b = clone(calibrator).fit(data.prediction[order], data.counts[order])
    assert_allclose(a.predict_proba(data.prediction), b.predict_proba(data.prediction), atol=1e-6)


@pytest.mark.parametrize("calibrator", SHRUNK, ids=name)
def test_shrunk_maps_around_ensembles(calibrator):
    """Forests give some labels no probability, so with mixing by default."""
    X, y = load_digits(return_X_y=True)
    forest = RandomForestClassifier(6, min_samples_leaf=5, random_state=0).fit(X[:300], y[:300])
    counts = np.eye(10, dtype=int)[y]
    T, ours = (
        model.set_params(estimator=FrozenEstimator(forest)).fit(X[300:600], y[300:600])
        for model in (TemperatureScaling(), clone(calibrator))
    )
    assert T.mixing_weight_ > 0
    losses = [label_log_loss(counts[600:], m.predict_proba(X[600:])) for m in (T, ours)]
    assert losses[1] < 1.02 * losses[0]


def at_temperature(K, beta):
    """The map of one temperature."""
    return FittedMap(TemperatureMap(K), np.log([beta]))


def test_the_evidence_is_the_integral():
    """Over (log β, c) on a grid, two classes: differences between strengths."""
    rng = np.random.default_rng(0)
    u = log_softmax(2 * rng.normal(size=(60, 2)), axis=1)
    counts = rng.multinomial(1, softmax(u + np.array([0.4, 0]), axis=1))
    rows = CalibrationRows(u, counts=counts.astype(float), weight=np.ones(60))
    family = BiasCorrectedMap(2)
    d = u[:, 1] - u[:, 0]
    t = np.linspace(-2, 2, 81)[:, None]
    found = []
    exact = []
    for bias in (0.1, 0.3, 1.0):
        loss = LogLoss(family, rows, None)
        prior = search.shrunk(loss, at_temperature(2, 1.0), 1.0, bias)
        found.append(search.fit(loss, prior, family.start()).log_evidence)
        # Only the difference of the two biases matters: √2 times their standard deviation.
        spread = np.sqrt(2) * bias
        c = np.linspace(-6, 6, 241) * spread
        eta = np.exp(t)[..., None] * d + c[:, None]
        log_lik = (
            counts[:, 1] * -np.logaddexp(0, -eta) + counts[:, 0] * -np.logaddexp(0, eta)
        ).sum(axis=-1)
        log_prior = -0.5 * t**2 - 0.5 * (c / spread) ** 2 - np.log(spread)
        exact.append(logsumexp(log_lik + log_prior) + np.log(c[1] - c[0]))
    # Laplace's approximation of a logistic regression on 60 rows.
    assert_allclose(np.diff(found), np.diff(exact), atol=0.1)


@pytest.mark.parametrize("family", [BiasCorrectedMap(3), VectorMap(3), MatrixMap(3)], ids=name)
def test_the_evidence_is_that_of_torchs_hessian(family):
    """Laplace's approximation, of which constants are left out."""
    z, counts = mixed(40, 0.1)
    rows = CalibrationRows(np.log(z), counts=counts.astype(float), weight=np.ones(len(z)))
    loss = LogLoss(family, rows, None)
    below = at_temperature(3, 0.5)
    if not isinstance(family, BiasCorrectedMap):
        # whose biases are not what others are shrunk to
        below = FittedMap(BiasCorrectedMap(3), np.append(below.x, [0.3, 0.0, -0.2]))
    prior = search.shrunk(loss, below, 0.03, 0.1)
    found = search.fit(loss, prior, family.start(0.5))
    u, y, c, d = (torch.as_tensor(a) for a in (np.log(z), counts, prior.center, prior.d))
    if not isinstance(family, BiasCorrectedMap):
        assert_allclose(family.mapped(prior.center, np.log(z)), 0.5 * np.log(z), rtol=1e-12)

    def nats(x):
        W, b = family.affine(x, torch)
        v = u @ W.T if W.ndim == 2 else u * W
        # Two labels of a row count once.
        log_loss = -(y * torch.log_softmax(v + b, dim=1)).sum() / 2
        return log_loss + 0.5 * (d * (x - c) ** 2).sum()

    x = torch.as_tensor(found.x)
    log_det = torch.linalg.slogdet(torch.autograd.functional.hessian(nats, x))[1]
    expected = -nats(x) - 0.5 * log_det + 0.5 * torch.log(d[prior.is_shrunk]).sum()
    # log β is curved by its prior alone where β is, which is left out: one row in forty.
    atol = 0.05 if isinstance(family, BiasCorrectedMap) else 1e-6
    assert found.log_evidence == pytest.approx(expected.item(), abs=atol)


@pytest.mark.parametrize("mixing", [None, np.full(3, 1 / 3)], ids=["", "mixing"])
@pytest.mark.parametrize("family", [BiasCorrectedMap(3), VectorMap(3), MatrixMap(3)], ids=name)
def test_the_temperature_alone_is_the_limit_of_strengths(family, mixing):
    z, counts = mixed(60, 0.1)
    rows = CalibrationRows(np.log(z), counts=counts.astype(float), weight=np.ones(len(z)))
    temperature = search.fit_temperature(rows, mixing)
    loss = LogLoss(family, rows, mixing)
    prior = search.shrunk(loss, temperature, 1e-6, 1e-6)
    start = search._embedded(family, temperature)
    alone = search._temperature_alone(loss, prior, start)
    tight = search.fit(loss, prior, start)
    assert_allclose(tight.x, alone.x, atol=1e-8)
    assert tight.log_evidence == pytest.approx(alone.log_evidence, abs=1e-6)


@pytest.mark.parametrize("family", [VectorMap(3), MatrixMap(3)], ids=name)
def test_the_temperature_of_a_family_with_biases_is_alone_without_them(family):
    z, counts = mixed(60, 0.1)
    rows = CalibrationRows(np.log(z), counts=counts.astype(float), weight=np.ones(len(z)))
    below = search.fit_shrunk(BiasCorrectedMap(3), rows, search.fit_temperature(rows, None))
    loss = LogLoss(family, rows, None)
    prior = search.shrunk(loss, below, 1e-6, 1e-6)
    start = search._embedded(family, below)
    assert np.abs(start - prior.center).max() > 0.01
    alone = search._temperature_alone(loss, prior, start)
    tight = search.fit(loss, prior, start)
    assert_allclose(tight.x, alone.x, atol=1e-8)
    assert tight.log_evidence == pytest.approx(alone.log_evidence, abs=1e-6)


def test_penalties_of_both_kinds_are_refused(data):
    model = VectorScaling("proba", shrinkage=1.0, bias_penalty=0.1)
    with pytest.raises(ValueError, match="Give shrinkage or bias_penalty, not both"):
        model.fit(data.prediction, data.counts)


# ------------------------------------------------------------------------------ separable labels


@pytest.mark.parametrize("calibrator", [TemperatureScaling(), *SHRUNK], ids=name)
def test_separable_labels_leave_no_certainties(calibrator):
    """Iris, two classes that a line parts: no probability of exactly 0 or 1, and a warning."""
    X, y = load_iris(return_X_y=True)
    X, y = X[:100], y[:100]
    X_new = X + np.random.default_rng(0).normal(0, 0.3, X.shape)
    model = clone(calibrator).set_params(estimator=LogisticRegression())
    with pytest.warns(UserWarning, match="labels are separable"):
        model.fit(X, y)
    z = model.predict_proba(X_new)
    assert z.min() > 1e-12
    assert z.max() < 1


def test_a_failed_refit_leaves_the_chain_as_it_was(data):
    """Also where the inner map was fitted before the outer one failed."""
    chain = AlphaCalibration(TemperatureScaling("proba"), likelihood="dirichlet_multinomial")
    before = chain.fit(data.prediction, data.counts).predict_dist(data.prediction).total
    with pytest.raises(ValueError, match="have no histogram likelihood"):
        chain.fit(data.prediction, KnownProbabilities(data.proba))
    assert_array_equal(chain.predict_dist(data.prediction).total, before)
