"""Partitions on another engine: the recipe of the guide for Spark, with and without it."""

import os
import runpy
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_lhcal.calibration import TemperatureScaling
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import predict_dist
from sklearn_lhcal.metrics import MetricAccumulator, loss_decomposition

pd = pytest.importorskip("pandas")

RECIPE = Path(__file__).parents[2] / "doc" / "guide" / "spark_recipe.py"
COUNTS = ["y0", "y1", "y2"]
PROBA = ["p0", "p1", "p2"]


@pytest.fixture(scope="module")
def recipe():
    if not RECIPE.exists():
        pytest.skip("a distribution has no guide")
    return runpy.run_path(str(RECIPE))


@pytest.fixture(scope="module")
def table():
    data = make_label_histograms(300, n_raters=(1, 5), random_state=0)
    frame = pd.DataFrame(np.hstack([data.counts, data.prediction]), columns=COUNTS + PROBA)
    return frame.astype(dict.fromkeys(COUNTS, int)).assign(row=np.arange(300))


def assert_decomposition(found, table):
    expected = loss_decomposition(table[COUNTS].to_numpy(), table[PROBA].to_numpy())
    for part, wanted in zip(found.result(), expected, strict=True):
        np.testing.assert_allclose(part, wanted, rtol=1e-10, atol=1e-14)


class Row(dict):
    """What Spark hands to the driver."""


class Partitions:
    """A table of frames, as Spark hands them to `mapInPandas`: in partitions, and in batches."""

    def __init__(self, frame):
        self.partitions = [[frame[:80], frame[80:90]], [], [frame[90:]]]

    def mapInPandas(self, function, schema):
        self.rows = [r for p in self.partitions for f in function(p) for r in f.to_dict("records")]
        return self

    def toLocalIterator(self):
        return map(Row, self.rows)


def model():
    X = np.random.default_rng(0).normal(size=(60, 2))
    return TemperatureScaling(LogisticRegression()).fit(X, X[:, 0] > 0), X


def test_the_recipe_without_spark(recipe, table):
    """An empty partition adds nothing."""
    empty = MetricAccumulator(loss_decomposition)
    found = recipe["accumulate"](Partitions(table), empty, COUNTS, PROBA)
    assert_decomposition(found, table)
    fitted, X = model()
    rows = pd.DataFrame(X, columns=["a", "b"]).assign(row=np.arange(60))
    score = recipe["scores_of"](fitted, ["a", "b"], "row")
    scored = pd.concat(score([rows[:7], rows[7:]]))
    np.testing.assert_array_equal(scored["row"], rows["row"])
    expected = predict_dist(fitted, X).disagreement()
    np.testing.assert_allclose(scored["disagreement"], expected, rtol=1e-12)


@pytest.mark.slow
# Spark's own, of old pandas and of sockets
@pytest.mark.filterwarnings("ignore")
def test_the_recipe_on_spark(recipe, table):
    """A local session of two threads."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs a Java runtime")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    try:
        parts = spark.createDataFrame(table).repartition(3)
        empty = MetricAccumulator(loss_decomposition)
        assert_decomposition(recipe["accumulate"](parts, empty, COUNTS, PROBA), table)
        fitted, X = model()
        rows = pd.DataFrame(X, columns=["a", "b"]).assign(row=np.arange(60))
        score = recipe["scores_of"](fitted, ["a", "b"], "row")
        schema = "row long, decision long, disagreement double"
        scored = spark.createDataFrame(rows).mapInPandas(score, schema).toPandas()
        scored = scored.sort_values("row")
        expected = predict_dist(fitted, X).disagreement()
        np.testing.assert_allclose(scored["disagreement"], expected, rtol=1e-12)
    finally:
        spark.stop()
