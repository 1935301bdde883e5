"""Arguments of intervals and tests, refused by one function whoever takes them."""

import numpy as np
import pytest

from sklearn_lhcal.display import RaterDisplay
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.label_histogram import Annotations
from sklearn_lhcal.metrics import (
    MetricAccumulator,
    alternative_annotator_test,
    confidence_interval,
    cost_curve,
    decision_curve,
    decision_risks,
    evaluate_methods,
    expected_accuracy,
    gain_curve,
    interval_over_splits,
    null_calibration_error,
    null_epistemic_error,
    paired_difference,
    policy_curve,
    rater_comparison,
    rater_group_difference,
    rater_table,
    referral_curve,
    reliability_curve,
    risk_bound,
    study_size,
)

SAID = np.random.default_rng(0).integers(2, size=(20, 5))
Y = Annotations.from_matrix(SAID)
Z = np.random.default_rng(1).dirichlet([2, 2], 20)
C = 1 - np.eye(2)
GAIN = np.linspace(-0.5, 1, 20), np.linspace(0, 1, 20)
SHARES = ("margin", "epsilon")
FRACTIONS = ("confidence_level", "test_fraction", "false_discovery_rate")

# each door, and what it asks of its arguments of inference
DOORS = {
    "confidence_interval": (
        lambda **how: confidence_interval(expected_accuracy, Y, Z, **how),
        ("confidence_level", "n_blocks"),
    ),
    "paired_difference": (
        lambda **how: paired_difference(expected_accuracy, Y, Z, Z[:, ::-1], **how),
        ("confidence_level", "n_blocks"),
    ),
    "evaluate_methods": (
        lambda **how: evaluate_methods({"z": Z}, Y, metrics=[expected_accuracy], **how),
        ("confidence_level", "n_blocks"),
    ),
    "study_size": (
        lambda **how: study_size(expected_accuracy, Y, Z, half_width=0.1, **how),
        ("confidence_level", "n_blocks"),
    ),
    "rater_comparison": (
        lambda margin=0.1, **how: rater_comparison(Y, Z, margin=margin, **how),
        ("margin", "confidence_level", "n_blocks"),
    ),
    "RaterDisplay": (
        lambda margin=0.1, **how: RaterDisplay.from_predictions(Y, Z, margin=margin, **how),
        ("margin", "confidence_level", "n_blocks"),
    ),
    "rater_group_difference": (
        lambda **how: rater_group_difference(
            expected_accuracy, Y, list("aabbb"), Z, raters="fixed", **how
        ),
        ("confidence_level", "n_blocks"),
    ),
    "rater_table": (lambda **how: rater_table(Y, **how), ("confidence_level", "n_blocks")),
    "alternative_annotator_test": (
        lambda **how: alternative_annotator_test(Y, Z, **how),
        ("epsilon", "least_rows", "false_discovery_rate"),
    ),
    "null_calibration_error": (lambda **how: null_calibration_error(Y, Z, **how), ("n_draws",)),
    "null_epistemic_error": (lambda **how: null_epistemic_error(*GAIN, **how), ("n_draws",)),
    "MetricAccumulator": (lambda **how: MetricAccumulator(expected_accuracy, **how), ("n_blocks",)),
    "result": (
        lambda **how: MetricAccumulator(expected_accuracy).update(Y.counts, Z).result(**how),
        ("confidence_level",),
    ),
    "interval_over_splits": (
        lambda **how: interval_over_splits([0.1, 0.2], **how),
        ("confidence_level", "test_fraction"),
    ),
    "risk_bound": (
        lambda **how: risk_bound(SAID[:, 0], SAID[:, 1], C, **how),
        ("confidence_level",),
    ),
    "reliability_curve": (lambda **how: reliability_curve(Y, Z, **how), ("confidence_level",)),
    "decision_curve": (lambda **how: decision_curve(Y, Z, **how), ("confidence_level",)),
    "decision_risks": (
        lambda **how: decision_risks([Y, Y], [{"z": Z}] * 2, C, **how),
        ("confidence_level", "test_fraction"),
    ),
    "cost_curve": (lambda **how: cost_curve(Y, Z, **how), ("confidence_level",)),
    "gain_curve": (lambda **how: gain_curve(*GAIN, **how), ("confidence_level",)),
    "referral_curve": (
        lambda **how: referral_curve(Y, Dirichlet(1 + Z), **how),
        ("confidence_level",),
    ),
    "policy_curve": (
        lambda **how: policy_curve(Y, Dirichlet(1 + Z), C, horizon=1, **how),
        ("confidence_level",),
    ),
}
CASES = [(door, name) for door, (_, names) in DOORS.items() for name in names]


@pytest.mark.parametrize(("door", "name"), CASES)
@pytest.mark.parametrize("value", [np.inf, np.nan, True, "a", -1, 95.5, 10**30, [0.5]])
def test_what_is_no_level_margin_or_number_is_refused(door, name, value):
    with pytest.raises(ValueError, match=f"^{name} must .*, got "):
        DOORS[door][0](**{name: value})


@pytest.mark.parametrize(("door", "name"), CASES)
def test_0_is_a_margin_and_nothing_else(door, name):
    function = DOORS[door][0]
    if name in SHARES:
        name_of_rows = {"least_rows": 5} if door == "alternative_annotator_test" else {}
        function(**{name: 0}, **name_of_rows)
        return
    with pytest.raises(ValueError, match=f"^{name} must "):
        function(**{name: 0})


@pytest.mark.parametrize(("door", "name"), CASES)
def test_95_is_a_number_and_no_level(door, name):
    if name in (*SHARES, *FRACTIONS):
        with pytest.raises(ValueError, match=f"^{name} must .*, got 95"):
            DOORS[door][0](**{name: 95})
