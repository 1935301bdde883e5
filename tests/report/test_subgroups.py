"""The subgroups of a report are those of the audit."""

import json
from importlib.resources import files

import numpy as np
import pytest

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.metrics import subgroup_audit
from sklearn_lhcal.report import report

jsonschema = pytest.importorskip("jsonschema")
pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")


@pytest.mark.slow
def test_subgroups_are_those_of_the_audit():
    data = make_label_histograms(150, n_raters=2, random_state=0)
    sites = {"site": np.repeat(["north", "south"], 75), "device": np.tile([1, 2, 3], 50)}
    made = report(data.counts, data.prediction, subgroups=sites, random_state=0)
    expected = subgroup_audit(data.counts, data.prediction, sites, random_state=0).to_frame()
    found = made.data["subgroups"]["table"]
    assert len(found) == len(expected) == 15
    for row, (_, wanted) in zip(found, expected.iterrows(), strict=True):
        assert row["n"] == wanted["n"]
        ends = ["estimate", "low", "high"]
        np.testing.assert_allclose([row[k] for k in ends], wanted[ends].astype(float))
    every = {(m["quantity"], m["class_name"], m["part"]): m for m in made.data["numbers"]}
    for row in found:
        number = every["excess_probability", row["class"], row["subgroup"]]
        assert number["estimate"] == row["estimate"]
        losses = every["irreducible_loss", None, row["subgroup"]]
        assert losses["high"] == row["irreducible_loss_high"]
        slope = every["slope", None, row["subgroup"]]
        assert [slope["low"], slope["high"]] == [row["slope_low"], row["slope_high"]]
    assert "site=north" in made.html
    assert "Calibration slope" in made.html
    schema = json.loads(files("sklearn_lhcal.report").joinpath("schema.json").read_text())
    jsonschema.validate(made.data, schema)


def test_a_column_that_tells_nothing_is_said():
    data = make_label_histograms(80, n_raters=2, random_state=0)
    made = report(data.counts, data.prediction, subgroups={"site": ["north"] * 80})
    assert "one value only" in made.data["subgroups"]["words"]
