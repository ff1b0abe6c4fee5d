"""The model of the reservation engine in plain Python: heartbeats are events, every machine is
looked at in turn, lists are Python lists. Its results are those of the engine, value for value."""

import heapq
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from apps.testbed.core.reservation.model import (
    NOWHERE,
    Algorithm,
    Machines,
    Scheduler,
    Workload,
)

WORD: Final = 2**64
HEARTBEAT, CHANGE, END, MESSAGE, ARRIVAL = range(5)  # the order at the same time


@dataclass
class PlainRun:
    """A run of the model; the fields have the meaning of those of `RunResult`."""

    w: Workload
    m: Machines
    o: Scheduler
    seed: int
    until_s: float = float("inf")
    events: list[tuple[float, int, int]] = field(default_factory=list)
    probes: int = 0
    evictions: int = 0

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        self.phase = rng.uniform(0.0, self.o.heartbeat_s, len(self.m)).tolist()
        self.chance = int(rng.integers(0, 2**63, 1, dtype=np.uint64)[0])
        here = [c > 0 or g > 0 for c, g in zip(self.m.cpu, self.m.memory, strict=True)]
        self.size = [
            (int(c), int(g)) if h else (0, 0)
            for c, g, h in zip(self.m.cpu, self.m.memory, here, strict=True)
        ]
        self.free = [size if h else (-1, -1) for size, h in zip(self.size, here, strict=True)]
        tasks = self.w.tasks
        self.state = ["waiting"] * tasks
        self.started: list[float] = [float("nan")] * tasks
        self.ended: list[float] = [float("nan")] * tasks
        self.machine = [NOWHERE] * tasks
        self.chosen = [NOWHERE] * tasks
        self.rejections = [0] * tasks
        self.pending: dict[int, list[int]] = {}
        self.decided: dict[int, float] = {}
        self.queue: list[int] = []
        self.busy = 0
        self.running: list[list[int]] = [[] for _ in self.free]
        self.requests = self.w.jobs

    def run(self) -> "PlainRun":
        """Process all events."""
        for job in range(self.w.jobs):
            tasks = range(int(self.w.first_task[job]), int(self.w.first_task[job + 1]))
            for task in tasks:
                if self.w.machine[task] != NOWHERE:
                    self.start(task, int(self.w.machine[task]), 0.0)
            self.pending[job] = [task for task in tasks if self.w.machine[task] == NOWHERE]
            self.push(float(self.w.submit_s[job]), ARRIVAL, job)
        self.seen = list(self.free)
        for place, at in enumerate(self.m.change_s.tolist()):
            self.push(at, CHANGE, place)
        for machine, phase in enumerate(self.phase):
            self.push(self.o.heartbeat_s - phase, HEARTBEAT, machine)
        while any(kind != HEARTBEAT for _, kind, _ in self.events):
            now, kind, what = heapq.heappop(self.events)
            if now > self.until_s:
                break
            [self.heartbeat, self.change, self.end, self.message, self.arrive][kind](what, now)
        return self

    def push(self, at: float, kind: int, what: int) -> None:
        heapq.heappush(self.events, (at, kind, what))

    def heartbeat(self, machine: int, now: float) -> None:
        self.seen[machine] = self.free[machine]
        self.push(now + self.o.heartbeat_s, HEARTBEAT, machine)

    def arrive(self, job: int, now: float) -> None:
        if self.pending[job]:
            self.request(job, now)

    def request(self, request: int, now: float) -> None:
        if self.o.path_limit and self.busy >= self.o.path_limit:
            self.queue.append(request)
            return
        self.busy += 1
        self.decide(request, now)

    def decide(self, request: int, now: float) -> None:
        before, kept = self.probes, []
        for task in self.pending[request]:
            machine = self.choose(task)
            if machine is None:
                self.state[task] = "no machine seen with room"
                continue
            self.chosen[task] = machine
            self.seen[machine] = self.less(self.seen[machine], task)
            kept.append(task)
        self.pending[request] = kept
        ready = now + (self.probes - before) * self.o.probe_s
        if kept:
            self.push(ready + self.transfer(), MESSAGE, 2 * request)
        else:
            self.push(ready, MESSAGE, 2 * request + 1)

    def message(self, what: int, now: float) -> None:
        request = what // 2
        if what % 2:
            self.reply(request, now)
            return
        rejected = []
        for task in self.pending[request]:
            machine = self.chosen[task]
            if self.fits(task, machine, self.free[machine]):
                self.start(task, machine, now)
                continue
            self.rejections[task] += 1
            if self.rejections[task] >= self.o.attempts:
                self.state[task] = "rejected too often"
            else:
                rejected.append(task)
        self.pending[request] = rejected
        self.push(now + self.transfer(), MESSAGE, 2 * request + 1)

    def reply(self, request: int, now: float) -> None:
        if self.pending[request]:
            self.decide(request, now)
            return
        self.decided[request] = now
        self.busy -= 1
        if self.queue:
            self.busy += 1
            self.decide(self.queue.pop(0), now)

    def choose(self, task: int) -> int | None:
        machines = len(self.free)
        if self.o.algorithm is Algorithm.RANDOM_BLIND:
            self.probes += 1
            return self.draw(machines)
        if self.o.algorithm is Algorithm.TEN_TRIES:
            looked = (self.draw(machines) for _ in range(self.o.tries))
        else:
            start = self.draw(machines)
            looked = ((start + step) % machines for step in range(machines))
        for machine in looked:
            self.probes += 1
            if self.fits(task, machine, self.seen[machine]):
                return machine
        return None

    def fits(self, task: int, machine: int, room: tuple[int, int]) -> bool:
        needs = int(self.w.needs[task])
        return (
            self.w.cpu[task] <= room[0]
            and self.w.memory[task] <= room[1]
            and int(self.m.attributes[machine]) & needs == needs
        )

    def less(self, room: tuple[int, int], task: int) -> tuple[int, int]:
        return (room[0] - int(self.w.cpu[task]), room[1] - int(self.w.memory[task]))

    def start(self, task: int, machine: int, now: float) -> None:
        self.state[task] = "running"
        self.machine[task] = machine
        self.started[task] = now
        self.free[machine] = self.less(self.free[machine], task)
        self.running[machine].insert(0, task)
        if self.w.seconds[task] < float("inf"):
            self.ended[task] = now + float(self.w.seconds[task])
            self.push(self.ended[task], END, task)

    def end(self, task: int, now: float) -> None:
        if self.state[task] != "running" or self.ended[task] != now:
            return
        machine = self.machine[task]
        self.state[task] = "ended"
        cpu, memory = self.free[machine]
        self.free[machine] = (cpu + int(self.w.cpu[task]), memory + int(self.w.memory[task]))
        self.running[machine].remove(task)

    def change(self, place: int, now: float) -> None:
        machine = int(self.m.change_machine[place])
        new = (int(self.m.change_cpu[place]), int(self.m.change_memory[place]))
        old = self.size[machine]
        self.size[machine] = new
        if max(old) > 0 and max(new) == 0:
            self.remove(machine, now)
        elif max(new) > 0 and max(old) == 0:
            self.free[machine] = self.seen[machine] = new
        elif max(new) > 0:
            cpu, memory = self.free[machine]
            self.free[machine] = (cpu + new[0] - old[0], memory + new[1] - old[1])

    def remove(self, machine: int, now: float) -> None:
        self.free[machine] = self.seen[machine] = (-1, -1)
        evicted, self.running[machine] = self.running[machine], []
        if not evicted:
            return
        for task in evicted:
            self.evictions += 1
            self.state[task], self.ended[task] = "waiting", float("nan")
        request, self.requests = self.requests, self.requests + 1
        self.pending[request] = evicted
        self.request(request, now)

    def transfer(self) -> float:
        if not self.o.network_spread:
            return self.o.network_s
        share = self.draw(2**20) / 2**20
        return self.o.network_s * (1.0 + self.o.network_spread * (2.0 * share - 1.0))

    def draw(self, count: int) -> int:
        """SplitMix64."""
        self.chance = (self.chance + 0x9E3779B97F4A7C15) % WORD
        bits = self.chance
        bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) % WORD
        bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) % WORD
        bits ^= bits >> 31
        return ((bits >> 32) * count) >> 32


def outcome(run: PlainRun) -> dict[str, Any]:
    """What a test compares."""
    return {
        "state": run.state,
        "ran_on": run.machine,
        "started_s": run.started,
        "ended_s": run.ended,
        "attempts": run.rejections,
        "probes": run.probes,
        "evictions": run.evictions,
    }
