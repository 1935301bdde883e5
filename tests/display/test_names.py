"""Names decide, in every display: another order of named classes gives the same numbers."""

import itertools
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from sklearn_lhcal.calibration import EpistemicCalibration
from sklearn_lhcal.datasets import make_label_histograms, make_rater_study
from sklearn_lhcal.display import (
    CalibrationDispersionDisplay,
    CostCurveDisplay,
    DecisionCurveDisplay,
    DecisionRiskDisplay,
    GainCurveDisplay,
    RaterDisplay,
    ReferralCurveDisplay,
    ReliabilityDisplay,
    SimplexCalibrationDisplay,
)
from sklearn_lhcal.distributions import Dirichlet, PointMass
from sklearn_lhcal.label_histogram import Annotations, KnownProbabilities
from sklearn_lhcal.metrics import (
    bayes_decision,
    confidence_interval,
    decision_risk,
    model_risk,
    paired_difference,
)

NAMES = np.array(["cat", "dog", "eel"])
ORDERS = [list(order) for order in itertools.permutations(range(3))]
UNSORTED = ORDERS[1:]
COSTS = np.array([[0.0, 1.0, 2.0], [5.0, 0.0, 1.0], [20.0, 3.0, 0.0]])
PAIRS = {"kind": "disagreement"}

# name -> what is shown of (y, prediction, costs)
DISPLAYS = {
    "reliability": lambda y, z, C: ReliabilityDisplay.from_predictions(y, z, n_bins=5),
    "one class": lambda y, z, C: ReliabilityDisplay.from_predictions(y, z, kind="eel"),
    "disagreement": lambda y, z, C: ReliabilityDisplay.from_predictions(y, z, **PAIRS),
    "dispersion": lambda y, z, C: CalibrationDispersionDisplay.from_predictions(y, {"it": z}),
    "simplex": lambda y, z, C: SimplexCalibrationDisplay.from_predictions(y, z, which=NAMES),
    "referral": lambda y, z, C: ReferralCurveDisplay.from_predictions(y, z, n_points=5),
    "decision": lambda y, z, C: DecisionRiskDisplay.from_predictions(y, z, C),
    "decision curve": lambda y, z, C: DecisionCurveDisplay.from_predictions(
        y, z, class_index="eel"
    ),
}
ESTIMATORS = {
    "reliability": lambda m, X, y, C: ReliabilityDisplay.from_estimator(m, X, y, n_bins=5),
    "one class": lambda m, X, y, C: ReliabilityDisplay.from_estimator(m, X, y, kind="eel"),
    "disagreement": lambda m, X, y, C: ReliabilityDisplay.from_estimator(m, X, y, **PAIRS),
    "dispersion": lambda m, X, y, C: CalibrationDispersionDisplay.from_estimator(m, X, y),
    "simplex": lambda m, X, y, C: SimplexCalibrationDisplay.from_estimator(m, X, y, which=NAMES),
    "referral": lambda m, X, y, C: ReferralCurveDisplay.from_estimator(m, X, y, n_points=5),
    "decision": lambda m, X, y, C: DecisionRiskDisplay.from_estimator(m, X, y, C),
    "decision curve": lambda m, X, y, C: DecisionCurveDisplay.from_estimator(
        m, X, y, class_index="eel"
    ),
}
# a label moves no class probabilities: the referral curve needs a distribution
OF_ARRAYS = [which for which in DISPLAYS if which != "referral"]


@pytest.fixture
def data():
    return make_label_histograms(150, n_raters=(1, 5), total=3.0, random_state=0)


