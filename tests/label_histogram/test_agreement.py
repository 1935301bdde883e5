"""Agreement beyond chance: against irrCAC, krippendorff and scikit-learn, and its limits."""

import json
from pathlib import Path

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import cohen_kappa_score

from sklearn_lhcal import label_histogram
from sklearn_lhcal.label_histogram import (
    Annotations,
    KnownProbabilities,
    cohen_kappa,
    conger_kappa,
    fleiss_kappa,
    gwet_ac,
    krippendorff_alpha,
    pairwise_disagreement,
    percent_agreement,
)
from sklearn_lhcal.metrics import confidence_interval

# irrCAC demands SciPy 1.12.0 and pandas 2, so that no extra can name it: its numbers are recorded.
RECORDED = json.loads((Path(__file__).parent / "irrcac.json").read_text(encoding="utf-8"))["cases"]
WEIGHTS = ["nominal", "linear", "quadratic", "ordinal"]
COUNTED = [percent_agreement, fleiss_kappa, gwet_ac, krippendorff_alpha]
NAMED = [conger_kappa]
COEFFICIENTS = [fleiss_kappa, gwet_ac, conger_kappa, krippendorff_alpha]


def studied(n=40, R=5, K=4, missing=0.3, seed=0):
    """Ratings 1 … K of raters who agree more than by chance; gaps are None."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n, 1)) + 0.8 * rng.normal(size=(n, R)) + 0.4 * rng.normal(size=R)
    ratings = np.clip(np.floor(latent + K / 2 + 0.5), 1, K).astype(int).astype(object)
    ratings[rng.random((n, R)) < missing] = None
    return ratings


def annotated(ratings, K=4):
    return Annotations.from_matrix(np.array(ratings, dtype=object), classes=range(1, K + 1))


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("case", range(len(RECORDED)))
def test_irrcac_says_the_same(case, weights):
    y = annotated(RECORDED[case]["ratings"])
    for name, expected in RECORDED[case]["coefficients"][weights].items():
        value = getattr(label_histogram, name)(y, weights=weights)
        np.testing.assert_allclose(value, expected, atol=1e-10, err_msg=name)
    if y.n_raters == 2:
        assert cohen_kappa(y, weights=weights) == conger_kappa(y, weights=weights)


@pytest.mark.parametrize("weights", ["nominal", "ordinal", "interval"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_krippendorff_says_the_same(weights, missing, seed):
    ratings = studied(missing=missing, seed=seed)
    expected = krippendorff.alpha(
        reliability_data=ratings.astype(float).T,
        level_of_measurement=weights,
        value_domain=[1, 2, 3, 4],
    )
    y = annotated(ratings)
    np.testing.assert_allclose(krippendorff_alpha(y, weights=weights), expected, atol=1e-10)
    # raters need no names
    again = krippendorff_alpha(Annotations.from_counts(y), weights=weights)
    np.testing.assert_allclose(again, expected, atol=1e-10)


@pytest.mark.parametrize(
    ("weights", "theirs"), [("nominal", None), ("linear", "linear"), ("quadratic", "quadratic")]
)
def test_scikit_learn_says_the_same_of_two_raters(weights, theirs):
    ratings = studied(R=2, missing=0, seed=3)
    expected = cohen_kappa_score(*ratings.T.astype(int), weights=theirs)
    np.testing.assert_allclose(cohen_kappa(annotated(ratings), weights=weights), expected)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_names_and_order_make_no_difference(seed):
    """Rows, raters and classes may be permuted; weights of 2 are rows that come twice."""
    rng = np.random.default_rng(seed)
    ratings = studied(n=20, seed=seed)
    y = annotated(ratings)
    turned = annotated(ratings[rng.permutation(20)][:, rng.permutation(5)])
    w = rng.integers(1, 3, 20)
    twice = y[np.repeat(np.arange(20), w)]
    swapped = annotated([[v and 5 - v for v in row] for row in ratings])
    for function in (percent_agreement, fleiss_kappa, gwet_ac, conger_kappa, krippendorff_alpha):
        for weights in WEIGHTS:
            value = function(y, weights=weights)
            np.testing.assert_allclose(function(turned, weights=weights), value, atol=1e-12)
            np.testing.assert_allclose(function(swapped, weights=weights), value, atol=1e-12)
        np.testing.assert_allclose(function(y, sample_weight=w), function(twice), atol=1e-12)
        if function is not krippendorff_alpha:
            weighted = [function(y, sample_weight=scale * w) for scale in (1, 8)]
            np.testing.assert_allclose(*weighted, rtol=1e-12)


def test_chance_is_0_on_average():
    """Labels that do not depend on the row: the mean over studies is 0 within 4 standard errors."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 4)
    values = []
    for _ in range(300):
        ratings = np.column_stack([rng.choice(3, 30, p=p_r) + 1 for p_r in p])
        values.append(conger_kappa(annotated(ratings, 3)))
    values = np.array(values)
    assert abs(values.mean()) < 4 * values.std() / np.sqrt(len(values))


