"""Fair share of projects: waiting jobs of equal priority in the order of decayed dominant shares.

A project's share of a resource is the mean of the part of the cluster that its jobs held, over all
time until now; a moment counts half as much as one that is a half-life later. Its dominant share
is the largest of its shares. The project with the smallest one is next.

Sources: dominant resource fairness, Ghodsi et al., NSDI 2011, §4.1 and Algorithm 1; half-life
decay of use, Slurm's PriorityDecayHalfLife.
"""

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

RESOURCES: Final = ("units", "memory", "network", "storage")
Amounts = tuple[float, float, float, float]  # in the order of `RESOURCES`
NOTHING: Final[Amounts] = (0.0, 0.0, 0.0, 0.0)


def remaining_weight(elapsed_s: float, half_life_s: float) -> float:
    """Return how much a moment counts that was some time ago: 1 now, 1/2 after a half-life."""
    return 2.0 ** -(max(0.0, elapsed_s) / half_life_s)


def interval_weight(begin_s: float, end_s: float, *, now_s: float, half_life_s: float) -> float:
    """Return the part of the decayed past that an interval is: 1 for all time until now."""
    return remaining_weight(now_s - end_s, half_life_s) - remaining_weight(
        now_s - begin_s, half_life_s
    )


def decayed(amounts: Amounts, elapsed_s: float, half_life_s: float) -> Amounts:
    """Return mean amounts some time later, if nothing is held meanwhile."""
    weight = remaining_weight(elapsed_s, half_life_s)
    return _amounts(weight * amount for amount in amounts)


def total(*parts: Amounts) -> Amounts:
    """Return the sum of amounts by resource."""
    return _amounts(map(sum, zip(*parts, strict=True))) if parts else NOTHING


def shares_of(amounts: Amounts, capacity: Amounts) -> Amounts:
    """Return amounts over the capacity of the cluster; 0 for a resource that it lacks."""
    pairs = zip(amounts, capacity, strict=True)
    return _amounts(amount / whole if whole > 0.0 else 0.0 for amount, whole in pairs)


class Dominant(NamedTuple):
    """The largest share of a project, and its resource, one of `RESOURCES`."""

    share: float
    resource: str


def dominant(shares: Amounts) -> Dominant:
    """Return the largest share; of equal ones the first, so units before memory."""
    share = max(shares)
    return Dominant(share, RESOURCES[shares.index(share)])


def positions(shares: Mapping[UUID, float], last: Collection[UUID] = ()) -> dict[UUID, int]:
    """Return the position of each project by dominant share, from 1; equal ones in their order.

    Parameters
    ----------
    last : projects that come after all others
    """
    order = sorted(shares, key=lambda project: (project in last, shares[project]))
    return {project: place for place, project in enumerate(order, start=1)}


@dataclass(frozen=True, slots=True)
class Demand:
    """A job of a turn.

    ``added`` : by which it raises the shares of its project until its end (`added_shares`)
    """

    project: UUID
    priority: int
    added: Amounts


def added_shares(held: Amounts, run_s: float | None, half_life_s: float) -> Amounts:
    """Return by how much a job raises the shares of its project until its end.

    Parameters
    ----------
    held : shares of the cluster that the job holds while it runs
    run_s : its predicted run time; None = unknown, counted as one half-life
    """
    weight = 1.0 - remaining_weight(half_life_s if run_s is None else run_s, half_life_s)
    return _amounts(weight * share for share in held)


def turn_order(demands: Sequence[Demand], shares: Mapping[UUID, Amounts]) -> list[int]:
    """Return the order in which the jobs of a turn are decided, as positions. O(n log p).

    Jobs of higher priority come first. Of equal priority, the next job is of the project with the
    smallest dominant share, where its jobs before in this order count as placed (progressive
    filling); of equal shares, the job that came first. The jobs of one project keep their order.

    Parameters
    ----------
    demands : in the order without fair share
    shares : by project; a project that is missing has used nothing
    """
    order: list[int] = []
    taken = dict(shares)
    for priority in sorted({each.priority for each in demands}, reverse=True):
        order += _filled(
            [i for i, d in enumerate(demands) if d.priority == priority], demands, taken
        )
    return order


def _filled(
    members: Sequence[int], demands: Sequence[Demand], taken: dict[UUID, Amounts]
) -> list[int]:
    """Return jobs of one priority in turn, and add what they take."""
    queues: dict[UUID, list[int]] = {}
    for member in reversed(members):
        queues.setdefault(demands[member].project, []).append(member)

    def head(project: UUID) -> tuple[float, int, UUID]:
        return max(taken.get(project, NOTHING)), queues[project][-1], project

    heap = [head(project) for project in queues]
    heapq.heapify(heap)
    order = []
    while heap:
        _, _, project = heapq.heappop(heap)
        order.append(queues[project].pop())
        taken[project] = total(taken.get(project, NOTHING), demands[order[-1]].added)
        if queues[project]:
            heapq.heappush(heap, head(project))
    return order


def _amounts(values: Iterable[float]) -> Amounts:
    units, memory, network, storage = values
    return units, memory, network, storage
