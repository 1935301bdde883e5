"""Kernel calibration errors: bandwidth, null level, sharpness, bins and bad arguments.

The likelihood of a bandwidth is private: it is compared with the formula written out.
"""

import warnings

import numpy as np
import pytest
import torch
from kernel_cases import (
    KINDS,
    RESIDUAL,
    SECOND,
    draw,
    kernel_calibration_error,
    naive_log_kernels,
    naive_problems,
    null_calibration_error,
)
from oracles import expectation
from scipy.special import logsumexp, softmax
from scipy.stats import betabinom, kstest

from sklearn_lhcal import metrics
from sklearn_lhcal._utils.kernels import errors as _errors
from sklearn_lhcal._utils.kernels import smoothing as _smoothing
from sklearn_lhcal.label_histogram import KnownProbabilities
from sklearn_lhcal.metrics import (
    binned_canonical_error,
    kernel_sharpness,
    loo_bandwidth,
    ratio_corrected_calibration_error,
)


def clipped(x):
    x = np.clip(x, 1e-12, None)
    return x / x.sum(axis=1, keepdims=True)


class TestBandwidth:
    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore:The search for the most likely bandwidth")
    def test_is_within_a_percent_of_the_published_grid(self):
        grid = [*np.logspace(-5, -1, 15), 0.2, 0.4, 0.6, 0.8, 1]
        for K, concentration, kind in [
            (2, 0.3, "canonical"),
            (4, 1, "canonical"),
            (10, 0.2, "marginal"),
            (3, 5, "top_label"),
        ]:
            _, z = draw(400, K, concentration=concentration)
            x = [torch.as_tensor(clipped(points)) for points, *_ in naive_problems(kind, z, z)]
            best = loo_bandwidth(z, kind=kind, grid=grid)
            assert (
                best
                == grid[np.sum([_smoothing.log_likelihoods(v, grid) for v in x], axis=0).argmax()]
            )
            ours = loo_bandwidth(z, kind=kind)
            a, b = (sum(_smoothing.log_likelihoods(v, [h])[0] for v in x) for h in (ours, best))
            assert a >= b - 0.01 * abs(b)

    def test_likelihood_is_the_formula_written_out(self):
        _, z = draw(30, 3)
        z = np.vstack([z, z[:4]])  # ties are left out
        L = naive_log_kernels(z, 0.1)
        total = 0.0
        for j in range(34):
            others = (z != z[j]).any(axis=1)
            total += np.log(np.exp(L[j, others]).sum() / others.sum())
        assert _smoothing.log_likelihoods(torch.as_tensor(z), [0.1])[0] == pytest.approx(
            total / 34, rel=1e-12
        )

    @pytest.mark.parametrize("K", [2, 3])
    def test_likelihood_of_many_ties_and_groups_is_the_formula(self, K):
        """Beta kernels of many points are interpolated; others are of another x and group."""
        rng = np.random.default_rng(0)
        points = rng.dirichlet(np.full(K, 0.5), 2100).clip(1e-6)
        points /= points.sum(axis=1, keepdims=True)
        z = np.vstack([points, points[:700], points[:200]])
        g = rng.integers(900, size=3000)
        L = naive_log_kernels(z, 0.01)
        L[(z[:, None] == z).all(axis=2)] = -np.inf
        for groups in (None, torch.as_tensor(g)):
            if groups is not None:
                L[g[:, None] == g] = -np.inf
            n = np.isfinite(L).sum(axis=1)
            expected = (logsumexp(L, axis=1) - np.log(n)).mean()
            (found,) = _smoothing.log_likelihoods(torch.as_tensor(z), [0.01], groups)
            assert found == pytest.approx(expected, rel=1e-10)

    def test_ties_do_not_drive_it_down(self):
        _, z = draw(100, 3, concentration=0.3)
        assert loo_bandwidth(np.repeat(z, 2, axis=0)) == pytest.approx(loo_bandwidth(z), rel=1e-9)

    def test_each_kind_has_its_own_kernel(self):
        _, z = draw(300, 4, concentration=0.3)
        assert len({round(loo_bandwidth(z, kind=v), 6) for v in KINDS}) == 3

    @pytest.mark.filterwarnings("ignore:The search for the most likely bandwidth")
    def test_of_two_optima_the_better_one_is_found(self):
        """Clusters, and pairs within them, have an optimum each; sixty bandwidths see both.

        In 400 such designs the likelihood was at most .007 less than that of the best of them.
        """
        for seed in range(12):
            rng = np.random.default_rng(seed)
            centres = rng.beta(*rng.uniform(0.3, 5, 2), 20)
            z = np.append(centres, centres[:10] + 10 ** rng.uniform(-4, -1.5)).clip(1e-6, 0.999)
            x = torch.as_tensor(np.column_stack([1 - z, z]))
            best = max(_smoothing.log_likelihoods(x, np.logspace(-5, 0, 61)))
            assert _smoothing.log_likelihoods(x, [loo_bandwidth(z)])[0] > best - 0.02

    @pytest.mark.parametrize("trees", [10, 20])
    def test_the_default_sees_the_miscalibration_of_forests(self, trees):
        """Votes of some trees, each right on average: too spread, and with few different values.

        Truth by enumeration: q ~ Beta(4, 4), k votes of m, ``E[q | k] = (4 + k)/(8 + m)``. Of the
        mean over eight studies the default finds half at least, and "loo" does not.
        """
        rng = np.random.default_rng(0)
        k = np.arange(trees + 1)
        squares = 2 * ((4 + k) / (8 + trees) - k / trees) ** 2
        truth = betabinom.pmf(k, trees, 4, 4) @ squares
        found = []
        for _ in range(8):
            q = rng.beta(4, 4, 1000)
            z = rng.binomial(trees, q) / trees
            y = rng.binomial(1, q)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The search for the most likely bandwidth")
                likely = metrics.kernel_calibration_error(y, z, bandwidth="loo")
            found.append([metrics.kernel_calibration_error(y, z), likely])
        default, likely = np.mean(found, axis=0)
        assert likely < truth / 2 < default < 2 * truth

    def test_a_search_that_ends_at_its_bound_warns(self):
        y, z = draw(300, 3)
        for search in (
            lambda: loo_bandwidth(z),
            lambda: kernel_calibration_error(y, z, bandwidth="loo"),
        ):
            with pytest.warns(UserWarning, match="most likely bandwidth ended at its bound, 1:"):
                search()

    def test_frequencies_are_what_the_plugin_and_the_sharpness_smooth(self):
        """A calibrated predictor leaves nothing in the residuals, which h = 1 predicts best."""
        y, z = draw(1000, 2)
        truth = (z**2).sum(axis=1).mean()
        assert kernel_sharpness(y, z) == pytest.approx(truth, abs=0.03)
        assert kernel_sharpness(y, z, bandwidth=1.0) < truth - 0.06

    def test_cross_validation_minimises_the_left_out_residual(self):
        y, z = draw(400, 4, temperature=0.6)

        def left_out(h):
            """Mean of ‖e_j − (Se)_j‖², each row left out for itself."""
            L = naive_log_kernels(z, h)
            np.fill_diagonal(L, -np.inf)
            return ((y - z - softmax(L, axis=1) @ (y - z)) ** 2).sum(axis=1).mean()

        grid = np.logspace(-3, 0, 91)
        costs = np.array([left_out(h) for h in grid])
        good = grid[costs <= (1 + 1e-3) * costs.min()]
        assert len(good) < 60
        values = [kernel_calibration_error(y, z, bandwidth=h, **SECOND) for h in good]
        value = kernel_calibration_error(y, z, bandwidth="cv", **SECOND)
        assert min(values) <= value <= max(values)

    def test_a_sample_is_drawn_with_a_seed_and_said(self):
        """A search on all of 20,000 samples; of more on so many, with a warning, or as asked."""
        y, z = draw(20_001, 2, concentration=5)
        state = np.random.get_state()[1].copy()  # noqa: NPY002
        with pytest.warns(UserWarning, match="that of 20000 of 20001 samples, drawn at random"):
            drawn = loo_bandwidth(z, random_state=1)
        assert drawn == loo_bandwidth(z, n_samples=20_000, random_state=1)
        everyone = loo_bandwidth(z, n_samples=20_001)
        assert everyone == loo_bandwidth(z, n_samples=10**6, random_state=1)
        assert everyone != drawn == pytest.approx(everyone, rel=0.01)
        assert (np.random.get_state()[1] == state).all()  # noqa: NPY002
        with pytest.warns(UserWarning, match="pass loo_bandwidth"):
            kernel_calibration_error(y, z, bandwidth="loo")

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_search_on_many_samples_finds_what_the_whole_grid_does(self, kind):
        """Whatever the order of samples and classes; of 5,001 it begins at a part of them."""
        _, z = draw(5001, 3, concentration=0.3)
        problems = list(_errors.problems(kind, torch.as_tensor(z), torch.as_tensor(z)[:, None]))
        whole = _errors.best_bandwidth(
            lambda hs: -np.sum([part.log_likelihoods(hs) for part in problems], axis=0)
        )
        order = np.random.default_rng(0).permutation(5001)
        for points in (z, z[order][:, ::-1]):
            assert loo_bandwidth(points, kind=kind) == pytest.approx(whole, rel=1e-9)

    def test_nearly_all_samples_alike_begin_anywhere(self):
        """The part at which the search would begin has no density."""
        z = np.append(np.full(10_000, 0.5), [0.2, 0.3, 0.4])
        few = loo_bandwidth(np.append(np.full(100, 0.5), [0.2, 0.3, 0.4]))
        assert 0.01 < loo_bandwidth(z) <= few < 1

    @pytest.mark.slow
    def test_with_16384_samples_of_figure_2a_it_is_half_that_of_5000(self):
        """P2's design, four classes: of all samples .0016, of 5,000 drawn .0031."""
        z = np.random.default_rng([1, 0]).dirichlet(np.ones(4), size=16_384)
        for _ in range(2):
            z = z ** (1 / 0.6)
            z /= z.sum(axis=1, keepdims=True)
        assert loo_bandwidth(z) == pytest.approx(0.0016, abs=0.0001)
        assert loo_bandwidth(z, n_samples=5000) == pytest.approx(0.0031, abs=0.0003)
        assert loo_bandwidth(z, grid=np.logspace(-5, 0, 16)) == pytest.approx(10 ** (-8 / 3))


