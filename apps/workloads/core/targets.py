"""Performance targets of jobs, of four kinds.

Source of the kinds: Quasar §3.1 (queries per second within a latency, completion time,
instructions per second).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from apps.common.core.errors import FieldProblem
from apps.workloads.core.checks import check_number, problem


class TargetKind(StrEnum):
    """Kinds of target."""

    COMPLETION_TIME = "completion_time"
    THROUGHPUT_LATENCY = "throughput_latency"
    IPS = "ips"
    BEST_EFFORT = "best_effort"


@dataclass(frozen=True, slots=True)
class CompletionTime:
    """Complete all work within ``seconds`` of cluster time after submission."""

    seconds: float

    kind = TargetKind.COMPLETION_TIME

    def as_json(self) -> dict[str, Any]:
        """JSON form."""
        return {"kind": "completion_time", "seconds": self.seconds}


@dataclass(frozen=True, slots=True)
class ThroughputLatency:
    """Serve ``qps`` queries per second with a latency percentile within ``latency_seconds``."""

    qps: float
    latency_seconds: float
    percentile: float = 99.0

    kind = TargetKind.THROUGHPUT_LATENCY

    def as_json(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "kind": "throughput_latency",
            "qps": self.qps,
            "latency_seconds": self.latency_seconds,
            "percentile": self.percentile,
        }


@dataclass(frozen=True, slots=True)
class InstructionRate:
    """Execute ``ips`` instructions per second, over the whole job."""

    ips: float

    kind = TargetKind.IPS

    def as_json(self) -> dict[str, Any]:
        """JSON form."""
        return {"kind": "ips", "ips": self.ips}


@dataclass(frozen=True, slots=True)
class BestEffort:
    """No guarantee: use the capacity that other jobs leave."""

    kind = TargetKind.BEST_EFFORT

    def as_json(self) -> dict[str, Any]:
        """JSON form."""
        return {"kind": "best_effort"}


Target = CompletionTime | ThroughputLatency | InstructionRate | BestEffort

NUMBER_LIMITS: Final[dict[str, tuple[float, float]]] = {
    "seconds": (1e-3, 1e9),
    "qps": (1e-6, 1e12),
    "latency_seconds": (1e-9, 1e6),
    "percentile": (1.0, 99.999),
    "ips": (1.0, 1e18),
}
_MAKERS: Final[dict[str, tuple[Callable[..., Target], frozenset[str], frozenset[str]]]] = {
    # kind: (class, required fields, allowed fields)
    "completion_time": (CompletionTime, frozenset({"seconds"}), frozenset({"seconds"})),
    "throughput_latency": (
        ThroughputLatency,
        frozenset({"qps", "latency_seconds"}),
        frozenset({"qps", "latency_seconds", "percentile"}),
    ),
    "ips": (InstructionRate, frozenset({"ips"}), frozenset({"ips"})),
    "best_effort": (BestEffort, frozenset(), frozenset()),
}


def check_target(value: object, pointer: str, problems: list[FieldProblem]) -> Target | None:
    """Parse a target; append its problems and return None if it is invalid."""
    if not isinstance(value, Mapping):
        problems.append(problem(pointer, "wrong_type", "must be an object with a kind"))
        return None
    kind = value.get("kind")
    maker = _MAKERS.get(kind) if isinstance(kind, str) else None
    if maker is None:
        known = ", ".join(_MAKERS)
        problems.append(
            problem(f"{pointer}/kind", "unknown_value", f"must be one of {known}, not {kind!r}")
        )
        return None
    make, required, allowed = maker
    found = len(problems)
    numbers: dict[str, float | None] = {}
    for name, number in value.items():
        if name in allowed:
            low, high = NUMBER_LIMITS[name]
            numbers[name] = check_number(number, f"{pointer}/{name}", problems, low, high)
        elif name != "kind":
            problems.append(
                problem(f"{pointer}/{name}", "unknown_field", f"a {kind} target has no {name!r}")
            )
    problems += [
        problem(f"{pointer}/{name}", "required", f"a {kind} target needs {name}")
        for name in sorted(required - numbers.keys())
    ]
    return make(**numbers) if len(problems) == found else None


def read_target(value: Mapping[str, Any]) -> Target:
    """Parse a stored target, which was checked at submission."""
    make, _, allowed = _MAKERS[value["kind"]]
    return make(**{name: value[name] for name in allowed if name in value})
