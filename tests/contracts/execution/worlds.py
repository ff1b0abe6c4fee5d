"""The operations that each backend offers to the contract tests: begin a job, watch it, fail."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final

from apps.inventory.models import Server
from apps.scheduling.models import Allocation
from apps.workloads.models import Job
from tests.execution.waiting import until

TIMEOUT_S: Final = 120.0  # of a busy machine


class BackendWorld(ABC):
    """Berth and one backend of two or more servers; nothing happens unless a test lets it.

    Attributes
    ----------
    name : of the backend, of `inventory.core.backends`
    """

    name: ClassVar[str]

    @abstractmethod
    def begin(self) -> Job:
        """Return a running job of one unit, which runs until `finish`."""

    @abstractmethod
    def finish(self, job: Job) -> None:
        """Let the job end with success; Berth has not seen it when this returns."""

    @abstractmethod
    def begin_refused(self) -> Job:
        """Return a job whose first launch the backend cannot start."""

    def place_again(self, job: Job) -> None:
        """Let the scheduler place a job that was requeued."""
        self.until_state(job, "starting", "running")

    @abstractmethod
    def turn(self) -> None:
        """Let Berth and the backend work once."""

    @abstractmethod
    def stop(self) -> None:
        """End the processes of Berth that run the backend, as a crash does."""

    @abstractmethod
    def start(self) -> None:
        """Start these processes again; they know nothing."""

    @abstractmethod
    def starts(self, job: Job) -> int:
        """Return how often the backend has started the job, as it says itself."""

    @abstractmethod
    def runs_on(self, job: Job) -> set[str]:
        """Return the servers on which the backend says that the job has processes."""

    @abstractmethod
    def is_stopped(self, job: Job) -> bool:
        """Whether the backend says that the processes of the job are suspended."""

    @abstractmethod
    def has_usage(self, job: Job) -> bool:
        """Whether Berth has stored what the job uses."""

    @abstractmethod
    def lose_server(self, job: Job) -> None:
        """Make the server of the job fail."""

    def until(self, holds: Callable[[], Any], what: str) -> Any:
        """Let Berth work until something is true, and return it.

        Raises
        ------
        AssertionError : it did not become true in time.
        """
        return until(self.turn, holds, what, timeout_s=TIMEOUT_S)

    def until_state(self, job: Job, *states: str) -> Job:
        """Let Berth work until a job is in one of the states."""

        def is_there() -> bool:
            job.refresh_from_db()
            return job.state in states

        self.until(is_there, f"{job.name} is {states}")
        return job


def server_of(job: Job) -> Server:
    """Return the server on which a job holds its units."""
    return Server.objects.get(pk=Allocation.objects.get(job=job, released_seq=None).server_id)


def other_server(job: Job) -> Server:
    """Return another server of the same platform."""
    source = server_of(job)
    others = Server.objects.filter(platform=source.platform, state="active").exclude(pk=source.pk)
    return others.order_by("id")[0]


def used_units() -> dict[str, int]:
    """Return the units in use or reserved, by server that has any."""
    return dict(Server.objects.filter(used_cores__gt=0).values_list("name", "used_cores"))
