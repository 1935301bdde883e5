"""The pictures of a report, as SVG."""

import warnings
from collections.abc import Callable
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

from ..display import DisagreementReliabilityDisplay, ReliabilityDisplay
from ..distributions import Distribution
from ..metrics import loss_decomposition
from ._referral import Referral
from ._study import Study

# Okabe and Ito's colours, one a prediction, and one a part of the loss.
COLOURS = {"as given": "#0072B2", "recalibrated": "#009E73"}
PARTS = {"IL": "#999999", "CL": "#D55E00", "DL": "#56B4E9"}
MOST_CLASSES = 6
N_BINS = 10


class Picture(NamedTuple):
    """One picture: its SVG, what it shows in words, and the numbers that it is drawn from."""

    svg: bytes
    alt: str
    curves: dict


def pictures(
    study: Study, recalibrated: Distribution | None, referral: Referral, level: float
) -> dict[str, list]:
    """All pictures, by what they are about; a page puts those of one list side by side."""
    predictions = {"as given": study.prediction}
    if recalibrated is not None:
        predictions["recalibrated"] = recalibrated
    drawn = {"labels": [_labels_a_row(study)]}
    names = _safe_names(study)
    drawn["reliability"] = [
        _reliability(study, k, names[k], level) for k in study.shown(MOST_CLASSES)
    ]
    if study.has_pairs:
        drawn["loss"] = [_loss(study, predictions)]
        drawn["disagreement"] = [_disagreement(study, predictions, level)]
    drawn["referral"] = [_referral(referral, level)]
    return drawn


def _safe_names(study: Study) -> list[str]:
    """Names of classes for a picture: $ begins no formula, and all can be printed."""
    return [_printable(name[:40]).replace("$", r"\$") for name in study.classes]


def _printable(name: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def _draw(draw: Callable, size: tuple[float, float], alt: str) -> Picture:
    """A picture by ``draw(figure) -> curves``, the same bytes for the same data."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Letters stay text, so that a browser has them all; matplotlib need not.
    style: Any = {"svg.hashsalt": "sklearn_lhcal", "font.size": 9, "svg.fonttype": "none"}
    with mpl.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = Figure(figsize=size, layout="constrained")
        curves = draw(figure)
        file = BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return Picture(file.getvalue(), alt, curves)


def _labels_a_row(study: Study) -> Picture:
    numbers = np.bincount(study.n_labels)

    def draw(figure):
        ax = figure.subplots()
        ax.bar(np.arange(len(numbers)), numbers, color="0.5")
        ax.set(xlabel="Labels of a row", ylabel="Rows")
        ax.xaxis.get_major_locator().set_params(integer=True)
        return {"rows": numbers.tolist()}

    return _draw(draw, (4.2, 2.6), "How many rows have how many labels.")


def _reliability(study: Study, k: int, name: str, level: float) -> Picture:
    """The reliability diagram of one class."""

    def draw(figure):
        ax = figure.subplots()
        display = ReliabilityDisplay.from_predictions(
            study.labels,
            study.prediction,
            class_index=study.labels.classes[k],
            n_bins=N_BINS,
            groups=study.groups,
            raters=study.raters,
            confidence_level=level,
            ax=ax,
            line_kwargs={"color": COLOURS["as given"], "markersize": 3},
        )
        display.legend_.remove()
        ax.set(title=name, xlabel="Predicted probability", ylabel="Observed frequency")
        return {study.classes[k]: _curve(display)}

    return _draw(draw, (2.75, 3.1), f"Reliability diagram of class {study.classes[k]}.")


def _disagreement(study: Study, predictions: dict, level: float) -> Picture:
    def draw(figure):
        ax = figure.subplots()
        return {
            name: _curve(
                DisagreementReliabilityDisplay.from_predictions(
                    study.labels,
                    prediction,
                    name=name,
                    n_bins=N_BINS,
                    groups=study.groups,
                    raters=study.raters_of_pairs,
                    confidence_level=level,
                    ax=ax,
                    line_kwargs={"color": COLOURS[name]},
                )
            )
            for name, prediction in predictions.items()
        }

    alt = "Predicted against observed probability that two raters disagree."
    return _draw(draw, (4.8, 5.0), alt)


def _referral(referral: Referral, level: float) -> Picture:
    """What the rows hold that are sent first, and what rows sent at random would."""
    look = {
        "irreducible_loss": ("disagreement between raters", "#CC79A7", "o"),
        "expected_squared_loss": ("squared loss of the model", "#E69F00", "s"),
    }

    def draw(figure):
        ax = figure.subplots()
        sent = np.array(referral.sent)
        for name, points in referral.held.items():
            words, colour, marker = look[name]
            share = np.array([number.estimate for number in points])
            low, high = np.transpose([(number.low, number.high) for number in points])
            ax.fill_between(sent, low, high, color=colour, alpha=0.2, linewidth=0)
            ax.plot(sent, share, color=colour, marker=marker, markersize=4, label=words)
        ax.plot([0, 1], [0, 1], color="0.35", linestyle=(0, (1, 1.5)), label="sent at random")
        ax.set(xlim=(0, 1), ylim=(0, 1.02))
        ax.set(xlabel="Share of the rows sent, least sure first", ylabel="Share that they hold")
        ax.legend(fontsize="small", loc="lower right", title=f"bands: {100 * level:g} % intervals")
        return referral.curves

    alt = "Share of the disagreement and of the loss in the rows of which the model is least sure."
    return _draw(draw, (4.8, 4.0), alt)


def _curve(display) -> dict:
    """What a reliability display shows, as lists."""
    return {
        "predicted": display.mean_predicted.tolist(),
        "observed": display.mean_observed.tolist(),
        "interval": display.interval.tolist(),
        "rows": display.bin_counts.tolist(),
    }


def _loss(study: Study, predictions: dict) -> Picture:
    """A bar for each prediction: L = IL + CL + DL."""
    parts = {
        name: loss_decomposition(study.labels, prediction, groups=study.groups)
        for name, prediction in predictions.items()
    }
    sizes = {
        name: {
            "IL": p.irreducible_loss,
            "CL": p.calibration_loss,
            "DL": p.dispersion_loss,
        }
        for name, p in parts.items()
    }

    def draw(figure):
        ax = figure.subplots()
        labels = {
            "IL": "IL: raters disagree with each other",
            "CL": "CL: calibration would remove it",
            "DL": "DL: more data or a better model would",
        }
        for name, size in sizes.items():
            left = 0.0
            for part, value in size.items():
                # a corrected part may be a little below 0
                width = max(value, 0.0)
                ax.barh(name, width, left=left, color=PARTS[part], label=labels.pop(part, None))
                left += width
        ax.invert_yaxis()
        ax.set_xlabel("Expected squared loss, L = IL + CL + DL")
        figure.legend(fontsize="small", loc="outside lower left")
        return sizes

    return _draw(draw, (4.8, 1.6 + 0.45 * len(sizes)), "The parts of the squared loss as bars.")
