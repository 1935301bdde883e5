"""The house.

Imports run downwards only, importing is light, and only public names of other libraries are used.
Tests go through public doors or say why not: here private modules are counted.
"""

import ast
import importlib
import json
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import sklearn_lhcal

ROOT = Path(sklearn_lhcal.__file__).parent
FLOORS = {
    1: ["_ground"],
    2: ["label_histogram"],
    3: ["distributions"],
    4: ["_rows"],
    5: ["metrics", "model_selection", "datasets"],
    6: ["neural_network", "ensemble", "gaussian_process"],
    7: ["calibration", "display"],
    8: ["report"],
    9: ["__init__", "__main__"],
}
FLOOR = {room: floor for floor, rooms in FLOORS.items() for room in rooms}
# Modules that serve all rooms above them: the ground floor's, and these.
HOUSE = {"sklearn_lhcal.label_histogram._labels", "sklearn_lhcal._rows"}
# Private names that cross from one room to another, each with its reason; three at most.
PRIVATE = {
    ("calibration", "sklearn_lhcal.neural_network._solvers", "TorchProblem"): (
        "a map that is a torch module is a problem; as a public name it would be a promise to "
        "others"
    ),
}


def module_name(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TESTS = sorted(Path(__file__).parents[1].rglob("*.py"))
FILES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


def imported_names(name):
    """(module, name) pairs of every import statement of a module, functions included.

    Relative ones made absolute.
    """
    path = FILES[name]
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((module, alias.name) for alias in node.names)


def own_imports(name):
    """Modules of this package that a module imports."""
    found = set()
    for module, attribute in imported_names(name):
        if module.partition(".")[0] == "sklearn_lhcal":
            found.add(f"{module}.{attribute}" if f"{module}.{attribute}" in FILES else module)
    return found


def room_of(name):
    return name.split(".")[1] if "." in name else "__init__"


def floor_of(name):
    return FLOOR[room_of(name)]


def test_every_module_has_a_floor():
    assert {room_of(name) for name in FILES} <= set(FLOOR)
    assert len(FILES) > 10


@pytest.mark.parametrize("name", FILES)
def test_imports_run_downwards(name):
    """Strictly, but within a room: rooms of one floor do not know each other."""
    for other in own_imports(name):
        assert other in FILES, f"{name} imports {other}, which does not exist"
        same = room_of(other) == room_of(name)
        assert floor_of(other) < floor_of(name) + same, f"{name} imports {other}"


def private_imports():
    """(room, module, name) of every import of a private name from another room."""
    for name in FILES:
        for module, attribute in imported_names(name):
            if module.partition(".")[0] != "sklearn_lhcal" or attribute is None:
                continue
            whole = f"{module}.{attribute}"
            if whole in FILES and (floor_of(whole) == 1 or whole in HOUSE):
                continue
            own_room = room_of(module) == room_of(name)
            if own_room or module in HOUSE or floor_of(module) == 1:
                continue
            public = getattr(importlib.import_module(module), "__all__", ())
            if "._" in module or (attribute not in public and whole not in FILES):
                yield room_of(name), module, attribute


def test_rooms_meet_by_public_names():
    assert set(private_imports()) == set(PRIVATE)
    assert len(PRIVATE) <= 3


def private_parts(tree):
    """Imports of this package, in a module, that a user would not make."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # a path to patch
            names = [node.value]
        else:
            continue
        for name in names:
            path = name.replace(".__", ".").split(".")
            if path[0] == "sklearn_lhcal" and any(part.startswith("_") for part in path):
                yield name


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_tests_go_through_public_doors_or_say_why(path):
    """A module docstring that names what is private gives the reason."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert "rivate" in (ast.get_docstring(tree) or "") or not list(private_parts(tree))


def test_imports_make_no_circle():
    graph = {name: own_imports(name) for name in FILES}
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError
    first = order.index("sklearn_lhcal.label_histogram._labels")
    assert first < order.index("sklearn_lhcal.distributions")


@pytest.mark.parametrize("name", FILES)
def test_only_public_names_of_other_libraries_are_imported(name):
    """But for the registry of scorer strings, for which scikit-learn has no public door.

    And for the mode that sees torch's operations: its notes on extending torch document that path.
    """
    private = [
        (module, attribute)
        for module, attribute in imported_names(name)
        if module.partition(".")[0] != "sklearn_lhcal"
        and any(
            part.startswith("_") and not part.startswith("__")
            for part in [*module.split("."), attribute or ""]
        )
    ]
    if name == "sklearn_lhcal.metrics._registry":
        assert private == [
            ("sklearn.metrics", "_scorer"),
            ("sklearn.utils._param_validation", "StrOptions"),
        ]
    elif name == "sklearn_lhcal._ground.devices":
        assert private == [("torch.utils._python_dispatch", "TorchDispatchMode")]
    else:
        assert not private


@pytest.mark.parametrize(
    "name", [n for n in FILES if FILES[n].name == "__init__.py" or "._" not in n]
)
def test_public_names_exist(name):
    module = importlib.import_module(name)
    names = getattr(module, "__all__", [])
    assert all(hasattr(module, n) for n in names)
    assert sorted(set(names)) == sorted(names)


LIGHT = """
import json, sys
import sklearn.metrics
before = set(sys.modules)
import {module}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def modules_added_by(module):
    """Modules that an import adds to those of scikit-learn's metrics, in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LIGHT.format(module=module)],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "module",
    [
        "sklearn_lhcal",
        "sklearn_lhcal.label_histogram",
        "sklearn_lhcal.distributions",
        "sklearn_lhcal.metrics",
    ],
)
def test_importing_is_light(module):
    """No library that `import sklearn.metrics` does not load already.

    Neither torch nor matplotlib, say.
    """
    added = modules_added_by(module)
    libraries = {name.partition(".")[0] for name in added} - set(sys.stdlib_module_names)
    assert libraries <= {"sklearn_lhcal", "sklearn"}
    heavy = (
        "sklearn.model_selection",
        "sklearn.linear_model",
        "sklearn.ensemble",
        "sklearn.calibration",
    )
    assert not [name for name in added if name.startswith(heavy)]


def test_version_and_type_marker():
    assert sklearn_lhcal.__version__.count(".") >= 2
    assert (ROOT / "py.typed").exists()
