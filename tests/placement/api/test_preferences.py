"""REST API of preference sets: deriving, checking and storing weights."""

import json
import zlib
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.inventory.core.snapshot import Floats
from apps.operations.models import Event, IdempotencyKey
from apps.placement.core.front.archive import losses, representative_rank
from apps.placement.core.problem.examples import InstanceSpec, generate_instance
from apps.placement.core.problem.objectives import evaluate
from apps.placement.core.solver.registry import solve
from apps.placement.core.solver.run import SolverRun
from apps.placement.models import Activation, Front, FrontVersion, Plan, PreferenceSet
from apps.placement.selectors import fronts as selectors
from apps.placement.services.preference import checks
from apps.placement.tasks.fronts import solve_for_check
from tests import factories
from tests.api.conftest import Speak
from tests.placement.core.preference.test_weights import paper_front
from tests.placement.front_world import requested_front, searched_front, stopped_clock

URL = "/api/v1/preference-sets/"
PAPER = {"P-D": [0, 1, 2], "P-C": [2, 3, 4], "D-C": [0, 3, 4]}
INSTANCE = generate_instance(
    InstanceSpec(containers=60, nodes=60, nodes_per_rack=20, largest=8), 2
)
DIRECT = {"rule": "direct", "wanted": {"P": 0.5, "D": 2.0, "C": 1.0}}


def constructed(by: User, values: Floats) -> FrontVersion:
    """A version whose points have the given values."""
    k = len(values)
    nobody = dict.fromkeys(("nodes_on", "jobs_protected", "jobs_exposed", "jobs_split"), [0] * k)
    columns = {
        **nobody,
        "worst_job": [None] * k,
        "standing": representative_rank(losses(values)).tolist(),
    }
    front = requested_front(by)
    return FrontVersion.objects.create(
        front=front,
        number=1,
        points=k,
        shown=k,
        generations=1,
        seconds=1.0,
        hypervolume=0.5,
        raw=values.tobytes(),
        normalised=values.tobytes(),
        assignments=zlib.compress(np.zeros((k, front.containers), dtype=np.int32).tobytes()),
        facts=zlib.compress(json.dumps(columns).encode()),
    )


@pytest.fixture
def paper(operator: User) -> dict[str, Any]:
    """The body of the paper's picks, on a front constructed for them."""
    version = constructed(operator, paper_front())
    return {"front": str(version.front_id), "version": 1, "rule": "spread", "picks": PAPER}


def test_the_papers_picks_give_its_weights(api: APIClient, paper: dict[str, Any]) -> None:
    before = Event.objects.count()
    response = api.post(f"{URL}derive/", paper)
    assert response.status_code == 200, response.content
    body = response.json()
    assert {o: round(w, 2) for o, w in body["weights"].items()} == {"P": 0.22, "D": 1.0, "C": 0.36}
    assert body["spread"]["P"] == pytest.approx(0.1 * np.sqrt(2.5))
    assert (body["picks"], body["floored"], body["idle"]) == (5, [], [])
    assert [entry["point"] for entry in body["sensitivity"]] == [0, 1, 2, 3, 4]
    assert body["sentence"].endswith("so diversity counts 4.5 × power.")
    assert isinstance(body["warnings"], list)
    assert PreferenceSet.objects.count() == 0
    assert Event.objects.count() == before


@pytest.mark.parametrize(
    ("change", "pointers"),
    [
        ({"front": "f-0099"}, ["/front"]),
        ({"version": 9}, ["/version"]),
        ({"rule": "whim"}, ["/rule"]),
        ({"picks": {"P-D": [0, 99]}}, ["/picks/P-D/1", "/picks/P-C", "/picks/D-C"]),
        ({"picks": {**PAPER, "P-X": [1]}}, ["/picks/P-X"]),
        ({"picks": {**PAPER, "P-C": [0, "two"]}}, ["/picks/P-C/1"]),
        ({"rejected": [0]}, ["/rejected/0"]),
        ({"rule": "reference"}, ["/wanted/P", "/wanted/D", "/wanted/C"]),
        ({"colour": "red"}, ["/colour"]),
    ],
)
@pytest.mark.parametrize("address", ["derive/", "check/"])
def test_invalid_fields_are_named(
    api: APIClient, paper: dict[str, Any], address: str, change: Any, pointers: list[str]
) -> None:
    response = api.post(f"{URL}{address}", {**paper, **change})
    assert response.status_code == 422
    assert {e["pointer"] for e in response.json()["errors"]} >= set(pointers)


