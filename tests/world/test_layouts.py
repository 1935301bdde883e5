"""The matrix of files: layouts as tools export them, read in one line to counts made by hand.

The samples are synthetic; each stands for a tool or a public data set, whose name it has.
"""

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sklearn_lhcal.label_histogram import Annotations, MultiLabelCounts, label_table
from sklearn_lhcal.report import command

LAYOUTS = Path(__file__).parent / "layouts"
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

# file: options of label_table, and how often each item has each label
READ = {
    "01_wide_readers.xlsx": (
        {"item": "Case ID", "raters": "Reader *", "sheet": "Readings", "tidy": True},
        {
            "001": {"1": 2, "2": 1},
            "002": {"2": 2, "3": 1},
            "003": {"1": 2},
            "004": {"3": 1, "2": 1, "not readable": 1},
        },
    ),
    "02_wide_semicolon.csv": (
        {"item": "Fall", "raters": "Dr. *"},
        {"F1": {"1.5": 2, "2.0": 1}, "F2": {"2.0": 1, "3.0": 1}, "F3": {"1.0": 2, "1.5": 1}},
    ),
    "05_lidc_lists.csv": (
        {"item": ["patient_id", "nodule"], "label": "malignancy[]"},
        {
            "LX-0001 / 1": {"3": 1, "4": 2, "5": 1},
            "LX-0001 / 2": {"2": 2},
            "LX-0002 / 1": {"1": 2, "3": 1},
        },
    ),
    "07_reader_modality.csv": (
        {"item": "caseID", "rater": "readerID", "label": "recall", "where": "modalityID=FFDM"},
        {"3240": {"2": 1, "1": 1}, "3385": {"1": 2}},
    ),
    "08_sheet_per_reader.xlsx": (
        {"item": "figure #", "rater": "sheet", "label": "mitosis?", "sheet": "*", "tidy": True},
        {"1": {"yes": 3}, "2": {"no": 2, "yes": 1}, "3": {"no": 2}},
    ),
    "09_mitosis_wide.csv": (
        {"item": ["targetID", "modalityID"], "raters": "observer.*"},
        {
            "1 / scanner.A": {"1": 3},
            "2 / scanner.A": {"1": 1, "0": 2},
            "1 / scanner.B": {"1": 2, "0": 1},
            "2 / scanner.B": {"0": 3},
        },
    ),
    "10_htt_long.csv": (
        {
            "item": "caseID",
            "rater": "readerID",
            "label": "labelROI",
            "order": "createDate",
            "on_duplicate": "last",
        },
        {
            "s1_x10.5": {"Other Regions": 1, "Intra-Tumoral Stroma": 1},
            "s2_x3.0": {"Invasive Margin": 1, "Other Regions": 1},
        },
    ),
    "12_scin_like.csv": (
        {"item": "case_id", "raters": "dermatologist_fitzpatrick_skin_type_label_*"},
        {"-301": {"FST2": 2, "FST3": 1}, "412": {"FST5": 1}, "97": {"FST1": 1, "FST2": 1}},
    ),
    "13_lewidi_strings.json": (
        {"item": "{key}", "rater": "{}.annotators[,]", "label": "{}.annotations[,]"},
        {"1": {"0": 2, "1": 1}, "2": {"1": 3}, "3": {"0": 1, "1": 1}},
    ),
    "14_lewidi_dicts.json": (
        {"item": "{key}", "rater": "{}.annotations{key}", "label": "{}.annotations{}"},
        {"3944": {"1": 2, "2": 1}, "108": {"6": 1, "5": 1}},
    ),
    "16_chaos.jsonl": (
        {"item": "uid", "label": "label_counter{key}", "weight": "label_counter{}"},
        {
            "71.jpg#0r1n": {"n": 7, "e": 3},
            "48.jpg#2r1c": {"c": 9, "n": 1},
            "50.jpg#1r1e": {"e": 10},
        },
    ),
    "17_snli.jsonl": (
        {"item": "pairID", "label": "annotator_labels[]"},
        {
            "1r1n": {"neutral": 4, "entailment": 1},
            "2r1e": {"entailment": 2, "neutral": 2},
            "3r1c": {"contradiction": 1},
        },
    ),
    "19_popquorn.csv": (
        {"item": "instance_id", "rater": "user_id", "label": "offensiveness", "where": "user_id!="},
        {"530": {"1": 1, "3": 1}, "128": {"1": 1, "2": 1}},
    ),
    "20_convabuse_semicolon.csv": (
        {
            "item": ["Input.conv_id", "Input.agent", "Input.user"],
            "rater": "AssignmentId",
            "label": "is_abuse",
        },
        {"221 / hello? / what, no": {"-1": 1, "1": 1}, "104 / hi / go away": {"-2": 1, "0": 1}},
    ),
    "21_convabuse_onehot.csv": (
        {"item": "conv_id", "rater": "annotator_id", "labels": "is_abuse.*"},
        {"245846": {"1": 1, "0": 1}, "159183": {"-1": 2}},
    ),
    "22_measuring_hate.csv": (
        {"item": "comment_id", "rater": "annotator_id", "label": "hatespeech"},
        {"47777": {"0": 1, "1": 1}, "39773": {"2": 2}},
    ),
    "23_multipico.csv": (
        {"item": ["post_id", "reply_id"], "rater": "annotator_id", "label": "label"},
        {"1a / x9": {"iro": 1, "not": 1}, "1a / y7": {"not": 1}, "2b / x9": {"iro": 2}},
    ),
    "24_mturk_batch.csv": (
        {
            "item": "Input.image_id",
            "rater": "WorkerId",
            "label": "Answer.category.label",
            "order": "AcceptTime",
            "where": ["AssignmentStatus!=Rejected", "Answer.category.label!={}"],
        },
        {"0007": {"Yes": 1, "No": 1}, "0031": {"Yes": 1}},
    ),
    "26_mturk_taskanswers.csv": (
        {
            "item": "Input.text_id",
            "rater": "WorkerId",
            "label": "Answer.taskAnswers[].verdict{key}",
            "where": "Answer.taskAnswers[].verdict{}=true",
        },
        {"t1": {"good": 1, "bad": 1}, "t2": {"good": 1}},
    ),
    "27_toloka.tsv": (
        {
            "item": "INPUT:image",
            "rater": "ASSIGNMENT:worker_id",
            "label": "OUTPUT:result",
            "where": ["ASSIGNMENT:status=APPROVED", "GOLDEN:result="],
        },
        {"/f/1.jpg": {"cat": 2}, "/f/3.jpg": {"dog": 1, "cat": 1}},
    ),
    "28_groundtruth.manifest": (
        {
            "item": "source-ref",
            "rater": "job7.annotationsFromAllWorkers[].workerId",
            "label": "job7.annotationsFromAllWorkers[].annotationData.content.verdict.label",
        },
        {"s3://b/1.png": {"cat": 1, "dog": 1}, "s3://b/2.png": {"cat": 1}},
    ),
    "29_label_studio.json": (
        {
            "item": "data.text_id",
            "rater": "annotations[].completed_by",
            "label": "annotations[].result[].value.choices[]",
            "where": "annotations[].result[].from_name=verdict",
        },
        {"q1": {"good": 1, "bad": 1}, "q2": {"good": 2}},
    ),
    "30_label_studio.csv": (
        {"item": "text_id", "rater": "annotator", "label": "verdict"},
        {"q1": {"good": 1, "bad": 1}, "q2": {"good": 2}},
    ),
    "31_argilla.json": (
        {
            "item": "id",
            "rater": "responses.verdict[].user_id",
            "label": "responses.verdict[].value",
        },
        {"q1": {"good": 1, "bad": 1}, "q2": {"good": 1}},
    ),
    "32_prodigy.jsonl": (
        {
            "item": "_input_hash",
            "rater": "_annotator_id",
            "label": "accept[]",
            "where": "answer=accept",
            "order": "_timestamp",
            "on_duplicate": "last",
        },
        {"11": {"NEG": 2}, "12": {"POS": 1}},
    ),
    "32_prodigy_binary.jsonl": (
        {
            "item": "_input_hash",
            "rater": "_annotator_id",
            "label": "answer",
            "where": "answer!=ignore",
        },
        {"1": {"accept": 1, "reject": 1}, "2": {"reject": 1}},
    ),
    "37_arena.jsonl": (
        {"item": "question_id", "rater": "judge", "label": "winner"},
        {"c1": {"model_a": 1}, "c2": {"tie (bothbad)": 1}, "c3": {"tie": 1}},
    ),
    "37_arena_onehot.csv": (
        {"item": "id", "labels": "winner_*"},
        {"30192": {"model_a": 1}, "53567": {"tie": 1}, "65089": {"model_b": 1}},
    ),
    "38_judgebench.json": (
        {
            "item": "instances[].id",
            "label": "instances[].annotations.fluency.individual_human_scores[]",
        },
        {"1": {"4": 2, "5": 1}, "2": {"1": 1, "5": 1}},
    ),
    "39_inspect.json": (
        {
            "item": ["samples[].id", "samples[].epoch"],
            "rater": "samples[].scores{key}",
            "label": "samples[].scores{}.value",
        },
        {"q1 / 1": {"C": 1, "I": 1}, "q1 / 2": {"C": 1, "I": 1}, "q2 / 1": {"P": 1, "C": 1}},
    ),
    "40_mlflow.json": (
        {
            "item": "info.trace_id",
            "rater": "info.assessments[].source.source_id",
            "label": "info.assessments[].feedback.value",
            "where": [
                "info.assessments[].valid!=false",
                "info.assessments[].source.source_type=HUMAN",
            ],
        },
        {"t1": {"yes": 1, "no": 1}},
    ),
    "41_promptfoo.json": (
        {
            "item": "results.results[].vars.qid",
            "rater": "results.results[].gradingResult.componentResults[].assertion.type",
            "label": "results.results[].gradingResult.componentResults[].pass",
        },
        {"q1": {"true": 1, "false": 1}, "q2": {"true": 2}},
    ),
    "44_zoo_fractions.csv": (
        {
            "item": "iauname",
            "labels": "smooth-or-featured_*_fraction",
            "total": "smooth-or-featured_total-votes",
        },
        {"J1": {"smooth": 4, "featured": 1}, "J2": {"smooth": 1, "featured": 2}},
    ),
    "45_aggregated.csv": (
        {"item": "case", "label": "klasse", "weight": "anzahl"},
        {"c1": {"benign": 3, "malignant": 1}, "c2": {"malignant": 2}},
    ),
    "46_votes_in_cell.csv": (
        {"item": "image", "label": "votes[|]"},
        {"i1": {"benign": 2, "malignant": 1}, "i2": {"malignant": 1}},
    ),
    "47_redcap.csv": (
        {
            "item": "record_id",
            "rater": "reader",
            "label": "grade",
            "where": ["redcap_repeat_instrument=reading", "reading_complete=2"],
        },
        {"1": {"2": 1, "3": 1}, "2": {"1": 2}},
    ),
    "48_qualtrics.csv": (
        {
            "items": "Q1_*",
            "rater": "ResponseId",
            "where": ["Finished=True", "Status!=Survey Preview"],
        },
        {"img1": {"Agree": 2}, "img2": {"Disagree": 1, "Agree": 1}},
    ),
    "49_google_forms.csv": (
        {
            "items": "How bad is image *?",
            "rater": "Email Address",
            "order": "Timestamp",
            "on_duplicate": "last",
            "tidy": True,
        },
        {"1": {"2": 2}, "2": {"3": 2}},
    ),
    "51_ids_numeric.xlsx": (
        {"item": "Image", "rater": "Reader", "label": "Finding"},
        {"1": {"cyst": 2}, "2": {"none": 1, "cyst": 1}, "10": {"none": 2}},
    ),
    "53_hf_lists.parquet": (
        {"item": "uid", "rater": "annotators[]", "label": "labels[]"},
        {"a1": {"yes": 1, "no": 1}, "a2": {"no": 1}},
    ),
    "54_r_export.csv": (
        {"item": "case", "rater": "rater", "label": "label"},
        {"c1": {"1": 1}, "c2": {"2": 2}},
    ),
    "55_mixed_case_long.csv": (
        {
            "item": "Image",
            "rater": "Reader",
            "label": "Finding",
            "tidy": True,
            "on_duplicate": "last",
        },
        {"i1": {"Benign": 2}, "i2": {"malignant": 1, "Maligant": 1}, "i3": {"None": 1, "-": 1}},
    ),
}
# yes and asked of each item and finding
FINDINGS = {
    "03_chexpert_r*.csv": (
        {"item": "Study", "rater": "file", "findings": ["No Finding", "Edema", "Fracture"]},
        {
            "p1/study1": {"No Finding": (0, 3), "Edema": (2, 3), "Fracture": (1, 3)},
            "p2/study1": {"No Finding": (2, 3), "Edema": (1, 3), "Fracture": (0, 3)},
            "p3/study1": {"No Finding": (0, 3), "Edema": (2, 3), "Fracture": (3, 3)},
        },
    ),
    "04_findings_uncertain.csv": (
        {"item": "Path", "rater": "reader", "findings": ["Edema", "Fracture"]},
        # without the uncertain, -1
        {
            "x/1.jpg": {"Edema": (2, 2), "Fracture": (0, 2)},
            "x/2.jpg": {"Edema": (0, 2), "Fracture": (2, 2)},
        },
    ),
    "06_vindr_boxes.csv": (
        {
            "item": "image_id",
            "rater": "rad_id",
            "label": "class_name",
            "several": True,
            "none": "No finding",
        },
        {
            "a1f": {"Nodule/Mass": (2, 3), "Cardiomegaly": (0, 3)},
            "b2e": {"Nodule/Mass": (1, 3), "Cardiomegaly": (1, 3)},
        },
    ),
    "15_varierr_sets.json": (
        {
            "item": "{key}",
            "rater": "{}.annotations{key}",
            "label": "{}.annotations{}[,]",
            "several": True,
        },
        {
            "49": {"entailment": (1, 3), "neutral": (3, 3), "contradiction": (0, 3)},
            "50": {"entailment": (0, 3), "neutral": (1, 3), "contradiction": (3, 3)},
        },
    ),
    "18_goemotions_raw.csv": (
        {
            "item": "id",
            "rater": "rater_id",
            "findings": ["joy", "anger", "neutral"],
            "where": "example_very_unclear=FALSE",
        },
        {
            "ed1": {"joy": (2, 2), "anger": (1, 2), "neutral": (0, 2)},
            "ed2": {"joy": (0, 2), "anger": (1, 2), "neutral": (1, 2)},
        },
    ),
    "34_doccano/*.jsonl": (
        {"item": "id", "rater": "file", "label": "label[]", "several": True},
        {
            "15": {"pos": (1, 2), "neg": (1, 2)},
            "16": {"pos": (1, 2), "neg": (2, 2)},
            "17": {"pos": (0, 1), "neg": (0, 1)},
        },
    ),
    "47_redcap.csv": (
        {
            "item": "record_id",
            "rater": "reader",
            "findings": "finding___*",
            "where": "reading_complete=2",
        },
        {"1": {"1": (2, 2), "2": (1, 2)}, "2": {"1": (0, 2), "2": (1, 2)}},
    ),
}


