"""Sums over bins of samples, without the pairs that depend on each other.

Labels by one rater depend on each other, as those of one sample or group do: only pairs of labels
that share neither are unbiased for the square of a bin's residual. With U_ir = w_i (x_ir − z_i)/n_i
and C_ir = w_i/n_i, ``CL_b = W_b/W · p(U)/p(C)``, p(V) the sum of V·V' over such pairs.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, cast

import numpy as np

from .._rows import Annotations, Rows
from .._utils.arrays import row_blocks
from .._utils.bins import Bins
from .._utils.types import Floats, Indices, Mask, NDArray

Correction = Literal["residual", "label"] | None
# disjoint pairs of raters need so many
_FOUR = 4


# the sums over the samples of a bin; e = μ̂ − z, s = μ̂(1−μ̂), and c = s/(n_i−1) is the unbiased
# estimate of what the raters' sampling adds to e²
SUMS = ("w", "ww", "we", "wee", "wwee", "wc", "wz", "wmm", "ws")


def _entry(number: int):
    """One of the sums of a table, shape (K, B)."""
    return property(lambda sums: sums.table[number])


class BinSums:
    """Sums per class and bin from which every binned loss follows; `add` takes blocks of samples.

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
        Number of samples added.
    dependent : bool
        Whether groups or raters have pairs of samples that no correction counts.
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
        s: NDArray | None = None,
    ) -> None:
        """Add samples: μ̂ and z of shape (m, K), raters n, weights and parts of shape (m,).

        Infinitely many raters need no correction. s are the variances of the labels of a sample,
        (m, K), where these are not 0 and 1.
        """
        K, B = self.w.shape
        index = self.bins.index(z) + np.arange(K) * B
        if part is not None:
            index += (part * self.bins.n_bins)[:, None]
        index = index.ravel()
        weight = np.ones((len(z), 1)) if w is None else w[:, None]
        if s is None:
            s = mu * (1 - mu)
        e = mu - z
        we = weight * e
        # the correction of samples with one rater is never read
        with np.errstate(divide="ignore", invalid="ignore"):
            wc = weight * (s / (n[:, None] - 1))

        terms = (weight, weight**2, we, we * e, we**2, wc, weight * z, weight * mu**2, weight * s)
        for sums, values in zip(self.table, terms, strict=True):
            each = np.broadcast_to(values, z.shape).ravel()
            sums += np.bincount(index, each, K * B).reshape(K, B)
        self.n_rows += len(z)

    def by_group(
        self,
        mu: NDArray,
        z: NDArray,
        groups: NDArray,
        w: NDArray | None = None,
        part: NDArray | None = None,
    ) -> None:
        """Of all rows added: make groups the units of which pairs are corrected, instead of rows.

        `ww` and `wwee` become ``Σ_g W_gb²`` and ``Σ_g (Σ_{i∈g} w e)²``; `groups` are codes (n,).
        """
        weight = np.ones(len(z)) if w is None else w
        we = weight[:, None] * (mu - z)
        first = 0 if part is None else part * self.bins.n_bins
        for k, b in enumerate(self.bins.index(z).T):
            self.ww[k] = squares(weight, groups, first + b, self.table.shape[2])
            self.wwee[k] = squares(we[:, k], groups, first + b, self.table.shape[2])

    def merge(self, other: "BinSums") -> None:
        """Add the sums of other samples, binned alike."""
        self.table += other.table
        self.n_rows += other.n_rows

    def without_parts(self, n_parts: int) -> Iterator["BinSums"]:
        """Of so many parts of the data: the sums of all, and then those without each part."""
        parts = self.table.reshape(*self.table.shape[:2], n_parts, -1)
        whole = parts.sum(axis=2)
        yield self.of_table(whole)
        for part in range(n_parts):
            left = whole - parts[:, :, part]
            # what rounding leaves of a bin
            left[:, left[0] <= 1e-12 * whole[0]] = 0.0
            yield self.of_table(left)

    def of_table(self, table: Floats) -> "BinSums":
        """The same of other sums."""
        made = copy.copy(self)
        made.table = table
        return made

    def calibration_loss(self) -> Floats:
        """CL_kb of shape (K, B); empty bins contribute 0.

        P1 eq. (13), (14) and the residual form.
        """
        W_b, W = self.w, self.w[0].sum()
        safe = np.where(W_b > 0, W_b, 1.0)
        several = self._several()
        # (W_b/W)·[(Σwe)² − Σw²e²] / [(Σw)² − Σw²]
        if self.correction == "residual":
            pairs = np.where(several, W_b**2 - self.ww, 1.0)
            return np.where(several, W_b / W * (self.we**2 - self.wwee) / pairs, 0.0)
        plugin = W_b / W * (self.we / safe) ** 2
        if self.correction is None:
            return plugin
        # Σ p², p_i = w_i/W_b
        h = self.ww / safe / safe
        variance = np.maximum(self.wmm / safe - ((self.we + self.wz) / safe) ** 2, 0.0)
        noise = W_b / W * variance * h / np.where(several, 1 - h, 1.0)
        return np.where(several, plugin - noise, 0.0)

    def _several(self) -> Mask:
        """Where a bin can be corrected, (K, B): more than one sample in it, or group."""
        if self.correction is None:
            return self.w > 0
        return self.w**2 - self.ww > 1e-12 * self.w**2

    def dropped_weight(self) -> float:
        """Share of the weight in bins that cannot be corrected and count 0, mean over classes."""
        dropped = np.where(self._several(), 0.0, self.w).sum()
        return float(dropped / self.w.sum())

    def powers(self, p: float) -> Floats:
        """``Σ_b W_b/W |c̄−z̄|^p`` of each class, (K,), P1 Def. 2; for p = ∞ the largest gap."""
        # 0 in empty bins
        gaps = np.abs(self.we) / np.where(self.w > 0, self.w, 1.0)
        if np.isinf(p):
            return gaps.max(axis=1)
        return (self.w * gaps**p).sum(axis=1) / self.w[0].sum()

    def epistemic_loss(self) -> Floats:
        """EL_kb of shape (K, B).

        P1 eq. (10) split over bins; the plug-in keeps the raters' spread, eq. (9).
        """
        noise = 0.0 if self.correction is None else self.wc
        return (self.wee - noise) / self.w[0].sum()

    def irreducible_loss(self) -> Floats:
        """IL_k of shape (K,).

        With `expected_squared_loss` less `epistemic_loss` it agrees sample by sample.
        """
        spread = self.ws if self.correction is None else self.ws + self.wc
        return spread.sum(axis=1) / self.w[0].sum()

    def expected_squared_loss(self) -> Floats:
        """L_k of shape (K,), P1 eq. (8)."""
        return (self.wee + self.ws).sum(axis=1) / self.w[0].sum()

    def means(self) -> tuple[Floats, Floats]:
        """Mean prediction z̄ and mean frequency c̄ per bin, shapes (K, B); NaN in empty bins."""
        W_b = np.where(self.w > 0, self.w, np.nan)
        return self.wz / W_b, (self.we + self.wz) / W_b


