"""Calibration of whole probability vectors, on the triangle of three classes."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._rows import Rows, read_rows, rows_of
from ..metrics import loo_bandwidth
from ._base import class_names, new_axes
from ._reliability import column

_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
_LEAST_ROWS = 5.0  # what fewer rows say is not shown


class SimplexCalibrationDisplay:
    """Where on the simplex predictions of three classes are miscalibrated, and in which direction.

    Colour is the total variation distance ``½ Σ_k |r_k(z) − z_k|`` between a prediction z and the
    frequencies r(z) observed at it, a probability; arrows lead from z to r(z); dots are the
    predictions. Left, r is a kernel smooth (Popordanoska, Sayer and Blaschko 2022, eq. 3); right,
    the mean over a triangular bin. Nothing is shown where r would rest on fewer than five rows
    (effectively, for the kernel).

    Made by `from_predictions` or `from_estimator`.

    Parameters
    ----------
    z : array-like of shape (n_samples, 3)
        Predictions.
    points : array-like of shape (n_points, 3)
        Centres of the small triangles at which the kernel smooth is shown.
    kernel_frequencies : array-like of shape (n_points, 3)
        The smooth there; NaN where it rests on too few rows.
    bin_centers : array-like of shape (n_bins², 3)
        Centres of the triangular bins.
    bin_frequencies : array-like of shape (n_bins², 3)
        Frequencies in each bin; NaN where it has too few rows.
    bin_counts : array-like of shape (n_bins²,)
        Rows in each bin.
    bandwidth : float
        Of the kernel.
    class_names : list
        Names of the three classes.
    title : str, optional
        What the picture is of.

    Attributes
    ----------
    ax_ : Axes or array of two Axes
    figure_ : matplotlib Figure
    kernel_colors_, bin_colors_ : PolyCollection
        The coloured triangles; the latter None on a single Axes.
    arrows_ : Quiver
    dots_ : list of PathCollection
    colorbar_ : Colorbar

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(1000, 3, overconfidence=3.0, random_state=0)
    >>> display = SimplexCalibrationDisplay.from_predictions(data.counts, data.prediction, n_bins=4)
    >>> int(display.bin_counts.sum())
    1000
    """

    def __init__(
        self,
        z: ArrayLike,
        points: ArrayLike,
        kernel_frequencies: ArrayLike,
        bin_centers: ArrayLike,
        bin_frequencies: ArrayLike,
        bin_counts: ArrayLike,
        *,
        bandwidth: float,
        class_names,
        title: str | None = None,
    ):
        self.z = np.asarray(z)
        self.points = np.asarray(points)
        self.kernel_frequencies = np.asarray(kernel_frequencies)
        self.bin_centers = np.asarray(bin_centers)
        self.bin_frequencies = np.asarray(bin_frequencies)
        self.bin_counts = np.asarray(bin_counts)
        self.bandwidth = bandwidth
        self.class_names = list(class_names)
        self.title = title

    @classmethod
    def from_predictions(
        cls,
        y,
        prediction,
        *,
        which=None,
        classes: ArrayLike | None = None,
        bandwidth: float | str = 0.05,
        n_bins: int = 8,
        sample_weight: ArrayLike | None = None,
        ax=None,
        **plot_kwargs,
    ) -> "SimplexCalibrationDisplay":
        """Calibration on the simplex, of predictions against labels or label histograms.

        Parameters
        ----------
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes.
        prediction : array-like of shape (n_samples, n_classes) or Distribution
            Class probabilities, or a distribution, of which the mean counts; three classes or more.
        which : sequence of three class names or column numbers, optional
            The classes to look at: names, or column numbers where names are no numbers. None: the
            three predicted most often. Of more than three classes, probabilities are renormalised
            over the three, labels of others are left out, and a row counts by its share of labels
            among the three: where the whole prediction is calibrated, so is what is shown.
        classes : array-like of shape (n_classes,), optional
            As in `ReliabilityDisplay.from_predictions`.
        bandwidth : float or "loo", default=0.05
            Of the kernel; "loo": by `loo_bandwidth`, which is narrow where many predictions lie in
            the corners.
        n_bins : int, default=8
            Intervals per class; there are n_bins² triangular bins.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows; only their ratios matter.
        ax : matplotlib Axes, array of two Axes or None, default=None
            None makes a figure of two panels; a single Axes gets the kernel estimate alone.
        **plot_kwargs
            Passed on to `plot`.

        Returns
        -------
        SimplexCalibrationDisplay

        Raises
        ------
        ValueError
            Fewer than three classes, unknown or repeated classes, no row with a label among the
            three, a bandwidth or n_bins that is not positive, and whatever `check_counts` and
            `check_proba` refuse.
        """
        return cls._of_rows(
            read_rows(y, prediction, sample_weight, classes=classes),
            which=which,
            bandwidth=bandwidth,
            n_bins=n_bins,
            ax=ax,
            **plot_kwargs,
        )

    @classmethod
    def from_estimator(
        cls, estimator, X, y, *, sample_weight=None, **kwargs
    ) -> "SimplexCalibrationDisplay":
        """Calibration on the simplex, of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
            Its `predict_dist` or `predict_proba` is used.
        X : array-like of shape (n_samples, ...)
        y : label histogram of shape (n_samples, n_classes)
            Anything `check_counts` takes; frames are aligned with the estimator's classes by name.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows; only their ratios matter.
        **kwargs
            As in `from_predictions`: `which`, `bandwidth`, `n_bins`, `ax` and those of `plot`.

        Returns
        -------
        SimplexCalibrationDisplay

        Raises
        ------
        ValueError
            As `from_predictions`; an estimator that predicts no probabilities.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> X, y = load_iris(return_X_y=True)
        >>> model = LogisticRegression(max_iter=1000).fit(X, y)
        >>> SimplexCalibrationDisplay.from_estimator(model, X, y).class_names
        [0, 1, 2]
        """
        return cls._of_rows(rows_of(estimator, X, y, sample_weight), **kwargs)

    @classmethod
    def _of_rows(
        cls, rows: Rows, *, which=None, bandwidth=0.05, n_bins=8, ax=None, **plot_kwargs
    ) -> "SimplexCalibrationDisplay":
        K = rows.z.shape[1]
        if K < 3:
            raise ValueError(
                f"A simplex display needs three classes, got {K}; ReliabilityDisplay serves two."
            )
        if n_bins < 1 or int(n_bins) != n_bins:
            raise ValueError(f"n_bins must be a whole number, 1 or more, got {n_bins!r}.")
        # never None: every row has a rater, and some row has weight
        rows = rows.contributing()
        columns = _three(which, rows)
        shown = [class_names(rows)[k] for k in columns]
        z, mu, w = _among(rows, columns, shown)
        h = loo_bandwidth(z) if isinstance(bandwidth, str) and bandwidth == "loo" else bandwidth
        if isinstance(h, str) or not 0 < h < np.inf:
            raise ValueError(f"bandwidth must be 'loo' or a positive number, got {bandwidth!r}.")
        points = _centers(30)
        smooth = _kernel(points, z, mu, w, h)
        title = None if K == 3 else f"3 of {K} classes, probabilities renormalised"
        names = {"class_names": shown, "title": title}
        display = cls(z, points, smooth, *_bins(z, mu, w, int(n_bins)), bandwidth=h, **names)
        return display.plot(ax, **plot_kwargs)

    def plot(self, ax=None, *, vmax=None, cmap="YlOrRd", dot_kwargs=None):
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, array of two Axes or None, default=None
            None makes a figure of two panels; a single Axes gets the kernel estimate alone.
        vmax : float, optional
            Distance at the end of the colour scale; None: the largest of both estimates.
        cmap : str, default="YlOrRd"
        dot_kwargs : dict, optional
            Passed on to matplotlib's `scatter` of the predictions.

        Returns
        -------
        display
            Itself, with its artists.
        """
        ax = new_axes((10.5, 4.6), n_panels=2) if ax is None else ax
        axes = np.atleast_1d(ax)
        self.ax_ = ax
        self.figure_ = axes[0].figure
        kernel = _distance(self.kernel_frequencies, self.points)
        binned = _distance(self.bin_frequencies, self.bin_centers)
        if vmax is None:
            vmax = np.nanmax(np.concatenate([kernel, binned, [1e-3]]))
        self.dots_ = []
        style = {"s": 3, "color": "0.25", "alpha": 0.25, "linewidths": 0} | (dot_kwargs or {})
        self.bin_colors_ = None
        panels = [
            (kernel, f"Kernel smooth, bandwidth {self.bandwidth:.2g}"),
            (binned, "Triangular bins"),
        ]
        for a, (value, what) in zip(axes, panels, strict=False):
            colors = _color(a, value, vmax, cmap)
            self.dots_.append(a.scatter(*(self.z @ _CORNERS).T, **style, zorder=2))
            if a is axes[0]:
                self.kernel_colors_, self.arrows_ = colors, self._draw_arrows(a)
            else:
                self.bin_colors_ = colors
            _frame(a, self.class_names)
            a.set_title(what if self.title is None else f"{what}\n{self.title}", fontsize="medium")
        self.colorbar_ = self.figure_.colorbar(self.kernel_colors_, ax=list(axes), shrink=0.7)
        self.colorbar_.set_label(
            "Distance of frequencies from prediction\n(total variation, probability)"
        )
        return self

    def _draw_arrows(self, ax):
        """From a prediction to the frequencies observed there, on a coarse lattice."""
        lattice = _centers(10)
        nearest = ((lattice[:, None] - self.points[None]) ** 2).sum(axis=2).argmin(axis=1)
        start = self.points[nearest]
        move = (self.kernel_frequencies - self.points)[nearest]
        ok = ~np.isnan(move[:, 0])
        style = {
            "angles": "xy",
            "scale_units": "xy",
            "scale": 1,
            "width": 0.004,
            "color": "tab:blue",
            "zorder": 3,
        }
        return ax.quiver(*(start[ok] @ _CORNERS).T, *(move[ok] @ _CORNERS).T, **style)


