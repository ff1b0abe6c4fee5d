"""Arrays of a run of the reservation engine, and operations on one machine; compiled.

Heartbeats cost nothing: what the scheduler knows of a machine is brought up to date when it, or an
event, touches the machine. Between two touches the machine does not change, so a heartbeat in
between has reported the state of the earlier one.

w the workload and the machines, s the state, o the options of the scheduler.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.common.core.event_heap import EventHeap
from apps.testbed.core.traces import Bools, Floats, Ints

BLOCK: Final = 64  # machines of one entry of the index of `check_all`
BLIND, TRIES, ALL = 0, 1, 2
WAITING, RUNNING, ENDED, NO_MACHINE, TOO_MANY_ATTEMPTS = 0, 1, 2, 3, 4
NONE: Final = -1
FINE: Final = 1 << 20  # steps of a drawn time

# places of `State.counts`
PROBES, EVENTS, EVICTIONS, BUSY, QUEUE_HEAD, QUEUE_TAIL, USED_CPU, REQUESTS = range(8)
# places of `State.clock`
NOW, BIN_FILLED_TO = range(2)


class Tables(NamedTuple):
    """Input of a run: the arrays of `model.Workload` and `model.Machines`."""

    submit_s: Floats
    first_task: Ints
    cpu: Ints
    memory: Ints
    seconds: Floats
    needs: Ints
    machine: Ints
    attributes: Ints
    change_s: Floats
    change_machine: Ints
    change_cpu: Ints
    change_memory: Ints


class Options(NamedTuple):
    """`model.Scheduler`, with the end of the run and the width of the bins of utilisation."""

    algorithm: int
    tries: int
    attempts: int
    heartbeat_s: float
    path_limit: int
    probe_s: float
    network_s: float
    network_spread: float
    until_s: float
    bin_s: float


class State(NamedTuple):
    """State of a run. m machines, b blocks, t tasks, r requests (jobs, then removed machines).

    Attributes
    ----------
    capacity_cpu, capacity_memory : (m,) 0 for a machine that is not there
    free_cpu, free_memory : (m,) free resources; negative if not there, or overcommitted
    seen_cpu, seen_memory : (m,) the same as the scheduler knows it
    beat, phase : (m,) number of the last heartbeat, and its offset in seconds
    bound_cpu, bound_memory : (b,) at least what a machine of the block has free or seems to have
    bound_attributes : (b,) attribute kinds of any machine of the block
    state, attempts : (t,) state code, rejections
    chosen, ran_on : (t,) machine of the last decision, and of the last start
    started_s, ended_s : (t,)
    next_pending : (t,) next task of the same request without a machine
    pending : (r,) first task without a machine
    queue : (r,) requests that wait for a path
    decided_s : (r,) time of the last reply
    before, after, first_on : (t,), (t,), (m,) lists of the tasks that run on each machine
    is_queued : (t,) whether `ends` holds an event of the task
    ends, messages : ends of tasks; decisions on their way to machines, and replies
    counts, clock : totals and times, by the places named above
    busy_bins : (u,) core-seconds in use during each bin
    chance : (1,) state of the random generator
    """

    capacity_cpu: Ints
    capacity_memory: Ints
    free_cpu: Ints
    free_memory: Ints
    seen_cpu: Ints
    seen_memory: Ints
    beat: Ints
    phase: Floats
    bound_cpu: Ints
    bound_memory: Ints
    bound_attributes: Ints
    state: Ints
    chosen: Ints
    ran_on: Ints
    attempts: Ints
    started_s: Floats
    ended_s: Floats
    next_pending: Ints
    pending: Ints
    queue: Ints
    decided_s: Floats
    before: Ints
    after: Ints
    first_on: Ints
    is_queued: Bools
    ends: EventHeap
    messages: EventHeap
    counts: Ints
    clock: Floats
    busy_bins: Floats
    chance: "np.ndarray[Any, np.dtype[np.uint64]]"


@jit(makes_arrays=False)
def fits(w: Tables, task: int, cpu: int, memory: int, attributes: int) -> Any:
    """Whether a task fits into these resources of a machine with these attributes."""
    return (
        w.cpu[task] <= cpu
        and w.memory[task] <= memory
        and (w.needs[task] & attributes) == w.needs[task]
    )


@jit(makes_arrays=False)
def apply_heartbeat(s: State, o: Options, machine: int) -> None:
    """Update what the scheduler knows of a machine to its last heartbeat."""
    beat = int((s.clock[NOW] + s.phase[machine]) / o.heartbeat_s)
    if beat != s.beat[machine]:
        s.beat[machine] = beat
        s.seen_cpu[machine] = s.free_cpu[machine]
        s.seen_memory[machine] = s.free_memory[machine]


@jit(makes_arrays=False)
def raise_bounds(s: State, machine: int) -> None:
    """Let the bounds of a block cover what a machine has free now."""
    block = machine // BLOCK
    s.bound_cpu[block] = max(s.bound_cpu[block], s.free_cpu[machine])
    s.bound_memory[block] = max(s.bound_memory[block], s.free_memory[machine])


@jit(makes_arrays=False)
def use_cpu(s: State, o: Options, cpu: int) -> None:
    """Add to the cores in use, and fill the bins of utilisation up to now."""
    fill_bins(s, o, s.clock[NOW])
    s.counts[USED_CPU] += cpu


@jit(makes_arrays=False)
def fill_bins(s: State, o: Options, until: float) -> None:
    """Add the core-seconds since the last change; nothing after the last bin."""
    until = min(until, s.busy_bins.size * o.bin_s)
    while s.clock[BIN_FILLED_TO] < until:
        start = s.clock[BIN_FILLED_TO]
        place = min(int(start / o.bin_s), s.busy_bins.size - 1)
        stop = min(until, (place + 1) * o.bin_s)
        if stop <= start:
            stop = until
        s.busy_bins[place] += s.counts[USED_CPU] * (stop - start)
        s.clock[BIN_FILLED_TO] = stop


@jit(makes_arrays=False)
def draw(s: State, count: int) -> Any:
    """Draw an integer below ``count`` (SplitMix64)."""
    s.chance[0] += np.uint64(0x9E3779B97F4A7C15)
    bits = s.chance[0]
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return np.int64(((bits >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32))


@jit(makes_arrays=False)
def transfer(s: State, o: Options) -> Any:
    """Time of a message; drawn if it varies."""
    if o.network_spread == 0.0:
        return o.network_s
    share = draw(s, FINE) / FINE
    return o.network_s * (1.0 + o.network_spread * (2.0 * share - 1.0))
