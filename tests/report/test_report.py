"""The report: its numbers are those of the public metrics, its page and its JSON hold any data."""

import base64
import csv
import hashlib
import html
import io
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from sklearn_lhcal import metrics
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.label_histogram import Annotations, KnownProbabilities, pairwise_disagreement
from sklearn_lhcal.report import report
from sklearn_lhcal.report.command import main

jsonschema = pytest.importorskip("jsonschema")
pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

CLASSES = ["benign", "malignant", "unsure"]


@pytest.fixture(scope="module")
def data():
    return make_label_histograms(150, overconfidence=3.0, random_state=0)


@pytest.fixture(scope="module")
def made(data):
    return report(data.counts, data.prediction, random_state=3)


def number(made, name, subset="uncalibrated"):
    key = (name, subset, None, None)
    fields = ("quantity", "subset", "class_name", "part")
    (found,) = [m for m in made.data["numbers"] if tuple(m[f] for f in fields) == key]
    return found


def schema():
    import importlib.resources

    text = importlib.resources.files("sklearn_lhcal.report").joinpath("schema.json").read_text()
    return json.loads(text)


def saved(made, tmp_path):
    page = made.save(tmp_path / "out")
    return page.read_text(encoding="utf-8"), json.loads((tmp_path / "out/report.json").read_text())


# ---------------------------------------------------------------------------------------- numbers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("accuracy", metrics.expected_accuracy),
        ("log_loss", metrics.label_log_loss),
        ("expected_squared_loss", metrics.expected_squared_loss),
        ("calibration_error", metrics.calibration_error),
        ("epistemic_loss", metrics.epistemic_loss),
        ("irreducible_loss", metrics.irreducible_loss),
        ("disagreement_squared_loss", metrics.disagreement_squared_loss),
        ("disagreement_calibration_error", metrics.disagreement_calibration_error),
    ],
)
def test_a_number_is_the_public_metric_with_its_interval(data, made, name, function):
    groups_none = {"random_state": 3, "confidence_level": 0.95}
    expected = metrics.confidence_interval(function, data.counts, data.prediction, **groups_none)
    found = number(made, name)
    ends = [found["estimate"], found["low"], found["high"]]
    np.testing.assert_allclose(ends, expected[:3], rtol=1e-12)
    assert found["n"] == 150
    assert found["level"] == 0.95


@pytest.mark.slow
def test_a_biased_number_has_no_interval(data, made):
    found = number(made, "expected_calibration_error")
    expected = metrics.expected_calibration_error(data.counts, data.prediction)
    assert found["estimate"] == pytest.approx(expected, rel=1e-12)
    assert np.isnan(found["low"])
    assert np.isnan(found["high"])
    assert f"{expected:.3f} (no interval)" in made.html


def test_gaps_by_hand(data, made):
    z = np.asarray(data.prediction)
    top = z.max(axis=1).mean()
    accuracy = metrics.expected_accuracy(data.counts, z)
    assert number(made, "overconfidence")["estimate"] == pytest.approx(top - accuracy, abs=1e-12)
    predicted = (1 - (z**2).sum(axis=1)).mean()
    observed = pairwise_disagreement(data.counts).mean()
    found = number(made, "excess_disagreement")["estimate"]
    assert found == pytest.approx(predicted - observed, abs=1e-12)
    agreement = number(made, "percent_agreement", "labels")["estimate"]
    assert agreement == pytest.approx(1 - observed, abs=1e-12)


def test_each_class_has_its_errors(data, made):
    """Their squares sum to that of all classes."""
    of_class = [m for m in made.data["numbers"] if m["class_name"] is not None]
    assert {m["class_name"] for m in of_class} == {"0", "1", "2"}
    ce = [m["estimate"] for m in of_class if m["quantity"] == "calibration_error"]
    whole = [m for m in made.data["numbers"] if m["class_name"] is None]
    whole = {m["quantity"]: m["estimate"] for m in whole if m["subset"] == "uncalibrated"}
    squares = np.square(ce) * np.sign(ce)
    assert whole["calibration_error"] ** 2 == pytest.approx(squares.sum(), abs=1e-12)
    top = metrics.expected_calibration_error(data.counts, data.prediction)
    assert whole["expected_calibration_error"] == pytest.approx(top, abs=1e-12)


