"""Queries of the decisions API."""

from uuid import UUID

from django.db.models import Q, QuerySet

from apps.accounts.core.principal import Principal
from apps.scheduling.models import Allocation, Decision
from apps.workloads.models import Job


def visible_decisions(principal: Principal) -> QuerySet[Decision]:
    """Return the decisions a caller may see, without their candidates."""
    decisions = Decision.objects.select_related("job").defer("candidates")
    if principal.sees_everything():
        return decisions
    return decisions.filter(job__project_id__in=list(principal.projects))


def allocations_of(job: Job) -> QuerySet[Allocation]:
    """Return the allocations of a job."""
    return Allocation.objects.filter(job=job)


def jobs_on(server_id: int) -> Q:
    """Return the condition that a job holds units of a server now."""
    live = Allocation.objects.filter(server_id=server_id, released_seq__isnull=True)
    return Q(pk__in=live.values("job_id"))


def decision(principal: Principal, decision_id: UUID) -> Decision | None:
    """Return one decision, or None if the caller may not see it or it does not exist."""
    return visible_decisions(principal).filter(pk=decision_id).first()
