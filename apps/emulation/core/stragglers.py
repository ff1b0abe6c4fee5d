"""Tasks of different durations: a job ends when its last task ends. Compiled.

The duration of a task relative to the others of its job is log-normal. A unit that is free takes
the next task (list scheduling). Every task draws from the job's seed and its own number, so the
same job has the same tasks in every process, whatever the number of its units.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from apps.common.core.compiled import jit
from apps.emulation.core.seeds import stable_words
from apps.inventory.core.snapshot import Floats, Ints

EXACT_TASKS: Final = 2_048  # of a job with more, only its last ones differ
EXACT_WAVES: Final = 32
_UNIFORM: Final = 2.0**-53


def task_seed(seed: int, job: object) -> int:
    """Seed of the tasks of one job under a cluster's seed; `job` is shown as text."""
    return stable_words(f"tasks {seed} {job}")[0]


def busy_share(tasks: int, units: int, spread: float, seed: int) -> float:
    """Share of a job's units that its tasks keep busy; see `busy_shares`.

    Raises
    ------
    ValueError : no task or no unit.
    """
    if tasks < 1 or units < 1:
        raise ValueError(f"tasks and units must be at least 1, got {tasks} and {units}")
    one, many = np.array([tasks]), np.array([units])
    return float(busy_shares(one, many, np.array([spread]), np.array([seed]))[0])


def task_durations(tasks: int, spread: float, seed: int) -> Floats:
    """(tasks,) durations of a job's tasks, with a median of 1."""
    drawn: Floats = _durations(tasks, spread, seed)
    return drawn


def busy_shares(tasks: Ints, units: Ints, spread: Floats, seed: Ints) -> Floats:
    """Share of each job's units that its tasks keep busy until the last one ends.

    Parameters
    ----------
    tasks, units : (n,) of each job; 0 tasks = the work divides freely
    spread : (n,) standard deviation of the log duration; 0 = equal tasks, T / (u ceil(T / u))
    seed : (n,) from `task_seed`
    """
    found: Floats = _busy_shares(
        np.asarray(tasks, dtype=np.int64),
        np.asarray(units, dtype=np.int64),
        np.asarray(spread, dtype=np.float64),
        np.asarray(seed, dtype=np.int64),
    )
    return found


def seeds_of(seed: int, jobs: Sequence[object]) -> Ints:
    """(n,) seeds of the tasks of some jobs."""
    return np.array([task_seed(seed, job) for job in jobs], dtype=np.int64)


@jit()
def _busy_shares(tasks: Ints, units: Ints, spread: Floats, seed: Ints) -> Floats:
    shares = np.ones(tasks.size)
    for j in range(tasks.size):
        if tasks[j] < 1 or units[j] < 1:
            continue
        if spread[j] == 0.0:
            shares[j] = tasks[j] / (units[j] * -(-tasks[j] // units[j]))
        else:
            shares[j] = _skewed(tasks[j], units[j], spread[j], seed[j])
    return shares


@jit()
def _durations(tasks: int, spread: float, seed: int) -> Floats:
    drawn = np.empty(tasks)
    for i in range(tasks):
        drawn[i] = _duration(seed, i, spread)
    return drawn


@jit()
def _skewed(tasks: int, units: int, spread: float, seed: int) -> float:
    """Share of the units that skewed tasks keep busy. O(tasks log units), at most 2,048 tasks.

    Before the last waves all units are busy: of a longer job only these are simulated, with as
    many tasks beyond whole waves.
    """
    kept = max(EXACT_TASKS, EXACT_WAVES * units)
    kept = tasks if tasks <= kept else kept - kept % units + tasks % units
    free_s = np.zeros(min(units, kept))  # a heap, the first one is free first
    work, last = 0.0, 0.0
    for i in range(kept):
        duration = _duration(seed, i, spread)
        work += duration
        last = max(last, free_s[0] + duration)
        _replace_first(free_s, free_s[0] + duration)
    idle = units * last - work
    whole = work / kept * tasks
    return whole / (whole + idle)


@jit(makes_arrays=False)
def _replace_first(heap: Floats, value: float) -> None:
    place = 0
    while True:
        child = 2 * place + 1
        if child >= heap.size:
            break
        if child + 1 < heap.size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = value


@jit(makes_arrays=False)
def _duration(seed: int, task: int, spread: float) -> float:
    """Log-normal with median 1, by Box and Muller."""
    first = _uniform(np.uint64(seed), np.uint64(2 * task))
    second = _uniform(np.uint64(seed), np.uint64(2 * task + 1))
    normal = np.sqrt(-2.0 * np.log(1.0 - first)) * np.cos(2.0 * np.pi * second)
    return float(np.exp(spread * normal))


@jit(makes_arrays=False)
def _uniform(seed: np.uint64, number: np.uint64) -> float:
    """Return a number of the stream of a seed, in [0, 1).

    SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), started at a mixed seed: the streams of two
    seeds would overlap otherwise.
    """
    word = _mixed(seed * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(0x9E3779B97F4A7C15))
    word = _mixed(word + (number + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))
    return float(word >> np.uint64(11)) * _UNIFORM


@jit(makes_arrays=False, forceinline=True)
def _mixed(word: np.uint64) -> np.uint64:
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
