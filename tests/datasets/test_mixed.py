"""make_mixed_images: what comes out is what went in, mixed; and fetch_dermamnist on loopback."""

import hashlib
import io

import numpy as np
import pytest
from loopback import left_in, serving
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

from sklearn_lhcal.datasets import fetch_dermamnist, load_mixed_digits, make_mixed_images
from sklearn_lhcal.label_histogram import KnownProbabilities

NAME = "dermamnist.npz"
ROWS = {"train": 7_007, "val": 1_003, "test": 2_005}


@pytest.fixture(scope="module")
def images():
    digits = load_digits()
    return digits.images[:403], digits.target[:403]


def test_rows_are_mixtures_of_what_they_say(images):
    X, y = images
    data = make_mixed_images(X, y, 3, random_state=0)
    a, b = data.indices.T
    r = data.ratio[:, None, None]
    assert_allclose(data.X, r * X[a] + (1 - r) * X[b], rtol=1e-12)
    Q = data.ratio[:, None] * np.eye(10)[y[a]] + (1 - data.ratio[:, None]) * np.eye(10)[y[b]]
    assert_allclose(data.proba, Q, rtol=1e-12)
    assert_array_equal(data.counts.sum(axis=1), 3)
    assert not data.counts[data.proba == 0].any()
    assert_array_equal(data.classes, np.arange(10))


@pytest.mark.parametrize(("mixed", "pairs"), [(0.0, 0), (0.5, 100), (1.0, 201)])
def test_each_image_is_used_once(images, mixed, pairs):
    data = make_mixed_images(*images, mixed=mixed, random_state=0)
    whole = data.indices[:, 0] == data.indices[:, 1]
    assert (~whole).sum() == pairs
    assert len(data.X) == 403 - pairs
    used = np.concatenate([data.indices[:, 0], data.indices[~whole, 1]])
    assert_array_equal(np.sort(used), np.arange(403))
    assert (data.ratio[whole] == 1).all()
    assert (data.ratio[~whole] < 1).all()


def test_a_third_of_the_rows_is_mixed_as_in_the_digits():
    """The same way as load_mixed_digits, whose parts are mixed by themselves."""
    digits = load_mixed_digits()
    share = (digits.ratio_train < 1).mean()
    data = make_mixed_images(*load_digits(return_X_y=True), random_state=0)
    assert (
        (data.ratio < 1).mean() == pytest.approx(1 / 3, abs=1e-3) == pytest.approx(share, abs=2e-3)
    )


def test_ratios_are_uniform_and_labels_follow_them():
    """Within four standard errors."""
    X = np.zeros((8_000, 1))
    y = np.arange(8_000) % 2
    data = make_mixed_images(X, y, 2, mixed=1.0, random_state=0)
    for power in (1, 2):
        error = data.ratio**power - 1 / (power + 1)
        assert abs(error.mean()) < 4 * error.std() / np.sqrt(len(error))
    error = data.counts[:, 0] / 2 - data.proba[:, 0]
    assert abs(error.mean()) < 4 * error.std() / np.sqrt(len(error))


def test_the_seed_decides_and_raters_change_labels_alone(images):
    one, again, more = (make_mixed_images(*images, n, random_state=0) for n in (1, 1, (2, 5)))
    assert_array_equal(one.counts, again.counts)
    for name in ("X", "proba", "indices", "ratio"):
        assert_array_equal(one[name], again[name])
        assert_array_equal(one[name], more[name])
    assert set(more.counts.sum(axis=1)) == {2, 3, 4, 5}
    other = make_mixed_images(*images, random_state=1)
    assert (other.indices != one.indices).any()


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("uint8", "float32"), ("float32", "float32"), ("float64", "float64"), ("int64", "float64")],
)
def test_small_images_stay_small(images, dtype, expected):
    X, y = images
    before = X.astype(dtype)
    data = make_mixed_images(before, y, random_state=0)
    assert data.X.dtype == expected
    assert_array_equal(before, X.astype(dtype))
    whole = data.ratio == 1
    assert_array_equal(data.X[whole], before[data.indices[whole, 0]])