def check_exponent(p, bias_correction: str | None) -> None:
    """ValueError for a correction that an exponent does not have."""
    if p != 2 and bias_correction is not None:
        raise ValueError(
            f"bias_correction={bias_correction!r} is for p = 2 only, got p = {p}; "
            "pass bias_correction=None for the plug-in."
        )


class Binned(NamedTuple):
    """What a binned loss compares.

    Attributes
    ----------
    bins : Bins
    z : ndarray of shape (n, m)
        Predictions, which decide the bins.
    observed : callable
        ``observed(rows) -> (rates, n, s)``: observed rates (n, m); the raters they come from, (n,),
        infinitely many where their sampling is not corrected; variances of labels, or None.
    correction : {"residual", "label", None}
    of_ratings : callable
        ``of_ratings(rows) -> x``: ``x(y, k)`` is what each label contributes to the rate of column
        k; of pairs, ``x(a, b, k)`` is whether two labels differ by it.
    pairs : bool
        Whether rates are of pairs of labels.
    """

    bins: Bins
    z: Floats
    observed: Callable
    correction: str | None
    of_ratings: Callable
    pairs: bool = False

    def repeated(self, rows: Rows) -> bool:
        """Whether a rater has pairs of labels that are left out."""
        # one rater alone has no pairs with others: the labels are then his
        return raters_repeat(rows, _FOUR if self.pairs else 2)

    def sums(self, rows: Rows, part: NDArray | None = None, n_parts: int = 1) -> BinSums:
        """The sums of these samples, with their groups and raters, or of parts without raters."""
        sums = BinSums(self.bins, self.z.shape[1], n_parts, self.correction)
        self.add_to(sums, rows, part)
        repeated = self.repeated(rows)
        sums.dependent = rows.groups is not None or repeated
        if self.correction is None:
            return sums
        if rows.groups is not None:
            sums.by_group(self.observed(rows)[0], self.z, rows.groups, rows.w, part)
        if self.correction == "residual" and repeated:
            leave_out = _leave_out_pairs if self.pairs else _leave_out_ratings
            leave_out(self, sums, rows)
        return sums

    def add_to(self, sums: BinSums, rows: Rows, part: NDArray | None = None) -> None:
        """Add the samples to the sums of parts of the data, as if samples were independent."""
        for block in row_blocks(*rows.labels.shape):
            some = rows.take(block)
            rates, n, s = self.observed(some)
            at = None if part is None else part[block]
            sums.add(rates, n, self.z[block], some.w, at, s)


def raters_repeat(rows: Rows, least: int = 1) -> bool:
    """Whether so many raters are known, one of whom rated two samples."""
    if not isinstance(rows.labels, Annotations):
        return False
    times = np.bincount(rows.labels.rater)
    return bool(np.count_nonzero(times) >= least and times.max() > 1)


def correction_of(rows: Rows, bias_correction: str | None) -> str | None:
    """The correction to make: none where the class probabilities are known."""
    return None if rows.labels.known else bias_correction


