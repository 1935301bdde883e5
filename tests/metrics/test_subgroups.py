"""Subgroups from columns: which there are, what they are called, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.metrics import subgroup_audit

N = 120
DATA = make_label_histograms(N, random_state=0)
SEX = np.where(np.arange(N) % 2, "F", "M")
SITE = np.arange(N) % 3
AGE = np.random.default_rng(0).permutation(N) / 2


def audit(subgroups, **options):
    return subgroup_audit(
        DATA.counts, DATA.proba, subgroups, **{"n_draws": 20, "min_rows": 5} | options
    )


def names_of(found):
    return found.to_frame().index.unique(0).tolist()


def sizes_of(found):
    return found.to_frame().n.groupby(level=0, sort=False).first()


def test_a_few_numbers_are_names_and_many_are_cut_at_their_quartiles():
    found = audit({"site": SITE, "age": AGE})
    sites, ages = names_of(found)[:3], names_of(found)[3:]
    assert sites == ["site=0", "site=1", "site=2"]
    assert ages == ["age ≤ 14.5", "14.5 < age ≤ 29.5", "29.5 < age ≤ 44.5", "age > 44.5"]
    assert sizes_of(found).tolist() == [40] * 3 + [30] * 4


@pytest.mark.parametrize("most", [0.0, 1.0], ids=["least", "largest"])
def test_ties_leave_fewer_than_four_parts_of_which_none_is_empty(most):
    x = np.where(np.arange(N) % 10 < 8, most, np.random.default_rng(0).random(N))
    found = audit(x)
    assert sizes_of(found).sum() == N
    assert sorted(sizes_of(found)) == [N // 5, N - N // 5]


def test_missing_values_are_a_subgroup():
    sex = SEX.astype(object)
    sex[:10] = None
    age = AGE.copy()
    age[::4] = np.nan
    found = audit({"sex": sex, "age": age})
    n = sizes_of(found)
    assert n["sex missing"] == 10
    assert n["age missing"] == N // 4
    assert n["sex=F"] == 55


def test_pairs_are_those_of_different_columns():
    found = audit({"site": SITE, "sex": SEX}, max_depth=2)
    pairs = [name for name in names_of(found) if " & " in name]
    assert pairs == [f"site={i} & sex={sex}" for i in range(3) for sex in "FM"]
    assert sizes_of(found)["site=0 & sex=F"] == N // 6
    assert len(names_of(audit({"site": SITE, "sex": SEX}))) == 5


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_and_dicts_are_alike(frame):
    columns = {"sex": SEX, "site": SITE}
    found, expected = audit(frame(columns)), audit(columns)
    assert repr(found) == repr(expected)
    assert str(found) == str(expected)
    assert found.to_frame().equals(expected.to_frame())


def test_columns_without_names_are_numbered():
    two = np.stack([SITE, SITE // 2], axis=1)
    names = [f"column {j}={level}" for j, level in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]]
    for given in (two, two.tolist(), pd.DataFrame(two), pl.DataFrame(two, orient="row")):
        assert names_of(audit(given)) == names
    assert names_of(audit(SEX)) == ["subgroup=F", "subgroup=M"]
    assert names_of(audit(pd.Series(SEX, name="sex"))) == ["sex=F", "sex=M"]


def test_small_subgroups_are_named_and_left_out():
    site = SITE.copy()
    site[:4] = 7
    found = audit({"site": site})
    assert found.left_out == {"site=7": 4}
    assert "left out as too small: 1" in str(found)
    patients = np.arange(N) // 30
    with pytest.raises(ValueError, match=r"All subgroups .* the largest of 3 has 4"):
        audit({"site": SITE}, groups=patients)


def test_samples_without_weight_or_label_are_in_no_subgroup():
    w = np.ones(N)
    w[SITE == 2] = 0
    found = audit({"site": SITE}, sample_weight=w)
    assert names_of(found) == ["site=0", "site=1"]


@pytest.mark.parametrize(
    ("subgroups", "message"),
    [
        ({"sex": SEX[:-1]}, r"subgroups\['sex'\] has 119 samples, expected 120"),
        (SEX[:-1], r"subgroups\['subgroup'\] has 119 samples"),
        ({"sex": SEX, "site": np.ones(N)}, r"subgroups\['site'\] has one value only, site=1.0"),
        ({"name": np.arange(N).astype(str)}, r"All subgroups .* of 120 has 1"),
        ({"mixed": np.where(SITE == 0, "a", SITE.astype(object))}, "types that cannot be sorted"),
        (np.zeros((N, 2, 2)), "subgroups must have one or two axes"),
        ({}, "subgroups has no columns"),
        (None, "subgroups"),
        (pd.DataFrame(np.stack([SEX, SEX], axis=1), columns=["sex", "sex"]), "twice"),
    ],
)
def test_bad_subgroups(subgroups, message):
    with pytest.raises(ValueError, match=message):
        audit(subgroups)


def test_frames_in_another_order_are_refused():
    y = pd.DataFrame(DATA.counts, index=np.arange(N) + 1000)
    subgroups = pd.DataFrame({"sex": SEX}, index=np.arange(N)[::-1] + 1000)
    with pytest.raises(ValueError, match=r"subgroups and y .* another order"):
        subgroup_audit(y, DATA.proba, subgroups)
