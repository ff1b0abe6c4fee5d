"""Run a workload on machines under a monolithic scheduler.

Cost: 6 to 10 million events a second on one core; about 150 bytes a task.
"""

from math import ceil, inf, isfinite
from typing import Final

import numpy as np

from apps.common.core.event_heap import empty_heap
from apps.testbed.core.reservation.kernel import place_at_start, simulate
from apps.testbed.core.reservation.model import (
    NOWHERE,
    Algorithm,
    Machines,
    RunResult,
    Scheduler,
    Workload,
    WorkloadError,
)
from apps.testbed.core.reservation.state import (
    EVENTS,
    EVICTIONS,
    NOW,
    PROBES,
    REQUESTS,
    Options,
    State,
    Tables,
    fill_bins,
)
from apps.testbed.core.traces import Floats, Ints

MAX_BINS: Final = 100_000
_BLOCK: Final = 64
_MIN: Final = np.iinfo(np.int64).min // 4


def run_reservation(
    workload: Workload,
    machines: Machines,
    scheduler: Scheduler,
    *,
    seed: int,
    until_s: float = inf,
    bin_s: float = 60.0,
) -> RunResult:
    """Run until every task has ended or was given up, or until ``until_s``.

    Utilisation is recorded until ``until_s``; without it, until the last submission or change.
    The same arguments give the same result on every machine.

    Raises
    ------
    WorkloadError : arrays of different lengths or out of order, or a value out of range.
    """
    check_case(workload, machines)
    if not bin_s > 0.0:
        raise WorkloadError(f"bin_s is {bin_s}; expected more than 0")
    options = make_options(scheduler, until_s, bin_s)
    tables = make_tables(workload, machines)
    state = make_state(tables, machines, _bins(tables, options), scheduler.heartbeat_s, seed)
    place_at_start(tables, state, options)
    simulate(tables, state, options)
    fill_bins(state, options, until_s if isfinite(until_s) else float(state.clock[NOW]))
    return _result(workload, machines, state, options)


def check_case(workload: Workload, machines: Machines) -> None:
    """Check arrays against each other.

    Raises
    ------
    WorkloadError : arrays of different lengths or out of order, or a value out of range.
    """
    tasks = workload.tasks
    for name in ("cpu", "memory", "seconds", "needs", "machine"):
        size = getattr(workload, name).size
        if size != tasks:
            raise WorkloadError(
                f"{name} has {size} entries; expected one for each of {tasks} tasks"
            )
    if workload.first_task.size != workload.jobs + 1:
        raise WorkloadError(
            f"first_task has {workload.first_task.size} entries; expected {workload.jobs + 1}"
        )
    if not len(machines):
        raise WorkloadError("machines is empty; expected at least one machine")
    _check_order("submit_s", workload.submit_s)
    _check_order("change_s", machines.change_s)
    _check_range("cpu", workload.cpu, 0, inf)
    _check_range("memory", workload.memory, 0, inf)
    _check_range("seconds", workload.seconds, 0.0, inf)
    _check_range("machine", workload.machine, NOWHERE, len(machines) - 1)
    _check_range("change_machine", machines.change_machine, 0, len(machines) - 1)


def _check_order(name: str, times: Floats) -> None:
    if times.size and not (np.isfinite(times).all() and times[0] >= 0.0):
        raise WorkloadError(f"{name} starts at {times[0]}; expected finite times from 0 on")
    early = np.flatnonzero(np.diff(times) < 0.0)
    if early.size:
        at = int(early[0]) + 1
        raise WorkloadError(f"{name}[{at}] is {times[at]}; expected at least {times[at - 1]}")


def _check_range(name: str, values: Floats | Ints, low: float, high: float) -> None:
    wrong = np.flatnonzero(~((values >= low) & (values <= high)))
    if wrong.size:
        at = int(wrong[0])
        raise WorkloadError(f"{name}[{at}] is {values[at]}; expected {low} to {high}")


def make_options(scheduler: Scheduler, until_s: float, bin_s: float) -> Options:
    """Return the settings of a run for the kernels."""
    return Options(
        algorithm=list(Algorithm).index(scheduler.algorithm),
        tries=scheduler.tries,
        attempts=scheduler.attempts,
        heartbeat_s=float(scheduler.heartbeat_s),
        path_limit=scheduler.path_limit,
        probe_s=float(scheduler.probe_s),
        network_s=float(scheduler.network_s),
        network_spread=float(scheduler.network_spread),
        until_s=float(until_s),
        bin_s=float(bin_s),
    )


