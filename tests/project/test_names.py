"""Names decide, never luck: what is named in another order gives the same number, or an error."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_cases import ONE_NUMBER, tags_of
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_lhcal import metrics
from sklearn_lhcal.calibration import (
    AlphaCalibration,
    DecisionCalibration,
    PrecomputedClassifier,
    TemperatureScaling,
    decide,
)
from sklearn_lhcal.datasets import make_label_histograms
from sklearn_lhcal.distributions import (
    Dirichlet,
    DirichletMixture,
    Ensemble,
    LogisticNormal,
    PointMass,
    predict_dist,
    predict_epistemic,
)
from sklearn_lhcal.label_histogram import KnownProbabilities, LabelHistogramClassifier, check_counts
from sklearn_lhcal.metrics import confidence_interval, get_scorer, get_scorer_names
from sklearn_lhcal.model_selection import cross_val_predict

NAMES = np.array(["default", "good", "late"])  # sorted
COSTS = np.array([[0.0, 9.0, 3.0], [2.0, 0.0, 1.0], [4.0, 1.0, 0.0]])
ORDER = [1, 2, 0]  # good, late, default
NAMED_COSTS = pd.DataFrame(COSTS, index=NAMES).iloc[ORDER]

OPTIONS = {
    "kernel_calibration_error": {"bandwidth": 0.1},
    "ratio_corrected_calibration_error": {"bandwidth": 0.1},
    "kernel_sharpness": {"bandwidth": 0.1},
}
METRICS = {
    name: partial(m, **OPTIONS.get(name, {}))
    for name, m in ONE_NUMBER.items()
    if not tags_of(m).ordered
} | {"risk_gap": partial(metrics.risk_gap, cost_matrix=NAMED_COSTS)}


@pytest.fixture(scope="module")
def data():
    return make_label_histograms(80, n_raters=(2, 5), total=4.0, random_state=0)


def named(a, names, frame=pd.DataFrame):
    return frame(dict(zip(names, np.asarray(a).T, strict=True)))


# --- the five cases that gave a number and no error ---


def test_named_costs_with_bare_probabilities_are_an_error_and_with_names_right(data):
    z, expected = data.prediction, metrics.model_risk(data.prediction, COSTS)
    for metric in (metrics.model_risk, metrics.bayes_decision):
        with pytest.raises(ValueError, match=r"not sorted.*pd.DataFrame\(proba, columns="):
            metric(z, NAMED_COSTS)
    assert_allclose(metrics.model_risk(named(z, NAMES), NAMED_COSTS), expected)
    assert_allclose(metrics.model_risk(PointMass(z).with_classes(NAMES), NAMED_COSTS), expected)
    gap = metrics.risk_gap(data.counts, z, COSTS)
    assert_allclose(metrics.risk_gap(named(data.counts, NAMES), z, NAMED_COSTS), gap)
    with pytest.raises(ValueError, match="not sorted"):
        metrics.risk_gap(data.counts, z, NAMED_COSTS)


def test_decide_and_bayes_decision_agree(data):
    y = named(data.counts, NAMES)
    model = DecisionCalibration(LogisticRegression(), NAMED_COSTS, criterion="nll").fit(data.X, y)
    decided = model.decide(data.X)
    assert_array_equal(metrics.bayes_decision(model.predict_dist(data.X), NAMED_COSTS), decided)
    named_proba = pd.DataFrame(model.predict_proba(data.X), columns=model.classes_)
    assert_array_equal(metrics.bayes_decision(named_proba, NAMED_COSTS), decided)
    inside = LabelHistogramClassifier(model).fit(data.X, y)
    assert_array_equal(decide(inside, data.X), decided)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("wrap", [TemperatureScaling, AlphaCalibration])
def test_saved_outputs_in_a_frame_are_sorted_by_name(wrap, frame, data):
    X, y = (named(a[:, ORDER], NAMES[ORDER], frame) for a in (data.prediction, data.counts))
    model = wrap("proba").fit(X, y)
    plain = wrap("proba").fit(data.prediction, data.counts)
    assert_array_equal(model.classes_, NAMES)
    assert_allclose(model.predict_proba(X), plain.predict_proba(data.prediction))
    again = X[NAMES.tolist()]
    assert_allclose(model.predict_proba(again), plain.predict_proba(data.prediction))
    with pytest.raises(ValueError, match="not sorted"):
        model.predict_proba(np.asarray(X))


@pytest.mark.parametrize("wrap", [TemperatureScaling, AlphaCalibration, PrecomputedClassifier])
def test_saved_outputs_and_labels_of_which_one_has_names(wrap, data):
    X = named(data.prediction[:, ORDER], NAMES[ORDER])
    for y in (data.counts, data.counts.argmax(axis=1)):
        with pytest.raises(ValueError, match="not sorted"):
            wrap("proba").fit(X, y)
        if wrap is not AlphaCalibration:
            assert_array_equal(wrap("proba").fit(X[NAMES], y).classes_, NAMES)
    model = wrap("proba").fit(data.prediction, named(data.counts, NAMES))
    assert_array_equal(model.classes_, NAMES)
    with pytest.raises(ValueError, match="not sorted"):
        wrap("proba").fit(data.prediction, named(data.counts[:, ORDER], NAMES[ORDER]))


def test_rows_in_another_order_are_an_error(data):
    index = [f"patient {i}" for i in range(80)]
    y = pd.DataFrame(data.counts, index=index)
    z = pd.DataFrame(data.prediction, index=index)
    w = pd.Series(np.ones(80), index=index)
    expected = metrics.calibration_error(data.counts, data.prediction)
    assert metrics.calibration_error(y, z, sample_weight=w) == pytest.approx(expected)
    for options in ({"prediction": z[::-1]}, {"prediction": z, "sample_weight": w[::-1]}):
        with pytest.raises(ValueError, match=r"another order.*\.loc.*reset_index\(drop=True\)"):
            metrics.calibration_error(y, **options)
    with pytest.raises(ValueError, match="another order"):
        confidence_interval(metrics.expected_accuracy, y, z, groups=w[::-1])
    with pytest.raises(ValueError, match="another order"):
        TemperatureScaling("proba").fit(z[::-1], y)
    shifted = z.set_axis([*index[1:], "patient 80"])
    with pytest.raises(ValueError, match="79 of 80 samples in common"):
        metrics.calibration_error(y, shifted)
    for free in (z.reset_index(drop=True), z.set_axis(range(100, 180)), z.set_axis(["a"] * 80)):
        assert metrics.calibration_error(y, free) == pytest.approx(expected)


def test_an_index_that_only_counts_fits_any_other_rows(data):
    z = pd.DataFrame(data.prediction)
    y = pd.DataFrame(data.counts, index=np.arange(80) + 1)
    assert np.isfinite(metrics.calibration_error(y, z))
    with pytest.raises(ValueError, match="another order"):
        metrics.calibration_error(y.set_axis(np.arange(80)[::-1]), z)


def test_a_fold_of_one_class_is_read_by_the_classes_of_the_prediction():
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = 1 + (X[:, 0] > 0).astype(int)
    model = LogisticRegression().fit(X, y)
    ones = np.flatnonzero(y == 1)
    dist = predict_dist(model, X[ones])
    assert_array_equal(dist.classes, [1, 2])
    z = model.predict_proba(X[ones])
    assert_allclose(metrics.expected_accuracy(y[ones], dist), (z[:, 0] > 0.5).mean())
    assert_allclose(metrics.label_log_loss(y[ones], dist), -np.log(z[:, 0]).mean())
    assert_allclose(
        get_scorer("neg_label_log_loss")(model, X[ones], y[ones]), np.log(z[:, 0]).mean()
    )
    costs = pd.DataFrame([[0.0, 1.0], [4.0, 0.0]], index=[1, 2])
    right = metrics.decision_risk(y[ones], metrics.bayes_decision(dist, costs), costs)
    gap = right - metrics.model_risk(dist, costs)
    assert_allclose(metrics.risk_gap(y[ones], dist, costs), gap)
    assert_allclose(metrics.risk_gap(y[ones], z, costs), gap)
    with pytest.raises(ValueError, match=r"not known: \[2\]"):
        metrics.expected_accuracy(y, model.predict_proba(X))


# --- any order of names ---


@st.composite
def cases(draw):
    """Counts and probabilities of K classes, names, and an order for each side."""
    K = draw(st.integers(2, 4))
    n = draw(st.integers(6, 12))
    seed = draw(st.integers(0, 99))
    kinds = [["b", "a", "d", "c"], ["10", "9", "2", "1"], [3, 1, 2, 7]]
    names = np.array(draw(st.permutations(draw(st.sampled_from(kinds))))[:K])
    rng = np.random.default_rng(seed)
    z = rng.dirichlet(np.ones(K), n)
    counts = rng.multinomial(draw(st.integers(2, 4)), z)
    if draw(st.booleans()):
        # a fold whose rows are all of one class
        counts = np.eye(K, dtype=int)[[draw(st.integers(0, K - 1))] * n] * 2
    orders = [draw(st.permutations(range(K))) for _ in range(2)]
    return counts, z, names, *orders


# two labels in each of a few rows look like findings
@pytest.mark.filterwarnings("ignore:y holds only 0 and 1:UserWarning")
@settings(max_examples=30, deadline=None)
@given(cases(), st.sampled_from([pd.DataFrame, pl.DataFrame]), st.sampled_from(sorted(METRICS)))
def test_no_order_of_names_changes_a_metric(case, frame, name):
    counts, z, names, first, second = case
    metric = METRICS[name]
    if name == "risk_gap":
        costs = np.random.default_rng(0).uniform(0, 5, (len(names), 3))
        shuffled = pd.DataFrame(costs[second], index=names[second])
        metric = partial(metrics.risk_gap, cost_matrix=shuffled)
        expected = metrics.risk_gap(counts, z, costs)
    else:
        expected = metric(counts, z)
    text = [str(c) for c in names] if frame is pl.DataFrame and names.dtype.kind == "i" else names
    if name == "risk_gap" and frame is pl.DataFrame and names.dtype.kind == "i":
        return
    y = named(counts[:, first], np.asarray(text)[first], frame)
    p = named(z[:, second], np.asarray(text)[second], frame)
    near = {"rel": 1e-9, "abs": 1e-12, "nan_ok": True}
    assert metric(y, p) == pytest.approx(expected, **near)
    dist = PointMass(z[:, second]).with_classes(np.asarray(text)[second])
    assert metric(y, dist) == pytest.approx(expected, **near)
    # a bare side meets names by position where they are sorted, else not at all
    order = sorted(range(len(names)), key=lambda k: _key(names[k]))
    in_order = named(counts[:, order], np.asarray(text)[order], frame)
    assert metric(in_order, z[:, order]) == pytest.approx(expected, **near)
    if list(first) != [int(k) for k in order]:
        with pytest.raises(ValueError, match="not sorted"):
            metric(y, z)


def _key(name):
    return int(name) if str(name).isdecimal() else name


@pytest.mark.slow
# of six rows few speak
@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=30, deadline=None)
@given(cases())
def test_no_order_of_names_changes_labels(case):
    counts, z, names, first, second = case
    labels = names[counts.argmax(axis=1)]
    one_hot = np.eye(len(names), dtype=int)[counts.argmax(axis=1)]
    dist = PointMass(z[:, first]).with_classes(names[first])
    for name in (
        "label_log_loss",
        "expected_accuracy",
        "expected_squared_loss",
        "calibration_loss",
    ):
        metric = METRICS[name]
        expected = pytest.approx(metric(one_hot, z), rel=1e-9, abs=1e-12)
        assert metric(labels, dist) == expected
        assert metric(labels, named(z[:, second], names[second])) == expected
        interval = confidence_interval(metric, labels, dist, n_blocks=5, random_state=0)
        assert interval == pytest.approx(
            confidence_interval(metric, one_hot, z, n_blocks=5, random_state=0), rel=1e-7, abs=1e-12
        )


def test_decision_risk_meets_by_name(data):
    d = metrics.bayes_decision(data.prediction, COSTS)
    expected = metrics.decision_risk(data.counts, d, COSTS)
    y = named(data.counts[:, ORDER], NAMES[ORDER])
    assert_allclose(metrics.decision_risk(y, d, NAMED_COSTS), expected)
    with pytest.raises(ValueError, match="not sorted"):
        metrics.decision_risk(data.counts, d, NAMED_COSTS)
    with pytest.raises(ValueError, match="not sorted"):
        metrics.decision_risk(y, d, COSTS)
    intervals = [
        confidence_interval(metrics.decision_risk, a, d, cost_matrix=C, random_state=0)
        for a, C in ((data.counts, COSTS), (y, NAMED_COSTS))
    ]
    assert_allclose(*intervals)


# text has no ranks
@pytest.mark.parametrize("name", [n for n in get_scorer_names() if "ranked" not in n])
def test_scorers_read_any_order_and_any_fold(name, data):
    y = named(data.counts, NAMES)
    model = LabelHistogramClassifier(RandomForestClassifier(10, random_state=0)).fit(data.X, y)
    scorer = get_scorer(name)
    more = {}
    if "epistemic_c" in name:
        more = {"reference_prediction": NAMES[data.counts.argmax(axis=1)]}
    shuffled = named(data.counts[:, ORDER], NAMES[ORDER])
    expected = scorer(model, data.X, y, **more)
    assert scorer(model, data.X, shuffled, **more) == pytest.approx(expected, rel=1e-12)
    assert scorer(model, data.X, data.counts, **more) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_everything_around_a_model_keeps_its_names(data):
    y = named(data.counts[:, ORDER], NAMES[ORDER])
    inner = make_pipeline(StandardScaler(), LogisticRegression())
    models = {
        "calibrator": TemperatureScaling(inner),
        "chain": AlphaCalibration(TemperatureScaling(inner)),
        "histograms": LabelHistogramClassifier(inner),
        "search": GridSearchCV(
            TemperatureScaling(inner), {"cv": [3]}, scoring="neg_label_log_loss"
        ),
        "wrapped": LabelHistogramClassifier(TemperatureScaling(inner)),
    }
    for name, model in models.items():
        model.fit(data.X, y)
        assert_array_equal(model.classes_, NAMES, name)
        dist = predict_dist(FrozenEstimator(model), data.X)
        assert_array_equal(dist.classes, NAMES, name)
        assert_allclose(dist.mean(), model.predict_proba(data.X), atol=1e-12)
        assert (model.predict(data.X) == NAMES[dist.mean().argmax(axis=1)]).all()
        assert predict_epistemic(model, data.X).shape == (80,)
    out = cross_val_predict(models["calibrator"], data.X, y, cv=3, method="predict_dist")
    assert_array_equal(out.classes, NAMES)
    scores = cross_validate(models["chain"], data.X, y, cv=3, scoring="expected_accuracy")
    again = cross_validate(models["chain"], data.X, y[NAMES], cv=3, scoring="expected_accuracy")
    assert_allclose(scores["test_score"], again["test_score"], rtol=1e-12)


def test_integer_like_strings_sort_as_integers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 3))
    order = np.array(["1", "2", "10"])
    labels = order[np.digitize(X[:, 0], [-0.5, 0.5])]
    one_hot = (labels[:, None] == order).astype(int)
    for y in (labels, named(one_hot[:, [2, 0, 1]], order[[2, 0, 1]])):
        for model in (LabelHistogramClassifier(LogisticRegression()), TemperatureScaling()):
            model.fit(X, y)
            assert_array_equal(model.classes_, order)
            assert (model.predict(X) == labels).mean() > 0.9
            assert model.score(X, y) > 0.9
            assert model.score(X, one_hot) == pytest.approx(model.score(X, y))


# --- distributions ---


KINDS = {
    "point mass": lambda z: PointMass(z),
    "dirichlet": lambda z: Dirichlet.from_mean(z, 3.0),
    "ensemble": lambda z: Ensemble(np.stack([z, z[::-1]])),
    "dirichlet mixture": lambda z: DirichletMixture(np.stack([z, z[::-1]]), np.ones((2, len(z)))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_distributions_keep_their_classes(kind):
    z = np.random.default_rng(0).dirichlet(np.ones(3), 5)
    d = KINDS[kind](z)
    assert d.classes is None
    d = d.with_classes(NAMES)
    for other in (d[1:3], d[0], d.posterior([[1, 0, 0]] * 5), d.concatenate([d, d])):
        assert_array_equal(other.classes, NAMES)
    assert d.embed([0, 2, 1], 3).classes is None
    reordered = d.in_order(NAMES[ORDER])
    assert_array_equal(reordered.classes, NAMES[ORDER])
    assert_allclose(reordered.mean(), d.mean()[:, ORDER])
    assert_allclose(d.concatenate([d, reordered]).mean(), np.tile(d.mean(), (2, 1)))
    # labels are names where the distribution knows them
    assert_allclose(d.posterior(["late"] * 5).mean(), d.mean_after(2))
    assert_allclose(reordered.posterior(["late"] * 5).mean(), d.mean_after(2)[:, ORDER])
    with pytest.raises(ValueError, match="different names"):
        d.with_classes(["a", "a", "b"])
    with pytest.raises(ValueError, match="the sets differ"):
        d.in_order(["a", "b", "late"])


def test_frames_bring_their_classes():
    z = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    p = named(z, NAMES[ORDER])
    assert_array_equal(PointMass(p).classes, NAMES[ORDER])
    assert_array_equal(Dirichlet(p).classes, NAMES[ORDER])
    members = [p, p[NAMES.tolist()]]
    assert_allclose(Ensemble(members).mean(), z)
    assert_array_equal(Ensemble(members).classes, NAMES[ORDER])
    Q = KnownProbabilities(p)
    assert_array_equal(check_counts(Q)[1], NAMES[ORDER])
    assert metrics.epistemic_loss(Q, p[NAMES.tolist()]) == pytest.approx(0)
    assert PointMass(pd.DataFrame(z)).classes is None
    assert LogisticNormal([0.0], 1.0).with_classes(["no", "yes"])[0].classes.tolist() == [
        "no",
        "yes",
    ]


def test_a_prediction_named_twice_must_agree(data):
    from sklearn_lhcal.display import ReliabilityDisplay

    p = named(data.prediction, NAMES)
    with pytest.raises(ValueError, match="leave classes out"):
        ReliabilityDisplay.from_predictions(data.counts, p, classes=NAMES[ORDER])
    for classes in (["cat"], ["cat", "cat", "dog"]):
        with pytest.raises(ValueError, match="3 different names"):
            ReliabilityDisplay.from_predictions(data.counts, data.prediction, classes=classes)


def test_labels_that_know_their_names_pass_through_estimators(data):
    """A search inside slices named counts without losing the names."""
    y = named(data.counts[:, ORDER], NAMES[ORDER])
    inner = GridSearchCV(TemperatureScaling(), {"cv": [2, 3]}, cv=3, scoring="neg_label_log_loss")
    model = AlphaCalibration(inner, cv=3).fit(data.X, y)
    assert_array_equal(model.estimator_.classes_, NAMES)
    saved = PrecomputedClassifier("proba", classes=NAMES[ORDER])
    chain = AlphaCalibration(saved).fit(data.prediction[:, ORDER], y)
    assert_array_equal(chain.predict_dist(data.prediction[:, ORDER]).classes, NAMES[ORDER])


@pytest.mark.parametrize("names", ["aab", "aba", "aaa"])
def test_a_name_that_comes_twice_names_nothing(names):
    """On both sides it would match each of its columns with the last."""
    y = pd.DataFrame([[3, 1, 0], [0, 2, 2]], columns=list(names))
    z = pd.DataFrame([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1]], columns=list(names))
    for bad_y, prediction in ((y, z), (y, z.to_numpy()), (y.to_numpy(), z)):
        with pytest.raises(ValueError, match=r"(y|prediction) names columns twice"):
            metrics.expected_squared_loss(bad_y, prediction)
    makers = (PointMass, KnownProbabilities, Dirichlet, partial(Dirichlet.from_mean, total=1.0))
    for make in (*makers, lambda z: Ensemble([z, z])):
        with pytest.raises(ValueError, match="names columns twice"):
            make(z)
    with pytest.raises(ValueError, match="classes must hold 3 different names"):
        PrecomputedClassifier("proba", classes=list(names)).fit(z.to_numpy(), y.to_numpy())


# --- the table: each kind of labels beside each kind of prediction ---

SIDES = {"bare": None, "sorted": list("abc"), "unsorted": list("cab"), "numbers": [1, 2, 3]}
CODES = np.array([0, 1, 2, 1])
# what y is: its labels under the names of a side, and what happens beside each kind of prediction
TABLE = {
    "counts": {"bare": "", "sorted": "", "unsorted": "not sorted", "numbers": ""},
    "counts, sorted": {"bare": "", "sorted": "", "unsorted": "", "numbers": "sets differ"},
    "counts, unsorted": {
        "bare": "not sorted",
        "sorted": "",
        "unsorted": "",
        "numbers": "sets differ",
    },
    "names": {"bare": "", "sorted": "", "unsorted": "", "numbers": "not known"},
    "column numbers": {"bare": "", "sorted": "", "unsorted": "not sorted", "numbers": "not known"},
    "numbers": {"bare": "not known", "sorted": "not known", "unsorted": "not known", "numbers": ""},
}


def table_y(kind):
    counts = 2 * np.eye(3, dtype=int)[CODES]
    return {
        "counts": counts,
        "counts, sorted": named(counts, list("abc")),
        "counts, unsorted": named(counts[:, [2, 0, 1]], list("cab")),
        "names": np.array(list("abc"))[CODES],
        "column numbers": CODES,
        "numbers": CODES + 1,
    }[kind]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", TABLE)
def test_the_table_of_cases(kind, side):
    z = np.random.default_rng(0).dirichlet(np.ones(3), 4)
    expected = metrics.expected_squared_loss(np.eye(3, dtype=int)[CODES], z)
    order = [2, 0, 1] if side == "unsorted" else [0, 1, 2]
    prediction = z[:, order]
    dist = PointMass(prediction)
    if SIDES[side] is not None:
        prediction = named(prediction, SIDES[side])
        dist = dist.with_classes(SIDES[side])
    problem = TABLE[kind][side]
    for p in (prediction, dist):
        if problem:
            with pytest.raises(ValueError, match=problem):
                metrics.expected_squared_loss(table_y(kind), p)
        else:
            found = metrics.expected_squared_loss(table_y(kind), p)
            assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", TABLE)
def test_classes_that_training_never_saw_join_in_sorted_order(kind):
    """A model of the first two classes; the third has probability 0."""
    X = np.random.default_rng(0).normal(size=(4, 2))
    y = table_y(kind)
    seen = CODES < 2
    train = {"counts": CODES, "column numbers": CODES, "numbers": CODES + 1}
    labels = train.get(kind, np.array(list("abc"))[CODES])[seen]
    model = LabelHistogramClassifier(LogisticRegression()).fit(X[seen], labels)
    if kind == "counts":
        with pytest.raises(ValueError, match=r"3 classes, but the .* has 2 columns"):
            model.score(X, y)
        return
    z = np.column_stack([model.predict_proba(X), np.zeros(4)])
    right = z[np.arange(4), CODES] == z.max(axis=1)
    assert model.score(X, y) == pytest.approx(right.mean())
    loss = -get_scorer("neg_expected_squared_loss")(model, X, y)
    one_hot = np.eye(3, dtype=int)[CODES]
    assert loss == pytest.approx(metrics.expected_squared_loss(one_hot, z))
    frozen = PointMass(z[:, :2]).with_classes(model.classes_)
    with pytest.raises(ValueError, match=r"sets differ|not known|3 classes, but .* 2 columns"):
        metrics.expected_squared_loss(y, frozen)
