"""The jobs that one agent decides next."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import numpy as np

from apps.inventory.selectors import cluster_now
from apps.scheduling.core.rate_limit import RateLimit
from apps.scheduling.core.step_size import StepSize
from apps.scheduling.selectors import ClusterFollower
from apps.scheduling.selectors.fair_share import dominant_shares
from apps.scheduling.services.reservations import jobs_with_reservations
from apps.workloads import services as workloads
from apps.workloads.selectors import Pending, count_waiting_shapes, pending

BATCH: Final = 128  # new jobs in the first turn of an agent
MIN_BATCH: Final = 16
MAX_BATCH: Final = 512
JOINED: Final = 500  # jobs that join their shapes in one turn, at most
MIN_JOINED: Final = 25
# A job that is submitted meanwhile waits for the end of the turn. On a slow machine the targets
# are as long as the statements before, so that these cost at most half of the time.
DECIDING_S: Final = 0.1
JOINING_S: Final = 0.05
SHAPES: Final = 32  # waiting shapes
INCOMPLETE: Final = 16  # running jobs that lack units
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
    begun_s, claimed_s : before and after the claims, monotonic
    has_waiting : whether any shape waits
    """

    job_ids: Sequence[UUID]
    begun_s: float
    claimed_s: float
    shapes: workloads.ClaimedShapes = field(default_factory=workloads.ClaimedShapes)
    has_waiting: bool = False


class WaitingQueue:
    """Takes new jobs first, and a limited number of waiting shapes each second.

    The number of jobs of a turn adapts to the time that a job takes.

    Parameters
    ----------
    path_limit : max jobs of a turn
    """

    def __init__(
        self,
        agent: str,
        cluster: ClusterFollower,
        rng: np.random.Generator,
        *,
        path_limit: int = MAX_BATCH,
    ) -> None:
        self._agent, self._cluster, self._rng = agent, cluster, rng
        self._path_limit = path_limit
        self._batch = StepSize(
            smallest=min(MIN_BATCH, path_limit),
            largest=path_limit,
            first=min(BATCH, path_limit),
        )
        self._joined = StepSize(smallest=MIN_JOINED, largest=JOINED)
        self._copied = StepSize(smallest=MIN_JOINED, largest=JOINED)
        self._retries = RateLimit(per_s=RETRIES_PER_S, burst=SHAPES)
        self._copies = RateLimit(per_s=REASONS_PER_S, burst=REASONS_PER_S)
        self._growth = workloads.GrowthRound()
        self._reasons = workloads.CopyRound()
        self._is_their_turn = False  # of incomplete jobs, with a single path
        self._turns = 0
        self.is_full = False  # whether the last turn took as many new jobs as it may

    def begin(self) -> Turn:
        """Claim the jobs of the next turn."""
        begun_s, waiting = time.monotonic(), pending()
        self.is_full = False
        if not waiting.shapes:
            self._cluster.freed.clear()
        if not any(waiting):  # most turns after a release
            return Turn([], begun_s, time.monotonic())
        shares = dominant_shares()
        self._turns += 1
        jobs = list(self._claim_incomplete(waiting))
        kept = self._paths_of_shapes() if waiting.shapes else 0
        limit = min(self._batch.current, self._path_limit - len(jobs) - kept)
        if waiting.has_new and limit > 0:
            new = workloads.claim_waiting(
                agent=self._agent,
                limit=limit,
                start=UUID(bytes=self._rng.bytes(16)),
                shares=shares,
            )
            self.is_full = len(new) == limit
            jobs += new
        if not waiting.shapes:
            return Turn(jobs, begun_s, time.monotonic())
        shapes = self._claim_shapes(time.monotonic(), shares, self._path_limit - len(jobs))
        return Turn([*jobs, *shapes.job_ids], begun_s, time.monotonic(), shapes, has_waiting=True)

    def _claim_incomplete(self, waiting: Pending) -> Sequence[UUID]:
        """Claim running jobs that lack units, if any unit is free; at most half of the paths.

        With a single path, they and the others take turns.
        """
        self._is_their_turn = not self._is_their_turn
        limit = self._path_limit // 2 or int(self._is_their_turn)
        if not limit or not waiting.has_incomplete or not self._has_free_units():
            return ()
        return workloads.claim_incomplete(
            agent=self._agent, limit=min(INCOMPLETE, limit), position=self._growth
        )

    def _paths_of_shapes(self) -> int:
        """Return the paths that new jobs leave to waiting shapes: a quarter.

        With fewer than four paths, it is one path in every fourth turn.
        """
        return min(SHAPES, self._path_limit // 4) or int(self._turns % 4 == 2)

    def _has_free_units(self) -> bool:
        return self._cluster.follow().snapshot().free_units > 0

    def end(self, turn: Turn) -> int:
        """Give jobs the reasons of their shapes, after the jobs of the turn were decided.

        Returns the number of jobs whose reason changed.
        """
        decided_s = time.monotonic()
        self._batch.record(
            len(turn.job_ids),
            decided_s - turn.claimed_s,
            target_s=max(DECIDING_S, turn.claimed_s - turn.begun_s),
        )
        if not turn.has_waiting:
            return 0
        workloads.continue_shapes(turn.shapes, agent=self._agent)
        target_s = max(JOINING_S, decided_s - turn.begun_s)
        return self._join_shapes(target_s) + self._copy_reasons(target_s)

    def _join_shapes(self, target_s: float) -> int:
        begun_s = time.monotonic()
        count = workloads.join_shapes(cluster_s=cluster_now(), limit=self._joined.current)
        self._joined.record(count, time.monotonic() - begun_s, target_s=target_s)
        return count

    def _copy_reasons(self, target_s: float) -> int:
        begun_s = time.monotonic()
        limit = min(self._copied.current, self._copies.available(begun_s))
        count = workloads.copy_reasons(limit=limit, position=self._reasons) if limit else 0
        self._copies.spend(count)
        self._copied.record(count, time.monotonic() - begun_s, target_s=target_s)
        return count

    def _claim_shapes(
        self, now_s: float, shares: Mapping[UUID, float], paths: int
    ) -> workloads.ClaimedShapes:
        limit = min(SHAPES, paths, self._retries.available(now_s))
        if limit <= 0:
            return workloads.ClaimedShapes()
        freed = self._cluster.freed.freed(self._cluster.follow().snapshot())
        if freed is not None:
            limit = min(limit, max(MIN_WOKEN, freed.units))
        claimed = workloads.claim_shapes(
            agent=self._agent,
            limit=limit,
            paths=paths,
            freed=freed,
            shares=shares,
            # nobody else can use their units, so older jobs of their shapes must not keep them out
            always=jobs_with_reservations(),
        )
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
