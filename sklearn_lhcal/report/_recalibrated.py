"""What calibration would change: predictions for samples that the calibrator did not see."""

import re
import warnings
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils import check_random_state

from .._utils.progress import Progress
from ..calibration import AlphaCalibration, TemperatureScaling
from ..distributions import Dirichlet, Distribution, PointMass
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


def recalibrate(study: Study, random_state, verbose: bool) -> Recalibrated:
    """Temperature scaling, and α-calibration where samples have two labels, out of fold."""
    if study.n_groups < LEAST_UNITS:
        reason = f"there are {study.n_groups} cases or patients, fewer than {LEAST_UNITS}"
        return Recalibrated(None, reason, [])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            prediction = _out_of_fold(study, check_random_state(random_state), verbose)
        except ValueError as error:
            return Recalibrated(None, str(error), [])
    return Recalibrated(prediction, "", [str(warning.message) for warning in caught])


def said_once(messages: list[str]) -> list[str]:
    """The first of those that differ in their numbers only, as those of the folds do."""
    first: dict[str, str] = {}
    for message in messages:
        first.setdefault(re.sub(r"\d+(\.\d+)?", "#", message), message)
    return sorted(first.values())


def _out_of_fold(study: Study, rng: np.random.RandomState, verbose: bool) -> Distribution:
    splitter = KFold(FOLDS, shuffle=True, random_state=rng)
    if study.groups is not None:
        splitter = GroupKFold(FOLDS, shuffle=True, random_state=rng)
    z = np.empty_like(study.z)
    total = np.full(len(study), np.inf)
    splits = splitter.split(study.z, groups=study.groups)
    for train, test in Progress(splits, desc="calibration", total=FOLDS, disable=not verbose):
        if len(train) > MOST_ROWS:
            train = rng.choice(train, MOST_ROWS, replace=False)
        fitted = _calibrator(study).fit(study.z[train], study.labels.counts[train])
        prediction = fitted.predict_dist(study.z[test])
        z[test] = prediction.mean()
        if isinstance(prediction, Dirichlet):
            total[test] = prediction.total
    if np.isfinite(total).all():
        prediction = Dirichlet.from_mean(z, total)
    else:
        prediction = PointMass(z)
    return prediction.with_classes(study.prediction.classes)


def _calibrator(study: Study):
    scaling = TemperatureScaling("proba")
    if prints_zeros(study):
        scaling.set_params(floor="uniform")
    return AlphaCalibration(scaling) if study.has_pairs else scaling


def prints_zeros(study: Study) -> bool:
    """Whether a class that someone voted for was given probability 0."""
    return bool((study.labels.counts[study.z <= 0] > 0).any())
