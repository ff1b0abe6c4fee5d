"""Previews: the predicted effect of weights on the running cluster, refined while it is watched.

A worker searches and stores each better answer in the cache, where its owner polls it; no row is
written. The search stops at its limit, when no further migration pays, on request, when its owner
starts another preview, and when it was not polled for `IDLE_TIMEOUT_S`.
"""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final
from uuid import UUID, uuid4

from django.core.cache import cache

from apps.common.core.errors import NotFoundError
from apps.placement.core.rebalancing.cluster import RunningCluster
from apps.placement.core.rebalancing.planner import RebalancingResult, improve
from apps.placement.core.rebalancing.prediction import server_columns
from apps.placement.core.rebalancing.reach import MAX_PREFIXES, reach_json
from apps.placement.selectors import plans as selectors
from apps.placement.selectors.objectives import effective_weights
from apps.placement.services.rebalancing.planner import (
    downtimes,
    prediction_json,
    read_planning_cluster,
)

RETENTION_S: Final = 600
START_TIMEOUT_S: Final = 30.0  # a preview that no worker has started by then has failed
HEARTBEAT_TIMEOUT_S: Final = 15  # since the last heartbeat, until its worker counts as lost
IDLE_TIMEOUT_S: Final = 20  # since the last poll, until the search stops
FIRST_ANSWER_S: Final = 1.5  # time of the first answer, including reading the cluster
MIN_SEARCH_S: Final = 0.3  # of search before the first answer
INTERMEDIATE_PREFIXES: Final = 11  # points of the curve of an intermediate result
STOP_POLL_S: Final = 0.25  # between two checks whether to stop


class PreviewState(StrEnum):
    """State of a preview."""

    WAITING = "waiting"
    SEARCHING = "searching"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


# problem of an open preview without a heartbeat
_LOST_MESSAGES: Final = {
    PreviewState.WAITING: "No worker was free. Try again.",
    PreviewState.SEARCHING: "The worker stopped responding. Try again.",
}


@dataclass(frozen=True, slots=True)
class RebalancingPreview:
    """A preview as shown to its owner; ``answer`` is None before the first."""

    id: UUID
    state: PreviewState
    answer: dict[str, Any] | None
    problem: str = ""


def open_preview(by: UUID) -> UUID:
    """Register a preview that is about to be searched; stops the owner's previous one."""
    preview_id = uuid4()
    if (previous := cache.get(_key(by, "of"))) is not None:
        stop_preview(previous, by=by)
    cache.set(_key(by, "of"), preview_id, RETENTION_S)
    cache.set(_key(preview_id, "owner"), by, RETENTION_S)
    cache.set(_key(preview_id, "seen"), 1, IDLE_TIMEOUT_S)
    cache.set(_key(preview_id, "alive"), 1, START_TIMEOUT_S + 1.0)
    _store(preview_id, PreviewState.WAITING, None)
    return preview_id


def read_preview(preview_id: UUID, *, by: UUID) -> RebalancingPreview:
    """Return the current state of a preview; counts as a poll.

    Raises
    ------
    NotFoundError : it expired, or belongs to another user.
    """
    stored = cache.get(_key(preview_id, "is"))
    if stored is None or cache.get(_key(preview_id, "owner")) != by:
        raise NotFoundError(
            f"There is no preview {preview_id}; previews expire after {RETENTION_S // 60} minutes."
        )
    cache.set(_key(preview_id, "seen"), 1, IDLE_TIMEOUT_S)
    state, answer, problem = PreviewState(stored[0]), stored[1], stored[2]
    if state in _LOST_MESSAGES and cache.get(_key(preview_id, "alive")) is None:
        state, problem = PreviewState.FAILED, _LOST_MESSAGES[state]
        _store(preview_id, state, answer, problem)
    return RebalancingPreview(preview_id, state, answer, problem)


def stop_preview(preview_id: UUID, *, by: UUID) -> None:
    """Stop a search and keep its answer; does nothing if it has ended or expired."""
    if cache.get(_key(preview_id, "owner")) != by:
        return
    cache.set(_key(preview_id, "stop"), 1, RETENTION_S)
    stored = cache.get(_key(preview_id, "is"))
    if stored is not None and stored[0] in {PreviewState.WAITING, PreviewState.SEARCHING}:
        _store(preview_id, PreviewState.STOPPED, stored[1])


