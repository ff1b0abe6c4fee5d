"""What a policy is asked and what it answers.

N = 10 sources of interference, P platforms, m units wanted, k units placed. Arrays inside these
values are read-only by agreement: whoever builds one hands it over.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

import numpy as np

from apps.inventory.core.snapshot import Floats, Shorts, Snapshot

MAX_UNITS: Final = 64  # the parallelism cap of design.md, "Sizes"
MAX_SAMPLE: Final = 32  # Tarcil §5.1: beyond R = 32 conflicts become frequent
DEFAULT_SAMPLE: Final = 8
MAX_CANDIDATES: Final = 32  # kept with a decision; a full scan keeps its best few


class Within(StrEnum):
    """How near or how far apart a job wants its units."""

    SERVER = "server"
    RACK = "rack"


class RefusalReason(StrEnum):
    """Why a job was not placed; CamelCase codes are those of the API."""

    INVALID = "Invalid"  # no cluster could serve the request as written
    NO_MATCHING_SERVER = "NoMatchingServer"  # platforms, labels or shape: however idle
    UNCLASSIFIABLE = "Unclassifiable"
    INFEASIBLE_TARGET = "InfeasibleTarget"
    SERVERS_CLOSED = "ServersClosed"  # the servers that match are drained or silent
    LOCALITY_SHORT = "LocalityShort"  # enough free units, but not near each other
    SPREAD_SHORT = "SpreadShort"  # enough free units, but not far enough apart
    CAPACITY_SHORT = "CapacityShort"  # free units, but no memory, network or storage beside them
    QUALITY_SHORT = "QualityShort"
    NOT_ENOUGH_FREE_UNITS = "NotEnoughFreeUnits"  # a gang larger than what is free
    NO_FREE_UNIT = "NoFreeUnit"
    COMMIT_CONFLICT = "CommitConflict"  # other agents were faster, retries are used up

    @property
    def tier(self) -> int:
        """Precedence of the reason, 1 outranks all.

        The tiers: Invalid 1, Held 2, Unclassifiable 3, InfeasibleTarget 4, QuotaExceeded 5,
        QualityShort 6, WaitingForBucket 7, CommitConflict 8, Starting 9. What waits for free
        units shares tier 7.
        """
        return _TIER[self]

    @property
    def is_permanent(self) -> bool:
        """Whether waiting cannot help: the request or the cluster must change."""
        return self.tier <= 4


_TIER: Final = {
    RefusalReason.INVALID: 1,
    RefusalReason.NO_MATCHING_SERVER: 1,
    RefusalReason.UNCLASSIFIABLE: 3,
    RefusalReason.INFEASIBLE_TARGET: 4,
    RefusalReason.SERVERS_CLOSED: 7,
    RefusalReason.LOCALITY_SHORT: 7,
    RefusalReason.SPREAD_SHORT: 7,
    RefusalReason.CAPACITY_SHORT: 7,
    RefusalReason.QUALITY_SHORT: 6,
    RefusalReason.NOT_ENOUGH_FREE_UNITS: 7,
    RefusalReason.NO_FREE_UNIT: 7,
    RefusalReason.COMMIT_CONFLICT: 8,
}


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One job to place: how many units, of what kind, and what it does to its neighbours.

    Attributes
    ----------
    job : id of the job, as text
    units : m >= 1 resource units wanted
    caused : (N,) interference each of its units causes, 0-100
    tolerated : (N,) interference it tolerates, 0-100
    platform_speed : (P,) speed relative to the highest-end platform, > 0, in the order of the
        topology's platforms; None = no preference known
    unit_memory_bytes, unit_network_bps, unit_storage_bytes : wanted per unit;
        0 = the unit's equal share
    gang : all m units or none; otherwise as many as there are, at least one
    platforms : names of the platforms allowed; None = all
    labels : "key=value" labels a server must carry, all of them
    locality : all units on one server, or in one rack
    spread : every unit on another server, or in another rack
    sample_size : R candidates per unit for sampling policies; None = the policy's default
    excluded : indices of servers not to use (conflicts, failed launches)
    measure_rank : also find the rank D of the chosen units, which scans all eligible ones (T3)
    """

    job: str
    units: int
    caused: Floats
    tolerated: Floats
    platform_speed: Floats | None = None
    unit_memory_bytes: float = 0.0
    unit_network_bps: float = 0.0
    unit_storage_bytes: float = 0.0
    gang: bool = False
    platforms: frozenset[str] | None = None
    labels: frozenset[str] = frozenset()
    locality: Within | None = None
    spread: Within | None = None
    sample_size: int | None = None
    excluded: frozenset[int] = frozenset()
    measure_rank: bool = False

    def __post_init__(self) -> None:
        if self.units < 1:
            raise ValueError(f"units must be at least 1, got {self.units}")
        if self.sample_size is not None and self.sample_size < 1:
            raise ValueError(f"sample_size must be at least 1, got {self.sample_size}")


