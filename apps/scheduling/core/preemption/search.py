"""Search for the cheapest victims in one group of servers, by branch and bound.

The bound relaxes the problem to units alone, as in `choice`; a dynamic program solves that
exactly.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from apps.scheduling.core.preemption.victims import Candidate, Cost, Room, Victims, Waiting, plus

MAX_EXACT: Final = 24  # jobs of a group that are all searched
MAX_NODES: Final = 20_000  # of the search in one group


def search_victims(
    waiting: Waiting,
    rooms: Mapping[int, Room],
    candidates: Sequence[Candidate],
    *,
    are_all: bool = True,
) -> Victims | None:
    """Return the cheapest victims in one group of servers.

    The choice is exact if the group has at most `MAX_EXACT` candidates, and in most other cases,
    as long as the search ends within `MAX_NODES` steps; ``bound`` tells.
    O(C log C + S) for C candidates on S servers, apart from the search.

    Parameters
    ----------
    candidates : ascending by cost and job; all their parts are on these servers
    are_all : whether they are all candidates of the group. If not, they must be those that the
        problem of units alone needs, for ``bound`` to hold

    Returns
    -------
    None if the job has no room even if all candidates stop.
    """
    return _Search(waiting, rooms, candidates, are_all=are_all).result()


class _Fill:
    """Units that fit on the servers of a group once some jobs have stopped."""

    def __init__(self, waiting: Waiting, rooms: Mapping[int, Room]) -> None:
        self._waiting, self._rooms = waiting, rooms
        self._freed = {server: [0, 0, 0, 0] for server in rooms}
        self._fits = {server: room.fits_now for server, room in rooms.items()}
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
        self,
        waiting: Waiting,
        rooms: Mapping[int, Room],
        candidates: Sequence[Candidate],
        *,
        are_all: bool,
    ) -> None:
        self._waiting, self._rooms = waiting, rooms
        self._candidates, self._are_all = candidates, are_all
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
        missing = self._fill.short
        self._rest = _cheapest(self._jobs, self._gains, missing)
        bound = self._rest[0][missing]
        self._branch(0, missing, Cost(), ())
        cost, chosen = self._best
        is_complete = self._are_all and len(self._jobs) == len(self._candidates)
        if self._nodes <= MAX_NODES and is_complete:
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
        """Return at most how many units (or places) its end adds, if it frees all they need."""
        if self._waiting.is_spread:
            return len({self._rooms[part.server].place for part in job.parts})
        return sum(part.units + self._rooms[part.server].blocked for part in job.parts)

    def _worth_searching(self, first: Sequence[Candidate]) -> list[Candidate]:
        """Return all candidates if they are few, else those that the relaxed problem needs.

        Of the jobs that add the same number of units, it needs at most those that fill the job.
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
            if self._nodes > MAX_NODES or rest is None or self._is_beaten(plus(cost, rest)):
                return
            job = self._jobs[i]
            more = plus(cost, job.cost)
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
        total = plus(total, job.cost)
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
            cost = plus(without, job.cost)
            skipped = row[units]
            if skipped is None or cost < skipped:
                row[units] = cost
        rest.append(row)
    return rest[::-1]
