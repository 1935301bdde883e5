"""What metrics say of themselves: within their limits, seen through partial, named by orientation.

Tags are private: scorers, intervals and displays read them, and each of these laws is for them all.
"""

from functools import partial
from inspect import signature

import numpy as np
import pytest
from metric_cases import case
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_lhcal import metrics
from sklearn_lhcal._utils.tags import MeanOfTerms, Tags, defaults_of, metric, tags_of
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.label_histogram import KnownProbabilities

TAGGED = {
    name: function
    for name, function in vars(metrics).items()
    if name in metrics.__all__ and hasattr(function, "tags")
}
# those that need more than labels and a prediction
REQUIRED = {
    "decision_risk": {"cost_matrix": 1 - np.eye(3)},
    "net_benefit": {"threshold": 0.3, "class_index": 1},
    "risk_gap": {"cost_matrix": 1 - np.eye(3)},
}
LIMITED = [
    name
    for name in TAGGED
    if isinstance(tags_of(TAGGED[name], **REQUIRED.get(name, {})).limits, tuple)
]


def extremes():
    """Rows that agree and disagree, sure and unsure predictions, right and wrong ones."""
    random, z, _ = case(n=100)
    labels = np.repeat(np.eye(3, dtype=int), 3, axis=0)
    sure = np.tile(np.eye(3), (3, 1))
    split = np.repeat([[1, 1, 0], [1, 1, 1], [0, 5, 5]], 3, axis=0)
    y = np.vstack([random, labels, 4 * labels, split])
    return y, np.vstack([z, sure, sure, sure])


@pytest.mark.parametrize("name", LIMITED)
def test_terms_lie_within_their_limits(name):
    """Row by row, of counts and of known probabilities; they use more than half of their range."""
    function, options = TAGGED[name], REQUIRED.get(name, {})
    y, z = extremes()
    # some distributions are nearly certain, others nearly know nothing
    d = Dirichlet.from_mean(0.999 * z + 0.001 / 3, np.resize([1e-3, 1.0, 1e6], len(z)))
    tags = tags_of(function, **options)
    assert isinstance(tags, MeanOfTerms)
    low, high = tags.limits
    found = []
    for i in np.flatnonzero(y.sum(axis=1) >= tags.least_raters):
        for row in (y[[i]], KnownProbabilities(y[[i]] / y[i].sum())):
            found += [function(row, p[[i]], **options) for p in (z, d)]
    assert np.min(found) >= low - 1e-12
    assert np.max(found) <= high + 1e-12
    assert np.ptp(found) > (high - low) / 2


def test_most_means_have_limits():
    assert len(LIMITED) >= 8


class Told:
    """Predicts what it is given."""

    classes_ = np.arange(3)

    def predict_proba(self, X):
        return X


@pytest.mark.parametrize(("orientation", "sign"), [(None, 1), (True, 1), (False, -1)])
def test_only_what_is_better_when_smaller_is_negated(orientation, sign):

    def ones(rows):
        return np.ones(len(rows)), np.ones(len(rows))

    @metric(MeanOfTerms(greater_is_better=orientation, terms=ones))
    def one(y, prediction, *, sample_weight=None): ...

    y, z, _ = case()
    assert metrics.LabelHistogramScorer(one)(Told(), z, y) == sign


@pytest.mark.parametrize("name", metrics.get_scorer_names())
def test_only_what_is_negated_is_called_neg(name):
    scored = metrics.get_scorer(name).metric
    assert name.startswith("neg_") == (tags_of(scored).greater_is_better is False)


def test_a_metric_without_orientation_is_not_negated():
    y, z, _ = case(least=2)
    assert tags_of(metrics.irreducible_loss).greater_is_better is None
    scorer = metrics.LabelHistogramScorer(metrics.irreducible_loss)
    assert scorer(Told(), z, y) == metrics.irreducible_loss(y, z) > 0
    score = metrics.get_scorer("neg_epistemic_loss")(Told(), z, y)
    assert score == -metrics.epistemic_loss(y, z)


def plain(tags):
    """What can be compared of tags: callables may be made anew."""
    return type(tags), {k: v for k, v in vars(tags).items() if not callable(v)}


@pytest.mark.parametrize("name", TAGGED)
def test_tags_are_seen_through_partial(name):
    """Options bound by partial decide as options do, and the outer ones win."""
    function, options = TAGGED[name], REQUIRED.get(name, {})
    assert plain(tags_of(partial(function, **options))) == plain(tags_of(function, **options))
    defaults = defaults_of(function)
    if "bias_correction" in defaults:
        plugin = partial(function, bias_correction=None)
        assert plain(tags_of(plugin)) == plain(tags_of(function, bias_correction=None))
        given = partial(plugin, bias_correction=defaults["bias_correction"])
        assert plain(tags_of(given)) == plain(tags_of(function))


@pytest.mark.filterwarnings("ignore:.* is biased upwards")
@pytest.mark.filterwarnings("ignore:.*the standard error (may be too small|is 0)")
def test_options_decide():
    corrected, plugin = (
        metrics.epistemic_loss,
        partial(metrics.epistemic_loss, bias_correction=None),
    )
    assert (tags_of(corrected).least_raters, tags_of(plugin).least_raters) == (2, 1)
    assert (tags_of(corrected).biased, tags_of(plugin).biased) == (False, True)
    y, z = [[1, 0]], [[0.5, 0.5]]
    with pytest.warns(UndefinedMetricWarning):
        assert np.isnan(corrected(y, z))
    assert metrics.confidence_interval(plugin, y * 3, z * 3).estimate == 0.5
    rooted = tags_of(metrics.kernel_calibration_error, root=True, bias_correction="residual", p=2)
    assert rooted.signed_root
    assert not tags_of(metrics.kernel_calibration_error).signed_root


@pytest.mark.parametrize("name", TAGGED)
def test_defaults_come_from_the_signature(name):
    """An option given as its default changes nothing, and none is data."""
    function, options = TAGGED[name], REQUIRED.get(name, {})
    defaults = defaults_of(function)
    assert not {"sample_weight", "groups", "y", "prediction"} & set(defaults)
    for option, value in defaults.items():
        assert signature(function).parameters[option].default is value
    given = tags_of(function, **defaults | options)
    assert plain(given) == plain(tags_of(function, **options))


def test_functions_without_tags_are_neutral():
    def other(y, prediction):
        return 0.0

    for function in (other, partial(other), np.mean):
        assert tags_of(function) == Tags()
    assert Tags().greater_is_better is None