def counts_of(table):
    found = {}
    for item, label in zip(table["item"], table["label"], strict=True):
        of_item = found.setdefault(str(item), {})
        of_item[str(label)] = of_item.get(str(label), 0) + 1
    return found


@pytest.mark.parametrize("name", READ)
def test_counts_are_those_made_by_hand(name):
    options, expected = READ[name]
    table = label_table(LAYOUTS / name, **options)
    assert counts_of(table) == expected
    if "rater" in table:
        y = Annotations.from_long(table.astype({"label": str}))
        assert dict(zip(map(str, y.items), y.n.tolist(), strict=True)) == {
            item: sum(of.values()) for item, of in expected.items()
        }


@pytest.mark.parametrize("name", FINDINGS)
def test_findings_are_those_made_by_hand(name):
    options, expected = FINDINGS[name]
    table = label_table(LAYOUTS / name, **options)
    table = table[table["label"].isin([0, 1])]
    y = MultiLabelCounts.from_long(table)
    found = {
        str(item): {
            str(finding): (int(yes), int(n))
            for finding, yes, n in zip(y.findings, positive, asked, strict=True)
        }
        for item, positive, asked in zip(y.items, y.positive, y.asked, strict=True)
    }
    assert found == expected


def flags(options):
    """What is written in a command for these options."""
    item = options.get("item")
    case = "-" if item is None else item if isinstance(item, str) else "+".join(item)
    words = ["--columns", case, options.get("rater", "-"), options.get("label", "-")]
    for name in ("raters", "items", "labels", "total", "weight", "order", "sheet", "finding"):
        words += [f"--{name}", options[name]] if name in options else []
    for name in ("findings", "none"):
        given = options.get(name, [])
        words += [f"--{name}", *([given] if isinstance(given, str) else given)] if given else []
    words += ["--several"] if "several" in options else []
    words += ["--on-duplicate", options["on_duplicate"]] if "on_duplicate" in options else []
    words += ["--tidy"] if "tidy" in options else []
    where = options.get("where", [])
    where = [where] if isinstance(where, str) else where
    return [*words, "--where", *where] if where else words


