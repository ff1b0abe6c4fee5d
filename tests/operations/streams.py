"""A client of the event stream, driven through ASGI."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections

from apps.operations.api.stream import application
from apps.operations.core.states import Topic
from apps.operations.services import NewEvent, record_events
from tests.races import PATIENCE_S


class Reader:
    """One connection to the stream."""

    def __init__(self, headers: dict[str, str] | None = None, *, query: str = "", path: str = "",
                 method: str = "GET") -> None:  # fmt: skip
        self.scope = {
            "type": "http",
            "method": method,
            "path": path or "/api/v1/stream/",
            "query_string": query.encode(),
            "headers": [
                (name.lower().encode(), value.encode("latin-1"))
                for name, value in {"Host": "localhost", **(headers or {})}.items()
            ],
        }
        self.status = 0
        self.headers: dict[str, str] = {}
        self.text = ""
        self._gone = asyncio.Event()
        self._more = asyncio.Event()

    async def __aenter__(self) -> "Reader":
        self._task = asyncio.create_task(application(self.scope, self._receive, self._send))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._gone.set()
        await asyncio.wait_for(self._task, PATIENCE_S)

    async def _receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        self.text += message.get("body", b"").decode()
        self._more.set()

    async def until(self, is_reached: Callable[[str], bool]) -> None:
        """Wait until the text satisfies a condition."""
        async with asyncio.timeout(PATIENCE_S):
            while not is_reached(self.text):
                self._more.clear()
                await self._more.wait()

    async def events(self, count: int) -> list[tuple[str, dict[str, Any]]]:
        """Wait for so many events; (name, data) of each."""
        await self.until(lambda text: text.count("\ndata: ") >= count)
        return self.so_far()

    def so_far(self) -> list[tuple[str, dict[str, Any]]]:
        blocks = [block.split("\n") for block in self.text.split("\n\n")]
        named = [dict(line.split(": ", 1) for line in block if ": " in line) for block in blocks]
        return [(block["event"], json.loads(block["data"])) for block in named if "event" in block]


async def happen(*subjects: str, project: Any = None, topic: Topic = Topic.JOBS) -> None:
    events = [
        NewEvent(topic=topic, kind="job.placed", subject=s, project_id=project) for s in subjects
    ]
    await sync_to_async(record_events)(events)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def and_disconnect() -> None:
        try:
            await test()
        finally:
            await sync_to_async(connections.close_all)()  # of the stream's own thread

    asyncio.run(and_disconnect())


def subjects(events: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [data["subject"] for name, data in events if name not in {"hello", "gap"}]
