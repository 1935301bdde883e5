"""Docstrings on their pages: links by name alone, and parameters "as in" another function."""

import importlib
import inspect
import re
from functools import cache
from pkgutil import iter_modules
from textwrap import indent

import sklearn_lhcal

ROOMS = [
    f"sklearn_lhcal.{m.name}"
    for m in iter_modules(sklearn_lhcal.__path__)
    if not m.name.startswith("_")
]
PUBLIC = {
    name: f"{room}.{name}" for room in ROOMS for name in importlib.import_module(room).__all__
}
SECTION = re.compile(r"(?<=^Parameters\n----------\n).*?(?=^\w[\w ]*\n---|\Z)", re.M | re.S)
FIELD = re.compile(r"^(\*{0,2}\w[\w*, ]*?)( : .*)?\n((?:    .*\n|\n)*)", re.M)
AS_IN = re.compile(r"As in `(?:(?:sklearn_lhcal\.)?[a-z_]+\.)?(\w+(?:\.\w+)?)`[.,;:]\s*(.*)", re.S)


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


@cache
def parameters(name):
    """Type and text of each parameter of a public name, or of one of its methods."""
    name, _, method = name.partition(".")
    room, _, attribute = PUBLIC[name].rpartition(".")
    documented = getattr(importlib.import_module(room), attribute)
    if method:
        documented = getattr(documented, method)
    doc = inspect.getdoc(documented) or ""
    section = SECTION.search(doc + "\n")
    fields = FIELD.findall(section[0]) if section else []
    return {
        parameter: (kind, inspect.cleandoc("\n" + text))
        for names, kind, text in fields
        for parameter in names.split(", ")
    }


def field(name, kind, text, more=""):
    """One parameter; "As in `X`." is what X says of it, and "more" what is said beside."""
    found = AS_IN.match(text)
    if found and name in parameters_of(found[1]):
        more = " ".join(filter(None, [sentence(found[2]), more]))
        other_kind, other = parameters(found[1])[name]
        return field(name, kind or other_kind, other, more)
    text = " ".join(filter(None, [text, more]))
    return f"{name}{kind}\n{indent(text, '    ')}\n"


def parameters_of(name):
    return parameters(name) if name.partition(".")[0] in PUBLIC else {}


def sentence(text):
    return text[:1].upper() + text[1:]


def written_out(section):
    """The section on parameters, with those that are "as in" another function written out."""
    written = []
    for names, kind, text in FIELD.findall(section):
        text = inspect.cleandoc("\n" + text)
        found = AS_IN.match(text)
        each = names.split(", ") if found else [names]
        if found and all(name in parameters_of(found[1]) for name in each):
            bare = f"As in `{found[1]}`."
            words = re.findall(r"\w+", found[2])
            about = [name for name in each if name in words] or each[-1:]
            texts = {name: f"{bare} {found[2]}" if name in about else bare for name in each}
            written += [field(name, kind, texts[name]) for name in each]
        else:
            written.append(f"{names}{kind}\n{indent(text, '    ')}\n")
    return "".join(written)


def write_out(app, what, name, obj, options, lines):
    """Before numpydoc reads the lines."""
    doc = "\n".join(lines) + "\n"
    section = SECTION.search(doc)
    if section and "As in `" in section[0]:
        doc = f"{doc[: section.start()]}{written_out(section[0])}\n{doc[section.end() :]}"
        lines[:] = doc.split("\n")


def setup(app):
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("autodoc-process-docstring", write_out, priority=400)
    app.connect("missing-reference", resolve_public_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
