"""Conditions on decisions that lists share."""

from collections.abc import Sequence

from django.db.models import Q

from apps.scheduling.models import Allocation
from apps.workloads.models import Application


def decisions_at(server_ids: Sequence[int]) -> Q:
    """Return the condition that a decision placed units on one of the servers."""
    return Q(pk__in=Allocation.objects.filter(server_id__in=server_ids).values("decision_id"))


def decisions_about(application: str) -> Q:
    """Return the condition that a decision is about a job of the application with this name."""
    named = Application.objects.filter(name=application).values("pk")[:1]
    return Q(job__application=named)


def decisions_retried(count: int) -> Q:
    """Return the condition that a decision lost at least this number of commits."""
    retried = Q(commit_retries__gte=count)
    return retried & Q(commit_retries__gt=0) if count > 0 else retried