# a report is about two cases at least
@pytest.mark.parametrize("name", [name for name in READ if len(READ[name][1]) > 1])
def test_the_command_reads_the_same(name, tmp_path, monkeypatch):
    """Its dry run, beside a model that knows the classes."""
    options, expected = READ[name]
    classes = sorted({label for of in expected.values() for label in of})
    # a report needs two classes
    classes += ["another"] * (len(classes) < 2)
    model = pd.DataFrame(1 / len(classes), pd.Index(expected, name="id"), classes)
    model.to_csv(tmp_path / "model.csv")
    studies = {}
    monkeypatch.setattr(command, "_first", lambda study: studies.setdefault(name, study) and [])
    files = ["--annotations", str(LAYOUTS / name), *flags(options)]
    files += ["--proba", str(tmp_path / "model.csv"), "--output", str(tmp_path / "out")]
    assert command.main(["report", *files, "--dry-run"]) == 0
    labels = studies[name].labels
    counts = pd.DataFrame(labels.counts, studies[name].ids, studies[name].classes)
    found = {item: {c: int(n) for c, n in row.items() if n} for item, row in counts.iterrows()}
    assert found == expected


@pytest.mark.parametrize("name", [name for name in FINDINGS if len(FINDINGS[name][1]) > 1])
def test_the_command_reads_the_same_findings(name, tmp_path, monkeypatch):
    """How many said yes, of those who were asked; the model knows all findings."""
    options, expected = FINDINGS[name]
    findings = sorted({finding for of in expected.values() for finding in of})
    pd.DataFrame(0.5, pd.Index(expected, name="id"), findings).to_csv(tmp_path / "model.csv")
    studies = {}
    monkeypatch.setattr(command, "_first", lambda study: studies.setdefault("", study) and [])
    files = ["--annotations", str(LAYOUTS / name), *flags(options), "--only", findings[0]]
    files += ["--not-a-class", "-1", "--proba", str(tmp_path / "model.csv")]
    assert command.main(["report", *files, "--output", str(tmp_path / "out"), "--dry-run"]) == 0
    found = {}
    for finding, study in studies[""].findings.items():
        for item, (no, yes) in zip(study.ids, study.labels.counts.tolist(), strict=True):
            found.setdefault(item, {})[finding] = (yes, no + yes)
    asked = {item: {f: n for f, n in of.items() if n[1]} for item, of in expected.items()}
    assert found == asked


