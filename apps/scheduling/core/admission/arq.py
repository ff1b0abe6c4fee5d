"""Admission control with resource quality awareness: a queue and a pool of servers per class.

S servers, U units, C = 10 classes, higher ones more demanding. A job waits for units of the pool
of its class, and is diverted to the class above or below by Eq. 2.

Source: Paragon §4 (P10-P12).
"""

import math
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints, Snapshot, Topology
from apps.scheduling.core.admission.arrivals import Arrivals
from apps.scheduling.core.admission.busy_time import BusyTime, chance_free, fit
from apps.scheduling.core.admission.free_units import FreeUnits
from apps.scheduling.core.admission.history import MIN_SPAN_S, observed_s, rate
from apps.scheduling.core.admission.pools import (
    CLASSES,
    class_of,
    in_pool,
    pool_of_servers,
    quality_of_class,
)
from apps.scheduling.core.admission.stability import load_factors, total_rates
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
from apps.scheduling.core.admission.waiting import Needs, WaitingJob
from apps.scheduling.core.batch_state import TopologyFacts, count_free_units
from apps.scheduling.core.types import RefusalReason, Within

LOSS: Final = 0.05  # of the run time, which waiting and interference together may cost
TIMES: Final = np.arange(1, 41) / 40.0  # shares of the slack at which a switch is considered
SAMPLES: Final = 512  # busy times of each pool that are kept
MAX_JOINED: Final = 2048  # admitted jobs that are remembered, the newest


class _Joined(NamedTuple):
    """The class that an admitted job joined, which counts it; ``seen_s`` = evaluated last."""

    number: int
    seen_s: float


class _View(NamedTuple):
    """The free units; (S,) pool of each server, and the free units that the batch has taken.

    ``queues`` : by class, the waiting jobs that are not in the batch, in order
    """

    free: FreeUnits
    pools: Ints
    taken: Ints
    queues: Sequence[Sequence[WaitingJob]]

    def left(self, each: Applicant, number: int, free: int) -> int:
        """Return the free units of a class that a job may take: not those of the jobs before it.

        Each of these takes what it needs, if that is free, as if it were in the batch. Those with
        needs that other units may not meet, such as a platform, are left out.
        """
        needs = Needs.of(each)
        for other in self.queues[number]:
            if free < each.request.units or other.order >= (-each.priority, each.run_s):
                break
            if other.units <= free and other.needs and other.needs.are_met_by(needs):
                free -= other.units
        return free


class _Option(NamedTuple):
    """Waiting for a queue: the value of Eq. 2, and after how long it is largest."""

    value: float
    after_s: float


