"""Admission control: whether a sized job is decided now, or waits for better units.

S servers, N = 10 sources. Times are seconds of the jobs' clock.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

from apps.inventory.core.snapshot import Bools, Ints, Snapshot
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.types import RefusalReason, Request

MAX_WAIT_S: Final = 600.0
STEP_S: Final = 1.0  # a waiting job is evaluated again after it at the earliest
FORGET_S: Final = 1200.0  # a waiting job that was not evaluated for so long is forgotten
WINDOW_S: Final = 7200.0  # Tarcil §4: two hours of history
MIN_HISTORY_S: Final = 600.0  # a shorter history gives no rate


class Control(StrEnum):
    """The admission control of a cluster."""

    NONE = "none"  # a job starts as soon as enough units are free
    COUNT = "count"  # waits for the number of units it needs
    TARCIL_LSH = "tarcil_lsh"  # waits for units whose interference suits it (Tarcil §4)
    ARQ = "arq"  # waits for units of the pool of its class (Paragon §4)


class Applicant(NamedTuple):
    """A job at admission.

    Attributes
    ----------
    waited_s : since agents could first evaluate it
    run_s : predicted run time; NaN = unknown
    profiling_s : how long its application was profiled for it
    seen : the cluster without what is reserved for other jobs; None = nothing is
    """

    request: Request
    waited_s: float
    run_s: float = float("nan")
    profiling_s: float = 0.0
    priority: int = 0
    seen: Snapshot | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Admitted:
    """The policy decides on the job.

    Attributes
    ----------
    servers : (S,) that it may use; None = all
    """

    servers: Bools | None = None


@dataclass(frozen=True, slots=True)
class Delayed:
    """The job waits.

    Attributes
    ----------
    until_s : when it is admitted at the latest
    """

    reason: RefusalReason
    detail: str
    until_s: float


ADMITTED: Final = Admitted()


@dataclass(frozen=True, slots=True)
class QueueState:
    """One bucket, or class, of an admission control.

    Attributes
    ----------
    name : what its units have in common
    servers, free_units : open servers, and free units on them
    freed_per_s : units freed in the window of the history over its length; of the newest ones over
        their time, if more were freed than are kept; None = the history is too short
    mean_s, std_s : of the time until a unit is freed (bucket), or that units were busy (class);
        None = too few were freed
    bound_s : longest wait for one unit; None = jobs do not wait
    waiting : jobs that wait for its units
    arrived_per_s : units of jobs of the class; 0 for a bucket; None = the history is too short
    diverted_share : of the jobs of its queue; 0 for a bucket
    load_factor : of its queue, stable below 1; None = unknown, or a bucket
    """

    name: str
    servers: int
    free_units: int
    freed_per_s: float | None
    mean_s: float | None
    std_s: float | None
    bound_s: float | None
    waiting: int
    arrived_per_s: float | None = 0.0
    diverted_share: float = 0.0
    load_factor: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return JSON values by name."""
        return asdict(self)


def with_rates_of_all_agents(
    queues: Sequence[QueueState], requested_per_s: float | None
) -> Sequence[QueueState]:
    """Return queues with the rates at which jobs arrive at all agents, and the loads of these.

    A control sees only the jobs that its own agent evaluates, but the units that all agents use.
    Each class has the share of the requests that it has among the jobs of this agent. Both values
    are proportional to the requests.

    Parameters
    ----------
    requested_per_s : units of all jobs; None = unknown
    """
    own = sum(each.arrived_per_s or 0.0 for each in queues)
    if not own or requested_per_s is None:
        return queues
    ratio = requested_per_s / own
    return [
        each
        if each.arrived_per_s is None
        else replace(
            each,
            arrived_per_s=ratio * each.arrived_per_s,
            load_factor=None if each.load_factor is None else ratio * each.load_factor,
        )
        for each in queues
    ]


@dataclass(frozen=True, slots=True)
class AdmissionNow:
    """The admission control in use, and the last state that an agent stored.

    Attributes
    ----------
    at, cluster_s : of the state; None = no agent has stored one yet
    """

    control: str
    at: datetime | None = None
    cluster_s: float | None = None
    queues: tuple[QueueState, ...] = ()


class Admission(Protocol):
    """Lets jobs wait for better units, from the units that were freed recently."""

    @property
    def control(self) -> Control:
        """The name of the admission control."""
        ...

    def note_freed(self, snapshot: Snapshot, units: Ints, now_s: float) -> None:
        """Note units (indices) after they were freed; others may hold some of them already."""
        ...

    def evaluate(
        self,
        applicants: Sequence[Applicant],
        snapshot: Snapshot,
        facts: TopologyFacts,
        now_s: float,
    ) -> list[Admitted | Delayed]:
        """Return one verdict per applicant, in order; later ones see the use of earlier ones."""
        ...

    @property
    def waiting(self) -> Collection[str]:
        """Ids of the jobs that it remembers because they wait, or did when it admitted them."""
        ...

    def forget(self, jobs: Collection[str]) -> None:
        """Forget jobs that started, ended or are held."""
        ...

    def memory(self) -> dict[str, Any]:
        """Return the history and the waiting jobs, as values of JSON with NaN."""
        ...

    def recall(self, memory: Mapping[str, Any], snapshot: Snapshot) -> None:
        """Continue from what `memory` returned, on the cluster of that moment or a later one."""
        ...

    def state(self, snapshot: Snapshot, facts: TopologyFacts, now_s: float) -> list[QueueState]:
        """Return the buckets, or classes, as they are now."""
        ...
