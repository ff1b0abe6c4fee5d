"""Jobs that the quotas of their projects let start."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from uuid import UUID

from django.conf import settings

from apps.common.infrastructure.database import fetch_rows, number_array
from apps.inventory.core.snapshot import Snapshot
from apps.inventory.selectors import cluster_now
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.cluster.conflicts import Claim
from apps.scheduling.core.reservations.gangs import fits_when_empty
from apps.scheduling.core.sharing.claims import ClaimedServers, OpenUnits, claimed_servers
from apps.scheduling.core.sharing.quotas import (
    Allowance,
    Standing,
    WaitingGang,
    allowance,
    beyond_limit,
)
from apps.scheduling.core.starts.wakes import needs_of
from apps.scheduling.core.types import Pool, RefusalReason, Refused, Request
from apps.scheduling.selectors.backfill import waits_before_reservation_s
from apps.scheduling.selectors.quotas import (
    IS_USED,
    gangs_submitted_until,
    has_quotas,
    standings,
)
from apps.scheduling.services.backfill import start_s
from apps.scheduling.services.proposals import SizedJob

if TYPE_CHECKING:
    from apps.workloads.core.shapes import Needs


def within_quotas(
    snapshot: Snapshot, ready: Sequence[SizedJob], facts: TopologyFacts
) -> tuple[list[SizedJob], list[tuple[SizedJob, Refused]]]:
    """Return the jobs within the quotas of their projects, and the refusals of the others.

    Jobs that start with fewer units than they need request as many as their quota leaves. Policies
    that choose the number of units keep to that of the request if theirs might exceed the quota.
    Several agents that decide at the same time may borrow the same units. They do not exceed the
    maximum of a project: their commits check it again (`within_limits`).

    If other projects claim only some servers (`core.sharing.claims`), the request of a job that
    borrows units names the servers on which it may.

    A gang could wait for ever while smaller jobs of its project take each unit that the quota
    leaves. So once it has waited as long as for a reservation, the jobs of its project that are
    not more urgent leave it the units that it needs. One that the open servers could not hold
    whatever ended is returned like those within their quota: the policy refuses it for that
    reason, and its project keeps nothing for it.
    """
    if not has_quotas():
        return list(ready), []
    from_s, books = start_s(), _Books.opened(snapshot, ready, facts)
    gangs = _gangs_that_waited_long(cluster_now())
    within: list[SizedJob] = []
    refused: list[tuple[SizedJob, Refused]] = []
    beyond = 0  # units that policies may take beyond those of the requests
    for each in ready:
        project, units = each.job.project_id, each.request.units
        gang = gangs.get(project)
        ends_s = from_s + each.longest_s
        if gang and not gang.binds(each.job.id, priority=each.job.priority, ends_s=ends_s):
            gang = None
        limit, pool = books.limit(each, gang)
        if limit.units and not limit.covers(units) and not each.is_whole:
            units = limit.units
        if limit.covers(units):
            is_borrowed = units > books.own(project).unused
            request = replace(each.request, units=units, pool=pool if is_borrowed else None)
            if limit.covers(request.max_units + beyond):
                beyond += request.max_units - units
            else:
                request = request.of_fixed_size()
            within.append(replace(each, request=request))
            if project in gangs and gangs[project].job == each.job.id:
                del gangs[project]  # it has its units: they are among those taken
            books.take(project, request)
        elif fits_when_empty(each.request, snapshot, facts):
            never = beyond_limit(books.own(project), each.request.min_units)
            outcome = _refused(each, never or limit.detail, snapshot, books.left(project))
            refused.append((each, replace(outcome, is_beyond_limit=bool(never))))
        else:
            within.append(each)
    return within, refused


@dataclass(slots=True, eq=False)
class _Books:
    """What the projects hold and claim, with what the jobs of a turn have taken so far.

    Claims count for others as they were: a job that the policy refuses keeps its claim. So the
    units taken against a claim are still free to others, but not to the project itself.

    Attributes
    ----------
    free : units that nobody has taken but against a claim
    lenders : None = no project claims units, or one claims those of any server
    taken, covered : units, and those of them against a claim, by project
    """

    known: Mapping[UUID, Standing]
    free: int
    lenders: ClaimedServers | None
    taken: Counter[UUID] = field(default_factory=Counter)
    covered: Counter[UUID] = field(default_factory=Counter)

    @classmethod
    def opened(
        cls, snapshot: Snapshot, ready: Sequence[SizedJob], facts: TopologyFacts
    ) -> "_Books":
        known = standings([each.job.id for each in ready])
        return cls(known, snapshot.free_units, _lenders(known, ready, snapshot, facts))

    def own(self, project: UUID) -> Standing:
        """Return the standing of a project with the units that its jobs have taken."""
        known = self.known[project]
        return replace(known, used=known.used + self.taken[project])

    def left(self, project: UUID) -> int:
        """Return the free units, less those that the project has taken against its claim."""
        return max(0, self.free - self.covered[project])

    def limit(self, each: SizedJob, gang: WaitingGang | None) -> tuple[Allowance, Pool | None]:
        """Return what the project of a job may take, and the servers on which it may borrow."""
        project = each.job.project_id
        loan = self.lenders.loan(project, each.request) if self.lenders else None
        seen = {**self.known, project: self.own(project)}
        limit = allowance(seen, project, self.left(project), gang, loan)
        return limit, loan.pool if loan else None

    def take(self, project: UUID, request: Request) -> None:
        """Count the units of a request as taken."""
        units = request.units
        claimed = min(units, self.known[project].claimed - self.covered[project])
        self.covered[project] += claimed
        self.taken[project] += units
        self.free = max(0, self.free - units + claimed)
        if self.lenders is not None:
            self.lenders.take(project, request)


def _lenders(
    known: Mapping[UUID, Standing],
    ready: Sequence[SizedJob],
    snapshot: Snapshot,
    facts: TopologyFacts,
) -> ClaimedServers | None:
    """Return the servers that claims concern, also of the jobs in hand; None if it is any."""
    needs: dict[UUID, set[Needs]] = {key: set() for key, each in known.items() if each.claimed}
    if not needs:
        return None
    for each in ready:
        if each.job.project_id in needs:
            needs[each.job.project_id].add(needs_of(each.request, RefusalReason.NO_FREE_UNIT))
    return claimed_servers(known, needs, OpenUnits.of(snapshot), facts)


def _gangs_that_waited_long(now_s: float) -> dict[UUID, WaitingGang]:
    if not settings.MAX_RESERVATIONS:
        return {}
    waits_s = waits_before_reservation_s(2, lacks_room=False)  # the same for all gangs
    return gangs_submitted_until(now_s - waits_s)


_LIMITS: Final = """
SELECT id, max_units FROM accounts_project
WHERE id = ANY(%s) AND max_units IS NOT NULL ORDER BY id
"""
_HELD: Final = f"""
SELECT j.project_id, sum(a.cores)
FROM scheduling_allocation a JOIN workloads_job j ON j.id = a.job_id
WHERE a.released_seq IS NULL AND {IS_USED} AND j.project_id = ANY(%s) GROUP BY j.project_id
"""  # noqa: S608 - a constant


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