def fail_preview(preview_id: UUID, problem: str) -> None:
    """Mark a preview as failed."""
    _store(preview_id, PreviewState.FAILED, None, problem)


def search_preview(
    preview_id: UUID, weights: Mapping[str, float], racks: Collection[str], limit_s: float
) -> None:
    """Search and store answers, each better than the one before.

    Parameters
    ----------
    racks : names of the racks that containers move within; empty = all
    """
    is_stopped = cache.get(_key(preview_id, "stop"))
    if is_stopped or not cache.add(_key(preview_id, "claim"), 1, RETENTION_S):
        return
    cache.set(_key(preview_id, "alive"), 1, HEARTBEAT_TIMEOUT_S)
    began = time.perf_counter()
    settings, stop = selectors.loop_settings(), _StopSignal(preview_id)
    weights = effective_weights(weights)
    cluster = read_planning_cluster(settings, racks=racks)
    first_s = min(max(FIRST_ANSWER_S - (time.perf_counter() - began), MIN_SEARCH_S), limit_s)
    count = 0

    def store(outcome: RebalancingResult, state: PreviewState = PreviewState.SEARCHING) -> None:
        nonlocal count
        count += 1
        is_final = state is not PreviewState.SEARCHING
        answer = _answer_json(cluster, outcome, weights, refined=count, is_final=is_final)
        _store(preview_id, PreviewState.STOPPED if stop.is_set() else state, answer)

    search = partial(
        improve,
        cluster,
        weights,
        clock=time.perf_counter,
        migration_cost=settings.migration,
        should_stop=stop.is_set,
    )
    first = search(limit_s=first_s, on_progress=store)
    if first.is_complete or limit_s <= first_s or stop.is_set():
        store(first, PreviewState.DONE)
        return
    store(first)
    last = search(
        limit_s=limit_s - first_s,
        on_progress=lambda outcome: store(outcome) if outcome.after < first.after else None,
    )
    store(last if last.after <= first.after else first, PreviewState.DONE)


def _answer_json(
    cluster: RunningCluster,
    outcome: RebalancingResult,
    weights: Mapping[str, float],
    *,
    refined: int,
    is_final: bool,
) -> dict[str, Any]:
    """Return a search result as JSON; ``refined`` counts the answers of a preview.

    The curve of an intermediate result has fewer points, because the search waits for it.
    """
    points = MAX_PREFIXES if is_final else INTERMEDIATE_PREFIXES
    seconds = downtimes(cluster, outcome)
    return {
        "refined": refined,
        "seconds": outcome.seconds,
        "gap": outcome.gap,
        "F_before": outcome.before,
        "F_after": outcome.after,
        **prediction_json(cluster, outcome, weights),
        "servers": server_columns(cluster, outcome.assignment),
        "reach": reach_json(cluster, outcome, weights, seconds, limit=points),
    }


class _StopSignal:
    """Tells a search when to stop, and sends its heartbeat."""

    def __init__(self, preview_id: UUID) -> None:
        self._alive = _key(preview_id, "alive")
        self._keys = (_key(preview_id, "stop"), _key(preview_id, "seen"))
        self._next, self._is_set = 0.0, False

    def is_set(self) -> bool:
        """Whether the preview was stopped or is idle; reads the cache every `STOP_POLL_S`."""
        now = time.monotonic()
        if not self._is_set and now >= self._next:
            self._next = now + STOP_POLL_S
            cache.set(self._alive, 1, HEARTBEAT_TIMEOUT_S)
            stop, seen = self._keys
            stored = cache.get_many(self._keys)
            self._is_set = stop in stored or seen not in stored
        return self._is_set


def _store(
    preview_id: UUID, state: PreviewState, answer: dict[str, Any] | None, problem: str = ""
) -> None:
    cache.set(_key(preview_id, "is"), (state.value, answer, problem), RETENTION_S)


def _key(owner: UUID, name: str) -> str:
    return f"placement.preview.{owner.hex}.{name}"
