"""Reads of the running cluster: containers, their classes, and which are movable."""

import numpy as np
import pytest

from apps.inventory.models import Server, ServerState
from apps.placement.core.problem.instance import Communication
from apps.placement.core.problem.objectives import evaluate
from apps.placement.core.rebalancing import cluster
from apps.placement.models import ContainerClass
from apps.placement.selectors.cluster import RebalancingScope, read_cluster
from apps.workloads.models import Job
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def servers() -> list[Server]:
    factories.cluster(seen_cluster_s=7200.0)
    kind = factories.platform("J", cores=4)
    return [factories.server(f"s{i}", of=kind, rack=f"rack-{i % 2}") for i in range(3)]


def running(name: str, **values: object) -> Job:
    application = factories.application()
    factories.profile(application)
    return factories.job(
        name, state="running", application=application, started_s=3600.0, progress=0.1, **values
    )


def test_an_allocation_is_a_container(servers: list[Server]) -> None:
    one_job, second = running("one"), running("two", attainment=1.2)
    first = factories.allocation(one_job, servers[0], cores=2)
    factories.allocation(one_job, servers[1], cores=1)
    third = factories.allocation(second, servers[0], cores=1)
    read = read_cluster()
    assert read.allocation_id.size == 3
    assert set(read.allocation_id.tolist()) >= {first.id, third.id}
    at = read.allocation_id.tolist().index(first.id)
    assert (read.size[at], read.server_name[read.assignment[at]]) == (2, "s0")
    assert read.job_name[read.job[at]] == "one"
    assert read.held_units.tolist() == [3, 1, 0]
    assert np.isnan(read.attainment).sum() == 1
    assert read.is_movable.all()


def test_an_allocation_of_a_job_that_does_not_run_only_holds_units(servers: list[Server]) -> None:
    factories.allocation(factories.job(state="starting"), servers[0], cores=3)
    read = read_cluster()
    assert read.allocation_id.size == 0
    assert read.held_units.tolist() == [3, 0, 0]
    assert cluster.measure(read, read.assignment).watts == 0.0


def test_the_reservation_of_a_migration_is_not_a_container(servers: list[Server]) -> None:
    job = running("one")
    source = factories.allocation(job, servers[0], cores=2)
    factories.allocation(job, servers[1], cores=2, moved_from=source.id)
    read = read_cluster()
    assert read.allocation_id.tolist() == [source.id]
    assert read.held_units.tolist() == [2, 2, 0]


def test_classes_are_those_last_measured(
    servers: list[Server],
) -> None:
    job = running("one")
    parts = [factories.allocation(job, server) for server in servers]
    ContainerClass.objects.create(
        allocation_id=parts[1].id, job=job, read_s=100.0, intensity=0.8, is_taz=True,
        communication=Communication.RACK,
    )  # fmt: skip
    read = read_cluster()
    assert read.intensity.tolist() == [0.0, 0.8, 0.0]
    assert read.is_taz.tolist() == [False, True, False]
    assert read.communication.tolist() == [Communication.RACK]


@pytest.mark.parametrize(
    "values",
    [
        {"held": True},
        {"constraints": {"spread": "server"}},
        {"constraints": {"locality": "rack"}},
        {"started_s": 7000.0},
        {"duration_s": 3700.0},
        {"progress": 0.97},
    ],
    ids=["held", "spread", "near", "young", "ends by the clock", "ends by its work"],
)
def test_held_young_and_constrained_jobs_are_not_movable(
    servers: list[Server], values: dict[str, object]
) -> None:
    job = running("stays")
    Job.objects.filter(pk=job.pk).update(**values)
    factories.allocation(job, servers[0])
    factories.allocation(running("moves"), servers[0])
    read = read_cluster(scope=RebalancingScope(youngest_s=300.0))
    names = [read.job_name[j] for j in read.job]
    assert dict(zip(names, read.is_movable.tolist(), strict=True)) == {
        "stays": False,
        "moves": True,
    }


