"""fetch_cifar10h: against a server on loopback, and with files that are there already.

Nothing leaves this machine.

The module of the files is private: its checksums are set to those of the files served here.
"""

import io
import threading
import time
from http.client import HTTPResponse
from pathlib import Path

import numpy as np
import pytest
from loopback import left_in, serving, sha256

from sklearn_lhcal import datasets
from sklearn_lhcal.datasets import _published_images, fetch_cifar10h

NAME = "cifar10h-counts.npy"
REAL = Path(__file__).parents[3] / "shared" / "data" / "cifar10h_first5000.npz"


def as_file(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


@pytest.fixture(scope="module")
def made():
    """Counts of the right form."""
    rng = np.random.default_rng(0)
    return rng.multinomial(
        rng.integers(47, 64, size=10_000), rng.dirichlet(np.full(10, 0.1), size=10_000)
    )


@pytest.fixture
def counts(made, monkeypatch):
    """The same, published."""
    monkeypatch.setattr(
        _published_images, "_CIFAR10H_FIRST_HALF", sha256(made[:5000].astype("<i8").tobytes())
    )
    monkeypatch.setattr(_published_images, "_CIFAR10H_SHA256", sha256(as_file(made)))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return made


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


# --------------------------------------------------------------------------------------------------
# ----- downloads


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("dtype", ["int64", "float64", ">i4", "uint8"])
def test_download_is_kept_as_it_came(counts, home, slash, dtype):
    content = as_file(counts.astype(dtype))
    with serving(content) as (url, asked):
        people = fetch_cifar10h(data_home=home, base_url=url + slash, checksum=sha256(content))
    assert asked == [f"/data/{NAME}"]
    assert left_in(home) == [NAME]
    assert (home / NAME).read_bytes() == content
    np.testing.assert_array_equal(people.counts, counts)
    assert people.counts.dtype == np.int64
    assert people.counts.flags.writeable


def test_bunch_says_what_it_holds_and_under_which_licence(counts, home):
    with serving(as_file(counts)) as (url, _):
        people = fetch_cifar10h(data_home=home, base_url=url)
    assert set(people) == {"counts", "target_names", "DESCR"}
    names = "airplane automobile bird cat deer dog frog horse ship truck"  # the order of CIFAR-10
    assert people.target_names.tolist() == names.split()
    for words in ("CC BY-NC-SA 4.0", "github.com/jcpeterson/cifar-10h", "Peterson", "2019"):
        assert words in people.DESCR


def test_what_is_there_is_not_asked_for_again(counts, home):
    with serving(as_file(counts)) as (url, asked):
        first = fetch_cifar10h(data_home=home, base_url=url)
        again = fetch_cifar10h(data_home=home, base_url=url)
        never = fetch_cifar10h(data_home=home, base_url=url, download_if_missing=False)
    assert len(asked) == 1
    for people in (again, never):
        np.testing.assert_array_equal(people.counts, first.counts)


def test_data_home_is_that_of_sklearn(counts, home, monkeypatch):
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(home))
    with serving(as_file(counts)) as (url, _):
        fetch_cifar10h(base_url=url)
    assert left_in(home) == [NAME]


@pytest.mark.parametrize("said", [None, "nothing"])
@pytest.mark.parametrize("upper", [False, True])
def test_right_checksum(counts, home, said, upper):
    content = as_file(counts)
    checksum = sha256(content).upper() if upper else sha256(content)
    with serving(content, said=said) as (url, asked):
        for _ in range(2):
            fetch_cifar10h(data_home=home, base_url=url, checksum=checksum)
    assert len(asked) == 1


def test_from_a_folder(counts, tmp_path, home):
    (tmp_path / NAME).write_bytes(as_file(counts))
    people = fetch_cifar10h(data_home=home, base_url=tmp_path.as_uri())
    np.testing.assert_array_equal(people.counts, counts)
    assert left_in(home) == [NAME]


# --------------------------------------------------------------------------------------------------
# -------- errors


def change(counts, row, column, value):
    changed = counts.astype(float)
    changed[row, column] = value
    return changed


