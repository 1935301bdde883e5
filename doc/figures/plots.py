"""One figure for each display, on data whose truth is known."""

import matplotlib.pyplot as plt
import numpy as np
from colours import CALIBRATED, RAW, SCALED

from sklearn_lhcal import display
from sklearn_lhcal.calibration import AlphaCalibration, TemperatureScaling
from sklearn_lhcal.datasets import make_label_histograms, make_rater_study
from sklearn_lhcal.metrics import policy_curve

data = make_label_histograms(4000, 3, 5, total=3.0, overconfidence=1.5, random_state=0)
raw, counts = data.prediction[2000:], data.counts[2000:]
scaled = TemperatureScaling("proba").fit(data.prediction[:2000], data.counts[:2000])
alpha = AlphaCalibration(TemperatureScaling("proba")).fit(
    data.prediction[:2000], data.counts[:2000]
)
COSTS = [[0, 1, 2], [5, 0, 1], [20, 3, 0]]


def size(width=5.0, height=4.5):
    return plt.subplots(figsize=(width, height))[1]


def reliability():
    ax = size()
    for name, z in {"uncalibrated": raw, "temperature": scaled.predict_proba(raw)}.items():
        drawn = display.ReliabilityDisplay.from_predictions(counts, z, n_bins=8, name=name, ax=ax)
        said, seen = drawn.result.mean_predicted, drawn.result.mean_observed
        print(f"{name}: says {said[0]:.2f}, raters {seen[0]:.2f}", end="; ")
        print(f"says {said[-1]:.2f}, raters {seen[-1]:.2f}")


def disagreement():
    ax = size()
    predictions = {
        "temperature": (scaled.predict_proba(raw), SCALED),
        "and α": (alpha.predict_dist(raw), CALIBRATED),
    }
    for name, (prediction, color) in predictions.items():
        display.ReliabilityDisplay.from_predictions(
            counts,
            prediction,
            kind="disagreement",
            n_bins=np.linspace(0, 2 / 3, 8),
            name=name,
            ax=ax,
            line_kwargs={"color": color},
        )


def calibration_dispersion():
    constant = counts.sum(axis=0) / counts.sum()
    predictions = {
        "uncalibrated": raw,
        "temperature": scaled.predict_proba(raw),
        "the same for all": np.tile(constant, (len(raw), 1)),
    }
    display.CalibrationDispersionDisplay.from_predictions(
        counts, predictions, random_state=0, ax=size()
    )


def simplex():
    display.SimplexCalibrationDisplay.from_predictions(counts, raw)


def second_opinion():
    ax = size()
    for rule in ("second_opinion_value", "entropy"):
        display.ReferralCurveDisplay.from_predictions(
            counts, alpha.predict_dist(raw), rule=rule, ax=ax
        )


def label_policy():
    many = np.random.default_rng(0).multinomial(20, data.proba[2000:2500])
    curve = policy_curve(many, alpha.predict_dist(raw[:500]), COSTS, horizon=3, random_state=0)
    display.PolicyCurveDisplay(curve).plot_differences()


def decision_risk():
    models = {"uncalibrated": raw, "temperature": scaled.predict_proba(raw)}
    drawn = display.DecisionRiskDisplay.from_predictions(counts, models, COSTS, ax=size(6, 5))
    risks = drawn.result
    for name, risk, expected in zip(
        models, risks.true_risk[:, 0], risks.model_risk[:, 0], strict=True
    ):
        print(f"{name}: risk {risk:.2f}, expected {expected:.2f}")


def decision_curve():
    two = make_label_histograms(3000, 2, 3, overconfidence=3.0, random_state=0)
    models = {"overconfident": two.prediction, "calibrated": two.prediction ** (1 / 3)}
    models["calibrated"] /= models["calibrated"].sum(axis=1, keepdims=True)
    own = [{"color": RAW}, {"color": CALIBRATED}]
    display.DecisionCurveDisplay.from_predictions(
        two.counts, models, ax=size(6, 4), line_kwargs=own
    )


def epistemic_gain():
    rng = np.random.default_rng(0)
    uncertainty = rng.uniform(0, 0.5, 2000)
    gain = rng.uniform(size=2000) < uncertainty / 2  # half of what was promised
    drawn = display.GainCurveDisplay.from_predictions(
        gain,
        uncertainty,
        calibrated=uncertainty / 2,
        n_bins=6,
        ax=size(6, 4.5),
        plot_uncertainty=False,
    )
    drawn.ax_.set_ylabel("Mean in the bin (probability)")


def readers():
    study = make_rater_study(300, 6, rater_std=0.6, random_state=0)
    display.RaterDisplay.from_predictions(
        study.y, study.proba, margin=0.05, random_state=0, ax=size(6, 4)
    )
