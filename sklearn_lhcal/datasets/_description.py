"""What is said of each data set: a file of its own, as in scikit-learn."""

from importlib.resources import files


def description(name: str) -> str:
    """The text about the data set of this name."""
    return files(__package__).joinpath("descr", f"{name}.rst").read_text(encoding="utf-8")
