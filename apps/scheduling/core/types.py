"""Requests to policies, and their outcomes.

N = 10 sources of interference, P platforms, m units requested, k units placed. Arrays in these
values are read-only by convention.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Shorts, Snapshot

if TYPE_CHECKING:
    from apps.scheduling.core.sizing.goals import Goal

MAX_UNITS: Final = 64  # the largest size of a job (docs/policies.md, "Sizes")
MAX_SAMPLE: Final = 32  # Tarcil §5.1: with R > 32, conflicts become frequent
DEFAULT_SAMPLE: Final = 8
MAX_CANDIDATES: Final = 32  # stored with a decision: the best of those examined
EXPLAINED: Final = 8  # the same for one unit, if all units were rated


def stored_candidates(units: int) -> int:
    """Return how many candidates are stored with a decision that rated all units."""
    return EXPLAINED if units == 1 else MAX_CANDIDATES


class Within(StrEnum):
    """Scope of a locality or spread constraint."""

    SERVER = "server"
    RACK = "rack"
    SWITCH = "switch"  # racks below one switch; a rack without one stands alone


class RefusalReason(StrEnum):
    """Why a job was not placed; the codes are those of the API."""

    INVALID = "Invalid"  # no cluster could serve the request
    NO_MATCHING_SERVER = "NoMatchingServer"  # by platform, labels or size, even if idle
    UNCLASSIFIABLE = "Unclassifiable"
    INFEASIBLE_TARGET = "InfeasibleTarget"
    SERVERS_CLOSED = "ServersClosed"  # all matching servers are drained or down
    LOCALITY_SHORT = "LocalityShort"  # enough free units, but not in one place
    SPREAD_SHORT = "SpreadShort"  # enough free units, but in too few places
    CAPACITY_SHORT = "CapacityShort"  # free units without enough memory, network or storage
    NOT_ENOUGH_FREE_UNITS = "NotEnoughFreeUnits"  # fewer free units than a gang needs
    NO_FREE_UNIT = "NoFreeUnit"
    UNITS_RESERVED = "UnitsReserved"  # the free units are kept for another job
    QUOTA_EXCEEDED = "QuotaExceeded"  # the project may take no more units now
    QUALITY_SHORT = "QualityShort"  # free units are too contended, and the job may wait
    WAITING_FOR_BUCKET = "WaitingForBucket"  # more free units are expected within the bound
    COMMIT_CONFLICT = "CommitConflict"  # other agents were faster in all attempts
    POLICY_FAILED = "PolicyFailed"  # the policy raised an error

    @property
    def tier(self) -> int:
        """Precedence of the reason; 1 is the highest.

        The tiers: Invalid 1, Held 2, Unclassifiable 3, InfeasibleTarget 4, QuotaExceeded 5,
        QualityShort 6, CommitConflict and PolicyFailed 8, Starting 9. Reasons that wait for free
        units share tier 7.
        """
        return _TIER[self]

    @property
    def is_permanent(self) -> bool:
        """Whether the job can only be placed if the request or the cluster changes."""
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
    RefusalReason.NOT_ENOUGH_FREE_UNITS: 7,
    RefusalReason.NO_FREE_UNIT: 7,
    RefusalReason.UNITS_RESERVED: 7,
    RefusalReason.QUOTA_EXCEEDED: 5,
    RefusalReason.QUALITY_SHORT: 6,
    RefusalReason.WAITING_FOR_BUCKET: 7,
    RefusalReason.COMMIT_CONFLICT: 8,
    RefusalReason.POLICY_FAILED: 8,
}


@dataclass(frozen=True, slots=True)
class Pool:
    """The servers that admission control (P10) and quotas let a job use, one bit for each.

    Two pools of the same servers are equal: the rankings of one serve the other. 1.6 KB for 12,500
    servers.

    Attributes
    ----------
    servers : S, of the topology
    """

    bits: bytes
    servers: int

    @classmethod
    def of(cls, mask: Bools) -> "Pool":
        """Return the pool of the servers where a mask (S,) is True."""
        return cls(np.packbits(mask).tobytes(), mask.size)

    def mask(self) -> Bools:
        """(S,) True for its servers."""
        bits = np.frombuffer(self.bits, dtype=np.uint8)
        return np.unpackbits(bits, count=self.servers).view(np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One job to place: units, constraints and interference.

    Attributes
    ----------
    job : id of the job, as text
    units : m >= 1 resource units requested
    caused : (N,) interference each of its units causes, 0-100
    tolerated : (N,) interference it tolerates, 0-100
    platform_speed : (P,) speed relative to the highest-end platform, > 0, in the order of the
        topology's platforms; None = unknown
    unit_memory_bytes, unit_network_bps, unit_storage_bytes : requested per unit;
        0 = an equal share
    gang : all m units or none; otherwise as many as possible, at least one
    platforms : names of the allowed platforms; None = all
    labels : "key=value" labels that a server must carry
    locality : all units on one server, in one rack, or below one switch
    spread : each unit on a different server, in a different rack, or below a different switch
    sample_size : R candidates per unit for sampling policies; None = the policy's default
    excluded : indices of servers to avoid (conflicts, failed launches)
    pool : the servers that the job may use; None = all
    reserved : units that the user reserved, for policies that place reservations; None = ``units``
    goal : the target, for policies that choose the number of units themselves; None = ``units``
    measure_rank : also compute the rank D of the chosen units, which scans all eligible ones (T3)
    is_patient : the job may wait for a better unit: a policy may refuse it although one is free
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
    pool: Pool | None = None
    reserved: int | None = None
    goal: "Goal | None" = None
    measure_rank: bool = False
    is_patient: bool = False

    def __post_init__(self) -> None:
        if self.units < 1:
            raise ValueError(f"units must be at least 1, got {self.units}")
        if self.sample_size is not None and self.sample_size < 1:
            raise ValueError(f"sample_size must be at least 1, got {self.sample_size}")
        if self.reserved is not None and self.reserved < 1:
            raise ValueError(f"reserved must be at least 1, got {self.reserved}")

    @property
    def is_whole(self) -> bool:
        """Whether the job starts with all its units or none."""
        return self.gang or self.locality is not None

    @property
    def min_units(self) -> int:
        """Units without which the job does not start."""
        return self.units if self.is_whole else 1

    @property
    def max_units(self) -> int:
        """Max units that a policy may take if it chooses their number itself."""
        most = 0 if self.goal is None else self.goal.max_units
        return max(self.units, self.reserved or 0, most)

    def of_fixed_size(self) -> "Request":
        """Return the request for exactly ``units`` units, whatever the policy would choose."""
        return replace(self, goal=None, reserved=None)


class Verdict(StrEnum):
    """Outcome of a candidate."""

    CHOSEN = "chosen"
    OUTRANKED = "outranked"  # good enough, but others were better
    TOO_NOISY = "too_noisy"  # U < T: the job would lose performance there
    NO_ROOM = "no_room"  # rejected after ranking by capacity, locality or spread


class Expectation(NamedTuple):
    """Predictions of the policy ``expected`` for a unit.

    Attributes
    ----------
    speed : of its platform, relative to the highest-end one
    own : performance of the job there relative to the same platform alone, 0-1
    neighbours : product of the performances that the jobs on the server keep, 0-1
    busy : share of the server's units that is busy
    """

    speed: float
    own: float
    neighbours: float
    busy: float


class Candidate(NamedTuple):
    """One unit that a policy examined; a named tuple, as each decision builds eight.

    ``U``, ``T`` and ``Q`` are for display; only ``key`` decides (higher is better).
    Values that the policy does not compute are NaN.
    """

    unit: int  # index into the snapshot's units
    server: int  # index into the snapshot's servers
    quality: float  # U_H, Tarcil Eq. 4
    target: float  # T_W, Tarcil Eq. 2
    closeness: float  # Q, Tarcil Eq. 5, or the policy's own score
    key: tuple[int, ...]  # exact order
    verdict: str  # a Verdict
    headroom: Floats  # (N,) tolerated - pressure there, negative = too much
    expectation: Expectation | None = None  # None: another policy


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Units chosen for a job; a commit allocates them.

    Attributes
    ----------
    job : id of the job
    units : (k,) int32 indices into the snapshot's units, best first, 1 <= k <= m
    candidates : the units examined, best first, at most MAX_CANDIDATES
    examined : number of units scored
    eligible : number of units that passed the filters
    dropped : number of units rejected by each filter; a unit counts for the first that rejects it
    rank_threshold : x of the guarantee
    probability : chance that a chosen unit lies outside the best 1 - x of the eligible units; that
        all units drawn do, with a locality
    seed : 63-bit seed of the decision; with the snapshot and the request it repeats the decision
        exactly
    sequence : change-log number of the snapshot
    ranks : (k,) rank D of each chosen unit among the eligible ones, 1 = the best; empty unless
        requested
    wanted : units that the policy decided on, where it chooses their number; None = as requested
    draws : R, where it is not examined / m: units drawn whose places were examined, with a
        locality; 1 for units taken at random without a comparison
    """

    job: str
    units: Shorts
    candidates: Sequence[Candidate]
    examined: int
    eligible: int
    dropped: dict[str, int]
    rank_threshold: float
    probability: float
    seed: int
    sequence: int
    ranks: Floats
    wanted: int | None = None
    draws: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Refused:
    """The reason why no unit was chosen, and the number of units each filter rejected.

    Attributes
    ----------
    waits_for_better : units are free, but not good enough until its patience ends
    is_beyond_limit : it needs more units at once than its project may ever use
    """

    job: str
    reason: RefusalReason
    dropped: dict[str, int]
    examined: int = 0
    eligible: int = 0
    detail: str = ""
    seed: int = 0
    sequence: int = 0
    also: tuple[RefusalReason, ...] = field(default=())
    waits_for_better: bool = False
    is_beyond_limit: bool = False

    @property
    def is_permanent(self) -> bool:
        """Whether the job can only be placed if the request, the cluster or its quota changes."""
        return self.reason.is_permanent or self.is_beyond_limit

    @property
    def lacks_only_units(self) -> bool:
        """Whether any unit of a matching server would do, once it is free."""
        return self.reason is RefusalReason.NO_FREE_UNIT and "excluded" not in self.dropped


class Policy(Protocol):
    """Decides on a batch of requests on one snapshot, without changing it."""

    @property
    def name(self) -> str:
        """Name in the registry."""
        ...

    @property
    def version(self) -> int:
        """Incremented when the same input may give a different outcome."""
        ...

    @property
    def draws_sample(self) -> bool:
        """Whether it compares R random candidates; not if it rates all units or compares none."""
        ...

    def place(
        self, snapshot: Snapshot, requests: Sequence[Request], rng: np.random.Generator
    ) -> list[Placed | Refused]:
        """Return one outcome per request, in order; later ones see the use of earlier ones."""
        ...