@pytest.mark.parametrize("rule", ["spread", "reference"])
def test_picks_need_a_front(api: APIClient, rule: str) -> None:
    response = api.post(f"{URL}derive/", {"rule": rule})
    assert [e["pointer"] for e in response.json()["errors"]] == ["/front"]


def test_direct_weights_need_no_front(api: APIClient) -> None:
    body = api.post(f"{URL}derive/", DIRECT).json()
    assert body["weights"] == {"P": 0.25, "D": 1.0, "C": 0.5}
    assert body["sentence"] == "Diversity counts 2.0 × crossing traffic and 4.0 × power."


@pytest.fixture
def searched(operator: User) -> Front:
    """A searched front with eleven points."""
    return searched_front(operator, INSTANCE)


def test_a_check_compares_the_solvers_answer_with_the_picks(
    api: APIClient, searched: Front
) -> None:
    count = selectors.points_of(searched.versions.get()).raw.shape[0]
    few = list(range(3))
    body = {"front": str(searched), "picks": dict.fromkeys(PAPER, few), "rejected": [count - 1]}
    response = api.post(f"{URL}check/", body)
    assert response.status_code == 200, response.content
    checked = response.json()
    weights = api.post(f"{URL}derive/", body).json()["weights"]
    best = solve(SolverRun(INSTANCE, weights, clock=stopped_clock, limit_s=1.0))
    assert checked["star"]["F"] == pytest.approx(best.evaluation.F)
    assert checked["star"]["optimal"] is True
    assert checked["star"]["gap"] == 0.0
    assert set(checked["star"]["raw"]) == set("PDC")
    values = evaluate(INSTANCE, best.assignment, weights).normalised
    assert checked["star"]["normalised"] == pytest.approx({o: values[o] for o in "PDC"})
    assert checked["star"]["objectives"] == pytest.approx({"M": values["M"]})
    assert checked["position"] in {"inside", "better", "outside"}
    assert 0 <= checked["nearest"] < count
    assert checked["sentence"].startswith("The optimum of these weights is")


def test_unreachable_picks_are_named(api: APIClient, operator: User, searched: Front) -> None:
    dent = np.array([[0.1, 0.1, 0.5], [0.6, 0.5, 0.5], [0.9, 0.9, 0.5], [0.5, 0.5, 0.1]])
    FrontVersion.objects.filter(pk=constructed(operator, dent).pk).update(front=searched, number=7)
    body = {"front": str(searched), "version": 7, "picks": {s: [0, 1, 2] for s in PAPER}}
    assert api.post(f"{URL}check/", body).json()["unreachable"] == [1]


def test_a_check_within_bounds_names_the_best_point_that_keeps_them(
    api: APIClient, operator: User, searched: Front
) -> None:
    dent = np.array([[0.1, 0.1, 0.5], [0.6, 0.5, 0.5], [0.9, 0.9, 0.5], [0.5, 0.5, 0.1]])
    FrontVersion.objects.filter(pk=constructed(operator, dent).pk).update(front=searched, number=7)
    body = {**DIRECT, "front": str(searched), "version": 7}
    free = api.post(f"{URL}check/", body).json()
    assert (free["broken"], free["bounded"]) == ([], None)
    # the instance has no placement with so little power; D at least 0.4 leaves 1, 2 and 3
    bounds = {"P": 0.0, "D": 0.4}
    checked = api.post(f"{URL}check/", {**body, "bounds": bounds}).json()
    assert checked["broken"][0] == "P"
    assert checked["bounded"] is None
    # sums P/2 - 2·D + C of 1 and 3: -0.2 and -0.65; 2 breaks the bound on P
    bounds = {"P": 0.7, "D": 0.4}
    assert api.post(f"{URL}check/", {**body, "bounds": bounds}).json()["bounded"] == 3


