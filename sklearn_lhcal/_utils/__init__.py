"""Utilities: pure functions that serve all subpackages, in an order without circles."""
