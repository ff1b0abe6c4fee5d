"""A monolithic scheduler over live nodes (Khaneja 2015 §4.1-4.5, K4), without a clock or network.

It is the model of `reservation`, with messages instead of modelled times. All times are seconds
since the start of the run.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from apps.testbed.core.live.knowledge import Knowledge
from apps.testbed.core.reservation.model import (
    NOWHERE,
    Machines,
    RunResult,
    Scheduler,
    Workload,
)
from apps.testbed.core.reservation.state import (
    ENDED,
    NO_MACHINE,
    NONE,
    RUNNING,
    TOO_MANY_ATTEMPTS,
    WAITING,
)
from apps.testbed.core.traces import Floats

BINS: Final = 60


class Link(Protocol):
    """How a live scheduler reaches its nodes and its clock."""

    def now_s(self) -> float:
        """Time since the start of the run."""

    def later(self, delay_s: float, act: Callable[..., None], *arguments: Any) -> None:
        """Call a function after a delay, also of 0 s."""

    def launch(self, machine: int, order: str, task: int) -> bool:
        """Send an order; False if the machine has no connection."""


@dataclass(slots=True, eq=False)
class _Request:
    """Tasks that are decided together: those of a job, or those that lost their machine."""

    tasks: list[int]
    job: int = NONE  # whose delay this is
    is_decided: bool = False  # tasks that run at the start: nothing is decided about them
    asked: int = 0  # orders without an answer
    rejected: list[int] = field(default_factory=list)


class LiveScheduler:
    """Decides jobs task by task on what the nodes have reported."""

    def __init__(
        self,
        workload: Workload,
        machines: Machines,
        scheduler: Scheduler,
        link: Link,
        *,
        seed: int,
    ) -> None:
        self._w: Final = workload
        self._m: Final = machines
        self._o: Final = scheduler
        self._link: Final = link
        self._rng: Final = np.random.default_rng(seed)
        self.known: Final = Knowledge(workload, machines, scheduler, seed=seed)
        tasks = workload.tasks
        self.state: Final = np.zeros(tasks, dtype=np.int64)
        self.attempts: Final = np.zeros(tasks, dtype=np.int64)
        self.ran_on: Final = np.full(tasks, NOWHERE)
        self.started_s: Final = np.full(tasks, np.nan)
        self.ended_s: Final = np.full(tasks, np.nan)
        self.decided_s: Final = np.full(workload.jobs, np.nan)
        self.evictions = 0
        self.undecided = 0  # requests
        self.running = 0
        self._asked: dict[str, _Request] = {}
        self._queue: deque[_Request] = deque()
        self._busy = 0
        self._orders = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing is decided, asked or running; submissions may follow."""
        return not self.undecided and not self.running

    def place_at_start(self) -> None:
        """Send the tasks that run at the start to their machines, without a decision."""
        tasks = np.flatnonzero(self._w.machine != NOWHERE).tolist()
        if tasks:
            self.undecided += 1
            self._deliver(_Request(tasks, is_decided=True), self._w.machine[tasks].tolist())

    def submit(self, job: int) -> None:
        """Decide a job that has arrived, or let it wait for a path."""
        first, last = int(self._w.first_task[job]), int(self._w.first_task[job + 1])
        tasks = [task for task in range(first, last) if self._w.machine[task] == NOWHERE]
        if tasks:
            self._request(_Request(tasks, job=job))

    def started(self, order: str) -> None:
        """Store that a machine runs an order; a repeated report changes nothing."""
        request = self._asked.pop(order, None)
        if request is None:
            return
        task, machine = _parts(order)
        self.state[task] = RUNNING
        self.ran_on[task] = machine
        self.started_s[task] = self._link.now_s()
        self.running += np.isfinite(self._w.seconds[task])
        self._answered(request)

    def rejected(self, order: str) -> None:
        """Give a rejected task up, or decide it again once its whole request is answered."""
        request = self._asked.pop(order, None)
        if request is None:
            return
        task, _ = _parts(order)
        self.attempts[task] += 1
        if self.attempts[task] >= self._o.attempts or request.is_decided:
            self.state[task] = TOO_MANY_ATTEMPTS
        else:
            request.rejected.append(task)
        self._answered(request)

    def ended(self, order: str, *, is_finished: bool) -> None:
        """Store the end of an order; a task that did not finish is submitted again."""
        self.started(order)  # in case its start was lost
        task, _ = _parts(order)
        if is_finished:
            self.state[task] = ENDED
            self.ended_s[task] = self._link.now_s()
            self.running -= 1
        else:
            self._evict([task])

    def gone(self, machine: int, ordered: list[str], running: list[str]) -> None:
        """Submit the tasks of a lost machine again; they start from the beginning."""
        self.known.forget(machine)
        for order in ordered:
            self.rejected(order)
        self._evict([_parts(order)[0] for order in running])

    def _evict(self, tasks: list[int]) -> None:
        for task in tasks:
            self.evictions += 1
            self.state[task] = WAITING
            self.running -= np.isfinite(self._w.seconds[task])
        if tasks:
            self._request(_Request(tasks))

    def _request(self, request: _Request) -> None:
        self.undecided += 1
        if self._o.path_limit and self._busy >= self._o.path_limit:
            self._queue.append(request)
            return
        self._busy += 1
        self._decide(request)

    def _decide(self, request: _Request) -> None:
        """Choose machines for all tasks and send the decisions."""
        tasks = np.array(request.tasks)
        chosen = self.known.decide(tasks)
        self.state[tasks[chosen == NONE]] = NO_MACHINE
        request.tasks = tasks[chosen != NONE].tolist()
        if not request.tasks:
            self._link.later(0.0, self._reply, request)
            return
        machines = chosen[chosen != NONE].tolist()
        if self._o.network_s == 0.0:
            self._deliver(request, machines)
        else:
            self._link.later(self._transfer_s(), self._deliver, request, machines)

    def _deliver(self, request: _Request, machines: list[int]) -> None:
        """Send the orders of a request; a machine without a connection rejects."""
        request.asked, request.rejected = len(request.tasks), []
        for task, machine in zip(request.tasks, machines, strict=True):
            self._orders += 1
            order = f"{task}.{machine}.{self._orders}"
            self._asked[order] = request
            if not self._link.launch(machine, order, task):
                self._link.later(0.0, self.rejected, order)

    def _answered(self, request: _Request) -> None:
        request.asked -= 1
        if request.asked:
            return
        if request.is_decided:
            self.undecided -= 1
        else:
            self._link.later(self._transfer_s(), self._reply, request)

    def _reply(self, request: _Request) -> None:
        """Decide rejected tasks again; without any, free the path for the next request."""
        request.tasks, request.rejected = sorted(request.rejected), []
        if request.tasks:
            self._decide(request)
            return
        if request.job != NONE:
            self.decided_s[request.job] = self._link.now_s()
        self.undecided -= 1
        self._busy -= 1
        if self._queue:
            self._busy += 1
            self._decide(self._queue.popleft())

    def _transfer_s(self) -> float:
        """Time that the network holds a message, besides that of the real connection."""
        spread = self._o.network_spread
        share = self._rng.random() if spread else 0.5
        return self._o.network_s * (1.0 + spread * (2.0 * share - 1.0))

    def result(self, until_s: float) -> RunResult:
        """Return what has happened until now."""
        w, bin_s = self._w, max(until_s, 1e-9) / BINS
        return RunResult(
            state=self.state,
            started_s=self.started_s,
            ended_s=self.ended_s,
            ran_on=self.ran_on,
            attempts=self.attempts,
            delay_s=self.decided_s - w.submit_s,
            probes=self.known.probes,
            events=w.tasks + int(np.count_nonzero(self.state == ENDED)),
            evictions=self.evictions,
            ended_at_s=until_s,
            busy_cpu=self._use(bin_s),
            bin_s=bin_s,
        )

    def _use(self, bin_s: float) -> Floats:
        """Mean cores in use during each bin, as a share of all cores."""
        edges = np.arange(BINS + 1) * bin_s
        ran = ~np.isnan(self.started_s)
        start, cpu = self.started_s[ran], self._w.cpu[ran]
        end = np.nan_to_num(self.ended_s[ran], nan=np.inf)
        done = [
            float((cpu * np.clip(np.minimum(edge, end) - start, 0.0, None)).sum())
            for edge in edges
        ]
        return np.diff(done) / (bin_s * max(1, int(self._m.cpu.sum())))


def _parts(order: str) -> tuple[int, int]:
    """Return the task and the machine of an order."""
    task, machine, _ = order.split(".")
    return int(task), int(machine)
