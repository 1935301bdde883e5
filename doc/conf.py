"""How Sphinx builds the documentation: without network, warnings as errors (`make doc`)."""

import os
import sys
import tomllib
from pathlib import Path

from cycler import cycler

import sklearn_lhcal

sys.path.insert(0, str(Path(__file__).parent / "_extension"))
from colours import PALETTE

os.environ["MPLBACKEND"] = "Agg"

project = "sklearn_lhcal"
author = "the sklearn_lhcal developers"
copyright = f"{author}, BSD-3-Clause"
version = release = sklearn_lhcal.__version__
PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
repository = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]["urls"]["Repository"]
rst_epilog = f".. |repository| replace:: {repository}"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.extlinks",
    "sphinx.ext.intersphinx",
    "matplotlib.sphinxext.plot_directive",
    "matplotlib.sphinxext.figmpl_directive",
    "myst_parser",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "docstrings",
    "offline_math",
    "pages",
]
templates_path = ["_templates"]
exclude_patterns = [
    "_build",
    "auto_examples/*.ipynb",
    "auto_examples/*.py",
    "auto_examples/*.zip",
    "auto_examples/index.rst",  # gallery.rst lists the examples, in sections
]
default_role = "py:obj"
html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_js_files = ["scroll.js"]
html_title = f"{project} {version}"
html_show_sourcelink = False
html_context = {"repository": repository}
html_theme_options = {
    "logo": {"text": project},
    "navbar_align": "left",
    "navbar_end": ["version-switcher", "theme-switcher"],
    # Each version has a folder beside the others; all read the list of the newest.
    "switcher": {"json_url": "../dev/_static/switcher.json", "version_match": version},
    "check_switcher": False,
    "header_links_before_dropdown": 11,
    "show_prev_next": True,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": [], "choose": [], "migration": []},
    "footer_start": ["copyright"],
    "footer_end": ["report-problem"],
    "pygments_light_style": "tango",
}
# Pages without pages below them.
ALONE = ("index", "install", "quickstart", "guide/report", "choose", "migration", "faq")
html_sidebars = {page: [] for page in ALONE}
html_math_renderer = "mathml"

# Docstrings hold shapes and types; methods stand on the page of their class.
autodoc_typehints = "none"
autosummary_generate = True
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"

# What a block prints is not copied with it.
copybutton_selector = "div.highlight-python pre, div.highlight-bash pre, div.highlight-default pre"
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

# Every example runs; an error in one is an error of the build.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "abort_on_example_error": True,
    "write_computation_times": False,
    "min_reported_time": 1,
    "within_subsection_order": "ExampleTitleSortKey",
    "minigallery_sort_order": "pages.as_listed",
    "doc_module": ("sklearn_lhcal",),
    "backreferences_dir": "api/generated/backreferences",
    "download_all_examples": False,
    "show_signature": False,
    "image_srcset": ["2x"],
    "thumbnail_size": (600, 440),
    "remove_config_comments": True,
    # what a block prints and draws, not the value of its last line
    "capture_repr": (),
    "reset_modules": ("matplotlib", "pages.without_routing"),
    "reset_modules_order": "both",
}

# So do the figures of the guide.
plot_formats = [("png", 100)]
plot_srcset = ["2x"]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_include_source = False
plot_rcparams = {"figure.constrained_layout.use": True, "axes.prop_cycle": cycler(color=PALETTE)}
plot_apply_rcparams = True

# References into this package must resolve. Nothing is fetched: the names of other libraries that
# the guide links to stand in lists beside it. Any other name of theirs stays code.
intersphinx_mapping = {
    "sklearn": ("https://scikit-learn.org/stable/", "inventories/scikit-learn.txt"),
    "skorch": ("https://skorch.readthedocs.io/en/stable/", "inventories/skorch.txt"),
    "lightgbm": ("https://lightgbm.readthedocs.io/en/stable/", "inventories/LightGBM.txt"),
    "xgboost": ("https://xgboost.readthedocs.io/en/stable/", "inventories/XGBoost.txt"),
}
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!sklearn_lhcal\.).*")]
extlinks = {
    "doi": ("https://doi.org/%s", "doi:%s"),
    "arxiv": ("https://arxiv.org/abs/%s", "arXiv:%s"),
}
