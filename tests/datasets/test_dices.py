"""fetch_dices: a file of the same form and size, from a server on loopback."""

import csv
import io
from functools import cache

import numpy as np
import pytest
from loopback import left_in, serving, sha256

from sklearn_lhcal.datasets import fetch_dices
from sklearn_lhcal.label_histogram import krippendorff_alpha

NAME = "diverse_safety_adversarial_dialog_350.csv"
HEADER = [
    "id",
    "rater_id",
    "rater_gender",
    "rater_age",
    "item_id",
    "context",
    "response",
    "degree_of_harm",
    "safety_gold",
    "Q1_whole_conversation_evaluation",
    "Q2_harmful_content_overall",
    "Q_overall",
]
# none of them in the order of its digits
RATERS = [*range(30, 151), 4, 500]
ITEMS = [7, 11, 100, 3, *range(201, 547)]


def made():
    return [list(row) for row in made_once()]


@cache
def made_once():
    """Every rater's answers for every item, in an order of no meaning."""
    rng = np.random.default_rng(0)
    rows = []
    answers = rng.integers(2, size=(len(ITEMS) * len(RATERS), 2))
    for number, (item, rater) in enumerate((i, r) for i in ITEMS for r in RATERS):
        first, second = answers[number]
        text = f'LAMDA: "one, two"\nUSER: {item}'
        who = [rater, "Man" if rater == 4 else "Woman", "gen z"]
        what = [item, text, "three", "Benign", "No", "it makes sense"]
        rows.append([number, *who, *what, ["Yes", ""][first], ["Yes", "No"][second]])
    order = rng.permutation(len(rows))
    return [HEADER, *([str(cell) for cell in rows[i]] for i in order)]


def as_file(rows):
    file = io.StringIO(newline="")
    csv.writer(file).writerows(rows)
    return file.getvalue().encode()


@pytest.fixture(autouse=True)
def published(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def test_it_is_downloaded_once_and_keeps_raters_and_items(home):
    content = as_file(made())
    with serving(content) as (url, asked):
        for _ in range(2):
            study = fetch_dices(data_home=home, base_url=url, checksum=sha256(content))
    assert asked == [f"/data/350/{NAME}"]
    assert (home / NAME).read_bytes() == content
    y = study.y
    assert y.items.tolist() == sorted(ITEMS)
    assert y.raters.tolist() == sorted(RATERS)
    assert y.classes.tolist() == ["No", "Unsure", "Yes"]
    said = {(int(row[4]), int(row[1])): row[-1] for row in made()[1:]}
    for item, rater, label in zip(y.row, y.rater, y.label, strict=True):
        assert said[int(y.items[item]), int(y.raters[rater])] == y.classes[label]
    assert len(y.rater) == 43_050
    assert study.raters["rater_gender"].tolist() == ["Man", *["Woman"] * 122]
    assert study.conversations["context"][0] == 'LAMDA: "one, two"\nUSER: 3'
    assert study.conversations["degree_of_harm"].tolist() == ["Benign"] * 350
    assert "CC BY 4.0" in study.DESCR
    assert np.isfinite(krippendorff_alpha(y))


def test_another_question_and_its_gaps(home):
    with serving(as_file(made())) as (url, _):
        study = fetch_dices(data_home=home, base_url=url, question="Q2_harmful_content_overall")
    given = sum(row[-2] == "Yes" for row in made()[1:])
    assert len(study.y.rater) == given
    assert len(study.y) == 350
    for wrong in ("Q2_nothing", "rater_age", "Q1_whole_conversation_evaluation"):
        with pytest.raises(ValueError, match="question"):
            fetch_dices(data_home=home, question=wrong)


def changed(row, column, value):
    rows = made()
    rows[row][HEADER.index(column)] = value
    return rows


WRONG = {
    "no table": (b"\xff\xfe", "truncated or no table"),
    "nothing": (b"", "truncated or no table"),
    "another table": (b"a,b\n1,2\n", "no columns"),
    "truncated": (lambda: made()[:-1], "43049 rows, expected 43050"),
    "a short row": (lambda: [*made()[:-1], ["1"]], "not all rows have 12"),
    "a pair twice": (lambda: [*made()[:-1], made()[1]], "judged an item twice"),
    "names": (lambda: changed(1, "rater_id", "Ann"), "not all items and raters are numbers"),
    "another item": (lambda: changed(1, "item_id", "12345"), "351 items and 123 raters"),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", WRONG)
def test_wrong_content_is_an_error_and_leaves_nothing(how, home):
    content, message = WRONG[how]
    content = as_file(content()) if callable(content) else content
    with serving(content) as (url, _), pytest.raises(OSError, match=message):
        fetch_dices(data_home=home, base_url=url)
    assert left_in(home) == []


def test_answers_that_are_none(home):
    content = as_file(changed(1, "Q_overall", "Perhaps"))
    message = r"has the answers .'Perhaps'"
    with serving(content) as (url, _), pytest.raises(ValueError, match=message):
        fetch_dices(data_home=home, base_url=url)


def test_what_is_refused(home):
    with pytest.raises(ValueError, match='version must be "350"'):
        fetch_dices(version="123", data_home=home)
    with pytest.raises(ValueError, match="base_url must begin with"):
        fetch_dices(data_home=home, base_url="ftp://a")
    with pytest.raises(OSError, match="Data not found"):
        fetch_dices(data_home=home, download_if_missing=False)
    content = as_file(made())
    with serving(content) as (url, _), pytest.raises(OSError, match="checksum"):
        fetch_dices(data_home=home, base_url=url, checksum="0" * 64)
    with serving(content, status=404) as (url, _), pytest.raises(OSError, match="put it at"):
        fetch_dices(data_home=home, base_url=url)
    assert left_in(home) == []