@pytest.mark.slow
def test_of_two_classes_one_is_shown_and_of_many_the_most_frequent():
    rng = np.random.default_rng(0)
    z = rng.dirichlet(np.ones(25), 60)
    counts = rng.multinomial(2, np.linspace(2, 1, 25) / 37.5, 60)
    of_class = [m["class_name"] for m in report(counts, z).data["numbers"] if m["class_name"]]
    votes = counts.sum(axis=0)
    assert len(set(of_class)) == 20
    assert votes[[int(k) for k in set(of_class)]].min() >= np.sort(votes)[5]
    two = report(counts[:, :2] + 1, z[:, :2] / z[:, :2].sum(axis=1, keepdims=True))
    assert {m["class_name"] for m in two.data["numbers"]} == {None, "1"}


@pytest.mark.slow
def test_referral_by_hand(data, made):
    """Cases with most predicted disagreement capture their share; those that tie go together."""
    points = [m for m in made.data["numbers"] if m["quantity"].startswith("captured_")]
    z = np.asarray(data.prediction)
    order = np.argsort((z**2).sum(axis=1), kind="stable")
    observed = pairwise_disagreement(data.counts)[order]
    mu = data.counts / data.counts.sum(axis=1, keepdims=True)
    loss = (((mu - z) ** 2) + mu * (1 - mu)).sum(axis=1)[order]
    sent = np.array([8, 15, 30, 45, 75, 105, 135])
    for name, whole in {"irreducible_loss": observed, "expected_squared_loss": loss}.items():
        expected = np.cumsum(whole)[sent - 1] / whole.sum()
        own = [m for m in points if m["quantity"] == f"captured_{name}"]
        assert [m["part"] for m in own] == [f"{n / 150:.4g}" for n in sent]
        ends = [[m["estimate"], m["low"], m["high"]] for m in own]
        estimate, low, high = np.transpose(ends)
        np.testing.assert_allclose(estimate, expected, rtol=1e-12)
        assert (low < expected).all()
        assert (expected < high).all()
    for case in made.data["disputed"]:
        predicted = 1 - (z[int(case["case"])] ** 2).sum()
        assert case["predicted_disagreement"] == pytest.approx(predicted, abs=1e-12)
    tied = report(data.counts, np.full((150, 3), 1 / 3)).data["numbers"]
    own = [m for m in tied if m["quantity"] == "captured_expected_squared_loss"]
    assert [(m["part"], m["estimate"]) for m in own] == [("1", 1.0)]


def test_difference_is_that_of_the_two_numbers(made):
    for name in ("log_loss", "expected_squared_loss", "disagreement_squared_loss"):
        after = number(made, name, "recalibrated")["estimate"]
        before = number(made, name)["estimate"]
        difference = number(made, name, "difference")["estimate"]
        assert difference == pytest.approx(after - before, abs=1e-12)


@pytest.mark.slow
def test_the_verdict_follows_the_truth():
    """One primary comparison decides, and the advice follows from it."""
    fair = make_label_histograms(6_000, n_raters=2, random_state=0)
    dirichlet = Dirichlet.from_mean(fair.prediction, fair.total)
    states = [said["state"] for said in report(fair.counts, dirichlet).data["verdict"]]
    assert states == ["calibrated", "leave"]
    bold = make_label_histograms(500, overconfidence=3.0, random_state=0)
    found = report(bold.counts, bold.prediction).data
    assert [said["state"] for said in found["verdict"]] == ["overconfident", "recalibrate"]
    assert "right less often than its probabilities say" in found["verdict"][0]["words"]
    shy = np.sqrt(np.asarray(fair.prediction)[:500])
    shy /= shy.sum(axis=1, keepdims=True)
    found = report(fair.counts[:500], shy).data
    assert [said["state"] for said in found["verdict"]] == ["underconfident", "recalibrate"]