def make_tables(workload: Workload, machines: Machines) -> Tables:
    """Return the input of a run for the kernels; arrays are copied."""
    return Tables(
        submit_s=_floats(workload.submit_s),
        first_task=_ints(workload.first_task),
        cpu=_ints(workload.cpu),
        memory=_ints(workload.memory),
        seconds=_floats(workload.seconds),
        needs=_ints(workload.needs),
        machine=_ints(workload.machine),
        attributes=_ints(machines.attributes),
        change_s=_floats(machines.change_s),
        change_machine=_ints(machines.change_machine),
        change_cpu=_ints(machines.change_cpu),
        change_memory=_ints(machines.change_memory),
    )


def _bins(tables: Tables, options: Options) -> int:
    last = max([0.0, *tables.submit_s[-1:].tolist(), *tables.change_s[-1:].tolist()])
    until_s = options.until_s if isfinite(options.until_s) else last
    return int(min(MAX_BINS, max(1, ceil(until_s / options.bin_s))))


def make_state(
    tables: Tables, machines: Machines, bins: int, heartbeat_s: float, seed: int
) -> State:
    """Return the state before a run: all machines free, none known to the scheduler."""
    rng = np.random.default_rng(seed)
    m, tasks = len(machines), tables.cpu.size
    requests = tables.submit_s.size + tables.change_s.size
    blocks = -(-m // _BLOCK)
    is_there = (machines.cpu > 0) | (machines.memory > 0)
    free = (np.where(is_there, machines.cpu, -1), np.where(is_there, machines.memory, -1))
    counts = np.zeros(8, dtype=np.int64)
    counts[REQUESTS] = tables.submit_s.size
    return State(
        capacity_cpu=_ints(machines.cpu),
        capacity_memory=_ints(machines.memory),
        free_cpu=_ints(free[0]),
        free_memory=_ints(free[1]),
        seen_cpu=np.full(m, _MIN),
        seen_memory=np.full(m, _MIN),
        beat=np.zeros(m, dtype=np.int64),
        phase=rng.uniform(0.0, heartbeat_s, m),
        bound_cpu=np.full(blocks, _MIN),
        bound_memory=np.full(blocks, _MIN),
        bound_attributes=_kinds_of_blocks(tables.attributes, blocks),
        state=np.zeros(tasks, dtype=np.int64),
        chosen=np.full(tasks, NOWHERE),
        ran_on=np.full(tasks, NOWHERE),
        attempts=np.zeros(tasks, dtype=np.int64),
        started_s=np.full(tasks, np.nan),
        ended_s=np.full(tasks, np.nan),
        next_pending=np.full(tasks, NOWHERE),
        pending=np.full(requests, NOWHERE),
        queue=np.full(requests, NOWHERE),
        decided_s=np.full(requests, np.nan),
        before=np.full(tasks, NOWHERE),
        after=np.full(tasks, NOWHERE),
        first_on=np.full(m, NOWHERE),
        is_queued=np.zeros(tasks, dtype=np.bool_),
        ends=empty_heap(tasks),
        messages=empty_heap(requests),
        counts=counts,
        clock=np.zeros(2),
        busy_bins=np.zeros(bins),
        chance=rng.integers(0, 2**63, 1, dtype=np.uint64),
    )


def _kinds_of_blocks(attributes: Ints, blocks: int) -> Ints:
    padded = np.zeros(blocks * _BLOCK, dtype=np.int64)
    padded[: attributes.size] = attributes
    return _ints(np.bitwise_or.reduce(padded.reshape(blocks, _BLOCK), axis=1))


def _result(workload: Workload, machines: Machines, state: State, options: Options) -> RunResult:
    decided = state.decided_s[: workload.jobs]
    cores = max(1, int(machines.cpu.sum()))
    ended = np.where(state.ended_s <= state.clock[NOW], state.ended_s, np.nan)
    return RunResult(
        state=state.state,
        started_s=state.started_s,
        ended_s=ended,
        ran_on=state.ran_on,
        attempts=state.attempts,
        delay_s=decided - workload.submit_s,
        probes=int(state.counts[PROBES]),
        events=int(state.counts[EVENTS]),
        evictions=int(state.counts[EVICTIONS]),
        ended_at_s=float(state.clock[NOW]),
        busy_cpu=state.busy_bins / (cores * options.bin_s),
        bin_s=options.bin_s,
    )


def _ints(values: Ints) -> Ints:
    return np.array(values, dtype=np.int64)


def _floats(values: Floats) -> Floats:
    return np.array(values, dtype=np.float64)