def _three(which, rows: Rows) -> list[int]:
    """Column numbers of the classes to show."""
    if which is None:
        return sorted(np.argsort(-rows.z.mean(axis=0), kind="stable")[:3].tolist())
    columns = [column(k, rows) for k in which]
    if len(columns) != 3 or len(set(columns)) != 3:
        raise ValueError(f"which must name three different classes, got {list(which)}.")
    return columns


def _among(rows: Rows, columns: list[int], shown: list) -> tuple[NDArray, NDArray, NDArray]:
    """Predictions and frequencies within three classes, and weights, of the rows that have any."""
    share = rows.mu[:, columns]
    z = rows.z[:, columns]
    keep = (share.sum(axis=1) > 0) & (z.sum(axis=1) > 1e-12)
    if not keep.any():
        raise ValueError(f"No row has a label among the classes {shown}.")
    share, z = share[keep], z[keep]
    labels = share.sum(axis=1, keepdims=True)
    w = rows.weight[keep] * labels[:, 0]
    return z / z.sum(axis=1, keepdims=True), share / labels, w


def _corners(B: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Corners of the B² small triangles times B, (B², 3, 3), and the cells ⌊B·z⌋, (B², 3)."""
    i, j = np.meshgrid(np.arange(B), np.arange(B), indexing="ij")
    up = np.stack([i, j, B - 1 - i - j], axis=-1)[i + j < B]
    down = np.stack([i, j, B - 2 - i - j], axis=-1)[i + j < B - 1]
    eye = np.eye(3, dtype=np.int64)
    corners = np.concatenate([up[:, None] + eye, down[:, None] + 1 - eye])
    return corners, np.concatenate([up, down])


def _centers(B: int) -> NDArray[np.float64]:
    return _corners(B)[0].mean(axis=1) / B


def _kernel(points, z, mu, w, h: float) -> NDArray[np.float64]:
    """The kernel smooth at the points, NaN where it averages too few rows."""
    import torch

    from .._ground import kernels as _kernels

    P, x, y, w = (torch.as_tensor(np.array(a, dtype=np.float64)) for a in (points, z, mu, w))
    r, rows = (a.numpy() for a in _kernels.smooth_at(P, _kernels.clipped(x), y, h, w.log()))
    return np.where(rows[:, None] >= _LEAST_ROWS, r, np.nan)


def _bins(z, mu, w, B: int):
    """Centres of the triangular bins, their frequencies (NaN for few rows) and numbers of rows."""
    cells = _corners(B)[1]
    code = {tuple(cell): b for b, cell in enumerate(cells.tolist())}
    inside = np.minimum(z * B, B - 1e-9 * B).astype(np.int64)
    b = np.array([code.get(tuple(cell), -1) for cell in inside.tolist()])
    # on an edge, by rounding
    lost = b < 0
    b[lost] = ((z[lost, None] - _centers(B)[None]) ** 2).sum(axis=2).argmin(axis=1)
    counts = np.bincount(b, minlength=B * B)
    total = np.bincount(b, weights=w, minlength=B * B)
    r = np.stack([np.bincount(b, weights=w * mu[:, k], minlength=B * B) for k in range(3)], axis=1)
    shown = counts >= _LEAST_ROWS
    r = np.where(shown[:, None], r / np.where(shown, total, 1.0)[:, None], np.nan)
    return _centers(B), r, counts


def _distance(r, z) -> NDArray[np.float64]:
    return 0.5 * np.abs(r - z).sum(axis=1)


def _color(ax, value, vmax: float, cmap):
    from matplotlib.collections import PolyCollection

    B = int(np.sqrt(len(value)))
    triangles = _corners(B)[0] / B @ _CORNERS
    shown = ~np.isnan(value)
    colors = PolyCollection(
        triangles[shown], array=value[shown], cmap=cmap, edgecolors="face", linewidths=0.2
    )
    colors.set_clim(0, vmax)
    ax.add_collection(colors)
    return colors


def _frame(ax, names) -> None:
    """The triangle, its grid with probabilities, and the classes at its corners."""
    ax.plot(*_CORNERS[[0, 1, 2, 0]].T, color="0.2", linewidth=1, zorder=4)
    for t in (0.2, 0.4, 0.6, 0.8):
        for k in range(3):
            a, b = np.zeros(3), np.zeros(3)
            a[k], a[(k + 1) % 3] = t, 1 - t
            b[k], b[(k + 2) % 3] = t, 1 - t
            ax.plot(*(np.array([a, b]) @ _CORNERS).T, color="0.8", linewidth=0.5, zorder=0)
        style = _SMALL | {"ha": "center", "va": "top"}
        ax.annotate(f"{t:.1f}", np.array([1 - t, t, 0]) @ _CORNERS, (0, -3), **style)
    for k, name in enumerate(names):
        style = {"textcoords": "offset points", "ha": "center"}
        style |= {"xytext": (0, 4), "va": "bottom"} if k == 2 else {"xytext": (0, -14), "va": "top"}
        ax.annotate(str(name), tuple(_CORNERS[k]), **style)
    style = _SMALL | {"ha": "center", "va": "top"}
    ax.annotate(f"probability of {names[1]} along this edge", (0.5, 0), (0, -14), **style)
    ax.set(aspect="equal", xlim=(-0.08, 1.08), ylim=(-0.12, 0.95))
    ax.set_axis_off()


_SMALL = {"textcoords": "offset points", "fontsize": "x-small", "color": "0.4"}
