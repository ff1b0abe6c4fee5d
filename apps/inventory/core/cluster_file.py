"""Parsing of cluster files: platforms, racks and servers.

::

    name: north-quay  # optional
    platforms:  # highest-end first
    - {name, cores, memory_bytes, network_bps, storage_bytes, idle_watts, peak_watts}
    servers:
    - {name, platform, rack, labels?}
    racks:  # optional
    - {name, switch}  # the switch above it
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final

from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.inventory.core.file_checks import (
    Problems,
    check_fields,
    labels_of,
    number_of,
    rows_of,
    shown,
    text_of,
)

MAX_CORES: Final = 4096  # each is a database row
MAX_BYTES: Final = 2**53  # the largest exact integer in the float64 arrays of the cluster
MAX_WATTS: Final = 1e6
MAX_SHOWN: Final = 8  # names in one message


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
class RackSpec:
    """A rack and the switch above it."""

    name: str
    switch: str


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A whole cluster; platforms, highest-end first; an empty name keeps the current name."""

    name: str
    platforms: tuple[PlatformSpec, ...]
    servers: tuple[ServerSpec, ...]
    racks: tuple[RackSpec, ...] = ()


_SIZES: Final = {
    "cores": MAX_CORES,
    "memory_bytes": MAX_BYTES,
    "network_bps": MAX_BYTES,
    "storage_bytes": MAX_BYTES,
}
_WATTS: Final = ("idle_watts", "peak_watts")


def parse_cluster(data: Any) -> ClusterSpec:
    """Read a decoded JSON or YAML document.

    Raises
    ------
    InvalidInputError : lists the problems (at most 1,024), each with the value and the
        accepted values. No document raises any other error.
    """
    problems = Problems()
    if not isinstance(data, Mapping):
        message = f"expected an object with platforms and servers, got {shown(data)}"
        raise InvalidInputError([FieldProblem("", "type", message)])
    check_fields("", data, ("name", "platforms", "servers", "racks"), problems)
    name = text_of("", data, "name", problems) if "name" in data else ""
    rows = rows_of(data, "platforms", problems)
    known = {row["name"]: None for _, row in rows if isinstance(row.get("name"), str)}
    platforms = [_platform(at, row, problems) for at, row in rows]
    _find_duplicates(rows, problems)
    rows = rows_of(data, "servers", problems)
    servers = [_server(at, row, known, problems) for at, row in rows]
    _find_duplicates(rows, problems)
    racks = _racks(data, {server.rack for server in servers}, problems)
    if problems.count:
        raise InvalidInputError(problems.listed())
    return ClusterSpec(name, tuple(platforms), tuple(servers), racks)


def _platform(at: str, row: Mapping[Any, Any], problems: Problems) -> PlatformSpec:
    check_fields(at, row, ("name", *_SIZES, *_WATTS), problems)
    name = text_of(at, row, "name", problems)
    cores, memory, network, storage = (
        int(number_of(at, row, key, (1, maximum), problems, is_whole=True))
        for key, maximum in _SIZES.items()
    )
    idle, peak = (float(number_of(at, row, key, (0, MAX_WATTS), problems)) for key in _WATTS)
    if peak < idle:  # false if one of them is invalid, as that is a NaN
        message = f"expected at least idle_watts ({idle:g}), got {peak:g}"
        problems.add(f"{at}/peak_watts", "too_low", message)
    return PlatformSpec(name, cores, memory, network, storage, idle, peak)


def _server(
    at: str, row: Mapping[Any, Any], platforms: Iterable[str], problems: Problems
) -> ServerSpec:
    check_fields(at, row, ("name", "platform", "rack", "labels"), problems)
    name, rack = text_of(at, row, "name", problems), text_of(at, row, "rack", problems)
    platform = row.get("platform")
    if not isinstance(platform, str) or platform not in platforms:
        message = f"expected {_one_of(tuple(platforms))}, got {shown(platform)}"
        problems.add(f"{at}/platform", "unknown", message)
    labels = labels_of(f"{at}/labels", row.get("labels", {}), problems)
    return ServerSpec(name, str(platform), rack, labels) if not problems.count else _NO_SERVER


_NO_SERVER: Final = ServerSpec("", "", "")


def _racks(data: Mapping[Any, Any], used: Set[str], problems: Problems) -> tuple[RackSpec, ...]:
    if "racks" not in data:
        return ()
    rows = rows_of(data, "racks", problems)
    racks = []
    for at, row in rows:
        check_fields(at, row, ("name", "switch"), problems)
        name, switch = (text_of(at, row, key, problems) for key in ("name", "switch"))
        if name and not problems.count and name not in used:
            message = f"expected the rack of a server of the file, got {shown(name)}"
            problems.add(f"{at}/name", "unknown", message)
        racks.append(RackSpec(name, switch))
    _find_duplicates(rows, problems)
    return tuple(racks)


def _one_of(names: Sequence[str]) -> str:
    listed = ", ".join(shown(name) for name in names[:MAX_SHOWN])
    more = f" or {len(names) - MAX_SHOWN} others" if len(names) > MAX_SHOWN else ""
    return f"one of the platforms {listed}{more}" if names else "a platform of the file"


def _find_duplicates(rows: Sequence[tuple[str, Mapping[Any, Any]]], problems: Problems) -> None:
    first: dict[str, str] = {}
    for at, row in rows:
        name = row.get("name")
        if not isinstance(name, str):
            continue
        if name in first:
            message = f"expected a unique name, got {shown(name)} as at {first[name]}"
            problems.add(f"{at}/name", "duplicate", message)
        first.setdefault(name, at)
