"""Services of the demo replay."""

import pytest

from apps.emulation.core.draws import LATENCY_CRITICAL
from apps.emulation.core.truth import Truth
from apps.emulation.core.worlds import WORLDS, World
from apps.testbed.core.demo_cluster import DEMO_PLATFORMS
from apps.testbed.core.services import KINDS, QPS_PER_UNIT, ServiceKind

DEMO_SEED = 2011  # of the cluster that `./dev run` creates
MAX_UNITS = 64  # of an instance
# Of the queries that the units serve on average: the rest is for the peak of the day, the limit of
# latency, other jobs, and what the profile does not know.
SHARE = 0.25


def _capacity(truth: Truth) -> float:
    """Queries per second of an instance alone on the highest-end platform, at its best size."""
    return max(
        truth.scale_up.speed_up(units)
        * truth.scale_out.speed_up(servers)
        / truth.traffic.service_s
        for units, servers in ((32, 1), (32, 2), (16, 4), (8, 8))
        if units * servers <= MAX_UNITS
    )


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.kind == LATENCY_CRITICAL], ids=lambda kind: kind.name
)
def test_the_demo_cluster_can_serve_every_instance(kind: ServiceKind, world: World) -> None:
    platforms = world.catalogue(DEMO_PLATFORMS, seed=DEMO_SEED)
    truth = world.application_truth(DEMO_SEED, kind.name, kind.kind, platforms)
    assert max(kind.sizes) * QPS_PER_UNIT <= SHARE * _capacity(truth)
