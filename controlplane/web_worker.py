"""The worker class of the web process: gunicorn's, which answers in problem documents.

gunicorn itself answers requests that it cannot parse, with HTML. It does not know their path, so
all of these answers are problem documents, also to browsers.
"""

from typing import Any

from gunicorn.http.errors import ParseException
from gunicorn.workers.gthread import ThreadWorker

from apps.common.infrastructure.collector import spare_loaded_objects
from controlplane.malformed_http import problem_response


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """Threads that serve requests; errors of HTTP itself are problem documents."""

    def load_wsgi(self) -> None:
        """Load the application, which stays."""
        super().load_wsgi()
        spare_loaded_objects()

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Log the error as gunicorn does, and answer with the same status."""
        written = _Recorder()
        super().handle_error(req, written, addr, exc)
        status_line = written.data.partition(b"\r\n")[0]
        detail = str(exc) if isinstance(exc, ParseException) else ""
        try:
            client.sendall(problem_response(status_line, detail))
        except OSError as error:
            self.log.debug("Failed to send error message. %s", error)


class _Recorder:
    """In place of the client's socket: keeps what is sent."""

    def __init__(self) -> None:
        self.data = b""

    def gettimeout(self) -> float:
        """Return 0: it never blocks."""
        return 0.0

    def sendall(self, data: bytes) -> None:
        """Keep the data."""
        self.data += data

    def getpeername(self) -> str:
        """Return no address: only the access log asks."""
        return ""

    getsockname = getpeername
