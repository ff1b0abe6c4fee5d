"""The agent: claims waiting jobs, decides on its own copy of the cluster, commits.

Several may run at once, each with a copy; who loses a commit reads the change log and decides
again. Nothing here is kept but the copy: an agent that dies is replaced, its claims run out.

Source: Tarcil §5.1 (T8, T9).
"""

import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np
from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction

from apps.classification import selectors as classification
from apps.classification.core.estimators import EmptyLibraryError
from apps.classification.core.profile import Profile
from apps.classification.selectors.typical import typical_profile
from apps.classification.services import request_profiles
from apps.inventory.core.snapshot import Topology
from apps.inventory.selectors import cluster_clock
from apps.profiling.core.short import skips_profiling
from apps.scheduling.core import registry
from apps.scheduling.core.ask import (
    CLOSED,
    START_DELAY_S,
    cluster_facts,
    is_only_closed,
    request_of,
    size_or_late,
)
from apps.scheduling.core.sizing import ClusterFacts, Infeasible, Sized
from apps.scheduling.core.types import Placed, Policy, Refused, Request
from apps.scheduling.selectors import ClaimedJob, ClusterCopy, claimed_jobs, waiting_jobs
from apps.scheduling.services import (
    Agent,
    Proposal,
    Refusal,
    commit,
    note_refusals,
    refuse_for_good,
)
from apps.workloads import services as workloads
from apps.workloads.core.reasons import Reason

logger = logging.getLogger(__name__)

BATCH: Final = 128
RETRIES: Final = 3
RANK_ONE_IN: Final = 10  # one-unit decisions whose rank D is measured
PROFILES_KEPT: Final = 4096
LEAST_DELAY_S: Final = 0.25
MOST_DELAY_S: Final = 10.0
LOOKS_PER_S: Final = 200.0  # waiting jobs an agent looks at again each second


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """A job and what is believed of its application; without an id, of any application."""

    job: ClaimedJob
    profile_id: UUID | None
    profile: Profile


@dataclass(frozen=True, slots=True, eq=False)
class _Ready:
    """A job that has its size."""

    job: ClaimedJob
    profile_id: UUID | None
    profile: Profile
    sized: Sized
    request: Request
    topology: Topology  # that the request is about


class _Decider(NamedTuple):
    """A policy, and the name under which it decides."""

    policy: Policy
    me: Agent


