"""Waiting agents, served by the stream process: one coroutine each, and no thread.

An agent asks for its orders and waits. One task listens for wakes on behalf of all; only the
orders of agents that were woken are read, one after the other, in one thread. `application` is
ASGI 3 and answers `POST /api/v1/stream/orders/`.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import redis.asyncio
from django.conf import settings
from django.db import close_old_connections
from redis import RedisError

from apps.common.api.inputs import validated
from apps.common.api.problems import INTERNAL, ProblemError, as_problem
from apps.common.core.problem_codes import ProblemCode
from apps.common.infrastructure.notifications import concerns
from apps.execution.api.agent_serializers import AwaitSerializer
from apps.execution.core.agent.wire import order_json, read_known_orders
from apps.execution.core.port import CommandOrder
from apps.execution.models import ServerAgent
from apps.execution.services.agent_credentials import agent_of
from apps.execution.services.agents import checked_orders, have_changed
from apps.inventory.core.backends import MACHINES
from apps.operations.api.stream import Receive, Scope, Send, disconnected, refuse, respond
from apps.operations.api.stream_auth import is_known_host

PATH: Final = "/api/v1/stream/orders/"
MAX_BODY: Final = 1 << 18
POLL_S: Final = 5.0  # between two polls while notifications are unavailable
LISTEN_S: Final = 1.0
_THREAD: Final = ThreadPoolExecutor(1, "orders")
_Value = TypeVar("_Value")
_logger = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Waiter:
    """One waiting agent."""

    server: int
    woken: asyncio.Event = field(default_factory=asyncio.Event)


class Hub:
    """All waiting agents, and the one task that listens for them."""

    def __init__(self) -> None:
        self.waiters: set[Waiter] = set()
        self.listens = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def join(self, waiter: Waiter) -> None:
        """Add an agent; return once it can be woken, or the broker is known to be away."""
        self.waiters.add(waiter)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._listen())
        with suppress(TimeoutError):
            await asyncio.wait_for(self.listens.wait(), LISTEN_S)

    async def _listen(self) -> None:
        """Wake agents while there are any."""
        while self.waiters:
            try:
                async with (
                    redis.asyncio.Redis.from_url(settings.REDIS_URL) as client,
                    client.pubsub() as channel,
                ):
                    await channel.subscribe(MACHINES)
                    self.listens.set()
                    await self._hear(channel)
                    self.listens.clear()  # an agent that joins from here on waits for the next one
            except RedisError as error:
                _logger.warning("waiting agents poll every %g s: %s", POLL_S, error)
                self.listens.clear()
                self._wake("")
                await asyncio.sleep(LISTEN_S)
        self.listens.clear()

    async def _hear(self, channel: Any) -> None:
        while self.waiters:
            message = await channel.get_message(ignore_subscribe_messages=True, timeout=LISTEN_S)
            if message is not None:
                self._wake(message["data"].decode())

    def _wake(self, message: str) -> None:
        for waiter in self.waiters:
            if concerns(message, waiter.server):
                waiter.woken.set()


_hubs: dict[int, Hub] = {}  # one per event loop; more than one only in tests


def hub() -> Hub:
    """Return the hub of the running event loop."""
    return _hubs.setdefault(id(asyncio.get_running_loop()), Hub())


async def in_thread(function: Callable[..., _Value], *arguments: Any) -> _Value:
    """Await a function that uses the database, in the thread of the orders."""

    def run() -> _Value:
        close_old_connections()
        return function(*arguments)

    return await asyncio.get_running_loop().run_in_executor(_THREAD, run)


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer an agent that waits for orders (ASGI 3)."""
    try:
        agent = await _admit(scope)
        given = validated(AwaitSerializer, await _body(receive))
        gone = asyncio.create_task(disconnected(receive))
        try:
            orders = await _awaited(agent, given, gone)
        finally:
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone
    except Exception as error:
        problem = as_problem(error)
        if problem is None:
            _logger.exception("unexpected error at %s", PATH)
            problem = ProblemError(ProblemCode.INTERNAL_ERROR, INTERNAL)
        await refuse(scope, send, problem, {})
        return
    answer = {"lease_s": settings.AGENT_LEASE_S, "orders": [order_json(o) for o in orders]}
    await respond(send, 200, json.dumps(answer).encode(), "application/json", {})


async def _admit(scope: Scope) -> ServerAgent:
    headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
    if scope["method"] != "POST":
        raise ProblemError(
            ProblemCode.METHOD_NOT_ALLOWED, "Ask with POST.", headers={"Allow": "POST"}
        )
    if not is_known_host(headers.get(b"host", "")):
        raise ProblemError(ProblemCode.MALFORMED_REQUEST, "The Host header names another site.")
    scheme, _, secret = headers.get(b"authorization", "").partition(" ")
    agent = None
    if scheme.lower() == "bearer":
        agent = await in_thread(agent_of, secret.strip())
    if agent is None:
        raise ProblemError(
            ProblemCode.NOT_AUTHENTICATED,
            "The credential is unknown or revoked.",
            headers={"WWW-Authenticate": 'Bearer realm="berth agents"'},
        )
    return agent


async def _body(receive: Receive) -> Any:
    text, is_more = b"", True
    while is_more:
        message = await receive()
        text += message.get("body", b"")
        if len(text) > MAX_BODY:
            raise ProblemError(ProblemCode.BODY_TOO_LARGE, "The body is too large.")
        is_more = message.get("more_body", False)
    try:
        return json.loads(text)
    except ValueError as error:
        raise ProblemError(ProblemCode.MALFORMED_JSON, "The body is not JSON.") from error


async def _awaited(
    agent: ServerAgent, given: dict[str, Any], gone: "asyncio.Task[None]"
) -> list[CommandOrder]:
    """Return the orders once they are news, the time is over, or the agent is gone."""
    loop, known = asyncio.get_running_loop(), read_known_orders(given)
    until_s = loop.time() + given["wait_s"]
    waiter, all_waiters = Waiter(agent.server_id or 0), hub()
    await all_waiters.join(waiter)
    try:
        while True:
            waiter.woken.clear()
            orders = await in_thread(checked_orders, agent.pk, given["epoch"])
            left_s = until_s - loop.time()
            if have_changed(orders, known) or left_s <= 0.0 or gone.done():
                return orders
            wait_s = left_s if all_waiters.listens.is_set() else min(left_s, POLL_S)
            woken = asyncio.create_task(waiter.woken.wait())
            await asyncio.wait({woken, gone}, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            woken.cancel()
    finally:
        all_waiters.waiters.discard(waiter)
