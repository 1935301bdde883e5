"""The logistic-normal distribution.

Against mpmath; its limits; what is particular to it. The laws of every distribution are held to one
of three classes in `test_distributions`, which says what one of two says.
"""

from functools import cache
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from distribution_cases import assert_same, methods
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit, log_expit

from sklearn_lhcal.distributions import Distribution, Ensemble, LogisticNormal, PointMass

LOCS, SCALES = [-20.0, 0.75], [2.0**-20, 1.0, 30.0]


@pytest.fixture
def distribution():
    return LogisticNormal([0.0, -1.5, 4.0, 0.3], [1.0, 3.0, 0.2, 9.0])


@pytest.fixture
def embedded(distribution):
    return distribution.embed([2, 0], 3)


@cache
def mp_node(m, s, t):
    """σ(g), σ(−g) and exp(−t²/2) at g = m + s·t; several integrals share their nodes."""
    g = m + s * t
    return 1 / (1 + mp.exp(-g)), 1 / (1 + mp.exp(g)), mp.exp(-(t**2) / 2)


def mp_average(f, m, s, y=(0, 0)):
    """∫ f(g)·σ(−g)^y0·σ(g)^y1 N(g; m, s²) dg, in 36 digits."""
    with mp.workdps(36):
        m, s = mp.mpf(m), mp.mpf(s)

        def integrand(t):
            up, down, w = mp_node(m, s, t)
            return f(up, down) * up ** y[1] * down ** y[0] * w

        bends = [(c - m) / s for c in np.linspace(-12, 12, 7)] + [
            mp.mpf(c) for c in range(-24, 25, 4)
        ]
        inner = sorted({b for b in bends if abs(b) < 25})
        return mp.quad(integrand, inner) / mp.sqrt(2 * mp.pi)


def mp_entropy(up, down):
    return -sum(p * mp.log(p) for p in (up, down) if p > 0)


@pytest.mark.parametrize(("m", "s"), list(product(LOCS, SCALES)))
def test_moments_and_entropies_are_exact(m, s):
    """Relative to their own size, however small: near a corner, and where the variance is 1e-12."""
    d = LogisticNormal([m], [s])
    with mp.workdps(36):
        up, down = mp_average(lambda u, v: u, m, s), mp_average(lambda u, v: v, m, s)
        variance = mp_average(lambda u, v: (u - up) ** 2, m, s)
        aleatoric = mp_average(mp_entropy, m, s)
        information = mp_entropy(up, down) - aleatoric
        phi = 2 * mp_average(lambda u, v: u * v, m, s)
    np.testing.assert_allclose(d.mean()[0], [float(down), float(up)], rtol=1e-12)
    np.testing.assert_allclose(d.variance()[0], float(variance), rtol=1e-10)
    np.testing.assert_allclose(d.disagreement(), float(phi), rtol=1e-12)
    np.testing.assert_allclose(d.class_disagreement()[0], float(phi), rtol=1e-12)
    np.testing.assert_allclose(d.expected_entropy(), float(aleatoric), rtol=1e-12)
    np.testing.assert_allclose(d.mutual_information(), float(information), rtol=1e-10)


@pytest.mark.parametrize("counts", [(1, 0), (3, 2), (20, 31), (0, 300), (40, 0)])
@pytest.mark.parametrize(("m", "s"), [(0.0, 0.3), (1.0, 5.0), (-2.0, 10.0)])
def test_posteriors_and_likelihoods_are_exact(m, s, counts):
    d, y = LogisticNormal([m], [s]), [counts]
    evidence = mp_average(lambda u, v: 1, m, s, counts)
    moments = [mp_average(lambda u, v, p=p: u**p, m, s, counts) / evidence for p in (1, 2)]
    coefficient = mp.log(mp.binomial(sum(counts), counts[0]))
    assert d.log_prob_counts(y)[0] == pytest.approx(
        float(mp.log(evidence) + coefficient), rel=1e-10, abs=1e-10
    )
    posterior = d.posterior(y)
    assert isinstance(posterior, Ensemble)
    assert posterior.mean()[0, 1] == pytest.approx(float(moments[0]), rel=1e-10)
    assert posterior.second_moment()[0, 1] == pytest.approx(float(moments[1]), rel=1e-10)


def test_labels_that_move_the_peak_by_many_standard_deviations():
    g = np.linspace(-1.0, 3.0, 4001)
    weight = stats.norm.pdf(g, 2.5, 0.15) * expit(-g) ** 103
    mean = weight @ expit(g) / weight.sum()
    found = LogisticNormal([2.5], [0.15]).posterior([[103, 0]]).mean()[0, 1]
    assert found == pytest.approx(mean, rel=1e-10)


