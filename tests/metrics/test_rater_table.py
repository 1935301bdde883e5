"""What readers differ in: biases by hand, and a test that has its size and some power."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import rater_table


def draws_of(tau, R, n, draws, K=2):
    """p-values of studies in which readers differ by tilts N(0, τ²)."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(draws):
        u = rng.standard_normal((n, 1, K)) + tau * rng.standard_normal((R, K))
        p = np.exp(u) / np.exp(u).sum(axis=2, keepdims=True)
        said = (p.cumsum(axis=2) < rng.random((n, R, 1))).sum(axis=2)
        y = Annotations.from_matrix(said, classes=np.arange(K))
        found.append(rater_table(y, random_state=0).pvalue)
    return np.array(found)


def test_biases_by_hand():
    rng = np.random.default_rng(0)
    said = np.array(list("abc"), dtype=object)[rng.integers(3, size=(60, 5))]
    said[(rng.random((60, 5)) < 0.4) & (np.arange(5) > 1)] = None
    found = rater_table(Annotations.from_matrix(said), random_state=0)
    assert found.classes.tolist() == list("abc")
    for r in range(5):
        rows = [
            (row[r], [a for j, a in enumerate(row) if j != r and a is not None])
            for row in said
            if row[r] is not None
        ]
        for k, name in enumerate("abc"):
            excess = [float(a == name) - np.mean([b == name for b in rest]) for a, rest in rows]
            assert_allclose(found.bias[r, k], np.mean(excess), atol=1e-12)
        assert found.n_rows[r] == len(rows)
    assert (found.interval[..., 0] < found.bias).all()
    assert (found.bias < found.interval[..., 1]).all()
    # what one class has more, the others have less
    assert_allclose(found.bias.sum(axis=1), 0, atol=1e-12)


@pytest.mark.parametrize("K", [2, 3])
def test_readers_who_do_not_differ_are_rarely_said_to(K):
    p = draws_of(0.0, 5, 150, 150, K)
    assert (p < 0.05).mean() <= 0.07 + 2.5 * np.sqrt(0.07 * 0.93 / 150)


def test_readers_who_differ_are_often_said_to():
    # .3 to .6 are the powers of such studies of 200 rows
    p = draws_of(0.3, 5, 200, 100)
    assert (p < 0.05).mean() > 0.3


def test_two_classes_are_one():
    rng = np.random.default_rng(0)
    said = (rng.random((80, 4)) < [0.4, 0.5, 0.6, 0.5]).astype(int)
    with pytest.warns(UserWarning, match="only 4 raters"):
        found = rater_table(Annotations.from_matrix(said), random_state=0)
    assert_allclose(found.bias[:, 0], -found.bias[:, 1], atol=1e-12)
    assert_allclose(found.interval[:, 0, 0], -found.interval[:, 1, 1], atol=1e-12)
    assert found.df[0] == pytest.approx(3)


def test_readers_who_always_agree_do_not_differ():
    y = Annotations.from_matrix([["a"] * 5, ["b"] * 5] * 20)
    found = rater_table(y, random_state=0)
    assert found.pvalue == 1.0
    assert not found.bias.any()


def test_simultaneous_intervals_cover_all_biases():
    """Five readers of known biases, over new rows."""
    rng = np.random.default_rng(0)
    shares = np.array([0.3, 0.4, 0.5, 0.6, 0.7])
    bias = shares - (shares.sum() - shares) / 4
    covered = []
    for _ in range(150):
        said = (rng.random((100, 5)) < shares).astype(int)
        y = Annotations.from_matrix(said, classes=[0, 1])
        interval = rater_table(y, random_state=0).interval[:, 1]
        covered.append(((interval[:, 0] < bias) & (bias < interval[:, 1])).all())
    assert np.mean(covered) > 0.95 - 2.5 * np.sqrt(0.05 * 0.95 / 150)


def test_labels_without_raters_are_refused():
    with pytest.raises(ValueError, match="y does not say who gave the labels"):
        rater_table([[1, 2], [2, 1]])


def test_a_class_against_the_rest():
    """One class of three is tried at a third of the level that it has alone."""
    rng = np.random.default_rng(0)
    said = rng.integers(3, size=(60, 5))
    found = rater_table(Annotations.from_matrix(said), confidence_level=0.94, random_state=0)
    alone = rater_table(
        Annotations.from_matrix((said == 2).astype(int)), confidence_level=0.98, random_state=0
    )
    assert_allclose(found.bias[:, 2], alone.bias[:, 1], atol=1e-12)
    assert_allclose(found.interval[:, 2], alone.interval[:, 1], atol=1e-12)


def test_a_reader_of_one_group_has_no_interval():
    said = np.random.default_rng(0).integers(2, size=(60, 6)).astype(object)
    said[20:, 5] = None
    found = rater_table(
        Annotations.from_matrix(said), groups=np.repeat([0, 1, 2], 20), random_state=0
    )
    assert np.isfinite(found.bias).all()
    assert np.isfinite(found.interval[:5]).all()
    assert np.isnan(found.interval[5]).all()


def test_degrees_of_freedom_are_those_of_readers_and_blocks():
    said = np.random.default_rng(0).integers(2, size=(60, 5))
    found = rater_table(Annotations.from_matrix(said), n_blocks=12, random_state=0)
    assert_allclose(found.df, (4, 11), rtol=1e-12)


def of_guesser(guess: float, n: int, draws: int, per_row: int = 6):
    """Tables of six readers, the first of whom guesses so often; three classes alike."""
    rng = np.random.default_rng(0)
    for _ in range(draws):
        truth = rng.integers(3, size=(n, 1))
        wrong = rng.random((n, 6)) < [0.15 + 0.85 * guess, *[0.15] * 5]
        said = np.where(wrong, rng.integers(3, size=(n, 6)), truth).astype(object)
        said[rng.random((n, 6)).argsort(axis=1).argsort(axis=1) >= per_row] = None
        yield rater_table(Annotations.from_matrix(said, classes=[0, 1, 2]), random_state=0)


def test_a_reader_who_guesses_is_found_though_class_frequencies_are_alike():
    found = list(of_guesser(0.3, 200, 20))
    assert np.mean([table.pvalue < 0.05 for table in found]) >= 0.9
    alone = np.mean([table.p_values["class frequencies"] < 0.05 for table in found])
    assert alone <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 20)


@pytest.mark.parametrize("per_row", [3, 6])
def test_readers_of_one_skill_are_rarely_said_to_differ_in_it(per_row):
    p = [t.p_values["agreement with the others"] for t in of_guesser(0.0, 80, 100, per_row)]
    assert np.mean(np.array(p) < 0.05) <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / 100)


def test_rows_of_two_cannot_tell_who_is_right():
    [table] = of_guesser(0.3, 100, 1, per_row=2)
    assert np.isnan(table.p_values["agreement with the others"])
    assert table.pvalue == table.p_values["class frequencies"]


def test_as_text_it_says_the_hypothesis():
    [table] = of_guesser(0.0, 60, 1)
    assert str(table).startswith(f"H0: readers label alike; p = {table.pvalue:.2g} (class freq")
