"""Platforms, servers, units, the map, and what operators may do."""

from base64 import b64decode
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.inventory.models import Change, Server, ServerReading
from apps.scheduling.models import Decision
from apps.workloads.models import Job
from tests import factories
from tests.api.cluster import build_cluster, place
from tests.api.conftest import Speak
from tests.api.samples import submitted
from tests.scheduling.plans import rows_read


@pytest.fixture(autouse=True)
def cluster(db: None) -> None:
    build_cluster()


def test_platforms_say_how_much_there_is(api: APIClient) -> None:
    results = api.get("/api/v1/platforms/").json()["results"]
    assert [
        (p["metadata"]["name"], p["status"]["servers"], p["status"]["units"]) for p in results
    ] == [
        ("A", 2, 8),
        ("B", 1, 2),
    ]


def test_there_are_ten_sources_of_interference(api: APIClient) -> None:
    results = api.get("/api/v1/interference-sources/").json()["results"]
    assert [source["id"] for source in results] == list(range(10))


def test_a_server_is_found_by_name_and_by_id(api: APIClient) -> None:
    named = api.get("/api/v1/servers/srv-1/").json()
    assert api.get(f"/api/v1/servers/{named['metadata']['id']}/").json() == named
    assert named["status"]["reading"]["cpu_share"] == 0.5


def test_a_server_that_never_reported_has_no_reading(api: APIClient) -> None:
    assert api.get("/api/v1/servers/srv-2/").json()["status"]["reading"] is None


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("platform=A", ["srv-1", "srv-2"]),
        ("rack=r2", ["srv-2", "srv-3"]),
        ("switch=agg-1", ["srv-1"]),
        ("label=zone:1", ["srv-1"]),
        ("state=down", []),
        ("q=3", ["srv-3"]),
    ],
)
def test_servers_are_filtered(api: APIClient, query: str, names: list[str]) -> None:
    results = api.get(f"/api/v1/servers/?{query}&ordering=name").json()["results"]
    assert [server["metadata"]["name"] for server in results] == names


