"""`berth policy show` and `berth policy apply`."""

import json

import pytest

from apps.accounts.core.roles import Role
from apps.accounts.models import AuditEntry, User
from apps.scheduling.selectors.default_policy import policy_in_use
from controlplane.cli.errors import Exit
from tests import factories
from tests.cli.conftest import Berth

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def user() -> User:
    return factories.user("anna", role=Role.ADMIN)


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
