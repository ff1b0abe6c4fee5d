"""Tables of the engine: arrays with a slot per job or part, which double in size when full."""

from typing import Any, TypeVar

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.emulation.core.event_kernels import (
    EngineState,
    PhaseTable,
    event_queue,
    free_parts,
    phase_table,
    run_table,
)
from apps.emulation.core.events import Machines
from apps.emulation.core.kernels import JobTable, PartTable, ServerTable
from apps.emulation.core.truth import Phases

_Table = TypeVar("_Table", bound=tuple[Any, ...])


def server_table(machines: Machines) -> ServerTable:
    """Table of empty servers; a server never has more parts than units."""
    servers, width = len(machines.units), int(machines.units.max(initial=1))
    return ServerTable(
        units=machines.units.astype(np.int64),
        parts=np.full((servers, width), -1, dtype=np.int64),
        filled=np.zeros(servers, dtype=np.int64),
    )


def job_table(slots: int) -> JobTable:
    """Table of free job slots."""

    def column() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.zeros(slots)

    return JobTable(
        tolerated=np.zeros((slots, N_SOURCES)),
        caused=np.zeros((slots, N_SOURCES)),
        knee=np.ones((slots, N_SOURCES)),
        decay=np.ones((slots, N_SOURCES)),
        plateau=np.zeros((slots, N_SOURCES)),
        floor=column(),
        factor=column(),
        in_step=column(),
        speed=column(),
        done=column(),
        updated_s=column(),
        goal=np.full(slots, np.inf),
        due_s=np.full(slots, np.inf),
        next_s=np.full(slots, np.inf),
        first_part=np.full(slots, -1, dtype=np.int64),
    )


def part_table(slots: int) -> PartTable:
    """Table of free part slots."""

    def free() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.full(slots, -1, dtype=np.int64)

    return PartTable(
        job=free(),
        server=free(),
        units=np.zeros(slots, dtype=np.int64),
        position=free(),
        next_part=free(),
        speed=np.zeros(slots),
        effect=np.ones(slots),
    )


def grown(old: _Table, new: _Table) -> _Table:
    """Fill the first slots of a larger table with those of another, and return it."""
    for column, larger in zip(old, new, strict=True):
        if len(larger) > len(column):
            larger[: len(column)] = column
        else:
            larger[:] = column
    return new


def with_more_parts(state: EngineState) -> EngineState:
    """State with twice the part slots."""
    old, free = state.parts, state.free_parts
    size, unused = len(old.job), free.slots[: free.left[0]]
    more = free_parts(2 * size)
    more.left[0] = size + unused.size
    more.slots[:size] = np.arange(2 * size - 1, size - 1, -1)
    more.slots[size : size + unused.size] = unused
    return state._replace(parts=grown(old, part_table(2 * size)), free_parts=more)


def with_more_jobs(state: EngineState) -> EngineState:
    """State with twice the job slots."""
    size, phases = state.phases.starts.shape
    return state._replace(
        jobs=grown(state.jobs, job_table(2 * size)),
        runs=grown(state.runs, run_table(2 * size)),
        phases=grown(state.phases, phase_table(2 * size, phases, N_SOURCES)),
        queue=grown(state.queue, event_queue(2 * size)),
        marked=np.zeros(2 * size, dtype=np.bool_),
        changed=np.zeros(2 * size, dtype=np.int64),
    )


def with_phases(state: EngineState, slot: int, phases: Phases) -> EngineState:
    """State with the phases of a job, in a wider table if there are more than before."""
    count = len(phases.starts)
    if count > state.phases.starts.shape[1]:
        wider = phase_table(len(state.phases.starts), count, N_SOURCES)
        for column, larger in zip(state.phases, wider, strict=True):
            larger[:, : column.shape[1]] = column
        state = state._replace(phases=PhaseTable(*wider))
    table = state.phases
    table.starts[slot, :count], table.rate[slot, :count] = phases.starts, phases.rate
    table.tolerated[slot, :count], table.caused[slot, :count] = phases.tolerated, phases.caused
    state.runs.phases[slot], state.runs.period_s[slot] = count, phases.period_s
    return state
