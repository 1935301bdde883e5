"""Names of the classes of a network, as its users give them."""

from numpy.typing import NDArray

from .._ground.checks import as_names
from .._ground.names import sorted_names


def class_set(classes) -> NDArray:
    """Distinct names of classes, sorted; a name may come several times."""
    return sorted_names(list(dict.fromkeys(as_names(classes, "classes").tolist())))


def output_names(classes) -> list:
    """Names of the outputs in their order; ValueError where a name comes twice."""
    names = as_names(classes, "classes").tolist()
    if len(set(names)) < len(names):
        raise ValueError(f"classes must name each output by another name, got {names[:20]}.")
    return names
