"""Refused jobs: they wait or fail, with a reason."""

from collections.abc import Sequence

from django.db import transaction

from apps.inventory.core.snapshot import Topology
from apps.inventory.selectors import cluster_time
from apps.scheduling.services.batches import insert_batches
from apps.scheduling.services.decisions import Occasion, insert_decisions, refusal_rows
from apps.scheduling.services.proposals import AgentIdentity, Refusal
from apps.workloads import services as workloads


def record_refusals(
    refusals: Sequence[Refusal],
    *,
    agent: AgentIdentity,
    topology: Topology,
    sequence: int,
    delay_s: float,
) -> None:
    """Keep jobs waiting with their reasons.

    One decision is stored for each request shape whose reason changed.

    Parameters
    ----------
    sequence : change-log number up to which the agent had read before it evaluated them
    delay_s : wall seconds until their shapes are evaluated again
    """
    if not refusals:
        return
    time = cluster_time()
    now, cluster_s = time.at, time.cluster_s
    with transaction.atomic():
        decided = workloads.keep_waiting(
            [_waiting(refusal) for refusal in refusals],
            agent=agent.name,
            at=workloads.EvaluationTime(cluster_s, sequence, delay_s),
        )
        stored = [r for r in refusals if r.job.id in decided]
        insert_batches((r.place for r in stored), at=now, code_version=agent.code_version)
        insert_decisions(refusal_rows(stored, Occasion(agent, now, cluster_s), topology))


def _waiting(refusal: Refusal) -> workloads.WaitingJob:
    return workloads.WaitingJob(
        job_id=refusal.job.id,
        reason=refusal.reason,
        message=refusal.message,
        decision_id=refusal.decision_id,
        needs=refusal.needs,
        also=refusal.also,
        units=max(1, refusal.units),
        run_s=None if refusal.run is None else refusal.run.value,
        run_high_s=None if refusal.run is None else refusal.run.high,
        waits_for_better=refusal.refused is not None and refusal.refused.waits_for_better,
        keeps_place=refusal.refused is not None and refusal.refused.lacks_only_units,
    )


def refuse_permanently(
    refusals: Sequence[Refusal], *, agent: AgentIdentity, topology: Topology
) -> None:
    """Fail jobs that waiting cannot help, and store their decisions."""
    if not refusals:
        return
    time = cluster_time()
    now, cluster_s = time.at, time.cluster_s
    for refusal in refusals:
        with transaction.atomic():
            ended = workloads.fail_waiting(
                [refusal.job.id],
                reason=refusal.reason,
                message=refusal.message,
                agent=agent.name,
            )
            if ended:
                insert_batches([refusal.place], at=now, code_version=agent.code_version)
                occasion = Occasion(agent, now, cluster_s)
                insert_decisions(refusal_rows([refusal], occasion, topology))
