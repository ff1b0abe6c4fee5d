"""Long-running services that share the cluster with a trace, so that it is loaded as clusters are.

The Hadoop jobs of FB-2009 alone keep a 600-server cluster below a fifth busy. Quasar §6.3 and
Tarcil §5 share theirs with latency-critical services and single-node jobs; these are ours.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from apps.testbed.core.generator import proportional
from apps.testbed.core.jobs import UNIT_MEMORY_BYTES, ReplayJob

ARRIVAL_SPAN_S: Final = 900.0  # the first services come over this time, not all at once
MEDIAN_DURATION_S: Final = 5 * 3600.0
DURATION_SIGMA: Final = 0.6  # of the log: one in twenty runs three times the median or longer
SHORTEST_S, LONGEST_S = 1800.0, 16 * 3600.0
GAP_S: Final = 120.0  # mean pause before a place is taken over by the next service


LATENCY_CRITICAL, SINGLE_NODE = "latency_critical", "single_node"
# Nominal load of one unit; what it really takes is for profiling and sizing to find out.
QPS_PER_UNIT: Final = 350.0
IPS_PER_UNIT: Final = 0.9e9


@dataclass(frozen=True, slots=True)
class ServiceKind:
    """One application that runs as a service.

    Attributes
    ----------
    name : of the application
    kind : of application: latency_critical or single_node
    share : of the services' nominal units, relative to the other kinds
    sizes : nominal units an instance may have
    latency_s : bound of the 99th percentile; 0 for single-node kinds
    """

    name: str
    kind: str
    share: float
    sizes: tuple[int, ...]
    latency_s: float = 0.0

    def target(self, units: int) -> dict[str, Any]:
        """Make the target of an instance of that many nominal units, as JSON."""
        if self.kind == SINGLE_NODE:
            return {"kind": "ips", "ips": units * IPS_PER_UNIT}
        return {
            "kind": "throughput_latency",
            "qps": units * QPS_PER_UNIT,
            "latency_seconds": self.latency_s,
            "percentile": 99,
        }


KINDS: Final = (
    ServiceKind("memcached", LATENCY_CRITICAL, 3, (4, 8), 0.04),
    ServiceKind("session-store", LATENCY_CRITICAL, 2, (2, 4, 8), 0.04),
    ServiceKind("web-frontend", LATENCY_CRITICAL, 3, (2, 4, 8), 0.08),
    ServiceKind("web-search", LATENCY_CRITICAL, 2, (4, 8, 16), 0.1),
    ServiceKind("ad-ranking", LATENCY_CRITICAL, 2, (4, 8, 16), 0.06),
    ServiceKind("photo-cache", LATENCY_CRITICAL, 2, (4, 8), 0.05),
    ServiceKind("message-queue", LATENCY_CRITICAL, 1, (2, 4), 0.05),
    ServiceKind("graph-store", LATENCY_CRITICAL, 2, (4, 8), 0.08),
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
    """Plan services that nominally hold ``share`` of the units from the start to the horizon.

    Places are filled until their sizes add up to the share. Each place is held by one service
    after another: durations are log-normal, the first one is met at a random moment of its life.

    Parameters
    ----------
    units : of the cluster, >= 1
    share : 0-1; 0 plans nothing
    horizon_s : no service starts after it, and each ends by it or soon after
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share must be within 0-1, not {share}")
    jobs: list[ReplayJob] = []
    for place, (kind, size) in enumerate(_places(round(units * share), rng)):
        jobs += _succession(place, kind, size, horizon_s, rng)
    return sorted(jobs, key=lambda job: (job.submit_s, job.key))


def _places(budget: int, rng: np.random.Generator) -> list[tuple[ServiceKind, int]]:
    """Kinds and sizes whose units add up to the budget, each kind near its share of them."""
    places: list[tuple[ServiceKind, int]] = []
    budgets = proportional(np.array([kind.share for kind in KINDS]), budget)
    for kind, units in zip(KINDS, budgets.tolist(), strict=True):
        left = units
        while left > 0:
            size = min(int(rng.choice(kind.sizes)), left)
            places.append((kind, size))
            left -= size
    return places


def _succession(
    place: int, kind: ServiceKind, size: int, horizon_s: float, rng: np.random.Generator
) -> list[ReplayJob]:
    """List the services that follow one another in one place."""
    jobs: list[ReplayJob] = []
    at = float(rng.uniform(0.0, min(ARRIVAL_SPAN_S, horizon_s)))
    remaining = float(rng.uniform(0.1, 1.0))  # share of the first one's life still to come
    while at < horizon_s:
        whole = MEDIAN_DURATION_S * float(np.exp(rng.normal(0.0, DURATION_SIGMA)))
        duration = min(max(whole * remaining, SHORTEST_S), LONGEST_S, horizon_s - at + SHORTEST_S)
        key = f"s{place}.{len(jobs)}"
        jobs.append(ReplayJob(key, at, _service_spec(kind, size, duration)))
        at += duration + float(rng.exponential(GAP_S))
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
