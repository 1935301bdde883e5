"""Weights that name their rows: in another order an error, whatever learns or counts by them."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from torch import nn

from sklearn_lhcal.calibration import (
    ConformalClassifier,
    EpistemicCalibration,
    RiskControlledDecision,
    TemperatureScaling,
)
from sklearn_lhcal.ensemble import DeepEnsembleClassifier
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.label_histogram import (
    Annotations,
    LabelHistogramClassifier,
    fleiss_kappa,
    krippendorff_alpha,
    percent_agreement,
)
from sklearn_lhcal.model_selection import BallCarvingSplit, cross_val_predict
from sklearn_lhcal.neural_network import NeuralClassifier

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
COUNTS = rng.multinomial(3, [0.4, 0.3, 0.3], 60)
W = rng.random(60) + 0.1
ROWS = [f"patient {i:02}" for i in range(60)]
Y = pd.DataFrame(COUNTS, columns=list("abc"), index=ROWS)
SHUFFLED = pd.Series(W, index=ROWS).iloc[rng.permutation(60)]

SPLITTER = BallCarvingSplit(n_balls=3, test_fraction=0.6, random_state=0)


def _spread(model, X):
    return model.predict_proba(X).min(axis=1)


ESTIMATORS = {
    "classifier": LabelHistogramClassifier(),
    "calibrator": TemperatureScaling(),
    "conformal": ConformalClassifier(random_state=0),
    "decision": RiskControlledDecision(random_state=0),
    "ensemble": DeepEnsembleClassifier(LogisticRegression(), n_estimators=2, random_state=0),
    "process": SparseGPClassifier(n_inducing=10, max_iter=2, random_state=0),
    "network": NeuralClassifier(nn.Linear(3, 3), max_epochs=1, random_state=0),
    "epistemic": EpistemicCalibration(
        GaussianNB(), splitter=SPLITTER, n_bins=1, uncertainty=_spread
    ),
}


@pytest.mark.filterwarnings("ignore:The fitted gain is flat:UserWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimators_refuse_weights_of_rows_in_another_order(name):
    model, rows = ESTIMATORS[name], X.astype(np.float32)
    with pytest.raises(ValueError, match="same samples in another order"):
        model.fit(rows, Y, sample_weight=SHUFFLED)
    model.fit(rows, Y, sample_weight=SHUFFLED.loc[ROWS])
    with pytest.raises(ValueError, match="same samples in another order"):
        model.score(rows, Y, sample_weight=SHUFFLED)


@pytest.mark.filterwarnings("ignore:The fitted gain is flat:UserWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimators_refuse_samples_in_another_order_than_labels(name):
    model = clone(ESTIMATORS[name])
    rows = pd.DataFrame(X.astype(np.float32), columns=list("pqr"), index=ROWS)
    other = rows.loc[SHUFFLED.index]
    with pytest.raises(ValueError, match="same samples in another order"):
        model.fit(other, Y)
    model.fit(rows, Y)
    with pytest.raises(ValueError, match="same samples in another order"):
        model.score(other, Y)


def test_items_of_annotations_are_row_names():
    """`from_long` sorts items, so rows of X in the order of a table are another order."""
    order = rng.permutation(60)
    rows = pd.DataFrame(X[order], index=np.array(ROWS)[order])
    votes = ["abc"[k] for k in COUNTS.argmax(axis=1)]
    sorted_items = Annotations.from_long(ROWS, [0] * 60, votes)
    with pytest.raises(ValueError, match="items="):
        TemperatureScaling().fit(rows, sorted_items)
    y = Annotations.from_long(ROWS, [0] * 60, votes, items=rows.index)
    assert TemperatureScaling().fit(rows, y).score(rows, y) > 0


@pytest.mark.parametrize("coefficient", [percent_agreement, fleiss_kappa, krippendorff_alpha])
def test_agreement_refuses_them(coefficient):
    with pytest.raises(ValueError, match="same samples in another order"):
        coefficient(Y, sample_weight=SHUFFLED)
    expected = coefficient(COUNTS, sample_weight=W)
    assert coefficient(Y, sample_weight=SHUFFLED.loc[ROWS]) == pytest.approx(expected)


def test_out_of_fold_predictions_refuse_them():
    with pytest.raises(ValueError, match="same samples in another order"):
        cross_val_predict(LogisticRegression(), X, Y, fit_params={"sample_weight": SHUFFLED})


FORMS = {
    "list": W.tolist(),
    "series": pd.Series(W),
    "shuffled": pd.Series(W, index=rng.permutation(60)),
    "named": pd.Series(W, index=ROWS),
    "polars": pl.Series(W),
}


@pytest.mark.parametrize("form", FORMS)
def test_weights_of_any_form_go_to_the_folds_by_position(form):
    """A Series is never looked up by its labels, of which a fold holds some only."""
    weights = {"sample_weight": FORMS[form]}
    found = cross_val_predict(LogisticRegression(), X, COUNTS, cv=3, fit_params=weights)
    expected = cross_val_predict(
        LogisticRegression(), X, COUNTS, cv=3, fit_params={"sample_weight": W}
    )
    assert_allclose(found, expected, rtol=0, atol=1e-12)
    model = ConformalClassifier(LogisticRegression(), random_state=0)
    assert model.fit(X, COUNTS, **weights).threshold_ == pytest.approx(
        model.fit(X, COUNTS, sample_weight=W).threshold_, abs=1e-12
    )
