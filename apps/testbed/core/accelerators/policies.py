"""Policies of rounds: two of the literature, and two that do not know the speeds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from apps.testbed.core.accelerators.goodput import (
    POWER,
    WAITING,
    best_assignment,
    gains,
    goodputs,
)
from apps.testbed.core.accelerators.jobs import NONE, Assignment, RoundState
from apps.testbed.core.accelerators.max_min import equal_parts, max_min_shares
from apps.testbed.core.traces import Bools, Floats, Ints

Shares = Callable[[RoundState], Floats]


class Fifo:
    """Jobs in the order of submission, until they end, on the type with most free accelerators.

    The first job that does not fit blocks those behind it.
    """

    def assign(self, state: RoundState) -> Assignment:
        """Keep what runs, and start the first waiting jobs."""
        types, counts = state.on_type.copy(), state.on_count.copy()
        runs = types != NONE
        free = state.available - np.bincount(
            types[runs], counts[runs], minlength=state.available.size
        ).astype(np.int64)
        speed = state.as_requested
        for job in np.flatnonzero(~runs).tolist():
            fits = (speed[job] > 0.0) & (free >= state.count[job])
            if not fits.any():
                break
            types[job] = int(np.argmax(np.where(fits, free, -1)))
            counts[job] = state.count[job]
            free[types[job]] -= counts[job]
        return Assignment(types, counts)


@dataclass(slots=True)
class FairShareBlind:
    """As many accelerator-seconds for every job, whatever the types.

    The priority of a job is the part of its time that it should have run over the part that it
    has run, summed over its life. It stays on its type if that is free, else it takes the type
    with most free accelerators.
    """

    _target: dict[int, float] = field(default_factory=dict)
    _received: dict[int, float] = field(default_factory=dict)

    def assign(self, state: RoundState) -> Assignment:
        """Assign accelerators to the jobs that are furthest behind."""
        ids = state.jobs.tolist()
        part = equal_parts(state.count, int(state.available.sum())).tolist()
        self._target = {
            job: self._target.get(job, 0.0) + now for job, now in zip(ids, part, strict=True)
        }
        received = {job: self._received.get(job, 0.0) for job in ids}
        rank = priorities(
            *(np.array([list(of.values())]).T for of in (self._target, self._target, received))
        )
        types = self._placed(state, np.argsort(rank[:, 0]))
        self._received = {
            job: received[job] + (on != NONE) for job, on in zip(ids, types.tolist(), strict=True)
        }
        return Assignment(types, np.where(types == NONE, 0, state.count))

    @staticmethod
    def _placed(state: RoundState, order: Ints) -> Ints:
        types, free = np.full(order.size, NONE), state.available.copy()
        runs = state.as_requested > 0.0
        for job in order.tolist():
            fits = runs[job] & (free >= state.count[job])
            if not fits.any():
                continue
            own = int(state.on_type[job])
            on = own if own != NONE and fits[own] else int(np.argmax(np.where(fits, free, -1)))
            types[job] = on
            free[on] -= state.count[job]
        return types


@dataclass(slots=True)
class TimeShares:
    """Rounds that give every job its share of the time on each type (Gavel §5).

    The priority of a job on a type is its target share over the share that it has received; the
    highest goes first, and takes the job out of the other types. Without any target, jobs take
    what is left over. Ours: both shares are summed over the life of the job. Gavel starts again
    when the shares are computed again, which here happens in most rounds.

    Attributes
    ----------
    shares : target shares, computed when jobs arrive or end
    """

    shares: Shares
    _now: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    _of: bytes = b"-"
    _target: dict[int, Floats] = field(default_factory=dict)
    _received: dict[int, Floats] = field(default_factory=dict)

    def assign(self, state: RoundState) -> Assignment:
        """Assign the types with the highest priorities."""
        if state.jobs.tobytes() != self._of:
            self._now, self._of = self.shares(state), state.jobs.tobytes()
        none = np.zeros(state.available.size)
        ids = state.jobs.tolist()
        self._target = {
            job: self._target.get(job, none) + row for job, row in zip(ids, self._now, strict=True)
        }
        received = {job: self._received.get(job, none) for job in ids}
        types = by_priority(
            priorities(self._now, _stacked(self._target), _stacked(received)),
            state.as_requested > 0.0,
            state.count,
            state.available,
        )
        each = np.arange(state.available.size)
        self._received = {
            job: received[job] + (each == on) for job, on in zip(ids, types, strict=True)
        }
        return Assignment(types, np.where(types == NONE, 0, state.count))


def _stacked(rows: Mapping[int, Floats]) -> Floats:
    return np.stack(list(rows.values()))


def priorities(now: Floats, target: Floats, received: Floats) -> Ints:
    """(n, J) ranks: 0 is the highest priority, target / received of shares summed over rounds.

    A job that has received nothing comes first, the largest target before others; a job that has
    no share of the type now comes after all that have. Ties: the order of jobs, then of types.
    """
    with np.errstate(divide="ignore"):
        ratio = np.where(received > 0.0, target / np.maximum(received, 1.0), np.inf)
    ratio = np.where(
        now > 0.0, ratio, -received
    )  # the job that has received least of what is left
    order = np.lexsort((-target.ravel(), -ratio.ravel()))
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    return rank.reshape(now.shape)


def by_priority(rank: Ints, runs: Bools, count: Ints, available: Ints) -> Ints:
    """(n,) type of each job, highest priority first (Gavel §5, Algorithm 1); `NONE` without.

    Parameters
    ----------
    rank : (n, J) distinct, 0 first
    runs : (n, J) whether the job runs on the type
    """
    types = np.full(count.size, NONE)
    free = available.copy()
    for cell in np.argsort(rank, axis=None).tolist():
        job, on = divmod(cell, available.size)
        if types[job] == NONE and runs[job, on] and count[job] <= free[on]:
            types[job] = on
            free[on] -= count[job]
    return types


@dataclass(frozen=True, slots=True)
class Goodput:
    """The configurations with the largest goodput of each round (`goodput`).

    Attributes
    ----------
    power : p, not 0; below 0, slow jobs weigh more
    waiting : lambda
    is_adaptive : jobs run on any measured number of accelerators
    """

    power: float = POWER
    waiting: float = WAITING
    is_adaptive: bool = True

    def assign(self, state: RoundState) -> Assignment:
        """Solve the program of this round."""
        gain = gains(goodputs(state, is_adaptive=self.is_adaptive), self.power, self.waiting)
        return best_assignment(gain, state.counts, state.available)


def max_min(state: RoundState) -> Floats:
    """Return (a, J) max-min fair shares with the numbers that the jobs requested."""
    return max_min_shares(state.as_requested, state.count, state.available)
