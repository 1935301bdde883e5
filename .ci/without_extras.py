"""Plugin of pytest: nothing optional can be found, as where it is not installed."""

import sys
from importlib.machinery import PathFinder

EXTRAS = {"matplotlib", "pandas", "polars"}


class WithoutExtras(PathFinder):
    """Finds what Python finds, but for the extras."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            return None
        return super().find_spec(name, path, target)


sys.meta_path[:] = [WithoutExtras if finder is PathFinder else finder for finder in sys.meta_path]
