"""Victims of a preemption: the running jobs that make room for a waiting one.

Of all sets of victims that make room, the best one breaks the fewest promises, then loses the
least work, then has the fewest jobs. Choosing it is a covering problem (a knapsack with one
constraint per server and resource), solved by branch and bound; the bound relaxes it to units
alone, which a dynamic program solves exactly.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from apps.scheduling.core.capacity import SLACK

MAX_EXACT: Final = 24  # jobs of a group that are all searched
MAX_NODES: Final = 20_000  # of the search in one group


class Cost(NamedTuple):
    """What a set of victims costs; compared in this order.

    Attributes
    ----------
    broken : promises that are broken
    lost : work lost, unit-seconds
    jobs : number of victims
    """

    broken: int = 0
    lost: int = 0
    jobs: int = 0


class Vector(NamedTuple):
    """Memory bytes, network bits/s and storage bytes."""

    memory_bytes: int = 0
    network_bps: int = 0
    storage_bytes: int = 0


NOTHING: Final = Vector()


@dataclass(frozen=True, slots=True)
class Part:
    """Units of a running job on a server that the waiting job may use.

    Attributes
    ----------
    units : that the waiting job may take over
    freed : resources that are free once the running job has stopped
    """

    server: int
    units: int
    freed: Vector = NOTHING


@dataclass(frozen=True, slots=True)
class Candidate:
    """A running job that may be preempted; ``lost`` in unit-seconds."""

    job: UUID
    priority: int
    lost: int
    breaks: bool
    parts: tuple[Part, ...]

    @property
    def cost(self) -> Cost:
        """What it adds to the cost of a set."""
        return Cost(int(self.breaks), self.lost, 1)


@dataclass(frozen=True, slots=True)
class Room:
    """A server that the waiting job may use.

    Attributes
    ----------
    free_units : free, and not reserved for another job
    free, per_unit : free resources, and those that each unit of the waiting job takes
    group : servers of one group may hold the job together (locality)
    place : a spread job gets one unit of each place
    """

    free_units: int
    free: Vector = NOTHING
    per_unit: Vector = NOTHING
    group: int = 0
    place: int = 0

    def holds(self, units: int, freed: Sequence[int]) -> int:
        """Return how many units of the waiting job fit if a job of ``units`` has stopped."""
        most = self.free_units + units
        for free, more, needed in zip(self.free, freed, self.per_unit, strict=True):
            if needed > 0:
                most = min(most, int((free + more) * (1.0 + SLACK) / needed))
        return max(0, most)


@dataclass(frozen=True, slots=True)
class Waiting:
    """The job that waits; ``is_spread`` = at most one unit in each place."""

    units: int
    priority: int
    is_spread: bool = False


@dataclass(frozen=True, slots=True)
class Victims:
    """The chosen victims.

    Attributes
    ----------
    jobs : ascending by cost; empty if there is room already
    cost : of all of them
    bound : no set of victims costs less; equal to the cost = the choice is proven to be the best
    units : units that the waiting job takes, by server
    short : units that are missing if a victim is kept, by job
    """

    jobs: tuple[UUID, ...]
    cost: Cost
    bound: Cost
    units: Mapping[int, int]
    short: Mapping[UUID, int]

    @property
    def is_best(self) -> bool:
        """Whether no other set of victims costs less."""
        return self.cost == self.bound


def victims(
    waiting: Waiting, rooms: Mapping[int, Room], running: Iterable[Candidate]
) -> Victims | None:
    """Choose the jobs of lower priority that make room for a waiting job.

    The choice is exact if each group of servers has at most `MAX_EXACT` candidates, and in most
    other cases, as long as the search ends within `MAX_NODES` steps; ``bound`` tells.
    O(C log C + S) for C candidates on S servers, apart from the search.

    Returns
    -------
    None if the job has no room even if all candidates stop.
    """
    groups: dict[int, dict[int, Room]] = defaultdict(dict)
    for server, room in rooms.items():
        groups[room.group][server] = room
    best: Victims | None = None
    bound: Cost | None = None
    candidates = _by_group(waiting, rooms, running)
    for group in sorted(groups):
        found = _Search(waiting, groups[group], candidates.get(group, ())).result()
        if found is None:
            continue
        bound = found.bound if bound is None else min(bound, found.bound)
        if best is None or found.cost < best.cost:
            best = found
    if best is None or bound is None:
        return None
    return Victims(best.jobs, best.cost, bound, best.units, best.short)


def _by_group(
    waiting: Waiting, rooms: Mapping[int, Room], running: Iterable[Candidate]
) -> dict[int, list[Candidate]]:
    """Return the candidates with units in each group, less their other parts; cheapest first."""
    found: dict[int, list[Candidate]] = defaultdict(list)
    for each in sorted(running, key=lambda one: (one.cost, one.job)):
        if each.priority >= waiting.priority:
            continue
        parts: dict[int, list[Part]] = defaultdict(list)
        for part in each.parts:
            if part.server in rooms and part.units > 0:
                parts[rooms[part.server].group].append(part)
        for group, of_group in parts.items():
            found[group].append(
                Candidate(each.job, each.priority, each.lost, each.breaks, tuple(of_group))
            )
    return found


def _plus(cost: Cost, more: Cost) -> Cost:
    return Cost(cost.broken + more.broken, cost.lost + more.lost, cost.jobs + more.jobs)


class _Fill:
    """Units that fit on the servers of a group once some jobs have stopped."""

    def __init__(self, waiting: Waiting, rooms: Mapping[int, Room]) -> None:
        self._waiting, self._rooms = waiting, rooms
        self._freed = {server: [0, 0, 0, 0] for server in rooms}
        self._fits = {server: room.holds(0, (0, 0, 0)) for server, room in rooms.items()}
        self._in_place: dict[int, int] = defaultdict(int)
        for server, room in rooms.items():
            self._in_place[room.place] += self._fits[server]
        self.total = sum(map(self._counted, self._in_place.values()))

    def _counted(self, fits: int) -> int:
        return min(1, fits) if self._waiting.is_spread else fits

    @property
    def short(self) -> int:
        """Units that are missing."""
        return max(0, self._waiting.units - self.total)

    def stop(self, job: Candidate, sign: int = 1) -> None:
        """Let a job stop, or run again with the sign -1."""
        for part in job.parts:
            freed, room = self._freed[part.server], self._rooms[part.server]
            for i, more in enumerate((part.units, *part.freed)):
                freed[i] += sign * more
            fits = room.holds(freed[0], freed[1:])
            before = self._in_place[room.place]
            after = before + fits - self._fits[part.server]
            self._fits[part.server], self._in_place[room.place] = fits, after
            self.total += self._counted(after) - self._counted(before)

    def taken(self) -> dict[int, int]:
        """Return the units that the waiting job takes, by server; all must fit."""
        taken, left, places = dict[int, int](), self._waiting.units, set[int]()
        for server in sorted(self._rooms):
            place = self._rooms[server].place
            fits = self._fits[server]
            if self._waiting.is_spread:
                fits = 0 if place in places else min(1, fits)
            if fits and left:
                taken[server] = min(left, fits)
                left -= taken[server]
                places.add(place)
        return taken


class _Search:
    """The search for the best victims in one group of servers."""

    def __init__(
        self, waiting: Waiting, rooms: Mapping[int, Room], candidates: Sequence[Candidate]
    ) -> None:
        self._waiting, self._rooms = waiting, rooms
        self._candidates = candidates
        self._fill = _Fill(waiting, rooms)
        self._best: tuple[Cost, tuple[Candidate, ...]] | None = None
        self._nodes = 0

    def result(self) -> Victims | None:
        """Return the best victims of the group; None if it has no room even without all jobs."""
        first = self._greedy()
        if first is None:
            return None
        self._best = (_sum(first), tuple(first))
        self._jobs = self._worth_searching(first)
        self._gains = [self._gain(job) for job in self._jobs]
        missing = max(0, self._waiting.units - self._units_only())
        self._rest = _cheapest(self._jobs, self._gains, missing)
        bound = self._rest[0][missing]
        self._branch(0, missing, Cost(), ())
        cost, chosen = self._best
        if self._nodes <= MAX_NODES and len(self._jobs) == len(self._candidates):
            bound = cost
        return self._victims(chosen, cost, bound)

    def _greedy(self) -> list[Candidate] | None:
        """Stop jobs by cost per unit until the job has room; then keep those not needed."""
        order = sorted(
            self._candidates,
            key=lambda one: (one.breaks, one.lost / self._gain(one), -self._gain(one), one.job),
        )
        chosen = []
        for job in order:
            if not self._fill.short:
                break
            self._fill.stop(job)
            chosen.append(job)
        has_room = not self._fill.short
        for job in sorted(chosen, key=lambda one: (one.cost, one.job), reverse=True):
            self._fill.stop(job, -1)
            if has_room and self._fill.short:
                self._fill.stop(job)
            else:
                chosen.remove(job)
        for job in chosen:
            self._fill.stop(job, -1)
        return chosen if has_room else None

    def _gain(self, job: Candidate) -> int:
        """Return at most how many units its end adds, by units (or places) alone."""
        if self._waiting.is_spread:
            return len({self._rooms[part.server].place for part in job.parts})
        return sum(part.units for part in job.parts)

    def _units_only(self) -> int:
        """Return the free units (or places), whatever their resources."""
        free = [room for room in self._rooms.values() if room.free_units > 0]
        if self._waiting.is_spread:
            return len({room.place for room in free})
        return sum(room.free_units for room in free)

    def _worth_searching(self, first: Sequence[Candidate]) -> list[Candidate]:
        """Return all candidates if they are few, else those that the relaxed problem needs.

        Of the jobs that add equally many units, it never needs more than fill the job.
        """
        if len(self._candidates) <= MAX_EXACT:
            return list(self._candidates)
        counts: dict[int, int] = defaultdict(int)
        kept, chosen = [], set(first)
        for job in self._candidates:
            gain = min(self._gain(job), self._waiting.units)
            counts[gain] += 1
            if counts[gain] <= -(-self._waiting.units // gain) or job in chosen:
                kept.append(job)
        return kept

    def _branch(self, start: int, missing: int, cost: Cost, chosen: tuple[Candidate, ...]) -> None:
        """Search the sets that add jobs from ``start`` on to those chosen, which are stopped."""
        self._nodes += 1
        if missing == 0 and not self._fill.short:
            if self._best is None or cost < self._best[0]:
                self._best = (cost, chosen)
            return
        for i in range(start, len(self._jobs)):
            rest = self._rest[i][missing]
            if self._nodes > MAX_NODES or rest is None or self._is_beaten(_plus(cost, rest)):
                return
            job = self._jobs[i]
            more = _plus(cost, job.cost)
            if self._is_beaten(more):
                return  # the cheapest come first
            self._fill.stop(job)
            self._branch(i + 1, max(0, missing - self._gains[i]), more, (*chosen, job))
            self._fill.stop(job, -1)

    def _is_beaten(self, cost: Cost) -> bool:
        return self._best is not None and cost >= self._best[0]

    def _victims(self, chosen: Sequence[Candidate], cost: Cost, bound: Cost | None) -> Victims:
        for job in chosen:
            self._fill.stop(job)
        units, short = self._fill.taken(), {}
        for job in chosen:
            self._fill.stop(job, -1)
            short[job.job] = self._fill.short
            self._fill.stop(job)
        return Victims(
            jobs=tuple(job.job for job in sorted(chosen, key=lambda one: (one.cost, one.job))),
            cost=cost,
            bound=cost if bound is None else bound,
            units=units,
            short=short,
        )


def _sum(jobs: Iterable[Candidate]) -> Cost:
    total = Cost()
    for job in jobs:
        total = _plus(total, job.cost)
    return total


def _cheapest(
    jobs: Sequence[Candidate], gains: Sequence[int], missing: int
) -> list[list[Cost | None]]:
    """Return the least cost of ``m`` units from the jobs from ``i`` on, by ``i`` and ``m``.

    None = they have fewer. By dynamic programming, O(C · m).
    """
    rest: list[list[Cost | None]] = [[Cost(), *[None] * missing]]
    for job, gain in zip(reversed(jobs), reversed(gains), strict=True):
        after = rest[-1]
        row = list(after)
        for units in range(1, missing + 1):
            without = after[max(0, units - gain)]
            if without is None:
                continue
            cost = _plus(without, job.cost)
            skipped = row[units]
            if skipped is None or cost < skipped:
                row[units] = cost
        rest.append(row)
    return rest[::-1]
