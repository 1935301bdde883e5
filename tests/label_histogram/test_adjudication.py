"""Adjudicated data: further ratings only where the first disagree."""

import pickle
import warnings
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import hypergeom, kstest

from sklearn_lhcal.label_histogram import (
    AdjudicatedRatingsWarning,
    Annotations,
    adjudication_test,
    fleiss_kappa,
    gwet_ac,
)
from sklearn_lhcal.metrics import (
    epistemic_loss,
    expected_squared_loss,
    get_scorer,
    irreducible_loss,
    loss_decomposition,
)


def ratings(seed=0, n=200, m=3):
    rng = np.random.default_rng(seed)
    Q = rng.dirichlet(np.ones(3), n)
    labels = (rng.random((n, m, 1)) > Q[:, None].cumsum(axis=2)[:, :, :2]).sum(axis=2)
    return labels.astype(object)


def adjudicated(**options):
    """A third reader where the first two disagree."""
    labels = ratings(**options)
    labels[labels[:, 0] == labels[:, 1], 2] = None
    return labels


def at_random(seed=0, n=200):
    """Two to six readers, whatever they say."""
    labels = ratings(seed, n, 6)
    wanted = np.random.default_rng([seed, 1]).integers(2, 7, n)
    labels[np.arange(6) >= wanted[:, None]] = None
    return labels


@pytest.mark.parametrize("ordered", [True, False])
def test_adjudicated_data_are_found(ordered):
    with pytest.warns(AdjudicatedRatingsWarning, match=r"y\.first\(2\)") as seen:
        y = Annotations.from_matrix(adjudicated(), ordered=ordered)
    # at the caller's line, once
    assert [one.filename for one in seen] == [__file__]
    assert y.adjudicated
    test = adjudication_test(y)
    assert test.statistic > 6
    # 9 999 permutations, or as many rows as were adjudicated: all of chance d̄ = 2/3 or 1
    assert test.p_value < 1e-10 if ordered else test.p_value == 1e-4
    assert test.n_rows == 200
    if not ordered:
        assert test == adjudication_test(y.counts)
    assert y[:50].adjudicated
    assert pickle.loads(pickle.dumps(y)).adjudicated


def test_a_long_table_with_times_says_the_same():
    matrix = adjudicated()
    row, column = np.nonzero(matrix != None)  # noqa: E711
    order = np.random.default_rng(0).permutation(len(row))
    columns = (row[order], 10 - column[order], matrix[row, column][order])
    with pytest.warns(AdjudicatedRatingsWarning):
        y = Annotations.from_long(*columns, order=column[order])
    with pytest.warns(AdjudicatedRatingsWarning):
        expected = Annotations.from_matrix(matrix, ordered=True)
    np.testing.assert_array_equal(y.label, expected.label)
    assert adjudication_test(y) == adjudication_test(expected)
    with pytest.raises(ValueError, match="order has missing values"):
        Annotations.from_long(*columns, order=np.where(column[order] == 2, np.nan, 0.0))


@pytest.mark.slow
@pytest.mark.parametrize("ordered", [True, False])
def test_numbers_at_random_raise_no_alarm(ordered):
    """The statistic is standard normal: Kolmogorov–Smirnov over 200 studies."""
    statistics = []
    for seed in range(200):
        y = Annotations.from_matrix(at_random(seed, n=100), ordered=ordered)
        assert not y.adjudicated
        statistics.append(adjudication_test(y).statistic)
    assert kstest(statistics, "norm").pvalue > 1e-3


def test_as_many_ratings_everywhere_say_nothing():
    assert np.isnan(adjudication_test(Annotations.from_matrix(ratings())).p_value)
    untested = adjudication_test([[1, 0], [0, 1]])
    assert np.isnan(untested.p_value)
    assert str(untested).endswith("p = nan")


def test_rows_of_one_rating_say_nothing():
    several = [[2, 0]] * 8 + [[2, 1]] * 5 + [[1, 1]] * 3
    found = adjudication_test(several + [[1, 0]] * 9)
    assert found == adjudication_test(several)
    assert found.n_rows == 16


def test_the_first_ratings_are_free_of_it():
    """Two of three random readers agree as often as the first two; all of the adjudicated do not.

    Within four standard errors of the difference of two means over 4000 rows.
    """
    labels = ratings(n=4000)
    with pytest.warns(AdjudicatedRatingsWarning):
        y = Annotations.from_matrix(adjudicated(n=4000), ordered=True)
    free = y.first(2)
    assert not free.adjudicated
    np.testing.assert_array_equal(free.n, 2)
    np.testing.assert_array_equal(y.first(1).n, 1)
    with pytest.raises(ValueError, match="per_row"):
        y.first(0)
    complete = irreducible_loss(Annotations.from_matrix(labels))
    four = 4 * np.sqrt(0.25 * 2 / 4000)
    assert abs(irreducible_loss(free) - complete) < four
    with pytest.warns(AdjudicatedRatingsWarning):
        assert irreducible_loss(y) < complete - four
    with pytest.raises(ValueError, match="Which labels came first is not known"):
        Annotations.from_matrix(labels).first(2)


