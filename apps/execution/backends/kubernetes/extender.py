"""The extender webhook: filter, prioritize and bind for a kube-scheduler, over HTTP or HTTPS.

kube-scheduler waits for every answer, so nothing here waits for the database. It authenticates
with a client certificate, or with a token, which Go sends from the user part of ``urlPrefix``.
"""

import json
import logging
import ssl
import time
from base64 import b64decode
from dataclasses import dataclass
from hmac import compare_digest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, Protocol

from apps.classification.core.profile import Profile
from apps.common.core.errors import ControlPlaneError
from apps.execution.backends.kubernetes.cluster import Cluster
from apps.execution.core.kubernetes.extender import (
    Args,
    ExchangeError,
    Verdict,
    View,
    binding_result,
    filter_error,
    filter_result,
    judge,
    priorities,
    read_args,
    read_binding,
)
from apps.execution.core.kubernetes.jobs import APPLICATION

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("berth.kubernetes")

MAX_BODY: Final = 64 * 2**20  # 5,000 whole nodes are about 50 MB
IDLE_S: Final = 120.0  # after which an idle connection is closed
NOT_READ: Final = "Berth has not read its cluster yet, or not for a minute"
_NOTHING: Final = Verdict({}, {})


class ExtenderSetupError(ControlPlaneError):
    """The options of the extender do not protect it, or name files that do not exist."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask, and over what.

    Attributes
    ----------
    token : that requests must carry; empty = none
    certificate, key : of this server; None = plain HTTP
    client_ca : certificates of clients must be signed by it; None = none are asked for
    """

    token: str = ""
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS of the server; None for plain HTTP.

        Raises
        ------
        ExtenderSetupError : nothing protects it, or a file is missing or malformed.
        """
        if not self.token and self.client_ca is None:
            raise ExtenderSetupError("the extender needs a token file or a client CA")
        if self.certificate is None:
            if self.client_ca is not None:
                raise ExtenderSetupError("client certificates need a certificate of the server")
            return None
        try:
            found = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            found.load_cert_chain(self.certificate, self.key)
            if self.client_ca is not None:
                found.load_verify_locations(self.client_ca)
                found.verify_mode = ssl.CERT_REQUIRED
        except OSError as error:
            raise ExtenderSetupError(f"TLS of the extender: {error}") from error
        return found

    def allows(self, header: str) -> bool:
        """Tell whether an Authorization header carries the token, as Basic or Bearer."""
        if not self.token:
            return True  # the client certificate was checked
        kind, _, value = header.partition(" ")
        if kind == "Basic":
            try:
                value = b64decode(value, validate=True).decode().partition(":")[2]
            except ValueError:
                return False
        elif kind != "Bearer":
            return False
        return compare_digest(value.encode(), self.token.encode())


class ViewSource(Protocol):
    """The copy of the cluster and the profiles by which nodes are judged.

    No method waits for the database.
    """

    def current(self, now_s: float) -> View | None:
        """Return the last copy of the cluster; None if there is none, or it is too old."""

    def profile(self, application: str | None) -> Profile | None:
        """Return the profile of an application; None if it has none, or none was read yet."""


@dataclass(frozen=True, slots=True)
class Extender:
    """Answers the three verbs."""

    cluster: Cluster
    views: ViewSource

    def filter(self, data: object) -> dict[str, Any]:
        """Return an ExtenderFilterResult; what goes wrong is its Error."""
        try:
            args = read_args(data)
        except ExchangeError as error:
            return filter_error(str(error))
        verdict = self._verdict(args)
        return filter_error(NOT_READ) if verdict is None else filter_result(args, verdict)

    def prioritize(self, data: object) -> list[dict[str, Any]]:
        """Return a HostPriorityList; it has no place for an error: every node scores 0.

        Raises
        ------
        ExchangeError : the request is malformed.
        """
        args = read_args(data)
        return priorities(args, self._verdict(args) or _NOTHING)

    def bind(self, data: object) -> dict[str, str]:
        """Bind a pod; return an ExtenderBindingResult."""
        try:
            args = read_binding(data)
            self.cluster.bind(args.pod, args.node)
        except Exception as error:  # noqa: BLE001 - the outer rim: the scheduler must be told
            return binding_result(str(error))
        return binding_result()

    def _verdict(self, args: Args) -> Verdict | None:
        view = self.views.current(time.monotonic())
        if view is None:
            return None
        profile = self.views.profile(args.pod.annotations.get(APPLICATION))
        return judge(args.pod, args.names, view, profile)


class ExtenderServer:
    """The extender on an address, with threads for its connections.

    Raises
    ------
    ExtenderSetupError : the address is taken, or `Access.context` refuses.
    """

    def __init__(self, address: tuple[str, int], extender: Extender, access: Access) -> None:
        context = access.context()
        try:
            self._http = ThreadingHTTPServer(address, _handler(extender, access))
        except OSError as error:
            raise ExtenderSetupError(f"{address[0]}:{address[1]}: {error}") from error
        self._http.daemon_threads = True
        if context is not None:
            # the handshake is made in the thread of the connection, at its first read
            self._http.socket = context.wrap_socket(
                self._http.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = Thread(target=self._http.serve_forever, args=(0.2,), daemon=True)

    @property
    def port(self) -> int:
        """Port that it listens on."""
        return int(self._http.server_address[1])

    def start(self) -> None:
        """Answer requests."""
        self._thread.start()

    def stop(self) -> None:
        """Close the address."""
        self._http.shutdown()
        self._http.server_close()


def _handler(extender: Extender, access: Access) -> type[BaseHTTPRequestHandler]:
    verbs: dict[str, Callable[[object], Any]] = {
        "filter": extender.filter,
        "prioritize": extender.prioritize,
        "bind": extender.bind,
    }

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        timeout = IDLE_S

        def do_GET(self) -> None:
            """Answer the probe of a kubelet."""
            self._answer(*((200, "ok") if self.path == "/healthz" else (404, "unknown path")))

        def do_POST(self) -> None:
            """Answer one verb."""
            size = int(self.headers.get("Content-Length") or 0)
            if not access.allows(self.headers.get("Authorization", "")):
                self._refuse(401, "a token is needed")
                return
            if size > MAX_BODY:
                self._refuse(413, f"at most {MAX_BODY} bytes")
                return
            body = self.rfile.read(size)
            verb = verbs.get(self.path.rstrip("/").rsplit("/", 1)[-1])
            if verb is None:
                self._answer(404, "unknown verb; known are filter, prioritize and bind")
                return
            try:
                self._answer(200, verb(json.loads(body)))
            except (ValueError, ExchangeError) as error:
                self._answer(400, str(error))

        def _refuse(self, code: int, text: str) -> None:
            """Answer without reading the body, so the connection cannot go on."""
            self.close_connection = True
            self._answer(code, text)

        def _answer(self, code: int, body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Log requests only where debugging is on: there are three of every pod."""
            logger.debug(format, *args)

    return Handler
