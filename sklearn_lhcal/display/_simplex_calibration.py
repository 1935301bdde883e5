"""Calibration of whole probability vectors, on the triangle of three classes."""

from typing import Literal, NamedTuple, Self

import numpy as np
from scipy.spatial import cKDTree

from .._rows import PredictionLike, Rows, class_column, class_names, read_rows
from .._utils.checks import as_names, checked
from .._utils.results import result
from .._utils.types import ArrayLike, LabelsLike, NDArray, Weights
from ..metrics import loo_bandwidth
from ._base import NOTE, Axes, PredictionDisplay, color_of, styled

# of an equilateral triangle with sides of length 1
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])

# where the name of a class stands beside its corner: shift in points, and vertical alignment
_NAMES = [((0, -14), "top"), ((0, -14), "top"), ((0, 4), "bottom")]

# what fewer samples say is not shown
_LEAST_ROWS = 5.0


@result
class SimplexCalibration(NamedTuple):
    """What `SimplexCalibrationDisplay` draws.

    Attributes
    ----------
    z : ndarray of shape (n_samples, 3)
        Predictions, probabilities of the three classes.
    points : ndarray of shape (n_points, 3)
        Centres of the small triangles at which the kernel smooth is shown.
    kernel_frequencies : ndarray of shape (n_points, 3)
        The smooth there; NaN where it rests on too few samples.
    bin_centers : ndarray of shape (n_bins², 3)
        Centres of the triangular bins.
    bin_frequencies : ndarray of shape (n_bins², 3)
        Frequencies in each bin; NaN where it has too few samples.
    bin_counts : ndarray of shape (n_bins²,)
        Number of samples in each bin.
    bandwidth : float
        Bandwidth of the kernel.
    class_names : list
        Names of the three classes: lower left, lower right and upper corner.
    title : str, optional
        What the picture is of.
    """

    z: NDArray
    points: NDArray
    kernel_frequencies: NDArray
    bin_centers: NDArray
    bin_frequencies: NDArray
    bin_counts: NDArray
    bandwidth: float
    class_names: list
    title: str | None = None


@checked
def simplex_calibration(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    which: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    bandwidth: float | Literal["loo"] = 0.05,
    n_bins: int = 8,
    sample_weight: Weights = None,
) -> SimplexCalibration:
    """Calibration on the simplex, of predictions against labels or label histograms.

    Parameters
    ----------
    y : label histogram of shape (n_samples, n_classes)
        Anything `check_counts` takes.
    prediction : array-like of shape (n_samples, n_classes) or Distribution
        Class probabilities, or a distribution, of which the mean counts. There must be three
        classes or more.
    which : sequence of three class names or column numbers, optional
        The classes to look at: names, or column numbers where names are no numbers. None: the
        three predicted most often. Where there are more, probabilities are renormalised over
        the three, labels of others are left out, and a sample counts by its share of labels
        among the three. What is shown is calibrated where the whole prediction is.
    classes : array-like of shape (n_classes,), optional
        Names of the columns of a bare array, as in `reliability_curve`.
    bandwidth : float or "loo", default=0.05
        Bandwidth of the kernel. "loo": that of `loo_bandwidth`, which is narrow where many
        predictions lie in the corners.
    n_bins : int, default=8
        Intervals on each edge; there are n_bins² triangular bins.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples; only their ratios matter.

    Returns
    -------
    SimplexCalibration

    Raises
    ------
    ValueError
        Fewer than three classes, unknown or repeated classes, no sample with a label among the
        three, a bandwidth or n_bins that is not positive, and whatever `check_counts` and
        `check_proba` refuse.
    """
    rows = read_rows(y, prediction, sample_weight, classes=classes).weighted()
    K = rows.z.shape[1]
    if K < 3:
        raise ValueError(
            f"A simplex display needs three classes, got {K}; ReliabilityDisplay serves two."
        )
    columns = _three(which, rows)
    kept: dict = {"class_names": [class_names(rows)[k] for k in columns]}
    if K > 3:
        kept["title"] = f"3 of {K} classes, probabilities renormalised"
    # predictions and frequencies within three classes, and weights, of the rows that have any
    mu = rows.mu[:, columns]
    z = rows.z[:, columns]
    keep = (mu.sum(axis=1) > 0) & (z.sum(axis=1) > 1e-12)
    if not keep.any():
        raise ValueError(f"No sample has a label among the classes {kept['class_names']}.")
    share = mu[keep].sum(axis=1, keepdims=True)
    w = rows.weight[keep] * share[:, 0]
    mu = mu[keep] / share
    z = z[keep] / z[keep].sum(axis=1, keepdims=True)
    h = bandwidth
    if h == "loo":
        h = loo_bandwidth(z)
    points = centers(30)
    smooth = _kernel(points, z, mu, w, h)
    bins = _bins(z, mu, w, int(n_bins))
    return SimplexCalibration(z, points, smooth, *bins, bandwidth=h, **kept)