@pytest.mark.slow
def test_groups_reach_folds_and_intervals(data):
    doubled = np.repeat(np.arange(150), 2)
    counts = np.repeat(data.counts, 2, axis=0)
    z = np.repeat(np.asarray(data.prediction), 2, axis=0)
    apart = report(counts, z)
    together = report(counts, z, groups=doubled)
    wide = number(together, "accuracy")
    narrow = number(apart, "accuracy")
    assert wide["high"] - wide["low"] > 1.2 * (narrow["high"] - narrow["low"])
    assert together.data["inputs"]["n_groups"] == 150


@pytest.mark.slow
def test_costs(data):
    costs = pd.DataFrame([[0, 1], [5, 1], [2, 1.0]], columns=["treat", "wait"])
    made = report(data.counts, data.prediction, cost_matrix=costs)
    decisions = metrics.bayes_decision(data.prediction, costs)
    expected = metrics.decision_risk(data.counts, decisions, costs)
    assert number(made, "decision_risk")["estimate"] == pytest.approx(expected, abs=1e-12)
    share = np.asarray(data.counts) / np.asarray(data.counts).sum(axis=1, keepdims=True)
    default = number(made, "default_risk", "labels")
    assert default["estimate"] == pytest.approx((share @ costs.to_numpy()).mean(axis=0).min())
    assert default["unit"] == "cost unit"
    assert "best decision that is the same" in made.html


@pytest.mark.slow
def test_single_labels(data):
    one = np.eye(3, dtype=int)[data.counts.argmax(axis=1)]
    made = report(one, data.prediction)
    assert "single_labels" in {check["code"] for check in made.data["checks"]}
    assert not [m for m in made.data["numbers"] if m["quantity"] == "epistemic_loss"]
    assert "Dirichlet" not in made.data["paragraphs"]["methods"]
    jsonschema.validate(made.data, schema())


# ----------------------------------------------------------------------------------------- checks


def codes(made):
    return {check["code"] for check in made.data["checks"]}


@pytest.mark.slow
def test_another_order_of_columns_is_seen(data, made):
    assert "column_order" not in codes(made)
    turned = report(data.counts, np.asarray(data.prediction)[:, [1, 2, 0]])
    assert "column_order" in codes(turned)
    assert turned.status == 1
    # the page begins with it, and gives no verdict
    assert [said["state"] for said in turned.data["verdict"]] == ["withheld"]
    assert turned.data["reconciled"] == []
    assert turned.html.index("A check of the data failed") < turned.html.index("No verdict")


@pytest.mark.slow
def test_zeros_few_rows_and_unseen_classes(data):
    z = np.asarray(data.prediction).copy()
    z[data.counts[:, 0] > 0] = [0.0, 0.5, 0.5]
    few = report(data.counts[:30], data.prediction[:30])
    assert {"few_rows", "no_calibration"} <= codes(few)
    counts = data.counts.copy()
    counts[:, 1] += counts[:, 2]
    counts[:, 2] = 0
    assert {"printed_zeros", "unseen_classes"} <= codes(report(counts, z))


@pytest.mark.slow
def test_what_all_folds_warn_of_is_said_once():
    """Raters who disagree more often than the probabilities allow: five folds see it."""
    z = np.tile([[0.98, 0.02], [0.02, 0.98]], (60, 1))
    made = report(np.tile([[2, 1], [1, 2], [3, 0], [1, 2]], (30, 1)), z)
    said = [check["message"] for check in made.data["checks"] if check["code"] == "numbers"]
    assert said
    assert len({re.sub(r"[\d.]+", "", message) for message in said}) == len(said)


