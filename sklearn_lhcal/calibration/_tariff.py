"""What decisions cost that may be referred: one matrix, or a callable that makes costs of rows."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._ground.arrays import Floats, Indices
from .._ground.costs import check_cost_matrix
from .._ground.types import Samples

# What the decision of referral is called where decisions have names and it is none of them.
_REFER = "refer"


class Priced(NamedTuple):
    """Costs with one decision for referral.

    Attributes
    ----------
    C : ndarray of shape (K, D), or (n, K, D) for costs of each row
        With the column of referral, the last where the user's matrix has none.
    decisions : ndarray of shape (D,)
        Names of the columns, or their numbers.
    column : int
        Of referral.
    """

    C: Floats
    decisions: NDArray
    column: int

    @property
    def referral(self) -> float:
        """c, what a referral costs."""
        return float(self.C[..., self.column].flat[0])

    @property
    def own(self) -> Indices:
        """Columns of the decisions that the machine takes itself."""
        return np.delete(np.arange(self.C.shape[-1]), self.column)


class Tariff(NamedTuple):
    """Where costs come from: one matrix, or a callable of X.

    Attributes
    ----------
    given : array-like, frame or callable
        As the user gave it.
    referral : int, str or None
        The column of referral; None where it is free and none of the user's.
    classes : ndarray of shape (K,)
        The order of the rows of C.
    """

    given: Any
    referral: int | str | None
    classes: NDArray

    def of_rows(self, X: Samples, n: int) -> Priced:
        """The costs of n rows, of which a callable may say others for each."""
        if not callable(self.given):
            if np.ndim(self.given) == 3:
                raise ValueError(
                    "cost_matrix must have shape (n_classes, n_decisions) here, one for all rows, "
                    f"got {np.shape(self.given)}; costs of each row come from a callable of X."
                )
            return self._priced(check_cost_matrix(self.given))
        costs = check_cost_matrix(self.given(X), a_row=True)
        costs.check_rows(n)
        return self._priced(costs)

    def _priced(self, costs) -> Priced:
        """In the order of the classes, with a column of referral."""
        C, _, names = costs.for_classes(self.classes, len(self.classes), "the classifier")
        if self.referral is None and names is not None and _REFER in names.tolist():
            raise ValueError(
                f"cost_matrix has a decision {_REFER!r}, the name of a free referral: pass "
                f'referral="{_REFER}" where it is this one, or call it something else.'
            )
        if self.referral is None:
            C = np.concatenate([C, np.zeros((*C.shape[:-1], 1))], axis=-1)
            if names is not None:
                names = np.array([*names.tolist(), _REFER], dtype=object)
            column = C.shape[-1] - 1
        else:
            (column,) = costs.columns([self.referral])
        c = C[..., column]
        if np.ptp(c) > 0:
            raise ValueError(
                f"The referral, decision {self.referral!r}, must cost the same under all classes "
                f"and in all rows, got {np.unique(c)[:20].tolist()}."
            )
        if C.shape[-1] < 2:
            raise ValueError("cost_matrix must have a decision beside the referral.")
        if names is None:
            names = np.arange(C.shape[-1])
        return Priced(C, names, int(column))