class SimplexCalibrationDisplay(PredictionDisplay):
    """Where on the simplex predictions of three classes are miscalibrated, and in which direction.

    ``from_predictions(y, prediction, which=None, classes=None, bandwidth=0.05, n_bins=8,
    sample_weight=None)`` computes its result. Colour is the total variation distance
    ``½ Σ_k |r_k(z) − z_k|`` between a prediction z and the frequencies r(z) observed at it, a
    probability. Arrows lead from z to r(z). Dots are the predictions. On the left r is a kernel
    smooth (Popordanoska, Sayer and Blaschko 2022, eq. 3), on the right the mean over a triangular
    bin. Nothing is shown where r would rest on fewer than five samples (effectively, for the
    kernel).

    Parameters
    ----------
    result : SimplexCalibration

    Attributes
    ----------
    ax_ : matplotlib Axes, or array of two
    figure_ : matplotlib Figure
    kernel_colors_, bin_colors_ : matplotlib PolyCollection
        The coloured triangles; `bin_colors_` is None on a single Axes.
    arrows_ : matplotlib Quiver
        Arrows from predictions to frequencies.
    dots_ : list of matplotlib PathCollection
        The predictions, one artist a panel.
    colorbar_ : matplotlib Colorbar

    Examples
    --------
    >>> from sklearn_lhcal.datasets import make_label_histograms
    >>> data = make_label_histograms(1000, 3, overconfidence=3.0, random_state=0)
    >>> display = SimplexCalibrationDisplay.from_predictions(data.counts, data.prediction, n_bins=4)
    >>> int(display.result.bin_counts.sum())
    1000
    """

    result: SimplexCalibration
    analysis = staticmethod(simplex_calibration)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        vmax: float | None = None,
        cmap: str = "YlOrRd",
        dot_kwargs: dict | None = None,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, array of two Axes or None, default=None
            None makes a figure of two panels; a single Axes gets the kernel estimate alone.
        vmax : float, optional
            Distance at the end of the colour scale, a probability; None: the largest of both
            estimates.
        cmap : str, default="YlOrRd"
            Colour map of the distances.
        dot_kwargs : dict, optional
            Passed on to matplotlib's `scatter` of the predictions.

        Returns
        -------
        display
            Itself, with its artists.
        """
        panels = self._take_axes(ax, (7.5, 3.8), n_panels=2)
        found = self.result
        kernel = _distance(found.kernel_frequencies, found.points)
        binned = _distance(found.bin_frequencies, found.bin_centers)
        if vmax is None:
            vmax = np.nanmax([*kernel, *binned, 1e-3])
        shown = [
            (kernel, f"Kernel smooth, bandwidth {found.bandwidth:.2g}"),
            (binned, "Triangular bins"),
        ]
        style = styled(dot_kwargs, s=3, color="0.25", alpha=0.25, linewidths=0)
        self.dots_ = []
        colors = []
        for panel, (value, what) in zip(panels, shown, strict=False):
            colors.append(draw_triangles(panel, value, vmax, cmap))
            self.dots_.append(panel.scatter(*(found.z @ CORNERS).T, **style, zorder=2))
            draw_frame(panel, found.class_names)
            title = what if found.title is None else f"{what}\n{found.title}"
            panel.set_title(title, fontsize="medium")
        # a single panel has no bins
        self.kernel_colors_, self.bin_colors_ = [*colors, None][:2]
        self.arrows_ = self._draw_arrows(panels[0])
        self.colorbar_ = self.figure_.colorbar(colors[0], ax=list(panels), shrink=0.7)
        self.colorbar_.set_label(
            "Distance of frequencies from prediction\n(total variation, probability)"
        )
        return self

    def _draw_arrows(self, ax):
        """From a prediction to the frequencies observed there, on a coarse lattice."""
        found = self.result
        at = nearest(centers(10), found.points)
        at = at[~np.isnan(found.kernel_frequencies[at, 0])]
        start = found.points[at]
        move = found.kernel_frequencies[at] - start
        true_to_scale = {"angles": "xy", "scale_units": "xy", "scale": 1}
        style = {"width": 0.004, "color": color_of(0), "zorder": 3}
        return ax.quiver(*(start @ CORNERS).T, *(move @ CORNERS).T, **true_to_scale, **style)


def _three(which, rows: Rows) -> list[int]:
    """Column numbers of the classes to show."""
    if which is None:
        return sorted(np.argsort(-rows.z.mean(axis=0), kind="stable")[:3].tolist())
    which = as_names(which, "which").tolist()
    columns = [class_column(k, rows) for k in which]
    if len(columns) != 3 or len(set(columns)) != 3:
        raise ValueError(f"which must name three different classes, got {list(which)}.")
    return columns


def _kernel(points, z, mu, w, h: float) -> NDArray:
    """The kernel smooth at the points, NaN where it averages too few samples."""
    import torch

    from .._utils.kernels.smoothing import clipped, smooth_at

    P, x, y, w = (torch.as_tensor(np.array(a, dtype=float)) for a in (points, z, mu, w))
    r, rows = (a.numpy() for a in smooth_at(P, clipped(x), y, h, w.log()))
    return np.where(rows[:, None] >= _LEAST_ROWS, r, np.nan)


def _bins(z, mu, w, B: int) -> tuple[NDArray, NDArray, NDArray]:
    """Centres of the triangular bins, their frequencies (NaN for few rows) and numbers of rows."""
    b = nearest(z, centers(B))
    counts = np.bincount(b, minlength=B * B)
    total = np.zeros((B * B, 3))
    np.add.at(total, b, w[:, None] * mu)
    total[counts < _LEAST_ROWS] = np.nan
    return centers(B), total / total.sum(axis=1, keepdims=True), counts


def _distance(r, z) -> NDArray:
    """Total variation distance of the samples, (n,)."""
    return 0.5 * np.abs(r - z).sum(axis=1)


# ------------------------------------------------------------------------------------- the triangle


def triangles(B: int) -> NDArray:
    """Corners of the B² small triangles times B, (B², 3, 3)."""
    i, j = np.indices((B, B))
    up = np.stack([i, j, B - 1 - i - j], axis=-1)[i + j < B]
    down = np.stack([i, j, B - 2 - i - j], axis=-1)[i + j < B - 1]
    eye = np.eye(3, dtype=np.int64)
    return np.concatenate([up[:, None] + eye, down[:, None] + 1 - eye])


def centers(B: int) -> NDArray:
    """Centres of the B² small triangles, probabilities (B², 3)."""
    return triangles(B).mean(axis=1) / B


def nearest(z, points) -> NDArray:
    """Number of the point that is nearest to each z, (n,)."""
    return cKDTree(points).query(z)[1]


def draw_triangles(ax, value, vmax: float, cmap):
    """The B² small triangles, coloured by a value from 0 to `vmax`; none where it is NaN."""
    from matplotlib.collections import PolyCollection

    B = int(np.sqrt(len(value)))
    shown = ~np.isnan(value)
    corners = triangles(B)[shown] / B @ CORNERS
    style = {"cmap": cmap, "edgecolors": "face", "linewidths": 0.2}
    colors = PolyCollection(corners, array=value[shown], **style)
    colors.set_clim(0, vmax)
    return ax.add_collection(colors)


def draw_frame(ax, names) -> None:
    """The triangle, its grid with probabilities, and the classes at its corners."""
    ax.plot(*CORNERS[[0, 1, 2, 0]].T, color="0.2", linewidth=1, zorder=4)
    below = NOTE | {"ha": "center", "va": "top"}
    for t in (0.2, 0.4, 0.6, 0.8):
        # along this line, one class has probability t
        line = [[t, 1 - t, 0], [t, 0, 1 - t]]
        for k in range(3):
            ends = np.roll(line, k, axis=1) @ CORNERS
            ax.plot(*ends.T, color="0.8", linewidth=0.5, zorder=0)
        ax.annotate(f"{t:.1f}", np.array([1 - t, t, 0]) @ CORNERS, (0, -3), **below)
    for name, corner, (shift, va) in zip(names, CORNERS, _NAMES, strict=True):
        ax.annotate(str(name), corner, shift, textcoords="offset points", ha="center", va=va)
    ax.annotate(f"probability of {names[1]} along this edge", (0.5, 0), (0, -14), **below)
    ax.set(aspect="equal", xlim=(-0.08, 1.08), ylim=(-0.12, 0.95))
    ax.set_axis_off()
