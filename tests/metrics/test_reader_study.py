"""Reader studies with truth: published numbers, invariances, bad input, coverage."""

import pickle
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import nct, norm, rankdata
from scipy.stats import t as student
from sklearn.metrics import roc_auc_score

from sklearn_lhcal.label_histogram import Readings
from sklearn_lhcal.metrics import reader_study

# Van Dyke et al. (1993): 5 readers, 45 patients with an aortic dissection and 69 without, spin-echo
# (0) and cine (1) MRI. AUCs and components are those that MRMCaov and RJafroc print.
N_CASES = 114
AUCS = np.array(
    [
        [0.9196457, 0.8587762, 0.9038647, 0.9731079, 0.8297907],
        [0.9478261, 0.9053140, 0.9217391, 0.9993559, 0.9299517],
    ]
)
JACKKNIFE = (0.0008022883, 0.0003466137, 0.0003440748, 0.0002390284)
DELONG = (0.0007921325, 0.0003420090, 0.0003395265, 0.0002358497)


def mean_score(truth, score):
    """A metric whose covariances are those of the scores, divided by the number of cases."""
    return score.mean()


def of_moments(theta, V, n=N_CASES):
    """n rows whose means are theta, and whose covariance, divided by n, is V."""
    noise = np.random.default_rng(0).normal(size=(n, theta.size))
    noise -= noise.mean(axis=0)
    noise = noise @ np.linalg.inv(np.linalg.cholesky(np.cov(noise.T))).T
    return theta + noise @ np.linalg.cholesky(n * V).T


def of_components(theta, error, cov1, cov2, cov3):
    """V of conditions x readers, from the components of Obuchowski and Rockette."""
    M, J = theta.shape
    m, r = np.eye(M, dtype=bool)[:, None, :, None], np.eye(J, dtype=bool)[None, :, None, :]
    V = np.where(m, np.where(r, error, cov2), np.where(r, cov1, cov3))
    return V.reshape(M * J, M * J)


def readings_of(theta, V, n=N_CASES):
    """Readings of which `mean_score` has these means and covariances."""
    scores = of_moments(theta.ravel(), V, n)
    parts = np.split(scores, len(theta), axis=1)
    return Readings.from_matrix(np.arange(n) % 2, {f"c{m}": part for m, part in enumerate(parts)})


def van_dyke(components, **options):
    readings = readings_of(AUCS, of_components(AUCS, *components))
    options = {"metric": mean_score, "compare": ("c0", "c1")} | options
    return reader_study(readings, **options)


# -------------------------------------------------------------------------------- published numbers


def test_van_dyke_as_published():
    """MRMCaov's and RJafroc's difference, from the published summary."""
    found = van_dyke(JACKKNIFE)
    estimate, _, _, error = found.difference
    assert estimate == pytest.approx(-0.04380032, abs=1e-8)
    assert error == pytest.approx(0.0207486183790, rel=1e-6)
    assert found.difference.df == pytest.approx(15.2596745892, rel=1e-5)
    assert found.p_value == pytest.approx(0.0516656858, rel=1e-5)
    assert (estimate / error) ** 2 == pytest.approx(4.45631869, rel=1e-5)
    assert found.values["c0"].estimate == pytest.approx(0.8970370, abs=1e-7)
    assert found.values["c1"].estimate == pytest.approx(0.9408374, abs=1e-7)


def test_van_dyke_by_delong():
    found = van_dyke(DELONG)
    assert found.difference.standard_error == pytest.approx(0.0206825, abs=5e-8)
    assert found.difference.df == pytest.approx(15.06611, abs=5e-5)
    assert found.p_value == pytest.approx(0.05123303, abs=5e-7)
    assert found.difference[1:3] == pytest.approx([-0.0878671960, 0.0002665519], abs=5e-8)
    expected = dict(zip(("error", "cov1", "cov2", "cov3"), DELONG, strict=True))
    expected |= {"reader": 0.0015364254, "condition x reader": 0.0002045840}
    assert found.components == pytest.approx(expected, rel=1e-5)


def test_van_dyke_for_these_readers():
    found = van_dyke(JACKKNIFE, readers="fixed")
    assert found.difference.standard_error == pytest.approx(0.01871748, abs=5e-8)
    assert found.difference[1:3] == pytest.approx([-0.08048591, -0.00711473], abs=5e-7)
    assert found.p_value == pytest.approx(0.01927984, abs=5e-7)


@pytest.mark.parametrize(
    ("n_readers", "n_cases", "power"),
    [
        (5, 114, 0.6166099792),
        (10, 100, 0.7407062616),
        (6, 251, 0.8922819894),
        (8, 150, 0.8347791133),
    ],
)
def test_power_is_that_of_rjafroc(n_readers, n_cases, power):
    size = van_dyke(JACKKNIFE).study_size(effect=0.05)
    assert size.power(n_cases, n_readers) == pytest.approx(power, rel=2e-6)


