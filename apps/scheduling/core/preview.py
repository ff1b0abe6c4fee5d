"""What another belief about an application would change for its jobs; nothing is decided.

S servers, N = 10 sources, m jobs. Sizes come from what the agent sizes with and the quality of
servers from what its default policy ranks by, so that a preview and a decision cannot disagree.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.profile import Estimate, Profile
from apps.common.core.interference import SOURCES
from apps.inventory.core.snapshot import Bools, Floats, Snapshot
from apps.scheduling.core import encoding
from apps.scheduling.core.ask import (
    Ask,
    cluster_facts,
    facts_if_open,
    request_of,
    size_of,
    size_or_late,
)
from apps.scheduling.core.board import Board, Facts
from apps.scheduling.core.filters import eligible
from apps.scheduling.core.scorers import tarcil
from apps.scheduling.core.sizing import ClusterFacts, Sized
from apps.scheduling.core.types import Request
from apps.workloads.core.targets import CompletionTime, TargetKind

PERFORMANCE_UNIT: Final = {
    TargetKind.COMPLETION_TIME: "seconds",
    TargetKind.THROUGHPUT_LATENCY: "seconds",
    TargetKind.IPS: "instructions/s",
    TargetKind.BEST_EFFORT: "bytes/s",
}


class Outlook(NamedTuple):
    """What would be decided about one job by one belief.

    Attributes
    ----------
    feasible : whether some size keeps the promise, at the latest when closed servers open
    units : that size, or the best there is; None = it could run nowhere
    platforms : where it is enough, sorted
    predicted : performance in the target's unit, its ends NaN for an infeasible job; None = not
        predicted
    suggestion : what would help an infeasible job; empty for others
    good_servers : indices of open servers with room for it that are quiet enough; empty where it
        runs already
    """

    feasible: bool
    units: int | None
    platforms: tuple[str, ...]
    predicted: Estimate | None
    suggestion: str
    good_servers: frozenset[int]


class Holding(NamedTuple):
    """What a running job holds of one server.

    Attributes
    ----------
    server : index
    units : >= 1
    caused : (N,) interference each of them was taken to cause, 0-100
    """

    server: int
    units: int
    caused: Floats


class Stand(NamedTuple):
    """How a server suits a job that runs on it: points left of what it tolerates, 0 = just enough.

    Attributes
    ----------
    before, after : the least over the sources; negative = too much pressure
    source : where it is least afterwards
    """

    server: int
    before: float
    after: float
    source: str

    @property
    def is_changed(self) -> bool:
        """Whether it is acceptable by one belief only."""
        return (self.before >= 0.0) != (self.after >= 0.0)


@dataclass(frozen=True, slots=True)
class JobPreview:
    """One job by both beliefs.

    Attributes
    ----------
    stands : of the servers it runs on, in the order of its holdings
    """

    before: Outlook
    after: Outlook
    stands: tuple[Stand, ...]

    @property
    def gained(self) -> tuple[str, ...]:
        """Platforms that are enough by the later belief only."""
        return tuple(p for p in self.after.platforms if p not in self.before.platforms)

    @property
    def lost(self) -> tuple[str, ...]:
        """Platforms that are enough by the earlier belief only."""
        return tuple(p for p in self.before.platforms if p not in self.after.platforms)

    @property
    def is_changed(self) -> bool:
        """Whether it would be sized or placed differently, or should not be where it is."""
        one, other = self.before, self.after
        return (
            (one.feasible, one.units, one.platforms, one.good_servers)
            != (other.feasible, other.units, other.platforms, other.good_servers)
        ) or any(stand.is_changed for stand in self.stands)


class _View(NamedTuple):
    """One belief on one snapshot.

    Attributes
    ----------
    good : (S,) servers whose free units the policy counts as hits
    """

    profile: Profile
    facts: ClusterFacts
    if_open: ClusterFacts
    good: Bools


def preview(
    jobs: Iterable[tuple[Ask, Sequence[Holding]]],
    before: Profile,
    after: Profile,
    snapshot: Snapshot,
) -> Iterator[JobPreview]:
    """Size each job by both beliefs and look at the servers, one after the other; O(m·S).

    Parameters
    ----------
    jobs : each with what it holds; nothing = it waits
    """
    board = Board.of(snapshot, Facts(snapshot.topology), writable=False)
    earlier, later = _view(before, board), _view(after, board)
    seen: dict[str, tuple[Outlook, Outlook]] = {}
    for ask, holdings in jobs:
        alike = f"{bool(holdings)} {_impersonal(ask)!r}"
        if alike not in seen:
            seen[alike] = (
                _outlook(ask, earlier, board, waits=not holdings),
                _outlook(ask, later, board, waits=not holdings),
            )
        stands = tuple(_stand(holding, before, after, snapshot) for holding in holdings)
        yield JobPreview(*seen[alike], stands)


def _impersonal(ask: Ask) -> Ask:
    """Leave out what does not change the answer: jobs of one service are often alike."""
    is_timed = isinstance(ask.target, CompletionTime)
    return replace(ask, job="", elapsed_s=ask.elapsed_s if is_timed else 0.0)


def _view(profile: Profile, board: Board) -> _View:
    topology = board.snapshot.topology
    request = Request("preview", 1, profile.caused, profile.tolerated_low)
    # all free units of a server are alike to the policy, so one of each is looked at
    scores = tarcil(board, request, topology.server_first_unit.astype(np.int64), 0)
    return _View(
        profile,
        cluster_facts(board.snapshot, profile.platforms),
        facts_if_open(board.snapshot, profile.platforms),
        good=scores.key[:, 0] >= encoding.BASE,
    )


def _outlook(ask: Ask, view: _View, board: Board, *, waits: bool) -> Outlook:
    sized = size_or_late(ask, view.profile, view.facts)
    if isinstance(sized, Sized):
        good = _good_servers(ask, view, sized, board) if waits else frozenset[int]()
        return _sized(sized, view.facts, good)
    if_open = size_of(replace(ask, elapsed_s=0.0), view.profile, view.if_open)
    if isinstance(if_open, Sized):
        return _sized(if_open, view.if_open, frozenset())
    predicted = _estimate(sized.best, math.nan, math.nan)
    return Outlook(False, sized.units or None, (), predicted, sized.suggestion, frozenset())


def _sized(sized: Sized, facts: ClusterFacts, good: frozenset[int]) -> Outlook:
    enough = sized.platforms
    if enough is None:
        open_units = zip(facts.platforms, facts.units, strict=True)
        enough = frozenset(name for name, units in open_units if units)
    predicted = _estimate(sized.predicted, sized.low, sized.high)
    return Outlook(True, sized.units, tuple(sorted(enough)), predicted, "", good)


def _good_servers(ask: Ask, view: _View, sized: Sized, board: Board) -> frozenset[int]:
    request = request_of(ask, view.profile, sized, board.snapshot.topology)
    return frozenset(np.flatnonzero(eligible(board, request).servers & view.good).tolist())


def _estimate(value: float, low: float, high: float) -> Estimate | None:
    return Estimate(value, low, high) if math.isfinite(value) else None


def _stand(holding: Holding, before: Profile, after: Profile, snapshot: Snapshot) -> Stand:
    """Compare what a job tolerates with what all other units of the server cause.

    Its own other units count among them, by what each belief says they cause.
    """
    everything = snapshot.server_caused[holding.server].astype(np.float64)
    strangers = everything - holding.units * holding.caused
    least = []
    source = ""
    for profile, own in ((before, holding.caused), (after, after.caused)):
        others = np.maximum(strangers + (holding.units - 1) * own, 0.0)
        units = snapshot.topology.server_units[holding.server, None]
        headroom = profile.tolerated_low - encoding.pressure(others[None, :], units)[0]
        least.append(float(headroom.min()))
        source = SOURCES[int(headroom.argmin())]
    return Stand(holding.server, least[0], least[1], source)
