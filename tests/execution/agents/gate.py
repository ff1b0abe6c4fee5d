"""A way to the control plane that a test can close."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class Gate:
    """Forwards connections to a server while it is open, and refuses them while it is closed."""

    def __init__(self, url: str, host: str = "127.0.0.1") -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._server = (parts.hostname, parts.port or 80)
        self._listener = socket.create_server((host, 0))
        self.url = f"http://{host}:{self._listener.getsockname()[1]}"
        self._is_open = True
        self._passes = threading.Event()
        self._passes.set()
        self._open: set[socket.socket] = set()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self) -> None:
        """Break all connections and refuse new ones."""
        self._is_open = False
        for one in list(self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def open(self) -> None:
        """Forward again."""
        self._is_open = True

    def hold(self) -> None:
        """Forward nothing, and close no connection."""
        self._passes.clear()

    def release(self) -> None:
        """Forward what was held, and what comes."""
        self._passes.set()

    def _accept(self) -> None:
        while True:
            try:
                inside, _ = self._listener.accept()
            except OSError:
                return
            if not self._is_open:
                inside.close()
                continue
            threading.Thread(target=self._forward, args=(inside,), daemon=True).start()

    def _forward(self, inside: socket.socket) -> None:
        """Forward one connection in both directions until both ends have closed it."""
        with inside, suppress(OSError), socket.create_connection(self._server) as outside:
            self._open |= {inside, outside}
            if not self._is_open:  # since it was accepted
                self.close()
            answers = threading.Thread(target=self._copy, args=(outside, inside), daemon=True)
            answers.start()
            self._copy(inside, outside)
            answers.join()
            self._open -= {inside, outside}

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._passes.wait()
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def end(self) -> None:
        """Stop listening."""
        self.release()
        self.close()
        self._listener.shutdown(socket.SHUT_RDWR)  # ends `accept`
        self._accepting.join()
        self._listener.close()


@contextmanager
def gate_to(url: str, host: str = "127.0.0.1") -> Iterator[Gate]:
    """Return a gate to a server; it is closed afterwards."""
    gate = Gate(url, host)
    try:
        yield gate
    finally:
        gate.end()
