#!/usr/bin/env python3
"""Change the package in one place, a mutant, and see whether a test fails.

Tests and package are loaded once. For each mutant the process forks, the child gives the changed
functions their new code, and runs tests that pass through the changed lines, fastest first, to the
first failure. What a module does while it is imported stays as it is. Where tests
pass, and what became of each mutant, is kept in build/mutation, so that a run goes on where it was
stopped; remove it when the package has changed.
"""

import argparse
import ast
import copy
import gc
import json
import os
import random
import re
import resource
import signal
import sys
import time
from collections import Counter
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import FunctionType

import coverage
import hypothesis
import pytest

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "mutation"
SECONDS, RESULTS = KEPT / "seconds.json", KEPT / "results.txt"
ROOMS = ["metrics", "distributions", "label_histogram", "_utils"]
# Of the utilities: the sums that metrics are made of.
SUMS = ["bins", "kernels/errors", "kernels/smoothing"]
# Tests that go through higher rooms are slow; these of them are about the rooms all the same.
HIGHER = {"calibration", "neural_network", "ensemble", "gaussian_process", "display"}
HIGHER |= {"report", "dask"}
ALSO = ["label_histogram/annotations", "metrics/decision", "metrics/epistemic_scorers"]
ALSO += ["metrics/net_benefit", "project/inputs", "project/names", "utils/costs"]
# displays draw curves of metrics, which are tested with them
ALSO += ["display/gain_curve", "display/gain_curve_raters", "display/policy_curve_raters"]
ALSO += ["display/policy_curve", "display/reliability", "display/referral_curve_raters"]


PYTEST = ["-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT), "-m", "not slow"]
PYTEST += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]

# --- mutants

TABLE = """Lt LtE GtE, LtE Lt Gt, Gt GtE LtE, GtE Gt Lt, Eq NotEq, NotEq Eq, Is IsNot, IsNot Is,
    In NotIn, NotIn In, And Or, Or And, Add Sub, Sub Add, Mult Div, Div Mult, FloorDiv Mult,
    Mod FloorDiv, Pow Mult, BitAnd BitOr, BitOr BitAnd, min max, max min, minimum maximum,
    maximum minimum, argmin argmax, argmax argmin, any all, all any, floor ceil, ceil floor"""
OTHERS = {first: others for first, *others in map(str.split, TABLE.split(","))}


def variants(node):
    """Other nodes in the place of one."""

    def changed(**fields):
        other = copy.copy(node)
        vars(other).update(fields)
        return other

    def others(op):
        return [getattr(ast, name)() for name in OTHERS.get(type(op).__name__, [])]

    match node:
        case ast.Compare(ops=[op]):
            yield from (changed(ops=[other]) for other in others(op))
        case ast.BinOp(left, op):
            yield from (changed(op=other) for other in others(op))
            yield copy.copy(left)
        case ast.AugAssign(op=op) | ast.BoolOp(op=op):
            yield from (changed(op=other) for other in others(op))
        case ast.UnaryOp(ast.USub() | ast.Not() | ast.Invert(), operand):
            yield copy.copy(operand)
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            yield ast.Constant(value + 1)
            if value == 1:
                yield ast.Constant(0)
        case ast.If(test) | ast.IfExp(test) | ast.While(test):
            yield changed(test=ast.UnaryOp(ast.Not(), test))
        case ast.comprehension(ifs=[_, *_]):
            yield changed(ifs=[])
        case ast.Call(keywords=keywords):
            for left_out in keywords:
                # zip(strict=True) says what always holds
                if left_out.arg not in (None, "strict"):
                    yield changed(keywords=[k for k in keywords if k is not left_out])
        case ast.Expr(ast.Call()):
            yield ast.Pass()
        case ast.Name(name) if name in OTHERS:
            yield changed(id=OTHERS[name][0])
        case ast.Attribute(attr=name) if name in OTHERS:
            yield changed(attr=OTHERS[name][0])


def is_words(node):
    """Messages, docstrings and names of modules: no tests of those here."""
    match node:
        case ast.Raise() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(ast.Constant() | ast.Call(ast.Attribute(attr="warn") | ast.Name("warn"))):
            return True
    return False


