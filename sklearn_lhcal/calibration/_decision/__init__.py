"""Calibration for decisions under a known cost matrix: losses, the choice, the estimator."""


class DecisionCalibrationWarning(UserWarning):
    """The calibration samples cannot tell whether calibrating for decisions pays.

    See `DecisionCalibration`.

    Examples
    --------
    >>> import warnings
    >>> # where nothing may be left in doubt
    >>> warnings.simplefilter("error", DecisionCalibrationWarning)
    >>> warnings.simplefilter("default", DecisionCalibrationWarning)
    """
