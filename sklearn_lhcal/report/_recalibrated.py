"""What calibration would change: predictions for samples that the calibrator did not see."""

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils import check_random_state

from ..calibration import AlphaCalibration, TemperatureScaling
from ..distributions import Distribution
from ._study import Study

# Below so many cases or patients a calibrator learns little but noise.
LEAST_UNITS = 40
FOLDS = 5
# One or two numbers are learnt: more samples change their third digit.
MOST_ROWS = 100_000


class Recalibrated(NamedTuple):
    """The prediction after calibration; None, and the reason, where that was not possible."""

    prediction: Distribution | None
    reason: str
    messages: list[str]


def recalibrate(study: Study, random_state) -> Recalibrated:
    """Temperature scaling, and α-calibration where samples have two labels, out of fold."""
    if study.n_groups < LEAST_UNITS:
        reason = f"there are {study.n_groups} cases or patients, fewer than {LEAST_UNITS}"
        return Recalibrated(None, reason, [])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            prediction = _out_of_fold(study, check_random_state(random_state))
        except ValueError as error:
            return Recalibrated(None, str(error), [])
    return Recalibrated(prediction, "", [str(warning.message) for warning in caught])


def _out_of_fold(study: Study, rng: np.random.RandomState) -> Distribution:
    folds = KFold if study.groups is None else GroupKFold
    splitter = folds(FOLDS, shuffle=True, random_state=rng)
    parts, tested = [], []
    for train, test in splitter.split(study.z, groups=study.groups):
        if len(train) > MOST_ROWS:
            train = rng.choice(train, MOST_ROWS, replace=False)
        fitted = _calibrator(study).fit(study.z[train], study.labels.counts[train])
        parts.append(fitted.predict_dist(study.z[test]))
        tested.append(test)
    prediction = Distribution.concatenate(parts)[np.argsort(np.concatenate(tested))]
    return prediction.with_classes(study.prediction.classes)


def _calibrator(study: Study):
    scaling = TemperatureScaling("proba")
    return AlphaCalibration(scaling) if study.has_pairs else scaling


def prints_zeros(study: Study) -> bool:
    """Whether a class that someone voted for was given probability 0."""
    return bool((study.labels.counts[study.z <= 0] > 0).any())
