"""Files of people who do not program: names that differ, cases without labels, patients, judges.

The tests take the place of `report_on`, which a study is handed to, and draw no page.
"""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.report import command

CLASSES = ["benign", "malignant", "None"]
IDS = [f"{i:03d}" for i in range(30)]
LONG = ["--columns", "image", "reader", "finding"]


class Files:
    """Files in a folder, and the studies that the command reads from them."""

    def __init__(self, folder, monkeypatch, capsys):
        self.folder = folder
        self.capsys = capsys
        self.studies = []
        monkeypatch.setattr(command, "_write", self.keep)
        data = make_label_histograms(30, n_classes=3, n_raters=3, random_state=0)
        self.z = np.asarray(data.prediction)
        self.counts = data.counts
        self.proba = pd.DataFrame(self.z, columns=CLASSES)
        self.proba.insert(0, "image", IDS)
        said = np.concatenate([np.repeat(CLASSES, row) for row in data.counts])
        readers = np.tile(["Ann", "Bob", "Cy"], 30)
        columns = {"image": np.repeat(IDS, 3), "reader": readers, "finding": said}
        self.long = pd.DataFrame(columns).sample(frac=1, random_state=0, ignore_index=True)

    def keep(self, options, name, study, files):
        self.studies.append((name, study))
        return 0

    def save(self, name, frame):
        frame.to_csv(self.folder / f"{name}.csv", index=False)
        return str(self.folder / f"{name}.csv")

    def run(self, *more, predicted="--proba"):
        self.studies.clear()
        files = ["--annotations", self.save("long", self.long), *LONG]
        files += [predicted, self.save("proba", self.proba)]
        return command.main(["report", *files, "--output", str(self.folder / "out"), *more])

    def read(self, *more, **options):
        assert self.run(*more, **options) == 0, self.said()
        ((_, study),) = self.studies
        return study

    def refused(self, *more, **options):
        """The one line that it says."""
        assert self.run(*more, **options) == 2
        said = self.said()
        assert said.startswith("error: ")
        assert said.count("\n") == 1
        return said

    def said(self):
        return self.capsys.readouterr().err


@pytest.fixture
def files(tmp_path, monkeypatch, capsys):
    return Files(tmp_path, monkeypatch, capsys)


def steps(study):
    return {step.words: step.n for step in study.flow}


# ----------------------------------------------------------------------------------------- classes


def test_misspelt_classes_are_counted_and_mended_as_the_message_says(files):
    clean = files.read().labels.counts
    own = files.long["finding"] == "benign"
    files.long.loc[own.to_numpy().nonzero()[0][:4], "finding"] = "Bengin"
    said = files.refused()
    assert "'Bengin' (4 labels)" in said
    # which of the classes it is, only people know
    assert "--map OLD=NEW" in said
    assert "--map Bengin" not in said
    np.testing.assert_array_equal(files.read("--map", "Bengin=benign").labels.counts, clean)


def test_what_map_changed_is_counted(files):
    """In labels, in probabilities, and in predicted labels."""
    own = files.long.index[files.long["finding"] == "benign"][:4]
    files.long.loc[own, "finding"] = "Bengin"
    files.proba = files.proba.rename(columns={"None": "Nothing"})
    found = steps(files.read("--map", "Bengin=benign", "Nothing=None", "never=benign"))
    assert found["labels 'Bengin' read as 'benign', by --map"] == 4
    assert found["probabilities of 'Nothing' read as 'None', by --map"] == 30
    assert not any("never" in words for words in found)
    said = np.repeat(["Bengin", "None"], 15)
    files.proba = pd.DataFrame({"image": IDS, "gpt": said})
    found = steps(files.read("--map", "Bengin=benign"))
    assert found["predicted labels 'Bengin' read as 'benign', by --map"] == 15


def test_a_file_without_probabilities_is_told_what_it_lacks(files):
    """Text that is no class is no misspelt class."""
    files.proba = pd.DataFrame({"image": IDS, "comment": "fine", "by": "us"})
    said = files.refused()
    assert "--proba has no probabilities" in said
    assert "['comment', 'by']" in said
    assert "--map" not in said
    # what is misspelt is
    files.proba = pd.DataFrame({"image": IDS, "gpt": "Benign"})
    assert "add: --map Benign=benign" in files.refused()


