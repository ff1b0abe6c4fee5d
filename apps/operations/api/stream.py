"""The event stream: server-sent events with resumable ids, served by a separate ASGI process.

One task reads the event table for all clients, four times a second while there are any. It stops
at the first number that an open transaction may still commit, so no event is skipped. A client
resumes with Last-Event-ID, which is a position in the table.
"""

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qs

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import DatabaseError, close_old_connections

from apps.accounts.core.principal import Credential, Principal
from apps.accounts.selectors import current_principals
from apps.common.api.problems import MEDIA_TYPE, ProblemError, problem_body
from apps.common.api.queries import invalid_parameter
from apps.common.core.ids import uuid7
from apps.common.core.problem_codes import CATALOGUE, ProblemCode
from apps.common.infrastructure.queues import report_streams
from apps.operations import selectors
from apps.operations.api.server_sent_events import item_of, sse
from apps.operations.api.stream_auth import authenticate, is_known_host, may_read_from
from apps.operations.core.feed import Feed, Item
from apps.operations.core.states import Topic
from apps.operations.models import Event

POLL_S: Final = 0.25
BEAT_S: Final = 15.0
RECHECK_S: Final = 5.0
PAGE: Final = 1000
MAX_BACKLOG: Final = 5000
MAX_CLIENTS: Final = 1000
MAX_DIGITS: Final = 19  # of a position
PATHS: Final = frozenset({"/api/v1/stream/", "/api/v1/stream"})

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
_logger = logging.getLogger(__name__)


def _in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a query in the database thread, on a connection that is still open."""
    close_old_connections()
    return function(*arguments)


async def query(function: Callable[..., Any], *arguments: Any) -> Any:
    """Await a function that queries the database."""
    return await sync_to_async(_in_thread)(function, *arguments)


class Client:
    """One open stream."""

    def __init__(self, credential: Credential, principal: Principal, feed: Feed) -> None:
        self.credential = credential
        self.principal = principal
        self.feed = feed
        self.has_events = asyncio.Event()
        self.is_ended = False

    def end(self) -> None:
        """Let the writer end the stream."""
        self.is_ended = True
        self.has_events.set()

    def offer(self, items: Sequence[Item]) -> None:
        """Add new events and wake the writer."""
        self.feed.offer(items)
        self.has_events.set()


class Hub:
    """Reads the event table once for all clients, and not at all without clients."""

    def __init__(self) -> None:
        self.clients: set[Client] = set()
        self.position = 0  # every event up to here has been read and is complete
        self._task: asyncio.Task[None] | None = None
        self._report: asyncio.Future[bool] | None = None

    def join(self, client: Client) -> None:
        """Add a client; the first one starts the reading."""
        self.clients.add(client)
        if self._task is None or self._task.done():
            self.position = 0
            self._task = asyncio.create_task(self._read())

    def leave(self, client: Client) -> None:
        """Remove a client."""
        self.clients.discard(client)

    async def _read(self) -> None:
        has_begun = False
        loop = asyncio.get_running_loop()
        recheck_at = loop.time() + RECHECK_S
        self._report_count()
        while self.clients:
            try:
                if loop.time() >= recheck_at:
                    self._report_count()
                    await self._end_streams_of_changed_rights()
                    recheck_at = loop.time() + RECHECK_S
                if not has_begun:
                    complete = await query(selectors.complete_seq)
                    self.position = min([complete, *(c.feed.position for c in self.clients)])
                    has_begun = True
                events = await query(_page, self.position)
            except DatabaseError as error:
                _logger.warning("the event table cannot be read, trying again: %s", error)
                await asyncio.sleep(1.0)
                continue
            if events:
                self.position = events[-1].seq
                items = [item_of(event) for event in events]
                for client in list(self.clients):
                    client.offer(items)
            if len(events) < PAGE:
                await asyncio.sleep(POLL_S)
        self._report_count()

    def _report_count(self) -> None:
        """Report the number of open streams, in a thread: a slow broker delays no event."""
        work = asyncio.to_thread(report_streams, str(id(self)), len(self.clients))
        self._report = asyncio.ensure_future(work)  # the loop itself keeps no reference

    async def _end_streams_of_changed_rights(self) -> None:
        """End the streams of callers with other rights than before.

        A token may have been revoked or have expired, a session may have ended, a membership may
        have changed. A client whose credential is still valid resumes with its current rights.
        """
        clients = list(self.clients)
        rights = await query(current_principals, {client.credential for client in clients})
        for client in clients:
            if rights.get(client.credential) != client.principal:
                client.end()


def _page(position: int, complete: int = 0) -> Sequence[Event]:
    return selectors.events_after(position, limit=PAGE, complete=complete)


_hubs: dict[int, Hub] = {}  # one per event loop; more than one only in tests


def _hub() -> Hub:
    return _hubs.setdefault(id(asyncio.get_running_loop()), Hub())


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve the stream (ASGI 3)."""
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
        return
    if scope["type"] != "http":
        return
    headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
    cors = _cors(headers.get("origin"), headers.get("host", ""))
    try:
        if scope["path"] == "/healthz":
            await respond(send, 200, b"ok\n", "text/plain", {})
        elif scope["method"] == "OPTIONS":
            await respond(send, 204, b"", "text/plain", cors)
        else:
            client = await _admit(scope, headers)
            await _serve(client, receive, send, cors)
    except ProblemError as problem:
        await refuse(scope, send, problem, cors)
    except DatabaseError as error:
        _logger.warning("a stream could not be opened: %s", error)
        away = ProblemError(
            ProblemCode.SERVICE_UNAVAILABLE,
            "The database does not answer.",
            headers={"Retry-After": "2"},
        )
        await refuse(scope, send, away, cors)


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return


