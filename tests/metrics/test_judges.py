"""Several judges beside people: each by itself, in pairs, and whether they err together."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import (
    JudgeTable,
    alternative_annotator_test,
    epistemic_loss,
    expected_accuracy,
    paired_difference,
    rater_comparison,
)

WORDS = np.array(["a", "b", "c"], dtype=object)


def drawn(Q, rng):
    """One label a row."""
    return (Q.cumsum(axis=1) < rng.random((len(Q), 1))).sum(axis=1).clip(max=Q.shape[1] - 1)


def study(rng, n=120, R=5, shared=0.5):
    """Labels of R readers, and of two judges who say the same with the probability given."""
    Q = rng.dirichlet(np.ones(3), n)
    said = np.stack([drawn(Q, rng) for _ in range(R + 2)], axis=1)
    one, other = said[:, R], said[:, R + 1]
    return said[:, :R], one, np.where(rng.random(n) < shared, one, other)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def data(rng):
    """People's labels, and three judges: two say labels, one probabilities."""
    said, one, other = study(rng)
    y = Annotations.from_matrix(WORDS[said])
    proba = pd.DataFrame(rng.dirichlet(np.ones(3), len(said)), columns=list("abc"))
    return y, {"one": WORDS[one], "other": other, "proba": proba[["c", "a", "b"]]}


def compared(y, judges, **how):
    return rater_comparison(y, judges, margin=0.1, **{"random_state": 0} | how)


@pytest.mark.parametrize("how", [{}, {"raters": "fixed"}, {"distance": 1 - np.eye(3)}])
def test_each_judge_is_compared_as_by_himself(data, how):
    y, judges = data
    table = compared(y, judges, **how)
    assert isinstance(table, JudgeTable)
    assert list(table.comparisons) == list(judges)
    for name, said in judges.items():
        alone = compared(y, said, **how)
        numbers, expected = (np.hstack(one[:9]) for one in (table.comparisons[name], alone))
        assert_allclose(numbers, expected, rtol=1e-10, atol=1e-12)
    pairs = table.to_frame(by="pair")
    assert list(pairs.index) == [("one", "other"), ("one", "proba"), ("other", "proba")]
    for name, found in (("difference", table.differences), ("correlation", table.correlations)):
        expected = [interval[:3] for interval in found.values()]
        assert_allclose(pairs[[name, f"{name}_low", f"{name}_high"]], expected)
    row = table.to_frame().loc["one"]
    assert row["difference_low"] == table.comparisons["one"].difference.low
    assert row["worth"] == table.comparisons["one"].worth
    assert table.confidence_level == table.comparisons["one"].confidence_level == 0.95
    again = pickle.loads(pickle.dumps(table))
    assert again.to_frame().equals(table.to_frame())
    # two lines of a terminal hold its settings
    assert len(repr(table)) <= 160


def test_differences_are_those_of_accuracies(data):
    y, judges = data
    table = compared(y, judges)
    for (a, b), found in table.differences.items():
        z = [
            pd.DataFrame(
                (WORDS[judges[name]] if name == "other" else judges[name])[:, None] == WORDS,
                columns=WORDS,
                dtype=float,
            )
            if name != "proba"
            else judges[name]
            for name in (b, a)
        ]
        expected = paired_difference(expected_accuracy, y, *z, random_state=0)
        assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    backwards = compared(y, dict(reversed(judges.items())))
    assert_allclose(
        backwards.differences["proba", "one"].estimate,
        -table.differences["one", "proba"].estimate,
        rtol=1e-9,
    )


@pytest.mark.parametrize("distance", [None, "linear", "quadratic"])
def test_correlation_follows_from_the_loss_of_the_mean_judge(rng, distance):
    """EL of the mean of two is a quarter of both EL and twice their covariance."""
    said, *_ = study(rng)
    y = Annotations.from_matrix(said, classes=[0, 1, 2])
    p, q = rng.dirichlet(np.ones(3), (2, len(said)))
    how = {"distance": distance}
    EL = [epistemic_loss(y, z, **how) for z in (p, q, (p + q) / 2)]
    covariance = 2 * EL[2] - (EL[0] + EL[1]) / 2
    found = compared(y, {"p": p, "q": q}, **how).correlations["p", "q"]
    assert_allclose(found.estimate, covariance / np.sqrt(EL[0] * EL[1]), rtol=1e-10)
    assert -1 <= found.low < found.estimate < found.high <= 1


