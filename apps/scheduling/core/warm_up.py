"""Compilation of all kernels of decisions before the first job needs them."""

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Topology
from apps.scheduling.core.cluster.in_memory_store import Committed, MemoryCluster
from apps.scheduling.core.fused import FusedExpected, FusedTarcil
from apps.scheduling.core.paragon.fused import paragon_greedy
from apps.scheduling.core.policies import AssembledPolicy
from apps.scheduling.core.types import Placed, Request


def compile_kernels() -> None:
    """Compile the kernels, or load them from the cache.

    Processes that decide call this at their start: compilation takes a minute, loading one
    second.
    """
    policies: tuple[AssembledPolicy, ...] = (FusedExpected(), FusedTarcil(), paragon_greedy())
    for policy in policies:
        cluster = MemoryCluster(_one_server(), is_compiled=True)
        for units in (1, 2):  # the second batch reads what the first and its end have changed
            requests = [_request(units) for _ in range(2)]
            requests.append(_request(units, measure_rank=True))
            for allocation in _run(cluster, policy, requests):
                cluster.release(allocation)


def _run(cluster: MemoryCluster, policy: AssembledPolicy, requests: list[Request]) -> list[int]:
    """Place and commit a batch; return the allocations."""
    outcomes = policy.place(cluster.view(), requests, np.random.default_rng(0))
    pairs = zip(outcomes, requests, strict=True)
    placed = [(outcome, request) for outcome, request in pairs if isinstance(outcome, Placed)]
    return [
        each.allocation for each in cluster.commit_batch(placed) if isinstance(each, Committed)
    ]


def _request(units: int, *, measure_rank: bool = False) -> Request:
    scores = np.zeros(N_SOURCES)
    return Request("warm", units, scores, scores, measure_rank=measure_rank)


def _one_server() -> Topology:
    """Return a server of six units."""
    zero = np.zeros(1, dtype=np.int32)
    return Topology(
        unit_id=np.arange(6),
        unit_server=np.zeros(6, dtype=np.int32),
        unit_core=np.arange(6, dtype=np.int32),
        server_id=np.zeros(1, dtype=np.int64),
        server_name=("warm",),
        server_first_unit=zero,
        server_units=zero + np.int32(6),
        server_platform=zero,
        server_rack=zero,
        server_capacity=np.ones((1, 3)),
        server_labels=(frozenset(),),
        platform_name=("warm",),
        rack_name=("warm",),
    )
