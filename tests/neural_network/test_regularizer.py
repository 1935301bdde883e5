"""NeuralClassifier with named losses and regularizers.

What it minimises, searches over them, pipelines, devices.
"""

import copy
import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import TensorDataset

from sklearn_lhcal.calibration import TemperatureScaling
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.metrics import expected_squared_loss
from sklearn_lhcal.neural_network import (
    BrierLoss,
    FocalLoss,
    KernelCalibrationPenalty,
    LabelLogLoss,
    MMCEPenalty,
    NeuralClassifier,
)

FULL_BATCH = {"batch_size": -1, "lr": 0.05, "max_epochs": 30, "random_state": 0}
PENALTIES = [
    MMCEPenalty(),
    MMCEPenalty(weighted=True),
    KernelCalibrationPenalty(),
    KernelCalibrationPenalty(1, "loo", "top_label", None),
]


def linear():
    return nn.Linear(5, 3)


class Norm(nn.Module):
    """A regularizer of a user: mean square of the centred logits.

    Its buffer has to be where they are.
    """

    def __init__(self):
        super().__init__()
        self.register_buffer("power", torch.tensor(2.0))

    def forward(self, logits, counts, weight=None):
        return ((logits - logits.mean(dim=1, keepdim=True)).abs() ** self.power).mean()


@pytest.fixture
def data():
    return make_label_histograms(120, n_classes=3, n_raters=(1, 6), total=3.0, random_state=0)


def fit(data, y=None, **options):
    options = FULL_BATCH | options
    weight = options.pop("sample_weight", None)
    return NeuralClassifier(linear, **options).fit(
        data.X, data.counts if y is None else y, sample_weight=weight
    )


def proba(data, **options):
    return fit(data, **options).predict_proba(data.X)


# --- what it minimises ---


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("label_log_loss", LabelLogLoss()),
        ("focal", FocalLoss(3.0)),
        ("focal_53", FocalLoss("53")),
        ("brier", BrierLoss()),
    ],
)
def test_losses_by_name(data, name, module):
    assert_array_equal(proba(data, loss=name), proba(data, loss=module))


