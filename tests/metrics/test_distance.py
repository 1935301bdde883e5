"""Losses with a distance between classes: points, whose mean points labels and predictions are."""

from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest
from metric_cases import case
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score

from sklearn_lhcal.distributions import (
    Dirichlet,
    DirichletMixture,
    Ensemble,
    PointMass,
    second_opinion_value,
)
from sklearn_lhcal.label_histogram import (
    Annotations,
    KnownProbabilities,
    LabelHistogramClassifier,
    krippendorff_alpha,
)
from sklearn_lhcal.metrics import (
    MetricAccumulator,
    alternative_annotator_test,
    calibration_error,
    calibration_loss,
    confidence_interval,
    disagreement_calibration_error,
    disagreement_calibration_loss,
    disagreement_squared_loss,
    dispersion_error,
    dispersion_loss,
    epistemic_loss,
    expected_squared_loss,
    irreducible_loss,
    kernel_calibration_error,
    loss_decomposition,
    posterior_epistemic_loss,
    ranked_probability_score,
    rater_comparison,
    rater_table,
)

K = 4
STEPS = np.abs(np.subtract.outer(np.arange(K), np.arange(K))).astype(float)
# of points in the plane
PLACES = np.array([[0.0, 0.0], [1.0, 0.5], [1.0, -2.0], [3.0, 0.2]])
TABLE = ((PLACES[:, None] - PLACES) ** 2).sum(axis=-1)
SQUARES = {"linear": STEPS, "quadratic": STEPS**2, "table": TABLE}
DISTANCES = {"linear": "linear", "quadratic": "quadratic", "table": TABLE}
# sums of a few hundred terms of about 1, in another order
CLOSE = {"rtol": 1e-11, "atol": 1e-12}


@pytest.fixture(params=DISTANCES)
def distance(request):
    return DISTANCES[request.param]


def squares(distance):
    """d² of all pairs of classes."""
    return SQUARES[distance] if isinstance(distance, str) else distance


def energy(labels, z, d2):
    """E d²(Y, k) − ½ E d²(Y, Y′) for Y of z, the mean over labels k: half of the loss."""
    return np.mean([z @ d2[k] - z @ d2 @ z / 2 for k in labels])


@pytest.mark.parametrize("name", DISTANCES)
def test_the_loss_of_a_label_is_its_energy_score(name):
    """Gneiting and Raftery 2007: no points enter. |k − l| gives the ranked probability score."""
    counts, z, _ = case(K=K)
    d2 = SQUARES[name]
    expected = [energy(np.repeat(np.arange(K), y), p, d2) for y, p in zip(counts, z, strict=True)]
    found = expected_squared_loss(counts, z, distance=DISTANCES[name])
    assert_allclose(found, np.mean(expected), **CLOSE)


def test_the_ranked_probability_score_is_of_cumulative_probabilities():
    counts, z, w = case(K=K)
    steps = np.arange(K - 1)
    rows = [
        np.repeat([((p.cumsum()[:-1] - (k <= steps)) ** 2).sum() for k in range(K)], y).mean()
        for y, p in zip(counts, z, strict=True)
    ]
    assert_allclose(ranked_probability_score(counts, z), np.mean(rows), **CLOSE)
    weighted = ranked_probability_score(counts, z, sample_weight=w)
    assert_allclose(weighted, np.average(rows, weights=w), **CLOSE)
    assert weighted == expected_squared_loss(counts, z, sample_weight=w, distance="linear")


