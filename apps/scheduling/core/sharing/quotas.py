"""Quotas of projects: guaranteed units, which other projects may borrow while they are not needed.

Units that a project lends come back by not admitting further jobs of those that borrow: no running
job is stopped.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from apps.scheduling.core.types import Pool
from apps.workloads.core.shapes import Needs


@dataclass(frozen=True, slots=True)
class Standing:
    """Units of a project.

    Attributes
    ----------
    guaranteed : that it may use whatever others request; 0 = it can only borrow
    limit : that it may use in all; None = no limit
    used : that its jobs hold
    waiting : that its waiting jobs request
    needs : of these jobs: its claim concerns the servers that have them; None = any server
    """

    name: str
    guaranteed: int = 0
    limit: int | None = None
    used: int = 0
    waiting: int = 0
    needs: frozenset[Needs] | None = None

    @property
    def borrowed(self) -> int:
        """Units used beyond the guarantee."""
        return max(0, self.used - self.guaranteed)

    @property
    def unused(self) -> int:
        """Guaranteed units that it does not use."""
        return max(0, self.guaranteed - self.used)

    @property
    def claimed(self) -> int:
        """Unused guaranteed units that its own waiting jobs request, which nobody may borrow."""
        return min(self.unused, self.waiting)


@dataclass(frozen=True, slots=True)
class WaitingGang:
    """A job that needs all its units at once, and for which its project keeps a part of its quota.

    Attributes
    ----------
    units, priority : of the job
    start_s : cluster time of its reserved start; None = it has no reservation
    """

    job: UUID
    units: int
    priority: int
    start_s: float | None = None

    def binds(self, job: UUID, *, priority: int, ends_s: float) -> bool:
        """Return whether another job of the project must leave it its units.

        Not one of higher priority, nor one that ends before the reserved start (EASY backfill).
        """
        is_backfill = self.start_s is not None and ends_s <= self.start_s
        return job != self.job and priority <= self.priority and not is_backfill


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """The standing of a project, and the units that it lends."""

    standing: Standing
    lent: int


@dataclass(frozen=True, slots=True)
class Loan:
    """Units that a project may borrow for one job while others claim only some servers.

    Attributes
    ----------
    claimed, free : units that others claim, and free ones, of the servers that the job may use
    pool : the servers on which it may borrow them; None = any
    """

    units: int
    claimed: int
    free: int
    pool: Pool | None = None


@dataclass(frozen=True, slots=True)
class Allowance:
    """Units that a project may take now, and the sentence that explains a refusal.

    ``units`` : None = no quota binds it, whatever is free
    """

    units: int | None
    detail: str

    def covers(self, units: int) -> bool:
        """Return whether the project may take some units."""
        return self.units is None or units <= self.units


def allowance(
    standings: Mapping[UUID, Standing],
    project: UUID,
    free: int,
    gang: WaitingGang | None = None,
    loan: Loan | None = None,
) -> Allowance:
    """Return what a project may take now.

    Within its guarantee it may take any free unit. Beyond it, the units that are free less those
    that other projects claim, if they claim any. Never more than its limit.

    Parameters
    ----------
    free : free units of the cluster
    gang : of the project, for which units are kept; but not if it would have to borrow while
        others claim units, as nobody knows when they stop
    loan : that it may borrow for the job in question; None = of any server
    """
    own = standings[project]
    claimed = sum(each.claimed for key, each in standings.items() if key != project)
    kept = 0 if gang is None or (claimed and gang.units > own.guaranteed) else gang.units
    borrowed = free - claimed if loan is None else loan.units
    units = max(own.unused, borrowed) if claimed else None
    others = _of_free(claimed, free)
    if loan is not None:
        others = f"{_of_free(loan.claimed, loan.free)} on the servers that the job may use"
    detail = (
        f"project {own.name} uses {own.used} units and {own.guaranteed} are guaranteed;"
        f" other projects claim {others}"
    )
    left = None if own.limit is None else max(0, own.limit - own.used)
    if left is not None and (units is None or left < units):
        units = left
        detail = f"project {own.name} uses {own.used} of at most {own.limit} units"
    if units is not None and kept:
        units = max(0, units - kept)
        detail += f"; {kept} units are kept for a job that has waited long"
    return Allowance(units, detail)


def _of_free(claimed: int, free: int) -> str:
    if claimed > free:
        return f"{claimed} units, and {free} are free"
    return f"{claimed} of the {free} free units"


def beyond_limit(project: Standing, units: int) -> str:
    """Return why a job that needs some units at once can never start; empty if it can.

    Only a smaller job or a higher limit helps.
    """
    if project.limit is None or units <= project.limit:
        return ""
    needs = "1 unit" if units == 1 else f"{units} units"
    return (
        f"the job needs {needs} at once, and project {project.name} may use at most"
        f" {project.limit}"
    )


def after_preemption(
    standings: Mapping[UUID, Standing], stopped: Mapping[UUID, int]
) -> dict[UUID, Standing]:
    """Return the standings when each project has lost some units, for which its jobs then wait.

    They may be able to use any server.
    """
    return {
        key: replace(
            each,
            used=each.used - units,
            waiting=each.waiting + units,
            needs=None if units else each.needs,
        )
        for key, each in standings.items()
        for units in [stopped.get(key, 0)]
    }


def lent(standings: Mapping[UUID, Standing], capacity: int) -> dict[UUID, int]:
    """Return the unused guaranteed units of each project that others have borrowed.

    Projects first borrow the units that are guaranteed to nobody. What they borrow beyond these is
    spread over the lenders in proportion to their unused units, by largest remainders.

    Parameters
    ----------
    capacity : units of the cluster
    """
    unused = {key: each.unused for key, each in standings.items()}
    total = sum(unused.values())
    free_for_all = max(0, capacity - sum(each.guaranteed for each in standings.values()))
    borrowed = sum(each.borrowed for each in standings.values()) - free_for_all
    borrowed = min(total, max(0, borrowed))
    if not borrowed:
        return dict.fromkeys(standings, 0)
    shares = {key: divmod(borrowed * units, total) for key, units in unused.items()}
    left = borrowed - sum(whole for whole, _ in shares.values())
    first = set(sorted(shares, key=lambda key: -shares[key][1])[:left])
    return {key: whole + (key in first) for key, (whole, _) in shares.items()}
