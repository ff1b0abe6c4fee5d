"""The policy of the cluster: applied by an administrator, followed by agents without a restart."""

from typing import Any

import pytest
from django.test import override_settings
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import AuditEntry
from apps.inventory.models import DefaultPolicy
from apps.operations.models import Event
from apps.scheduling.core import registry
from apps.scheduling.models import Decision
from apps.scheduling.selectors.default_policy import policy_in_use
from apps.scheduling.services import check_job
from apps.scheduling.services.agent import SchedulingAgent, make_agent
from apps.workloads.core.spec import parse_job
from tests import factories
from tests.api.schema import check_answer
from tests.scheduling import policies_that_fail
from tests.scheduling.world import build, known, waiting, work

pytestmark = pytest.mark.django_db

URL = "/api/v1/policies/default/"


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=3000.0)


def client_of(name: str, role: Role) -> APIClient:
    client = APIClient()
    client.force_login(factories.user(name, role=role))
    return client


@pytest.fixture
def admin() -> APIClient:
    return client_of("anna", Role.ADMIN)


def put(
    client: APIClient, policy: str | None, *, generation: int | None = 1, reason: str = "a test"
) -> Any:
    headers = {} if generation is None else {"If-Match": f'"g{generation}"'}
    body = {"policy": policy, "reason": reason}
    return client.put(URL, body, format="json", headers=headers)


def decided(agent: SchedulingAgent, **fields: Any) -> str:
    """The policy of the decision on a new job."""
    job = waiting(known(), units_requested=1, **fields)
    work(agent)
    return str(Decision.objects.get(job=job).policy)


def test_an_agent_follows_an_applied_policy_in_its_next_turn(admin: APIClient) -> None:
    build(*"abcdefgh")
    agent = make_agent("agent-1")
    assert decided(agent) == "expected"
    assert put(admin, "least_loaded").status_code == 200
    assert decided(agent) == "least_loaded"
    assert decided(agent, policy="random") == "random"
    assert decided(agent, sample_size=4) == "tarcil"
    assert put(admin, None, generation=2).status_code == 200
    assert decided(agent) == "expected"


def test_dry_runs_use_the_applied_policy(admin: APIClient) -> None:
    build(*"abcdefgh")
    application = known()
    put(admin, "random")
    body = {"spec": {"application": application.name, "target": {"kind": "best_effort"}}}
    assert check_job(parse_job(body)).policy == "random"


def test_the_answer_names_policy_setting_and_who_applied_it(admin: APIClient) -> None:
    before = admin.get(URL)
    assert before.json() == {
        "policy": "expected", "is_applied": False, "setting": "expected", "reason": "",
        "changed_by": None, "changed_at": None, "generation": 1,
    }  # fmt: skip
    assert before["ETag"].startswith('"g1')
    after = put(admin, "tarcil", reason="won in the Lab").json()
    assert after["changed_at"] is not None
    assert after | {"changed_at": None} == {
        "policy": "tarcil", "is_applied": True, "setting": "expected",
        "reason": "won in the Lab", "changed_by": "anna", "changed_at": None, "generation": 2,
    }  # fmt: skip
    assert admin.get("/api/v1/cluster/").json()["policy"] == "tarcil"


def test_of_two_administrators_at_once_the_second_is_refused(admin: APIClient) -> None:
    other = client_of("arno", Role.ADMIN)
    first, second = put(admin, "tarcil"), put(other, "random")
    assert (first.status_code, second.status_code) == (200, 412)
    assert policy_in_use() == "tarcil"
    assert AuditEntry.objects.filter(object_kind="policy").count() == 1
    assert put(other, "random", generation=2).status_code == 200


@pytest.mark.parametrize(
    ("policy", "generation", "reason", "status"),
    [
        ("tarcil", None, "x", 428),
        ("fifo", 1, "x", 422),
        ("", 1, "x", 422),
        ("tarcil", 1, "", 422),
        ("tarcil", 1, "x" * 501, 422),
    ],
    ids=["no version", "unknown", "empty", "no reason", "long reason"],
)
def test_an_unusable_request_changes_nothing(
    admin: APIClient, policy: str, generation: int | None, reason: str, status: int
) -> None:
    assert put(admin, policy, generation=generation, reason=reason).status_code == status
    assert policy_in_use() == "expected"
    assert not DefaultPolicy.objects.exists()


