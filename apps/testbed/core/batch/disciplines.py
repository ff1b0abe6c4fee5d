"""Queue disciplines of a pool of processors; compiled."""

from typing import Any, NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.common.core.event_heap import EventHeap, empty_heap, next_time, pop, push
from apps.testbed.core.batch.profile import Profile, earliest, empty_profile, forget, occupy
from apps.testbed.core.traces import Bools, Floats, Ints


class Pool(NamedTuple):
    """Jobs of a run and where they are.

    Attributes
    ----------
    submit_s, processors, seconds, estimate_s : as in `pool.ParallelJobs`
    started_s, promised_s : (n,) as in `pool.PoolResult`
    waiting : (n,) jobs that wait, in the order of submission, the first ``size[0]``
    size : (2,) waiting jobs, and free processors
    is_running : (n,)
    ends : true ends of running jobs
    """

    submit_s: Floats
    processors: Ints
    seconds: Floats
    estimate_s: Floats
    started_s: Floats
    promised_s: Floats
    waiting: Ints
    size: Ints
    is_running: Bools
    ends: EventHeap


def _pool(
    submit_s: Floats, processors: Ints, seconds: Floats, estimate_s: Floats, free: int
) -> Pool:
    count = submit_s.size
    return Pool(
        submit_s,
        processors,
        seconds,
        estimate_s,
        started_s=np.full(count, np.nan),
        promised_s=np.full(count, np.inf),
        waiting=np.zeros(count, dtype=np.int64),
        size=np.array([0, free], dtype=np.int64),
        is_running=np.zeros(count, dtype=np.bool_),
        ends=empty_heap(count),
    )


def run_easy(
    submit_s: Floats,
    processors: Ints,
    seconds: Floats,
    estimate_s: Floats,
    free: int,
    backfills: bool,
) -> tuple[Floats, Floats]:
    """Run FCFS, or EASY with ``backfills``; the starts, and the promises at submission."""
    pool = _pool(submit_s, processors, seconds, estimate_s, free)
    room = np.zeros(submit_s.size, dtype=np.int64)
    _easy(pool, backfills, room)
    return pool.started_s, pool.promised_s


def run_conservative(
    submit_s: Floats, processors: Ints, seconds: Floats, estimate_s: Floats, free: int
) -> tuple[Floats, Floats]:
    """Run conservative backfill; the starts, and the reservations at submission."""
    pool = _pool(submit_s, processors, seconds, estimate_s, free)
    reserved = np.full(submit_s.size, np.inf)
    _conservative(pool, reserved, empty_profile(submit_s.size, free))
    return pool.started_s, pool.promised_s


@jit(makes_arrays=False)
def _start(p: Pool, job: int, now: float) -> None:
    p.started_s[job] = now
    p.is_running[job] = True
    p.size[1] -= p.processors[job]
    push(p.ends, now + p.seconds[job], job)


@jit(makes_arrays=False)
def _end(p: Pool) -> Any:
    job = pop(p.ends)
    p.is_running[job] = False
    p.size[1] += p.processors[job]
    return job


@jit(makes_arrays=False)
def _remove_waiting(p: Pool, place: int) -> None:
    p.size[0] -= 1
    for later in range(place, p.size[0]):
        p.waiting[later] = p.waiting[later + 1]


@jit()
def _easy(p: Pool, backfills: bool, scratch: Ints) -> None:
    """Process arrivals and ends; all ends of a time come before starts and arrivals."""
    job, jobs = 0, p.submit_s.size
    while job < jobs or p.ends.size[0] > 0:
        at_end = next_time(p.ends)
        if job < jobs and p.submit_s[job] < at_end:
            now = p.submit_s[job]
            p.waiting[p.size[0]] = job
            p.size[0] += 1
            job += 1
        else:
            now = at_end
            while next_time(p.ends) == now:
                _end(p)
        while p.size[0] > 0 and p.processors[p.waiting[0]] <= p.size[1]:
            _start(p, p.waiting[0], now)
            _remove_waiting(p, 0)
        if backfills and p.size[0] > 1 and p.size[1] > 0:
            _backfill(p, now, scratch)