def test_numbers_of_cases_are_those_of_rjafroc():
    size = van_dyke(JACKKNIFE).study_size(effect=0.05, n_readers=(5, 6, 8, 10))
    assert size.n_cases.tolist() == [213, 170, 134, 119]
    low, high = size.n_cases_range.T
    assert (low < size.n_cases).all()
    # a pilot of five readers leaves it wide open
    assert (high > 2 * size.n_cases).all()


def auc(truth, score):
    n1 = truth.sum()
    ranks = rankdata(score)[truth == 1].sum()
    return (ranks - n1 * (n1 + 1) / 2) / (n1 * (len(truth) - n1))


def unbiased(truth, A, B):
    """The unbiased estimate of the covariance of two AUCs, by all pairs of cases (Gallas 2006)."""
    success = [
        (s[truth == 1][:, None] > s[truth == 0]) + 0.5 * (s[truth == 1][:, None] == s[truth == 0])
        for s in (A, B)
    ]
    a, b = success
    n1, n0 = a.shape
    both = (a * b).sum()
    same_positive = (a.sum(axis=1) * b.sum(axis=1)).sum() - both
    same_negative = (a.sum(axis=0) * b.sum(axis=0)).sum() - both
    apart = a.sum() * b.sum() - both - same_positive - same_negative
    M1, M2 = both / (n1 * n0), same_positive / (n1 * n0 * (n0 - 1))
    M3, M4 = same_negative / (n1 * n0 * (n1 - 1)), apart / (n1 * n0 * (n1 - 1) * (n0 - 1))
    c = 1 / (n1 * n0)
    return c * (M1 + (n0 - 1) * M2 + (n1 - 1) * M3 + ((n1 - 1) * (n0 - 1) - n1 * n0) * M4)


IMRMC = Path(__file__).parent / "imrmc_input.imrmc"


def test_imrmc_test_file():
    """The test file of iMRMC (FDA, CC0): its numbers, by its unbiased covariances."""
    readings = Readings.from_imrmc(IMRMC)
    pairs = product(readings.scores.T, repeat=2)
    V = np.reshape([unbiased(readings.truth, a, b) for a, b in pairs], (10, 10))
    theta = np.reshape([auc(readings.truth, score) for score in readings.scores.T], (2, 5))
    found = reader_study(readings_of(theta, V, 80), metric=mean_score, compare=("c0", "c1"))
    assert found.values["c0"].estimate == pytest.approx(0.704375, abs=1e-9)
    assert found.values["c1"].estimate == pytest.approx(0.7585, abs=1e-9)
    assert found.difference.standard_error**2 == pytest.approx(0.00498950905, rel=1e-8)
    assert found.difference.df == pytest.approx(7.43533593, rel=1e-8)
    # iMRMC takes the whole degrees of freedom, 7
    ratio = abs(found.difference.estimate) / found.difference.standard_error
    assert 2 * student.sf(ratio, 7) == pytest.approx(0.468575984, rel=1e-8)
    for name, variance, df in (
        ("c0", 0.00631393024, 6.85458885),
        ("c1", 0.00237205276, 35.0001533),
    ):
        assert found.values[name].standard_error ** 2 == pytest.approx(variance, rel=1e-8)
        assert found.values[name].df == pytest.approx(df, rel=1e-8)
    # DeLong's covariances differ by little
    own = reader_study(readings, compare=("testA", "testB"))
    assert own.difference.estimate == pytest.approx(-0.054125, abs=1e-12)
    assert own.difference.standard_error**2 == pytest.approx(0.00498950905, rel=0.01)
    assert own.p_value == pytest.approx(found.p_value, rel=0.01)


def google_model_and_readers():
    """What simulate_single_modality of Google's reader_study draws with this seed."""
    rng = np.random.RandomState(1987)
    y = np.repeat([1, 0], [200, 800])
    case = rng.randn(1000)
    readers = []
    for _ in range(10):
        negative, positive = 0.075 * rng.randn(2)
        noise = 0.8 * rng.randn(1000)
        readers.append(y + np.where(y == 1, positive, negative) + 0.6 * case + noise)
    return Readings.from_matrix(y, {"model": y + case, "readers": np.column_stack(readers)})


