"""The scheduler of periodic tasks: one process sends them, others stand by.

Every process runs `celery beat`. The one that holds a lease in the broker sends the messages. If
it dies, its lease expires and another process takes over. The lease is in the broker because
messages need the broker anyway: without it there is nothing to send.

Each task has its own phase, so that tasks with the same interval do not all run at the same
moment: together, they would keep jobs waiting for the processors.
"""

import logging
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple
from uuid import uuid4

import redis
from celery.beat import PersistentScheduler, ScheduleEntry
from celery.schedules import schedstate
from django.conf import settings

from apps.common.infrastructure.notifications import broker

_logger = logging.getLogger(__name__)

KEY: Final = "beat:lease"
LEASE_S: Final = 5.0
POLL_S: Final = 1.0  # between two renewals, or two attempts of a process that stands by
TAKEOVER_S: Final = LEASE_S + POLL_S  # after the last renewal of a process that died

EARLY_S: Final = 0.02  # Celery looks 10 ms early, and would look without a break until it is due
GOLDEN: Final = (5**0.5 - 1) / 2  # multiples of it, modulo 1, differ from each other

_STATES: Final = {True: "sends them", False: "stands by"}
_TAKE: Final = """
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
_RELEASE: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""


def _since_boot() -> float:
    """Return seconds that also pass while the process is stopped or the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class BeatLease:
    """The right to send periodic tasks; at most one process has it.

    It ends here no later than in the broker, so a process that was paused for longer than the
    lease sends nothing.

    Parameters
    ----------
    clock : seconds, monotonic
    """

    def __init__(self, *, clock: Callable[[], float] = _since_boot) -> None:
        self._owner, self._clock = str(uuid4()), clock
        self._due_s = self._until_s = -float("inf")

    def hold(self) -> bool:
        """Renew the lease, or take it if it is free; returns whether this process has it."""
        now = self._clock()
        if now >= self._due_s:
            self._due_s = now + POLL_S
            try:
                is_ours = self._run(_TAKE, str(int(1000 * LEASE_S)))
            except redis.RedisError as error:
                _logger.warning("the lease of periodic tasks was not renewed: %s", error)
            else:
                self._until_s = now + LEASE_S if is_ours else -float("inf")
        return self._clock() < self._until_s

    def release(self) -> None:
        """Let another process take over at once."""
        self._until_s = -float("inf")
        try:
            self._run(_RELEASE)
        except redis.RedisError as error:
            _logger.warning("the lease of periodic tasks expires by itself: %s", error)

    def _run(self, script: str, *arguments: str) -> bool:
        return bool(broker().eval(script, 1, KEY, self._owner, *arguments))


class _Period(NamedTuple):
    """When a task is due: at ``phase_s`` and every ``interval_s`` after it, since 1970."""

    interval_s: float
    phase_s: float


@lru_cache(maxsize=1)
def _periods() -> dict[str, _Period]:
    """Return the period of each entry of the schedule.

    The entries of one interval are spread evenly over it; the first ones of two intervals differ.
    """
    groups: dict[float, list[str]] = {}
    for name, entry in settings.CELERY_BEAT_SCHEDULE.items():
        groups.setdefault(entry["schedule"], []).append(name)
    return {
        name: _Period(interval_s, interval_s * (place + number * GOLDEN % 1.0) / len(group))
        for number, (interval_s, group) in enumerate(groups.items())
        for place, name in enumerate(group)
    }


class SpreadEntry(ScheduleEntry):
    """A periodic task that is due at the multiples of its interval plus its phase."""

    def is_due(self) -> Any:
        """Return whether the task is due, and the seconds to its next run or until it is due."""
        period = _periods().get(str(self.name))
        if period is None:  # an entry of Celery itself
            return super().is_due()
        now = self.default_now()
        now_s, last_s = now.timestamp(), (self.last_run_at or now).timestamp()
        due_s = last_s + _until_next(last_s, period)
        if due_s > now_s + EARLY_S:
            return schedstate(is_due=False, next=due_s - now_s)
        return schedstate(is_due=True, next=_until_next(now_s, period))


def _until_next(at_s: float, period: _Period) -> float:
    """Return the seconds from a run to the next one; the run may have been early."""
    left_s = period.interval_s - (at_s - period.phase_s) % period.interval_s
    return left_s if left_s > EARLY_S else left_s + period.interval_s


class StandbyScheduler(PersistentScheduler):
    """Sends periodic tasks while this process has the lease, else stands by."""

    Entry = SpreadEntry

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._lease, self._is_active = BeatLease(), False
        super().__init__(*args, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send one due task if this process has the lease; returns the seconds to the next tick.

        After a takeover, every task that is overdue is sent once.
        """
        was_active, self._is_active = self._is_active, self._lease.hold()
        if self._is_active != was_active:
            _logger.info("periodic tasks: this process %s", _STATES[self._is_active])
        if not self._is_active:
            return POLL_S
        self._follow_clock()
        return min(float(super().tick(*args, **kwargs)), POLL_S)

    def _follow_clock(self) -> None:
        """Reset last runs that lie in the future, so that a clock set back delays no task."""
        now = self.app.now()
        to_come = [each for each in self.schedule.values() if (each.last_run_at or now) > now]
        for entry in to_come:
            entry.last_run_at = now
        if to_come:
            self._heap = None  # it holds times in the future too; the next tick makes another

    def close(self) -> None:
        """Store the schedule and release the lease."""
        try:
            super().close()
        finally:
            self._lease.release()
