"""Images that benchmarks fetch, from stand-ins in the form that the network gives them."""

import runpy
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "papers"
if not BENCHMARKS.exists():
    pytest.skip("a distribution has no benchmarks", allow_module_level=True)


def loader(program, **stand_ins):
    """Its function `images`, with other functions in place of those that fetch."""
    images = runpy.run_path(str(BENCHMARKS / program))["images"]
    images.__globals__.update(stand_ins)
    return images


@pytest.mark.parametrize(("data", "n_classes"), [("emnist", 47), ("kuzushiji", 49)])
def test_letters_of_openml(data, n_classes):
    """Pixels are integers there, and classes strings."""
    rng = np.random.default_rng(0)
    pixels, numbers = rng.integers(0, 256, size=(70, 784)), rng.integers(0, n_classes, size=70)
    asked = []

    def fetch_openml(name, **options):
        asked.append((name, options))
        return pixels, numbers.astype(str).astype(object)

    X, odd = loader("epistemic_letters.py", fetch_openml=fetch_openml)(data, 60)
    kept = np.random.default_rng(0).permutation(70)[:60]
    assert X.shape == (60, 50)
    assert np.isclose(X.std(axis=0).max(), 1)
    np.testing.assert_array_equal(odd, numbers[kept] % 2)
    name = {"emnist": "EMNIST_Balanced", "kuzushiji": "Kuzushiji-49"}[data]
    assert asked == [(name, {"version": 1, "return_X_y": True, "as_frame": False})]


def test_lesions():
    """Colours come first, and all three parts are taken."""
    rng = np.random.default_rng(0)
    sizes = {"train": 5, "val": 2, "test": 3}
    fetched = {
        f"images_{p}": rng.integers(0, 256, (n, 28, 28, 3), np.uint8) for p, n in sizes.items()
    }
    fetched |= {f"target_{p}": rng.integers(0, 7, n) for p, n in sizes.items()}
    X, y = loader("training_study.py", fetch_dermamnist=lambda: fetched)("dermamnist")
    assert X.shape == (10, 3, 28, 28)
    assert X.dtype == np.float32
    np.testing.assert_allclose(X[6, 2], fetched["images_val"][1, :, :, 2] / 255, rtol=1e-6)
    np.testing.assert_array_equal(y[5:7], fetched["target_val"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of few samples and one epoch
def test_the_comparison_of_devices_runs_on_the_cpu(monkeypatch):
    """It compares the CPU with itself: the same results."""
    monkeypatch.syspath_prepend(str(BENCHMARKS.parent))
    compared = runpy.run_path(str(BENCHMARKS.parent / "gpu.py"))["compared"]
    lines = compared("cpu", 200, 1)
    assert len(lines) == 5
    for name, *seconds, apart in lines:
        assert min(seconds) >= 0, name
        assert apart == 0, name
