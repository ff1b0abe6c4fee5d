"""From a job and a profile to the request of a policy."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.scheduling.core.requests import (
    UNKNOWN_SPEED,
    cluster_facts,
    facts_if_open,
    is_only_closed,
    request_of,
    size_of,
    size_or_late,
)
from apps.scheduling.core.sizing.sizes import ClusterFacts, Infeasible, Sized
from apps.scheduling.core.types import Within
from apps.workloads.core.constraints import Constraints
from apps.workloads.core.spec import JobSpec
from apps.workloads.core.targets import BestEffort, CompletionTime
from tests.classification.core.profiles import profile
from tests.scheduling.core.clusters import idle, topology

CLUSTER = topology((16, 8, 4))  # platforms J, A, J
SNAPSHOT = idle(CLUSTER)
FACTS = ClusterFacts(("J", "A"), (20, 8), (16, 8))
SIZE = Sized(3, None, None, 50.0, 40.0, 60.0, 0.9)


def open_units(facts: ClusterFacts) -> tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...]]:
    return facts.platforms, facts.units, facts.server_units


def spec(**fields: Any) -> JobSpec:
    """Specify a job of 9 GB in 100 s."""
    return JobSpec(
        **{
            "application": "sort",
            "target": CompletionTime(100.0),
            "input_bytes": 9_000_000_000,
            **fields,
        }
    )


def test_facts_come_in_the_order_of_the_profile() -> None:
    facts = cluster_facts(SNAPSHOT, ("A", "J"))
    assert open_units(facts) == (("A", "J"), (8, 20), (8, 16))


def test_a_platform_that_the_cluster_lacks_has_no_units() -> None:
    facts = cluster_facts(SNAPSHOT, ("Z", "J"))
    assert open_units(facts) == (("Z", "J"), (0, 20), (0, 16))


def test_closed_servers_do_not_count() -> None:
    opened = np.array([False, True, True])
    facts = cluster_facts(replace(SNAPSHOT, server_open=opened), ("J", "A"))
    assert open_units(facts) == (("J", "A"), (4, 8), (4, 8))


def test_facts_of_any_cluster_are_the_sums_over_its_servers() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        cluster = topology(tuple(rng.integers(1, 20, 12).tolist()), platforms=("A", "B", "C"))
        free, opened = rng.random(cluster.unit_id.size) < 0.5, rng.random(12) < 0.7
        snapshot = replace(idle(cluster), unit_free=free, server_open=opened)
        facts = cluster_facts(snapshot, cluster.platform_name)
        for p in range(3):
            servers = [s for s in range(12) if cluster.server_platform[s] == p and opened[s]]
            sizes = [int(cluster.server_units[s]) for s in servers]
            assert facts.units[p] == sum(sizes)
            assert facts.server_units[p] == max(sizes, default=0)
            assert facts.free is not None
            assert facts.free[p] == sum(
                int(free[u]) for u, s in enumerate(cluster.unit_server) if s in servers
            )


def test_an_empty_cluster_has_no_units() -> None:
    empty = idle(topology((), platforms=()))
    assert open_units(cluster_facts(empty, ("J",))) == (("J",), (0,), (0,))


def test_elapsed_time_increases_the_size() -> None:
    in_time = size_of(spec(), profile(), FACTS)
    late = size_of(spec(), profile(), FACTS, elapsed_s=70.0)
    assert isinstance(in_time, Sized)
    assert isinstance(late, Sized)
    assert (in_time.units, late.units) == (2, 4)  # 180 and 360 MB/s for 90 and 300 wanted


def test_a_fixed_size_overrides_sizing_and_has_no_prediction() -> None:
    sized = size_of(spec(units=7), profile(), FACTS)
    assert isinstance(sized, Sized)
    assert (sized.units, sized.platforms) == (7, None)
    assert math.isnan(sized.predicted)


def test_a_fixed_size_uses_the_requested_platforms() -> None:
    only_a = Constraints(platforms=("A",))
    sized = size_of(spec(units=7, constraints=only_a), profile(), FACTS)
    assert isinstance(sized, Sized)
    assert sized.platforms == frozenset({"A"})


def test_a_target_that_no_size_meets_is_infeasible() -> None:
    assert isinstance(size_of(spec(target=CompletionTime(0.1)), profile(), FACTS), Infeasible)


def test_an_allowed_platform_without_servers_is_infeasible() -> None:
    nowhere = Constraints(platforms=("Z",))
    size = size_of(spec(target=BestEffort(), constraints=nowhere), profile(), FACTS)
    assert isinstance(size, Infeasible)
    assert size.platform is None


@pytest.mark.parametrize("kind", ["single_node", "batch"])
def test_kinds_limited_to_one_server_request_one_server(kind: str) -> None:
    sized = size_of(spec(), profile(kind=kind), FACTS)
    assert isinstance(sized, Sized)
    assert sized.locality == Within.SERVER


@pytest.mark.parametrize("kind", ["single_node", "batch"])
@pytest.mark.parametrize("within", ["server", "rack", "switch"])
@pytest.mark.parametrize(
    "fields", [{"units": 4}, {"target": BestEffort(), "tasks": 64}], ids=["fixed", "sized"]
)
def test_units_limited_to_one_server_cannot_be_spread(
    kind: str, within: str, fields: dict[str, Any]
) -> None:
    sized = size_of(
        spec(constraints=Constraints(spread=within), **fields), profile(kind=kind), FACTS
    )
    assert sized == Infeasible(
        *(0, None, math.inf),
        f"the 4 units cannot be spread, because those of a {kind.replace('_', ' ')} application"
        " share one server; remove the spread, or request one unit",
    )


def test_a_single_unit_limited_to_one_server_may_have_a_spread() -> None:
    alone = spec(units=1, constraints=Constraints(spread="server"))
    assert isinstance(size_of(alone, profile(kind="batch"), FACTS), Sized)


def test_units_of_a_kind_that_spans_servers_can_be_spread() -> None:
    apart = spec(units=4, constraints=Constraints(spread="server"))
    assert isinstance(size_of(apart, profile(kind="analytics"), FACTS), Sized)


def test_a_request_carries_the_specification_of_the_job() -> None:
    where = Constraints(labels={"zone": "1"}, locality=None, spread="rack")
    job_spec = spec(
        constraints=where, gang=False, unit_memory_bytes=1, unit_network_bps=2,
        unit_storage_bytes=3,
    )  # fmt: skip
    known = profile(speeds=(1.0, 0.5))
    belief = replace(known, tolerated=replace(known.tolerated, low=np.full(10, 35.0)))
    request = request_of(job_spec, belief, SIZE, CLUSTER, job="j", measure_rank=True)
    assert (request.job, request.units, request.gang) == ("j", 3, False)
    assert (request.unit_memory_bytes, request.unit_network_bps) == (1.0, 2.0)
    assert (request.unit_storage_bytes, request.measure_rank) == (3.0, True)
    assert (request.labels, request.platforms) == (frozenset({"zone=1"}), None)
    assert (request.locality, request.spread) == (None, Within.RACK)
    assert request.caused.tolist() == belief.caused.value.tolist()
    assert request.tolerated.tolist() == belief.assumed_tolerance.tolist()
    assert request.platform_speed is not None
    assert request.platform_speed.tolist() == [1.0, 0.5]


def test_speeds_come_in_the_order_of_the_cluster() -> None:
    turned = replace(profile(speeds=(1.0, 0.5)), platforms=("A", "J"))
    request = request_of(spec(), turned, SIZE, CLUSTER, job="j")
    assert request.platform_speed is not None
    assert request.platform_speed.tolist() == [0.5, 1.0]


def test_platforms_without_measurements_are_not_used() -> None:
    only_a = replace(profile(speeds=(0.5,)), platforms=("A",))
    request = request_of(spec(), only_a, SIZE, CLUSTER, job="j")
    assert request.platforms == frozenset({"A"})
    assert request.platform_speed is not None
    assert request.platform_speed.tolist() == [UNKNOWN_SPEED, 0.5]


def test_platforms_on_which_the_size_is_sufficient_are_kept() -> None:
    sized = replace(SIZE, platforms=frozenset({"J"}))
    request = request_of(spec(), profile(), sized, CLUSTER, job="j")
    assert request.platforms == frozenset({"J"})


def test_a_late_job_gets_its_size_at_submission() -> None:
    sized = size_of(spec(), profile(), FACTS)
    late_size = size_or_late(spec(), profile(), FACTS, elapsed_s=150.0)
    assert isinstance(sized, Sized)
    assert isinstance(late_size, Sized)
    assert isinstance(size_of(spec(), profile(), FACTS, elapsed_s=150.0), Infeasible)
    assert (late_size.units, late_size.probability) == (sized.units, 0.0)
    assert late_size.predicted == pytest.approx(sized.predicted + 150.0)
    assert late_size.low == pytest.approx(sized.low + 150.0)
    assert late_size.high == pytest.approx(sized.high + 150.0)


@pytest.mark.parametrize(
    ("elapsed_s", "platforms"), [(100.0, frozenset("J")), (150.0, frozenset("JA"))]
)
def test_a_late_job_accepts_platforms_on_which_it_runs_as_much_longer_as_it_has_waited(
    elapsed_s: float, platforms: frozenset[str]
) -> None:
    known = profile(speeds=(1.0, 0.3))
    in_time, late = (size_or_late(spec(), known, FACTS, elapsed_s=s) for s in (0.0, elapsed_s))
    assert isinstance(in_time, Sized)
    assert isinstance(late, Sized)
    assert in_time.platforms == frozenset("J")
    assert (late.units, late.platforms, late.probability) == (in_time.units, platforms, 0.0)
    run_s = in_time.high if platforms == frozenset("J") else in_time.high / 0.3
    assert late.high == pytest.approx(elapsed_s + run_s)
    assert late.high <= in_time.high + 2.0 * elapsed_s


def test_a_target_infeasible_at_submission_stays_infeasible() -> None:
    hopeless = spec(target=CompletionTime(1.0), input_bytes=9 * 10**12)
    assert isinstance(size_or_late(hopeless, profile(), FACTS, elapsed_s=5.0), Infeasible)


def test_a_job_in_time_is_sized_normally() -> None:
    in_time = size_of(spec(), profile(), FACTS, elapsed_s=10.0)
    assert size_or_late(spec(), profile(), FACTS, elapsed_s=10.0) == in_time


def test_facts_if_open_include_closed_servers() -> None:
    closed = replace(SNAPSHOT, server_open=np.array([True, False, False]))
    assert open_units(cluster_facts(closed, ("J", "A"))) == (("J", "A"), (16, 0), (16, 0))
    assert open_units(facts_if_open(closed, ("J", "A"))) == (("J", "A"), (20, 8), (16, 8))


def test_a_job_waits_if_only_closed_servers_meet_its_target() -> None:
    closed = replace(SNAPSHOT, server_open=np.zeros(3, dtype=np.bool_))
    assert is_only_closed(spec(), profile(), closed)
    assert not is_only_closed(spec(input_bytes=9 * 10**15), profile(), closed)
    assert not is_only_closed(spec(), profile(), SNAPSHOT)