@jit()
def _backfill(p: Pool, now: float, scratch: Ints) -> None:
    """Start jobs behind the first that do not delay it, by the estimates."""
    shadow_s, extra = _reservation_of_first(p, scratch)
    place = 1
    while place < p.size[0] and p.size[1] > 0:
        job = p.waiting[place]
        ends_before = now + p.estimate_s[job] <= shadow_s
        if p.processors[job] <= p.size[1] and (ends_before or p.processors[job] <= extra):
            if not ends_before:
                extra -= p.processors[job]
            _start(p, job, now)
            _remove_waiting(p, place)
        else:
            place += 1


@jit()
def _reservation_of_first(p: Pool, scratch: Ints) -> Any:
    """Earliest start of the first waiting job, and processors it leaves free then."""
    count = p.ends.size[0]
    ends = np.empty(count)
    for entry in range(count):
        job = p.ends.what[entry]
        ends[entry] = p.started_s[job] + p.estimate_s[job]
        scratch[entry] = job
    free, needed = p.size[1], p.processors[p.waiting[0]]
    order = np.argsort(ends)
    at = 0
    while free < needed:
        free += p.processors[scratch[order[at]]]
        at += 1
    shadow_s = ends[order[at - 1]]
    while at < count and ends[order[at]] == shadow_s:
        free += p.processors[scratch[order[at]]]
        at += 1
    return shadow_s, free - needed


@jit(makes_arrays=False)
def _conservative(p: Pool, reserved: Floats, profile: Profile) -> None:
    """Reserve a start for every job when it is submitted; only earlier starts replace it.

    At the same time, jobs end first; then reservations are due and jobs arrive.
    """
    job, jobs = 0, p.submit_s.size
    while job < jobs or p.ends.size[0] > 0 or p.size[0] > 0:
        at_end, at_due = next_time(p.ends), _next_due(p, reserved)
        at_job = p.submit_s[job] if job < jobs else np.inf
        if at_due < at_end and at_due <= at_job:
            now = at_due
            forget(profile, now)
        elif at_job < at_end:
            now = at_job
            forget(profile, now)
            start = earliest(profile, now, p.processors[job], p.estimate_s[job])
            occupy(profile, start, start + p.estimate_s[job], p.processors[job])
            reserved[job] = p.promised_s[job] = start
            p.waiting[p.size[0]] = job
            p.size[0] += 1
            job += 1
        else:
            now = at_end
            ended = _end(p)
            forget(profile, now)
            planned_s = p.started_s[ended] + p.estimate_s[ended]
            if planned_s > now:
                occupy(profile, now, planned_s, -p.processors[ended])
                _compress(p, now, reserved, profile)
        _start_reserved(p, now, reserved)


@jit(makes_arrays=False)
def _next_due(p: Pool, reserved: Floats) -> Any:
    """Return the earliest reservation of a waiting job; infinite if none waits."""
    due = np.inf
    for place in range(p.size[0]):
        due = min(due, reserved[p.waiting[place]])
    return due


@jit(makes_arrays=False)
def _compress(p: Pool, now: float, reserved: Floats, profile: Profile) -> None:
    """Move each reservation to its earliest start, in the order of submission."""
    for place in range(p.size[0]):
        job = p.waiting[place]
        length, processors = p.estimate_s[job], p.processors[job]
        occupy(profile, reserved[job], reserved[job] + length, -processors)
        reserved[job] = earliest(profile, now, processors, length)
        occupy(profile, reserved[job], reserved[job] + length, processors)


@jit(makes_arrays=False)
def _start_reserved(p: Pool, now: float, reserved: Floats) -> None:
    place = 0
    while place < p.size[0]:
        job = p.waiting[place]
        if reserved[job] <= now and p.processors[job] <= p.size[1]:
            _start(p, job, now)
            _remove_waiting(p, place)
        else:
            place += 1
