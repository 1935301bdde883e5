"""ConformalClassifier: votes are covered, by 500 resplits with votes drawn anew; MAPIE's sets."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC
from vote_cases import votes

from sklearn_lhcal.calibration import ConformalClassifier, TemperatureScaling
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.label_histogram import Annotations, KnownProbabilities

SCORES = ["lac", "aps"]
N = 200


def coverages(pool, kind, score="lac", level=0.9, n_resplits=500):
    """Votes covered in the rest of the pool, for each resplit."""
    found = []
    model = ConformalClassifier("proba", conformity_score=score, confidence_level=level)
    for seed in range(n_resplits):
        rng = np.random.default_rng(seed)
        rows = rng.permutation(len(pool.proba))
        first, rest = rows[:N], rows[N : N + 1000]
        model.fit(pool.prediction[first], votes(pool.proba[first], kind, rng))
        sets = model.predict_set(pool.prediction[rest])
        found.append((pool.proba[rest] * sets).sum(axis=1).mean())
    return np.array(found)


def spread(found):
    return found.std(ddof=1) / np.sqrt(len(found))


# ---------------------------------------------------------------------------------- what is covered


@pytest.mark.parametrize("kind", [1, 3, "all"])
def test_votes_are_covered_and_not_by_much_more(pool, kind):
    found = coverages(pool, kind)
    assert found.mean() >= 0.9 - 2 * spread(found)
    assert found.mean() <= 0.9 + 2 / (N + 1) + 2 * spread(found)


def test_votes_are_covered_by_adaptive_sets(pool):
    found = coverages(pool, 1, "aps", n_resplits=250)
    assert found.mean() >= 0.9 - 2 * spread(found)
    assert found.mean() <= 0.9 + 2 / (N + 1) + 2 * spread(found)


def test_the_number_of_raters_may_depend_on_the_row(pool):
    found = coverages(pool, "more where they differ", n_resplits=300)
    assert found.mean() >= 0.9 - 2 * spread(found)
    assert found.mean() <= 0.9 + 2 / (N + 1) + 2 * spread(found)


def test_rows_of_new_groups_are_covered(pool):
    """Rows on which raters agree come in groups of six alike ones: groups are the units.

    A row drawn from a new group is covered. As if rows were units, it would be too seldom, for
    rows of large groups are the easy ones.
    """
    size = np.where(pool.proba.max(axis=1) > 0.8, 6, 1)
    found, by_rows = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        rows = rng.permutation(len(pool.proba))
        first, rest = rows[:N], rows[N : N + 1000]
        each = np.repeat(first, size[first])
        X, y = pool.prediction[each], rng.multinomial(1, pool.proba[each])
        for groups, covered in ((each, found), (None, by_rows)):
            model = ConformalClassifier("proba", confidence_level=0.9).fit(X, y, groups=groups)
            sets = model.predict_set(pool.prediction[rest])
            covered.append((pool.proba[rest] * sets).sum(axis=1).mean())
    found, by_rows = np.array(found), np.array(by_rows)
    assert found.mean() >= 0.9 - 2 * spread(found)
    assert found.mean() <= 0.9 + 2 / (N + 1) + 2 * spread(found)
    assert by_rows.mean() < 0.9 - 5 * spread(by_rows)


@pytest.mark.parametrize("kind", ["majority", "until two agree"])
def test_what_the_docstring_says_fails_fails(pool, kind):
    """Majorities, and numbers of raters that depend on what they said."""
    found = coverages(pool, kind, n_resplits=300)
    assert found.mean() < 0.9 - 5 * spread(found)


@pytest.mark.filterwarnings("ignore:Sets hold all classes:UserWarning")
def test_tied_scores_cover_more(pool):
    """A forest of few trees prints few different probabilities."""
    forest = RandomForestClassifier(10, random_state=0)
    forest.fit(pool.X[:500], pool.proba[:500].argmax(axis=1))
    model = ConformalClassifier(FrozenEstimator(forest), confidence_level=0.9)
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows = 500 + rng.permutation(3500)
        model.fit(pool.X[rows[:N]], rng.multinomial(1, pool.proba[rows[:N]]))
        sets = model.predict_set(pool.X[rows[N:]])
        found.append((pool.proba[rows[N:]] * sets).sum(axis=1).mean())
    assert np.mean(found) >= 0.9 - 2 * spread(np.array(found))


# --------------------------------------------------------------------------------------- definition


def scores_by_hand(z, score):
    if score == "lac":
        return 1 - z
    more = (z[:, None, :] > z[:, :, None]) * z[:, None, :]
    alike = (z[:, None, :] == z[:, :, None]) * z[:, None, :]
    return more.sum(axis=2) + alike.sum(axis=2) / 2


@pytest.mark.filterwarnings("ignore:Sets hold all classes:UserWarning")
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("grouped", [False, True])
def test_the_threshold_is_the_least_that_will_do(score, level, grouped):
    rng = np.random.default_rng(0)
    z = rng.multinomial(4, [0.5, 0.3, 0.2], size=40) / 4
    y = rng.multinomial(rng.integers(1, 5, size=40), z * 0.7 + 0.1)
    groups = rng.integers(0, 25, size=40) if grouped else np.arange(40)
    model = ConformalClassifier("proba", conformity_score=score, confidence_level=level)
    model.fit(z, y, groups=groups)
    s = scores_by_hand(z, score)
    share = (groups[:, None] == groups).sum(axis=1)
    mu = y / y.sum(axis=1, keepdims=True) / share[:, None]
    n = len(np.unique(groups))
    enough = [t for t in np.unique(s) if (mu * (s <= t + 1e-12)).sum() >= (n + 1) * level - 1e-9]
    assert model.threshold_ == pytest.approx(min(enough, default=np.inf))
    assert model.n_calibration_ == n
    assert_array_equal(model.predict_set(z), s <= model.threshold_)


@pytest.mark.parametrize("score", ["lac", "aps", "ordinal"])
def test_one_hot_outputs_are_said_to_give_all_classes(pool, score):
    """Where they are wrong more often than the level allows, and only there."""
    said = np.arange(100) % 3
    z = np.eye(3)[said]
    for wrong, level in ((30, 0.9), (30, 0.6), (5, 0.9)):
        y = np.where(np.arange(100) < wrong, (said + 1) % 3, said)
        model = ConformalClassifier("proba", conformity_score=score, confidence_level=level)
        if wrong / 100 < 1 - level:
            assert (model.fit(z, y).predict_set(z) == z).all()
            continue
        with pytest.warns(UserWarning, match="Sets hold all classes") as seen:
            model.fit(z, y)
        assert seen[0].filename == __file__
        assert model.predict_set(z).all()


def test_too_few_rows_give_all_classes(pool):
    model = ConformalClassifier("proba", confidence_level=0.95)
    model.fit(pool.prediction[:18], pool.counts[:18])
    assert model.threshold_ == np.inf
    assert model.predict_set(pool.prediction).all()
    # 19 are enough: 20 · .95 = 19
    model.fit(pool.prediction[:19], pool.counts[:19])
    assert model.threshold_ < np.inf


@pytest.mark.filterwarnings("ignore:Sets hold all classes:UserWarning")
@pytest.mark.parametrize("score", SCORES)
def test_order_of_classes_and_rows_does_not_matter(pool, score):
    z = np.round(pool.prediction[:300], 1)
    z /= z.sum(axis=1, keepdims=True)
    model = ConformalClassifier("proba", conformity_score=score).fit(z[:200], pool.counts[:200])
    order, rows = [2, 0, 1], np.random.default_rng(0).permutation(200)
    turned = ConformalClassifier("proba", conformity_score=score)
    turned.fit(z[rows][:, order], pool.counts[rows][:, order])
    assert turned.threshold_ == pytest.approx(model.threshold_, rel=1e-12)
    alike = turned.predict_set(z[200:, order]) == model.predict_set(z[200:])[:, order]
    assert alike.mean() > 0.99


def test_one_vote_a_row_gives_the_sets_of_mapie(pool):
    mapie = pytest.importorskip("mapie.classification")
    y = pool.counts[:300].argmax(axis=1)
    classifier = LogisticRegression().fit(pool.X[300:1300], pool.counts[300:1300].argmax(axis=1))
    peer = mapie.SplitConformalClassifier(classifier, confidence_level=0.85, prefit=True)
    peer.conformalize(pool.X[:300], y)
    _, sets = peer.predict_set(pool.X[1300:])
    model = ConformalClassifier(FrozenEstimator(classifier), confidence_level=0.85)
    model.fit(pool.X[:300], y)
    assert_array_equal(model.predict_set(pool.X[1300:]), sets[:, :, 0])


# ---------------------------------------------------------------------------------------- estimator


def test_it_holds_out_rows_of_its_own(pool):
    X, y = pool.X[:400], pool.counts[:400]
    model = ConformalClassifier(TemperatureScaling(), random_state=0).fit(X, y)
    assert model.n_calibration_ == 100
    assert_allclose(model.predict_proba(X), model.estimator_.predict_proba(X))
    assert_allclose(model.predict_proba(X), model.predict_dist(X).mean())
    again = ConformalClassifier(TemperatureScaling(), random_state=0).fit(X, y)
    assert again.threshold_ == model.threshold_
    half = ConformalClassifier(TemperatureScaling(), calibration_size=0.5, random_state=0)
    assert half.fit(X, y).n_calibration_ == 200


def test_groups_stay_whole():
    """Rows of a group are copies: a split through one would calibrate on what is known by heart."""
    data = make_label_histograms(60, 3, 1, random_state=0)
    X, y, groups = (np.repeat(a, 4, axis=0) for a in (data.X, data.counts, np.arange(60)))
    forest = RandomForestClassifier(20, random_state=0, bootstrap=False)
    model = ConformalClassifier(forest, random_state=0).fit(X, y, groups=groups)
    assert model.n_calibration_ == 15
    learnt = (model.predict(X) == y.argmax(axis=1)).reshape(60, 4).all(axis=1)
    assert 45 <= learnt.sum() < 60


def test_metadata_is_routed(pool):
    """Groups to the split, weights to the classifier, where it asks for them."""
    X, y, groups = pool.X[:300], pool.counts[:300], np.arange(300) // 3
    w = np.random.default_rng(0).random(300)
    plain = ConformalClassifier(random_state=0).fit(X, y, groups=groups, sample_weight=w)
    with config_context(enable_metadata_routing=True):
        classifier = LogisticRegression().set_fit_request(sample_weight=True)
        model = ConformalClassifier(classifier, random_state=0)
        pipeline = make_pipeline(FunctionTransformer(), model)
        pipeline.fit(X, y, groups=groups, sample_weight=w)
    assert pipeline[-1].threshold_ == pytest.approx(plain.threshold_)
    assert pipeline[-1].n_calibration_ == plain.n_calibration_ == 25
    with pytest.raises(TypeError, match="sample_weights"):
        ConformalClassifier().fit(X, y, sample_weights=w)


def test_labels_of_other_kinds_count_the_same(pool):
    z, y = pool.prediction[:300], pool.counts[:300]
    labels = y.argmax(axis=1)
    model = ConformalClassifier("proba").fit(z, y)
    assert ConformalClassifier("proba").fit(z, labels).threshold_ == model.threshold_
    known = KnownProbabilities(y.astype(float))
    assert ConformalClassifier("proba").fit(z, known).threshold_ == model.threshold_
    matrix = np.column_stack([labels, labels])
    annotated = Annotations.from_matrix(matrix)
    assert ConformalClassifier("proba").fit(z, annotated).threshold_ == model.threshold_


def test_bad_arguments_leave_it_as_it_was(pool):
    X, y = pool.X[:200], pool.counts[:200]
    model = ConformalClassifier(random_state=0).fit(X, y)
    before = model.threshold_
    for bad, message in (
        ({"conformity_score": "raps"}, "conformity_score must be"),
        ({"confidence_level": 95}, "confidence_level"),
        ({"calibration_size": 2}, "calibration_size"),
        ({"estimator": "probs"}, "estimator must be"),
        ({"estimator": LinearSVC()}, "predicts no probabilities"),
    ):
        old = {name: getattr(model, name) for name in bad}
        with pytest.raises(ValueError, match=message):
            model.set_params(**bad).fit(X, y)
        assert model.set_params(**old).threshold_ == before
    with pytest.raises(TypeError, match="fitted already"):
        ConformalClassifier("proba").fit(pool.prediction[:9], pool.counts[:9], sample_weight=1)
    with pytest.raises(ValueError, match="groups"):
        model.fit(X, y, groups=[1, 2])
