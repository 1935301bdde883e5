"""Partitions of Dask: the recipe of the guide, on schedulers of one machine and on a cluster."""

import runpy
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.ensemble import DeepEnsembleClassifier
from sklearn_lhcal.label_histogram import LabelHistogramClassifier
from sklearn_lhcal.metrics import (
    MetricAccumulator,
    calibration_error,
    epistemic_loss,
    get_scorer,
    loss_decomposition,
)

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
dask = pytest.importorskip("dask")

RECIPE = Path(__file__).parents[2] / "doc" / "guide" / "dask_recipe.py"
CLASSES = ["b", "a", "c"]


@pytest.fixture(scope="module")
def accumulate():
    if not RECIPE.exists():
        pytest.skip("a distribution has no guide")
    return runpy.run_path(str(RECIPE))["accumulate"]


@pytest.fixture(scope="module")
def data():
    return make_label_histograms(1000, n_raters=(1, 5), overconfidence=2.0, random_state=0)


def arrays(data, rows):
    return (
        da.from_array(data.counts, chunks=(rows, -1)),
        da.from_array(data.prediction, chunks=(rows, -1)),
    )


def assert_same(result, expected):
    for name, value, wanted in zip(result._fields, result, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-10, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("rows", [1000, 300, 7])
@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_any_partition(accumulate, data, rows, scheduler):
    with dask.config.set(scheduler=scheduler):
        found = accumulate(MetricAccumulator(loss_decomposition), *arrays(data, rows))
    assert_same(found.result(), loss_decomposition(data.counts, data.prediction))


def test_weights_and_options(accumulate, data):
    w = np.random.default_rng(0).random(1000)
    options = {"n_bins": 7, "bias_correction": "label"}
    own = MetricAccumulator(calibration_error, **options)
    with dask.config.set(scheduler="threads"):
        found = accumulate(own, *arrays(data, 200), da.from_array(w, chunks=(200,)))
    expected = calibration_error(data.counts, data.prediction, sample_weight=w, **options)
    assert found.result().estimate == pytest.approx(expected, rel=1e-10)
    # what was passed in stays empty, and may be used again
    assert (own.n_rows, found.n_rows) == (0, 1000)


def test_frames_meet_by_name(accumulate, data):
    counts = pd.DataFrame(data.counts, columns=CLASSES)
    proba = pd.DataFrame(data.prediction, columns=CLASSES)[sorted(CLASSES)]
    frames = (dd.from_pandas(frame, npartitions=5) for frame in (counts, proba))
    with dask.config.set(scheduler="synchronous"):
        found = accumulate(MetricAccumulator(epistemic_loss), *frames)
    expected = epistemic_loss(data.counts, data.prediction)
    assert found.result().estimate == pytest.approx(expected, rel=1e-10)


def test_partitions_that_do_not_match(accumulate, data):
    y, z = arrays(data, 300)
    for other in (z.rechunk((1000, -1)), z.rechunk((300, 1))):
        with pytest.raises(ValueError, match="zip"):
            accumulate(MetricAccumulator(epistemic_loss), y, other)


@pytest.fixture(scope="module")
def cluster():
    """Two workers on loopback."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(host="127.0.0.1", **options) as local,
        distributed.Client(local) as client,
    ):
        yield client


@pytest.mark.slow
def test_on_a_cluster_of_two(cluster, accumulate, data):
    """Its total, and its interval, are those of one machine."""
    y, z = arrays(data, 100)
    found = accumulate(MetricAccumulator(loss_decomposition), y, z)
    assert_same(found.result(), loss_decomposition(data.counts, data.prediction))
    assert len(cluster.scheduler_info()["workers"]) == 2
    found = accumulate(MetricAccumulator(epistemic_loss), y, z)
    here = MetricAccumulator(epistemic_loss).update(data.counts, data.prediction)
    np.testing.assert_allclose(found.result(), here.result(), rtol=1e-10)


@pytest.mark.slow
def test_jobs_of_joblib_on_a_cluster_of_two(cluster, data):
    """A search, and an ensemble, give what they give without it."""
    X, counts = np.log(data.prediction[:200]), data.counts[:200]
    classifier = LabelHistogramClassifier(LogisticRegression())
    scorer = get_scorer("neg_expected_squared_loss")
    search = GridSearchCV(classifier, {"estimator__C": [0.01, 1.0]}, scoring=scorer, cv=2)
    ensemble = DeepEnsembleClassifier(LogisticRegression(), n_estimators=2, random_state=0)
    labels = counts.argmax(axis=1)

    def results(n_jobs):
        found = clone(search).set_params(n_jobs=n_jobs).fit(X, counts)
        fitted = clone(ensemble).set_params(n_jobs=n_jobs).fit(X, labels)
        return found.cv_results_["mean_test_score"], fitted.predict_dist(X).proba

    with joblib.parallel_config(backend="dask"):
        there = results(2)
    for far, near in zip(there, results(None), strict=True):
        np.testing.assert_allclose(far, near, rtol=1e-10)
