"""DecisionCalibration.

What it selects, what it decides, and where it lives in scikit-learn.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal.calibration import (
    AlphaCalibration,
    BiasCorrectedTemperatureScaling,
    DecisionCalibration,
    DecisionCalibrationWarning,
    StackedCalibration,
    TemperatureScaling,
    VectorScaling,
    decide,
    expected_cost,
)
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import (
    bayes_decision,
    decision_risk,
    expected_calibration_error,
    make_decision_scorer,
)
from sklearn_lhcal.neural_network import DirectLoss

SCALINGS = {
    "stacked": StackedCalibration,
    "temperature": TemperatureScaling,
    "bias_corrected": BiasCorrectedTemperatureScaling,
    "vector": VectorScaling,
}
C3 = np.array([[0.0, 1.0, 2.0], [5.0, 0.0, 1.0], [20.0, 3.0, 0.0]])


@pytest.fixture(scope="module")
def data():
    return make_label_histograms(
        400, n_classes=3, n_raters=(1, 4), overconfidence=2.5, random_state=0
    )


def kinked(n, seed=0):
    """Two classes, log-odds u, true log-odds that no temperature gives.

    Right near the threshold at half the slope.
    """
    rng = np.random.default_rng(seed)
    s = rng.normal(0, 3, n)
    true = np.where(s < 0, 0.25 * s, 3 * s)
    Q = softmax(np.column_stack([np.zeros(n), true]), axis=1)
    return np.column_stack([np.zeros(n), s]), Q, (rng.random(n) < Q[:, 1]).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize("scaling", SCALINGS)
def test_nll_is_the_scaling_of_that_name(scaling, data):
    for mixing in (None, "uniform", "prior"):
        plain = SCALINGS[scaling]("proba", mixing=mixing).fit(data.prediction, data.counts)
        ours = DecisionCalibration("proba", C3, scaling=scaling, criterion="nll", mixing=mixing)
        ours.fit(data.prediction, data.counts)
        z = plain.predict_proba(data.prediction)
        # a stack's last temperature of 1 divides by another sum of probabilities
        assert_allclose(ours.predict_proba(data.prediction), z, rtol=1e-14)
        assert ours.criterion_ == "nll"
        for name in ("temperature_", "bias_", "scale_", "intercept_", "mixing_weight_", "weights_"):
            if name in vars(plain):
                assert_array_equal(vars(ours)[name], vars(plain)[name])
            else:
                assert scaling == "stacked" or name not in vars(ours)


@pytest.mark.slow
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("criterion", ["auto", "direct", "margin", "ece"])
def test_decisions_and_expected_costs(scaling, criterion, data):
    X, y = data.prediction[:150], data.counts[:150]
    model = DecisionCalibration(
        "proba", C3, scaling=scaling, criterion=criterion, inner_cv=3, safeguard=None
    )
    model.fit(X, y)
    z = model.predict_proba(data.prediction)
    assert_array_equal(model.decide(data.prediction), bayes_decision(z, C3))
    assert_allclose(model.expected_cost(data.prediction), z @ C3)
    assert_array_equal(model.predict(data.prediction), z.argmax(axis=1))
    assert_allclose(model.predict_dist(data.prediction).mean(), z, atol=1e-12)
    assert model.criterion_ == model.best_params_["criterion"] != "nll"
    results = model.cv_results_
    assert len(results["params"]) == len(results["mean_risk"]) == len(results["rank_risk"])
    assert results["params"][0] == {"criterion": "nll"}
    assert_allclose(
        results["mean_difference"], results["mean_risk"] - results["mean_risk"][0], atol=1e-12
    )
    again = clone(model).fit(X, y)
    assert_array_equal(again.predict_proba(data.prediction), z)


@pytest.mark.slow
@pytest.mark.parametrize("scaling", ["temperature", "bias_corrected"])
def test_risk_is_lowered_where_the_log_loss_looks_elsewhere(scaling):
    u, _, y = kinked(2000)
    test, Q, _ = kinked(20_000, seed=1)
    C = [[0.0, 1.0], [6.0, 0.0]]
    risk = {}
    for criterion in ("nll", "auto"):
        model = DecisionCalibration("logits", C, scaling=scaling, criterion=criterion).fit(u, y)
        risk[criterion] = decision_risk(KnownProbabilities(Q), model.decide(test), C)
    assert model.criterion_ != "nll"
    assert risk["auto"] < 0.97 * risk["nll"]
    assert model.risk_difference_.estimate < -model.risk_difference_.standard_error


def test_an_expensive_mistake_that_did_not_occur_counts():
    """P4 §5.3: mistakes with one class cost 10 000.

    Of the rows where it has probability 1/2000 none was of it.
    """
    rng = np.random.default_rng(7)
    p = np.repeat([0.3, 5e-4], 200)
    y = (rng.random(400) < np.where(p > 0.01, p, 0.0)).astype(int)
    u = np.column_stack([np.log1p(-p), np.log(p)]) + rng.normal(0, 0.1, (400, 2))
    C = [[0.0, 1.0], [10_000.0, 0.0]]
    model = DecisionCalibration("logits", C, scaling="temperature", mixing=None)
    with pytest.warns(DecisionCalibrationWarning, match=r"cannot tell .* 95% interval -.* to"):
        kept = clone(model).fit(u, y)
    assert kept.criterion_ == "nll"
    assert kept.risk_difference_.estimate < 0 < kept.risk_difference_.high
    free = clone(model).set_params(safeguard=None).fit(u, y)
    assert free.criterion_ == "direct"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Classes are labelled less often")
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("mixing", ["uniform", None])
def test_where_one_decision_for_all_is_cheaper_it_is_taken(scaling, mixing):
    """Of predictions that mislead: every temperature decides dearly, at 1/2 as elsewhere."""
    rng = np.random.default_rng(0)
    y = rng.binomial(1, 0.3, 300)
    u = np.column_stack([np.zeros(300), rng.normal(0, 1, 300) + 1 - 2 * y])
    C = [[0.0, 4.0], [5.0, 0.0]]
    model = DecisionCalibration("logits", C, scaling=scaling, mixing=mixing, inner_cv=5)
    model.fit(u, y)
    if scaling == "temperature":
        assert model.criterion_ == "default"
        assert model.best_params_ == {"criterion": "default"}
        share = np.array([(y == 0).sum() + 0.5, (y == 1).sum() + 0.5]) / 301
        assert_allclose(model.predict_proba(u), np.tile(share, (300, 1)), rtol=1e-12)
        assert_array_equal(model.decide(u), 0)
    kept = clone(model).set_params(safeguard=1e9).fit(u, y)
    assert kept.criterion_ == "nll"
    risk = [decision_risk(y, one.decide(u), C) for one in (model, kept)]
    assert risk[0] <= risk[1]


def test_units_of_cost_and_constants_of_classes_change_nothing(data):
    # of 200 samples two candidates tie, up to rounding
    X, y = data.prediction[:250], data.counts[:250]
    decisions = [
        DecisionCalibration("proba", C, inner_cv=3, safeguard=0.0).fit(X, y).decide(data.prediction)
        for C in (C3, 1024 * C3, C3 + np.array([[4.0], [-8.0], [0.5]]))
    ]
    assert_array_equal(decisions[0], decisions[1])
    assert (decisions[0] == decisions[2]).mean() > 0.995


def test_costs_by_name():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    frame = pd.DataFrame(
        C3, index=["setosa", "versicolor", "virginica"], columns=["leave", "water", "cut"]
    )
    by_number = DecisionCalibration(GaussianNB(), C3, criterion="nll").fit(X, y)
    model = DecisionCalibration(GaussianNB(), frame.iloc[[2, 0, 1]], criterion="nll").fit(X, names)
    assert_array_equal(model.decide(X), np.array(["leave", "water", "cut"])[by_number.decide(X)])
    assert_array_equal(model.cost_matrix_, C3)
    assert set(model.predict(X)) == set(names)
    plain = DecisionCalibration(GaussianNB(), criterion="nll").fit(X, names)
    assert_array_equal(plain.classes_[plain.decide(X)], plain.predict(X))
    bare = DecisionCalibration(GaussianNB(), C3, criterion="nll").fit(X, names)
    assert_array_equal(bare.decide(X), by_number.decide(X))


def test_any_number_of_decisions(data):
    C = np.column_stack([C3, np.full(3, 0.6)])
    model = DecisionCalibration("proba", C, inner_cv=3).fit(data.prediction, data.counts)
    assert model.expected_cost(data.prediction).shape == (400, 4)
    assert set(model.decide(data.prediction)) == {0, 1, 2, 3}


def test_through_wrappers():
    X, y = load_iris(return_X_y=True)
    model = DecisionCalibration(make_pipeline(StandardScaler(), GaussianNB()), C3, inner_cv=3)
    pipe = make_pipeline(StandardScaler(), model).fit(X, y)
    scaled = pipe[0].transform(X)
    assert_array_equal(decide(pipe, X), pipe[1].decide(scaled))
    assert_allclose(expected_cost(FrozenEstimator(pipe), X), pipe[1].expected_cost(scaled))
    with pytest.raises(ValueError, match="GaussianNB decides nothing"):
        decide(GaussianNB().fit(X, y), X)
    grid = {
        "decisioncalibration__criterion": ["nll", "direct"],
        "decisioncalibration__scaling": ["temperature"],
    }
    search = GridSearchCV(pipe, grid, scoring=make_decision_scorer(C3), cv=2).fit(X, y)
    assert_array_equal(decide(search, X), decide(search.best_estimator_, X))


@pytest.mark.slow
def test_with_other_calibrators_ensembles_and_frozen_models(data):
    X, y = load_iris(return_X_y=True)
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    inner = DecisionCalibration(TemperatureScaling(frozen), C3, inner_cv=3).fit(X, y)
    assert inner.estimator_.estimator_.estimator is frozen.estimator
    outer = AlphaCalibration(DecisionCalibration("proba", C3, inner_cv=3)).fit(
        data.prediction, data.counts
    )
    assert_allclose(
        outer.predict_proba(data.prediction),
        outer.estimator_.predict_proba(data.prediction),
        atol=1e-12,
    )
    forest = RandomForestClassifier(5, max_depth=3, random_state=0)
    for scaling in SCALINGS:
        model = DecisionCalibration(forest, C3, scaling=scaling, inner_cv=2, cv=2).fit(
            data.X, data.counts
        )
        constant = min(decision_risk(data.counts, np.full(400, d), C3) for d in range(3))
        assert decision_risk(data.counts, model.decide(data.X), C3) < 0.8 * constant


def test_a_module_as_criterion(data):
    loss = DirectLoss(C3, 0.05, 50.0)
    before = torch.random.get_rng_state()
    model = DecisionCalibration("proba", C3, criterion=loss, inner_cv=3, safeguard=None)
    model.fit(data.prediction, data.counts)
    assert model.criterion_ == "DirectLoss"
    assert torch.equal(before, torch.random.get_rng_state())


def test_ece_calibrates(data):
    options = {"scaling": "bias_corrected", "inner_cv": 2, "safeguard": None}
    model = DecisionCalibration("proba", C3, criterion="ece", **options)
    z = model.fit(data.prediction, data.counts).predict_proba(data.prediction)
    before, after = (expected_calibration_error(data.counts, p) for p in (data.prediction, z))
    assert after < before / 3


def test_without_a_prior_weights_do_not_depend_on_their_scale(data):
    """Published penalties are per label; all other priors, the mixing's too, are per row."""
    w = np.random.default_rng(0).uniform(0.5, 2, 400)
    options = {"scaling": "vector", "mixing": None, "bias_penalty": 0.1, "inner_cv": 2}
    model = DecisionCalibration("proba", C3, **options)
    a, b = (
        clone(model).fit(data.prediction, data.counts, sample_weight=v).cv_results_["mean_risk"]
        for v in (w, 64 * w)
    )
    assert_allclose(a, b)


