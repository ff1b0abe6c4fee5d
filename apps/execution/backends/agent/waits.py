"""Samples of what a task waits for: its threads for the disk, its sockets for the network.

Without hardware counters or pressure files of its control group, the share of samples in
which something waits estimates the share of time: n samples have a standard error of at most
0.5 / √n.
"""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SAMPLE_S: Final = 0.4  # between two samples of a task
TABLES: Final = ("tcp", "tcp6", "udp", "udp6")
_LISTENS: Final = "0A"  # state of a socket whose queue holds connections, not packets
_PROC: Final = Path("/proc")


@dataclass(slots=True)
class WaitSamples:
    """Counts the samples of one task.

    Attributes
    ----------
    samples : so far
    disk, network : those that found a thread that waits for the disk, or a packet that waits in a
        queue of its sockets; None = the sockets may not be read
    """

    samples: int = 0
    disk: int = 0
    network: int | None = 0
    _due_s: float = 0.0

    def sample(self, processes: Iterable[int], *, proc: Path = _PROC) -> None:
        """Sample the processes of the task, unless the last sample is less than `SAMPLE_S` old."""
        now_s = time.monotonic()
        if now_s < self._due_s:
            return
        self._due_s = now_s + SAMPLE_S
        found = list(processes)
        self.samples += 1
        self.disk += any(_waits_for_disk(proc / str(process)) for process in found)
        if self.network is not None:
            try:
                self.network += any(_has_packets(proc / str(process)) for process in found)
            except PermissionError:
                self.network = None

    def shares(self) -> tuple[float | None, float | None]:
        """Return the shares of samples with a wait for the disk, and for the network."""
        if not self.samples:
            return None, None
        network = None if self.network is None else self.network / self.samples
        return self.disk / self.samples, network


def _waits_for_disk(process: Path) -> bool:
    """Return True if a thread is in the uninterruptible sleep of input and output."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in (process / "task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                if (thread / "stat").read_text().rpartition(") ")[2][0] == "D":
                    return True
    return False


def _has_packets(process: Path) -> bool:
    """Return True if bytes wait to be sent or read in a socket of the process.

    Raises
    ------
    PermissionError : its files may not be listed.
    """
    with suppress(FileNotFoundError, ProcessLookupError):
        sockets = set(_sockets(process))
        return bool(sockets) and any(inode in sockets for inode in _queued(process))
    return False


def _sockets(process: Path) -> Iterator[str]:
    for descriptor in (process / "fd").iterdir():
        with suppress(FileNotFoundError):
            target = os.readlink(descriptor)
            if target.startswith("socket:["):
                yield target[len("socket:[") : -1]


def _queued(process: Path) -> Iterator[str]:
    """Yield the inodes of sockets with queued bytes in the network namespace of a process."""
    for table in TABLES:
        with suppress(FileNotFoundError), (process / "net" / table).open() as stream:
            next(stream, "")
            for line in stream:
                fields = line.split()
                if fields[3] != _LISTENS and set(fields[4]) - {"0", ":"}:
                    yield fields[9]
