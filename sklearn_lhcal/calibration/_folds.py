"""Folds of calibration rows, for the stack: `CalibrationRows.dealt`."""

from ._rows import CalibrationRows

deal = CalibrationRows.dealt
