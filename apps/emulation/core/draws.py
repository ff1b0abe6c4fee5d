"""Random generation of the hidden truth of applications (docs/emulation.md).

The distributions were fixed before any classifier was tuned. A few latent factors (four
bottlenecks, six families) explain most of each row, so rows resemble each other as in the data of
Paragon and Quasar.
"""

from types import MappingProxyType
from typing import Final

import numpy as np

from apps.common.core.arrays import as_readonly
from apps.common.core.interference import N_SOURCES
from apps.emulation.core.platforms import Catalogue
from apps.emulation.core.seeds import generator
from apps.emulation.core.truth import (
    BLOCK_BYTES,
    Demand,
    Framework,
    Phases,
    Traffic,
    Truth,
    UniversalScaling,
)
from apps.inventory.core.snapshot import Floats
from apps.workloads.core.framework import HAS_SETTINGS

ANALYTICS: Final = "analytics"
LATENCY_CRITICAL: Final = "latency_critical"
SINGLE_NODE: Final = "single_node"
BATCH: Final = "batch"
KINDS: Final = (ANALYTICS, LATENCY_CRITICAL, SINGLE_NODE, BATCH)

# Caused scores of six families; columns in the order of SOURCES: memory capacity, memory
# bandwidth, LLC capacity, LLC bandwidth, L1i, L1d, TLB, core, network, storage.
FAMILIES: Final = MappingProxyType(
    {
        "compute": (20, 35, 35, 35, 25, 60, 30, 88, 5, 5),
        "memory": (62, 88, 75, 70, 15, 45, 62, 48, 10, 8),
        "cache": (32, 50, 86, 76, 35, 62, 42, 58, 10, 5),
        "disk": (45, 48, 30, 25, 15, 25, 25, 35, 28, 86),
        "shuffle": (42, 40, 30, 25, 20, 25, 25, 35, 86, 42),
        "code": (28, 25, 45, 42, 82, 50, 66, 60, 58, 10),
    }
)
# Dirichlet weights of the families, and of the bottlenecks (compute, memory, storage, network).
FAMILY_WEIGHTS: Final = MappingProxyType(
    {
        ANALYTICS: (0.25, 0.30, 0.15, 0.80, 0.80, 0.10),
        LATENCY_CRITICAL: (0.15, 0.40, 0.60, 0.05, 0.30, 0.80),
        SINGLE_NODE: (0.80, 0.60, 0.60, 0.10, 0.02, 0.25),
        BATCH: (0.60, 0.40, 0.30, 0.40, 0.20, 0.20),
    }
)
BOTTLENECK_WEIGHTS: Final = MappingProxyType(
    {
        ANALYTICS: (0.9, 0.6, 0.8, 0.5),
        LATENCY_CRITICAL: (1.0, 0.9, 0.1, 0.6),
        SINGLE_NODE: (1.4, 1.0, 0.1, 0.05),
        BATCH: (1.0, 0.7, 0.6, 0.2),
    }
)
SCORE_NOISE: Final = 4.0
TOLERANCE_NOISE: Final = 6.0
PHASED_SHARE: Final = MappingProxyType(
    {ANALYTICS: 0.35, LATENCY_CRITICAL: 0.25, SINGLE_NODE: 0.25, BATCH: 0.25}
)
_GIGA: Final = 1e9


