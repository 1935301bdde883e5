"""The density of predictions on the simplex by Dirichlet kernels, at three bandwidths."""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import dirichlet

from sklearn_lhcal.metrics import loo_bandwidth

rng = np.random.default_rng(0)
sharpened = rng.dirichlet(np.ones(3), 300) ** (1 / 0.6)
z = sharpened / sharpened.sum(axis=1, keepdims=True)
likely = loo_bandwidth(z)

steps = 60
i, j = np.meshgrid(np.arange(steps + 1), np.arange(steps + 1))
below = (i + j <= steps).ravel()
grid = np.stack([i.ravel()[below], j.ravel()[below]], axis=1) + 1 / 3
grid = np.column_stack([grid, steps + 1 - grid.sum(axis=1)]) / (steps + 1)  # within the simplex
corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])

_, axes = plt.subplots(1, 3, figsize=(7.5, 2.6))
for ax, h in zip(axes, (likely / 5, likely, 5 * likely), strict=True):
    # k(x, z_i) = Dir(x | z_i/h + 1), Eq. (10)
    density = np.mean([dirichlet.pdf(grid.T, row / h + 1) for row in z], axis=0)
    # the peaks of narrow kernels would leave nothing to see of the rest
    top = np.quantile(density, 0.95)
    shown = ax.tripcolor(
        *(grid @ corners).T, density, vmin=0, vmax=top, shading="gouraud", cmap="Blues"
    )
    ax.plot(*(z @ corners).T, ".", color="black", markersize=1)
    ax.fill(*corners.T, fill=False, edgecolor="0.4")
    ax.set_title(f"Bandwidth {h:.2g}", fontsize=10)
    ax.set_aspect("equal")
    ax.axis("off")
    plt.colorbar(shown, ax=ax, shrink=0.8, extend="max", label="Density")
