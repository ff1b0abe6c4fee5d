"""Admission control: whether a sized job is decided now, or waits for better units.

S servers, N = 10 sources. Times are seconds of the jobs' clock.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

from apps.inventory.core.snapshot import Bools, Ints, Snapshot
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.types import RefusalReason, Request

MAX_WAIT_S: Final = 600.0
WINDOW_S: Final = 7200.0  # Tarcil §4.3: two hours of history


class Control(StrEnum):
    """The admission control of a cluster."""

    NONE = "none"  # a job starts as soon as enough units are free
    COUNT = "count"  # waits for the number of units it needs
    TARCIL_LSH = "tarcil_lsh"  # waits for units whose interference suits it (Tarcil §4.3)


class Applicant(NamedTuple):
    """A job at admission.

    Attributes
    ----------
    waited_s : since agents could first evaluate it
    run_s : predicted run time; NaN = unknown
    """

    request: Request
    waited_s: float
    run_s: float = float("nan")


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
    freed_per_s : units freed in the window of the history over its length
    mean_s, std_s : of the time until a unit is freed; None = too few were freed
    bound_s : longest wait for one unit; None = jobs do not wait
    waiting : jobs that wait for its units
    """

    name: str
    servers: int
    free_units: int
    freed_per_s: float
    mean_s: float | None
    std_s: float | None
    bound_s: float | None
    waiting: int

    def as_json(self) -> dict[str, Any]:
        """Return JSON values by name."""
        return asdict(self)


class Admission(Protocol):
    """Lets jobs wait for better units, from the units that were freed recently."""

    @property
    def control(self) -> Control:
        """The name of the admission control."""
        ...

    def note_freed(self, snapshot: Snapshot, servers: Ints, now_s: float) -> None:
        """Note freed units by the servers (indices) they are on, after they were freed."""
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

    def state(self, snapshot: Snapshot, facts: TopologyFacts, now_s: float) -> list[QueueState]:
        """Return the buckets, or classes, as they are now."""
        ...
