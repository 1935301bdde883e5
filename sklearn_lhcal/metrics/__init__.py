"""Metrics on label histograms, and scorers."""

from .._utils.results import ConfidenceInterval, VarianceComponents
from ._calibration import calibration_error, calibration_loss, dispersion_error, dispersion_loss
from ._decision import (
    RiskDecomposition,
    bayes_decision,
    decision_risk,
    model_risk,
    net_benefit,
    risk_decomposition,
    risk_gap,
)
from ._decomposition import LossDecomposition, loss_decomposition
from ._disagreement import (
    class_disagreement_calibration_error,
    class_disagreement_squared_loss,
    disagreement_calibration_error,
    disagreement_calibration_loss,
    disagreement_squared_loss,
    posterior_epistemic_loss,
)
from ._epistemic import (
    NullEpistemicError,
    accuracy_gain,
    epistemic_calibration_error,
    epistemic_correlation,
    null_epistemic_error,
)
from ._expected_calibration import expected_calibration_error, maximum_calibration_error
from ._inference.accumulate import MetricAccumulator
from ._inference.alternative_annotator import AlternativeAnnotatorTest, alternative_annotator_test
from ._inference.audit import SubgroupAudit, subgroup_audit
from ._inference.decisions import (
    CostCurve,
    DecisionCurve,
    DecisionRisks,
    cost_curve,
    decision_curve,
    decision_risks,
)
from ._inference.findings import FindingTable, per_finding
from ._inference.gains import GainCurve, gain_curve
from ._inference.intervals import (
    confidence_interval,
    interval_over_splits,
    paired_difference,
    risk_bound,
)
from ._inference.methods import MethodTable, evaluate_methods
from ._inference.monitor import CalibrationMonitor, MonitorHistory
from ._inference.policy import PolicyCurve, policy_curve
from ._inference.prediction_powered import prediction_powered
from ._inference.rater_comparison import JudgeTable, RaterComparison, RaterRows, rater_comparison
from ._inference.rater_groups import rater_group_difference
from ._inference.rater_table import RaterTable, rater_table
from ._inference.reader_study import ReaderStudy, ReaderStudySize, reader_study
from ._inference.referral import ReferralCurve, referral_curve
from ._inference.reliability import ReliabilityCurve, reliability_curve
from ._inference.study_size import StudySize, study_size
from ._kernel import (
    binned_canonical_error,
    kernel_calibration_error,
    kernel_sharpness,
    ratio_corrected_calibration_error,
)
from ._kernel_bandwidth import loo_bandwidth
from ._kernel_null import NullCalibrationError, null_calibration_error
from ._label_histogram import (
    epistemic_loss,
    expected_squared_loss,
    irreducible_loss,
    ranked_probability_score,
)
from ._mean_score import mean_score, score_bias
from ._predicted_labels import expected_accuracy, histogram_log_loss, label_log_loss, vote_accuracy
from ._scorers import (
    EpistemicScorer,
    LabelHistogramScorer,
    get_scorer,
    get_scorer_names,
    make_decision_scorer,
    register_scorers,
)
from ._statistic import statistic_calibration_loss, statistic_squared_loss
from ._variation import distribution_calibration_error, entropy_calibration_error, ranking_score

# metrics with a name in scoring=, which is theirs, after neg_ where smaller is better
register_scorers(
    calibration_loss,
    class_disagreement_squared_loss,
    disagreement_calibration_error,
    disagreement_squared_loss,
    dispersion_loss,
    epistemic_loss,
    expected_accuracy,
    expected_calibration_error,
    expected_squared_loss,
    histogram_log_loss,
    label_log_loss,
    maximum_calibration_error,
    posterior_epistemic_loss,
    ranked_probability_score,
    vote_accuracy,
)

__all__ = [
    "AlternativeAnnotatorTest",
    "CalibrationMonitor",
    "ConfidenceInterval",
    "CostCurve",
    "DecisionCurve",
    "DecisionRisks",
    "EpistemicScorer",
    "FindingTable",
    "GainCurve",
    "JudgeTable",
    "LabelHistogramScorer",
    "LossDecomposition",
    "MethodTable",
    "MetricAccumulator",
    "MonitorHistory",
    "NullCalibrationError",
    "NullEpistemicError",
    "PolicyCurve",
    "RaterComparison",
    "RaterRows",
    "RaterTable",
    "ReaderStudy",
    "ReaderStudySize",
    "ReferralCurve",
    "ReliabilityCurve",
    "RiskDecomposition",
    "StudySize",
    "SubgroupAudit",
    "VarianceComponents",
    "accuracy_gain",
    "alternative_annotator_test",
    "bayes_decision",
    "binned_canonical_error",
    "calibration_error",
    "calibration_loss",
    "class_disagreement_calibration_error",
    "class_disagreement_squared_loss",
    "confidence_interval",
    "cost_curve",
    "decision_curve",
    "decision_risk",
    "decision_risks",
    "disagreement_calibration_error",
    "disagreement_calibration_loss",
    "disagreement_squared_loss",
    "dispersion_error",
    "dispersion_loss",
    "distribution_calibration_error",
    "entropy_calibration_error",
    "epistemic_calibration_error",
    "epistemic_correlation",
    "epistemic_loss",
    "evaluate_methods",
    "expected_accuracy",
    "expected_calibration_error",
    "expected_squared_loss",
    "gain_curve",
    "get_scorer",
    "get_scorer_names",
    "histogram_log_loss",
    "interval_over_splits",
    "irreducible_loss",
    "kernel_calibration_error",
    "kernel_sharpness",
    "label_log_loss",
    "loo_bandwidth",
    "loss_decomposition",
    "make_decision_scorer",
    "maximum_calibration_error",
    "mean_score",
    "model_risk",
    "net_benefit",
    "null_calibration_error",
    "null_epistemic_error",
    "paired_difference",
    "per_finding",
    "policy_curve",
    "posterior_epistemic_loss",
    "prediction_powered",
    "ranked_probability_score",
    "ranking_score",
    "rater_comparison",
    "rater_group_difference",
    "rater_table",
    "ratio_corrected_calibration_error",
    "reader_study",
    "referral_curve",
    "reliability_curve",
    "risk_bound",
    "risk_decomposition",
    "risk_gap",
    "score_bias",
    "statistic_calibration_loss",
    "statistic_squared_loss",
    "study_size",
    "subgroup_audit",
    "vote_accuracy",
]