# one reader study: what the command is told of its file
READINGS = {
    "56_readings_semicolon.csv": [
        *("--columns", "caseID", "readerID", "modalityID", "score", "cancer"),
        *("--map", "yes=1", "no=0"),
    ],
    "57_readings.imrmc": [],
    "58_readings.xlsx": ["--sheet", "Readings"],
}


@pytest.mark.parametrize("name", READINGS)
def test_areas_of_readers_are_those_made_by_hand(name, tmp_path):
    """Shares of pairs of a positive and a negative case that are in order; ties count half."""
    told = ["report", "--readings", str(LAYOUTS / name), *READINGS[name], "--compare", "FFDM"]
    assert command.main([*told, "SFM", "--output", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    areas = {row["reader"]: (row["FFDM"], row["SFM"]) for row in found["readers"]}
    # the third did not read one case under FFDM
    expected = {"reader01": (1, 6 / 9), "reader02": (8 / 9, 5 / 9), "reader03": (5.5 / 6, 4.5 / 9)}
    assert areas == {reader: pytest.approx(each) for reader, each in expected.items()}
    assert "3 readers, 6 cases, 3 of them positive" in found["paragraphs"]["design"]


def test_the_same_frame_is_read_alike():
    options, expected = READ["22_measuring_hate.csv"]
    frame = pd.read_csv(LAYOUTS / "22_measuring_hate.csv")
    assert counts_of(label_table(frame, **options)) == expected


ROWS = [("001", "Ann", "mild"), ("001", "Bob", "severe"), ("002", "Ann", "mild")]
COUNTS = {"001": {"mild": 1, "severe": 1}, "002": {"mild": 1}}
NAMES = ["case", "reader", "grade"]


def text(separator=",", above="", encoding="utf-8", below="", rows=ROWS):
    lines = [separator.join(line) for line in [NAMES, *rows]]
    return (above + "\n".join(lines) + "\n" + below).encode(encoding)


# further files, as programs write them: their names and contents
WRITTEN = {
    "UPPER.CSV": text(),
    "bars.csv": text("|"),
    "tabs.txt": text("\t"),
    "utf16.tsv": text("\t", encoding="utf-16"),
    "bom.csv": text(";", encoding="utf-8-sig"),
    "sep.csv": text(";", above="sep=;\r\n"),
    "comment.csv": text(above="# exported by a tool\n"),
    "blank_rows.csv": text(below=",,\n\n,,\n"),
    "blanks.csv": text(rows=[(f" {a} ", f"{b} ", f" {c}") for a, b, c in ROWS]),
    "packed.csv.gz": gzip.compress(text()),
    "lines.jsonl": "\n".join(json.dumps(dict(zip(NAMES, r, strict=True))) for r in ROWS).encode(),
    "lines.jsonl.gz": gzip.compress(
        "\n".join(json.dumps(dict(zip(NAMES, r, strict=True))) for r in ROWS).encode()
    ),
    "records.json": json.dumps([dict(zip(NAMES, r, strict=True)) for r in ROWS]).encode(),
    "quoted.csv": text(rows=[(a, f'"{b}"', f'"{c}"') for a, b, c in ROWS]),
    "mac.csv": text().replace(b"\n", b"\r"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_however_it_was_written(name, tmp_path):
    (tmp_path / name).write_bytes(WRITTEN[name])
    table = label_table(tmp_path / name, item="case", rater="reader", label="grade")
    assert counts_of(table) == COUNTS
    assert sorted(set(table["rater"])) == ["Ann", "Bob"]


def test_tables_in_memory():
    frame = pd.DataFrame(ROWS, columns=NAMES)
    options = {"item": "case", "rater": "reader", "label": "grade"}
    for source in (frame, pl.from_pandas(frame), frame.to_dict("records")):
        assert counts_of(label_table(source, **options)) == COUNTS


def test_readers_without_a_common_name(tmp_path, capsys):
    """They are listed."""
    rows = {"case": ["a", "b"], "Smith": ["x", "y"], "Jones": ["x", "x"], "note": ["", "?"]}
    pd.DataFrame(rows).to_csv(tmp_path / "wide.csv", index=False)
    model = pd.DataFrame(0.5, pd.Index(["a", "b"], name="case"), ["x", "y"])
    model.to_csv(tmp_path / "model.csv")
    files = ["--annotations", str(tmp_path / "wide.csv"), "--proba", str(tmp_path / "model.csv")]
    words = [*files, "--columns", "case", "--raters", "Smith", "Jones", "--dry-run"]
    assert command.main(["report", *words, "--output", str(tmp_path / "out")]) == 0
    assert "case b: x 1: Jones; y 1: Smith" in capsys.readouterr().out


def test_columns_by_several_patterns_and_names():
    """A name is no beginning of others."""
    frame = pd.DataFrame({"case": [1], "MD 1": ["x"], "MD 2": ["y"], "PA": ["x"], "PA note": ["?"]})
    table = label_table(frame, item="case", raters=["MD *", "PA"])
    assert table["rater"].tolist() == ["1", "2", "PA"]
    with pytest.raises(ValueError, match=r"No column is like 'RN \*'"):
        label_table(frame, item="case", raters=["MD *", "RN *"])


def test_orders_are_numbers_or_times():
    """Never text: 8:15 is before 10:30, 9 before 10, and September before October."""
    for times in (("8:15", "10:30"), ("9", "10"), ("9/30/2020", "10/1/2020")):
        rows = pd.DataFrame({"i": [1, 1], "r": ["a", "a"], "l": ["x", "y"], "t": times[::-1]})
        how = {"item": "i", "rater": "r", "label": "l", "order": "t"}
        assert label_table(rows, **how, on_duplicate="last")["label"].tolist() == ["x"]
        assert label_table(rows, **how, on_duplicate="first")["label"].tolist() == ["y"]
        with pytest.raises(ValueError, match="given twice"):
            label_table(rows, **how)
    with pytest.raises(ValueError, match="order has missing values"):
        label_table(rows.assign(t=[1.0, None]), **how)
    rows["t"] = ["soon", "later"]
    with pytest.raises(ValueError, match="order must hold a number, or a time"):
        label_table(rows, **how)


@pytest.mark.filterwarnings("default")
def test_nothing_is_merged_or_doubted_in_silence():
    rows = pd.DataFrame({"i": [1, 1, 2], "r": ["a", "b", "a"], "l": ["Yes", "yes", "no"]})
    how = {"item": "i", "rater": "r", "label": "l"}
    # said once, by Annotations, who know the remedy
    with pytest.warns(UserWarning, match=r"\['Yes', 'yes'\] differ only in case.*tidy=") as caught:
        y = Annotations.from_long(label_table(rows, **how))
    assert y.shape == (2, 3)
    assert len(caught) == 1
    graded = rows.assign(l=["1 - mild", "1", "2"])
    with pytest.warns(
        UserWarning, match=r"label: '1 - mild', '1' differ only in .* a number"
    ) as said:
        Annotations.from_long(label_table(graded, **how))
    assert len(said) == 1
    with pytest.warns(UserWarning, match=r"label: 'yes' → 'Yes'"):
        assert label_table(rows, **how, tidy=True)["label"].tolist() == ["Yes", "Yes", "no"]
    rows = pd.DataFrame({"i": [1, 2, 3], "r": ["a", "b", "a"], "l": ["x", "y", "x"]})
    with pytest.warns(UserWarning, match="does the column of items number rows"):
        label_table(rows, **how)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"item": "case", "label": "finding"}, "no column|no 'finding'"),
        ({"item": "case", "raters": "Dr. *"}, r"No column is like 'Dr. \*'; the columns are"),
        ({"label": "grade"}, "Name the items and the labels"),
        ({"item": "case"}, "Name the items and the labels"),
        ({"item": "case", "label": "grade", "where": "reader"}, "write NAME=VALUE"),
        ({"item": "case", "label": "grade", "where": "reader=Eve"}, "No label is left"),
        ({"item": "case", "label": "grade", "several": True}, "several=True needs rater="),
        ({"item": "case", "label": "grade", "weight": "share"}, "must be whole"),
    ],
)
def test_what_is_refused(options, message):
    frame = pd.DataFrame(ROWS, columns=NAMES).assign(share=0.3)
    with pytest.raises(ValueError, match=message):
        label_table(frame, **options)


