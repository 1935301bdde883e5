"""The size of the package: what `.ci/structure.py` counts stays within `.ci/budget.json`."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CI = ROOT / ".ci"
if not (CI / "structure.py").exists():
    pytest.skip("a distribution has no budget", allow_module_level=True)
BUDGET = json.loads((CI / "budget.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def measured():
    spec = importlib.util.spec_from_file_location("structure", CI / "structure.py")
    structure = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(structure)
    return structure.measures(ROOT / "sklearn_lhcal")


@pytest.mark.parametrize("name", BUDGET)
def test_the_package_stays_within_its_budget(measured, name):
    """Whoever needs more takes something out first, or says in the change why the budget grows."""
    assert measured[name] <= BUDGET[name]
