"""The versions that pyproject.toml promises are those that CI tests."""

import base64
import pickle
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_lhcal import __version__
from sklearn_lhcal.calibration import TemperatureScaling

ROOT = Path(__file__).parents[2]
NOT_THE_OLDEST = {"torch"}  # its old wheels bring CUDA along


@pytest.fixture
def oldest():
    path = ROOT / ".ci" / "constraints-oldest.txt"
    if not path.exists():
        pytest.skip("only in a checkout")
    return dict(re.findall(r"^([\w-]+)==([\d.]+)$", path.read_text(), re.M))


def test_lower_bounds_are_tested(oldest):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    required = [*project["dependencies"], *extras["plot"], *extras["report"], *extras["test"]]
    # without the names of extras, dask[array], and what macOS has instead
    required = [r for r in required if "== 'darwin'" not in r]
    bounds = dict(re.sub(r"\[.*\]|;.*", "", r).split(">=") for r in required)
    assert set(bounds) <= set(oldest)
    for name, bound in bounds.items():
        tested, promised = ([int(part) for part in v.split(".")] for v in (oldest[name], bound))
        promised += [0] * (len(tested) - len(promised))
        assert tested == promised or name in NOT_THE_OLDEST, (
            f"{name}: {bound} is promised, {oldest[name]} tested"
        )


def test_the_promised_versions_of_python_are_those_of_the_workflow():
    path = ROOT / ".github" / "workflows" / "tests.yml"
    if not path.exists():
        pytest.skip("only in a checkout")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    promised = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    (tested,) = re.findall(r"python: \[(.*)\]", path.read_text())
    assert re.findall(r"[\d.]+", tested) == promised
    assert project["requires-python"] == f">={promised[0]}"


# Saved by version 0.1.0 with scikit-learn 1.6 and NumPy 1.26, as text.
STORED = Path(__file__).with_name("stored_calibrator.pickle.b64")


def test_a_stored_calibrator_loads_and_predicts():
    calibrator = pickle.loads(base64.b64decode(STORED.read_bytes()))
    z = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    # of the power family at the temperature that was fitted then
    expected = z ** (1 / 1.3112780419356453)
    assert calibrator.temperature_ == 1.3112780419356453
    assert_allclose(
        calibrator.predict_proba(z), expected / expected.sum(axis=1, keepdims=True), rtol=1e-12
    )


def test_another_version_is_said():
    calibrator = TemperatureScaling("proba").fit([[0.5, 0.5]] * 4, [[2, 1]] * 4)
    state = calibrator.__getstate__()
    assert state["_saved_by"] == __version__
    for saved_by in ({"_saved_by": "0.0.1"}, {}):
        old = {k: v for k, v in state.items() if k != "_saved_by"} | saved_by
        loaded = TemperatureScaling("proba")
        text = "saved by sklearn_lhcal .*(0.0.1|older).*loaded by " + re.escape(__version__)
        with pytest.warns(UserWarning, match=text):
            loaded.__setstate__(old)
        assert_array_equal(
            loaded.predict_proba([[0.9, 0.1]]), calibrator.predict_proba([[0.9, 0.1]])
        )
        assert "_saved_by" not in vars(loaded)
