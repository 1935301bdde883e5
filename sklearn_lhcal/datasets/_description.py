"""What is said of each data set, and small tables: files of their own, as in scikit-learn."""

from importlib.resources import files


def text_of(*path: str) -> str:
    """What a file beside this one holds."""
    return files(__package__).joinpath(*path).read_text(encoding="utf-8")


def description(name: str) -> str:
    """The text about the data set of this name."""
    return text_of("descr", f"{name}.rst")
