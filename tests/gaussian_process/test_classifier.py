"""The Gaussian process classifier: counts, batches, seeds, classes, errors.

The sizes of blocks are private: they are made small, to cross their edges with few rows.
"""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from gaussian_process_cases import fixed, waves
from scipy.special import softmax
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Ensemble, PointMass, predict_dist
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.label_histogram import KnownProbabilities

# Counts, weights, order


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kwargs", [{}, {"n_inducing": 12}, {"n_inducing": 12, "batch_size": 20}])
def test_counts_are_repeated_rows_are_weights_and_order_does_not_matter(kwargs, n_classes):
    X, counts = waves(50, raters=4)
    if n_classes == 3:
        counts = np.column_stack([counts, np.random.default_rng(2).binomial(3, 0.4, 50)])
    gp = SparseGPClassifier("matern52", random_state=0, **kwargs)
    new = np.random.default_rng(1).uniform(-3, 3, (20, 2))
    expected = gp.fit(X, counts).predict_proba(new)
    rows, labels = np.repeat(np.arange(50), n_classes), np.tile(np.arange(n_classes), 50)
    repeated = np.repeat(np.arange(50 * n_classes), counts.ravel())
    np.testing.assert_allclose(
        gp.fit(X[rows][repeated], labels[repeated]).predict_proba(new), expected, atol=1e-7
    )
    weighted = gp.fit(X[rows], labels, sample_weight=counts.ravel())
    np.testing.assert_allclose(weighted.predict_proba(new), expected, atol=1e-7)
    order = np.random.default_rng(0).permutation(50)
    np.testing.assert_allclose(
        gp.fit(X[order], counts[order]).predict_proba(new), expected, atol=1e-7
    )


def test_known_probabilities_are_one_label_a_row():
    X, counts = waves(40, raters=4)
    gp = fixed()
    known = gp.fit(X, KnownProbabilities(counts / 4)).predict_proba(X)
    np.testing.assert_allclose(
        gp.fit(X, counts, sample_weight=np.full(40, 0.25)).predict_proba(X), known, atol=1e-9
    )


# Precision, batches, seeds


@pytest.mark.parametrize("polish", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "matern12"])
def test_float32_agrees_with_float64_to_a_millionth_of_a_nat_a_label(kernel, polish):
    X, counts = waves(600, raters=2)
    given = {"n_inducing": 40, "polish": polish, "tol": 1e-6}
    double, single = (
        fixed(kernel, dtype=dtype, **given).fit(X, counts) for dtype in ("float64", "float32")
    )
    np.testing.assert_allclose(single.elbo_[-1], double.elbo_[-1], atol=1e-6 * counts.sum())
    # One may stop an iteration before the other, where the bound is flat: 2e-4 was seen.
    np.testing.assert_allclose(single.predict_proba(X), double.predict_proba(X), atol=2e-3)


def test_float32_agrees_with_float64_for_three_classes():
    data = make_label_histograms(400, random_state=0)
    gp = SparseGPClassifier(n_inducing=40, random_state=0)
    double, single = (
        clone(gp).set_params(dtype=dtype).fit(data.X, data.counts)
        for dtype in ("float64", "float32")
    )
    assert single.alpha_epsilon_ == double.alpha_epsilon_
    np.testing.assert_allclose(single.elbo_[-1], double.elbo_[-1], rtol=1e-4)
    np.testing.assert_allclose(
        single.predict_proba(data.X), double.predict_proba(data.X), atol=2e-3
    )


def test_large_problems_are_in_float32_unless_tol_is_fine():
    X, counts = waves(200)
    single = SparseGPClassifier(n_inducing=20, dtype="float32", random_state=0).fit(X, counts)
    double = SparseGPClassifier(n_inducing=20, dtype="float64", random_state=0).fit(X, counts)
    assert single.elbo_[-1] != double.elbo_[-1]
    assert double.elbo_[-1] == fit_by_default(X, counts).elbo_[-1]
    labels, Z = SimpleNamespace(n=np.ones((1, 10**6))), np.zeros((100, 2))
    assert SparseGPClassifier()._precision(10**6, Z, labels) == torch.float32
    assert SparseGPClassifier(tol=1e-7)._precision(10**6, Z, labels) == torch.float64
    assert SparseGPClassifier()._precision(10**3, Z, labels) == torch.float64


def fit_by_default(X, counts, **kwargs):
    return SparseGPClassifier(n_inducing=20, random_state=0, **kwargs).fit(X, counts)


def test_learning_on_a_part_first_ends_where_learning_on_all_rows_does(monkeypatch):
    X, counts = waves(200)
    whole = SparseGPClassifier(n_inducing=25, random_state=0)
    monkeypatch.setattr("sklearn_lhcal.gaussian_process._hyperparameters._MANY", 100)
    expected = whole.fit(X, counts)
    monkeypatch.setattr("sklearn_lhcal.gaussian_process._hyperparameters._MANY", 5)
    found = clone(whole).fit(X, counts)
    # the search ends with a rise of 3e-5 of the bound
    assert found.elbo_[-1] == pytest.approx(expected.elbo_[-1], rel=3e-4)
    assert found.lengthscale_ != expected.lengthscale_


