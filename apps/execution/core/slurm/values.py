"""Jobs and nodes as the controller of Slurm describes them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MARK: Final = "berth"  # AdminComment of the jobs that `job_submit.lua` holds for Berth
MEBIBYTE: Final = 2**20


class Phase(StrEnum):
    """State of a Slurm job, as Berth distinguishes it."""

    PENDING = "pending"
    RUNNING = "running"  # also suspended: it keeps its cores
    ENDING = "ending"  # its processes or its epilogue have not ended
    ENDED = "ended"


PHASES: Final[dict[str, Phase]] = {
    "PENDING": Phase.PENDING,
    "REQUEUED": Phase.PENDING,
    "REQUEUE_HOLD": Phase.PENDING,
    "REQUEUE_FED": Phase.PENDING,
    "SPECIAL_EXIT": Phase.PENDING,
    "RESV_DEL_HOLD": Phase.PENDING,
    "RUNNING": Phase.RUNNING,
    "CONFIGURING": Phase.RUNNING,
    "SUSPENDED": Phase.RUNNING,
    "STOPPED": Phase.RUNNING,
    "RESIZING": Phase.RUNNING,
    "SIGNALING": Phase.RUNNING,
    "STAGE_OUT": Phase.ENDING,
    "COMPLETING": Phase.ENDING,
    "COMPLETED": Phase.ENDED,
    "CANCELLED": Phase.ENDED,
    "FAILED": Phase.ENDED,
    "TIMEOUT": Phase.ENDED,
    "NODE_FAIL": Phase.ENDED,
    "PREEMPTED": Phase.ENDED,
    "BOOT_FAIL": Phase.ENDED,
    "DEADLINE": Phase.ENDED,
    "OUT_OF_MEMORY": Phase.ENDED,
    "REVOKED": Phase.ENDED,
}
_DOWN: Final = frozenset({"DOWN", "ERROR", "FAIL", "NOT_RESPONDING", "POWERED_DOWN"})
_CLOSED: Final = frozenset(
    {"DRAIN", "DRAINED", "DRAINING", "MAINTENANCE", "RESERVED", "FUTURE", "INVALID"}
    | {"INVALID_REG", "REBOOT_REQUESTED", "REBOOT_ISSUED", "POWERING_DOWN", "POWERING_UP"}
)


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """One job of Slurm.

    Attributes
    ----------
    state : name of its state, such as RUNNING
    is_held : whether its priority is 0
    reason : why it waits, such as JobHeldUser
    mark : its AdminComment
    nodes : those it runs on, or ran on last
    required_nodes : those it requests
    cpus : that it requests or has
    node_count : number of nodes that it requests or has
    memory_bytes : that it requests on each node; 0 = not given
    features : that its nodes must have, as the user wrote them
    command : path of its script; empty = none
    submitted_s, started_s, ended_s : Unix seconds; None = not yet
    exit_code : of its script; a negative one is the number of the signal that killed it
    restarts : number of times that it was queued again
    is_array : whether it is an array, or a part of a heterogeneous job
    """

    id: int
    state: str
    name: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    is_held: bool = False
    reason: str = ""
    mark: str = ""
    nodes: tuple[str, ...] = ()
    required_nodes: tuple[str, ...] = ()
    cpus: int = 1
    node_count: int = 1
    memory_bytes: int = 0
    features: str = ""
    command: str = ""
    directory: str = ""
    submitted_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    exit_code: int | None = None
    restarts: int = 0
    is_array: bool = False

    @property
    def phase(self) -> Phase:
        """What its state means."""
        return PHASES[self.state]

    @property
    def is_suspended(self) -> bool:
        """Whether its processes are stopped and may continue."""
        return self.state == "SUSPENDED"

    @property
    def is_marked(self) -> bool:
        """Whether the hook has held it for Berth."""
        return self.mark.split(" ")[0] == MARK


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """One node of Slurm.

    Attributes
    ----------
    states : its state and the flags of its state, such as IDLE and DRAIN
    cpu_load : processes that run or wait for a core; None = not reported
    free_bytes : memory that is free; None = not reported
    storage_bytes : size of its file system for temporary files; 0 = not configured
    """

    name: str
    cpus: int
    sockets: int
    memory_bytes: int
    features: tuple[str, ...]
    partitions: tuple[str, ...]
    states: frozenset[str]
    cpu_load: float | None = None
    free_bytes: int | None = None
    storage_bytes: int = 0

    @property
    def is_down(self) -> bool:
        """Whether its jobs are lost."""
        return bool(self.states & _DOWN)

    @property
    def is_unknown(self) -> bool:
        """Whether the controller has started, and has not heard from it yet."""
        return "UNKNOWN" in self.states

    @property
    def is_closed(self) -> bool:
        """Whether it keeps its jobs and takes no new ones."""
        return bool(self.states & _CLOSED)
