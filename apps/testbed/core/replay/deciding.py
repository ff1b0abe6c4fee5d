"""Decisions of a replay: agents take jobs, decide on their copies, and commit."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

import numpy as np

from apps.inventory.core.snapshot import Shorts, Snapshot
from apps.scheduling.core.admission.types import Applicant
from apps.scheduling.core.cluster.in_memory_store import Committed, MemoryCluster
from apps.scheduling.core.sizing.sizes import Infeasible
from apps.scheduling.core.starts.wakes import needs_of
from apps.scheduling.core.types import Placed, Policy, RefusalReason, Refused, Request
from apps.testbed.core.replay.admitting import Admitting
from apps.testbed.core.replay.agents import agents_of
from apps.testbed.core.replay.batches import Batch, Decided
from apps.testbed.core.replay.demand import LazyFacts, Shape, SizedRequest
from apps.testbed.core.replay.growing import Growing, missing_units
from apps.testbed.core.replay.model import Admission
from apps.testbed.core.replay.waiting import Refusal, WaitingShapes
from apps.workloads.core.shapes import Needs, WaitsFor

if TYPE_CHECKING:
    from apps.testbed.core.replay.loop import ReplayLoop

CONFLICT: Final = "other agents were faster in all attempts"
NO_SERVER: Final = "no platform of the cluster can hold the job"


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
        self._agents = agents_of(cluster, options, rng)
        self._pending: dict[int, Batch] = {}  # by agent, until its `free_s`
        self._turn = 0
        self._released = 0  # change-log number of the last release
        self._new: list[tuple[float, int, Shape]] = []
        self._waiting = WaitingShapes()
        self._growing = Growing(loop, options.batch)
        self._has_grown = False  # the last batch; read if a batch is one job
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
        if not (self._pending or self._has_jobs):
            return float("inf")
        times = [self._agents[agent].free_s for agent in self._pending]
        times += [each[0] for each in self._timers[:1]]
        if self._is_blocked_by_old_news:
            times.append(min(agent.read_s for agent in self._agents))
        if len(self._waiting) or self._growing:
            times += [
                max(agent.read_s, agent.free_s)
                for agent in self._agents
                if agent.released < self._released
            ]
        return min(times, default=float("inf"))

    @property
    def _has_jobs(self) -> bool:
        return bool(self._new or self._line or len(self._waiting) or self._growing)

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
        while len(self._pending) < len(self._agents) and self._has_jobs:
            taken = self._take(now)
            if taken is None:
                return
            agent, batch = taken
            view = self._agents[agent].copy.snapshot()
            facts, sized = LazyFacts(view), []
            for job in batch.keys:
                found = self._loop.source.request(job, now, facts)
                if job in batch.growing:
                    found = missing_units(batch.growing[job], found, view.topology)
                if not isinstance(found, Infeasible):
                    sized.append((job, found))
                elif self._give_up(batch, job, found, view.sequence) and self._is_fifo:
                    break
            self._attempt(agent, batch, sized, now)

    def _take(self, now: float) -> tuple[int, Batch] | None:
        """Take the jobs of the next batch: running jobs that lack units come first.

        If a batch is one job, they and the others take turns.
        """
        others = self._take_first if self._is_fifo else self._take_shapes
        if self._options.batch == 1:
            takes = (others, self._take_incomplete)[:: 1 if self._has_grown else -1]
            taken = next(filter(None, (take(now) for take in takes)), None)
            if taken is not None:
                self._has_grown = bool(taken[1].growing)
            return taken
        taken = others(now)
        if taken is None:
            return self._take_incomplete(now)
        return taken[0], self._with_growing(*taken)

    def _take_incomplete(self, now: float) -> tuple[int, Batch] | None:
        """Take running jobs that lack units."""
        if not self._growing:
            return None
        idle = [i for i in range(len(self._agents)) if i not in self._pending]
        for _ in idle:
            number = self._in_turn(idle)
            if self._agents[number].released < self._released:
                self._agents[number].follow(now)
            batch = self._with_growing(number, Batch({}, set()))
            if batch.growing:
                return number, batch
        return None

    def _with_growing(self, number: int, batch: Batch) -> Batch:
        """Add running jobs that lack units to a batch; they come first."""
        taken = {job for each in self._pending.values() for job in each.growing}
        batch.growing = self._growing.take(self._agents[number], taken)
        batch.keys = {**dict.fromkeys(batch.growing, ()), **batch.keys}
        return batch

    def _take_first(self, now: float) -> tuple[int, Batch] | None:
        """Take the first jobs of the line, unless one was refused since the last release."""
        if self._is_blocked_by_old_news and any(a.read_s <= now for a in self._agents):
            self._blocked = None
        if not self._line or self._blocked is not None or self._pending:
            return None
        agent = self._in_turn(range(len(self._agents)))
        self._agents[agent].follow(now)
        count = min(self._at_once, len(self._line))
        return agent, Batch({self._line.popleft(): () for _ in range(count)}, set())

    def _take_shapes(self, now: float) -> tuple[int, Batch] | None:
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
            return agent, Batch(keys, set())
        return self._take_woken(idle, now) if len(self._waiting) else None

    def _take_woken(self, idle: Sequence[int], now: float) -> tuple[int, Batch] | None:
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
                return number, Batch(keys, {key for key, _ in groups})
            agent.swept = agent.released
        return None

    def _in_turn(self, idle: Sequence[int]) -> int:
        self._turn += 1
        return idle[(self._turn - 1) % len(idle)]

    def _attempt(
        self, agent: int, batch: Batch, sized: Sequence[tuple[int, SizedRequest]], now: float
    ) -> None:
        """Decide on jobs; the commit follows after the time that the decisions take."""
        if not sized:
            self._finish(batch)
            return
        view = self._agents[agent].copy.snapshot()
        sized = [(job, self._as_patient(job, each, now)) for job, each in sized]
        outcomes, until_s = self._outcomes(batch, view, sized, now)
        batch.proposals, batch.sequence = [], view.sequence
        for (job, each), outcome in zip(sized, outcomes, strict=True):
            if isinstance(outcome, Placed):
                batch.proposals.append(Decided(job, each, outcome))
            elif job in batch.growing:
                batch.growing[job].evaluated = batch.sequence
            else:
                again_s = until_s.get(outcome.job, np.inf)
                if outcome.waits_for_better and outcome.job not in until_s:
                    again_s = self._patient_until_s(job, each)
                needs = needs_of(each.request, outcome.reason)
                code, text = outcome.reason.value, outcome.detail
                why = Refusal(code, text, needs, batch.sequence, again_s)
                self._refuse(batch, job, why)
                if self._is_fifo:
                    break
        if self._options.decision_s > 0.0:
            self._agents[agent].free_s = now + self._options.decision_s * len(sized)
            self._pending[agent] = batch
        else:
            self._commit(agent, batch, now)

    def _outcomes(
        self,
        batch: Batch,
        view: Snapshot,
        sized: Sequence[tuple[int, SizedRequest]],
        now: float,
    ) -> tuple[list[Placed | Refused], dict[str, float]]:
        """Return one outcome per job, and when those are evaluated again that wait at admission.

        Running jobs that lack units pass no admission control.
        """
        requests = [each.request for _, each in sized]
        if not self._admitting.is_on:
            return self._place(view, requests), {}
        applicants = {
            each.request.job: self._applicant(job, each, now)
            for job, each in sized
            if job not in batch.growing
        }
        return self._admitting.place(view, requests, applicants, now, self._place)

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

    def _commit(self, number: int, batch: Batch, now: float) -> None:
        """Commit the proposals; losers are decided again on a fresh copy, then wait."""
        agent, again = self._agents[number], []
        batch.proposals = [
            each
            for each in batch.proposals
            if each.job not in batch.growing
            or self._growing.is_waiting(each.job, batch.growing[each.job])
        ]
        results = agent.commit([(each.placed, each.sized.request) for each in batch.proposals])
        for decided, result in zip(batch.proposals, results, strict=True):
            job, sized, placed = decided
            is_committed = isinstance(result, Committed)
            self._loop.record_decision(placed, is_committed=is_committed, now=now)
            if isinstance(result, Committed):
                self._give(batch, decided, result, now)
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
            if job in batch.growing:
                continue  # it is evaluated again at once
            code = RefusalReason.COMMIT_CONFLICT.value
            self._refuse(batch, job, Refusal(code, CONFLICT, None, agent.copy.sequence))
        self._finish(batch)

    def _give(self, batch: Batch, decided: Decided, won: Committed, now: float) -> None:
        """Start a job on the units that it won, or let it grow by them."""
        job, sized, placed = decided
        if job in batch.growing:
            self._loop.grow(job, won, now)
        else:
            self._loop.start(job, sized, won, now, wanted=placed.wanted)
        running = self._loop.running[job]
        if not won.lost.size:  # else it is evaluated again at once
            running.evaluated = batch.sequence

    def _finish(self, batch: Batch) -> None:
        """Let the refused jobs of a batch wait, and shapes without one go on."""
        if self._is_fifo:
            if batch.refused:
                why = batch.refused[0][1]
                self._blocked = why if why.needs is not None else None
                line = [job for job in batch.keys if job not in batch.growing]
                self._line.extendleft(filter(self._waits, reversed(line)))
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

    def _refuse(self, batch: Batch, job: int, why: Refusal) -> None:
        self._loop.records[job].refusals += 1
        batch.refused.append((job, why))

    def _waits(self, job: int) -> bool:
        """Whether a job neither runs nor was refused for good."""
        return not self._loop.is_running(job) and self._loop.records[job].failure is None

    def _give_up(self, batch: Batch, job: int, found: Infeasible, sequence: int) -> bool:
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
