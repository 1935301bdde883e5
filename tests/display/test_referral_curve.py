"""referral_curve: what its two curves are, and that its intervals cover."""

import numpy as np
import pytest
from oracles import KINDS, all_distributions, random_proba, row_outcomes

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Dirichlet, second_opinion_value
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import epistemic_loss, posterior_epistemic_loss, referral_curve

RULES = ["second_opinion_value", "entropy", "disagreement"]
UNCERTAIN = [kind for kind in KINDS if kind != "point mass"]


@pytest.fixture
def data():
    """Rows that the features tell badly and well, two to six raters each."""
    total = np.exp(np.random.RandomState(1).normal(1, 1.5, size=300))
    return make_label_histograms(300, n_raters=(2, 6), total=total, random_state=0)


@pytest.fixture
def distribution(data):
    return Dirichlet.from_mean(data.prediction, data.total)


def both(curve):
    return np.column_stack([curve.expected_gain, curve.realised_gain])


def gains_of(counts, d):
    """Expected and realised gain of each row."""
    z = d.mean()
    realised = [
        epistemic_loss(counts[[i]], z[[i]]) - posterior_epistemic_loss(counts[[i]], d[[i]])
        for i in range(len(d))
    ]
    return second_opinion_value(d), np.array(realised)


def gain_of_known(Q, d):
    """‖Q − z‖² less its expectation after one label drawn from Q, shape (n,)."""
    after = sum(Q[:, k] * ((Q - d.mean_after(k)) ** 2).sum(axis=1) for k in range(Q.shape[1]))
    return ((Q - d.mean()) ** 2).sum(axis=1) - after


# --- curves ---


@pytest.mark.parametrize("kind", UNCERTAIN)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("weighted", [False, True])
def test_curves_run_from_nothing_to_the_gain_of_every_row(kind, rule, weighted):
    rng = np.random.default_rng(0)
    d, counts = all_distributions(40, 3)[kind], rng.multinomial(3, [0.5, 0.3, 0.2], size=40)
    w = rng.uniform(size=40) if weighted else np.ones(40)
    curve = referral_curve(counts, d, rule=rule, sample_weight=w)
    np.testing.assert_allclose(both(curve)[0], 0, atol=1e-15)
    assert curve.expected_gain[-1] == pytest.approx(np.average(second_opinion_value(d), weights=w))
    drop = [loss(counts, d, sample_weight=w) for loss in (epistemic_loss, posterior_epistemic_loss)]
    assert curve.realised_gain[-1] == pytest.approx(drop[0] - drop[1])