def test_picks_and_bounds_may_be_of_another_objective(
    api: APIClient, operator: User, searched: Front
) -> None:
    picks = {"P-D": [0], "P-M": [1, 2]}
    body = {"front": str(searched), "picks": picks, "bounds": {"M": -1.0}}
    derived = api.post(f"{URL}derive/", body).json()
    assert derived["picks"] == 3
    assert "No placement of this front keeps your bounds: M at most −1.00." in [
        warning.replace("-", "−") for warning in derived["warnings"]
    ]
    checked = api.post(f"{URL}check/", body).json()
    assert (checked["broken"], checked["bounded"]) == (["M"], None)
    within = api.post(f"{URL}check/", {**body, "bounds": {"M": 0.0}}).json()
    assert (within["broken"], within["bounded"] is None) == ([], False)
    for screen in ("P-Q", "P-P", "P", "P-D-C"):
        response = api.post(f"{URL}derive/", {**body, "picks": {screen: [0, 1, 2]}})
        assert response.json()["errors"][0]["pointer"] == f"/picks/{screen}"


def test_an_objective_that_is_deleted_during_a_request_is_named(
    api: APIClient, searched: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "apps.placement.selectors.preferences.other_objectives", lambda: {"money": None}
    )
    body = {"front": str(searched), "picks": {"P-D": [0, 1, 2]}, "bounds": {"money": 0.5}}
    response = api.post(f"{URL}derive/", body, format="json")
    assert response.status_code == 422
    assert [(e["pointer"], e["code"]) for e in response.json()["errors"]] == [
        ("/bounds/money", "unknown")
    ]


def test_invalid_bounds_are_named(api: APIClient) -> None:
    response = api.post(f"{URL}derive/", {**DIRECT, "bounds": {"Q": 0.5}})
    assert [e["pointer"] for e in response.json()["errors"]] == ["/bounds/Q"]


def test_a_check_that_times_out_is_unavailable(
    api: APIClient, searched: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solve_for_check, "apply_async", lambda *_, **__: None)
    monkeypatch.setattr(checks, "ANSWER_TIMEOUT_S", 0.05)
    response = api.post(f"{URL}check/", {**DIRECT, "front": str(searched)})
    assert (response.status_code, response.json()["code"]) == (503, "service_unavailable")
    assert response["Retry-After"]


def test_a_check_needs_a_workload(api: APIClient) -> None:
    response = api.post(f"{URL}check/", DIRECT)
    assert [e["pointer"] for e in response.json()["errors"]] == ["/front"]


def test_a_check_of_direct_weights_compares_no_picks(api: APIClient, searched: Front) -> None:
    checked = api.post(f"{URL}check/", {**DIRECT, "front": str(searched)}).json()
    assert (checked["position"], checked["distance"]) == (None, None)


def test_the_points_between_two_placements(api: APIClient, operator: User) -> None:
    line = np.linspace(0.0, 1.0, 9)
    version = constructed(operator, np.stack([line, line, line], axis=1))
    body = {"front": str(version.front_id), "version": 1}
    answer = api.post(f"{URL}between/", {**body, "points": [6, 2]}).json()
    assert answer == {"front": str(version.front_id), "version": 1, "points": [5, 4, 3]}
    assert api.post(f"{URL}between/", {**body, "points": [2, 3]}).json()["points"] == []


def test_at_most_fifty_points_lie_between_two(api: APIClient, operator: User) -> None:
    line = np.linspace(0.0, 1.0, 200)
    version = constructed(operator, np.stack([line, line, line], axis=1))
    body = {"front": str(version.front_id), "points": [0, 199]}
    points = api.post(f"{URL}between/", body).json()["points"]
    assert len(points) == 50
    assert points == sorted(points)
    assert max(np.diff(points)) <= 8