class TestNull:
    @pytest.mark.slow
    def test_p_value_is_uniform_for_a_calibrated_predictor(self):
        """With one rater a row the test is exact."""
        z = np.random.default_rng(0).dirichlet(np.ones(3), size=60)
        rng = np.random.default_rng(1)
        for options in ({"p": 1}, RESIDUAL):
            p_values = [
                null_calibration_error(
                    rng.multinomial(1, z), z, bandwidth=0.1, n_draws=99, random_state=s, **options
                ).p_value
                for s in range(150)
            ]
            assert kstest(np.array(p_values) - rng.uniform(0, 0.01, 150), "uniform").pvalue > 0.01

    def test_level_of_the_plugin_is_far_from_zero_and_that_of_the_residual_is_zero(self):
        y, z = draw(200, 5)
        null = null_calibration_error(y, z, bandwidth=0.02, random_state=0)
        assert null.mean > 0.3
        assert null.quantiles[0] < null.mean < null.quantiles[2]
        null = null_calibration_error(y, z, bandwidth=0.02, random_state=0, **RESIDUAL)
        assert abs(null.mean) < 0.01

    def test_draws_have_the_raters_of_the_data(self):
        _, z = draw(50, 3)
        one, many = (np.random.default_rng(0).multinomial(m, z) for m in (1, 100))
        a, b = (
            null_calibration_error(v, z, bandwidth=0.1, random_state=0).mean for v in (one, many)
        )
        assert b < a

    def test_errors(self):
        y, z = draw(10, 3)
        with pytest.raises(ValueError, match='bandwidth must be a number, "loo" or None'):
            null_calibration_error(y, z, bandwidth="cv")
        with pytest.raises(ValueError, match="no labels to draw"):
            null_calibration_error(KnownProbabilities(z), z, bandwidth=0.1)


