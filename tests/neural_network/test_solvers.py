"""The solvers that train the calibrators' maps.

One optimum, whichever is used, and mini-batches without bias.

Problems and batches are private: the law of a solver is tested without a calibrator.
"""

from itertools import combinations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from problems import Smooth
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal.calibration import AlphaCalibration, ReaderEffects, TemperatureScaling
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.neural_network import (
    LBFGS,
    Adam,
    DirichletMultinomialLoss,
    LabelLogLoss,
    Newton,
    PairwiseLoss,
    _training,
)
from sklearn_lhcal.neural_network._solvers import TorchProblem

ALL_ROWS = Adam(learning_rate=0.05, batch_size=-1, max_epochs=600, early_stopping=None)
BATCHES = Adam(learning_rate=0.01, batch_size=100, max_epochs=150, early_stopping=None)


@pytest.fixture
def data():
    return make_label_histograms(
        300, n_classes=3, n_raters=(1, 6), total=3.0, overconfidence=3.0, random_state=0
    )


class LogTemperature(torch.nn.Module):
    """log T, the simplest map."""

    def __init__(self):
        super().__init__()
        self.x = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def forward(self, logits):
        return torch.log_softmax(logits / self.x.exp(), dim=-1)


def log_temperature(solver, u, counts, weight=None, seed=0, verbose=0):
    """What a solver finds of labels and logits."""
    problem = TorchProblem(LogTemperature(), LabelLogLoss(), {"logits": u}, counts, weight)
    return solver.solve(problem, random_state=seed, verbose=verbose)


def optimum(calibrator, data, solver, weight=None):
    if calibrator is TEMPERATURE:
        return log_temperature(solver, np.log(data.prediction), data.counts, weight)
    calibrator = clone(calibrator).set_params(solver=solver, random_state=0)
    calibrator.fit(data.prediction, data.counts, sample_weight=weight)
    return np.append(calibrator.coef_, calibrator.intercept_)


# Probabilities as they are made leave no room for α0. Solvers find their optimum all the same.
pytestmark = pytest.mark.filterwarnings("ignore:Raters of the calibration samples disagree")

TEMPERATURE = "temperature"
CALIBRATORS = [
    TEMPERATURE,
    AlphaCalibration("proba", features="logits", fallback=False, penalty=0.01),
    AlphaCalibration(
        "proba", features="logits", fallback=False, penalty=0.01, likelihood="dirichlet_multinomial"
    ),
]


def excess(calibrator, data, x, best):
    """How much more x loses than the optimum, nats per label or row."""
    log_z, counts = torch.as_tensor(np.log(data.prediction)), torch.as_tensor(data.counts)
    if calibrator is TEMPERATURE:
        losses = [LabelLogLoss()(log_z / np.exp(t), counts) for t in (x[0], best[0])]
    else:
        h = StandardScaler().fit_transform(np.log(data.prediction))
        loss = (PairwiseLoss if calibrator.likelihood == "pairwise" else DirichletMultinomialLoss)(
            calibrator.penalty
        )
        several = data.counts.sum(axis=1) > 1
        log_total = [torch.as_tensor(h @ v[:-1] + v[-1]) for v in (x, best)]
        losses = [loss((log_z[several], t[several]), counts[several]) for t in log_total]
    return (losses[0] - losses[1]).item()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=["temperature", "pairs", "histograms"])
def test_all_solvers_reach_one_optimum(calibrator, data, weighted):
    """Newton and L-BFGS to five decimals, Adam on all samples to four."""
    w = np.random.default_rng(0).uniform(0, 3, 300) if weighted else None
    x = optimum(calibrator, data, Newton(), w)
    assert_allclose(optimum(calibrator, data, LBFGS(), w), x, atol=5e-6)
    assert_allclose(optimum(calibrator, data, ALL_ROWS, w), x, atol=1e-4)


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=["temperature", "pairs", "histograms"])
def test_adam_on_batches_comes_near_the_optimum(calibrator, data):
    best, x = (optimum(calibrator, data, solver) for solver in (Newton(), BATCHES))
    assert 0 < excess(calibrator, data, x, best) < 1e-4
    assert excess(calibrator, data, 0 * x, best) > 1e-2


