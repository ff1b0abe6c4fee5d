"""A client of Berth's REST API with one persistent connection and retries."""

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
RETRIABLE: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
KEY_IN_FLIGHT: Final = "key_in_flight"


class ApiError(ControlPlaneError):
    """The server refused a request or was unavailable for too long."""


@dataclass(frozen=True, slots=True)
class ApiReply:
    """A response: status, headers by lower-case name, decoded JSON body."""

    status: int
    headers: Mapping[str, str]
    body: Any  # JSON

    @property
    def is_good(self) -> bool:
        """Whether the request was carried out."""
        return 200 <= self.status < 300

    @property
    def problem(self) -> str:
        """Description of the error (RFC 9457 detail, else title, else status)."""
        body = self.body if isinstance(self.body, dict) else {}
        errors = [f"{e.get('pointer')}: {e.get('detail')}" for e in body.get("errors") or []]
        sentence = body.get("detail") or body.get("title") or f"status {self.status}"
        return "; ".join([str(sentence), *errors])


@dataclass(slots=True)
class ApiClient:
    """A persistent connection to one server.

    Attributes
    ----------
    url : of the server, e.g. http://127.0.0.1:8000
    token : sent as bearer token
    patience_s : duration of retries while the server is unavailable
    on_away : called with the problem before each pause
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

    def get(self, path: str) -> ApiReply:
        """Get a resource; retry while the server is unavailable."""
        return self.request("GET", path)

    def post(self, path: str, body: object, *, key: str) -> ApiReply:
        """Post a document with an idempotency key, so that a retry has no second effect."""
        return self.request("POST", path, body, {"Idempotency-Key": key})

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> ApiReply:
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
        """Close the connection; the next request opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _once(
        self, method: str, path: str, payload: bytes | None, headers: Mapping[str, str]
    ) -> ApiReply:
        connection = self._connected()
        sent = {"Authorization": f"Bearer {self.token}", "Accept": "application/json", **headers}
        if payload is not None:
            sent["Content-Type"] = "application/json"
        connection.request(method, path, body=payload, headers=sent)
        answer = connection.getresponse()
        content = answer.read()
        response_headers = {name.lower(): value for name, value in answer.getheaders()}
        if response_headers.get("connection", "").lower() == "close":
            self.close()
        return ApiReply(answer.status, response_headers, _decoded(content))

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
        return None  # an error page of a proxy; the status suffices


def _trouble(reply: ApiReply) -> tuple[str, float]:
    """Temporary problem and the pause requested by the server; an empty text if there is none.

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
    if reply.status not in RETRIABLE and not in_flight:
        return "", 0.0
    retry_after = reply.headers.get("retry-after", "")
    return f"the server answers {reply.status} ({reply.problem})", _seconds(retry_after)


def _seconds(text: str) -> float:
    return min(float(text), 60.0) if text.isdigit() else 0.0
