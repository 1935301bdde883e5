"""For whom the probabilities are wrong: the subgroups of a report."""

from ..metrics import subgroup_audit
from ._numbers import Intervals
from ._words import said

# A number of the page, and the column of the audit.
_MEASURED = {
    "error": "estimate low high",
    "disagreement": "irreducible_loss irreducible_loss_low irreducible_loss_high",
    "epistemic": "epistemic_loss epistemic_loss_low epistemic_loss_high",
}


def subgroups(intervals: Intervals) -> dict | None:
    """Mean prediction minus share of labels in each subgroup; None where no columns were named."""
    study = intervals.study
    if not study.subgroups or study.hard:
        return None
    try:
        audit = subgroup_audit(study.labels, study.prediction, study.subgroups, **intervals.how)
    except ValueError as error:
        return {"words": str(error), "table": []}
    table = [
        {
            "subgroup": str(row["subgroup"]),
            "class_name": str(row["class"]),
            "n_cases": int(row["n"]),
            **{name: [float(row[c]) for c in of.split()] for name, of in _MEASURED.items()},
        }
        for row in audit.frame.reset_index().to_dict("records")
    ]
    words = said("subgroups", p=audit.p_value, worst=audit.worst, left_out=audit.left_out)
    return {"words": words, "table": table}
