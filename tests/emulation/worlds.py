"""Small emulated clusters and applications with simple truths, shared by the tests."""

from collections.abc import Sequence

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.emulation.core.events import Machines
from apps.emulation.core.platforms import Catalogue, catalogue
from apps.emulation.core.truth import Demand, Phases, Traffic, Truth, UniversalScaling
from apps.inventory.core.demo import PLATFORMS

LINEAR = UniversalScaling(contention=0.0, coherency=0.0)


def all_platforms() -> Catalogue:
    return catalogue([facts.name for facts in PLATFORMS], seed=1)


def one_platform() -> Catalogue:
    return catalogue(["cr1.8xlarge"], seed=1)


def machines(
    *units: int, platforms: Catalogue | None = None, rack: Sequence[int] | None = None
) -> Machines:
    """Servers of the first platform with these units, 1 GB and 100 Mbit/s per unit, 10 to 20 W."""
    count = np.array(units, dtype=np.int64)
    return Machines(
        platforms=platforms or one_platform(),
        platform=np.zeros(len(units), dtype=np.int64),
        units=count,
        rack=np.array(rack or [0] * len(units), dtype=np.int64),
        memory_bytes=count * np.float64(1e9),
        network_bps=count * np.float64(1e8),
        storage_bytes=count * np.float64(1e10),
        idle_watts=np.full(len(units), 10.0),
        peak_watts=np.full(len(units), 20.0),
        speed=np.ones(len(units)),
    )


def truth(
    *,
    tolerated: float = 100.0,
    caused: float = 0.0,
    kind: str = "batch",
    scale_up: UniversalScaling = LINEAR,
    scale_out: UniversalScaling = LINEAR,
    phases: Phases | None = None,
    metric_per_s: float = 1.0,
    rack_loss: float = 0.0,
    is_in_step: bool = False,
) -> Truth:
    """An application of one phase (unless given) with the same score for every source."""
    t, c = np.full(N_SOURCES, tolerated), np.full(N_SOURCES, caused)
    single_phase = Phases(np.zeros(1), np.ones(1), t[None], c[None], 3600.0)
    return Truth(
        name="made up",
        kind=kind,
        catalogue=one_platform(),
        platform_speed=np.ones(1),
        bytes_per_s=1e6,
        metric_per_s=metric_per_s,
        scale_up=scale_up,
        scale_out=scale_out,
        tolerated=t,
        caused=c,
        phases=phases or single_phase,
        demand=Demand(cpu_share=0.8, memory_bytes=5e8, network_bps=1e7, storage_bytes=1e9),
        traffic=Traffic(service_s=1.0 / metric_per_s, swing=0.0, peak_s=0.0),
        rack_loss=rack_loss,
        is_in_step=is_in_step,
    )