def test_labels_without_raters_are_counted_as_those_with(files):
    """Also where all are of one class, and where some are blank."""
    some = files.long["finding"].where(files.long.index > 4)
    for finding in (files.long["finding"], some, "benign"):
        files.long["finding"] = finding
        named = files.read()
        study = files.read("--columns", "image", "-", "finding")
        assert study.n_raters is None
        assert study.classes == named.classes
        assert study.ids.tolist() == named.ids.tolist()
        np.testing.assert_array_equal(study.labels.counts, named.labels.counts)
        assert steps(study) == steps(named)


def test_labels_in_place_of_probabilities(files):
    files.proba = files.long
    assert "a row for each case" in files.refused()


def test_a_sheet_is_read_of_workbooks_that_have_it(files):
    """The labels of a workbook, and of a workbook the predictions; the other file is a CSV."""
    pytest.importorskip("openpyxl")
    clean = files.read()
    about = pd.DataFrame({"About": ["made by", "us"], "Year": ["one", "two"]})
    for option, table in (("--annotations", files.long), ("--proba", files.proba)):
        book = files.folder / f"{option[2:]}.xlsx"
        with pd.ExcelWriter(book) as writer:
            about.to_excel(writer, sheet_name="ReadMe", index=False)
            table.to_excel(writer, sheet_name="Data", index=False)
        study = files.read(option, str(book), "--sheet", "Data")
        np.testing.assert_array_equal(study.labels.counts, clean.labels.counts)
        np.testing.assert_allclose(study.z, clean.z, rtol=1e-12)
        # the first sheet is named where it does not do
        said = files.refused(option, str(book))
        assert "the sheet 'ReadMe' was read" in said
        said = files.refused(option, str(book), "--sheet", "Date")
        assert "No file has a sheet 'Date'; there are {" in said
    both = [f"--{what}={files.folder / what}.xlsx" for what in ("annotations", "proba")]
    assert files.read(*both, "--sheet", "Data").ids.tolist() == clean.ids.tolist()


def test_two_sheets_of_one_workbook(files):
    """Labels first, whatever the order of the options; a named sheet needs no note."""
    pytest.importorskip("openpyxl")
    clean = files.read()
    book = files.folder / "study.xlsx"
    with pd.ExcelWriter(book) as writer:
        files.proba.to_excel(writer, sheet_name="Model", index=False)
        files.long.to_excel(writer, sheet_name="Readings", index=False)
    both = [f"--proba={book}", f"--annotations={book}"]
    study = files.read(*both, "--sheet", "Readings", "Model")
    np.testing.assert_array_equal(study.labels.counts, clean.labels.counts)
    np.testing.assert_allclose(study.z, clean.z, rtol=1e-12)
    assert not [note for note in study.notes if "the sheet" in note]
    # one sheet cannot be both
    for named in ([], ["--sheet", "Readings"]):
        assert "--sheet LABELS PREDICTIONS; it has ['Model', 'Readings']" in files.refused(
            *both, *named
        )
    assert "No file has a sheet 'Readers'" in files.refused(*both, "--sheet", "Readers", "Model")
    assert "no column" in files.refused(*both, "--sheet", "Model", "Readings")


def test_sheets_of_two_workbooks(files):
    """Each has the one that it has, neither the first."""
    pytest.importorskip("openpyxl")
    clean = files.read()
    both = []
    for option, table in (("--annotations", files.long), ("--proba", files.proba)):
        both += [option, str(files.folder / f"{option[2:]}.xlsx")]
        with pd.ExcelWriter(both[-1]) as writer:
            pd.DataFrame({"About": ["us"]}).to_excel(writer, sheet_name="ReadMe", index=False)
            table.to_excel(writer, sheet_name=f"Own {option[2:]}", index=False)
    for sheets in (["Own annotations", "Own proba"], ["Own proba", "Own annotations"]):
        study = files.read(*both, "--sheet", *sheets)
        np.testing.assert_array_equal(study.labels.counts, clean.labels.counts)
        np.testing.assert_allclose(study.z, clean.z, rtol=1e-12)


