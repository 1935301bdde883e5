"""Calibration for decisions under a known cost matrix: losses, the choice, the estimator."""
