"""Which short runs an unknown application gets: four at most, all at once.

Two sizes on the highest-end platform, the first also carrying the microbenchmarks of two sources;
one on several servers, where the kind of application spreads at all; one on another platform.

Source: Quasar §3.4 (Q8), Paragon §3.3 (P3).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from apps.common.core.interference import SOURCES

SOURCES_PROBED: Final = 2
SIZES: Final = (2, 4, 8, 16, 32)  # columns of the scaling matrices beyond the first
SPREADS: Final = frozenset({"analytics", "latency_critical"})  # kinds that use several servers


@dataclass(frozen=True, slots=True)
class PlatformShape:
    """A platform of the cluster: its name, how many servers it has, the cores of each."""

    name: str
    servers: int
    cores: int


def plan(
    kind: str, platforms: Sequence[PlatformShape], rng: np.random.Generator
) -> dict[str, Any]:
    """Draw the runs of one application.

    Parameters
    ----------
    platforms : highest-end first; at least one

    Returns
    -------
    ``{"runs": [{"platform", "servers", "units", "sources"}, ...]}``, ready for JSON. The first run
    has one unit of the highest-end platform, to which every other is compared.

    Raises
    ------
    ValueError : no platform.
    """
    if not platforms:
        raise ValueError("an application can only be profiled on a cluster that has servers")
    best, others = platforms[0], platforms[1:]
    sources = rng.choice(SOURCES, size=SOURCES_PROBED, replace=False).tolist()
    runs = [_run(best, sources=sources)]
    up = [size for size in SIZES if size <= best.cores]
    if up:
        runs.append(_run(best, units=int(rng.choice(up))))
    out = [size for size in SIZES if size <= best.servers]
    if out and kind in SPREADS:
        runs.append(_run(best, servers=int(rng.choice(out))))
    if others:
        runs.append(_run(others[int(rng.integers(len(others)))]))
    return {"runs": runs}


def _run(
    platform: PlatformShape, *, servers: int = 1, units: int = 1, sources: Sequence[str] = ()
) -> dict[str, Any]:
    return {
        "platform": platform.name,
        "servers": servers,
        "units": units,
        "sources": list(sources),
    }
