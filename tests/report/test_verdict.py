"""One primary comparison decides the verdict, and every other number agrees with it in words."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.report import report

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def interval(made, name, subset="uncalibrated"):
    """Both ends of a number of all classes."""
    for m in made.data["numbers"]:
        if (m["quantity"], m["subset"], m["class_name"]) == (name, subset, None):
            return m["low"], m["high"]
    raise KeyError(name)


def expected_state(low, high):
    if low >= -0.02 and high <= 0.02:
        return "calibrated"
    if low > 0.02:
        return "overconfident"
    return "underconfident" if high < -0.02 else "inconclusive"


@pytest.mark.parametrize(
    ("n", "power", "state"),
    [
        (100, 3.0, "overconfident"),
        (60, 1.0, "inconclusive"),
        pytest.param(100, 0.4, "underconfident", marks=pytest.mark.slow),
        pytest.param(6000, 1.0, "calibrated", marks=pytest.mark.slow),
    ],
)
def test_the_interval_of_overconfidence_decides(n, power, state):
    """And the advice follows from the verdict and the log loss."""
    data = make_label_histograms(n, n_raters=2, random_state=0)
    z = np.asarray(data.prediction) ** power
    made = report(data.counts, z / z.sum(axis=1, keepdims=True))
    verdict, advice = made.data["verdict"]
    assert verdict["state"] == expected_state(*interval(made, "overconfidence")) == state
    low, high = interval(made, "log_loss", "difference")
    expected = "recalibrate" if high < 0 else "wait"
    if low > 0 or state == "calibrated":
        expected = "leave"
    assert advice["state"] == expected
    assert verdict["title"].lower() == state


@pytest.fixture(scope="module")
def studies():
    if not BENCHMARKS.exists():
        pytest.skip("a distribution has no benchmarks")
    sys.path.insert(0, str(BENCHMARKS))
    import reports

    sys.path.remove(str(BENCHMARKS))
    return reports


@pytest.mark.slow
@pytest.mark.parametrize("name", ["small", "guess", "single"])
def test_studies_with_known_truth(studies, name):
    """Two seeds of each study whose effects are far above their standard errors."""
    for label in ("overconfident", "underconfident"):
        for seed in range(2):
            rng = np.random.default_rng(seed)
            y, z, patients, _ = studies.draw(name, studies.POWERS[label], rng)
            made = report(y, z, groups=patients)
            assert made.data["verdict"][0]["state"] == label
            texts = [verdict["words"] for verdict in made.data["verdict"]]
            texts += [*made.data["reconciled"], *made.data["paragraphs"].values()]
            for text in texts:
                # sentences are apart, and none is cut
                assert not re.search(r"[a-z\])]\.[A-Z]|  |\{|None|\bnan\b", text), text
                assert text.endswith(".")
