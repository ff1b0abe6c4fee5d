"""REST API of weights: activation, limits to racks, guards and reverts."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.accounts.models import AuditEntry, User
from apps.inventory.models import Rack
from apps.operations.models import Event
from apps.placement.models import Activation, PreferenceSet
from tests import factories
from tests.api.conftest import Speak
from tests.placement.api.test_preferences import URL, stored_set

CURRENT = "/api/v1/weights/current/"
ACTIVATIONS = "/api/v1/weights/activations/"
WHY = {"message": "calmer nights"}


@pytest.fixture(autouse=True)
def world(db: None) -> None:
    factories.cluster(seen_cluster_s=7200.0)
    for name in ("rack-1", "rack-2"):
        Rack.objects.create(name=name)


def activated(client: APIClient, preference_set: dict[str, Any], **values: Any) -> dict[str, Any]:
    """Activate a set as it is now."""
    tag = client.get(f"{URL}{preference_set['id']}/")["ETag"]
    address = f"{URL}{preference_set['id']}/activate/"
    response = client.post(address, {**WHY, **values}, headers={"If-Match": tag})
    assert response.status_code == 201, response.content
    body: dict[str, Any] = response.json()
    return body


def reverted(client: APIClient, activation: int) -> Any:
    return client.post(f"{ACTIVATIONS}{activation}/revert/", {"message": "too many moves"})


def test_no_weights_are_in_force_at_first(api: APIClient) -> None:
    assert api.get(CURRENT).json() == {"activation": None}
    assert api.get(ACTIVATIONS).json()["results"] == []


def test_weights_come_into_force(power: APIClient) -> None:
    job = factories.job(state="running")
    job.attainment = 1.2
    job.save()
    preference_set = stored_set(power)
    answer = activated(
        power, preference_set, racks=["rack-2"], guard={"drop": 0.05, "seconds": 300}
    )
    current = power.get(CURRENT).json()["activation"]
    assert current == answer
    assert (answer["name"], answer["preference_set"]) == ("night", preference_set["id"])
    assert answer["weights"] == preference_set["weights"]
    assert (answer["message"], answer["racks"]) == ("calmer nights", ["rack-2"])
    assert answer["guard"] == {"drop": 0.05, "seconds": 300.0}
    assert (answer["targets_met_before"], answer["cluster_seconds"]) == (1.0, 7200.0)
    assert (answer["created_by"], answer["reverts"], answer["is_in_force"]) == ("olga", None, True)
    listed = power.get(f"{URL}{preference_set['id']}/").json()
    assert (listed["activations"], listed["is_in_force"], listed["generation"]) == (1, True, 2)
    event = Event.objects.get(kind="weights.activated")
    assert (event.topic, event.subject) == ("plans", str(answer["id"]))
    assert event.data["message"] == "calmer nights"
    assert event.data["by"] == str(PreferenceSet.objects.get().created_by_id)


def test_accepted_warnings_are_in_the_audit_log(power: APIClient) -> None:
    accepted = ["Two jobs miss their targets.", "The free optimum is not proven best."]
    activated(power, stored_set(power), accepted_warnings=accepted)
    entry = AuditEntry.objects.get(action="weights.activated")
    assert entry.after is not None
    assert entry.after["accepted_warnings"] == accepted


def test_an_activation_requires_the_version(power: APIClient) -> None:
    preference_set = stored_set(power)
    response = power.post(f"{URL}{preference_set['id']}/activate/", WHY)
    assert (response.status_code, response.json()["code"]) == (428, "precondition_required")
    response = power.post(
        f"{URL}{preference_set['id']}/activate/", WHY, headers={"If-Match": '"g7"'}
    )
    assert (response.status_code, response.json()["current_generation"]) == (412, 1)
    assert Activation.objects.count() == 0


def test_the_same_version_is_activated_once(power: APIClient) -> None:
    address = f"{URL}{stored_set(power)['id']}/activate/"
    answers = [power.post(address, WHY, headers={"If-Match": '"g1"'}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 412]
    assert Activation.objects.count() == 1


def test_an_idempotency_key_activates_once(power: APIClient) -> None:
    address = f"{URL}{stored_set(power)['id']}/activate/"
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
def test_invalid_fields_are_named(power: APIClient, change: Any, pointer: str) -> None:
    address = f"{URL}{stored_set(power)['id']}/activate/"
    response = power.post(address, {**WHY, **change}, headers={"If-Match": '"g1"'})
    assert response.status_code == 422
    assert [e["pointer"] for e in response.json()["errors"]] == [pointer]


def test_reverting_activates_the_previous_weights(power: APIClient) -> None:
    night, day = stored_set(power), stored_set(power, "day", wanted={"P": 1.0, "D": 0.0, "C": 0.0})
    first = activated(power, night, racks=["rack-1"])
    second = activated(power, day, guard={"drop": 0.02})
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


def test_only_the_activation_in_force_can_be_reverted(power: APIClient) -> None:
    night, day = stored_set(power), stored_set(power, "day")
    first = activated(power, night)
    response = reverted(power, first["id"])
    assert response.status_code == 409
    assert response.json()["detail"] == (
        f"No weights were in force before activation {first['id']}."
    )
    second = activated(power, day)
    response = reverted(power, first["id"])
    assert response.status_code == 409
    assert response.json()["detail"].endswith(f"activation {second['id']} is.")
    assert reverted(power, 99_999_999).status_code == 404
    response = power.post(f"{ACTIVATIONS}{second['id']}/revert/", {})
    assert [e["pointer"] for e in response.json()["errors"]] == ["/message"]


def test_reverting_needs_an_operator(api: APIClient, power: APIClient) -> None:
    activated(power, stored_set(power))
    answer = activated(power, stored_set(power, "day"))
    assert reverted(api, answer["id"]).status_code == 403


def test_viewers_may_read_the_weights_in_force(
    viewer: User, as_user: Speak, power: APIClient
) -> None:
    answer = activated(power, stored_set(power))
    client = as_user(viewer)
    assert client.get(CURRENT).json()["activation"] == answer
    assert client.get(f"{ACTIVATIONS}?created_by=olga").json()["results"] == [answer]
    assert client.get(f"{ACTIVATIONS}?preference_set={answer['preference_set']}&limit=1").json()[
        "results"
    ] == [answer]
    assert client.get(f"{ACTIVATIONS}?created_at__lt=2020-01-01").json()["results"] == []
