"""What pages are made of: a table of tags, links from names to the guide, links to the papers."""

import importlib
import inspect
import re
from functools import cache
from pathlib import Path

from docstrings import PUBLIC, ROOMS
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from PIL import Image
from sklearn import set_config
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import nested_parse_with_titles
from sphinx_gallery.directives import imgsgnode

from sklearn_lhcal import metrics
from sklearn_lhcal._utils.tags import MeanOfTerms, Tags, tags_of

HEAD = ("Metric", "Better", "Raters", "Reads", "Kind")
BETTER = {True: "larger", False: "smaller", None: "neither"}
REQUIRED = {"net_benefit": {"threshold": 0.5}}
# The sentence above a list of names of the reference, and the list.
NAMES = re.compile(r"^(?:(.+):\n\n)?\.\. autosummary::\n((?:(?:   .*)?\n)+)", re.M)
PAPER = re.compile(r"\bP[1-4]\b")
# Pixels; on a phone, narrower figures are legible as a whole, and these are scrolled.
WIDE = 650
# Text in these is no prose, or a link already.
CLOSED = (
    nodes.literal,
    nodes.literal_block,
    nodes.reference,
    nodes.title,
    addnodes.pending_xref,
    addnodes.toctree,
)


def as_listed(path):
    """A sort key that leaves examples in the order in which a page lists them."""
    return 0


def without_routing(gallery_conf, name):
    """An example may switch metadata routing on; no other and no figure knows of it."""
    set_config(enable_metadata_routing=False)


class MetricTags(Directive):
    """The table of what each metric says of itself."""

    def run(self):
        lines = [".. list-table::", "   :header-rows: 1", "", *table_row(HEAD)]
        for name in sorted(n for n in PUBLIC if PUBLIC[n] == f"sklearn_lhcal.metrics.{n}"):
            function = getattr(metrics, name)
            # those that need an option more have the tags of any value of it
            tags = tags_of(function, **REQUIRED.get(name, {}))
            if tags != Tags():
                lines += table_row(in_words(name, tags))
        return parsed(self, lines)


class MostUsed(Directive):
    """Names of a few groups, one line each; `all-names` below leaves them out."""

    has_content = True

    def run(self):
        lines = []
        for group in filter(None, self.content):
            title, _, names = group.partition(": ")
            lines += listed(title, names.split(", "))
            most_used(self).update(names.split(", "))
        return parsed(self, lines)


class AllNames(Directive):
    """The other public names by the sections of their reference page, then the result types."""

    def run(self):
        root, lines = Path(self.state.document.settings.env.srcdir), []
        for room in ROOMS:
            module = room.rpartition(".")[2]
            lines += [f":doc:`{module} </reference/{module}>`", "~" * 60, ""]
            page = (root / "reference" / f"{module}.rst").read_text(encoding="utf-8")
            for title, block in NAMES.findall(page):
                found = [n for n in re.findall(r"^   (\w+)$", block, re.M) if not is_result(n)]
                lines += listed(title, [n for n in found if n not in most_used(self)])
        results = sorted(filter(is_result, PUBLIC), key=str.lower)
        fold = ["What functions return, and warnings", "~" * 60, "", *raw("<details>")]
        fold += raw(f"<summary>{len(results)} names</summary>")
        return parsed(self, lines + fold + listed("", results) + raw("</details>"))


def most_used(directive):
    """Names that the page has listed."""
    return directive.state.document.settings.env.temp_data.setdefault("most_used", set())


def is_result(name):
    """Whether nobody makes it: a result, a scorer object, a warning."""
    module, _, attribute = PUBLIC[name].rpartition(".")
    thing = getattr(importlib.import_module(module), attribute)
    returned = name.endswith("Scorer") or name in ("LabelPolicy", "Report")
    return inspect.isclass(thing) and (issubclass(thing, (tuple, Warning)) or returned)


def listed(title, names):
    """A group of names, each with the first line of its docstring."""
    if not names:
        return []
    head = [f".. rubric:: {title}", ""] if title else []
    links = [f"   ~{PUBLIC[name]}" for name in names]
    return [*head, ".. autosummary::", "   :nosignatures:", "", *links, ""]


def raw(html):
    return [".. raw:: html", "", f"   {html}", ""]


def in_words(name, tags):
    kind = "statistic"
    if tags.signed_root:
        kind = "signed root"
    if isinstance(tags, MeanOfTerms):
        kind = "mean"
    reads = "the distribution" if tags.takes_distribution else "the mean"
    if tags.of_labels:
        reads = "labels alone"
    return f"`{name}`", BETTER[tags.greater_is_better], f"{tags.least_raters} or more", reads, kind


def table_row(cells):
    first, *rest = cells
    return [f"   * - {first}", *(f"     - {cell}" for cell in rest)]


class GuidePages(Directive):
    """Links to the pages of the guide that speak of a public name."""

    required_arguments = 1

    def run(self):
        name = self.arguments[0].rpartition(".")[2]
        root = Path(self.state.document.settings.env.srcdir)
        mention = re.compile(rf"`~?(\w+\.)*{name}`")
        pages = [page for page, source in guide(root).items() if mention.search(source)]
        if not pages:
            return []
        links = ", ".join(f":doc:`/{page}`" for page in pages)
        return parsed(self, [".. rubric:: In the guide", "", links])


@cache
def guide(root):
    """Source of the pages in prose, by name; those that only list names are left out."""
    lists = ("api.rst", "gallery.rst", "notation.rst")
    paths = sorted(root.glob("*.rst")) + sorted(root.glob("[a-z]*/*.rst"))
    return {
        path.relative_to(root).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
        for path in paths
        if path.name not in lists and path.parent.name not in ("auto_examples", "reference")
    }


def parsed(directive, lines):
    node = nodes.Element()
    nested_parse_with_titles(directive.state, StringList(lines), node)
    return node.children


class PaperLinks(SphinxPostTransform):
    """P1 to P4 lead to the bibliography wherever they stand in prose."""

    default_priority = 5

    def run(self, **kwargs):
        for text in list(self.document.findall(nodes.Text)):
            if PAPER.search(text) and not self.is_closed(text):
                text.parent.replace(text, list(self.linked(text)))

    def is_closed(self, text):
        node = text.parent
        while node is not None:
            if isinstance(node, CLOSED):
                return True
            node = node.parent
        return self.env.docname == "project/bibliography"

    def linked(self, text):
        end = 0
        for found in PAPER.finditer(text):
            yield nodes.Text(text[end : found.start()])
            link = addnodes.pending_xref(
                "",
                nodes.inline("", found[0]),
                refdomain="std",
                reftype="ref",
                refexplicit=True,
                reftarget=found[0].lower(),
                refdoc=self.env.docname,
                refwarn=True,
            )
            yield link
            end = found.end()
        yield nodes.Text(text[end:])


class ScrolledFigures(SphinxPostTransform):
    """Pictures of the gallery stand in a frame of their own, which a phone can scroll."""

    default_priority = 5

    def run(self, **kwargs):
        for image in list(self.document.findall(imgsgnode)):
            with Image.open(Path(self.app.srcdir, image["uri"].lstrip("/"))) as picture:
                width = picture.width
            if width < WIDE:
                continue
            frame = nodes.container(classes=["figure-scroll"])
            image.replace_self(frame)
            frame += image


def setup(app):
    app.add_directive("metric-tags", MetricTags)
    app.add_directive("most-used", MostUsed)
    app.add_directive("all-names", AllNames)
    app.add_directive("guide-pages", GuidePages)
    app.add_post_transform(PaperLinks)
    app.add_post_transform(ScrolledFigures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
