"""Sums over bins, and the binned losses made of them: one pass over the rows, in fixed memory."""

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import Floats, Indices
from .checks import any_array, as_floats, is_count, is_real

CORRECTIONS = ("residual", "label", None)
# values this near, as parts of themselves, differ by rounding: 1 − Σz² by the order of its terms
_ROUNDING = 1e-12
# where numbers begin to differ in float32: its .7 is below .7
_FLOAT32 = 2.0**-23


class Bins:
    """How each column of values in [0, 1] is cut into bins.

    Parameters
    ----------
    z : ndarray of shape (n, K)
        The values; quantile bins are made from them.
    n_bins : int or array-like of shape (n_edges,)
        Number of bins, or the edges themselves, ascending; a value at an inner edge, or below it by
        rounding alone, also to float32, belongs to the bin above it.
    strategy : {"uniform", "quantile"}
        Equal widths on [0, 1], or equal numbers of rows by ``np.quantile``, column by column, equal
        edges merged.
    """

    def __init__(self, z: NDArray, n_bins, strategy: str):
        if strategy not in ("uniform", "quantile"):
            raise ValueError(f'strategy must be "uniform" or "quantile", got {strategy!r}.')
        self.edges: Floats  # (K, B+1), short rows padded with NaN
        K = z.shape[1]
        self._uniform = False
        margin = None
        given = n_bins if is_real(n_bins) else any_array(n_bins, "n_bins")
        if np.ndim(given) == 1:
            edges = as_floats(given, "n_bins")
            if len(edges) < 2 or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
                raise ValueError(
                    "Bin edges, n_bins, must be finite and strictly ascending, two at least."
                )
            self.edges = np.tile(edges, (K, 1))
            margin = below(self.edges[:, 1:], np.diff(self.edges))
        elif not is_count(n_bins):
            raise ValueError(
                f"n_bins must be a positive integer or an array of edges, got {n_bins!r}."
            )
        elif strategy == "uniform":
            self._uniform = True
            self.edges = np.tile(np.linspace(0, 1, int(n_bins) + 1), (K, 1))
        else:
            self.edges = _merged(np.quantile(z, np.linspace(0, 1, int(n_bins) + 1), axis=0).T)
        self.n_bins = self.edges.shape[1] - 1
        upper = self.edges[:, 1:]
        if margin is None:
            # quantiles are values themselves
            margin = _ROUNDING * np.abs(upper)
        self._inner = [e[~np.isnan(e)][:-1] for e in upper - margin]

    def index(self, z: NDArray) -> Indices:
        """Bin of each value, shape of z: min(⌊z·B⌋, B−1) where bins are uniform."""
        if self._uniform:
            B = self.n_bins
            scaled = z * B
            scaled += B * below(1.0, 1 / B)
            # beyond 1 are entropies, however large
            return np.minimum(scaled, B - 1, out=scaled).astype(np.intp)
        return np.stack(
            [np.searchsorted(e, z[:, k], side="right") for k, e in enumerate(self._inner)], axis=1
        )


def below(edge: NDArray | float, width: NDArray | float) -> Any:
    """How far below an edge values are at it but for rounding; `width` is that of the bin below.

    Values may have been rounded to float32, and 1 − z of them be taken: an absolute error, unless
    numbers are large. It is a thousandth of the bin at most.
    """
    size = np.maximum(np.abs(edge), 1.0)
    return np.maximum(np.minimum(_FLOAT32 * size, width / 1000), _ROUNDING * np.abs(edge))


def _distinct(edges: NDArray) -> Floats:
    """Those of ascending edges that differ by more than rounding; two at least."""
    step = np.diff(edges) > _ROUNDING * edges[1:]
    if not step.any():
        return edges[[0, 0]]
    return edges[np.concatenate([[True], step])]


def _merged(edges: NDArray) -> Floats:
    """Distinct edges of each row, padded with NaN; at least one bin."""
    distinct = [_distinct(e) for e in edges]
    out = np.full((len(edges), max(map(len, distinct))), np.nan)
    for row, e in zip(out, distinct, strict=True):
        row[: len(e)] = e
    return out


# the sums over the rows of a bin; e = μ̂ − z, s = μ̂(1−μ̂), and c = s/(n_i−1) is the unbiased
# estimate of what the raters' sampling adds to e²
SUMS = ("w", "ww", "we", "wee", "wwee", "wc", "wz", "wmm", "ws")


def _entry(number: int) -> Any:
    """One of the sums of a table, shape (K, B)."""
    return property(lambda sums: sums.table[number])


