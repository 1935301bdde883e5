"""What arguments and results may be, for signatures: arrays by what they hold, too."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray as NDArray

from .arrays import Floats as Floats
from .arrays import Indices as Indices
from .arrays import Integers as Integers
from .arrays import Mask as Mask

if TYPE_CHECKING:
    from numpy.typing import ArrayLike as ArrayLike
else:

    class ArrayLike:
        """What NumPy reads as an array. In full its type would fill the page of a signature."""

        __module__ = "numpy.typing"


# X is opaque: an array, a frame, a sparse matrix, a tensor, a list or a dict of these
Samples = Any

Seed = int | np.random.RandomState | None

# of samples, one each: weights, and the names of what they belong to; None stands for none
Weights = ArrayLike | None
Groups = ArrayLike | None

# whether intervals hold for new raters or for these; None: for new ones where raters are known
Raters = Literal["random", "fixed"] | None

# costs (K, D), or one per sample (n, K, D), or what returns them for X
CostsOfRows = ArrayLike | Callable[[Samples], ArrayLike]

# ``metric(y, prediction, **options)``
MetricFunction = Callable[..., float]

# whether, and how often, progress is shown
Verbose = int | bool

# samples of a container
Selection = slice | NDArray | list[int]


@runtime_checkable
class Sparse(Protocol):
    """A sparse matrix, which is no array by itself."""

    def toarray(self) -> NDArray:
        """All its entries."""


# what `check_counts` takes; labels, counts, frames and containers of them are array-like
LabelsLike = ArrayLike | Sparse


class Estimator(Protocol):
    """What scikit-learn, skorch and this package call an estimator; scikit-learn has no types."""

    def fit(self, X: Samples, y):
        """Fit it."""

    def predict(self, X: Samples):
        """The most probable classes."""


@runtime_checkable
class Splitter(Protocol):
    """What splits samples into folds."""

    def split(self, X: Samples, y=None, groups=None) -> Iterator:
        """Indices (train, test) of each fold."""


# what ``cv=`` may be
Folds = int | Splitter | Iterable[tuple[ArrayLike, ArrayLike]] | None


# how many bins or which, how they are cut, what of a prediction is compared, by which kernels
BinsLike = int | ArrayLike
Strategy = Literal["uniform", "quantile"]
KernelKind = Literal["canonical", "marginal", "top_label"]
Bandwidth = float | Literal["loo", "cv"]