def gauss_hermite(f, v, y=(0, 0), nodes=32):
    t, w = np.polynomial.hermite_e.hermegauss(nodes)
    g = np.sqrt(v) * t
    w = w * expit(-g) ** y[0] * expit(g) ** y[1]
    return w @ f(g) / w.sum()


def test_where_gauss_hermite_is_wrong_this_is_right():
    """v = 100: E[H] is .1284; v = 25 and labels (3, 2): the mean is .596."""
    wide = LogisticNormal([0.0], [10.0])
    assert wide.expected_entropy()[0] == pytest.approx(0.1284, abs=5e-5)
    assert (
        gauss_hermite(lambda g: -expit(g) * np.log(expit(g)) - expit(-g) * np.log(expit(-g)), 100)
        < 0.1
    )
    posterior = LogisticNormal([0.0], [5.0]).posterior([[2, 3]])
    assert posterior.mean()[0, 1] == pytest.approx(0.596, abs=5e-4)
    assert gauss_hermite(expit, 25, (2, 3)) > 0.67
    assert wide.posterior([[31, 20]]).mean()[0, 1] == pytest.approx(0.3922, abs=1e-4)


def mp_about(m, s, counts, peak, width):
    """log of ∫ σ(−g)^y0 σ(g)^y1 N(g; m, s²) dg, mean and sd of σ(g), in 60 digits, at a peak."""
    with mp.workdps(60):
        m, s, peak, width = (mp.mpf(a) for a in (m, s, peak, width))

        def log_density(g):
            labels = -counts[1] * mp.log1p(mp.exp(-g)) - counts[0] * mp.log1p(mp.exp(g))
            return labels - ((g - m) / s) ** 2 / 2

        # the trapezoidal rule
        nodes = [peak + k * width / 4 for k in range(-48, 49)]
        w = [mp.exp(log_density(g) - log_density(peak)) * width / 4 for g in nodes]
        z = [1 / (1 + mp.exp(-g)) for g in nodes]
        mass = mp.fsum(w)
        mean = mp.fdot(w, z) / mass
        variance = mp.fdot(w, [(a - mean) ** 2 for a in z]) / mass
        log_mass = mp.log(mass / (s * mp.sqrt(2 * mp.pi))) + log_density(peak)
        coefficient = mp.log(mp.binomial(sum(counts), counts[0]))
        return float(log_mass + coefficient), mean, mp.sqrt(variance)


@pytest.mark.parametrize("n", [10**6, 10**10, 10**15])
@pytest.mark.parametrize("s", [1e-2, 30.0])
def test_very_many_labels(s, n):
    """They are exact still: differences of log-likelihoods this large would cancel."""
    counts = (n, 2 * n)
    d = LogisticNormal([0.5], [s])
    # where the density ends; the prior alone is wider than this by far
    log_p, mean, sd = mp_about(0.5, s, counts, np.log(2.0), (2 * n / 3) ** -0.5)
    posterior = d.posterior([counts])
    assert d.log_prob_counts([counts])[0] == pytest.approx(log_p, rel=1e-9, abs=1e-8)
    assert abs(posterior.mean()[0, 1] - mean) < 1e-6 * sd
    assert posterior.variance()[0, 1] ** 0.5 == pytest.approx(float(sd), rel=1e-6)


@pytest.mark.parametrize(("m", "s"), [(0.0, 3.0), (5.0, 50.0), (1000.0, 1e4)])
@pytest.mark.parametrize("counts", [(0, 1), (0, 10**6), (10**6, 3), (10**15, 0)])
def test_an_edge_beside_a_wide_tail_needs_few_nodes(m, s, counts):
    """One sum over the prior, with nodes a hundredth apart, says the same."""
    d = LogisticNormal([m], [s])
    posterior = d.posterior([counts])
    assert len(posterior.weights) < 1300
    g = np.linspace(-50, 50, 10_001)
    y0, y1 = counts
    middle = (g[:-1] + g[1:]) / 2
    z = expit(middle)
    weight = np.diff(stats.norm.cdf(g, m, s))
    weight = weight * np.exp(y0 * log_expit(-middle) + y1 * log_expit(middle))
    # beyond, labels of one class are certain
    beyond = [stats.norm.cdf(-50, m, s) * (y1 == 0), stats.norm.sf(50, m, s) * (y0 == 0)]
    total = weight.sum() + sum(beyond)
    coefficient = float(mp.log(mp.binomial(y0 + y1, y0)))
    assert d.log_prob_counts([counts])[0] == pytest.approx(np.log(total) + coefficient, abs=1e-4)
    mean = (weight @ z + beyond[1]) / total
    assert posterior.mean()[0, 1] == pytest.approx(mean, abs=1e-5)