def test_well_determined_fits_do_not_warn(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scaling in SCALINGS:
            DecisionCalibration("proba", C3, scaling=scaling, inner_cv=3).fit(
                data.prediction, data.counts
            )


def test_a_refit_with_another_scaling_forgets_the_parameters_of_the_first(data):
    model = DecisionCalibration("proba", C3, criterion="nll")
    names = {
        "vector": {"scale_", "intercept_"},
        "bias_corrected": {"temperature_", "bias_"},
        "stacked": {"temperature_", "weights_", "parameters_"},
    }
    of_maps = set().union(*names.values())
    for scaling in ("vector", "temperature", "stacked", "bias_corrected", "vector"):
        model.set_params(scaling=scaling).fit(data.prediction, data.counts)
        assert of_maps & set(vars(model)) == names.get(scaling, {"temperature_"})


def test_few_rows_fall_back_to_the_log_loss():
    model = DecisionCalibration("proba", [[0, 1], [2, 0]], mixing=None)
    with pytest.warns(UserWarning, match="labels are separable"):
        model.fit([[0.8, 0.2], [0.3, 0.7]], [[1, 0], [0, 1]])
    assert model.criterion_ == "nll"


@pytest.mark.parametrize("scaling", SCALINGS)
def test_where_nothing_is_compared_out_of_fold_there_are_no_numbers(scaling, data):
    model = DecisionCalibration("proba", C3, scaling=scaling, criterion="nll")
    model.fit(data.prediction, data.counts)
    assert model.cv_results_["params"] == [{"criterion": "nll"}]
    for name in ("mean_risk", "mean_difference", "standard_error"):
        assert_array_equal(model.cv_results_[name], [np.nan])
    assert_array_equal(model.cv_results_["rank_risk"], [1])
    assert np.isnan(model.risk_difference_).all()


PAPER = {
    "lam": [0.1, 1.0, 10.0],
    "beta": [None, 1, 5, 10, 20, 30, 40],
    "rate": [1, 0.1, 0.01, 0.001],
}


@pytest.mark.slow
@pytest.mark.parametrize("scaling", ["temperature", "vector"])
def test_the_grid_of_the_paper_is_its_method_whole(scaling, data):
    """P4 Table B.1, eq. 18 for a temperature too, no mixing, no safeguard; what is given stays."""
    z, y = data.prediction[:200], data.counts[:200]
    model = DecisionCalibration("proba", C3, scaling=scaling, grid="paper", inner_cv=2).fit(z, y)
    by_hand = clone(model).set_params(grid=PAPER, mixing=None, safeguard=None).fit(z, y)
    assert model.cv_results_["params"] == by_hand.cv_results_["params"]
    assert len(model.cv_results_["params"]) == 1 + 3 * 7 * 4
    assert_array_equal(model.cv_results_["mean_risk"], by_hand.cv_results_["mean_risk"])
    assert_array_equal(model.predict_proba(z), by_hand.predict_proba(z))
    risk = model.cv_results_["mean_risk"]
    assert model.best_params_ == model.cv_results_["params"][1 + risk[1:].argmin()]
    assert set(model.best_params_) == {"criterion", "lam", "beta", "rate"}
    assert not hasattr(model, "mixing_weight_")
    with_mixing = clone(model).set_params(mixing="uniform", safeguard=1e9).fit(z, y)
    assert with_mixing.mixing_weight_ > 0
    assert with_mixing.criterion_ == "nll"


def test_without_the_grid_of_the_paper_there_are_mixing_and_safeguard(data):
    model = DecisionCalibration("proba", C3, scaling="temperature")
    auto = model.fit(data.prediction, data.counts).predict_proba(data.prediction)
    said = clone(model).set_params(mixing="uniform", safeguard=1.0)
    said = said.fit(data.prediction, data.counts)
    assert_array_equal(said.predict_proba(data.prediction), auto)


@pytest.mark.slow
@pytest.mark.parametrize("scaling", ["stacked", "temperature"])
def test_a_grid_replaces_the_exact_search_and_an_empty_one_does_not(scaling, data):
    model = DecisionCalibration("proba", C3, scaling=scaling, inner_cv=2)
    params = {}
    for name, grid in {"none": None, "empty": {}, "one": {"rate": [0.1]}}.items():
        fitted = clone(model).set_params(grid=grid).fit(data.prediction, data.counts)
        params[name] = fitted.cv_results_["params"][1:]
    assert params["empty"] == params["none"]
    assert all(set(one) == {"criterion", "smoothing"} for one in params["none"])
    assert params["one"] == [{"criterion": "direct", "lam": 0.1, "beta": 30.0, "rate": 0.1}]


@pytest.mark.parametrize("scaling", SCALINGS)
def test_zeros_of_the_classifier_are_seen(scaling, data):
    """Also under a stack, whose own predictions hold none."""
    X = data.prediction.copy()
    X[data.counts[:, 0] > 0] = [0.0, 0.5, 0.5]
    refuted = int((data.counts[:, 0] > 0).sum())
    model = DecisionCalibration("proba", C3, scaling=scaling, mixing=None, criterion="nll")
    # they are in the column of the wrong class
    with (
        pytest.warns(UserWarning, match="columns exchanged"),
        pytest.warns(UserWarning, match=f"{refuted} of 400 calibration samples") as seen,
    ):
        model.fit(X, data.counts)
    assert seen[0].filename == __file__


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"scaling": "matrix"},
            'scaling must be "stacked", "temperature", "bias_corrected" or "vector"',
        ),
        ({"criterion": "brier"}, "criterion must be one of .* or a torch module, got 'brier'"),
        (
            {"criterion": "classwise_ece"},
            r"\['auto', 'nll', 'ece', 'direct', 'margin'\] or a torch module, got 'classwise_ece'",
        ),
        ({"cost_matrix": np.ones((3, 2))}, "nothing is to decide"),
        ({"cost_matrix": np.ones((2, 2))}, "has 2 rows, expected one for each of 3 classes"),
        (
            {"inner_cv": 0},
            "inner_cv must be an int of at least 2, got 0",
        ),
        ({"inner_cv": -3}, "inner_cv must be an int of at least 2, got -3"),
        ({"inner_cv": 2.5}, "inner_cv must be an int, got 2.5"),
        ({"grid": "papers"}, "grid must be a dict, \"paper\" or None, got 'papers'"),
        ({"mixing": "auto ", "grid": "paper"}, 'mixing must be "auto"'),
        ({"safeguard": "none"}, "safeguard must be a number, .*, got 'none'"),
        (
            {"grid": {"lambda": [1.0]}},
            r"grid must be \"paper\", None or a dict with keys among \['lam', 'beta', 'rate'",
        ),
        ({"grid": {"lam": [0.0]}}, r"grid\['lam'\] must hold positive numbers, got \[0.0\]"),
        ({"grid": {"rate": []}}, r"grid\['rate'\] must hold positive numbers, got \[\]"),
        ({"grid": {"lam": 0.1}}, r"grid\['lam'\] must hold positive numbers, got 0.1; give a list"),
        ({"grid": {"lam": ["a"]}}, r"grid\['lam'\] must hold positive numbers, got \['a'\]"),
        (
            {"grid": {"lam": [0.1], "beta": [1.0], "rate": [0.1]}, "criterion": "ece"},
            r"grid has \['lam', 'beta'\], which criterion='ece' does not use; it uses \['rate'\]",
        ),
        (
            {"grid": {"rate": [0.1]}, "criterion": "nll"},
            r"grid has \['rate'\], which criterion='nll'",
        ),
        ({"bias_penalty": 0.1}, 'bias_penalty is for scaling="vector" alone'),
        (
            {"bias_penalty": 0.1, "scaling": "temperature"},
            'bias_penalty is for scaling="vector" alone',
        ),
        ({"mixing": 0.1}, 'mixing must be "auto", "uniform", "prior" or None, got 0.1'),
        ({"safeguard": "a"}, "safeguard must be a number, .*, got 'a'"),
        ({"safeguard": -1.0}, "safeguard must be a finite number of at least 0, got -1.0"),
        (
            {"scaling": "vector", "bias_penalty": -1.0},
            "bias_penalty must be a",
        ),
        (
            {"cost_matrix": [[0, 1], [np.inf, 0], [1, 1]]},
            r"NaN or infinite values \(first in sample 1\)",
        ),
    ],
)
def test_what_is_refused(parameters, message, data):
    with pytest.raises(ValueError, match=message):
        DecisionCalibration("proba", **({"cost_matrix": C3} | parameters)).fit(
            data.prediction, data.counts
        )
