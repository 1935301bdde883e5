#!/usr/bin/env python3
"""Change the package in one place, a mutant, and see whether a test fails.

    .ci/mutate.py [--rooms ROOM ...] [--each N | --all] [--seed S] [--again RESULT]

Tests and libraries are loaded once. For each mutant the process forks, the child exchanges the code
of the changed function, and runs those tests that pass through the changed lines, fastest first, to
the first failure. What a module does while it is imported cannot be exchanged; such a mutant is
imported in a process of its own, with the tests of fewer files. Which test passes where is
recorded once, in build/mutation/map.json; remove it when files change, or name new tests after
--record. Results are kept beside it.
"""

import argparse
import ast
import copy
import gc
import importlib
import importlib.machinery
import importlib.util
import inspect
import json
import os
import random
import resource
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "mutation"
PACKAGE = "sklearn_lhcal"
ROOMS = ["metrics", "distributions", "label_histogram"]
# Tests that go through higher rooms are slow; these of them are about the rooms all the same.
HIGHER = {"calibration", "neural_network", "ensemble", "gaussian_process", "display", "report"}
HIGHER |= {"dask"}
ALSO = {"test_annotations.py", "test_decision.py", "test_inputs.py", "test_names.py"}
ALSO |= {"test_net_benefit.py", "test_costs_a_row.py", "test_epistemic_scorers.py"}
LIBRARIES = "numpy scipy.stats scipy.optimize sklearn.metrics sklearn.model_selection torch skorch"
LIBRARIES += " pandas polars pyarrow statsmodels.api matplotlib.pyplot mpmath hypothesis mapie"
# Files of tests for a mutant that is imported, and bytes.
FILES = 3
MEMORY = 6 * 2**30

# --- mutants

