"""The details of refusals that no change of load can lift."""

import numpy as np
import pytest

from apps.scheduling.core.registry import make
from apps.scheduling.core.types import Refused, Request, Within
from tests.scheduling.core.clusters import SHARE, idle, request, topology


def detail(spec: Request) -> str:
    """Refuse a job on two racks below one switch: servers of 4, 3 and 2 units, in turn."""
    snapshot = idle(topology((4, 3, 2), racks=2, switches=("agg-1", "agg-1")))
    (outcome,) = make("least_loaded").place(snapshot, [spec], np.random.default_rng(1))
    assert isinstance(outcome, Refused)
    return outcome.detail


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            request(5, locality=Within.SERVER),
            "all 5 units must share one server: the largest matching server has 4",
            id="one server",
        ),
        pytest.param(
            request(7, locality=Within.RACK),
            "all 7 units must share one rack: the largest matching rack has 6",
            id="one rack",
        ),
        pytest.param(
            request(10, locality=Within.SWITCH),
            "all 10 units must share one switch: the largest matching switch has 9",
            id="one switch",
        ),
        pytest.param(
            request(3, locality=Within.RACK, spread=Within.SERVER),
            "all 3 units must share one rack, with a server each: the largest matching rack has 2",
            id="a server each in one rack",
        ),
        pytest.param(
            request(3, locality=Within.SWITCH, spread=Within.RACK),
            "all 3 units must share one switch, with a rack each:"
            " the largest matching switch has 2",
            id="a rack each below one switch",
        ),
        pytest.param(
            request(2, spread=Within.SWITCH, gang=True),
            "each of the 2 units needs a switch of its own, and only 1 match",
            id="a switch each",
        ),
        pytest.param(
            request(4, spread=Within.SERVER, gang=True),
            "each of the 4 units needs a server of its own, and only 3 match",
            id="a server each",
        ),
        pytest.param(
            request(3, spread=Within.RACK, gang=True),
            "each of the 3 units needs a rack of its own, and only 2 match",
            id="a rack each",
        ),
        pytest.param(
            request(10, gang=True),
            "the job needs 10 units at once, and the matching servers have 9",
            id="gang",
        ),
        pytest.param(
            request(6, unit_memory_bytes=2 * SHARE[0], gang=True),
            "the job needs 6 units at once, and the matching servers have memory for 4",
            id="memory of a gang",
        ),
        pytest.param(
            request(10, unit_storage_bytes=2 * SHARE[2], unit_network_bps=SHARE[1], gang=True),
            "the job needs 10 units at once, and the matching servers have storage for 4",
            id="storage of a gang that lacks units, too",
        ),
        pytest.param(
            request(3, unit_network_bps=2 * SHARE[1], locality=Within.SERVER),
            "all 3 units must share one server: the largest matching server has network for 2",
            id="network of one server",
        ),
        pytest.param(
            request(
                4,
                unit_memory_bytes=2 * SHARE[0],
                unit_storage_bytes=2 * SHARE[2],
                locality=Within.RACK,
            ),
            "all 4 units must share one rack:"
            " the largest matching rack has memory and storage for 3",
            id="memory and storage of one rack",
        ),
        pytest.param(
            request(platforms=frozenset({"Z"})),
            "no server has the requested platform, labels and capacity",
            id="platform",
        ),
        pytest.param(
            request(5, unit_memory_bytes=9 * SHARE[0], locality=Within.SERVER),
            "no server has the requested platform, labels and capacity",
            id="memory",
        ),
    ],
)
def test_the_detail_names_what_limits_the_job(spec: Request, expected: str) -> None:
    assert detail(spec) == expected