def test_the_ranked_probability_score_is_that_of_scoringrules():
    """`rps_score` of scoringrules 0.10 for categories 1, 4, 2 and 3."""
    z = np.array(
        [[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [0.25, 0.25, 0.25, 0.25], [0.0, 0.5, 0.5, 0.0]]
    )
    counts = np.eye(4, dtype=int)[[0, 3, 1, 2]]
    found = [ranked_probability_score(counts[[i]], z[[i]]) for i in range(4)]
    assert_allclose(found, [1.46, 1.94, 0.375, 0.25], rtol=1e-12)


def of_two_rows(n, metric):
    """The mean of a metric of two rows over all labels that n raters of each may give."""
    rng = np.random.default_rng(0)
    Q = rng.dirichlet(np.ones(3), 2)
    z = np.array([[0.2, 0.5, 0.3], [0.3, 0.4, 0.3]])
    mean = 0.0
    for labels in product(range(3), repeat=2 * n):
        first, second = labels[:n], labels[n:]
        chance = Q[0][list(first)].prod() * Q[1][list(second)].prod()
        y = np.array([np.bincount(row, minlength=3) for row in (first, second)])
        mean += chance * metric(y, z)
    return mean, Q, z


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("name", DISTANCES)
def test_losses_are_unbiased(name, n):
    """By enumeration; the bins hold both rows, and bins of z B are those of the middle."""
    distance = name if name != "table" else TABLE[:3, :3]
    d2 = SQUARES[name][:3, :3]
    mean, Q, z = of_two_rows(n, partial(epistemic_loss, distance=distance))
    e = Q - z
    assert_allclose(mean, np.mean([-d @ d2 @ d / 2 for d in e]), atol=1e-12)
    mean = of_two_rows(n, partial(irreducible_loss, distance=distance))[0]
    assert_allclose(mean, np.mean([q @ d2 @ q / 2 for q in Q]), atol=1e-12)
    mean = of_two_rows(n, partial(calibration_loss, distance=distance, n_bins=1))[0]
    # with one bin the correction leaves the product of the two rows' residuals
    assert_allclose(mean, -e[0] @ d2 @ e[1] / 2, atol=1e-12)
    mean = of_two_rows(n, partial(disagreement_squared_loss, distance=distance))[0]
    phi = np.array([p @ d2 @ p / 2 for p in z])
    pairs = [((d2 / 2 - f) ** 2 * np.outer(q, q)).sum() for q, f in zip(Q, phi, strict=True)]
    assert_allclose(mean, np.mean(pairs), atol=1e-12)
    loss = partial(disagreement_calibration_loss, distance=distance, n_bins=1)
    gap = np.array([q @ d2 @ q / 2 for q in Q]) - phi
    assert_allclose(of_two_rows(n, loss)[0], gap[0] * gap[1], atol=1e-12)


def test_the_parts_add_up(distance):
    counts, z, w = case(n=200, K=K, least=2)
    options = {"sample_weight": w, "distance": distance}
    parts = loss_decomposition(counts, z, **options)
    L, EL, IL, CL, DL = (
        metric(counts, z, **options)
        for metric in (
            expected_squared_loss,
            epistemic_loss,
            irreducible_loss,
            calibration_loss,
            dispersion_loss,
        )
    )
    assert_allclose([L, EL, CL], [EL + IL, CL + DL, EL - DL], **CLOSE)
    assert_allclose(parts[:5], [L, EL, IL, CL, DL], **CLOSE)
    assert_allclose(calibration_error(counts, z, **options), np.sign(CL) * np.sqrt(abs(CL)))
    assert_allclose(dispersion_error(counts, z, **options), np.sign(DL) * np.sqrt(abs(DL)))


def test_a_table_of_steps_is_the_order_but_for_bins():
    counts, z, _ = case(K=K, least=2)
    for metric in (expected_squared_loss, epistemic_loss, irreducible_loss):
        ordinal = metric(counts, z, distance="linear")
        assert_allclose(metric(counts, z, distance=STEPS), ordinal, **CLOSE)
    for metric in (disagreement_squared_loss, disagreement_calibration_error):
        ordinal = metric(counts, z, distance="linear")
        assert_allclose(metric(counts, z, distance=STEPS), ordinal, **CLOSE)
    both = [calibration_loss(counts, z, distance=d, n_bins=3) for d in ("linear", STEPS)]
    assert abs(both[0] - both[1]) > 1e-6


def test_the_distance_of_no_distance_is_the_probability_score():
    """All classes √2 apart: the same losses, with bins of z less its mean."""
    counts, z, _ = case(K=K, least=2)
    nominal = 2 * (1 - np.eye(K))
    for metric in (
        expected_squared_loss,
        epistemic_loss,
        irreducible_loss,
        disagreement_squared_loss,
        disagreement_calibration_loss,
    ):
        assert_allclose(metric(counts, z, distance=nominal), metric(counts, z), **CLOSE)
    assert_allclose(
        calibration_loss(counts, z, distance=nominal, n_bins=1),
        calibration_loss(counts, z, n_bins=1),
    )


def test_more_that_the_distance_of_no_distance_leaves_alone():
    counts, z, _ = case(K=K, least=2)
    nominal = 2 * (1 - np.eye(K))
    dist = Dirichlet.from_mean(z, np.linspace(1, 9, len(z)))
    mixture = DirichletMixture(np.stack([z, z[::-1]]), np.full((2, len(z)), 3.0))
    for d in (dist, mixture):
        found = posterior_epistemic_loss(counts, d, distance=nominal)
        assert_allclose(found, posterior_epistemic_loss(counts, d), **CLOSE)
        found = second_opinion_value(d, distance=nominal)
        assert_allclose(found, second_opinion_value(d), **CLOSE)
    for correction in ("residual", None):
        kernel = partial(kernel_calibration_error, bandwidth=0.1, bias_correction=correction)
        assert_allclose(kernel(counts, z, distance=nominal), kernel(counts, z), **CLOSE)


def test_kernel_errors_at_a_distance():
    """Pairs of neighbours' residuals, by hand, for weights that the kernel gives three rows."""
    counts, z, _ = case(n=3, K=K)
    for name, distance in DISTANCES.items():
        e = counts / counts.sum(axis=1, keepdims=True) - z
        # of three rows the two others are all neighbours: the kernel weights cancel
        rows = [-e[i] @ SQUARES[name] @ e[j] / 2 for i, j in ((1, 2), (0, 2), (0, 1))]
        found = kernel_calibration_error(counts, z, bandwidth=0.2, distance=distance)
        assert_allclose(found, np.mean(rows), **CLOSE)
    for wrong in ({"kind": "marginal"}, {"p": 1, "bias_correction": None}):
        with pytest.raises(ValueError, match="canonical"):
            kernel_calibration_error(counts, z, bandwidth=0.2, distance="linear", **wrong)


@pytest.mark.parametrize("n", [2, 3])
def test_the_loss_after_a_label_is_unbiased(n, distance):
    small = distance if isinstance(distance, str) else distance[:3, :3]
    d2 = squares(distance)[:3, :3]
    alpha = np.array([[0.4, 1.0, 0.6], [2.0, 1.0, 0.5]])
    mean, Q, _ = of_two_rows(
        n, lambda y, z: posterior_epistemic_loss(y, Dirichlet(alpha), distance=small)
    )
    after = (alpha[:, None] + np.eye(3)) / (alpha.sum(axis=1)[:, None, None] + 1)
    e = Q[:, None] - after
    losses = -np.einsum("nkl,lm,nkm->nk", e, d2, e) / 2
    assert_allclose(mean, (Q * losses).sum(axis=1).mean(), atol=1e-12)


def apart(labels, others, d2):
    """Half the mean squared distance of pairs of labels."""
    return np.mean([d2[a, b] / 2 for a in labels for b in others])


def test_readers_and_judges_at_a_distance(distance):
    """Each reader against each other one, pair by pair."""
    rng = np.random.default_rng(3)
    truth = rng.integers(K, size=(80, 1))
    said = np.clip(truth + rng.integers(-1, 2, (80, 6)), 0, K - 1)
    d2 = squares(distance)
    y = Annotations.from_matrix(said[:, :5], classes=list(range(K)))
    judge = said[:, 5]
    found = rater_comparison(y, judge, margin=0.1, distance=distance, random_state=0)
    pairs = [(a, b) for a in range(5) for b in range(5) if a != b]
    between = np.mean([d2[said[:, a], said[:, b]].mean() / 2 for a, b in pairs])
    of_judge = np.mean([d2[judge, said[:, a]].mean() / 2 for a in range(5)])
    assert_allclose(found.reader_error.estimate, between, **CLOSE)
    assert_allclose(found.model_error.estimate, of_judge, **CLOSE)
    assert_allclose(found.difference.estimate, of_judge - between, **CLOSE)
    each = [
        np.mean([d2[said[:, a], said[:, b]].mean() / 2 for b in range(5) if b != a])
        for a in range(5)
    ]
    assert_allclose(found.readers.error, each, **CLOSE)
    others = [
        np.mean([d2[judge, said[:, b]].mean() / 2 for b in range(5) if b != a]) for a in range(5)
    ]
    assert_allclose(found.readers.model_error, others, **CLOSE)
    test = alternative_annotator_test(y, judge, distance=distance)
    wins = [
        np.mean(
            [
                apart([judge[i]], np.delete(said[i, :5], a), d2)
                <= apart([said[i, a]], np.delete(said[i, :5], a), d2) + 1e-9
                for i in range(80)
            ]
        )
        for a in range(5)
    ]
    assert_allclose(test.advantage, np.mean(wins), **CLOSE)


def test_a_judge_who_errs_by_far_is_found_by_a_distance():
    """Its errors are as frequent as a reader's, but larger."""
    rng = np.random.default_rng(0)
    truth = rng.integers(K, size=(300, 1))
    wrong = rng.random((300, 6)) < 0.3
    near = np.where(truth > 1, truth - 1, truth + 1)
    said = np.where(wrong, near, truth)
    far = np.where(truth > 1, 0, K - 1)[:, 0]
    judge = np.where(wrong[:, 5], far, truth[:, 0])
    y = Annotations.from_matrix(said[:, :5], classes=list(range(K)))
    alike = rater_comparison(y, judge, margin=0.1, random_state=0)
    apart = rater_comparison(y, judge, margin=0.1, distance="quadratic", random_state=0)
    # .51 of pairs differ, of readers .42; but squared they are six times as far apart
    assert abs(alike.difference.estimate) < 0.2
    assert apart.difference.low > 0.5
    # a margin is in the unit of the distance; of probabilities it is below 1
    wide = rater_comparison(y, judge, margin=4.5, distance="quadratic", random_state=0)
    assert wide.non_inferior
    with pytest.raises(ValueError, match="margin must be below 1"):
        rater_comparison(y, judge, margin=4.5)


def test_guessing_grades_is_found_where_steps_count():
    rng = np.random.default_rng(1)
    truth = rng.integers(K, size=(200, 1))
    said = np.clip(truth + rng.integers(-1, 2, (200, 6)), 0, K - 1)
    said[:, 0] = rng.permutation(said[:, 0])
    y = Annotations.from_matrix(said, classes=list(range(K)))
    p = rater_table(y, distance="linear", random_state=0).p_values
    assert p["agreement with the others"] < 1e-3


@pytest.mark.parametrize("name", DISTANCES)
def test_krippendorffs_alpha_is_that_of_the_package(name):
    """krippendorff takes any distance as a function of two values; the table is one of places."""
    krippendorff = pytest.importorskip("krippendorff")
    counts, _, _ = case(K=K, least=2)
    d2 = SQUARES[name]

    def metric(a, b, **_):
        return d2[np.asarray(a, dtype=int), np.asarray(b, dtype=int)]

    theirs = krippendorff.alpha(
        value_counts=counts, value_domain=np.arange(K), level_of_measurement=metric
    )
    found = krippendorff_alpha(counts, weights=1 - d2 / d2.max())
    assert_allclose(found, theirs, rtol=1e-12)
    if name != "table":
        assert_allclose(krippendorff_alpha(counts, weights=name), theirs, rtol=1e-12)


def test_two_ordered_classes_have_half_of_the_probability_score():
    counts, z, _ = case(K=2, least=2)
    for metric in (expected_squared_loss, epistemic_loss, calibration_loss, dispersion_loss):
        assert_allclose(metric(counts, z, distance="linear"), metric(counts, z) / 2, **CLOSE)


def test_the_order_may_be_turned_round(distance):
    counts, z, w = case(K=K, least=2)
    turned = distance if isinstance(distance, str) else distance[::-1, ::-1]
    for metric in (expected_squared_loss, epistemic_loss, disagreement_squared_loss):
        value = metric(counts[:, ::-1], z[:, ::-1], sample_weight=w, distance=turned)
        assert_allclose(value, metric(counts, z, sample_weight=w, distance=distance), **CLOSE)


def test_known_probabilities_and_float32(distance):
    _, z, _ = case(K=K)
    Q = np.roll(z, 1, axis=0)
    exact = epistemic_loss(KnownProbabilities(Q), z, distance=distance)
    d2 = squares(distance)
    expected = np.mean([-(q - p) @ d2 @ (q - p) / 2 for q, p in zip(Q, z, strict=True)])
    assert_allclose(exact, expected, **CLOSE)
    # rounding of z to 24 bits
    rounded = epistemic_loss(KnownProbabilities(Q), z.astype(np.float32), distance=distance)
    assert_allclose(rounded, exact, rtol=1e-5)


def test_predicted_disagreement_is_half_a_mean_squared_distance(distance):
    rng = np.random.default_rng(1)
    d2 = squares(distance)
    alpha = rng.uniform(0.3, 3, (5, K))
    dist = Dirichlet(alpha)
    z = dist.mean()
    total = alpha.sum(axis=1)
    expected = total / (total + 1) * np.einsum("nk,kl,nl->n", z, d2, z) / 2
    assert_allclose(dist.disagreement(distance=distance), expected, rtol=1e-12)
    # of members it is the mean, and not that of the mean
    members = rng.dirichlet(np.ones(K), (3, 5))
    mean = np.einsum("snk,kl,snl->sn", members, d2, members).mean(axis=0) / 2
    assert_allclose(Ensemble(members).disagreement(distance=distance), mean, rtol=1e-12)


def rated(counts):
    """Annotations by five readers who answer in order of the columns."""
    cells = [[*np.repeat(np.arange(K), row), *[-1] * (5 - row.sum())] for row in counts]
    cells = np.random.default_rng(0).permuted(np.array(cells), axis=1)
    matrix = pd.DataFrame(cells).astype(object).where(cells >= 0)
    return Annotations.from_matrix(matrix, classes=list(range(K)))


@pytest.mark.parametrize("metric", [expected_squared_loss, calibration_loss])
def test_intervals_and_raters(metric, distance):
    counts, z, _ = case(n=150, K=K, least=2)
    of_counts = confidence_interval(metric, counts, z, distance=distance, random_state=0)
    assert of_counts.low < of_counts.estimate < of_counts.high
    y = rated(counts)
    of_readers = confidence_interval(metric, y, z, distance=distance, random_state=0)
    assert of_readers.high - of_readers.low > of_counts.high - of_counts.low
    fixed = confidence_interval(
        expected_squared_loss, y, z, distance=distance, raters="fixed", random_state=0
    )
    whole = confidence_interval(expected_squared_loss, counts, z, distance=distance, random_state=0)
    assert_allclose(fixed, whole, rtol=1e-9)


@pytest.mark.parametrize(
    "metric", [expected_squared_loss, calibration_loss, disagreement_calibration_loss]
)
def test_batches_are_the_whole(metric, distance):
    counts, z, _ = case(n=120, K=K, least=2)
    total = MetricAccumulator(metric, distance=distance)
    for rows in (slice(50), slice(50, 120)):
        total.update(counts[rows], z[rows])
    assert_allclose(total.result().estimate, metric(counts, z, distance=distance), **CLOSE)


GRADES = ["mild", "moderate", "severe", "fatal"]


def test_an_order_comes_from_numbers_lists_and_categoricals():
    counts, z, _ = case(K=K)
    expected = ranked_probability_score(counts, z)
    for names in ([1, 2, 3, 4], ["1", "2", "3", "10"]):
        y, p = (pd.DataFrame(a, columns=names) for a in (counts, z))
        assert_allclose(ranked_probability_score(y, p), expected, **CLOSE)
    labels = counts.argmax(axis=1)
    one = ranked_probability_score(np.eye(K, dtype=int)[labels], z)
    grades = pd.Categorical.from_codes(labels, GRADES, ordered=True)
    dist = PointMass(z).with_classes(GRADES)
    assert_allclose(ranked_probability_score(grades, dist), one, **CLOSE)
    y = Annotations.from_matrix(np.array(GRADES)[labels][:, None], classes=GRADES)
    assert_allclose(ranked_probability_score(y, dist), one, **CLOSE)
    # 4 is three steps from 1, though nobody can give 3
    y, p = (pd.DataFrame([row], columns=[1, 2, 4]) for row in ([0, 0, 1], [1.0, 0, 0]))
    assert expected_squared_loss(y, p, distance="quadratic") == 9.0
    assert ranked_probability_score(y, p) == 2.0


@pytest.mark.parametrize("distance", ["linear", "quadratic"])
def test_text_has_no_order(distance):
    y = pd.DataFrame([[1, 0, 2]], columns=["a", "b", "c"])
    p = pd.DataFrame([[0.2, 0.3, 0.5]], columns=["a", "b", "c"])
    with pytest.raises(ValueError, match=f"distance='{distance}' needs"):
        expected_squared_loss(y, p, distance=distance)
    with pytest.raises(ValueError, match=f"distance='{distance}' needs"):
        PointMass(p).disagreement(distance=distance)


@pytest.mark.parametrize(
    ("distance", "message"),
    [
        ("steps", "must be None, 'linear'"),
        ([1.0, 2.0], "must be None, 'linear'"),
        (3, "must be None, 'linear'"),
        (np.ones((2, 3)), r"shape \(3, 3\)"),
        (np.ones((3, 3)), "symmetric"),
        ([[0, 1, 2], [2, 0, 1], [2, 1, 0]], "symmetric"),
        ([[0, -1, 1], [-1, 0, 1], [1, 1, 0]], "nowhere negative"),
        ([[0, np.nan, 1], [np.nan, 0, 1], [1, 1, 0]], "NaN"),
        # d² = (k − l)⁴: no points
        (np.subtract.outer(np.arange(3), np.arange(3)) ** 4.0, "no table of squared distances"),
    ],
)
def test_a_distance_that_is_none_is_refused(distance, message):
    counts, z, _ = case(K=3, least=2)
    for metric in (expected_squared_loss, calibration_loss, disagreement_squared_loss):
        with pytest.raises(ValueError, match=message):
            metric(counts, z, distance=distance)


def test_other_exponents_have_no_distance():
    with pytest.raises(ValueError, match="p=2"):
        calibration_loss([[1, 1]], [[0.5, 0.5]], p=1, bias_correction=None, distance="linear")
    with pytest.raises(ValueError, match="not both"):
        PointMass([[0.5, 0.5]]).disagreement(1 - np.eye(2), distance="linear")


def test_searches_by_rank():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    grade = np.digitize(X[:, 0] + 0.5 * rng.normal(size=120), [-0.7, 0, 0.7])
    y = pd.Categorical.from_codes(grade, GRADES, ordered=True)
    search = GridSearchCV(
        LabelHistogramClassifier(LogisticRegression()),
        {"estimator__C": [1e-4, 1.0]},
        scoring="neg_ranked_probability_score",
        error_score="raise",
    ).fit(X, y)
    assert search.best_params_ == {"estimator__C": 1.0}
    assert list(search.best_estimator_.classes_) == GRADES
    numbers = cross_val_score(
        LogisticRegression(), X, grade, scoring="neg_ranked_probability_score"
    )
    assert (numbers < 0).all()
