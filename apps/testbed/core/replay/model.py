"""Input and output of a replay: cluster, options and result.

S servers. A replay runs a workload on an emulated cluster without database, broker or
clock; `run.run` is the only entry. Same input and options, same result.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.scheduling.core.admission.types import MAX_WAIT_S, Control
from apps.scheduling.core.patience import MAX_PATIENCE_S
from apps.scheduling.core.registry import DEFAULT
from apps.testbed.core.replay.errors import ReplayError
from apps.testbed.core.replay.weights import MIN_REBALANCE_S, REBALANCE_S, weights_problem


class ProfileSource(StrEnum):
    """What the scheduler knows of an application."""

    INFERRED = "inferred"  # production's classification, from simulated profiling runs
    TRUE = "true"  # the hidden truth: a bound, not a result
    NONE = "none"  # the average of the library, the same for every application of a kind


class Admission(StrEnum):
    """Order in which waiting jobs are decided, and the admission control before it."""

    SHAPES = "shapes"  # production's: equal requests wait together, and none blocks another
    FIFO = "fifo"  # strict order of arrival: a job that cannot start blocks all later ones
    COUNT = "count"  # as shapes; a job waits for the number of units it needs
    TARCIL_LSH = "tarcil_lsh"  # as shapes; a job waits for units whose contention suits it
    ARQ = "arq"  # as shapes; a job waits for units of the pool of its class

    @classmethod
    def _missing_(cls, value: object) -> "Admission | None":
        """Accept production's name of no admission control."""
        return cls.SHAPES if value == Control.NONE else None

    @property
    def control(self) -> Control:
        """The admission control of production."""
        return Control(self.value) if self.value in list(Control) else Control.NONE


@dataclass(frozen=True, slots=True)
class Failures:
    """Failures of servers.

    Attributes
    ----------
    per_day : mean number in the whole cluster
    repair_s : time after which a failed server takes jobs again
    """

    per_day: float
    repair_s: float

    def __post_init__(self) -> None:
        if not (0.0 < self.per_day < np.inf and 0.0 < self.repair_s < np.inf):
            raise ReplayError("failures a day and the time of a repair must be > 0")


@dataclass(frozen=True, slots=True)
class ReplayPlatform:
    """Data sheet of one server configuration: capacities of one server, power in watts."""

    name: str
    cores: int
    memory_bytes: float
    network_bps: float
    storage_bytes: float
    idle_watts: float
    peak_watts: float