class Verdict(StrEnum):
    """What became of a candidate."""

    CHOSEN = "chosen"
    OUTRANKED = "outranked"  # good enough, but others were better
    TOO_NOISY = "too_noisy"  # U < T: the job would lose performance there
    NO_ROOM = "no_room"  # taken out by capacity, locality or spread after ranking


class Candidate(NamedTuple):
    """One unit a policy looked at; a named tuple because eight are built per decision.

    ``U``, ``T`` and ``Q`` are shown to people; ``key`` alone decides (higher is better).
    NaN where the policy does not compute it.
    """

    unit: int  # index into the snapshot's units
    server: int  # index into the snapshot's servers
    quality: float  # U_H, Tarcil Eq. 4
    target: float  # T_W, Tarcil Eq. 2
    closeness: float  # Q, Tarcil Eq. 5, or the policy's own score
    key: tuple[int, ...]  # exact order
    verdict: str  # a Verdict
    headroom: Floats  # (N,) tolerated - pressure there, negative = too much


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Units chosen for a job; nothing is taken until a commit says so.

    Attributes
    ----------
    job : the request's job
    units : (k,) int32 indices into the snapshot's units, best first, 1 <= k <= m
    candidates : the units examined, best first, at most MAX_CANDIDATES
    examined : how many units were scored
    eligible : how many units of the snapshot could have been chosen
    dropped : units taken out by each filter; every unit is counted at the first that took it out
    rank_threshold : x of the guarantee below
    probability : chance that a chosen unit lies outside the best 1 - x of the eligible units
    seed : 63-bit number from which this decision drew; with the snapshot and the request it
        repeats the decision exactly
    sequence : change-log number of the snapshot seen
    ranks : (k,) rank D of each chosen unit among the eligible ones, 1 = the best; empty unless
        asked for
    """

    job: str
    units: Shorts
    candidates: tuple[Candidate, ...]
    examined: int
    eligible: int
    dropped: dict[str, int]
    rank_threshold: float
    probability: float
    seed: int
    sequence: int
    ranks: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Refused:
    """Why nothing was chosen, with what each filter took out."""

    job: str
    reason: RefusalReason
    dropped: dict[str, int]
    examined: int = 0
    eligible: int = 0
    detail: str = ""
    seed: int = 0
    sequence: int = 0
    also: tuple[RefusalReason, ...] = field(default=())


class Policy(Protocol):
    """Decides for a batch of jobs on one snapshot; changes nothing."""

    @property
    def name(self) -> str:
        """Name in the registry."""
        ...

    @property
    def version(self) -> int:
        """Raised when the same input may give another answer."""
        ...

    def place(
        self, snapshot: Snapshot, requests: Sequence[Request], rng: np.random.Generator
    ) -> list[Placed | Refused]:
        """One outcome per request, in order; later ones see what earlier ones took and cause."""
        ...
