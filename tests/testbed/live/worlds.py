"""Live runs in virtual time: a scheduler, its nodes, and connections in memory."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from apps.execution.backends.emulated_nodes.fleet import Fleet
from apps.execution.core.nodes.agent import Capacity
from apps.testbed.core.reservation.model import NOWHERE, Machines, RunResult, Workload
from apps.testbed.infrastructure.live_nodes import LiveCase, LiveRun, node_rows
from tests.execution.nodes.virtual import MemoryTransport, join, run_virtual


def ints(*values: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def jobs(*rows: tuple[float, list[tuple[int, float]]]) -> Workload:
    """Jobs of (submit time, [(cores, seconds) of each task])."""
    tasks = [task for _, group in rows for task in group]
    return Workload(
        submit_s=np.array([at for at, _ in rows], dtype=np.float64),
        first_task=np.cumsum([0, *(len(group) for _, group in rows)]),
        cpu=ints(*(cpu for cpu, _ in tasks)),
        memory=np.zeros(len(tasks), dtype=np.int64),
        seconds=np.array([seconds for _, seconds in tasks], dtype=np.float64),
        needs=np.zeros(len(tasks), dtype=np.int64),
        machine=np.full(len(tasks), NOWHERE),
    )


def machines(*cores: int) -> Machines:
    return Machines(ints(*cores), ints(*cores), np.zeros(len(cores), dtype=np.int64))


class World:
    """A live run and its emulated nodes."""

    def __init__(self, case: LiveCase) -> None:
        self.run = LiveRun(case)
        self.ends: dict[str, MemoryTransport] = {}
        self.unreachable: set[str] = set()
        sizes = [
            (row["node"], Capacity(row["cpu"], row["memory"], tuple(row["attributes"])))
            for row in node_rows(case.machines)
        ]
        self.fleet = Fleet(sizes, self._connect, np.random.default_rng(1), tick_s=0.0)
        # the same phases as offline: both draw them first
        interval = case.scheduler.heartbeat_s
        phases = np.random.default_rng(case.seed).uniform(0.0, interval, len(sizes))
        for node, phase in zip(self.fleet.nodes, phases.tolist(), strict=True):
            node.first_beat = 1.0 - phase / interval

    async def _connect(self, factory: Callable[[], asyncio.Protocol]) -> None:
        node: Any = factory()
        if node.agent.name in self.unreachable:
            raise OSError("unreachable")
        self.ends[node.agent.name] = join(node, self.run.server.connection())

    def cut(self, name: str) -> None:
        """Let a node crash and never come back."""
        self.unreachable.add(name)
        self.ends[name].close()


async def nothing(_world: World) -> None:
    """Do nothing beside the run."""


def play(case: LiveCase, beside: Callable[[World], Awaitable[None]] = nothing) -> RunResult:
    """Run a case in virtual time; ``beside`` acts meanwhile."""

    async def main() -> RunResult:
        world = World(case)
        connecting = asyncio.ensure_future(world.fleet.start())
        acting = asyncio.ensure_future(beside(world))
        result = await world.run.run()
        await acting
        await connecting
        world.fleet.close()
        await world.run.server.close()
        return result

    return run_virtual(main)
