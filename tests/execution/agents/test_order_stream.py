"""Waiting agents on the stream process, driven through ASGI."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
import redis.asyncio
from django.db import connections
from rest_framework.test import APIClient

from apps.accounts.selectors import token_digest
from apps.common.infrastructure import notifications
from apps.execution.api import order_stream
from apps.execution.models import Launch, ServerAgent
from apps.execution.services import agents
from apps.inventory.core.backends import AGENT, MACHINES
from apps.inventory.models import Server
from controlplane.asgi import stream
from tests import factories

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.broker]
WAIT_S = 30.0
PATIENCE_S = 60.0
PROGRAM: dict[str, Any] = {"command": ["true"], "environment": {}, "working_directory": None}


class Asking:
    """One request of an agent to the stream process."""

    def __init__(self, secret: str, body: Any, *, method: str = "POST") -> None:
        self.scope = {
            "type": "http", "method": method, "path": order_stream.PATH, "query_string": b"",
            "headers": [
                (b"host", b"localhost"), (b"authorization", f"Bearer {secret}".encode()),
            ],
        }  # fmt: skip
        self.status, self.body = 0, b""
        self._sent = [{"type": "http.request", "body": json.dumps(body).encode()}]
        self._gone = asyncio.Event()
        self.task = asyncio.create_task(stream(self.scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self._sent:
            return self._sent.pop()
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")

    def leave(self) -> None:
        """Close the connection."""
        self._gone.set()

    async def answer(self) -> Any:
        """Wait for the answer."""
        await asyncio.wait_for(self.task, PATIENCE_S)
        return json.loads(self.body)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def and_disconnect() -> None:
        try:
            await test()
        finally:
            await order_stream.in_thread(connections.close_all)

    asyncio.run(and_disconnect())


def machines(count: int) -> list[tuple[Server, str]]:
    """Servers with registered agents, and the secrets of these."""
    now, found = datetime.now(UTC), []
    for number in range(count):
        server = factories.server(f"box-{number}", backend=AGENT)
        secret = f"berthagent_{number}"
        ServerAgent.objects.create(
            name=server.name, digest=token_digest(secret), server=server, epoch=1,
            registered_at=now,
        )  # fmt: skip
        found.append((server, secret))
    return found


def launch_on(server: Server) -> Launch:
    job = factories.job(state="starting", attempts=1, program=PROGRAM)
    factories.allocation(job, server, cores=1, by=factories.decision(job), acquired_seq=0)
    return Launch.objects.create(
        job=job, attempt=1, backend=AGENT, state="requested", order={"parts": [[server.pk, 1]]}
    )


async def until_waiting(count: int) -> None:
    """Wait until so many agents have seen that there is nothing new."""
    async with asyncio.timeout(PATIENCE_S):
        while len(order_stream.hub().waiters) < count or not order_stream.hub().listens.is_set():
            await asyncio.sleep(0.01)
        await order_stream.in_thread(int)  # the reads before this one are done


class SlowlyClosing:
    """A broker and its channel; to close takes until `closed` is set."""

    def __init__(self) -> None:
        self.subscriptions = 0
        self.is_closing, self.closed = asyncio.Event(), asyncio.Event()

    async def __aenter__(self) -> "SlowlyClosing":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.is_closing.set()
        await self.closed.wait()

    def pubsub(self) -> "SlowlyClosing":
        return self

    async def subscribe(self, _: str) -> None:
        self.subscriptions += 1

    async def get_message(self, **_: Any) -> None:
        await asyncio.sleep(0)


def test_an_agent_that_joins_while_the_last_channel_closes_waits_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def join_late() -> None:
        broker, hub = SlowlyClosing(), order_stream.Hub()
        monkeypatch.setattr(redis.asyncio.Redis, "from_url", lambda _: broker)
        first, second = order_stream.Waiter(1), order_stream.Waiter(2)
        await hub.join(first)
        hub.waiters.discard(first)
        await broker.is_closing.wait()
        joining = asyncio.create_task(hub.join(second))
        await asyncio.sleep(0.01)
        joined_early = joining.done()
        broker.closed.set()
        await joining
        hub.waiters.discard(second)
        assert hub._task is not None
        await hub._task
        assert (joined_early, broker.subscriptions) == (False, 2)

    asyncio.run(asyncio.wait_for(join_late(), PATIENCE_S))


def test_a_wake_brings_the_orders_to_the_agent_that_waits() -> None:
    ((server, secret),) = machines(1)

    async def ask() -> None:
        asking = Asking(secret, {"epoch": 1, "wait_s": WAIT_S})
        await until_waiting(1)
        launch = await order_stream.in_thread(launch_on, server)
        assert not asking.task.done()
        await asyncio.to_thread(notifications._publish, MACHINES, str(server.pk))
        orders = (await asking.answer())["orders"]
        assert [order["launch"] for order in orders] == [launch.pk]
        again = Asking(secret, {"epoch": 1, "known": [], "wait_s": WAIT_S})
        assert (await again.answer())["orders"] == orders

    run(ask)


def test_five_hundred_waiting_agents_hold_no_threads_and_one_wake_reads_one_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count, read = 500, []
    found = machines(count)
    checked = agents.checked_orders

    def counted(agent_id: int, epoch: int) -> Any:
        read.append(agent_id)
        return checked(agent_id, epoch)

    monkeypatch.setattr(order_stream, "checked_orders", counted)

    async def ask() -> None:
        await order_stream.in_thread(int)
        before = threading.active_count()
        waiting = [Asking(secret, {"epoch": 1, "wait_s": WAIT_S}) for _, secret in found]
        async with asyncio.timeout(PATIENCE_S):
            while len(read) < count:
                await asyncio.sleep(0.01)
        await until_waiting(count)
        assert threading.active_count() == before
        server, _ = found[123]
        launch = await order_stream.in_thread(launch_on, server)
        del read[:]
        await asyncio.to_thread(notifications._publish, MACHINES, str(server.pk))
        orders = (await waiting[123].answer())["orders"]
        assert [order["launch"] for order in orders] == [launch.pk]
        assert len(read) == 1
        for one in waiting:
            one.leave()
        await asyncio.gather(*(one.task for one in waiting))
        assert not order_stream.hub().waiters

    run(ask)


def test_a_fenced_agent_and_a_stranger_are_refused() -> None:
    ((_, secret),) = machines(1)

    async def ask() -> None:
        for given, body, status in (
            (secret, {"epoch": 0, "wait_s": WAIT_S}, 409),
            ("berthagent_other", {"epoch": 1, "wait_s": WAIT_S}, 401),
            (secret, {"epoch": 1, "wait_s": 1e6}, 422),
            (secret, {"epoch": 1, "wait": 1}, 422),
        ):
            asking = Asking(given, body)
            problem = await asking.answer()
            assert (asking.status, problem["status"]) == (status, status)

    run(ask)


def test_without_a_broker_waiting_agents_look_by_themselves(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    ((server, secret),) = machines(1)
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    monkeypatch.setattr(order_stream, "POLL_S", 0.1)
    monkeypatch.setattr(order_stream, "LISTEN_S", 0.1)

    async def ask() -> None:
        asking = Asking(secret, {"epoch": 1, "wait_s": WAIT_S})
        launch = await order_stream.in_thread(launch_on, server)
        orders = (await asking.answer())["orders"]
        assert [order["launch"] for order in orders] == [launch.pk]

    run(ask)


def test_few_agents_may_wait_on_the_web_process(monkeypatch: pytest.MonkeyPatch) -> None:
    ((_, secret),) = machines(1)
    waits: list[float] = []

    @contextmanager
    def listening(*_: Any) -> Iterator[Callable[[float], None]]:
        yield waits.append

    monkeypatch.setattr(agents, "_WAITING", threading.BoundedSemaphore(1))
    monkeypatch.setattr(agents, "listening", listening)
    caller = APIClient()
    caller.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    body = {"epoch": 1, "wait_s": 0.1}
    with agents._WAITING:
        answer = caller.post("/api/v1/agents/sync/", body, format="json")
    assert (answer.status_code, answer.json()["orders"], waits) == (200, [], [])
    assert caller.post("/api/v1/agents/sync/", body, format="json").status_code == 200
    assert waits
