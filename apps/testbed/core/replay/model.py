"""Input and output of a replay: workload, cluster, options and result.

n jobs, S servers. A replay runs a workload on an emulated cluster without database, broker or
clock; `run.run` is the only entry. Same input and options, same result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np

from apps.common.core.errors import ControlPlaneError
from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.scheduling.core.admission.types import MAX_WAIT_S, Control
from apps.scheduling.core.registry import DEFAULT
from apps.testbed.core.replay.weights import MIN_REBALANCE_S, REBALANCE_S, weights_problem

NO_TARGET: Final = np.inf  # best effort
NO_LIMIT: Final = np.inf  # runs until its work is done
SIZED: Final = 0  # units: as many as production's sizing gives
DIVISIBLE: Final = 0  # tasks: the work divides freely


class ReplayError(ControlPlaneError, ValueError):
    """A workload, a cluster or an option of a replay is invalid."""


class ReplayCancelledError(ControlPlaneError):
    """The caller cancelled a replay."""


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
class Application:
    """A program of the workload; its kind is one of `emulation.core.draws.KINDS`."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Jobs in order of arrival; build one with `workload`, which fills in defaults.

    Attributes
    ----------
    name : label, such as the name of a trace
    applications : A programs
    arrival_s : (n,) seconds since the start, non-decreasing
    application : (n,) index into ``applications``
    work_s : (n,) unit-seconds of the highest-end platform; infinite for a service
    tasks : (n,) equal tasks that run in waves; `DIVISIBLE` = 0
    units : (n,) resource units requested; `SIZED` = 0
    target_s : (n,) completion time requested, from the arrival; `NO_TARGET` = infinite
    duration_s : (n,) seconds after which a job ends even with work left; `NO_LIMIT` = infinite
    priority : (n,) higher is more urgent
    unit_memory_bytes : (n,) requested per unit; 0 = an equal share
    gang : (n,) True if a job starts with all its units or not at all
    queue : (n,) number of its queue, for policies with queues of shares
    """

    name: str
    applications: tuple[Application, ...]
    arrival_s: Floats
    application: Ints
    work_s: Floats
    tasks: Ints
    units: Ints
    target_s: Floats
    duration_s: Floats
    priority: Ints
    unit_memory_bytes: Floats
    gang: Bools
    queue: Ints

    def __len__(self) -> int:
        return int(self.arrival_s.size)

    def __post_init__(self) -> None:
        columns = (self.application, self.work_s, self.tasks, self.units, self.target_s,
                   self.duration_s, self.priority, self.unit_memory_bytes, self.gang,
                   self.queue)  # fmt: skip
        if any(column.shape != self.arrival_s.shape for column in columns):
            raise ReplayError("the columns of a workload must have one value for each job")
        for problem, is_wrong in (
            ("arrivals must be finite and non-decreasing, from 0",
             not np.isfinite(self.arrival_s).all() or (np.diff(self.arrival_s, prepend=0.0) < 0)),
            ("work must be > 0", ~(self.work_s > 0)),
            ("targets and durations must be > 0", ~((self.target_s > 0) & (self.duration_s > 0))),
            ("units, tasks, memory and queue must not be negative",
             (self.units < 0) | (self.tasks < 0) | (self.queue < 0)
             | ~(self.unit_memory_bytes >= 0)),
            ("an application does not exist",
             (self.application < 0) | (self.application >= len(self.applications))),
            ("a service needs a number of units", np.isinf(self.work_s) & (self.units == SIZED)),
        ):  # fmt: skip
            if np.any(is_wrong):
                raise ReplayError(f"workload {self.name}: {problem}")

    def part(self, jobs: slice) -> "Workload":
        """Return some of the jobs, with the same arrival times."""
        return Workload(
            self.name, self.applications, self.arrival_s[jobs], self.application[jobs],
            self.work_s[jobs], self.tasks[jobs], self.units[jobs], self.target_s[jobs],
            self.duration_s[jobs], self.priority[jobs], self.unit_memory_bytes[jobs],
            self.gang[jobs], self.queue[jobs],
        )  # fmt: skip


def workload(
    name: str,
    applications: Sequence[Application],
    arrival_s: Floats,
    application: Ints,
    work_s: Floats,
    **columns: Any,
) -> Workload:
    """Return a workload; columns that are not given get the defaults of `JobSpec`.

    Raises
    ------
    ReplayError : a column is invalid; names the condition.
    """
    n = len(arrival_s)
    defaults: dict[str, tuple[float, type]] = {
        "tasks": (DIVISIBLE, np.int64),
        "units": (SIZED, np.int64),
        "target_s": (NO_TARGET, np.float64),
        "duration_s": (NO_LIMIT, np.float64),
        "priority": (0, np.int64),
        "unit_memory_bytes": (0.0, np.float64),
        "gang": (True, np.bool_),
        "queue": (0, np.int64),
    }
    if unknown := columns.keys() - defaults.keys():
        raise ReplayError(f"a workload has no column {', '.join(sorted(unknown))}")
    filled: dict[str, Any] = {
        column: np.asarray(columns.get(column, np.full(n, value)), dtype=kind)
        for column, (value, kind) in defaults.items()
    }
    return Workload(
        name=name,
        applications=tuple(applications),
        arrival_s=np.asarray(arrival_s, dtype=np.float64),
        application=np.asarray(application, dtype=np.int64),
        work_s=np.asarray(work_s, dtype=np.float64),
        **filled,
    )


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
    max_wait_s : no job is kept waiting for better units longer than this
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
        if not self.max_wait_s >= 0:
            raise ReplayError(f"max_wait_s must be at least 0, got {self.max_wait_s:g}")
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