WRONG = {
    "rows are missing": (lambda c: c[:9999], r"shape \(10000, 10\)"),
    "a column is missing": (lambda c: c[:, :9], r"shape \(10000, 10\)"),
    "probabilities": (lambda c: c / c.sum(axis=1, keepdims=True), "no whole numbers"),
    "half of the samples": (lambda c: c[:5000], r"shape \(10000, 10\)"),
    "text": (lambda c: c.astype("S2"), "no array of numbers"),
    "NaN": (lambda c: change(c, 7000, 0, np.nan), "no whole numbers"),
    "infinite": (lambda c: change(c, 7000, 0, np.inf), "no whole numbers"),
    "negative": (lambda c: change(c, 7000, 0, -1), "negative"),
    "too few raters": (lambda c: c // 2, "to 31 raters, expected about 51"),
    "too many raters": (lambda c: change(c, 7000, 0, 900), "raters, expected about 51"),
    "another order of the samples": (lambda c: c[::-1], "first 5,000 samples"),
    "another order of the classes": (lambda c: c[:, ::-1], "first 5,000 samples"),
}


@pytest.mark.parametrize("how", WRONG)
def test_wrong_content_is_an_error_and_leaves_nothing(counts, home, how):
    wrong, message = WRONG[how]
    content = as_file(wrong(counts))
    with serving(content) as (url, _), pytest.raises(OSError, match=f"file at {url}.*{message}"):
        fetch_cifar10h(data_home=home, base_url=url, checksum=sha256(content))
    assert left_in(home) == []


def test_a_file_that_would_run_code_is_not_loaded(counts, home):
    content = as_file(np.array([print] * 3, dtype=object), allow_pickle=True)
    with serving(content) as (url, _), pytest.raises(OSError, match=r"no \.npy file"):
        fetch_cifar10h(data_home=home, base_url=url, checksum=sha256(content))
    assert left_in(home) == []


@pytest.mark.parametrize("content", [b"", b"<html>Sign in to the network</html>"])
def test_something_else_than_an_array_is_an_error(counts, home, content):
    with serving(content) as (url, _), pytest.raises(OSError, match=r"truncated or no \.npy file"):
        fetch_cifar10h(data_home=home, base_url=url, checksum=sha256(content))
    assert left_in(home) == []


def test_an_archive_of_arrays_is_an_error(counts, home):
    file = io.BytesIO()
    np.savez(file, counts=counts)
    content = file.getvalue()
    with serving(content) as (url, _), pytest.raises(OSError, match="no array of numbers"):
        fetch_cifar10h(data_home=home, base_url=url, checksum=sha256(content))


def test_wrong_checksum_is_an_error_and_leaves_nothing(counts, home):
    content = as_file(counts)
    with (
        serving(content) as (url, _),
        pytest.raises(OSError, match=f"checksum {sha256(content)}, expected {'0' * 64}"),
    ):
        fetch_cifar10h(data_home=home, base_url=url, checksum="0" * 64)
    assert left_in(home) == []


@pytest.mark.parametrize("part", [0.0, 1e-5, 0.5, 0.99])
@pytest.mark.parametrize("told", [True, False])
def test_truncated_download_is_an_error_and_leaves_nothing(counts, home, part, told):
    content = as_file(counts)
    sent, said = content[: int(part * len(content))], len(content) if told else "nothing"
    message = f"truncated: {len(sent)} of {said} bytes" if told else "truncated, or another file"
    with serving(sent, said=said) as (url, _), pytest.raises(OSError, match=message):
        fetch_cifar10h(data_home=home, base_url=url)
    assert left_in(home) == []


@pytest.mark.parametrize("status", [404, 500])
def test_refusal_says_what_to_do(counts, home, status):
    with serving(b"", status=status) as (url, _), pytest.raises(OSError) as error:
        fetch_cifar10h(data_home=home, base_url=url)
    for words in (str(status), f"{url}/{NAME}", str(home / NAME), "put it at"):
        assert words in str(error.value)
    assert left_in(home) == []


@pytest.mark.slow
def test_a_server_whose_headers_trickle_is_given_up(counts, home):
    """Each letter comes in time, and the header never ends."""
    begin = time.monotonic()
    with (
        serving(as_file(counts), header="X" * 100) as (url, _),
        pytest.raises(OSError, match="timed out after"),
    ):
        fetch_cifar10h(data_home=home, base_url=url, timeout=0.2)
    assert time.monotonic() - begin < 5
    assert left_in(home) == []


def test_no_server_says_what_to_do(counts, home):
    with serving(b"") as (url, _):
        pass  # and gone
    with pytest.raises(OSError) as error:
        fetch_cifar10h(data_home=home, base_url=url)
    for words in ("Could not download", f"{url}/{NAME}", str(home / NAME), "put it at"):
        assert words in str(error.value)
    assert left_in(home) == []


def test_silent_server_is_given_up(counts, home):
    pause = threading.Event()
    with serving(b"", pause=pause) as (url, _):
        with pytest.raises(OSError, match="timed out"):
            fetch_cifar10h(data_home=home, base_url=url, timeout=0.1)
        pause.set()
    assert left_in(home) == []


def test_interruption_leaves_nothing(counts, home, monkeypatch):
    """After a first part has come."""
    read, sizes = HTTPResponse.read1, []

    def interrupted(response, size):
        if sizes:
            raise KeyboardInterrupt
        sizes.append(size)
        return read(response, size)

    monkeypatch.setattr(HTTPResponse, "read1", interrupted)
    with serving(as_file(counts)) as (url, _), pytest.raises(KeyboardInterrupt):
        fetch_cifar10h(data_home=home, base_url=url)
    assert left_in(home) == []


def test_nothing_is_downloaded_unless_wanted(counts, home):
    message = "Data not found and `download_if_missing` is False"
    with serving(as_file(counts)) as (url, asked), pytest.raises(OSError, match=message) as error:
        fetch_cifar10h(data_home=home, base_url=url, download_if_missing=False)
    assert not asked
    assert str(home / NAME) in str(error.value)


# ----------------------------------------------------------------------------------------- files
# that are there


@pytest.mark.parametrize("fault", ["truncated", "content", "checksum"])
def test_a_wrong_file_that_is_there_is_an_error_and_stays(counts, home, fault):
    content = as_file({"truncated": counts, "content": counts[::-1], "checksum": counts}[fault])
    content = content[:1000] if fault == "truncated" else content
    home.mkdir()
    (home / NAME).write_bytes(content)
    checksum = "0" * 64 if fault == "checksum" else None
    with (
        serving(as_file(counts)) as (url, asked),
        pytest.raises(OSError, match="remove it to download it again"),
    ):
        fetch_cifar10h(data_home=home, base_url=url, checksum=checksum)
    assert not asked
    assert (home / NAME).read_bytes() == content


@pytest.mark.skipif(
    not REAL.exists(), reason="the file of CIFAR-10H samples is not beside the project"
)
def test_the_published_first_half_is_known(made, home):
    counts = np.concatenate([np.load(REAL)["counts"], made[5000:]])
    home.mkdir()

    def fetch():
        checksum = sha256((home / NAME).read_bytes())
        return fetch_cifar10h(data_home=home, download_if_missing=False, checksum=checksum)

    np.save(home / NAME, counts)
    np.testing.assert_array_equal(fetch().counts, counts)
    counts[0] = counts[0, ::-1]
    np.save(home / NAME, counts)
    with pytest.raises(OSError, match="first 5,000 samples"):
        fetch()


def test_the_package_holds_no_row_of_it():
    """Its licence is not ours."""
    folder = Path(datasets.__file__).parent.parent
    assert not [path for kind in ("*.npy", "*.npz", "*.csv") for path in folder.rglob(kind)]


# -------------------------------------------------------------------------------------------------
# what is pinned


def test_the_published_file_is_pinned():
    """Its commit, and its digest, which the folder of data beside the project states."""
    assert "/48da312b193b82e6939ec20f23d1f09cbdd849c8/" in _published_images._CIFAR10H_URL
    digest = "9b36b4550349af56c79083356312eb4af856cc5fd3caf1f669d40b9d0bbb69ff"
    assert digest == _published_images._CIFAR10H_SHA256


@pytest.mark.parametrize("row", [0, 7000])
def test_one_changed_count_is_another_file(counts, home, row):
    """Also in the half that no digest of rows vouches for."""
    changed = counts.copy()
    changed[row] = changed[row, ::-1]
    with serving(as_file(changed)) as (url, _), pytest.raises(OSError, match="another file"):
        fetch_cifar10h(data_home=home, base_url=url)
    assert left_in(home) == []


@pytest.mark.parametrize("said", [None, "nothing", "many"])
def test_a_file_that_does_not_end_is_given_up(counts, home, monkeypatch, said):
    monkeypatch.setattr(_published_images, "_LARGEST_CIFAR10H", 1_000_000)
    content = bytes(3_000_000)
    with (
        serving(content, said=said) as (url, _),
        pytest.raises(OSError, match="more than 1000000 bytes"),
    ):
        fetch_cifar10h(data_home=home, base_url=url)
    assert left_in(home) == []


def test_a_large_file_that_is_there_is_not_read(counts, home, monkeypatch):
    monkeypatch.setattr(_published_images, "_LARGEST_CIFAR10H", 1_000)
    home.mkdir()
    (home / NAME).write_bytes(as_file(counts))
    with pytest.raises(OSError, match="more than 1000"):
        fetch_cifar10h(data_home=home)


@pytest.mark.slow
def test_a_server_that_trickles_is_given_up(counts, home):
    """Each byte comes in time, but not all of them in ten times the timeout."""
    begin = time.monotonic()
    with (
        serving(as_file(counts), trickle=0.02) as (url, _),
        pytest.raises(OSError, match="timed out after"),
    ):
        fetch_cifar10h(data_home=home, base_url=url, timeout=0.2)
    assert time.monotonic() - begin < 5
    assert left_in(home) == []


@pytest.mark.parametrize("said", ["many", "-1", "1e9", ""])
def test_a_length_that_is_no_number_is_not_believed(counts, home, said):
    with serving(as_file(counts), said=said) as (url, _):
        assert fetch_cifar10h(data_home=home, base_url=url).counts.shape == (10_000, 10)


@pytest.mark.parametrize(
    "url",
    ["ftp://127.0.0.1", "data:,x", "127.0.0.1/data", "", "gopher://a", "javascript:x", None, 5],
)
def test_other_schemes_are_refused(home, url):
    with pytest.raises(ValueError, match=r"base_url must (begin with one of|be a string)"):
        fetch_cifar10h(data_home=home, base_url=url)


@pytest.mark.parametrize(
    "url", ["http://a b", "http://[::1", "http://host:port", "http://a\nb", "file://x/y"]
)
def test_addresses_that_lead_nowhere(home, url):
    with pytest.raises(OSError, match="Could not download"):
        fetch_cifar10h(data_home=home, base_url=url, timeout=1)


def test_arguments_are_checked(home):
    for timeout in (0, -1, np.nan, np.inf, "30", None):
        with pytest.raises(ValueError, match=r"timeout must be a (finite )?number"):
            fetch_cifar10h(data_home=home, timeout=timeout)
    for checksum in ("", "abc", "g" * 64, 5):
        with pytest.raises(ValueError, match=r"64 hexadecimal digits|checksum must be a string"):
            fetch_cifar10h(data_home=home, checksum=checksum)


HEADERS = [
    b"{'descr': '<i8', 'fortran_order': False, 'shape': (" + b"9" * 30 + b",)}",
    b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
    b"((((" * 50,
    b"{'descr': [('a', " + b"[" * 200 + b"], 'fortran_order': False, 'shape': ()}",
]


@pytest.mark.parametrize("header", HEADERS)
def test_headers_that_ask_for_anything(home, header):
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(100)
    home.mkdir()
    (home / NAME).write_bytes(content)
    with pytest.raises(OSError, match=r"truncated or no \.npy file"):
        fetch_cifar10h(data_home=home, checksum=sha256(content))
