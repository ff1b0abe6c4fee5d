"""A Slurm whose jobs and nodes are listed by slurmrestd; everything else by its programs."""

import socket
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from apps.execution.backends.slurm.commands import TIMEOUT_S, Slurm, SlurmAwayError
from apps.execution.core.slurm.answers import read_jobs, read_nodes
from apps.execution.core.slurm.values import SlurmJob, SlurmNode

_OK: Final = 200


class _SocketConnection(HTTPConnection):
    """HTTP through a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket; a failure leaves none open."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self._path)


@dataclass(frozen=True, slots=True)
class Slurmrestd:
    """One slurmrestd, and who asks it.

    Attributes
    ----------
    url : http://HOST:PORT, https://HOST:PORT or unix:/PATH
    user : whom the token stands for
    token_file : holds a JSON Web Token; read for each call, so that it may be renewed

    Raises
    ------
    ValueError : the URL is of none of these forms.
    """

    url: str
    user: str
    token_file: Path

    def __post_init__(self) -> None:
        """Check the URL."""
        self._connection().close()

    def get(self, path: str) -> str:
        """Return the body of the answer to GET.

        Raises
        ------
        SlurmAwayError : no answer, or another one than 200; it names the call and the answer.
        """
        call = f"slurmrestd, GET {path}"
        connection = self._connection()
        try:
            connection.request("GET", path, headers=self._headers(call))
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        except (OSError, HTTPException) as error:
            raise SlurmAwayError(f"{call}: {error!r:.200}") from error
        finally:
            connection.close()
        if answer.status != _OK:
            said = " ".join(text.split())[:300]
            raise SlurmAwayError(f"{call}: status {answer.status}: {said}")
        return text

    def _headers(self, call: str) -> dict[str, str]:
        token = self.token_file.read_text().strip().removeprefix("SLURM_JWT=")
        if len(token.split()) != 1:
            raise SlurmAwayError(f"{call}: {self.token_file} must hold one token")
        return {
            "X-SLURM-USER-NAME": self.user,
            "X-SLURM-USER-TOKEN": token,
            "Accept": "application/json",
            "Connection": "close",
        }

    def _connection(self) -> HTTPConnection:
        parts = urlsplit(self.url)
        match parts.scheme:
            case "unix" if parts.path:
                return _SocketConnection(parts.path)
            case "http" if parts.hostname:
                return HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_S)
            case "https" if parts.hostname:
                return HTTPSConnection(parts.hostname, parts.port, timeout=TIMEOUT_S)
        raise ValueError(f"not http://HOST:PORT, https://HOST:PORT or unix:/PATH: {self.url!r}")


@dataclass(kw_only=True)
class RestSlurm(Slurm):
    """Lists jobs and nodes through slurmrestd, by the schema of the programs' version.

    Edits, cancellations, usage and accounting stay with the programs: one ``scontrol`` changes any
    number of jobs, and v0.0.38 has no call that suspends or requeues.
    """

    rest: Slurmrestd

    def jobs(self) -> list[SlurmJob]:
        """Return all jobs that the controller knows: those that ended stay for MinJobAge."""
        return read_jobs(self._get("jobs"), source="slurmrestd")

    def nodes(self) -> list[SlurmNode]:
        """Return all nodes."""
        return read_nodes(self._get("nodes"), source="slurmrestd")

    def _get(self, what: str) -> str:
        return self.rest.get(f"/slurm/{self.version.schema}/{what}")
