"""CONTRIBUTING.md is true: its metric, calibrator and display work as written.

What it names exists.

They are modules of a subpackage, so they import what is private, and are imported under the private
names that CONTRIBUTING.md gives them.
"""

import doctest
import pickle
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from fuzz_cases import FOREST, X, Y
from metric_cases import case, of_labels_and_prediction
from oracles import row_outcomes
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_lhcal import calibration, display, metrics
from sklearn_lhcal.calibration import AlphaCalibration
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Mixture
from sklearn_lhcal.metrics._scorers import scorers_of

ROOT = next(at for at in Path(__file__).parents if (at / "CONTRIBUTING.md").exists())
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def written(path):
    """The module of this path, from the block of code that follows it."""
    assert f"`{path}`:\n\n```python\n" in TEXT
    code = TEXT.partition(f"`{path}`:\n\n```python\n")[2].partition("```")[0]
    name = f"sklearn_lhcal.{path.removesuffix('.py').replace('/', '.')}"
    module = ModuleType(name)
    module.__package__ = name.rpartition(".")[0]
    # where pickle looks for it
    sys.modules[name] = module
    exec(compile(code, "CONTRIBUTING.md", "exec"), vars(module))
    return module


spherical_loss = written("metrics/_spherical.py").spherical_loss
PriorMixing = written("calibration/_prior_mixing.py").PriorMixing
TopCurve, top_curve = (
    vars(written("metrics/_inference/top_curve.py"))[name] for name in ("TopCurve", "top_curve")
)
with pytest.MonkeyPatch.context() as patch:
    patch.setattr(metrics, "TopCurve", TopCurve, raising=False)
    patch.setattr(metrics, "top_curve", top_curve, raising=False)
    TopCurveDisplay = written("display/_top_curve.py").TopCurveDisplay


def test_the_metric_is_found_by_its_tags():
    """Then the laws of test_laws.py, test_inputs.py and test_names.py are for it."""
    assert of_labels_and_prediction(spherical_loss)


def test_the_metric_is_unbiased_and_0_for_perfect_predictions():
    p, z = np.array([0.2, 0.3, 0.5]), np.array([0.1, 0.6, 0.3])
    counts, chance = row_outcomes(p, 3)
    loss = spherical_loss(counts, np.tile(z, (len(counts), 1)), sample_weight=chance)
    assert loss == pytest.approx(1 - p @ z / np.linalg.norm(z), rel=1e-12)
    assert spherical_loss([0, 1, 2], np.eye(3)) == 0


def test_the_metric_has_a_scorer_intervals_and_an_accumulator():
    scorers = scorers_of([spherical_loss])
    assert list(scorers) == ["neg_spherical_loss"]
    model = LogisticRegression().fit(X, np.arange(len(X)) % 3)
    loss = spherical_loss(Y, model.predict_proba(X))
    assert scorers["neg_spherical_loss"](model, X, Y) == pytest.approx(-loss, rel=1e-12)
    counts, z, w = case()
    interval = metrics.confidence_interval(spherical_loss, counts, z, sample_weight=w)
    assert interval.estimate == pytest.approx(spherical_loss(counts, z, sample_weight=w))
    assert interval.low < interval.estimate < interval.high
    whole = metrics.MetricAccumulator(spherical_loss)
    for part in (slice(0, 20), slice(20, 60)):
        whole.update(counts[part], z[part])
    assert whole.result().estimate == pytest.approx(spherical_loss(counts, z))


