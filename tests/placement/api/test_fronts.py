"""REST API of fronts."""

import json
import zlib
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.common.infrastructure.warm_up import Kernels, warming_up
from apps.inventory.models import ClusterFrame
from apps.operations.models import Operation
from apps.placement.api.front_serializers import COMPILING
from apps.placement.core.front.mix import mix_of
from apps.placement.core.problem.examples import InstanceSpec, generate_instance
from apps.placement.core.problem.instance_file import instance_to_json
from apps.placement.core.problem.objectives import evaluate, registry
from apps.placement.models import CurveObjective, Front
from apps.placement.selectors import fronts as selectors
from apps.placement.selectors.drift import running_mix
from apps.placement.selectors.objectives import curve_of
from apps.placement.services.front.fronts import search_next_front
from apps.scheduling.models import Allocation
from tests import factories
from tests.api.conftest import Speak
from tests.placement.front_world import (
    PLAIN,
    REAL,
    nothing_runs,
    requested_front,
    searched_front,
    ticking,
)

URL = "/api/v1/fronts/"


def body(**values: Any) -> dict[str, Any]:
    defaults = {
        "source": "instance",
        "instance": instance_to_json(generate_instance(REAL, 1)),
        "budget_seconds": 2.0,
    }
    return {**defaults, **values}


def test_a_front_that_waits_says_that_the_kernels_are_being_compiled(power: APIClient) -> None:
    power.post(URL, body())
    assert power.get(f"{URL}f-0001/").json()["message"] == ""
    with warming_up(Kernels.PLACEMENT):
        assert power.get(f"{URL}f-0001/").json()["message"] == COMPILING
        search_next_front(nothing_runs, clock=ticking())
        assert "compiled" not in power.get(f"{URL}f-0001/").json()["message"]


def test_a_front_that_waits_again_has_no_message_of_its_earlier_search(power: APIClient) -> None:
    power.post(URL, body())
    Operation.objects.update(message="generation 12, 5 points")
    assert power.get(f"{URL}f-0001/").json()["message"] == ""


def test_a_front_is_requested_searched_and_read(power: APIClient) -> None:
    response = power.post(URL, body())
    assert response.status_code == 202, response.content
    operation = response.json()
    assert response["Location"] == f"/api/v1/operations/{operation['id']}/"
    front = power.get(f"{URL}{operation['arguments']['front']}/").json()
    assert (front["name"], front["state"], front["versions"]) == ("f-0001", "pending", [])
    assert (front["source"], front["containers"], front["nodes"]) == ("instance", 24, 20)
    search_next_front(nothing_runs, clock=ticking())
    front = power.get(f"{URL}f-0001/").json()
    assert (front["state"], front["progress"], front["total"]) == ("succeeded", 100, 100)
    assert front["created_by"] == "olga"
    assert front["operation"] == operation["id"]
    assert front["versions"][-1]["points"] > 3
    assert [anchor["name"] for anchor in front["anchors"]] == ["SlotRR", "NodeRR"]
    assert set(front["scales"]) == set("PDC")
    assert front["history"][-1]["points"] == front["versions"][-1]["points"]
    assert front["message"].startswith(f"generation {front['history'][-1]['generation']:,}, ")
    assert front["drift"] is None


def test_a_key_makes_one_front_of_two_requests(power: APIClient) -> None:
    first = power.post(URL, body(), headers={"Idempotency-Key": "k"})
    again = power.post(URL, body(), headers={"Idempotency-Key": "k"})
    assert first.json() == again.json()
    assert again["Idempotency-Replayed"] == "true"
    assert Front.objects.count() == 1


