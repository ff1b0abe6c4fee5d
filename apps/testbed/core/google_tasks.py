"""Tasks and machines of the Google 2011 trace for the reservation engine.

Source: clusterdata-2011-2 format document (Reiss, Wilkes, Hellerstein). Task model of the testbed
(Khaneja 2015 §3.1: arrival of the job, cores, memory, run time of each task), K1, K8.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from apps.testbed.core.google import SCHEDULE, SUBMIT, TRACE_START_US
from apps.testbed.core.reservation.model import NOWHERE, SCALE, Machines, Workload
from apps.testbed.core.text_table import Line, number_in, rows_after_header
from apps.testbed.core.traces import Floats, Ints, TraceError

MACHINE_COLUMNS: Final = ("time_us", "machine_id", "event_type", "platform", "cpus", "memory")
ADD, REMOVE, UPDATE = 0, 1, 2
SAME_ARRIVAL_S: Final = 0.01  # 99.9 % of jobs submit all tasks within 3 ms (Khaneja 2015 §3.1)
CONSTRAINED: Final = 1_405_572 / 25_424_731  # share of tasks (Khaneja 2015 table 3.1)
KINDS: Final = 17  # of constraints (the same table)


@dataclass(frozen=True, slots=True, eq=False)
class GoogleTasks:
    """A trace at task level.

    Attributes
    ----------
    workload : each submission of a task is a task; submissions of a job at one time are a job
    machines : as the workload numbers them
    jobs_at_start : jobs of the workload that exist before the trace starts
    notes : what was estimated, one sentence each
    """

    workload: Workload
    machines: Machines
    jobs_at_start: int
    notes: tuple[str, ...]


def read_machine_events(first: Line, rest: Iterator[Line], path: str) -> Floats:
    """Read machine events: the (5, n) columns time (µs), machine, type, cores, memory.

    Raises
    ------
    TraceError : a row is malformed.
    """
    columns = tuple(array("d") for _ in range(5))
    for number, text in rows_after_header(first, rest, header="time_us", separator=","):
        cells = text.split(",")
        if len(cells) != len(MACHINE_COLUMNS):
            expected = ", ".join(MACHINE_COLUMNS)
            raise TraceError(path, number, f"{len(cells)} columns; expected 6: {expected}")
        for values, index in zip(columns, (0, 1, 2, 4, 5), strict=True):
            # a removed machine has no size
            is_empty = not cells[index] and index > 2
            column = MACHINE_COLUMNS[index]
            values.append(0.0 if is_empty else number_in(cells[index], column, path, number))
        if columns[2][-1] not in (ADD, REMOVE, UPDATE):
            raise TraceError(
                path,
                number,
                f"event_type is {cells[2]!r}; expected 0 (ADD), 1 (REMOVE), 2 (UPDATE)",
            )
    return np.array(columns).reshape(5, -1)


def google_tasks(events: Floats, machine_events: Floats, path: str) -> GoogleTasks:
    """Turn task events and machine events into a workload and its machines.

    Seconds count from the start of the trace (time stamp 600 s). A task whose end is not in the
    trace runs for ever. One that was never scheduled runs for the median time.

    Raises
    ------
    TraceError : no task is submitted, or no machine is added.
    """
    ids, machines = _machines(machine_events, path)
    submissions = _submissions(events, path)
    at_start, index = submissions.at_start, _index_of(submissions.machine, ids)
    requests, notes = _requests(submissions)
    order = np.lexsort((submissions.task, submissions.job, submissions.submit_s))
    starts = _first_of_jobs(submissions.job[order], submissions.submit_s[order])
    workload = Workload(
        submit_s=submissions.submit_s[order][starts],
        first_task=np.append(starts, order.size).astype(np.int64),
        cpu=requests[0][order],
        memory=requests[1][order],
        seconds=submissions.seconds[order],
        needs=np.zeros(order.size, dtype=np.int64),
        machine=np.where(at_start, index, NOWHERE)[order],
    )
    early = int(np.count_nonzero(workload.submit_s == 0.0))
    return GoogleTasks(workload, machines, early, (*notes, *submissions.notes))


@dataclass(frozen=True, slots=True, eq=False)
class _Submissions:
    """Columns of the submissions of tasks, one row each."""

    job: Floats
    task: Floats
    submit_s: Floats
    seconds: Floats
    machine: Floats  # NaN if not scheduled
    at_start: "np.ndarray[tuple[int], np.dtype[np.bool_]]"
    cpu: Floats
    memory: Floats
    notes: tuple[str, ...]


def _submissions(events: Floats, path: str) -> _Submissions:
    """Join each SUBMIT with the SCHEDULE and the end that follow it."""
    time_us, kind = events[0], events[3]
    e = events[:, np.lexsort((_rank(kind), time_us, events[2], events[1]))]
    kind = e[3]
    submits = np.flatnonzero(kind == SUBMIT)
    if not submits.size:
        raise TraceError(path, 0, "no task is submitted; expected SUBMIT events")
    owner = np.cumsum(kind == SUBMIT) - 1  # the submission that an event belongs to
    same = owner >= 0
    same &= (e[1] == e[1][submits[owner]]) & (e[2] == e[2][submits[owner]])
    scheduled = _first(owner, same & (kind == SCHEDULE), submits.size)
    ended = _first(owner, same & (kind >= 2) & (kind <= 6), submits.size)
    start_us, end_us = _times(e[0], scheduled), _times(e[0], ended)
    seconds = (end_us - np.maximum(start_us, TRACE_START_US)) / 1e6
    ran = ~np.isnan(start_us)
    median = float(np.median(seconds[ran & ~np.isnan(end_us)])) if ran.any() else 1.0
    filled = np.where(ran, np.where(np.isnan(end_us), np.inf, np.maximum(seconds, 0.0)), median)
    notes = (
        f"{np.count_nonzero(~ran)} submissions were never scheduled; they run for the median"
        f" time, {median:.0f} s.",
        f"{np.count_nonzero(ran & np.isnan(end_us))} tasks do not end within the trace.",
    )
    return _Submissions(
        job=e[1][submits],
        task=e[2][submits],
        submit_s=np.maximum(0.0, (e[0][submits] - TRACE_START_US) / 1e6),
        seconds=filled,
        machine=_times(e[8], scheduled),
        at_start=start_us == 0.0,
        cpu=e[6][submits],
        memory=e[7][submits],
        notes=notes,
    )


def _rank(kind: Floats) -> Ints:
    """Order of events of a task at the same time: an end, then SUBMIT, then SCHEDULE.

    At time 0 there is no end: the trace lists only what exists.
    """
    return np.where(kind == SUBMIT, 1, np.where(kind == SCHEDULE, 2, 0)).astype(np.int64)


def _first(owner: Ints, is_wanted: "np.ndarray[tuple[int], np.dtype[np.bool_]]", n: int) -> Ints:
    """(n,) index of the first wanted event of each submission; -1 if there is none."""
    found = np.full(n, -1, dtype=np.int64)
    places = np.flatnonzero(is_wanted)[::-1]
    found[owner[places]] = places
    return found


def _times(values: Floats, places: Ints) -> Floats:
    return np.where(places >= 0, values[places], np.nan)


def _requests(rows: _Submissions) -> tuple[tuple[Ints, Ints], tuple[str, ...]]:
    """Integer requests; the median of the known ones where the trace omits them."""
    unknown = np.isnan(rows.cpu) | np.isnan(rows.memory)
    columns = []
    for values in (rows.cpu, rows.memory):
        median = np.nanmedian(values) if not np.isnan(values).all() else 0.0
        known = np.where(np.isnan(values), median, values)
        columns.append(np.rint(known * SCALE).astype(np.int64))
    count = int(np.count_nonzero(unknown))
    notes = (f"{count} submissions have no request; they request the median.",) if count else ()
    return (columns[0], columns[1]), notes


def _first_of_jobs(job: Floats, submit_s: Floats) -> Ints:
    """Index of the first submission of each job, of submissions in the order of time and job."""
    is_new = np.ones(job.size, dtype=np.bool_)
    is_new[1:] = (job[1:] != job[:-1]) | (np.diff(submit_s) > SAME_ARRIVAL_S)
    return np.flatnonzero(is_new)


def _machines(events: Floats, path: str) -> tuple[Floats, Machines]:
    """Return the ids of all machines, ascending, and their sizes at the start and later."""
    events = events[:, np.argsort(events[0], kind="stable")]
    if not (events[2] == ADD).any():
        raise TraceError(path, 0, "no machine is added; expected ADD events")
    ids = np.unique(events[1])
    index = np.searchsorted(ids, events[1])
    size = np.where(events[2] == REMOVE, 0.0, events[3:])
    size = np.rint(size * SCALE).astype(np.int64)
    is_early = events[0] <= TRACE_START_US
    cpu, memory = (np.zeros(ids.size, dtype=np.int64) for _ in range(2))
    for place in np.flatnonzero(is_early):
        cpu[index[place]], memory[index[place]] = size[:, place]
    return ids, Machines(
        cpu=cpu,
        memory=memory,
        attributes=np.zeros(ids.size, dtype=np.int64),
        change_s=(events[0][~is_early] - TRACE_START_US) / 1e6,
        change_machine=index[~is_early].astype(np.int64),
        change_cpu=size[0][~is_early],
        change_memory=size[1][~is_early],
    )


def _index_of(machine: Floats, ids: Floats) -> Ints:
    """Place of each machine id; `NOWHERE` for an id without a machine event."""
    place = np.searchsorted(ids, np.nan_to_num(machine, nan=-1.0))
    place = np.minimum(place, ids.size - 1)
    return np.where(ids[place] == machine, place, NOWHERE).astype(np.int64)


def draw_constraints(trace: GoogleTasks, rng: np.random.Generator) -> GoogleTasks:
    """Give jobs constraints as frequent as in the trace, which omits them here (K1).

    5.5 % of the tasks have one of 17 kinds; kind k is drawn with probability ~ 1 / (k + 1) and is
    met by a share of the machines drawn from 0.2 to 0.95. The shares are an assumption.
    """
    workload, machines = trace.workload, trace.machines
    weights = 1.0 / np.arange(1, KINDS + 1)
    kind = rng.choice(KINDS, workload.jobs, p=weights / weights.sum())
    bits = np.where(rng.random(workload.jobs) < CONSTRAINED, 1 << kind, 0).astype(np.int64)
    needs = np.repeat(bits, np.diff(workload.first_task))
    shares = rng.uniform(0.2, 0.95, KINDS)
    has = rng.random((len(machines), KINDS)) < shares
    attributes = (has.astype(np.int64) << np.arange(KINDS)).sum(axis=1)
    return replace(
        trace,
        workload=replace(workload, needs=needs),
        machines=replace(machines, attributes=attributes.astype(np.int64)),
    )


def subset_of_machines(trace: GoogleTasks, count: int, rng: np.random.Generator) -> GoogleTasks:
    """Keep ``count`` machines, drawn at random; what ran on the others is submitted at the start.

    Raises
    ------
    ValueError : more machines than the trace has at the start.
    """
    machines, workload = trace.machines, trace.workload
    here = np.flatnonzero(machines.cpu > 0)
    if not 1 <= count <= here.size:
        raise ValueError(f"count is {count}; expected 1 to {here.size} machines")
    kept = np.sort(rng.choice(here, count, replace=False))
    place = np.full(len(machines), NOWHERE)
    place[kept] = np.arange(count)
    changes = np.flatnonzero(place[machines.change_machine] != NOWHERE)
    return replace(
        trace,
        workload=replace(workload, machine=_moved(workload.machine, place)),
        machines=Machines(
            cpu=machines.cpu[kept],
            memory=machines.memory[kept],
            attributes=machines.attributes[kept],
            change_s=machines.change_s[changes],
            change_machine=place[machines.change_machine[changes]],
            change_cpu=machines.change_cpu[changes],
            change_memory=machines.change_memory[changes],
        ),
    )


def _moved(machine: Ints, place: Ints) -> Ints:
    return np.where(machine == NOWHERE, NOWHERE, place[machine])
