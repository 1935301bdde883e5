"""Data for the three ways in: what people have on their disks."""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from sklearn_lhcal.datasets import make_label_histograms, make_rater_study

# where examples write
FOLDER = Path(os.path.relpath(Path(sys.argv[0]).parent), "output")
FOLDER.mkdir(exist_ok=True)


def imaging_files() -> Path:
    """The folder of annotations.csv, a label per line, and softmax.csv, an image per line."""
    study = make_rater_study(1500, 6, design="partial", overconfidence=2.0, random_state=0)
    findings = np.array(["benign", "malignant", "unclear"])
    images = pd.Index([f"image {i:04}" for i in range(1500)], name="image")
    annotations = {
        "image": images[study.y.row],
        "reader": study.y.rater,
        "finding": findings[study.y.label],
    }
    pd.DataFrame(annotations).to_csv(FOLDER / "annotations.csv", index=False)
    pd.DataFrame(study.prediction, images, findings).to_csv(FOLDER / "softmax.csv")
    return FOLDER


def toxic_texts() -> tuple[np.ndarray, np.ndarray]:
    """Counts (texts, 2) of five raters, and probabilities (seeds, texts, 2) of three seeds."""
    rng = np.random.default_rng(0)
    data = make_label_histograms(2000, n_classes=2, n_raters=5, overconfidence=2.0, random_state=0)
    logits = np.log(data.prediction) + rng.normal(scale=0.7, size=(3, 2000, 2))
    return data.counts, np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