class TestSharpness:
    def test_gives_the_squared_error_with_residuals(self):
        """With e = y − z smooth, S2 = E[y|z]² − 2 E[y|z]z̃ + z̃².

        For constant predictions this is exact.
        """
        y = np.random.default_rng(0).multinomial(1, [0.2, 0.5, 0.3], size=40)
        z = np.tile([0.3, 0.3, 0.4], (40, 1))
        sharpness = kernel_sharpness(y, z, bandwidth=0.1)
        expected = sharpness - 2 * (y @ z[0]).mean() + z[0] @ z[0]
        assert kernel_calibration_error(y, z, bandwidth=0.1, **RESIDUAL) == pytest.approx(
            expected, abs=1e-12
        )

    def test_is_unbiased_at_constant_predictions_by_enumeration(self):
        q = np.array([0.2, 0.5, 0.3])
        z = np.tile(q, (4, 1))
        value = expectation(lambda y: kernel_sharpness(y, z, bandwidth=0.1), z, [1] * 4)
        assert value == pytest.approx(q @ q, abs=1e-12)

    @pytest.mark.slow
    def test_ratio_correction_helps_at_a_wide_bandwidth(self):
        truth, plain, corrected = [], [], []
        for seed in range(300):
            y, z = draw(32, 2, concentration=0.5, seed=seed)
            plain.append(kernel_sharpness(y, z, bandwidth=0.5))
            corrected.append(kernel_sharpness(y, z, bandwidth=0.5, bias_correction="ratio"))
        y, z = draw(4000, 2, concentration=0.5, seed=999)
        truth = kernel_sharpness(y, z, bandwidth=0.5)
        assert abs(np.mean(corrected) - truth) < abs(np.mean(plain) - truth)

    def test_tin_ratio_is_the_formula_written_out(self):
        y, z = draw(25, 3, raters=2)
        mu, k = y / 2, np.exp(naive_log_kernels(z, 0.2))
        total, m = 0.0, 24
        for j in range(25):
            others = np.arange(25) != j
            c = k[j, others]
            for v in range(3):
                a = c * mu[others, v]
                r, cov = a.mean() / c.mean(), np.cov(a, c)
                r_t = r + (cov[0, 1] / c.mean() ** 2 - r * cov[1, 1] / c.mean() ** 2) / m
                total += abs(r_t - z[j, v])
        assert ratio_corrected_calibration_error(y, z, bandwidth=0.2) == pytest.approx(
            total / 25, rel=1e-10
        )


