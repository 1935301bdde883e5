"""The names of the scorers in ``scoring=``: the one place that knows scikit-learn's registry."""

import sys
import warnings
from collections.abc import Callable
from types import FunctionType

from ._scorers import SCORERS, scorers_of

# Marks an option set that lists scorer names.
_SENTINELS = {"accuracy", "neg_log_loss", "r2"}


def register_scorers(*metrics: Callable) -> None:
    """Name scorers of these metrics, and make all names known to scikit-learn's ``scoring=``.

    Things may have been imported in any order. Scikit-learn has no public registry: where its
    private one is gone, this warns, and scorer objects still work.
    """
    SCORERS.update(scorers_of(metrics))
    try:
        from sklearn.metrics import _scorer
        from sklearn.utils._param_validation import StrOptions

        registry = _scorer._SCORERS
        # a name that scikit-learn has too stays its own
        own = {}
        for name, scorer in SCORERS.items():
            module = type(registry.get(name)).__module__
            if not module.startswith("sklearn."):
                own[name] = scorer
        registry.update(own)
        for constraints in _option_lists():
            for option in constraints:
                if type(option) is StrOptions and set(option.options) >= _SENTINELS:
                    option.options = set(option.options) | set(own)
    except (ImportError, AttributeError) as error:
        warnings.warn(
            f"sklearn_lhcal could not register its scorer strings ({error}); pass the scorer "
            "objects of sklearn_lhcal.metrics.get_scorer as scoring= instead.",
            RuntimeWarning,
            stacklevel=2,
        )


def _option_lists():
    """Every list of parameter options that scikit-learn's modules have frozen so far."""
    for name, module in list(sys.modules.items()):
        if module is None or name.partition(".")[0] != "sklearn":
            continue
        for thing in list(vars(module).values()):
            if isinstance(thing, (type, FunctionType)):
                for attribute in ("_parameter_constraints", "_skl_parameter_constraints"):
                    constraints = getattr(thing, attribute, None)
                    if isinstance(constraints, dict):
                        yield from (c for c in constraints.values() if isinstance(c, (list, tuple)))