def test_a_class_of_the_models_own_beside_its_probabilities(files):
    """A page of each, as from two files in two runs."""
    own = np.array(CLASSES)[files.z.argmin(axis=1)]
    alone, clean = pd.DataFrame({"image": IDS, "call": own}), files.read()
    files.proba["call"] = own
    assert "--decision call" in files.refused()
    assert files.run("--decision", "call") == 0
    (first, of_probabilities), (second, of_calls) = files.studies
    assert str(second)[len(str(first)) :] == "/call"
    np.testing.assert_array_equal(of_probabilities.z, clean.z)
    files.proba = alone
    expected = files.read(predicted="--predicted-labels")
    # in the order of the probabilities
    assert of_calls.classes == of_probabilities.classes
    place = [expected.classes.index(name) for name in of_calls.classes]
    np.testing.assert_array_equal(of_calls.z, expected.z[:, place])
    files.proba = pd.DataFrame(files.z, columns=CLASSES).assign(image=IDS)
    assert "--proba has no column 'call'" in files.refused("--decision", "call")


def test_a_class_that_was_named_is_no_missing_value(files):
    for frame in (files.long, files.proba):
        frame.replace({"None": "none"}, inplace=True)
    files.proba = files.proba.rename(columns={"None": "none"})
    doubt = "Among the classes, 'none' may be a missing value."
    assert doubt in files.read().notes
    for option in ("--ordered", "--classes"):
        study = files.read(option, "none", "benign", "malignant")
        assert doubt not in study.notes
        assert set(study.classes) == {"none", "benign", "malignant"}
    # and a label that is not among them still is an error that says how to mend it
    files.long.loc[:3, "finding"] = "modrate"
    assert "--map" in files.refused("--ordered", "none", "benign", "malignant")


def test_labels_that_are_no_answer_are_counted(files):
    files.long.loc[:5, "finding"] = "cannot grade"
    assert "--not-a-class" in files.refused()
    study = files.read("--not-a-class", "cannot grade")
    assert steps(study)["labels 'cannot grade', which is no class, left out"] == 6
    assert study.labels.counts.sum() == 84


def test_counts_have_names_to_mend_too(files):
    """Two columns of one class are added, and one that is no class is left out."""
    counts = pd.DataFrame(files.counts, columns=CLASSES).assign(Benign=1, blurred=2)
    both = ["--counts", files.save("counts", counts.assign(image=IDS))]
    both += ["--proba", files.save("proba", files.proba), "--columns", "image", "a", "b"]
    both += ["--output", str(files.folder / "out")]
    assert command.main(["report", *both]) == 2
    assert "--not-a-class" in files.said()
    left = ["--not-a-class", "blurred"]
    assert command.main(["report", *both, *left]) == 2
    assert "add: --map Benign=benign" in files.said()
    mended = ["--map", "Benign=benign", "--not-a-class", "blurred"]
    assert command.main(["report", *both, *mended]) == 0
    ((_, study),) = files.studies
    np.testing.assert_array_equal(study.labels.counts, files.counts + np.array([1, 0, 0]))
    assert steps(study)["labels 'blurred', which is no class, left out"] == 60


def test_none_is_a_class_and_a_blank_is_a_gap(files):
    """A file says "None" of a case without a finding."""
    study = files.read()
    np.testing.assert_array_equal(study.labels.counts, files.counts)
    files.long.loc[:2, "finding"] = ["", "  ", None]
    study = files.read()
    assert steps(study)["labels that are blank, left out"] == 3
    assert study.labels.counts.sum() == 87


def test_a_change_of_names_has_two_sides(files):
    with pytest.raises(SystemExit, match="2"):
        files.run("--map", "Bengin")
    assert "OLD=NEW" in files.said()


def test_grades_are_in_the_order_that_is_given(files):
    order = ["None", "benign", "malignant"]
    study = files.read("--ordered", *order)
    assert study.classes == order
    assert study.distance == "linear"
    np.testing.assert_allclose(study.z, files.z[:, [2, 0, 1]], rtol=1e-12)
    assert files.read("--ordered").classes == CLASSES
    assert "--ordered names" in files.refused("--ordered", "benign", "malignant")


# ------------------------------------------------------------------------------------------- cases