@pytest.mark.parametrize(
    ("change", "pointer", "code"),
    [
        ({"source": "thought"}, "/source", "invalid_choice"),
        ({"budget_seconds": 0}, "/budget_seconds", "min_value"),
        ({"budget_seconds": 3601}, "/budget_seconds", "max_value"),
        ({"seed": -1}, "/seed", "min_value"),
        ({"most": 5}, "/most", "unknown_field"),
        ({"cluster_seconds": 5.0}, "/cluster_seconds", "not_allowed"),
        ({"source": "cluster"}, "/instance", "not_allowed"),
        ({"instance": {"nodes": []}}, "/instance/containers", "required"),
        ({"instance": {"nodes": [], "containers": []}}, "/instance/containers", "too_few"),
        ({"instance": 7}, "/instance", "wrong_type"),
    ],
)
def test_invalid_fields_are_named(
    power: APIClient, change: dict[str, Any], pointer: str, code: str
) -> None:
    response = power.post(URL, body(**change))
    assert response.status_code == 422
    assert (pointer, code) in [(e["pointer"], e["code"]) for e in response.json()["errors"]]


def test_an_invalid_field_of_the_instance_is_named(power: APIClient) -> None:
    request_body = body()
    request_body["instance"]["nodes"][3]["slots"] = 0
    response = power.post(URL, request_body)
    assert response.json()["errors"][0]["pointer"] == "/instance/nodes/3/slots"


def test_an_instance_is_required(power: APIClient) -> None:
    response = power.post(URL, {"source": "instance"})
    assert [e["pointer"] for e in response.json()["errors"]] == ["/instance"]


@pytest.mark.parametrize("action", ["", "f-0001/stop/"])
def test_writing_needs_an_operator(api: APIClient, operator: User, action: str) -> None:
    requested_front(operator)
    response = api.post(f"{URL}{action}", body())
    assert (response.status_code, response.json()["code"]) == (403, "permission_denied")


def test_viewers_may_read(viewer: User, operator: User, as_user: Speak) -> None:
    searched_front(operator)
    client = as_user(viewer)
    for address in ("", "f-0001/", "f-0001/points/"):
        assert client.get(f"{URL}{address}").status_code == 200
    # the placement of the containers of every project
    assert client.get(f"{URL}f-0001/points/0/").status_code == 403


def test_points_name_no_job_that_the_caller_may_not_see(
    viewer: User, operator: User, as_user: Speak
) -> None:
    front = searched_front(operator)
    project = viewer.memberships.get().project
    jobs = [factories.job(project=project), factories.job(project=factories.project("secret"))]
    own, other = (str(job.pk) for job in jobs)
    version = front.versions.latest("number")
    facts = json.loads(zlib.decompress(bytes(version.facts)))
    facts["worst_job"] = [own, other, *[None] * (len(facts["worst_job"]) - 2)]
    version.facts = zlib.compress(json.dumps(facts).encode())
    version.save()
    Front.objects.update(source="cluster")

    def named(by: User) -> list[str | None]:
        found: list[str | None] = as_user(by).get(f"{URL}f-0001/points/").json()["worst_job"]
        return found[:3]

    assert named(operator) == [own, other, None]
    assert named(viewer) == [own, "a job of another project", None]


def test_fronts_are_listed_newest_first_and_filtered(power: APIClient, operator: User) -> None:
    searched_front(operator)
    requested_front(operator)
    rows = power.get(URL).json()["results"]
    assert [row["name"] for row in rows] == ["f-0002", "f-0001"]
    assert "history" not in rows[0]

    def names(query: str) -> list[str]:
        return [row["name"] for row in power.get(f"{URL}?{query}").json()["results"]]

    assert names("state=pending") == ["f-0002"]
    assert names("state__in=succeeded,failed") == ["f-0001"]
    assert names("source=cluster") == []
    assert names("created_by=olga&limit=1&ordering=created_at") == ["f-0001"]
    assert power.get(f"{URL}?colour=red").status_code == 400


def test_the_number_of_queries_does_not_depend_on_the_number_of_fronts(
    power: APIClient, operator: User
) -> None:
    searched_front(operator)
    with CaptureQueriesContext(connection) as first_queries:
        power.get(URL)
    searched_front(operator)
    searched_front(operator)
    with CaptureQueriesContext(connection) as three:
        power.get(URL)
    assert len(three) == len(first_queries)


