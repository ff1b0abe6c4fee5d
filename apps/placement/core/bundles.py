"""Bundles of moves on a board: built around a server or a job, judged, and taken.

Source: ClavisMO §3.3, C6; the kinds of bundles are ours.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from typing import Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Ints
from apps.placement.core.board import Board
from apps.placement.core.instance import Communication
from apps.placement.core.live import (
    MARGIN,
    PROMISED,
    SLOWER,
    Cluster,
    job_speed,
    kept_share,
    pressure,
)

TRIED: Final = 4  # good targets of a container that are compared, the likeliest first
LOOKED_AT: Final = 16  # targets looked at to find so many
CALM: Final = 50.0  # pressure up to which a server is
FEWEST_GAIN: Final = 1e-9


class Purpose(StrEnum):
    """What a bundle is for."""

    EMPTY = "empty"
    PROTECT = "protect"
    GATHER = "gather"
    IMPROVE = "improve"


class Step(NamedTuple):
    """One container from one server to another; indices into the cluster's arrays."""

    container: int
    source: int
    to: int


@dataclass(frozen=True, slots=True)
class Bundle:
    """Moves that make sense only together, in order.

    Attributes
    ----------
    about : index of the server emptied; of the job protected, gathered or improved
    gain : by how much it lowers F, migrations not charged; > 0
    """

    purpose: Purpose
    about: int
    steps: tuple[Step, ...]
    gain: float


class Seed(NamedTuple):
    """What a bundle may be built around."""

    purpose: Purpose
    about: int