def test_cases_without_labels_are_left_out_and_named(files):
    files.long = files.long[~files.long["image"].isin(["003", "017"])]
    study = files.read()
    assert study.n_dropped == 2
    words = [(step.words, step.n, list(step.ids)) for step in study.flow]
    assert words == [
        ("cases with a prediction", 30, []),
        ("left out: without a label", 2, ["003", "017"]),
    ]
    np.testing.assert_allclose(study.z, np.delete(files.z, [3, 17], axis=0), rtol=1e-12)


def test_leading_zeros_that_a_spreadsheet_dropped(files):
    """Where no id meets otherwise, and one to one; a part of them is an error with a hint."""
    files.proba["image"] = range(30)
    study = files.read()
    np.testing.assert_array_equal(study.labels.counts, files.counts)
    assert any("spelt otherwise" in words for words in steps(study))
    files.proba["image"] = [*IDS[:20], *range(20, 30)]
    files.proba.loc[0, "image"] = "0"
    assert "001 is not 1" in files.refused()


def test_ids_that_are_numbers_are_no_probabilities(files):
    files.long["image"] = files.long["image"].astype(int)
    files.proba = files.proba.assign(image=range(30))[[*CLASSES, "image"]]
    study = files.read()
    assert study.classes == CLASSES
    assert study.ids.tolist() == [str(i) for i in range(30)]


PATIENTS = {name: f"p{int(name) // 2}" for name in IDS}


@pytest.mark.parametrize("where", ["annotations", "proba", "groups", "long groups"])
def test_a_patient_is_named_by_any_file(files, where):
    files.long = files.long[files.long["image"] != "003"]
    expected = [PATIENTS[name] for name in IDS if name != "003"]
    more = ["--patient", "patient"]
    if where == "annotations":
        files.long = files.long.assign(patient=files.long["image"].map(PATIENTS))
    elif where == "proba":
        files.proba = files.proba.assign(patient=files.proba["image"].map(PATIENTS))
    else:
        # the case without a label, and one that nobody knows, may be there or not
        table = pd.DataFrame({"image": [*IDS, "strange"], "patient": [*PATIENTS.values(), "p0"]})
        if where == "long groups":
            table = pd.concat([table, table])
            table = table[table["image"] != "003"]
        more = ["--groups", files.save("patients", table.sample(frac=1, random_state=0))]
    study = files.read(*more)
    assert study.n_groups == len(set(expected))
    same = np.equal.outer(np.array(expected), np.array(expected))
    np.testing.assert_array_equal(np.equal.outer(study.groups, study.groups), same)


def test_patients_that_are_missing_or_several(files):
    table = pd.DataFrame({"image": IDS[1:], "patient": list(PATIENTS.values())[1:]})
    assert "['000']" in files.refused("--groups", files.save("patients", table))
    files.long = files.long.assign(patient=np.arange(90))
    said = files.refused("--patient", "patient")
    assert "several values of 'patient'" in said
    assert "'patint'" in files.refused("--patient", "patint")


def test_subgroups_are_columns_of_any_file(files):
    files.proba["site"] = np.where(np.arange(30) % 3, "A", "B")
    about = pd.DataFrame({"image": IDS[:20], "device": np.repeat(["x", "y"], 10)})
    more = ["--cases", files.save("about", about), "--subgroups", "site", "device"]
    study = files.read(*more)
    assert study.groups is None
    assert study.subgroups["site"].tolist() == files.proba["site"].tolist()
    assert study.subgroups["device"].tolist() == [*"x" * 10, *"y" * 10, *["unknown"] * 10]
    assert "--subgroups site" in files.refused()


# ------------------------------------------------------------------------------------------ judges


@pytest.mark.parametrize("predicted", ["--proba", "--predicted-labels"])
def test_each_judge_has_a_page(files, predicted):
    rng = np.random.default_rng(0)
    said = {name: rng.choice(CLASSES, 30) for name in ("gpt", "old/model")}
    files.proba = pd.DataFrame({"image": IDS, **said})
    assert files.run(predicted=predicted) == 0, files.said()
    assert [folder.name for folder, _ in files.studies] == ["gpt", "old_model"]
    for name, (_, study) in zip(said, files.studies, strict=True):
        assert study.hard
        assert study.model_name == name
        names = np.array(study.classes)[study.z.argmax(axis=1)]
        np.testing.assert_array_equal(names, said[name])


