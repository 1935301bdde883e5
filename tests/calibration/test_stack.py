"""StackedCalibration, and the folds that it shares with DecisionCalibration.

`best_weights` is private, and imported with what it reads: its optimum is a law that no public door
shows. So is the fit of a matrix about a temperature, which is no public class.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

from sklearn_lhcal.calibration import (
    BiasCorrectedTemperatureScaling,
    DecisionCalibration,
    MatrixScaling,
    StackedCalibration,
    TemperatureScaling,
    VectorScaling,
)
from sklearn_lhcal.calibration._rows import CalibrationRows
from sklearn_lhcal.calibration._scaling.fit import fit_shrunk
from sklearn_lhcal.calibration._scaling.maps import FittedMap, MatrixMap, SplineMap, TemperatureMap
from sklearn_lhcal.calibration._scaling.stack import best_weights
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Ensemble, predict_dist
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import bayes_decision, decision_risk, label_log_loss

COSTS = [[0, 1, 2], [5, 0, 1], [20, 3, 0]]


@pytest.fixture(scope="module")
def data():
    return make_label_histograms(
        300, n_classes=3, n_raters=(1, 4), overconfidence=2.5, random_state=0
    )


class Frequencies(ClassifierMixin, BaseEstimator):
    """Class frequencies with one row more, spread over all classes, whatever X is."""

    def fit(self, X, y):
        share = (y / y.sum(axis=1, keepdims=True)).sum(axis=0) + 1 / 3
        self.share = share / share.sum()
        self.scale_, self.intercept_ = np.zeros(3), np.log(self.share)
        return self

    def predict_proba(self, X):
        return np.tile(self.share, (len(X), 1))


class After(MatrixScaling):
    """What the stack fits after another member has predicted: about the identity."""

    def _fitted_from(self, temperature, rows):
        same = FittedMap(TemperatureMap(3), np.zeros(1))
        return fit_shrunk(*self._of(rows), same, self._strengths)


class ByEvidence(After):
    """The matrix of few samples."""

    _strengths = None

    def _of(self, rows):
        return MatrixMap(3), rows


class Weak(ByEvidence):
    """That of many samples, of one strength."""

    _strengths = ((1.0, 3.0),)


class Spline(ByEvidence):
    def _of(self, rows):
        return SplineMap(rows.log_proba, rows.weight), rows


def after(part, other):
    """A part that transforms what another predicts, which mixes."""
    return lambda estimator, mixing: part(other(estimator, mixing=mixing), mixing=None)


PARTS = {
    "temperature": TemperatureScaling,
    "frequencies": lambda estimator, mixing: Frequencies(),
    "bias_corrected": BiasCorrectedTemperatureScaling,
    "vector": VectorScaling,
    "matrix": after(Weak, BiasCorrectedTemperatureScaling),
    "spline": after(Spline, BiasCorrectedTemperatureScaling),
}


class Members(ClassifierMixin, BaseEstimator):
    """An ensemble of two members that both predict X."""

    def fit(self, X, y=None):
        self.classes_ = np.arange(X.shape[1])
        return self

    def predict_dist(self, X):
        return Ensemble(np.stack([X] * 2))

    def predict_proba(self, X):
        return X


def shifted(n, bias, seed=0):
    """Logits, and labels whose logits are half of these, shifted by a bias of each class."""
    rng = np.random.default_rng(seed)
    u = rng.normal(0, 2, (n, 3))
    Q = softmax(u / 2 + np.array(bias), axis=1)
    return u, np.array([rng.multinomial(1, q) for q in Q])


@pytest.mark.parametrize("n", [60, 300])
@pytest.mark.parametrize("mixing", ["uniform", "prior", None])
def test_it_is_the_mixture_of_the_public_maps(data, mixing, n):
    """But for its temperature, which is between that of the public class and 1, and the last two.

    The matrix of few samples is shrunk by the evidence.
    """
    X, y = data.prediction[:n], data.counts[:n]
    stack = StackedCalibration("proba", mixing=mixing).fit(X, y)
    parts = dict(PARTS)
    if n < 200:
        parts["matrix"] = after(ByEvidence, TemperatureScaling)
    z = 0
    for w, (name, part) in zip(stack.weights_, parts.items(), strict=True):
        alone = part("proba", mixing=mixing).fit(X, y)
        found = stack.parameters_[name]
        if name == "temperature":
            assert 1 < found["temperature_"] < alone.temperature_
            alone._fitted_map = alone._fitted_map._replace(x=-np.log([found["temperature_"]]))
            found = {"mixing_weight_": found["mixing_weight_"]} if mixing else {}
        z = z + w * alone.predict_proba(X)
        for attribute, value in found.items():
            is_mixing = attribute.startswith("mixing")
            # all mixing of these is in what they are around
            own = alone.estimator_ if is_mixing and name in ("matrix", "spline") else alone
            if name != "frequencies" or not is_mixing:
                assert_allclose(value, vars(own)[attribute], atol=1e-10)
    assert_allclose(stack.predict_proba(X), z, atol=1e-12)
    assert stack.weights_.sum() == pytest.approx(1)


def test_its_temperature_is_shrunk_towards_1():
    """log T ← (1 − 1/(h log²T))₊ log T, with h = Σ var_z(log p)/T²; 1 where chance explains it."""
    rng = np.random.default_rng(0)
    for T, n in ((1.3, 400), (1.0, 100)):
        z = rng.dirichlet(np.ones(3), n)
        y = rng.multinomial(1, z)
        p = z**T / (z**T).sum(axis=1, keepdims=True)
        alone = TemperatureScaling("proba").fit(p, y).temperature_
        q = p ** (1 / alone) / (p ** (1 / alone)).sum(axis=1, keepdims=True)
        u = np.log(p) / alone
        h = ((q * u**2).sum(axis=1) - (q * u).sum(axis=1) ** 2).sum()
        expected = max(1 - 1 / (h * np.log(alone) ** 2), 0) * np.log(alone)
        stack = StackedCalibration("proba", mixing=None).fit(p, y)
        found = np.log(stack.parameters_["temperature"]["temperature_"])
        assert_allclose(found, expected, atol=1e-6)
        assert (found == 0) == (T == 1)


def test_known_probabilities_hardly_shrink_the_temperature():
    """They have no chance in them: it is that of the public class, up to a thousandth."""
    Q = np.random.default_rng(0).dirichlet(2 * np.ones(3), 60)
    p = Q**1.4 / (Q**1.4).sum(axis=1, keepdims=True)
    y = KnownProbabilities(Q)
    alone = TemperatureScaling("proba").fit(p, y).temperature_
    stack = StackedCalibration("proba", mixing=None).fit(p, y)
    assert_allclose(stack.parameters_["temperature"]["temperature_"], alone, rtol=2e-3)


def test_the_temperature_is_preferred_unless_another_map_is_better():
    u, y = shifted(1000, [0, 0, 0])
    assert StackedCalibration("logits").fit(u, y).weights_[0] > 0.5
    u, y = shifted(1000, [1.5, 0, -1.5])
    stack = StackedCalibration("logits").fit(u, y)
    assert stack.weights_[0] < 0.05
    test, labels = shifted(20_000, [1.5, 0, -1.5], seed=1)
    temperature = TemperatureScaling("logits", mixing="uniform").fit(u, y)
    loss = [label_log_loss(labels, m.predict_proba(test)) for m in (stack, temperature)]
    assert loss[0] < 0.95 * loss[1]


def bent(n, seed):
    """Log-odds, and labels whose log-odds are a curve of them: steep below 0, and flat above."""
    rng = np.random.default_rng(seed)
    o = rng.normal(0, 2, n)
    p = expit(np.where(o < 0, 1.5 * o, 2 * np.tanh(o)))
    return np.column_stack([np.zeros(n), o]), (rng.random(n) < p).astype(int)


def test_a_reliability_curve_that_is_no_line_is_followed():
    X, y = bent(2000, 0)
    stack = StackedCalibration("logits").fit(X, y)
    test, labels = bent(50_000, 1)
    loss = {
        name: label_log_loss(labels, model.fit(X, y).predict_proba(test))
        for name, model in (("stack", stack), ("line", VectorScaling("logits", mixing="uniform")))
    }
    assert loss["stack"] < loss["line"] - 0.002
    assert stack.weights_[5] > 0.3


def test_classes_in_another_order_are_the_same_problem(data):
    order = [2, 0, 1]
    one = StackedCalibration("proba").fit(data.prediction, data.counts)
    two = StackedCalibration("proba").fit(data.prediction[:, order], data.counts[:, order])
    z = one.predict_proba(data.prediction)
    assert_allclose(two.predict_proba(data.prediction[:, order]), z[:, order], atol=1e-6)
    curves = [model.parameters_["spline"]["curve_"] for model in (one, two)]
    assert_allclose(curves[1], curves[0][order], atol=1e-6)


@pytest.mark.parametrize("name", ["matrix", "spline"])
def test_a_weight_is_so_many_samples_to_each_member(name, data):
    X, y = data.prediction, data.counts
    w = np.random.default_rng(0).integers(1, 4, len(X))
    weighted = StackedCalibration("proba").fit(X, y, sample_weight=w)
    copied = StackedCalibration("proba").fit(np.repeat(X, w, axis=0), np.repeat(y, w, axis=0))
    for attribute, value in weighted.parameters_[name].items():
        assert_allclose(value, copied.parameters_[name][attribute], atol=1e-6)


@pytest.mark.parametrize("values", [[0.3, 0.3], [0.0, 1.0], [0.1, 0.5, 0.9]])
def test_a_spline_of_few_values_is_fitted(values):
    """Knots keep apart, and the values become the frequencies of their labels."""
    rng = np.random.default_rng(0)
    p = rng.choice(values, 1000)
    y = (rng.random(1000) < 0.1 + 0.8 * p**2).astype(int)
    model = StackedCalibration("proba").fit(np.column_stack([1 - p, p]), y)
    assert (np.diff(model.parameters_["spline"]["knots_"]) > 0.01).all()
    for value in values:
        found = model.predict_proba([[1 - value, value]])[0, 1]
        assert found == pytest.approx(y[p == value].mean(), abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("K", "n"), [(2, 300), (3, 300), (8, 1000)])
def test_a_calibrated_model_hardly_changes(K, n):
    """Divergence from the truth, in nats of all n samples, over 20 simulations."""
    divergence = []
    for seed in range(20):
        rng = np.random.default_rng([K, n, seed])
        z = softmax(rng.normal(0, 2, (n + 4000, K)), axis=1)
        y = rng.multinomial(1, z[:n])
        p = StackedCalibration("proba").fit(z[:n], y).predict_proba(z[n:])
        divergence.append((z[n:] * np.log(z[n:] / p)).sum(axis=1).mean())
    # 1.6 to 2.5 with folds that are alike
    assert n * np.mean(divergence) < 1.4


def test_the_weights_minimise_the_loss_of_the_mixture():
    """Condition of Karush, Kuhn and Tucker: no map would add more than the mixture has."""
    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.ones(4), (3, 60))
    y = rng.multinomial(3, [0.4, 0.3, 0.2, 0.1], 60)
    rows = CalibrationRows(np.log(z[0]), counts=1.0 * y, weight=rng.uniform(0.5, 2, 60))
    w = best_weights(z, rows)
    share = rows.label_shares * rows.weight.sum()
    adds = (share * z / np.einsum("m,mnk->nk", w, z)).sum(axis=(1, 2))
    adds[0] += 0.5 / w[0]
    most = rows.weight.sum() + 0.5
    assert_allclose(adds[w > 1e-3], most, rtol=1e-4)
    assert adds.max() < most * (1 + 1e-4)


def test_many_classes_have_no_matrix():
    """And a hundred no spline."""
    for K, last in ((22, ["spline"]), (100, [])):
        data = make_label_histograms(300, n_classes=K, random_state=0)
        model = StackedCalibration("proba", inner_cv=2).fit(data.prediction, data.counts)
        expected = ["temperature", "frequencies", "bias_corrected", "vector", *last]
        assert list(model.parameters_) == expected
        assert model.weights_.shape == (len(expected),)


def test_a_matrix_is_taken_where_classes_are_mixed_up():
    """Half of the labels of one class are given to the next: no other map can say so."""
    u, y = shifted(2000, [0, 0, 0])
    swap = np.random.default_rng(1).random(2000) < 0.5
    y[swap & (y[:, 0] > 0)] = [0, 1, 0]
    stack = StackedCalibration("logits").fit(u[:1000], y[:1000])
    assert stack.weights_[4] > 0.5
    vector = VectorScaling("logits").fit(u[:1000], y[:1000])
    loss = [label_log_loss(y[1000:], m.predict_proba(u[1000:])) for m in (stack, vector)]
    assert loss[0] < loss[1]


def test_predictions_that_say_nothing_become_the_class_frequencies():
    """No temperature makes them so; and decisions are then no dearer than the best one for all."""
    rng = np.random.default_rng(0)
    u = rng.normal(0, 3, (2000, 3))
    y = rng.multinomial(1, [0.6, 0.35, 0.05], 2000)
    model = StackedCalibration("logits").fit(u[:100], y[:100])
    assert_allclose(model.predict_proba(u[:1]), y[None, :100].mean(axis=1), atol=0.05)
    plain = TemperatureScaling("logits").fit(u[:100], y[:100])
    risks = {}
    for made in (model, plain):
        d = bayes_decision(made.predict_proba(u[100:]), COSTS)
        risks[made] = decision_risk(y[100:], d, COSTS)
    best = min(decision_risk(y[100:], np.full(1900, d), COSTS) for d in range(3))
    assert risks[model] < 1.02 * best < 0.9 * risks[plain]


@pytest.mark.parametrize("mixing", ["uniform", None])
def test_an_ensemble_of_equal_members_is_one_model(data, mixing):
    one = StackedCalibration("proba", mixing=mixing).fit(data.prediction, data.counts)
    members = FrozenEstimator(Members().fit(data.prediction))
    two = StackedCalibration(members, mixing=mixing).fit(data.prediction, data.counts)
    assert_allclose(two.weights_, one.weights_, atol=1e-12)
    z = two.predict_proba(data.prediction)
    assert_allclose(z, one.predict_proba(data.prediction), atol=1e-12)
    dist = two.predict_dist(data.prediction)
    assert_allclose(dist.proba, np.stack([z] * 2), atol=1e-12)
    assert_allclose(dist.weights, 0.5, atol=1e-12)


def test_a_forest_with_members(data):
    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(5, max_depth=3, random_state=0)
    model = StackedCalibration(forest, cv=2).fit(X, y)
    z = model.predict_proba(X)
    assert_allclose(predict_dist(model, X).mean(), z, atol=1e-12)
    assert z.min() >= model.mixing_weight_ * model.mixing_proba_.min() * (1 - 1e-9)
    assert (z.argmax(axis=1) == y).mean() > 0.9


@pytest.mark.slow
def test_the_clip_of_zeros_does_not_matter():
    """Of probabilities that are 0 somewhere, also of true classes; clipped before or not."""
    rng = np.random.default_rng(0)
    Q = rng.dirichlet(np.full(4, 0.3), 3000)
    y = np.array([rng.multinomial(1, 0.97 * q + 0.0075) for q in Q])
    z = np.where(Q < 0.02, 0.0, Q)
    z /= z.sum(axis=1, keepdims=True)
    assert (z[y > 0] == 0).any()
    losses = []
    for clip in (1e-12, 1e-9, 1e-6, 1e-3):
        clipped = np.maximum(z, clip)
        clipped /= clipped.sum(axis=1, keepdims=True)
        model = StackedCalibration("proba").fit(clipped[:1500], y[:1500])
        losses.append(label_log_loss(y[1500:], model.predict_proba(clipped[1500:])))
    assert max(losses) < 1.01 * min(losses)


def test_rows_without_weight_are_not_there(data):
    w = np.arange(300) % 3.0
    some = StackedCalibration("proba").fit(data.prediction, data.counts, sample_weight=w)
    kept = w > 0
    less = StackedCalibration("proba")
    less.fit(data.prediction[kept], data.counts[kept], sample_weight=w[kept])
    assert_allclose(some.weights_, less.weights_, atol=1e-8)
    z = some.predict_proba(data.prediction)
    assert_allclose(z, less.predict_proba(data.prediction), atol=1e-10)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_few_rows_get_a_temperature(n, data):
    model = StackedCalibration("proba").fit(data.prediction[:n], data.counts[:n])
    # four rows make two folds, which decide; fewer make none
    assert model.weights_[0] > 0.3 or n == 4
    assert np.isfinite(model.predict_log_proba(data.prediction)).all()


def test_known_probabilities_and_progress(data, capsys):
    model = StackedCalibration("proba", inner_cv=3, verbose=1)
    model.fit(data.prediction, KnownProbabilities(data.proba))
    assert "stack" in capsys.readouterr().err
    quiet = clone(model).set_params(verbose=0).fit(data.prediction, data.counts)
    assert capsys.readouterr().err == ""
    assert quiet.weights_.shape == (6,)


@pytest.mark.parametrize("n", [0, -1, 1, 2.5])
def test_a_wrong_number_of_folds_is_refused(n, data):
    with pytest.raises(ValueError, match="inner_cv must be an int"):
        StackedCalibration("proba", inner_cv=n).fit(data.prediction, data.counts)


# --------------------------------------------------------------------------------------------------
# ---- the order of rows


@pytest.mark.slow
@pytest.mark.parametrize("scaling", ["stacked", "temperature", "bias_corrected", "vector"])
@pytest.mark.parametrize("ties", [False, True])
def test_the_order_of_rows_changes_nothing(scaling, ties, data):
    X = data.prediction
    if ties:
        # as a forest of four trees says it
        X = np.round(4 * X) + 0.0
        X /= X.sum(axis=1, keepdims=True)
    rng = np.random.default_rng(0)
    by_class = np.argsort(data.counts.argmax(axis=1), kind="stable")
    model = DecisionCalibration("proba", COSTS, scaling=scaling, inner_cv=4)
    first = clone(model).fit(X, data.counts)
    for order in (by_class, by_class[::-1], rng.permutation(len(X))):
        again = clone(model).fit(X[order], data.counts[order])
        for name in ("mean_risk", "standard_error"):
            assert_allclose(again.cv_results_[name], first.cv_results_[name], atol=1e-9)
        assert again.criterion_ == first.criterion_
        assert_allclose(again.predict_proba(X), first.predict_proba(X), atol=1e-5)


def test_folds_are_alike_whichever_the_order():
    """Sorted by class and probability, where folds of neighbours are another problem each."""
    u, y = shifted(400, [1.0, 0, 0])
    order = np.lexsort([u[:, 0], y.argmax(axis=1)])
    model = DecisionCalibration("logits", COSTS, scaling="temperature", mixing=None)
    risks = [clone(model).fit(u[o], y[o]).cv_results_["mean_risk"] for o in (order, slice(None))]
    assert_allclose(*risks, atol=1e-12)


@pytest.mark.parametrize(("n_folds", "expected"), [(2, 2), (5, 4), (10, 4)])
def test_folds_are_no_more_than_the_rows_of_the_most_frequent_vote(n_folds, expected):
    """One rule for the stack and for decisions: each fold holds such a row."""
    votes = np.array([0, 1, 1, 2, 1, 1])
    log_proba = np.log(np.full((6, 3), 1 / 3))
    rows = CalibrationRows(log_proba, counts=np.eye(3)[votes], weight=np.ones(6))
    folds = rows.dealt(n_folds)
    assert len(folds) == expected
    assert all((votes[test] == 1).any() for _, test in folds)


# --------------------------------------------------------------------------------------------------
# -------- the stack in decisions


def test_nll_of_decisions_is_the_stack_and_candidates_are_temperatures_of_it(data):
    plain = StackedCalibration("proba").fit(data.prediction, data.counts)
    z = plain.predict_proba(data.prediction)
    model = DecisionCalibration("proba", COSTS, safeguard=None, inner_cv=4)
    model.fit(data.prediction, data.counts)
    tempered = z ** (1 / model.temperature_)
    tempered /= tempered.sum(axis=1, keepdims=True)
    assert_allclose(model.predict_proba(data.prediction), tempered, atol=1e-12)
    assert model.criterion_ == "direct"
    assert_array_equal(model.weights_, plain.weights_)
    kept = clone(model).set_params(criterion="nll").fit(data.prediction, data.counts)
    assert kept.temperature_ == 1
    assert_allclose(kept.predict_proba(data.prediction), z, rtol=1e-14)


@pytest.mark.slow
def test_grids_are_tried_in_all_combinations(data):
    grid = {"lam": [0.05, 0.5], "beta": [None, 20], "rate": [0.1, 0.01]}
    for scaling in ("temperature", "stacked", "vector"):
        model = DecisionCalibration(
            "proba", COSTS, scaling=scaling, criterion="margin", grid=grid, inner_cv=2
        )
        tried = model.fit(data.prediction, data.counts).cv_results_["params"][1:]
        assert len(tried) == 8
        found = {(one["lam"], one["beta"], one["rate"]) for one in tried}
        assert found == {(a, b, r) for a in grid["lam"] for b in grid["beta"] for r in grid["rate"]}
    ece = DecisionCalibration("proba", COSTS, criterion="ece", grid={"rate": [1.0]}, inner_cv=2)
    rates = ece.fit(data.prediction, data.counts).cv_results_["params"][1:]
    assert rates == [{"criterion": "ece", "rate": 1.0}]


def test_progress_is_shown_where_asked(capsys):
    X, y = load_iris(return_X_y=True)
    DecisionCalibration(GaussianNB(), COSTS, inner_cv=2, verbose=1).fit(X, y)
    said = capsys.readouterr().err
    assert "stack" in said
    assert "selection" in said
