"""What a live scheduler knows of its machines, and its decisions: the kernels of `reservation`.

The kernels know of machines only what these have reported: here in real heartbeats, which `report`
stores. The offline engine uses `apply_heartbeat` instead; an infinite interval turns it off.
"""

from dataclasses import replace
from math import inf
from typing import Final

import numpy as np

from apps.common.core.compiled import jit
from apps.testbed.core.reservation.choice import take
from apps.testbed.core.reservation.model import Machines, Scheduler, Workload
from apps.testbed.core.reservation.run import make_options, make_state, make_tables
from apps.testbed.core.reservation.state import (
    NONE,
    PROBES,
    Options,
    State,
    Tables,
    raise_bounds,
)
from apps.testbed.core.traces import Ints

_ABSENT: Final = -1  # free resources of a machine without a connection


class Knowledge:
    """Free resources as reported, less the decisions since."""

    def __init__(
        self, workload: Workload, machines: Machines, scheduler: Scheduler, *, seed: int
    ) -> None:
        """Know no machine yet, and compile the kernels."""
        self._tables: Final = make_tables(workload, machines)
        state = make_state(self._tables, machines, 1, scheduler.heartbeat_s, seed)
        # the bounds of `check_all` cover what is known, as nothing else is
        self._state: Final = state._replace(free_cpu=state.seen_cpu, free_memory=state.seen_memory)
        options = make_options(replace(scheduler, network_s=0.0), inf, 1.0)
        self._options: Final = options._replace(heartbeat_s=inf)
        self._reports: dict[int, tuple[int, int]] = {}
        self.decide(np.zeros(0, dtype=np.int64))

    @property
    def probes(self) -> int:
        """Machines examined."""
        return int(self._state.counts[PROBES])

    def report(self, machine: int, cpu: int, memory: int) -> None:
        """Store what a machine has free; it replaces what was known, decisions included."""
        self._reports[machine] = (cpu, memory)

    def forget(self, machine: int) -> None:
        """Store that a machine takes no tasks."""
        self._reports[machine] = (_ABSENT, _ABSENT)

    def decide(self, tasks: Ints) -> Ints:
        """(n,) machines for tasks of one request in turn; -1 for none."""
        if self._reports:
            cpu, memory = zip(*self._reports.values(), strict=True)
            machines = np.fromiter(self._reports, dtype=np.int64)
            _store(self._state, machines, np.array(cpu), np.array(memory))
            self._reports.clear()
        chosen = np.full(tasks.size, NONE)
        _decide(self._tables, self._state, self._options, tasks, chosen)
        return chosen


@jit(makes_arrays=False)
def _store(s: State, machines: Ints, cpu: Ints, memory: Ints) -> None:
    """Replace what is known of machines, and let the bounds cover it."""
    for place in range(machines.size):
        machine = machines[place]
        s.seen_cpu[machine], s.seen_memory[machine] = cpu[place], memory[place]
        raise_bounds(s, machine)


@jit(makes_arrays=False)
def _decide(w: Tables, s: State, o: Options, tasks: Ints, chosen: Ints) -> None:
    """Choose a machine for each task; those found for earlier ones count."""
    failed = NONE
    for place in range(tasks.size):
        chosen[place] = take(w, s, o, tasks[place], failed)
        if chosen[place] == NONE:
            failed = tasks[place]
