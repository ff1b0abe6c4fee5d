"""The scheduling agent: claims waiting jobs, decides on its copy of the cluster, and commits.

Several agents may run concurrently, each with a copy. An agent reads the change log before every
batch, or at the interval of the settings. If it loses a conflict, it reads the log and decides
again. The copy is its only state: the claims of an agent that dies expire.

Source: Tarcil §5.1 (T8, T9).
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

import numpy as np
from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction

from apps.classification import selectors as classification
from apps.classification.core.estimators import EmptyLibraryError
from apps.classification.selectors.typical import typical_profile
from apps.classification.services import request_profiles
from apps.common.infrastructure.transactions import retry_once
from apps.inventory.core.backends import Capability
from apps.inventory.core.snapshot import Snapshot
from apps.inventory.selectors import cluster_time
from apps.profiling.services import request_probes
from apps.scheduling.core import registry
from apps.scheduling.core.commands import can_copy, unmeasured_profile
from apps.scheduling.core.policy_errors import PolicyFailedError
from apps.scheduling.core.requests import (
    START_DELAY_S,
    is_short,
)
from apps.scheduling.core.reservations.backfill import place_batch
from apps.scheduling.core.reservations.gangs import Reservation
from apps.scheduling.core.tarcil.job_sampling import (
    with_guarantee,
)
from apps.scheduling.core.types import Placed, Policy, Refused
from apps.scheduling.selectors import ClaimedJob, claimed_jobs
from apps.scheduling.selectors.default_policy import policy_in_use
from apps.scheduling.services import (
    Proposal,
    Refusal,
    SizedJob,
    commit,
    record_refusals,
    refuse_permanently,
)
from apps.scheduling.services import agent_refusals as refused_as
from apps.scheduling.services.admission import AdmissionDesk
from apps.scheduling.services.agent_copy import AgentCopy
from apps.scheduling.services.agent_policies import Decider, Deciders
from apps.scheduling.services.agent_sizing import JobSizer, without_patience
from apps.scheduling.services.backfill import bindings, start_s
from apps.scheduling.services.batches import BatchPlace, DecidedBatch, decided_batch
from apps.scheduling.services.peers import Peers
from apps.scheduling.services.policy_failures import PolicyFailures
from apps.scheduling.services.queue import WaitingQueue, retry_delay_s
from apps.scheduling.services.reservations import reservations
from apps.scheduling.services.reserving import reserve_for_waiting
from apps.workloads import services as workloads
from apps.workloads.core.reasons import PERMANENT

logger = logging.getLogger(__name__)

# A turn takes some thirty statements, whatever its number of jobs. With small requests, turns
# without a pause between them would take few jobs each and keep the processors from others.
SMALL_TURN: Final = 64  # jobs
PAUSE_S: Final = 0.004  # wall seconds


class SchedulingAgent:
    """A scheduling agent; one per process.

    Parameters
    ----------
    policy : decides on jobs that name no policy
    default : returns the name of the policy of the cluster, which replaces ``policy`` when it
        differs; None = always use ``policy``
    peers : the other active agents; None = there are none
    """

    def __init__(
        self,
        name: str,
        *,
        policy: Policy,
        rng: np.random.Generator,
        default: Callable[[], str] | None = None,
        peers: Peers | None = None,
    ) -> None:
        self.name, self._rng = name, rng
        self._deciders = Deciders(name, policy, default, peers)
        of_queue, of_copy = rng.spawn(2)
        self._cluster = AgentCopy(
            of_copy, interval_s=settings.AGENT_INTERVAL_S, jitter=settings.AGENT_JITTER
        )
        self._queue = WaitingQueue(
            name, self._cluster, of_queue, path_limit=settings.AGENT_PATH_LIMIT
        )
        self._retries: int = settings.AGENT_RETRIES
        self._admission = AdmissionDesk(name, self._cluster)
        self._sizer = JobSizer(self._cluster, self._deciders)
        self._failures = PolicyFailures()
        self._sequence = 0  # of the change log, before the jobs in hand were evaluated

    def work(self, *, for_s: float) -> int:
        """Decide on waiting jobs for up to ``for_s`` wall seconds; returns their number.

        After a small turn that left no new job, the agent pauses, so that the next one takes more.
        """
        until, decided = time.monotonic() + for_s, 0
        while time.monotonic() < until:
            count = self.take_turn()
            if not count:
                break
            decided += count
            if count < SMALL_TURN and not self._queue.is_full:
                time.sleep(PAUSE_S)
        return decided

    def take_turn(self) -> int:
        """Decide on the next waiting jobs; returns the number of jobs that changed."""
        turn = self._queue.begin()
        if turn.job_ids:
            self._decide_all(turn.job_ids)
        self._admission.end_turn(lambda snapshot: self._sizer.facts_of(snapshot.topology))
        return len(turn.job_ids) + self._queue.end(turn)

    def _decide_all(self, claimed: Sequence[UUID]) -> None:
        """Decide on a batch, or on each job alone if that raises an error.

        Errors are logged. The claim of a job that raises one expires, and the job is retried.
        """
        try:
            retry_once(self._decide)(claimed)
        except (OperationalError, InterfaceError):
            raise  # the database is unavailable: retrying single jobs is pointless
        except Exception as error:
            if isinstance(error, PolicyFailedError):
                self._failures.record(error, claimed, now_s=time.monotonic())
            else:
                logger.exception("decision failed for jobs %s", ", ".join(map(str, claimed)))
            if len(claimed) > 1:
                for job in claimed:
                    self._decide_all([job])

    def _decide(self, claimed: Sequence[UUID]) -> None:
        now = cluster_time()
        self._deciders.follow()
        self._sequence = self._cluster.follow().sequence
        jobs = claimed_jobs(
            claimed, cluster_s=now.cluster_s, start_delay_s=START_DELAY_S * now.speed
        )
        known = classification.current_profile_ids({job.application_id for job in jobs})
        new = [job for job in jobs if job.application_id not in known]
        scored, short, unprofiled = self._commands([job for job in new if job.runs_command])
        new = [job for job in new if not job.runs_command]
        short += self._short_jobs(new) if new else []
        short_ids = {sized_job.job.id for sized_job in short}
        unprofiled += self._profile([job for job in new if job.id not in short_ids])
        ready, refused = self._sizer.size(self._sizer.profiled(jobs, known))
        self._refuse(unprofiled + refused, self._deciders.default)
        groups = self._deciders.by_policy(
            (ready + scored, self._deciders.default), (short, self._deciders.short)
        )
        for number, (by, each) in enumerate(groups):
            try:
                refused = self._place(each, by, is_read=number == 0)
            except PolicyFailedError as error:
                if len(each) > 1:
                    raise  # each is decided on alone, as the policy may fail on one of them only
                self._failures.record(error, [each[0].job.id], now_s=time.monotonic())
                refused = [refused_as.failed(each[0], error)]
            self._refuse(refused, by)

    def _short_jobs(self, jobs: Sequence[ClaimedJob]) -> list[SizedJob]:
        """Size the jobs of new applications that are shorter than profiling (P9).

        They are sized with a typical profile. If that does not meet their target they are
        profiled: no job is refused because of a guess.
        """
        short = [job for job in jobs if is_short(job.spec)]
        if not short or self._cluster.copy.topology.server_id.size == 0:
            return []
        try:
            typical = [(job, None, typical_profile(job.spec.kind)) for job in short]
        except (classification.NoLibraryError, EmptyLibraryError):
            return []
        ready, _ = self._sizer.size(typical)
        return ready

    def _commands(
        self, jobs: Sequence[ClaimedJob]
    ) -> tuple[list[SizedJob], list[SizedJob], list[Refusal]]:
        """Size the commands of applications without a profile.

        Returns
        -------
        (those with measured scores, those that nothing is known of, refusals)
        """
        able = {b: self._cluster.copy.topology.platforms_for(b) for b in {j.backend for j in jobs}}
        if not jobs:
            return [], [], []
        scores = classification.program_scores({job.application_id for job in jobs})
        copied = self._probe([job for job in jobs if job.application_id not in scores])
        jobs = [job for job in jobs if job.id not in copied]
        sizable = [
            (
                job,
                None,
                unmeasured_profile(
                    job.spec.application,
                    job.spec.kind,
                    able[job.backend],
                    scores.get(job.application_id),
                ),
            )
            for job in jobs
            if able[job.backend]
        ]
        unable = [refused_as.no_commands(job) for job in jobs if not able[job.backend]]
        ready, refused = self._sizer.size(sizable)
        scored = [each for each in ready if each.job.application_id in scores]
        blind = [each for each in ready if each.job.application_id not in scores]
        return scored, blind, refused + unable

    def _probe(self, jobs: Sequence[ClaimedJob]) -> set[UUID]:
        """Let jobs wait until a copy of their command was profiled; returns their ids."""
        topology = self._cluster.copy.topology
        copyable = [
            job
            for job in jobs
            if can_copy(is_copyable=job.is_copyable, backend=job.backend, topology=topology)
        ]
        if not copyable:
            return set()
        with transaction.atomic():
            awaited = request_probes({job.application_id for job in copyable})
            wait = [job.id for job in copyable if job.application_id in awaited]
            workloads.send_to_profiling(wait, agent=self.name)
        return set(wait)

    def _profile(self, jobs: Sequence[ClaimedJob]) -> list[Refusal]:
        """Let jobs of new applications wait for their profiles, and request these."""
        if jobs and self._cluster.copy.topology.server_id.size == 0:
            return [refused_as.no_servers(job) for job in jobs]
        if not self._cluster.copy.topology.has_servers_with(Capability.PROBE):
            return [refused_as.only_commands(job) for job in jobs]
        if not jobs:
            return []
        with transaction.atomic():
            awaited = request_profiles({job.application_id for job in jobs})
            wait = [job.id for job in jobs if job.application_id in awaited]
            known = [job.id for job in jobs if job.application_id not in awaited]
            workloads.send_to_profiling(wait, agent=self.name, profiled=known)
        return []

    def _place(self, ready: Sequence[SizedJob], by: Decider, *, is_read: bool) -> list[Refusal]:
        """Place jobs; with ``is_read``, first on the copy that their sizing has just read."""
        refused: list[Refusal] = []
        for attempt in range(self._retries + 1):
            if not ready:
                return refused
            copy = self._cluster.copy if is_read and not attempt else self._cluster.follow()
            ready = [self._sizer.updated(sized_job, copy.topology) for sized_job in ready]
            snapshot, version = copy.snapshot(), self._cluster.version
            reserved = reservations()
            admitted, held_back = self._admission.admit(
                snapshot, ready, self._sizer.facts_of(snapshot.topology), reserved
            )
            refused += [
                refused_as.refusal(job, outcome, 0.0, attempt, None) for job, outcome in held_back
            ]
            if not admitted:
                return refused
            begun = time.perf_counter()
            batch, outcomes = self._outcomes(by, snapshot, admitted, reserved)
            elapsed_s = (time.perf_counter() - begun) / len(admitted)
            proposals = []
            for position, (sized_job, outcome) in enumerate(zip(admitted, outcomes, strict=True)):
                at = BatchPlace(batch, position) if self._cluster.is_exact else None
                if isinstance(outcome, Refused):
                    refused.append(refused_as.refusal(sized_job, outcome, elapsed_s, attempt, at))
                else:
                    placed = with_guarantee(outcome, sized_job.sampling)
                    proposals.append(Proposal(sized_job, placed, elapsed_s, attempt, at))
            if not proposals:
                return refused
            won, lost = commit(proposals, agent=by.identity, copy=version)
            if lost:
                self._cluster.expire()
            else:
                self._cluster.add_own(won)
            logger.debug("committed %d of %d placements", len(won), len(proposals))
            again = {entry.proposal.job.id: entry for entry in lost if not entry.is_gone}
            if attempt == self._retries:
                refused += [refused_as.conflict(entry.proposal) for entry in again.values()]
            ready = [again[each.job.id].next_try(each) for each in ready if each.job.id in again]
        return refused

    def _outcomes(
        self,
        by: Decider,
        snapshot: Snapshot,
        ready: Sequence[SizedJob],
        reserved: Sequence[Reservation],
    ) -> tuple[DecidedBatch, list[Placed | Refused]]:
        bound = bindings(ready, reserved, start_s()) if reserved else ()
        if reserved:
            ready = without_patience(ready, {each.job for each in reserved})
        seed = int(self._rng.integers(1 << 63))
        batch = decided_batch(
            by.policy.name, snapshot, ready, parameters=by.parameters, seed=seed, bindings=bound
        )
        outcomes = place_batch(
            by.policy,
            snapshot,
            batch.inputs.requests,
            np.random.default_rng(seed),
            facts=self._sizer.facts_of(snapshot.topology),
            bindings=bound,
        )
        return batch, outcomes

    def _refuse(self, refused: Sequence[Refusal], by: Decider) -> None:
        topology = self._cluster.copy.topology
        incomplete = [r.job.id for r in refused if r.job.missing]
        workloads.postpone_growth(incomplete, agent=self.name)
        refused = [r for r in refused if not r.job.missing]
        # one that has run before waits instead: what it has done must not be lost by a correction
        permanent = [r for r in refused if r.reason in PERMANENT and not r.job.was_launched]
        refuse_permanently(permanent, agent=by.identity, topology=topology)
        waiting = [r for r in refused if r.reason not in PERMANENT or r.job.was_launched]
        if not waiting:
            return
        record_refusals(
            waiting,
            agent=by.identity,
            topology=topology,
            sequence=self._sequence,
            delay_s=retry_delay_s(len(waiting)),
        )
        reserve_for_waiting(waiting, self._cluster, self._sizer.facts_of)


def make_agent(name: str) -> SchedulingAgent:
    """Return an agent that follows the policy of the cluster."""
    return SchedulingAgent(
        name,
        policy=registry.make(settings.DEFAULT_POLICY),
        rng=np.random.default_rng(),
        default=policy_in_use,
        peers=Peers(name),
    )
