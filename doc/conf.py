"""How Sphinx builds the documentation: without network, warnings as errors (`make doc`)."""

import importlib
import os
from pkgutil import iter_modules

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

import sklearn_lhcal
from sklearn_lhcal._ground.facts import facts_of

os.environ["MPLBACKEND"] = "Agg"

project = "sklearn_lhcal"
author = "the sklearn_lhcal developers"
copyright = f"{author}, BSD-3-Clause"
version = release = sklearn_lhcal.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "auto_examples/*.ipynb", "auto_examples/*.py", "auto_examples/*.zip"]
default_role = "py:obj"
html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_title = f"{project} {version}"
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": project},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "show_prev_next": True,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
}
html_sidebars = {page: [] for page in ("index", "getting_started", "notation")}

# Docstrings hold shapes and types; methods stand on the page of their class.
autodoc_typehints = "none"
autosummary_generate = True
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"

# Every example runs; an error in one is an error of the build.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "ignore_pattern": r"^(?!plot_)",  # what examples share is no example
    "abort_on_example_error": True,
    "write_computation_times": False,
    "min_reported_time": 1,
    "within_subsection_order": "ExampleTitleSortKey",
    "doc_module": ("sklearn_lhcal",),
    "backreferences_dir": "api/generated/backreferences",
    "download_all_examples": False,
    "show_signature": False,
}

# References into this package must resolve; those into other libraries stay code, for nothing is
# fetched.
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!sklearn_lhcal\.).*")]

ROOMS = [
    f"sklearn_lhcal.{m.name}"
    for m in iter_modules(sklearn_lhcal.__path__)
    if not m.name.startswith("_")
]
PUBLIC = {
    name: f"{room}.{name}" for room in ROOMS for name in importlib.import_module(room).__all__
}


def resolve_public_name(app, env, node, contnode):
    """Link `name` wherever it is a public name, without its module before it."""
    target = PUBLIC.get(node.get("reftarget", "").rstrip("()"))
    if node.get("refdomain") == "py" and target is not None:
        domain = env.get_domain("py")
        return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, contnode)
    return None


def skip_fields(app, what, name, obj, skip, options):
    """Fields of named tuples stand under Attributes."""
    return True if type(obj).__name__ == "_tuplegetter" else None


class MetricFacts(Directive):
    """The table of what each metric says of itself."""

    def run(self):
        lines = [".. list-table::", "   :header-rows: 1", "", *table_row(HEAD)]
        for name in sorted(n for n in PUBLIC if PUBLIC[n] == f"sklearn_lhcal.metrics.{n}"):
            function = getattr(sklearn_lhcal.metrics, name)
            facts = facts_of(function)
            if facts.greater_is_better is not None:
                lines += table_row(in_words(name, facts))
        node = nodes.Element()
        self.state.nested_parse(StringList(lines), 0, node)
        return node.children


HEAD = ("Metric", "Better", "Raters", "Reads", "Kind")


def in_words(name, facts):
    kind = "mean" if facts.terms else "signed root" if facts.loss else "statistic"
    return (
        f"`{name}`",
        "larger" if facts.greater_is_better else "smaller",
        f"{facts.least_raters} or more",
        "the distribution" if facts.takes_distribution else "the mean",
        kind,
    )


def table_row(cells):
    first, *rest = cells
    return [f"   * - {first}", *(f"     - {cell}" for cell in rest)]


def setup(app):
    app.add_directive("metric-facts", MetricFacts)
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("missing-reference", resolve_public_name)
