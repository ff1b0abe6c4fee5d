"""The jobs that one agent decides next."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from apps.inventory.selectors import cluster_now
from apps.scheduling.core.rate_limit import RateLimit
from apps.scheduling.selectors import ClusterFollower
from apps.workloads import services as workloads
from apps.workloads.selectors import count_waiting_shapes

BATCH: Final = 128  # new jobs
SHAPES: Final = 32  # waiting shapes
MIN_WOKEN: Final = 4  # shapes for any freed capacity: the first may be unable to use it
RETRIES_PER_S: Final = 200.0  # waiting shapes that one agent evaluates each second
DUE_PER_S: Final = 50.0  # of them, shapes that no freed capacity has woken, for all agents
REASONS_PER_S: Final = 500  # jobs that show a new reason of their shape
MIN_DELAY_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class Turn:
    """The jobs that an agent decides next.

    Attributes
    ----------
    job_ids : claimed
    shapes : the waiting shapes among them
    has_waiting : whether any shape waits
    """

    job_ids: Sequence[UUID]
    shapes: workloads.ClaimedShapes = field(default_factory=workloads.ClaimedShapes)
    has_waiting: bool = False


class WaitingQueue:
    """Takes new jobs first, and a limited number of waiting shapes each second."""

    def __init__(self, agent: str, cluster: ClusterFollower) -> None:
        self._agent, self._cluster = agent, cluster
        self._retries = RateLimit(per_s=RETRIES_PER_S, burst=SHAPES)
        self._copies = RateLimit(per_s=REASONS_PER_S, burst=REASONS_PER_S)

    def begin(self) -> Turn:
        """Claim the jobs of the next turn."""
        jobs = workloads.claim_waiting(agent=self._agent, limit=BATCH)
        if not count_waiting_shapes():
            self._cluster.freed.clear()
            return Turn(jobs)
        shapes = self._claim_shapes(time.monotonic())
        return Turn([*jobs, *shapes.job_ids], shapes, has_waiting=True)

    def end(self, turn: Turn) -> int:
        """Give jobs the reasons of their shapes, after the jobs of the turn were decided.

        Returns the number of jobs whose reason changed.
        """
        if not turn.has_waiting:
            return 0
        workloads.continue_shapes(turn.shapes, agent=self._agent)
        return workloads.join_shapes(cluster_s=cluster_now()) + self._copy_reasons()

    def _copy_reasons(self) -> int:
        limit = self._copies.available(time.monotonic())
        count = workloads.copy_reasons(limit=limit) if limit else 0
        self._copies.spend(count)
        return count

    def _claim_shapes(self, now_s: float) -> workloads.ClaimedShapes:
        limit = min(SHAPES, self._retries.available(now_s))
        if not limit:
            return workloads.ClaimedShapes()
        freed = self._cluster.freed.freed(self._cluster.follow().snapshot())
        if freed is not None:
            limit = min(limit, max(MIN_WOKEN, freed.units))
        claimed = workloads.claim_shapes(agent=self._agent, limit=limit, freed=freed)
        self._retries.spend(len(claimed.shape_ids))
        if not claimed.found:
            self._cluster.freed.clear()
        return claimed


def retry_delay_s(refused: int) -> float:
    """Return the wall seconds until shapes are due again that are refused now.

    It grows with the number of waiting shapes, so that few evaluations are in vain.

    Parameters
    ----------
    refused : number of jobs refused now, whose shapes may be new
    """
    return max(MIN_DELAY_S, (count_waiting_shapes() + refused) / DUE_PER_S)
