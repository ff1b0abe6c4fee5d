"""The model of the reservation engine on a plain heap and on SimPy, for comparison.

Both follow the lazy heartbeats of the engine, which is the fastest form known to us: events for
heartbeats would slow them down further. Jobs are decided without a path limit, by `ten_tries`.
"""

import heapq
from collections.abc import Generator, Iterator
from itertools import cycle
from typing import Any, Final

import numpy as np
import simpy

from apps.testbed.core.reservation.model import Machines, Scheduler, Workload

Process = Generator[simpy.Event, Any, Any]
DRAWS: Final = 1_000_003  # random machines, drawn beforehand: cheaper than one by one


class PlainCluster:
    """Machines in Python lists, and a scheduler that sees them by heartbeats."""

    def __init__(self, workload: Workload, machines: Machines, scheduler: Scheduler) -> None:
        self.first: list[int] = workload.first_task.tolist()
        self.cpu: list[int] = workload.cpu.tolist()
        self.memory: list[int] = workload.memory.tolist()
        self.seconds: list[float] = workload.seconds.tolist()
        self.needs: list[int] = workload.needs.tolist()
        self.submit_s: list[float] = workload.submit_s.tolist()
        self.attributes: list[int] = machines.attributes.tolist()
        self.free_cpu: list[int] = machines.cpu.tolist()
        self.free_memory: list[int] = machines.memory.tolist()
        self.seen_cpu, self.seen_memory = list(self.free_cpu), list(self.free_memory)
        rng, count = np.random.default_rng(1), len(machines)
        self.scheduler = scheduler
        self.beat = [0] * count
        self.phase: list[float] = rng.uniform(0.0, scheduler.heartbeat_s, count).tolist()
        self.draws: Iterator[int] = cycle(rng.integers(0, count, DRAWS).tolist())
        self.attempts = [0] * len(self.cpu)
        self.chosen = [0] * len(self.cpu)
        self.failed = self.events = 0

    def apply_heartbeat(self, machine: int, now: float) -> None:
        """Bring what the scheduler knows of a machine up to its last heartbeat."""
        beat = int((now + self.phase[machine]) / self.scheduler.heartbeat_s)
        if beat != self.beat[machine]:
            self.beat[machine] = beat
            self.seen_cpu[machine] = self.free_cpu[machine]
            self.seen_memory[machine] = self.free_memory[machine]

    def choose(self, task: int, now: float) -> int | None:
        """Look at a few machines for a task; None if none is seen with room."""
        cpu, memory, needs = self.cpu[task], self.memory[task], self.needs[task]
        for _ in range(self.scheduler.tries):
            machine = next(self.draws)
            self.apply_heartbeat(machine, now)
            if (
                cpu <= self.seen_cpu[machine]
                and memory <= self.seen_memory[machine]
                and self.attributes[machine] & needs == needs
            ):
                return machine
        return None

    def decide(self, tasks: list[int], now: float) -> list[int]:
        """Choose machines for tasks; the tasks with a machine."""
        kept = []
        for task in tasks:
            machine = self.choose(task, now)
            if machine is None:
                self.failed += 1
                continue
            self.chosen[task] = machine
            self.seen_cpu[machine] -= self.cpu[task]
            self.seen_memory[machine] -= self.memory[task]
            kept.append(task)
        return kept

    def accept(self, tasks: list[int], now: float) -> tuple[list[int], list[int]]:
        """Let machines accept tasks; those accepted, and those to decide again."""
        accepted, rejected = [], []
        for task in tasks:
            machine = self.chosen[task]
            self.apply_heartbeat(machine, now)
            cpu, memory = self.cpu[task], self.memory[task]
            if cpu <= self.free_cpu[machine] and memory <= self.free_memory[machine]:
                self.free_cpu[machine] -= cpu
                self.free_memory[machine] -= memory
                accepted.append(task)
                continue
            self.attempts[task] += 1
            if self.attempts[task] < self.scheduler.attempts:
                rejected.append(task)
            else:
                self.failed += 1
        return accepted, rejected

    def end(self, task: int, now: float) -> None:
        """Free the resources of a task."""
        machine = self.chosen[task]
        self.apply_heartbeat(machine, now)
        self.free_cpu[machine] += self.cpu[task]
        self.free_memory[machine] += self.memory[task]
        self.events += 1


def run_heapq(cluster: PlainCluster) -> None:
    """Run the model on one heap."""
    network_s = cluster.scheduler.network_s
    heap: list[tuple[float, int, list[int] | int]] = []
    number = 0  # of an entry, so that lists are not compared

    def push(at: float, what: list[int] | int) -> None:
        nonlocal number
        number += 1
        heapq.heappush(heap, (at, number, what))

    jobs = len(cluster.submit_s)
    job = 0
    while heap or job < jobs:
        if job < jobs and (not heap or cluster.submit_s[job] < heap[0][0]):
            tasks = list(range(cluster.first[job], cluster.first[job + 1]))
            now = cluster.submit_s[job]
            cluster.events += len(tasks)
            job += 1
            push(now + network_s, cluster.decide(tasks, now))
            continue
        now, _, what = heapq.heappop(heap)
        if isinstance(what, int):
            cluster.end(what, now)
            continue
        accepted, rejected = cluster.accept(what, now)
        for task in accepted:
            push(now + cluster.seconds[task], task)
        if rejected:
            push(now + 2 * network_s, cluster.decide(rejected, now + network_s))


def run_simpy(cluster: PlainCluster) -> None:
    """Run the model with a SimPy process for each job and each task."""
    environment = simpy.Environment()
    network_s = cluster.scheduler.network_s

    def task_process(task: int) -> Process:
        yield environment.timeout(cluster.seconds[task])
        cluster.end(task, environment.now)

    def job_process(job: int) -> Process:
        tasks = list(range(cluster.first[job], cluster.first[job + 1]))
        cluster.events += len(tasks)
        while tasks:
            tasks = cluster.decide(tasks, environment.now)
            yield environment.timeout(network_s)
            accepted, tasks = cluster.accept(tasks, environment.now)
            for task in accepted:
                environment.process(task_process(task))
            yield environment.timeout(network_s)

    def arrivals() -> Process:
        for job, at in enumerate(cluster.submit_s):
            yield environment.timeout(at - environment.now)
            environment.process(job_process(job))

    environment.process(arrivals())
    environment.run()
