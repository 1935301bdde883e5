"""Grades: the scaling of cumulative logits, and prediction sets without holes.

The family and its loss are private: derivatives, and logarithms of what floats cannot hold as a
probability, have no public door.
"""

from itertools import product

import mpmath
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import expit, logit, softmax
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from sklearn_lhcal.calibration import (
    AlphaCalibration,
    BiasCorrectedTemperatureScaling,
    ConformalClassifier,
    OrdinalScaling,
    PrecomputedClassifier,
    StackedCalibration,
    TemperatureScaling,
)
from sklearn_lhcal.calibration._rows import CalibrationRows
from sklearn_lhcal.calibration._scaling.fit import LogLoss
from sklearn_lhcal.label_histogram import Annotations, KnownProbabilities

OrdinalMap, OrdinalScaleMap = OrdinalScaling(form="cumulative")._families()
ShiftMap, LineMap = OrdinalScaling(form="classwise")._families()
GRADES = ["mild", "moderate", "severe"]


def by_hand(z, a, b):
    """Differences of σ(a logit F_j + b), which is right where no class is improbable."""
    F = expit(a * logit(np.cumsum(z, axis=-1)[..., :-1]) + b)
    ends = [(0, 0)] * (z.ndim - 1)
    return np.diff(np.pad(F, [*ends, (1, 1)], constant_values=(0, 1)), axis=-1)


@pytest.fixture
def data():
    """400 rows of five grades: probabilities, and labels after another scale and shift."""
    rng = np.random.default_rng(0)
    # below 1/200 the differences of σ lose digits
    z = 0.025 / 5 + 0.975 * rng.dirichlet(np.full(5, 2.0), 400)
    return z, rng.multinomial(rng.integers(1, 4, 400), by_hand(z, 0.7, 0.5))


def rows_of(z, counts):
    weight = np.random.default_rng(1).uniform(0.1, 2, len(z))
    return CalibrationRows(np.log(z), counts=np.asarray(counts, dtype=float), weight=weight)


def differences(function, x):
    """Central differences of step 1e-5, which are right to 1e-10 or so."""
    steps = 1e-5 * np.eye(len(x))
    return np.array([(function(x + e) - function(x - e)) / 2e-5 for e in steps])


@pytest.mark.parametrize("family", [OrdinalMap, OrdinalScaleMap, ShiftMap, LineMap])
@pytest.mark.parametrize("mixing", [None, np.array([0.1, 0.1, 0.2, 0.3, 0.3])])
def test_gradients_are_finite_differences(data, family, mixing):
    loss = LogLoss(family(5), rows_of(*data), mixing)
    x = np.array([0.3, -0.4, 0.1, 0.2, -0.3, 0.0, 0.1][: len(loss.family.start())])
    if mixing is not None:
        x = np.append(x, -1.3)
    value, slope = loss(x)
    assert value == loss.value(x)
    assert_allclose(slope, differences(loss.value, x), atol=1e-9)


@pytest.mark.parametrize("kind", [OrdinalMap, OrdinalScaleMap, ShiftMap, LineMap])
def test_the_information_is_the_hessian_where_labels_are_as_predicted(data, kind):
    z, _ = data
    family = kind(5)
    x = np.array([0.3, -0.4, 0.1, 0.2, -0.3, 0.0, 0.1][: len(family.start())])
    known = softmax(family.mapped(x, family.read(np.log(z))), axis=1)
    loss = LogLoss(family, rows_of(z, known), None)
    H = differences(lambda x: loss(x)[1], x)
    assert_allclose(loss.information(x).H, H, atol=1e-8)


