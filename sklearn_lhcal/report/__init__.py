"""One page about saved predictions: are they right, and where do raters disagree?"""

from ._report import Report, report

__all__ = ["Report", "report"]