# two that say the same here may differ elsewhere
@pytest.mark.filterwarnings("ignore:Few samples differ in their terms")
def test_copies_err_together_and_judges_without_errors_have_none(rng):
    said, one, _ = study(rng)
    y = Annotations.from_matrix(said, classes=[0, 1, 2])
    right = np.eye(3)[said].mean(axis=1)
    table = compared(y, {"one": one, "copy": one.copy(), "right": right})
    assert_allclose(table.correlations["one", "copy"][:3], 1, rtol=1e-12)
    apart = table.differences["one", "copy"]
    assert apart.estimate == 0
    assert -0.05 < apart.low < 0 < apart.high < 0.05
    # bias-corrected, the loss of the class frequencies is below 0
    assert np.isnan(table.correlations["one", "right"].estimate)


@pytest.mark.parametrize("shared", [0.0, 0.5])
def test_judges_like_readers_correlate_by_what_they_share(shared):
    """Two readers of one row do not, however hard the row is."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(60):
        said, *judges = study(rng, shared=shared)
        y = Annotations.from_matrix(said, classes=[0, 1, 2])
        table = compared(y, dict(zip("ab", judges, strict=True)), raters="fixed", n_blocks=5)
        found.append(table.correlations["a", "b"].estimate)
    # the bias of a ratio of means of 120 rows is far below 0.01
    assert abs(np.mean(found) - shared) < 4 * np.std(found) / np.sqrt(60) + 0.01


@pytest.mark.slow
def test_intervals_of_correlations_hold_the_truth():
    rng = np.random.default_rng(2)
    draws, shared, held = 300, 0.5, 0
    for _ in range(draws):
        said, *judges = study(rng, n=200, shared=shared)
        y = Annotations.from_matrix(said, classes=[0, 1, 2])
        table = compared(y, dict(zip("ab", judges, strict=True)))
        found = table.correlations["a", "b"]
        held += found.low <= shared <= found.high
    assert held / draws > 0.94 - 3 * np.sqrt(0.05 * 0.95 / draws)


# ------------------------------------------------------------------------------------ names, errors


def test_numbers_are_columns_where_no_class_is_a_number(data):
    """Also where the classes are those that occur."""
    y, judges = data
    by_number = compared(y, judges["other"])
    by_name = compared(y, WORDS[judges["other"]])
    assert by_number[:9] == by_name[:9]


def test_pandas_rows_in_another_order_are_refused(rng):
    said, one, _ = study(rng)
    items = np.arange(len(said)) + 100
    table = {"item": np.repeat(items, 5), "rater": np.tile(np.arange(5), len(said))}
    y = Annotations.from_long(pd.DataFrame({**table, "label": said.ravel()}))
    judge = pd.Series(one, index=items)
    with pytest.raises(ValueError, match="same samples in another order"):
        compared(y, judge[::-1])
    gaps = judge.astype(object)
    gaps[107] = None
    with pytest.raises(ValueError, match=r"judge 'x': .* no label of sample 107"):
        compared(y, {"ok": judge, "x": gaps})


def test_refusals_name_the_judge(data):
    y, judges = data
    known = Annotations.from_matrix(y.classes[y.label].reshape(-1, 5), classes=WORDS)
    other = np.where(judges["one"] == "a", "A", judges["one"])
    with pytest.raises(ValueError, match=r"judge 'x': .*no classes of y: \['A'\]"):
        compared(known, {"ok": judges["one"], "x": other})
    # also where the classes are those that raters happened to name
    with pytest.raises(ValueError, match=r"judge 'x': .*no classes of y: \['A'\].*classes="):
        compared(y, {"ok": judges["one"], "x": other})
    with pytest.raises(ValueError, match=r"judge 'x': .*100"):
        compared(y, {"ok": judges["one"], "x": judges["one"][:100]})
    with pytest.raises(ValueError, match="empty dict"):
        compared(y, {})
    with pytest.raises(ValueError, match=r"no classes of y: \['A'\]"):
        alternative_annotator_test(y, other)
