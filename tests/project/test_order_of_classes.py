"""Classes with an order of their own keep it, and scores are names: never off by one."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from sklearn_lhcal.calibration import AlphaCalibration, MatrixScaling, TemperatureScaling
from sklearn_lhcal.label_histogram import (
    Annotations,
    LabelHistogramClassifier,
    cohen_kappa,
    conger_kappa,
    fleiss_kappa,
    gwet_ac,
    krippendorff_alpha,
    percent_agreement,
)
from sklearn_lhcal.metrics import expected_squared_loss, label_log_loss

GRADES = ["very poor", "poor", "fair", "good", "very good"]
rng = np.random.default_rng(0)
CODES = rng.integers(0, 5, (60, 3))
X = rng.normal(size=(60, 2)) + CODES.mean(axis=1, keepdims=True)
PROBA = rng.dirichlet(np.ones(5), 60)
COUNTS = np.array([np.bincount(row, minlength=5) for row in CODES])


def graded(codes, categories=GRADES):
    return pd.Categorical.from_codes(codes, categories=categories, ordered=True)


def long_table(codes=CODES):
    n, R = codes.shape
    return pd.DataFrame(
        {
            "item": np.repeat(np.arange(n), R),
            "rater": np.tile(np.arange(R), n),
            "label": graded(codes.ravel()),
        }
    )


def matrix_of(codes=CODES):
    return pd.DataFrame({r: graded(codes[:, r]) for r in range(codes.shape[1])})


ANNOTATED = {
    "long": lambda codes: Annotations.from_long(long_table(codes)),
    "matrix": lambda codes: Annotations.from_matrix(matrix_of(codes)),
    "list": lambda codes: Annotations.from_matrix(np.array(GRADES)[codes], classes=GRADES),
}


@pytest.mark.parametrize("way", ANNOTATED)
@pytest.mark.parametrize("missing", [None, 0, 4])
def test_annotations_keep_the_order_of_grades(way, missing):
    """Also where nobody gave the first grade or the last, and against bare columns."""
    codes = np.where(missing == CODES, 2, CODES)
    y = ANNOTATED[way](codes)
    assert y.classes.tolist() == GRADES
    counts = np.array([np.bincount(row, minlength=5) for row in codes])
    assert np.array_equal(y.counts, counts)
    assert expected_squared_loss(y, PROBA) == expected_squared_loss(counts, PROBA)
    named = pd.DataFrame(PROBA[:, ::-1], columns=GRADES[::-1])
    assert expected_squared_loss(y, named) == pytest.approx(expected_squared_loss(counts, PROBA))


ESTIMATORS = [
    LabelHistogramClassifier(LogisticRegression()),
    TemperatureScaling(LogisticRegression()),
    MatrixScaling(LogisticRegression(), cv=2),
    AlphaCalibration(LogisticRegression()),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_estimators_keep_it_and_predict_as_without_names(estimator):
    """Names that are out of the alphabet change no prediction."""
    y = Annotations.from_matrix(matrix_of())
    model = clone(estimator).fit(X, y)
    assert model.classes_.tolist() == GRADES
    proba = model.predict_proba(X)
    # digits are counts as they are: the same fit, but for the order of columns inside
    plain = estimator.fit(X, Annotations.from_matrix(CODES, classes=range(5))).predict_proba(X)
    np.testing.assert_allclose(proba, plain, atol=1e-5)
    assert model.score(X, y) == pytest.approx(np.mean(COUNTS[np.arange(60), plain.argmax(1)] / 3))


def test_an_ordered_series_keeps_its_order():
    """Categories that nobody gave are columns of a metric and no classes of a fit."""
    codes = np.where(CODES[:, 0] == 3, 2, CODES[:, 0])
    y = pd.Series(graded(codes))
    one_hot = np.eye(5, dtype=int)[codes]
    assert label_log_loss(y, PROBA) == label_log_loss(one_hot, PROBA)
    model = TemperatureScaling(LogisticRegression()).fit(X, y)
    assert model.classes_.tolist() == [g for g in GRADES if g != "good"]
    assert label_log_loss(y, model.predict_dist(X)) < np.log(5)
    # text is sorted
    text = TemperatureScaling(LogisticRegression()).fit(X, y.astype(str))
    assert text.classes_.tolist() == sorted(text.classes_)


def test_categories_in_different_orders_are_refused():
    matrix = matrix_of().assign(**{"1": graded(CODES[:, 1], GRADES[::-1])})
    with pytest.raises(ValueError, match="different orders"):
        Annotations.from_matrix(matrix)


def test_scores_of_raters_are_names():
    """Four names against five bare columns are an error, not an offset by one."""
    scores = np.minimum(CODES + 1, 4)
    y = Annotations.from_matrix(scores)
    with pytest.raises(ValueError, match="4 distinct labels"):
        expected_squared_loss(y, PROBA)
    named = pd.DataFrame(PROBA, columns=range(1, 6))
    told = Annotations.from_matrix(scores, classes=range(1, 6))
    assert expected_squared_loss(y, named) == expected_squared_loss(told, PROBA)


def test_single_scores_warn():
    scores = np.append(CODES[:, 0] % 4 + 1, [1, 2, 3, 4])
    proba = np.append(PROBA, PROBA[:4], axis=0)
    with pytest.warns(UserWarning, match="scores from 1"):
        read = expected_squared_loss(scores, proba)
    assert read == expected_squared_loss(np.eye(5, dtype=int)[scores], proba)
    named = pd.DataFrame(proba, columns=range(1, 6))
    expected = expected_squared_loss(np.eye(5, dtype=int)[scores - 1], proba)
    assert expected_squared_loss(scores, named) == expected


@pytest.mark.parametrize("weights", ["ordinal", "linear", "quadratic"])
@pytest.mark.parametrize(
    "agreement", [percent_agreement, fleiss_kappa, gwet_ac, conger_kappa, krippendorff_alpha]
)
def test_agreement_needs_an_order(agreement, weights):
    graded_votes = Annotations.from_matrix(matrix_of())
    numbers = Annotations.from_matrix(CODES)
    assert agreement(graded_votes, weights=weights) == agreement(numbers, weights=weights)
    digits = Annotations.from_matrix(np.array(list("01234"))[CODES])
    assert agreement(digits, weights=weights) == agreement(numbers, weights=weights)
    text = Annotations.from_matrix(np.array(GRADES)[CODES])
    with pytest.raises(ValueError, match="ordered Categorical"):
        agreement(text, weights=weights)
    assert agreement(text) == pytest.approx(agreement(numbers), rel=1e-12)


def test_two_raters_need_an_order_too():
    with pytest.raises(ValueError, match="ordered Categorical"):
        cohen_kappa(Annotations.from_matrix(np.array(GRADES)[CODES[:, :2]]), weights="linear")
