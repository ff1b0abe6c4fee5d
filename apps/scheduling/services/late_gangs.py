"""Reservations for the gangs among refused jobs that have waited long."""

from collections.abc import Callable, Sequence

from django.conf import settings

from apps.inventory.core.snapshot import Topology
from apps.inventory.selectors import cluster_now
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.reservations import SHORT_OF_UNITS
from apps.scheduling.selectors import ClusterFollower
from apps.scheduling.services.proposals import Refusal
from apps.scheduling.services.reservations import reservations, reserve


def reserve_for_late_gangs(
    refused: Sequence[Refusal],
    cluster: ClusterFollower,
    facts_of: Callable[[Topology], TopologyFacts],
) -> None:
    """Reserve units for the gangs among refused jobs that have waited long, oldest first."""
    late = [refusal for refusal in refused if _is_late_gang(refusal)]
    if not late or not settings.MAX_RESERVATIONS:
        return
    now_s, kept = cluster_now(), {each.job: each.start_s for each in reservations()}
    for refusal in sorted(late, key=lambda r: -r.job.elapsed_s):
        start_s = kept.get(refusal.job.id)
        is_late = start_s is not None and start_s < now_s
        if not is_late and (start_s is not None or len(kept) >= settings.MAX_RESERVATIONS):
            continue
        snapshot = cluster.follow().snapshot()
        if refusal.request is None or refusal.topology is not snapshot.topology:
            continue
        facts = facts_of(snapshot.topology)
        if reserve(refusal.job.id, refusal.request, snapshot, facts):
            kept[refusal.job.id] = now_s


def _is_late_gang(refusal: Refusal) -> bool:
    """Whether a job needs several units at once, lacks them, and has waited for the setting."""
    return (
        refusal.request is not None
        and refusal.request.units > 1
        and (refusal.request.gang or refusal.request.locality is not None)
        and refusal.refused is not None
        and refusal.refused.reason in SHORT_OF_UNITS
        and refusal.job.elapsed_s >= settings.RESERVE_AFTER_S
    )