def mutants_of(file):
    """All mutants of a file."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))

    def below(parent, statement, functions):
        for field, value in ast.iter_fields(parent):
            inside = functions
            if isinstance(parent, ast.FunctionDef) and field == "body":
                inside = (*functions, parent)
            for node in value if isinstance(value, list) else [value]:
                is_type = field in ("annotation", "returns")
                if is_type or not isinstance(node, ast.AST) or is_words(node):
                    continue
                around = node if isinstance(node, ast.stmt) else statement
                for new in variants(node):
                    yield Mutant(file, tree, node, around, inside, new)
                yield from below(node, around, inside)

    return [*below(tree, None, ())]


class Mutant:
    """A file with `new` for `old`, within functions, outermost first."""

    def __init__(self, file, tree, old, statement, functions, new):
        self.file, self.tree, self.old, self.new, self.functions = file, tree, old, new, functions
        # a comprehension's clause has no line of its own
        at = old if hasattr(old, "lineno") else statement
        before, after = (ast.unparse(node).splitlines()[0][:110] for node in (old, new))
        self.name = f"{file}:{at.lineno}:{at.col_offset} {before} → {after}"
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            first, last = statement.body[0], statement
        else:
            whole = at if hasattr(statement, "body") else statement
            first = last = getattr(whole, "test", whole)
        # a test must pass one of them
        self.lines = range(first.lineno, last.end_lineno + 1)

    def code(self):
        """The file, compiled."""
        old, kind, fields = self.old, type(self.old), dict(vars(self.old))
        ast.copy_location(self.new, old)
        old.__class__, old.__dict__ = type(self.new), dict(vars(self.new))
        try:
            return compile(ast.fix_missing_locations(self.tree), str(ROOT / self.file), "exec")
        finally:
            old.__class__, old.__dict__ = kind, fields

    def new_codes(self):
        """{key: code} of the functions that it stands in."""
        heads = [[f.lineno, *(d.lineno for d in f.decorator_list)] for f in self.functions]
        lines = [min(head) for head in heads]
        return {k: code for k, code in codes(self.code()).items() if k[2] in lines}


def files_of(room):
    """The files of a room that are changed."""
    folder = ROOT / "sklearn_lhcal" / room
    if room == "_utils":
        return [folder / f"{name}.py" for name in SUMS]
    return sorted(folder.glob("**/[_a-z]*[a-z].py"))


def chosen_mutants(rooms, each, seed):
    """So many of each room, in random order: a larger choice begins with the smaller one."""
    chosen = []
    for room in rooms:
        files = files_of(room)
        mutants = [m for path in files for m in mutants_of(str(path.relative_to(ROOT)))]
        random.Random(f"{room} {seed}").shuffle(mutants)  # noqa: S311
        print(f"{room}: {min(each, len(mutants))} of {len(mutants)} mutants, seed {seed}")
        chosen += [mutant for mutant in mutants[:each] if mutant.functions]
    return chosen


def key(code):
    return code.co_filename, code.co_qualname, code.co_firstlineno


def codes(code):
    """{key: code} of all functions and classes in a module's code."""
    found = {key(code): code}
    for inner in code.co_consts:
        if isinstance(inner, type(code)):
            found |= codes(inner)
    return found


# --- tests


def test_files():
    """Test files that import one of the rooms and no higher one, and those of `ALSO`."""
    for path in sorted((ROOT / "tests").glob("*/test_*.py")):
        imported = {*re.findall(r"from sklearn_lhcal(?:\.| import )(\w+)", path.read_text("utf-8"))}
        also = f"{path.parent.name}/{path.stem.removeprefix('test_')}" in ALSO
        if imported & {*ROOMS} and (also or not imported & HIGHER):
            yield str(path.relative_to(ROOT))


class Durations(dict):
    """{test: seconds of the process} of those that pass."""

    before = time.process_time()

    def pytest_runtest_logreport(self, report):
        now = time.process_time()
        if report.when == "call" and report.passed:
            self[report.nodeid] = now - self.before
        if report.when == "teardown":
            self.before = now


def record(again):
    """{test: seconds}, and where tests pass, by coverage's contexts: {file: {line: tests}}."""
    options = [*PYTEST, "--cov-append", "--cov-context=test", "--cov-report=", "--cov-config="]
    # folders: of a module's name coverage would import the package, and then forget it
    options += [f"--cov=sklearn_lhcal/{room}" for room in ROOMS]
    noted = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
    for file in test_files():
        if file in noted and file not in again:
            continue
        process = os.fork()
        if process == 0:
            noted[file] = Durations()
            pytest.main([*options, file], plugins=[noted[file]])
            SECONDS.write_text(json.dumps(noted))
            os._exit(0)
        os.waitpid(process, 0)
        noted = json.loads(SECONDS.read_text())
    data, by_line = coverage.CoverageData(os.environ["COVERAGE_FILE"]), {}
    data.read()
    for file in data.measured_files():
        lines = data.contexts_by_lineno(file).items()
        tests = {line: {c.rpartition("|")[0] for c in contexts} for line, contexts in lines}
        by_line[str(Path(file).relative_to(ROOT))] = tests
    return {test: s for tests in noted.values() for test, s in tests.items()}, by_line


