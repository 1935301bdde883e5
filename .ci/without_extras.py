"""Plugin of pytest: nothing optional can be imported."""

import sys

EXTRAS = {"matplotlib", "pandas", "polars"}


class NotInstalled:
    """A finder that says so."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, NotInstalled)