def test_lists_side_by_side_have_one_length():
    records = [{"id": 1, "who": ["a", "b"], "said": ["x"]}]
    with pytest.raises(ValueError, match="must have one length: rater, label have"):
        label_table(records, item="id", rater="who[]", label="said[]")


def test_files_that_are_no_tables(tmp_path):
    (tmp_path / "table.docx").write_bytes(b"?")
    with pytest.raises(ValueError, match=r"must end in \.csv, "):
        label_table(tmp_path / "table.docx", item="a", label="b")
    with pytest.raises(FileNotFoundError):
        label_table(tmp_path / "absent.csv", item="a", label="b")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ValueError, match="is no file of a table"):
        label_table(tmp_path / "folder.csv", item="a", label="b")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(ValueError, match=r"broken.json holds no json table"):
        label_table(tmp_path / "broken.json", item="a", label="b")


@pytest.fixture
def clinic(tmp_path):
    """A sheet with grades as people type them, and a model that spells ids and grades its way."""
    rows = {
        "Case ID": ["LV-01", "LV-02", "LV-03", "LV-04"],
        "Patient": ["p1", "p1", "p2", "p3"],
        "Site": ["x", "y", "x", "y"],
        "Reader 1 (JS)": ["1 - none", "2 - mild", "1", None],
        "Reader 2 (MK)": ["1 - None", "1 - none", "mild", "2 (mild)"],
    }
    pd.DataFrame(rows).to_csv(tmp_path / "sheet.csv", index=False)
    ids = pd.Index(["lv-01", "lv-02", "lv-03", "lv-04"], name="case")
    model = pd.DataFrame(0.5, ids, ["none", "mild"])
    model.to_csv(tmp_path / "model.csv")
    files = ["--annotations", str(tmp_path / "sheet.csv"), "--proba", str(tmp_path / "model.csv")]
    words = ["--columns", "Case ID", "--raters", "Reader *", "--output", str(tmp_path / "out")]
    return ["report", *files, *words, "--dry-run"]


