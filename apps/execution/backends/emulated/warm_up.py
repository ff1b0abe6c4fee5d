"""Compile the kernels of the engine before the first job."""

from typing import Final

import numpy as np

from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EngineOrder, Machines
from apps.emulation.core.seeds import generator
from apps.emulation.core.worlds import WORLDS

_NAME: Final = "warm-up"


def warm_up(world_name: str) -> None:
    """Run one job on a server of its own, from its start to its end.

    Compiling takes 10 CPU seconds and more, which the first jobs would wait. Machine code on disk
    is loaded in about one.
    """
    world = WORLDS[world_name]
    zero, one = np.zeros(1, dtype=np.int64), np.ones(1)
    machines = Machines(
        platforms=world.catalogue((_NAME,), seed=0),
        platform=zero,
        units=zero + 1,
        rack=zero,
        memory_bytes=one,
        network_bps=one,
        storage_bytes=one,
        idle_watts=one,
        peak_watts=one,
        speed=one,
    )
    truth = world.application_truth(0, _NAME, "batch", machines.platforms)
    engine = Engine(machines, generator(0, _NAME))
    engine.start([EngineOrder(_NAME, truth, [(0, 1)], work_s=1.0, tasks=1)], 0.0)
    engine.jobs()
    engine.advance(engine.next_event_s)
    engine.servers()