def test_metrics_of_pairs_warn_and_others_do_not():
    with pytest.warns(AdjudicatedRatingsWarning):
        y = Annotations.from_matrix(adjudicated())
    z = np.full((200, 3), 1 / 3)
    for metric in (
        lambda: irreducible_loss(y),
        lambda: epistemic_loss(y, z),
        lambda: loss_decomposition(y, z),
        lambda: fleiss_kappa(y),
        lambda: gwet_ac(y, weights="linear"),
    ):
        with pytest.warns(AdjudicatedRatingsWarning):
            metric()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected_squared_loss(y, z)
        irreducible_loss(y.counts)
    assert get_scorer("neg_epistemic_loss").metric is epistemic_loss


@pytest.mark.parametrize("often", [0.1, 0.9])
def test_the_statistic_is_standard_normal_however_unequal_the_numbers_are(often):
    """Twenty ratings of some rows, two of others: the mean over pairs varies less with twenty.

    Its standard deviation over 400 studies is known to 3.5 %; within four such errors.
    """
    rng = np.random.default_rng(0)
    found = []
    for _ in range(400):
        n = np.where(rng.random(200) < often, 2, 20)
        found.append(adjudication_test(rng.multinomial(n, rng.dirichlet(5 * np.ones(3), 200))))
    z = np.array([test.statistic for test in found])
    assert abs(z.mean()) < 0.2
    assert 0.86 < z.std() < 1.14
    assert sum(test.p_value < 0.01 for test in found) < 4 + 4 * 2


def test_the_p_value_of_an_order_by_enumeration():
    """Of all permutations of ratings within rows; each is as likely as any other."""
    rows = [[0, 1, 0], [0, 1, 1, 1], [2, 1, 1], [0, 0], [1, 0, 0, 2], [1, 1, 1]]
    y = Annotations.from_matrix([row + [None] * (4 - len(row)) for row in rows], ordered=True)
    # how many orders of each row begin with two that differ
    sums = np.zeros(1)
    for row in rows:
        differ = np.array([order[0] != order[1] for order in permutations(row)])
        sums = (sums[:, None] + differ).ravel()
    seen = sum(row[0] != row[1] for row in rows)
    expected = 2 * min((sums >= seen).mean(), (sums <= seen).mean(), 0.5)
    test = adjudication_test(y)
    assert test.p_value == pytest.approx(expected, rel=1e-9)
    assert test.statistic == pytest.approx((seen - sums.mean()) / sums.std(), rel=1e-9)
    assert "the first two labels of a sample differ as often as any two; p = " in str(test)


def test_the_p_value_of_counts_by_enumeration():
    """Rows whose pairs all agree or all differ: nothing is drawn but the permutations.

    In a second group numbers are others. Within four standard errors of 9 999 permutations, .005.
    """
    pairs = {0: [[2, 0, 0, 0], [3, 0, 0, 0]], 1: [[1, 1, 0, 0], [1, 1, 1, 0]]}
    agree = [(0, 0)] * 5 + [(0, 1)] * 2 + [(1, 0), (1, 1), (1, 1), (1, 1)]
    one = [pairs[d][more] for d, more in agree]
    test = adjudication_test(one)
    # T is the number of the four that differ among the five rows of three ratings, of eleven rows
    k = np.arange(5)
    expected = hypergeom.pmf(k, 11, 4, 5)[np.abs(k - 20 / 11) >= 3 - 20 / 11 - 1e-9].sum()
    assert test.p_value == pytest.approx(expected, abs=0.02)
    moments = hypergeom.stats(11, 4, 5)
    assert test.statistic == pytest.approx((3 - moments[0]) / np.sqrt(moments[1]), rel=1e-9)
    # a group where all have ten ratings says nothing; without groups it hides the association
    more = [*one, *[[10, 0, 0, 0]] * 40]
    groups = np.repeat(["a", "b"], [len(one), 40])
    assert adjudication_test(more, groups=groups).statistic == pytest.approx(test.statistic)
    assert adjudication_test(more).statistic < 0
    assert np.isnan(adjudication_test([[2, 0], [3, 0], [0, 4]]).statistic)
    with pytest.raises(ValueError, match="groups has 3 samples"):
        adjudication_test(one, groups=[0, 1, 2])


def test_a_rare_class_and_few_rows_of_two_raise_no_alarm():
    """135 rows of ten raters, 15 of two: a normal test rejected .6 of them at .05."""
    n = np.repeat([10, 2], [135, 15])
    rejected = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        p = rng.beta(0.3, 19.7, 150)
        rejected += (
            adjudication_test(np.column_stack([k := rng.binomial(n, p), n - k])).p_value <= 0.05
        )
    assert rejected <= 100 * (0.05 + 4 * np.sqrt(0.05 * 0.95 / 100))


def test_a_harder_site_with_more_readers_is_told_apart_by_groups():
    rng = np.random.default_rng(0)
    site = np.repeat([0, 1], 200)
    Q = np.concatenate([rng.dirichlet(np.full(3, a), 200) for a in (0.3, 5.0)])
    y = rng.multinomial(rng.integers(2, 4, 400) + 2 * site, Q)
    assert adjudication_test(y).p_value < 0.001
    assert adjudication_test(y, groups=site).p_value > 0.01


def test_ratings_added_where_raters_agree_are_found_and_not_called_adjudicated():
    labels = ratings()
    labels[labels[:, 0] != labels[:, 1], 2] = None
    y = Annotations.from_matrix(labels, ordered=True)
    test = adjudication_test(y)
    assert test.statistic < -5
    assert test.p_value < 1e-6
    assert not y.adjudicated