def test_points_are_columns(power: APIClient, operator: User) -> None:
    front = searched_front(operator)
    latest = front.versions.order_by("number").last()
    assert latest is not None
    whole = power.get(f"{URL}{front.pk}/points/").json()
    count = latest.points
    assert (whole["version"], whole["points"], whole["shown"]) == (latest.number, count, count)
    assert whole["index"] == list(range(count))
    assert whole["raw"]["P"] == sorted(whole["raw"]["P"])
    scale = generate_instance(REAL, 1).peak_watts.sum()
    assert whole["normalised"]["P"] == pytest.approx(np.array(whole["raw"]["P"]) / scale)
    lengths = {len(whole[name]) for name in ("nodes_on", "jobs_split", "worst_job")}
    assert lengths == {count}
    few = power.get(f"{URL}{front.pk}/points/?most=4").json()
    assert (few["points"], few["shown"], len(few["index"])) == (count, 4, 4)
    assert few["raw"]["C"] == [whole["raw"]["C"][i] for i in few["index"]]


def test_points_are_evaluated_by_other_objectives_on_request(
    power: APIClient, operator: User
) -> None:
    instance = replace(generate_instance(REAL, 1), current=np.arange(24, dtype=np.int64) % 20)
    front = searched_front(operator, instance)
    curve = {"": [0.1, 0.3], instance.rack_ids[0]: [0.2, 0.2]}
    CurveObjective.objects.create(
        name="money",
        label="Energy cost",
        unit="EUR",
        hours=[8, 16],
        curve=curve,
        created_by=operator,
    )
    answer = power.get(f"{URL}f-0001/points/?most=4&objectives=M,money").json()
    assert list(answer["objectives"]) == ["M", "money"]
    migrations, money = answer["objectives"].values()
    assert (money["label"], money["unit"], money["is_higher_better"]) == (
        "Energy cost",
        "EUR",
        False,
    )
    priced = registry({"money": curve_of(CurveObjective.objects.get()).objective()})
    version = front.versions.order_by("number").last()
    assert version is not None
    placed = selectors.assignments_of(version.pk)[answer["index"]]
    each = [evaluate(instance, one, objectives=priced) for one in placed]
    assert migrations["raw"] == [one.raw["M"] for one in each]
    assert migrations["scale"] == 24.0
    assert migrations["anchors"]["now"] == 0.0
    assert money["normalised"] == pytest.approx([one.normalised["money"] for one in each])
    assert set(money["anchors"]) == {"now", "SlotRR", "NodeRR"}
    assert power.get(f"{URL}f-0001/points/?most=4").json()["objectives"] == {}


def test_an_unknown_objective_is_named(power: APIClient, operator: User) -> None:
    searched_front(operator)
    response = power.get(f"{URL}f-0001/points/?objectives=M,P")
    assert response.status_code == 400
    assert response.json()["detail"] == "objectives contains 'P'; known: M."


def test_a_price_that_lacks_a_rack_of_the_front_is_a_conflict(
    power: APIClient, operator: User
) -> None:
    searched_front(operator)
    CurveObjective.objects.create(
        name="money", label="Cost", hours=[1], curve={"elsewhere": [1.0]}, created_by=operator
    )
    response = power.get(f"{URL}f-0001/points/?objectives=money")
    assert response.status_code == 409
    assert "no rack" in response.json()["detail"]


def test_earlier_versions_can_be_read(power: APIClient, operator: User) -> None:
    searched_front(operator)
    first = power.get(f"{URL}f-0001/points/?version=1").json()
    assert first["version"] == 1
    assert first["points"] < power.get(f"{URL}f-0001/points/").json()["points"]


