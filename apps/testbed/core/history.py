"""Jobs that a Berth cluster ran, as the jobs of a trace."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np

from apps.testbed.core.jobs import BLOCK_BYTES, BLOCK_SECONDS
from apps.testbed.core.trace_jobs import workload_of_table
from apps.testbed.core.trace_workload import TraceWorkload
from apps.testbed.core.traces import TraceError

MIN_SERVICE_S: Final = 1.0
TARGETS: Final = frozenset({"completion_time", "best_effort"})


class PastJob(NamedTuple):
    """What a cluster recorded of a job; times are cluster seconds, None = not reached."""

    id: UUID
    application: str
    kind: str
    submitted_s: float
    started_s: float | None
    finished_s: float | None
    target: Mapping[str, Any]
    input_bytes: int
    tasks: int
    duration_s: float | None
    units_requested: int | None
    units: int | None
    unit_memory_bytes: int
    unit_network_bps: int
    unit_storage_bytes: int
    priority: int
    gang: bool
    constraints: Mapping[str, Any]


class History(NamedTuple):
    """A trace, and the id of each of its jobs."""

    trace: TraceWorkload
    ids: tuple[UUID, ...]


def trace_of_history(jobs: Sequence[PastJob], *, now_s: float, earlier: int = 0) -> History:
    """Return the jobs in order of submission, the first one at second 0.

    A job with a duration is a service with the units that it was given. A job without input
    has the work of its units times its time; one that never ran has none and is left out. The
    notes of the trace count the jobs with something that a replay does not model.

    Parameters
    ----------
    jobs : in order of submission
    earlier : jobs before these that a limit left out; named in the notes

    Raises
    ------
    TraceError : no job is left.
    """
    works = [_work_s(job, now_s) for job in jobs]
    kept = [(job, work) for job, work in zip(jobs, works, strict=True) if work > 0.0]
    if not kept:
        raise TraceError("history", 0, "no job was submitted in this time")
    first_s = kept[0][0].submitted_s
    columns = {
        "submit_s": [job.submitted_s - first_s for job, _ in kept],
        "work_s": [work for _, work in kept],
        "units": [_units(job) for job, _ in kept],
        "tasks": [0 if job.duration_s else job.tasks for job, _ in kept],
        "seconds": [_seconds(job) for job, _ in kept],
        "wait_s": [
            np.nan if job.started_s is None else job.started_s - job.submitted_s for job, _ in kept
        ],
        "target_s": [_target_s(job) for job, _ in kept],
        "priority": [job.priority for job, _ in kept],
        "unit_memory_bytes": [job.unit_memory_bytes for job, _ in kept],
    }
    trace = workload_of_table(
        "history",
        [job.application for job, _ in kept],
        {job.application: job.kind for job, _ in kept},
        {name: np.array(values, dtype=np.float64) for name, values in columns.items()},
        (*_left_out(len(jobs) - len(kept), earlier), *_ignored([job for job, _ in kept])),
    )
    return History(trace, tuple(job.id for job, _ in kept))


def _left_out(without_work: int, earlier: int) -> Iterator[str]:
    if earlier:
        yield f"{earlier:,} earlier jobs are left out: a scenario holds at most as many as these."
    if without_work:
        yield f"{without_work:,} jobs have no input and never ran; left out."


def _ignored(jobs: Sequence[PastJob]) -> Iterator[str]:
    """Say which parts of the requests a replay does not model, and how many jobs have them."""
    for count, text in (
        (
            sum(any(job.constraints.values()) for job in jobs),
            "constraints, which are not replayed",
        ),
        (
            sum(job.target.get("kind") not in TARGETS for job in jobs),
            "a target for queries or instructions per second, replayed as best effort",
        ),
        (
            sum(bool(job.unit_network_bps or job.unit_storage_bytes) for job in jobs),
            "requests for network or storage, which are not replayed",
        ),
        (sum(not job.gang for job in jobs), "no gang, but start with all their units here"),
    ):
        if count:
            yield f"{count:,} of {len(jobs):,} jobs have {text}."


def _units(job: PastJob) -> int:
    """Units that the user asked for; those of a service were decided for it."""
    asked = job.units_requested or 0
    return asked or (job.units or 1) if job.duration_s else asked


def _work_s(job: PastJob, now_s: float) -> float:
    if job.duration_s:
        return np.inf
    if job.input_bytes:
        return job.input_bytes / BLOCK_BYTES * BLOCK_SECONDS
    if job.started_s is None:
        return 0.0
    until_s = now_s if job.finished_s is None else job.finished_s
    return (job.units or 1) * max(until_s - job.started_s, 0.0)


def _seconds(job: PastJob) -> float:
    if job.duration_s:
        return max(job.duration_s, MIN_SERVICE_S)
    if job.started_s is None or job.finished_s is None:
        return np.nan
    return max(job.finished_s - job.started_s, 0.0)


def _target_s(job: PastJob) -> float:
    seconds = job.target.get("seconds") if job.target.get("kind") == "completion_time" else None
    return float(seconds) if seconds else np.inf
