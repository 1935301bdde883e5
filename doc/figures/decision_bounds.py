"""Bounds of the cost of a decision, for each probability of the first of two classes."""

import matplotlib.pyplot as plt
import numpy as np
import torch

from sklearn_lhcal.neural_network import DirectLoss, MarginRescalingLoss

COSTS = np.array([[0.0, 4.0], [1.0, 0.0]])  # wrong about the first class: 4; about the second: 1
first = np.linspace(0.001, 0.999, 999)
logits = torch.log(torch.as_tensor(np.stack([first, 1 - first], axis=1)))
# the looser, the wider: lines that lie on each other are seen
bounds = {
    "margin rescaling": (MarginRescalingLoss(COSTS), "#E69F00", 8),
    "direct loss, from above": (DirectLoss(COSTS), "#56B4E9", 5),
    "direct loss, from below": (DirectLoss(COSTS, bound="lower"), "#009E73", 5),
}

_, axes = plt.subplots(1, 2, figsize=(7.5, 3.4), layout="constrained", sharey=True)
for label, ax in enumerate(axes):
    title = f"The class is the {('first', 'second')[label]}"
    counts = torch.zeros(len(first), 2, dtype=torch.float64)
    counts[:, label] = 1
    decision = (np.stack([first, 1 - first], axis=1) @ COSTS).argmin(axis=1)
    for name, (loss, color, width) in bounds.items():
        value = COSTS.max() * loss.row_loss(logits, counts)
        ax.plot(first, value, color=color, linewidth=width, label=name)
    ax.plot(first, COSTS[label, decision], color="black", linewidth=1.5, label="cost")
    ax.axvline(0.2, color="0.8", linewidth=1, zorder=0)
    ax.set(xlabel="Probability of the first class", title=title)
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("Cost, λ = 1")
axes[1].legend(frameon=False)
