"""One task of an agent: its directory, which is also the journal that survives the agent."""

import json
import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from apps.execution.backends.agent import limits, supervisor
from apps.execution.backends.agent.machine import boot_id
from apps.execution.backends.agent.supervisor import write_json
from apps.execution.backends.agent.usage import TaskMeter
from apps.execution.core.agent.wire import KEPT_BYTES, TaskSample

STARTING_S: Final = 10.0  # until its supervisor must have begun
STREAMS: Final = ("stdout", "stderr")


@dataclass(frozen=True, slots=True)
class Suspension:
    """Suspension of a task.

    Attributes
    ----------
    at_s : second of the monotonic clock at which it last changed; None = never
    before_s : wall seconds of all suspensions before
    """

    is_suspended: bool = False
    at_s: float | None = None
    before_s: float = 0.0


@dataclass(slots=True)
class Task:
    """One task.

    Attributes
    ----------
    known_s : second of the monotonic clock at which its order arrived
    group : name of its control groups; empty = that of its launch
    is_start_reported, is_end_reported : whether the control plane has confirmed it
    sent : position up to which each stream of the output was sent
    sent_s : second of the monotonic clock at which its last chunk was
    has_group : whether its control groups may be there
    has_exit : whether its supervisor is known to have written how it ended
    meter : of its usage, once its command runs
    """

    launch: int
    directory: Path
    known_s: float
    boot: str
    group: str
    sent: dict[str, int]
    is_start_reported: bool = False
    is_end_reported: bool = False
    meter: TaskMeter | None = None
    sent_s: dict[str, float] = field(default_factory=dict)
    has_group: bool = True
    has_exit: bool = False

    def read(self, name: str) -> dict[str, Any] | None:
        """Return what a file of the task holds; None if it does not exist."""
        return _read(self.directory / f"{name}.json")

    def has_supervisor(self) -> bool:
        """Return True while its supervisor runs, or may still begin."""
        claim = self.read("supervisor")
        if claim is None:
            return self.boot == boot_id() and time.monotonic() - self.known_s < STARTING_S
        if self.boot != boot_id():
            return False
        try:
            return supervisor.start_ticks(claim["pid"]) == claim["ticks"] and not _is_zombie(
                claim["pid"]
            )
        except (OSError, IndexError):
            return False

    def give_up(self) -> bool:
        """Claim the task, so that no supervisor can start it; returns False if one is running."""
        claim = self.directory / "supervisor.json"
        with suppress(OSError):  # there is one; on a full disk, no supervisor can write it either
            claim.touch(0o600, exist_ok=False)
        return not self.has_supervisor()

    def has_ended(self) -> bool:
        """Return True if its command does not run any more.

        One that was reported as lost and runs all the same has not ended.
        """
        self.has_exit = self.has_exit or self.read("exit") is not None
        return self.has_exit or (self.is_end_reported and not self.has_supervisor())

    def sample(self) -> TaskSample | None:
        """Return what its command used; None if it does not run, or no sample is due."""
        suspension = self.suspension()
        if suspension.is_suspended:
            if self.meter is not None:
                self.meter.pause()
            return None
        if self.meter is None:
            order, claim, started = map(self.read, ("order", "supervisor", "started"))
            if order is None or claim is None or started is None:
                return None
            self.meter = TaskMeter(order, supervisor=claim["pid"], started_s=started["at_s"])
        return self.meter.sample(self.launch, suspended_s=suspension.before_s)

    def suspend(self) -> None:
        """Let the supervisor suspend the processes; also the next supervisor after a restart."""
        (self.directory / supervisor.SUSPEND).touch()

    def resume(self) -> None:
        """Let the supervisor continue the processes."""
        (self.directory / supervisor.SUSPEND).unlink(missing_ok=True)

    def is_to_suspend(self) -> bool:
        """Return True if the supervisor was told to suspend it."""
        return (self.directory / supervisor.SUSPEND).exists()

    def suspension(self) -> Suspension:
        """Return whether its processes are stopped now, as its supervisor says."""
        found = self.read("suspension")
        return Suspension() if found is None else Suspension(**found)

    def stop(self) -> None:
        """Let the supervisor stop the command."""
        claim = self.read("supervisor")
        if claim is not None and self.has_supervisor():
            with suppress(ProcessLookupError):
                os.kill(claim["pid"], 15)

    def kill_left(self) -> None:
        """Kill what a supervisor that is gone has left; nothing without control groups."""
        order = self.read("order") or {}
        limits.kill(order.get("cgroups", ()), order.get("freezers", ()))

    def unsent(self, stream: str, *, limit: int) -> bytes:
        """Return the next output to send; skips what the control plane would not keep."""
        starts = sorted(int(p.suffix[1:]) for p in self.directory.glob(f"{stream}.[0-9]*"))
        if not starts:
            return b""
        end = starts[-1] + (self.directory / f"{stream}.{starts[-1]}").stat().st_size
        position = max(self.sent[stream], starts[0], end - KEPT_BYTES)
        self.sent[stream] = position
        for start in reversed(starts):
            if start <= position:
                with (
                    suppress(FileNotFoundError),
                    (self.directory / f"{stream}.{start}").open("rb") as file,
                ):
                    file.seek(position - start)
                    return file.read(limit)
        return b""

    def confirm_sent(self, stream: str, count: int) -> None:
        """Remember that output was stored by the control plane."""
        self.sent[stream] += count
        with suppress(OSError):  # on a full disk, the next agent sends it again
            write_json(str(self.directory / "sent.json"), self.sent)

    def confirm_end(self) -> None:
        """Remember that the end was stored by the control plane."""
        self.is_end_reported = True
        with suppress(OSError):  # on a full disk, the next agent reports it again
            (self.directory / "reported").touch()


def _read(path: Path) -> dict[str, Any] | None:
    """Return what a file holds; None without it, or if a loss of power has emptied it."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return found


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def known_task(directory: Path) -> Task | None:
    """Return the task of a directory; None, and delete it, if its order was not written."""
    order = _read(directory / "order.json")
    if order is None:
        shutil.rmtree(directory, ignore_errors=True)
        return None
    sent = dict.fromkeys(STREAMS, 0) | (_read(directory / "sent.json") or {})
    return Task(
        launch=order["launch"],
        directory=directory,
        known_s=order["known_s"],
        boot=order["boot"],
        group=order.get("group", ""),
        sent=sent,
        is_end_reported=(directory / "reported").exists(),
    )