def test_names_and_known_probabilities(images):
    X, y = images
    named = make_mixed_images(X, np.array(list("abcdefghij"))[y], random_state=0)
    assert named.classes.tolist() == list("abcdefghij")
    Q = np.full((403, 2), [0.25, 0.75])
    known = make_mixed_images(X, KnownProbabilities(Q), random_state=0)
    assert_allclose(known.proba, [[0.25, 0.75]] * len(known.X), rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"mixed": 1.5}, "mixed must be a number from 0 to 1"),
        ({"mixed": "half"}, "mixed must be a number"),
        ({"n_raters": 0}, "number of raters must be a positive integer"),
        ({"X": np.array([["a"], ["b"]])}, "X must hold numbers"),
        ({"X": np.zeros((3, 2))}, "3"),
    ],
)
def test_wrong_arguments(change, match):
    with pytest.raises(ValueError, match=match):
        make_mixed_images(**({"X": np.zeros((2, 1)), "y": [0, 1]} | change))


# ------------------------------------------------------------------------------- DermaMNIST


def npz(**changes):
    rng = np.random.default_rng(0)
    arrays = {}
    for part, n in ROWS.items():
        arrays[f"{part}_images"] = rng.integers(256, size=(n, 28, 28, 3), dtype=np.uint8)
        arrays[f"{part}_labels"] = rng.integers(7, size=(n, 1), dtype=np.uint8)
    file = io.BytesIO()
    np.savez(file, **(arrays | changes))
    return file.getvalue(), arrays


@pytest.fixture
def loopback(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def test_dermamnist_is_downloaded_once(loopback, tmp_path):
    content, arrays = npz()
    digest = hashlib.sha256(content).hexdigest()
    with serving(content) as (url, asked):
        data = fetch_dermamnist(data_home=tmp_path, base_url=url, checksum=digest)
    assert asked == [f"/data/{NAME}"]
    again = fetch_dermamnist(data_home=tmp_path, download_if_missing=False, checksum=digest)
    for part in ROWS:
        assert_array_equal(data[f"images_{part}"], arrays[f"{part}_images"])
        assert_array_equal(again[f"target_{part}"], arrays[f"{part}_labels"].ravel())
        assert data[f"target_{part}"].dtype == np.int64
    assert len(data.target_names) == 7
    assert "CC BY-NC 4.0" in data.DESCR


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        (
            {"val_images": np.zeros((1_003, 28, 28), dtype=np.uint8)},
            "val_images are no 1003 images",
        ),
        ({"test_labels": np.full((2_005, 1), 7)}, "test_labels are no 2005 classes"),
    ],
)
def test_another_file_is_refused(loopback, tmp_path, changes, match):
    """By its digest; and by what it holds where the user vouches for the digest."""
    content, _ = npz(**changes)
    digest = hashlib.sha256(content).hexdigest()
    with serving(content) as (url, _):
        with pytest.raises(OSError, match="another file"):
            fetch_dermamnist(data_home=tmp_path, base_url=url)
        with pytest.raises(OSError, match=match):
            fetch_dermamnist(data_home=tmp_path, base_url=url, checksum=digest)
    assert left_in(tmp_path) == []


def test_an_archive_that_unpacks_to_much_is_refused(loopback, tmp_path):
    """64 MB of zeros take 64 kB; nothing of them is unpacked."""
    file = io.BytesIO()
    np.savez_compressed(file, train_images=np.zeros(64_000_000, dtype=np.uint8))
    digest = hashlib.sha256(file.getvalue()).hexdigest()
    with serving(file.getvalue()) as (url, _), pytest.raises(OSError, match="unpacks to more than"):
        fetch_dermamnist(data_home=tmp_path, base_url=url, checksum=digest)
    assert left_in(tmp_path) == []


def test_what_is_no_archive_is_refused(loopback, tmp_path):
    content = b"nothing"
    digest = hashlib.sha256(content).hexdigest()
    with serving(content) as (url, _), pytest.raises(OSError, match="file of DermaMNIST"):
        fetch_dermamnist(data_home=tmp_path, base_url=url, checksum=digest)
    with pytest.raises(OSError, match="Data not found"):
        fetch_dermamnist(data_home=tmp_path, download_if_missing=False)
