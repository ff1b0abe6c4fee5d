"""An API client with a persistent connection; standard library only, to start fast."""

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, Final
from urllib.parse import SplitResult, parse_qs, urlencode, urlsplit

from controlplane.cli.config import Config, load_config
from controlplane.cli.errors import CliError, Exit, from_problem

TIMEOUT_S: Final = 60.0
DOWNLOAD_BYTES: Final = 65536


@dataclass(frozen=True, slots=True)
class Reply:
    """A response; the body is decoded JSON, or None if empty."""

    status: int
    body: Any
    headers: dict[str, str]


class BerthClient:
    """A client of one server with one token."""

    def __init__(self, config: Config, *, timeout_s: float = TIMEOUT_S) -> None:
        self.config = config
        parts = _parts(config.url)
        connection_class = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._prefix = parts.path.rstrip("/")
        self._connection = connection_class(parts.netloc, timeout=timeout_s)

    def __enter__(self) -> "BerthClient":
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
        """Send a request and return the reply.

        Raises
        ------
        CliError : the server cannot be reached or returns an error.
        """
        address = self._prefix + path + (f"?{urlencode(params)}" if params else "")
        all_headers = {**self._headers(), **(headers or {})}
        content = None
        if body is not None:
            all_headers.setdefault("Content-Type", "application/json")
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._read(path, *self._exchange(method, address, content, all_headers))

    def download(self, path: str, params: dict[str, str], out: BinaryIO) -> None:
        """Write the body of a response to a file while it arrives.

        Raises
        ------
        CliError : the server cannot be reached or returns an error.
        """
        with self._network():
            self._connection.request(
                "GET", f"{self._prefix}{path}?{urlencode(params)}", headers=self._headers()
            )
            response = self._connection.getresponse()
        if response.status >= 400:
            self._read(path, response, response.read())
        while True:
            with self._network():
                chunk = response.read(DOWNLOAD_BYTES)
            if not chunk:
                break
            out.write(chunk)
        out.flush()

    def get_bytes(self, path: str, params: dict[str, str]) -> tuple[bytes, dict[str, str]]:
        """Send a GET request and return the body as it is, and the headers.

        Raises
        ------
        CliError : the server cannot be reached or returns an error.
        """
        address = f"{self._prefix}{path}?{urlencode(params)}"
        response, data = self._exchange("GET", address, None, self._headers())
        if response.status >= 400:
            self._read(path, response, data)
        return data, {name.lower(): value for name, value in response.headers.items()}

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if self.config.token:
            headers["Authorization"] = f"Bearer {self.config.token}"
        return headers

    def _exchange(
        self, method: str, address: str, content: bytes | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        with self._network():
            self._connection.request(method, address, content, headers)
            response = self._connection.getresponse()
            return response, response.read()

    @contextmanager
    def _network(self) -> Iterator[None]:
        """Turn errors of the connection into a CliError."""
        try:
            yield
        except TimeoutError as error:
            raise CliError(
                f"{self.config.url} did not answer in time", code=Exit.TIMEOUT
            ) from error
        except http.client.InvalidURL as error:
            raise _unsendable(error) from error
        except (OSError, http.client.HTTPException) as error:
            raise CliError(
                f"cannot reach {self.config.url}",
                detail=str(error),
                next_command="./dev run, or set BERTH_URL",
            ) from error
        except ValueError as error:  # a header, such as the token or a key
            raise _unsendable(error) from error

    @staticmethod
    def _read(path: str, response: http.client.HTTPResponse, text: bytes) -> Reply:
        request_id = response.headers.get("X-Request-ID", "")
        try:
            body = json.loads(text) if text else None
        except ValueError:
            body = None
            if response.status < 400:
                raise CliError(
                    "the response is not JSON; is this a Berth server?", request_id=request_id
                ) from None
        if response.status >= 400:
            problem = body if isinstance(body, dict) else {}
            raise from_problem(response.status, problem, request_id, path)
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Reply(response.status, body, headers)

    def get(self, path: str, **params: str) -> Any:
        """Send a GET request and return the body."""
        return self.call("GET", path, params=params or None).body

    def post(self, path: str, body: Any = None, **headers: str) -> Reply:
        """Send a POST request."""
        return self.call("POST", path, body=body, headers=headers)

    def pages(self, path: str, params: dict[str, str], limit: int) -> Iterator[dict[str, Any]]:
        """Yield up to ``limit`` rows of a paginated list."""
        remaining = limit
        query = dict(params)
        while remaining > 0:
            query["limit"] = str(min(remaining, 500))
            page = self.get(path, **query)
            yield from page["results"]
            remaining -= len(page["results"])
            if not page["next"]:
                return
            query["cursor"] = _cursor(page["next"])


def _unsendable(error: Exception) -> CliError:
    return CliError("the request cannot be sent", detail=str(error), code=Exit.USAGE)


def _parts(url: str) -> SplitResult:
    """Return the parts of a server's address.

    Raises
    ------
    CliError : it has no host, or its port is no number.
    """
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_whole = False
    if not is_whole:
        detail = f"must be http://HOST or http://HOST:PORT, not {url!r}"
        raise CliError("the server address is not valid", detail=detail, code=Exit.USAGE)
    return parts


def _cursor(url: str) -> str:
    return parse_qs(urlsplit(url).query)["cursor"][0]


def client_of(environ: Mapping[str, str], url: str | None) -> BerthClient:
    """Return a client for the configured server, or for `url`."""
    return BerthClient(load_config(environ, url))


def if_match(resource: Mapping[str, Any]) -> dict[str, str]:
    """Return the header that refuses a change of a resource changed since it was read."""
    return {"If-Match": f'"g{resource["generation"]}"'}
