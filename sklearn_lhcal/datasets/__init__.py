"""Data sets with several labels per sample: real, semi-synthetic, and made to measure."""

from ._dices import fetch_dices
from ._made import make_label_histograms, make_random_checkerboard
from ._mixed import load_mixed_digits, make_mixed_images
from ._published_images import fetch_cifar10h, fetch_dermamnist
from ._rater_study import make_rater_study
from ._ratings import load_anesthesia_ratings, load_psychiatric_diagnoses, load_viper_readings

__all__ = [
    "fetch_cifar10h",
    "fetch_dermamnist",
    "fetch_dices",
    "load_anesthesia_ratings",
    "load_mixed_digits",
    "load_psychiatric_diagnoses",
    "load_viper_readings",
    "make_label_histograms",
    "make_mixed_images",
    "make_random_checkerboard",
    "make_rater_study",
]
