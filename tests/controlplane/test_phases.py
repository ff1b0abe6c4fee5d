"""Phases of periodic tasks: those with the same interval do not run at the same moment."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from celery.schedules import schedule
from django.conf import settings

from controlplane.beat import SpreadEntry
from controlplane.celery import app

SCHEDULE: dict[str, dict[str, Any]] = settings.CELERY_BEAT_SCHEDULE
START = datetime(2026, 11, 27, 20, 43, 24, 123456, tzinfo=UTC)
TICK = timedelta(milliseconds=10)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


def entry(name: str, clock: Clock) -> SpreadEntry:
    interval = timedelta(seconds=SCHEDULE[name]["schedule"])
    run_every = schedule(interval, nowfun=clock, app=app)
    return SpreadEntry(name=name, task=name, schedule=run_every, last_run_at=clock.now, app=app)


def sent(names: list[str], *, for_s: float, paused: tuple[float, float] = (0.0, 0.0)) -> Any:
    """Return the seconds at which each task is sent; nothing is sent during a pause."""
    clock = Clock()
    entries: dict[str, Any] = {name: entry(name, clock) for name in names}
    moments: dict[str, list[float]] = {name: [] for name in names}
    for tick in range(int(for_s / TICK.total_seconds())):
        at_s = tick * TICK.total_seconds()
        clock.now = START + tick * TICK
        if paused[0] <= at_s < paused[1]:
            continue
        for name in names:
            is_due, _ = entries[name].is_due()
            if is_due:
                entries[name] = next(entries[name])
                moments[name].append(at_s)
    return moments


def every(interval_s: float) -> list[str]:
    return [name for name, each in SCHEDULE.items() if each["schedule"] == interval_s]


@pytest.mark.parametrize("interval_s", [1.0, 2.0, 5.0, 300.0])
def test_tasks_of_the_same_interval_are_spread_over_it(interval_s: float) -> None:
    names = every(interval_s)
    assert len(names) >= 3
    moments = sent(names, for_s=2.0 * interval_s)
    phases = sorted(times[0] % interval_s for times in moments.values())
    gaps = [after - before for before, after in pairwise([*phases, phases[0] + interval_s])]
    assert gaps == pytest.approx([interval_s / len(names)] * len(names), abs=0.02)


def test_a_task_is_sent_at_its_interval() -> None:
    for times in sent(every(5.0), for_s=60.0).values():
        assert len(times) == 12
        assert {round(after - before, 2) for before, after in pairwise(times)} == {5.0}


def test_after_a_pause_every_task_is_sent_once_and_then_in_its_phase_again() -> None:
    for times in sent(every(5.0), for_s=60.0, paused=(20.0, 40.0)).values():
        before, late, after = times[3], times[4], times[5]
        assert before < 20.0
        assert late == pytest.approx(40.0)
        assert (after - before) / 5.0 == pytest.approx(round((after - before) / 5.0))
        assert after - late <= 5.0


@pytest.mark.parametrize("late_s", [-0.019, -0.01, 0.0, 1e-7, 3e-4, 0.2, 4.0])
def test_a_task_that_was_just_sent_is_not_due(late_s: float) -> None:
    clock = Clock()
    one = entry("scheduling.checkpoint", clock)
    _, wait_s = one.is_due()
    clock.now += timedelta(seconds=wait_s + late_s)
    assert one.is_due()[0]
    one.last_run_at = clock.now
    is_due, next_s = one.is_due()
    assert not is_due
    assert next_s == pytest.approx(5.0 - late_s, abs=2e-3)


def test_entries_of_celery_itself_keep_their_schedule() -> None:
    clock = Clock()
    own = SpreadEntry(
        name="celery.backend_cleanup",
        task="celery.backend_cleanup",
        schedule=schedule(timedelta(seconds=7), nowfun=clock, app=app),
        last_run_at=clock.now,
        app=app,
    )
    clock.now += timedelta(seconds=3)
    assert own.is_due() == (False, pytest.approx(4.0))
