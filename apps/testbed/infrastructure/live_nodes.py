"""A live run: a scheduler, a node server, and a workload that arrives in wall time."""

import asyncio
import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from apps.common.core.errors import ControlPlaneError
from apps.execution.core.nodes.messages import (
    Ended,
    Heartbeat,
    Outcome,
    Register,
    Rejected,
    Usage,
)
from apps.execution.core.nodes.registry import Terms
from apps.execution.infrastructure.node_server import NodeServer
from apps.testbed.core.live.scheduler import LiveScheduler
from apps.testbed.core.reservation.model import (
    NOWHERE,
    Machines,
    RunResult,
    Scheduler,
    Workload,
)
from apps.testbed.core.reservation.run import check_case
from apps.testbed.core.traces import Bools

LEASE_S: Final = 60.0
CONNECTING_S: Final = 120.0
FILLING_S: Final = 1.0  # for the tasks of the start, and so many of them in a second
FILLED_PER_S: Final = 4000.0


class LiveRunError(ControlPlaneError):
    """A live run that could not take place."""


@dataclass(frozen=True, slots=True)
class LiveCase:
    """What a live run does; all times are wall seconds.

    Attributes
    ----------
    workload, machines : `cases.at_speed`, `cases.fixed`
    until_s : end of the run; earlier if all tasks have ended
    seed : of the scheduler's draws
    """

    workload: Workload
    machines: Machines
    scheduler: Scheduler
    until_s: float
    seed: int = 1


def node_name(machine: int) -> str:
    """Name of the node of a machine."""
    return f"m{machine}"


def node_rows(machines: Machines) -> list[dict[str, Any]]:
    """Return what `emulated_nodes` reads about each machine."""
    return [
        {
            "node": node_name(place),
            "cpu": int(machines.cpu[place]),
            "memory": int(machines.memory[place]),
            "attributes": list(attribute_names(int(machines.attributes[place]))),
        }
        for place in range(len(machines))
    ]


def attribute_names(bits: int) -> tuple[str, ...]:
    """Return the attribute kinds of a word of bits as names."""
    return tuple(f"k{kind}" for kind in range(bits.bit_length()) if bits >> kind & 1)