def test_limits():
    agreed = annotated([[1, 1, 1], [2, 2, 2], [4, 4, None]])
    for function in (*COUNTED, *NAMED):
        for weights in WEIGHTS:
            assert function(agreed, weights=weights) == pytest.approx(1, abs=1e-12)
        with pytest.warns(UndefinedMetricWarning, match="no sample with a positive weight has two"):
            assert np.isnan(function(annotated([[1, None], [None, 2]])))
    for function in (fleiss_kappa, conger_kappa, krippendorff_alpha):
        with pytest.warns(UndefinedMetricWarning, match="all labels are of one class"):
            assert np.isnan(function(annotated([[1, 1], [1, 1]])))


def test_one_class_is_agreed_upon():
    y = Annotations.from_matrix([["a", "a"]])
    assert [percent_agreement(y, weights=weights) for weights in WEIGHTS] == [1, 1, 1, 1]


def test_percent_agreement_is_one_minus_the_mean_disagreement():
    y = annotated(studied())
    several = y.n > 1
    d = pairwise_disagreement(y)[several]
    np.testing.assert_allclose(percent_agreement(y), 1 - d.mean(), rtol=1e-12)
    Q = KnownProbabilities([[0.5, 0.5], [1.0, 0.0]])
    assert percent_agreement(Q) == pytest.approx(0.75)
    assert fleiss_kappa(Q) == pytest.approx((0.75 - 0.625) / 0.375)


def test_a_matrix_of_weights_is_what_its_name_says():
    y = annotated(studied())
    place = np.arange(4)
    distance = abs(place[:, None] - place)
    matrices = {
        "nominal": np.eye(4),
        "linear": 1 - distance / 3,
        "quadratic": 1 - distance**2 / 9,
        "interval": 1 - distance**2 / 9,
    }
    for function in (*COUNTED, *NAMED):
        for name, S in matrices.items():
            assert function(y, weights=S) == pytest.approx(function(y, weights=name), rel=1e-12)


@pytest.mark.parametrize("function", [percent_agreement, fleiss_kappa, gwet_ac, conger_kappa])
def test_weights_are_repetition(function):
    ratings = studied(n=20, seed=1)
    ratings[0] = None
    y = annotated(ratings)
    weight = np.random.default_rng(0).integers(4, size=20)
    repeated = function(y.take(np.repeat(np.arange(20), weight)))
    assert function(y, sample_weight=weight) == pytest.approx(repeated, rel=1e-12)
    with pytest.warns(UndefinedMetricWarning):
        assert np.isnan(function(y, sample_weight=np.eye(20)[0]))


def test_distances_are_those_of_classes_that_are_numbers():
    """Without a rating of 3 the distance from 2 to 4 stays 2."""
    ratings = np.array([[1, 2], [2, 4], [4, 4], [1, 1]])
    given = Annotations.from_matrix(ratings, classes=[1, 2, 3, 4])
    occurring = Annotations.from_matrix(ratings)
    for weights in ("linear", "quadratic"):
        np.testing.assert_allclose(
            fleiss_kappa(given, weights=weights), fleiss_kappa(occurring, weights=weights)
        )