COMPARISONS = {
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
OPPOSITES = [("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("any", "all")]
OPPOSITES += [("floor", "ceil"), ("fmin", "fmax")]
OPPOSITE = {**dict(OPPOSITES), **{second: first for first, second in OPPOSITES}}


def variants(node):
    """(operator, another node in its place) for each way in which a node is changed."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for other in COMPARISONS[type(node.ops[0])]:
            yield "comparison", ast.Compare(node.left, [other()], node.comparators)
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in ARITHMETIC:
        changed = copy.copy(node)
        changed.op = ARITHMETIC[type(node.op)]()
        yield "arithmetic", changed
    if isinstance(node, ast.BinOp):
        yield "first operand", copy.copy(node.left)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not, ast.Invert)):
        yield "sign", copy.copy(node.operand)
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield "constant", ast.Constant(not node.value)
        elif isinstance(node.value, (int, float)):
            yield "constant", ast.Constant(node.value + 1)
            if node.value == 1:
                yield "constant", ast.Constant(0)
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and/or", ast.BoolOp(other, node.values)
    if isinstance(node, (ast.If, ast.IfExp, ast.While)):
        changed = copy.copy(node)
        changed.test = ast.UnaryOp(ast.Not(), node.test)
        yield "condition", changed
    if isinstance(node, ast.comprehension) and node.ifs:
        yield "condition", ast.comprehension(node.target, node.iter, [], node.is_async)
    if isinstance(node, ast.Call):
        for left_out in node.keywords:
            # zip(strict=True) says what always holds
            if left_out.arg not in (None, "strict"):
                kept = [keyword for keyword in node.keywords if keyword is not left_out]
                yield "keyword", ast.Call(node.func, node.args, kept)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "statement", ast.Pass()
    if isinstance(node, ast.Name) and node.id in OPPOSITE:
        yield "min/max", ast.Name(OPPOSITE[node.id], node.ctx)
    if isinstance(node, ast.Attribute) and node.attr in OPPOSITE:
        yield "min/max", ast.Attribute(node.value, OPPOSITE[node.attr], node.ctx)


def is_words(node):
    """Messages, docstrings and names of modules: no tests of those here."""
    if isinstance(node, ast.Expr):
        if isinstance(node.value, ast.Constant):
            return True
        called = getattr(node.value, "func", None)
        return getattr(called, "attr", getattr(called, "id", "")) == "warn"
    return isinstance(node, (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom))


def children(node):
    """(field, index or None, child), type annotations left out."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "type_comment"):
            continue
        if isinstance(value, ast.AST):
            yield field, None, value
        elif isinstance(value, list):
            for index, child in enumerate(value):
                if isinstance(child, ast.AST):
                    yield field, index, child


def sites(node, statement=None):
    """(parent, field, index or None, node, statement it stands in) of all that may be changed."""
    for field, index, child in children(node):
        if is_words(child):
            continue
        inside = child if isinstance(child, ast.stmt) else statement
        yield node, field, index, child, inside
        yield from sites(child, inside)


def lines_of(node, statement):
    """First and last line, one of which a test must pass."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return statement.body[0].lineno, statement.end_lineno
    if isinstance(node, ast.stmt) and hasattr(node, "test"):
        return node.test.lineno, node.test.end_lineno
    if hasattr(statement, "body"):
        return node.lineno, node.end_lineno
    return statement.lineno, statement.end_lineno


def place(parent, field, index, node):
    """Put a node where another stands."""
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def one_line(node):
    """The first line of a node's source, short."""
    if isinstance(node, ast.comprehension):
        return "for … in …" + "".join(f" if {ast.unparse(test)}" for test in node.ifs)
    return ast.unparse(node).splitlines()[0][:110]


class Mutant:
    """A file with one change: `new` for `old` at a place of the tree."""

    def __init__(self, file, tree, place, old, statement, operator, new):
        self.file, self.tree, self.place, self.operator = file, tree, place, operator
        self.old, self.new = old, new
        # a comprehension's clause has no line of its own
        at = old if hasattr(old, "lineno") else statement
        self.lines = lines_of(at, statement)
        change = f"{one_line(old)} → {one_line(new)}"
        self.name = f"{file}:{at.lineno}:{at.col_offset} {operator}: {change}"

    def code(self):
        place(*self.place, ast.copy_location(self.new, self.old))
        code = compile(ast.fix_missing_locations(self.tree), str(ROOT / self.file), "exec")
        place(*self.place, self.old)
        return code


def mutants_of(file):
    """All mutants of a file."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    for *place, node, statement in sites(tree):
        for operator, new in variants(node):
            yield Mutant(file, tree, place, node, statement, operator, new)


def sample(mutants, n, random_source):
    """n mutants, in turns from each operator."""
    queues = defaultdict(list)
    for mutant in mutants:
        queues[mutant.operator].append(mutant)
    for queue in queues.values():
        random_source.shuffle(queue)
    chosen = []
    while len(chosen) < n and any(queues.values()):
        ready = [operator for operator in queues if queues[operator]]
        random_source.shuffle(ready)
        chosen += [queues[operator].pop() for operator in ready[: n - len(chosen)]]
    return chosen


# --- exchange of code


def codes(code, found=None):
    """{key: code} of all functions and classes in a module's code."""
    found = {} if found is None else found
    for inner in code.co_consts:
        if isinstance(inner, type(code)):
            key = (inner.co_qualname, inner.co_firstlineno)
            found[(*key, sum(other[:2] == key for other in found))] = inner
            codes(inner, found)
    return found


def exchanged(mutant):
    """[(old code, new code)] of the functions that differ; None where importing differs."""
    old = compile(mutant.tree, str(ROOT / mutant.file), "exec")
    new = mutant.code()
    before, after = codes(old), codes(new)
    if [*before] != [*after] or bare(old) != bare(new):
        return None
    pairs = []
    for key, one in before.items():
        other = after[key]
        is_function = one.co_flags & inspect.CO_NEWLOCALS
        if one.co_freevars != other.co_freevars or (not is_function and bare(one) != bare(other)):
            return None
        if is_function and one != other:
            pairs.append((one, other))
    return pairs


def bare(code):
    """The code of a module's or class's body, its functions left out."""
    constants = [c for c in code.co_consts if not isinstance(c, type(code))]
    return code.co_code, [(type(c), c) for c in constants]


def functions_alive():
    """{identity of code: functions} of the package."""
    found = defaultdict(list)
    for thing in gc.get_objects():
        if type(thing) is type(exchange) and thing.__code__.co_filename.startswith(str(ROOT)):
            found[identity(thing.__code__)].append(thing)
    return found


def exchange(pairs, functions):
    """Give functions the new code; the number of them."""
    n = 0
    for old, new in pairs:
        for function in functions[identity(old)]:
            function.__code__ = new
            n += 1
    return n


def identity(code):
    return code.co_filename, code.co_qualname, tuple(code.co_positions())


class Loader(importlib.machinery.SourceFileLoader):
    """Loads one module from a mutant."""

    def __init__(self, name, mutant):
        super().__init__(name, str(ROOT / mutant.file))
        self.mutant = mutant

    def find_spec(self, name, path=None, target=None):
        if name == self.name:
            return importlib.util.spec_from_loader(name, self)
        return None

    def get_code(self, fullname):
        return self.mutant.code()


# --- tests


def test_files():
    """Test files that import one of the rooms and no higher one, and those of `ALSO`."""
    for path in sorted((ROOT / "tests").glob("test_*.py")):
        imported = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
                inside = [alias.name for alias in node.names]
                imported.add([*node.module.split("."), *inside][1])
        if imported & set(ROOMS) and (path.name in ALSO or not imported & HIGHER):
            yield str(path.relative_to(ROOT))


def pytest_run(files, plugin):
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT), "-m", "not slow"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return pytest.main([*options, *files], plugins=[plugin])


class Recorder:
    """Writes which lines of the rooms each test passes, and how long it takes."""

    def __init__(self):
        self.rooms = tuple(str(ROOT / "sklearn_lhcal" / room) for room in ROOMS)
        self.found, self.lines, self.known = {}, set(), {}

    def trace(self, frame, event, _):
        file = frame.f_code.co_filename
        if file not in self.known:
            self.known[file] = file.startswith(self.rooms)
        if not self.known[file]:
            return None
        self.lines.add((file, frame.f_lineno))
        return self.trace

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.lines, self.passed = set(), True
        start = time.process_time()
        threading.settrace(self.trace)
        sys.settrace(self.trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            if self.passed and self.lines:
                files = defaultdict(list)
                for file, line in sorted(self.lines):
                    files[str(Path(file).relative_to(ROOT))].append(line)
                self.found[item.nodeid] = [time.process_time() - start, files]

    def pytest_runtest_logreport(self, report):
        self.passed = self.passed and report.passed

    def pytest_sessionfinish(self):
        KEPT.mkdir(parents=True, exist_ok=True)
        (KEPT / "map.json").write_text(json.dumps(self.found))


class ToFirstFailure:
    """Runs the given tests in their order and ends the process: 0 passed, 1 failed."""

    def __init__(self, tests):
        self.tests = tests

    def pytest_runtestloop(self, session):
        self.run({item.nodeid: item for item in session.items})

    def run(self, items):
        chosen = [items[test] for test in self.tests if test in items]
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        os._exit(0)

    def pytest_runtest_logreport(self, report):
        if report.failed:
            os._exit(1)

    def pytest_collectreport(self, report):
        if report.failed:
            os._exit(1)


class EachMutant:
    """In place of running the collected tests: forks for each mutant."""

    def __init__(self, work, report):
        self.work, self.report = work, report

    def pytest_runtestloop(self, session):
        items = {item.nodeid: item for item in session.items}
        functions = functions_alive()
        gc.freeze()
        for mutant, tests, pairs in self.work:

            def child(tests=tests, pairs=pairs):
                plugin = ToFirstFailure(tests)
                plugins = session.config.pluginmanager
                plugins.unregister(name="terminalreporter")
                plugins.register(plugin)
                if not exchange(pairs, functions):
                    os._exit(3)
                plugin.run(items)

            self.report(mutant, tests, forked(child, tests))
        return True


seconds_of = {}


def forked(child, tests):
    """What became of a child: "killed", "survived" or "timed out"."""
    seconds = 10 + 4 * sum(seconds_of[test] for test in tests)
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        # should it wait and not compute
        signal.alarm(int(10 * seconds))
        try:
            child()
        finally:
            os._exit(1)
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        ended = os.WTERMSIG(status)
        late = ended in (signal.SIGXCPU, signal.SIGKILL, signal.SIGALRM)
        return "timed out" if late else "killed"
    return {0: "survived", 3: "not exchanged"}.get(os.WEXITSTATUS(status), "killed")


def tests_for(mutant, recorded, most):
    """Tests that pass through a mutant's lines, fastest first, `most` seconds of them."""
    first, last = mutant.lines
    found = []
    for test, (seconds, files) in recorded.items():
        lines = files.get(mutant.file, ())
        if any(first <= line <= last for line in lines):
            found.append((seconds, test))
    if not found and exchanged(mutant) is None:
        found = [(s, test) for test, (s, files) in recorded.items() if mutant.file in files]
    chosen, total = [], 0
    for seconds, test in sorted(found):
        total += seconds
        if chosen and total > most:
            break
        chosen.append(test)
    return chosen


def imported_child(mutant, tests):
    """Import the mutant and run the tests of the files of which most tests pass there."""
    passing = Counter(test.partition("::")[0] for test in tests)
    every = Counter(test.partition("::")[0] for test in seconds_of)
    kept = sorted(passing, key=lambda file: passing[file] / every[file])[-FILES:]

    def child():
        name = mutant.file.removesuffix(".py").replace("/", ".")
        sys.meta_path.insert(0, Loader(name, mutant))
        pytest_run(kept, ToFirstFailure(tests))

    return child


def load_libraries():
    """Before all forks. Failures of hypothesis are not made smaller: that takes long."""
    for library in LIBRARIES.split():
        try:
            importlib.import_module(library)
        except ImportError:
            print("without", library)
    from hypothesis import Phase, settings

    phases = [Phase.explicit, Phase.generate]
    settings.register_profile(
        "mutate", phases=phases, database=None, derandomize=True, deadline=None
    )
    settings.load_profile("mutate")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rooms", nargs="+", default=ROOMS)
    parser.add_argument("--each", type=int, default=10, help="mutants a file")
    parser.add_argument("--all", action="store_true", help="all mutants; this takes hours")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--again", help="a result, whose survivors are tried once more")
    parser.add_argument("--seconds", type=float, default=10, help="of tests, a mutant")
    parser.add_argument("--record", nargs="+", help="tests that are new", default=[])
    parser.add_argument("--list", action="store_true", help="print the mutants and run none")
    return parser.parse_args()


def where_tests_pass(files, fresh):
    """{test: [seconds, {file: lines}]}; some tests afresh, all of them where nothing is known."""
    kept = KEPT / "map.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    fresh = fresh if known else files
    if fresh:
        process = os.fork()
        if process == 0:
            pytest_run(fresh, Recorder())
            os._exit(0)
        os.waitpid(process, 0)
        known |= json.loads(kept.read_text())
        kept.write_text(json.dumps(known))
    return known


def chosen_mutants(options):
    random_source = random.Random(options.seed)  # noqa: S311
    wanted = None
    if options.again:
        wanted = {
            name
            for name, outcome in json.loads(Path(options.again).read_text()).items()
            if outcome not in ("killed", "timed out")
        }
    chosen, n_all = [], 0
    for room in options.rooms:
        for path in sorted((ROOT / "sklearn_lhcal" / room).glob("_[a-z]*.py")):
            mutants = [*mutants_of(str(path.relative_to(ROOT)))]
            n_all += len(mutants)
            if wanted is not None:
                mutants = [mutant for mutant in mutants if mutant.name in wanted]
            elif not options.all:
                mutants = sample(mutants, options.each, random_source)
            chosen += mutants
    return chosen, n_all


def main():
    options = arguments()
    sys.path.insert(0, str(ROOT))
    os.chdir(ROOT)
    chosen, n_all = chosen_mutants(options)
    print(f"{len(chosen)} of {n_all} mutants, seed {options.seed}")
    if options.list:
        print(*(mutant.name for mutant in chosen), sep="\n")
        return
    load_libraries()
    files = [*test_files()]
    recorded = where_tests_pass(files, options.record)
    seconds_of.update({test: seconds for test, (seconds, _) in recorded.items()})

    outcomes = {}

    def report(mutant, tests, outcome):
        outcomes[mutant.name] = outcome
        if outcome != "killed":
            print(f"{outcome} ({len(tests)} tests): {mutant.name}", flush=True)

    exchangeable = []
    for mutant in chosen:
        tests = tests_for(mutant, recorded, options.seconds)
        pairs = exchanged(mutant)
        if not tests:
            report(mutant, tests, "not reached")
        elif pairs is None:
            report(mutant, tests, forked(imported_child(mutant, tests), tests))
        elif pairs:
            exchangeable.append((mutant, tests, pairs))
    pytest_run(files, EachMutant(exchangeable, report))
    name = f"again-{Path(options.again).stem}" if options.again else f"seed-{options.seed}"
    (KEPT / f"{name}.json").write_text(json.dumps(outcomes, indent=1, ensure_ascii=False))
    table = defaultdict(Counter)
    for mutant, outcome in outcomes.items():
        table[mutant.split("/")[1]][outcome] += 1
    for room, counts in table.items():
        print(f"{room:16} {sum(counts.values()):5}", dict(counts))


if __name__ == "__main__":
    main()
