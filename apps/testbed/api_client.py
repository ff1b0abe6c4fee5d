"""A small client of Berth's REST API: one kept connection, patience while the server is away."""

import http.client
import json
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from apps.common.core.errors import ControlPlaneError

TIMEOUT_S: Final = 30.0
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0
WORTH_RETRYING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
KEY_IN_FLIGHT: Final = "key_in_flight"


class ApiError(ControlPlaneError):
    """The server said no, or stayed away for too long."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its status, its headers by lower-case name, its decoded JSON body."""

    status: int
    headers: Mapping[str, str]
    body: Any  # JSON

    @property
    def is_good(self) -> bool:
        """Whether the request was carried out."""
        return 200 <= self.status < 300

    @property
    def problem(self) -> str:
        """What went wrong, in a sentence (RFC 9457's detail, else its title, else the status)."""
        body = self.body if isinstance(self.body, dict) else {}
        errors = [f"{e.get('pointer')}: {e.get('detail')}" for e in body.get("errors") or []]
        sentence = body.get("detail") or body.get("title") or f"status {self.status}"
        return "; ".join([str(sentence), *errors])


@dataclass(slots=True)
class ApiClient:
    """One kept connection to one server.

    Attributes
    ----------
    url : of the server, e.g. http://127.0.0.1:8000
    token : sent as bearer token
    patience_s : how long to try again while the server is away
    on_away : told what is wrong before each pause
    """

    url: str
    token: str
    patience_s: float = 900.0
    on_away: Callable[[str], None] = lambda _: None
    _connection: http.client.HTTPConnection | None = field(default=None, init=False)

    def __enter__(self) -> "ApiClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, path: str) -> Reply:
        """Ask for a resource; tries again while the server is away."""
        return self.request("GET", path)

    def post(self, path: str, body: object, *, key: str) -> Reply:
        """Send a document under an idempotency key, so that trying again does nothing twice."""
        return self.request("POST", path, body, {"Idempotency-Key": key})

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send one request until it is answered for good.

        Raises
        ------
        ApiError : no answer within ``patience_s``, or the token was refused.
        """
        payload = None if body is None else json.dumps(body).encode()
        deadline = time.monotonic() + self.patience_s
        pause_s = FIRST_PAUSE_S
        while True:
            trouble, asked_s = "", 0.0
            try:
                reply = self._once(method, path, payload, headers or {})
            except (OSError, http.client.HTTPException) as error:
                self.close()
                trouble = f"{self.url} does not answer ({str(error) or type(error).__name__})"
            else:
                trouble, asked_s = _trouble(reply)
                if not trouble:
                    return reply
            if time.monotonic() > deadline:
                raise ApiError(f"{trouble}; gave up after {self.patience_s:.0f} s.")
            self.on_away(trouble)
            time.sleep(max(pause_s, asked_s))
            pause_s = min(2.0 * pause_s, LONGEST_PAUSE_S)

    def close(self) -> None:
        """Drop the connection; the next request makes a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _once(
        self, method: str, path: str, payload: bytes | None, headers: Mapping[str, str]
    ) -> Reply:
        connection = self._connected()
        sent = {"Authorization": f"Bearer {self.token}", "Accept": "application/json", **headers}
        if payload is not None:
            sent["Content-Type"] = "application/json"
        connection.request(method, path, body=payload, headers=sent)
        answer = connection.getresponse()
        content = answer.read()
        found = {name.lower(): value for name, value in answer.getheaders()}
        if found.get("connection", "").lower() == "close":
            self.close()
        return Reply(answer.status, found, _decoded(content))

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            parts = urlsplit(self.url)
            host = parts.hostname or "127.0.0.1"
            if parts.scheme == "https":
                self._connection = http.client.HTTPSConnection(
                    host, parts.port, timeout=TIMEOUT_S, context=ssl.create_default_context()
                )
            else:
                self._connection = http.client.HTTPConnection(host, parts.port, timeout=TIMEOUT_S)
        return self._connection


def _decoded(content: bytes) -> Any:
    try:
        return json.loads(content) if content else None
    except ValueError:
        return None  # an error page of something in between; the status tells enough


def _trouble(reply: Reply) -> tuple[str, float]:
    """Say what is wrong for now and the pause the server asks for; an empty text when it is final.

    Raises
    ------
    ApiError : the token was refused.
    """
    if reply.status in (401, 403):
        raise ApiError(f"The token was refused: {reply.problem} Set BERTH_TOKEN to a valid one.")
    in_flight = (
        reply.status == 409
        and isinstance(reply.body, dict)
        and reply.body.get("code") == KEY_IN_FLIGHT
    )
    if reply.status not in WORTH_RETRYING and not in_flight:
        return "", 0.0
    asked = reply.headers.get("retry-after", "")
    return f"the server answers {reply.status} ({reply.problem})", _seconds(asked)


def _seconds(text: str) -> float:
    return min(float(text), 60.0) if text.isdigit() else 0.0