def test_what_is_refused():
    y = annotated(studied())
    for function in (conger_kappa, cohen_kappa):
        with pytest.raises(TypeError, match="y must be Annotations"):
            function(y.counts)
    with pytest.raises(ValueError, match="cohen_kappa is of two raters, y has 5"):
        cohen_kappa(y)
    with pytest.raises(ValueError, match="finitely many raters"):
        krippendorff_alpha(KnownProbabilities([[0.5, 0.5]]))
    S = np.eye(4)
    S[0, 1] = 0.5
    one_is_not_1 = np.diag([1.0, 1, 1, 0.9])
    for wrong in (
        S,
        one_is_not_1,
        2 * np.eye(4),
        np.eye(4) + 3 * (1 - np.eye(4)),
        np.eye(3),
        "cubic",
    ):
        with pytest.raises(ValueError, match="weights must"):
            fleiss_kappa(y, weights=wrong)
    with pytest.raises(ValueError, match="NaN or infinite"):
        fleiss_kappa(y, weights=np.full((4, 4), np.nan))


@pytest.mark.parametrize("function", [percent_agreement, fleiss_kappa, gwet_ac, conger_kappa])
def test_intervals(function):
    """Of counts over rows; with an option; the estimate is the function's."""
    y = annotated(studied(n=100, R=6, missing=0.5))
    interval = confidence_interval(function, y, None, weights="linear", random_state=0)
    assert interval.estimate == pytest.approx(function(y, weights="linear"), rel=1e-12)
    assert interval.low < interval.estimate < interval.high


def rare(n, R, prevalence=-4.5, seed=0):
    """Labels of raters who are alike, of whom few say 1: 5 % of them."""
    rng = np.random.default_rng(seed)
    p = 1 / (1 + np.exp(-prevalence - 2 * rng.normal(size=(n, 1))))
    return (rng.random((n, R)) < p).astype(int)


def ends(function, said, K=2, **options):
    y = Annotations.from_matrix(said, classes=range(K))
    return confidence_interval(
        function, y, None, **{"raters": "fixed", "random_state": 0} | options
    )


@pytest.mark.parametrize("function", COEFFICIENTS)
@pytest.mark.parametrize("weights", ["nominal", "ordinal"])
def test_no_order_changes_an_interval(function, weights):
    rng = np.random.default_rng(0)
    said = studied(n=60, R=4, missing=0.0).astype(int) - 1
    w, groups = rng.integers(1, 4, size=60), rng.integers(0, 25, size=60)
    turned = 3 - said
    at, raters = rng.permutation(60), rng.permutation(4)
    how = {"K": 4, "weights": weights}
    expected = ends(function, said, sample_weight=w, groups=groups, **how)
    shuffled = {"sample_weight": w[at], "groups": groups[at]} | how
    for found in (
        ends(function, turned, sample_weight=w, groups=groups, **how),
        ends(function, said[at][:, raters], **shuffled),
    ):
        assert found[:3] == pytest.approx(expected[:3], rel=1e-9)


@pytest.mark.parametrize("function", COEFFICIENTS)
def test_where_classes_are_common_the_interval_is_the_jackknifes(function):
    said = rare(1000, 4, prevalence=-0.5)

    def plain(y, prediction):
        return function(y)

    found, jackknife = ends(function, said), ends(plain, said, n_blocks=1000)
    width = jackknife.high - jackknife.low
    assert found[:3] == pytest.approx(jackknife[:3], abs=0.06 * width)


def test_groups_are_units_of_agreement():
    """A sample thrice, in a group with a third of the weight each, is the sample."""
    said = rare(50, 3)
    thrice = {"groups": np.repeat(np.arange(50), 3), "sample_weight": np.full(150, 1 / 3)}
    for function in COEFFICIENTS:
        found = ends(function, np.repeat(said, 3, axis=0), **thrice)
        assert found[:3] == pytest.approx(ends(function, said)[:3], rel=1e-9)