# Limits and symmetries


def test_a_scale_of_zero_is_a_point_mass():
    m = np.array([-3.0, 0.0, 1.5, 40.0])
    d, y = LogisticNormal(m, 0.0), [[1, 2], [0, 4], [3, 3], [0, 1]]
    point = PointMass(expit(m))
    for name in (
        "mean",
        "variance",
        "disagreement",
        "expected_entropy",
        "mutual_information",
        "interval",
    ):
        np.testing.assert_allclose(
            getattr(d, name)(), getattr(point, name)(), atol=1e-15, err_msg=name
        )
    np.testing.assert_allclose(
        d.log_prob_counts(y), point.log_prob_counts(y), rtol=1e-12, atol=1e-14
    )
    np.testing.assert_allclose(d.posterior(y).mean(), point.mean(), rtol=1e-12, atol=1e-15)


def test_a_label_that_is_all_but_impossible_costs_its_log_odds():
    d = LogisticNormal([800.0, -900.0], 0.0)
    found = d.log_prob_counts([[2, 1], [1, 3]])
    np.testing.assert_allclose(found, [np.log(3) - 1600, np.log(4) - 2700], rtol=1e-12)


def test_a_very_large_scale_is_one_class_for_certain():
    d = LogisticNormal([1000.0], [1e4])
    np.testing.assert_allclose(d.mean()[0, 1], stats.norm.cdf(0.1), rtol=1e-7)
    np.testing.assert_allclose(d.mutual_information(), d.entropy(), rtol=1e-3)
    np.testing.assert_allclose(d.posterior([1]).mean()[0, 1], 1, atol=1e-4)


def test_the_two_classes_are_treated_alike(distribution):
    mirror = LogisticNormal(-distribution.loc, distribution.scale)
    y = np.arange(8).reshape(4, 2) % 3
    for name in ("mean", "variance", "interval"):
        np.testing.assert_allclose(
            getattr(mirror, name)(), getattr(distribution, name)()[:, ::-1], rtol=1e-13
        )
    for name in ("disagreement", "expected_entropy", "mutual_information"):
        np.testing.assert_allclose(
            getattr(mirror, name)(), getattr(distribution, name)(), rtol=1e-12
        )
    np.testing.assert_allclose(
        mirror.posterior(y[:, ::-1]).mean(), distribution.posterior(y).mean()[:, ::-1]
    )


def test_rows_do_not_depend_on_each_other(distribution):
    """To the last bit: moments and entropies are the same in whatever batch a row stands."""
    rng = np.random.default_rng(0)
    m, s = rng.normal(size=9000), np.exp(rng.normal(size=9000))
    many = LogisticNormal(
        np.concatenate([distribution.loc, m]), np.concatenate([distribution.scale, s])
    )
    for name in (
        "mean",
        "variance",
        "disagreement",
        "expected_entropy",
        "mutual_information",
        "interval",
    ):
        np.testing.assert_array_equal(
            getattr(many, name)()[:4], getattr(distribution, name)(), err_msg=name
        )


# Posteriors, intervals and more classes


def test_the_posterior_without_labels_is_the_prior(distribution):
    posterior = distribution.posterior(np.zeros((4, 2), int))
    before, after = methods(distribution), methods(posterior)
    for name in set(before) - {"interval"}:
        np.testing.assert_allclose(after[name], before[name], rtol=1e-9, atol=1e-14, err_msg=name)
    width = np.ptp(before["interval"], axis=2)[..., None]
    assert (np.abs(after["interval"] - before["interval"]) < 0.1 * width).all()
    # a wide one beside a narrow one
    d = LogisticNormal([0.0, 50.0], [0.05, 500.0])
    np.testing.assert_allclose(d.posterior([[0, 0]] * 2).mean(), d.mean(), rtol=1e-9)


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_intervals_cut_off_the_tails(distribution, level):
    ends = distribution.interval(level)
    assert ends.shape == (4, 2, 2)
    tail = stats.norm.cdf(
        (np.log(ends[:, 1] / (1 - ends[:, 1])).T - distribution.loc) / distribution.scale
    )
    np.testing.assert_allclose(tail, np.tile([[(1 - level) / 2], [(1 + level) / 2]], 4), rtol=1e-8)
    np.testing.assert_allclose(ends[:, 0], 1 - ends[:, 1, ::-1], atol=1e-15)