class TestBinned:
    def test_triangles_by_hand(self):
        z = np.array([[0.6, 0.3, 0.1], [0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])
        H = np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 1, 0]])
        assert binned_canonical_error([0, 1, 1], z, n_bins=2) == pytest.approx(
            np.abs(H - z).sum() / 3
        )

    def test_weights_count_as_repetition(self):
        y, z = draw(30, 3, raters=2)
        w = np.random.default_rng(0).integers(1, 4, size=30)
        a = binned_canonical_error(y, z, p=2, n_bins=3, sample_weight=w)
        assert a == pytest.approx(
            binned_canonical_error(np.repeat(y, w, axis=0), np.repeat(z, w, axis=0), p=2, n_bins=3)
        )

    def test_doane_is_numpys_rule(self):
        rng = np.random.default_rng(0)
        z = rng.beta(0.5, 2, size=500)
        n_bins = len(np.histogram_bin_edges(z, bins="doane")) - 1
        y, z = rng.binomial(1, z), np.column_stack([1 - z, z])
        others = [binned_canonical_error(y, z, n_bins=n_bins + i) for i in (-1, 0, 1)]
        assert binned_canonical_error(y, z, n_bins="doane") == others[1]
        assert len(set(others)) == 3

    def test_a_class_that_is_never_predicted_makes_no_difference(self):
        rng = np.random.default_rng(0)
        z = np.column_stack([rng.beta(0.5, 5, (200, 2)), np.zeros(200)])
        z[:, 2] = 1 - z.sum(axis=1)
        z = z[z[:, 2] >= 0]
        y = rng.multinomial(3, z)
        wide = np.insert(y, 1, 0, axis=1), np.insert(z, 1, 0.0, axis=1)
        assert binned_canonical_error(*wide) == pytest.approx(binned_canonical_error(y, z))

    def test_the_root(self):
        y, z = draw(30, 3, raters=2)
        error, root = (binned_canonical_error(y, z, p=2, n_bins=3, root=r) for r in (False, True))
        assert root == pytest.approx(np.sqrt(error))

    def test_errors(self):
        for n_bins in (0, "sturges", [0, 0.5, 1], np.array([0, 0.5, 1])):
            with pytest.raises(ValueError, match="n_bins must be an int"):
                binned_canonical_error([0, 1], [0.2, 0.7], n_bins=n_bins)


