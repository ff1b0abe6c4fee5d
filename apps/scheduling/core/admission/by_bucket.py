"""Admission control by buckets: a job waits until enough units of its buckets are free.

B buckets, S servers, P platforms. A cell is a bucket of one platform.

Source: Tarcil §4 (T6, T7).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Bools, Floats, Ints, Snapshot
from apps.scheduling.core import loss
from apps.scheduling.core.admission.buckets import BUCKETS, bucket_name, bucket_of
from apps.scheduling.core.admission.free_units import FreeUnits
from apps.scheduling.core.admission.history import FreedUnits, rate, time_until_free, times_in
from apps.scheduling.core.admission.types import (
    ADMITTED,
    FORGET_S,
    MAX_WAIT_S,
    STEP_S,
    WINDOW_S,
    Admitted,
    Applicant,
    Control,
    Delayed,
    QueueState,
)
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.tarcil import encoding
from apps.scheduling.core.types import RefusalReason, Request

NEARLY_CERTAIN: Final = 0.9  # the probability that the estimate of a wait reaches
SIGMAS: Final = 2.0


class Hashing(NamedTuple):
    """How units are hashed into buckets.

    buckets : B
    of : (n,) buckets of (n, N) contention vectors
    name : of a bucket
    is_blind : whether every bucket suits every job
    """

    buckets: int
    of: Callable[[Floats], Ints]
    name: Callable[[int], str]
    is_blind: bool


BY_CONTENTION: Final = Hashing(BUCKETS, bucket_of, bucket_name, is_blind=False)
ONE_BUCKET: Final = Hashing(
    1,
    lambda contention: np.zeros(contention.shape[0], dtype=np.int64),
    lambda _: "all units",
    is_blind=True,
)


@dataclass(frozen=True, slots=True)
class _Waiting:
    units: int
    suits: Bools
    seen_s: float


class _View(NamedTuple):
    """The free units, and (S,) the bucket of each server."""

    free: FreeUnits
    bucket: Ints


class BucketAdmission:
    """A job waits if the buckets that suit it have fewer free units than it needs.

    It does not wait if the estimated wait reaches the bound, the mean plus two standard deviations
    of the time until its units are freed; nor longer than the bound, nor than ``max_wait_s``.
    """

    def __init__(
        self,
        control: Control,
        hashing: Hashing,
        *,
        max_wait_s: float = MAX_WAIT_S,
        window_s: float = WINDOW_S,
    ) -> None:
        self._control, self._hashing, self._max_wait_s = control, hashing, max_wait_s
        self._freed = FreedUnits(window_s)
        self._mean: Floats = np.full((hashing.buckets, N_SOURCES), np.nan)
        self._platforms: tuple[str, ...] = ()
        self._waiting: dict[str, _Waiting] = {}

    @property
    def control(self) -> Control:
        """The name of the admission control."""
        return self._control

    def note_freed(self, snapshot: Snapshot, units: Ints, now_s: float) -> None:
        """Note units (indices) after they were freed; others may hold some of them already."""
        topology = snapshot.topology
        servers = topology.unit_server[units]
        self._follow(topology.platform_name)
        contention = encoding.pressure(
            snapshot.server_caused[servers], topology.server_units[servers]
        )
        cells = self._hashing.of(contention) * len(topology.platform_name)
        self._freed.note(cells + topology.server_platform[servers], now_s)

    def evaluate(
        self,
        applicants: Sequence[Applicant],
        snapshot: Snapshot,
        facts: TopologyFacts,
        now_s: float,
    ) -> list[Admitted | Delayed]:
        """Return one verdict per applicant, in order. O(S·N + n·S)."""
        self._follow(snapshot.topology.platform_name)
        self._freed.begin(now_s)
        view = self._seen(snapshot, facts)
        self._forget(now_s)
        verdicts: list[Admitted | Delayed] = []
        taken = np.zeros(self._hashing.buckets, dtype=np.int64)
        for each in applicants:
            suits = self._suits(each.request)
            free = _free_units(each, view, self._hashing.buckets)
            free = np.maximum(free - taken, 0)
            cells = self._cells(suits, facts.allowed(each.request.platforms))
            verdict: Admitted | Delayed = ADMITTED
            if _lacks_units(each.request, int(free[suits].sum()), int(free.sum())):
                times = times_in(self._freed.table(now_s), cells)
                verdict = self._verdict(each, suits, free, times, now_s)
            if isinstance(verdict, Delayed):
                self._waiting[each.request.job] = _Waiting(each.request.units, suits, now_s)
            else:
                self._waiting.pop(each.request.job, None)
                taken += _taken(free, suits, each.request.units)
            verdicts.append(verdict)
        return verdicts

    @property
    def waiting(self) -> Collection[str]:
        """Ids of the jobs that wait, in the order in which they began to."""
        return self._waiting

    def forget(self, jobs: Collection[str]) -> None:
        """Forget waiting jobs that ended, are held, or were started by another agent."""
        for job in jobs:
            self._waiting.pop(job, None)

    def memory(self) -> dict[str, Any]:
        """Return the history and the waiting jobs, as values of JSON with NaN."""
        return {
            "platforms": self._platforms,
            "freed": self._freed.entries(),
            "begun_s": self._freed.begun_s,
            "mean": self._mean.tolist(),
            "waiting": {
                job: (each.units, np.flatnonzero(each.suits).tolist(), each.seen_s)
                for job, each in self._waiting.items()
            },
        }

    def recall(self, memory: Mapping[str, Any], snapshot: Snapshot) -> None:
        """Continue from what `memory` returned; without the history if the platforms changed."""
        self._platforms = tuple(memory["platforms"])
        self._freed.recall(memory["freed"], memory["begun_s"])
        self._mean = np.array(memory["mean"], dtype=np.float64)
        every = np.arange(self._hashing.buckets)
        self._waiting = {
            job: _Waiting(units, np.isin(every, suits), seen_s)
            for job, (units, suits, seen_s) in memory["waiting"].items()
        }
        self._follow(snapshot.topology.platform_name)

    def state(self, snapshot: Snapshot, facts: TopologyFacts, now_s: float) -> list[QueueState]:
        """Return the buckets as they are now."""
        self._follow(snapshot.topology.platform_name)
        self._freed.begin(now_s)
        self._forget(now_s)
        view, table = self._seen(snapshot, facts), self._freed.table(now_s)
        span_s = self._freed.span_s(now_s)
        return [self._bucket_state(i, view, table, span_s) for i in range(self._hashing.buckets)]

    def _verdict(
        self, each: Applicant, suits: Bools, free: Ints, times: Floats, now_s: float
    ) -> Admitted | Delayed:
        need, request = each.request.units, each.request
        good, total = int(free[suits].sum()), int(free.sum())
        waits = time_until_free(times, need)
        if not waits.size:
            return ADMITTED
        bound = min(self._max_wait_s, _bound_s(waits))
        ahead = self._ahead(request.job, suits)
        missing = time_until_free(times, need - good + ahead)
        if not missing.size or each.waited_s >= bound:
            return ADMITTED
        expected_s = float(np.quantile(missing, NEARLY_CERTAIN))
        if expected_s >= bound:
            return ADMITTED
        is_quality = total >= need
        reason = RefusalReason.QUALITY_SHORT if is_quality else RefusalReason.WAITING_FOR_BUCKET
        kind = "suitable free units" if is_quality else "free units"
        detail = (
            f"{good} of {need} {kind}; the others are expected within {expected_s:.0f} s,"
            f" and it waits at most {bound:.0f} s"
        )
        return Delayed(reason, detail, now_s + max(STEP_S, bound - each.waited_s))

    def _ahead(self, job: str, suits: Bools) -> int:
        """Return the units that jobs wait for, of the same buckets, since before this one."""
        units = 0
        for name, waiting in self._waiting.items():
            if name == job:
                break
            units += waiting.units if (waiting.suits & suits).any() else 0
        return units

    def _suits(self, request: Request) -> Bools:
        """(B,) True for the buckets in which the job is predicted to keep 95 % of its speed.

        At the mean contention of the servers that were last in the bucket; False if there were
        none.
        """
        if self._hashing.is_blind:
            return np.ones(self._hashing.buckets, dtype=np.bool_)
        kept = loss.log_performance(self._mean, np.asarray(request.tolerated)).sum(axis=1)
        suits: Bools = kept >= loss.LOG_KEPT
        return suits

    def _cells(self, suits: Bools, allowed: Bools) -> Bools:
        """(B·P,) True for the cells of some buckets and platforms."""
        return np.logical_and(suits[:, None], allowed[None, :]).ravel()

    def _seen(self, snapshot: Snapshot, facts: TopologyFacts) -> _View:
        contention = encoding.pressure(snapshot.server_caused, snapshot.topology.server_units)
        bucket = self._hashing.of(contention)
        servers = np.bincount(bucket, minlength=self._hashing.buckets)
        sums = np.zeros_like(self._mean)
        np.add.at(sums, bucket, contention)
        seen = servers > 0
        self._mean[seen] = sums[seen] / servers[seen, None]
        return _View(FreeUnits(snapshot, facts), bucket)

    def _bucket_state(
        self, bucket: int, view: _View, table: tuple[Floats, Ints], span_s: float | None
    ) -> QueueState:
        inside = (view.bucket == bucket) & view.free.state.server_open
        of = np.zeros(self._hashing.buckets, dtype=np.bool_)
        of[bucket] = True
        times = times_in(table, self._cells(of, np.ones(len(self._platforms), dtype=np.bool_)))
        waits = time_until_free(times, 1)
        is_known = waits.size > 0
        return QueueState(
            name=self._hashing.name(bucket),
            servers=int(inside.sum()),
            free_units=int(view.free.state.free_count[inside].sum()),
            freed_per_s=rate(times.size, span_s),
            mean_s=float(waits.mean()) if is_known else None,
            std_s=float(waits.std()) if is_known else None,
            bound_s=min(self._max_wait_s, _bound_s(waits)) if is_known else None,
            waiting=sum(1 for each in self._waiting.values() if each.suits[bucket]),
        )

    def _follow(self, platforms: tuple[str, ...]) -> None:
        """Forget the history if the platforms changed: cells are counted by platform."""
        if platforms != self._platforms:
            self._platforms = platforms
            self._freed.clear()

    def _forget(self, now_s: float) -> None:
        old = [job for job, each in self._waiting.items() if each.seen_s < now_s - FORGET_S]
        for job in old:
            del self._waiting[job]


def _lacks_units(request: Request, good: int, total: int) -> bool:
    """Whether a job lacks suitable units, while the policy could place it on others.

    If units are missing whatever their quality, the policy refuses it, for a more precise reason.
    """
    is_enough = total >= request.units or not request.is_whole
    return good < request.units and total > 0 and is_enough


def _bound_s(waits: Floats) -> float:
    """Return the longest wait: mean plus two standard deviations. Source: Tarcil §4 (T7)."""
    return float(waits.mean() + SIGMAS * waits.std())


def _free_units(each: Applicant, view: _View, count: int) -> Ints:
    """(B,) free units that a job may use, by bucket."""
    free = np.bincount(view.bucket, weights=view.free.of(each), minlength=count)
    return free.astype(np.int64)


def _taken(free: Ints, suits: Bools, units: int) -> Ints:
    """(B,) units that an admitted job takes: of the suitable buckets first, the fullest first."""
    taken = np.zeros_like(free)
    for bucket in np.lexsort((-free, ~suits)):
        taken[bucket] = min(units, int(free[bucket]))
        units -= int(taken[bucket])
    return taken
