"""Refusals of an agent: why a job was not placed, and what it needs."""

from uuid import UUID

from apps.scheduling.core.policy_errors import PolicyFailedError
from apps.scheduling.core.requests import CLOSED
from apps.scheduling.core.sizing.sizes import Infeasible
from apps.scheduling.core.starts.wakes import needs_of, needs_of_spec
from apps.scheduling.core.types import Refused
from apps.scheduling.selectors import ClaimedJob
from apps.scheduling.services.batches import BatchPlace
from apps.scheduling.services.proposals import Proposal, Refusal, SizedJob
from apps.workloads.core.reasons import Reason
from apps.workloads.core.shapes import Needs, WaitsFor


def no_servers(job: ClaimedJob) -> Refusal:
    """Return the refusal of a job that cannot be profiled without servers."""
    return Refusal(
        job=job,
        reason=Reason.NO_MATCHING_SERVER,
        message="the cluster has no servers to profile the application on",
        units=0,
        profile_id=None,
        elapsed_s=0.0,
        needs=Needs(WaitsFor.SERVERS),
    )


def no_commands(job: ClaimedJob) -> Refusal:
    """Return the refusal of a command while no server runs commands."""
    return Refusal(
        job=job,
        reason=Reason.NO_MATCHING_SERVER,
        message="no server of this cluster runs commands; enrol an agent",
        units=job.spec.units or 0,
        profile_id=None,
        elapsed_s=0.0,
        needs=needs_of_spec(job.spec, WaitsFor.SERVERS),
    )


def only_commands(job: ClaimedJob) -> Refusal:
    """Return the refusal of a job without a command if all servers run commands."""
    return Refusal(
        job=job,
        reason=Reason.INVALID,
        message="the servers of this cluster run commands; submit the job with a command",
        units=0,
        profile_id=None,
        elapsed_s=0.0,
        needs=None,
    )


def unknown_policy(job: ClaimedJob, profile_id: UUID | None) -> Refusal:
    """Return the refusal of a job whose policy was removed."""
    return Refusal(
        job=job,
        reason=Reason.INVALID,
        message=f"the policy {job.spec.policy} no longer exists; submit the job with another one",
        units=0,
        profile_id=profile_id,
        elapsed_s=0.0,
        needs=None,
    )


def infeasible(
    job: ClaimedJob, profile_id: UUID | None, sized: Infeasible, *, is_closed: bool
) -> Refusal:
    """Return the refusal of a job that no size can satisfy now."""
    best = f"; the best option is {sized.option}" if sized.option else ""
    reason = Reason.INFEASIBLE_TARGET if sized.platform else Reason.NO_MATCHING_SERVER
    if sized.cost is not None:
        reason = Reason.COST_EXCEEDED
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
        needs=needs_of_spec(job.spec, WaitsFor.OPENING if is_closed else WaitsFor.SERVERS),
    )


def refusal(
    sized_job: SizedJob, refused: Refused, elapsed_s: float, attempt: int, place: BatchPlace | None
) -> Refusal:
    """Return the refusal by a policy."""
    return Refusal(
        job=sized_job.job,
        reason=Reason(refused.reason.value),
        message=refused.detail,
        units=sized_job.request.units,
        profile_id=sized_job.profile_id,
        elapsed_s=elapsed_s,
        needs=needs_of(sized_job.request, refused.reason),
        refused=refused,
        also=tuple(reason.value for reason in refused.also),
        retries=attempt,
        sampling=sized_job.sampling,
        request=sized_job.request,
        topology=sized_job.topology,
        run=sized_job.run,
        place=place,
    )


def failed(sized_job: SizedJob, error: PolicyFailedError) -> Refusal:
    """Return the refusal of a job on which the policy failed."""
    return Refusal(
        job=sized_job.job,
        reason=Reason.POLICY_FAILED,
        message=str(error),
        units=sized_job.request.units,
        profile_id=sized_job.profile_id,
        elapsed_s=0.0,
        needs=None,
    )


def lost_attempts(attempts: int) -> str:
    """Return the sentence for a job that lost all its commits."""
    return f"other agents were faster in {attempts} {'attempt' if attempts == 1 else 'attempts'}"


def conflict(proposal: Proposal) -> Refusal:
    """Return the refusal of a job that lost all its commits."""
    attempts = proposal.retries + 1
    return Refusal(
        job=proposal.job,
        reason=Reason.COMMIT_CONFLICT,
        message=lost_attempts(attempts),
        units=proposal.sized_job.request.units,
        profile_id=proposal.sized_job.profile_id,
        elapsed_s=proposal.elapsed_s,
        needs=None,
        lost=proposal.placed,
        retries=attempts,
        sampling=proposal.sized_job.sampling,
        place=proposal.place,
    )
