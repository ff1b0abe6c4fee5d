"""Messages between a node and its server (docs/node-protocol.md).

`cpu` and `memory` are integers in units that both ends agree on: thousandths of a core and bytes
on servers, millionths of the largest machine in the testbed.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from apps.common.core.errors import ControlPlaneError

PROTOCOL: Final = 1
MAX_FRAME: Final = 256 * 1024  # bytes of a line without its end


class Code(StrEnum):
    """Why one end closes a connection."""

    MALFORMED = "malformed"  # not a JSON object of a known type with valid fields
    OVERSIZED = "oversized"  # longer than `MAX_FRAME`
    VERSION = "version"  # another protocol number
    UNEXPECTED = "unexpected"  # valid, but not at this point
    SUPERSEDED = "superseded"  # the node has registered again
    SILENT = "silent"  # too many heartbeats are missing


class ProtocolError(ControlPlaneError):
    """The other end broke the protocol; ``code`` and text go into the last message to it."""

    def __init__(self, code: Code, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class Rejection(StrEnum):
    """Why a node rejects an order."""

    CPU = "cpu"
    MEMORY = "memory"
    ATTRIBUTES = "attributes"
    EPOCH = "epoch"  # the order belongs to an older registration
    UNSUPPORTED = "unsupported"  # the payload is nothing that this node can run


class Outcome(StrEnum):
    """How an order ended."""

    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"  # the server stopped it
    FENCED = "fenced"  # the node lost its server for longer than the lease
    LOST = "lost"  # the node does not know the order; concluded by the server


@dataclass(frozen=True, slots=True)
class Register:
    """Node: the first message of a connection. Free resources follow from what runs now."""

    node: str
    cpu: int
    memory: int
    free_cpu: int
    free_memory: int
    attributes: tuple[str, ...] = ()
    epoch: int = 0  # of its last registration; 0 = none
    running: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()  # reported, but not acknowledged
    protocol: int = PROTOCOL


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Node: what is free now, and how many orders it runs."""

    free_cpu: int
    free_memory: int
    tasks: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """Node: the order holds its resources and will start."""

    order: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """Node: the order does not fit into what is really free, or cannot run here."""

    order: str
    reason: Rejection
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Started:
    """Node: the order runs; accepts it if no `Accepted` came before."""

    order: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Node: what running orders use now, as (order, cpu, memory)."""

    used: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """Node: an order ended; repeated after every registration until acknowledged."""

    order: str
    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Welcome:
    """Server: answer to `Register`."""

    epoch: int
    heartbeat_s: float
    usage_s: float  # 0 = no usage
    lease_s: float  # without a message from the server for this long, the node stops its orders
    stop: tuple[str, ...] = ()  # running orders that the server gave to others meanwhile
    protocol: int = PROTOCOL


@dataclass(frozen=True, slots=True)
class Launch:
    """Server: start a task. The same order may come again; it starts once."""

    order: str
    epoch: int
    cpu: int
    memory: int
    needs: tuple[str, ...] = ()
    payload: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stop:
    """Server: end an order early."""

    order: str


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Server: the ends of these orders are stored; the node forgets them. Empty: keep-alive."""

    orders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Error:
    """Either end: the last message before it closes the connection."""

    code: Code
    detail: str


FromNode = Register | Heartbeat | Accepted | Rejected | Started | Usage | Ended | Error
FromServer = Welcome | Launch | Stop | Acknowledged | Error
Message = FromNode | FromServer
