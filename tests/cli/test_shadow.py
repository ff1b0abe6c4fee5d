"""The verbs of `berth shadow`."""

import json

import pytest

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.scheduling.models import Shadow
from controlplane.cli.errors import Exit
from tests import factories
from tests.cli.conftest import Berth
from tests.scheduling import shadow_rows

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def user() -> User:
    return factories.user("anna", role=Role.OPERATOR)


def test_a_shadow_is_started_listed_and_stopped(berth: Berth) -> None:
    assert berth("shadow", "list")[1] == "Nothing found.\n"
    code, out, _ = berth(
        "shadow", "start", "expected", "--set", "spread=0", "--share", "0.25",
        "--until", "2100-01-01T00:00:00Z",
    )  # fmt: skip
    shadow = Shadow.objects.get()
    assert (code, out) == (Exit.OK, f"Shadow {shadow.pk} of expected started.\n")
    assert (shadow.parameters, shadow.share) == ({"spread": 0.0}, 0.25)
    assert shadow.until is not None
    heading, row = berth("shadow", "list")[1].splitlines()
    assert heading.split()[:4] == ["ID", "POLICY", "STATUS", "SHARE"]
    assert row.split()[:4] == [str(shadow.pk), "expected", "running", "25.0%"]
    code, out, _ = berth("shadow", "stop", str(shadow.pk))
    assert (code, out) == (Exit.OK, f"Shadow {shadow.pk} of expected: stopped.\n")
    (found,) = json.loads(berth("shadow", "list", "--json")[1])
    assert (found["status"], found["started_by"]) == ("ended", "anna")


def test_a_shadow_is_shown_with_its_most_different_decisions(berth: Berth) -> None:
    factories.cluster()
    shadow = shadow_rows.shadow(seen=9, decided=5, dropped=2, share=0.004)
    near, far = (factories.decision(factories.job()) for _ in range(2))
    shadow_rows.shadow_decision(shadow, near, job=0.01, neighbours=0.0)
    shadow_rows.shadow_decision(shadow, far, job=0.3, neighbours=-0.1)
    out = berth("shadow", "show", str(shadow.pk), "--decisions", "1")[1]
    lines = [line.split() for line in out.splitlines()]
    assert ["share", "0.4%"] in lines
    assert ["dropped", "2"] in lines
    assert ["all", "2", "0%", "0%", "100%", "+0.1050", "+0.1550", "-0.0500"] in lines
    assert [str(far.pk), "one", "unit", "srv-1", "srv-2", "0.2"] in lines
    assert str(near.pk) not in out
    gone = factories.decision(factories.job())
    shadow_rows.shadow_decision(shadow, gone, job=0.0, neighbours=0.0)
    whole = berth("shadow", "show", str(shadow.pk))[1].splitlines()
    assert sum("srv-2" in line for line in whole) == 2  # the third has no regret
    found = json.loads(berth("shadow", "show", str(shadow.pk), "--json")[1])
    assert found["result"]["both"] == 3
    assert [row["decision"] for row in found["decisions"]][:2] == [str(far.pk), str(near.pk)]


def test_a_shadow_whose_policy_failed_is_shown_with_the_error(berth: Berth) -> None:
    error = "the policy theirs failed with OSError: no model file"
    shadow = shadow_rows.shadow("theirs", ended_at=factories.MOMENT, end="failed", error=error)
    lines = [
        " ".join(line.split()) for line in berth("shadow", "show", str(shadow.pk))[1].splitlines()
    ]
    assert "status failed" in lines
    assert f"error {error}" in lines


def test_an_unknown_policy_is_refused(berth: Berth) -> None:
    code, _, err = berth("shadow", "start", "fifo")
    assert code == Exit.FAILED
    assert "must be one of" in err
    assert not Shadow.objects.exists()