@pytest.mark.parametrize("shrinkage", [0.0, 300.0])
@pytest.mark.parametrize("mixing", [None, "uniform"])
def test_the_optimum_is_scipys(data, shrinkage, mixing):
    """From four starts, by a search that knows no gradient."""
    z, y = data
    weight = np.random.default_rng(3).uniform(0.5, 2.0, len(z))
    found = OrdinalScaling("proba", form="cumulative", mixing=mixing, shrinkage=shrinkage).fit(
        z, y, weight
    )
    share = y * weight[:, None] / (weight @ y.sum(axis=1)) * weight.sum()

    def objective(x):
        p = by_hand(z, np.exp(x[0]), x[1])
        prior = x[0] ** 2 / 2 + shrinkage / 20 * x[1] ** 2
        if mixing is not None:
            e = expit(x[2])
            p = (1 - e) * p + e / 5
            prior -= 0.1 * np.log(e * (1 - e))
        return -(share * np.log(p)).sum() + prior

    own = [np.log(found.scale_), found.intercept_]
    if mixing is not None:
        own.append(logit(found.mixing_weight_))
    options = {"xatol": 1e-9, "fatol": 1e-9, "maxiter": 4000}
    for signs in product([-1, 1], repeat=2):
        start = np.array([*signs, -3.0][: len(own)])
        best = minimize(objective, start, method="Nelder-Mead", options=options)
        # the search knows values to their rounding, and points to the root of it
        assert_allclose(own, best.x, atol=1e-4)
        assert objective(own) <= best.fun + 1e-9


@pytest.mark.parametrize("shrinkage", [30.0, 3000.0])
def test_the_optimum_of_the_classwise_form_is_scipys(data, shrinkage):
    z, y = data
    found = OrdinalScaling("proba", form="classwise", shrinkage=shrinkage).fit(z, y)
    g = np.arange(5) - 2
    share = y / y.sum() * len(y)

    def objective(x):
        p = softmax(np.exp(x[0]) * np.log(z) + x[1] * g + x[2:], axis=1)
        prior = (x[0] ** 2 + x[1] ** 2) / 2 + shrinkage / 20 * (x[2:] ** 2).sum()
        return -(share * np.log(p)).sum() + prior

    best = minimize(objective, np.zeros(7), method="BFGS", options={"gtol": 1e-4})
    b = best.x[1] * g + best.x[2:]
    # BFGS has differences of values for its slope
    assert found.scale_ == pytest.approx(np.exp(best.x[0]), abs=1e-4)
    assert_allclose(found.intercept_, b - b.mean(), atol=1e-4)


def test_the_classwise_form_lies_between_a_line_and_any_shifts(data):
    z, y = data

    def fitted(shrinkage):
        return OrdinalScaling("proba", form="classwise", shrinkage=shrinkage).fit(z, y)

    steps = np.diff(fitted(1e9).intercept_)
    # a billion leaves a billionth off the line
    assert_allclose(steps, steps[0], atol=1e-6)
    free = BiasCorrectedTemperatureScaling("proba", shrinkage=0.0).fit(z, y)
    # both searches end where the slope is 1e-7
    assert_allclose(fitted(0.0).predict_proba(z), free.predict_proba(z), atol=1e-5)
    assert np.abs(fitted(None).intercept_ - fitted(1e9).intercept_).max() > 1e-3


def test_the_evidence_finds_a_line():
    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.full(5, 2.0), 2000)
    line = 0.4 * (np.arange(5) - 2)
    y = rng.multinomial(1, softmax(0.7 * np.log(z) + line, axis=1))
    found = OrdinalScaling("proba", form="classwise").fit(z, y)
    free = BiasCorrectedTemperatureScaling("proba", shrinkage=0.0).fit(z, y)
    shifts = free.bias_ / free.temperature_
    off = [np.abs(np.diff(b, 2)).max() for b in (found.intercept_, shifts)]
    assert off[0] < 0.3 * off[1]
    # four standard errors of a slope of 2,000 labels
    assert_allclose(np.diff(found.intercept_), 0.4, atol=0.1)


def test_the_evidence_keeps_a_shift_that_is_there_and_drops_one_that_is_not(data):
    z, y = data
    free = OrdinalScaling("proba", form="cumulative", shrinkage=0.0).fit(z, y)
    shrunk = OrdinalScaling("proba", form="cumulative").fit(z, y)
    assert 0.95 * free.intercept_ < shrunk.intercept_ < free.intercept_
    none = OrdinalScaling("proba", form="cumulative").fit(
        z, KnownProbabilities(by_hand(z, 0.7, 0.0))
    )
    # what the prior of the scale moves
    assert abs(none.intercept_) < 1e-4


