"""Data sets: what is promised about probabilities, labels and parts holds."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from scipy.stats import chisquare, kstest, multinomial
from sklearn.datasets import load_digits

from sklearn_lhcal.datasets import (
    load_anesthesia_ratings,
    load_mixed_digits,
    load_psychiatric_diagnoses,
    make_label_histograms,
    make_mixed_images,
    make_random_checkerboard,
)
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.label_histogram import fleiss_kappa
from sklearn_lhcal.metrics import histogram_log_loss, label_log_loss

PARTS = {"train": (810, 1079), "validation": (270, 359), "test": (270, 359)}


@pytest.fixture(scope="module")
def digits():
    return load_mixed_digits()


# --------------------------------------------------------------------------------------------------
# -- mixed digits


@pytest.mark.parametrize("part", PARTS)
def test_digits_have_documented_shapes(digits, part):
    n, n_images = PARTS[part]
    assert digits[f"X_{part}"].shape == (n, 64)
    assert digits[f"images_{part}"].shape == (n, 8, 8)
    assert digits[f"counts_{part}"].shape == digits[f"proba_{part}"].shape == (n, 10)
    assert digits[f"counts_{part}"].dtype == np.int64
    assert np.shares_memory(digits[f"X_{part}"], digits[f"images_{part}"])
    assert len(np.unique(digits[f"indices_{part}"])) == n_images
    assert 0 <= digits[f"X_{part}"].min() < digits[f"X_{part}"].max() <= 1
    for number in (n, n_images):
        assert f"{number:,}" in digits.DESCR


def test_digits_leak_no_image_between_parts_and_lose_none(digits):
    images = np.concatenate([np.unique(digits[f"indices_{part}"]) for part in PARTS])
    assert np.array_equal(np.sort(images), np.arange(1797))


@pytest.mark.parametrize("part", PARTS)
def test_digits_are_what_indices_and_ratios_say(digits, part):
    source = load_digits()
    (a, b), r = digits[f"indices_{part}"].T, digits[f"ratio_{part}"][:, None]
    one_hot = np.eye(10)[source.target]
    np.testing.assert_allclose(
        digits[f"X_{part}"], (r * source.data[a] + (1 - r) * source.data[b]) / 16, atol=1e-15
    )
    np.testing.assert_allclose(
        digits[f"proba_{part}"], r * one_hot[a] + (1 - r) * one_hot[b], atol=1e-15
    )
    kept = a == b
    assert (r[kept] == 1).all()
    assert (r[~kept] < 1).all()
    assert (~kept).sum() == PARTS[part][1] // 4  # pairs: half of the images


@pytest.mark.parametrize(("part", "raters"), [("train", 1), ("validation", 2), ("test", 10)])
def test_digits_labels_come_from_the_true_probabilities(digits, part, raters):
    counts, Q = digits[f"counts_{part}"], digits[f"proba_{part}"]
    assert (counts.sum(axis=1) == raters).all()
    assert not counts[Q == 0].any()
    a = digits[f"indices_{part}"][:, 0]
    first = load_digits().target[a]
    said, q = counts[np.arange(len(a)), first], Q[np.arange(len(a)), first]
    se = np.sqrt(raters * (q * (1 - q)).sum())
    assert abs(said.sum() - raters * q.sum()) < 4 * se


def test_digits_ratios_are_uniform():
    ratios = [
        load_mixed_digits(random_state=seed)[f"ratio_{part}"] for seed in range(3) for part in PARTS
    ]
    ratios = np.concatenate(ratios)
    assert kstest(ratios[ratios < 1], "uniform").pvalue > 1e-4


def test_digits_raters_change_nothing_but_the_validation_labels(digits):
    five = load_mixed_digits(raters=5)
    assert (five.counts_validation.sum(axis=1) == 5).all()
    for key in set(digits) - {"counts_validation"}:
        assert np.array_equal(digits[key], five[key]), key


def test_random_state_decides_and_the_global_one_is_left_alone(digits):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    again, other = load_mixed_digits(random_state=0), load_mixed_digits(random_state=1)
    made = [make_label_histograms(20, n_raters=(1, 9), random_state=s) for s in (0, 0, 1)]
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    for key in digits:
        assert np.array_equal(digits[key], again[key])
    assert not np.array_equal(digits.X_train, other.X_train)
    assert np.array_equal(made[0].counts, made[1].counts)
    assert not np.array_equal(made[0].X, made[2].X)


@pytest.mark.parametrize("raters", [0, -1, 2.5, np.nan, "two", (2, 5)])
def test_digits_refuse_bad_raters(raters):
    with pytest.raises(ValueError, match="raters must be an int"):
        load_mixed_digits(raters=raters)


# ------------------------------------------------------------------------------------------- made
# label histograms


def test_made_prediction_is_the_mean_of_the_true_probabilities_and_total_its_spread():
    data = make_label_histograms(40_000, total=4.0, random_state=0)
    z, Q = data.prediction, data.proba
    np.testing.assert_allclose(z, softmax(data.X @ data.coef.T, axis=1), rtol=1e-12)
    for rows in (slice(None), z[:, 0] > 0.7, z[:, 1] < 0.2):
        e = (Q - z)[rows]
        assert (np.abs(e.mean(axis=0)) < 4 * e.std(axis=0) / np.sqrt(len(e))).all()
        excess = (e**2 - z[rows] * (1 - z[rows]) / 5.0).sum(axis=1)  # Var Q_k = z(1−z)/(α0+1)
        assert abs(excess.mean()) < 4 * excess.std() / np.sqrt(len(e))


def test_made_total_is_the_best_one():
    data = make_label_histograms(5000, total=6.0, random_state=1)
    losses = [
        histogram_log_loss(data.counts, Dirichlet.from_mean(data.prediction, t))
        for t in (3.0, 6.0, 12.0)
    ]
    assert min(losses) == losses[1]


@pytest.mark.parametrize("overconfidence", [0.5, 1.0, 2.0])
def test_made_overconfidence_is_the_temperature_that_calibrates(overconfidence):
    data = make_label_histograms(20_000, overconfidence=overconfidence, random_state=2)
    u = np.log(data.prediction)
    best = minimize_scalar(
        lambda T: label_log_loss(data.counts, softmax(u / T, axis=1)),
        bounds=(0.2, 5),
        method="bounded",
    )
    assert best.x == pytest.approx(overconfidence, rel=0.05)


def test_made_model_does_not_depend_on_the_number_of_rows():
    few, many = (make_label_histograms(n, random_state=3) for n in (10, 1000))
    assert np.array_equal(few.coef, many.coef)
    assert np.array_equal(few.X, many.X[:10])


def test_made_infinite_and_row_wise_totals():
    total = np.array([np.inf, 1.0] * 50)
    data = make_label_histograms(100, total=total, random_state=0)
    same = np.isclose(data.proba, data.prediction, rtol=0, atol=1e-12).all(axis=1)
    assert np.array_equal(same, np.isinf(total))
    assert np.array_equal(data.total, total)
    assert not np.shares_memory(data.total, total)


@pytest.mark.parametrize("total", [1e-12, 1e-3, 1e6, 1e12])
def test_made_extreme_totals_stay_on_the_simplex(total):
    Q = make_label_histograms(200, 4, total=total, random_state=0).proba
    np.testing.assert_allclose(Q.sum(axis=1), 1, rtol=1e-12)
    assert Q.min() >= 0


def test_made_without_separation_all_classes_are_alike():
    assert np.allclose(make_label_histograms(10, 4, class_sep=0.0, random_state=0).prediction, 0.25)


def test_made_raters_in_their_three_forms():
    assert (make_label_histograms(50, n_raters=7, random_state=0).counts.sum(axis=1) == 7).all()
    drawn = make_label_histograms(500, n_raters=(2, 5), random_state=0).counts.sum(axis=1)
    assert set(drawn) == {2, 3, 4, 5}
    given = np.arange(1, 51)
    assert np.array_equal(
        make_label_histograms(50, n_raters=given, random_state=0).counts.sum(axis=1), given
    )
    assert np.array_equal(given, np.arange(1, 51))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, "n_samples must be an int of at least 1"),
        ({"n_classes": 1}, "n_classes must be an int from 2"),
        ({"n_features": 1.5}, "n_features must be an int"),
        ({"n_raters": 0}, "number of raters must be a positive integer"),
        ({"n_raters": (5, 2)}, "low <= high"),
        ({"n_raters": (1, 2, 3)}, "low <= high"),
        ({"n_raters": [1, 2, 3]}, "have shape"),
        ({"total": 0.0}, "total must be positive"),
        ({"total": [1.0, 2.0]}, "total must be positive: one number or shape"),
        ({"total": np.nan}, "total must be positive"),
        ({"class_sep": -1.0}, "class_sep must be a finite number of at least 0"),
        ({"overconfidence": np.inf}, "overconfidence must be a finite number of at least 0"),
    ],
)
def test_made_refuses_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_label_histograms(**({"n_samples": 10} | arguments))


def test_drawn_counts_follow_the_multinomial_distribution():
    """How often each outcome is seen, in standard errors."""
    data = make_label_histograms(20_000, n_classes=4, n_raters=3, random_state=0)
    outcomes = np.array([c for c in product(range(4), repeat=4) if sum(c) == 3])
    p = multinomial.pmf(outcomes[:, None], 3, data.proba)
    assert_allclose(p.sum(axis=0), 1)
    seen = (data.counts == outcomes[:, None]).all(axis=2).sum(axis=1)
    assert (np.abs(seen - p.sum(axis=1)) < 4.5 * np.sqrt((p * (1 - p)).sum(axis=1))).all()


def test_drawn_counts_never_name_an_impossible_class():
    data = make_mixed_images(np.zeros((500, 1)), np.arange(500) % 6, 1000, random_state=0)
    assert not data.counts[data.proba == 0].any()
    assert (data.counts.sum(axis=1) == 1000).all()


# ------------------------------------------------------------------------------------------
# psychiatric diagnoses


def test_diagnoses_are_those_of_fleiss():
    data = load_psychiatric_diagnoses()
    assert data.counts.shape == (30, 5)
    assert data.counts.dtype == np.int64
    assert (data.counts.sum(axis=1) == 6).all()
    assert data.target_names.tolist() == [
        "depression",
        "personality disorder",
        "schizophrenia",
        "neurosis",
        "other",
    ]
    # Fleiss 1971, table 1: category proportions; agreement of patients 1, 2 and 30; mean agreement
    # .556; kappa .430
    assert np.round(data.counts.sum(axis=0) / 180, 3).tolist() == [
        0.144,
        0.144,
        0.167,
        0.306,
        0.239,
    ]
    agreement = (data.counts * (data.counts - 1)).sum(axis=1) / 30
    assert agreement[[0, 1, 29]].tolist() == [1.0, 0.4, 1.0]
    assert round(agreement.mean(), 3) == 0.556
    assert round(fleiss_kappa(data.counts), 3) == 0.430


def test_diagnoses_against_statsmodels():
    inter_rater = pytest.importorskip("statsmodels.stats.inter_rater")
    counts = load_psychiatric_diagnoses().counts
    assert fleiss_kappa(counts) == pytest.approx(inter_rater.fleiss_kappa(counts), rel=1e-12)


# -------------------------------------------------------------------------------------------
# anaesthesia ratings


def test_anesthesia_ratings_are_those_of_the_paper():
    """EM of the model in the paper gives the frequencies and the error rates that it prints."""
    data = load_anesthesia_ratings()
    assert data.counts.shape == (45, 4)
    assert data.counts.dtype == data.annotations.dtype == np.int64
    assert (data.counts.sum(axis=1) == 7).all()
    assert np.array_equal(
        data.counts, np.apply_along_axis(np.bincount, 1, data.annotations, minlength=5)[:, 1:]
    )
    truth = data.counts / 7
    codes, raters = data.annotations - 1, data.raters - 1
    for _ in range(1000):
        p = truth.mean(axis=0)
        said = np.zeros((5, 4, 4))  # what rater r says of class k
        for column, r in enumerate(raters):
            said[r] += truth.T @ np.eye(4)[codes[:, column]]
        said /= said.sum(axis=2, keepdims=True)
        likelihood = p * np.prod([said[r][:, codes[:, c]].T for c, r in enumerate(raters)], axis=0)
        truth = likelihood / likelihood.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(p.round(2), [0.40, 0.42, 0.11, 0.07])
    first = [[0.89, 0.11, 0, 0], [0.07, 0.88, 0.05, 0], [0, 0.34, 0.66, 0], [0, 0, 0.56, 0.44]]
    np.testing.assert_array_equal(said[0].round(2), first)


# ------------------------------------------------------------------------------------------- random
# checkerboard


def test_cells_of_the_checkerboard_are_gaussian_and_of_one_class():
    X, y = make_random_checkerboard(20_000, n_rows=4, n_columns=3, cell_std=0.05, random_state=0)
    cell = np.rint(X).astype(int)
    assert np.array_equal(
        np.unique(cell, axis=0), [[j, k] for j in range(1, 5) for k in range(1, 4)]
    )
    number = (cell[:, 0] - 1) * 3 + cell[:, 1] - 1
    shares = np.bincount(number, weights=y) / np.bincount(number)
    assert sorted(shares) == [0.0] * 6 + [1.0] * 6
    assert chisquare(np.bincount(number)).pvalue > 1e-3
    for k in range(2):
        assert kstest((X - cell)[:, k] / 0.05, "norm").pvalue > 1e-3


def test_the_checkerboard_is_that_of_the_paper_by_default():
    X, y = make_random_checkerboard(random_state=0)
    assert X.shape == (142_693, 2)
    assert abs(y.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(y))
    assert X.mean(axis=0) == pytest.approx([19.5, 23.5], abs=0.2)
    few, labels = make_random_checkerboard(1000, cell_std=0.01, random_state=0)
    more, more_labels = make_random_checkerboard(5000, cell_std=0.01, random_state=0)
    seen = {tuple(c): label for c, label in zip(np.rint(more), more_labels, strict=True)}
    known = [
        seen[tuple(c)] == label
        for c, label in zip(np.rint(few), labels, strict=True)
        if tuple(c) in seen
    ]
    assert len(known) > 900
    assert all(known)  # the same cells, whatever the number of points
    one, other = (make_random_checkerboard(50, random_state=3) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_samples": 0}, "n_samples must be an int of at least 1"),
        ({"n_rows": 1.5}, "n_rows must be an int"),
        ({"n_rows": 1, "n_columns": 1}, "two cells or more"),
        ({"cell_std": 0.0}, "cell_std must be a finite number above 0"),
        ({"cell_std": np.inf}, "cell_std must be a finite number above 0"),
    ],
)
def test_checkerboard_errors(change, message):
    with pytest.raises(ValueError, match=message):
        make_random_checkerboard(**change)