def test_known_probabilities_are_refused(data):
    with pytest.raises(ValueError, match="about labels"):
        report(KnownProbabilities(np.full((150, 3), 1 / 3)), data.prediction)


# ------------------------------------------------------------------------------------ page and JSON


class Links(HTMLParser):
    """All that a page would load or run."""

    def __init__(self):
        super().__init__()
        self.found = []
        self.scripts = []
        self._within = ""

    def handle_starttag(self, tag, attrs):
        self._within = tag
        if tag in ("link", "iframe", "object", "base", "form"):
            self.found.append(tag)
        self.found += [
            value
            for name, value in attrs
            if name in ("src", "href", "style") or name.startswith("on")
        ]

    def handle_data(self, data):
        if self._within == "script" and data.strip():
            self.scripts.append(data)


def check_stands_alone(page):
    """Pictures are within, links stay on the page, and the policy allows the page's own script."""
    links = Links()
    links.feed(page)
    assert links.found
    inner = ("data:image/svg+xml;base64,", "#")
    assert all(source.startswith(inner) for source in links.found)
    anchors = {source[1:] for source in links.found if source.startswith("#")}
    assert all(f'id="{anchor}"' in page for anchor in anchors)
    (script,) = links.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert "default-src 'none'" in page


def test_the_page_stands_alone(made):
    check_stands_alone(made.html)


def test_a_notebook_shows_the_page(made):
    frame = made._repr_html_()
    assert frame.startswith("<iframe")
    assert html.unescape(frame.split('"')[1]) == made.html


def test_the_files_that_were_read_are_named(made):
    files = made.data["inputs"]["files"]
    assert set(files) == {"counts", "proba"}
    assert all(facts["sha256"] in made.html for facts in files.values())


def test_tables_have_six_digits(made):
    for name in (name for name in made.files if name.startswith("tables/")):
        for line in csv.DictReader(io.StringIO(made.files[name].decode())):
            for cell in filter(None, (line.get(end) for end in ("estimate", "low", "high"))):
                assert cell == f"{float(cell):.6g}"


def test_json_follows_its_schema(made, tmp_path):
    page, data = saved(made, tmp_path)
    jsonschema.validate(data, schema())
    assert page == made.html
    # what is not defined is null in the file
    assert "NaN" not in (tmp_path / "out/report.json").read_text()


@pytest.mark.slow
def test_the_same_bytes_for_the_same_data(data, made):
    again = report(data.counts, data.prediction, random_state=3)
    assert again.html == made.html
    assert again.data["numbers"] == made.data["numbers"]


HOSTILE = ["<script>alert(1)</script>", "$x_{$ & \"'", "{{ 7 * 7 }} \x07 ü 良"]


@pytest.mark.slow
def test_hostile_names_are_text(data):
    frame = pd.DataFrame(np.asarray(data.prediction), columns=HOSTILE)
    counts = pd.DataFrame(data.counts, columns=HOSTILE)
    ids = [f"<img src=x onerror=alert({i})>" for i in range(150)]
    made = report(counts, frame, ids=ids)
    check_stands_alone(made.html)
    assert made.html.count("<script>") == 1
    assert "&lt;script&gt;" in made.html
    assert "{{ 7 * 7 }}" in made.html


@pytest.mark.slow
def test_sensitive_leaves_names_out(data, tmp_path):
    ids = [f"patient{i}" for i in range(150)]
    shown = report(data.counts, data.prediction, ids=ids)
    hidden = report(data.counts, data.prediction, ids=ids, sensitive=True)
    assert "patient" in json.dumps(shown.data["disputed"])
    assert not re.search(r"patient\d", json.dumps(hidden.data))
    assert not re.search(r"patient\d", hidden.html)


