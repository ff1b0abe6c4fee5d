"""The cluster map at an earlier moment: what the history of the cluster holds of each server."""

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.dashboard.selectors.frames import UNKNOWN, shares_of
from apps.inventory.core.usage import weighted_share
from apps.inventory.models import ClusterFrame, Platform, Rack, Server

Floats = NDArray[np.float64]


def recorded_map_state(at_s: float) -> dict[str, Any]:
    """Return the map at an earlier moment, in the form of `servers.map_state`.

    CPU used and units allocated are those of the last frame until then; of a server that joined
    later, and before the first frame, they are unknown. Heartbeats, states and pressure are not
    recorded: null.
    """
    frames = ClusterFrame.objects.filter(cluster_s__lte=at_s).order_by("-cluster_s")
    frame = frames.first()
    rows = list(Server.objects.order_by("id").values_list("id", "platform_id", "rack_id", "cores"))
    packed = (b"", b"") if frame is None else (frame.server_cpu, frame.server_allocated)
    layers = [_of_all(bytes(each), len(rows)) for each in packed]
    _, platforms, racks, cores = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    used = _Recorded(shares_of(layers[0]), shares_of(layers[1]), cores.astype(float))
    whole = used.of(np.ones(len(rows), dtype=np.bool_))
    if frame is not None:  # as on the Overview, which shows the totals of the frame
        whole = _known(
            frame.cpu_share if frame.servers_on else float("nan"),
            frame.units_allocated / max(frame.units, 1),
        )
    ranked = Platform.objects.order_by("rank").values_list("id", flat=True)
    by_id = Rack.objects.order_by("id").values_list("id", flat=True)
    return {
        "cpu": base64.b64encode(layers[0]).decode("ascii"),
        "allocated": base64.b64encode(layers[1]).decode("ascii"),
        "age": None,
        "state": None,
        "pressure": None,
        "usage": {
            "all": whole,
            "platform": [used.of(platforms == key) for key in ranked],
            "rack": [used.of(racks == key) for key in by_id],
        },
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Recorded:
    """(S,) shares of the cores of each server, NaN = unknown, and its cores."""

    cpu: Floats
    allocated: Floats
    cores: Floats

    def of(self, members: NDArray[np.bool_]) -> dict[str, float | None]:
        """Return the shares of a group of servers, of those whose use is known."""
        shares = []
        for layer in (self.cpu, self.allocated):
            known = members & ~np.isnan(layer)
            shares.append(weighted_share(layer[known], self.cores[known]))
        return _known(*shares)


def _known(cpu: float, allocated: float) -> dict[str, float | None]:
    shares = {"cpu": cpu, "allocated": allocated}
    return {name: None if np.isnan(share) else share for name, share in shares.items()}


def _of_all(packed: bytes, servers: int) -> bytes:
    """Return one byte per server; those that joined later are unknown."""
    return packed[:servers] + bytes([UNKNOWN]) * (servers - len(packed))
