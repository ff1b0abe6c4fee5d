"""Sizes and requests of the jobs of one agent, from the profiles that it keeps."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Final
from uuid import UUID

from django.conf import settings

from apps.classification import selectors as classification
from apps.classification.core.profile import Profile
from apps.inventory.core.snapshot import Snapshot, Topology
from apps.scheduling.core import registry
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.growth import missing_request, missing_size
from apps.scheduling.core.patience import patience_s
from apps.scheduling.core.requests import (
    after,
    best_size,
    cluster_facts,
    is_only_closed,
    request_of,
    size_or_late,
)
from apps.scheduling.core.sizing.run_time import RunTime, run_time
from apps.scheduling.core.sizing.sizes import Infeasible, Sized
from apps.scheduling.core.tarcil.job_sampling import (
    FOLLOWING_LOAD,
    Sampling,
    TopFreeShares,
    sampling_of,
)
from apps.scheduling.core.types import Request
from apps.scheduling.selectors import ClaimedJob, ClusterFollower
from apps.scheduling.selectors.allowances import RecentAllowances
from apps.scheduling.services import agent_refusals as refused_as
from apps.scheduling.services.agent_policies import Deciders
from apps.scheduling.services.proposals import Refusal, SizedJob
from apps.workloads.core.spec import JobSpec

RANK_ONE_IN: Final = 10  # one-unit decisions whose rank D is measured
MAX_CACHED_PROFILES: Final = 4096

ProfiledJob = tuple[ClaimedJob, UUID | None, Profile]  # without an id: a typical profile


class JobSizer:
    """Sizes jobs on the copy of an agent, and makes the requests that its policies decide on."""

    def __init__(self, cluster: ClusterFollower, deciders: Deciders) -> None:
        self._cluster, self._deciders = cluster, deciders
        self._facts: TopologyFacts | None = None
        self._profiles: dict[UUID, Profile] = {}
        self._shares = TopFreeShares()
        self._one_unit = 0
        self._allowances = RecentAllowances()

    def profiled(
        self, jobs: Sequence[ClaimedJob], profile_ids: Mapping[UUID, UUID]
    ) -> list[ProfiledJob]:
        """Return the jobs whose applications have a profile, each with it.

        Parameters
        ----------
        profile_ids : by application
        """
        self._load(profile_ids.values())
        return [
            (job, key, self._profiles[key])
            for job in jobs
            if (key := profile_ids.get(job.application_id)) is not None
        ]

    def _load(self, profile_ids: Collection[UUID]) -> None:
        missing = set(profile_ids) - self._profiles.keys()
        if len(self._profiles) + len(missing) > MAX_CACHED_PROFILES:
            self._profiles.clear()
            missing = set(profile_ids)
        if missing:
            self._profiles |= classification.profiles(missing)

    def size(self, jobs: Sequence[ProfiledJob]) -> tuple[list[SizedJob], list[Refusal]]:
        """Return the sized jobs, and the refusals of those that no size can serve."""
        snapshot, allowances = self._cluster.copy.snapshot(), self._allowances()
        facts_on = cache(lambda platforms: cluster_facts(snapshot, platforms, allowances))
        ready, refused = [], []
        for job, profile_id, profile in jobs:
            facts = facts_on(profile.platforms)
            sized = size_or_late(job.spec, profile, facts, elapsed_s=job.elapsed_s)
            if job.spec.policy is not None and job.spec.policy not in registry.POLICIES:
                refused.append(refused_as.unknown_policy(job, profile_id))
                continue
            if job.missing:
                has_ceiling = job.spec.constraints.max_cost is not None
                sized = missing_size(sized, job.missing, has_ceiling=has_ceiling)
            is_closed = False
            if isinstance(sized, Infeasible):
                is_closed = is_only_closed(job.spec, profile, snapshot, allowances)
                if job.was_launched and not is_closed:
                    sized = best_size(job.spec, profile, facts, sized)
            if isinstance(sized, Infeasible):
                refused.append(refused_as.infeasible(job, profile_id, sized, is_closed=is_closed))
                continue
            is_measured = profile_id is not None and self._is_measured(job.spec, sized)
            topology = snapshot.topology
            request = request_of(
                job.spec,
                profile,
                sized,
                topology,
                job=str(job.id),
                measure_rank=is_measured,
            )
            request = after(request, job.elapsed_s)
            if job.missing:
                request = missing_request(request, topology, job.held)
            policy = "" if profile_id is None else self._deciders.name_of(job.spec)
            sampling = self._sampling(job, request, snapshot, policy)
            request = replace(request, sample_size=sampling.size)
            run = run_time(job.spec, profile, sized, facts, elapsed_s=job.elapsed_s)
            if profile_id is not None:
                request = replace(request, is_patient=_is_patient(job, request, run))
            ready.append(
                SizedJob(job, profile_id, profile, sized, request, topology, sampling, run)
            )
        return ready, refused

    def _sampling(
        self, job: ClaimedJob, request: Request, snapshot: Snapshot, policy: str
    ) -> Sampling:
        facts, limit = self.facts_of(snapshot.topology), settings.MAX_SAMPLE
        shares = self._shares if policy in FOLLOWING_LOAD else None
        return sampling_of(job.spec, request, snapshot, facts, max_sample=limit, shares=shares)

    def facts_of(self, topology: Topology) -> TopologyFacts:
        """Return the facts of a topology; those of the last one are kept."""
        if self._facts is None or self._facts.topology is not topology:
            self._facts = TopologyFacts(topology)
        return self._facts

    def _is_measured(self, spec: JobSpec, sized: Sized) -> bool:
        """Whether the rank of the choice is measured, which verifies the sampling guarantee."""
        if sized.units != 1 or sized.locality is not None:
            return False
        if not self._deciders.of(spec, self._deciders.default).policy.draws_sample:
            return False
        self._one_unit += 1
        return self._one_unit % RANK_ONE_IN == 0

    def updated(self, sized_job: SizedJob, topology: Topology) -> SizedJob:
        """Rebuild the request if the topology changed: it refers to platforms by index."""
        if sized_job.topology is topology:
            return sized_job
        request = request_of(
            sized_job.job.spec,
            sized_job.profile,
            sized_job.sized,
            topology,
            job=sized_job.request.job,
            measure_rank=sized_job.request.measure_rank,
        )
        request = after(request, sized_job.job.elapsed_s)
        if sized_job.job.missing:
            request = missing_request(request, topology, sized_job.job.held)
        request = replace(
            request,
            sample_size=sized_job.sampling.size,
            is_patient=sized_job.request.is_patient,
        )
        return replace(sized_job, request=request, topology=topology)


def without_patience(ready: Sequence[SizedJob], jobs: Collection[UUID]) -> Sequence[SizedJob]:
    """Let some of the jobs take any units: others are kept from those reserved for them."""
    return [
        replace(each, request=replace(each.request, is_patient=False))
        if each.request.is_patient and each.job.id in jobs
        else each
        for each in ready
    ]


def _is_patient(job: ClaimedJob, request: Request, run: RunTime | None) -> bool:
    """Whether a job may still wait for better units; a running job takes any that it lacks."""
    kind, limit_s = job.spec.target.kind, settings.PATIENCE_S
    longest_s = patience_s(request.units, kind, run, limit_s=limit_s, priority=job.priority)
    return not job.missing and job.waited_s < longest_s