def exact(u, a, b):
    """log p' of one row of log-probabilities, in a thousand digits."""
    with mpmath.workdps(1000):
        p = [mpmath.exp(mpmath.mpf(float(value))) for value in u]
        scaled = [mpmath.mpf(0)]
        for k in range(1, len(p)):
            odds = mpmath.fsum(p[:k]) / mpmath.fsum(p[k:])
            t = mpmath.mpf(a) * mpmath.log(odds) + mpmath.mpf(b)
            scaled.append(1 / (1 + mpmath.exp(-t)))
        scaled.append(mpmath.mpf(1))
        return [float(mpmath.log(scaled[k + 1] - scaled[k])) for k in range(len(p))]


@pytest.mark.parametrize(
    "u",
    [
        [-2e-17, -39.5, -40.0],
        [-0.7, -50.0, -0.7],
        [-1.1, -600.0, -0.4, -600.0],
        [-500.0, -600.0, 0.0, -700.0, -300.0],
        [-2.0, -20.0, -1.0, -37.0, -0.9],
    ],
)
@pytest.mark.parametrize(("a", "b"), [(1.0, 0.0), (0.25, 1.5), (3.0, -4.0)])
def test_logarithms_of_improbable_classes_are_exact(u, a, b):
    family = OrdinalMap(len(u))
    found = family.mapped(np.array([np.log(a), b]), family.read(np.array([u])))[0]
    # each is a sum of terms as large as a logit of F', whose rounding is left
    assert_allclose(found, exact(u, a, b), rtol=1e-13, atol=1e-14)


def test_a_difference_that_floats_cannot_see():
    """σ(40) − σ(39) is 0 in floats."""
    family = OrdinalMap(3)
    # F = σ(39), σ(40)
    logs = [-np.log1p(np.exp(-39)), np.log(np.exp(-39) - np.exp(-40)), -40.0]
    found = family.mapped(family.start(), family.read(np.array([logs])))[0]
    assert expit(40.0) - expit(39.0) == 0.0
    assert found[1] == pytest.approx(-39.4587, abs=1e-4)


def test_logits_below_all_probabilities_are_fitted():
    """Between probable classes p' is a d, so that a class that is less probable changes no fit."""
    u = np.array([[0.0, -300.0, -1.0], [-1.0, -2.0, 0.0], [-1.0, 0.0, -1.0]] * 20)
    y = [[2, 1, 2], [1, 1, 3], [1, 3, 1]] * 20
    expected = OrdinalScaling("logits", form="cumulative").fit(u, y)
    found = OrdinalScaling("logits", form="cumulative").fit(np.where(u == -300, -3000.0, u), y)
    assert found.scale_ == pytest.approx(expected.scale_, abs=1e-6)
    assert found.intercept_ == pytest.approx(expected.intercept_, abs=1e-6)


@pytest.mark.parametrize("K", [1, 2, 3, 7])
def test_the_identity(K):
    z = np.random.default_rng(K).dirichlet(np.ones(K), 50)
    family = OrdinalMap(K)
    found = family.mapped(family.start(), family.read(np.log(z)))
    assert_allclose(found, np.log(z), rtol=1e-12, atol=1e-14)


def test_cumulative_logits_are_scaled_and_shifted(data):
    """So that cumulative probabilities rise."""
    z, y = data
    found = OrdinalScaling("proba", form="cumulative").fit(z, y)
    p = found.predict_proba(z)
    assert_allclose(p, by_hand(z, found.scale_, found.intercept_), atol=1e-13)
    assert (p > 0).all()


def test_of_two_classes_it_is_logistic_regression():
    rng = np.random.default_rng(0)
    u = rng.normal(size=(300, 1)) * 2
    y = rng.random(300) < expit(0.6 * u[:, 0] - 0.4)
    z = np.column_stack([expit(-u), expit(u)])
    # so many labels that nothing is left of the prior
    weight = np.full(300, 1e9)
    found = OrdinalScaling("proba", form="cumulative", shrinkage=0.0).fit(z, y, weight)
    peer = LogisticRegression(C=1e9, tol=1e-10, max_iter=1000).fit(u, y)
    # the peer's tolerance
    assert_allclose(
        [found.scale_, -found.intercept_], [*peer.coef_[0], *peer.intercept_], atol=1e-6
    )