def test_grades_have_the_words_that_the_model_knows(clinic, capsys):
    about = ["--tidy", "--patient", "Patient", "--subgroups", "Site"]
    assert command.main([*clinic, *about, "--ordered", "none", "mild"]) == 0
    said = capsys.readouterr().out
    assert "case lv-02: none 1: 2 (MK); mild 1: 1 (JS)" in said
    assert "none < mild, from the lowest" in said
    # what cases are meets as labels do
    assert "patients → 3 stay together" in said
    assert "subgroups by Site → 2 values" in said


def test_a_column_that_no_case_has_is_an_error(clinic, capsys, tmp_path):
    about = pd.DataFrame({"id": ["q7", "q8"], "Scanner": ["x", "y"]})
    about.to_csv(tmp_path / "about.csv", index=False)
    cases = ["--cases", str(tmp_path / "about.csv"), "--subgroups", "Scanner"]
    assert command.main([*clinic, "--tidy", *cases, "--patient", "Patient"]) == 2
    assert "--groups has no 'Scanner' of 4 cases" in capsys.readouterr().err


@pytest.mark.parametrize("margin", ["10", "10%", "-0.1", "1"])
def test_a_margin_that_is_no_share_is_refused_at_once(clinic, capsys, margin):
    with pytest.raises(SystemExit):
        command.main([*clinic, f"--margin={margin}"])
    assert "0.05 is 5 percentage points" in capsys.readouterr().err