def test_adam_around_an_ensemble(data):
    X, counts = data.X[:100], data.counts[:100]
    forest = RandomForestClassifier(3, min_samples_leaf=20, random_state=0)
    forest.fit(X, counts.argmax(axis=1))
    adam = Adam(learning_rate=0.1, batch_size=-1, max_epochs=100, early_stopping=None)
    calibrator = AlphaCalibration(FrozenEstimator(forest), penalty=0.05)
    a, b = (
        clone(calibrator).set_params(solver=solver).fit(X, counts).predict_dist(X)
        for solver in (LBFGS(), adam)
    )
    assert_allclose(a.mean(), b.mean(), atol=1e-3)
    assert_allclose(a.disagreement(), b.disagreement(), atol=1e-3)


# --- batches ---


@pytest.mark.parametrize(
    "loss", [LabelLogLoss(), PairwiseLoss(0.1), DirichletMultinomialLoss(0.1)], ids=repr
)
def test_gradients_of_batches_are_unbiased(loss):
    """Over all batches of 3 of 7 rows their mean is the gradient of all samples, P1 eq. (53).

    That of naive batches is not.
    """
    rng = np.random.default_rng(0)
    counts = torch.as_tensor(
        [[9, 1, 0], [1, 0, 0], [0, 2, 1], [0, 0, 1], [0, 30, 5], [1, 1, 0], [2, 0, 0]]
    )
    u, w = torch.as_tensor(rng.normal(size=(7, 3))), torch.as_tensor(rng.uniform(0.1, 3, 7))
    beta = torch.ones((), dtype=torch.float64, requires_grad=True)

    def gradient(f, rows, weight):
        rows = list(rows)
        prediction = beta * u[rows]
        if not isinstance(loss, LabelLogLoss):
            prediction = prediction, beta * u[rows, 0]
        return torch.autograd.grad(f(prediction, counts[rows], weight[rows]), beta)[0].item()

    scaled = _training.scaled_weight(loss, counts, w)
    batches = list(combinations(range(7), 3))
    ours = np.mean(
        [
            gradient(lambda *batch: _training.batch_loss(loss, *batch), rows, scaled)
            for rows in batches
        ]
    )
    naive = np.mean([gradient(loss, rows, w) for rows in batches])
    whole = gradient(loss, range(7), w)
    assert_allclose(ours, whole, rtol=1e-12)
    assert abs(naive - whole) > 0.002 * abs(whole)


@pytest.mark.slow
def test_few_rows_with_many_labels_keep_their_share(monkeypatch):
    """Where 5 of 500 rows hold half of the labels.

    Batches that divide by their own labels end far away.
    """
    rng = np.random.default_rng(0)
    n = np.where(np.arange(500) < 5, 100, 1)
    u = 2 * rng.normal(size=(500, 2))
    slope = np.where(
        np.arange(500) < 5, -0.5, 1.5
    )  # the samples with many labels contradict the others
    votes = rng.binomial(n, 1 / (1 + np.exp(-slope * (u[:, 1] - u[:, 0]))))
    counts = np.column_stack([n - votes, votes])
    solver = Adam(learning_rate=0.003, batch_size=16, max_epochs=100, early_stopping=None)

    def error():
        return abs(log_temperature(solver, u, counts) - log_temperature(Newton(), u, counts))[0]

    ours = error()
    # The module that trains has no other door to how batches are weighted.
    monkeypatch.setattr(_training, "batch_loss", lambda loss, *batch: loss(*batch))
    assert ours < 0.1
    assert error() > 0.3


# --- seeds, early stopping, errors ---


