"""The simplex of three classes as a triangle: small triangles in it, and its frame."""

import numpy as np
from numpy.typing import NDArray

from ._base import NOTE

# of an equilateral triangle with sides of length 1
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])

# where the name of a class stands beside its corner: shift in points, and vertical alignment
_NAMES = [((0, -14), "top"), ((0, -14), "top"), ((0, 4), "bottom")]


def triangles(B: int) -> tuple[NDArray, NDArray]:
    """Corners of the B² small triangles times B, (B², 3, 3), and the cells ⌊B·z⌋, (B², 3)."""
    i, j = np.indices((B, B))
    up = np.stack([i, j, B - 1 - i - j], axis=-1)[i + j < B]
    down = np.stack([i, j, B - 2 - i - j], axis=-1)[i + j < B - 1]
    eye = np.eye(3, dtype=np.int64)
    corners = np.concatenate([up[:, None] + eye, down[:, None] + 1 - eye])
    return corners, np.concatenate([up, down])


def centers(B: int) -> NDArray:
    """Centres of the B² small triangles, probabilities (B², 3)."""
    return triangles(B)[0].mean(axis=1) / B


def nearest(z, points) -> NDArray:
    """Number of the point that is nearest to each z, (n,)."""
    return ((z[:, None] - points[None]) ** 2).sum(axis=2).argmin(axis=1)


def draw_triangles(ax, value, vmax: float, cmap):
    """The B² small triangles, coloured by a value from 0 to `vmax`; none where it is NaN."""
    from matplotlib.collections import PolyCollection

    B = int(np.sqrt(len(value)))
    shown = ~np.isnan(value)
    corners = triangles(B)[0][shown] / B @ CORNERS
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
