"""A stand-in for the web process: keeps jobs by idempotency key, and can misbehave on demand."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class World:
    """Contents of the server, and its faults.

    Attributes
    ----------
    failures : answers given before the real one: a status, or 0 to drop the connection, or -1 to
        do the work and drop the connection before the answer
    """

    speed: float = 1000.0
    token: str = "secret"  # noqa: S105 - of a made-up server
    started: float = field(default_factory=time.monotonic)
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    arrived_s: list[float] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    requests: int = 0
    refuse: str = ""  # application whose jobs are invalid

    def now_s(self) -> float:
        return (time.monotonic() - self.started) * self.speed

    def accept(self, job: dict[str, Any]) -> bool:
        if job["application"] == self.refuse:
            return False
        self.jobs.append(job)
        self.arrived_s.append(self.now_s())
        return True

    def post(self, path: str, key: str, body: Any) -> tuple[int, Any]:
        if key not in self.answers:
            self.answers[key] = self._do(path, body)
        return self.answers[key]

    def _do(self, path: str, body: Any) -> tuple[int, Any]:
        if path == "/api/v1/jobs/":
            if self.accept(body):
                return 201, {"id": len(self.jobs)}
            return 422, {"detail": "no such thing", "errors": [{"pointer": "/a", "detail": "b"}]}
        accepted = sum(self.accept(item) for item in body["items"])
        return 202, {"id": "b1", "accepted": accepted, "total": len(body["items"])}

    def get(self, path: str) -> tuple[int, Any]:
        if path == "/api/v1/cluster/clock/":
            return 200, {"now_s": self.now_s(), "speed": self.speed}
        if path.startswith("/api/v1/platforms/"):
            return 200, {"results": [{"status": {"units": 60}}, {"status": {"units": 40}}]}
        if path.startswith("/api/v1/batches/b1/items/"):
            return 200, {"results": [{"status": "rejected", "problem": {"detail": "bad"}}]}
        if path.startswith("/api/v1/jobs/"):
            return 200, {"count": len(self.jobs) if "state=succeeded" in path else 0}
        return 404, {"title": "Not found"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    world: World

    def do_GET(self) -> None:
        self._answer(*self.world.get(self.path))

    def do_POST(self) -> None:
        self.world.requests += 1
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        failure = self.world.failures.pop(0) if self.world.failures else None
        if failure is None or failure == -1:
            answer = self.world.post(self.path, self.headers["Idempotency-Key"], body)
        if failure in (0, -1):
            self.close_connection = True
            return
        self._answer(*(answer if failure is None else (failure, {"title": "Away"})))

    def _answer(self, status: int, body: Any) -> None:
        if self.headers["Authorization"] != f"Bearer {self.world.token}":
            status, body = 401, {"detail": "Invalid token."}
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Stay silent."""


@contextmanager
def serving(world: World, port: int = 0) -> Iterator[str]:
    """The address of a server of that world."""
    handler = type("Handler", (_Handler,), {"world": world})
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