@pytest.mark.parametrize("patience", [None, 3])
def test_adam_follows_the_seed_and_nothing_else(data, patience):
    solver = Adam(learning_rate=0.01, batch_size=32, max_epochs=40, early_stopping=patience)
    calibrator = clone(CALIBRATORS[1]).set_params(solver=solver)

    def fit(seed):
        calibrator.set_params(random_state=seed).fit(data.prediction, data.counts)
        return calibrator.predict_dist(data.prediction).disagreement()

    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    expected = np.random.rand(), torch.rand(1).item()  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    first = fit(0)
    assert (np.random.rand(), torch.rand(1).item()) == expected  # noqa: NPY002
    assert_array_equal(fit(0), first)
    assert_array_equal(fit(np.random.RandomState(0)), fit(np.random.RandomState(0)))
    assert np.abs(fit(1) - first).max() > 1e-6


class Slope(torch.nn.Module):
    """Temperature 1/slope.

    Remembers the rows trained on, the held-out ones, and what it was when it saw the latter.
    """

    def __init__(self):
        super().__init__()
        self.slope = torch.nn.Parameter(torch.tensor(1.0, dtype=torch.float64))
        self.trained, self.held_out = [], []

    def forward(self, logits):
        if torch.is_grad_enabled():
            self.trained.append(logits)
        else:
            self.held_out.append((self.slope.item(), logits))
        return self.slope * logits


def test_early_stopping_keeps_the_best_of_a_held_out_fifth(data):
    u, module = np.log(data.prediction), Slope()
    solver = Adam(learning_rate=0.05, batch_size=64, max_epochs=300, early_stopping=5)
    solver.solve(TorchProblem(module, LabelLogLoss(), {"logits": u}, data.counts), random_state=0)
    slopes, rows = [s for s, _ in module.held_out], module.held_out[0][1]
    number = {tuple(row): i for i, row in enumerate(u)}
    index, trained = (
        [number[tuple(row)] for row in part.numpy()] for part in (rows, torch.cat(module.trained))
    )
    assert (len(index), len(set(index)), len(set(trained))) == (60, 60, 240)
    assert not set(index) & set(trained)
    assert set(index) != set(range(240, 300))
    losses = [LabelLogLoss()(s * rows, torch.as_tensor(data.counts[index])).item() for s in slopes]
    assert 0 < np.argmin(losses) < 290
    assert len(losses) == np.argmin(losses) + 1 + 5
    assert module.slope.item() == slopes[np.argmin(losses)]
    assert slopes[np.argmin(losses)] != slopes[-1]


@pytest.mark.slow
def test_defaults_suit_thousands_of_rows():
    """Those of P1, App. E.4: the optimum within its standard error, and no warning."""
    data = make_label_histograms(20_000, n_raters=3, overconfidence=1.2, random_state=0)
    found = log_temperature(Adam(), np.log(data.prediction), data.counts)
    best = TemperatureScaling("proba").fit(data.prediction, data.counts).temperature_
    assert_allclose(np.exp(found), best, rtol=0.02)


def test_stopping_too_early_is_a_warning_with_the_remedy(data):
    calibrator = AlphaCalibration("proba", solver=Adam(), fallback=False, random_state=0)
    with pytest.warns(ConvergenceWarning, match="raise max_epochs or learning_rate"):
        calibrator.fit(data.prediction, data.counts)


def test_stopping_where_the_loss_is_flat_is_no_warning(data):
    """Minute steps lower the held-out loss in every epoch, and by next to nothing."""
    slow = Adam(learning_rate=1e-6, max_epochs=12, early_stopping=5)
    assert abs(log_temperature(slow, np.log(data.prediction), data.counts)[0]) < 1e-3


@pytest.mark.parametrize("seed", [19, 20, 26])
def test_pairs_that_a_line_explains_leave_the_total_unbounded(seed):
    """Few rows and no penalty.

    |log α0| grows until Newton gives up, and nothing overflows on the way.
    """
    data = make_label_histograms(24, n_raters=(1, 6), total=3.0, random_state=seed)
    calibrator = AlphaCalibration("proba", penalty=0.0, solver=Newton(tol=1e-13), fallback=False)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        calibrator.fit(data.prediction, data.counts)
    assert np.isfinite([*calibrator.coef_, calibrator.intercept_]).all()
    assert np.abs(np.log(calibrator.predict_dist(data.prediction).total)).max() > 20


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_absent_cuda_is_an_error(data):
    with pytest.raises(ValueError, match="no CUDA device here; use device='cpu'"):
        log_temperature(Adam(device="cuda"), np.log(data.prediction), data.counts)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=["temperature", "pairs", "histograms"])