def test_a_judge_says_something_of_each_case(files):
    files.proba = pd.DataFrame({"image": IDS, "gpt": ["benign"] * 29 + [None]})
    study = files.read(predicted="--predicted-labels")
    assert len(study) == 29
    assert steps(study)["left out: gpt says nothing"] == 1
    files.proba["gpt"] = "benigne"
    study = files.read(predicted="--predicted-labels")
    assert study.classes == ["None", "benign", "benigne", "malignant"]
    said = files.refused("--classes", *CLASSES, predicted="--predicted-labels")
    assert "'benigne' (30 labels)" in said


def test_the_folder_of_a_judge_stays_in_the_output(tmp_path, monkeypatch):
    """A name is no path."""

    places = []
    made = SimpleNamespace(data={"verdict": [], "checks": []}, status=1, save=places.append)
    monkeypatch.setattr(command, "report_on", lambda *_, **__: made)
    judges = pd.DataFrame({"id": list("abc"), "../old model": ["x", "y", "x"]})
    judges.to_csv(tmp_path / "judges.csv", index=False)
    counts = pd.DataFrame({"id": list("abc"), "x": [1, 2, 3], "y": 1})
    counts.to_csv(tmp_path / "counts.csv", index=False)
    both = ["--counts", str(tmp_path / "counts.csv"), "--proba", str(tmp_path / "judges.csv")]
    assert command.main(["report", *both, "--output", str(tmp_path / "out")]) == 0
    assert places == [tmp_path / "out" / "old_model"]


# ----------------------------------------------------------------------------------- what one sees


def test_names_of_the_page_and_of_the_model(files):
    study = files.read("--title", "Grades of biopsies", "--model-name", "ResNet")
    assert study.title == "Grades of biopsies"
    assert study.model_name == "ResNet"


def test_a_dry_run_says_what_is_supported_and_writes_nothing(files):
    pytest.importorskip("jinja2")
    assert files.run("--dry-run") == 0
    said = files.capsys.readouterr().out
    assert "raters named: 3 → comparison with raters" in said
    own = files.long[files.long["image"] == "000"].groupby("finding")["reader"].apply(sorted)
    (line,) = [line for line in said.splitlines() if line.startswith("case 000: ")]
    assert all(f"{name} {len(who)}: {', '.join(who)}" in line for name, who in own.items())
    assert "none (--patient)" in said
    assert "none (--costs)" in said
    assert not files.studies
    assert not (files.folder / "out").exists()
    files.long = files.long.drop_duplicates("image")
    files.long["reader"] = "Ann"
    files.proba["site"] = files.proba["patient"] = "A"
    files.proba.loc[0, "patient"] = "B"
    more = ["--subgroups", "site", "--patient", "patient", "--ordered", *CLASSES]
    costs = pd.DataFrame([[0, 1], [5, 1], [2, 1]], index=CLASSES, columns=["treat", "wait"])
    costs.to_csv(files.folder / "costs.csv")
    assert files.run("--dry-run", *more, "--costs", str(files.folder / "costs.csv")) == 0
    said = files.capsys.readouterr().out
    for words in (
        "raters named: 1",
        "no case has two",
        "2 stay together",
        "mean cost",
        "one step apart",
    ):
        assert words in said
    assert "subgroups by site → 1 values" in said
    files.proba = pd.DataFrame({"image": IDS, "gpt": "benign"})
    assert files.run("--dry-run") == 0
    assert "accuracy, no calibration" in files.capsys.readouterr().out


def test_help_speaks_of_cases_raters_and_patients(capsys):
    with pytest.raises(SystemExit, match="0"):
        command.main(["report", "--help"])
    said = capsys.readouterr().out
    assert said.count("python -m sklearn_lhcal report --") == 3
    assert all(word in said for word in ("case", "rater", "patient", "--dry-run"))
    assert "folds" not in said


def test_what_python_warns_of_is_a_note_without_its_path(files):
    """Raters who were asked again only where two differed are no random raters."""
    files.long = files.long[files.long["reader"] != "Cy"]
    pairs = files.long.groupby("image")["finding"].nunique()
    split = pairs.index[pairs > 1]
    third = pd.DataFrame({"image": split, "reader": "Cy", "finding": "benign"})
    files.long = pd.concat([files.long, third])
    notes = files.read().notes
    assert not any(".py" in note for note in notes)
