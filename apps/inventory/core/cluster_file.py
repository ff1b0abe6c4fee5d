"""A cluster described in a file: platforms, racks, servers.

::

    name: north-quay
    platforms:  # best first
    - {name, cores, memory_bytes, network_bps, storage_bytes, idle_watts, peak_watts}
    servers:
    - {name, platform, rack, labels?}
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.common.core.errors import FieldProblem, InvalidInputError


@dataclass(frozen=True, slots=True)
class PlatformSpec:
    """One server configuration; sizes in bytes and bits/s, power in watts."""

    name: str
    cores: int
    memory_bytes: int
    network_bps: int
    storage_bytes: int
    idle_watts: float
    peak_watts: float


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """One server of a platform in a rack."""

    name: str
    platform: str
    rack: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A whole cluster; platforms from the highest-end down."""

    name: str
    platforms: tuple[PlatformSpec, ...]
    servers: tuple[ServerSpec, ...]


_WHOLE = ("cores", "memory_bytes", "network_bps", "storage_bytes")
_WATTS = ("idle_watts", "peak_watts")


def parse_cluster(data: Any) -> ClusterSpec:
    """Read a decoded JSON or YAML document.

    Raises
    ------
    InvalidInputError : lists every field that is wrong, the value seen and what would be right.
    """
    problems: list[FieldProblem] = []
    if not isinstance(data, Mapping):
        problems.append(FieldProblem("", "type", f"expected an object, got {data!r:.80}"))
        raise InvalidInputError(problems)
    platforms = [
        _platform(f"/platforms/{i}", row, problems)
        for i, row in enumerate(_rows(data, "platforms", problems))
    ]
    known = {platform.name for platform in platforms if platform}
    servers = [
        _server(f"/servers/{i}", row, known, problems)
        for i, row in enumerate(_rows(data, "servers", problems))
    ]
    _find_twice("/platforms", [p.name for p in platforms if p], problems)
    _find_twice("/servers", [s.name for s in servers if s], problems)
    if problems:
        raise InvalidInputError(problems)
    return ClusterSpec(
        name=str(data.get("name", "cluster")),
        platforms=tuple(platform for platform in platforms if platform),
        servers=tuple(server for server in servers if server),
    )


def _rows(
    data: Mapping[str, Any], key: str, problems: list[FieldProblem]
) -> Sequence[Mapping[str, Any]]:
    rows = data.get(key)
    if not isinstance(rows, list) or not rows:
        problems.append(FieldProblem(f"/{key}", "required", f"expected a non-empty list of {key}"))
        return []
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            message = f"expected an object, got {row!r:.80}"
            problems.append(FieldProblem(f"/{key}/{i}", "type", message))
    return [row for row in rows if isinstance(row, Mapping)]


def _text(at: str, row: Mapping[str, Any], key: str, problems: list[FieldProblem]) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= 63:
        message = f"expected 1 to 63 characters, got {value!r:.80}"
        problems.append(FieldProblem(f"{at}/{key}", "invalid", message))
        return ""
    return value


def _number(
    at: str, row: Mapping[str, Any], key: str, least: float, problems: list[FieldProblem]
) -> float:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < 2**62:
        message = f"expected a number of {least:g} or more, got {value!r:.80}"
        problems.append(FieldProblem(f"{at}/{key}", "invalid", message))
        return least
    return value


def _platform(
    at: str, row: Mapping[str, Any], problems: list[FieldProblem]
) -> PlatformSpec | None:
    before = len(problems)
    name = _text(at, row, "name", problems)
    cores, memory, network, storage = (int(_number(at, row, key, 1, problems)) for key in _WHOLE)
    idle, peak = (float(_number(at, row, key, 0, problems)) for key in _WATTS)
    if peak < idle:
        problems.append(
            FieldProblem(f"{at}/peak_watts", "invalid", "expected at least idle_watts")
        )
    if len(problems) > before:
        return None
    return PlatformSpec(name, cores, memory, network, storage, idle, peak)


def _server(
    at: str, row: Mapping[str, Any], platforms: set[str], problems: list[FieldProblem]
) -> ServerSpec | None:
    before = len(problems)
    name, rack = _text(at, row, "name", problems), _text(at, row, "rack", problems)
    platform, labels = row.get("platform"), row.get("labels", {})
    if platform not in platforms:
        message = f"expected one of {sorted(platforms)}, got {platform!r:.80}"
        problems.append(FieldProblem(f"{at}/platform", "unknown", message))
    if not isinstance(labels, Mapping) or not all(
        isinstance(k, str) and isinstance(v, str) for k, v in labels.items()
    ):
        problems.append(
            FieldProblem(f"{at}/labels", "invalid", f"expected texts by name, got {labels!r:.80}")
        )
    return ServerSpec(name, str(platform), rack, dict(labels)) if len(problems) == before else None


def _find_twice(at: str, names: Sequence[str], problems: list[FieldProblem]) -> None:
    seen: set[str] = set()
    for i, name in enumerate(names):
        if name in seen:
            message = f"{name!r} is there twice"
            problems.append(FieldProblem(f"{at}/{i}/name", "duplicate", message))
        seen.add(name)