class ArqAdmission:
    """ARQ: ten queues, and pools in proportion to the demand of their classes."""

    control = Control.ARQ

    def __init__(self, *, max_wait_s: float = MAX_WAIT_S, window_s: float = WINDOW_S) -> None:
        self._max_wait_s, self._window_s = max_wait_s, window_s
        self._topology: Topology | None = None
        self._since_s: Floats = np.zeros(0)  # (U,) when each busy unit was taken; NaN = free
        self._pool: Ints = np.zeros(0, dtype=np.int64)  # (U,) pool in which it was taken
        self._busy: list[deque[tuple[float, float]]] = []  # end and length, by pool
        self._begun_s = math.inf  # when the busy times began
        self._waiting: dict[str, WaitingJob] = {}
        self._joined: dict[str, _Joined] = {}  # a policy may refuse them: they come again
        self._counts = Arrivals()

    def note_freed(self, snapshot: Snapshot, units: Ints, now_s: float) -> None:
        """Note units (indices) after they were freed; others may hold some of them already."""
        if snapshot.topology is self._topology:
            for unit in units.tolist():
                since_s = self._since_s[unit]
                if not np.isnan(since_s):
                    self._busy[self._pool[unit]].append((now_s, now_s - since_s))
                self._since_s[unit] = np.nan if snapshot.unit_free[unit] else now_s
        self._follow(snapshot, now_s)

    def evaluate(
        self,
        applicants: Sequence[Applicant],
        snapshot: Snapshot,
        facts: TopologyFacts,
        now_s: float,
    ) -> list[Admitted | Delayed]:
        """Return one verdict per applicant, in order.

        Free units are given to jobs of higher priority first, then to those without slack, then to
        the shortest (P12). O(S·N + S log S + n·S).
        """
        self._follow(snapshot, now_s)
        self._forget(now_s)
        pools = pool_of_servers(snapshot, self._demand())
        queues = self._queues(without={each.request.job for each in applicants})
        view = _View(FreeUnits(snapshot, facts), pools, np.zeros_like(pools), queues)
        order = sorted(range(len(applicants)), key=lambda i: _urgency(applicants[i]))
        found = {i: self._decide(applicants[i], view, now_s) for i in order}
        self._mark(snapshot, pools)
        return [found[i] for i in range(len(applicants))]

    @property
    def waiting(self) -> Collection[str]:
        """Ids of the jobs that wait, and of those that were admitted, which may come again."""
        return [*self._waiting, *self._joined]

    def forget(self, jobs: Collection[str]) -> None:
        """Forget jobs that started, ended or are held."""
        for job in jobs:
            self._waiting.pop(job, None)
            self._joined.pop(job, None)

    def memory(self) -> dict[str, Any]:
        """Return the history and the waiting jobs, as values of JSON with NaN."""
        waiting = {
            job: (each.number, each.units, each.run_s, each.seen_s)
            for job, each in self._waiting.items()
        }
        return {
            "units": _units_of(self._topology),
            "since_s": self._since_s.tolist(),
            "pool": self._pool.tolist(),
            "busy": [list(samples) for samples in self._busy],
            "waiting": waiting,
            "needs": {job: w.needs.as_json() for job, w in self._waiting.items() if w.needs},
            "joined": self._joined,
            "begun_s": self._begun_s,
            "counted_from_s": self._counts.begun_s,
            "arrived": self._counts.arrivals(),
            "diverted": self._counts.diversions(),
        }

    def recall(self, memory: Mapping[str, Any], snapshot: Snapshot) -> None:
        """Continue from what `memory` returned; without busy times if the servers changed."""
        self._waiting = {job: WaitingJob(*each) for job, each in memory["waiting"].items()}
        for job, row in memory.get("needs", {}).items():  # older releases stored none
            self._waiting[job].needs = Needs.read(row)
        self._joined = {job: _Joined(*each) for job, each in memory["joined"].items()}
        self._counts.begun_s = memory["counted_from_s"]
        for at_s, number, units in memory["arrived"]:  # older releases stored each job
            self._counts.arrive(at_s, number, units)
        for at_s, number, to, units in memory["diverted"]:
            self._counts.divert(at_s, number, to, units)
        if memory["units"] != _units_of(snapshot.topology):
            return
        self._topology, self._begun_s = snapshot.topology, memory["begun_s"]
        self._since_s = np.array(memory["since_s"], dtype=np.float64)
        self._pool = np.array(memory["pool"], dtype=np.int64)
        self._busy = [
            deque(((end_s, length) for end_s, length in samples), maxlen=SAMPLES)
            for samples in memory["busy"]
        ]

    def state(self, snapshot: Snapshot, facts: TopologyFacts, now_s: float) -> list[QueueState]:
        """Return the classes as they are now, the most demanding first, with load factors."""
        self._follow(snapshot, now_s)
        self._forget(now_s)
        pools = pool_of_servers(snapshot, self._demand())
        free = count_free_units(facts, snapshot.unit_free)
        arrived, routing = self._arrivals()
        counted_s = self._counts.observed_s(now_s, self._window_s)
        units = np.bincount(pools[pools >= 0], snapshot.topology.server_units[pools >= 0], CLASSES)
        busy = [np.array([each for _, each in samples]) for samples in self._busy]
        mean = np.array([each.mean() if each.size else np.nan for each in busy])
        served = units / np.where(mean > 0.0, mean, np.nan)  # jobs may take no time
        factors = load_factors(total_rates(arrived, routing), served)
        loads = [rate(float(factor), counted_s) for factor in factors]
        return [
            QueueState(
                name=f"class {i}",
                servers=int(in_pool(pools, i).sum()),
                free_units=int(free[in_pool(pools, i)].sum()),
                freed_per_s=rate(busy[i].size, self._span_s(self._busy[i], now_s)),
                mean_s=float(mean[i]) if busy[i].size else None,
                std_s=float(busy[i].std()) if busy[i].size else None,
                bound_s=None,
                waiting=sum(1 for each in self._waiting.values() if each.number == i),
                arrived_per_s=rate(float(arrived[i]), counted_s),
                diverted_share=float(routing[i].sum()),
                load_factor=loads[i] if np.isfinite(factors[i]) and busy[i].size else None,
            )
            for i in reversed(range(CLASSES))
        ]

    def _decide(self, each: Applicant, view: _View, now_s: float) -> Admitted | Delayed:
        request = each.request
        known = self._waiting.get(request.job)
        number = class_of(request.caused) if known is None else known.number
        joined = self._joined.pop(request.job, None)
        if known is None and joined is None:
            self._counts.arrive(now_s, number, request.units)
        left = _left(each, view)
        free = np.bincount(np.maximum(view.pools, 0), left, CLASSES).astype(np.int64)
        to, verdict = self._verdict(each, number, free, view, now_s)
        if to != number and (joined is None or joined.number != to):
            self._counts.divert(now_s, number, to, request.units)
        if isinstance(verdict, Delayed):
            needs = Needs.of(each)
            self._waiting[request.job] = WaitingJob(to, request.units, each.run_s, now_s, needs)
            return verdict
        self._waiting.pop(request.job, None)
        self._joined[request.job] = _Joined(to, now_s)
        has_slack = _slack_s(each, self._max_wait_s) > 0.0
        if free[to] < request.units or not has_slack:  # the best free units of any pool
            _take(left, view, np.ones(left.size, dtype=np.bool_), request.units)
            return ADMITTED
        servers = in_pool(view.pools, to)
        _take(left, view, servers, request.units)
        return Admitted(servers)

    def _verdict(
        self, each: Applicant, number: int, free: Ints, view: _View, now_s: float
    ) -> tuple[int, Admitted | Delayed]:
        """Return the class that a job joins, and whether it waits there."""
        need, request, total = each.request.units, each.request, int(free.sum())
        if view.left(each, number, int(free[number])) >= need:
            return number, ADMITTED
        slack_s = _slack_s(each, self._max_wait_s)
        if not total or (request.is_whole and total < need) or not slack_s > 0.0:
            return number, ADMITTED
        above, below = number + 1, number - 1
        if above < CLASSES and free[above] >= need and not self._queued(above):
            return above, ADMITTED
        stay = self._option(each, number, int(free[number]), view, now_s)
        switch = _Option(0.0, 0.0)
        if below >= 0:
            switch = self._option(each, below, int(free[below]), view, now_s)
        if max(stay.value, switch.value) <= 0.0:
            return number, ADMITTED  # no unit is known to become free in time
        chosen, option = (below, switch) if switch.value > stay.value else (number, stay)
        left = view.left(each, chosen, int(free[chosen]))
        if left >= need:
            return chosen, ADMITTED
        reason = RefusalReason.QUALITY_SHORT
        if total < need:
            reason = RefusalReason.WAITING_FOR_BUCKET
        others = " beside those of the jobs before it" if left < free[chosen] else ""
        detail = (
            f"{left} of {need} free units in the pool of class {chosen}{others};"
            f" it waits at most {slack_s:.0f} s"
        )
        return chosen, Delayed(reason, detail, now_s + max(STEP_S, option.after_s))

    def _option(
        self, each: Applicant, number: int, free: int, view: _View, now_s: float
    ) -> _Option:
        """Return the largest (S - wait) · Q · Pr[free] within the slack. Source: Paragon Eq. 2."""
        quality = quality_of_class(number)
        left_s = (1.0 + LOSS) * each.run_s - each.profiling_s - each.waited_s  # S less the wait
        if view.left(each, number, free) >= each.request.units:
            return _Option(left_s * quality, 0.0)
        busy = self._fitted(number)
        if busy is None:
            return _Option(0.0, 0.0)
        waits = TIMES * _slack_s(each, self._max_wait_s)
        held = (self._pool == number) & ~np.isnan(self._since_s)
        missing = each.request.units - free + self._ahead(each, number)
        chance = chance_free(busy, now_s - self._since_s[held], waits, missing)
        values = (left_s - waits) * quality * chance
        best = int(np.argmax(values))
        return _Option(float(values[best]), float(waits[best]))

    def _ahead(self, each: Applicant, number: int) -> int:
        """Return the units that the jobs before it in a queue wait for."""
        order = (-each.priority, each.run_s)
        return sum(
            waiting.units
            for job, waiting in self._waiting.items()
            if waiting.number == number and job != each.request.job and waiting.order < order
        )

    def _queues(self, *, without: Collection[str]) -> list[list[WaitingJob]]:
        """Return the waiting jobs by class, in order, without some of them."""
        found: list[list[WaitingJob]] = [[] for _ in range(CLASSES)]
        for job, each in self._waiting.items():
            if job not in without:
                found[each.number].append(each)
        return [sorted(queue, key=lambda each: each.order) for queue in found]

    def _queued(self, number: int) -> bool:
        return any(each.number == number for each in self._waiting.values())

    def _fitted(self, number: int) -> BusyTime | None:
        return fit([length for _, length in self._busy[number]])

    def _demand(self) -> Floats:
        """(C,) units that arrived in each class, plus one, so that every class has a share."""
        return 1.0 + self._counts.total.arrived

    def _arrivals(self) -> tuple[Floats, Floats]:
        """(C,) units that arrived, and (C, C) shares that were diverted."""
        arrived, moved = self._counts.total.arrived, self._counts.total.diverted
        # a job may be diverted after its arrival left the window, but no share exceeds 1
        joined = np.maximum(arrived + moved.sum(axis=0), moved.sum(axis=1))
        return arrived, moved / np.maximum(joined, 1.0)[:, None]

    def _follow(self, snapshot: Snapshot, now_s: float) -> None:
        """Note which units are busy; those of a new topology as if they were taken now."""
        free = snapshot.unit_free
        self._counts.begun_s = min(self._counts.begun_s, now_s)
        if snapshot.topology is not self._topology:
            self._topology, self._begun_s = snapshot.topology, now_s
            self._since_s = np.where(free, np.nan, now_s)
            self._pool = np.zeros(free.size, dtype=np.int64)
            self._busy = [deque(maxlen=SAMPLES) for _ in range(CLASSES)]
            self._mark(snapshot, pool_of_servers(snapshot, self._demand()))
            return
        taken = ~free & np.isnan(self._since_s)
        self._since_s[taken] = now_s
        self._since_s[free] = np.nan

    def _mark(self, snapshot: Snapshot, pools: Ints) -> None:
        """Note the pool of each free unit, which it belongs to when it is taken."""
        of = np.maximum(pools, 0)[snapshot.topology.unit_server]
        self._pool = np.where(snapshot.unit_free, of, self._pool)

    def _span_s(self, samples: Sequence[tuple[float, float]], now_s: float) -> float | None:
        """Return the time that the samples of a pool cover; None if it is too short."""
        if len(samples) < SAMPLES:
            return observed_s(self._begun_s, now_s, self._window_s)
        return min(self._window_s, max(MIN_SPAN_S, now_s - samples[0][0]))

    def _forget(self, now_s: float) -> None:
        self._counts.forget(now_s - self._window_s)
        for samples in self._busy:
            while samples and samples[0][0] < now_s - self._window_s:
                samples.popleft()
        for job in [j for j, each in self._waiting.items() if each.seen_s < now_s - FORGET_S]:
            del self._waiting[job]
        surplus = len(self._joined) - MAX_JOINED
        for job, each in list(self._joined.items()):  # the oldest first
            if surplus <= 0 and each.seen_s >= now_s - FORGET_S:
                break
            del self._joined[job]
            surplus -= 1