def _cors(origin: str | None, host: str) -> dict[str, str]:
    if not origin or not may_read_from(origin, host):
        return {}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Credentials": "true",
        "Access-Control-Allow-Headers": "Authorization, Last-Event-ID, Cache-Control",
        "Vary": "Origin",
    }


async def _admit(scope: Scope, headers: dict[str, str]) -> Client:
    """Check address, host and caller, and determine the first position."""
    if scope["path"] not in PATHS:
        raise ProblemError(ProblemCode.NOT_FOUND, f"There is nothing at {scope['path']}.")
    if scope["method"] != "GET":
        raise ProblemError(
            ProblemCode.METHOD_NOT_ALLOWED, "A stream is read with GET.", headers={"Allow": "GET"}
        )
    if not is_known_host(headers.get("host", "")):
        raise ProblemError(ProblemCode.MALFORMED_REQUEST, "The Host header names another site.")
    if len(_hub().clients) >= MAX_CLIENTS:
        raise ProblemError(
            ProblemCode.SERVICE_UNAVAILABLE, "Too many streams.", headers={"Retry-After": "10"}
        )
    params = parse_qs(scope["query_string"].decode("latin-1"))
    ticket = params.get("ticket", [None])[0]
    caller = await query(authenticate, headers, ticket)
    if caller is None:
        raise ProblemError(
            ProblemCode.NOT_AUTHENTICATED,
            "Send a session, a bearer token or a fresh ticket.",
            headers={"WWW-Authenticate": 'Bearer realm="berth"'},
        )
    credential, principal = caller
    since = headers.get("last-event-id") or params.get("since", [""])[0]
    feed = await _feed(principal, since, _topics(params.get("topics", [""])[0]))
    # Last, with no await before the client joins: two requests cannot both take the last stream.
    _require_stream_left(principal)
    return Client(credential, principal, feed)


def _require_stream_left(principal: Principal) -> None:
    """Refuse another stream of a user who has the maximum, by all tokens and sessions."""
    limit = settings.BERTH_STREAMS_PER_USER
    count = sum(client.principal.user_id == principal.user_id for client in _hub().clients)
    if count >= limit:
        raise ProblemError(
            ProblemCode.TOO_MANY_REQUESTS,
            f"{principal.username} has {count} open event streams, and at most {limit} are"
            " accepted per user. Close one, or follow /api/v1/changes/ instead.",
            headers={"Retry-After": "10"},
        )


def _topics(value: str) -> frozenset[str]:
    topics = frozenset(value.split(",")) if value else frozenset[str]()
    unknown = sorted(topics - set(Topic))
    if unknown:
        sentence = f"must be among {', '.join(Topic)}, not {', '.join(unknown)!r:.60}"
        raise invalid_parameter("topics", sentence)
    return topics


