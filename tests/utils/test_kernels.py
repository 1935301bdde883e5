"""Fast sums of kernels over rows against sums of all pairs.

Private modules are imported: the sums must be exact to rounding, which metrics would hide.
"""

import numpy as np
import pytest
import torch
from kernel_cases import RESIDUAL, SECOND, draw, kernel_calibration_error, null_calibration_error
from scipy.interpolate import BarycentricInterpolator
from scipy.special import gammaln

from sklearn_lhcal._utils.kernels import smoothing as _smoothing
from sklearn_lhcal._utils.kernels import smoothing as _sums
from sklearn_lhcal.metrics import kernel_sharpness, ratio_corrected_calibration_error


def binary(kind, n=300):
    """Probabilities of one class.

    Dense and sparse ones, ties, exact 0 and 1, rows far from all others.
    """
    rng = np.random.default_rng(0)
    z = {
        "spread": rng.uniform(size=n),
        "skewed": rng.beta(0.5, 9, size=n),
        "ends": rng.beta(0.02, 0.02, size=n),
        "ties": rng.integers(0, 5, size=n) / 4,
        "near one": 1 - 10 ** rng.uniform(-16, -1, size=n),
        "isolated": np.r_[rng.uniform(0.1, 0.2, size=n - 4), 1e-7, 0.5, 0.9, 1.0],
    }[kind]
    return rng.permutation(z)


class TestExponentialSums:
    @pytest.mark.parametrize("h", [1e-4, 1e-3, 0.03, 1.0])
    @pytest.mark.parametrize("kind", ["spread", "skewed", "ends", "ties", "near one", "isolated"])
    def test_agree_with_the_sums_written_out(self, monkeypatch, kind, h):
        z = np.sort(np.clip(binary(kind), 1e-12, 1 - 1e-12))
        theta, c = (np.log(z) - np.log1p(-z)) / h, np.random.default_rng(1).normal(size=300)
        c += gammaln(1 / h + 2) - gammaln(z / h + 1) - gammaln((1 - z) / h + 1)
        e = np.random.default_rng(2).normal(size=(300, 2))
        L = c + theta[:, None] * z
        top = L.max(axis=1)
        expected = np.exp(L - top[:, None]) @ np.c_[e, np.ones(300)]
        rounding = 1e-12 + 4e-16 * np.abs(L).max()
        for direct in (0, 2**16):
            monkeypatch.setattr(_sums, "DIRECT", direct)
            arrays = (torch.as_tensor(a) for a in (theta, z, c, e))
            sums, s = (a.numpy() for a in _sums.exponential_sums(*arrays))
            sums = sums * np.exp(s - top)[:, None]
            assert (np.abs(sums - expected) <= rounding * expected[:, -1:] * np.abs(e).max()).all()

    def test_interpolate(self, monkeypatch):
        monkeypatch.setattr(_sums, "DIRECT", 0)
        seen = []
        polynomials = _sums._chebyshev
        monkeypatch.setattr(
            _sums, "_chebyshev", lambda u, v: seen.append(len(v)) or polynomials(u, v)
        )
        x = torch.linspace(0, 1, 5000, dtype=torch.float64)
        _sums.exponential_sums(20 * x, x, 0 * x, x[:, None])
        assert sum(seen) == 5000
        assert len(seen) < 20

    def test_chebyshev_polynomials_are_those_of_lagrange(self):
        u = torch.cos((torch.arange(7, dtype=torch.float64) + 0.5) * torch.pi / 7)
        v = torch.linspace(-1, 1, 11, dtype=torch.float64)
        expected = BarycentricInterpolator(u.numpy(), np.eye(7))(v.numpy())
        np.testing.assert_allclose(_sums._chebyshev(u, v).numpy(), expected, atol=1e-14)

    @pytest.mark.parametrize("kind", ["spread", "skewed", "ends", "ties", "near one", "isolated"])
    def test_give_the_same_errors_as_kernels_one_by_one(self, monkeypatch, kind):
        z = binary(kind)
        y, w = (
            np.random.default_rng(1).binomial(3, z),
            np.random.default_rng(2).uniform(0.01, 2, size=300),
        )
        y = np.c_[3 - y, y]
        monkeypatch.setattr(_sums, "DIRECT", 0)
        for weight in (None, w):
            for h in (1e-4, 1e-3, 0.03, 1.0):
                options = {"kind": "top_label", "bandwidth": h, "sample_weight": weight}
                values = []
                for many in (10**9, 3):
                    monkeypatch.setattr(_smoothing, "MANY", many)
                    values.append(
                        [
                            kernel_calibration_error(y, z, **options, **v)
                            for v in ({"p": 1}, RESIDUAL, SECOND)
                        ]
                    )
                    values[-1] += [ratio_corrected_calibration_error(y, z, p=2, **options)]
                    values[-1] += [
                        kernel_sharpness(y, z, **options, bias_correction=v)
                        for v in (None, "ratio")
                    ]
                assert values[1] == pytest.approx(values[0], rel=1e-10, abs=1e-12)

    def test_versions_of_the_labels_and_left_out_residuals(self, monkeypatch):
        _, z = draw(400, 2, concentration=0.3)
        values = []
        monkeypatch.setattr(_sums, "DIRECT", 0)
        for many in (10**9, 3):
            monkeypatch.setattr(_smoothing, "MANY", many)
            y = np.random.default_rng(0).multinomial(1, z)
            null = null_calibration_error(
                y, z, kind="marginal", bandwidth=0.01, n_draws=5, random_state=0, **RESIDUAL
            )
            values.append(
                [
                    null.estimate,
                    null.mean,
                    *null.quantiles,
                    kernel_calibration_error(y, z, bandwidth="cv"),
                ]
            )
        assert values[1] == pytest.approx(values[0], rel=1e-9)

    def test_are_not_used_where_derivatives_are_asked_for(self, monkeypatch):
        monkeypatch.setattr(_smoothing, "MANY", 3)
        x = torch.rand(
            6, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
        ).requires_grad_()
        points = torch.cat([x, 1 - x], dim=1)
        assert torch.autograd.gradcheck(
            lambda a: _smoothing.smooth(torch.cat([a, 1 - a], dim=1), a * a, 0.1), x
        )
        with torch.no_grad():
            fast = _smoothing.smooth(points.detach(), x.detach() ** 2, 0.1)
        assert torch.allclose(fast, _smoothing.smooth(points, x**2, 0.1), rtol=1e-12)


def test_rows_of_binary_points_may_have_any_order():
    x = torch.rand(1500, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x, e = torch.cat([x, 1 - x], dim=1), torch.cos(9 * x)
    order = x[:, 0].argsort()
    for h in (1e-3, 0.1):
        assert torch.allclose(
            _smoothing.smooth(x, e, h)[order], _smoothing.smooth(x[order], e[order], h), rtol=1e-12
        )
        pairs = [_smoothing.moments(v, f, h).pairs() for v, f in ((x, e), (x[order], e[order]))]
        assert torch.allclose(pairs[0][order], pairs[1], rtol=1e-12)
