"""The matrix of models: every calibrator around what people calibrate, against outside oracles.

    python benchmarks/world.py [--splits 5] [--jobs 2] [--only PART_OF_A_NAME] [--again]
                               [--keep FILE.jsonl] [--table FILE.csv]

`tests/world_cases.py` says what the cells are and what they must hold. First 25 models and more ×
8 calibrators × three situations, at 1,000 calibration samples; then, around logistic regression, a
forest and boosting, forms of a model and situations of its data; and a stacked calibrator around
all other classifiers of scikit-learn. FILE.jsonl keeps what was measured; what it holds is not
computed again. ``--again`` measures the cells that failed by numbers on three times as many new
splits, and keeps only faults that these show too. FILE.csv has a line for each model, and
FILE_forms.csv one for each form and situation.
"""

import argparse
import csv
import json
import sys
import time
from pathlib import Path

import torch
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import world_cases as world

N_TEST = 4_000
AROUND = ("logistic regression", "forest", "boosting")


def tasks(only: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """Model, situation and calibrators of each line of the table."""
    every = tuple(world.CALIBRATORS)
    found = [(row, name, every) for row in world.rows() for name in world.SHARES]
    places = (*world.FORMS, "frozen", *world.SITUATIONS)
    found += [(row, name, every) for row in AROUND for name in places]
    found += [(row, "others", ("S",)) for row in world.others()]
    return [task for task in found if only in f"{task[0]}, {task[1]}"]


def measured(row: str, name: str, keys, seed: int) -> list[dict]:
    """All cells of one line in one split."""
    threadpool_limits(1)
    torch.set_num_threads(1)
    began = time.process_time()
    model = (world.rows() | world.others())[row]
    try:
        if name in world.SHARES:
            model = world.of_classes(model, len(world.SHARES[name]))
            at = world.situation(model, name, 1000, N_TEST, seed)
        else:
            at = world.formed(world.of_classes(model, 3), name, seed, N_TEST)
    except (TypeError, ValueError):
        # the model itself refuses the data, as some do where they are sparse
        return []
    lines = []
    for key in keys:
        torch.manual_seed(0)
        cell = world.measured(key, at)
        lines.append({"row": row, "situation": name, "key": key, "seed": seed, **cell._asdict()})
    lines[0]["seconds"] = time.process_time() - began
    return lines


def cells(lines: list[dict]) -> dict:
    """Faults of each cell."""
    splits: dict = {}
    for line in lines:
        cell = world.Cell(line["numbers"], line["faults"])
        splits.setdefault((line["row"], line["situation"], line["key"]), []).append(cell)
    return {at: world.judged(at[2], some, at[1] == "shifted") for at, some in splits.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    kept = []
    if options.keep is not None and options.keep.exists():
        kept = [json.loads(line) for line in options.keep.read_text(encoding="utf-8").splitlines()]
    seeds = range(options.splits)
    wanted = tasks(options.only)
    if options.again:
        seeds = range(options.splits, 4 * options.splits)
        failed: dict = {}
        for (row, name, key), faults in cells(kept).items():
            if any(fault[0] in "bc" for fault in faults):
                failed.setdefault((row, name), []).append(key)
        wanted = [(*at, tuple(keys)) for at, keys in failed.items()]
    have = {(one["row"], one["situation"], one["key"], one["seed"]) for one in kept}
    todo = [
        (*task, seed)
        for seed in seeds
        for task in wanted
        if not all((*task[:2], key, seed) in have for key in task[2])
    ]
    calls = (delayed(measured)(*one) for one in todo)
    for lines in Parallel(options.jobs, return_as="generator_unordered")(calls):
        kept += lines
        if options.keep is not None:
            with options.keep.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
    first = cells([line for line in kept if line["seed"] < options.splits])
    later = cells([line for line in kept if line["seed"] >= options.splits])
    found = {at: faults_that_stay(faults, later.get(at)) for at, faults in first.items()}
    red = {at: faults for at, faults in found.items() if faults}
    print(f"{len(found)} cells, {len(red)} red")
    for (row, name, key), faults in sorted(red.items()):
        print(f"{row}, {name}, {key}: {'; '.join(faults)}")
    spent = sum(line.get("seconds", 0.0) for line in kept)
    print(f"{spent / 60:.0f} minutes of a processor")
    if options.table is not None:
        write_tables(options.table, found)


def faults_that_stay(faults: list[str], later: list[str] | None) -> list[str]:
    """Those of more splits where a cell was measured again; others are as they were."""
    if later is None:
        return faults
    return [fault for fault in faults if fault[0] not in "bc"] + later


def write_tables(path: Path, found: dict) -> None:
    """Models × the three situations; and beside it forms and situations × three models."""
    lines: dict = {}
    for (row, name, key), faults in found.items():
        said = lines.setdefault((row, name), [])
        # the rule and the number, without its letter
        said += [f"{key}: {fault.removeprefix('b: ').removeprefix('c: ')}" for fault in faults]

    def cell(row, name):
        if (row, name) not in lines:
            return "–"
        return "; ".join(lines[row, name]) or "all hold"

    models = [row for row, name in lines if name == "balanced"]
    write(path, ["model", *world.SHARES], models, lambda row, name: cell(row, name))
    forms = list(dict.fromkeys(name for _, name in lines if name not in (*world.SHARES, "others")))
    beside = path.with_name(f"{path.stem}_forms{path.suffix}")
    write(beside, ["around", *AROUND], forms, lambda name, row: cell(row, name))


def write(path: Path, head: list[str], first: list[str], cell) -> None:
    """A line for each name of the first column."""
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(head)
        out.writerows([one, *(cell(one, name) for name in head[1:])] for one in first)


if __name__ == "__main__":
    main()