def test_curves_by_hand():
    """Two rows of Dirichlet(1, 1), whose mean a label moves from 1/2 to 2/3; two it moves not."""
    d = Dirichlet([[1, 1], [1, 1], [1e9, 1e9], [1e9, 1e9]])
    curve = referral_curve(
        [[2, 0], [1, 1], [1, 1], [2, 0]], d, rule=[3.0, 2.0, 1.0, 0.0], n_points=5
    )
    np.testing.assert_allclose(curve.fraction, [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(curve.expected_gain, np.array([0, 1, 2, 2, 2]) / 18 / 4, atol=1e-9)
    # two equal labels: from ‖(1, 0) − (1/2, 1/2)‖² to ‖(1, 0) − (2/3, 1/3)‖²; two different ones:
    # ‖Q‖² is estimated by 0, so ‖Q − z‖² by z² − 2·1/2, and after one label has moved z towards it
    # by z'² − 2·1/3, the other's probability
    first, second = 1 / 2 - 2 / 9, (1 / 2 - 1) - (5 / 9 - 2 / 3)
    np.testing.assert_allclose(
        curve.realised_gain, np.cumsum([0, first, second, 0, 0]) / 4, atol=1e-9
    )


@pytest.mark.parametrize("kind", UNCERTAIN)
def test_realised_gain_of_known_probabilities(kind):
    rng = np.random.default_rng(0)
    d, Q, priority = (
        all_distributions(20, 3)[kind],
        random_proba(rng, 20, 3),
        rng.permutation(np.arange(20.0)),
    )
    curve = referral_curve(KnownProbabilities(Q), d, rule=priority, n_points=21)
    gain = gain_of_known(Q, d)[np.argsort(-priority)]
    np.testing.assert_allclose(
        curve.realised_gain, np.concatenate([[0], gain.cumsum()]) / 20, atol=1e-14
    )


@pytest.mark.parametrize("kind", UNCERTAIN)
def test_realised_gain_is_unbiased(kind):
    """Exactly, over all labels that the raters of each row can give."""
    d, Q = all_distributions(4, 3)[kind], random_proba(np.random.default_rng(1), 4, 3)
    mean = np.zeros(4)
    for i, raters in enumerate([2, 3, 4, 5]):
        outcomes, p = row_outcomes(Q[i], raters)
        realised = gains_of(outcomes, d[np.full(len(p), i)])[1]
        mean[i] = p @ realised
    np.testing.assert_allclose(mean, gain_of_known(Q, d), rtol=1e-10)


@pytest.mark.parametrize("rule", RULES)
def test_a_calibrated_distribution_gains_what_it_expects(rule):
    total = np.exp(np.random.RandomState(0).normal(1, 1.5, size=20_000))
    data = make_label_histograms(20_000, n_raters=(2, 6), total=total, random_state=0)
    curve = referral_curve(
        data.counts, Dirichlet.from_mean(data.prediction, total), rule=rule, n_points=11
    )
    gap = curve.realised_gain - curve.expected_gain
    assert (np.abs(gap) <= 4 * curve.standard_error).all()
    assert curve.standard_error[-1] < 0.05 * curve.expected_gain[-1]


def test_its_own_value_is_the_best_order_of_the_expected_gain(data, distribution):
    best = referral_curve(data.counts, distribution).expected_gain
    assert (np.diff(best, 2) <= 1e-15).all()  # concave
    rng = np.random.RandomState(0)
    for rule in [*RULES, -second_opinion_value(distribution), *rng.random_sample((5, 300))]:
        assert (
            referral_curve(data.counts, distribution, rule=rule).expected_gain <= best + 1e-15
        ).all()


def test_known_disagreement_is_no_reason_to_ask(data):
    """Half of the rows surely ambiguous, half unknown: value beats entropy, that disagreement."""
    total = np.repeat([0.5, 50.0], 1500)
    data = make_label_histograms(3000, total=total, random_state=0)
    d = Dirichlet.from_mean(data.prediction, total)
    value, entropy, disagreement = (
        np.interp(0.2, s.fraction, s.realised_gain) for s in shown_by_rule(data.counts, d)
    )
    assert value > 1.5 * entropy
    assert entropy > 3 * disagreement


def shown_by_rule(counts, d, **options):
    return [referral_curve(counts, d, rule=rule, **options) for rule in RULES]


def test_a_rule_is_the_order_of_its_priorities(data, distribution):
    arrays = [
        second_opinion_value(distribution),
        distribution.entropy(),
        distribution.disagreement(),
    ]
    for curve, priority in zip(shown_by_rule(data.counts, distribution), arrays, strict=True):
        np.testing.assert_array_equal(
            both(curve), both(referral_curve(data.counts, distribution, rule=priority))
        )
        np.testing.assert_allclose(
            both(curve), both(referral_curve(data.counts, distribution, rule=np.log(priority) - 7))
        )


@pytest.mark.parametrize("normalize", [False, True])
def test_order_of_the_rows_does_not_matter(data, distribution, normalize):
    tied = second_opinion_value(distribution).round(2)
    order, w = (
        np.random.RandomState(0).permutation(300),
        np.random.RandomState(1).random_sample(300),
    )
    for rule in (None, tied):
        one, other = (
            referral_curve(
                data.counts[i],
                distribution[i],
                rule="entropy" if rule is None else rule[i],
                sample_weight=w[i],
                normalize=normalize,
            )
            for i in (np.arange(300), order)
        )
        np.testing.assert_allclose(both(one), both(other), rtol=1e-10, atol=1e-15)
        np.testing.assert_allclose(one.interval, other.interval, rtol=1e-10, atol=1e-15)


@pytest.mark.slow
def test_rows_of_equal_priority_are_referred_in_random_order(data, distribution):
    curve = referral_curve(data.counts, distribution, rule=np.zeros(300))
    np.testing.assert_allclose(both(curve), curve.fraction[:, None] * both(curve)[-1], atol=1e-15)
    rng, tied = np.random.RandomState(0), distribution.entropy().round()
    priorities = tied + 1e-3 * rng.random_sample((200, 300))
    curves = np.array([both(referral_curve(data.counts, distribution, rule=p)) for p in priorities])
    gap = curves.mean(axis=0) - both(referral_curve(data.counts, distribution, rule=tied))
    assert (np.abs(gap) <= 4 * curves.std(axis=0) / np.sqrt(200) + 1e-12).all()


def test_fewer_points_are_some_of_them(data, distribution):
    many, few = (referral_curve(data.counts, distribution, n_points=m) for m in (101, 11))
    for name in ("fraction", "expected_gain", "realised_gain", "standard_error", "interval"):
        np.testing.assert_allclose(getattr(few, name), getattr(many, name)[::10], atol=1e-15)


def test_integer_weights_repeat_rows_and_their_scale_does_not_matter(data, distribution):
    w = np.random.RandomState(0).randint(0, 4, size=300)
    weighted = referral_curve(data.counts, distribution, sample_weight=w)
    i = np.repeat(np.arange(300), w)
    np.testing.assert_allclose(
        both(weighted), both(referral_curve(data.counts[i], distribution[i])), rtol=1e-9, atol=1e-15
    )
    scaled = referral_curve(data.counts, distribution, sample_weight=1e200 * w)
    np.testing.assert_allclose(scaled.interval, weighted.interval, rtol=1e-9, atol=1e-15)


def test_rows_with_one_rater_or_without_weight_are_left_out(data, distribution):
    counts, w = data.counts.copy(), np.ones(300)
    counts[:20], w[20:40] = [1, 0, 0], 0
    priority = np.arange(300.0)
    curve = referral_curve(counts, distribution, sample_weight=w, rule=priority)
    expected = referral_curve(counts[40:], distribution[np.arange(40, 300)], rule=priority[40:])
    np.testing.assert_allclose(both(curve), both(expected), rtol=1e-12, atol=1e-16)
    np.testing.assert_allclose(curve.interval, expected.interval, rtol=1e-9, atol=1e-16)


def test_shares_are_the_gains_over_those_of_every_row(data, distribution):
    gain, share = (referral_curve(data.counts, distribution, normalize=n) for n in (False, True))
    np.testing.assert_allclose(both(share), both(gain) / both(gain)[-1], rtol=1e-12)
    np.testing.assert_allclose(both(share)[-1], 1)
    np.testing.assert_allclose(share.standard_error[[0, -1]], 0, atol=1e-12)
    assert share.standard_error[100] > 0


# --- intervals ---


SCENARIOS = {  # rows, classes, raters, overconfidence, factor of the predicted α0
    "two labels": (300, 3, 2, 1.0, 1.0),
    "some labels": (300, 3, (2, 6), 1.0, 1.0),
    "few rows": (100, 3, 5, 1.0, 1.0),
    "ten classes, many labels": (500, 10, 20, 1.0, 1.0),
    "two classes, overconfident": (300, 2, (2, 6), 1.6, 1.0),
    "too sure": (300, 3, 5, 1.0, 4.0),
    "too unsure": (300, 3, 5, 1.0, 0.25),
}

# fractions .05, .2, .5 and 1 of 21 points
AT = np.array([1, 4, 10, 20])


def referred(priority):
    """The share of each row that is referred at these fractions, (4, n); no two rows tie."""
    n = len(priority)
    rank = np.argsort(np.argsort(-priority))
    return np.clip(AT[:, None] / 20 * n - rank, 0, 1)


def mean_gain(truth, d):
    """Mean of `gain_of_known` over Q of `truth`, (n,): E[Q_k Q] is E[Q_k]·(mean after label k)."""
    Q, z = truth.mean(), d.mean()
    gain = (z * (z - 2 * Q)).sum(axis=1)
    for k in range(Q.shape[1]):
        z = d.mean_after(k)
        gain -= Q[:, k] * (z * (z - 2 * truth.mean_after(k))).sum(axis=1)
    return gain


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_intervals_cover_the_mean_true_gain(scenario):
    """At a few fractions, calibrated or not. Shares near 1 rest on the few late rows that gain."""
    n, K, raters, overconfidence, factor = SCENARIOS[scenario]
    hits = np.zeros((2, 2, len(AT)))  # rules, gains and shares, fractions
    for seed in range(300):
        total = np.exp(np.random.RandomState(seed).normal(1, 1.5, size=n))
        data = make_label_histograms(
            n, K, raters, total=total, overconfidence=overconfidence, random_state=seed
        )
        calibrated = data.prediction ** (1 / overconfidence)
        truth = Dirichlet.from_mean(calibrated / calibrated.sum(axis=1, keepdims=True), total)
        d = Dirichlet.from_mean(data.prediction, factor * total)
        true_gain = mean_gain(truth, d) / n
        for rule, priority in enumerate([second_opinion_value(d), d.entropy()]):
            true = referred(priority) @ true_gain
            for normalize in (False, True):
                how = {"rule": priority, "n_points": 21, "confidence_level": 0.9}
                shown = referral_curve(data.counts, d, normalize=normalize, **how)
                low, high = shown.interval[AT].T + np.array([[-1e-9], [1e-9]])
                gain = true / true_gain.sum() if normalize else true
                hits[rule, int(normalize)] += (low <= gain) & (gain <= high)
    coverage = hits / 300
    assert (coverage[:, 0] >= 0.85).all(), coverage
    assert (coverage[:, 0] <= 0.97).all(), coverage
    assert (coverage[:, 1, :2] >= 0.85).all(), coverage
    assert (coverage[:, 1, 2] >= 0.7).all(), coverage


def test_intervals_grow_with_level_and_shrink_with_rows(data, distribution):
    narrow, wide = (
        referral_curve(data.counts, distribution, confidence_level=level) for level in (0.5, 0.99)
    )
    assert (np.diff(wide.interval)[1:] > np.diff(narrow.interval)[1:]).all()
    np.testing.assert_array_equal(wide.standard_error, narrow.standard_error)
    # Student's, from ten referred samples on; fewer may be alike
    np.testing.assert_allclose(wide.interval.mean(axis=1)[7:], wide.realised_gain[7:], atol=1e-15)
    i = np.tile(np.arange(300), 4)
    more = referral_curve(data.counts[i], distribution[i])
    np.testing.assert_allclose(more.standard_error, wide.standard_error / 2, rtol=1e-9)
