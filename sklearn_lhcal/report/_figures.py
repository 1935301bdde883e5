"""The pictures of a report, as SVG and PNG."""

import base64
import warnings
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

from ..display import DecisionCurveDisplay, ReliabilityDisplay
from ..distributions import Distribution
from ._classes import WORDS, Referral
from ._numbers import Number
from ._study import Study
from ._words import said

# Okabe and Ito's colours, one a prediction.
COLOURS = {
    "model": "#0072B2",
    "uncalibrated": "#0072B2",
    "recalibrated": "#009E73",
    "labels": "#D55E00",
}
PARTS = {
    "irreducible_loss": "raters' own disagreement",
    "calibration_loss": "avoidable by calibration",
    "dispersion_loss": "avoidable by a better model",
}
CAPTURED = ("#CC79A7", "#E69F00")
MOST_CLASSES = 6
MOST_CURVES = 3
MOST_RATERS = 30
N_BINS = 10
# Numbers of labels that differ more stand in bins.
MOST_BARS = 20
# Dots of an inch of a PNG, as journals ask.
_DPI = 300
# Inches of a line of dots, and of the axis below them.
_LINE = 0.3
_AXIS = 0.9


class Picture(NamedTuple):
    """One picture: its SVG and PNG, and what it shows in words."""

    svg: bytes
    png: bytes
    alt: str

    @property
    def source(self) -> str:
        """The picture as an address within a page."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg).decode("ascii")


class Line(NamedTuple):
    """One dot with its interval: on which line, of which series, and which number."""

    label: str
    series: str
    ends: Sequence[float]


def pictures(
    study: Study,
    recalibrated: Distribution | None,
    found: dict,
    by_class: list[Number],
    raters: list[Number],
    sent: Referral,
    level: float,
) -> dict[str, list]:
    """All pictures, by what they are about; a page puts those of one list side by side."""
    options = {"groups": study.groups, "raters": "fixed", "confidence_level": level}
    drawn = {"classes": [_frequencies(by_class, study.hard)]}
    if study.n_labels.min() < study.n_labels.max():
        drawn["labels"] = [_labels_a_case(study)]
    if raters:
        usual = [n for n in found.values() if n.quantity.startswith("rater_")]
        drawn["raters"] = [_raters(raters, found, number) for number in usual]
    if study.has_pairs and not study.hard:
        drawn["loss"] = [_loss(found)]
        drawn["disagreement"] = [_disagreement(study, recalibrated, options)]
    if not study.hard:
        shown = study.shown(MOST_CLASSES)
        drawn["reliability"] = [_reliability(study, k, options) for k in shown]
        drawn["decisions"] = [_net_benefit(study, k, options) for k in study.shown(MOST_CURVES)]
        drawn["referral"] = [_referral(sent, level)]
    return drawn


def _safe(name: str) -> str:
    """A name for a picture: $ begins no formula, and all can be printed."""
    letters = (letter if letter.isprintable() else "?" for letter in name[:40])
    return "".join(letters).replace("$", r"\$")


def drawn_by(draw: Callable, size: tuple[float, float], alt: str) -> Picture:
    """A picture by ``draw(axes)``, the same bytes for the same data."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    # Letters stay text, so that a browser has them all; matplotlib need not.
    style: Any = {"svg.hashsalt": "sklearn_lhcal", "font.size": 9, "svg.fonttype": "none"}
    with mpl.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        # displays speak of samples
        for label in figure.findobj(Text):
            label.set_text(label.get_text().replace("samples", "cases"))
        svg, png = BytesIO(), BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        figure.savefig(png, format="png", dpi=_DPI, metadata={"Software": None})
    return Picture(svg.getvalue(), png.getvalue(), alt)


def _dots(lines: list[Line], xlabel: str, alt: str, at: float | None = None) -> Picture:
    """Dots with intervals, series side by side on each line; `at` marks a value."""
    labels = list(dict.fromkeys(line.label for line in lines))
    series = list(dict.fromkeys(line.series for line in lines))
    beside = len(lines) > len(labels)

    def draw(ax):
        for i, name in enumerate(series):
            own = [line for line in lines if line.series == name]
            estimate, low, high = np.transpose([line.ends for line in own])
            y = np.array([labels.index(line.label) for line in own]) + 0.1 * i * beside
            look = {"fmt": "o", "markersize": 4, "color": COLOURS[name], "label": name}
            bars = np.abs([low - estimate, high - estimate])
            ax.errorbar(estimate, y, xerr=bars, **look)
        if at is not None:
            ax.axvline(at, color="0.35", linestyle=(0, (1, 1.5)), zorder=0)
            at_top = {"xycoords": ("data", "axes fraction"), "ha": "center", "va": "bottom"}
            ax.annotate("one more rater", (at, 1), fontsize="small", **at_top)
        ax.set_yticks(range(len(labels)), [_safe(label) for label in labels])
        ax.set(xlabel=xlabel, ylim=(len(labels) - 0.5, -0.5))
        if beside:
            ax.figure.legend(fontsize="small", loc="outside lower left", ncols=len(series))

    height = _AXIS + _LINE * (len(labels) + beside)
    return drawn_by(draw, (5.2, height), alt)


