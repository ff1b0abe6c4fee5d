"""The running cluster read from the rows: what runs where, what may move, what is known of it."""

import numpy as np
import pytest

from apps.inventory.models import Server, ServerState
from apps.placement.core import live
from apps.placement.core.instance import Communication
from apps.placement.core.objectives import evaluate
from apps.placement.models import ContainerClass
from apps.placement.selectors.cluster import Choice, read_cluster
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


def test_a_container_is_what_one_allocation_holds(servers: list[Server]) -> None:
    one, two = running("one"), running("two", attainment=1.2)
    first = factories.allocation(one, servers[0], cores=2)
    factories.allocation(one, servers[1], cores=1)
    third = factories.allocation(two, servers[0], cores=1)
    found = read_cluster()
    assert found.allocation_id.size == 3
    assert set(found.allocation_id.tolist()) >= {first.id, third.id}
    at = found.allocation_id.tolist().index(first.id)
    assert (found.size[at], found.server_name[found.home[at]]) == (2, "s0")
    assert found.job_name[found.job[at]] == "one"
    assert found.held_units.tolist() == [3, 1, 0]
    assert np.isnan(found.attainment).sum() == 1
    assert found.is_movable.all()


def test_what_is_not_running_holds_units_and_is_no_container(servers: list[Server]) -> None:
    factories.allocation(factories.job(state="starting"), servers[0], cores=3)
    found = read_cluster()
    assert found.allocation_id.size == 0
    assert found.held_units.tolist() == [3, 0, 0]
    assert live.measure(found, found.home).watts == 0.0


def test_a_reservation_of_a_move_is_no_container(servers: list[Server]) -> None:
    job = running("one")
    source = factories.allocation(job, servers[0], cores=2)
    factories.allocation(job, servers[1], cores=2, moved_from=source.id)
    found = read_cluster()
    assert found.allocation_id.tolist() == [source.id]
    assert found.held_units.tolist() == [2, 2, 0]


def test_classes_are_those_last_measured_and_a_job_talks_as_its_containers_say(
    servers: list[Server],
) -> None:
    job = running("one")
    parts = [factories.allocation(job, server) for server in servers]
    ContainerClass.objects.create(
        allocation_id=parts[1].id, job=job, read_s=100.0, intensity=0.8, is_taz=True,
        communication=Communication.RACK,
    )  # fmt: skip
    found = read_cluster()
    assert found.intensity.tolist() == [0.0, 0.8, 0.0]
    assert found.is_taz.tolist() == [False, True, False]
    assert found.wish.tolist() == [Communication.RACK]


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
def test_some_jobs_stay_where_they_are(servers: list[Server], values: dict[str, object]) -> None:
    job = running("stays")
    Job.objects.filter(pk=job.pk).update(**values)
    factories.allocation(job, servers[0])
    factories.allocation(running("moves"), servers[0])
    found = read_cluster(choice=Choice(youngest_s=300.0))
    names = [found.job_name[j] for j in found.job]
    assert dict(zip(names, found.is_movable.tolist(), strict=True)) == {
        "stays": False,
        "moves": True,
    }


def test_pinned_jobs_and_those_without_a_profile_stay(servers: list[Server]) -> None:
    pinned, bare = running("pinned"), factories.job(state="running", started_s=3600.0)
    factories.allocation(pinned, servers[0])
    factories.allocation(bare, servers[0])
    found = read_cluster(choice=Choice(pinned=frozenset({pinned.pk})))
    assert not found.is_movable.any()


def test_a_choice_of_racks_moves_only_there(servers: list[Server]) -> None:
    factories.allocation(running("one"), servers[0])
    factories.allocation(running("two"), servers[1])
    found = read_cluster(choice=Choice(racks=frozenset({"rack-1"})))
    assert found.is_open.tolist() == [False, True, False]
    assert found.is_movable[found.home.tolist().index(1)]
    assert not found.is_movable[found.home.tolist().index(0)]


def test_an_unknown_rack_is_named(servers: list[Server]) -> None:
    with pytest.raises(ValueError, match="no rack 'rack-9': there are rack-0, rack-1"):
        read_cluster(choice=Choice(racks=frozenset({"rack-9"})))


def test_closed_servers_take_nothing(servers: list[Server]) -> None:
    Server.objects.filter(pk=servers[2].pk).update(state=ServerState.DRAINING)
    assert read_cluster().is_open.tolist() == [True, True, False]


def test_jobs_are_allowed_where_their_request_allows_them(servers: list[Server]) -> None:
    Server.objects.filter(pk=servers[1].pk).update(labels={"zone": "b"})
    job = running("zoned", constraints={"labels": {"zone": "b"}})
    other = running("elsewhere", constraints={"platforms": ["K"]})
    factories.allocation(job, servers[1])
    factories.allocation(other, servers[1])
    found = read_cluster()
    allowed = dict(zip(found.job_name, found.is_allowed.tolist(), strict=True))
    assert allowed == {"zoned": [False, True, False], "elsewhere": [False, False, False]}


def test_a_moment_of_the_past_shows_what_ran_then(servers: list[Server]) -> None:
    job = running("one")
    gone = factories.allocation(
        job, servers[0], acquired_s=3600.0, released_s=5000.0, released_seq=10**9
    )
    here = factories.allocation(job, servers[1], acquired_s=5000.0)
    assert read_cluster(4000.0).allocation_id.tolist() == [gone.id]
    assert read_cluster(6000.0).allocation_id.tolist() == [here.id]
    assert read_cluster(3599.0).allocation_id.size == 0


def test_the_instance_of_a_front_has_room_for_containers_as_they_are(
    servers: list[Server],
) -> None:
    factories.allocation(running("one"), servers[0], cores=2)
    factories.allocation(running("two"), servers[1], cores=1)
    found = read_cluster()
    instance = live.to_instance(found)
    # two of two units, four of one; an empty server holds as many as of 1.5 units
    assert instance.slots.tolist() == [2, 4, 3]
    assert instance.node_ids == ("s0", "s1", "s2")
    assert instance.current.tolist() == found.home.tolist()
    seen = evaluate(instance, instance.current).raw["P"]
    assert seen == pytest.approx(live.measure(found, found.home).watts)


def test_the_cost_does_not_grow_with_the_containers(
    servers: list[Server], django_assert_max_num_queries: object
) -> None:
    for i in range(6):
        factories.allocation(running(f"j{i}"), servers[i % 3])
    with django_assert_max_num_queries(12):  # type: ignore[operator]
        read_cluster()