def test_weights_repeat_rows(data):
    z, y = (part[:80] for part in data)
    weight = np.random.default_rng(0).integers(0, 4, 80)
    weighted = OrdinalScaling("proba", form="cumulative", mixing="prior").fit(z, y, weight)
    repeated = OrdinalScaling("proba", form="cumulative", mixing="prior").fit(
        np.repeat(z, weight, 0), y.repeat(weight, 0)
    )
    # searches end where the slope is 1e-7
    assert_allclose(weighted.predict_proba(z), repeated.predict_proba(z), atol=1e-6)


@pytest.mark.parametrize("mixing", [None, "uniform"])
def test_grades_in_reversed_order_have_the_opposite_shift(data, mixing):
    z, y = data
    found = OrdinalScaling("proba", form="cumulative", mixing=mixing).fit(z, y)
    turned = OrdinalScaling("proba", form="cumulative", mixing=mixing).fit(z[:, ::-1], y[:, ::-1])
    assert turned.scale_ == pytest.approx(found.scale_, abs=1e-6)
    assert turned.intercept_ == pytest.approx(-found.intercept_, abs=1e-6)
    assert_allclose(turned.predict_proba(z[:, ::-1]), found.predict_proba(z)[:, ::-1], atol=1e-6)


def test_classwise_shifts_are_turned_with_the_grades(data):
    z, y = data
    found = OrdinalScaling("proba", form="classwise").fit(z, y)
    turned = OrdinalScaling("proba", form="classwise").fit(z[:, ::-1], y[:, ::-1])
    assert turned.scale_ == pytest.approx(found.scale_, abs=1e-6)
    assert_allclose(turned.intercept_, found.intercept_[::-1], atol=1e-6)


def test_known_probabilities_give_their_scale_and_shift(data):
    z, _ = data
    # enough that nothing is left of the prior
    weight = np.full(len(z), 1e7)
    known = KnownProbabilities(by_hand(z, 1.3, -0.6))
    found = OrdinalScaling("proba", form="cumulative").fit(z, known, weight)
    assert_allclose([found.scale_, found.intercept_], [1.3, -0.6], atol=1e-6)


def proportional_odds(n):
    """Five grades; predictions whose cumulative logits are twice as large, and .7 too high."""
    rng = np.random.default_rng(0)
    t = np.array([-2.0, -1.0, 1.0, 2.0]) - 1.5 * rng.normal(size=(n, 1))
    truth, predicted = (np.diff(expit(a), prepend=0, append=1) for a in (t, 2 * t + 0.7))
    return predicted, Annotations.from_counts(rng.multinomial(2, truth))


def as_grades(y, names):
    """The same labels, with names that are said to have an order."""
    given = zip(np.repeat(np.arange(len(y)), np.diff(y.indptr)), y.rater, strict=True)
    items, raters = zip(*given, strict=True)
    label = np.array(names)[y.label]
    return Annotations.from_long(items, raters, label, classes=names)


def test_a_stack_of_grades_has_the_cumulative_form():
    z, y = proportional_odds(600)
    names = ["e", "d", "c", "b", "a"]
    model = PrecomputedClassifier("proba", classes=names)
    graded = StackedCalibration(model).fit(z, as_grades(y, names))
    assert [*graded.parameters_][-1] == "ordinal"
    assert graded.weights_.shape == (7,)
    assert graded.weights_[-1] > 0.5
    assert 0.4 < graded.parameters_["ordinal"]["scale_"] < 0.7
    # numbers may be names of anything
    plain = StackedCalibration("proba").fit(z, y.counts)
    assert "ordinal" not in plain.parameters_
    assert_allclose(graded.predict_proba(z).sum(axis=1), 1, rtol=1e-12)


def test_a_stack_of_many_grades_has_it_in_place_of_the_matrix():
    z = np.random.default_rng(0).dirichlet(np.ones(22), 300)
    y = Annotations.from_counts(np.random.default_rng(1).multinomial(2, z))
    names = [f"grade {k}" for k in range(22)]
    model = PrecomputedClassifier("proba", classes=names)
    found = StackedCalibration(model, inner_cv=2).fit(z, as_grades(y, names))
    expected = ["temperature", "frequencies", "bias_corrected", "vector", "spline", "ordinal"]
    assert [*found.parameters_] == expected
    assert found.weights_.shape == (6,)