class BinSums:
    """Sums per class and bin from which every binned loss follows; `add` takes blocks of rows.

    Parameters
    ----------
    bins : Bins
    n_classes : int
    n_parts : int, default=1
        There may be such sums for each of several parts of the data.
    correction : {"residual", "label", None}
        The correction that the losses make.

    Attributes
    ----------
    n_rows : int
        Number of rows added.
    dependent : bool
        Whether groups or raters have pairs of rows that no correction counts.
    """

    w, ww, we, wee, wwee, wc, wz, wmm, ws = map(_entry, range(len(SUMS)))

    def __init__(self, bins: Bins, n_classes: int, n_parts: int = 1, correction: str | None = None):
        self.bins = bins
        self.correction = correction
        self.n_rows = 0
        self.dependent = False
        self.table = np.zeros((len(SUMS), n_classes, n_parts * bins.n_bins))

    def add(
        self,
        mu: NDArray,
        n: NDArray,
        z: NDArray,
        w: NDArray | None = None,
        part: NDArray | None = None,
    ) -> None:
        """Add rows: μ̂ and z of shape (m, K), raters n, weights and parts of shape (m,).

        Infinitely many raters need no correction.
        """
        K, B = self.w.shape
        index = self.bins.index(z) + np.arange(K) * B
        if part is not None:
            index += (part * self.bins.n_bins)[:, None]
        index = index.ravel()
        weight = 1.0 if w is None else w[:, None]
        s = mu * (1 - mu)
        e = mu - z
        we = weight * e
        # the correction of rows with one rater is never read
        with np.errstate(divide="ignore", invalid="ignore"):
            wc = weight * (s / (n[:, None] - 1))

        def total(values: NDArray) -> NDArray:
            return np.bincount(index, values.ravel(), K * B).reshape(K, B)

        wee = wwee = total(we * e)
        if w is None:
            # weights of 1 are their squares
            W = WW = np.bincount(index, minlength=K * B).reshape(K, B)
        else:
            W, WW = (total(np.broadcast_to(v, z.shape)) for v in (weight, weight * weight))
            wwee = total(we * we)
        others = (total(v) for v in (wc, weight * z, weight * mu * mu, weight * s))
        for sums, values in zip(self.table, (W, WW, total(we), wee, wwee, *others), strict=True):
            sums += values
        self.n_rows += len(z)

    def by_group(self, mu: NDArray, z: NDArray, groups: NDArray, w: NDArray | None = None) -> None:
        """Of all rows added: make groups the units of which pairs are corrected, instead of rows.

        `ww` and `wwee` become ``Σ_g W_gb²`` and ``Σ_g (Σ_{i∈g} w e)²``; `groups` are codes (n,).
        """
        B, G = self.bins.n_bins, groups.max() + 1
        index = self.bins.index(z)
        for k in range(len(self.w)):
            # bins and groups that occur together: at most n
            cells, cell = np.unique(index[:, k] * G + groups, return_inverse=True)
            e = mu[:, k] - z[:, k]
            W_gb = np.bincount(cell, weights=w)
            we = np.bincount(cell, weights=e if w is None else w * e)
            self.ww[k] = np.bincount(cells // G, weights=W_gb**2, minlength=B)
            self.wwee[k] = np.bincount(cells // G, weights=we**2, minlength=B)

    def merge(self, other: "BinSums") -> None:
        """Add the sums of other rows, binned alike."""
        self.table += other.table
        self.n_rows += other.n_rows

    def of_table(self, table: Floats) -> "BinSums":
        """The same of other sums."""
        made = copy.copy(self)
        made.table = table
        return made

    def calibration_loss(self) -> Floats:
        """CL_kb of shape (K, B); empty bins contribute 0.

        P1 eq. (12), (13) and the residual form.
        """
        W_b, W = self.w, self.w[0].sum()
        safe = np.where(W_b > 0, W_b, 1.0)
        several = self._several()
        if self.correction == "residual":  # (W_b/W)·[(Σwe)² − Σw²e²] / [(Σw)² − Σw²]
            pairs = np.where(several, W_b**2 - self.ww, 1.0)
            return np.where(several, W_b / W * (self.we**2 - self.wwee) / pairs, 0.0)
        plugin = W_b / W * (self.we / safe) ** 2
        if self.correction is None:
            return plugin
        h = self.ww / safe / safe  # Σ p², p_i = w_i/W_b
        variance = np.maximum(self.wmm / safe - ((self.we + self.wz) / safe) ** 2, 0.0)
        return np.where(
            several, plugin - W_b / W * variance * h / np.where(several, 1 - h, 1.0), 0.0
        )

    def _several(self) -> NDArray[np.bool_]:
        """Where a bin can be corrected, (K, B): more than one row in it, or group."""
        if self.correction is None:
            return self.w > 0
        return self.w**2 - self.ww > 1e-12 * self.w**2

    def dropped_weight(self) -> float:
        """Share of the weight in bins that cannot be corrected and count 0, mean over classes."""
        dropped = np.where(self._several(), 0.0, self.w).sum()
        return float(dropped / self.w.sum())

    def gaps(self) -> Floats:
        """|c̄ − z̄| of each class and bin, (K, B); 0 in empty bins."""
        return np.abs(self.we) / np.where(self.w > 0, self.w, 1.0)

    def powers(self, p: float) -> Floats:
        """``Σ_b W_b/W |c̄−z̄|^p`` of each class, (K,), P1 Def. 2; for p = ∞ the largest gap."""
        if np.isinf(p):
            return self.gaps().max(axis=1)
        return (self.w * self.gaps() ** p).sum(axis=1) / self.w[0].sum()

    def epistemic_loss(self) -> Floats:
        """EL_kb of shape (K, B).

        P1 eq. (9) split over bins; the plugin keeps the raters' spread, eq. (8).
        """
        return (self.wee if self.correction is None else self.wee - self.wc) / self.w[0].sum()

    def irreducible_loss(self) -> Floats:
        """IL_k of shape (K,).

        With `expected_squared_loss` less `epistemic_loss` it agrees row by row.
        """
        spread = self.ws if self.correction is None else self.ws + self.wc
        return spread.sum(axis=1) / self.w[0].sum()

    def expected_squared_loss(self) -> Floats:
        """L_k of shape (K,), P1 eq. (7)."""
        return (self.wee + self.ws).sum(axis=1) / self.w[0].sum()

    def means(self) -> tuple[Floats, Floats]:
        """Mean prediction z̄ and mean frequency c̄ per bin, shapes (K, B); NaN in empty bins."""
        W_b = np.where(self.w > 0, self.w, np.nan)
        return self.wz / W_b, (self.we + self.wz) / W_b


def check_bias_correction(bias_correction: str | None) -> None:
    """Raise a ValueError unless the value is one of "residual", "label" and None."""
    if bias_correction not in CORRECTIONS:
        raise ValueError(
            f'bias_correction must be "residual", "label" or None, got {bias_correction!r}.'
        )


def check_exponent(p, bias_correction: str | None) -> None:
    """ValueError for an exponent below 1, or a correction that it does not have."""
    if not is_real(p) or isinstance(p, bool) or not p >= 1:
        raise ValueError(f"p must be a number, 1 or more, or np.inf, got {p!r}.")
    if p != 2 and bias_correction is not None:
        raise ValueError(
            f"bias_correction={bias_correction!r} is for p = 2 only, got p = {p}; "
            "pass bias_correction=None for the plugin."
        )


def check_grouped(groups: NDArray | None, bias_correction: str | None) -> None:
    """ValueError for groups with the one correction that cannot leave their pairs out."""
    if groups is not None and bias_correction == "label":
        raise ValueError(
            "bias_correction='label' takes rows as independent; with groups use 'residual'."
        )


def signed_root(value, p: float = 2):
    """The root of a corrected loss, which may be negative.

    sign(x)·|x|^(1/p); x itself for p = ∞.
    """
    if np.isinf(p):
        return value
    return np.sign(value) * np.abs(value) ** (1 / p)


def check_gains(gain, uncertainty) -> tuple[Floats, Floats]:
    """Gains and estimates of epistemic uncertainty, shape (n,), float64, finite and in range."""
    g = as_floats(gain, "gain")
    e = as_floats(uncertainty, "uncertainty")
    if g.ndim != 1 or not len(g):
        raise ValueError(f"gain must have shape (n_samples,) with a row at least, got {g.shape}.")
    if e.shape != g.shape:
        raise ValueError(
            f"uncertainty must hold one estimate per row, shape {g.shape}, got {e.shape}."
        )
    if not np.isfinite(g).all() or np.abs(g).max() > 1 + 1e-9:
        raise ValueError("gain must lie between -1 and 1, without NaN: use accuracy_gain.")
    if not np.isfinite(e).all() or e.min() < -1e-9:
        raise ValueError("uncertainty must be finite and not negative.")
    if e.max() > 1e150:
        raise ValueError("uncertainty has values beyond 1e150, whose squares overflow.")
    return g, e


def gain_sums(g, e, n_bins, strategy, w=None) -> BinSums:
    """Sums per bin of the estimate e, of the residual g − e among others."""
    sums = BinSums(Bins(e[:, None], n_bins, strategy), 1, correction="residual")
    sums.add(g[:, None], np.full(len(g), np.inf), e[:, None], w)
    return sums
