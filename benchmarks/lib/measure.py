"""Times of two functions in one run, in turn, and the peak memory of one."""

import json
import os
import platform
import sys
import time
import traceback
from statistics import median
from typing import NamedTuple


class Timed(NamedTuple):
    """What a function returns that took its own time: of a training, up to a given loss, say."""

    seconds: float
    result: object


class Turns(NamedTuple):
    """Median seconds of two functions, how often each ran, and what they returned last."""

    ours: float
    peer: float
    runs: int
    results: list


def in_turn(ours, peer, fewest: int = 7, least: float = 1.0, budget: float = 20.0) -> Turns:
    """Times of both, run A B A B …, after one warm-up each.

    There are `fewest` rounds, and more until they took `least` seconds. They end before one that
    would exceed `budget` seconds in all. Where the warm-up leaves no time, it is what counts.
    """
    warm, results = _round(ours, peer)
    spent = sum(warm)
    rounds = []
    while spent + sum(warm) <= budget and (len(rounds) < fewest or spent < least):
        times, results = _round(ours, peer)
        rounds.append(times)
        spent += sum(times)
    first, second = zip(*(rounds or [warm]), strict=True)
    return Turns(median(first), median(second), len(first), results)


def _round(ours, peer):
    """Seconds and results of one run of each."""
    a, b = timed(ours), timed(peer)
    return (a[0], b[0]), [a[1], b[1]]


def clock() -> float:
    """Seconds. Of one thread they are those of the processor, whatever else runs on the machine."""
    if os.environ.get("OMP_NUM_THREADS") == "1":
        return time.process_time()
    return time.perf_counter()


def timed(function):
    """Seconds of a call, and its result."""
    start = clock()
    result = function()
    seconds = clock() - start
    if isinstance(result, Timed):
        return result
    return seconds, result


def in_child(function):
    """What a function returns, which JSON can hold, in a forked process; here where none forks.

    Each child begins with what the parent has imported, and leaves nothing behind.
    """
    if not hasattr(os, "fork"):
        return function()
    end, start = os.pipe()
    child = os.fork()
    if child:
        os.close(start)
        with os.fdopen(end) as pipe:
            found = pipe.read()
        os.waitpid(child, 0)
        if not found:
            raise RuntimeError("A benchmark ended early; its message stands above.")
        return json.loads(found)
    try:
        with os.fdopen(start, "w") as pipe:
            pipe.write(json.dumps(function()))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(0)


def peak_memory(function) -> float | None:
    """MiB by which the peak of a call exceeds what was held before it; None where it is unknown."""
    if not hasattr(os, "fork") or not os.path.exists("/proc/self/status"):
        return None

    def above() -> float:
        before = held("VmRSS")
        function()
        return (held("VmHWM") - before) / 1024

    return in_child(above)


def held(what: str) -> int:
    """A figure of this process, in KiB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(what))


def machine() -> dict:
    """The processor, and how busy it is."""
    name, flags = platform.processor() or platform.machine(), []
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            facts = dict(line.split(":", 1) for line in file.read().split("\n\n")[0].splitlines())
        facts = {key.strip(): value.strip() for key, value in facts.items()}
        number = f"family {facts.get('cpu family', '?')} model {facts.get('model', '?')}"
        name = f"{facts.get('model name', name)}, {number}"
        flags = facts.get("flags", "").split()
    vectors = [flag for flag in ("avx2", "avx512f", "amx_tile") if flag in flags]
    return {
        "processor": name.replace("(R)", "").replace("(TM)", ""),
        "instructions": vectors,
        "cores": os.cpu_count(),
        "load": load(),
    }


def load() -> float | None:
    """Processes that wanted a core in the last minute, on average."""
    if not hasattr(os, "getloadavg"):
        return None
    return round(os.getloadavg()[0], 1)
