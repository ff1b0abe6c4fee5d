"""Policies that queue jobs themselves, and what the loop of a replay asks of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from apps.inventory.core.snapshot import Shorts
from apps.scheduling.core.cluster.in_memory_store import MemoryCluster
from apps.testbed.core.replay.waiting import Refusal

if TYPE_CHECKING:
    from apps.testbed.core.replay.loop import ReplayLoop


class Scheduler(Protocol):
    """Decides when and where the jobs of a replay start.

    Attributes
    ----------
    has_waiting : whether a job waits that a repaired server may let start
    """

    @property
    def has_waiting(self) -> bool: ...  # noqa: D102 - described above

    def arrive(self, job: int) -> None:
        """Take a new job, or one whose server failed."""
        ...

    def release(self, allocation: int, now: float, units: Shorts | None = None) -> None:
        """Free units of a job that ended or migrated; None = all of the allocation."""
        ...

    def open(self, servers: Sequence[int]) -> None:
        """Open repaired servers."""
        ...

    def next_s(self) -> float:
        """Time of its next action if nothing else happens; infinite if there is none."""
        ...

    def commit(self, now: float) -> None:
        """Commit the decisions that are due."""
        ...

    def decide(self, now: float) -> None:
        """Decide all that can be decided now."""
        ...

    def refusals(self) -> dict[int, Refusal]:
        """Why jobs wait that hold no units, as far as it is known."""
        ...


MakeScheduler = Callable[["ReplayLoop", MemoryCluster, np.random.Generator], Scheduler]


@dataclass(frozen=True, slots=True)
class QueueingPolicy:
    """A policy that queues jobs itself, which only replays run.

    It decides when units become free, not on a snapshot, and so keeps no contract of
    `scheduling.core.types.Policy`.

    Attributes
    ----------
    scheduler : makes what decides in one run
    """

    name: str
    scheduler: MakeScheduler
