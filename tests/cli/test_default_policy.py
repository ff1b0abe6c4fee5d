"""`berth policy show` and `berth policy apply`."""

import json

import pytest

from apps.accounts.core.roles import Role
from apps.accounts.models import AuditEntry, User
from apps.scheduling.core.registry import DEFAULT, POLICIES
from apps.scheduling.selectors.default_policy import policy_in_use
from apps.testbed.core.replay.queueing.registry import TESTBED_POLICIES
from controlplane.cli.errors import Exit
from tests import factories
from tests.cli.conftest import Berth

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def user() -> User:
    return factories.user("anna", role=Role.ADMIN)


def test_the_policies_of_the_server_are_listed_with_its_default(
    berth: Berth, monkeypatch: pytest.MonkeyPatch
) -> None:
    factories.cluster()
    berth("policy", "apply", "tarcil", "--reason", "won in the Lab")
    rows = {row["name"]: row for row in json.loads(berth("policy", "list", "--json")[1])}
    assert rows.keys() == POLICIES.keys() | TESTBED_POLICIES.keys()
    assert [name for name, row in rows.items() if row["is_default"]] == ["tarcil"]
    assert {name for name, row in rows.items() if row["only_in_replays"]} == {*TESTBED_POLICIES}
    assert "load=0.7" in berth("policy", "list")[1]
    # this installation's own default
    local = json.loads(berth("policy", "list", "--local", "--json")[1])
    assert [row["name"] for row in local if row["is_default"]] == [DEFAULT]
    monkeypatch.delenv("BERTH_TOKEN")
    assert json.loads(berth("policy", "list", "--json")[1]) == local


def test_the_parameters_of_one_policy_are_shown(berth: Berth) -> None:
    factories.cluster()
    code, out, _ = berth("policy", "show", "expected")
    assert code == Exit.OK
    assert "score, higher is better" in out
    assert "spread" in out
    code, _, err = berth("policy", "show", "nothing")
    assert (code, "policy nothing not found" in err) == (Exit.NOT_FOUND, True)


def test_a_policy_is_applied_shown_and_reset(berth: Berth) -> None:
    factories.cluster()
    code, out, _ = berth("policy", "apply", "tarcil", "--reason", "won in the Lab", "--json")
    assert (code, json.loads(out)["policy"]) == (Exit.OK, "tarcil")
    assert policy_in_use() == "tarcil"
    shown = berth("policy", "show")[1]
    assert "tarcil" in shown
    assert "won in the Lab" in shown
    assert "anna" in shown
    assert berth("policy", "apply", "--reset", "--reason", "enough")[0] == Exit.OK
    assert policy_in_use() == "expected"
    assert list(AuditEntry.objects.order_by("id").values_list("action", flat=True))[-2:] == [
        "policy.applied",
        "policy.reset",
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("tarcil",), "--reason"),
        (("--reason", "x"), "required"),
        (("tarcil", "--reset", "--reason", "x"), "not allowed with"),
    ],
    ids=["no reason", "no policy", "both"],
)
def test_an_incomplete_command_is_a_usage_error(
    berth: Berth, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        berth("policy", "apply", *arguments)
    assert sentence in capsys.readouterr().err


def test_an_unknown_policy_is_refused_with_the_known_ones(berth: Berth) -> None:
    factories.cluster()
    code, _, error = berth("policy", "apply", "fifo", "--reason", "x")
    assert code != Exit.OK
    assert "must be one of autoscale, dot_product, expected" in error