@pytest.mark.parametrize(
    ("points", "pointer"),
    [([0, 9], "/points/1"), ([1, 1], "/points/1"), ([-1, 2], "/points/0"), ([1], "/points")],
)
def test_an_invalid_pair_is_named(
    api: APIClient, paper: dict[str, Any], points: list[int], pointer: str
) -> None:
    response = api.post(f"{URL}between/", {"front": paper["front"], "points": points})
    assert [e["pointer"] for e in response.json()["errors"]] == [pointer]


# ---- storage ----


def stored_set(client: APIClient, name: str = "night", **values: Any) -> dict[str, Any]:
    response = client.post(URL, {"name": name, **DIRECT, **values})
    assert response.status_code == 201, response.content
    body: dict[str, Any] = response.json()
    return body


def test_a_set_stores_its_picks_rule_and_weights(power: APIClient, paper: dict[str, Any]) -> None:
    body = {**paper, "name": "as in the paper", "note": "figure 4", "rejected": [5]}
    response = power.post(URL, {**body, "bounds": {"D": 0.25}})
    assert response.status_code == 201, response.content
    preference_set = response.json()
    assert preference_set["bounds"] == {"D": 0.25}
    assert power.get(f"{URL}{preference_set['id']}/").json() == preference_set
    assert (preference_set["front"], preference_set["front_name"], preference_set["version"]) == (
        paper["front"],
        "f-0001",
        1,
    )
    assert (preference_set["picks"], preference_set["rejected"], preference_set["wanted"]) == (
        PAPER,
        [5],
        {},
    )
    assert round(preference_set["weights"]["P"], 2) == 0.22
    assert preference_set["spread"]["P"] == pytest.approx(0.1 * np.sqrt(2.5))
    assert (
        preference_set["created_by"],
        preference_set["parent"],
        preference_set["generation"],
    ) == ("olga", None, 1)
    assert (preference_set["activations"], preference_set["is_in_force"]) == (0, False)
    event = Event.objects.get(kind="preference_set.created")
    assert (event.topic, event.subject) == ("fronts", preference_set["id"])


def test_a_stored_set_needs_picks(power: APIClient, paper: dict[str, Any]) -> None:
    response = power.post(URL, {**paper, "name": "x", "picks": {"P-D": [0, 1, 2]}})
    pointers = [e["pointer"] for e in response.json()["errors"]]
    assert pointers == ["/picks/P-C", "/picks/D-C"]


def test_a_name_is_unique(power: APIClient) -> None:
    first, second = stored_set(power), stored_set(power, "day")
    response = power.post(URL, {"name": "night", **DIRECT})
    assert (response.status_code, response.json()["code"]) == (409, "state_conflict")
    response = power.patch(f"{URL}{second['id']}/", {"name": "night"})
    assert response.status_code == 409
    assert power.patch(f"{URL}{first['id']}/", {"name": "night"}).status_code == 200


