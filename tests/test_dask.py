"""Accumulators over partitions: the partitions do not matter, nor who sums them."""

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
    LabelHistogramAccumulator,
    MetricAccumulator,
    calibration_error,
    get_scorer,
    loss_decomposition,
)

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
dask = pytest.importorskip("dask")

from sklearn_lhcal.dask import accumulate  # noqa: E402  after the skips

CLASSES = ["b", "a", "c"]


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
@pytest.mark.parametrize("split_every", [2, 8])
def test_any_partition(data, rows, split_every):
    with dask.config.set(scheduler="synchronous"):
        found = accumulate(*arrays(data, rows), split_every=split_every)
    assert_same(found.result(), loss_decomposition(data.counts, data.prediction))


def test_weights_and_options(data):
    w = np.random.default_rng(0).random(1000)
    own = LabelHistogramAccumulator(7, bias_correction="label")
    with dask.config.set(scheduler="threads"):
        weights = da.from_array(w, chunks=(200,))
        found = accumulate(*arrays(data, 200), sample_weight=weights, accumulator=own)
    expected = loss_decomposition(
        data.counts, data.prediction, sample_weight=w, n_bins=7, bias_correction="label"
    )
    assert_same(found.result(), expected)
    # what was passed in stays empty, and may be used again
    assert own.update(data.counts[:9], data.prediction[:9]).result().n_rows <= 9


def test_frames_meet_by_name(data):
    counts = pd.DataFrame(data.counts, columns=CLASSES)
    proba = pd.DataFrame(data.prediction, columns=CLASSES)[sorted(CLASSES)]
    y, z = (dd.from_pandas(frame, npartitions=5) for frame in (counts, proba))
    with dask.config.set(scheduler="synchronous"):
        found = accumulate(y, z).result()
    assert found.epistemic_loss == pytest.approx(
        loss_decomposition(data.counts, data.prediction).epistemic_loss, rel=1e-10
    )


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
def test_on_a_cluster_of_two(cluster, data):
    found = accumulate(*arrays(data, 100))
    assert_same(found.result(), loss_decomposition(data.counts, data.prediction))


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


def test_any_metric_and_groups(data):
    """A group has rows in several partitions."""
    groups = np.random.default_rng(0).integers(0, 90, 1000)
    with dask.config.set(scheduler="synchronous"):
        found = accumulate(
            *arrays(data, 300),
            groups=da.from_array(groups, chunks=300),
            accumulator=MetricAccumulator(calibration_error),
        )
    assert found.result().estimate == pytest.approx(
        calibration_error(data.counts, data.prediction, groups=groups), rel=1e-10
    )


def test_errors(data):
    y, z = arrays(data, 300)
    with pytest.raises(ValueError, match="as many partitions"):
        accumulate(y, z.rechunk((1000, -1)))
    with pytest.raises(ValueError, match="rechunk"):
        accumulate(y, z.rechunk((300, 1)))
    with pytest.raises(ValueError, match="dask array"):
        accumulate(data.counts, z)
    with pytest.raises(ValueError, match="split_every"):
        accumulate(y, z, split_every=1)