def _units_of(topology: Topology | None) -> list[int]:
    """Return number and last id of the units: others if servers were added or removed."""
    if topology is None or not topology.unit_id.size:
        return []
    return [topology.unit_id.size, int(topology.unit_id[-1])]


def _slack_s(each: Applicant, max_wait_s: float) -> float:
    """Return how long a job may still wait; NaN if its run time is unknown.

    Waiting and profiling may cost 5 % of the run time. Source: Paragon Eq. 2.
    """
    budget = LOSS * each.run_s - each.profiling_s
    return min(budget, max_wait_s) - each.waited_s


def _urgency(each: Applicant) -> tuple[int, bool, float]:
    """Order of the jobs that are evaluated together: priority, no slack left, shortest."""
    has_slack = _slack_s(each, np.inf) > 0.0
    return -each.priority, has_slack, each.run_s if has_slack else -each.waited_s


def _left(each: Applicant, view: _View) -> Ints:
    """(S,) units that a job may use and that the batch has not taken."""
    request, left = each.request, np.maximum(view.free.of(each) - view.taken, 0)
    if request.locality is Within.SERVER:
        left[left < request.units] = 0
    return left


def _take(left: Ints, view: _View, servers: Bools, units: int) -> None:
    """Count units as taken, of the servers with most free units first."""
    able = np.flatnonzero(servers & (left > 0))
    if units == 1 and able.size:
        able = able[[np.argmax(left[able])]]
    for server in able[np.argsort(-left[able], kind="stable")].tolist():
        if units <= 0:
            return
        taken = min(units, int(left[server]))
        view.taken[server] += taken
        units -= taken
