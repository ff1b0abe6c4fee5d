"""Long-running services that share the cluster with a trace and raise its load.

The Hadoop jobs of FB-2009 alone use less than a fifth of a 600-server cluster. Quasar §6.3 and
Tarcil §6.3 add latency-critical services and single-node jobs, as does this module.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from apps.testbed.core.generator import proportional
from apps.testbed.core.jobs import UNIT_MEMORY_BYTES, ReplayJob

ARRIVAL_SPAN_S: Final = 900.0  # period over which the first services arrive
MEDIAN_DURATION_S: Final = 5 * 3600.0
DURATION_SIGMA: Final = 0.6  # of the log; about 3 % run three times the median or longer
SHORTEST_S, LONGEST_S = 1800.0, 16 * 3600.0
GAP_S: Final = 120.0  # mean pause between two services in a slot


LATENCY_CRITICAL, SINGLE_NODE = "latency_critical", "single_node"
# Nominal load of one unit; profiling and sizing determine the real one.
QPS_PER_UNIT: Final = 350.0
IPS_PER_UNIT: Final = 0.9e9


@dataclass(frozen=True, slots=True)
class ServiceKind:
    """An application that runs as a service.

    Attributes
    ----------
    name : of the application
    kind : of application: latency_critical or single_node
    share : weight of this kind in the nominal units of all services
    sizes : possible nominal units of an instance
    latency_s : limit of the 99th percentile; 0 for single-node kinds
    """

    name: str
    kind: str
    share: float
    sizes: tuple[int, ...]
    latency_s: float = 0.0

    def target(self, units: int) -> dict[str, Any]:
        """JSON of the target of an instance with a number of nominal units."""
        if self.kind == SINGLE_NODE:
            return {"kind": "ips", "ips": units * IPS_PER_UNIT}
        return {
            "kind": "throughput_latency",
            "qps": units * QPS_PER_UNIT,
            "latency_seconds": self.latency_s,
            "percentile": 99,
        }


# Shards of services that more servers make little faster are small: see `test_services.py`.
KINDS: Final = (
    ServiceKind("memcached", LATENCY_CRITICAL, 3, (4, 8), 0.04),
    ServiceKind("session-store", LATENCY_CRITICAL, 2, (2, 4, 8), 0.04),
    ServiceKind("web-frontend", LATENCY_CRITICAL, 3, (2, 4, 8), 0.08),
    ServiceKind("web-search", LATENCY_CRITICAL, 2, (4, 8, 16), 0.1),
    ServiceKind("ad-ranking", LATENCY_CRITICAL, 2, (2, 4), 0.06),
    ServiceKind("photo-cache", LATENCY_CRITICAL, 2, (4, 8), 0.05),
    ServiceKind("message-queue", LATENCY_CRITICAL, 1, (2, 4), 0.05),
    ServiceKind("graph-store", LATENCY_CRITICAL, 2, (1,), 0.08),
    ServiceKind("genome-align", SINGLE_NODE, 1, (1, 2, 4)),
    ServiceKind("image-index", SINGLE_NODE, 1, (1, 2)),
    ServiceKind("risk-model", SINGLE_NODE, 1, (1, 2, 4)),
    ServiceKind("video-encode", SINGLE_NODE, 1, (2, 4)),
    ServiceKind("body-tracking", SINGLE_NODE, 1, (1, 2)),
    ServiceKind("fluid-flow", SINGLE_NODE, 1, (2, 4)),
)


def plan_services(
    units: int, share: float, horizon_s: float, rng: np.random.Generator
) -> list[ReplayJob]:
    """Plan services that nominally use ``share`` of the units from the start to the horizon.

    Slots are created until their sizes add up to the share. Each slot runs one service after
    another. Durations are log-normal; the first one is cut to a random remaining part.

    Parameters
    ----------
    units : of the cluster, >= 1
    share : 0-1; 0 plans nothing
    horizon_s : no service starts after it; each ends before or shortly after it
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share must be within 0-1, not {share}")
    jobs: list[ReplayJob] = []
    for slot, (kind, size) in enumerate(_slots(round(units * share), rng)):
        jobs += _succession(slot, kind, size, horizon_s, rng)
    return sorted(jobs, key=lambda job: (job.submit_s, job.key))


def _slots(budget: int, rng: np.random.Generator) -> list[tuple[ServiceKind, int]]:
    """List kind and size of each slot; the units add up to the budget."""
    slots: list[tuple[ServiceKind, int]] = []
    budgets = proportional(np.array([kind.share for kind in KINDS]), budget)
    for kind, units in zip(KINDS, budgets.tolist(), strict=True):
        left = units
        while left > 0:
            size = min(int(rng.choice(kind.sizes)), left)
            slots.append((kind, size))
            left -= size
    return slots


def _succession(
    slot: int, kind: ServiceKind, size: int, horizon_s: float, rng: np.random.Generator
) -> list[ReplayJob]:
    """List the successive services of one slot."""
    jobs: list[ReplayJob] = []
    at_s = float(rng.uniform(0.0, min(ARRIVAL_SPAN_S, horizon_s)))
    remaining = float(rng.uniform(0.1, 1.0))  # remaining share of the first duration
    while at_s < horizon_s:
        whole = MEDIAN_DURATION_S * float(np.exp(rng.normal(0.0, DURATION_SIGMA)))
        duration = min(
            max(whole * remaining, SHORTEST_S), LONGEST_S, horizon_s - at_s + SHORTEST_S
        )
        key = f"s{slot}.{len(jobs)}"
        jobs.append(ReplayJob(key, at_s, _service_spec(kind, size, duration)))
        at_s += duration + float(rng.exponential(GAP_S))
        remaining = 1.0
    return jobs


def _service_spec(kind: ServiceKind, units: int, duration_s: float) -> dict[str, Any]:
    return {
        "application": kind.name,
        "application_kind": kind.kind,
        "target": kind.target(units),
        "duration_seconds": round(duration_s, 3),
        "priority": 10 if kind.kind == LATENCY_CRITICAL else 0,
        "unit_memory_bytes": UNIT_MEMORY_BYTES,
        "labels": {"role": "service"},
    }