def test_model_against_readers_of_google():
    """Values by RJafroc, in the test of Google's library, whose covariances are the jackknife's."""
    readings = google_model_and_readers()
    options = {"compare": ("model", "readers"), "scale": "linear"}
    found = reader_study(readings, metric=auc, **options)
    assert found.design == "model against readers"
    assert found.difference.estimate == pytest.approx(-0.00584125, rel=1e-7)
    assert found.p_value == pytest.approx(0.6560453, rel=1e-6)
    assert found.difference[1:3] == pytest.approx([-0.03233184, 0.02064934], abs=1e-8)
    assert found.difference.df == pytest.approx(31.00905, rel=1e-6)
    by_delong = reader_study(readings, **options)
    assert by_delong.p_value == pytest.approx(0.6558046, abs=5e-8)
    assert by_delong.difference.df == pytest.approx(30.91241, abs=5e-6)


def test_two_conditions_of_google():
    """Values by RJafroc, in the same test."""
    rng = np.random.RandomState(1987)
    y = np.repeat([0, 1], 200)
    case = np.sqrt(0.3) * rng.randn(400)
    of_condition = [np.sqrt(0.3) * rng.randn(400) for _ in range(2)]
    scores = np.empty((2, 400, 10), dtype=np.float32)
    for j in range(10):
        positive, negative = np.sqrt(0.0082) * rng.randn(2)
        of_reader = np.sqrt(0.2) * rng.randn(400)
        for m in range(2):
            own = np.sqrt(0.0082) * rng.randn(2)
            error = np.sqrt(0.2) * rng.randn(400)
            shift = np.where(y == 1, 0.821 + positive + own[0], negative + own[1])
            scores[m, :, j] = shift + case + of_reader + of_condition[m] + error
    readings = Readings.from_matrix(y, {"0": scores[0], "1": scores[1]})
    found = reader_study(readings, metric=auc, compare=("1", "0"))
    assert found.difference.estimate == pytest.approx(0.00451, abs=1e-6)
    assert found.p_value == pytest.approx(0.8502715, abs=1e-6)
    assert found.difference[1:3] == pytest.approx([-0.04284442691, 0.05186442691], abs=1e-6)
    assert found.difference.df == pytest.approx(85.5241922, abs=1e-4)


# -------------------------------------------------------------------------------- laws of readings


def table_of(readings):
    """A long table of all readings."""
    case, column = np.nonzero(~np.isnan(readings.scores))
    return pd.DataFrame(
        {
            "case": readings.items[case],
            "reader": readings.readers[column],
            "condition": readings.conditions[column],
            "score": readings.scores[case, column],
            "truth": readings.truth[case],
        }
    )


