"""One primary comparison decides the verdict, and every other number agrees with it in words."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from sklearn_lhcal.report._numbers import Number
from sklearn_lhcal.report._verdict import advice_state, confidence_state, error_state

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def number(low, high):
    return Number("", "", (low + high) / 2, low, high, 0.95, 100)


@pytest.mark.parametrize(
    ("low", "high", "state"),
    [
        (-0.01, 0.02, "calibrated"),
        # significant, and too small to matter
        (0.001, 0.019, "calibrated"),
        (0.001, 0.1, "overconfident"),
        (-0.1, -0.001, "underconfident"),
        (-0.01, 0.03, "inconclusive"),
        (np.nan, np.nan, "inconclusive"),
    ],
)
def test_the_interval_of_overconfidence_decides(low, high, state):
    assert confidence_state(number(low, high)) == state


def test_the_interval_of_the_excess_error_decides():
    ends = [(-0.1, -0.01), (-0.01, 0.04), (0.01, 0.04), (0.01, 0.1), (-0.1, 0.1)]
    states = [error_state(number(*end)) for end in ends]
    assert states == ["better", "as_good", "as_good", "worse", "inconclusive"]


def test_the_advice_follows_from_the_verdict_and_the_log_loss():
    better, unknown, worse = number(-0.2, -0.1), number(-0.1, 0.1), number(0.1, 0.2)
    assert advice_state("overconfident", better) == "recalibrate"
    assert advice_state("overconfident", unknown) == "wait"
    assert advice_state("overconfident", worse) == "leave"
    assert advice_state("calibrated", better) == "leave"


@pytest.fixture(scope="module")
def studies():
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
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
    from sklearn_lhcal.report import report

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
