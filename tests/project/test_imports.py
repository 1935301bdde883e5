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
    1: ["_utils"],
    2: ["label_histogram"],
    3: ["distributions"],
    4: ["_rows"],
    5: ["metrics", "datasets"],
    6: ["model_selection"],
    7: ["neural_network", "ensemble", "gaussian_process"],
    8: ["calibration", "display"],
    9: ["report"],
    10: ["__init__", "__main__"],
}
FLOOR = {room: floor for floor, rooms in FLOORS.items() for room in rooms}
# Modules that serve all rooms above them: the ground floor's, and these.
HOUSE = {"sklearn_lhcal.label_histogram._labels", "sklearn_lhcal._rows"}


def module_name(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# Private modules that tests import, each with its reason; 18 at most.
PRIVATE_IN_TESTS = {
    "_utils.kernels.errors": "the search for a bandwidth, against the likelihood of a fine grid",
    "_utils.kernels.smoothing": "likelihoods and derivatives of kernels, in blocks few rows cross",
    "_utils.search": "a minimum of functions in closed form, without a calibrator",
    "_utils.tags": "what metrics say of themselves, which scorers and intervals read",
    "calibration._alpha_fit": "derivatives of likelihoods, which fits only use",
    "calibration._base": "the base of calibrators, for the exercise of a new one",
    "calibration._decision.select": "candidates and the rule that chooses, against brute force",
    "calibration._risk_control": "the wealth of bets, a martingale by enumeration",
    "calibration._rows": "the samples that maps and their losses see",
    "calibration._scaling.fit": "the evidence of a map, against its integral",
    "calibration._scaling.maps": "families of maps, for the derivatives of their losses",
    "calibration._scaling.stack": "weights of a mixture at their optimum",
    "datasets._published_images": "digests of the published file, and of one that stands for it",
    "gaussian_process._hyperparameters": "the gradient of the bound, by finite differences",
    "gaussian_process._likelihoods": "terms of the bound, by differences and by draws",
    "gaussian_process._variational": "the bound at one place, of which fits show the largest",
    "metrics._scorers": "the metric of CONTRIBUTING gets a scorer, as it would in the package",
    "neural_network._training": "batches without bias, by enumeration",
}


ALL_TESTS = Path(__file__).parents[1]
TESTS = {str(path.relative_to(ALL_TESTS)): path for path in sorted(ALL_TESTS.rglob("*.py"))}
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


def test_imports_run_downwards():
    """Strictly, but within a room: rooms of one floor do not know each other."""
    pairs = [(name, other) for name in FILES for other in own_imports(name)]
    assert not [pair for pair in pairs if pair[1] not in FILES]
    upwards = [
        (name, other)
        for name, other in pairs
        if floor_of(other) >= floor_of(name) + (room_of(other) == room_of(name))
    ]
    assert not upwards


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
    assert not set(private_imports())


def private_parts(tree):
    """What a module imports or patches of this package that a user would not import."""
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


def test_tests_go_through_public_doors_or_say_why():
    """A module docstring that names what is private gives the reason."""
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in TESTS.items()}
    silent = [
        (name, *private_parts(tree))
        for name, tree in trees.items()
        if "rivate" not in (ast.get_docstring(tree) or "") and list(private_parts(tree))
    ]
    assert not silent


def private_module(name):
    """The module of a path to a private name, without that of the package."""
    while name not in FILES:
        name = name.rpartition(".")[0]
    return name.removeprefix("sklearn_lhcal.")


def test_private_modules_in_tests_are_few():
    trees = [
        ast.parse(path.read_text(encoding="utf-8"))
        for path in TESTS.values()
        if path != Path(__file__)
    ]
    found = {private_module(name) for tree in trees for name in private_parts(tree)}
    assert found == set(PRIVATE_IN_TESTS)
    assert len(PRIVATE_IN_TESTS) <= 18


def test_imports_make_no_circle():
    graph = {name: own_imports(name) for name in FILES}
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError
    first = order.index("sklearn_lhcal.label_histogram._labels")
    assert first < order.index("sklearn_lhcal.distributions")


def test_only_public_names_of_other_libraries_are_imported():
    """But for the registry of scorer strings, for which scikit-learn has no public door."""
    private = [
        (name, module, attribute)
        for name in FILES
        for module, attribute in imported_names(name)
        if module.partition(".")[0] != "sklearn_lhcal"
        and any(
            part.startswith("_") and not part.startswith("__")
            for part in [*module.split("."), attribute or ""]
        )
    ]
    assert private == [
        ("sklearn_lhcal.metrics._scorers", "sklearn.metrics", "_scorer"),
        ("sklearn_lhcal.metrics._scorers", "sklearn.utils._param_validation", "StrOptions"),
    ]


def test_public_names_exist():
    for name in FILES:
        if FILES[name].name == "__init__.py" or "._" not in name:
            module = importlib.import_module(name)
            names = getattr(module, "__all__", [])
            assert [n for n in names if not hasattr(module, n)] == []
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("room", ["calibration", "display", "model_selection", "report"])
def test_importing_needs_no_torch(room):
    added = modules_added_by(f"sklearn_lhcal.{room}")
    assert not {"torch", "skorch", "matplotlib"} & {name.partition(".")[0] for name in added}


def test_version_and_type_marker():
    assert sklearn_lhcal.__version__.count(".") >= 2
    assert (ROOT / "py.typed").exists()