class SchedulingAgent:
    """One agent of one process."""

    def __init__(self, name: str, *, policy: Policy, rng: np.random.Generator) -> None:
        self._default, self._short = (
            _Decider(one, Agent(name, one.name, one.version, settings.BERTH_VERSION))
            for one in (policy, registry.make(registry.SHORT))
        )
        self.me, self._rng = self._default.me, rng
        self._cluster = ClusterCopy()
        self._profiles: dict[UUID, Profile] = {}
        self._one_unit = 0

    def work(self, *, for_s: float) -> int:
        """Decide until nothing is left to decide, or for so many wall seconds; returns jobs."""
        until, decided = time.monotonic() + for_s, 0
        while time.monotonic() < until:
            claimed = workloads.claim_waiting(agent=self.me.name, limit=BATCH)
            if not claimed:
                break
            self._decide_all(claimed)
            decided += len(claimed)
        return decided

    def _decide_all(self, claimed: Sequence[UUID]) -> None:
        """Decide about a batch; should it break, about each job alone: one must not stop all.

        Whatever broke is logged with its trace; the job's claim runs out and it is tried again.
        """
        try:
            self._decide(claimed)
        except (OperationalError, InterfaceError):
            raise  # the database is away: nothing to try job by job
        except Exception:
            logger.exception("could not decide about %s", ", ".join(map(str, claimed)))
            if len(claimed) > 1:
                for job in claimed:
                    self._decide_all([job])

    def _decide(self, claimed: Sequence[UUID]) -> None:
        clock = cluster_clock()
        jobs = claimed_jobs(
            claimed, cluster_s=clock.at(time.time()), start_delay_s=START_DELAY_S * clock.speed
        )
        known = classification.current_profile_ids({job.application_id for job in jobs})
        new = [job for job in jobs if job.application_id not in known]
        short = self._short_jobs(new) if new else []
        alone = {one.job.id for one in short}
        unprofiled = self._profile([job for job in new if job.id not in alone])
        self._load(known.values())
        ready, refused = self._size(
            [
                _Known(job, known[job.application_id], self._profiles[known[job.application_id]])
                for job in jobs
                if job.application_id in known
            ]
        )
        self._refuse(unprofiled + refused + self._place(ready, self._default), self._default)
        self._refuse(self._place(short, self._short), self._short)

    def _short_jobs(self, jobs: Sequence[ClaimedJob]) -> list[_Ready]:
        """Pick the jobs of unknown applications that are over before profiling would be (P9).

        They are sized by what is typical of all applications. Where that does not keep their
        target they are profiled: no job is refused on a guess.
        """
        short = [job for job in jobs if _is_short(job)]
        if not short or self._cluster.follow().topology.server_id.size == 0:
            return []
        try:
            typical = [_Known(job, None, typical_profile(job.kind)) for job in short]
        except (classification.NoLibraryError, EmptyLibraryError):
            return []
        ready, _ = self._size(typical)
        return ready

    def _profile(self, jobs: Sequence[ClaimedJob]) -> list[Refusal]:
        """Send jobs of unknown applications to profiling, and see that somebody profiles them."""
        if jobs and self._cluster.follow().topology.server_id.size == 0:
            return [_unmeasurable(job) for job in jobs]
        if not jobs:
            return []
        with transaction.atomic():
            awaited = request_profiles({job.application_id for job in jobs})
            wait = [job.id for job in jobs if job.application_id in awaited]
            workloads.send_to_profiling(wait, agent=self.me.name)
            # profiled since we looked: they are decided like any other, at once
            known = [job.id for job in jobs if job.application_id not in awaited]
            workloads.release_claims(known, agent=self.me.name)
        return []

    def _load(self, profile_ids: Collection[UUID]) -> None:
        wanted = set(profile_ids) - self._profiles.keys()
        if len(self._profiles) + len(wanted) > PROFILES_KEPT:
            self._profiles.clear()
            wanted = set(profile_ids)
        if wanted:
            self._profiles |= classification.profiles(wanted)

    def _size(self, jobs: Sequence[_Known]) -> tuple[list[_Ready], list[Refusal]]:
        snapshot = self._cluster.follow().snapshot()
        facts: dict[tuple[str, ...], ClusterFacts] = {}
        ready, refused = [], []
        for job, profile_id, profile in ((k.job, k.profile_id, k.profile) for k in jobs):
            if profile.platforms not in facts:
                facts[profile.platforms] = cluster_facts(snapshot, profile.platforms)
            sized = size_or_late(job.ask, profile, facts[profile.platforms])
            if isinstance(sized, Infeasible):
                is_closed = is_only_closed(job.ask, profile, snapshot)
                refused.append(_infeasible(job, profile_id, sized, is_closed=is_closed))
                continue
            # ranks check what sampling promises, which is about the default policy
            is_measured = profile_id is not None and self._is_measured(sized)
            request = request_of(
                job.ask, profile, sized, snapshot.topology, measure_rank=is_measured
            )
            ready.append(_Ready(job, profile_id, profile, sized, request, snapshot.topology))
        return ready, refused

    def _is_measured(self, sized: Sized) -> bool:
        if sized.units != 1 or sized.locality is not None:
            return False
        self._one_unit += 1
        return self._one_unit % RANK_ONE_IN == 0

    def _place(self, ready: Sequence[_Ready], by: _Decider) -> list[Refusal]:
        refused: list[Refusal] = []
        for attempt in range(RETRIES + 1):
            if not ready:
                return refused
            copy = self._cluster.follow()
            ready = [self._fitted(one, copy.topology) for one in ready]
            begun = time.perf_counter()
            outcomes = by.policy.place(copy.snapshot(), [r.request for r in ready], self._rng)
            elapsed_s = (time.perf_counter() - begun) / len(ready)
            proposals = []
            for one, outcome in zip(ready, outcomes, strict=True):
                if isinstance(outcome, Refused):
                    refused.append(_refusal(one, outcome, elapsed_s, attempt))
                else:
                    proposals.append(self._proposal(one, outcome, elapsed_s, attempt))
            if not proposals:
                return refused
            won, lost = commit(proposals, agent=by.me)
            logger.debug("%d of %d placements won", len(won), len(proposals))
            again = {entry.proposal.job.id for entry in lost if not entry.is_gone}
            if attempt == RETRIES:
                refused += [_conflict(p) for p in proposals if p.job.id in again]
            ready = [one for one in ready if one.job.id in again]
        return refused

    def _fitted(self, one: _Ready, topology: Topology) -> _Ready:
        """Ask anew where servers came since the request was made: it knows platforms by index."""
        if one.topology is topology:
            return one
        request = request_of(
            one.job.ask, one.profile, one.sized, topology, measure_rank=one.request.measure_rank
        )
        return replace(one, request=request, topology=topology)

    def _proposal(self, one: _Ready, placed: Placed, elapsed_s: float, attempt: int) -> Proposal:
        return Proposal(
            job=one.job,
            sized=one.sized,
            request=one.request,
            placed=placed,
            topology=self._cluster.copy.topology,
            profile_id=one.profile_id,
            elapsed_s=elapsed_s,
            retries=attempt,
        )

    def _refuse(self, refused: Sequence[Refusal], by: _Decider) -> None:
        topology = self._cluster.copy.topology
        servers = topology.server_id.size
        hopeless = [r for r in refused if r.reason in _HOPELESS]
        refuse_for_good(hopeless, agent=by.me, servers=servers, topology=topology)
        waiting = [r for r in refused if r.reason not in _HOPELESS]
        if not waiting:
            return
        # a long queue is looked at less often: every look costs a sizing and an update
        delay_s = min(MOST_DELAY_S, max(LEAST_DELAY_S, waiting_jobs() / LOOKS_PER_S))
        note_refusals(waiting, agent=by.me, servers=servers, topology=topology, delay_s=delay_s)


