"""The servers of the inventory, as input of the emulator."""

from typing import Final

import numpy as np

from apps.emulation.core.events import Machines
from apps.emulation.core.worlds import PAPER, WORLDS, World
from apps.execution.backends.emulated.port import NoServersError, Site
from apps.inventory import selectors
from apps.inventory.core.backends import EMULATED
from apps.inventory.models import Server

WORLD_NAMES: Final = tuple(WORLDS)


def read_site(world: World = PAPER) -> Site:
    """Read all emulated servers, and the hidden capacities of their platforms.

    The platform of rank 0 is the reference.

    Raises
    ------
    NoServersError : no server is emulated.
    """
    version = selectors.topology_version()
    seed = selectors.cluster().seed
    shape = selectors.topology(backend=EMULATED)
    if shape.server_id.size == 0:
        raise NoServersError("there are no servers to emulate; import a cluster first")
    watts = np.array(
        Server.objects.filter(backend=EMULATED)
        .order_by("id")
        .values_list("idle_watts", "peak_watts"),
        dtype=np.float64,
    )
    return Site(
        version=version,
        seed=seed,
        server_id=shape.server_id,
        machines=Machines(
            platforms=world.catalogue(shape.platform_name, seed=seed),
            platform=shape.server_platform.astype(np.int64),
            units=shape.server_units.astype(np.int64),
            rack=shape.server_rack.astype(np.int64),
            memory_bytes=shape.server_capacity[:, 0],
            network_bps=shape.server_capacity[:, 1],
            storage_bytes=shape.server_capacity[:, 2],
            idle_watts=watts[:, 0],
            peak_watts=watts[:, 1],
            speed=world.server_speed(seed, shape.server_id.astype(np.int64)),
        ),
        world=world,
    )
