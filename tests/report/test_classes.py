"""Numbers of single classes: labels as truth, each counting 1/n of its case."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.report import report

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def data():
    return make_label_histograms(200, n_raters=(1, 4), overconfidence=2.0, random_state=1)


@pytest.fixture(scope="module")
def made(data):
    return report(data.counts, data.prediction)


def of(made, name, class_name):
    (found,) = [
        m for m in made.data["numbers"] if (m["quantity"], m["class_name"]) == (name, class_name)
    ]
    return found


def repeated(data, k):
    """Each label is a case of its own: its class is k or not, its score, its weight 1/n."""
    counts, z = np.asarray(data.counts), np.asarray(data.prediction)
    n = counts.sum(axis=1)
    case = np.repeat(np.arange(len(n)), n)
    label = np.concatenate([np.repeat(np.arange(3), c) for c in counts])
    return label == k, z[case, k], 1 / n[case], z[case].argmax(axis=1) == k


@pytest.mark.parametrize("k", [0, 1, 2])
def test_sensitivity_and_specificity_by_hand(data, made, k):
    positive, _, w, said = repeated(data, k)
    expected = (w * (said & positive)).sum() / (w * positive).sum()
    assert of(made, "sensitivity", str(k))["estimate"] == pytest.approx(expected, abs=1e-12)
    expected = (w * ~(said | positive)).sum() / (w * ~positive).sum()
    found = of(made, "specificity", str(k))
    assert found["estimate"] == pytest.approx(expected, abs=1e-12)
    assert 0 <= found["low"] < found["estimate"] < found["high"] <= 1


def test_auc_of_one_label_a_case_is_that_of_scikit_learn():
    single = make_label_histograms(200, n_raters=1, random_state=2)
    label = single.counts.argmax(axis=1)
    # ties among rounded scores count one half
    z = np.asarray(single.prediction).round(2)
    z /= z.sum(axis=1, keepdims=True)
    found = of(report(label, z), "auc", "1")
    expected = roc_auc_score(label == 1, z[:, 1])
    assert found["estimate"] == pytest.approx(expected, abs=1e-12)
    assert found["low"] < expected < found["high"] <= 1


def test_auc_compares_labels_of_different_cases(data, made):
    """By all pairs of labels of two cases."""
    counts, p = np.asarray(data.counts), np.asarray(data.prediction)[:, 0]
    mu = counts[:, 0] / counts.sum(axis=1)
    pairs = mu[:, None] * (1 - mu)
    np.fill_diagonal(pairs, 0)
    wins = (p[:, None] > p) + (p[:, None] == p) / 2
    expected = (pairs * wins).sum() / pairs.sum()
    assert of(made, "auc", "0")["estimate"] == pytest.approx(expected, abs=1e-12)


def test_slope_and_intercept_are_those_of_logistic_regression(data, made):
    positive, p, w, _ = repeated(data, 0)
    p = p.clip(1e-6, 1 - 1e-6)
    x = np.log(p / (1 - p))[:, None]
    fitted = LogisticRegression(C=1e12, tol=1e-10).fit(x, positive, sample_weight=w)
    slope = of(made, "calibration_slope", "0")
    # the solver's tolerance
    assert slope["estimate"] == pytest.approx(fitted.coef_[0, 0], rel=1e-4)
    assert slope["high"] < 1, "probabilities were made overconfident"
    a = of(made, "calibration_intercept", "0")["estimate"]
    # its likelihood equation: as many labels as expected
    assert (w / (1 + np.exp(-a - x[:, 0]))).sum() == pytest.approx((w * positive).sum(), rel=1e-9)


def test_a_class_that_nobody_chose_has_no_estimate(data):
    counts = np.asarray(data.counts).copy()
    counts[:, 1] += counts[:, 2]
    counts[:, 2] = 0
    made = report(counts, data.prediction)
    for name in ("sensitivity", "auc", "calibration_slope"):
        assert np.isnan(of(made, name, "2")["estimate"])
    assert "not defined" in made.html
