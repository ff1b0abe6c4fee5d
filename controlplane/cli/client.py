"""Calls of the API over one kept connection, by the standard library: it starts fast."""

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

from controlplane.cli.config import Config
from controlplane.cli.errors import CliError, Exit, from_problem

TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer: decoded JSON, or None without a body."""

    status: int
    body: Any
    headers: dict[str, str]


class Client:
    """Speaks to one server with one token."""

    def __init__(self, config: Config, *, timeout_s: float = TIMEOUT_S) -> None:
        self.config = config
        parts = urlsplit(config.url)
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._prefix = parts.path.rstrip("/")
        self._connection = kind(parts.netloc, timeout=timeout_s)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """Send a request and return the answer.

        Raises
        ------
        CliError : the server cannot be reached, or answers with a problem.
        """
        address = self._prefix + path + (f"?{urlencode(params)}" if params else "")
        sent = {"Accept": "application/json", **(headers or {})}
        if self.config.token:
            sent["Authorization"] = f"Bearer {self.config.token}"
        content = None
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._read(*self._exchange(method, address, content, sent))

    def _exchange(
        self, method: str, address: str, content: bytes | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        try:
            self._connection.request(method, address, content, headers)
            response = self._connection.getresponse()
            return response, response.read()
        except TimeoutError as error:
            raise CliError(
                f"{self.config.url} did not answer in time", code=Exit.TIMEOUT
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise CliError(
                f"cannot reach {self.config.url}",
                detail=str(error),
                next_command="./dev run, or set BERTH_URL",
            ) from error

    @staticmethod
    def _read(response: http.client.HTTPResponse, text: bytes) -> Reply:
        request_id = response.headers.get("X-Request-ID", "")
        try:
            body = json.loads(text) if text else None
        except ValueError:
            body = None
            if response.status < 400:
                raise CliError(
                    "the answer is not JSON; is this a Berth server?", request_id=request_id
                ) from None
        if response.status >= 400:
            raise from_problem(response.status, body if isinstance(body, dict) else {}, request_id)
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Reply(response.status, body, headers)

    def get(self, path: str, **params: str) -> Any:
        """Return the body of a read."""
        return self.call("GET", path, params=params or None).body

    def post(self, path: str, body: Any = None, **headers: str) -> Reply:
        """Write something."""
        return self.call("POST", path, body=body, headers=headers)

    def pages(self, path: str, params: dict[str, str], most: int) -> Iterator[dict[str, Any]]:
        """Yield the rows of a list across its pages, at most ``most``."""
        left = most
        query = dict(params)
        while left > 0:
            query["limit"] = str(min(left, 500))
            page = self.get(path, **query)
            yield from page["results"]
            left -= len(page["results"])
            if not page["next"]:
                return
            query["cursor"] = _cursor(page["next"])


def _cursor(url: str) -> str:
    return parse_qs(urlsplit(url).query)["cursor"][0]
