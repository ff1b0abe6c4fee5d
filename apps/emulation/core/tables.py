"""Tables of the engine: arrays with a slot per job or part, which double in size when full."""

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.emulation.core.events import Machines
from apps.emulation.core.kernels import JobTable, PartTable, ServerTable


def server_table(machines: Machines) -> ServerTable:
    """Table of empty servers; a server never has more parts than units."""
    servers, width = len(machines.units), int(machines.units.max(initial=1))
    return ServerTable(
        units=machines.units.astype(np.int64),
        parts=np.full((servers, width), -1, dtype=np.int64),
        filled=np.zeros(servers, dtype=np.int64),
    )


def job_table(slots: int) -> JobTable:
    """Table of free job slots."""

    def column() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.zeros(slots)

    return JobTable(
        tolerated=np.zeros((slots, N_SOURCES)),
        caused=np.zeros((slots, N_SOURCES)),
        knee=np.ones((slots, N_SOURCES)),
        decay=np.ones((slots, N_SOURCES)),
        plateau=np.zeros((slots, N_SOURCES)),
        floor=column(),
        factor=column(),
        in_step=column(),
        speed=column(),
        done=column(),
        updated_s=column(),
        goal=np.full(slots, np.inf),
        due_s=np.full(slots, np.inf),
        next_s=np.full(slots, np.inf),
        first_part=np.full(slots, -1, dtype=np.int64),
    )


def part_table(slots: int) -> PartTable:
    """Table of free part slots."""

    def free() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.full(slots, -1, dtype=np.int64)

    return PartTable(
        job=free(),
        server=free(),
        units=np.zeros(slots, dtype=np.int64),
        position=free(),
        next_part=free(),
        speed=np.zeros(slots),
        effect=np.ones(slots),
    )


def grown_jobs(old: JobTable) -> JobTable:
    """Copy of a table with twice the job slots."""
    new = job_table(2 * len(old.done))
    for column, larger in zip(old, new, strict=True):
        larger[: len(column)] = column
    return new


def grown_parts(old: PartTable) -> PartTable:
    """Copy of a table with twice the part slots."""
    new = part_table(2 * len(old.job))
    for column, larger in zip(old, new, strict=True):
        larger[: len(column)] = column
    return new


def attach(servers: ServerTable, parts: PartTable, part: int) -> None:
    """Add a filled part slot to its server."""
    server = int(parts.server[part])
    position = int(servers.filled[server])
    servers.parts[server, position] = part
    parts.position[part] = position
    servers.filled[server] = position + 1


def detach(servers: ServerTable, parts: PartTable, part: int) -> None:
    """Remove a part from its server; the server's last part fills the gap."""
    server, position = int(parts.server[part]), int(parts.position[part])
    last = int(servers.filled[server]) - 1
    last_part = int(servers.parts[server, last])
    servers.parts[server, position] = last_part
    parts.position[last_part] = position
    servers.parts[server, last] = -1
    servers.filled[server] = last
    parts.job[part] = -1
    parts.units[part] = 0
