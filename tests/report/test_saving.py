"""Both files of a report are written or neither, and bad places are seen before computing."""

import json
import os
import pathlib
import threading

import numpy as np
import pytest

from sklearn_lhcal.report import Report, command

NAMES = ["report.html", "report.json"]


def made(word, *figures):
    files = {f"figures/{name}.svg": word.encode() for name in figures}
    return Report({"checks": [], "word": word, "files": list(files)}, f"<p>{word}</p>", files)


def words(folder):
    return [(folder / name).read_text(encoding="utf-8") for name in NAMES]


def test_both_files_and_nothing_else(tmp_path):
    assert made("first").save(tmp_path / "a" / "b") == tmp_path / "a" / "b" / "report.html"
    made("second").save(tmp_path / "a" / "b")
    assert sorted(os.listdir(tmp_path / "a" / "b")) == NAMES
    assert all("second" in text for text in words(tmp_path / "a" / "b"))


@pytest.mark.parametrize("old", [True, False], ids=["before it others", "first"])
@pytest.mark.parametrize("n_done", range(4))
def test_a_failure_leaves_all_as_it_was(tmp_path, monkeypatch, old, n_done):
    if old:
        made("old", "a", "b").save(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    replace, calls = os.replace, []

    def fail(*paths):
        calls.append(paths)
        if len(calls) == n_done + 1:
            raise OSError("disk full")
        replace(*paths)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        made("new", "b", "c").save(tmp_path)
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before


def test_figures_of_the_report_before_go_and_others_stay(tmp_path):
    made("old", "a", "b").save(tmp_path)
    (tmp_path / "figures" / "mine.svg").write_text("mine")
    made("new", "b", "c").save(tmp_path)
    texts = {path.stem: path.read_text() for path in (tmp_path / "figures").iterdir()}
    assert texts == {"b": "new", "c": "new", "mine": "mine"}


@pytest.mark.parametrize("files", ["../mine.svg", ["../mine.svg"], [["x"]], 3])
def test_a_list_of_files_that_was_changed_deletes_nothing_else(tmp_path, files):
    mine = tmp_path / "mine.svg"
    mine.write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.json").write_text(json.dumps({"files": files}))
    made("new").save(tmp_path / "out")
    assert mine.read_text() == "mine"


def test_a_file_called_figures_is_seen_before_computing(tmp_path):
    (tmp_path / "figures").write_text("mine")
    with pytest.raises(NotADirectoryError, match="figures"):
        made("new").save(tmp_path)
    assert os.listdir(tmp_path) == ["figures"]


def test_a_folder_in_the_place_of_a_file(tmp_path):
    (tmp_path / "report.html").mkdir()
    with pytest.raises(IsADirectoryError, match=r"report\.html"):
        made("new").save(tmp_path)
    assert os.listdir(tmp_path) == ["report.html"]


def test_two_writers_never_mix(tmp_path):
    """Whenever both have written, both files are of one of them."""
    for _ in range(20):
        writers = [threading.Thread(target=made(word).save, args=[tmp_path]) for word in "ab"]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        page, data = words(tmp_path)
        assert f'"{page[3]}"' in data


def test_a_writer_that_never_ends_is_named(tmp_path, monkeypatch):
    """Its folder is left from a computer that went down, say."""
    made("old").save(tmp_path)
    (tmp_path / ".report").mkdir()
    monkeypatch.setitem(command.check_folder.__globals__, "PATIENCE", 0.05)
    with pytest.raises(FileExistsError, match=r"delete it.*\.report"):
        made("new").save(tmp_path)
    (tmp_path / ".report").rmdir()
    made("new").save(tmp_path)
    assert all("new" in text for text in words(tmp_path))


def test_a_folder_that_was_left_is_seen_before_computing(tmp_path):
    left = tmp_path / ".report"
    left.mkdir()
    os.utime(left, (0, 0))
    with pytest.raises(FileExistsError, match=r"delete it.*\.report"):
        command.check_folder(tmp_path)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """The last line of the command's errors, its status being 2, before a file is read."""

    def never(*_, **__):
        raise AssertionError("a file was read")

    monkeypatch.setattr(command, "read_table", never)

    def run(output):
        asked = ["report", "--counts", "none.csv", "--proba", "none.csv", "--output", str(output)]
        assert command.main(asked) == 2
        return capsys.readouterr().err

    return run


def test_an_output_that_is_a_file(run, tmp_path):
    (tmp_path / "out").write_text("mine")
    for place in (tmp_path / "out", tmp_path / "out" / "deeper"):
        said = run(place)
        assert said == f"error: {tmp_path / 'out'}: is a file, not a folder\n"


def test_an_output_with_a_folder_called_report(run, tmp_path):
    (tmp_path / "report.html").mkdir()
    assert "report.html: is a folder" in run(tmp_path)


def test_an_output_where_nothing_may_be_written(run, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", "a temporary name")

    monkeypatch.setattr(command.check_folder.__globals__["tempfile"], "TemporaryFile", refuse)
    assert run(tmp_path / "new") == f"error: {tmp_path}: Permission denied\n"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(27, "File too large"), "File too large"),
        (OSError("the disk is gone"), "the disk is gone"),
        (MemoryError(), "memory"),
    ],
    ids=["no name of a file", "words alone", "memory"],
)
def test_errors_without_the_name_of_a_file(tmp_path, monkeypatch, capsys, error, said):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(command, "read_table", fail)
    asked = ["report", "--counts", "c.csv", "--proba", "p.csv", "--output", str(tmp_path)]
    assert command.main(asked) == 2
    message = capsys.readouterr().err
    assert said in message
    assert "None" not in message
    assert message.count("\n") == 1


def broken_files():
    rng = np.random.default_rng(0)
    junk = rng.bytes(300)
    return {
        "cut.npz": b"PK\x03\x04" + junk,
        "cut.npy": b"\x93NUMPY\x01\x00v\x00" + junk,
        "long.npy": b"",
        "object.npy": b"",
        "objects.npz": b"",
        "bomb.npz": b"",
        "cut.parquet": b"PAR1" + junk + b"PAR1",
        "cut.xlsx": b"PK\x03\x04" + junk,
        "ragged.csv": b"id,a,b\n1,2,3\n2,3,4,5\n",
        "empty.csv": b"",
    }


@pytest.mark.parametrize("name", broken_files())
def test_broken_files_are_one_line(tmp_path, capsys, name):
    file = tmp_path / name
    file.write_bytes(broken_files()[name])
    if name == "long.npy":
        np.save(file, np.zeros((1000, 3)))
        file.write_bytes(file.read_bytes()[:-8])
    if name == "object.npy":
        np.save(file, np.array([{"a": 1}]), allow_pickle=True)
    if name == "objects.npz":
        np.savez(file, proba=np.array([{"a": 1}]), allow_pickle=True)
    if name == "bomb.npz":
        _save_zeros(file, n_gigabytes=3)
    files = ["--proba", str(file), "--counts", str(file)]
    asked = ["report", *files, "--output", str(tmp_path / "out")]
    assert command.main(asked) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert message.count("\n") == 1
    if name == "bomb.npz":
        assert "unpacked" in message
    assert not pathlib.Path(tmp_path / "out").exists()


def _save_zeros(file, n_gigabytes):
    """A small file whose array would fill the memory: the sizes alone are written."""
    import struct
    import zipfile

    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("proba.npy", b"0" * 10)
    content = bytearray(file.read_bytes())
    place = content.index(b"PK\x01\x02") + 24
    content[place : place + 4] = struct.pack("<I", n_gigabytes * 10**9)
    file.write_bytes(content)
