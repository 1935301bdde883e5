"""Small networks and their training, for the tests of NeuralClassifier."""

import torch
from skorch.callbacks import Callback
from torch import nn

from sklearn_lhcal.neural_network import NeuralClassifier

FULL_BATCH = {"batch_size": -1, "lr": 0.05, "max_epochs": 30, "random_state": 0}

LBFGS = {
    "optimizer": torch.optim.LBFGS,
    "optimizer__line_search_fn": "strong_wolfe",
    "optimizer__max_iter": 500,
    "optimizer__tolerance_change": 1e-15,
    "optimizer__tolerance_grad": 1e-10,
    "lr": 1.0,
    "batch_size": -1,
    "max_epochs": 3,
}


class MLP(nn.Module):
    def __init__(self, n_classes=3, n_hidden=8, dropout=0.0, norm=False):
        super().__init__()
        norm = nn.BatchNorm1d(n_hidden) if norm else nn.Identity()
        body = nn.Linear(5, n_hidden), norm, nn.ReLU(), nn.Dropout(dropout)
        self.layers = nn.Sequential(*body, nn.Linear(n_hidden, n_classes))

    def forward(self, X):
        return self.layers(X)


class AnyShape(nn.Sequential):
    """As many inputs as X has columns, and outputs as y has classes, by `AsManyOutputs`.

    In float64, as scikit-learn compares to 1e-7.
    """

    def __init__(self, dropout=0.0):
        super().__init__(nn.LazyLinear(6), nn.Tanh(), OneMask(dropout), nn.LazyLinear(1))
        self.double()


class OneMask(nn.Dropout):
    """Trains all samples under one mask, so that a weight can be what repeated rows are."""

    def forward(self, X):
        if not self.training:
            return X
        return X * (torch.rand(X.shape[1:]) >= self.p) / (1 - self.p)


class AsManyOutputs(Callback):
    def __repr__(self):
        # names of tests hold it, and shall not hold an address
        return "AsManyOutputs()"

    def on_train_begin(self, net, **_):
        if isinstance(net.module_[-1], nn.LazyLinear):
            net.module_[-1].out_features = len(net.classes_)


def net_of_any_shape(**options):
    return NeuralClassifier(
        AnyShape,
        callbacks=[AsManyOutputs()],
        optimizer=torch.optim.SGD,
        lr=2.0,
        max_epochs=4,
        batch_size=-1,
        # the seed's draws shall not depend on the number of rows
        iterator_train__shuffle=False,
        random_state=0,
        **options,
    )


class Affine(nn.Linear):
    """All logits 0 at first, so that two of them start alike."""

    def __init__(self, n_features=5, n_classes=3):
        super().__init__(n_features, n_classes)
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)


class Recorder(Callback):
    """Rows of the parts, and predictions after each epoch."""

    def __init__(self, X):
        self.X = X

    def on_train_begin(self, net, **_):
        self.proba_ = []

    def on_epoch_end(self, net, dataset_train=None, dataset_valid=None, **_):
        self.proba_.append(net.predict_proba(self.X))
        self.parts_ = [getattr(part, "indices", None) for part in (dataset_train, dataset_valid)]


def proba(data, y=None, X=None, module=Affine, **options):
    net = NeuralClassifier(module, **FULL_BATCH | options)
    return net.fit(data.X if X is None else X, data.counts if y is None else y).predict_proba(
        data.X
    )