def test_an_unknown_policy_is_answered_with_the_known_ones(admin: APIClient) -> None:
    (error,) = put(admin, "fifo").json()["errors"]
    assert error["pointer"] == "/policy"
    assert error["detail"].startswith("must be one of autoscale, dot_product, expected, ")


def test_a_policy_that_cannot_be_made_is_not_applied(
    admin: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies_that_fail.install(monkeypatch, "theirs", "cannot-be-made")
    answer = put(admin, "theirs")
    assert answer.status_code == 409
    assert answer.json()["detail"] == "the policy theirs failed with OSError"
    assert policy_in_use() == "expected"


def test_operators_read_the_policy_and_do_not_apply_one() -> None:
    operator = client_of("olga", Role.OPERATOR)
    assert operator.get(URL).status_code == 200
    assert put(operator, "tarcil").status_code == 403
    assert policy_in_use() == "expected"


def test_the_audit_log_and_the_events_name_the_change(admin: APIClient) -> None:
    put(admin, "tarcil", reason="won in the Lab")
    put(admin, None, generation=2, reason="lost in production")
    applied, reset = AuditEntry.objects.filter(object_kind="policy").order_by("id")
    assert (applied.action, applied.username, applied.message, applied.object_name) == (
        "policy.applied", "anna", "won in the Lab", "tarcil",
    )  # fmt: skip
    assert applied.before == {"policy": "expected", "is_applied": False}
    assert applied.after == {"policy": "tarcil", "is_applied": True}
    assert (reset.action, reset.message) == ("policy.reset", "lost in production")
    assert reset.after == {"policy": "expected", "is_applied": False}
    events = Event.objects.filter(kind="cluster.policy_changed").order_by("seq")
    assert [event.data["policy"] for event in events] == ["tarcil", "expected"]


def test_an_applied_policy_overrides_the_setting_until_it_is_reset(admin: APIClient) -> None:
    with override_settings(DEFAULT_POLICY="quietest"):
        assert policy_in_use() == "quietest"
        put(admin, "tarcil")
        assert policy_in_use() == "tarcil"
        put(admin, None, generation=2)
        assert policy_in_use() == "quietest"


def test_without_the_package_of_the_applied_policy_the_setting_decides(
    admin: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies_that_fail.install(monkeypatch, "ours", "none")
    put(admin, "ours")
    assert policy_in_use() == "ours"
    monkeypatch.delitem(registry.POLICIES, "ours")
    assert policy_in_use() == "expected"
    assert admin.get(URL).json()["policy"] == "expected"


def test_every_policy_is_listed_with_its_parameters() -> None:
    viewer = client_of("vic", Role.VIEWER)
    response = viewer.get("/api/v1/policies/")
    check_answer("/api/v1/policies/", "get", 200, response.json())
    rows = {row.pop("name"): row for row in response.json()["results"]}
    assert rows.keys() == registry.POLICIES.keys()
    for name, entry in registry.POLICIES.items():
        made = registry.make_plain(name)
        assert rows[name] == {
            "is_default": name == "expected",
            "version": made.version,
            "draws_sample": made.draws_sample,
            "source": entry.source,
            "summary": entry.summary,
            "formula": entry.formula,
            "parameters": entry.schema(),
        }


def test_a_policy_that_cannot_be_made_is_listed_without_a_version(
    monkeypatch: pytest.MonkeyPatch, admin: APIClient
) -> None:
    policies_that_fail.install(monkeypatch, "theirs", "cannot-be-made")
    rows = {row["name"]: row for row in admin.get("/api/v1/policies/").json()["results"]}
    assert (rows["theirs"]["version"], rows["theirs"]["draws_sample"]) == (None, None)
