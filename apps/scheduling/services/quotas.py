"""Jobs that the quotas of their projects let start."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from django.conf import settings

from apps.common.infrastructure.database import fetch_rows, number_array
from apps.inventory.core.snapshot import Snapshot
from apps.inventory.selectors import cluster_now
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.cluster.conflicts import Claim
from apps.scheduling.core.reservations.gangs import fits_when_empty
from apps.scheduling.core.sharing.quotas import WaitingGang, allowance, beyond_limit
from apps.scheduling.core.types import RefusalReason, Refused
from apps.scheduling.selectors.backfill import waits_before_reservation_s
from apps.scheduling.selectors.quotas import gangs_submitted_until, has_quotas, standings
from apps.scheduling.services.backfill import start_s
from apps.scheduling.services.proposals import SizedJob


def within_quotas(
    snapshot: Snapshot, ready: Sequence[SizedJob], facts: TopologyFacts
) -> tuple[list[SizedJob], list[tuple[SizedJob, Refused]]]:
    """Return the jobs within the quotas of their projects, and the refusals of the others.

    Jobs that start with fewer units than they need request as many as their quota leaves. Policies
    that choose the number of units keep to that of the request if theirs might exceed the quota.
    Several agents that decide at the same time may borrow the same units. They do not exceed the
    maximum of a project: their commits check it again (`within_limits`).

    A gang could wait for ever while smaller jobs of its project take each unit that the quota
    leaves. So once it has waited as long as for a reservation, the jobs of its project that are
    not more urgent leave it the units that it needs. One that the open servers could not hold
    whatever ended is returned like those within their quota: the policy refuses it for that
    reason, and its project keeps nothing for it.
    """
    if not has_quotas():
        return list(ready), []
    known, from_s = standings(), start_s()
    gangs = _gangs_that_waited_long(cluster_now())
    free = snapshot.free_units
    # Claims count for others as they were: a job that the policy refuses keeps its claim. So the
    # units taken against a claim are still free to others, but not to the project itself.
    claims = {key: each.claimed for key, each in known.items()}
    covered, taken = dict.fromkeys(known, 0), dict.fromkeys(known, 0)
    within: list[SizedJob] = []
    refused: list[tuple[SizedJob, Refused]] = []
    beyond = 0  # units that policies may take beyond those of the requests
    for each in ready:
        project, units = each.job.project_id, each.request.units
        own = replace(known[project], used=known[project].used + taken[project])
        left = max(0, free - covered[project])
        gang = gangs.get(project)
        ends_s = from_s + each.longest_s
        if gang and not gang.binds(each.job.id, priority=each.job.priority, ends_s=ends_s):
            gang = None
        limit = allowance({**known, project: own}, project, left, gang)
        if limit.units and not limit.covers(units) and not each.is_whole:
            units = limit.units
        if limit.covers(units):
            request = replace(each.request, units=units)
            if limit.covers(request.most_units + beyond):
                beyond += request.most_units - units
            else:
                request = request.of_fixed_size()
            within.append(replace(each, request=request))
            if project in gangs and gangs[project].job == each.job.id:
                del gangs[project]  # it has its units: they are among those taken
            claimed = min(units, claims[project] - covered[project])
            covered[project] += claimed
            taken[project] += units
            free = max(0, free - units + claimed)
        elif fits_when_empty(each.request, snapshot, facts):
            never = beyond_limit(own, each.request.min_units)
            outcome = _refused(each, never or limit.detail, snapshot, left)
            refused.append((each, replace(outcome, is_beyond_limit=bool(never))))
        else:
            within.append(each)
    return within, refused


def _gangs_that_waited_long(now_s: float) -> dict[UUID, WaitingGang]:
    if not settings.MAX_RESERVATIONS:
        return {}
    waits_s = waits_before_reservation_s(2, lacks_room=False)  # the same for all gangs
    return gangs_submitted_until(now_s - waits_s)


_LIMITS: Final = """
SELECT id, max_units FROM accounts_project
WHERE id = ANY(%s) AND max_units IS NOT NULL ORDER BY id
"""
_HELD: Final = """
SELECT j.project_id, sum(a.cores)
FROM scheduling_allocation a JOIN workloads_job j ON j.id = a.job_id
WHERE a.released_seq IS NULL AND j.project_id = ANY(%s) GROUP BY j.project_id
"""


def left_in_limits(projects: Collection[UUID], *, lock: bool = True) -> dict[UUID, int]:
    """Return the units left to each project that has a maximum.

    Two statements; none without projects.

    Parameters
    ----------
    lock : keep others from placing jobs of these projects until the transaction ends
    """
    if not projects:
        return {}
    ids = number_array(sorted(projects))
    limits = dict(fetch_rows(f"{_LIMITS} FOR NO KEY UPDATE" if lock else _LIMITS, [ids]))
    held = dict(fetch_rows(_HELD, [ids]))  # after the lock: it sees what others committed
    return {key: max(0, limit - held.get(key, 0)) for key, limit in limits.items()}


def within_limits(
    claims: Sequence[Claim],
    winners: Sequence[tuple[int, ...]],
    projects: Sequence[UUID | None],
    left: Mapping[UUID, int],
) -> list[tuple[int, ...]]:
    """Return the positions that each claim wins without exceeding the maximum of its project.

    Parameters
    ----------
    winners : positions that each claim wins otherwise
    projects : of each claim; None = without a maximum
    left : units left to each project; without an entry, its maximum was removed meanwhile
    """
    rest, kept = dict(left), []
    for claim, won, project in zip(claims, winners, projects, strict=True):
        most = len(won) if project is None else rest.get(project, len(won))
        positions = () if claim.whole and len(won) > most else won[:most]
        if project in rest:
            rest[project] -= len(positions)
        kept.append(positions)
    return kept


def _refused(ready: SizedJob, detail: str, snapshot: Snapshot, free: int) -> Refused:
    return Refused(
        ready.request.job,
        RefusalReason.QUOTA_EXCEEDED,
        {"quota": free} if free else {},
        detail=detail,
        sequence=snapshot.sequence,
    )
