"""One page about saved predictions: are they right, and where do the labellers disagree?"""

from ._report import Report, report

__all__ = ["Report", "report"]