def test_a_point_is_a_placement(power: APIClient, operator: User) -> None:
    searched_front(operator)
    whole = power.get(f"{URL}f-0001/points/").json()
    point = power.get(f"{URL}f-0001/points/2/").json()
    assert point["index"] == 2
    assert point["raw"] == {name: whole["raw"][name][2] for name in "PDC"}
    assert point["nodes_on"] == whole["nodes_on"][2] == len(set(point["assignment"].values()))
    assert set(point["assignment"]) == set(generate_instance(REAL, 1).container_ids)


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("f-0002/", 404),
        ("f-00000000001/", 404),
        ("nonsense/", 404),
        ("0192d5a0-0000-7000-8000-000000000000/points/", 404),
        ("f-0001/points/9999/", 404),
        ("f-0001/points/?version=99", 404),
        ("f-0001/points/?version=x", 400),
        ("f-0001/points/?most=0", 400),
        ("f-0001/points/?most=2001", 400),
    ],
)
def test_missing_objects_are_named(
    power: APIClient, operator: User, address: str, status: int
) -> None:
    searched_front(operator)
    assert power.get(f"{URL}{address}").status_code == status


def test_a_front_without_a_version_has_no_points(power: APIClient, operator: User) -> None:
    requested_front(operator)
    response = power.get(f"{URL}f-0001/points/")
    assert response.status_code == 404
    assert response.json()["detail"] == "f-0001 has no version yet."


def test_a_front_is_stopped_once(power: APIClient, operator: User) -> None:
    requested_front(operator)
    response = power.post(f"{URL}f-0001/stop/")
    assert (response.status_code, response.json()["status"]) == (200, "cancelled")
    assert power.get(f"{URL}f-0001/").json()["state"] == "cancelled"
    assert power.post(f"{URL}f-0001/stop/").status_code == 409


def test_unchanged_points_answer_not_modified(power: APIClient, operator: User) -> None:
    searched_front(operator)
    response = power.get(f"{URL}f-0001/points/")
    again = power.get(f"{URL}f-0001/points/", headers={"If-None-Match": response["ETag"]})
    assert again.status_code == 304


def test_objectives_are_listed(api: APIClient) -> None:
    results = api.get("/api/v1/objectives/").json()["results"]
    assert [(each["name"], each["is_higher_better"]) for each in results] == [
        ("P", False),
        ("D", True),
        ("C", False),
        ("M", False),
    ]
    assert (results[0]["label"], results[0]["unit"]) == ("Power", "W")


def test_a_front_of_the_cluster_reports_its_drift(power: APIClient, operator: User) -> None:
    racked = factories.platform("A", cores=4)
    servers = [factories.server(of=racked) for _ in range(4)]
    for server in servers:
        factories.allocation(factories.job(state="running"), server, cores=1)
    held = tuple(map(str, Allocation.objects.values_list("pk", flat=True)))
    instance = generate_instance(InstanceSpec(containers=4, nodes=4), 0)
    front = requested_front(operator, replace(instance, container_ids=held))
    Front.objects.filter(pk=front.pk).update(source="cluster", mix=running_mix(), cluster_s=3600.0)
    drift = power.get(f"{URL}f-0001/").json()["drift"]
    assert (drift["share"], drift["limit"]) == (0.0, 0.1)
    assert drift["sentence"].startswith("0.0 % of the containers and 0.0 % of the servers")
    job = factories.job(state="running")
    for server in servers:
        factories.allocation(job, server, cores=1)
    factories.server(of=factories.platform("B", cores=8))
    drift = power.get(f"{URL}f-0001/").json()["drift"]
    assert drift["share"] == pytest.approx(0.5)  # half belong to a job of four
    assert drift["sentence"] == (
        "50.0 % of the containers and 25.0 % of the servers changed in kind since it was"
        " computed; the limit is 10 %."
    )


