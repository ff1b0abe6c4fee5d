"""Previews: what weights would do to the cluster that runs, answered at once and refined in place.

A worker searches and leaves each better answer in the cache, where whoever asked looks for it; no
row is written. It stops at the limit, when nothing further pays, when told to, when its owner asks
for another preview, and when nobody has looked for a while.
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
from apps.placement.core.live import Cluster
from apps.placement.core.prediction import servers
from apps.placement.core.replacing import Outcome, improve
from apps.placement.selectors import plans as selectors
from apps.placement.selectors.objectives import weighed
from apps.placement.services.proposing import predicted, read

KEPT_S: Final = 600
SOON_S: Final = 5.0  # a preview nobody has begun by then comes too late
ALIVE_S: Final = 15  # without a sign of life, until its worker is given up
UNSEEN_S: Final = 20  # without a look, until a search stops by itself
FIRST_S: Final = 1.5  # when the first answer is given, counted from when the cluster is read
LEAST_S: Final = 0.3  # of search for it, however long reading took
LOOK_S: Final = 0.25  # between two looks whether to stop


class PreviewState(StrEnum):
    """Where a preview stands."""

    WAITING = "waiting"
    SEARCHING = "searching"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


# what is said of one that should go on and shows no sign of life
_LOST: Final = {
    PreviewState.WAITING: "No worker was free: ask again.",
    PreviewState.SEARCHING: "Its worker was lost: ask again.",
}


@dataclass(frozen=True, slots=True)
class Preview:
    """A preview as its owner sees it; ``answer`` None before the first."""

    id: UUID
    state: PreviewState
    answer: dict[str, Any] | None
    problem: str = ""


def open_preview(by: UUID) -> UUID:
    """Note down a preview that is about to be searched; the owner's last one stops."""
    preview_id = uuid4()
    if (last := cache.get(_key(by, "of"))) is not None:
        stop_preview(last, by=by)
    cache.set(_key(by, "of"), preview_id, KEPT_S)
    cache.set(_key(preview_id, "owner"), by, KEPT_S)
    cache.set(_key(preview_id, "seen"), 1, UNSEEN_S)
    cache.set(_key(preview_id, "alive"), 1, SOON_S + 1.0)
    _leave(preview_id, PreviewState.WAITING, None)
    return preview_id


def read_preview(preview_id: UUID, *, by: UUID) -> Preview:
    """Return a preview as it stands, and note that somebody looks.

    Raises
    ------
    NotFoundError : the caller has none such, or it was a while ago.
    """
    found = cache.get(_key(preview_id, "is"))
    if found is None or cache.get(_key(preview_id, "owner")) != by:
        raise NotFoundError(f"There is no preview {preview_id}; they are kept for some minutes.")
    cache.set(_key(preview_id, "seen"), 1, UNSEEN_S)
    state, answer, problem = PreviewState(found[0]), found[1], found[2]
    if state in _LOST and cache.get(_key(preview_id, "alive")) is None:
        state, problem = PreviewState.FAILED, _LOST[state]
        _leave(preview_id, state, answer, problem)
    return Preview(preview_id, state, answer, problem)


def stop_preview(preview_id: UUID, *, by: UUID) -> None:
    """Stop a search; what it found stays. One that has ended, or is gone, is left as it is."""
    if cache.get(_key(preview_id, "owner")) != by:
        return
    cache.set(_key(preview_id, "stop"), 1, KEPT_S)
    found = cache.get(_key(preview_id, "is"))
    if found is not None and found[0] in {PreviewState.WAITING, PreviewState.SEARCHING}:
        _leave(preview_id, PreviewState.STOPPED, found[1])


def fail_preview(preview_id: UUID, problem: str) -> None:
    """Say that a preview will have no answer."""
    _leave(preview_id, PreviewState.FAILED, None, problem)


def search_preview(
    preview_id: UUID, weights: Mapping[str, float], racks: Collection[str], limit_s: float
) -> None:
    """Search and leave answers, each better than the last.

    Parameters
    ----------
    racks : names; only their containers, within them. Empty = everywhere
    """
    if cache.get(_key(preview_id, "stop")) or not cache.add(_key(preview_id, "claim"), 1, KEPT_S):
        return
    cache.set(_key(preview_id, "alive"), 1, ALIVE_S)
    began = time.perf_counter()
    settings, watch = selectors.loop(), _Watch(preview_id)
    weights = weighed(weights)
    cluster = read(settings, racks=racks)
    first_s = min(max(FIRST_S - (time.perf_counter() - began), LEAST_S), limit_s)
    count = 0

    def leave(outcome: Outcome, state: PreviewState = PreviewState.SEARCHING) -> None:
        nonlocal count
        count += 1
        answer = _answer(cluster, outcome, weights, refined=count)
        _leave(preview_id, PreviewState.STOPPED if watch.is_over() else state, answer)

    search = partial(
        improve,
        cluster,
        weights,
        clock=time.perf_counter,
        migration=settings.migration,
        should_stop=watch.is_over,
    )
    first = search(limit_s=first_s, watch=leave)
    if first.is_settled or limit_s <= first_s or watch.is_over():
        leave(first, PreviewState.DONE)
        return
    leave(first)
    last = search(
        limit_s=limit_s - first_s,
        watch=lambda outcome: leave(outcome) if outcome.after < first.after else None,
    )
    leave(last if last.after <= first.after else first, PreviewState.DONE)


def _answer(
    cluster: Cluster, outcome: Outcome, weights: Mapping[str, float], *, refined: int
) -> dict[str, Any]:
    """JSON of what was found; ``refined`` counts the answers of a preview."""
    return {
        "refined": refined,
        "seconds": outcome.seconds,
        "gap": outcome.gap,
        "F_before": outcome.before,
        "F_after": outcome.after,
        **predicted(cluster, outcome, weights),
        "servers": servers(cluster, outcome.home),
    }


class _Watch:
    """Looks now and then whether a search is still wanted."""

    def __init__(self, preview_id: UUID) -> None:
        self._alive = _key(preview_id, "alive")
        self._keys = (_key(preview_id, "stop"), _key(preview_id, "seen"))
        self._next, self._over = 0.0, False

    def is_over(self) -> bool:
        """Whether nobody wants it any more; asks the cache at most every `LOOK_S`."""
        now = time.monotonic()
        if not self._over and now >= self._next:
            self._next = now + LOOK_S
            cache.set(self._alive, 1, ALIVE_S)
            stop, seen = self._keys
            found = cache.get_many(self._keys)
            self._over = stop in found or seen not in found
        return self._over


def _leave(
    preview_id: UUID, state: PreviewState, answer: dict[str, Any] | None, problem: str = ""
) -> None:
    cache.set(_key(preview_id, "is"), (state.value, answer, problem), KEPT_S)


def _key(of: UUID, what: str) -> str:
    return f"placement.preview.{of.hex}.{what}"