class TestErrors:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"p": 0.5}, "p must be a number"),
            ({"p": "2"}, "p must be a number"),
            ({"p": 1, "bias_correction": "residual"}, "is for p = 2 only"),
            ({"p": 3, "bias_correction": "second_order"}, "is for p = 2 only"),
            (
                {"p": 2, "bias_correction": "tin"},
                'bias_correction must be "residual", "second_order" or None',
            ),
            ({"kind": "classwise"}, 'kind must be "canonical", "marginal" or "top_label"'),
            ({"bandwidth": 0.0}, "bandwidth must be a number"),
            ({"bandwidth": "scott"}, "bandwidth must be a number"),
        ],
    )
    def test_options(self, options, message):
        y, z = draw(5, 3)
        with pytest.raises(ValueError, match=message):
            kernel_calibration_error(y, z, **options)

    def test_too_few_rows(self):
        with pytest.raises(ValueError, match="needs 2 rows at least, got 1"):
            kernel_calibration_error([0], [[0.5, 0.5]], bandwidth=0.1)
        with pytest.raises(ValueError, match="needs 3 rows at least, got 2"):
            kernel_calibration_error([0, 1], [[0.5, 0.5], [0.4, 0.6]], bandwidth=0.1, **RESIDUAL)
        with pytest.raises(ValueError, match="needs 3 rows at least, got 2"):
            null_calibration_error([0, 1], [[0.5, 0.5], [0.4, 0.6]], bandwidth=0.1, **RESIDUAL)

    def test_lengths_and_shapes(self):
        y, z = draw(5, 3)
        with pytest.raises(ValueError, match="5"):
            kernel_calibration_error(y[:4], z, bandwidth=0.1)

    def test_equal_predictions_have_no_density(self):
        with pytest.raises(ValueError, match="All predictions are equal"):
            kernel_calibration_error([0, 1], [[0.5, 0.5], [0.5, 0.5]], bandwidth="loo")

    def test_bad_grid_and_sharpness_options(self):
        for grid in ([0.0], [-1.0, 1.0]):
            with pytest.raises(ValueError, match="positive bandwidths"):
                loo_bandwidth([0.1, 0.2], grid=grid)
        with pytest.raises(ValueError, match='must be "ratio" or None'):
            kernel_sharpness([0, 1, 1], [0.2, 0.4, 0.5], bias_correction="residual")

    @pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without CUDA")
    def test_cuda_asked_for_and_absent(self):
        with pytest.raises(ValueError, match="finds no CUDA device"):
            kernel_calibration_error([0, 1], [0.2, 0.4], bandwidth=0.1, device="cuda")

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
    def test_cuda_agrees(self):
        y, z = draw(100, 4)
        a = kernel_calibration_error(y, z, bandwidth=0.1, device="cuda")
        assert a == pytest.approx(kernel_calibration_error(y, z, bandwidth=0.1), rel=1e-9)


@pytest.mark.parametrize(("kind", "grouped"), [("canonical", False), ("marginal", True)])
def test_many_pairs_are_said_before_they_are_computed(kind, grouped):
    """As an error the warning stops the call."""
    n = 60_000
    z = np.random.default_rng(0).dirichlet(np.ones(3), n)
    groups = np.arange(n) // 2 if grouped else None
    with pytest.raises(UserWarning, match=r"The 60000 samples have 4e\+09 pairs"):
        kernel_calibration_error(np.eye(3)[z.argmax(1)], z, kind=kind, bandwidth=0.1, groups=groups)


def test_few_pairs_of_many_samples_are_no_warning():
    p = np.random.default_rng(0).uniform(size=60_000)
    assert kernel_calibration_error((p > 0.5).astype(int), p, bandwidth=0.1) > 0