def _leave_out_ratings(binned: Binned, sums: BinSums, rows: Rows) -> None:
    """Leave pairs of labels by one rater out: Σ_r U_r² − Σ_ir U_ir², and the same of C."""
    y = cast(Annotations, rows.labels)
    x = binned.of_ratings(rows)
    B = sums.bins.n_bins
    row = y.row
    C = (rows.weight / y.n)[row]
    cell = _cells(y, rows.groups)
    index = sums.bins.index(binned.z)
    for k, z in enumerate(binned.z.T):
        b = index[row, k]
        U = C * (x(y, k) - z[row])
        for total, V in ((sums.ww, C), (sums.wwee, U)):
            total[k] += _between_cells(V, y.rater, cell, b, B)


def _leave_out_pairs(binned: Binned, sums: BinSums, rows: Rows) -> None:
    """The same where terms are pairs of labels: only pairs of them without a common rater count.

    With A_r and A_ir, sums of U_irs over the pairs that hold r, and B_rs, sums over samples, what
    is left out is Σ_r A_r² − Σ_{r<s} B_rs² − [Σ_ir A_ir² − Σ_{i,r<s} U_irs²].
    """
    y = cast(Annotations, rows.labels)
    differ = binned.of_ratings(rows)
    B = sums.bins.n_bins
    N, R = len(y.rater), len(y.raters)
    first, second = pairs_within(y.indptr)
    row = y.row
    row_of_pair = row[first]
    c = rows.weight / np.maximum(y.n * (y.n - 1) / 2, 1)
    C = c[row_of_pair]
    # each label is in a pair with each other one of its sample
    A_C = (c * (y.n - 1))[row]
    rater = y.rater.astype(np.intp)
    one, other = rater[first], rater[second]
    raters = np.minimum(one, other) * R + np.maximum(one, other)
    cell = _cells(y, rows.groups)
    single = None
    if rows.groups is not None:
        # raters are numbered: products of pairs and groups may exceed 64 bits
        number = np.unique(raters, return_inverse=True)[1]
        single = rows.groups[row_of_pair] * (int(number.max(initial=0)) + 1) + number
    labels = y.label[first], y.label[second]
    index = sums.bins.index(binned.z)
    for k, z in enumerate(binned.z.T):
        b = index[row, k]
        b_of_pair = b[first]
        U = C * (differ(*labels, k) - z[row_of_pair])
        A_U = np.bincount(first, U, N) + np.bincount(second, U, N)
        for total, V, A in ((sums.ww, C, A_C), (sums.wwee, U, A_U)):
            total[k] += _between_cells(A, rater, cell, b, B)
            total[k] -= _between_cells(V, raters, single, b_of_pair, B)


def _cells(y: Annotations, groups: NDArray | None) -> NDArray | None:
    """Number of the rater and the group of each label; None: without groups each is its own."""
    if groups is None:
        return None
    return groups[y.row] * len(y.raters) + y.rater


def _between_cells(V: NDArray, unit: NDArray, cell: NDArray | None, b: NDArray, B: int) -> NDArray:
    """Squares of the sums of units less those of the cells in them; None: each value is a cell."""
    within = np.bincount(b, V * V, B) if cell is None else squares(V, cell, b, B)
    return squares(V, unit, b, B) - within


# ---------------------------------------------------------------------------------- sums of squares

# cells that are summed in place, however few values there are
_DENSE = 2**16


def squares(values: NDArray, codes: NDArray, index: NDArray, n_bins: int) -> Floats:
    """Σ_c (Σ_{t∈c} v_t)² over the units c that values belong to, by bin, shape (n_bins,).

    `codes` are the units of the values, `index` their bins, all of shape (n_values,).
    """
    cell = codes * n_bins + index
    n_cells = (int(codes.max(initial=-1)) + 1) * n_bins
    if n_cells < 4 * len(cell) + _DENSE:
        sums = np.bincount(cell, values, n_cells)
        return (sums.reshape(-1, n_bins) ** 2).sum(axis=0)
    # units and bins that occur together: at most as many as there are values
    cells, cell = np.unique(cell, return_inverse=True)
    sums = np.bincount(cell, values)
    return np.bincount(cells % n_bins, sums**2, n_bins).astype(float)


def group_means(mu: Floats, w: Floats, group: Indices) -> Floats:
    """The weighted mean of μ̂ over the samples of the same group as each one, shape (n, K)."""
    W = np.bincount(group, weights=w)
    sums = np.zeros((len(W), mu.shape[1]))
    np.add.at(sums, group, w[:, None] * mu)
    means = sums / np.maximum(W, 1e-300)[:, None]
    return means[group]


def pairs_within(indptr: NDArray) -> tuple[Indices, Indices]:
    """Both places of every pair of labels of one sample, in the order of samples, (n_pairs,) each.

    `indptr` holds where the labels of each sample begin, shape (n + 1,).
    """
    N = int(indptr[-1])
    # the labels of its sample that follow each one
    left = np.repeat(indptr[1:], np.diff(indptr)) - np.arange(1, N + 1)
    first = np.repeat(np.arange(N), left)
    begin = np.cumsum(left) - left
    return first, np.arange(len(first)) - begin[first] + first + 1