def test_a_front_says_what_it_covers_and_for_how_long_it_is_good(
    power: APIClient, operator: User
) -> None:
    """Ten containers of jobs of one; every five minutes two of a job of two arrived."""
    now_s = 7200.0
    factories.cluster(seen_cluster_s=now_s)
    kind = factories.platform("A", cores=8)
    server = factories.server(of=kind)
    for at_s in range(int(now_s) - 3000, int(now_s) + 1, 300):
        ClusterFrame.objects.create(**frame(float(at_s)))
    stays = [factories.job(state="running", started_s=0.0) for _ in range(10)]
    for job in stays:
        factories.allocation(job, server, cores=0, acquired_s=0.0)
    for step in range(10):  # containers of jobs of two, one more every five minutes
        late = factories.job(state="running", started_s=now_s - 300.0 * step - 1.0)
        for _ in range(2):
            factories.allocation(late, server, cores=0, acquired_s=now_s - 300.0 * step - 1.0)
    held = list(Allocation.objects.order_by("pk").values_list("pk", flat=True))
    instance = generate_instance(InstanceSpec(containers=12, nodes=8), 0)
    ids = tuple(map(str, [*held[:8], 900_001, 900_002, 900_003, 900_004]))
    front = requested_front(operator, replace(instance, container_ids=ids))
    Front.objects.filter(pk=front.pk).update(source="cluster", mix=running_mix(), cluster_s=3600.0)
    cache.clear()
    coverage = power.get(f"{URL}f-0001/").json()["coverage"]
    assert coverage["moments"] == [3600.0]
    assert (coverage["containers"], coverage["still_running"]) == (12, 8)
    assert coverage["still_share"] == pytest.approx(8 / 30)
    assert coverage["measured_seconds"] == 3000.0
    assert 0.0 < coverage["good_for_seconds"] < 600.0
    Front.objects.update(mix={**running_mix(), "containers": {"taz node 1": 1}})
    assert power.get(f"{URL}f-0001/").json()["coverage"]["good_for_seconds"] == 0.0


def frame(at_s: float) -> dict[str, Any]:
    numbers = ("servers", "units", "units_allocated", "servers_on", "cpu_share", "memory_share")
    return {
        "at": timezone.now() - timedelta(seconds=(7200.0 - at_s) / 60.0),
        "cluster_s": at_s,
        "server_cpu": b"",
        "server_allocated": b"",
        "watts": 0.0,
        **dict.fromkeys(numbers, 0),
    }


def test_a_front_is_requested_over_a_window(power: APIClient) -> None:
    factories.cluster(seen_cluster_s=9000.0)
    asked = {"source": "cluster", "budget_seconds": 1.0}
    power.post(URL, {**asked, "window_seconds": 1200.0, "cluster_seconds": 7200.0})
    assert Front.objects.get().moments == [6000.0, 6300.0, 6600.0, 6900.0, 7200.0]
    assert power.get(f"{URL}f-0001/").json()["moments"] == Front.objects.get().moments
    power.post(URL, {**asked, "window_seconds": 3600.0})
    hour = Front.objects.get(number=2).moments
    assert (len(hour), hour[0], hour[-1]) == (12, 5400.0, 9000.0)
    power.post(URL, {**asked, "moments": [7200.0, 3600.0]})
    assert Front.objects.get(number=3).moments == [3600.0, 7200.0]


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"moments": [60.0]}, "/moments"),
        ({"moments": [float(i) for i in range(13)]}, "/moments"),
        ({"moments": [60.0, 1e9]}, "/moments"),
        ({"moments": [60.0, 70.0], "window_seconds": 600.0}, "/moments"),
        ({"window_seconds": 1.0}, "/window_seconds"),
    ],
)
def test_moments_that_make_no_sense_are_refused(
    power: APIClient, given: dict[str, Any], pointer: str
) -> None:
    factories.cluster(seen_cluster_s=9000.0)
    response = power.post(URL, {"source": "cluster", **given})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"].startswith(pointer)


def test_the_running_mix_is_that_of_the_instance(operator: User) -> None:
    instance = generate_instance(PLAIN, 3)
    assert sum(mix_of(instance)["containers"].values()) == 20
    assert mix_of(instance)["nodes"] == {"100 200": 20}


def test_the_instance_of_a_front_is_the_submitted_one(power: APIClient) -> None:
    power.post(URL, body())
    assert selectors.instance_of(Front.objects.get().pk).job.size == 24