@pytest.mark.slow
def test_each_loss_is_best_at_its_own(data):
    z = {
        name: proba(data, loss=name, max_epochs=300)
        for name in ("label_log_loss", "focal", "brier")
    }
    losses = {"label_log_loss": LabelLogLoss(), "focal": FocalLoss(), "brier": BrierLoss()}
    y = torch.tensor(data.counts)
    for name, loss in losses.items():
        values = {other: loss(torch.tensor(z[other]).log(), y).item() for other in z}
        assert min(values, key=values.get) == name
    entropy = {name: -(p * np.log(p)).sum(axis=1).mean() for name, p in z.items()}
    assert entropy["focal"] > entropy["label_log_loss"]
    assert_allclose(
        losses["brier"](torch.tensor(z["brier"]).log(), y),
        expected_squared_loss(data.counts, z["brier"]),
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("regularizer", PENALTIES, ids=repr)
def test_objective_is_loss_and_weighted_penalty(data, regularizer, weighted):
    """With learning rate 0 the history tells it.

    Weights have another scale inside, which must not matter.
    """
    w = np.random.default_rng(0).uniform(0, 3, 120) if weighted else None
    net = fit(
        data, regularizer=regularizer, regularizer_weight=0.7, lr=0.0, max_epochs=2, sample_weight=w
    )
    log_z, y = torch.tensor(net.predict_proba(data.X)).log(), torch.tensor(data.counts)
    weight = None if w is None else torch.tensor(w)
    expected = LabelLogLoss()(log_z, y, weight) + 0.7 * regularizer(log_z, y, weight)
    assert_allclose(net.history_[:, "train_loss"], expected, rtol=1e-4)


@pytest.mark.parametrize("regularizer", PENALTIES, ids=repr)
def test_it_lowers_the_penalty(data, regularizer):
    """The focal loss alone leaves a network that is not confident enough."""
    y = torch.tensor(data.counts)

    def penalty(**options):
        return regularizer(torch.tensor(proba(data, loss="focal", **options)).log(), y).item()

    assert penalty(regularizer=regularizer, regularizer_weight=0.5) < 0.8 * penalty()


def test_without_weight_it_is_not_there(data):
    expected = proba(data)
    assert_array_equal(proba(data, regularizer=MMCEPenalty(), regularizer_weight=0), expected)
    assert_array_equal(proba(data, regularizer=None, regularizer_weight=3.0), expected)
    assert np.abs(proba(data, regularizer=MMCEPenalty()) - expected).max() > 1e-3


@pytest.mark.parametrize("regularizer", PENALTIES, ids=repr)
def test_rows_without_weight_are_not_there(data, regularizer):
    w = np.arange(120) % 3 > 0
    net = NeuralClassifier(
        linear().double(), regularizer=regularizer, **FULL_BATCH | {"max_epochs": 5}
    )
    left = net.fit(data.X, data.counts, sample_weight=w).predict_proba(data.X)
    assert_allclose(net.fit(data.X[w], data.counts[w]).predict_proba(data.X), left, atol=1e-5)


@pytest.mark.parametrize("regularizer", PENALTIES, ids=repr)
@pytest.mark.parametrize("batch_size", [1, 7, 17])
def test_small_batches(data, regularizer, batch_size):
    """Also those of one row, 120 = 7·17 + 1, from which a kernel can learn nothing."""
    net = fit(
        data,
        regularizer=regularizer,
        batch_size=batch_size,
        max_epochs=2,
        lr=0.01,
        early_stopping=5,
    )
    assert np.isfinite(net.history_[:, ("train_loss", "valid_loss")]).all()
    assert np.isfinite(net.predict_proba(data.X)).all()


def test_early_stopping_sees_the_penalty(data):
    net = fit(
        data, regularizer=Norm(), regularizer_weight=1.0, lr=0.0, max_epochs=2, early_stopping=5
    )
    plain = fit(data, lr=0.0, max_epochs=2, early_stopping=5)
    assert (
        np.array(net.history_[:, "valid_loss"]) > np.array(plain.history_[:, "valid_loss"]) + 1e-3
    ).all()


@pytest.mark.slow
def test_a_regularizer_of_the_user_and_a_dataset(data):
    X, y = torch.Tensor(data.X), torch.as_tensor(data.counts)
    for regularizer in (Norm(), KernelCalibrationPenalty()):
        options = {"regularizer": regularizer, "regularizer_weight": 1.0}
        net = NeuralClassifier(linear, classes=[0, 1, 2], **FULL_BATCH, **options).fit(
            TensorDataset(X, y)
        )
        assert_allclose(net.predict_proba(data.X), proba(data, **options), atol=1e-5)
    spread = [
        proba(data, regularizer=Norm(), regularizer_weight=w).var(axis=1).mean()
        for w in (0, 0.1, 10)
    ]
    assert spread == sorted(spread, reverse=True)


def test_seeds(data):
    options = {
        "regularizer": KernelCalibrationPenalty(),
        "regularizer_weight": 1.0,
        "batch_size": 16,
        "max_epochs": 3,
    }
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    first = proba(data, **options)
    assert torch.equal(torch.rand(1), expected)
    assert_array_equal(proba(data, **options), first)
    assert np.abs(proba(data, **options | {"random_state": 1}) - first).max() > 1e-3


# --- parameters ---


@pytest.mark.parametrize("regularizer", [*PENALTIES, Norm()], ids=repr)
def test_an_instance_stays_as_it_is(data, regularizer):
    before = copy.deepcopy(vars(regularizer))
    net = fit(data, regularizer=regularizer, max_epochs=1)
    assert net.regularizer is regularizer is not net.regularizer_
    assert str(vars(regularizer)) == str(before)


@pytest.mark.slow
def test_parameters_of_the_regularizer(data):
    net = NeuralClassifier(linear, regularizer=KernelCalibrationPenalty(), **FULL_BATCH)
    assert net.get_params()["regularizer__bandwidth"] == 0.1
    again = clone(net).set_params(regularizer__bandwidth=0.02, regularizer_weight=0.7)
    assert again.regularizer.bandwidth == 0.02
    assert net.regularizer.bandwidth == 0.1
    expected = proba(
        data, regularizer=KernelCalibrationPenalty(bandwidth=0.02), regularizer_weight=0.7
    )
    assert_array_equal(again.fit(data.X, data.counts).predict_proba(data.X), expected)
    both = again.set_params(regularizer=MMCEPenalty(), regularizer__weighted=True).fit(
        data.X, data.counts
    )
    weighted = proba(data, regularizer=MMCEPenalty(weighted=True), regularizer_weight=0.7)
    assert_array_equal(both.predict_proba(data.X), weighted)
    assert_array_equal(pickle.loads(pickle.dumps(both)).predict_proba(data.X), weighted)
    assert_array_equal(both.partial_fit(data.X, data.counts).history_[:, "epoch"], np.arange(1, 61))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"regularizer": "mmce"}, r"regularizer must be a Module or None, got 'mmce'"),
        ({"regularizer": MMCEPenalty}, "regularizer must be a Module or None"),
        ({"regularizer_weight": -1.0}, "regularizer_weight must be a finite number"),
        (
            {"regularizer_weight": np.nan},
            "regularizer_weight must be a finite number of at least 0",
        ),
        ({"regularizer": KernelCalibrationPenalty(1)}, "exists for p = 2 only"),
    ],
)
def test_wrong_parameters(data, options, message):
    with pytest.raises(ValueError, match=message):
        fit(data, **options)


