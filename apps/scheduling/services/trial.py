"""The decision that an agent would make on a job that is not submitted: nothing is written.

It follows `services.agent` and `services.commit` step by step, and calls their rules.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import numpy as np
from django.conf import settings

from apps.common.core.ids import uuid7
from apps.inventory.core.snapshot import Snapshot
from apps.inventory.selectors import cluster_now
from apps.scheduling.core.admission.types import Admission
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.cluster.conflicts import Vector, resolve_conflicts
from apps.scheduling.core.dry_run import DryRunJob
from apps.scheduling.core.reservations.backfill import place_batch
from apps.scheduling.core.reservations.gangs import Reservation
from apps.scheduling.core.types import Placed, Policy, RefusalReason, Refused
from apps.scheduling.selectors import ClaimedJob
from apps.scheduling.services.admission import admitted_by
from apps.scheduling.services.agent_refusals import lost_attempts
from apps.scheduling.services.backfill import bindings, start_s
from apps.scheduling.services.commit import bar_reserved, claim_of
from apps.scheduling.services.proposals import LostProposal, Proposal, SizedJob
from apps.scheduling.services.quotas import left_in_limits, within_limits, within_quotas
from apps.scheduling.services.reservations import reservations
from apps.workloads.core.spec import JobSpec


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """The state that an agent would see.

    Attributes
    ----------
    project : whose quota counts; None = none does
    control : the admission control with the history of the agents, which changes; None = none
    """

    spec: JobSpec
    project: UUID | None
    snapshot: Snapshot
    policy: Policy
    control: Admission | None
    rng: np.random.Generator

    def decide(self, job: DryRunJob) -> Placed | Refused:
        """Return the placement that would be committed, or the refusal."""
        ready, reserved = _sized_job(self, job), reservations()
        attempts: int = settings.AGENT_RETRIES + 1
        for _ in range(attempts):
            outcome = self._outcome(ready, job.facts, reserved)
            if isinstance(outcome, Refused):
                return outcome
            proposal = Proposal(ready, outcome, 0.0)
            won, is_over_limit = self._committed(proposal, reserved)
            if won:
                return replace(outcome, units=outcome.units[list(won)])
            lost = LostProposal(proposal, is_gone=False, is_over_limit=is_over_limit)
            ready = lost.next_try(ready)
        return Refused(
            ready.request.job,
            RefusalReason.COMMIT_CONFLICT,
            {},
            detail=lost_attempts(attempts),
            sequence=self.snapshot.sequence,
        )

    def _outcome(
        self, ready: SizedJob, facts: TopologyFacts, reserved: Sequence[Reservation]
    ) -> Placed | Refused:
        """Return the decision on the job, if quota and admission control let it start."""
        admitted, held_back = [ready], list[tuple[SizedJob, Refused]]()
        if self.project is not None:
            admitted, held_back = within_quotas(self.snapshot, admitted, facts)
        if self.control is not None and admitted:
            now_s = cluster_now()
            admitted, held_back = admitted_by(
                self.control, self.snapshot, admitted, facts, now_s, reserved
            )
        if held_back:
            return held_back[0][1]
        requests = [each.request for each in admitted]
        bound = bindings(admitted, reserved, start_s()) if reserved else ()
        (outcome,) = place_batch(
            self.policy, self.snapshot, requests, self.rng, facts=facts, bindings=bound
        )
        return outcome

    def _committed(
        self, proposal: Proposal, reserved: Sequence[Reservation]
    ) -> tuple[tuple[int, ...], bool]:
        """Return the positions of the units that a commit allocates, and if a limit took some."""
        (claim,) = bar_reserved([proposal], [claim_of(proposal)], reserved)
        topology = self.snapshot.topology
        servers = np.unique(topology.unit_server[proposal.placed.units])
        left = self.snapshot.server_free[servers].tolist()
        free: dict[int, Vector] = {
            key: (memory, network, storage)
            for key, (memory, network, storage) in zip(
                topology.server_id[servers].tolist(), left, strict=True
            )
        }
        (found,) = resolve_conflicts([claim], dict.fromkeys(claim.units), free)
        limits = left_in_limits([] if self.project is None else [self.project], lock=False)
        project = self.project if self.project in limits else None
        (won,) = within_limits([claim], [found], [project], limits)
        return won, won != found


def _sized_job(trial: Trial, job: DryRunJob) -> SizedJob:
    spec = trial.spec
    claimed = ClaimedJob(
        id=uuid7(),
        name=spec.name or spec.application,
        project_id=trial.project or uuid7(),
        application_id=uuid7(),
        submitted_s=0.0,
        elapsed_s=0.0,
        spec=spec,
        runs_command=bool(spec.command),
        is_copyable=spec.copyable,
        backend=spec.backend,
        priority=spec.priority,
    )
    topology = trial.snapshot.topology
    return SizedJob(
        *(claimed, None, job.profile, job.sized, job.request, topology, job.sampling, job.run)
    )
