"""Decisions of a replay: agents take jobs, decide on their copies, and commit."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Shorts, Snapshot
from apps.scheduling.core.admission.types import Applicant
from apps.scheduling.core.cluster.copy import ClusterCopy
from apps.scheduling.core.cluster.in_memory_store import Committed, MemoryCluster
from apps.scheduling.core.sizing.sizes import Infeasible
from apps.scheduling.core.starts.wakes import needs_of
from apps.scheduling.core.types import Placed, Policy, RefusalReason, Refused, Request
from apps.testbed.core.replay.admitting import Admitting
from apps.testbed.core.replay.agents import Agent, SoleAgent
from apps.testbed.core.replay.demand import LazyFacts, Shape, SizedRequest
from apps.testbed.core.replay.model import Admission, ReplayOptions
from apps.testbed.core.replay.waiting import Refusal, WaitingShapes
from apps.workloads.core.shapes import Needs, WaitsFor

if TYPE_CHECKING:
    from apps.testbed.core.replay.loop import ReplayLoop

CONFLICT: Final = "other agents were faster in all attempts"
NO_SERVER: Final = "no platform of the cluster can hold the job"


class _Decided(NamedTuple):
    job: int
    sized: SizedRequest
    placed: Placed


@dataclass(slots=True)
class _Batch:
    """Jobs in the hands of an agent.

    Attributes
    ----------
    keys : shape of each job
    waited : shapes that waited before
    proposals : decisions to commit
    refused : jobs that must wait, with their refusal
    """

    keys: dict[int, Shape]
    waited: set[Shape]
    proposals: list[_Decided] = field(default_factory=list)
    refused: list[tuple[int, Refusal]] = field(default_factory=list)
    attempt: int = 0


class Deciding:
    """The agents of one run, and the jobs that wait for them."""

    def __init__(
        self,
        loop: "ReplayLoop",
        cluster: MemoryCluster,
        policy: Policy,
        policy_seed: np.random.SeedSequence,
        agent_seed: np.random.SeedSequence,
    ) -> None:
        options, rng = loop.options, np.random.default_rng(agent_seed)
        self._loop, self._cluster, self._policy, self._options = loop, cluster, policy, options
        self._rng = np.random.default_rng(policy_seed)
        self._agents = _agents(cluster, options, rng)
        self._pending: dict[int, _Batch] = {}  # by agent, until its `free_s`
        self._turn = 0
        self._released = 0  # change-log number of the last release
        self._new: list[tuple[float, int, Shape]] = []
        self._waiting = WaitingShapes()
        self._line: deque[int] = deque()
        self._at_once = options.batch if options.together else 1  # jobs of the line
        self._blocked: Refusal | None = None  # why the first of the line waits
        self._admitting = Admitting(cluster, options)
        self._timers: list[tuple[float, Shape]] = []  # of shapes that wait at admission

    def arrive(self, job: int) -> None:
        """Take a new job."""
        if self._is_fifo:
            self._line.append(job)
        else:
            key = self._loop.source.shape(job)
            heappush(self._new, (key[0], job, key))

    def release(self, allocation: int, now: float, units: Shorts | None = None) -> None:
        """Free units of a job that ended or migrated; None = all of the allocation."""
        freed = self._cluster.held(allocation) if units is None else units
        self._cluster.release(allocation, units)
        self._admitting.note_freed(freed, now)
        self._released = self._cluster.released
        self._blocked = None

    def open(self, servers: Sequence[int]) -> None:
        """Open repaired servers, whose units waiting jobs may use."""
        self._cluster.set_open(servers, is_open=True)
        self._released = self._cluster.log[-1].sequence
        self._blocked = None

    @property
    def _is_fifo(self) -> bool:
        return self._options.admission is Admission.FIFO

    @property
    def has_waiting(self) -> bool:
        """Whether a job waits that was refused."""
        return bool(len(self._waiting) or self._line)

    def next_s(self) -> float:
        """Time at which an agent commits, or reads of capacity that waiting jobs may use."""
        if not (self._pending or self._line or len(self._waiting)):
            return float("inf")
        times = [self._agents[agent].free_s for agent in self._pending]
        times += [each[0] for each in self._timers[:1]]
        if self._is_blocked_by_old_news:
            times.append(min(agent.read_s for agent in self._agents))
        if len(self._waiting):
            times += [
                max(agent.read_s, agent.free_s)
                for agent in self._agents
                if agent.released < self._released
            ]
        return min(times, default=float("inf"))

    @property
    def _has_jobs(self) -> bool:
        return bool(self._new or self._line or len(self._waiting))

    @property
    def _is_blocked_by_old_news(self) -> bool:
        """Whether the first of the line was refused on a copy without the last release."""
        return self._blocked is not None and self._blocked.sequence < self._released

    def refusals(self) -> dict[int, Refusal]:
        """Last refusal of each waiting job that was evaluated."""
        if self._line and self._blocked is not None:
            return {self._line[0]: self._blocked}
        return self._waiting.reasons()

    def commit(self, now: float) -> None:
        """Commit the decisions that are due."""
        if not self._pending:
            return
        for agent in [a for a in self._pending if self._agents[a].free_s <= now]:
            self._commit(agent, self._pending.pop(agent), now)

    def decide(self, now: float) -> None:
        """Let idle agents take jobs until there are none, or no agent is idle."""
        while self._timers and self._timers[0][0] <= now:
            self._waiting.wake(heappop(self._timers)[1])
        take = self._take_first if self._is_fifo else self._take_shapes
        while len(self._pending) < len(self._agents) and self._has_jobs:
            taken = take(now)
            if taken is None:
                return
            agent, batch = taken
            view = self._agents[agent].copy.snapshot()
            facts, sized = LazyFacts(view), []
            for job in batch.keys:
                found = self._loop.source.request(job, now, facts)
                if not isinstance(found, Infeasible):
                    sized.append((job, found))
                elif self._give_up(batch, job, found, view.sequence) and self._is_fifo:
                    break
            self._attempt(agent, batch, sized, now)

    def _take_first(self, now: float) -> tuple[int, _Batch] | None:
        """Take the first jobs of the line, unless one was refused since the last release."""
        if self._is_blocked_by_old_news and any(a.read_s <= now for a in self._agents):
            self._blocked = None
        if not self._line or self._blocked is not None or self._pending:
            return None
        agent = self._in_turn(range(len(self._agents)))
        self._agents[agent].follow(now)
        count = min(self._at_once, len(self._line))
        return agent, _Batch({self._line.popleft(): () for _ in range(count)}, set())

    def _take_shapes(self, now: float) -> tuple[int, _Batch] | None:
        """Take new jobs, else waiting jobs that freed capacity may let start."""
        idle = [i for i in range(len(self._agents)) if i not in self._pending]
        keys: dict[int, Shape] = {}
        while self._new and len(keys) < self._options.batch:
            _, job, key = heappop(self._new)
            if not self._waiting.join(job, key):
                keys[job] = key
        if keys:
            agent = self._in_turn(idle)
            self._agents[agent].follow(now)
            return agent, _Batch(keys, set())
        return self._take_woken(idle, now) if len(self._waiting) else None

    def _take_woken(self, idle: Sequence[int], now: float) -> tuple[int, _Batch] | None:
        for _ in idle:
            number = self._in_turn(idle)
            agent = self._agents[number]
            if agent.released < self._released:
                agent.follow(now)
            if agent.swept >= agent.released and not self._waiting.is_urgent:
                continue
            groups = self._waiting.take(
                agent.copy.snapshot(),
                agent.released,
                self._options.batch,
                opened=agent.opened,
                freed=self._cluster.freed,
            )
            if groups:
                keys = {job: key for key, jobs in groups for job in jobs}
                return number, _Batch(keys, {key for key, _ in groups})
            agent.swept = agent.released
        return None

    def _in_turn(self, idle: Sequence[int]) -> int:
        self._turn += 1
        return idle[(self._turn - 1) % len(idle)]

    def _attempt(
        self, agent: int, batch: _Batch, sized: Sequence[tuple[int, SizedRequest]], now: float
    ) -> None:
        """Decide on jobs; the commit follows after the time that the decisions take."""
        if not sized:
            self._finish(batch)
            return
        view = self._agents[agent].copy.snapshot()
        until_s: dict[str, float] = {}
        sized = [(job, self._as_patient(job, each, now)) for job, each in sized]
        if self._admitting.is_on:
            applicants = [self._applicant(job, each, now) for job, each in sized]
            outcomes, until_s = self._admitting.place(view, applicants, now, self._place)
        else:
            outcomes = self._place(view, [each.request for _, each in sized])
        batch.proposals = []
        for (job, each), outcome in zip(sized, outcomes, strict=True):
            if isinstance(outcome, Refused):
                needs = needs_of(each.request, outcome.reason)
                if outcome.waits_for_better:
                    until_s.setdefault(outcome.job, self._patient_until_s(job, each))
                why = Refusal(
                    outcome.reason.value,
                    outcome.detail,
                    needs,
                    view.sequence,
                    until_s.get(outcome.job, np.inf),
                )
                self._refuse(batch, job, why)
                if self._is_fifo:
                    break
            else:
                batch.proposals.append(_Decided(job, each, outcome))
        if self._options.decision_s > 0.0:
            self._agents[agent].free_s = now + self._options.decision_s * len(sized)
            self._pending[agent] = batch
        else:
            self._commit(agent, batch, now)

    def _as_patient(self, job: int, sized: SizedRequest, now: float) -> SizedRequest:
        """Return the request of a job, which says whether it may still wait for better units."""
        is_patient = now < self._patient_until_s(job, sized)
        if is_patient is sized.request.is_patient:
            return sized
        return sized._replace(request=replace(sized.request, is_patient=is_patient))

    def _patient_until_s(self, job: int, sized: SizedRequest) -> float:
        return self._loop.records[job].arrived_s + sized.patience_s

    def _applicant(self, job: int, sized: SizedRequest, now: float) -> Applicant:
        waited_s = now - self._loop.records[job].arrived_s
        priority = -int(self._loop.source.shape(job)[0])
        return Applicant(sized.request, waited_s, sized.run_s, priority=priority)

    def _place(self, view: Snapshot, requests: Sequence[Request]) -> list[Placed | Refused]:
        return self._policy.place(view, requests, self._rng)

    def _commit(self, number: int, batch: _Batch, now: float) -> None:
        """Commit the proposals; losers are decided again on a fresh copy, then wait."""
        agent, again = self._agents[number], []
        results = agent.commit([(each.placed, each.sized.request) for each in batch.proposals])
        for (job, sized, placed), result in zip(batch.proposals, results, strict=True):
            is_committed = isinstance(result, Committed)
            self._loop.settle(placed, is_committed=is_committed, now=now)
            if isinstance(result, Committed):
                self._loop.start(job, sized, result, now)
            else:
                self._loop.records[job].conflicts += 1
                again.append((job, sized))
        if again:
            agent.read()
        if batch.attempt < self._options.retries:
            batch.attempt += 1
            self._attempt(number, batch, again, now)
            return
        for job, _ in again:
            code = RefusalReason.COMMIT_CONFLICT.value
            self._refuse(batch, job, Refusal(code, CONFLICT, None, agent.copy.sequence))
        self._finish(batch)

    def _finish(self, batch: _Batch) -> None:
        """Let the refused jobs of a batch wait, and shapes without one go on."""
        if self._is_fifo:
            if batch.refused:
                why = batch.refused[0][1]
                self._blocked = why if why.needs is not None else None
                self._line.extendleft(filter(self._waits, reversed(batch.keys)))
            return
        shapes: dict[Shape, tuple[list[int], Refusal]] = {}
        for job, why in batch.refused:
            shapes.setdefault(batch.keys[job], ([], why))[0].append(job)
        for key, (jobs, why) in shapes.items():
            self._waiting.refuse(jobs, key, why)
            if why.until_s < np.inf:
                heappush(self._timers, (why.until_s, key))
        for key in sorted(batch.waited - shapes.keys()):
            self._waiting.accept(key)

    def _refuse(self, batch: _Batch, job: int, why: Refusal) -> None:
        self._loop.records[job].refusals += 1
        batch.refused.append((job, why))

    def _waits(self, job: int) -> bool:
        """Whether a job neither runs nor was refused for good."""
        return not self._loop.is_running(job) and self._loop.records[job].failure is None

    def _give_up(self, batch: _Batch, job: int, found: Infeasible, sequence: int) -> bool:
        """Refuse a job without a size, for good if a platform could hold it.

        Returns whether it waits.
        """
        if found.platform is not None:
            self._loop.fail(job, found.suggestion)
            return False
        needs = Needs(WaitsFor.SERVERS)
        code = RefusalReason.NO_MATCHING_SERVER.value
        self._refuse(batch, job, Refusal(code, NO_SERVER, needs, sequence))
        return True


def _agents(
    cluster: MemoryCluster, options: ReplayOptions, rng: np.random.Generator
) -> Sequence[Agent]:
    if options.has_sole_agent:
        return [SoleAgent(cluster, rng)]
    copies = (ClusterCopy(cluster.topology, is_compiled=True) for _ in range(options.agents))
    return [
        Agent(cluster, copy, rng, sync_s=options.sync_s, jitter=options.jitter) for copy in copies
    ]