def test_a_failed_save_leaves_the_old_page(made, tmp_path, monkeypatch):
    page, _ = saved(made, tmp_path)

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        made.save(tmp_path / "out")
    assert (tmp_path / "out/report.html").read_text(encoding="utf-8") == page
    parts = ["figures", "report.html", "report.json", "tables"]
    assert sorted(os.listdir(tmp_path / "out")) == parts


# ---------------------------------------------------------------------------------------- command


@pytest.fixture
def files(data, tmp_path):
    """Counts and probabilities of named rows and classes, the latter in other orders."""
    ids = [f"case {i}" for i in range(150)]
    counts = pd.DataFrame(data.counts, columns=CLASSES)
    proba = pd.DataFrame(np.asarray(data.prediction), columns=CLASSES)
    counts.insert(0, "id", ids)
    proba.insert(0, "id", ids)
    proba = proba.sample(frac=1, random_state=0)[["unsure", "id", "benign", "malignant"]]
    counts.to_csv(tmp_path / "counts.csv", index=False)
    proba.to_parquet(tmp_path / "proba.parquet")
    return tmp_path


def run(files, *arguments):
    return main(["report", "--quiet", "--output", str(files / "out"), *map(str, arguments)])


@pytest.mark.slow
def test_rows_meet_by_id_and_columns_by_name(data, files, capsys):
    status = run(
        files, "--counts", files / "counts.csv", "--proba", files / "proba.parquet", "--id", "id"
    )
    assert "overconfident" in capsys.readouterr().out
    written = json.loads((files / "out/report.json").read_text())
    jsonschema.validate(written, schema())
    (found,) = [
        m["estimate"]
        for m in written["numbers"]
        if m["quantity"] == "log_loss" and m["subset"] == "uncalibrated"
    ]
    expected = metrics.label_log_loss(data.counts, data.prediction)
    assert found == pytest.approx(expected, rel=1e-9)
    assert status == 0
    assert written["inputs"]["files"]["counts"]["file"] == "counts.csv"


