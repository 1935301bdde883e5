"""One calibrator for each finding, and what findings share."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from sklearn_lhcal.calibration import (
    AlphaCalibration,
    BiasCorrectedTemperatureScaling,
    PerFinding,
    StackedCalibration,
    TemperatureScaling,
)
from sklearn_lhcal.label_histogram import MultiLabelCounts
from sklearn_lhcal.metrics import disagreement_squared_loss, expected_accuracy, per_finding

NAMES = ["edema", "mass", "nodule"]


def study(n=300, prevalence=(0.4, 0.3, 0.5), alpha0=4.0, n_raters=3, seed=0):
    """Probabilities of a calibrated model, around which those of the samples are Beta."""
    rng = np.random.default_rng(seed)
    log_odds = np.log(prevalence) - np.log1p(np.negative(prevalence))
    z = 1 / (1 + np.exp(-log_odds - rng.normal(size=(n, len(prevalence)))))
    counts = rng.binomial(n_raters, rng.beta(alpha0 * z, alpha0 * (1 - z)))
    return MultiLabelCounts(counts, n_raters), z


def two(p):
    return np.column_stack([1 - p, p])


@pytest.mark.parametrize("calibrator", [TemperatureScaling, BiasCorrectedTemperatureScaling])
def test_each_finding_has_a_fit_of_its_own(calibrator):
    y, z = study()
    model = PerFinding(calibrator("proba")).fit(z, y)
    for f in range(3):
        alone = calibrator("proba").fit(two(z[:, f]), y.of(f).counts)
        np.testing.assert_array_equal(
            model.predict_proba(z)[:, f], alone.predict_proba(two(z[:, f]))[:, 1]
        )
        np.testing.assert_array_equal(
            model.predict_dist(z)[f].mean(), alone.predict_proba(two(z[:, f]))
        )
    np.testing.assert_array_equal(model.predict(z), model.predict_proba(z) > 0.5)


def test_log_odds():
    y, z = study()
    u = np.log(z) - np.log1p(-z)
    of_logits = PerFinding(TemperatureScaling("logits")).fit(u, y).predict_proba(u)
    of_proba = PerFinding(TemperatureScaling("proba")).fit(z, y).predict_proba(z)
    np.testing.assert_allclose(of_logits, of_proba, rtol=1e-9)


def test_any_classifier_sees_all_of_X():
    y, z = study()
    X = np.hstack([z, z**2])
    model = PerFinding(TemperatureScaling(LogisticRegression(), cv=3)).fit(X, y)
    alone = TemperatureScaling(LogisticRegression(), cv=3).fit(X, y.of(1).counts)
    np.testing.assert_array_equal(model.predict_proba(X)[:, 1], alone.predict_proba(X)[:, 1])


def test_samples_that_nobody_was_asked_about_are_left_out():
    y, z = study()
    asked = y.asked.copy()
    asked[:100, 1] = 0
    part = MultiLabelCounts(np.minimum(y.positive, asked), asked)
    w = np.linspace(1, 2, 300)
    model = PerFinding(TemperatureScaling("proba")).fit(z, part, sample_weight=w)
    fewer = PerFinding(TemperatureScaling("proba")).fit(z[100:], y[100:], sample_weight=w[100:])
    np.testing.assert_array_equal(model.predict_proba(z)[:, 1], fewer.predict_proba(z)[:, 1])


def test_columns_meet_findings_by_name():
    y, z = study()
    named = MultiLabelCounts(y.positive, y.asked, NAMES)
    frame = pd.DataFrame(z, columns=NAMES)
    model = PerFinding(TemperatureScaling("proba")).fit(frame[NAMES[::-1]], named)
    bare = PerFinding(TemperatureScaling("proba")).fit(z, y)
    np.testing.assert_array_equal(model.predict_proba(frame), bare.predict_proba(z))
    assert model.findings_.tolist() == list(model.predict_dist(frame)) == NAMES
    with pytest.raises(ValueError, match=r"the sets differ by \['edema', 'other'\]"):
        model.predict_proba(frame.rename(columns={"edema": "other"}))


def test_distributions_go_into_per_finding():
    y, z = study()
    model = PerFinding(AlphaCalibration(StackedCalibration("proba"))).fit(z[:200], y[:200])
    new = per_finding(disagreement_squared_loss, y[200:], model.predict_dist(z[200:]))
    assert np.isfinite(new.estimate).all()
    proba = per_finding(expected_accuracy, y[200:], model.predict_proba(z[200:]))
    dist = per_finding(expected_accuracy, y[200:], model.predict_dist(z[200:]))
    np.testing.assert_allclose(proba.estimate, dist.estimate, rtol=1e-12)


# --- α0 ---


def log_totals(y, z):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        own = [
            AlphaCalibration("proba").fit(two(z[:, f]), y.of(f).counts) for f in range(y.shape[1])
        ]
    shared = PerFinding(AlphaCalibration("proba")).fit(z, y)
    return [
        np.array([model.intercept_ for model in models]) for models in (own, shared.calibrators_)
    ]


def test_rare_findings_learn_alpha0_of_the_others():
    """With one true α0 for all, rare findings are nearer to it than by themselves."""
    away = []
    for seed in range(5):
        y, z = study(400, (0.01, 0.015, 0.02, 0.3, 0.4, 0.5), seed=seed)
        own, shared = log_totals(y, z)
        away.append([np.abs(np.clip(x, -4, 12) - np.log(4))[:3].mean() for x in (own, shared)])
    own, shared = np.mean(away, axis=0)
    assert shared < 0.15 < own


def test_common_findings_keep_their_own_alpha0():
    """Two α0 a factor of 50 apart, 3,000 samples: the standard error of log α0 is below 0.1."""
    y, z = study(3000, (0.4, 0.5), alpha0=np.array([1.0, 50.0]), n_raters=5)
    own, shared = log_totals(y, z)
    np.testing.assert_allclose(shared[0], own[0], atol=0.1)
    assert shared[1] - shared[0] > 3


def test_a_single_finding_keeps_its_own():
    y, z = study(prevalence=(0.4,))
    own, shared = log_totals(y, z)
    np.testing.assert_array_equal(own, shared)


def test_a_finding_without_pairs_has_alpha0_of_the_others():
    y, z = study()
    asked = y.asked.copy()
    asked[:, 0] = 1
    one = MultiLabelCounts(np.minimum(y.positive, asked), asked)
    model = PerFinding(AlphaCalibration("proba")).fit(z, one)
    alphas = [each.intercept_ for each in model.calibrators_]
    assert min(alphas[1:]) - 0.3 < alphas[0] < max(alphas[1:]) + 0.3


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_answers_to_a_frame_have_its_columns(frame):
    y, z = study()
    y = MultiLabelCounts(y.positive, y.asked, NAMES)
    model = PerFinding(TemperatureScaling("proba")).fit(z, y)
    answers = model.predict_proba(z), model.predict(z)
    X = frame(dict(zip(NAMES[::-1], z.T[::-1], strict=True)))
    for answer, plain in zip((model.predict_proba(X), model.predict(X)), answers, strict=True):
        assert isinstance(answer, frame)
        assert list(answer.columns) == NAMES[::-1]
        np.testing.assert_array_equal(np.asarray(answer)[:, ::-1], plain)


def test_answers_to_features_are_an_array():
    y, z = study()
    y = MultiLabelCounts(y.positive, y.asked, NAMES)
    X = pd.DataFrame({"u": z[:, 0], "v": z[:, 1]})
    answer = PerFinding(TemperatureScaling(LogisticRegression())).fit(X, y).predict_proba(X)
    assert isinstance(answer, np.ndarray)
    assert answer.shape == (300, 3)


# --- as an estimator ---


def test_parameters_clones_and_pickles():
    model = PerFinding(TemperatureScaling("proba"))
    assert model.get_params()["calibrator__estimator"] == "proba"
    other = clone(model).set_params(calibrator__estimator="logits")
    assert other.calibrator.estimator == "logits"
    assert model.calibrator.estimator == "proba"
    y, z = study()
    fitted = pickle.loads(pickle.dumps(model.fit(z, y)))
    np.testing.assert_array_equal(fitted.predict_proba(z), model.predict_proba(z))
    assert not hasattr(model.calibrator, "estimator_")


def test_a_failed_fit_leaves_the_estimator_as_it_was():
    y, z = study()
    model = PerFinding(TemperatureScaling("proba")).fit(z, y)
    before = model.predict_proba(z)
    with pytest.raises(ValueError, match=r"Finding 1: .*X"):
        model.fit(z + np.eye(3)[1], y)
    np.testing.assert_array_equal(model.predict_proba(z), before)


def test_what_is_refused():
    y, z = study()
    model = PerFinding(TemperatureScaling("proba"))
    with pytest.raises(NotFittedError):
        model.predict_proba(z)
    with pytest.raises(TypeError, match="y must be MultiLabelCounts, got ndarray"):
        model.fit(z, y.positive)
    with pytest.raises(ValueError, match="X has 299 samples, expected 300"):
        model.fit(z[1:], y)
    with pytest.raises(ValueError, match="y has 3 findings, but X has 2 columns"):
        model.fit(z[:, :2], y)
    with pytest.raises(ValueError, match="Finding 2: y has no label of it"):
        model.fit(z, MultiLabelCounts(y.positive * [1, 1, 0], y.asked * [1, 1, 0]))
    with pytest.raises(ValueError, match="calibrator must be a classifier"):
        PerFinding("proba").fit(z, y)


def test_a_finding_that_was_never_seen():
    """One class only: fitted around saved probabilities, and an error of a training fold."""
    y, z = study()
    absent = MultiLabelCounts(y.positive * [1, 0, 1], 3)
    p = PerFinding(TemperatureScaling("proba")).fit(z, absent).predict_proba(z)
    assert (p[:, 1] < 0.5).mean() > 0.5
    with pytest.raises(ValueError, match=r"Finding 1: No label of class \[1\]"):
        PerFinding(TemperatureScaling(LogisticRegression())).fit(z, absent)