@pytest.mark.parametrize("n_classes", [2, 3])
def test_predictions_do_not_depend_on_the_other_rows(n_classes, monkeypatch):
    monkeypatch.setattr("sklearn_lhcal.gaussian_process._variational._BLOCK", 20 * 1000)
    data = make_label_histograms(80, n_classes=n_classes, random_state=0)
    gp = SparseGPClassifier(n_inducing=20, random_state=0).fit(data.X, data.counts)
    many = np.random.default_rng(0).normal(size=(3500, data.X.shape[1]))
    p = gp.predict_proba(many)
    np.testing.assert_allclose(gp.predict_proba(many[-5:]), p[-5:], atol=1e-10)
    np.testing.assert_allclose(gp.predict_proba(many[:1]), p[:1], atol=1e-10)


def test_blocks_add_up(monkeypatch):
    X, counts = waves(200)
    whole = fixed(n_inducing=20).fit(X, counts)
    monkeypatch.setattr("sklearn_lhcal.gaussian_process._variational._BLOCK", 20 * 17)
    blocks = fixed(n_inducing=20).fit(X, counts)
    np.testing.assert_allclose(blocks.elbo_, whole.elbo_, rtol=1e-10)
    np.testing.assert_allclose(blocks.predict_proba(X), whole.predict_proba(X), atol=1e-9)


def test_mini_batches_come_near_the_optimum():
    X, counts = waves(2000)
    exact = fixed(n_inducing=20).fit(X, counts)
    near = fixed(n_inducing=20, batch_size=200, tol=3e-4).fit(X, counts)
    assert near.n_iter_ < 8
    assert exact.elbo_[-1] - 1.0 < near.elbo_[-1] <= exact.elbo_[-1] + 1e-6
    np.testing.assert_allclose(near.predict_proba(X), exact.predict_proba(X), atol=0.02)


def test_much_data_is_taken_in_batches():
    """Of four rows for each inducing point; here they are asked for."""
    gp = SparseGPClassifier(n_inducing=10, random_state=0)
    assert gp._batch(10**6, 300) == 1200
    assert gp._batch(10**5, 300) is None
    X, counts = waves(500)
    gp.set_params(batch_size=40).fit(X, counts)
    assert gp.n_iter_ == 4  # an epoch, three exact passes
    assert gp.score(X, counts) > 0.75


@pytest.mark.parametrize("n_classes", [2, 3])
def test_seeds_are_honoured_and_global_states_untouched(n_classes):
    data = make_label_histograms(100, n_classes=n_classes, random_state=0)
    before = np.random.get_state()[1].copy(), torch.random.get_rng_state().clone()  # noqa: NPY002
    fits = [
        SparseGPClassifier(n_inducing=15, batch_size=30, random_state=seed).fit(data.X, data.counts)
        for seed in (0, 0, np.random.RandomState(0), 1)
    ]
    p = [gp.predict_proba(data.X) for gp in fits]
    np.testing.assert_array_equal(before[0], np.random.get_state()[1])  # noqa: NPY002
    assert torch.equal(before[1], torch.random.get_rng_state())
    np.testing.assert_array_equal(p[0], p[1])
    np.testing.assert_array_equal(p[0], p[2])
    np.testing.assert_array_equal(p[0], fits[0].predict_proba(data.X))
    assert not np.array_equal(p[0], p[3])


def test_callers_arrays_are_left_alone():
    X, counts = waves(30)
    w = np.ones(30)
    for a in (X, counts, w):
        a.flags.writeable = False
    SparseGPClassifier(n_inducing=10, random_state=0).fit(X, counts, sample_weight=w).predict_proba(
        X
    )


# More classes


@pytest.mark.slow
def test_draws_of_more_classes_are_normalised_and_nearly_integrate():
    data = make_label_histograms(100, n_classes=4, random_state=0)
    gp = SparseGPClassifier(random_state=0).fit(data.X, data.counts)
    d = gp.predict_dist(data.X)
    assert isinstance(d, Ensemble)
    assert d.proba.shape == (128, 100, 4)
    np.testing.assert_allclose(d.proba.sum(axis=2), 1, rtol=1e-12)
    mean, scale = gp._log_odds((data.X - gp._center) / gp._unit)
    g = mean.T + scale.T * np.random.default_rng(0).normal(size=(20_000, 1, 4))
    np.testing.assert_allclose(d.mean(), softmax(g, axis=2).mean(axis=0), atol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [3, 5])