def test_names_of_classes_may_be_changed_together(clinic, capsys):
    changes = ["1 - none=none", "1=none", "1 - None=none", "2 - mild=mild", "2 (mild)=mild"]
    assert command.main([*clinic, "--map", *changes]) == 0
    assert "classes: none, mild" in capsys.readouterr().out


def test_tidied_labels_take_the_spelling_of_given_classes():
    rows = pd.DataFrame({"i": range(4), "l": ["1 - None", "1", "2 (mild)", "MILD"]})
    how = {"item": "i", "label": "l", "tidy": True}
    assert label_table(rows, **how)["label"].tolist() == ["1", "1", "2", "MILD"]
    words = label_table(rows, **how, classes=["none", "mild"])["label"].tolist()
    assert words == ["none", "none", "mild", "mild"]
    assert label_table(rows[:3], **how, classes=["1", "2"])["label"].tolist() == [1, 1, 2]
    # one number with two words
    rows["l"] = ["1 - none", "1 - mild", "2", "2"]
    with pytest.raises(ValueError, match=r"are \['mild', 'none'\] at once"):
        label_table(rows, **how, classes=["none", "mild"])


P = pd.DataFrame(
    [[0.12, 0.88], [0.9, 0.1], [0.45, 0.55]],
    pd.Index(["001", "002", "003"], name="id"),
    ["mild", "severe"],
)
SAVED = {
    "probabilities": lambda p: p,
    "classes in another order": lambda p: p[["severe", "mild"]],
    "per cent": lambda p: 100 * p,
    "per cent with their sign": lambda p: (100 * p).map("{:g}%".format),
    "per cent of a German sheet": lambda p: (
        (100 * p).map("{:.1f} %".format).replace(r"\.", ",", regex=True)
    ),
}


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
@pytest.mark.parametrize("name", SAVED)
def test_saved_probabilities(name, kind, tmp_path, monkeypatch):
    """Whatever they are written as, and labels in words, by the command and around a calibrator."""
    labels = pd.DataFrame(
        {"case": ["001", "002", "003"], "reader": "Ann", "label": ["severe", "mild", "severe"]}
    )
    labels.to_csv(tmp_path / "labels.csv", index=False)
    file = tmp_path / f"model.{kind}"
    table = SAVED[name](P).reset_index()
    table.to_csv(file, index=False) if kind == "csv" else table.to_excel(file, index=False)
    studies = {}
    monkeypatch.setattr(command, "_first", lambda study: studies.setdefault("", study) and [])
    files = ["--annotations", str(tmp_path / "labels.csv"), "--proba", str(file)]
    files += ["--columns", "case", "reader", "label", "--output", str(tmp_path / "out")]
    assert command.main(["report", *files, "--dry-run"]) == 0
    study = studies[""]
    np.testing.assert_allclose(study.z, P.loc[study.ids, study.classes], rtol=1e-12)


