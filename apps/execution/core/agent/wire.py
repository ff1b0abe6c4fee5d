"""JSON of the messages between an agent and the control plane: reports, and orders.

The agent runs this module too, so it imports the standard library only.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from apps.execution.core.port import CommandOrder, Outcome

PROTOCOL: Final = 1
GRACE_S: Final = 30.0  # how much later than an agent the control plane ends its lease
HEARTBEAT_S: Final = 5.0
MAX_WAIT_S: Final = 10.0  # of a request to the web process, where few may wait
MAX_STREAM_WAIT_S: Final = 30.0  # of one to the stream process; below what proxies allow
MAX_REPORTS: Final = 1000
MAX_MESSAGE: Final = 500
STARTED: Final = "started"
LOST: Final = "lost"  # not by its own fault: its job is queued again
_STATES: Final = frozenset({STARTED, LOST, *(outcome.value for outcome in Outcome)})


@dataclass(frozen=True, slots=True)
class TaskReport:
    """A change of one launch.

    Attributes
    ----------
    age_s : wall seconds since it happened, when it is sent
    state : `STARTED`, `LOST`, or a value of `Outcome`
    """

    launch: int
    state: str
    age_s: float
    message: str = ""
    exit_code: int | None = None


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
    message, code = data.get("message", ""), data.get("exit_code")
    if type(launch) is not int or not 0 < launch < 2**63:
        raise ValueError(f"launch must be the id of a launch, not {launch!r:.40}")
    if state not in _STATES:
        known = ", ".join(sorted(_STATES))
        raise ValueError(f"state must be one of {known}, not {state!r:.40}")
    if type(age_s) not in {int, float} or not 0.0 <= float(age_s or 0.0) <= 1e9:
        raise ValueError(f"age_s must be a number of seconds, not {age_s!r:.40}")
    if code is not None and (type(code) is not int or not -(2**15) <= code < 2**15):
        raise ValueError(f"exit_code must be a small whole number or null, not {code!r:.40}")
    if not isinstance(message, str):
        raise ValueError(f"message must be a string, not {message!r:.40}")  # noqa: TRY004
    return TaskReport(launch, str(state), float(age_s or 0.0), message[:MAX_MESSAGE], code)


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


def order_json(order: CommandOrder) -> dict[str, Any]:
    """JSON of an order."""
    return asdict(order)


def read_order(data: Mapping[str, Any]) -> CommandOrder:
    """Read an order; the control plane is trusted."""
    return CommandOrder(
        **{**data, "cores": tuple(data["cores"]), "command": tuple(data["command"])}
    )
