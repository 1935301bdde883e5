#!/usr/bin/env python3
"""Print how the package is written, in numbers, of one checkout or of several to compare.

    .ci/structure.py [CHECKOUT ...]

Expression nodes are those of the syntax tree, docstrings left out. Characters are the mean over
lines of code: no blank lines, comments or docstrings. Arrows are pairs of subpackages of which one
imports the other; in the nested count a folder within a subpackage is one of its own, and what an
`__init__` hands on from its folder is no import. Private imports are names that cross from one
subpackage to another without being public. Public names are those in `__all__`, result classes left
out. `.ci/budget.json` holds what each may be at most.
"""

import ast
import sys
from itertools import pairwise
from pathlib import Path


def documented(tree):
    """The docstring nodes of a module."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str):
                yield first


def room_of(parts):
    """The first part below the package: a folder or a module."""
    return parts[0].removesuffix(".py")


def imported(tree, parts):
    """(room, module, name) of each relative import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*parts[: len(parts) - node.level], *(node.module or "").split(".")]
            base = [part for part in base if part]
            for alias in node.names:
                room = base[0] if base else alias.name
                yield room, ".".join(base), alias.name


def public_names(root, room):
    """`__all__` of a room."""
    path = root / room / "__init__.py"
    path = path if path.exists() else root / f"{room}.py"
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def is_private(root, room, module, name) -> bool:
    """Whether a name crosses from room to room without being public; house modules serve all."""
    if room.startswith("_") or module == "label_histogram._labels":
        return False
    # a room itself, or a module in it without an underscore
    if name == room or ("." in module and "._" not in module):
        return False
    return "._" in module or name not in public_names(root, room)


def folder_of(root, parts):
    """The folder of a module within the package, or the module itself where it is in none."""
    folder = "/".join(parts[:-1])
    return folder or parts[-1].removesuffix(".py")


def folders_imported(root, tree, parts):
    """The folder of each relative import."""
    for _, module, name in imported(tree, parts):
        target = [*module.split("."), name] if module else [name]
        path = root.joinpath(*target)
        if not (path.is_dir() or path.with_suffix(".py").exists()):
            target = target[:-1]
            path = root.joinpath(*target)
        yield "/".join(target) if path.is_dir() else folder_of(root, target)


def result_classes(trees):
    """Names of the classes that are tuples with names, directly or through another."""
    bases = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = {getattr(base, "id", "") for base in node.bases}
    found = {"NamedTuple"}
    while more := {name for name, of in bases.items() if of & found} - found:
        found |= more
    return found


def code_lines(text, tree):
    """Lines of code, stripped."""
    lines = text.splitlines()
    hidden = set()
    for node in documented(tree):
        hidden.update(range(node.lineno, node.end_lineno + 1))
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if number not in hidden and stripped and not stripped.startswith("#"):
            yield stripped


def measures(root: Path) -> dict:
    """The numbers of one checkout's package."""
    arrows, private, nodes, ternaries, tuples, comments, wide = set(), 0, 0, 0, 0, 0, 0
    lines, files, trees, nested = [], [], [], set()
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        skip = {id(node.value) for node in documented(tree)}
        parts = path.relative_to(root).parts
        files.append((text.count("\n"), "/".join(parts)))
        nodes += sum(isinstance(n, ast.expr) and id(n) not in skip for n in ast.walk(tree))
        ternaries += sum(isinstance(n, ast.IfExp) for n in ast.walk(tree))
        tuples += sum(
            isinstance(n, ast.Assign)
            and isinstance(n.targets[0], ast.Tuple)
            and isinstance(n.value, ast.Tuple)
            for n in ast.walk(tree)
        )
        comments += sum(line.strip().startswith("#") for line in text.splitlines())
        wide += sum(len(line) > 100 for line in text.splitlines())
        lines += code_lines(text, tree)
        trees.append(tree)
        folder = folder_of(root, parts)
        if parts[-1] != "__init__.py":
            nested |= {(folder, other) for other in folders_imported(root, tree, parts)}
            nested.discard((folder, folder))
        own = room_of(parts)
        for room, module, name in imported(tree, parts):
            if room != own:
                arrows.add((own, room))
                private += is_private(root, room, module, name)
    hundred = len(lines) / 100
    rooms = {room_of(path.relative_to(root).parts) for path in root.rglob("*.py")}
    rooms -= {"__init__", "__main__"}
    public = {name for room in rooms for name in public_names(root, room)}
    return {
        "files": len(files),
        "lines of code": len(lines),
        "expression nodes": nodes,
        "characters a line": sum(map(len, lines)) / len(lines),
        "lines over 100": wide,
        "ternaries per 100 lines": ternaries / hundred,
        "tuple assignments per 100 lines": tuples / hundred,
        "full-line comments": comments,
        "arrows": len(arrows),
        "arrows, nested": len(nested),
        "public names": len(public - result_classes(trees)),
        "private imports": private,
        "longest file": max(files)[0],
    }


def main() -> None:
    checkouts = [Path(p) for p in sys.argv[1:]] or [Path(__file__).parents[1]]
    found = [measures(checkout / "sklearn_lhcal") for checkout in checkouts]
    for key in found[0]:
        print(f"{key:34}" + "".join(f"{one[key]:12.6g}" for one in found))
    for one, other in pairwise(found):
        change = other["expression nodes"] - one["expression nodes"]
        print(f"{'expression nodes, change':34}{change:12d}")


if __name__ == "__main__":
    main()
