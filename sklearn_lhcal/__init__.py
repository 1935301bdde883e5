"""Calibrated uncertainty from label histograms, as scikit-learn estimators.

Importing the package makes its scorer names usable wherever scikit-learn takes ``scoring=``.
"""

from .metrics._scorers import register_scorers as _register_scorers

__version__ = "0.1.0"

_register_scorers()