class Builder:
    """Builds bundles on a board, and keeps what a bundle must not break.

    Parameters
    ----------
    price : what one move costs, in F
    """

    def __init__(self, cluster: Cluster, weights: dict[str, float], price: float) -> None:
        self._cluster, self._price = cluster, price
        self._board = Board(cluster, weights)
        self._moved = ~cluster.is_movable
        self._of_job: list[list[int]] = [[] for _ in cluster.job_id]
        for container, job in enumerate(cluster.job.tolist()):
            self._of_job[job].append(container)
        self._counts_as: list[int] = cluster.counts_as().tolist()
        self._speed = job_speed(cluster, cluster.home)
        self._alone = job_speed(cluster, cluster.home, is_alone=True)
        self._now = self._speed.copy()
        comfort = self._board.comfort(range(cluster.units.size))
        self._kept = [comfort[c].kept for c in range(cluster.job.size)]

    @property
    def home(self) -> Ints:
        """(c,) server of each container, with what was taken."""
        return np.array(self._board.home, dtype=np.int64)

    # ---- what to build around ----

    def bundles_around(self) -> Iterator[Seed]:
        """Yield what bundles may be built around; what promises most per move first."""
        board, cluster = self._board, self._cluster
        jobs = range(len(cluster.job_id))
        on = np.flatnonzero(board.filled)
        worth = cluster.idle_watts[on] / board.filled[on]
        queues = [
            iter([Seed(Purpose.EMPTY, int(s)) for s in on[np.argsort(-worth, kind="stable")]]),
            iter([Seed(Purpose.GATHER, job) for job in jobs if board.is_split(job)]),
            iter([Seed(Purpose.PROTECT, job) for job in jobs if board.is_exposed(job)]),
        ]
        for round_ in zip_longest(*queues):
            yield from (seed for seed in round_ if seed is not None)

    def singles(self) -> Iterator[Seed]:
        """Yield containers that may move by themselves, the most intense first."""
        order = np.argsort(-self._cluster.intensity, kind="stable")
        yield from (Seed(Purpose.IMPROVE, int(c)) for c in order if not self._moved[c])

    def woken(self, bundle: Bundle) -> Iterable[Seed]:
        """Yield what may pay now that a bundle was taken: the servers it left."""
        for step in bundle.steps:
            if self._board.filled[step.source]:
                yield Seed(Purpose.EMPTY, step.source)

    # ---- bundles ----

    def tried(self, seed: Seed, most: int) -> Bundle | None:
        """Build the bundle of a seed and take it off the board again; None if it does not pay."""
        board = self._board
        before = board.value
        steps = self._steps(seed, most)
        if not steps:
            board.value = before  # not a sum of roundings
            return None
        gain = before - board.value
        is_kept = gain > self._price * len(steps) + FEWEST_GAIN and self._keeps_promises(steps)
        self._undo(steps)
        board.value = before
        return Bundle(seed.purpose, self._about(seed), tuple(steps), gain) if is_kept else None

    def _about(self, seed: Seed) -> int:
        return (
            int(self._cluster.job[seed.about]) if seed.purpose is Purpose.IMPROVE else seed.about
        )

    def _steps(self, seed: Seed, most: int) -> list[Step]:
        """Make the moves of a seed on the board; an empty list where they cannot all be made."""
        match seed.purpose:
            case Purpose.EMPTY:
                movers = list(self._board.on[seed.about])
                return self._all(self._largest_first(movers), most, leave=seed.about)
            case Purpose.GATHER:
                return self._gather(seed.about, most)
            case Purpose.PROTECT:
                return self._protect(seed.about, most)
            case Purpose.IMPROVE:
                return self._all([seed.about], most)

    def _largest_first(self, containers: Iterable[int]) -> list[int]:
        return sorted(containers, key=lambda c: -int(self._cluster.size[c]))

    def _all(self, containers: list[int], most: int, *, leave: int | None = None) -> list[Step]:
        """Move each of these to where F likes it best; none, if one of them cannot."""
        if not containers or len(containers) > most or any(self._moved[c] for c in containers):
            return []
        steps: list[Step] = []
        for container in containers:
            to = self._best(container, only_on=leave is not None)
            if to is None:
                self._undo(steps)
                return []
            steps.append(Step(container, self._board.home[container], to))
            self._board.move(container, to)
        return steps

    def _protect(self, job: int, most: int) -> list[Step]:
        """Keep each exposed taz of a job from others: it moves, or the others there do."""
        board, cluster = self._board, self._cluster
        steps: list[Step] = []
        for container in self._of_job[job]:
            server = board.home[container]
            if not cluster.is_taz[container] or board.tazes[server] < 2:
                continue
            others = [c for c in board.on[server] if cluster.is_taz[c] and c != container]
            movers = [container] if not self._moved[container] else others
            if any(self._moved[c] for c in movers) or len(steps) + len(movers) > most:
                self._undo(steps)
                return []
            for mover in movers:
                made = self._apart(mover, {step.container for step in steps})
                if not made or len(steps) + len(made) > most:
                    self._undo([*steps, *made])
                    return []
                steps += made
        return steps

    def _apart(self, container: int, busy: set[int]) -> list[Step]:
        """Move a container to a server without a taz, if need be after a turtle there has left.

        Parameters
        ----------
        busy : containers that have moved already
        """
        board, home = self._board, self._board.home[container]
        if (to := self._best(container, no_taz=True)) is not None:
            board.move(container, to)
            return [Step(container, home, to)]
        for server in self._nearly_fits(container):
            for turtle in sorted(board.on[server], key=lambda c: int(self._cluster.size[c])):
                if self._moved[turtle] or turtle in busy:
                    continue
                elsewhere = self._best(turtle, only_on=True)
                if elsewhere is None:
                    continue
                steps = [Step(turtle, server, elsewhere)]
                board.move(turtle, elsewhere)
                if self._likes(container)[server]:
                    board.move(container, server)
                    steps.append(Step(container, home, server))
                    if self._is_comfortable([server]):
                        return steps
                self._undo(steps)
        return []

    def _nearly_fits(self, container: int) -> list[int]:
        """Find a few servers without a taz that could take the container if a turtle left."""
        board, cluster = self._board, self._cluster
        job = cluster.job[container]
        speed = cluster.speed[job]
        own = speed[cluster.platform[board.home[container]]]
        suits = (
            cluster.is_open
            & cluster.is_allowed[job]
            & (board.tazes == 0)
            & (board.filled > 0)
            & (speed[cluster.platform] >= own * SLOWER)
            & (cluster.units >= cluster.size[container])
        )
        found = np.flatnonzero(suits)
        return [int(s) for s in found[np.argsort(-board.free[found], kind="stable")[:TRIED]]]

    def _gather(self, job: int, most: int) -> list[Step]:
        """Bring a job together where most of it is, or else where it has room."""
        board, cluster = self._board, self._cluster
        by_rack = self._counts_as[job] == Communication.RACK
        held = board.racks_of(job) if by_rack else board.servers_of(job)
        for place, _ in held.most_common(TRIED):
            here = [
                c
                for c in self._of_job[job]
                if (int(cluster.rack[board.home[c]]) if by_rack else board.home[c]) != place
            ]
            if len(here) > most or any(self._moved[c] for c in here):
                continue
            steps: list[Step] = []
            for container in self._largest_first(here):
                to = self._best(container, rack=place) if by_rack else self._into(container, place)
                if to is None:
                    break
                steps.append(Step(container, board.home[container], to))
                board.move(container, to)
            if len(steps) == len(here):
                return steps
            self._undo(steps)
        return []

    def _into(self, container: int, server: int) -> int | None:
        return server if self._likes(container)[server] else None

    def _likes(self, container: int) -> Bools:
        """(n,) servers with room whose platform is not slower than the container's own."""
        board, cluster = self._board, self._cluster
        speed = cluster.speed[cluster.job[container]]
        own = speed[cluster.platform[board.home[container]]]
        return board.fits(container) & (speed[cluster.platform] >= own * SLOWER)

    def _best(
        self,
        container: int,
        *,
        only_on: bool = False,
        no_taz: bool = False,
        rack: int | None = None,
    ) -> int | None:
        """Find the server F likes best of the likeliest few; None where there is no room.

        Parameters
        ----------
        only_on : servers that hold a container
        no_taz : servers that hold no taz
        """
        board, cluster = self._board, self._cluster
        fits = self._likes(container)
        if only_on:
            fits &= board.filled > 0
        if no_taz:
            fits &= board.tazes == 0
        if rack is not None:
            fits &= cluster.rack == rack
        found = np.flatnonzero(fits)
        if not found.size:
            return None
        best, least, tried = None, np.inf, 0
        for to in self._likeliest(container, found):
            home, before = board.home[container], board.value
            board.move(container, to)
            if self._is_comfortable([to]):
                tried += 1
                if board.value < least:
                    best, least = to, board.value
            board.move(container, home)
            board.value = before
            if tried == TRIED:
                break
        return best

    def _likeliest(self, container: int, servers: Ints) -> list[int]:
        """Sort by what usually decides: no taz beside a taz, on, the job's rack, calm, tight.

        Servers where the container itself would not keep its promise are left out.
        """
        board, cluster = self._board, self._cluster
        job = int(cluster.job[container])
        felt = pressure(board.caused[servers], cluster.units[servers])
        kept = kept_share(felt, cluster.tolerated[job])
        suits = kept >= min(PROMISED, SLOWER * self._kept[container])
        servers, felt = servers[suits], felt[suits]
        near = np.isin(cluster.rack[servers], list(board.racks_of(job)))
        clash = (board.tazes[servers] > 0) & bool(cluster.is_taz[container])
        off = board.filled[servers] == 0
        is_loud = felt.max(axis=1, initial=0.0) > CALM
        order = np.lexsort((board.free[servers], is_loud, ~near, off, clash))
        return [int(s) for s in servers[order[:LOOKED_AT]]]

    def _is_comfortable(self, servers: Iterable[int]) -> bool:
        """Whether everybody there keeps the share that sizing counts on, or what it has now."""
        comfort = self._board.comfort(servers)
        return all(x.kept >= min(PROMISED, SLOWER * self._kept[c]) for c, x in comfort.items())

    # ---- promises ----

    def _keeps_promises(self, steps: list[Step]) -> bool:
        """Whether everybody touched is left with what it was promised.

        That is the share of its speed alone that sizing counted on, or what it has now, or what
        meets its target by a margin.
        """
        if not self._is_comfortable({step.to for step in steps}):
            return False
        changed = self._speeds(steps)
        jobs = np.array(list(changed), dtype=np.int64)
        speed = np.array(list(changed.values()))
        ratio = speed / np.maximum(self._speed[jobs], 1e-300)
        keeps = (
            (speed >= PROMISED * self._alone[jobs])
            | (ratio >= SLOWER)
            | (speed >= self._now[jobs])
            | (self._cluster.attainment[jobs] * ratio >= MARGIN)
        )
        return bool(keeps.all())

    def _speeds(self, steps: Iterable[Step]) -> dict[int, float]:
        """Speed of each job that a bundle on the board touches: by its servers, from and to."""
        board = self._board
        servers = {server for step in steps for server in (step.source, step.to)}
        jobs = sorted({int(self._cluster.job[c]) for server in servers for c in board.on[server]})
        comfort = board.comfort({board.home[c] for job in jobs for c in self._of_job[job]})
        return {job: sum(comfort[c].speed for c in self._of_job[job]) for job in jobs}

    # ---- the board ----

    def take(self, bundle: Bundle) -> None:
        """Make the moves of a bundle; its containers do not move again."""
        for step in bundle.steps:
            self._board.move(step.container, step.to)
            self._moved[step.container] = True
        for job, speed in self._speeds(bundle.steps).items():
            self._now[job] = speed

    def _undo(self, steps: Iterable[Step]) -> None:
        for step in reversed(list(steps)):
            self._board.move(step.container, step.source)
