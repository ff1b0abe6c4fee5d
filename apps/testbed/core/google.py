"""Parser of the Google 2011 trace: groups task events into jobs.

Source: clusterdata-2011-2 format document (Reiss, Wilkes, Hellerstein). Job model of the
testbed (Khaneja 2015 §3.1: arrival, cpu, memory, duration per task), K1.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from apps.testbed.core.text_table import (
    Line,
    SkippedLines,
    number_in,
    read_columns,
    rows_after_header,
)
from apps.testbed.core.traces import Bools, Floats, GoogleTrace, Ints, TraceError

GOOGLE_COLUMNS: Final = (
    "time_us",
    "missing_info",
    "job_id",
    "task_index",
    "machine_id",
    "event_type",
    "user",
    "scheduling_class",
    "priority",
    "cpu_request",
    "memory_request",
    "disk_request",
    "different_machines",
)
NEEDED: Final = (0, 2, 3, 5, 7, 8, 9, 10, 4)
MAY_BE_EMPTY: Final = frozenset({"cpu_request", "memory_request", "machine_id"})
SUBMIT, SCHEDULE, FINISH = 0, 1, 4
LAST_EVENT_TYPE: Final = 8
TRACE_START_US: Final = 600e6  # time stamp at which recording begins


def parse_google(
    first: Line,
    rest: Iterator[Line],
    path: str,
    name: str,
    skipped: SkippedLines | None = None,
) -> GoogleTrace:
    """Read the jobs submitted during the trace; a note counts those from before (time 0).

    Raises
    ------
    TraceError : a row is malformed and ``skipped`` does not take it, or no job was submitted
        after time 0.
    """
    return _jobs_from(read_task_events(first, rest, path, skipped), path, name)


def read_task_events(
    first: Line, rest: Iterator[Line], path: str, skipped: SkippedLines | None = None
) -> Floats:
    """Read task events: the (9, n) columns of `NEEDED`, NaN for an empty cell.

    Raises
    ------
    TraceError : a row is malformed and ``skipped`` does not take it.
    """

    def cells_of(number: int, text: str) -> list[float]:
        cells = text.split(",")
        if len(cells) != len(GOOGLE_COLUMNS):
            detail = f"{len(cells)} columns; expected 13: {', '.join(GOOGLE_COLUMNS)}"
            raise TraceError(path, number, detail)
        return [_cell(cells[index], GOOGLE_COLUMNS[index], path, number) for index in NEEDED]

    rows = rows_after_header(first, rest, header="time_us", separator=",")
    return read_columns(rows, cells_of, len(NEEDED), skipped or SkippedLines(strict=True))


def _cell(text: str, column: str, path: str, line: int) -> float:
    if not text and column in MAY_BE_EMPTY:
        return float("nan")
    value = number_in(text, column, path, line)
    if column == "event_type" and value not in range(LAST_EVENT_TYPE + 1):
        raise TraceError(path, line, f"event_type is {text!r}; expected 0 (SUBMIT) to 8")
    return value


def _jobs_from(events: Floats, path: str, name: str) -> GoogleTrace:
    """Group (9, n) event columns, in the order of ``NEEDED``, into jobs."""
    late = int(np.count_nonzero(np.diff(events[0]) < 0))
    events = events[:, np.argsort(events[0], kind="stable")]
    time_us, job, task, kind = events[0], events[1], events[2], events[3]
    before = np.unique(job[time_us == 0])
    is_new = ~np.isin(job, before)
    submits = np.flatnonzero(is_new & (kind == SUBMIT))
    if not submits.size:
        raise TraceError(path, 0, "no job is submitted after time 0; expected SUBMIT events")
    jobs, first = np.unique(job[submits], return_index=True)
    at = submits[first]
    submit_s = np.maximum(0.0, (time_us[at] - TRACE_START_US) / 1e6)
    order = np.argsort(submit_s, kind="stable")
    return GoogleTrace(
        name=name,
        job_id=jobs[order].astype(np.int64),
        submit_s=submit_s[order],
        tasks=_tasks(job[submits], task[submits], jobs)[order],
        cpu_request=_mean(job[submits], events[6][submits], jobs)[order],
        memory_request=_mean(job[submits], events[7][submits], jobs)[order],
        task_seconds=_task_seconds(events[:4, is_new], jobs)[order],
        scheduling_class=events[4][at][order].astype(np.int64),
        priority=events[5][at][order].astype(np.int64),
        notes=_notes(late, before.size, _without_submit(job[is_new], kind[is_new])),
    )


def _without_submit(job: Floats, kind: Floats) -> int:
    """Jobs that have events but no SUBMIT."""
    return int(np.setdiff1d(job, job[kind == SUBMIT]).size)


def _notes(late: int, before: int, orphans: int) -> tuple[str, ...]:
    notes = []
    if late:
        notes.append(f"{late} events were out of order; sorted by time.")
    if before:
        notes.append(f"{before} jobs existed before the trace (time 0) and were left out.")
    if orphans:
        notes.append(f"{orphans} jobs have events but no SUBMIT and were left out.")
    return tuple(notes)


def _tasks(job: Floats, task: Floats, jobs: Floats) -> Ints:
    """(n,) distinct task indices submitted by each job."""
    distinct = np.unique(np.stack([job, task]), axis=1)
    return np.bincount(np.searchsorted(jobs, distinct[0]), minlength=jobs.size).astype(np.int64)


def _mean(job: Floats, values: Floats, jobs: Floats) -> Floats:
    """(n,) mean of the known values of each job; NaN if none is known."""
    known = ~np.isnan(values)
    index = np.searchsorted(jobs, job[known])
    count = np.bincount(index, minlength=jobs.size).astype(np.float64)
    total = np.bincount(index, weights=values[known], minlength=jobs.size)
    return np.where(count > 0, total / np.maximum(count, 1.0), np.nan)


def _task_seconds(events: Floats, jobs: Floats) -> Floats:
    """(n,) mean seconds from a task's last SCHEDULE to its FINISH."""
    relevant = events[:, np.isin(events[3], (SCHEDULE, FINISH))]
    time_us, job, task, kind = relevant[:, np.lexsort((relevant[0], relevant[2], relevant[1]))]
    ends: Bools = _same(job, task) & (kind[1:] == FINISH) & (kind[:-1] == SCHEDULE)
    return _mean(job[1:][ends], (np.diff(time_us) / 1e6)[ends], jobs)


def _same(job: Floats, task: Floats) -> NDArray[np.bool_]:
    return (job[1:] == job[:-1]) & (task[1:] == task[:-1])
