"""The choice of victims over arrays: bounds prune servers and candidates before the search.

Notation: m units of the waiting job, G groups of servers, C candidates, n of their parts.
A *share* is a candidate with its parts in one group; its *gain* is at most how many units (or
places, for a spread job) its end adds there: its own ones, and the free ones of its servers that
lack resources. The *problem of units alone* is to gain m units, whatever their resources.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.scheduling.core.cluster.capacity import SLACK
from apps.scheduling.core.preemption.search import MAX_EXACT, search_victims
from apps.scheduling.core.preemption.victims import (
    Candidate,
    Candidates,
    Cost,
    Part,
    Rooms,
    Vector,
    Victims,
    Waiting,
)

MAX_LISTED: Final = 4 * MAX_EXACT  # candidates of a group that are all listed
SPARE: Final = 4  # times the units of the job: candidates by cost per unit that are listed


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """The usable parts, sorted by group; servers and groups are indices.

    job, server, units, group : (n,)
    freed : (n, 3)
    starts : (G + 1,) first part of each group
    """

    job: Ints
    server: Ints
    units: Ints
    freed: Ints
    group: Ints
    starts: Ints


class _Shares(NamedTuple):
    """The k shares, sorted by group; (k,) each, and the (G + 1,) first share of each group."""

    job: Ints
    group: Ints
    gain: Ints
    starts: Ints


class _Bound(NamedTuple):
    """(G,) cost that no set of victims of a group is below, component by component."""

    broken: Ints
    lost: Ints
    jobs: Ints


def choose_victims(waiting: Waiting, rooms: Rooms, running: Candidates) -> Victims | None:
    """Choose the jobs of lower priority that make room for a waiting job.

    Groups are searched in the order of their bounds, until no other group can cost less. In a
    group of more than `MAX_LISTED` candidates, those are searched that the problem of units alone
    needs, and those on the servers that make room at the lowest cost.
    O(n log n + S), apart from the searches.

    Returns
    -------
    None if the job has no room even if all candidates stop.
    """
    _, group = np.unique(rooms.group, return_inverse=True)
    groups = int(group.max(initial=-1)) + 1
    parts = _usable_parts(waiting, rooms, running, group.astype(np.int64), groups)
    shares = _shares(waiting, rooms, parts, groups)
    now = rooms.fits_now(np.arange(rooms.server.size))
    missing = np.maximum(0, waiting.units - _counted(waiting, rooms, now, group, groups))
    bound = _bound(running, shares, missing)
    has_room = _room_without(waiting, rooms, parts, group, groups) >= waiting.units
    order = np.lexsort((np.arange(groups), *reversed(bound)))
    best: tuple[Victims, int] | None = None
    proven: Cost | None = None
    for number in order[has_room[order]].tolist():
        lower = Cost(*(int(values[number]) for values in bound))
        if best is not None and (lower, number) > (best[0].cost, best[1]):
            break
        servers = np.flatnonzero(group == number)
        found = _search(waiting, rooms, running, _Group(number, servers, parts, shares))
        proven = found.bound if proven is None else min(proven, found.bound)
        if best is None or (found.cost, number) < (best[0].cost, best[1]):
            best = found, number
    if best is None or proven is None:
        return None
    chosen = best[0]
    return Victims(chosen.jobs, chosen.cost, proven, chosen.units, chosen.short)


def _usable_parts(
    waiting: Waiting, rooms: Rooms, running: Candidates, group: Ints, groups: int
) -> _Parts:
    """Return the parts of jobs of lower priority on usable servers."""
    server = np.searchsorted(rooms.server, running.part_server)
    server = np.minimum(server, max(0, rooms.server.size - 1))
    usable = (running.priority < waiting.priority)[running.part_job] & (running.part_units > 0)
    if rooms.server.size:
        usable &= rooms.server[server] == running.part_server
    kept = np.flatnonzero(usable) if rooms.server.size else np.zeros(0, dtype=np.int64)
    of = group[server[kept]]
    by_group = np.argsort(of, kind="stable")
    kept, of = kept[by_group], of[by_group]
    return _Parts(
        job=running.part_job[kept],
        server=server[kept],
        units=running.part_units[kept],
        freed=running.part_freed[kept],
        group=of,
        starts=np.searchsorted(of, np.arange(groups + 1)),
    )


def _shares(waiting: Waiting, rooms: Rooms, parts: _Parts, groups: int) -> _Shares:
    """Return the share of each candidate in each group, with its gain."""
    jobs = int(parts.job.max(initial=0)) + 1
    key, share = np.unique(parts.group * jobs + parts.job, return_inverse=True)
    if waiting.is_spread:
        places, place = np.unique(rooms.place, return_inverse=True)
        once = np.unique(share * max(1, places.size) + place[parts.server])
        gain = np.bincount(once // max(1, places.size), minlength=key.size)
    else:
        units = parts.units + rooms.blocked(parts.server)
        gain = np.bincount(share, units, minlength=key.size)
    group = key // jobs
    return _Shares(
        key % jobs, group, gain.astype(np.int64), np.searchsorted(group, np.arange(groups + 1))
    )


def _room_without(waiting: Waiting, rooms: Rooms, parts: _Parts, group: Ints, groups: int) -> Ints:
    """(G,) units of the waiting job that fit if all candidates stop."""
    size = rooms.server.size
    units = np.bincount(parts.server, parts.units, minlength=size).astype(np.int64)
    freed = [np.bincount(parts.server, column, minlength=size) for column in parts.freed.T]
    stopped = np.stack(freed, axis=1).astype(np.int64)
    fits = rooms.holds(np.arange(size), units, stopped)
    return _counted(waiting, rooms, fits, group, groups)


def _counted(waiting: Waiting, rooms: Rooms, units: Ints, group: Ints, groups: int) -> Ints:
    """(G,) sums of units of servers, with at most one of each place for a spread job."""
    if not waiting.is_spread:
        return np.bincount(group, units, minlength=groups).astype(np.int64)
    places, place = np.unique(rooms.place, return_inverse=True)
    has = np.unique(group[units > 0] * max(1, places.size) + place[units > 0])
    return np.bincount(has // max(1, places.size), minlength=groups).astype(np.int64)


def _bound(running: Candidates, shares: _Shares, missing: Ints) -> _Bound:
    """Bound the cost of each group from below, by units alone.

    The work lost is that of the fractional problem. Where candidates suffice that break no
    promise, it counts those only: any other set breaks one more.
    """
    groups, breaks = missing.size, running.breaks[shares.job]
    kept = np.bincount(shares.group, shares.gain * ~breaks, minlength=groups)
    largest_breaking = _largest(shares.gain * breaks, shares.group, groups)
    short = np.maximum(0, missing - kept.astype(np.int64))
    broken = -(-short // np.maximum(1, largest_breaking))
    counts = ~breaks | (broken > 0)[shares.group]
    gain = np.where(counts, shares.gain, 0)
    lost = running.lost[shares.job]
    order = np.lexsort((lost / np.maximum(1, shares.gain), shares.group))
    ordered, of = gain[order], shares.group[order]
    total = np.r_[0, np.cumsum(ordered)]
    before = total[:-1] - total[shares.starts[of]]
    taken = np.clip(missing[of] - before, 0, ordered)
    each: Floats = taken * lost[order] / np.maximum(1, shares.gain[order])
    work = np.bincount(of, each, minlength=groups)
    jobs = -(-missing // np.maximum(1, _largest(gain, shares.group, groups)))
    return _Bound(broken, np.floor(work * (1.0 - 1e-9)).astype(np.int64), jobs)


def _largest(values: Ints, group: Ints, groups: int) -> Ints:
    found = np.zeros(groups, dtype=np.int64)
    np.maximum.at(found, group, values)
    return found


class _Group(NamedTuple):
    """A group of servers (indices) with all parts and shares of the cluster."""

    number: int
    servers: Ints
    parts: _Parts
    shares: _Shares

    @property
    def of_parts(self) -> slice:
        """Slice of the parts of this group."""
        return slice(*self.parts.starts[self.number : self.number + 2].tolist())

    @property
    def of_shares(self) -> slice:
        """Slice of the shares of this group."""
        return slice(*self.shares.starts[self.number : self.number + 2].tolist())


def _search(waiting: Waiting, rooms: Rooms, running: Candidates, group: _Group) -> Victims:
    """Search the listed candidates of a group that has room; all of them if those are too few."""
    jobs = group.shares.job[group.of_shares]
    if jobs.size > MAX_LISTED:
        listed = _listed(waiting, rooms, running, group)
        found = _searched(waiting, rooms, running, group, listed)
        if found is not None:
            return found
    found = _searched(waiting, rooms, running, group, np.ones(jobs.size, dtype=np.bool_))
    if found is None:
        raise RuntimeError("a group of servers with room has no victims")
    return found


def _searched(
    waiting: Waiting, rooms: Rooms, running: Candidates, group: _Group, listed: Bools
) -> Victims | None:
    jobs = group.shares.job[group.of_shares][listed]
    part = group.of_parts
    of_job = np.flatnonzero(np.isin(group.parts.job[part], jobs)) + part.start
    candidates = _candidates(rooms, running, group.parts, of_job)
    with_room = group.servers[rooms.fits_now(group.servers) > 0]
    servers = np.union1d(with_room, group.parts.server[of_job])
    return search_victims(
        waiting,
        {int(rooms.server[index]): rooms.room(index) for index in servers.tolist()},
        candidates,
        are_all=bool(listed.all()),
    )


def _candidates(rooms: Rooms, running: Candidates, parts: _Parts, chosen: Ints) -> list[Candidate]:
    """Return the jobs of chosen parts, with these parts only; ascending by cost and job."""
    by_job: dict[int, list[Part]] = {}
    for part in chosen.tolist():
        by_job.setdefault(int(parts.job[part]), []).append(
            Part(
                int(rooms.server[parts.server[part]]),
                int(parts.units[part]),
                Vector(*parts.freed[part].tolist()),
            )
        )
    found = [
        Candidate(
            running.job_id(job),
            int(running.priority[job]),
            int(running.lost[job]),
            bool(running.breaks[job]),
            tuple(of_job),
        )
        for job, of_job in by_job.items()
    ]
    return sorted(found, key=lambda one: (one.cost, one.job))


def _listed(waiting: Waiting, rooms: Rooms, running: Candidates, group: _Group) -> Bools:
    """(k,) True for the shares of a large group that are searched."""
    jobs, gain = group.shares.job[group.of_shares], group.shares.gain[group.of_shares]
    listed = np.zeros(jobs.size, dtype=np.bool_)
    broken, lost = running.breaks[jobs], running.lost[jobs]
    cheapest = np.lexsort((jobs, lost, broken))
    capped = np.minimum(gain, waiting.units)[cheapest]
    for size in np.unique(capped).tolist():
        listed[cheapest[capped == size][: -(-waiting.units // size)]] = True
    per_unit = np.lexsort((jobs, -gain, lost / gain, broken))
    listed[per_unit[: SPARE * waiting.units + MAX_EXACT]] = True
    if waiting.is_spread or _resources_bind(rooms, group):
        listed[_on_cheap_servers(waiting, rooms, running, group, jobs)] = True
    return listed


def _resources_bind(rooms: Rooms, group: _Group) -> bool:
    """Return True if the end of some candidate frees less than its units need."""
    part, parts = group.of_parts, group.parts
    needed = parts.units[part, None] * rooms.per_unit[parts.server[part]]
    return bool((parts.freed[part] * (1.0 + SLACK) < needed).any())


def _on_cheap_servers(
    waiting: Waiting, rooms: Rooms, running: Candidates, group: _Group, jobs: Ints
) -> Bools:
    """(k,) True for the shares on the servers that make room for a unit at the lowest cost.

    The candidates of a server stop in the order of their cost, until a unit fits.
    """
    part, parts = group.of_parts, group.parts
    job, server = parts.job[part], parts.server[part]
    order = np.lexsort((running.lost[job], running.breaks[job], server))
    job, server = job[order], server[order]
    first = np.searchsorted(server, server)
    stopped = np.cumsum(np.c_[parts.units[part], parts.freed[part]][order], axis=0)
    cost = np.cumsum(np.c_[running.breaks[job], running.lost[job]], axis=0)
    stopped, cost = (
        values - np.r_[np.zeros((1, values.shape[1]), values.dtype), values][first]
        for values in (stopped, cost)
    )
    fits = rooms.holds(server, stopped[:, 0], stopped[:, 1:])
    enough = np.flatnonzero(fits > 0)
    places = rooms.place if waiting.is_spread else np.arange(rooms.server.size)
    ranked = enough[np.lexsort((*(cost[enough] / fits[enough, None]).T[::-1],))]
    _, firsts = np.unique(places[server[ranked]], return_index=True)
    chosen = server[ranked[np.sort(firsts)[: 2 * waiting.units + MAX_EXACT]]]
    found: Bools = np.isin(jobs, job[np.isin(server, chosen)])
    return found
