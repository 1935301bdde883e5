"""The network of the studies on digits, defined once."""

import torch
from torch import nn


def small_network(
    widths=(32, 64, 128), n_outputs=10, dropout=0.5, dtype=torch.float32
) -> nn.Module:
    """Three convolutions on 8 x 8 pixels, then an average over the image."""
    first, second, third = widths
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, first, 3, padding=1, dtype=dtype),
        nn.ReLU(),
        nn.Conv2d(first, second, 3, padding=1, dtype=dtype),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(second, third, 3, padding=1, dtype=dtype),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(third, n_outputs, dtype=dtype),
    )
