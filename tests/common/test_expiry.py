"""Messages expire by the clock of the broker: sender and worker may differ by an hour."""

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from celery.utils.imports import symbol_by_name
from celery.worker.request import Request
from kombu.simple import SimpleQueue
from pytest_django import Settings

from controlplane.celery import app

pytestmark = pytest.mark.broker
HOUR_S = 3600.0
SHORT_S, LONG_S = 0.2, 5.0  # that a message is valid


@app.task(name="tests.expiring")
def expiring() -> None:
    """Do nothing."""


@pytest.fixture
def queue() -> Iterator[SimpleQueue]:
    """A queue that no worker serves."""
    with app.connection_for_read() as connection, connection.SimpleQueue(str(uuid4())) as found:
        yield found
        found.queue.delete()


def send(queue: SimpleQueue, *, for_s: float | None) -> None:
    app.send_task(expiring.name, queue=queue.queue.name, expires=for_s)


def taken(queue: SimpleQueue) -> Request:
    """Take a message as a worker does."""
    message = queue.get(timeout=LONG_S)
    message.ack()
    return symbol_by_name(expiring.Request)(message, app=app)


@pytest.fixture(params=[0.0, HOUR_S, -HOUR_S, 2.0, -2.0])
def _sender_ahead(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the sender is ahead of that of the worker by some seconds."""
    ahead, now = timedelta(seconds=request.param), app.now

    def sender_now() -> datetime:
        return now() + ahead

    monkeypatch.setattr(app, "now", sender_now)


@pytest.mark.usefixtures("_sender_ahead")
def test_a_fresh_message_is_carried_out_whatever_the_clocks_of_the_hosts(
    queue: SimpleQueue,
) -> None:
    send(queue, for_s=1.9)  # less than the clocks differ
    assert not taken(queue).revoked()


@pytest.mark.usefixtures("_sender_ahead")
def test_a_backlog_is_discarded_whatever_the_clocks_of_the_hosts(queue: SimpleQueue) -> None:
    for _ in range(3):
        send(queue, for_s=SHORT_S)
    time.sleep(2 * SHORT_S)
    send(queue, for_s=LONG_S)
    assert [taken(queue).revoked() for _ in range(4)] == [True, True, True, False]


@pytest.mark.usefixtures("_sender_ahead")
def test_a_message_without_an_expiry_is_always_carried_out(queue: SimpleQueue) -> None:
    send(queue, for_s=None)
    assert not taken(queue).revoked()


def test_the_broker_is_not_asked_about_a_message_that_is_fresh_by_the_clocks(
    queue: SimpleQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(queue, for_s=LONG_S)
    monkeypatch.setattr("apps.common.infrastructure.expiry.broker", pytest.fail)
    assert not taken(queue).revoked()


@pytest.mark.usefixtures("_sender_ahead")
def test_a_fresh_message_is_carried_out_while_the_broker_cannot_be_asked(
    queue: SimpleQueue, settings: Settings
) -> None:
    send(queue, for_s=LONG_S)
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert not taken(queue).revoked()
