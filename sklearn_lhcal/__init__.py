"""Calibrated uncertainty from label histograms, as scikit-learn estimators.

Importing the package makes its scorer names usable wherever scikit-learn takes ``scoring=``.
"""

from . import metrics  # registers the names of its scorers
from ._utils.version import __version__

__all__ = ["__version__", "metrics"]
