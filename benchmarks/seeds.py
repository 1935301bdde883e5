"""Several seeds of one network: calibrate their mixture, or average first?

    python benchmarks/seeds.py

For each of three public data sets and ten splits (two fifths of the rows train, one fifth
calibrates, two fifths test), five small networks are trained on bootstrap samples. Temperature
scaling is fitted to the mixture of the five, and to their average. Printed: the held-out log loss
of the average as given, of the calibrated mixture and of the calibrated average, in nats; the last
minus the second with its 95 % interval over splits (Student's t); the processor time of the fit to
the mixture, as a multiple of the other, the median over splits.
"""

import time
import warnings

import numpy as np
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import resample

from sklearn_lhcal.calibration import TemperatureScaling
from sklearn_lhcal.distributions import Ensemble

SPLITS = 10
MEMBERS = 5
DATA_SETS = {"digits": load_digits, "breast cancer": load_breast_cancer, "wine": load_wine}


def trained(X, y, seed):
    """A network trained on a bootstrap sample that holds every class as often as `y` does."""
    X, y = resample(X, y, stratify=y, random_state=seed)
    network = MLPClassifier((50,), max_iter=300, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make_pipeline(StandardScaler(), network).fit(X, y)


def fitted(outputs, y):
    """Temperature scaling of saved outputs, and the processor time of its fit in seconds."""
    start = time.process_time()
    with warnings.catch_warnings():
        # 35 rows of wine may be predicted without an error: only the prior bounds the map then
        warnings.filterwarnings("ignore", "The calibration labels are separable")
        model = TemperatureScaling("proba").fit(outputs, y)
    return model, time.process_time() - start


def one_split(X, y, seed):
    """Log losses of the average, the calibrated mixture, the calibrated average; ratio of times."""
    X, rest, y, y_rest = train_test_split(X, y, train_size=0.4, stratify=y, random_state=seed)
    networks = [trained(X, y, MEMBERS * seed + m) for m in range(MEMBERS)]
    members = np.stack([network.predict_proba(rest) for network in networks])
    fit, test = train_test_split(
        np.arange(len(rest)), train_size=1 / 3, stratify=y_rest, random_state=seed
    )
    mean = members.mean(axis=0)
    mixture, t_mixture = fitted(Ensemble(members[:, fit]), y_rest[fit])
    average, t_average = fitted(mean[fit], y_rest[fit])
    predictions = (
        mean[test],
        mixture.predict_proba(Ensemble(members[:, test])),
        average.predict_proba(mean[test]),
    )
    return *(log_loss(y_rest[test], p) for p in predictions), t_mixture / t_average


def main() -> None:
    print(f"{'':15}{'as given':>9}{'mixture':>9}{'average':>9}  average - mixture{'time':>13}")
    for name, load in DATA_SETS.items():
        X, y = load(return_X_y=True)
        found = np.array([one_split(X, y, seed) for seed in range(SPLITS)])
        difference = found[:, 2] - found[:, 1]
        half = stats.t.ppf(0.975, SPLITS - 1) * stats.sem(difference)
        cells = "".join(f"{loss:9.4f}" for loss in found[:, :3].mean(axis=0))
        print(
            f"{name:15}{cells}  {difference.mean():+.4f} ± {half:.4f}"
            f"{np.median(found[:, 3]):12.0f}×",
            flush=True,
        )


if __name__ == "__main__":
    main()