def test_posterior_intervals_are_a_node_off_at_most(distribution):
    posterior = distribution.posterior([[2, 1]] * 4)
    draws = posterior.sample(40_000, random_state=0)[..., 1]
    g = np.log(posterior.proba[..., 1] / posterior.proba[..., 0])
    step, width = np.diff(g, axis=0).max(axis=0), g.std(axis=0)
    assert (step < 0.2 * width).all()
    low, high = posterior.interval(0.8)[:, 1].T
    np.testing.assert_allclose((draws < low).mean(axis=0), 0.1, atol=0.03)
    np.testing.assert_allclose((draws > high).mean(axis=0), 0.1, atol=0.03)


def test_more_classes_have_probability_zero(distribution, embedded):
    y = np.arange(8).reshape(4, 2)
    spread = np.column_stack([y[:, 1], np.zeros(4, int), y[:, 0]])
    pairs = (distribution, y), (embedded, spread)
    assert embedded.n_classes == 3
    np.testing.assert_array_equal(
        embedded.mean(), np.insert(distribution.mean()[:, ::-1], 1, 0, axis=1)
    )
    narrow, wide = methods(distribution), methods(embedded)
    for name in ("disagreement", "entropy", "mutual_information", "second_opinion_value"):
        np.testing.assert_allclose(wide[name], narrow[name], rtol=1e-12, err_msg=name)
    for name in ("mean", "variance"):
        before, after = (getattr(d.posterior(labels), name)() for d, labels in pairs)
        np.testing.assert_allclose(after[:, [2, 0]], before, rtol=1e-12, err_msg=name)
    np.testing.assert_allclose(
        embedded.log_prob_counts(spread), distribution.log_prob_counts(y), rtol=1e-12
    )
    np.testing.assert_array_equal(embedded.interval()[:, 2], distribution.interval()[:, 0])
    assert_same(embedded.embed([1, 0, 2], 3), distribution.embed([2, 1], 3))


def test_an_impossible_label_has_probability_zero_and_teaches_nothing(embedded):
    assert (embedded.log_prob_counts([[3, 1, 0]] * 4) == -np.inf).all()
    np.testing.assert_allclose(
        embedded.posterior([[3, 1, 0]] * 4).mean(), embedded.mean(), rtol=1e-12
    )


def test_batches_of_different_classes_are_not_joined(distribution, embedded):
    with pytest.raises(ValueError, match="of different classes cannot be joined"):
        Distribution.concatenate([embedded, distribution])


def test_no_pair_no_disagreement():
    assert not LogisticNormal([0.3, -1.0], 2.0).disagreement(pairs=np.zeros((2, 2))).any()


def test_bad_input_is_refused():
    for m, s in (([[0.0]], [1.0]), ([0.0, 1.0], [1.0]), (0.0, 1.0)):
        with pytest.raises(ValueError, match="loc must have shape"):
            LogisticNormal(m, s)
    for m, s in (
        ([np.nan], [1.0]),
        ([1e101], [1.0]),
        ([0.0], [-1.0]),
        ([0.0], [np.inf]),
        ([0.0], [2e4]),
        ([0.0], [np.nan]),
        ([0.0, 1e101], [1.0, 1.0]),
        ([0.0, 0.0], [1.0, -1.0]),
    ):
        with pytest.raises(ValueError, match="scale between 0 and 10000"):
            LogisticNormal(m, s)
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        LogisticNormal([0.0], 1.0).interval(90)
    with pytest.raises(ValueError, match="counts must have shape"):
        LogisticNormal([0.0], 1.0).posterior([[1, 0], [0, 1]])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.floats(-700, 700), st.floats(0, 1e3), st.integers(0, 50), st.integers(0, 50))
def test_uncertainties_are_ordered(m, s, y0, y1):
    d = LogisticNormal([m], [s])
    h, aleatoric, information = d.entropy(), d.expected_entropy(), d.mutual_information()
    assert (information >= 0) & (information <= h * (1 + 1e-12) + 1e-15)
    assert (aleatoric >= 0) & (aleatoric <= h * (1 + 1e-12) + 1e-15)
    assert d.disagreement() <= 1 - (d.mean() ** 2).sum() + 1e-12
    np.testing.assert_allclose(d.mean().sum(), 1, rtol=1e-12)
    after = d.posterior([[y0, y1]])
    assert np.isfinite(after.mutual_information()).all()
    assert d.log_prob_counts([[y0, y1]])[0] <= 1e-12
