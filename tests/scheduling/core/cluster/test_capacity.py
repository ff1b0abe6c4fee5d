"""Capacity of units: equal shares of their server."""

from dataclasses import replace

import numpy as np
import pytest

from apps.scheduling.core.cluster.capacity import equal_share, unit_vectors
from tests.scheduling.core.clusters import request, topology

GB = 1e9


def test_the_papers_server_has_units_of_its_equal_share() -> None:
    """Tarcil §3.2: 16 cores, 64 GB, 10 Gbit/s and 480 GB are 16 units of 4, 0.625 and 30."""
    capacity = np.array([[64 * GB, 10 * GB, 480 * GB]])
    server = replace(topology((16,), platforms=("J",)), server_capacity=capacity)
    assert server.unit_id.size == 16
    assert equal_share(server)[0] == pytest.approx([4 * GB, 0.625 * GB, 30 * GB])


def test_a_unit_takes_what_is_requested_and_the_equal_share_of_the_rest() -> None:
    server = topology((4,), platforms=("J",))
    asked = request(unit_memory_bytes=7 * GB)
    share = equal_share(server)[0]
    taken = unit_vectors(server, np.zeros(1, dtype=np.int32), asked)
    assert taken[0].tolist() == [7 * GB, share[1], share[2]]