def test_adam_on_cuda(calibrator, data):
    on_gpu = clone(ALL_ROWS).set_params(device="cuda")
    assert_allclose(
        optimum(calibrator, data, on_gpu), optimum(calibrator, data, Newton()), atol=1e-4
    )


THREE = [LBFGS(), Adam(max_epochs=3, early_stopping=None), Newton()]


@pytest.mark.parametrize("solver", THREE, ids=repr)
def test_progress_is_shown_on_demand(solver, data, capsys):
    log_temperature(solver, np.log(data.prediction), data.counts)
    assert capsys.readouterr() == ("", "")
    log_temperature(solver, np.log(data.prediction), data.counts, verbose=1)
    shown = capsys.readouterr()
    assert "train_loss" in shown.out or "Newton" in shown.err or "L-BFGS" in shown.err


def test_what_is_no_solver_is_an_error():
    for calibrator in (ReaderEffects("proba", solver="lbfgs"), AlphaCalibration("proba", solver=3)):
        with pytest.raises(ValueError, match="solver must be a Solver or None"):
            calibrator.fit([[0.4, 0.6], [0.5, 0.5]], [[2, 1], [1, 2]])


def test_newton_says_where_it_is_stuck():
    """A gradient that the objective does not follow."""
    with pytest.warns(ConvergenceWarning, match="no step that lowers the objective"):
        x = Newton().solve(Smooth(lambda x: (1.0, np.ones(1), np.eye(1)), np.zeros(1)))
    assert_array_equal(x, 0)


@pytest.mark.parametrize(
    "solver",
    [
        Adam(max_epochs=0),
        Adam(max_epochs=1.5),
        Adam(batch_size=0),
        Adam(early_stopping=0),
        Adam(learning_rate=-1.0),
        Newton(max_iter=0),
        Newton(max_iter=0.5),
        Newton(tol=float("nan")),
        LBFGS(max_iter=0),
        LBFGS(max_iter=0.25),
    ],
    ids=repr,
)
def test_an_option_out_of_range_is_named(solver):
    proba = np.array([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
    option = repr(solver).partition("(")[2].partition("=")[0]
    with pytest.raises(ValueError, match=option):
        log_temperature(solver, np.log(proba), np.array([[2, 1], [1, 2], [1, 1]]))


class Hilly(Smooth):
    """Twelve parameters with a prior, and waves where the Hessian is indefinite."""

    def __init__(self, height: float):
        A = np.random.default_rng(0).normal(size=(12, 12)) / 3
        d = np.full(12, 0.5)

        def function(x):
            v = A @ x
            value = 0.5 * d @ x**2 + np.logaddexp(0, v).sum() - height * np.cos(x).sum()
            p = 1 / (1 + np.exp(-v))
            slope = d * x + A.T @ p + height * np.sin(x)
            H = A.T @ np.diag(p * (1 - p)) @ A + np.diag(d + height * np.cos(x))
            return value, slope, H

        super().__init__(function, np.linspace(-3, 3, 12))


@pytest.mark.parametrize("height", [0.0, 0.3, 2.0], ids=["convex", "convex waves", "waves"])
def test_newton_ends_at_a_minimum_of_what_is_not_convex(height):
    problem = Hilly(height)
    x = Newton().solve(problem)
    _, slope, H = problem.hessian(x)
    assert np.abs(slope).max() < 1e-6
    assert np.linalg.eigvalsh(H).min() > 0
    if height < 1:
        assert_allclose(x, LBFGS().solve(problem), atol=1e-6)


def test_newton_stays_where_a_direction_does_not_matter():
    """Of x + y alone: the difference keeps its start."""

    def function(x):
        v = np.exp(x.sum()) - 1
        slope = np.full(2, 2 * v * (v + 1))
        return v**2, slope, np.full((2, 2), 2 * (v + 1) * (2 * v + 1))

    assert_allclose(Newton().solve(Smooth(function, np.array([3.0, -2.0]))), [2.5, -2.5])
