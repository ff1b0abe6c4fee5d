"""Clusters of a replay: synthetic, or described by a JSON document.

A document holds ``platforms``, the highest-end one first, each with ``name``, ``cores``,
``memory_bytes``, ``network_bps``, ``storage_bytes``, ``idle_watts`` and ``peak_watts``, and
``servers``, a list of ``{"platform": name, "count": 1, "rack": "r1"}``. A platform of the demo
cluster needs only its name; one without servers is left out. Servers without a rack fill racks of
40.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Final

import numpy as np

from apps.inventory.core.demo import PLATFORMS, PlatformFacts, platform_counts
from apps.inventory.core.snapshot import Ints
from apps.testbed.core.demo_cluster import SERVERS_PER_RACK
from apps.testbed.core.replay.errors import ReplayError
from apps.testbed.core.replay.model import ReplayCluster, ReplayPlatform

LARGEST: Final = 100_000  # servers of a cluster
MAX_CORES: Final = 4_096  # of a server
MAX_UNITS: Final = 4_000_000  # of a cluster: an agent's copy holds all of them


def synthetic_cluster(servers: int, *, seed: int = 1) -> ReplayCluster:
    """Servers of the fourteen demo platforms in proportion, shuffled over racks of 40.

    A small cluster has fewer platforms.

    Raises
    ------
    ReplayError : fewer than one server, or more than `LARGEST`.
    """
    if not 1 <= servers <= LARGEST:
        raise ReplayError(f"a cluster has 1 .. {LARGEST:,} servers, not {servers:,}")
    kinds = np.repeat(np.arange(len(PLATFORMS)), platform_counts(servers))
    return _cluster(
        f"{servers} servers",
        [_demo(facts) for facts in PLATFORMS],
        np.random.default_rng(seed).permutation(kinds),
        np.arange(servers) // SERVERS_PER_RACK,
    )


def cluster_from_document(document: object, *, name: str) -> ReplayCluster:
    """Read a JSON document.

    Raises
    ------
    ReplayError : names the part of the document and what is accepted.
    """
    top = _object(document, "the cluster")
    platforms = [
        _platform(entry, f"platforms[{i}]") for i, entry in enumerate(_list(top, "platforms"))
    ]
    index = {platform.name: i for i, platform in enumerate(platforms)}
    if len(index) < len(platforms):
        raise ReplayError("two platforms of the cluster have the same name")
    kinds: list[int] = []
    racks: list[str | None] = []
    for i, entry in enumerate(_list(top, "servers")):
        at = f"servers[{i}]"
        server = _object(entry, at)
        platform = server.get("platform")
        if not isinstance(platform, str) or platform not in index:
            raise ReplayError(f"{at}.platform must be one of {', '.join(index)}, not {platform!r}")
        count = _whole(server, "count", at, default=1)
        if not 1 <= count <= LARGEST - len(kinds):
            raise ReplayError(f"{at}.count must lie in 1 .. {LARGEST} in all, not {count}")
        kinds += [index[platform]] * count
        racks += [server.get("rack")] * count
    units = sum(platforms[kind].cores for kind in kinds)
    if units > MAX_UNITS:
        raise ReplayError(f"a cluster has at most {MAX_UNITS:,} cores, not {units:,}")
    return _cluster(name, platforms, np.array(kinds, dtype=np.int64), _racks(racks))


def document_of(cluster: ReplayCluster) -> dict[str, Any]:
    """JSON document of a cluster."""
    return {
        "platforms": [asdict(platform) for platform in cluster.platforms],
        "servers": [
            {"platform": cluster.platforms[p].name, "rack": f"rack-{rack:03d}"}
            for p, rack in zip(cluster.platform.tolist(), cluster.rack.tolist(), strict=True)
        ],
    }


def _cluster(
    name: str, platforms: Sequence[ReplayPlatform], platform: Ints, rack: Ints
) -> ReplayCluster:
    """Return a cluster without the platforms that have no server."""
    used, compact = np.unique(platform, return_inverse=True)
    return ReplayCluster(
        name, tuple(platforms[i] for i in used.tolist()), compact.astype(np.int64), rack
    )


def _demo(facts: PlatformFacts) -> ReplayPlatform:
    return ReplayPlatform(**{each.name: getattr(facts, each.name) for each in _COLUMNS})


_COLUMNS: Final = fields(ReplayPlatform)
_KNOWN: Final = {facts.name: _demo(facts) for facts in PLATFORMS}


def _platform(entry: object, at: str) -> ReplayPlatform:
    values = _object(entry, at)
    name = values.get("name")
    if not isinstance(name, str) or not name:
        raise ReplayError(f"{at}.name must be a text")
    if values.keys() == {"name"}:
        if name not in _KNOWN:
            raise ReplayError(f"{at}: {name} is not a demo platform, so it needs its capacities")
        return _KNOWN[name]
    cores = _whole(values, "cores", at)
    if not 1 <= cores <= MAX_CORES:
        raise ReplayError(f"{at}.cores must lie in 1 .. {MAX_CORES:,}, not {cores:,}")
    numbers = {each.name: _number(values, each.name, at) for each in _COLUMNS[2:]}
    return ReplayPlatform(name=name, cores=cores, **numbers)


def _racks(names: list[str | None]) -> Ints:
    """(S,) rack of each server: by name, in the order in which the names appear."""
    if all(name is None for name in names):
        return np.arange(len(names)) // SERVERS_PER_RACK
    if any(not isinstance(name, str) for name in names):
        raise ReplayError("servers: either every server has a rack, a text, or none has")
    numbers: dict[str | None, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)


def _object(value: object, at: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ReplayError(f"{at} must be a JSON object")
    return value


def _list(value: Mapping[str, Any], key: str) -> list[object]:
    found = value.get(key)
    if not isinstance(found, list) or not found:
        raise ReplayError(f"{key} must be a list with at least one entry")
    return found


def _number(
    values: Mapping[str, Any], key: str, at: str, *, default: float | None = None
) -> float:
    found = values.get(key, default)
    try:
        number = float(found) if isinstance(found, int | float) else np.nan
    except OverflowError:  # a whole number of more than 308 digits
        number = np.nan
    if isinstance(found, bool) or not np.isfinite(number):
        raise ReplayError(f"{at}.{key} must be a number")
    return number


def _whole(values: Mapping[str, Any], key: str, at: str, *, default: int | None = None) -> int:
    found = _number(values, key, at, default=default)
    if not found.is_integer():
        raise ReplayError(f"{at}.{key} must be a whole number, not {found:g}")
    return int(found)