def simulated(
    seed=0, n=(30, 30), J=5, components=(0.3, 0.3, 0.2, 0.2, 0.01), mu=1.5, M=2, shared=0.0
):
    """Scores (M, n, J) of Roe and Metz's model, and the truth.

    Components are the variances of cases, condition x case, reader x case, errors, and that of
    readers, which is that of condition x reader, too. Of effects of cases pairs share a part.
    """
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], n)
    N = len(y)
    case, condition_case, reader_case, error, reader = np.sqrt(components)

    def of_cases(m):
        pairs = np.repeat(rng.normal(size=(m, N // 2 + 1, 1)), 2, axis=1)[:, :N]
        return np.sqrt(1 - shared) * rng.normal(size=(m, N, 1)) + np.sqrt(shared) * pairs

    shift = reader * (rng.normal(size=(1, 2, J)) + rng.normal(size=(M, 2, J)))
    scores = mu * y[None, :, None] + shift[:, y]
    scores += case * of_cases(1) + condition_case * of_cases(M)
    scores += reader_case * rng.normal(size=(1, N, J)) + error * rng.normal(size=(M, N, J))
    return y, scores


NAMES = ("unaided", "aided")


def study_data(seed=0, **options):
    y, scores = simulated(seed, **options)
    return Readings.from_matrix(y, dict(zip(NAMES, scores, strict=True)))


def with_gaps(readings, share=0.2, seed=0):
    gaps = np.random.default_rng([seed, 1]).random(readings.scores.shape) < share
    return readings._replace(scores=np.where(gaps, np.nan, readings.scores))


def numbers(found):
    """All numbers of a result that have no order."""
    intervals = [*found.values.values(), found.difference]
    ends = np.concatenate([[*interval, interval.df] for interval in intervals])
    return np.concatenate(
        [ends, [found.p_value, found.p_non_inferior], [*found.components.values()]]
    )


@pytest.mark.parametrize("metric", ["auc", "sensitivity", "specificity", auc])
@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_order_of_cases_readers_and_rows_makes_no_difference(metric, gaps):
    readings = with_gaps(study_data(), gaps)
    options = {"metric": metric, "compare": NAMES, "margin": 0.1, "threshold": 0.8}
    expected = reader_study(readings, **options)
    rng = np.random.default_rng(1)
    for _ in range(3):
        table = table_of(readings).sample(frac=1, random_state=rng.integers(100))
        # other names, so that sorted ones are in another order
        table["case"] = rng.permutation(len(readings.truth))[table["case"]]
        table["reader"] = rng.permutation(5)[table["reader"]]
        found = reader_study(Readings.from_long(table), **options)
        assert numbers(found) == pytest.approx(numbers(expected), rel=1e-9, abs=1e-12)


def test_auc_depends_on_ranks_only():
    readings = with_gaps(study_data())
    options = {"compare": NAMES, "margin": 0.1}
    expected = numbers(reader_study(readings, **options))
    for change in (np.exp, lambda s: s**3, lambda s: 1e6 * s - 7):
        other = readings._replace(scores=change(readings.scores))
        assert numbers(reader_study(other, **options)) == pytest.approx(expected, rel=1e-12)


def test_reversed_scores_exchange_sensitivity_and_specificity():
    readings = with_gaps(study_data())
    turned = readings._replace(truth=1 - readings.truth, scores=-readings.scores)
    for one, other in (("auc", "auc"), ("sensitivity", "specificity")):
        options = {"compare": NAMES, "margin": 0.1}
        found = reader_study(readings, metric=one, threshold=0.8, **options)
        back = reader_study(turned, metric=other, threshold=np.nextafter(-0.8, 1), **options)
        assert numbers(back) == pytest.approx(numbers(found), rel=1e-9)


def test_exchanged_conditions_turn_the_sign():
    readings = with_gaps(study_data())
    for scale in ("linear", "logit"):
        there = reader_study(readings, compare=NAMES, scale=scale)
        back = reader_study(readings, compare=NAMES[::-1], scale=scale)
        estimate, low, high, error = there.difference
        assert back.difference == pytest.approx((-estimate, -high, -low, error), rel=1e-9)
        assert back.p_value == pytest.approx(there.p_value, rel=1e-9)


def test_auc_of_each_reader_is_scikit_learns():
    readings = with_gaps(study_data())
    found = reader_study(readings)
    for column, value in enumerate(found.reader_values.T.ravel()):
        seen = ~np.isnan(readings.scores[:, column])
        expected = roc_auc_score(readings.truth[seen], readings.scores[seen, column])
        assert value == pytest.approx(expected, abs=1e-12)
    assert found.n_read.sum() == np.count_nonzero(~np.isnan(readings.scores))
    means = found.reader_values.mean(axis=0)
    assert [of.estimate for of in found.values.values()] == pytest.approx(means, abs=1e-12)


def test_delong_of_two_models():
    """Two models against each other: DeLong, DeLong and Clarke-Pearson's variance, by hand."""
    y, scores = simulated(n=(20, 35))
    a, b = scores[:, :, 0]
    readings = Readings.from_matrix(y, {"a": a, "b": b})
    found = reader_study(readings, compare=("a", "b"), scale="linear")
    wins = [(s[y == 1][:, None] > s[y == 0]).astype(float) for s in (a, b)]
    gap = wins[0] - wins[1]
    V = gap.mean(axis=1).var(ddof=1) / 35 + gap.mean(axis=0).var(ddof=1) / 20
    assert found.difference.standard_error == pytest.approx(np.sqrt(V), rel=1e-12)
    assert found.p_value == pytest.approx(2 * norm.sf(abs(gap.mean()) / np.sqrt(V)), rel=1e-9)
    assert found.design == "single readers"


def test_copies_of_the_model_are_the_model():
    """A model that reads as each of the readers is that model, as a fixed reader."""
    y, scores = simulated()
    model = scores[0, :, 0]
    readers = scores[1]
    alone = Readings.from_matrix(y, {"model": model, "readers": readers})
    copies = np.repeat(model[:, None], readers.shape[1], axis=1)
    often = Readings.from_matrix(y, {"model": copies, "readers": readers})
    options = {"compare": ("model", "readers"), "scale": "linear"}
    one = reader_study(alone, **options)
    other = reader_study(often, **options)
    assert one.difference == pytest.approx(other.difference, rel=1e-9)
    assert one.difference.df == pytest.approx(other.difference.df, rel=1e-9)


def test_two_identical_conditions():
    y, scores = simulated()
    readings = Readings.from_matrix(y, {"a": scores[0], "b": scores[0]})
    with pytest.warns(UserWarning, match="variance is 0"):
        found = reader_study(readings, compare=("a", "b"), margin=0.05)
    assert found.difference.estimate == found.difference.standard_error == 0
    assert np.isnan([found.p_value, found.p_non_inferior, *found.difference[1:3]]).all()
    assert not found.non_inferior


@pytest.mark.parametrize("scale", ["linear", "logit"])
def test_p_values_agree_with_intervals(scale):
    """At the level of 1 − p an end is 0; at that of the one-sided p the lower end is −margin."""
    readings = with_gaps(study_data(3))
    options = {"compare": NAMES, "scale": scale, "margin": 0.07}
    found = reader_study(readings, **options)
    low, high = reader_study(readings, confidence_level=1 - found.p_value, **options).difference[
        1:3
    ]
    assert min(abs(low), abs(high)) < 1e-9
    level = 1 - 2 * found.p_non_inferior
    assert reader_study(readings, confidence_level=level, **options).difference.low == (
        pytest.approx(-0.07, abs=1e-9)
    )
    for level in (0.5, 0.9, 0.99):
        found = reader_study(readings, confidence_level=level, **options)
        assert found.non_inferior == (found.p_non_inferior < (1 - level) / 2)


def test_groups_of_one_case_are_none_and_copies_count_once():
    readings = study_data(n=(40, 40))
    expected = reader_study(readings, compare=NAMES, margin=0.1)
    alone = reader_study(readings, compare=NAMES, margin=0.1, groups=np.arange(80))
    assert numbers(alone) == pytest.approx(numbers(expected), rel=1e-12)
    twice = readings._replace(
        truth=np.tile(readings.truth, 2),
        scores=np.tile(readings.scores, (2, 1)),
        items=np.arange(160),
    )
    groups = np.tile(np.arange(80), 2)
    together = reader_study(twice, compare=NAMES, groups=groups)
    # one stratum in place of two has a factor of 80/79 in place of 40/39
    for name in ("error", "cov1", "cov2", "cov3"):
        ratio = together.components[name] / expected.components[name]
        assert ratio == pytest.approx(80 / 79 / (40 / 39), rel=1e-9)
    own = reader_study(twice, metric=auc, compare=NAMES, groups=groups)
    once = reader_study(readings, metric=auc, compare=NAMES)
    assert own.difference == pytest.approx(once.difference, rel=1e-9)


def test_floor_is_the_interval_for_these_readers():
    """Readers who are copies of one look alike: what cases add remains."""
    y, scores = simulated(J=1)
    readings = Readings.from_matrix(y, {m: np.repeat(scores[m], 5, 1) for m in (0, 1)})
    found = reader_study(readings, compare=(0, 1))
    fixed = reader_study(readings, compare=(0, 1), readers="fixed")
    assert found.difference.standard_error == pytest.approx(fixed.difference.standard_error)
    y, scores = simulated(0, components=(0.1, 0.1, 0.2, 0.6, 0.0))
    readings = Readings.from_matrix(y, dict(zip(NAMES, scores, strict=True)))
    found = reader_study(readings, compare=NAMES)
    assert found.difference.components.raters < found.difference.components.cells
    assert "raters differ here no more than by chance" in found.difference.notes[0]


def test_perfect_readers_have_clopper_and_pearsons_bound():
    y = np.repeat([0, 1], [20, 30])
    readings = Readings.from_matrix(y, {"all right": np.tile(y[:, None], (1, 5))})
    with pytest.warns(UserWarning, match="variance is 0"):
        found = reader_study(readings, metric="sensitivity").values["all right"]
    assert found[:3] == pytest.approx((1, 0.025 ** (1 / 30), 1))


def test_designs():
    y, scores = simulated(J=6, n=(20, 20))
    whole = Readings.from_matrix(y, dict(zip(NAMES, scores, strict=True)))
    columns = np.arange(12) % 6
    half = (np.arange(40) % 2)[:, None] == (columns >= 3)
    split = whole._replace(scores=np.where(half, whole.scores, np.nan))
    assert reader_study(whole, compare=NAMES).design == "crossed"
    assert reader_study(split, compare=NAMES).design == "split plot"
    assert reader_study(with_gaps(whole), compare=NAMES).design == "partial"
    others = whole._replace(readers=np.arange(12))
    found = reader_study(others, compare=NAMES)
    assert found.design == "different readers"
    assert np.isnan(found.reader_difference).all()
    assert not found.components
    mixed = whole._replace(readers=np.array([*range(6), 4, 5, *range(6, 10)]))
    with pytest.warns(UserWarning, match="one condition only"):
        found = reader_study(mixed, compare=NAMES)
    assert found.design == "partial"
    assert found.difference.df >= 5


def test_forms_of_readings_agree():
    readings = with_gaps(study_data())
    table = table_of(readings)
    named = table.rename(columns={"case": "film", "reader": "who"})
    by_name = Readings.from_long(named, item="film", reader="who")
    # conditions are sorted
    assert list(dict.fromkeys(by_name.conditions.tolist())) == ["aided", "unaided"]
    arrays = Readings.from_long(
        item=table.case, **{k: table[k].tolist() for k in ("reader", "condition", "score", "truth")}
    )
    frames = {
        m: table[table.condition == m].pivot(index="case", columns="reader", values="score")
        for m in NAMES
    }
    frames = {m: frame.reindex(range(60)) for m, frame in frames.items()}
    matrices = Readings.from_matrix(pd.Series(readings.truth), frames)
    expected = numbers(reader_study(readings, compare=NAMES, margin=0.1))
    for other in (by_name, arrays, matrices, pickle.loads(pickle.dumps(by_name))):
        found = reader_study(other, compare=NAMES, margin=0.1)
        assert numbers(found) == pytest.approx(expected, rel=1e-9)
    frame = found.to_frame()
    assert list(frame) == [*NAMES, "difference", "difference_low", "difference_high"]


# ---------------------------------------------------------------------------------------- bad input


def spoiled(**columns):
    table = {
        "case": [1, 2, 3, 4] * 2,
        "reader": ["A"] * 4 + ["B"] * 4,
        "condition": ["x"] * 8,
        "score": [1.0, 2, 3, 4, 4, 3, 2, 1],
        "truth": [0, 0, 1, 1] * 2,
    }
    return pd.DataFrame(table | columns)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"truth": [0, 0, 1, 2] * 2}, "truth must be 0 or 1; that of case 4 is 2"),
        ({"truth": ["no", "no", "yes", "yes"] * 2}, "holds text; .* truth == 'yes'"),
        ({"truth": [0, 0, 1, np.nan] * 2}, "truth must be 0 or 1; that of case 4 is nan"),
        ({"truth": [0, 0, 1, 1, 0, 0, 0, 1]}, "case 3 has two"),
        ({"case": [1, 2, 3, 3] * 2}, "reader A has two of a case under a condition .case 3"),
        ({"reader": [None] * 8}, "row 0 has no item, reader or condition"),
        ({"score": [np.inf, 2, 3, 4, 4, 3, 2, 1]}, "score contains infinite"),
        ({"score": ["a"] * 8}, "score must be numeric"),
        ({"score": [np.nan] * 8}, "score holds no scores"),
    ],
)
def test_bad_tables(columns, message):
    with pytest.raises(ValueError, match=message):
        Readings.from_long(spoiled(**columns))


