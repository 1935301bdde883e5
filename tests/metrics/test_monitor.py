"""A monitor is a supermartingale under the null, and its e-values are products of bets."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.label_histogram import AdjudicatedRatingsWarning, Annotations, KnownProbabilities
from sklearn_lhcal.metrics import CalibrationMonitor

STAKES = (-0.8, -0.4, -0.2, -0.1, 0.1, 0.2, 0.4, 0.8)


@pytest.fixture(scope="module")
def data():
    return make_label_histograms(600, n_raters=(1, 4), overconfidence=2.0, random_state=0)


def expected(Z, Q, value):
    """The mean of a value over all sequences of labels, one a sample, drawn from Q."""
    n, K = Z.shape
    total = 0.0
    for said in itertools.product(range(K), repeat=n):
        chance = Q[np.arange(n), said].prod()
        total += chance * value(np.eye(K, dtype=int)[list(said)])
    return total


@pytest.mark.parametrize(("n", "K"), [(5, 2), (4, 3)])
def test_an_exact_model_is_a_martingale_without_tolerance(n, K):
    Z = np.random.default_rng(0).dirichlet(np.ones(K), n)
    one = expected(Z, Z, lambda y: CalibrationMonitor(tolerance=0.0).update(y, Z).e_value)
    assert one == pytest.approx(1, abs=1e-12)
    # a detector starts a bet with each sample
    runs = expected(
        Z, Z, lambda y: CalibrationMonitor(tolerance=0.0, mean_run=9).update(y, Z).e_value
    )
    assert runs == pytest.approx(n, abs=1e-11)


@pytest.mark.parametrize(("shift", "inside"), [(0.05, True), (-0.05, True), (0.4, False)])
def test_tolerated_means_are_a_supermartingale(shift, inside):
    """Two classes, whose residuals have means at the edge of what is tolerated, or beyond it."""
    share = np.linspace(0.3, 0.55, 8)
    Z = np.column_stack([1 - share, share])
    Q = Z + np.array([-shift, shift])

    def monitored(y):
        return CalibrationMonitor(0.8, tolerance=0.05).update(y, Z)

    mean = expected(Z, Q, lambda y: monitored(y).e_value)
    assert (mean <= 1 + 1e-12) == inside
    if inside:
        # Ville's inequality, at a threshold that some sequences reach
        alarms = expected(Z, Q, lambda y: monitored(y).alarm is not None)
        assert 0 < alarms <= 0.8


@pytest.mark.parametrize(("shift", "inside"), [(0.006, True), (-0.006, True), (0.2, False)])
def test_a_rare_class_has_less_of_the_tolerance(shift, inside):
    """A class of 3%: its mean may be 10·3% of the tolerance away, and no more."""
    Z = np.tile([0.97, 0.03], (9, 1))
    Q = Z + np.array([-shift, shift])
    mean = expected(Z, Q, lambda y: CalibrationMonitor(tolerance=0.02).update(y, Z).e_value)
    assert (mean <= 1 + 1e-12) == inside


@pytest.mark.slow
def test_a_rare_class_that_doubles_is_found_and_others_give_no_false_alarms():
    rng = np.random.default_rng(0)
    found = {"alike": [], "doubled": []}
    for _ in range(60):
        z = 1 / (1 + np.exp(3.9 - rng.normal(size=3000)))
        Z = np.column_stack([1 - z, z])
        for name, odds in (("alike", 1.0), ("doubled", 2.0)):
            chance = odds * z / (1 - z + odds * z)
            y = (rng.random(3000) < chance).astype(int)
            found[name].append(CalibrationMonitor().update(np.eye(2, dtype=int)[y], Z).alarm)
    assert sum(alarm is not None for alarm in found["alike"]) <= 3
    assert sum(alarm is not None for alarm in found["doubled"]) > 50


def test_each_bet_has_mean_at_most_1_whatever_was_before():
    """E[factor | past] ≤ 1 at the edges of the tolerance: means only fall from sample to sample."""
    Z, past = np.full((1, 2), 0.5), [np.array([[9, 1]]), np.array([[0, 1]]), np.array([[1, 0]])]
    for before in past:
        monitor = CalibrationMonitor(tolerance=0.1).update(before, Z)
        for share in (0.4, 0.6):
            after = 0.0
            for k, chance in enumerate((1 - share, share)):
                went_on = pickle.loads(pickle.dumps(monitor))
                after += chance * went_on.update(np.eye(2, dtype=int)[[k]], Z).e_value
            assert after <= monitor.e_value + 1e-12


def test_exact_disagreement_is_a_martingale_without_tolerance():
    """Pairs of labels from a Dirichlet-multinomial; class means are exact too."""
    d = Dirichlet([[1.0, 2.0], [0.5, 0.2], [3.0, 1.0]])
    z, pairs = d.mean(), np.array([[2, 0], [1, 1], [0, 2]])
    differ = d.disagreement()
    chance = np.column_stack([z[:, 0] - differ / 2, differ, z[:, 1] - differ / 2])
    total = np.zeros(2)
    for kinds in itertools.product(range(3), repeat=3):
        monitor = CalibrationMonitor(tolerance=0.0, disagreement_tolerance=0.0)
        monitor.update(pairs[list(kinds)], d)
        values = np.array([monitor.e_value, monitor.disagreement_e_value])
        total += chance[np.arange(3), kinds].prod() * values
    np.testing.assert_allclose(total, 1, atol=1e-12)


def factors(y, z, tolerance):
    """1 + λ(x − ε sign λ) of each sample, residual and stake, as the docstring says."""
    # of each class and of log z; classes below 0.1 have less
    so_far = np.array([z[: t + 1].mean(axis=0) for t in range(len(z))])
    tolerance = tolerance * np.column_stack([np.minimum(10 * so_far, 1), np.ones(len(z))])
    assert (so_far < 0.1).any()
    e = y / y.sum(axis=1, keepdims=True) - z
    f = np.maximum(np.log(np.maximum(z, 1e-300)), -4) / 4
    x = np.column_stack([e, (f * e).sum(axis=1)])
    assert (np.abs(x) <= 1).all()
    found = [1 + s * (x - tolerance * np.sign(s)) for s in STAKES]
    return np.stack(found, axis=-1)


def test_the_e_value_is_the_mean_of_products(data):
    y, z = data.counts[:60], data.prediction[:60]
    monitor = CalibrationMonitor(tolerance=0.02, disagreement_tolerance=0.03).update(y, z)
    each = factors(y, z, 0.02)
    np.testing.assert_allclose(monitor.e_value, each.prod(axis=0).mean(), rtol=1e-11)
    path = np.log(each.cumprod(axis=0).mean(axis=(1, 2)))
    np.testing.assert_allclose(monitor.history.log_e, path, rtol=1e-10, atol=1e-12)
    n = y.sum(axis=1)
    two = n >= 2
    differ = 1 - (y * (y - 1)).sum(axis=1)[two] / (n * (n - 1))[two]
    x = differ - (1 - (z**2).sum(axis=1))[two]
    assert (np.abs(x) <= 1).all()
    found = np.mean([np.prod(1 + s * (x - 0.03 * np.sign(s))) for s in STAKES])
    np.testing.assert_allclose(monitor.disagreement_e_value, found, rtol=1e-11)


def test_a_detector_is_the_sum_of_all_restarts(data):
    y, z = data.counts[:60], data.prediction[:60]
    each = factors(y, z, 0.01)
    monitor = CalibrationMonitor(mean_run=10**9).update(y, z)
    for n in (1, 2, 30, 60):
        restarts = sum(each[j:n].prod(axis=0) for j in range(n))
        found = monitor.history.log_e[n - 1]
        np.testing.assert_allclose(found, np.log(restarts.mean()), rtol=1e-10, atol=1e-12)
    assert monitor.threshold == 10**9
    assert monitor.alarm is None


@pytest.mark.parametrize("mean_run", [None, 500])
def test_batches_do_not_matter(data, mean_run):
    """Nor does pickling between them."""
    whole = CalibrationMonitor(mean_run=mean_run).update(data.counts, data.prediction)
    single = CalibrationMonitor(mean_run=mean_run)
    for i in range(600):
        assert single.update(data.counts[[i]], data.prediction[[i]]) is single
    parts = CalibrationMonitor(mean_run=mean_run)
    for rows in (slice(0, 7), slice(7, 450), slice(450, 600)):
        parts = pickle.loads(pickle.dumps(parts))
        parts.update(data.counts[rows], data.prediction[rows])
    for other in (single, parts):
        assert other.alarm == whole.alarm is not None
        assert other.disagreement_alarm == whole.disagreement_alarm is not None
        np.testing.assert_array_equal(other.history.sample, whole.history.sample)
        # rounding of sums of logarithms
        for a, b in zip(other.history[1:], whole.history[1:], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
        assert repr(other) == repr(whole)


def test_the_alarm_is_the_first_crossing_and_stays(data):
    # so few that the history holds each of them
    few = CalibrationMonitor(0.1).update(data.counts[:200], data.prediction[:200])
    crossed = few.history.log_e >= np.log(few.threshold)
    assert few.alarm == 1 + np.argmax(crossed)
    assert few.threshold == 10
    assert 1 < few.alarm < 200
    z = np.tile([0.9, 0.1], (60, 1))
    wrong, right = np.tile([0, 1], (60, 1)), np.tile([9, 1], (60, 1))
    monitor = CalibrationMonitor().update(wrong[:10], z[:10])
    alarm = monitor.alarm
    assert alarm <= 10
    for _ in range(40):
        monitor.update(right, z)
    assert monitor.e_value < 20
    assert monitor.alarm == alarm


def test_a_history_is_short():
    y, z = np.tile([[1, 0], [0, 1]], (25_000, 1)), np.full((50_000, 2), 0.5)
    monitor = CalibrationMonitor().update(y, z)
    history = monitor.history
    assert monitor.n_samples == history.sample[-1] == 50_000
    assert 100 <= len(history.sample) <= 201
    # evenly, but for the latest
    assert len(set(np.diff(history.sample)[:-1])) == 1
    assert len(pickle.dumps(monitor)) < 8000
    # long after calibrated samples the e-value is small, and no number overflows
    assert 0 <= monitor.e_value < 1e-10
    assert monitor.alarm is None
    surely = CalibrationMonitor().update(y[::2], np.tile([0.1, 0.9], (25_000, 1)))
    assert surely.e_value == np.inf
    assert np.isfinite(surely.history.log_e).all()


def test_what_counts_for_which_process(data):
    """Samples with one label leave the disagreement, and those without labels everything."""
    z = data.prediction[:40]
    said = np.random.default_rng(0).integers(3, size=(40, 2)).astype(float)
    said[::4] = np.nan
    said[1::4, 1] = np.nan
    labels = Annotations.from_matrix(said, classes=[0, 1, 2])
    seen = CalibrationMonitor().update(labels, z)
    assert seen.n_samples == 30
    rated, pairs = ~np.isnan(said).all(axis=1), ~np.isnan(said).any(axis=1)
    same = CalibrationMonitor().update(labels[rated].counts, z[rated])
    assert repr(seen) == repr(same)
    only = CalibrationMonitor().update(labels[pairs].counts, z[pairs])
    assert only.disagreement_e_value == pytest.approx(seen.disagreement_e_value, rel=1e-12)
    assert only.e_value != pytest.approx(seen.e_value)
    single = CalibrationMonitor().update(np.eye(3, dtype=int), z[:3])
    assert single.disagreement_e_value == 1
    assert CalibrationMonitor(mean_run=9).update(np.eye(3, dtype=int), z[:3]).history[2][-1] == (
        -np.inf
    )


def test_the_second_alarm_is_of_disagreement_alone():
    """Raters of a sample who always agree, where means are as predicted."""
    z = np.tile([0.5, 0.5], (200, 1))
    y = np.tile([[3, 0], [0, 3]], (100, 1))
    monitor = CalibrationMonitor().update(y, z)
    assert monitor.alarm is None
    assert monitor.disagreement_alarm < 20


def test_names_decide(data):
    names, other = ["c", "a", "b"], ["b", "c", "a"]
    y = pd.DataFrame(data.counts, columns=names)
    z = pd.DataFrame(data.prediction, columns=names)
    plain = CalibrationMonitor().update(data.counts, data.prediction)
    named = CalibrationMonitor().update(y[:300], z[:300]).update(y[300:][other], z[300:][other])
    assert named.e_value == pytest.approx(plain.e_value, rel=1e-9)
    order = [2, 0, 1]
    turned = CalibrationMonitor().update(data.counts[:, order], data.prediction[:, order])
    assert turned.e_value == pytest.approx(plain.e_value, rel=1e-9)
    strange = z.rename(columns={"c": "d"})
    with pytest.raises(ValueError, match=r"the sets differ by \['c', 'd'\]"):
        named.update(y.rename(columns={"c": "d"}), strange)


def test_known_probabilities_are_many_labels(data):
    Q, z = data.proba[:20], data.prediction[:20]
    known = CalibrationMonitor().update(KnownProbabilities(Q), z)
    many = CalibrationMonitor().update(np.round(1e12 * Q).astype(int), z)
    assert known.e_value == pytest.approx(many.e_value, rel=1e-9)
    assert known.disagreement_e_value == pytest.approx(many.disagreement_e_value, rel=1e-9)


def test_a_third_label_where_two_differ_is_said():
    said = np.tile([[0, 0, np.nan], [0, 1, 1]], (30, 1))
    with pytest.warns(AdjudicatedRatingsWarning):
        y = Annotations.from_matrix(said, classes=[0, 1])
    with pytest.warns(AdjudicatedRatingsWarning):
        CalibrationMonitor().update(y, np.full((60, 2), 0.5))


@pytest.mark.parametrize("mean_run", [None, 50])
def test_an_error_leaves_it_as_it_was(data, mean_run):
    monitor = CalibrationMonitor(mean_run=mean_run).update(data.counts, data.prediction)
    before = pickle.dumps(monitor)
    for y, z, said in (
        (data.counts[:5, :2] + 1, np.full((5, 2), 0.5), "have 2 classes, but the first update had"),
        (data.counts[:5], data.prediction[:4], "prediction|samples"),
        (data.counts[:5], data.prediction[:5] * 2, "must sum to 1"),
        (-data.counts[:5], data.prediction[:5], "negative counts"),
        (0 * data.counts[:5], data.prediction[:5], "without labels"),
        (data.counts[:5], None, "prediction is None"),
    ):
        with pytest.raises(ValueError, match=said):
            monitor.update(y, z)
    assert pickle.dumps(monitor) == before


@pytest.mark.parametrize(
    "wrong",
    [
        *({"alpha": a} for a in (0, 1, -0.1, 1.5, np.nan, "a", None)),
        *({"tolerance": t} for t in (-0.01, 0.3, np.inf, "a", None)),
        *({"disagreement_tolerance": t} for t in (-0.01, 0.3)),
        *({"mean_run": r} for r in (0, -5, 2.5, "a")),
    ],
)
def test_wrong_arguments(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"{name} must"):
        CalibrationMonitor(**wrong)


def test_nothing_seen():
    monitor = CalibrationMonitor()
    assert repr(monitor) == (
        "CalibrationMonitor(n_samples=0, e_value=1, alarm=None, disagreement_e_value=1, "
        "disagreement_alarm=None)"
    )
    assert monitor.history.sample.size == 0
    assert CalibrationMonitor(mean_run=100).e_value == 0
    assert repr(monitor.history) == "MonitorHistory(3 arrays)"