class LiveRun:
    """The user of a node server and the link of a live scheduler."""

    def __init__(self, case: LiveCase, *, report: Callable[[str], None] | None = None) -> None:
        """Create the server; `server.connection` or `server.listen` lets nodes connect.

        Raises
        ------
        WorkloadError : arrays of different lengths or out of order, or a value out of range.
        """
        check_case(case.workload, case.machines)
        self._case: Final = case
        self._loop: Final = asyncio.get_running_loop()
        terms = Terms(heartbeat_s=case.scheduler.heartbeat_s, lease_s=LEASE_S)
        self.server: Final = NodeServer(self, terms, loop=self._loop, report=report)
        self.scheduler: Final = LiveScheduler(
            case.workload, case.machines, case.scheduler, self, seed=case.seed
        )
        self._place_of: Final = {node_name(n): n for n in range(len(case.machines))}
        self._cpu: Final[list[int]] = case.workload.cpu.tolist()
        self._memory: Final[list[int]] = case.workload.memory.tolist()
        self._seconds: Final = [
            None if np.isinf(value) else value for value in case.workload.seconds.tolist()
        ]
        self._needs: Final = [attribute_names(bits) for bits in case.workload.needs.tolist()]
        self._registered: set[int] = set()
        self._all_registered = asyncio.Event()
        self._due: Final[list[float]] = case.workload.submit_s.tolist()
        self._next_job = 0
        self._start_s = self._loop.time()  # until the run really starts
        self._is_over = asyncio.Event()

    async def run(self, *, connecting_s: float = CONNECTING_S) -> RunResult:
        """Prepare and replay."""
        await self.prepare(connecting_s=connecting_s)
        return await self.replay()

    async def prepare(self, *, connecting_s: float = CONNECTING_S) -> None:
        """Wait for all nodes and start the tasks that run at the start.

        Raises
        ------
        LiveRunError : nodes that do not connect, or do not start the tasks of the start.
        """
        self.server.watch()
        try:
            await asyncio.wait_for(self._all_registered.wait(), connecting_s)
        except TimeoutError:
            missing = len(self._place_of) - len(self._registered)
            raise LiveRunError(
                f"{missing} of {len(self._place_of)} nodes have not registered in"
                f" {connecting_s:g} s"
            ) from None
        await self._fill()

    async def replay(self) -> RunResult:
        """Submit all jobs at their times and return what has happened at the end."""
        gc.collect()
        gc.freeze()  # what exists now stays: later collections need not look at it
        self._start_s = max(self._start_s, self._loop.time())
        self._submit()
        self._loop.call_at(self._start_s + self._case.until_s, self._is_over.set)
        try:
            await self._is_over.wait()
        finally:
            gc.unfreeze()
        return self.scheduler.result(min(self.now_s(), self._case.until_s))

    async def _fill(self) -> None:
        """Start the tasks of the start; their run times count from the start of the run."""
        tasks = int(np.count_nonzero(self._case.workload.machine != NOWHERE))
        if not tasks:
            return
        filling_s = FILLING_S + tasks / FILLED_PER_S
        self._start_s = self._loop.time() + filling_s
        self.scheduler.place_at_start()
        while self.scheduler.undecided:
            if self.now_s() > 0.0:
                raise LiveRunError(
                    f"{tasks:,} tasks of the start did not start in {filling_s:.0f} s"
                )
            await asyncio.sleep(0.05)
        # their real times are before the start of the run
        started = ~np.isnan(self.scheduler.started_s)
        self.scheduler.started_s[started] = 0.0
        self._know_the_start(started)
        await asyncio.sleep(max(0.0, -self.now_s()))  # they were started for this time

    def _know_the_start(self, started: Bools) -> None:
        """Let the scheduler know the tasks of the start, which most heartbeats did not see."""
        workload, machines = self._case.workload, self._case.machines
        free = [
            capacity
            - np.bincount(
                workload.machine[started], weights=sizes[started], minlength=len(machines)
            ).astype(np.int64)
            for capacity, sizes in (
                (machines.cpu, workload.cpu),
                (machines.memory, workload.memory),
            )
        ]
        for machine, (cpu, memory) in enumerate(
            zip(*(part.tolist() for part in free), strict=True)
        ):
            self.scheduler.known.report(machine, cpu, memory)

    def _submit(self) -> None:
        """Submit the jobs that are due, and come back for the next one."""
        due, now_s = self._due, self._loop.time()
        # compared as the loop compares: a difference may round to just below the time due
        while self._next_job < len(due) and self._start_s + due[self._next_job] <= now_s:
            job, self._next_job = self._next_job, self._next_job + 1
            self.scheduler.submit(job)
        if self._next_job < len(due):
            self._loop.call_at(self._start_s + due[self._next_job], self._submit)
        else:
            self._check_end()

    def _check_end(self) -> None:
        if self._next_job == len(self._due) and self.scheduler.is_idle:
            self._is_over.set()

    def now_s(self) -> float:
        """Time since the start of the run."""
        return self._loop.time() - self._start_s

    def later(self, delay_s: float, act: Callable[..., None], *arguments: Any) -> None:
        """Call a function after a delay."""
        self._loop.call_later(delay_s, self._act, act, arguments)

    def _act(self, act: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        act(*arguments)
        self._check_end()

    def launch(self, machine: int, order: str, task: int) -> bool:
        """Send an order to a node."""
        return self.server.launch(
            node_name(machine),
            order,
            self._cpu[task],
            self._memory[task],
            needs=self._needs[task],
            payload={"seconds": self._run_s(task)},
        )

    def _run_s(self, task: int) -> float | None:
        """Seconds from now until a task that starts now ends."""
        seconds = self._seconds[task]
        return None if seconds is None else seconds + max(0.0, -self.now_s())

    def registered(self, message: Register) -> None:
        """Use a node from now on."""
        machine = self._place_of.get(message.node)
        if machine is None:
            return
        self.scheduler.known.report(machine, message.free_cpu, message.free_memory)
        self._registered.add(machine)
        if len(self._registered) == len(self._place_of):
            self._all_registered.set()

    def heard(self, node: str, message: Heartbeat) -> None:
        """Store what a node has free."""
        machine = self._place_of.get(node)
        if machine is not None:
            self.scheduler.known.report(machine, message.free_cpu, message.free_memory)

    def accepted(self, node: str, order: str) -> None:
        """Wait for the start."""

    def started(self, node: str, order: str) -> None:
        """Store a start."""
        self.scheduler.started(order)

    def rejected(self, node: str, message: Rejected) -> None:
        """Decide again or give up."""
        self.scheduler.rejected(message.order)

    def used(self, node: str, message: Usage) -> None:
        """Ignore usage: the model has none."""

    def ended(self, node: str, message: Ended) -> None:
        """Store an end."""
        self.scheduler.ended(message.order, is_finished=message.outcome is Outcome.FINISHED)
        self._check_end()

    def disconnected(self, node: str) -> None:
        """Send the node no more tasks."""
        machine = self._place_of.get(node)
        if machine is not None:
            self.scheduler.known.forget(machine)

    def expired(self, node: str, ordered: list[str], running: list[str]) -> None:
        """Submit the tasks of a lost node again."""
        machine = self._place_of.get(node)
        if machine is not None:
            self.scheduler.gone(machine, ordered, running)
