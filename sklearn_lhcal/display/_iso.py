"""The map behind methods: its frame, lines of equal epistemic loss, and names that hide little."""

import numpy as np

from ._base import NOTE, drawn, styled

_NAME = "name of a method"
_LABEL = "label of a line of equal epistemic loss"
_ZERO = "no loss"
_ISO = "equal epistemic loss CL + DL"
_XLABEL = "Calibration loss CL (squared probability)"
_YLABEL = "Dispersion loss DL (squared probability)"

# where a name may stand beside its point, in points: near it first, right before left
_PLACES = [(dx, side * up) for up in (6, 18, 30, 42) for dx in (6, -6) for side in (1, -1)]


def draw_frame(ax) -> None:
    """Limits around all points and intervals, and 0 where it is near; room for names."""
    low = ax.dataLim.min
    high = ax.dataLim.max
    low = np.where((low > 0) & (low <= high - low), 0, low)
    size = np.maximum(high - low, 1e-6)
    x0, y0 = low - 0.04 * size
    x1, y1 = high + (0.12, 0.06) * size
    ax.set(xlim=(x0, x1), ylim=(y0, y1), xlabel=_XLABEL, ylabel=_YLABEL)
    # numbers with many digits stay apart
    ax.locator_params(axis="x", nbins=6)
    upright = [(0, y0), (0, y1)]
    level = [(x0, 0), (x1, 0)]
    style = {"colors": "0.35", "linewidths": 0.8, "linestyles": [(0, (1, 1.5))]}
    _draw_lines(ax, [upright, level], _ZERO, zorder=0.6, **style)


def draw_iso_lines(ax, own: dict | None) -> tuple:
    """Lines CL + DL = EL, their levels EL and labels."""
    from matplotlib.ticker import MaxNLocator

    x0, x1 = ax.get_xlim()
    y0, y1 = ax.get_ylim()
    levels = MaxNLocator(8, steps=[1, 2, 5, 10]).tick_values(x0 + y0, x1 + y1)
    # none in the corner, where it would be short
    inside = (levels > 0.92 * x0 + 0.08 * x1 + y0) & (levels < x1 + y1)
    levels = levels[inside].round(12)
    segments = [[(EL - y1, y1), (EL - y0, y0)] for EL in levels]
    style = styled(own, colors="0.75", linewidths=0.9, zorder=0.5, label=_ISO)
    lines = _draw_lines(ax, segments, _ISO, **style)
    _remove(ax.texts, _LABEL)
    return lines, levels, [_label_line(ax, EL) for EL in levels]


def _remove(artists, what: str) -> None:
    for old in drawn(artists, what):
        old.remove()


def _draw_lines(ax, segments: list, what: str, **style):
    """Lines across the axes, which the limits do not follow, in place of those of their kind."""
    from matplotlib.collections import LineCollection

    _remove(ax.collections, what)
    lines = LineCollection(segments, gid=what, **style)
    return ax.add_collection(lines, autolim=False)


def _label_line(ax, EL: float):
    """A label where the line leaves the axes: beside their right edge, or above the lower one."""
    x0, x1 = ax.get_xlim()
    y0 = ax.get_ylim()[0]
    style = NOTE | {"gid": _LABEL}
    text = f"EL = {EL:.3g}"
    if EL - x1 > y0:
        at = (x1, EL - x1)
        return ax.annotate(text, at, (4, 0), va="center", annotation_clip=False, **style)
    near_corner = EL - y0 >= 0.08 * x0 + 0.92 * x1
    style["ha"] = "right" if near_corner else "center"
    # what is drawn below the label would make it hard to read
    box = {"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 1}
    return ax.annotate(text, (EL - y0, y0), (0, 4), va="bottom", zorder=0.7, bbox=box, **style)


def draw_name(ax, name: str, point: tuple, own: dict | None, color):
    """The name of a method, in its first place; `place_names` finds the best."""
    at = {"xytext": _PLACES[0], "textcoords": "offset points"}
    style = styled(own, fontsize="small", color=color, gid=_NAME, **at)
    return ax.annotate(name, point, **style)


def place_names(ax) -> None:
    """Each name where it hides least beside its point: the first of the best places tried."""
    taken = _boxes_of_points(ax)
    taken += [_box(label) for label in drawn(ax.texts, _LABEL)]
    axes = _box(ax)
    for text in drawn(ax.texts, _NAME):
        hidden = [_hidden(_move(text, place), taken, axes) for place in _PLACES]
        best = _PLACES[np.argmin(hidden)]
        taken.append(_move(text, best))


def _box(artist):
    """(x0, y0, x1, y1) in pixels."""
    return artist.get_window_extent().extents


def _boxes_of_points(ax) -> list:
    """Boxes around the points and along the bars of all displays on these axes."""
    from matplotlib.container import ErrorbarContainer

    containers = [c for c in ax.containers if isinstance(c, ErrorbarContainer)]
    artists = [artist for point, _, bars in containers for artist in (point, *bars)]
    # a bar has no width: one pixel to either side
    return [artist.get_window_extent().padded(1).extents for artist in artists]


def _move(text, place: tuple):
    """Set a name beside its point; returns its box there."""
    dx, dy = place
    text.set_position(place)
    text.set(ha="left" if dx > 0 else "right", va="bottom" if dy > 0 else "top")
    return _box(text)


def _hidden(box, taken: list, axes) -> float:
    """Area that a name in this box hides or has outside the axes, in whole pixels."""
    whole, inside = _overlap(box, [box, axes])
    return (_overlap(box, taken).sum() + whole - inside).round()


def _overlap(box, others):
    """Common area of a box and each of the others, of shape (n, 4)."""
    others = np.array(others)
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[2:], others[:, 2:])
    return np.clip(high - low, 0, None).prod(axis=1)
