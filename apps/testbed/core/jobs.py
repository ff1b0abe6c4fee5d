"""Rules that turn a trace into jobs, described in ``docs/traces.md``.

Source: ClavisMO §4.5 (job mix of the Facebook traces), Khaneja 2015 §3.1 (what a
job of the Google trace is), K1.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from apps.testbed.core.classes import similarity_classes
from apps.testbed.core.traces import Bools, Floats, GoogleTrace, Ints, SwimTrace, Trace

RULE_VERSION: Final = 1  # part of the replay digest: other rules make other jobs
BLOCK_BYTES: Final = 128 * 2**20
BLOCK_SECONDS: Final = 75.0  # nominal time of one block on one unit
START_SECONDS: Final = 30.0  # nominal time from submission to the first block
PARALLELISM: Final = 64  # max units a user expects when setting a target
SLACK: Final = 2.5  # factor on the nominal time that a user tolerates
MAX_SLACK_S: Final = 6 * 3600.0  # limit of the tolerated excess
SHORTEST_TARGET_S: Final = 600.0
NOMINAL_SPEED: Final = 0.6  # of an average platform, relative to the best one
CLASSES: Final = 10
BEST_EFFORT_SHARE: Final = 0.15
UNIT_MEMORY_BYTES: Final = 768 * 2**20
SMALLEST_TASK_CORES: Final = 0.05
SMALLEST_UNIT_MEMORY: Final = 64 * 2**20
LARGEST_MACHINE_CORES: Final = 16  # cores of a request of 1.0 in the Google trace
LARGEST_MACHINE_MEMORY: Final = 32 * 2**30
GOOGLE_FREE_PRIORITY: Final = 1  # highest priority of the "free" band
MAX_TASKS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """One job to submit.

    Attributes
    ----------
    key : unique within the replay; equal for every run of the same trace and options
    submit_s : seconds since the replay began, in cluster time
    spec : body for ``POST /api/v1/jobs/``, short form
    """

    key: str
    submit_s: float
    spec: dict[str, Any]  # JSON


@dataclass(frozen=True, slots=True)
class _Table:
    """Job attributes as (n,) columns, one row per job."""

    classes: Ints
    work_bytes: Ints
    tasks: Ints
    task_seconds: Floats
    best_effort: Bools
    unit_memory: Ints
    priority: Ints
    notes: dict[str, list[Any]]  # annotations by name, JSON values


def jobs_of(trace: Trace, rng: np.random.Generator) -> list[ReplayJob]:
    """Return the jobs of a trace in order of submission; deterministic given the seed."""
    table = _swim_table(trace, rng) if isinstance(trace, SwimTrace) else _google_table(trace, rng)
    name = slug(trace.name)
    return [
        ReplayJob(f"t{index}", float(trace.submit_s[index]), _spec(table, index, name))
        for index in range(len(trace))
    ]


def slug(name: str) -> str:
    """Replace characters not allowed in application names: letters, digits and dashes remain."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()[:80].rstrip("-") or "trace"


def nominal_target_s(tasks: int, task_seconds: float) -> float:
    """Completion time that a user requests: waves of tasks at limited parallelism, plus slack."""
    nominal = START_SECONDS + math.ceil(tasks / PARALLELISM) * task_seconds
    return max(SHORTEST_TARGET_S, min(SLACK * nominal, nominal + MAX_SLACK_S))


def nominal_load(jobs: Sequence[ReplayJob], units: int) -> float:
    """Mean share of a cluster's units that the jobs use over the submission period.

    Uses the nominal seconds of a block at the speed of an average platform; 0 for no jobs.
    """
    if not jobs or units < 1:
        return 0.0
    blocks = sum(job.spec.get("input_bytes", 0) for job in jobs) / BLOCK_BYTES
    span_s = max(jobs[-1].submit_s - jobs[0].submit_s, BLOCK_SECONDS)
    return blocks * BLOCK_SECONDS / NOMINAL_SPEED / span_s / units


def _spec(table: _Table, index: int, trace: str) -> dict[str, Any]:
    tasks = int(table.tasks[index])
    seconds = nominal_target_s(tasks, float(table.task_seconds[index]))
    best_effort = bool(table.best_effort[index])
    return {
        "application": f"{trace}-c{table.classes[index]:02d}",
        "application_kind": "analytics",
        "target": {"kind": "best_effort"}
        if best_effort
        else {"kind": "completion_time", "seconds": round(seconds, 3)},
        "input_bytes": int(table.work_bytes[index]),
        "tasks": tasks,
        "priority": int(table.priority[index]),
        "unit_memory_bytes": int(table.unit_memory[index]),
        "labels": {"trace": trace},
        "annotations": {"trace_index": index}
        | {name: values[index] for name, values in table.notes.items()},
    }