def test_agreement_of_one_class_may_be_lower_elsewhere():
    for function in COEFFICIENTS:
        found = ends(function, np.zeros((40, 3), dtype=int))
        assert -0.1 < found.low < 0.95
        assert found.high == 1
    # 98 of 100 agree on the class of nearly all: kappa is not known
    found = confidence_interval(fleiss_kappa, [[3, 0]] * 98 + [[1, 2]] * 2, None, random_state=0)
    assert found.low < 0.2
    assert 0.9 < found.high < 1


@pytest.mark.parametrize("function", [fleiss_kappa, krippendorff_alpha])
def test_known_probabilities_and_many_classes_have_intervals(function):
    Q = np.random.default_rng(0).dirichlet(np.full(30, 0.1), 60)
    y = KnownProbabilities(Q) if function is fleiss_kappa else np.round(20 * Q).astype(int) + 1
    found = confidence_interval(function, y, None, random_state=0)
    assert found.low < found.estimate < found.high


@pytest.mark.parametrize("function", COEFFICIENTS)
def test_random_raters_make_no_interval_of_agreement_narrower(function):
    said = rare(80, 5)
    fixed, new = ends(function, said), ends(function, said, raters="random")
    assert new.low <= fixed.low < fixed.high <= new.high


@pytest.mark.slow
@pytest.mark.parametrize("design", ["alike", "patients", "gaps"])
def test_agreement_is_covered_where_a_class_is_rare(design):
    """The jackknife covers .4 to .9 of such draws; 200 of them, less 2.5 standard errors."""

    def drawn(n, seed):
        if design == "patients":
            p = np.random.default_rng(seed).normal(-4.5, 2, n)
            rng = np.random.default_rng(seed + 10**6)
            p = 1 / (1 + np.exp(-np.repeat(p, 3)[:, None]))
            return (rng.random((3 * n, 3)) < p).astype(int), np.repeat(np.arange(n), 3)
        said = rare(n, 4, seed=seed).astype(object)
        if design == "gaps":
            said[np.random.default_rng(seed + 10**6).random(said.shape) < 0.3] = None
        return said, None

    said, _ = drawn(200_000, 0)
    y = Annotations.from_matrix(said, classes=[0, 1])
    truth = [function(y) for function in COEFFICIENTS]
    held = np.zeros(len(truth))
    for seed in range(1, 201):
        said, groups = drawn(50, seed)
        found = [ends(function, said, groups=groups) for function in COEFFICIENTS]
        held += [one.low <= t <= one.high for one, t in zip(found, truth, strict=True)]
    assert (held / 200 >= 0.95 - 2.5 * np.sqrt(0.95 * 0.05 / 200)).all()


def test_rows_that_count_for_nothing_are_no_units_of_alpha():
    y = np.array([[2, 0], [1, 1], [0, 3], [2, 1], [1, 2]])
    single = np.vstack([y, [[1, 0], [0, 1], [1, 0]]])
    expected = confidence_interval(krippendorff_alpha, y, None, random_state=0)
    found = confidence_interval(krippendorff_alpha, single, None, random_state=0)
    assert found == pytest.approx(expected, rel=1e-9)
    assert found.df is None


@pytest.mark.parametrize("weights", ["nominal", "ordinal", "interval"])
def test_a_weight_of_krippendorff_repeats_the_row(weights):
    rng = np.random.default_rng(0)
    y = rng.multinomial(3, [0.5, 0.3, 0.2], size=12)
    w = rng.integers(1, 4, size=12)
    repeated = krippendorff_alpha(np.repeat(y, w, axis=0), weights=weights)
    whole = krippendorff_alpha(y, weights=weights, sample_weight=w)
    assert whole == pytest.approx(repeated, rel=1e-12)
    blocks = {"n_blocks": 12, "raters": "fixed", "random_state": 0, "weights": weights}
    found = confidence_interval(krippendorff_alpha, y, None, sample_weight=w, **blocks)
    assert found.estimate == pytest.approx(repeated, rel=1e-12)


def test_weights_of_krippendorff_that_count_less_than_two_ratings_are_refused():
    y = [[2, 0], [1, 1]]
    with pytest.raises(ValueError, match="sample_weight repeats samples"):
        krippendorff_alpha(y, sample_weight=[0.2, 0.2])
