"""``python -m sklearn_lhcal report``: saved predictions in, one page out."""

import sys

from .report.command import main

if __name__ == "__main__":
    sys.exit(main())
