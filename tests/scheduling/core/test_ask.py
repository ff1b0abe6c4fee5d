"""From a job and a profile to what a policy is asked."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.scheduling.core.ask import (
    UNKNOWN_SPEED,
    Ask,
    ask_of,
    cluster_facts,
    facts_if_open,
    is_only_closed,
    request_of,
    size_of,
    size_or_late,
)
from apps.scheduling.core.sizing import ClusterFacts, Infeasible, Sized
from apps.scheduling.core.types import Within
from apps.workloads.core.spec import Constraints, parse_job
from apps.workloads.core.targets import BestEffort, CompletionTime
from tests.classification.core.profiles import profile
from tests.scheduling.core.clusters import idle, topology

CLUSTER = topology((16, 8, 4))  # platforms J, A, J
SNAPSHOT = idle(CLUSTER)
FACTS = ClusterFacts(("J", "A"), (20, 8), (16, 8))
SIZE = Sized(3, None, None, 50.0, 40.0, 60.0, 0.9)


def open_units(facts: ClusterFacts) -> tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...]]:
    return facts.platforms, facts.units, facts.server_units


def ask(**fields: Any) -> Ask:
    """Ask for 9 GB in 100 s."""
    known = {"target": CompletionTime(100.0), "constraints": Constraints(), "input_bytes": 9e9}
    return Ask(**{"job": "j", **known, **fields})


def test_a_submission_is_read_whole() -> None:
    spec = parse_job(
        {
            "application": "kmeans",
            "target": {"kind": "completion_time", "seconds": 60},
            "input_bytes": 5,
            "tasks": 7,
            "units": 3,
            "gang": False,
            "constraints": {"platforms": ["J"], "labels": {"zone": "1"}, "spread": "rack"},
        }
    )
    assert ask_of(spec, job="x") == Ask(
        job="x",
        target=CompletionTime(60.0),
        constraints=spec.constraints,
        input_bytes=5.0,
        tasks=7,
        units=3,
        gang=False,
        unit_memory_bytes=spec.unit_memory_bytes,
        unit_network_bps=spec.unit_network_bps,
        unit_storage_bytes=spec.unit_storage_bytes,
        elapsed_s=0.0,
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


def test_an_empty_cluster_has_no_units() -> None:
    empty = idle(topology((), platforms=()))
    assert open_units(cluster_facts(empty, ("J",))) == (("J",), (0,), (0,))


def test_what_passed_since_submission_makes_a_job_larger() -> None:
    in_time = size_of(ask(), profile(), FACTS)
    late = size_of(ask(elapsed_s=70.0), profile(), FACTS)
    assert isinstance(in_time, Sized)
    assert isinstance(late, Sized)
    assert (in_time.units, late.units) == (2, 4)  # 180 and 360 MB/s for 90 and 300 wanted


def test_a_fixed_size_outranks_ours_and_promises_nothing() -> None:
    sized = size_of(ask(units=7), profile(), FACTS)
    assert isinstance(sized, Sized)
    assert (sized.units, sized.platforms) == (7, None)
    assert math.isnan(sized.predicted)


def test_a_fixed_size_keeps_to_the_platforms_asked_for() -> None:
    only_a = Constraints(platforms=("A",))
    sized = size_of(ask(units=7, constraints=only_a), profile(), FACTS)
    assert isinstance(sized, Sized)
    assert sized.platforms == frozenset({"A"})


def test_a_target_out_of_reach_is_infeasible() -> None:
    assert isinstance(size_of(ask(target=CompletionTime(0.1)), profile(), FACTS), Infeasible)


def test_an_allowed_platform_without_servers_is_infeasible() -> None:
    nowhere = Constraints(platforms=("Z",))
    found = size_of(ask(target=BestEffort(), constraints=nowhere), profile(), FACTS)
    assert isinstance(found, Infeasible)
    assert found.platform is None


@pytest.mark.parametrize("kind", ["single_node", "batch"])
def test_what_runs_on_one_server_asks_for_one(kind: str) -> None:
    sized = size_of(ask(), profile(kind=kind), FACTS)
    assert isinstance(sized, Sized)
    assert sized.locality == Within.SERVER


def test_a_request_says_what_the_job_asks_for() -> None:
    where = Constraints(labels={"zone": "1"}, locality=None, spread="rack")
    asked = ask(
        constraints=where, gang=False, unit_memory_bytes=1.0, unit_network_bps=2.0,
        unit_storage_bytes=3.0,
    )  # fmt: skip
    belief = replace(profile(speeds=(1.0, 0.5)), tolerated_low=np.full(10, 35.0))
    request = request_of(asked, belief, SIZE, CLUSTER, measure_rank=True)
    assert (request.job, request.units, request.gang) == ("j", 3, False)
    assert (request.unit_memory_bytes, request.unit_network_bps) == (1.0, 2.0)
    assert (request.unit_storage_bytes, request.measure_rank) == (3.0, True)
    assert (request.labels, request.platforms) == (frozenset({"zone=1"}), None)
    assert (request.locality, request.spread) == (None, Within.RACK)
    assert request.caused.tolist() == belief.caused.tolist()
    assert request.tolerated.tolist() == [35.0] * 10  # of its interval the pessimistic end
    assert request.platform_speed is not None
    assert request.platform_speed.tolist() == [1.0, 0.5]


def test_speeds_come_in_the_order_of_the_cluster() -> None:
    turned = replace(profile(speeds=(1.0, 0.5)), platforms=("A", "J"))
    request = request_of(ask(), turned, SIZE, CLUSTER)
    assert request.platform_speed is not None
    assert request.platform_speed.tolist() == [0.5, 1.0]


def test_platforms_that_were_never_measured_are_not_used() -> None:
    only_a = replace(profile(speeds=(0.5,)), platforms=("A",))
    request = request_of(ask(), only_a, SIZE, CLUSTER)
    assert request.platforms == frozenset({"A"})
    assert request.platform_speed is not None
    assert request.platform_speed.tolist() == [UNKNOWN_SPEED, 0.5]


def test_platforms_where_the_size_is_enough_are_kept() -> None:
    sized = replace(SIZE, platforms=frozenset({"J"}))
    assert request_of(ask(), profile(), sized, CLUSTER).platforms == frozenset({"J"})


def test_a_promise_that_waiting_broke_is_kept_as_well_as_it_can_be() -> None:
    in_time, late = ask(), ask(elapsed_s=150.0)
    wanted = size_of(in_time, profile(), FACTS)
    found = size_or_late(late, profile(), FACTS)
    assert isinstance(wanted, Sized)
    assert isinstance(found, Sized)
    assert isinstance(size_of(late, profile(), FACTS), Infeasible)
    assert (found.units, found.probability) == (wanted.units, 0.0)
    assert found.predicted == pytest.approx(wanted.predicted + 150.0)
    assert found.low == pytest.approx(wanted.low + 150.0)
    assert found.high == pytest.approx(wanted.high + 150.0)


def test_a_promise_that_nothing_ever_kept_is_not_late_but_impossible() -> None:
    hopeless = ask(target=CompletionTime(1.0), input_bytes=9e12, elapsed_s=5.0)
    assert isinstance(size_or_late(hopeless, profile(), FACTS), Infeasible)


def test_a_job_in_time_is_sized_as_ever() -> None:
    assert size_or_late(ask(elapsed_s=10.0), profile(), FACTS) == size_of(
        ask(elapsed_s=10.0), profile(), FACTS
    )


def test_closed_servers_count_among_those_that_could_be_open() -> None:
    closed = replace(SNAPSHOT, server_open=np.array([True, False, False]))
    assert open_units(cluster_facts(closed, ("J", "A"))) == (("J", "A"), (16, 0), (16, 0))
    assert open_units(facts_if_open(closed, ("J", "A"))) == (("J", "A"), (20, 8), (16, 8))


def test_what_only_an_open_server_could_do_may_wait() -> None:
    closed = replace(SNAPSHOT, server_open=np.zeros(3, dtype=np.bool_))
    assert is_only_closed(ask(), profile(), closed)
    assert not is_only_closed(ask(input_bytes=9e15), profile(), closed)
    assert not is_only_closed(ask(), profile(), SNAPSHOT)
