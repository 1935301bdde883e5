"""The versions that pyproject.toml promises are those that CI tests."""

import re
import tomllib
from pathlib import Path

import pytest

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
    # without the names of extras: dask[array]
    bounds = dict(re.sub(r"\[.*\]", "", r).split(">=") for r in required)
    assert set(bounds) <= set(oldest)
    for name, bound in bounds.items():
        tested, promised = ([int(part) for part in v.split(".")] for v in (oldest[name], bound))
        promised += [0] * (len(tested) - len(promised))
        assert tested == promised or name in NOT_THE_OLDEST, (
            f"{name}: {bound} is promised, {oldest[name]} tested"
        )
