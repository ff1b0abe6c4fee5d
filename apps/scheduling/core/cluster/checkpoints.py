"""A cluster copy at one number of the change log, packed to be stored.

Sums over servers follow from their busy units, so these and the closed servers are enough.
"""

import struct
import zlib
from typing import Any, Final, NamedTuple

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Ints
from apps.scheduling.core.cluster.copy import BusyUnits, ClusterCopy

LEVEL: Final = 1  # of zlib
_SIZES: Final = struct.Struct("<BQQQ")  # format, busy units, distinct rows, closed servers
_ROW: Final = np.dtype(
    [("caused", "<f4", N_SOURCES), ("tolerated", "<f4", N_SOURCES), ("vector", "<f8", 3)]
)
_BYTES: Final = np.dtype((np.void, _ROW.itemsize))
FORMAT: Final = 1


class Checkpoint(NamedTuple):
    """Busy units and the ids of closed servers."""

    busy: BusyUnits
    closed: Ints


def packed(copy: ClusterCopy) -> bytes:
    """Pack a copy. O(U); equal rows of units, such as those of one job, are stored once."""
    busy, closed = copy.busy_units(), copy.closed_servers()
    rows = np.empty(busy.ids.size, dtype=_ROW)
    rows["caused"], rows["tolerated"], rows["vector"] = busy.caused, busy.tolerated, busy.vectors
    distinct: dict[bytes, int] = {}
    keys: list[Any] = rows.view(_BYTES).tolist()
    index = [distinct.setdefault(key, len(distinct)) for key in keys]
    parts = [
        _SIZES.pack(FORMAT, busy.ids.size, len(distinct), closed.size),
        np.diff(busy.ids, prepend=0).astype("<i8").tobytes(),
        np.array(index, dtype="<u4").tobytes(),
        *distinct,
        closed.astype("<i8").tobytes(),
    ]
    return zlib.compress(b"".join(parts), LEVEL)


def unpacked(data: bytes) -> Checkpoint:
    """Return what `packed` was given."""
    raw = zlib.decompress(data)
    _, units, rows, servers = _SIZES.unpack_from(raw)
    place = _SIZES.size

    def read(dtype: Any, count: int) -> Any:
        nonlocal place
        values = np.frombuffer(raw, dtype=dtype, count=count, offset=place)
        place += values.nbytes
        return values

    ids, index = np.cumsum(read("<i8", units)), read("<u4", units)
    held = read(_ROW, rows)[index]
    busy = BusyUnits(ids, held["caused"], held["tolerated"], held["vector"])
    return Checkpoint(busy, read("<i8", servers))