def leaves(value):
    """The numbers and arrays in a result, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, (list, tuple)):
        value = np.asarray(value)
        return [value] if value.dtype.kind in "fiu" else []
    return [leaf for part in value for leaf in leaves(part)]


def numbers(display) -> dict:
    """The numbers that a display draws, but for names."""
    fields = display.result._asdict()
    names = {"kind", "class_name", "class_names"}
    return {name: leaves(value) for name, value in fields.items() if name not in names}


def assert_same(display, expected):
    plt.close("all")
    found, wanted = numbers(display), numbers(expected)
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        for one, other in zip(found[name], values, strict=True):
            assert_allclose(one, other, rtol=1e-9, atol=1e-12, err_msg=name)


def frame(a, order):
    return pd.DataFrame(a[:, order], columns=NAMES[order])


def named_costs(order):
    return pd.DataFrame(COSTS[order], index=NAMES[order])


def dirichlet(data, order):
    alpha = 3.0 * data.prediction + 1e-3
    return Dirichlet(alpha[:, order]).with_classes(NAMES[order])


def prediction(data, order, which):
    """A named prediction whose columns are in that order."""
    if which == "referral":
        return dirichlet(data, order)
    return frame(data.prediction, order)


# ------------------------------------------------------------------------------------ named sides


@pytest.mark.parametrize("order", UNSORTED)
@pytest.mark.parametrize("which", DISPLAYS)
def test_the_order_of_named_classes_does_not_matter(which, order, data):
    show = DISPLAYS[which]
    sides = data.counts, data.prediction
    expected = show(
        frame(sides[0], [0, 1, 2]), prediction(data, [0, 1, 2], which), named_costs([0, 1, 2])
    )
    other = order[::-1]
    y, z, C = frame(sides[0], order), prediction(data, other, which), named_costs(order)
    assert_same(show(y, z, C), expected)
    assert_same(show(y, z, named_costs(other)), expected)
    assert_same(show(frame(sides[0], other), z, C), expected)


@pytest.mark.parametrize("which", DISPLAYS)
def test_all_forms_of_names(which, data):
    show, order = DISPLAYS[which], [2, 0, 1]
    # true probabilities, named in an order of their own
    Q, C = KnownProbabilities(frame(data.proba, [1, 2, 0])), named_costs(order)
    bare = KnownProbabilities(data.proba)
    expected = show(bare, dirichlet(data, [0, 1, 2]), COSTS)
    assert_same(show(Q, dirichlet(data, order), C), expected)
    if which == "referral":
        return
    polars = pytest.importorskip("polars")
    z = polars.DataFrame(data.prediction[:, order], schema=NAMES[order].tolist())
    expected = show(frame(data.counts, [0, 1, 2]), PointMass(data.prediction), COSTS)
    y = polars.DataFrame(data.counts[:, [1, 0, 2]], schema=NAMES[[1, 0, 2]].tolist())
    assert_same(show(y, z, C), expected)
    assert_same(show(y, PointMass(frame(data.prediction, order)), C), expected)


@pytest.mark.parametrize("which", ["reliability", "one class", "simplex", "decision"])
def test_labels_are_names_even_where_one_class_is_all_there_is(which, data):
    show, order = DISPLAYS[which], [2, 0, 1]
    eels = np.tile([0, 0, 1], (150, 1))
    expected = show(eels, frame(data.prediction, [0, 1, 2]), COSTS)
    for y in (np.full(150, "eel"), ["eel"] * 150, pd.Series(["eel"] * 150)):
        assert_same(show(y, frame(data.prediction, order), named_costs([1, 2, 0])), expected)
        z = PointMass(data.prediction[:, order]).with_classes(NAMES[order])
        assert_same(show(y, z, named_costs([1, 2, 0])), expected)


def test_each_prediction_of_a_map_meets_y_by_its_own_names(data):
    show = CalibrationDispersionDisplay.from_predictions
    forms = {str(order): frame(data.prediction, order) for order in ORDERS}
    forms["bare"] = data.prediction
    display = show(frame(data.counts, [0, 1, 2]), forms, confidence_level=0.8)
    first, *others = display.result.intervals.values()
    assert len(others) == len(ORDERS)
    for other in others:
        assert_allclose(leaves(other), leaves(first), rtol=1e-9, atol=1e-13)


def test_columns_that_are_asked_for_by_name(data):
    y, z = frame(data.counts, [1, 2, 0]), data.prediction
    by_name = ReliabilityDisplay.from_predictions(
        y, z[:, [2, 0, 1]], classes=["eel", "cat", "dog"], kind="dog"
    )
    assert by_name.result.kind == "dog"
    assert_same(by_name, ReliabilityDisplay.from_predictions(data.counts, z, kind=1))
    # names that are numbers are names
    ones = pd.DataFrame(z, columns=[1, 2, 3])
    display = ReliabilityDisplay.from_predictions(data.counts, ones, kind=1)
    assert display.result.kind == 1
    assert_same(display, ReliabilityDisplay.from_predictions(data.counts, z, kind=0))
    with pytest.raises(ValueError, match="0 is not among the classes"):
        ReliabilityDisplay.from_predictions(data.counts, ones, kind=0)
    display = SimplexCalibrationDisplay.from_predictions(data.counts, ones, which=[3, 1, 2])
    assert display.result.class_names == [3, 1, 2]
    assert_allclose(display.result.z, z[:, [2, 0, 1]])


# -------------------------------------------------------------------------------------- bare sides


@pytest.mark.parametrize("which", DISPLAYS)
def test_sorted_names_meet_bare_arrays(which, data):
    show, sorted_order = DISPLAYS[which], [0, 1, 2]
    bare = data.prediction if which != "referral" else dirichlet(data, sorted_order)
    z = prediction(data, sorted_order, which)
    expected = show(frame(data.counts, sorted_order), z, COSTS)
    assert_same(show(frame(data.counts, sorted_order), bare, named_costs(sorted_order)), expected)
    assert_same(show(data.counts, z, named_costs(sorted_order)), expected)


@pytest.mark.parametrize("which", DISPLAYS)
def test_names_that_are_not_sorted_never_meet_bare_arrays(which, data):
    show, order = DISPLAYS[which], [2, 0, 1]
    bare = data.prediction if which != "referral" else Dirichlet(3 * data.prediction + 1e-3)
    with pytest.raises(ValueError, match=r"not sorted.*DataFrame"):
        show(frame(data.counts, order), bare, COSTS)
    with pytest.raises(ValueError, match=r"not sorted.*DataFrame"):
        show(data.counts[:, order], prediction(data, order, which), COSTS)
    with pytest.raises(ValueError, match=r"not sorted.*DataFrame"):
        show(data.counts[:, order], dirichlet(data, order), COSTS)


@pytest.mark.parametrize("which", DISPLAYS)
def test_another_set_of_names_is_an_error(which, data):
    y = pd.DataFrame(data.counts, columns=["cat", "dog", "yak"])
    with pytest.raises(ValueError, match=r"differ by \['eel', 'yak'\]"):
        DISPLAYS[which](y, prediction(data, [0, 1, 2], which), COSTS)


# ------------------------------------------------------------------------------------------- costs


@pytest.fixture
def named_labels(data):
    return NAMES[data.counts.argmax(axis=1)]


def risks(y, z, C):
    """True and self-assessed risk by hand: both sides and the costs in the order of NAMES."""
    d = bayes_decision(z, C)
    return decision_risk(y, d, C), model_risk(z, C)


@pytest.mark.parametrize("order", UNSORTED)
def test_named_costs_and_a_bare_prediction(order, data, named_labels):
    show = DecisionRiskDisplay.from_predictions
    with pytest.raises(ValueError, match=r"cost_matrix has the classes.*not sorted"):
        show(data.counts, data.prediction, named_costs(order))
    with pytest.raises(ValueError, match=r"cost_matrix has the classes.*not sorted"):
        show(data.counts.argmax(axis=1), data.prediction, named_costs(order))
    # labels name the columns of the prediction, which are sorted then
    expected = risks(data.counts.argmax(axis=1), data.prediction, COSTS)
    found = show(named_labels, data.prediction, named_costs(order)).result
    assert_allclose([found.true_risk[0, 0], found.model_risk[0, 0]], expected)


@pytest.mark.parametrize("order", UNSORTED)
def test_bare_costs_and_names_that_are_not_sorted(order, data, named_labels):
    z = frame(data.prediction, order)
    with pytest.raises(ValueError, match="cost_matrix has no names"):
        DecisionRiskDisplay.from_predictions(named_labels, z, COSTS)


def test_one_class_in_a_fold_and_numbers_for_names(data):
    """Labels 1 and 2 are the names of the costs, not column numbers."""
    z = make_label_histograms(60, 2, random_state=0).prediction
    costs = pd.DataFrame([[0.0, 1.0], [4.0, 0.0]], index=[1, 2])
    for label in (1, 2):
        y = np.full(60, label)
        found = DecisionRiskDisplay.from_predictions(y, z, costs).result
        assert_allclose(found.true_risk[0, 0], decision_risk(y, bayes_decision(z, costs), costs))
    with pytest.raises(ValueError, match="not known"):
        DecisionRiskDisplay.from_predictions(np.full(60, 2), z, costs.to_numpy())


@pytest.mark.parametrize("decisions", [["treat", "wait", "ask"], [7, 5, 6]])
def test_named_decisions_and_models_in_different_orders(decisions, data):
    costs = pd.DataFrame(COSTS, index=NAMES, columns=decisions).iloc[[1, 2, 0]]
    y = frame(data.counts, [0, 1, 2])
    flat = np.sqrt(data.prediction)
    flat /= flat.sum(axis=1, keepdims=True)
    models = {"sharp": frame(data.prediction, [2, 1, 0]), "flat": frame(flat, [0, 2, 1])}
    found = DecisionRiskDisplay.from_predictions(y, models, costs, reference="flat").result
    by_hand = [bayes_decision(z, costs) for z in models.values()]
    options = {"cost_matrix": costs, "random_state": 0}
    for i, d in enumerate(by_hand):
        assert_allclose(found.true_risk[i, 0], decision_risk(y, d, costs))
        interval = confidence_interval(decision_risk, y, d, **options)
        assert_allclose(found.interval[i], [interval.low, interval.high])
        difference = paired_difference(decision_risk, y, d, by_hand[1], **options)
        assert_allclose(found.difference_interval[i], [difference.low, difference.high], atol=1e-12)


@pytest.mark.parametrize("names", [["good", "bad"], ["bad", "good"]])
def test_cost_curves_are_of_sorted_classes(names):
    data = make_label_histograms(100, 2, 3, overconfidence=2.0, random_state=0)
    by_name = [pd.DataFrame(a, columns=["bad", "good"])[names] for a in (data.counts, data.proba)]
    display = CostCurveDisplay.from_predictions(*by_name)
    bare = CostCurveDisplay.from_predictions(data.counts, data.proba)
    assert_same(display, bare)
    assert display.result.class_names == ["bad", "good"]
    label = display.ax_.get_xlabel()
    assert label == "Cost s of missing class good (class bad: 1 − s)"
    assert bare.result.class_names is None


# -------------------------------------------------------------------------------------- estimators


class Outputs:
    """A trained model whose outputs are in an order of its own."""

    def __init__(self, order):
        self.classes_ = NAMES[order]
        self.order = order

    def predict_proba(self, X):
        return X[:, self.order]

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class Distributed(Outputs):
    """One that knows how sure it is."""

    def predict_proba(self, X):
        return self.predict_dist(X).mean()

    def predict_dist(self, X):
        return Dirichlet(3.0 * X[:, self.order] + 1e-3)


@pytest.mark.parametrize("order", UNSORTED)
@pytest.mark.parametrize("which", ESTIMATORS)
def test_an_estimators_classes_are_matched_by_name(which, order, data):
    show = ESTIMATORS[which]
    X, C = data.prediction, named_costs([1, 2, 0])
    kind = Distributed if which == "referral" else Outputs
    expected = show(kind([0, 1, 2]), X, frame(data.counts, [0, 1, 2]), COSTS)
    assert_same(show(kind(order), X, frame(data.counts, [1, 0, 2]), C), expected)
    assert_same(show(kind([0, 1, 2]), X, frame(data.counts, order), C), expected)
    # counts without names have the order of sorted classes only
    assert_same(show(kind([0, 1, 2]), X, data.counts, C), expected)
    with pytest.raises(ValueError, match="not sorted"):
        show(kind(order), X, data.counts[:, order], C)


@pytest.mark.parametrize("which", ["reliability", "one class", "simplex", "decision"])
def test_an_estimators_classes_and_a_fold_of_one(which, data):
    show, X = ESTIMATORS[which], data.prediction
    eels = frame(np.tile([0, 0, 1], (150, 1)), [0, 1, 2])
    expected = show(Outputs([0, 1, 2]), X, eels, COSTS)
    for order in ORDERS:
        y = np.full(150, "eel")
        assert_same(show(Outputs(order), X, y, named_costs([2, 1, 0])), expected)


def test_a_models_own_costs_are_in_the_order_of_its_classes(data, named_labels):
    show = DecisionRiskDisplay.from_estimator
    model, order = Outputs([2, 0, 1]), [2, 0, 1]
    model.cost_matrix_ = COSTS[order]
    expected = show(Outputs([0, 1, 2]), data.prediction, named_labels, COSTS)
    assert_same(show(model, data.prediction, named_labels), expected)
    both = show({"other": Outputs([1, 0, 2]), "own": model}, data.prediction, named_labels)
    for true_risk in both.result.true_risk:
        assert_allclose(true_risk, expected.result.true_risk[0])


@pytest.mark.parametrize("order", ORDERS)
def test_gains_are_of_named_classes(order, data, named_labels):
    show = GainCurveDisplay.from_estimator
    forest = RandomForestClassifier(10, max_depth=3, random_state=0).fit(data.X, named_labels)
    reference = LogisticRegression().fit(data.X, named_labels).predict(data.X)
    options = {"reference_prediction": reference, "n_bins": 4}
    expected = show(forest, data.X, frame(data.counts, [0, 1, 2]), **options)
    assert_same(show(forest, data.X, frame(data.counts, order), **options), expected)
    # a class that training never saw, and one that does not occur
    few = RandomForestClassifier(10, max_depth=3, random_state=0)
    few.fit(data.X[named_labels != "dog"], named_labels[named_labels != "dog"])
    expected = show(few, data.X, frame(data.counts, [0, 1, 2]), **options)
    assert_same(show(few, data.X, frame(data.counts, order), **options), expected)
    mine = np.full(150, "cat")
    counts = frame(np.tile([1, 0, 0], (150, 1)), order)
    counts = counts.assign(cat=1, dog=0, eel=0)
    assert_same(show(forest, data.X, mine, **options), show(forest, data.X, counts, **options))


@pytest.mark.filterwarnings("ignore:The fitted gain is flat:UserWarning")
def test_epistemic_calibration_of_named_classes(data, named_labels):
    forest = RandomForestClassifier(10, max_depth=3, random_state=0)
    model = EpistemicCalibration(forest, n_bins=4).fit(data.X, named_labels)
    options = {"reference_prediction": named_labels, "n_bins": 4}
    show = GainCurveDisplay.from_estimator
    first, other = (show(model, data.X, frame(data.counts, o), **options) for o in UNSORTED[:2])
    assert first.result.mean_calibrated is not None
    assert_same(first, other)


# -------------------------------------------------------------------------------------------- rows


@pytest.mark.parametrize("which", DISPLAYS)
def test_rows_in_another_order_are_an_error(which, data):
    index = np.arange(150) + 7
    y = frame(data.counts, [0, 1, 2]).set_index(index)
    if which != "referral":
        z = frame(data.prediction, [0, 1, 2]).set_index(index)
        with pytest.raises(ValueError, match=r"same samples in another order.*\.loc"):
            DISPLAYS[which](y, z.iloc[::-1], COSTS)
        assert_same(DISPLAYS[which](y, z, COSTS), DISPLAYS[which](y, z.to_numpy(), COSTS))


@pytest.mark.slow
def test_weights_groups_and_priorities_in_another_order_are_an_error(data):
    index = np.arange(150) + 7
    y = frame(data.counts, [0, 1, 2]).set_index(index)
    wrong = pd.Series(np.arange(150) % 9, index=index[::-1])
    d, z, X = dirichlet(data, [0, 1, 2]), data.prediction, data.prediction
    weighted = [
        lambda **how: ReliabilityDisplay.from_predictions(y, z, **how),
        lambda **how: ReliabilityDisplay.from_predictions(y, z, **PAIRS, **how),
        lambda **how: CalibrationDispersionDisplay.from_predictions(y, {"it": z}, **how),
        lambda **how: SimplexCalibrationDisplay.from_predictions(y, z, **how),
        lambda **how: ReferralCurveDisplay.from_predictions(y, d, **how),
        lambda **how: ReliabilityDisplay.from_estimator(Outputs([0, 1, 2]), X, y, **how),
        lambda **how: ReliabilityDisplay.from_estimator(Outputs([0, 1, 2]), X, y, **PAIRS, **how),
        lambda **how: CalibrationDispersionDisplay.from_estimator(Outputs([0, 1, 2]), X, y, **how),
        lambda **how: SimplexCalibrationDisplay.from_estimator(Outputs([0, 1, 2]), X, y, **how),
        lambda **how: ReferralCurveDisplay.from_estimator(Distributed([0, 1, 2]), X, y, **how),
    ]
    for show in weighted:
        with pytest.raises(ValueError, match="same samples in another order"):
            show(sample_weight=wrong)
        right = wrong.loc[index]
        assert_same(show(sample_weight=right), show(sample_weight=right.to_numpy()))
    for show in (weighted[2], weighted[7]):
        with pytest.raises(ValueError, match="same samples in another order"):
            show(groups=wrong)
        assert_same(show(groups=right), show(groups=right.to_numpy()))
    for show in (weighted[4], weighted[9]):
        with pytest.raises(ValueError, match="same samples in another order"):
            show(rule=wrong)
        assert_same(show(rule=right), show(rule=right.to_numpy()))


def test_gains_and_references_in_another_order_are_an_error(data, named_labels):
    index = np.arange(150) + 7
    y = pd.Series(named_labels, index=index)
    model = LogisticRegression().fit(data.X, named_labels)
    reference = pd.Series(model.predict(data.X), index=index)
    show = GainCurveDisplay.from_estimator
    with pytest.raises(ValueError, match="same samples in another order"):
        show(model, data.X, y, reference_prediction=reference.iloc[::-1])
    gain = pd.Series(np.arange(150) % 2.0, index=index)
    e = pd.Series(np.linspace(0, 0.5, 150), index=index)
    show = GainCurveDisplay.from_predictions
    assert_same(show(gain, e, n_bins=3), show(gain.to_numpy(), e.to_numpy(), n_bins=3))
    with pytest.raises(ValueError, match="same samples in another order"):
        show(gain, e.iloc[::-1], n_bins=3)
    with pytest.raises(ValueError, match="same samples in another order"):
        show(gain, e, calibrated=e.iloc[::-1], n_bins=3)


@pytest.mark.parametrize("order", UNSORTED)
def test_readers_meet_a_model_by_name(order):
    """Annotations whose classes stand in any order, and a model with another."""
    data = make_rater_study(60, 5, n_classes=3, random_state=0)
    said = {"item": data.y.row, "rater": data.y.rater, "label": NAMES[data.y.label]}
    y, other = (
        Annotations.from_long(said, classes=NAMES[columns]) for columns in ([0, 1, 2], order)
    )
    show = partial(RaterDisplay.from_predictions, margin=0.1, random_state=0)
    expected = show(y, frame(data.prediction, [0, 1, 2]))
    found = show(other, frame(data.prediction, order[::-1]))
    assert found.result.readers.raters.tolist() == expected.result.readers.raters.tolist()
    assert_same(found, expected)
    # the labels of the model are names too
    labels = NAMES[data.prediction.argmax(axis=1)]
    assert_same(show(other, labels), show(y, labels))
