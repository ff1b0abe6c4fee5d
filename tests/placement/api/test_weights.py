"""Weights in force over REST: brought in, limited to racks, guarded, taken back."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.inventory.models import Rack
from apps.operations.models import Event
from apps.placement.models import Activation, PreferenceSet
from tests import factories
from tests.api.conftest import Speak
from tests.placement.api.test_preferences import URL, kept

CURRENT = "/api/v1/weights/current/"
ACTIVATIONS = "/api/v1/weights/activations/"
WHY = {"message": "calmer nights"}


@pytest.fixture(autouse=True)
def world(db: None) -> None:
    factories.cluster(seen_cluster_s=7200.0)
    for name in ("rack-1", "rack-2"):
        Rack.objects.create(name=name)


def brought(client: APIClient, made: dict[str, Any], **values: Any) -> dict[str, Any]:
    """Activate a set as it is now."""
    tag = client.get(f"{URL}{made['id']}/")["ETag"]
    address = f"{URL}{made['id']}/activate/"
    response = client.post(address, {**WHY, **values}, headers={"If-Match": tag})
    assert response.status_code == 201, response.content
    body: dict[str, Any] = response.json()
    return body


def reverted(client: APIClient, activation: int) -> Any:
    return client.post(f"{ACTIVATIONS}{activation}/revert/", {"message": "too many moves"})


def test_at_first_nothing_is_in_force(api: APIClient) -> None:
    assert api.get(CURRENT).json() == {"activation": None}
    assert api.get(ACTIVATIONS).json()["results"] == []


def test_weights_come_into_force(power: APIClient) -> None:
    job = factories.job(state="running")
    job.attainment = 1.2
    job.save()
    made = kept(power)
    told = brought(power, made, racks=["rack-2"], guard={"drop": 0.05, "seconds": 300})
    current = power.get(CURRENT).json()["activation"]
    assert current == told
    assert (told["name"], told["preference_set"]) == ("night", made["id"])
    assert told["weights"] == made["weights"]
    assert (told["message"], told["racks"]) == ("calmer nights", ["rack-2"])
    assert told["guard"] == {"drop": 0.05, "seconds": 300.0}
    assert (told["targets_met_before"], told["cluster_seconds"]) == (1.0, 7200.0)
    assert (told["created_by"], told["reverts"], told["is_in_force"]) == ("olga", None, True)
    listed = power.get(f"{URL}{made['id']}/").json()
    assert (listed["activations"], listed["is_in_force"], listed["generation"]) == (1, True, 2)
    event = Event.objects.get(kind="weights.activated")
    assert (event.topic, event.subject) == ("plans", str(told["id"]))
    assert event.data["message"] == "calmer nights"
    assert event.data["by"] == str(PreferenceSet.objects.get().created_by_id)


def test_without_a_version_nothing_comes_into_force(power: APIClient) -> None:
    made = kept(power)
    response = power.post(f"{URL}{made['id']}/activate/", WHY)
    assert (response.status_code, response.json()["code"]) == (428, "precondition_required")
    response = power.post(f"{URL}{made['id']}/activate/", WHY, headers={"If-Match": '"g7"'})
    assert (response.status_code, response.json()["current_generation"]) == (412, 1)
    assert Activation.objects.count() == 0


def test_the_same_look_brings_weights_in_once(power: APIClient) -> None:
    address = f"{URL}{kept(power)['id']}/activate/"
    answers = [power.post(address, WHY, headers={"If-Match": '"g1"'}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 412]
    assert Activation.objects.count() == 1


def test_a_key_brings_weights_in_once(power: APIClient) -> None:
    address = f"{URL}{kept(power)['id']}/activate/"
    headers = {"If-Match": '"g1"', "Idempotency-Key": "k"}
    answers = [power.post(address, WHY, headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json() == answers[1].json()
    assert Activation.objects.count() == 1


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"message": ""}, "/message"),
        ({"message": None}, "/message"),
        ({"racks": ["rack-1", "rack-9"]}, "/racks/1"),
        ({"racks": ["rack-1", "rack-1"]}, "/racks/1"),
        ({"guard": {"drop": 0.0}}, "/guard/drop"),
        ({"guard": {"drop": 0.1, "seconds": 0}}, "/guard/seconds"),
        ({"when": "now"}, "/when"),
    ],
)
def test_what_cannot_be_is_named(power: APIClient, change: Any, pointer: str) -> None:
    address = f"{URL}{kept(power)['id']}/activate/"
    response = power.post(address, {**WHY, **change}, headers={"If-Match": '"g1"'})
    assert response.status_code == 422
    assert [e["pointer"] for e in response.json()["errors"]] == [pointer]


def test_reverting_brings_back_what_was_before(power: APIClient) -> None:
    night, day = kept(power), kept(power, "day", wanted={"P": 1.0, "D": 0.0, "C": 0.0})
    first = brought(power, night, racks=["rack-1"])
    second = brought(power, day, guard={"drop": 0.02})
    response = reverted(power, second["id"])
    assert response.status_code == 201, response.content
    back = response.json()
    assert (back["name"], back["weights"], back["racks"]) == (
        "night",
        first["weights"],
        ["rack-1"],
    )
    assert (back["reverts"], back["guard"]) == (second["id"], None)
    assert power.get(CURRENT).json()["activation"]["id"] == back["id"]
    again = reverted(power, back["id"]).json()
    assert (again["name"], again["reverts"]) == ("day", back["id"])
    names = [row["name"] for row in power.get(ACTIVATIONS).json()["results"]]
    assert names == ["day", "night", "day", "night"]
    assert Event.objects.filter(kind="weights.reverted").count() == 2


def test_only_what_is_in_force_can_be_taken_back(power: APIClient) -> None:
    night, day = kept(power), kept(power, "day")
    first = brought(power, night)
    response = reverted(power, first["id"])
    assert response.status_code == 409
    assert response.json()["detail"] == (f"Nothing was in force before activation {first['id']}.")
    second = brought(power, day)
    response = reverted(power, first["id"])
    assert response.status_code == 409
    assert response.json()["detail"].endswith(f"activation {second['id']} is.")
    assert reverted(power, 99_999_999).status_code == 404
    response = power.post(f"{ACTIVATIONS}{second['id']}/revert/", {})
    assert [e["pointer"] for e in response.json()["errors"]] == ["/message"]


def test_reverting_needs_an_operator(api: APIClient, power: APIClient) -> None:
    brought(power, kept(power))
    told = brought(power, kept(power, "day"))
    assert reverted(api, told["id"]).status_code == 403


def test_everybody_may_see_what_is_in_force(
    viewer: User, as_user: Speak, power: APIClient
) -> None:
    told = brought(power, kept(power))
    client = as_user(viewer)
    assert client.get(CURRENT).json()["activation"] == told
    assert client.get(f"{ACTIVATIONS}?created_by=olga").json()["results"] == [told]
    assert client.get(f"{ACTIVATIONS}?preference_set={told['preference_set']}&limit=1").json()[
        "results"
    ] == [told]
    assert client.get(f"{ACTIVATIONS}?created_at__lt=2020-01-01").json()["results"] == []
