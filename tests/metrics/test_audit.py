"""The audit of subgroups: its statistic, its limits, its slopes, and the two complaints."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from scipy.stats import binom, norm
from sklearn.linear_model import LogisticRegression

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.label_histogram import Annotations, KnownProbabilities
from sklearn_lhcal.metrics import (
    confidence_interval,
    epistemic_loss,
    irreducible_loss,
    subgroup_audit,
)

N = 300
DATA = make_label_histograms(N, random_state=0)
SITE = np.array(list("abc"))[np.arange(N) % 3]
# probabilities of which the slope cuts none
MIXED = 0.99 * DATA.proba + 0.01 / DATA.proba.shape[1]
# one label a sample
ONE = np.random.default_rng(0).multinomial(1, DATA.proba)


class Arrays:
    """The columns of an audit, (G, K); its p-value and worst cell."""

    def __init__(self, found):
        for name, column in found.columns.items():
            setattr(self, name, column)
        self.n = found.columns["n"][:, 0]
        self.subgroups = found.subgroups
        self.p_value, self.worst, self.frame = found.p_value, found.worst, found.to_frame()

    def interval(self, loss):
        return np.stack([getattr(self, loss + end)[:, 0] for end in ("", "_low", "_high")], axis=1)


def audit(y, z, subgroups, **options):
    return Arrays(subgroup_audit(y, z, subgroups, **{"n_draws": 50} | options))


def test_the_statistic_of_one_label_by_hand():
    found = audit(ONE, DATA.proba, SITE)
    z = DATA.proba
    for g, name in enumerate("abc"):
        here = name == SITE
        e, v = (ONE - z)[here], (z * (1 - z))[here]
        assert_allclose(found.statistic[g], e.sum(axis=0) / np.sqrt(v.sum(axis=0)))
        assert_allclose(found.estimate[g], -e.mean(axis=0))
    assert np.isnan(found.interval("irreducible_loss")).all()
    assert found.note[0, 0].startswith("no losses: fewer than two units")


def test_estimates_of_the_values_of_a_column_add_up():
    found = audit(DATA.counts, DATA.proba, SITE)
    pooled = (DATA.proba - DATA.counts / DATA.counts.sum(axis=1, keepdims=True)).mean(axis=0)
    assert_allclose(found.n @ found.estimate / N, pooled, atol=1e-12)


def test_a_subgroup_by_itself_is_the_statistic_of_its_samples():
    """The others are too few; ρ is that of the one subgroup, which has more than 50 samples."""
    site = np.where(np.arange(N) < 10, "few", "many")
    alone = audit(DATA.counts, DATA.proba, site)
    assert alone.subgroups == ["subgroup=many"]
    three = audit(DATA.counts, DATA.proba, np.where(np.arange(N) < 40, "few", "many"), min_rows=41)
    other = audit(DATA.counts[40:], DATA.proba[40:], SITE[40:])
    assert three.n.sum() == other.n.sum()
    assert_allclose(three.estimate[0], other.n @ other.estimate / other.n.sum())


@pytest.mark.parametrize("y", [ONE, DATA.counts], ids=["one label", "five"])
def test_permutations(y):
    found = audit(y, DATA.proba, SITE)
    order = np.random.default_rng(1).permutation(N)
    shuffled = audit(y[order], DATA.proba[order], SITE[order])
    assert_allclose(shuffled.statistic, found.statistic)
    assert_allclose(shuffled.irreducible_loss, found.irreducible_loss)
    assert_allclose(shuffled.slope, found.slope)
    mirrored = audit(y[:, ::-1], DATA.proba[:, ::-1], SITE)
    assert_allclose(mirrored.statistic[:, ::-1], found.statistic)
    for name in ("slope", "slope_statistic"):
        assert_allclose(getattr(mirrored, name), getattr(found, name))
    # the draws are the same: so is all that is made of them
    renamed = audit(y, DATA.proba, np.array(list("zyx"))[np.arange(N) % 3])
    assert renamed.p_value == found.p_value
    assert_allclose(renamed.low[::-1], found.low, atol=1e-12)
    assert_allclose(renamed.detectable[::-1], found.detectable)


def test_weights_have_no_unit_and_0_is_no_sample():
    w = 1.0 + np.arange(N) % 4
    w[:50] = 0
    found = audit(DATA.counts, DATA.proba, SITE, sample_weight=w)
    scaled = audit(DATA.counts, DATA.proba, SITE, sample_weight=1e-200 * w)
    without = audit(DATA.counts[50:], DATA.proba[50:], SITE[50:], sample_weight=w[50:])
    for other in (scaled, without):
        assert_allclose(other.low, found.low)
        assert_allclose(other.statistic, found.statistic)
        assert_allclose(other.slope_low, found.slope_low)
        assert other.p_value == found.p_value


def test_c_is_that_of_independent_normal_variables_in_large_subgroups():
    """Three disjoint subgroups of two classes: the largest of six |N(0, 1)|.

    A class and the slope are independent, since p is symmetric about 1/2.
    """
    rng = np.random.default_rng(0)
    p = rng.uniform(0.2, 0.8, 3000)
    z = np.stack([1 - p, p], axis=1)
    y = rng.multinomial(1, z)
    found = audit(y, z, np.arange(3000) % 3, n_draws=4000)
    c = norm.ppf((1 + 0.95 ** (1 / 6)) / 2)
    half = (found.high - found.low) / 2
    error = found.estimate / -found.statistic
    # the empirical error may be larger; of 4,000 draws c is within 0.12 (four standard errors)
    assert (half / error).min() == pytest.approx(c, abs=0.12)
    one_more = (found.detectable / error) - norm.ppf(0.8)
    assert_allclose(one_more, np.full((3, 2), one_more[0, 0]))
    assert one_more[0, 0] == pytest.approx(c, abs=0.12)


def test_limits_of_few_events_are_those_of_binomial_counts():
    """No label of the second class in 100 samples: the upper end for its frequency."""
    n = 200
    z = np.tile([0.98, 0.02], (n, 1))
    y = np.tile([1, 0], (n, 1))
    y[:2] = 0, 1
    found = audit(y, z, np.repeat(["a", "b"], n // 2), n_draws=2000)
    # z − μ̂ of "b" lies between 0.02 − the upper end and 0.02
    assert found.high[1, 1] == pytest.approx(0.02)
    tail = binom.cdf(0, 100, 0.02 - found.low[1, 1])
    # at the level of c: Bonferroni's of two subgroups is 0.0125, and c is that of skewed counts
    assert 0.001 < tail < 0.02
    assert_allclose(found.low[:, 0], -found.high[:, 1], atol=2e-3)


def two_complaints(seed: int = 0, n: int = 800):
    """In "b" raters agree less, in "c" the model is wrong."""
    rng = np.random.default_rng(seed)
    site = np.array(list("abc"))[np.arange(n) % 3]
    Q = rng.dirichlet(np.ones(3) * 0.3, n)
    Q[site == "b"] = rng.dirichlet(np.ones(3) * 5, (site == "b").sum())
    z = 0.98 * Q + 0.02 / 3
    z[site == "c"] = 0.6 * z[site == "c"] + 0.4 * np.array([1, 0, 0])
    return rng.multinomial(4, Q), z, site


def test_two_complaints_are_told_apart():
    y, z, site = two_complaints()
    found = audit(y, z, site)
    assert found.worst == ("subgroup=c", 0)
    assert found.p_value < 0.05
    disagree, wrong = map(found.interval, ("irreducible_loss", "epistemic_loss"))
    # intervals that do not overlap
    assert disagree[1, 1] > max(disagree[0, 2], disagree[2, 2])
    assert wrong[2, 1] > max(wrong[0, 2], wrong[1, 2])
    assert found.low[2, 0] > 0 > found.high[2, 1]


def test_losses_are_those_of_confidence_interval():
    y, z, site = two_complaints()
    found = audit(y, z, site)
    here = site == "b"
    for metric in (irreducible_loss, epistemic_loss):
        interval = confidence_interval(metric, y[here], z[here], random_state=0)
        assert_allclose(found.interval(metric.__name__)[1], interval[:3])


def test_more_disagreement_alone_is_no_miscalibration():
    """One ρ for all would take it for one: the statistic of "b" stays that of its own ρ."""
    rng = np.random.default_rng(3)
    n, T = 400, []
    site = np.where(np.arange(n) % 5, "a", "b")
    for seed in range(60):
        z = rng.dirichlet(np.ones(3), n)
        spread = np.where(site == "b", 0.5, 10.0)[:, None]
        G = rng.standard_gamma(spread * z) + 1e-300
        y = rng.multinomial(4, G / G.sum(axis=1, keepdims=True))
        T.append(audit(y, z, site, n_draws=1, random_state=seed).statistic[1])
    # 180 numbers of which three depend on each other: ±5 standard errors of a variance
    assert np.mean(np.square(T)) == pytest.approx(1, abs=0.5)


def design_effect(r, groups):
    """Of residuals r (n,) of one label each, whose variances are v."""
    r, v = r
    patients = np.array([r[groups == g].sum() for g in np.unique(groups)])
    return max(1.0, (patients**2).sum() / v.sum())


def test_groups_widen_by_one_design_effect_for_all_subgroups():
    """Of each class, and of the slope, by hand."""
    rng = np.random.default_rng(0)
    patient = np.arange(N) // 6
    site = SITE[2 * patient]
    y = np.repeat(rng.multinomial(1, MIXED[::6]), 6, axis=0)
    z = np.repeat(MIXED[::6], 6, axis=0)
    found = audit(y, z, site, groups=patient, n_draws=500, min_rows=5)
    bare = audit(y, z, site, n_draws=500, min_rows=5)
    e, v = y - z, z * (1 - z)
    u = np.log(z) - (z * np.log(z)).sum(axis=1, keepdims=True)
    residuals = [*zip(e.T, v.T, strict=True), ((u * e).sum(axis=1), (z * u**2).sum(axis=1))]
    d = np.array([design_effect(r, patient) for r in residuals])
    assert (d > 3).all()
    assert_allclose(found.statistic * np.sqrt(d[:3]), bare.statistic)
    assert_allclose(found.slope_statistic * np.sqrt(d[3]), bare.slope_statistic)
    assert_allclose(found.slope, bare.slope)
    assert found.p_value > bare.p_value
    names = audit(y, z, site, groups=-patient, n_draws=500, min_rows=5)
    assert names.p_value == found.p_value


def test_groups_of_one_sample_are_none():
    """But where residuals are larger than labels of the predictions have."""
    one = audit(ONE, DATA.proba, SITE, groups=np.arange(N))
    none = audit(ONE, DATA.proba, SITE)
    assert (np.abs(one.statistic) <= np.abs(none.statistic) + 1e-12).all()
    assert_allclose(one.statistic, none.statistic, rtol=0.1)


def test_raters_who_lean_to_a_class_are_no_subgroup():
    """All five readers say 1 a little more often or less: that is not the fault of a subgroup."""
    rng = np.random.default_rng(0)
    lean = np.array([0.25, -0.2, 0.2, -0.1, -0.05]) + 0.5
    y = Annotations.from_matrix((rng.random((N, 5)) < lean).astype(int))
    z = np.full((N, 2), 0.5)
    shared = audit(y, z, SITE, n_draws=500)
    assert shared.p_value > 0.05
    assert (shared.detectable > audit(y.counts, z, SITE, n_draws=500).detectable).all()


def slope_of(y, z):
    """Of the largest likelihood of softmax(β log z), by a search."""
    u = np.log(z)
    mu = y / y.sum(axis=1, keepdims=True)

    def loss(beta):
        return -(mu * log_softmax(beta * u, axis=1)).sum()

    return minimize_scalar(loss, bounds=(0, 20), method="bounded", options={"xatol": 1e-9}).x


def test_the_slope_is_that_of_the_likelihood():
    """Of two classes, the coefficient of a logistic regression on the log-odds too."""
    found = audit(DATA.counts, MIXED, SITE)
    expected = [slope_of(DATA.counts[name == SITE], MIXED[name == SITE]) for name in "abc"]
    assert_allclose(found.slope[:, 0], expected, rtol=1e-6)
    z = np.column_stack([MIXED[:, 0], 1 - MIXED[:, 0]])
    y = ONE[:, 0]
    two = audit(np.column_stack([y, 1 - y]), z, SITE)
    x = np.log(z[:, :1] / z[:, 1:])
    for g, name in enumerate("abc"):
        model = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10)
        model.fit(x[name == SITE], y[name == SITE])
        assert two.slope[g, 0] == pytest.approx(model.coef_[0, 0], rel=1e-5)


def test_the_slope_by_hand():
    """Its statistic, limits, and what is detectable, from c of the class frequencies."""
    found = audit(ONE, MIXED, SITE)
    for g, name in enumerate("abc"):
        y, z = ONE[name == SITE], MIXED[name == SITE]
        u = np.log(z)
        S = (u * (y - z)).sum()
        V = ((z * u**2).sum(axis=1) - (z * u).sum(axis=1) ** 2).sum()
        assert found.slope_statistic[g, 0] == pytest.approx(S / np.sqrt(V))
        error = found.detectable[g, 0] / np.sqrt((z * (1 - z))[:, 0].sum()) * len(z)
        assert found.slope_detectable[g, 0] == pytest.approx(error / np.sqrt(V))
        c = error - norm.ppf(0.8)
        beta = found.slope[g, 0]
        q = softmax(beta * u, axis=1)
        own = ((q * u**2).sum(axis=1) - (q * u).sum(axis=1) ** 2).sum()
        squares = ((u * (y - q)).sum(axis=1) ** 2).sum()
        half = c * np.sqrt(max(squares, own)) / own
        assert found.slope_high[g, 0] == pytest.approx(beta + half)
        assert found.slope_low[g, 0] == pytest.approx(max(beta - half, 0))


def test_powers_of_the_probabilities_divide_the_slope():
    z = MIXED**1.7
    found = audit(DATA.counts, MIXED, SITE)
    sharp = audit(DATA.counts, z / z.sum(axis=1, keepdims=True), SITE)
    assert_allclose(1.7 * sharp.slope, found.slope)


def test_a_weight_of_two_is_a_sample_twice_to_the_slope():
    w = 1 + np.arange(N) % 2
    weighted = audit(DATA.counts, MIXED, SITE, sample_weight=w)
    twice = np.repeat(np.arange(N), w)
    repeated = audit(DATA.counts[twice], MIXED[twice], SITE[twice])
    assert_allclose(weighted.slope, repeated.slope)


@pytest.mark.parametrize("z", [[1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0], [0, 1, 0]])
def test_no_slope_where_probabilities_are_none_or_alike(z):
    """Labels that the model calls impossible are found all the same."""
    for y in (np.tile([0, 1, 0], (N, 1)), np.tile([0, 0, 1], (N, 1))):
        found = audit(y, np.tile(z, (N, 1)), SITE)
        assert np.isnan([found.slope, found.slope_low, found.slope_high]).all()
        impossible = z[y[0].argmax()] == 0
        assert (np.isinf(found.slope_statistic) == impossible).all()


def test_slopes_end_at_0_and_20():
    """All predicted classes have the label, or another one has it."""
    z = np.tile([0.8, 0.1, 0.1], (N, 1))
    right = audit(np.tile([1, 0, 0], (N, 1)), z, SITE)
    assert_array_equal(right.slope, np.full((3, 1), 20))
    assert_array_equal(right.slope_low, np.zeros((3, 1)))
    wrong = audit(np.tile([0, 1, 0], (N, 1)), z, SITE)
    assert_array_equal(wrong.slope, np.zeros((3, 1)))
    assert (wrong.slope_high < 1).all()


def powered(seed, b, raters, n=400):
    """Six subgroups, in the third of which z = Q**b over its sum."""
    rng = np.random.default_rng(seed)
    Q = rng.dirichlet(np.ones(3), n)
    site = rng.choice(6, n, p=[0.05, 0.1, 0.15, 0.2, 0.2, 0.3])
    z = np.where((site == 2)[:, None], softmax(b * np.log(Q), axis=1), Q)
    return rng.multinomial(raters, Q), z, site


@pytest.mark.parametrize(("b", "raters"), [(0.35, 4), (2.0, 4), (2.5, 1)])
def test_a_subgroup_with_wrong_confidence_is_found(b, raters):
    """Class frequencies, which are right, do not show it."""
    for seed in range(3):
        y, z, site = powered(seed, b, raters)
        found = subgroup_audit(y, z, {"site": site}, min_rows=10, n_draws=300)
        assert found.worst == ("site=2", "slope")
        assert found.p_value <= 0.01 < found.p_values["class frequencies"]
        assert found.p_values["sharpness"] <= 0.01
        low, high = found.sharpness.loc["site=2", ["slope_low", "slope_high"]]
        assert low < 1 / b < high
        assert high < 1 if b > 1 else low > 1


@pytest.mark.slow
@pytest.mark.parametrize(("b", "raters"), [(2.0, 1), (0.5, 4), (1.0, 1)])
def test_limits_of_slopes_hold_together(b, raters):
    """In 0.95 of draws or more, less three standard errors of 200."""
    held, truth = 0, np.where(np.arange(6) == 2, 1 / b, 1.0)
    for seed in range(200):
        y, z, site = powered(seed, b, raters)
        found = subgroup_audit(y, z, {"site": site}, min_rows=2, n_draws=200)
        wanted = truth[[int(name[-1]) for name in found.subgroups]]
        low, high = found.columns["slope_low"][:, 0], found.columns["slope_high"][:, 0]
        held += ((low <= wanted) & (wanted <= high)).all()
    assert held / 200 > 0.95 - 3 * np.sqrt(0.05 * 0.95 / 200)


@pytest.mark.slow
def test_few_patients_are_no_miscalibration():
    """Rejected at .05, within three standard errors of 200."""
    rejects = 0
    for seed in range(200):
        rng = np.random.default_rng([seed, 1])
        z = rng.dirichlet(np.ones(3), 800)
        patient = np.arange(800) // 4
        # labels of a patient come from one number, in 60 % of them
        same = (rng.random(200) < 0.6)[patient]
        x = np.where(same, rng.random(200)[patient], rng.random(800))
        y = (z.cumsum(axis=1) < x[:, None]).sum(axis=1).clip(max=2)
        site = rng.choice(6, 200, p=[0.05, 0.1, 0.15, 0.2, 0.2, 0.3])[patient]
        found = subgroup_audit(y, z, site, groups=patient, min_rows=5, n_draws=300)
        rejects += found.p_value <= 0.05
    assert rejects / 200 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)


def test_known_probabilities_need_groups():
    known = KnownProbabilities(DATA.proba)
    with pytest.raises(ValueError, match="no labels to draw"):
        audit(known, DATA.proba, SITE)
    found = audit(known, DATA.proba, SITE, groups=np.arange(N))
    assert_array_equal(found.estimate, 0)


def test_labels_with_probability_0_are_found():
    z = np.tile([0.5, 0.5, 0.0], (N, 1))
    y = np.eye(3)[np.arange(N) % 2].astype(int)
    assert np.isfinite(audit(y, z, SITE).statistic).all()
    y[0] = 0, 0, 1
    found = audit(y, z, SITE)
    assert found.worst == ("subgroup=a", 2)
    assert found.statistic[0, 2] == np.inf


def test_the_frame_and_the_text():
    y, z, site = two_complaints()
    found = subgroup_audit(y, z, {"site": site}, n_draws=50)
    frame = found.to_frame()
    assert frame.shape == (9, 18)
    columns = ["n", "slope", "slope_low", "slope_high", "slope_statistic", "slope_detectable"]
    assert found.sharpness.equals(frame.xs(0, level="class")[columns])
    assert frame.loc[found.worst, "estimate"] == frame.estimate.abs().max()
    assert frame.loc[found.worst, "low"] > 0
    for name, column in found.columns.items():
        shown = frame[name].to_numpy().reshape(3, 3)
        assert (shown == np.broadcast_to(column, (3, 3))).all()
    assert frame.index.tolist() == [(g, k) for g in found.subgroups for k in found.classes]
    lines = str(found).splitlines()
    assert len(lines) <= 20
    assert "site=c" in lines[3]
    assert len(repr(found).splitlines()) == 1
    again = pickle.loads(pickle.dumps(found))
    assert str(again) == str(found)
    assert again.to_frame().equals(frame)
    assert again.confidence_level == 0.95


@pytest.mark.parametrize("min_rows", [1, 0, "many"])
def test_min_rows_is_two_or_more(min_rows):
    with pytest.raises(ValueError, match="min_rows must be an int"):
        audit(ONE, DATA.proba, SITE, min_rows=min_rows)


def test_sums_of_many_labels_are_normal():
    """The quantile c of the largest statistic, here of labels, in the audit of their normals."""
    rng = np.random.default_rng(0)
    n, K, n_draws = 6000, 3, 2000
    z = rng.dirichlet(np.ones(K), n)
    w = rng.uniform(0.5, 1.5, n)
    columns = {"a": rng.integers(0, 2, n), "b": rng.integers(0, 2, n)}
    y = rng.multinomial(1, z)
    audit = subgroup_audit(y, z, columns, sample_weight=w, n_draws=4 * n_draws)
    members = np.array([columns[name] == j for name in "ab" for j in (0, 1)]) * w
    error = np.sqrt(members**2 @ (z * (1 - z))) / members.sum(axis=1, keepdims=True)
    c = np.unique((audit.columns["detectable"] / error).round(6)) - norm.ppf(0.8)
    assert len(c) == 1
    u = np.log(np.maximum(z, 1e-6))
    u -= (z * u).sum(axis=1, keepdims=True)
    V = members**2 @ (z * u**2).sum(axis=1)
    largest = []
    for _ in range(n_draws):
        e = rng.multinomial(1, z) - z
        of_class = members @ e / members.sum(axis=1, keepdims=True) / error
        of_slope = members @ (u * e).sum(axis=1) / np.sqrt(V)
        largest.append(max(np.abs(of_class).max(), np.abs(of_slope).max()))
    # the standard error of a 95 % quantile, its density by the neighbours
    low, found, high = np.quantile(largest, [0.94, 0.95, 0.96])
    error_of_c = np.sqrt(0.95 * 0.05 / n_draws) * (high - low) / 0.02
    assert c[0] == pytest.approx(found, abs=4 * error_of_c)
    assert error_of_c < 0.1
