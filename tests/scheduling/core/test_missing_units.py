"""Requests for the units that a running job lacks."""

import math

from apps.scheduling.core.growth import missing_request, missing_size
from apps.scheduling.core.sizing.sizes import Infeasible, Sized
from apps.scheduling.core.types import Within
from tests.scheduling.core.clusters import request, topology

CLUSTER = topology((4,) * 6)  # servers 1 to 6, in two alternating racks


def test_the_size_keeps_the_platforms_and_asks_for_the_missing_units() -> None:
    sized = Sized(8, frozenset({"J"}), None, 500.0, 400.0, 600.0, 0.9)
    missing = missing_size(sized, 3)
    assert (missing.units, missing.platforms, missing.locality) == (3, frozenset({"J"}), None)
    assert math.isnan(missing.predicted)


def test_units_are_added_even_if_the_target_cannot_be_met_any_more() -> None:
    infeasible = Infeasible(4, "J", 900.0, "too late")
    assert missing_size(infeasible, 2).platforms is None


def test_no_units_are_added_if_no_platform_is_within_the_ceiling_any_more() -> None:
    assert (
        missing_size(Infeasible(4, "J", 900.0, ""), 2, has_ceiling=True).platforms == frozenset()
    )
    sized = Sized(8, frozenset({"J"}), None, 500.0, 400.0, 600.0, 0.9)
    assert missing_size(sized, 2, has_ceiling=True).platforms == frozenset({"J"})


def test_units_of_a_spread_job_are_added_elsewhere() -> None:
    by_server = missing_request(request(2, spread=Within.SERVER, gang=True), CLUSTER, {2, 5})
    assert (by_server.gang, by_server.excluded) == (False, frozenset({1, 4}))
    by_rack = missing_request(request(2, spread=Within.RACK), CLUSTER, {2})
    assert by_rack.excluded == frozenset({1, 3, 5})
    below_one = topology((4,) * 6, racks=3, switches=("agg", "agg", ""))
    by_switch = missing_request(request(2, spread=Within.SWITCH), below_one, {2})
    assert by_switch.excluded == frozenset({0, 1, 3, 4})


def test_other_jobs_may_get_units_of_servers_that_they_use() -> None:
    assert missing_request(request(2), CLUSTER, ()).excluded == frozenset()
