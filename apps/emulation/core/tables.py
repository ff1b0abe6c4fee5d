"""Tables of the engine: arrays with a slot per job, part or kind, which double when full."""

from typing import Any, TypeVar

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.emulation.core.event_kernels import EngineState, EventQueue, FreeParts, RunTable
from apps.emulation.core.events import Machines
from apps.emulation.core.kernels import JobTable, KindTable, PartTable, Scratch, ServerTable
from apps.emulation.core.truth import Truth
from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts

_Table = TypeVar("_Table", bound=tuple[Any, ...])


def engine_state(machines: Machines, slots: int, kinds: int) -> EngineState:
    """State of empty servers, with room for so many jobs, parts and kinds."""
    platforms = max((int(p) for p in machines.platform), default=0) + 1
    return EngineState(
        servers=server_table(machines),
        kinds=kind_table(kinds, 1, max(platforms, len(machines.platforms.names))),
        jobs=job_table(slots),
        parts=part_table(slots),
        runs=run_table(slots),
        queue=event_queue(slots),
        free_parts=free_parts(slots),
        free_units=machines.units.astype(np.int64),
        scratch=scratch(slots, len(machines.units)),
    )


def server_table(machines: Machines) -> ServerTable:
    """Table of empty servers; a server never has more parts than units."""
    servers, width = len(machines.units), int(machines.units.max(initial=1))

    def of_parts() -> Shorts:
        return np.zeros((servers, width), dtype=np.int32)

    return ServerTable(
        units=machines.units.astype(np.int64),
        filled=np.zeros(servers, dtype=np.int64),
        parts=np.full((servers, width), -1, dtype=np.int64),
        kinds=of_parts(),
        phases=of_parts(),
        counts=of_parts(),
    )


def kind_table(kinds: int, phases: int, platforms: int) -> KindTable:
    """Table of free kinds with room for a number of phases."""

    def real(*shape: int) -> Floats:
        return np.zeros((kinds, *shape))

    return KindTable(
        phases=np.zeros(kinds, dtype=np.int64),
        period_s=real(),
        floor=real(),
        rack_loss=real(),
        in_step=np.zeros(kinds, dtype=np.bool_),
        up_contention=real(),
        up_coherency=real(),
        out_contention=real(),
        out_coherency=real(),
        platform_speed=real(platforms),
        knee=real(N_SOURCES),
        decay=real(N_SOURCES),
        plateau=real(N_SOURCES),
        starts=real(phases),
        rate=real(phases),
        tolerated=real(phases, N_SOURCES),
        caused=real(phases, N_SOURCES),
    )


def job_table(slots: int) -> JobTable:
    """Table of free job slots."""

    def column() -> Floats:
        return np.zeros(slots)

    return JobTable(
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


def run_table(slots: int) -> RunTable:
    """Table of free job slots."""

    def whole() -> Ints:
        return np.zeros(slots, dtype=np.int64)

    def real() -> Floats:
        return np.zeros(slots)

    return RunTable(
        number=whole(),
        kind=whole(),
        phase=whole(),
        cycle=whole(),
        work_s=real(),
        started_s=real(),
        end_s=real(),
        until_s=real(),
        layout=real(),
        busy=real(),
    )


def event_queue(slots: int) -> EventQueue:
    """Empty queue for a number of job slots."""
    return EventQueue(
        slots=np.zeros(slots, dtype=np.int64),
        place=np.full(slots, -1, dtype=np.int64),
        at=np.full(slots, np.inf),
        kind=np.zeros(slots, dtype=np.int64),
        size=np.zeros(1, dtype=np.int64),
    )


def free_parts(slots: int) -> FreeParts:
    """All part slots, the first one on top."""
    return FreeParts(np.arange(slots - 1, -1, -1), np.array([slots], dtype=np.int64))


def scratch(slots: int, servers: int) -> Scratch:
    """Room for so many job slots and servers."""

    def flags(size: int) -> Bools:
        return np.zeros(size, dtype=np.bool_)

    return Scratch(
        marked=flags(slots),
        changed=np.zeros(slots, dtype=np.int64),
        touched=np.zeros(servers, dtype=np.int64),
        is_touched=flags(servers),
        total=np.zeros(N_SOURCES),
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
    size = len(state.runs.number)
    return state._replace(
        jobs=grown(state.jobs, job_table(2 * size)),
        runs=grown(state.runs, run_table(2 * size)),
        queue=grown(state.queue, event_queue(2 * size)),
        scratch=scratch(2 * size, len(state.free_units)),
    )


def with_more_kinds(state: EngineState) -> EngineState:
    """State with twice the kinds."""
    kinds, platforms = state.kinds.platform_speed.shape
    wider = kind_table(2 * kinds, state.kinds.starts.shape[1], platforms)
    return state._replace(kinds=grown(state.kinds, wider))


def with_kind(state: EngineState, kind: int, truth: Truth) -> EngineState:
    """State with a truth as a kind, in a wider table if it has more phases than any before."""
    count, old = len(truth.phases.starts), state.kinds
    if count > old.starts.shape[1]:
        wider = kind_table(len(old.phases), count, old.platform_speed.shape[1])
        for column, larger in zip(old, wider, strict=True):
            larger[tuple(slice(0, n) for n in column.shape)] = column
        state = state._replace(kinds=wider)
    table, phases, curves = state.kinds, truth.phases, truth.curves
    table.phases[kind], table.period_s[kind] = count, phases.period_s
    table.floor[kind], table.rack_loss[kind] = curves.floor, truth.rack_loss
    table.in_step[kind] = truth.is_in_step
    up, out = truth.scale_up, truth.scale_out
    table.up_contention[kind], table.up_coherency[kind] = up.contention, up.coherency
    table.out_contention[kind], table.out_coherency[kind] = out.contention, out.coherency
    table.platform_speed[kind, : len(truth.platform_speed)] = truth.platform_speed
    table.knee[kind], table.decay[kind] = curves.knee, curves.decay
    table.plateau[kind] = curves.plateau
    table.starts[kind, :count], table.rate[kind, :count] = phases.starts, phases.rate
    table.tolerated[kind, :count], table.caused[kind, :count] = phases.tolerated, phases.caused
    return state