def _swim_table(trace: SwimTrace, rng: np.random.Generator) -> _Table:
    n = len(trace)
    sizes = np.stack([trace.input_bytes, trace.shuffle_bytes, trace.output_bytes], axis=1)
    work = work_bytes(trace)
    return _Table(
        classes=similarity_classes(np.log10(1.0 + sizes), CLASSES, rng),
        work_bytes=work.astype(np.int64),
        tasks=np.minimum(np.ceil(work / BLOCK_BYTES), MAX_TASKS).astype(np.int64),
        task_seconds=np.full(n, BLOCK_SECONDS),
        best_effort=rng.random(n) < BEST_EFFORT_SHARE,
        unit_memory=np.full(n, UNIT_MEMORY_BYTES),
        priority=np.zeros(n, dtype=np.int64),
        notes={"shuffle_bytes": [int(value) for value in trace.shuffle_bytes]},
    )


def work_bytes(trace: SwimTrace) -> Floats:
    """(n,) bytes processed: maps read the input, reduces read the shuffle and write the output.

    Without reduces, the maps write the output. The minimum is one block: starting a task costs
    as much.
    """
    shuffled, written = trace.shuffle_bytes, trace.output_bytes
    with_reduces = trace.input_bytes + np.maximum(shuffled, written)
    map_only = np.maximum(trace.input_bytes, written)
    return np.maximum(np.where(shuffled > 0, with_reduces, map_only), BLOCK_BYTES)


def _google_table(trace: GoogleTrace, rng: np.random.Generator) -> _Table:
    cpu, memory, seconds = (
        _filled(values) for values in (trace.cpu_request, trace.memory_request, trace.task_seconds)
    )
    features = np.log10(np.stack([trace.tasks.astype(np.float64), cpu, memory, seconds], axis=1))
    classes = similarity_classes(features, CLASSES, rng)
    seconds = _median_of_class(trace.task_seconds, classes, fallback=seconds)
    seconds = np.maximum(seconds, 1.0)
    cores = np.clip(cpu * LARGEST_MACHINE_CORES, SMALLEST_TASK_CORES, LARGEST_MACHINE_CORES)
    # One unit processes one nominal block in BLOCK_SECONDS, so core seconds convert to bytes.
    work = trace.tasks * seconds * cores * (BLOCK_BYTES / BLOCK_SECONDS)
    # A unit is one core, so a task of several cores counts as several tasks.
    unit_tasks = trace.tasks * np.ceil(cores).astype(np.int64)
    task_memory = memory * LARGEST_MACHINE_MEMORY
    return _Table(
        classes=classes,
        work_bytes=np.maximum(work, 1.0).astype(np.int64),
        tasks=np.minimum(unit_tasks, MAX_TASKS),
        task_seconds=seconds,
        best_effort=trace.priority <= GOOGLE_FREE_PRIORITY,
        unit_memory=np.clip(task_memory, SMALLEST_UNIT_MEMORY, UNIT_MEMORY_BYTES).astype(np.int64),
        priority=trace.priority,
        notes={
            "task_seconds_known": np.isfinite(trace.task_seconds).tolist(),
            "scheduling_class": trace.scheduling_class.tolist(),
        },
    )


def _filled(values: Floats) -> Floats:
    """(n,) positive: unknown values become the median, zeros the minimum of the known ones."""
    known = values[np.isfinite(values) & (values > 0)]
    if not known.size:
        return np.ones_like(values)
    return np.maximum(np.where(np.isfinite(values), values, np.median(known)), known.min())


def _median_of_class(values: Floats, classes: Ints, *, fallback: Floats) -> Floats:
    """(n,) values, unknown ones replaced by the median of their class or by ``fallback``."""
    filled = np.where(np.isfinite(values), values, fallback)
    for number in np.unique(classes[~np.isfinite(values)]):
        inside = classes == number
        known = values[inside & np.isfinite(values)]
        if known.size:
            filled[inside & ~np.isfinite(values)] = np.median(known)
    return filled
