"""Binned calibration losses where raters read several rows: only pairs that share nothing count."""

from functools import partial
from itertools import combinations

import numpy as np
import pytest

from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import (
    calibration_error,
    calibration_loss,
    class_disagreement_calibration_error,
    confidence_interval,
    disagreement_calibration_error,
    disagreement_calibration_loss,
    dispersion_loss,
    epistemic_loss,
    expected_calibration_error,
    loss_decomposition,
)

K = 3
BINNED = {
    "CL": calibration_loss,
    "CE": calibration_error,
    "CL_phi": disagreement_calibration_loss,
    "CE_phi": disagreement_calibration_error,
    "CE_phi, by class": class_disagreement_calibration_error,
    "ECE": partial(expected_calibration_error, p=2, bias_correction="residual"),
    "ECE, by class": partial(
        expected_calibration_error, kind="classwise", p=2, bias_correction="residual"
    ),
    "ECE of one class": partial(
        expected_calibration_error, kind=1, p=2, bias_correction="residual"
    ),
}


def study(n, R, s, seed, read=1.0):
    """Annotations by readers with tilts N(0, s²), and the mean of their class probabilities."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(n, K))
    p = np.exp(u[:, None] + s * rng.normal(size=(R, K)))
    p /= p.sum(axis=2, keepdims=True)
    label = (p.cumsum(axis=2) < rng.random((n, R, 1))).sum(axis=2).clip(max=K - 1)
    seen = rng.random((n, R)) < read
    # two readers at least
    seen[np.arange(n), np.arange(n) % R] = seen[np.arange(n), (np.arange(n) + 1) % R] = True
    row, rater = np.nonzero(seen)
    indptr = np.append(0, np.cumsum(seen.sum(axis=1)))
    y = Annotations(indptr, rater, label[row, rater], raters=np.arange(R), classes=np.arange(K))
    z = np.exp(1.3 * u)
    return y, z / z.sum(axis=1, keepdims=True)


def by_hand(terms, n_bins):
    """Σ_b W_b/W p(U)/p(C) of terms (bin, {row or group, raters}, U, C), pair by pair."""
    W = sum(c for *_, c in terms)
    total = 0.0
    for b in range(n_bins):
        inside = [t for t in terms if t[0] == b]
        apart = [
            (u * v, c * d)
            for (_, one, u, c) in inside
            for (_, other, v, d) in inside
            if not one & other
        ]
        if apart:
            W_b = sum(c for *_, c in inside)
            total += W_b / W * sum(uv for uv, _ in apart) / sum(cd for _, cd in apart)
    return total


@pytest.mark.parametrize("grouped", [False, True])
def test_it_is_the_mean_over_pairs_that_share_neither_row_nor_rater(grouped):
    y, z = study(24, 5, 0.5, seed=0, read=0.5)
    rng = np.random.default_rng(0)
    w = rng.uniform(0.5, 2, 24)
    groups = rng.integers(0, 12, 24) if grouped else np.arange(24)
    C = w / y.n
    units = [
        {("row", groups[i]), ("rater", r)} for i, r in zip(y.row, y.rater.tolist(), strict=True)
    ]
    expected = 0.0
    for k in range(K):
        terms = [
            (min(int(2 * z[i, k]), 1), unit, C[i] * ((label == k) - z[i, k]), C[i])
            for i, unit, label in zip(y.row, units, y.label, strict=True)
        ]
        expected += by_hand(terms, 2)
    given = {"groups": groups} if grouped else {}
    found = calibration_loss(y, z, sample_weight=w, n_bins=2, **given)
    assert found == pytest.approx(expected, rel=1e-10)


def disagreement_by_hand(y, phi, groups, differ):
    """The loss of one column: ``differ(a, b)`` says whether two labels disagree by it."""
    C = 1 / (y.n * (y.n - 1) / 2)
    terms = []
    for i in range(len(y)):
        ratings = range(y.indptr[i], y.indptr[i + 1])
        for a, b in combinations(ratings, 2):
            unit = {("row", groups[i]), ("rater", y.rater[a]), ("rater", y.rater[b])}
            d = differ(y.label[a], y.label[b])
            terms.append((min(int(2 * phi[i]), 1), unit, C[i] * (d - phi[i]), C[i]))
    return by_hand(terms, 2)


@pytest.mark.parametrize("grouped", [False, True])
def test_disagreement_is_of_pairs_of_pairs(grouped):
    y, z = study(14, 6, 0.5, seed=1, read=0.5)
    groups = np.arange(14) // 2 if grouped else np.arange(14)
    given = {"groups": groups} if grouped else {}
    expected = disagreement_by_hand(y, 1 - (z**2).sum(axis=1), groups, lambda a, b: a != b)
    found = disagreement_calibration_loss(y, z, n_bins=2, **given)
    assert found == pytest.approx(expected, rel=1e-10)
    by_class = [
        disagreement_by_hand(y, p, groups, lambda a, b, k=k: (a == k) != (b == k))
        for k, p in enumerate((2 * z * (1 - z)).T)
    ]
    # the mean over classes of the signed roots
    expected = np.mean(np.sign(by_class) * np.sqrt(np.abs(by_class)))
    found = class_disagreement_calibration_error(y, z, n_bins=2, **given)
    assert found == pytest.approx(expected, rel=1e-10)


def test_ties_for_the_top_label_are_shared():
    """Half of the rows have two largest classes; a fifth reader has read one row alone."""
    y, z = study(24, 4, 0.5, seed=2)
    z[::2] = [0.4, 0.4, 0.2]
    rater = y.rater.copy()
    rater[y.indptr[1] - 1] = 4
    y = Annotations(y.indptr, rater, y.label, raters=np.arange(5), classes=np.arange(K))
    top = z == z.max(axis=1, keepdims=True)
    share = top / top.sum(axis=1, keepdims=True)
    terms = []
    for i, r, a in zip(y.row, y.rater.tolist(), y.label, strict=True):
        best, C = z[i].max(), 1 / y.n[i]
        terms.append((int(2 * best), {("row", i), ("rater", r)}, C * (share[i, a] - best), C))
    found = BINNED["ECE"](y, z, n_bins=2)
    assert found * abs(found) == pytest.approx(by_hand(terms, 2), rel=1e-10)


def test_a_class_by_its_name_or_number():
    y, z = study(24, 5, 0.5, seed=0)
    named = Annotations(y.indptr, y.rater, y.label, raters=y.raters, classes=["a", "b", "c"])
    ece = partial(expected_calibration_error, p=2, bias_correction="residual", n_bins=2)
    assert ece(named, z, kind="b") == ece(y, z, kind=1)


@pytest.mark.parametrize("name", BINNED)
def test_where_nobody_reads_twice_it_is_the_correction_of_counts(name):
    y, z = study(60, 4, 0.5, seed=0)
    own = Annotations.from_counts(y.counts)
    for groups in (None, np.arange(60) // 3):
        of_raters, of_counts = (
            BINNED[name](labels, z, groups=groups, n_bins=2) for labels in (own, y.counts)
        )
        assert of_raters == pytest.approx(of_counts, abs=1e-12)


@pytest.mark.parametrize("name", BINNED)
def test_plugins_and_one_rater_know_nothing_of_it(name):
    y, z = study(60, 5, 0.8, seed=0)
    options = {"n_bins": 2}
    assert BINNED[name](y, z, **options) != pytest.approx(BINNED[name](y.counts, z, **options))
    options["bias_correction"] = None
    assert BINNED[name](y, z, **options) == pytest.approx(BINNED[name](y.counts, z, **options))
    if "phi" in name:
        return
    alone = y.keep(y.rater == 0)
    found, counted = (BINNED[name](labels, z, n_bins=2) for labels in (alone, alone.counts))
    assert found == pytest.approx(counted, abs=1e-12)


@pytest.mark.parametrize("name", ["CL", "CE", "ECE", "ECE, by class"])
def test_columns_and_rows_may_stand_in_any_order(name):
    y, z = study(50, 4, 0.5, seed=2, read=0.6)
    rows = np.random.default_rng(0).permutation(50)
    value = BINNED[name](y, z, n_bins=3)
    assert BINNED[name](y[rows], z[rows], n_bins=3) == pytest.approx(value, rel=1e-9)


def test_parts_agree():
    y, z = study(80, 4, 0.8, seed=0)
    parts = loss_decomposition(y, z, n_bins=3)
    assert parts.calibration_loss == pytest.approx(calibration_loss(y, z, n_bins=3), rel=1e-12)
    assert parts.epistemic_loss == pytest.approx(epistemic_loss(y, z), rel=1e-12)
    dispersion = dispersion_loss(y, z, n_bins=3)
    assert parts.epistemic_loss == pytest.approx(parts.calibration_loss + dispersion, rel=1e-12)


def test_bins_of_one_rater_are_left_out_and_said():
    """A nested design in which each bin has one reader."""
    z = np.repeat([0.1, 0.9], 20)
    y = Annotations.from_long(
        item=np.arange(40), rater=np.repeat([0, 1], 20), label=np.tile([0, 1], 20)
    )
    with pytest.warns(UserWarning, match="belong to one group or one rater"):
        assert calibration_loss(y, z, n_bins=2) == 0
    assert loss_decomposition(y.counts, z, n_bins=2, bias_correction=None).dropped_weight == 0


def test_readers_who_differ_leave_no_bias():
    """Three readers of all samples: rows alone take their tilts for miscalibration.

    Truth: the value where each row has readers of its own.
    """
    n, s, runs = 200, 0.8, 150
    rng = np.random.default_rng(10**6)
    u = rng.normal(size=(100_000, K))
    z = np.exp(1.3 * u)
    z /= z.sum(axis=1, keepdims=True)
    p = np.exp(u + s * rng.normal(size=u.shape))
    p /= p.sum(axis=1, keepdims=True)
    label = (p.cumsum(axis=1) < rng.random((len(u), 1))).sum(axis=1).clip(max=K - 1)
    truth = calibration_loss(label, z, n_bins=5)
    drawn = [study(n, 3, s, seed) for seed in range(runs)]
    known = np.array([calibration_loss(y, z, n_bins=5) for y, z in drawn])
    of_rows = np.array([calibration_loss(y.counts, z, n_bins=5) for y, z in drawn])
    error = known.std(ddof=1) / np.sqrt(runs)
    assert abs(known.mean() - truth) < 4 * error
    assert of_rows.mean() - truth > 8 * error


def test_intervals_of_the_loss_know_it_too():
    y, z = study(100, 6, 0.5, seed=0)
    found = confidence_interval(calibration_loss, y, z, n_bins=3, random_state=0)
    assert found.estimate == pytest.approx(calibration_loss(y, z, n_bins=3), rel=1e-12)
    assert found.n_raters == 6
    assert found.df >= 2


@pytest.mark.parametrize("metric", [calibration_loss, disagreement_calibration_loss])
def test_raters_of_one_rating_each_share_nothing(metric):
    """Not even where a bin has a single row, which is no reason to warn."""
    rng = np.random.default_rng(0)
    counts, z = rng.multinomial(3, [0.3, 0.3, 0.4], size=6), rng.dirichlet(np.ones(3), 6)
    found = metric(Annotations.from_counts(counts), z)
    assert found == pytest.approx(metric(counts, z), rel=1e-12)


def test_bins_beyond_memory_are_refused():
    """15 bins of so many classes would take 12 GB."""
    K = 2_000_000
    with pytest.raises(ValueError, match="n_bins=15 bins of 2000000 columns"):
        calibration_error(np.ones((1, K), dtype=np.int8), np.full((1, K), 1 / K))
