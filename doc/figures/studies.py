"""Figures of the papers' pages, drawn from the tables that they show."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
from colours import BLUE, GREEN, ORANGE, PURPLE, VERMILLION

# figures are drawn in their own folder
TABLES = Path("../papers/tables")
NUMBER = r"(-?\d+\.?\d*(?:e[+-]\d+)?)"


def lines(table: str, pattern: str) -> list[tuple[str, ...]]:
    """Groups of the pattern in each line of a table."""
    return re.findall(pattern, (TABLES / f"{table}.txt").read_text("utf-8"), re.M)


def what_alpha_changes():
    """Disagreement loss with α minus without, on mixed digits and on CIFAR-10H."""
    interval = rf" +{NUMBER} +{NUMBER} – +{NUMBER}$"
    digits = lines("method_table", r"^((?:Raw|MCDO|TTA) \w+)" + interval)
    human = lines("human_labels", r"^(none|ts|vs|ms)" + interval)
    names = {"none": "unscaled", "ts": "temperature", "vs": "vector", "ms": "matrix"}
    colors = {"Raw": BLUE, "MCDO": ORANGE, "TTA": PURPLE}
    _, axes = plt.subplots(1, 2, figsize=(10, 4.6), sharex=True)
    for i, (method, *ends) in enumerate(digits):
        predictor, _ = method.split()
        # the table of two labels comes first, then that of five
        draw(axes[0], i % 12 + 0.3 * (i // 12), ends, colors[predictor], filled=i < 12)
    for i, (_, *ends) in enumerate(human):
        draw(axes[1], i, ends, BLUE)
    axes[0].plot([], [], "o", color="0.35", label="2 labels per calibration sample")
    axes[0].plot([], [], "o", color="0.35", markerfacecolor="white", label="5 labels")
    axes[0].figure.legend(loc="outside lower center", ncols=2, fontsize="small")
    of_digits = [method.split() for method, *_ in digits[:12]]
    axes[0].set_yticks(range(12), [f"{of}, {names[scaling]}" for of, scaling in of_digits])
    axes[1].set_yticks(range(4), [names[scaling] for scaling, *_ in human])
    for ax, title in zip(axes, ("Mixed digits", "Human labels (CIFAR-10H)"), strict=True):
        ax.axvline(0, color="0.35", linestyle=(0, (1, 1.5)))
        ax.invert_yaxis()
        ax.set(title=title, xlabel="Change of the disagreement loss L_φ by α")


def draw(ax, at, ends, color, filled=True):
    """A point and its interval, of three numbers."""
    estimate, low, high = map(float, ends)
    face = color if filled else "white"
    ax.hlines(at, low, high, color=color, zorder=1)
    ax.plot(estimate, at, "o", color=color, markerfacecolor=face, markersize=5)


def calibration_of_epistemic_uncertainty():
    """Calibration errors of entropy and mutual information, before and after calibration."""
    half = rf"{NUMBER} ± {NUMBER}"
    pattern = rf"^(.+?)  +(mutual_information|entropy) +{half} +{half} +{half} +{NUMBER}$"
    ax = plt.subplots(figsize=(7, 4))[1]
    found = lines("epistemic_toy", pattern)
    names = []
    for i, (scenario, measure, _, _, *errors, noise) in enumerate(found):
        before, of_before, after, of_after = map(float, errors)
        at = i + 0.5 * (i // 2)
        ax.errorbar(before, at - 0.12, xerr=of_before, fmt="s", color=BLUE, capsize=2)
        ax.errorbar(after, at + 0.12, xerr=of_after, fmt="o", color=GREEN, capsize=2)
        ax.plot(float(noise), at, "|", color="0.35", markersize=16)
        where = scenario.partition(": ")[2] or scenario
        names.append((at, f"{measure.replace('_', ' ')}\n{where}"))
    ax.set_yticks(*zip(*names, strict=True), fontsize="small")
    ax.invert_yaxis()
    for marker, color, name in (
        ("s", BLUE, "uncalibrated"),
        ("o", GREEN, "calibrated"),
        ("|", "0.35", "noise alone"),
    ):
        ax.plot([], [], marker, color=color, label=name)
    (seeds,) = lines("epistemic_toy", r"first of (\d+) seeds")
    xlabel = f"Calibration error EECE (probability), 95% intervals over {seeds} seeds"
    ax.set(xscale="log", xlabel=xlabel)
    ticks = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.figure.legend(loc="outside lower center", ncols=3, fontsize="small")


def criteria():
    """Mean cost by calibration method and criterion, where the criterion knows the costs."""
    cell = rf" +{NUMBER} ± {NUMBER}"
    found = lines("paper_table", r"^(temperature|bias_corrected|vector|stacked)" + cell * 7 + "$")
    # columns: nll, and three criteria each with generic costs and with those of the task
    looks = {
        "log loss": (0, BLUE, "o"),
        "ECE of the top label": (2, ORANGE, "s"),
        "direct loss": (4, GREEN, "^"),
        "margin rescaling": (6, VERMILLION, "D"),
    }
    _, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
    ticks = [[2, 3, 5, 10, 20], [0.3, 0.4, 0.5, 0.6]]
    for ax, rows, title, at in zip(
        axes, (found[:4], found[4:]), ("Mushrooms", "Text"), ticks, strict=True
    ):
        for j, (name, (column, color, marker)) in enumerate(looks.items()):
            for i, (_, *values) in enumerate(rows):
                mean, reach = map(float, values[2 * column : 2 * column + 2])
                label = name if i == 0 else None
                ax.errorbar(
                    mean,
                    i + 0.15 * (j - 1.5),
                    xerr=reach,
                    fmt=marker,
                    color=color,
                    capsize=2,
                    label=label,
                )
        ax.set(
            title=title, xscale="log", xlabel="Mean cost per sample, 95% intervals over 20 splits"
        )
        ax.set_xticks(at, [f"{tick:g}" for tick in at])
        ax.minorticks_off()
    axes[0].set_yticks(range(4), ["temperature", "with biases", "vector", "stacked"])
    axes[0].invert_yaxis()
    axes[0].figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
