"""Tables with one column a finding, and what is said of some findings."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .checks import as_floats, errors_of, warn
from .names import Side, column_names, matched
from .types import ArrayLike, Floats


def finding_table(findings: Side, table: ArrayLike, name: str) -> Floats:
    """A table of one column a finding, in their order: by name where it has names."""
    numbers = as_floats(table, name)
    if numbers.ndim != 2 or 0 in numbers.shape:
        raise ValueError(
            f"{name} must have shape (n_samples, n_findings), not empty, got {numbers.shape}."
        )
    other = Side(name, column_names(table, name), numbers.shape[1], name)
    return numbers[:, matched(findings, other)[1]]


@contextmanager
def about_finding(name: Any, heard: dict) -> Iterator[None]:
    """Errors say which finding they are about; `heard` gathers warnings, to be said at the end."""
    heard_now = warnings.catch_warnings(record=True, action="always")
    with heard_now as caught, errors_of(f"Finding {name!r}"):
        yield
    for warning in caught:
        heard.setdefault((warning.category, str(warning.message)), {})[str(name)] = None


def warn_of_findings(heard: dict) -> None:
    """Each warning once, with the findings that it is about."""
    for (category, message), names in heard.items():
        warn(f"Finding {', '.join(names)}: {message}", category)