@pytest.mark.parametrize("regularizer", [None, Norm()], ids=repr)
def test_a_regularizer_without_parameters(regularizer):
    net = NeuralClassifier(linear, regularizer=regularizer)
    with pytest.raises(
        ValueError,
        match=r"\['regularizer__bandwidth'\] cannot be set: the regularizer .* has no par",
    ):
        net.set_params(regularizer__bandwidth=1)


# --- in scikit-learn ---


@pytest.mark.slow
@pytest.mark.parametrize(
    ("grid", "scoring"),
    [
        ({"regularizer_weight": [0.0, 0.1, 300.0]}, "neg_label_log_loss"),
        ({"regularizer_weight": [0.1, 300.0]}, "neg_calibration_loss"),
        ({"regularizer__bandwidth": [0.02, 0.2]}, "neg_expected_squared_loss"),
        (
            {
                "regularizer": [None, MMCEPenalty(), KernelCalibrationPenalty()],
                "loss": ["focal", "focal_53"],
            },
            "neg_label_log_loss",
        ),
    ],
)
def test_searches_by_scorer_strings(data, grid, scoring):
    net = NeuralClassifier(linear, regularizer=KernelCalibrationPenalty(), **FULL_BATCH)
    search = GridSearchCV(net, grid, scoring=scoring, cv=KFold(3), error_score="raise").fit(
        data.X, data.counts
    )
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert len(set(scores)) == len(scores)
    if "regularizer_weight" in grid:
        assert search.best_params_["regularizer_weight"] < 300
    by_hand = clone(net).set_params(**search.best_params_).fit(data.X, data.counts)
    assert_array_equal(search.predict_proba(data.X), by_hand.predict_proba(data.X))


@pytest.mark.slow
def test_in_a_pipeline_with_counts(data):
    net = NeuralClassifier(linear, regularizer=KernelCalibrationPenalty(), **FULL_BATCH)
    pipe = make_pipeline(StandardScaler(), net)
    X = StandardScaler().fit_transform(data.X)
    assert_array_equal(
        pipe.fit(data.X, data.counts).predict_proba(data.X),
        net.fit(X, data.counts).predict_proba(X),
    )
    pipe.set_params(
        neuralclassifier__regularizer__bandwidth=0.5, neuralclassifier__regularizer_weight=2.0
    )
    search = GridSearchCV(
        pipe,
        {"neuralclassifier__regularizer_weight": [0.1, 1.0]},
        scoring="expected_accuracy",
        cv=2,
    )
    assert search.fit(data.X, data.counts).best_estimator_[-1].regularizer_.bandwidth == 0.5
    scaled = TemperatureScaling(FrozenEstimator(pipe.fit(data.X, data.counts))).fit(
        data.X, data.counts
    )
    assert scaled.predict_proba(data.X).shape == (120, 3)


# --- devices ---


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("regularizer", [*PENALTIES, Norm()], ids=repr)
def test_on_cuda(data, regularizer):
    u, y = torch.tensor(data.X[:, :3]), torch.tensor(data.counts)
    gradients = []
    for device in ("cpu", "cuda"):
        v = u.detach().to(device).requires_grad_()
        value = regularizer.to(device)(v, y.to(device), torch.arange(120.0, device=device))
        value.backward()
        gradients.append((value.item(), v.grad.cpu()))
    regularizer.to("cpu")
    assert_allclose(gradients[1][0], gradients[0][0], rtol=1e-6)
    assert_allclose(gradients[1][1], gradients[0][1], atol=1e-8)
    options = {"regularizer": regularizer, "regularizer_weight": 1.0, "module": linear()}
    options = FULL_BATCH | options
    nets = [
        NeuralClassifier(device=device, **options).fit(data.X, data.counts)
        for device in ("cpu", "cuda")
    ]
    assert_allclose(nets[1].predict_proba(data.X), nets[0].predict_proba(data.X), atol=1e-3)
