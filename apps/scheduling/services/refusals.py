"""Jobs that could not be placed: they wait, or end, each with its reason."""

from collections.abc import Sequence

from django.db import transaction
from django.utils import timezone

from apps.inventory.core.snapshot import Topology
from apps.inventory.selectors import cluster_clock
from apps.scheduling.services.decisions import insert_decisions, refusal_row
from apps.scheduling.services.proposals import Agent, Refusal
from apps.workloads import services as workloads


def note_refusals(
    refusals: Sequence[Refusal], *, agent: Agent, servers: int, topology: Topology, delay_s: float
) -> None:
    """Let jobs wait, each with its reason; a decision is kept only where the reason is new.

    Parameters
    ----------
    servers : servers of the cluster
    delay_s : wall seconds until they are looked at again
    """
    if not refusals:
        return
    now = timezone.now()
    cluster_s = cluster_clock().at(now.timestamp())
    with transaction.atomic():
        changed = workloads.keep_waiting(
            [workloads.Waiting(r.job.id, r.reason, r.message, r.also) for r in refusals],
            agent=agent.name,
            cluster_s=cluster_s,
            delay_s=delay_s,
        )
        new = [r for r in refusals if r.job.id in changed]
        insert_decisions([refusal_row(r, agent, now, cluster_s, servers, topology) for r in new])


def refuse_for_good(
    refusals: Sequence[Refusal], *, agent: Agent, servers: int, topology: Topology
) -> None:
    """End jobs that waiting cannot help, each with its decision."""
    now = timezone.now()
    cluster_s = cluster_clock().at(now.timestamp())
    for refusal in refusals:
        with transaction.atomic():
            ended = workloads.fail_waiting(
                [refusal.job.id],
                reason=refusal.reason,
                message=refusal.message,
                agent=agent.name,
            )
            if ended:
                insert_decisions([refusal_row(refusal, agent, now, cluster_s, servers, topology)])
