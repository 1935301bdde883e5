"""Nodes of distributions: weighted points with their mean, and nearly their variance."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_lhcal.distributions import (
    Dirichlet,
    DirichletMixture,
    Ensemble,
    LogisticNormal,
    PointMass,
)

RNG = np.random.default_rng(0)
# name -> distribution, and how far the variance of 64 nodes may be off, of its mean
BATCHES = {
    "point mass": (PointMass(RNG.dirichlet(np.ones(3), 5)), 1e-12),
    "ensemble": (Ensemble(RNG.dirichlet(np.ones(3), (4, 5)), [1, 2, 3, 4]), 1e-12),
    "beta": (Dirichlet(RNG.gamma(2.0, size=(200, 2))), 0.03),
    "Dirichlet": (Dirichlet(RNG.gamma(2.0, size=(200, 4))), 0.15),
    "logistic-normal": (LogisticNormal(RNG.normal(size=50), RNG.gamma(1.0, size=50)), 0.02),
    "mixture": (
        DirichletMixture(RNG.dirichlet(np.ones(2), (4, 50)), RNG.gamma(2.0, size=(4, 50))),
        0.15,
    ),
}


@pytest.fixture(params=BATCHES)
def batch(request):
    return BATCHES[request.param]


def moments(distribution, n_nodes=64):
    z, w = distribution.nodes(n_nodes)
    mean = np.einsum("sn,snk->nk", w, z)
    return mean, np.einsum("sn,snk->nk", w, (z - mean) ** 2)


def test_nodes_are_points_of_the_simplex_with_the_mean_of_the_distribution(batch):
    distribution, tolerance = batch
    z, w = distribution.nodes()
    assert z.shape[1:] == distribution.mean().shape
    assert z.shape[:2] == w.shape
    assert (z >= 0).all()
    assert (w >= 0).all()
    assert_allclose(z.sum(axis=2), 1, atol=1e-12)
    assert_allclose(w.sum(axis=0), 1, atol=1e-12)
    mean, variance = moments(distribution)
    assert_allclose(mean, distribution.mean(), atol=1e-12)
    off = np.abs(variance - distribution.variance()).mean()
    assert off <= tolerance * distribution.variance().mean() + 1e-15


@pytest.mark.parametrize("name", ["beta", "Dirichlet", "logistic-normal"])
def test_more_nodes_come_closer(name):
    distribution, _ = BATCHES[name]
    few, many = (
        np.abs(moments(distribution, S)[1] - distribution.variance()).mean() for S in (8, 256)
    )
    assert many < few / 4


def test_a_rare_class_of_a_large_total_is_far_from_normal():
    distribution = Dirichlet([[0.5, 1e10], [2.0, 1e8], [1e8, 2.0]])
    assert_allclose(moments(distribution, 256)[1], distribution.variance(), rtol=0.1)


def test_a_large_total_is_nearly_normal():
    distribution = Dirichlet([[3e3, 5e3], [2e5, 9e5]])
    assert_allclose(moments(distribution, 256)[1], distribution.variance(), rtol=0.02)


def test_members_share_the_nodes():
    """Eight each at least."""
    distribution = DirichletMixture(np.full((4, 5, 3), 1 / 3), np.ones((4, 5)))
    assert [len(distribution.nodes(n)[0]) for n in (64, 16)] == [64, 32]


def test_a_row_has_its_own_nodes(batch):
    distribution, _ = batch
    z, w = distribution.nodes(20)
    z_alone, w_alone = distribution[[3]].nodes(20)
    assert_allclose(z_alone[:, 0], z[:, 3], atol=1e-12)
    assert_allclose(w_alone[:, 0], w[:, 3], atol=1e-12)


@pytest.mark.parametrize("total", [1e-12, 1e-3, 1.0, 1e6, 1e12])
def test_extreme_totals_and_impossible_classes(total):
    mean = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [1e-9, 0.3, 0.7 - 1e-9]])
    distribution = Dirichlet.from_mean(mean, total)
    z, w = distribution.nodes()
    assert np.isfinite(z).all()
    assert_allclose(np.einsum("sn,snk->nk", w, z), mean, atol=1e-12)
    assert not z[:, 1, 1:].any()


def test_the_number_of_nodes_is_checked():
    with pytest.raises(ValueError, match="n_nodes must be an int from 1 to 1000000, got 0"):
        PointMass([[0.5, 0.5]]).nodes(0)