async def _feed(principal: Principal, since: str, topics: frozenset[str]) -> Feed:
    low, high, newest = await query(selectors.resume_bounds)
    everything = principal.sees_everything()
    feed = Feed(
        position=high,
        topics=topics,
        projects=None if everything else frozenset(str(key) for key in principal.projects),
        user=str(principal.user_id),
    )
    if since.isascii() and since.isdigit() and len(since) <= MAX_DIGITS:
        position = int(since)
        if position == 0:
            position = max(0, low - 1)  # all stored events
        if position + 1 < low or high - position > MAX_BACKLOG:
            feed.has_gap = True
        else:
            feed.position = position if position <= newest else high
    return feed


async def _serve(client: Client, receive: Receive, send: Send, cors: dict[str, str]) -> None:
    hub = _hub()
    hub.join(client)
    gone = asyncio.create_task(disconnected(receive))
    try:
        await _catch_up(client, hub.position)
        await _begin(client, send, cors)
        await _write(client, send, gone)
    finally:
        hub.leave(client)
        gone.cancel()
        with suppress(asyncio.CancelledError):
            await gone


async def disconnected(receive: Receive) -> None:
    """Return when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _catch_up(client: Client, complete: int) -> None:
    """Offer the events after the client's position, at least up to ``complete``.

    The hub has read the events up to ``complete`` and will not offer them; it offers the
    later ones, too, of which the feed drops the second.
    """
    position = client.feed.position
    while events := await query(_page, position, complete):
        client.offer([item_of(event) for event in events])
        position = events[-1].seq
        if len(events) < PAGE:
            return


async def _begin(client: Client, send: Send, cors: dict[str, str]) -> None:
    headers = {
        "Content-Type": "text/event-stream; charset=utf-8",
        "Cache-Control": "no-store",
        "X-Accel-Buffering": "no",
        "X-Request-ID": str(uuid7()),
        **cors,
    }
    await send({"type": "http.response.start", "status": 200, "headers": _raw(headers)})
    # Jittered, so that the clients of a restarted process do not all reconnect at once.
    retry = f"retry: {2000 + secrets.randbelow(3000)}\n\n".encode()
    hello = sse("hello", {"position": client.feed.position})
    await _chunk(send, retry + hello)


async def _write(client: Client, send: Send, gone: "asyncio.Task[None]") -> None:
    loop = asyncio.get_running_loop()
    beat_at = loop.time() + BEAT_S
    while not gone.done() and not client.is_ended:
        client.has_events.clear()
        gap = client.feed.take_gap()
        parts = [sse("gap", {"position": gap}, gap)] if gap is not None else []
        parts += [item.message for item in client.feed.take()]
        if not parts and loop.time() >= beat_at:
            parts = [b": beat\n\n"]
        if parts:
            await _chunk(send, b"".join(parts))
            beat_at = loop.time() + BEAT_S
        await _wake(client, gone, until_s=beat_at - loop.time())
    if not gone.done():
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _wake(client: Client, gone: "asyncio.Task[None]", *, until_s: float) -> None:
    """Wait for events, the end of the connection, or the time of the next heartbeat."""
    waiting = asyncio.create_task(client.has_events.wait())
    limit_s = max(0.01, until_s)
    await asyncio.wait({waiting, gone}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


async def _chunk(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def refuse(scope: Scope, send: Send, problem: ProblemError, cors: dict[str, str]) -> None:
    """Answer with a problem."""
    request_id = str(uuid7())
    body = problem_body(problem, instance=scope["path"], request_id=request_id)
    status = CATALOGUE[problem.code].status
    headers = {"X-Request-ID": request_id, **problem.headers, **cors}
    await respond(send, status, json.dumps(body).encode(), MEDIA_TYPE, headers)


async def respond(
    send: Send, status: int, body: bytes, media_type: str, headers: dict[str, str]
) -> None:
    """Send a whole answer."""
    headers = {"Content-Type": media_type, "Content-Length": str(len(body)), **headers}
    await send({"type": "http.response.start", "status": status, "headers": _raw(headers)})
    await send({"type": "http.response.body", "body": body})


def _raw(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in headers.items()]
