"""All parts of the expected squared loss at once (P1 §3), on one sample set.

Letters as in `_label_histogram`.
"""

from typing import NamedTuple

import numpy as np

from .._rows import PredictionLike
from .._utils.distances import Distance
from .._utils.results import result
from .._utils.tags import LossOverBins, metric
from .._utils.types import BinsLike, Floats, Groups, LabelsLike, Strategy, Weights
from ._binned import BinSums, Correction
from ._calibration import class_bins
from ._evaluate import score
from ._label_histogram import least_raters


@result
class LossDecomposition(NamedTuple):
    """Parts of the expected squared loss, all on one sample set: ``L = EL + IL``, ``EL = CL + DL``.

    These are P1 eq. 6, with DL in place of ERL, which bins do not show; ``L = CL + RL`` is eq. 5.
    The equalities hold in total, per class, and for EL, CL, DL per bin. K classes, B bins.

    Attributes
    ----------
    expected_squared_loss, epistemic_loss, irreducible_loss : float
    calibration_loss, dispersion_loss : float
        The totals, summed over classes.
    class_expected_squared_loss, class_epistemic_loss : ndarray of shape (n_classes,)
    class_irreducible_loss : ndarray of shape (n_classes,)
        Their parts by class.
    class_calibration_loss, class_dispersion_loss : ndarray of shape (n_classes,)
        Likewise.
    bin_epistemic_loss, bin_calibration_loss : ndarray of shape (n_classes, n_bins)
    bin_dispersion_loss : ndarray of shape (n_classes, n_bins)
        Their parts by class and bin.
    bin_weight : ndarray of shape (n_classes, n_bins)
        Share of the weight in each bin; sums to 1 over bins.
    bin_mean_proba, bin_mean_frequency : ndarray of shape (n_classes, n_bins)
        Mean prediction and mean label frequency; NaN in empty bins.
    bin_edges : ndarray of shape (n_classes, n_bins + 1)
        Edges; NaN where merged quantiles left fewer.
    n_rows : int
        How many samples were used.
    dropped_weight : float
        Share of the weight, mean over classes, in bins that cannot be corrected. They contribute 0
        to the calibration loss. Such bins hold one sample, one group or, with `Annotations`, one
        rater only. 0 for plugins.
    """

    expected_squared_loss: float
    epistemic_loss: float
    irreducible_loss: float
    calibration_loss: float
    dispersion_loss: float
    class_expected_squared_loss: Floats
    class_epistemic_loss: Floats
    class_irreducible_loss: Floats
    class_calibration_loss: Floats
    class_dispersion_loss: Floats
    bin_epistemic_loss: Floats
    bin_calibration_loss: Floats
    bin_dispersion_loss: Floats
    bin_weight: Floats
    bin_mean_proba: Floats
    bin_mean_frequency: Floats
    bin_edges: Floats
    n_rows: int
    dropped_weight: float

    @property
    def refinement_loss(self) -> float:
        """What calibration leaves of the loss: ``RL = L − CL = DL + IL`` (P1 eq. 5)."""
        return self.expected_squared_loss - self.calibration_loss


# of no samples
NOTHING = LossDecomposition._make([*[np.nan] * 5, *[np.empty(0)] * 12, 0, np.nan])


def _decomposed(sums: BinSums, **options) -> LossDecomposition:
    """All parts, from sums over bins."""
    el = sums.epistemic_loss()
    cl = sums.calibration_loss()
    by_class = (
        sums.expected_squared_loss(),
        el.sum(axis=1),
        sums.irreducible_loss(),
        cl.sum(axis=1),
        (el - cl).sum(axis=1),
    )
    totals = (float(part.sum()) for part in by_class)
    weight = sums.w / sums.w[0].sum()
    bins = (el, cl, el - cl, weight, *sums.means(), sums.bins.edges)
    return LossDecomposition._make((*totals, *by_class, *bins, sums.n_rows, sums.dropped_weight()))


def _tags(*, bias_correction, **others) -> LossOverBins:
    return LossOverBins(
        least_raters=least_raters(bias_correction), binned=class_bins, of_sums=_decomposed
    )


@metric(_tags)
def loss_decomposition(
    y: LabelsLike,
    prediction: PredictionLike,
    *,
    sample_weight: Weights = None,
    groups: Groups = None,
    n_bins: BinsLike = 15,
    strategy: Strategy = "uniform",
    bias_correction: Correction = "residual",
    distance: Distance = None,
) -> LossDecomposition:
    """All parts of the expected squared loss at once: ``L = EL + IL`` and ``EL = CL + DL`` (P1 §3).

    Parameters
    ----------
    y, prediction, sample_weight, groups, n_bins, strategy, bias_correction, distance
        As in `calibration_loss`. All corrected parts use the samples with two raters or more;
        plugins use all samples. Groups change CL and DL only, as the other parts are means over
        samples. With a distance, parts by class are by coordinate: for "linear" by step.

    Returns
    -------
    LossDecomposition
        Totals, class parts, bin parts, and the number of samples used. All losses are better when
        smaller.

    Examples
    --------
    >>> parts = loss_decomposition([[3, 1], [4, 0], [1, 3]], [[0.7, 0.3], [0.8, 0.2], [0.3, 0.7]])
    >>> round(parts.expected_squared_loss - parts.epistemic_loss - parts.irreducible_loss, 12)
    0.0
    >>> parts.n_rows
    3
    """
    found = score(loss_decomposition, **locals())
    return found if isinstance(found, LossDecomposition) else NOTHING