def test_the_order_of_the_classes_does_not_matter(n_classes):
    data = make_label_histograms(80, n_classes=n_classes, random_state=0)
    new = np.random.default_rng(0).normal(size=(40, data.X.shape[1]))
    for learned in (False, True):
        gp = SparseGPClassifier(n_inducing=30, random_state=0, optimize_hyperparameters=learned)
        expected = gp.fit(data.X, data.counts).predict_dist(new).proba
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(n_classes)
            permuted = gp.fit(data.X, data.counts[:, order]).predict_dist(new).proba
            np.testing.assert_allclose(permuted, expected[:, :, order], atol=1e-6)


@pytest.mark.slow
def test_a_class_without_labels_is_unlikely_where_rows_are():
    X, counts = waves(80)
    never = SparseGPClassifier(random_state=0).fit(X, np.column_stack([counts, np.zeros(80)]))
    p = never.predict_proba(X)
    assert p[:, 2].max() < 0.1
    two = SparseGPClassifier(random_state=0).fit(X, counts).predict_proba(X)
    np.testing.assert_allclose(p[:, :2] / p[:, :2].sum(axis=1, keepdims=True), two, atol=0.15)


# A classifier among others


def test_predict_proba_is_the_mean_of_predict_dist():
    for n_classes in (2, 3):
        data = make_label_histograms(60, n_classes=n_classes, random_state=0)
        gp = SparseGPClassifier(n_inducing=20, random_state=0).fit(data.X, data.counts)
        np.testing.assert_allclose(
            gp.predict_proba(data.X), gp.predict_dist(data.X).mean(), atol=1e-12
        )
        np.testing.assert_array_equal(gp.predict(data.X), gp.predict_proba(data.X).argmax(axis=1))


@pytest.mark.slow
def test_it_lives_in_pipelines_and_searches_on_counts():
    data = make_label_histograms(120, n_classes=3, random_state=0)
    pipe = make_pipeline(
        StandardScaler(), PCA(3), SparseGPClassifier(n_inducing=20, random_state=0)
    )
    grid = {"sparsegpclassifier__kernel": ["rbf", "matern32"]}
    search = GridSearchCV(pipe, grid, scoring="neg_histogram_log_loss", cv=2).fit(
        data.X, data.counts
    )
    d = predict_dist(search, data.X)
    assert isinstance(d, Ensemble)
    np.testing.assert_allclose(d.mean(), search.predict_proba(data.X), atol=1e-12)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_named_classes_are_sorted_and_a_class_may_have_no_label():
    X, counts = waves(40)
    frame = pd.DataFrame({"yes": counts[:, 1], "never": 0, "no": counts[:, 0]})
    gp = SparseGPClassifier(random_state=0).fit(X, frame)
    assert gp.classes_.tolist() == ["never", "no", "yes"]
    assert set(gp.predict(X)) <= {"no", "yes"}
    assert gp.predict_proba(X)[:, 0].max() < 0.1


def test_one_class_is_certain():
    gp = SparseGPClassifier().fit([[0.0], [1.0]], ["a", "a"])
    assert isinstance(gp.predict_dist([[3.0]]), PointMass)
    assert gp.predict([[3.0]]).tolist() == ["a"]
    assert gp.score([[3.0], [4.0]], ["a", "a"]) == 1
    # a class that training never saw has probability 0
    assert gp.score([[3.0], [4.0]], ["a", "b"]) == 0.5


def test_rows_that_are_all_alike_are_one_point():
    gp = SparseGPClassifier().fit(np.ones((5, 2)), [0, 1, 1, 1, 1])
    assert gp.predict_proba([[1.0, 1.0]])[0, 1] == pytest.approx(0.8, abs=0.05)


def test_the_units_of_x_do_not_matter():
    X, counts = waves(80)
    a = SparseGPClassifier(n_inducing=30, random_state=0).fit(X, counts)
    b = SparseGPClassifier(n_inducing=30, random_state=0).fit(1000 * X + 7, counts)
    np.testing.assert_allclose(b.predict_proba(1000 * X + 7), a.predict_proba(X), atol=2e-3)
    assert b.lengthscale_ == pytest.approx(1000 * a.lengthscale_, rel=0.01)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"kernel": "linear"}, 'kernel must be "rbf"'),
        ({"dtype": "float16"}, 'dtype must be "auto"'),
        ({"n_inducing": 0}, "n_inducing must be an int of at least 1"),
        ({"max_iter": 1.5}, "max_iter must be an int"),
        ({"batch_size": "all"}, 'batch_size must be an int, "auto" or None'),
        ({"variance": 0.0}, "variance must be a finite number above 0"),
        ({"lengthscale": [1.0, np.nan]}, "lengthscale must be positive"),
        ({"device": "cuda:99"}, "device"),
    ],
)
def test_bad_parameters_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        SparseGPClassifier(**kwargs).fit(*waves(10))


def test_too_few_passes_are_said_to_be_too_few():
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        fixed(max_iter=2).fit(*waves(40, raters=5))
