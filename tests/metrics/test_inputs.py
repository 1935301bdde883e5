"""Metrics under weights, permutations, known probabilities and every form of input."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_cases import ALL, CORRECTED, CORRECTIONS, EXACT, NEEDS_TWO, NOMINAL, PLAIN, case
from oracles import random_proba

from sklearn_lhcal import metrics
from sklearn_lhcal.distributions import Dirichlet, DirichletMixture
from sklearn_lhcal.label_histogram import KnownProbabilities


@pytest.fixture(params=ALL)
def metric(request):
    return ALL[request.param]


# Weights, order, known probabilities


REPETITION = [n for n in ALL if n in PLAIN or n.endswith("None")]


REPETITION += ["epistemic_loss residual", "irreducible_loss residual"]


@pytest.mark.parametrize("name", REPETITION)
def test_weights_are_repetition(name):
    """Of plugins, of log losses, and of means over rows."""
    counts, z, w = case()
    repeated = np.repeat(np.arange(len(z)), w)
    assert ALL[name](counts, z, sample_weight=w) == pytest.approx(
        ALL[name](counts[repeated], z[repeated]), **EXACT
    )


@pytest.mark.parametrize("name", ["calibration_loss", "disagreement_calibration_loss"])
@pytest.mark.parametrize("correction", ["residual", "label"])
def test_weights_are_not_repetition_where_rows_are_corrected(name, correction):
    """Repeated rows would undo the correction."""
    counts, z, w = case(least=2)
    loss = partial(CORRECTED[name], bias_correction=correction)
    repeated = np.repeat(np.arange(len(z)), w)
    assert loss(counts[repeated], z[repeated]) > loss(counts, z, sample_weight=w) + 1e-4


def test_weights_have_no_scale(metric):
    counts, z, w = case()
    value = metric(counts, z, sample_weight=w)
    for scale in (1e-200, 1e-3, 0.7, 1e6, 1e150):
        assert metric(counts, z, sample_weight=w * scale) == pytest.approx(
            value, rel=1e-11, abs=1e-13
        )


def test_equal_weights_are_no_weights(metric):
    counts, z, _ = case()
    for w in (np.ones(len(z)), np.full(len(z), 0.3), 2.0):
        assert metric(counts, z, sample_weight=w) == pytest.approx(
            metric(counts, z), rel=1e-11, abs=1e-13
        )


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 5), st.booleans())
def test_order_of_rows_and_classes_does_not_matter(seed, K, distributions):
    counts, z, w = case(seed, n=25, K=K, least=2)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(25), rng.permutation(K)
    total = rng.uniform(0.5, 9, 25)
    for name, metric in NOMINAL.items():
        a, b = z, z[rows][:, columns]
        if distributions:
            a, b = Dirichlet.from_mean(a, total), Dirichlet.from_mean(b, total[rows])
        value = metric(counts, a, sample_weight=w)
        permuted = metric(counts[rows][:, columns], b, sample_weight=w[rows])
        assert permuted == pytest.approx(
            value, rel=1e-9, abs=1e-10 if "error" not in name else 1e-6
        ), name


def test_repeated_calls_agree_and_leave_the_input_alone(metric):
    """Read-only arrays go in, equal copies come out."""
    counts, z, w = case()
    w = w.astype(float)
    copies = [a.copy() for a in (counts, z, w)]
    for a in (counts, z, w):
        a.flags.writeable = False
    value = metric(counts, z, sample_weight=w)
    assert type(value) is float
    assert metric(counts, z, sample_weight=w) == value
    for a, copy in zip((counts, z, w), copies, strict=True):
        np.testing.assert_array_equal(a, copy)


@pytest.mark.filterwarnings("ignore:.* is biased upwards")
def test_an_interval_is_around_the_metric(metric):
    counts, z, w = case()
    others = {"sample_weight": w, "n_blocks": 10, "random_state": 0}
    estimate, low, high, error = metrics.confidence_interval(metric, counts, z, **others)
    assert estimate == pytest.approx(metric(counts, z, sample_weight=w), **EXACT)
    assert low <= estimate <= high
    assert error > 0


KNOWN = [n for n in ALL if n != "histogram_log_loss"]


@pytest.mark.parametrize("name", [n for n in KNOWN if n in PLAIN or n.endswith("None")])
def test_known_probabilities_are_the_limit_of_many_raters(name):
    Q = np.random.default_rng(0).integers(1, 8, (30, 3))
    Q[:, 2] = 20 - Q[:, 0] - Q[:, 1]
    z = case(n=30)[1]
    many = ALL[name](Q * 10**8, z)
    known = ALL[name](KnownProbabilities(Q / 20), z)
    assert known == pytest.approx(many, rel=1e-7, abs=1e-8 if "error" not in name else 1e-4)


@pytest.mark.parametrize("name", CORRECTED)
def test_known_probabilities_need_no_correction(name):
    _, z, w = case()
    Q = KnownProbabilities(random_proba(np.random.default_rng(1), len(z), 3))
    values = [CORRECTED[name](Q, z, sample_weight=w, bias_correction=c) for c in CORRECTIONS]
    assert values[0] == values[1] == values[2]


def test_known_probabilities_by_hand():
    Q, z = np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([[0.4, 0.6], [0.4, 0.6]])
    known = KnownProbabilities(Q)
    assert metrics.epistemic_loss(known, z) == pytest.approx((2 * 0.01 + 2 * 0.25) / 2, rel=1e-12)
    assert metrics.irreducible_loss(known) == pytest.approx((0.5 + 0.18) / 2, rel=1e-12)
    assert metrics.calibration_loss(known, z) == pytest.approx(2 * 0.3**2, rel=1e-12)
    assert metrics.dispersion_loss(known, z) == pytest.approx(0.26 - 0.18, rel=1e-12)
    assert metrics.label_log_loss(known, z) == pytest.approx(
        -(0.7 * np.log(0.4) + 0.3 * np.log(0.6)), rel=1e-12
    )
    assert metrics.expected_accuracy(known, z) == pytest.approx(0.3, rel=1e-12)
    assert metrics.vote_accuracy(known, z) == pytest.approx(0.25, rel=1e-12)
    parts = metrics.loss_decomposition(known, z)
    assert parts.expected_squared_loss == pytest.approx(
        parts.epistemic_loss + parts.irreducible_loss, **EXACT
    )


# Every form of input


NAMES = ["a", "b", "c"]

FORMS = {
    "list": lambda c: c.tolist(),
    **{
        t: lambda c, t=t: c.astype(t)
        for t in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "uint64")
    },
    "float64": lambda c: c.astype(float),
    "float32": lambda c: c.astype(np.float32),
    "fortran": np.asfortranarray,
    "strided": lambda c: np.repeat(c, 2, axis=0)[::2],
    "csr matrix": sp.csr_matrix,
    "csr array": sp.csr_array,
    "pandas": lambda c: pd.DataFrame(c, columns=NAMES),
    "pandas Int64": lambda c: pd.DataFrame(c, columns=NAMES, dtype="Int64"),
    "polars": lambda c: pl.DataFrame(c, schema=NAMES, orient="row"),
}


@pytest.mark.parametrize("form", FORMS)
def test_counts_in_every_form_give_equal_results(form):
    """Counts up to 120, which uint8 and int8 products would overflow."""
    rng = np.random.default_rng(0)
    counts, z, w = (
        rng.integers(0, 120, (30, 3)) + np.eye(3, dtype=int)[0],
        random_proba(rng, 30, 3),
        rng.random(30),
    )
    d = DirichletMixture(np.stack([z, z[::-1]]), np.full((2, 30), 3.0))
    for name, metric in NOMINAL.items():
        for prediction in (z, d):
            assert metric(FORMS[form](counts), prediction) == metric(counts, prediction), name
            value = metric(FORMS[form](counts), prediction, sample_weight=w)
            assert value == metric(counts, prediction, sample_weight=w), name
    assert metrics.irreducible_loss(FORMS[form](counts)) == metrics.irreducible_loss(counts)
    for value, expected in zip(
        metrics.loss_decomposition(FORMS[form](counts), z),
        metrics.loss_decomposition(counts, z),
        strict=True,
    ):
        np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, float])
def test_one_hot_counts_and_labels_agree(dtype):
    _, z, _ = case()
    labels = np.random.default_rng(0).integers(0, 2, len(z))  # the third class never occurs
    for name in (n for n in ALL if n not in NEEDS_TWO):
        one_hot = ALL[name](np.eye(3)[labels].astype(dtype), z)
        for y in (
            labels,
            labels.tolist(),
            labels.astype(np.uint8),
            labels.astype(float),
            pd.Series(labels),
        ):
            assert ALL[name](y, z) == one_hot, name


def test_boolean_labels_are_the_two_columns():
    p = np.array([0.2, 0.9, 0.4])
    assert metrics.expected_squared_loss([False, True, True], p) == metrics.expected_squared_loss(
        [0, 1, 1], p
    )


def test_names_are_sorted_where_all_occur():
    z = np.array([[0.2, 0.8], [0.7, 0.3]])
    assert metrics.label_log_loss(["dog", "cat"], z) == metrics.label_log_loss([1, 0], z)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_on_both_sides_are_matched_by_name(frame):
    counts, z, _ = case()
    y, named = (frame(dict(zip(NAMES, a.T, strict=True))) for a in (counts, z))
    shuffled = frame({NAMES[k]: z[:, k] for k in (2, 0, 1)})
    for name, metric in NOMINAL.items():
        expected = pytest.approx(metric(counts, z), **EXACT)
        assert metric(y, named) == expected, name
        assert metric(y, shuffled) == expected, name
        assert metric(y, z) == expected, name
        with pytest.raises(ValueError, match="not sorted"):
            metric(counts, shuffled)


def test_names_of_labels_are_looked_up_in_a_frame():
    z = pd.DataFrame([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]], columns=["c", "a", "b"])
    assert metrics.label_log_loss(["b", "c"], z) == metrics.label_log_loss([2, 0], z.to_numpy())


PREDICTIONS = {
    "list": np.ndarray.tolist,
    "fortran": np.asfortranarray,
    "object": lambda z: z.astype(object),
    "pandas": pd.DataFrame,
    "polars": lambda z: pl.DataFrame(z, schema=NAMES, orient="row"),
}


@pytest.mark.parametrize("form", PREDICTIONS)
def test_predictions_in_every_form_give_equal_results(form):
    counts, z, _ = case()
    for name, metric in NOMINAL.items():
        assert metric(counts, PREDICTIONS[form](z)) == pytest.approx(metric(counts, z), **EXACT), (
            name
        )