def tests_for(mutant, seconds, by_line, most):
    """Tests that pass through a mutant's lines, fastest first, `most` seconds of them."""
    lines = by_line.get(mutant.file, {})
    found = set().union(*(lines.get(line, ()) for line in mutant.lines))
    ordered = sorted(found & seconds.keys(), key=lambda test: (seconds[test], test))
    total = [*accumulate(seconds[test] for test in ordered)]
    return [test for test, s in zip(ordered, total, strict=True) if s <= max(most, total[0])]


# --- runs


class ToFirstFailure:
    """Ends the process with 1 where a test fails."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, call):
        # before a report is written, which takes longer than most tests
        if call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception):
            os._exit(1)


def exchange_and_run(new, functions, tests, session):
    """Give functions their new code, run tests, and end the process: 0 where all of them pass."""
    exchanged = False
    for function in functions:
        code = new.get(key(function.__code__))
        if code is not None and code.co_freevars == function.__code__.co_freevars:
            function.__code__, exchanged = code, True
    if not exchanged:
        os._exit(3)
    session.config.pluginmanager.unregister(name="terminalreporter")
    session.config.pluginmanager.register(ToFirstFailure())
    items = {item.nodeid: item for item in session.items}
    chosen = [items[test] for test in tests if test in items]
    for item, following in zip(chosen, [*chosen[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    os._exit(0)


class EachMutant:
    """In place of running the collected tests: a child for each mutant."""

    def __init__(self, mutants, most, again):
        self.mutants, self.most = mutants, most
        self.seconds, self.by_line = record(again)

    def pytest_runtestloop(self, session):
        alive = [thing for thing in gc.get_objects() if type(thing) is FunctionType]
        functions = [f for f in alive if f.__code__.co_filename.startswith(str(ROOT))]
        gc.freeze()
        for mutant in self.mutants:
            tests = tests_for(mutant, self.seconds, self.by_line, self.most)
            found = "not reached"
            if tests:
                limit = 3 + 4 * sum(self.seconds[test] for test in tests)
                child = partial(exchange_and_run, mutant.new_codes(), functions, tests, session)
                found = outcome(child, int(limit))
            with RESULTS.open("a", encoding="utf-8") as file:
                print(found, mutant.name, sep="\t", file=file)
        return True


def outcome(child, seconds):
    """What becomes of a child that has so many seconds."""
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_DATA, (6 * 2**30, 6 * 2**30))
        # should it wait and not compute
        signal.alarm(10 * seconds)
        try:
            child()
        finally:
            os._exit(1)
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        return "timed out"
    return {0: "survived", 3: "not exchanged"}.get(os.WEXITSTATUS(status), "killed")


def results():
    """{name of a mutant: what became of it}, the last word."""
    lines = RESULTS.read_text("utf-8").splitlines()
    return {name: found for found, _, name in (line.partition("\t") for line in lines)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rooms", nargs="+", default=ROOMS)
    parser.add_argument("--each", type=int, default=100, help="mutants a room")
    parser.add_argument("--seed", type=int, default=0, help="of the choice")
    parser.add_argument("--seconds", type=float, default=2, help="of tests, a mutant")
    parser.add_argument("--again", action="store_true", help="those once more that were not killed")
    parser.add_argument("--record", nargs="+", help="files with new tests", default=[])
    options = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    KEPT.mkdir(parents=True, exist_ok=True)
    RESULTS.touch()
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    os.environ["COVERAGE_FILE"] = str(KEPT / "coverage")
    # failures of hypothesis are not made smaller: that takes long
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    quick = {"phases": phases, "database": None, "derandomize": True, "deadline": None}
    hypothesis.settings.register_profile("quick", **quick)
    hypothesis.settings.load_profile("quick")
    chosen = chosen_mutants(options.rooms, options.each, options.seed)
    done = {name for name, found in results().items() if found == "killed" or not options.again}
    left = [mutant for mutant in chosen if mutant.name not in done]
    plugin = EachMutant(left, options.seconds, options.record)
    pytest.main([*PYTEST, "--assert=plain", *test_files()], plugins=[plugin])
    found = results()
    for room in options.rooms:
        names = [mutant.name for mutant in chosen if f"/{room}/" in mutant.file]
        print(f"{room:16} {len(names):5}", dict(Counter(found[name] for name in names)))
    print(*(f"{found[m.name]}: {m.name}" for m in chosen if found[m.name] != "killed"), sep="\n")


if __name__ == "__main__":
    main()