def test_the_rest_of_a_resumed_job_follows_from_the_progress_since_it_was_resumed(
    servers: list[Server],
) -> None:
    job = running("resumed")
    Job.objects.filter(pk=job.pk).update(progress_before=0.95, progress=0.97)
    factories.allocation(job, servers[0])
    read = read_cluster(scope=RebalancingScope(youngest_s=300.0))
    assert read.is_movable.tolist() == [True]  # 3,600 s for two of the five percent


def test_pinned_jobs_and_jobs_without_a_profile_are_not_movable(servers: list[Server]) -> None:
    pinned, bare = running("pinned"), factories.job(state="running", started_s=3600.0)
    factories.allocation(pinned, servers[0])
    factories.allocation(bare, servers[0])
    read = read_cluster(scope=RebalancingScope(pinned=frozenset({pinned.pk})))
    assert not read.is_movable.any()


def test_a_scope_of_racks_limits_containers_and_targets(servers: list[Server]) -> None:
    factories.allocation(running("one"), servers[0])
    factories.allocation(running("two"), servers[1])
    read = read_cluster(scope=RebalancingScope(racks=frozenset({"rack-1"})))
    assert read.is_open.tolist() == [False, True, False]
    assert read.is_movable[read.assignment.tolist().index(1)]
    assert not read.is_movable[read.assignment.tolist().index(0)]


def test_an_unknown_rack_is_named(servers: list[Server]) -> None:
    with pytest.raises(ValueError, match="no rack 'rack-9'; known racks: rack-0, rack-1"):
        read_cluster(scope=RebalancingScope(racks=frozenset({"rack-9"})))


def test_closed_servers_are_not_targets(servers: list[Server]) -> None:
    Server.objects.filter(pk=servers[2].pk).update(state=ServerState.DRAINING)
    assert read_cluster().is_open.tolist() == [True, True, False]


def test_jobs_are_allowed_on_servers_that_match_their_constraints(servers: list[Server]) -> None:
    Server.objects.filter(pk=servers[1].pk).update(labels={"zone": "b"})
    job = running("zoned", constraints={"labels": {"zone": "b"}})
    other = running("elsewhere", constraints={"platforms": ["K"]})
    factories.allocation(job, servers[1])
    factories.allocation(other, servers[1])
    apart = running("apart", constraints={"excluded": [servers[0].name, "gone"]})
    factories.allocation(apart, servers[1])
    read = read_cluster()
    allowed = dict(zip(read.job_name, read.is_allowed.tolist(), strict=True))
    assert allowed == {
        "zoned": [False, True, False],
        "elsewhere": [False, False, False],
        "apart": [False, True, True],
    }


def test_a_past_cluster_time_shows_the_containers_of_that_time(servers: list[Server]) -> None:
    job = running("one")
    released = factories.allocation(
        job, servers[0], acquired_s=3600.0, released_s=5000.0, released_seq=10**9
    )
    here = factories.allocation(job, servers[1], acquired_s=5000.0)
    assert read_cluster(4000.0).allocation_id.tolist() == [released.id]
    assert read_cluster(6000.0).allocation_id.tolist() == [here.id]
    assert read_cluster(3599.0).allocation_id.size == 0


def test_the_instance_of_a_front_fits_the_current_containers(
    servers: list[Server],
) -> None:
    factories.allocation(running("one"), servers[0], cores=2)
    factories.allocation(running("two"), servers[1], cores=1)
    read = read_cluster()
    instance = cluster.to_instance(read)
    # two of two units, four of one; an empty server holds as many as of 1.5 units
    assert instance.slots.tolist() == [2, 4, 3]
    assert instance.node_ids == ("s0", "s1", "s2")
    assert instance.current.tolist() == read.assignment.tolist()
    power = evaluate(instance, instance.current).raw["P"]
    assert power == pytest.approx(cluster.measure(read, read.assignment).watts)


def test_the_number_of_queries_does_not_depend_on_the_number_of_containers(
    servers: list[Server], django_assert_max_num_queries: object
) -> None:
    for i in range(6):
        factories.allocation(running(f"j{i}"), servers[i % 3])
    with django_assert_max_num_queries(12):  # type: ignore[operator]
        read_cluster()
