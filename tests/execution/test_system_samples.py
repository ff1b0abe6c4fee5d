"""Samples of queues, agents and event streams."""

import time
from collections.abc import Iterator
from datetime import timedelta
from unittest.mock import patch

import pytest
import redis
from pytest_django import Settings

from apps.common.infrastructure import queues
from apps.common.infrastructure.database import database_now
from apps.common.infrastructure.notifications import broker
from apps.common.infrastructure.queues import open_streams, report_streams, waiting_tasks
from apps.execution.services.retention import execution_kinds
from apps.execution.services.system_samples import sample_system
from apps.operations.models import SystemSample
from apps.operations.services.retention import run_retention
from tests import factories

pytestmark = pytest.mark.django_db


class FakeBroker:
    """Lists and hashes in memory."""

    def __init__(self) -> None:
        self.lists: dict[str, int] = {}
        self.hashes: dict[str, dict[str, str]] = {}

    def llen(self, name: str) -> int:
        return self.lists.get(name, 0)

    def hset(self, name: str, field: str, value: str) -> None:
        self.hashes.setdefault(name, {})[field] = value

    def hgetall(self, name: str) -> dict[str, str]:
        return dict(self.hashes.get(name, {}))

    def hdel(self, name: str, *fields: str) -> None:
        for field in fields:
            del self.hashes[name][field]


@pytest.fixture
def fake() -> Iterator[FakeBroker]:
    """A broker of this test only: the real one is shared with other workers."""
    made = FakeBroker()
    with patch.object(queues, "broker", lambda: made):
        yield made


def test_a_sample_holds_queues_agents_and_streams(fake: FakeBroker) -> None:
    fake.lists["default"] = 3
    report_streams("first", 2)
    report_streams("second", 5)
    at = database_now() - timedelta(seconds=5)
    for retries in (0, 2):
        factories.decision(
            factories.job(), agent="agent-1", at=at, commit_retries=retries, elapsed_s=0.01
        )
    assert sample_system()
    sample = SystemSample.objects.get()
    assert sample.queues == {"agents": 0, "default": 3, "upkeep": 0, "placement": 0}
    assert sample.agents == {"agent-1": {"decisions": 2, "lost": 1, "p50_s": 0.01, "p99_s": 0.01}}
    assert sample.streams == 7


def test_a_second_sample_at_the_same_time_is_not_stored(fake: FakeBroker) -> None:
    assert sample_system()
    assert not sample_system()
    assert SystemSample.objects.count() == 1


def test_a_sample_covers_the_time_since_the_last_one(fake: FakeBroker) -> None:
    now = database_now()
    SystemSample.objects.create(at=now - timedelta(seconds=10), seconds=10, queues={}, agents={})
    factories.decision(factories.job(), agent="agent-1", at=now - timedelta(seconds=20))
    sample_system()
    latest = SystemSample.objects.latest("at")
    assert latest.agents == {}
    assert latest.seconds == pytest.approx(10.0, abs=5.0)


def test_streams_of_a_process_that_ended_are_not_counted(
    fake: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    report_streams("first", 2)
    later = time.time() + 2 * queues.FRESH_S
    monkeypatch.setattr(time, "time", lambda: later)
    report_streams("second", 1)
    assert open_streams() == 1
    (left,) = fake.hashes[queues.STREAMS]
    assert left.endswith(":second")


def test_a_broker_that_is_away_leaves_the_numbers_unknown() -> None:
    def away() -> redis.Redis:
        raise redis.ConnectionError("away")

    with patch.object(queues, "broker", away):
        assert waiting_tasks(["default"]) == {}
        assert open_streams() is None
        assert not report_streams("first", 2)
        assert sample_system()
    assert SystemSample.objects.get().streams is None


def test_the_length_of_a_queue_is_that_of_its_list() -> None:
    name = f"test-queue-{factories.number()}"
    broker().rpush(name, "task", "task")
    try:
        assert waiting_tasks([name]) == {name: 2}
    finally:
        broker().delete(name)


@pytest.mark.parametrize(("days", "left"), [(7, 1), (0, 2)])
def test_old_samples_are_deleted(settings: Settings, days: float, left: int) -> None:
    settings.BERTH_SYSTEM_DAYS = days
    for age in (1, 8):
        at = database_now() - timedelta(days=age)
        SystemSample.objects.create(at=at, seconds=10, queues={}, agents={})
    run_retention([kind for kind in execution_kinds() if kind.name == "system_samples"])
    assert SystemSample.objects.count() == left