def test_a_stack_of_two_grades_has_no_more():
    X, text, _ = text_labels()
    y = pd.Series(np.where(text == "mild", "a", "b"), dtype=pd.CategoricalDtype(["b", "a"], True))
    found = StackedCalibration(inner_cv=2).fit(X, y)
    assert found.classes_.tolist() == ["b", "a"]
    assert "ordinal" not in found.parameters_


def text_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    k = np.clip(np.round(X[:, 0] + rng.normal(size=200) + 1), 0, 2).astype(int)
    return X, np.array(GRADES[::-1])[k], k


# alphabetical order would be mild, moderate, severe, which none of these is
SEVEREST_FIRST = GRADES[::-1]
ORDERED = pd.CategoricalDtype(SEVEREST_FIRST, ordered=True)


@pytest.mark.parametrize("wrapper", [OrdinalScaling, ConformalClassifier])
@pytest.mark.parametrize("kind", ["categorical", "annotations", "frozen", "frame", "list"])
def test_an_order_that_is_given_is_kept(wrapper, kind):
    """And gives the probabilities of grades that are numbers."""
    X, text, k = text_labels()
    options = {} if wrapper is OrdinalScaling else {"conformity_score": "ordinal"}
    y = pd.Series(text, dtype=ORDERED)
    model = LogisticRegression()
    if kind == "annotations":
        y = Annotations.from_matrix(text[:, None], raters=["Ann"], classes=SEVEREST_FIRST)
    numbers = LogisticRegression().fit(X, k)
    frozen = kind in ("frozen", "frame", "list")
    if kind == "frozen":
        model = FrozenEstimator(LogisticRegression().fit(X, text))
    if frozen:
        numbers = FrozenEstimator(numbers)
    plain = wrapper(numbers, random_state=0, **options).fit(X, k)
    X_model = X
    if kind == "frame":
        model = "proba"
        X_model = pd.DataFrame(numbers.predict_proba(X), columns=SEVEREST_FIRST)[GRADES]
    if kind == "list":
        model = PrecomputedClassifier("proba", classes=SEVEREST_FIRST)
        X_model = numbers.predict_proba(X)
        y = text
    found = wrapper(model, random_state=0, **options).fit(X_model, y)
    assert found.classes_.tolist() == SEVEREST_FIRST
    # a logistic regression ends at its own tolerance
    z = found.predict_proba(X_model)
    assert_allclose(z, plain.predict_proba(X), atol=1e-3)
    assert_array_equal(found.predict(X_model), found.classes_[z.argmax(axis=1)])


def test_strings_of_numbers_and_bare_columns_are_in_order(data):
    z, y = data
    expected = OrdinalScaling("proba", form="cumulative").fit(z, y)
    names = [str(k) for k in range(8, 13)]
    named = OrdinalScaling("proba", form="cumulative").fit(
        pd.DataFrame(z, columns=names), pd.DataFrame(y, columns=names)
    )
    assert named.classes_.tolist() == names
    # a bool is a level of progress, as for the other scalings
    assert (
        OrdinalScaling("proba", form="cumulative", verbose=True).fit(z, y).scale_ == expected.scale_
    )
    # the rows are the same, their sums need not be in their last bit
    assert_allclose(named.intercept_, expected.intercept_, rtol=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        OrdinalScaling(LogisticRegression()),
        AlphaCalibration(OrdinalScaling()),
        ConformalClassifier(conformity_score="ordinal"),
        ConformalClassifier(OrdinalScaling()),
    ],
)
def test_text_without_an_order_is_refused_with_the_remedy(model):
    X, text, _ = text_labels()
    with pytest.raises(ValueError, match=r"needs an order of the classes.*ordered Categorical"):
        model.fit(X, text)
    assert not hasattr(model, "classes_")


def test_two_classes_need_no_order():
    X, text, _ = text_labels()
    text = np.where(text == "mild", "yes", "no")
    found = OrdinalScaling(LogisticRegression()).fit(X, text)
    turned = OrdinalScaling(LogisticRegression()).fit(X, np.where(text == "yes", "a", "b"))
    # searches end where the slope is 1e-7
    assert_allclose(found.predict_proba(X), turned.predict_proba(X)[:, ::-1], atol=1e-5)


