"""What every backend and the control plane exchange about launches, whatever executes them.

A report may arrive twice, as a connection can break after the commit, so reports are idempotent.
The state of a launch only advances: requested, running, ended.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """How a launch ended, as its backend reports it."""

    FINISHED = "finished"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class EndReport:
    """The end of a launch and its cluster time.

    Attributes
    ----------
    outcome : a value of `Outcome`
    message : reason of a failure
    exit_code : of a command; None = it has none, or was not started
    """

    launch: int
    at_s: float
    outcome: str
    message: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class SuspensionReport:
    """The processes of a launch were stopped, or run again, and the cluster time of it."""

    launch: int
    at_s: float
    is_suspended: bool


@dataclass(frozen=True, slots=True)
class CommandOrder:
    """One launch of a command on one server.

    Attributes
    ----------
    launch : id of the launch
    job, name : id and name of the job
    is_running : whether its start was reported
    stop : whether it must be stopped, or not be started
    cores : numbers of the cores that its units name
    memory_bytes : limit
    duration_s : wall seconds after which it is stopped, without those in which it was suspended;
        None = no limit
    suspend : whether its processes must be stopped now, and may continue later
    is_suspended : whether the control plane has recorded that they are stopped
    files : digest of the archive of its working directory; empty = it has none
    user : account that runs it; empty = that of the agent's configuration
    probe : stressors and seconds of a window, if a copy of the command is to be profiled; its
        report is then the output
    progress_command : prints the progress; empty = the command writes it into a file
    progress_every_s : wall seconds between two runs of the progress command
    """

    launch: int
    job: str
    name: str
    is_running: bool
    stop: bool
    cores: tuple[int, ...]
    memory_bytes: int
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    working_directory: str | None = None
    duration_s: float | None = None
    suspend: bool = False
    is_suspended: bool = False
    files: str = ""
    user: str = ""
    probe: Mapping[str, Any] | None = None
    progress_command: tuple[str, ...] = ()
    progress_every_s: float = 0.0
