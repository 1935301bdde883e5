"""What is seen first: results on one line, short signatures, and what to do with torch objects."""

import inspect
from html import escape

import numpy as np
import pytest
import torch
from fuzz_cases import ANNOTATIONS, COSTS, DIRICHLET, VALUES, X, Y, Z
from sklearn.frozen import FrozenEstimator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sklearn_lhcal import metrics
from sklearn_lhcal.calibration import TemperatureScaling
from sklearn_lhcal.ensemble import DeepEnsembleClassifier
from sklearn_lhcal.neural_network import NeuralClassifier

RESULTS = {
    "loss_decomposition": lambda: metrics.loss_decomposition(Y, Z),
    "rater_comparison": lambda: metrics.rater_comparison(ANNOTATIONS, Z, margin=0.05),
    "rater_table": lambda: metrics.rater_table(ANNOTATIONS),
    "alternative_annotator_test": lambda: metrics.alternative_annotator_test(
        ANNOTATIONS, Z, least_rows=2
    ),
    "reliability_curve": lambda: metrics.reliability_curve(Y, Z),
    "gain_curve": lambda: metrics.gain_curve(VALUES["gain"], VALUES["uncertainty"], n_bins=2),
    "policy_curve": lambda: metrics.policy_curve(
        Y, DIRICHLET, COSTS, prices=[0, 0.1], random_state=0
    ),
    "decision_risks": lambda: metrics.decision_risks(Y, Z, COSTS),
    "evaluate_methods": lambda: metrics.evaluate_methods({"a": Z, "b": Z[:, ::-1]}, Y),
    "subgroup_audit": lambda: metrics.subgroup_audit(
        Y, Z, subgroups=VALUES["subgroups"], min_rows=2, n_draws=20
    ),
    "cost_curve": lambda: metrics.cost_curve(Y[:, :2] + 1, Z[:, 0]),
    "decision_curve": lambda: metrics.decision_curve(Y, Z, class_index=0),
    "referral_curve": lambda: metrics.referral_curve(Y, DIRICHLET, n_points=3),
    "risk_decomposition": lambda: metrics.risk_decomposition(Y, Z, COSTS),
}

# they print a test, or a table of their own
OWN_WORDS = {"MethodTable", "RaterTable", "SubgroupAudit"}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", RESULTS)
def test_results_are_one_line(name):
    """In a console one line of at most four hundred characters; printed, the first rows of its
    table, unless it has words of its own; in a notebook the table, else every field."""
    found = RESULTS[name]()
    assert "\n" not in repr(found)
    assert len(repr(found)) < 400
    assert repr(found).startswith(type(found).__name__)
    printed = str(found)
    assert printed.count("\n") < 20
    names = found._fields
    own = type(found).__name__ in OWN_WORDS
    if hasattr(found, "to_frame"):
        names = np.unique(np.concatenate([np.atleast_1d(c) for c in found.to_frame().columns]))
        assert escape(repr(found)) in found._repr_html_()
        assert own or printed.startswith(f"{found!r}\n")
        assert own or all(column in printed for column in names)
    else:
        assert printed == repr(found)
    assert all(f">{column}</th>" in found._repr_html_() for column in names)


def test_least_floats_are_shown_as_zero():
    found = metrics.loss_decomposition(Y, Z)._replace(dispersion_loss=2.2e-308)
    assert "dispersion_loss=0," in repr(found)


def test_signatures_are_short():
    """Types of arrays are one word: 1,067 characters were the signature of the log loss."""
    for name in metrics.__all__:
        if inspect.isfunction(getattr(metrics, name)):
            assert "_SupportsArray" not in str(inspect.signature(getattr(metrics, name))), name
    assert len(str(inspect.signature(metrics.label_log_loss))) < 250


def nets(n=2):
    torch.manual_seed(0)
    return [NeuralClassifier.from_trained(nn.Linear(X.shape[1], 3), [0, 1, 2]) for _ in range(n)]


def test_ensemble_of_trained_nets():
    """Its prediction is the mean of theirs, and it can be calibrated without training it."""
    members = nets(3)
    model = DeepEnsembleClassifier.from_trained(members)
    X32 = X.astype(np.float32)
    mean = np.mean([net.predict_proba(X32) for net in members], axis=0)
    np.testing.assert_allclose(model.predict_proba(X32), mean, rtol=1e-6)
    fitted = TemperatureScaling(FrozenEstimator(model)).fit(X32, Y)
    assert len(fitted.predict_dist(X32).member_means()) == 3


def test_ensemble_of_what_is_not_trained_or_differs():
    for wrong in ([], [nn.Linear(2, 2)], [NeuralClassifier(nn.Linear)]):
        with pytest.raises(ValueError, match="list of fitted classifiers"):
            DeepEnsembleClassifier.from_trained(wrong)
    other = NeuralClassifier.from_trained(nn.Linear(X.shape[1], 3), ["a", "b", "c"])
    with pytest.raises(ValueError, match="different classes"):
        DeepEnsembleClassifier.from_trained([*nets(1), other])


def test_messages_say_how_networks_are_given():
    for given, words in (
        (nn.Linear(4, 3), r"NeuralClassifier\.from_trained\(module, classes\)"),
        (nets(), r"DeepEnsembleClassifier\.from_trained\(nets\)"),
    ):
        with pytest.raises(ValueError, match=words):
            TemperatureScaling(given).fit(X, Y)
    rows = DataLoader(TensorDataset(torch.tensor(X), torch.tensor(Y)), batch_size=4)
    with pytest.raises(TypeError, match="X is a DataLoader; pass all samples"):
        TemperatureScaling(FrozenEstimator(nets(1)[0])).fit(rows, Y)


def test_bfloat16_is_read():
    """As the float32 of the same numbers."""
    u = torch.tensor(X[:, :3]).bfloat16()
    one, other = (TemperatureScaling("logits").fit(a, Y).predict_proba(a) for a in (u, u.float()))
    np.testing.assert_array_equal(one, other)
    costs = torch.tensor(COSTS)
    assert metrics.model_risk(Z, costs.bfloat16()) == metrics.model_risk(Z, costs)
