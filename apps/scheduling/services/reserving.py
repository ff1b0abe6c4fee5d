"""Reservations for refused jobs, as the mode of backfill says."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from django.conf import settings

from apps.inventory.core.snapshot import Topology
from apps.inventory.selectors import cluster_now
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.reservations.gangs import SHORT_OF_UNITS, demand_of
from apps.scheduling.core.types import RefusalReason
from apps.scheduling.selectors import ClusterFollower
from apps.scheduling.selectors.backfill import waits_before_reservation_s
from apps.scheduling.services.proposals import Refusal
from apps.scheduling.services.reservations import (
    end_all_reservations,
    end_reservations,
    reservations,
    reserve,
)
from apps.workloads.core.reasons import PERMANENT, Reason

# Beyond its quota, a job may hold the units that the quota leaves to others. Without matching open
# servers, with a policy that fails, or with a permanent reason after its first launch, it cannot
# use its units, and no plan would ever replace the reservation.
_GIVES_UP: Final = frozenset(
    {
        Reason.QUOTA_EXCEEDED,
        Reason.NO_MATCHING_SERVER,
        Reason.SERVERS_CLOSED,
        Reason.POLICY_FAILED,
        *PERMANENT,
    }
)


def reserve_for_waiting(
    refused: Sequence[Refusal],
    cluster: ClusterFollower,
    facts_of: Callable[[Topology], TopologyFacts],
) -> None:
    """Reserve units for refused jobs, the longest waiting first.

    Jobs that freed units cannot let start (`_GIVES_UP`) give their reservations up, unless other
    jobs are still being stopped for them. If the setting allows none, all do, those of preemptions
    when they are late.
    """
    if not settings.MAX_RESERVATIONS:
        end_all_reservations()
    _give_up(refused)
    if not settings.MAX_RESERVATIONS:
        return
    entitled = [refusal for refusal in refused if _may_reserve(refusal)]
    if not entitled:
        return
    now_s, kept = cluster_now(), {each.job: each.start_s for each in reservations()}
    failed: set[tuple[object, ...]] = set()
    for refusal in sorted(entitled, key=lambda r: -r.job.elapsed_s):
        start_s = kept.get(refusal.job.id)
        is_late = start_s is not None and start_s < now_s
        if not is_late and (start_s is not None or len(kept) >= settings.MAX_RESERVATIONS):
            continue
        snapshot = cluster.follow().snapshot()
        if refusal.request is None or refusal.topology is not snapshot.topology:
            continue
        request = replace(refusal.request, units=refusal.request.min_units)
        if not is_late and demand_of(request) in failed:
            continue  # a plan reads all allocations, and another one fails too
        if reserve(refusal.job.id, request, snapshot, facts_of(snapshot.topology)):
            kept[refusal.job.id] = now_s
        else:
            failed.add(demand_of(request))


def _give_up(refused: Sequence[Refusal]) -> None:
    """End the reservations of jobs that cannot use them, and late ones if none are renewed."""
    useless = {r.job.id for r in refused if r.reason in _GIVES_UP}
    jobs = useless if settings.MAX_RESERVATIONS else {r.job.id for r in refused}
    if not jobs:
        return
    late_s = -math.inf if settings.MAX_RESERVATIONS else cluster_now()
    known = [each for each in reservations() if each.job in jobs and not each.is_awaiting]
    ended = [each.job for each in known if each.job in useless or each.start_s < late_s]
    if ended:
        end_reservations(ended)


def _may_reserve(refusal: Refusal) -> bool:
    """Whether a job lacks units, and has waited long enough."""
    request, refused = refusal.request, refusal.refused
    if request is None or refused is None or refused.reason not in SHORT_OF_UNITS:
        return False
    lacks_room = RefusalReason.CAPACITY_SHORT in (refused.reason, *refused.also)
    waits_s = waits_before_reservation_s(request.min_units, lacks_room=lacks_room)
    return refusal.job.elapsed_s >= waits_s