def application_truth(seed: int, name: str, kind: str, platforms: Catalogue) -> Truth:
    """Draw the hidden truth of one application.

    The same seed, name and kind give the same truth in every process.

    Parameters
    ----------
    seed : the cluster's seed
    kind : one of KINDS
    platforms : the cluster's platforms; adding one does not change the rest of the truth

    Raises
    ------
    ValueError : unknown kind.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    rng = generator(seed, "application", kind, name)
    bottlenecks = rng.dirichlet(BOTTLENECK_WEIGHTS[kind])
    caused, tolerated = _scores(kind, rng)
    bytes_per_s = BLOCK_BYTES / _log_uniform(rng, 30.0, 150.0)
    traffic = _traffic(rng)
    demand = _demand(kind, bottlenecks, rng)
    scale_up, scale_out = _scaling(kind, bottlenecks, rng)
    instructions = _log_uniform(rng, 0.5 * _GIGA, 3.5 * _GIGA)
    metric = {LATENCY_CRITICAL: 1.0 / traffic.service_s, SINGLE_NODE: instructions}
    return Truth(
        name=name,
        kind=kind,
        catalogue=platforms,
        platform_speed=_platform_speed(bottlenecks, platforms),
        bytes_per_s=bytes_per_s,
        metric_per_s=metric.get(kind, bytes_per_s),
        scale_up=scale_up,
        scale_out=scale_out,
        framework=_framework(seed, name, kind, bottlenecks, demand),
        tolerated=tolerated,
        caused=caused,
        phases=phases(kind, tolerated, caused, rng),
        demand=demand,
        traffic=traffic,
    )


def _platform_speed(bottlenecks: Floats, platforms: Catalogue) -> Floats:
    """(P,) speeds by a roofline model: the time is the sum of demand / capacity of bottlenecks."""
    speed = 1.0 / (1.0 / platforms.capacity @ bottlenecks)
    return as_readonly(speed / speed[platforms.reference])


def _scores(kind: str, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """(N,) caused; (N,) tolerated: 99 - c plus noise."""
    caused = caused_scores(kind, None, rng)
    tolerated = 99.0 - caused + rng.normal(0.0, TOLERANCE_NOISE, N_SOURCES)
    return caused, as_readonly(np.clip(tolerated, 1.0, 100.0))


def caused_scores(kind: str, share: float | None, rng: np.random.Generator) -> Floats:
    """(N,) a mixture of families times a strength.

    Parameters
    ----------
    share : strength from the weakest, 0, to the strongest, 1; None = Beta(3, 2)
    """
    mixture = rng.dirichlet(FAMILY_WEIGHTS[kind])
    strength = 0.35 + 0.75 * (rng.beta(3.0, 2.0) if share is None else share)
    families = np.array(list(FAMILIES.values()), dtype=float)
    noise = rng.normal(0.0, SCORE_NOISE, N_SOURCES)
    return as_readonly(np.clip(strength * (mixture @ families) + noise, 0.0, 100.0))


def _scaling(
    kind: str, bottlenecks: Floats, rng: np.random.Generator
) -> tuple[UniversalScaling, UniversalScaling]:
    """Draw scale-up and scale-out; contention grows with the weight of shared bottlenecks."""
    _, memory, storage, network = bottlenecks
    up = UniversalScaling(
        contention=0.003 + 0.02 * rng.beta(1.5, 4.0) + 0.03 * memory + 0.02 * storage,
        coherency=_log_uniform(rng, 1e-5, 4e-4),
    )
    serial = {LATENCY_CRITICAL: 0.3, SINGLE_NODE: 4.0, BATCH: 2.0}.get(kind, 1.0)
    out = UniversalScaling(
        contention=serial * (0.001 + 0.01 * rng.beta(1.5, 4.0) + 0.02 * network),
        coherency=_log_uniform(rng, 1e-6, 6e-5),
    )
    return up, out


def _framework(
    seed: int, name: str, kind: str, bottlenecks: Floats, demand: Demand
) -> Framework | None:
    """Draw from a separate stream, on which no other property of the application depends."""
    if kind not in HAS_SETTINGS:
        return None
    rng = generator(seed, "framework", kind, name)
    _, _, storage, network = bottlenecks
    return Framework(
        busy=demand.cpu_share,
        crowding_cost=0.02 + 0.20 * rng.beta(2.0, 3.0),
        working_set_bytes=rng.lognormal(np.log(0.8e9), 0.6),
        spill_cost=rng.uniform(0.05, 0.35),
        compression_saving=(storage + network) * rng.uniform(0.3, 0.6),
        compression_cost=rng.uniform(0.02, 0.12),
    )


def _demand(kind: str, bottlenecks: Floats, rng: np.random.Generator) -> Demand:
    compute, memory, storage, network = bottlenecks
    activity = rng.uniform(0.75, 1.0) if kind == LATENCY_CRITICAL else 1.0
    cpu = 0.30 + 0.65 * (compute + memory) * rng.uniform(0.85, 1.0)
    return Demand(
        cpu_share=float(np.clip(cpu * activity, 0.05, 1.0)),
        memory_bytes=rng.lognormal(np.log(1.1e9), 0.5),
        network_bps=_log_uniform(rng, 1e6, 8e6) + 120e6 * network,
        storage_bytes=rng.lognormal(np.log(2e9), 0.6) * (0.5 + 2.0 * storage),
    )


def _traffic(rng: np.random.Generator) -> Traffic:
    return Traffic(
        service_s=_log_uniform(rng, 0.4e-3, 4e-3),
        swing=rng.uniform(0.1, 0.5),
        peak_s=rng.uniform(0.0, 86_400.0),
    )


def phases(kind: str, tolerated: Floats, caused: Floats, rng: np.random.Generator) -> Phases:
    """Draw one phase for most applications, else two or three of different speed and scores."""
    count = int(rng.integers(2, 4)) if rng.random() < PHASED_SHARE[kind] else 1
    starts = np.concatenate(([0.0], np.sort(rng.uniform(0.2, 0.85, count - 1))))
    rate = np.concatenate(([1.0], rng.uniform(0.7, 1.3, count - 1)))
    shift = np.vstack([np.zeros(N_SOURCES), rng.normal(0.0, 15.0, (count - 1, N_SOURCES))])
    return Phases(
        starts=as_readonly(starts),
        rate=as_readonly(rate),
        tolerated=as_readonly(np.clip(tolerated - shift, 1.0, 100.0)),
        caused=as_readonly(np.clip(caused + shift, 0.0, 100.0)),
        period_s=_log_uniform(rng, 1_800.0, 14_400.0),
    )


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