def test_words_that_change_nothing_are_told(tmp_path, monkeypatch):
    pd.DataFrame(ROWS, columns=NAMES).to_csv(tmp_path / "labels.csv", index=False)
    P.to_csv(tmp_path / "model.csv")
    studies = {}
    monkeypatch.setattr(command, "_first", lambda study: studies.setdefault("", study) and [])
    files = ["--annotations", str(tmp_path / "labels.csv"), "--proba", str(tmp_path / "model.csv")]
    files += ["--map", "Mild=mild", "--output", str(tmp_path / "out"), "--dry-run"]
    assert command.main(["report", *files, "--columns", *NAMES]) == 0
    assert "--map: nothing is called 'Mild'." in studies[""].notes


@pytest.mark.parametrize("scores", [[10, 80, 30, 90, 60], ["10%", "80%", "30%", "90%", "60%"]])
def test_readers_under_two_spellings_and_scores_in_per_cent(scores, tmp_path):
    """One of ten names is spelt otherwise: told, and mended by --map."""
    readings = pd.DataFrame(
        [
            (case, reader, condition, scores[(3 * case + 2 * who + under) % 5], case % 2)
            for case in range(12)
            for who, reader in enumerate(["Ann", "Bob", "Cem", "Dia", "Eva"])
            for under, condition in enumerate(["aided", "unaided"])
        ],
        columns=["case", "reader", "condition", "score", "truth"],
    )
    # a reading that is missing
    readings["score"] = readings["score"].astype(object)
    readings.loc[7, "score"] = None
    readings.loc[readings["reader"].eq("Cem") & readings["condition"].eq("aided"), "reader"] = "cem"
    readings.to_csv(tmp_path / "readings.csv", index=False)
    found = []
    for more in ([], ["--map", "cem=Cem"]):
        out = tmp_path / str(len(more))
        files = ["--readings", str(tmp_path / "readings.csv"), "--output", str(out)]
        assert command.main(["report", *files, *more, "--quiet"]) == 0
        found.append((out / "report.json").read_text())
    assert "differ only in case or blanks" in found[0]
    assert "read under one condition only" in found[0]
    assert "differ only in case or blanks" not in found[1]
    assert "read under one condition only" not in found[1]