_HOPELESS: Final = frozenset({Reason.INFEASIBLE_TARGET, Reason.INVALID, Reason.UNCLASSIFIABLE})


def _is_short(job: ClaimedJob) -> bool:
    return skips_profiling(
        job.kind,
        job.ask.target,
        duration_s=job.duration_s,
        input_bytes=int(job.ask.input_bytes),
    )


def _unmeasurable(job: ClaimedJob) -> Refusal:
    return Refusal(
        job=job,
        reason=Reason.NO_MATCHING_SERVER,
        message="the cluster has no servers to profile the application on",
        units=0,
        profile_id=None,
        elapsed_s=0.0,
    )


def _infeasible(
    job: ClaimedJob, profile_id: UUID | None, sized: Infeasible, *, is_closed: bool
) -> Refusal:
    best = f"; the best would be {sized.units} units of {sized.platform}" if sized.platform else ""
    reason = Reason.INFEASIBLE_TARGET if sized.platform else Reason.NO_MATCHING_SERVER
    message = f"{sized.suggestion}{best}"
    if is_closed:
        reason = Reason.SERVERS_CLOSED
        message = CLOSED
    return Refusal(
        job=job,
        reason=reason,
        message=message,
        units=sized.units,
        profile_id=profile_id,
        elapsed_s=0.0,
    )


def _refusal(one: _Ready, refused: Refused, elapsed_s: float, attempt: int) -> Refusal:
    return Refusal(
        job=one.job,
        reason=Reason(refused.reason.value),
        message=refused.detail,
        units=one.request.units,
        profile_id=one.profile_id,
        elapsed_s=elapsed_s,
        refused=refused,
        also=tuple(reason.value for reason in refused.also),
        retries=attempt,
    )


def _conflict(proposal: Proposal) -> Refusal:
    return Refusal(
        job=proposal.job,
        reason=Reason.COMMIT_CONFLICT,
        message=f"other agents were faster on {proposal.retries + 1} tries",
        units=proposal.request.units,
        profile_id=proposal.profile_id,
        elapsed_s=proposal.elapsed_s,
        lost=proposal.placed,
        retries=proposal.retries,
    )


def make_agent(name: str) -> SchedulingAgent:
    """Make an agent with the policy of the settings."""
    return SchedulingAgent(
        name, policy=registry.make(settings.DEFAULT_POLICY), rng=np.random.default_rng()
    )