def _frequencies(by_class: list[Number], hard: bool) -> Picture:
    """How often each class is named, and how probable the model finds it."""
    share = [n for n in by_class if n.quantity == "share_of_labels"]
    mean = [n for n in by_class if n.quantity == "mean_probability"]
    lines = [Line(str(n.class_name), "labels", n[2:5]) for n in share]
    lines += [Line(str(n.class_name), "model", n[2:5]) for n in mean]
    gaps = [m.estimate - s.estimate for s, m in zip(share, mean, strict=True)]
    k = int(np.abs(gaps).argmax())
    alt = said("frequencies", share=share[k], mean=mean[k], hard=hard)
    model = "share of the cases" if hard else "mean probability"
    return _dots(lines, f"Share of the labels; {model}", alt)


def _labels_a_case(study: Study) -> Picture:
    """A histogram; its bins are numbers of labels, or spans of them where these differ much."""
    n = study.n_labels
    low, high = int(n.min()), int(n.max())
    edges = np.unique(np.geomspace(low, high + 1, MOST_BARS + 1).round()) - 0.5
    numbers, _ = np.histogram(n, edges)

    def draw(ax):
        ax.stairs(numbers, edges, fill=True, color="0.5")
        ax.set(xlabel="Labels of a case", ylabel="Cases")
        if high > 20 * low:
            ax.set_xscale("log")

    alt = said("labels_a_case", low=low, high=high, median=np.median(n))
    return drawn_by(draw, (4.2, 2.6), alt)


def _raters(raters: list[Number], found: dict, usual: Number) -> Picture:
    """Each rater, and the model, by how often or how far another rater differs."""
    model = found[usual.quantity.replace("rater", "model"), "uncalibrated"]
    own = [n for n in raters if n.quantity == usual.quantity and n.part is not None]
    each = [Line(str(n.part), "labels", n.ends) for n in own]
    each = sorted((one for one in each if np.isfinite(one.ends).all()), key=lambda one: one.ends[0])
    lines = [Line("model", "model", model.ends), Line("one more rater", "labels", usual.ends)]
    # of the cases of each rater
    than = usual.quantity.replace("rater", "excess")
    n = sum(
        one.quantity == than and one.part is not None and one.estimate < -1e-12 for one in raters
    )
    alt = said("raters", usual=usual, n=n, of=len(each))
    lines += each[:MOST_RATERS]
    return _dots(lines, said("rater_axis", usual=usual), alt, at=usual.estimate)


def _reliability(study: Study, k: int, how: dict) -> Picture:
    """The reliability diagram of one class."""
    name = study.classes[k]
    look = {"color": COLOURS["uncalibrated"], "markersize": 3}
    own = {"kind": study.labels.classes[k], "n_bins": N_BINS, "line_kwargs": look, **how}

    def draw(ax):
        display = ReliabilityDisplay.from_predictions(study.labels, study.prediction, ax=ax, **own)
        display.legend_.remove()
        ax.set(title=_safe(name), xlabel="Predicted probability", ylabel="Share of the labels")

    return drawn_by(draw, (2.75, 3.1), said("reliability", name=name))


def _disagreement(study: Study, recalibrated: Distribution | None, how: dict) -> Picture:
    """Predicted against observed disagreement."""
    predictions = {"uncalibrated": study.prediction, "recalibrated": recalibrated}

    def draw(ax):
        for name, prediction in predictions.items():
            if prediction is not None:
                look = {"name": name, "line_kwargs": {"color": COLOURS[name]}}
                own = {"kind": "disagreement", "n_bins": N_BINS, **look, **how}
                ReliabilityDisplay.from_predictions(study.labels, prediction, ax=ax, **own)

    return drawn_by(draw, (4.2, 4.4), said("disagreement"))


def _referral(referral: Referral, level: float) -> Picture:
    """The share captured by the cases that are referred first, and by cases chosen at random."""

    def draw(ax):
        sent = referral.sent
        for colour, (name, points) in zip(CAPTURED, referral.captured.items(), strict=False):
            share, low, high = np.transpose([number[2:5] for number in points])
            ax.fill_between(sent, low, high, color=colour, alpha=0.2, linewidth=0)
            ax.plot(sent, share, "o-", color=colour, markersize=4, label=WORDS[name])
        dotted = {"color": "0.35", "linestyle": (0, (1, 1.5))}
        ax.plot([0, 1], [0, 1], label="chosen at random", **dotted)
        words = "Share of cases referred, most disagreement predicted first"
        ax.set(xlim=(0, 1), ylim=(0, 1.02), xlabel=words, ylabel="Share captured")
        words = f"bands: {100 * level:g}% intervals"
        ax.legend(fontsize="small", loc="lower right", title=words)

    return drawn_by(draw, (4.4, 3.6), said("referral"))


def _loss(found: dict) -> Picture:
    """The parts of the Brier score with their signs, before and after calibration."""
    lines = [
        Line(words, subset, found[(name, subset)][2:5])
        for name, words in PARTS.items()
        for subset in ("uncalibrated", "recalibrated")
        if (name, subset) in found
    ]
    largest = max(PARTS, key=lambda name: found[(name, "uncalibrated")].estimate)
    alt = said("loss", largest=PARTS[largest], numbers=found)
    return _dots(lines, "Part of the Brier score (squared probability)", alt, at=0.0)


def _net_benefit(study: Study, k: int, how: dict) -> Picture:
    """Net benefit of acting on a class, against the threshold."""
    name = study.classes[k]
    class_index = study.labels.classes[k]

    def draw(ax):
        DecisionCurveDisplay.from_predictions(
            study.labels, study.prediction, class_index=class_index, ax=ax, **how
        )
        ax.set(title=_safe(name), xlabel="Threshold probability", ylabel="Net benefit")

    return drawn_by(draw, (2.9, 2.9), said("net_benefit", name=name))