def test_a_page_of_servers_takes_two_queries(
    api: APIClient, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(2):
        assert len(api.get("/api/v1/servers/").json()["results"]) == 3


def test_units_say_what_holds_them(api: APIClient) -> None:
    place(submitted(api))
    free = api.get("/api/v1/units/?free=true&count=exact").json()
    held = api.get("/api/v1/units/?free=false").json()["results"]
    assert free["count"] == 8
    assert [(unit["server"], unit["allocation"]) for unit in held] == [("srv-1", 7)] * 2
    assert len(api.get("/api/v1/servers/srv-1/units/").json()["results"]) == 4


def test_the_units_of_an_allocation_are_found_through_it(api: APIClient) -> None:
    many = factories.server("many", cores=20_000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE inventory_resourceunit")
    ended, runs = (factories.job(state=state) for state in ("succeeded", "running"))
    released = factories.allocation(ended, many, cores=2, released_seq=10**6, released_s=9e9)
    held = factories.allocation(runs, many, cores=3)
    assert set(released.unit_ids) < set(held.unit_ids)
    with CaptureQueriesContext(connection) as captured:
        answer = api.get(f"/api/v1/units/?allocation={held.id}&count=exact").json()
    assert (answer["count"], [unit["id"] for unit in answer["results"]]) == (3, held.unit_ids)
    of_units = [q["sql"] for q in captured if 'FROM "inventory_resourceunit"' in q["sql"]]
    assert len(of_units) == 2  # the page and its count
    for sql in of_units:
        assert rows_read(sql, table="inventory_resourceunit") <= 10
    for nothing in (released.id, 999_999):
        found = api.get(f"/api/v1/units/?allocation={nothing}").json()
        assert found["results"] == []


def test_an_operator_drains_and_reopens_a_server(power: APIClient) -> None:
    url = "/api/v1/servers/srv-1/"
    assert power.post(f"{url}drain/").json()["status"]["state"] == "draining"
    assert power.post(f"{url}cordon/").json()["status"]["state"] == "cordoned"
    assert power.post(f"{url}undrain/").json()["status"]["state"] == "active"
    kinds = Change.objects.exclude(kind="topology").order_by("seq").values_list("kind", flat=True)
    assert list(kinds) == ["close", "close", "open"]


def test_a_submitter_may_not_drain(api: APIClient) -> None:
    assert api.post("/api/v1/servers/srv-1/drain/").status_code == 403


def test_draining_holds_to_if_match(power: APIClient) -> None:
    url = "/api/v1/servers/srv-1/drain/"
    assert power.post(url, HTTP_IF_MATCH='"g9"').status_code == 412
    assert Server.objects.get(name="srv-1").state == "active"
    assert power.post(url, HTTP_IF_MATCH='"g1"').status_code == 200


def test_the_map_packs_one_byte_per_server(api: APIClient) -> None:
    ServerReading.objects.update(at=timezone.now())
    layer = api.get("/api/v1/cluster/map/?layer=cpu").json()
    assert list(b64decode(layer["values"])) == [100, 255, 255]
    assert 100 * layer["scale"] == 0.5
    assert len(layer["ids"]) == 3


def test_an_unknown_layer_is_refused(api: APIClient) -> None:
    assert api.get("/api/v1/cluster/map/?layer=mood").json()["code"] == "invalid_parameter"


def test_the_cluster_in_a_few_numbers(api: APIClient) -> None:
    place(submitted(api))
    ServerReading.objects.update(at=timezone.now())
    cluster = api.get("/api/v1/cluster/").json()
    assert (cluster["units"], cluster["units_allocated"]) == (10, 2)
    assert cluster["servers"] == {"active": 3}
    assert cluster["power_watts"] == 125.0


def test_the_clock_tells_cluster_time(api: APIClient) -> None:
    clock = api.get("/api/v1/cluster/clock/").json()
    assert (clock["now_s"], clock["speed"]) == (0.0, 0.0)


def test_a_placed_job_is_explained_from_its_decision(api: APIClient) -> None:
    job = submitted(api)
    decision = place(job)
    explanation = api.get(f"/api/v1/jobs/{job}/explanation/").json()
    assert explanation["summary"].startswith(
        "Placed by tarcil: 2 units on srv-1. 8 of 10 eligible"
    )
    assert explanation["decision"]["id"] == str(decision.pk)
    assert explanation["decision"]["guarantee"]["statement"] == (
        "P(one of the best 2 of 8 is outside the top 20%) = 0.168"
    )
    Decision.objects.update(probability=0.0)
    explanation = api.get(f"/api/v1/jobs/{job}/explanation/").json()
    assert explanation["decision"]["guarantee"]["statement"] == (
        "8 of 10 eligible units were examined: no other can be better"
    )


def test_a_waiting_job_is_explained_from_the_decision_on_its_shape(api: APIClient) -> None:
    first, second = (Job.objects.get(id=submitted(api)) for _ in range(2))
    Job.objects.update(state="queued")
    refused: dict[str, Any] = {
        "outcome": "refused",
        "reason_code": "NoFreeUnit",
        "dropped": {"busy": 10},
    }
    decision = factories.decision(first, **refused)
    factories.waiting_shape(first, second, by=decision)
    own, shared = (
        api.get(f"/api/v1/jobs/{job.id}/explanation/").json() for job in (first, second)
    )
    assert shared["decision"]["id"] == own["decision"]["id"] == str(decision.id)
    assert shared["reason"]["code"] == "NoFreeUnit"
    sentence = f"Evaluated for {first.name}, which has an equal request."
    assert shared["summary"] == f"{own['summary']} {sentence}"


def test_candidates_have_the_union_of_columns(api: APIClient) -> None:
    decision = place(submitted(api))
    table = api.get(f"/api/v1/decisions/{decision.pk}/candidates/").json()
    assert table["columns"] == ["server", "server_id", "verdict", "quality", "key"]
    assert [row["server"] for row in table["results"]] == ["srv-1", "srv-2"]
    assert table["results"][1]["quality"] is None


def test_servers_and_jobs_know_of_each_other(api: APIClient) -> None:
    job = submitted(api)
    place(job)
    on_server = api.get("/api/v1/servers/srv-1/jobs/").json()["results"]
    assert [job_on_server["metadata"]["id"] for job_on_server in on_server] == [job]
    assert api.get("/api/v1/servers/srv-2/jobs/").json()["results"] == []
    assert len(api.get("/api/v1/servers/srv-1/decisions/").json()["results"]) == 1
    placements = api.get(f"/api/v1/jobs/{job}/placements/").json()["results"]
    assert [(p["server"], p["cores"]) for p in placements] == [("srv-1", 2)]


def test_decisions_about_other_projects_do_not_exist(
    api: APIClient, stranger: User, as_user: Speak
) -> None:
    decision = place(submitted(api))
    other = as_user(stranger)
    assert other.get(f"/api/v1/decisions/{decision.pk}/").status_code == 404
    assert other.get("/api/v1/decisions/").json()["results"] == []
    assert other.get("/api/v1/servers/srv-1/jobs/").json()["results"] == []
    assert other.get("/api/v1/servers/srv-1/decisions/").json()["results"] == []


@pytest.mark.parametrize(("query", "count"), [("outcome=placed", 1), ("outcome=refused", 0)])
def test_decisions_are_filtered(api: APIClient, query: str, count: int) -> None:
    place(submitted(api))
    assert len(api.get(f"/api/v1/decisions/?{query}").json()["results"]) == count