def test_an_idempotency_key_creates_one_set(power: APIClient) -> None:
    body = {"name": "night", **DIRECT}
    first = power.post(URL, body, headers={"Idempotency-Key": "k"})
    again = power.post(URL, body, headers={"Idempotency-Key": "k"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert again["Idempotency-Replayed"] == "true"
    assert IdempotencyKey.objects.count() == PreferenceSet.objects.count() == 1


def test_a_set_has_a_parent(power: APIClient) -> None:
    first = stored_set(power)
    assert stored_set(power, "later", parent=first["id"])["parent"] == first["id"]
    response = power.post(
        URL, {"name": "x", **DIRECT, "parent": stored_set(power, "y")["id"][:-4] + "0000"}
    )
    assert [e["pointer"] for e in response.json()["errors"]] == ["/parent"]


def test_only_the_name_and_the_note_can_change(power: APIClient) -> None:
    preference_set = stored_set(power)
    address = f"{URL}{preference_set['id']}/"
    response = power.patch(address, {"note": "quiet hours"}, headers={"If-Match": '"g1"'})
    assert response.json() == {**preference_set, "note": "quiet hours", "generation": 2}
    assert power.patch(address, {"name": "n"}, headers={"If-Match": '"g1"'}).status_code == 412
    response = power.patch(address, {"weights": {"P": 1}})
    assert [e["pointer"] for e in response.json()["errors"]] == ["/weights"]


def test_an_unused_set_can_be_deleted(power: APIClient) -> None:
    first = stored_set(power)
    later = stored_set(power, "later", parent=first["id"])
    assert power.delete(f"{URL}{first['id']}/").status_code == 204
    assert power.get(f"{URL}{first['id']}/").status_code == 404
    assert power.get(f"{URL}{later['id']}/").json()["parent"] is None
    assert power.delete(f"{URL}{first['id']}/").status_code == 404


def test_a_set_that_was_in_force_or_has_plans_cannot_be_deleted(
    power: APIClient, operator: User
) -> None:
    used, planned = stored_set(power), stored_set(power, "planned")
    row = PreferenceSet.objects.get(pk=used["id"])
    Activation.objects.create(
        preference_set=row, weights=row.weights, created_by=operator, cluster_s=1.0
    )
    Plan.objects.create(
        number=1, cause="loop", preference_set_id=planned["id"], weights={}, cluster_s=1.0,
        snapshot=1, seconds=1.0, gap=0.0, predicted={},
    )  # fmt: skip
    for preference_set in (used, planned):
        response = power.delete(f"{URL}{preference_set['id']}/")
        assert (response.status_code, response.json()["code"]) == (409, "state_conflict")
    assert PreferenceSet.objects.count() == 2


def test_sets_are_listed_and_filtered(power: APIClient, paper: dict[str, Any]) -> None:
    stored_set(power)
    power.post(URL, {**paper, "name": "paper"})

    def names(query: str) -> list[str]:
        return [row["name"] for row in power.get(f"{URL}?{query}").json()["results"]]

    assert names("") == ["paper", "night"]
    assert names("rule=direct") == ["night"]
    assert names(f"front={paper['front']}") == ["paper"]
    assert names("name=night&is_new=true") == ["night"]
    assert names("is_new=false") == []
    assert names("limit=1&ordering=created_at") == ["night"]


def test_the_number_of_queries_does_not_depend_on_the_number_of_sets(
    power: APIClient, paper: dict[str, Any]
) -> None:
    power.post(URL, {**paper, "name": "a"})
    with CaptureQueriesContext(connection) as first_queries:
        power.get(URL)
    for name in "bcd":
        power.post(URL, {**paper, "name": name})
    with CaptureQueriesContext(connection) as four:
        power.get(URL)
    assert len(four) == len(first_queries)


@pytest.mark.parametrize(
    ("method", "address"),
    [("post", ""), ("patch", "{}/"), ("delete", "{}/"), ("post", "{}/activate/")],
)
def test_writing_needs_an_operator(
    api: APIClient, power: APIClient, method: str, address: str
) -> None:
    preference_set = stored_set(power)
    response = getattr(api, method)(
        URL + address.format(preference_set["id"]), {"name": "x", **DIRECT}
    )
    assert (response.status_code, response.json()["code"]) == (403, "permission_denied")


def test_viewers_may_derive_and_check(
    viewer: User, as_user: Speak, power: APIClient, searched: Front
) -> None:
    client = as_user(viewer)
    preference_set = stored_set(power)
    body = {**DIRECT, "front": str(searched)}
    assert client.post(f"{URL}derive/", body).status_code == 200
    assert client.post(f"{URL}check/", body).status_code == 200
    pair = {"front": str(searched), "points": [0, 1]}
    assert client.post(f"{URL}between/", pair).status_code == 200
    assert client.get(f"{URL}{preference_set['id']}/").status_code == 200
    assert client.get(URL).status_code == 200


def test_missing_objects_are_named(power: APIClient) -> None:
    nobody = f"{URL}0192d5a0-0000-7000-8000-000000000000/"
    factories.cluster()
    assert power.get(nobody).status_code == 404
    assert power.patch(nobody, {"note": "x"}).status_code == 404
    assert power.post(f"{nobody}activate/", {"message": "m"}).status_code == 404