@pytest.mark.filterwarnings("ignore:The calibration labels are separable:UserWarning")
@parametrize_with_checks([PriorMixing(LogisticRegression())])
def test_the_calibrator_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_the_calibrator_finds_the_share():
    """Of predictions that were mixed with labels of the prior, and on which less is better."""
    data = make_label_histograms(2000, n_raters=5, overconfidence=2.0, random_state=0)
    model = PriorMixing("proba").fit(data.prediction, data.counts)
    assert 0.05 < model.share_ < 0.95
    before = metrics.label_log_loss(data.counts, data.prediction)
    assert metrics.label_log_loss(data.counts, model.predict_proba(data.prediction)) < before
    p = data.counts.mean(axis=0) / 5
    np.testing.assert_allclose(model.prior_, p, rtol=1e-12)
    expected = data.prediction + model.share_ * (p - data.prediction)
    np.testing.assert_allclose(model.predict_proba(data.prediction), expected, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:.*so α0 is infinite:UserWarning")
def test_the_calibrator_keeps_members_weights_and_chains():
    model = PriorMixing(FOREST, cv=2).fit(X, Y)
    dist = model.predict_dist(X)
    assert isinstance(dist, Mixture)
    np.testing.assert_allclose(model.predict_proba(X), dist.mean(), atol=1e-12)
    z, w = case()[1], np.arange(60) % 3
    counts = case()[0]
    weighted = PriorMixing("proba").fit(z, counts, sample_weight=w)
    repeated = PriorMixing("proba").fit(np.repeat(z, w, axis=0), np.repeat(counts, w, axis=0))
    assert weighted.share_ == pytest.approx(repeated.share_, abs=1e-6)
    chain = AlphaCalibration(PriorMixing("proba")).fit(z, counts)
    assert chain.predict_proba(z).shape == z.shape


def test_the_display_draws_what_the_function_returns():
    data = make_label_histograms(100, random_state=0)
    curve = top_curve(data.counts, data.prediction, confidence_level=0.9)
    assert curve.share[-1] == pytest.approx(1)
    assert list(curve.to_frame().columns) == ["share", "low", "high"]
    shown = TopCurveDisplay(pickle.loads(pickle.dumps(curve))).plot(name="saved")
    same = TopCurveDisplay.from_predictions(data.counts, data.prediction, confidence_level=0.9)
    for one in (shown, same):
        np.testing.assert_allclose(one.line_.get_ydata(), curve.share)
    model = LogisticRegression().fit(data.X, data.counts.argmax(axis=1))
    named = TopCurveDisplay.from_estimator(model, data.X, data.counts)
    assert named.line_.get_label() == "LogisticRegression"


@pytest.mark.parametrize(
    "thing",
    [spherical_loss, PriorMixing, top_curve, TopCurveDisplay],
    ids=lambda thing: thing.__name__,
)
def test_the_examples_in_their_docstrings_hold(thing, monkeypatch):
    for package in (metrics, calibration, display):
        monkeypatch.setattr(package, thing.__name__, thing, raising=False)
    module = vars(sys.modules[thing.__module__])
    found = doctest.DocTestFinder().find(thing, thing.__name__, globs=dict(module))
    runner = doctest.DocTestRunner()
    for examples in found:
        runner.run(examples)
    assert runner.tries > 0
    assert runner.failures == 0


CHECKOUT = pytest.mark.skipif(not (ROOT / ".ci").exists(), reason="a distribution has no .ci")
NAMED = set(re.findall(r"`[\w./]*?(\w+\.(?:py|rst|md|toml))`", TEXT))
NEW = {"_spherical.py", "_prior_mixing.py", "top_curve.py", "_top_curve.py"}


@CHECKOUT
@pytest.mark.parametrize("name", sorted(NAMED - NEW))
def test_every_file_that_is_named_exists(name):
    folders = ("sklearn_lhcal", "tests", "doc", ".ci")
    assert (ROOT / name).exists() or any([*(ROOT / at).rglob(name)] for at in folders)


@CHECKOUT
def test_every_target_that_is_named_exists():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    named = re.findall(r"`make ([\w-]+)`", TEXT)
    assert named
    assert set(named) <= set(targets)
    for command in re.findall(r"`\.ci/([\w.-]+)", TEXT):
        assert (ROOT / ".ci" / command).exists()


def test_the_floors_are_those_of_the_package():
    plan = re.search(r"^\d+ __init__.*?^1 .*?$", TEXT, re.M | re.S)[0]
    named = set(re.findall(r"\w+", plan))
    there = {path.stem for path in (ROOT / "sklearn_lhcal").iterdir() if path.suffix in ("", ".py")}
    assert there - {"__pycache__", "py"} <= named