def test_bad_columns_and_matrices():
    with pytest.raises(ValueError, match="no column 'truth'"):
        Readings.from_long(spoiled().drop(columns="truth"))
    with pytest.raises(ValueError, match="scores is empty"):
        Readings.from_matrix([0, 1], {})
    with pytest.raises(
        ValueError, match=r"scores\['a'\], beside truth: scores has 3 samples, expected 2"
    ):
        Readings.from_matrix([0, 1], {"a": [1.0, 2, 3]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A,1,x,3", "has no line BEGIN DATA"),
        ("BEGIN DATA:\ntruth,1,truth,0\nA,1,x", "study.imrmc: invalid column index 3"),
        (
            "BEGIN DATA:\ntruth,1,truth,0\nA,1,x,3\nA,2,x,4",
            "truth must be 0 or 1; that of case 2 is nan",
        ),
        ("BEGIN DATA:\ntruth,1,truth,0\nA,1,x,high", "could not convert"),
    ],
)
def test_bad_imrmc_files(tmp_path, text, message):
    path = tmp_path / "study.imrmc"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        Readings.from_imrmc(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compare": ("aided", "alone")}, "compare must name two of the conditions"),
        ({"compare": ("aided", "aided")}, "compare must name two of the conditions"),
        ({"compare": ("aided",)}, "compare must name two of the conditions"),
        ({"compare": "ab"}, "compare must name two of the conditions"),
        ({"margin": 0.1}, "beside compare="),
        ({"compare": NAMES, "margin": 0}, "margin must be above 0"),
        ({"metric": "sensitivity"}, "give threshold="),
        ({"threshold": "high"}, "threshold must be a number"),
        ({"metric": "AUC"}, "metric must be"),
        ({"groups": [1, 2]}, "groups has 2 samples"),
        ({"groups": [1] * 60}, "all cases of one truth are in one group"),
        ({"metric": lambda y, s: 7.0, "scale": "logit"}, "a metric from 0 to 1"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        reader_study(study_data(), **options)


def test_too_few():
    y, scores = simulated(J=2)
    readings = Readings.from_matrix(y, dict(zip(NAMES, scores, strict=True)))
    with pytest.raises(ValueError, match=r"three readers.*got 2; readers=.fixed"):
        reader_study(readings)
    assert np.isfinite(reader_study(readings, readers="fixed", compare=NAMES).difference).all()
    readings = study_data()
    scores = readings.scores.copy()
    scores[31:, 7] = np.nan
    with pytest.raises(ValueError, match="under 'aided': reader 2 has read 1 cases of truth 1"):
        reader_study(readings._replace(scores=scores))
    with pytest.warns(UserWarning, match="only 4 readers.*readers="):
        reader_study(study_data(J=4))
    with pytest.warns(UserWarning, match="20 cases of one truth, a value above 0.95"):
        reader_study(study_data(n=(20, 20), mu=3.5))
    with pytest.raises(ValueError, match="compare= and random readers"):
        reader_study(study_data()).study_size(effect=0.1)
    with pytest.raises(ValueError, match="none to show"):
        reader_study(study_data(), compare=NAMES).study_size(effect=0.0)


def test_warnings_point_at_the_call():
    with pytest.warns(UserWarning, match="only 4 readers") as caught:
        reader_study(study_data(J=4))
    assert caught[0].filename == __file__


# -------------------------------------------------------------------------------------- study size


def test_a_study_like_the_pilot_has_its_variance():
    """Power at the pilot's size is that of its own standard error and degrees of freedom."""
    readings = study_data(1, n=(30, 50), components=(0.3, 0.3, 0.2, 0.2, 0.05))
    found = reader_study(readings, compare=NAMES)
    size = found.study_size(effect=0.08)
    error, df = found.difference.standard_error, found.difference.df
    bound = student.ppf(0.975, df)
    shift = 0.08 / error
    expected = nct.sf(bound, df, shift) + nct.cdf(-bound, df, shift)
    assert size.power(80, 5) == pytest.approx(expected, rel=1e-9)
    # the pilot's own share of positive cases changes nothing
    same = found.study_size(effect=0.08, prevalence=50 / 80)
    assert same.n_cases.tolist() == size.n_cases.tolist()
    # rare positive cases cost more of them
    assert (found.study_size(effect=0.08, prevalence=0.1).n_cases > size.n_cases).all()


def test_numbers_of_cases_bring_the_power():
    found = van_dyke(JACKKNIFE)
    for options in ({"effect": 0.05}, {"effect": -0.05}, {"effect": 0.0, "margin": 0.05}):
        size = found.study_size(power=0.9, **options)
        assert (size.power(size.n_cases, size.n_readers) >= 0.9).all()
        assert (size.power(size.n_cases - 1, size.n_readers) < 0.9).all()
        assert (np.diff(size.n_cases) <= 0).all()


def test_sizes_are_for_the_margin_of_the_study():
    found = van_dyke(JACKKNIFE, margin=0.05)
    size = found.study_size(effect=0.0)
    assert size.margin == 0.05
    alone = van_dyke(JACKKNIFE)
    assert size.n_cases.tolist() == alone.study_size(effect=0.0, margin=0.05).n_cases.tolist()
    other = found.study_size(effect=0.05, margin=None)
    assert other.margin is None
    assert other.n_cases.tolist() == alone.study_size(effect=0.05).n_cases.tolist()


def test_sizes_say_whether_they_count_groups():
    """Groups of one case are cases; of pairs there are half as many as the pilot has cases."""
    readings = study_data()
    n = len(readings.truth)
    for unit, groups in (("cases", None), ("cases", np.arange(n)), ("groups", np.arange(n) // 2)):
        found = reader_study(readings, compare=NAMES, groups=groups)
        size = found.study_size(effect=0.1)
        assert size.unit == unit
        assert f"unit='{unit}'" in str(size)
    table = size.to_frame()
    assert table.index.tolist() == size.n_readers.tolist()
    assert table[["n_cases_low", "n_cases_high"]].to_numpy().tolist() == size.n_cases_range.tolist()


def test_readings_say_what_they_hold():
    scores = {"unaided": [[3, 2], [1, 2], [0, 1], [1, 1]], "model": [0.9, 0.2, 0.1, 0.3]}
    said = "Readings(3 readers, 4 cases, 25% positive; conditions: unaided, model)"
    readings = Readings.from_matrix([1, 0, 0, 0], scores)
    assert repr(readings) == str(readings) == said


def test_sizes_that_cannot_be():
    found = van_dyke(JACKKNIFE)
    with pytest.raises(ValueError, match="prevalence needs a built-in metric"):
        found.study_size(effect=0.05, prevalence=0.2)
    with pytest.raises(ValueError, match="n_readers must list numbers of at least 3"):
        found.study_size(effect=0.05, n_readers=(2, 5))
    with pytest.raises(ValueError, match="none to show"):
        found.study_size(effect=-0.06, margin=0.05)
    with pytest.raises(ValueError, match="random readers"):
        van_dyke(JACKKNIFE, readers="fixed").study_size(effect=0.05)


# -------------------------------------------------------------------------------------- simulations

# variances of Roe and Metz's structures: cases, condition x case, reader x case, error; reader
HL, LL = (0.3, 0.3, 0.2, 0.2, 0.0082), (0.1, 0.1, 0.2, 0.6, 0.0082)
HH = (0.3, 0.3, 0.2, 0.2, 0.0447)


def separation(area, components):
    """Of means, for a mean AUC of readers whose means vary."""
    return norm.ppf(area) * np.sqrt(2 * (sum(components[:4]) + 2 * components[4]))


# The settings, written down before any was run: 1,000 studies each, difference of two conditions
# of one AUC, and the first condition alone, whose intervals shall cover from 0.92 to 0.98.
SETTINGS = {
    "HL, 5 readers, 100 cases": {"components": HL, "J": 5, "n": (50, 50), "area": 0.85},
    "LL, 3 readers, 50 cases": {"components": LL, "J": 3, "n": (25, 25), "area": 0.85},
    "HH, 5 readers, 100 cases, 30% missing": {
        "components": HH,
        "J": 5,
        "n": (50, 50),
        "area": 0.85,
        "missing": 0.3,
    },
    "HL, 6 readers, 60 patients with 2 lesions, of whose effects 70% are shared": {
        "components": HL,
        "J": 6,
        "n": (60, 60),
        "area": 0.85,
        "shared": 0.7,
    },
    "HL, 6 readers, split plot of 60 + 60 cases": {
        "components": HL,
        "J": 6,
        "n": (60, 60),
        "area": 0.85,
        "split": True,
    },
    "HL, 5 readers, 120 cases, sensitivity": {
        "components": HL,
        "J": 5,
        "n": (60, 60),
        "area": 0.85,
        "metric": "sensitivity",
    },
}


def one_study(seed, components, J, n, area, missing=0.0, shared=0.0, split=False, metric="auc"):
    """Results of one simulated study, and the true value under both conditions."""
    mu = separation(area, components)
    y, scores = simulated(seed, n, J, components, mu, shared=shared)
    if split:
        half = np.arange(len(y))[:, None] % 2 == np.arange(J) % 2
        scores = np.where(half, scores, np.nan)
    readings = with_gaps(
        Readings.from_matrix(y, dict(zip(NAMES, scores, strict=True))), missing, seed
    )
    options = {"metric": metric, "compare": NAMES}
    if metric == "sensitivity":
        # of a threshold in the middle: Φ of half the separation
        options["threshold"] = mu / 2
        area = norm.cdf(mu / 2 / np.sqrt(sum(components[:4]) + 2 * components[4]))
    groups = np.arange(len(y)) // 2 if shared else None
    return reader_study(readings, groups=groups, **options), area


def covered(setting, n_studies, first=0):
    """Shares of studies whose intervals hold the truth: of the difference, and of one condition."""
    hits = np.zeros(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for seed in range(first, first + n_studies):
            found, true = one_study(seed, **setting)
            one = found.values[NAMES[0]]
            hits += found.difference.low < 0 < found.difference.high, one.low < true < one.high
    return hits / n_studies


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_intervals_cover(name):
    shares = covered(SETTINGS[name], 1000)
    assert (shares >= 0.92).all(), shares
    assert (shares <= 0.98).all(), shares


def p_values_at_the_margin(n_studies, J=5, n=(50, 50), area=0.96, margin=0.05):
    """One-sided p-values for a model that is worse than readers of this AUC by the margin.

    The model has the effects of cases in common with the readers, and no readers' effects.
    """
    found = []
    fixed = (*HL[:4], 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for seed in range(n_studies):
            y, scores = simulated(seed, n, J + 1, fixed, 0.0)
            rng = np.random.default_rng([seed, 1])
            of_readers = np.sqrt(2 * HL[4]) * rng.normal(size=(2, J))
            model = scores[0, :, J] + separation(area - margin, fixed) * y
            readers = scores[1, :, :J] + separation(area, HL) * y[:, None] + of_readers[y]
            readings = Readings.from_matrix(y, {"model": model, "readers": readers})
            study = reader_study(readings, compare=("model", "readers"), margin=margin)
            found.append(study.p_non_inferior)
    return np.array(found)


@pytest.mark.slow
def test_size_of_the_test_of_non_inferiority_near_1():
    """AUC 0.96 of 5 readers, 100 cases: at most 8.5% at a nominal 5%, 5% at 2.5%."""
    p = p_values_at_the_margin(1000)
    assert (p < 0.05).mean() <= 0.085
    assert (p < 0.025).mean() <= 0.05
