"""How a monolithic scheduler chooses a machine (Khaneja 2015 §4.5, K4); compiled."""

from typing import Any

from apps.common.core.compiled import jit
from apps.testbed.core.reservation.state import (
    ALL,
    BLIND,
    BLOCK,
    NO_MACHINE,
    NONE,
    PROBES,
    Options,
    State,
    Tables,
    apply_heartbeat,
    draw,
    fits,
)


@jit(makes_arrays=False)
def take(w: Tables, s: State, o: Options, task: int, failed: int) -> Any:
    """Choose a machine for a task, and count the task as running there in what is known.

    ``failed`` is a task for which this round found none, or `NONE`, as is the result.
    """
    machine = choose(w, s, o, task, failed)
    if machine == NONE:
        s.state[task] = NO_MACHINE
    else:
        s.chosen[task] = machine
        s.seen_cpu[machine] -= w.cpu[task]
        s.seen_memory[machine] -= w.memory[task]
    return machine


@jit(makes_arrays=False)
def choose(w: Tables, s: State, o: Options, task: int, failed: int) -> Any:
    """Choose a machine for a task by what the scheduler knows; `NONE` if it finds none.

    ``failed`` is a task for which this round found none, or `NONE`.
    """
    machines = s.free_cpu.size
    if o.algorithm == BLIND:
        s.counts[PROBES] += 1
        return draw(s, machines)
    if o.algorithm == ALL:
        start = draw(s, machines)
        if failed != NONE and _is_harder(w, task, failed):
            s.counts[PROBES] += machines
            return NONE
        return _check_all(w, s, o, task, start)
    for _ in range(o.tries):
        s.counts[PROBES] += 1
        machine = draw(s, machines)
        apply_heartbeat(s, o, machine)
        if fits(w, task, s.seen_cpu[machine], s.seen_memory[machine], w.attributes[machine]):
            return machine
    return NONE


@jit(makes_arrays=False)
def _is_harder(w: Tables, task: int, other: int) -> Any:
    """Whether every machine with room for ``task`` has room for ``other``."""
    return fits(w, other, w.cpu[task], w.memory[task], w.needs[task])


@jit(makes_arrays=False)
def _check_all(w: Tables, s: State, o: Options, task: int, start: int) -> Any:
    """Return the first machine with room, from ``start`` on and around.

    Blocks in which no machine can have room are skipped; the probes count as if they were not.
    """
    machines = s.free_cpu.size
    blocks = s.bound_cpu.size
    first = start // BLOCK
    for step in range(blocks + 1):
        block = (first + step) % blocks
        if not fits(w, task, s.bound_cpu[block], s.bound_memory[block], s.bound_attributes[block]):
            continue
        low, high = block * BLOCK, min(machines, (block + 1) * BLOCK)
        if step == 0:
            low = start
        elif step == blocks:
            high = start
        found = _first_with_room(w, s, o, task, low, high)
        if found != NONE:
            s.counts[PROBES] += (found - start) % machines + 1
            return found
        if high - low == BLOCK:
            _tighten(s, block)
    s.counts[PROBES] += machines
    return NONE


@jit(makes_arrays=False)
def _first_with_room(w: Tables, s: State, o: Options, task: int, low: int, high: int) -> Any:
    """Return the first machine that seems to have room; its last heartbeat may have made it."""
    cpu, memory = w.cpu[task], w.memory[task]
    for machine in range(low, high):
        if cpu > max(s.free_cpu[machine], s.seen_cpu[machine]):
            continue
        if memory > max(s.free_memory[machine], s.seen_memory[machine]):
            continue
        apply_heartbeat(s, o, machine)
        if fits(w, task, s.seen_cpu[machine], s.seen_memory[machine], w.attributes[machine]):
            return machine
    return NONE


@jit(makes_arrays=False)
def _tighten(s: State, block: int) -> None:
    """Recompute the bounds of a full block from its machines."""
    cpu, memory = s.free_cpu[block * BLOCK], s.free_memory[block * BLOCK]
    for machine in range(block * BLOCK, (block + 1) * BLOCK):
        cpu = max(cpu, s.free_cpu[machine], s.seen_cpu[machine])
        memory = max(memory, s.free_memory[machine], s.seen_memory[machine])
    s.bound_cpu[block] = cpu
    s.bound_memory[block] = memory