def test_an_unknown_form_is_refused():
    with pytest.raises(ValueError, match="form must be"):
        OrdinalScaling("proba", form="line").fit([[0.5, 0.5]], [[1, 1]])


def test_counts_named_by_text_are_refused():
    y = pd.DataFrame([[1, 2, 0], [0, 1, 3]] * 5, columns=GRADES)
    z = pd.DataFrame(np.full((10, 3), 1 / 3), columns=GRADES)
    with pytest.raises(ValueError, match="needs an order"):
        OrdinalScaling("proba", form="cumulative").fit(z, y)


def test_labels_that_only_a_prior_limits_are_seen():
    z = np.array([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]] * 10)
    with pytest.warns(UserWarning, match="separable"):
        found = OrdinalScaling("proba", form="cumulative").fit(
            z, np.eye(3, dtype=int)[[0, 1, 2] * 10]
        )
    assert 1 < found.scale_ < 100


def test_the_most_probable_class_need_not_be_the_median():
    """Labels that are always the most probable class limit the scale if it is not the median."""
    z = np.array([[0.4, 0.35, 0.25], [0.25, 0.35, 0.4]] * 10)
    found = OrdinalScaling("proba", form="cumulative").fit(z, np.eye(3, dtype=int)[[0, 2] * 10])
    assert TemperatureScaling("logits").fit(np.log(z), [[2, 1, 1], [1, 1, 2]] * 10)
    assert found.scale_ < 100


def test_sets_of_grades_are_intervals_about_the_median():
    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.full(7, 0.4), 600)
    y = rng.multinomial(1, z)
    for level in (0.3, 0.6, 0.9, 0.99):
        model = ConformalClassifier("proba", conformity_score="ordinal", confidence_level=level)
        sets = model.fit(z[:300], y[:300]).predict_set(z[300:])
        F = np.cumsum(z[300:], axis=1)
        t = model.threshold_
        # F_{k−1} ≤ ½ + t and F_k ≥ ½ − t
        least = 0.5 - t - 1e-12
        before = F - z[300:]
        assert_array_equal(sets, (before <= 1 - least) & (F - least >= 0))
        # at most one start of a run
        starts = np.diff(np.pad(sets, ((0, 0), (1, 0))).astype(int), axis=1) == 1
        assert starts.sum(axis=1).max() == 1
        median = (F < 0.5).sum(axis=1)
        assert sets[np.arange(300), median][sets.any(axis=1)].all()


@pytest.mark.filterwarnings("ignore:Sets hold all classes:UserWarning")
def test_sets_of_other_scores_have_holes():
    """The test above can fail."""
    z = np.array([[0.45, 0.05, 0.5]] * 20)
    y = np.eye(3, dtype=int)[[0, 2] * 10]
    for score, expected in [("lac", [True, False, True]), ("ordinal", [True, True, True])]:
        model = ConformalClassifier("proba", conformity_score=score, confidence_level=0.8)
        assert model.fit(z, y).predict_set(z[:1])[0].tolist() == expected


def test_sets_of_grades_cover_as_many_votes_as_promised():
    """With votes of one to three raters, by simulation: in standard errors over 400 replicates."""
    rng = np.random.default_rng(0)
    n, level = 60, 0.8
    covered = []
    for _ in range(400):
        u = rng.normal(size=(n + 200, 5))
        truth = softmax(u + np.linspace(0.4, -0.4, 5), axis=1)
        y = rng.multinomial(rng.integers(1, 4, n), truth[:n])
        model = ConformalClassifier("proba", conformity_score="ordinal", confidence_level=level)
        sets = model.fit(softmax(u[:n], axis=1), y).predict_set(softmax(u[n:], axis=1))
        covered.append((truth[n:] * sets).sum(axis=1).mean())
    error = np.std(covered) / 20
    assert level - 3 * error < np.mean(covered) < level + 2 / (n + 1) + 3 * error


def test_by_default_each_class_is_shifted(data):
    z, y = data
    found = OrdinalScaling("proba").fit(z, y)
    classwise = OrdinalScaling("proba", form="classwise").fit(z, y)
    assert_array_equal(found.intercept_, classwise.intercept_)
    assert found.intercept_.shape == (5,)