@dataclass(frozen=True, slots=True, eq=False)
class ReplayCluster:
    """The servers of a replay.

    Attributes
    ----------
    name : label
    platforms : the highest-end one first: speeds are relative to it; each has a server
    platform : (S,) index into ``platforms``
    rack : (S,) index of the rack
    """

    name: str
    platforms: tuple[ReplayPlatform, ...]
    platform: Ints
    rack: Ints

    def __len__(self) -> int:
        return int(self.platform.size)

    def __post_init__(self) -> None:
        if not self.platform.size:
            raise ReplayError(f"cluster {self.name} has no servers")
        if self.rack.shape != self.platform.shape or self.rack.min() < 0:
            raise ReplayError(f"cluster {self.name}: every server must have a rack")
        if self.platform.min() < 0 or self.platform.max() >= len(self.platforms):
            raise ReplayError(f"cluster {self.name}: a platform of a server does not exist")
        if np.unique(self.platform).size < len(self.platforms):
            raise ReplayError(f"cluster {self.name}: a platform has no server")
        for platform in self.platforms:
            sizes = (platform.cores, platform.memory_bytes, platform.network_bps,
                     platform.storage_bytes)  # fmt: skip
            if min(sizes) <= 0 or not 0 <= platform.idle_watts <= platform.peak_watts:
                raise ReplayError(
                    f"platform {platform.name}: capacities must be > 0 and idle watts in 0 .. peak"
                )

    @property
    def units(self) -> Ints:
        """(S,) resource units of each server."""
        return np.array([p.cores for p in self.platforms], dtype=np.int64)[self.platform]


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How a workload is replayed.

    Attributes
    ----------
    policy : name in `scheduling.core.registry` or `replay.queueing.registry`
    parameters : of the policy by name; those left out have the values of production
    seed : of the applications' true behaviour, the noise of profiling and the policy's draws
    world : distributions of the applications' true behaviour
    profiles : what the scheduler knows of them
    admission : order in which waiting jobs are decided, and the admission control before it
    max_wait_s : the admission control keeps no job waiting for better units longer than this
    patience_s : nor does the policy while units are free; 0 = it lets no job wait, as under
        ``Admission.FIFO``
    agents : scheduler agents, which receive the jobs in turn
    sync_s : interval at which an agent reads the change log; 0 = before every decision
    jitter : intervals are ``sync_s`` x (1 ± jitter), so that agents do not read at the same time
    decision_s : time that a decision takes; the commit follows then
    retries : decisions after a commit conflict before a job waits
    batch : jobs that an agent decides together, at most
    together : under ``Admission.FIFO``, the policy receives the jobs of the line together instead
        of one after the other; those from the first that it refuses wait
    failures : of servers; None = none fails
    until_s : end of the replay; infinite = until every job that can end has ended
    weights : of P, D and C, by which plans migrate running jobs; None = no job migrates
    rebalance_s : time between two plans
    """

    policy: str = DEFAULT
    seed: int = 1
    world: str = "paper"
    profiles: ProfileSource = ProfileSource.INFERRED
    admission: Admission = Admission.SHAPES
    max_wait_s: float = MAX_WAIT_S
    patience_s: float = MAX_PATIENCE_S
    agents: int = 1
    sync_s: float = 0.0
    jitter: float = 0.3
    decision_s: float = 0.0
    retries: int = 3
    batch: int = 128
    together: bool = False
    until_s: float = np.inf
    parameters: Mapping[str, float] | None = None
    failures: Failures | None = None
    weights: Mapping[str, float] | None = None
    rebalance_s: float = REBALANCE_S

    @property
    def has_sole_agent(self) -> bool:
        """Whether one agent decides everything on the latest state, and servers stay open."""
        return self.agents == 1 and self.sync_s == 0.0 and self.failures is None

    @classmethod
    def of(cls, **texts: str) -> "ReplayOptions":
        """Return options; those that are a choice among names are given as text.

        Raises
        ------
        ReplayError : the message lists the known names.
        """
        values: dict[str, Any] = dict(texts)
        for name, kinds in (("profiles", ProfileSource), ("admission", Admission)):
            if name not in texts:
                continue
            try:
                values[name] = kinds(texts[name])
            except ValueError as error:
                known = f"{name} must be one of {', '.join(kinds)}, not {texts[name]!r}"
                raise ReplayError(known) from error
        return cls(**values)

    def __post_init__(self) -> None:
        if self.agents < 1 or self.batch < 1 or self.retries < 0 or self.seed < 0:
            raise ReplayError("agents and batch must be at least 1, retries and seed at least 0")
        if not (self.sync_s >= 0 and self.decision_s >= 0 and 0 <= self.jitter < 1):
            raise ReplayError("times must not be negative, and jitter must lie in [0, 1)")
        for name in ("max_wait_s", "patience_s"):
            if not getattr(self, name) >= 0:
                raise ReplayError(f"{name} must be at least 0, got {getattr(self, name):g}")
        if not (self.until_s > 0 and self.rebalance_s >= MIN_REBALANCE_S):
            raise ReplayError(f"until_s must be > 0 and rebalance_s at least {MIN_REBALANCE_S:g}")
        if self.together and self.admission is not Admission.FIFO:
            raise ReplayError("jobs are decided together only in order of arrival (fifo)")
        if self.weights is not None and (problem := weights_problem(self.weights)):
            raise ReplayError(f"weights {problem}")


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """State of a replay under way."""

    jobs_ended: int
    jobs: int
    now_s: float


@dataclass(frozen=True, slots=True)
class RunRow:
    """Summary of a run; NaN where no job gives a value.

    Attributes
    ----------
    jobs_failed : refused for good: no size meets the target
    jobs_unfinished : waiting or running at the end
    performance_mean, performance_p5 : of the finished jobs, see `ReplayResult.performance`
    utilisation_mean : share of the units held, from the first arrival to the last
    wait_p50_s, wait_p99_s : from arrival to start, of the jobs that started
    energy_kwh : of the servers; a server without a job is off
    events : starts, ends, phases and migrations of jobs
    migrations : of containers by plans, for the weights of the run
    """

    policy: str
    seed: int
    jobs_submitted: int
    jobs_finished: int
    jobs_failed: int
    jobs_unfinished: int
    performance_mean: float
    performance_p5: float
    utilisation_mean: float
    wait_p50_s: float
    wait_p99_s: float
    energy_kwh: float
    events: int
    wall_seconds: float
    migrations: int = 0

    def as_json(self) -> dict[str, Any]:
        """JSON form; NaN becomes null."""
        return {
            name: None if isinstance(value, float) and np.isnan(value) else value
            for name, value in asdict(self).items()
        }


@dataclass(frozen=True, slots=True, eq=False)
class ReplayResult:
    """Result of one run, jobs in the order of the workload.

    Attributes
    ----------
    arrived_s, started_s, ended_s : (n,) NaN for a time not reached
    whole_s : (n,) time at which a job first held all units that it asked for; NaN if it never did
    performance : (n,) time that the job needs alone on the best platform for it (`performance`)
        over the time from its arrival to its end, at most 1; NaN if it did not finish
    units : (n,) units that it held; 0 if it did not start
    reason : n reasons why a job did not finish; empty = it finished
    failed : (n,) True if it was refused for good
    refusals, conflicts : (n,) decisions that chose no unit; commits lost to another agent
    restarts : (n,) times that a failed server ended it, and it was submitted again
    migrations : (n,) times that a container of it migrated
    servers_failed : failures of servers
    series_s, used_share : (k + 1,) ends of intervals of equal length, and (k,) mean share of the
        units held in each
    """

    run: RunRow
    arrived_s: Floats
    started_s: Floats
    whole_s: Floats
    ended_s: Floats
    performance: Floats
    units: Ints
    reason: tuple[str, ...]
    failed: Bools
    refusals: Ints
    conflicts: Ints
    restarts: Ints
    migrations: Ints
    servers_failed: int
    series_s: Floats
    used_share: Floats
