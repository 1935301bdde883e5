"""A part of the matrix of models: what people calibrate comes out calibrated.

`world_cases` says what a cell must hold; ``benchmarks/world.py`` runs all cells, with more splits.
"""

import pytest
import world_cases as world
from sklearn.base import clone

ROWS = world.rows()
# what one split may differ by, where all splits may by two standard errors of their mean
SLACK = 0.03
HELD = (
    "forest",
    "boosting",
    "naive Bayes",
    "SVC",
    "SMOTE, logistic regression",
    "NeuralClassifier",
)


def faults(row, situation, keys, n=400):
    """Of the calibrators around a model, in one split."""
    if row not in ROWS:
        pytest.skip("not installed")
    if situation in world.SHARES:
        model = world.of_classes(ROWS[row], len(world.SHARES[situation]))
        at = world.situation(model, situation, n, 2_000, seed=0)
    else:
        at = world.formed(world.of_classes(ROWS[row], 3), situation, seed=0, n_test=2_000)
    found = {key: world.judged(key, [world.measured(key, at)], False, SLACK) for key in keys}
    return {key: some for key, some in found.items() if some}


@pytest.mark.parametrize("row", ROWS)
def test_a_stack_around_every_model(row):
    assert faults(row, "balanced", ["S"]) == {}


@pytest.mark.parametrize("row", HELD)
@pytest.mark.parametrize("situation", ["balanced", "3 %"])
def test_every_calibrator_around_some_models(row, situation):
    assert faults(row, situation, world.CALIBRATORS, 600) == {}


@pytest.mark.parametrize("row", ["forest", "extra trees", "boosting", "logistic regression"])
def test_changed_class_frequencies(row):
    """Trained balanced, calibrated where one class has 3 %: the mean probability follows."""
    at = world.situation(world.of_classes(ROWS[row], 2), "shifted", 1_000, 4_000, seed=0)
    before = abs(at.tested[:, 1].mean() - at.test.y.mean())
    for key in ("BC", "V", "M", "S"):
        cell = world.measured(key, at)
        assert not world.judged(key, [cell], True, SLACK)
        assert abs(cell.numbers["away"]) < 0.012 < before


@pytest.mark.parametrize("name", [*world.FORMS, "frozen", *world.SITUATIONS])
@pytest.mark.parametrize("row", ["forest", "logistic regression"])
def test_forms_and_situations(row, name):
    assert faults(row, name, ["BC", "S"]) == {}


def test_the_oracles_see_a_calibrator_that_does_nothing():
    """The same cells with the model in place of its calibrator."""
    at = world.situation(clone(ROWS["extra trees"]), "balanced", 400, 2_000, seed=0)
    cell = world.measured("S", at)
    idle = cell._replace(numbers=cell.numbers | {"loss": cell.numbers["itself"] + 0.05})
    assert world.judged("S", [idle], False, 0.0)