@pytest.mark.slow
def test_arrays_need_the_names_of_their_classes(data, tmp_path, capsys):
    np.save(tmp_path / "counts.npy", data.counts)
    np.savez(tmp_path / "proba.npz", proba=np.asarray(data.prediction), other=np.zeros(3))
    both = ["--counts", tmp_path / "counts.npy", "--proba", tmp_path / "proba.npz"]
    assert run(tmp_path, *both) == 2
    assert "--classes" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert run(tmp_path, *both, "--classes", *CLASSES) in (0, 1)
    assert "malignant" in (tmp_path / "out/report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_annotations_groups_and_costs(data, files, capsys):
    """A long table of annotations gives what its counts give."""
    ids = [f"case {i}" for i in range(150)]
    rows = [
        (ids[i], f"reader {r}", CLASSES[k])
        for i in range(150)
        for r, k in enumerate(np.repeat(np.arange(3), data.counts[i]))
    ]
    long = pd.DataFrame(rows, columns=["item", "rater", "label"]).sample(frac=1, random_state=1)
    long.columns = ["image", "reader", "finding"]
    long.to_csv(files / "long.csv", index=False)
    patients = pd.DataFrame({"id": ids, "patient": [f"p{i // 2}" for i in range(150)]})[::-1]
    patients.to_csv(files / "patients.csv", index=False)
    costs = pd.DataFrame([[0, 1], [5, 1], [2, 1]], index=CLASSES, columns=["treat", "wait"])
    costs.to_csv(files / "costs.csv")
    more = ["--groups", files / "patients.csv", "--costs", files / "costs.csv", "--id", "id"]
    proba = ["--proba", files / "proba.parquet"]
    annotations = ["--annotations", files / "long.csv", *proba, *more]
    assert run(files, *annotations) == 2
    assert "--columns" in capsys.readouterr().err
    assert run(files, *annotations, "--columns", "image", "reader", "finding") in (0, 1)
    by_raters = json.loads((files / "out/report.json").read_text())
    assert run(files, "--counts", files / "counts.csv", *proba, *more) in (0, 1)
    by_counts = json.loads((files / "out/report.json").read_text())
    assert by_raters["inputs"]["n_groups"] == 75
    # names of raters add intervals for new ones, and numbers of each rater
    key = ("quantity", "subset", "class_name", "part")
    named = {tuple(m[k] for k in key): m["estimate"] for m in by_raters["numbers"]}
    for m in by_counts["numbers"]:
        # the corrections of calibration errors know raters, where there are names
        if not re.search("calibration|dispersion", m["quantity"]):
            assert named[tuple(m[k] for k in key)] == pytest.approx(m["estimate"], abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_raters", "whose"), [(2, "these raters only"), (3, "too narrow for others")]
)
def test_few_raters(data, n_raters, whose):
    """Intervals over two raters, or pairs of three, are refused: the page has fixed ones."""
    rng = np.random.default_rng(0)
    votes = [rng.choice(3, n_raters, p=p) for p in data.prediction]
    y = Annotations.from_matrix(votes, classes=[0, 1, 2])
    made = report(y, data.prediction)
    (check,) = [check for check in made.data["checks"] if check["code"] == "few_raters"]
    assert whose in check["message"]
    assert f"by {n_raters} raters" in made.html
    about = [said["about"] for said in made.data["verdict"]]
    assert ("any_rater" in about) == (n_raters == 3)
    jsonschema.validate(made.data, schema())


@pytest.mark.slow
def test_intervals_hold_for_other_raters_where_they_are_known(data):
    """Raters who differ make them wider than the counts alone do."""
    rng = np.random.default_rng(0)
    bias = np.linspace(-4, 4, 5)[:, None] * [1.0, 0.0, -1.0]
    tilted = np.exp(np.log(data.prediction)[:, None] + bias)
    tilted /= tilted.sum(axis=2, keepdims=True)
    votes = [[rng.choice(3, p=p) for p in row] for row in tilted]
    y = Annotations.from_matrix(votes, classes=[0, 1, 2])
    found = report(y, data.prediction)
    wide, narrow = (
        number(found, "overconfidence", whose) for whose in ("new_raters", "uncalibrated")
    )
    assert wide["estimate"] == pytest.approx(narrow["estimate"], abs=1e-12)
    assert wide["high"] - wide["low"] > 1.3 * (narrow["high"] - narrow["low"])


def test_ids_that_differ_stop(files, capsys):
    proba = pd.read_parquet(files / "proba.parquet")
    proba.iloc[0, 1] = "somebody else"
    proba.to_parquet(files / "proba.parquet")
    both = ["--counts", files / "counts.csv", "--proba", files / "proba.parquet", "--id", "id"]
    assert run(files, *both) == 2
    assert "somebody else" in capsys.readouterr().err
    assert not (files / "out").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("counts.docx", "a", "must end in"),
        ("counts.txt", "a", "has no rows"),
        ("counts.csv", "", "no csv table"),
        ("counts.npy", "no array", "no npy table"),
        ("counts.npz", "no array", "counts.npz"),
        ("counts.parquet", "no parquet", "no parquet table"),
        ("counts.csv", "id,a,b\nx,1,2\nx,3,4\n", "twice"),
        ("counts.csv", "id,a,b\n,1,2\nx,3,4\n", "has no id"),
    ],
)
def test_files_that_are_none(files, capsys, name, content, message):
    (files / name).write_text(content)
    assert run(files, "--counts", files / name, "--proba", files / "proba.parquet") == 2
    assert message in capsys.readouterr().err
    assert not (files / "out").exists()


def test_a_missing_file(files, capsys):
    assert run(files, "--counts", files / "none.csv", "--proba", files / "proba.parquet") == 2
    assert "none.csv" in capsys.readouterr().err


def test_it_is_a_command():
    done = subprocess.run(
        [sys.executable, "-m", "sklearn_lhcal", "report", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--annotations" in done.stdout
