"""Schedulers of periodic tasks: one sends, another takes over; and steps of their clock."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import redis
from django.conf import settings as configured
from pytest_django import Settings

from apps.common.infrastructure.notifications import broker
from apps.common.infrastructure.queues import QUEUES
from controlplane.beat import KEY, LEASE_S, POLL_S, TAKEOVER_S, BeatLease, StandbyScheduler
from controlplane.celery import app
from controlplane.embedded.instance import PROJECT

pytestmark = pytest.mark.broker

PATIENCE_S = 60.0
SLACK_S = 2.0  # of a busy machine
Beat = subprocess.Popen[bytes]


@pytest.fixture
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Address of a database of the broker that no other test uses."""
    base, number = configured.REDIS_URL, request.param
    if parse_qs(urlsplit(base).query).get("db"):
        own = base.replace("db=0", f"db={number}")
    else:
        own = f"{base.rpartition('/')[0]}/{number}"
    client = redis.Redis.from_url(own)
    client.flushdb()
    yield own
    client.flushdb()


def of_its_own(number: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("url", [number], indirect=True, ids=[""])


@pytest.fixture
def start(url: str, tmp_path: Path) -> Iterator[Callable[[], Beat]]:
    """Start a scheduler, as a deployment does; all are killed afterwards."""
    started: list[Beat] = []

    def beat() -> Beat:
        schedule = str(tmp_path / f"schedule-{len(started)}")
        arguments = ("-A", "controlplane", "beat", "--schedule", schedule, "--pidfile=")
        environment = {**os.environ, "REDIS_URL": url, "PYTHONPATH": str(PROJECT)}
        with (tmp_path / f"log-{len(started)}").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603  (our own program)
                [sys.executable, "-m", "celery", *arguments],
                cwd=PROJECT,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        started.append(process)
        return process

    yield beat
    for process in started:
        process.kill()
        process.wait()


def taken(url: str) -> list[tuple[int, str]]:
    """Take all messages from the queues; returns the process that sent each, and its task."""
    client, found = redis.Redis.from_url(url), []
    for queue in QUEUES:
        for _ in range(int(str(client.llen(queue)))):
            headers = json.loads(client.rpop(queue))["headers"]  # type: ignore[arg-type]  # bytes
            sender = headers["origin"].partition("@")[0].removeprefix("gen")
            found.append((int(sender), str(headers["task"])))
    client.close()
    return found


def senders(url: str, *, for_s: float) -> set[int]:
    """Return the processes that send a message within some seconds."""
    taken(url)
    time.sleep(for_s)
    return {sender for sender, _ in taken(url)}


def seconds_until(url: str, process: Beat) -> float:
    """Wait until a process sends; returns the seconds."""
    begun_s = time.monotonic()
    while time.monotonic() < begun_s + PATIENCE_S:
        if process.pid in {sender for sender, _ in taken(url)}:
            return time.monotonic() - begun_s
        time.sleep(0.05)
    raise TimeoutError(f"process {process.pid} sent nothing")


def an_active_and_a_standby(url: str, start: Callable[[], Beat]) -> tuple[Beat, Beat]:
    active = start()
    seconds_until(url, active)
    standby = start()
    store = Path(str(standby.args[standby.args.index("--schedule") + 1]))  # type: ignore[union-attr, index, arg-type]  # a list
    deadline_s = time.monotonic() + PATIENCE_S
    while not list(store.parent.glob(f"{store.name}*")):  # it ticks from then on
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    assert senders(url, for_s=2 * POLL_S) == {active.pid}
    return active, standby


@of_its_own(9)
def test_a_standby_sends_the_tasks_after_the_active_process_was_killed(
    url: str, start: Callable[[], Beat]
) -> None:
    active, standby = an_active_and_a_standby(url, start)
    active.send_signal(signal.SIGKILL)
    active.wait()
    taken(url)
    assert seconds_until(url, standby) <= TAKEOVER_S + SLACK_S
    replacement = start()
    assert senders(url, for_s=3 * POLL_S) == {standby.pid}
    assert replacement.poll() is None


@of_its_own(10)
def test_a_process_that_was_paused_sends_nothing_after_a_standby_took_over(
    url: str, start: Callable[[], Beat]
) -> None:
    active, standby = an_active_and_a_standby(url, start)
    active.send_signal(signal.SIGSTOP)
    taken(url)
    assert seconds_until(url, standby) <= TAKEOVER_S + SLACK_S
    taken(url)
    active.send_signal(signal.SIGCONT)
    time.sleep(3 * POLL_S)
    sent = [sender for sender, _ in taken(url)]
    assert set(sent) >= {standby.pid}
    assert sent.count(active.pid) <= 1  # a message that it was sending when it was paused


@of_its_own(11)
def test_a_process_that_is_stopped_in_order_hands_over_at_once(
    url: str, start: Callable[[], Beat]
) -> None:
    active, standby = an_active_and_a_standby(url, start)
    active.send_signal(signal.SIGTERM)
    active.wait(PATIENCE_S)
    taken(url)
    assert seconds_until(url, standby) <= POLL_S + SLACK_S < TAKEOVER_S


class Clock:
    """Seconds set by a test."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def _own_broker(settings: Settings, url: str) -> None:
    settings.REDIS_URL = url


@of_its_own(12)
@pytest.mark.usefixtures("_own_broker")
def test_one_process_has_the_lease() -> None:
    clock = Clock()
    first, second = BeatLease(clock=clock), BeatLease(clock=clock)
    assert [first.hold(), second.hold()] == [True, False]
    clock.now_s += POLL_S
    assert [second.hold(), first.hold()] == [False, True]
    assert 0 < int(str(broker().pttl(KEY))) <= 1000 * LEASE_S
    second.release()
    assert first.hold()
    first.release()
    clock.now_s += POLL_S
    assert [second.hold(), first.hold()] == [True, False]


@of_its_own(13)
@pytest.mark.usefixtures("_own_broker")
def test_a_lease_that_cannot_be_renewed_ends_after_its_time(settings: Settings) -> None:
    clock = Clock()
    lease = BeatLease(clock=clock)
    assert lease.hold()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    clock.now_s += LEASE_S - 0.001
    assert lease.hold()
    clock.now_s += 0.001
    assert not lease.hold()


HOUR_S, MINUTE_S = 3600.0, 60.0
BACK_S = [-0.5, -4.0, -MINUTE_S, -HOUR_S, -30 * HOUR_S]
EVERY_S: dict[str, float] = {
    name: entry["schedule"] for name, entry in configured.CELERY_BEAT_SCHEDULE.items()
}


class Counting(StandbyScheduler):
    """A scheduler that counts the messages of each task and sends none."""

    producer: Any = None
    sent: Counter[str]

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        self.sent[entry.name] += 1


class Host:
    """A host whose clock runs as its scheduler waits, and is set by a test."""

    def __init__(self, store: Path) -> None:
        self.now = datetime(2026, 11, 27, 20, 43, 24, 123456, tzinfo=UTC)
        self._store = str(store)

    def start(self) -> None:
        """Start a scheduler, which reads when each task was sent last."""
        self._scheduler = Counting(app=app, schedule_filename=self._store)

    def stop(self) -> None:
        self._scheduler.close()

    def step(self, by_s: float) -> None:
        self.now += timedelta(seconds=by_s)

    def sent(self, *, for_s: float) -> Counter[str]:
        """Run for some seconds; returns the messages of each task."""
        self._scheduler.sent, left_s = Counter(dict.fromkeys(EVERY_S, 0)), for_s
        while left_s > 0.0:
            waits_s = max(self._scheduler.tick(), 0.001)
            self.step(waits_s)
            left_s -= waits_s
        return self._scheduler.sent


@pytest.fixture
def host(_own_broker: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    found = Host(tmp_path / "schedule")
    monkeypatch.setattr(app, "now", lambda: found.now)
    found.start()
    yield found
    found.stop()


def at_intervals(*, overdue: int) -> dict[str, Any]:
    """Return the messages of each task in a minute, some of which were overdue."""
    return {
        name: pytest.approx(MINUTE_S / every_s, abs=1.0 + overdue)
        for name, every_s in EVERY_S.items()
    }


@of_its_own(14)
@pytest.mark.parametrize("step_s", BACK_S)
def test_after_a_step_back_of_the_clock_every_task_is_sent_at_its_interval(
    host: Host, step_s: float
) -> None:
    host.sent(for_s=MINUTE_S)
    host.step(step_s)
    assert host.sent(for_s=MINUTE_S) == at_intervals(overdue=0)


@of_its_own(14)
@pytest.mark.parametrize("step_s", BACK_S)
def test_a_scheduler_that_starts_after_a_step_back_sends_every_task_at_its_interval(
    host: Host, step_s: float
) -> None:
    host.sent(for_s=MINUTE_S)
    host.stop()
    host.step(step_s)
    host.start()
    assert host.sent(for_s=MINUTE_S) == at_intervals(overdue=0)


@of_its_own(14)
def test_after_a_step_forward_every_task_is_sent_once_more_and_not_again_after_one_back(
    host: Host,
) -> None:
    host.sent(for_s=MINUTE_S)
    host.step(HOUR_S)
    assert host.sent(for_s=MINUTE_S) == at_intervals(overdue=1)
    host.step(-HOUR_S)
    assert host.sent(for_s=MINUTE_S) == at_intervals(overdue=0)
