"""JSON of the messages between an agent and the control plane: reports, and orders.

The agent runs this module too, so it imports the standard library only.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, NamedTuple

from apps.execution.core.port import CommandOrder, Outcome

PROTOCOL: Final = 4
SUSPENDS_FROM: Final = 2  # protocol of the first agents that can suspend a command
FILES_FROM: Final = 3  # of those that know files and users
PROGRESS_FROM: Final = 4  # of those that know progress commands, and ignore unknown fields
GRACE_S: Final = 30.0  # how much later than an agent the control plane ends its lease
HEARTBEAT_S: Final = 5.0
MAX_WAIT_S: Final = 10.0  # of a request to the web process, where few may wait
MAX_STREAM_WAIT_S: Final = 30.0  # of one to the stream process; below what proxies allow
MAX_REPORTS: Final = 1000
KEPT_BYTES: Final = 1 << 20  # of each output stream of a launch
MAX_CHUNK: Final = 1 << 16  # of output in one request
MAX_MESSAGE: Final = 500
STARTED: Final = "started"
LOST: Final = "lost"  # not by its own fault: its job is queued again
SUSPENDED: Final = "suspended"
RESUMED: Final = "resumed"
_SHARES: Final = (
    *("cpu_share", "run_wait", "blocked"),
    *("cpu_pressure", "memory_pressure", "io_pressure", "disk_wait", "network_wait", "progress"),
)
# fields of orders since protocol 2
_NEW: Final = frozenset(
    {"suspend", "is_suspended", "files", "user", "probe", "progress_command", "progress_every_s"}
)
_KNOWN: Final = frozenset(field.name for field in fields(CommandOrder))
_STATES: Final = frozenset(
    {STARTED, LOST, SUSPENDED, RESUMED, *(outcome.value for outcome in Outcome)}
)


@dataclass(frozen=True, slots=True)
class TaskReport:
    """A change of one launch.

    Attributes
    ----------
    age_s : wall seconds since it happened, when it is sent
    ran_s : wall seconds from its start to its end; None = it has not ended or not started, or the
        agent is older than this field
    state : `STARTED`, `SUSPENDED`, `RESUMED`, `LOST`, or a value of `Outcome`
    """

    launch: int
    state: str
    age_s: float
    message: str = ""
    exit_code: int | None = None
    ran_s: float | None = None


@dataclass(frozen=True, slots=True)
class TaskSample:
    """Usage of a task since its last sample, and its progress; None = not known.

    Attributes
    ----------
    cpu_share : of its cores
    run_wait, blocked : shares of the time of its threads
    cpu_pressure, memory_pressure, io_pressure : shares of the time in which a process waited
    disk_wait, network_wait : shares of the time in which one of its threads waited for the disk,
        or a packet in a queue of its sockets
    progress : share of the work done, as the command says
    progress_per_s : since the command began to say so
    """

    launch: int
    cpu_share: float
    run_wait: float | None = None
    blocked: float | None = None
    memory_bytes: int | None = None
    cpu_pressure: float | None = None
    memory_pressure: float | None = None
    io_pressure: float | None = None
    disk_wait: float | None = None
    network_wait: float | None = None
    progress: float | None = None
    progress_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class MachineUsage:
    """Usage of a machine, as shares of 0-1."""

    cpu_share: float
    memory_share: float
    storage_share: float = 0.0


def read_report(data: Any) -> TaskReport:
    """Read a report.

    Raises
    ------
    ValueError : names the field.
    """
    if not isinstance(data, Mapping):
        raise ValueError("a report must be an object")  # noqa: TRY004 - one error for all input
    launch, state, age_s = data.get("launch"), data.get("state"), data.get("age_s")
    message, code, ran_s = data.get("message", ""), data.get("exit_code"), data.get("ran_s")
    if type(launch) is not int or not 0 < launch < 2**63:
        raise ValueError(f"launch must be the id of a launch, not {launch!r:.40}")
    if state not in _STATES:
        known = ", ".join(sorted(_STATES))
        raise ValueError(f"state must be one of {known}, not {state!r:.40}")
    if not _is_seconds(age_s):
        raise ValueError(f"age_s must be a number of seconds, not {age_s!r:.40}")
    if ran_s is not None and not _is_seconds(ran_s):
        raise ValueError(f"ran_s must be a number of seconds or null, not {ran_s!r:.40}")
    if code is not None and (type(code) is not int or not -(2**15) <= code < 2**15):
        raise ValueError(f"exit_code must be a small whole number or null, not {code!r:.40}")
    if not isinstance(message, str):
        raise ValueError(f"message must be a string, not {message!r:.40}")  # noqa: TRY004
    ran_s = None if ran_s is None else float(ran_s)
    return TaskReport(launch, str(state), float(age_s or 0.0), _storable(message), code, ran_s)


def _is_seconds(value: Any) -> bool:
    return type(value) in {int, float} and 0.0 <= value <= 1e9


def _storable(message: str) -> str:
    """Return a message without what the database refuses: NUL and lone surrogates."""
    text = message[:MAX_MESSAGE].replace("\0", "")
    return text.encode(errors="replace").decode()


def read_sample(data: Any) -> TaskSample:
    """Read a sample.

    Raises
    ------
    ValueError : names the field.
    """
    if not isinstance(data, Mapping):
        raise ValueError("a sample must be an object")  # noqa: TRY004 - as above
    launch, memory = data.get("launch"), data.get("memory_bytes")
    if type(launch) is not int or not 0 < launch < 2**63:
        raise ValueError(f"launch must be the id of a launch, not {launch!r:.40}")
    if memory is not None and (type(memory) is not int or not 0 <= memory < 2**63):
        raise ValueError(f"memory_bytes must be a number of bytes or null, not {memory!r:.40}")
    values: dict[str, float | None] = {}
    for name in _SHARES:
        value = data.get(name)
        is_optional = name != "cpu_share"
        if not (value is None and is_optional) and not _is_between(value, 1.0):
            raise ValueError(f"{name} must be between 0 and 1, not {value!r:.40}")
        values[name] = value
    per_s = data.get("progress_per_s")
    if per_s is not None and not _is_between(per_s, 1e9):
        raise ValueError(f"progress_per_s must be a share per second, not {per_s!r:.40}")
    return TaskSample(
        launch=launch,
        memory_bytes=memory,
        progress_per_s=per_s,
        **values,  # type: ignore[arg-type]
    )


def _is_between(value: Any, highest: float) -> bool:
    return type(value) in {int, float} and 0.0 <= value <= highest


def read_usage(data: Any) -> MachineUsage:
    """Read what a machine uses.

    Raises
    ------
    ValueError : names the field.
    """
    if not isinstance(data, Mapping):
        raise ValueError("usage must be an object")  # noqa: TRY004 - as above
    values = {}
    for name in ("cpu_share", "memory_share", "storage_share"):
        value = data.get(name, 0.0)
        if type(value) not in {int, float} or not 0.0 <= value <= 1.0:
            raise ValueError(f"{name} must be between 0 and 1, not {value!r:.40}")
        values[name] = float(value)
    return MachineUsage(**values)


class KnownOrders(NamedTuple):
    """The orders that an agent knows: launches to run, and those of them to suspend."""

    live: frozenset[int] = frozenset()
    suspended: frozenset[int] = frozenset()


def known_orders(orders: Iterable[CommandOrder]) -> KnownOrders:
    """Return what an agent knows once it has these orders."""
    live = [order for order in orders if not order.stop]
    return KnownOrders(
        frozenset(order.launch for order in live),
        frozenset(order.launch for order in live if order.suspend),
    )


def known_orders_json(known: KnownOrders) -> dict[str, list[int]]:
    """JSON of known orders; without a field that an older control plane refuses."""
    suspended = {"suspended": sorted(known.suspended)} if known.suspended else {}
    return {"known": sorted(known.live), **suspended}


def read_known_orders(given: Mapping[str, Any]) -> KnownOrders:
    """Read known orders from the fields of a request."""
    return KnownOrders(frozenset(given["known"]), frozenset(given["suspended"]))


def order_json(order: CommandOrder) -> dict[str, Any]:
    """JSON of an order; without the fields that older agents refuse, unless they say something."""
    values = asdict(order)
    return {name: value for name, value in values.items() if name not in _NEW or value}


def protocol_of(order: CommandOrder) -> int:
    """Return the protocol of the oldest agents that can carry an order out."""
    if order.progress_command:
        return PROGRESS_FROM
    return FILES_FROM if order.files or order.user else 1


def read_order(data: Mapping[str, Any]) -> CommandOrder:
    """Read an order; the control plane is trusted, and may be newer."""
    return CommandOrder(
        **{
            **{name: value for name, value in data.items() if name in _KNOWN},
            "cores": tuple(data["cores"]),
            "command": tuple(data["command"]),
            "progress_command": tuple(data.get("progress_command", ())),
        }
    )
