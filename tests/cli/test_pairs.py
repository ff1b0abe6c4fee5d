"""The verbs of `berth pair`."""

import json

import pytest

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.accounts.services import join_project
from apps.testbed.models import MeasuredPair
from controlplane.cli.errors import Exit
from tests import factories
from tests.cli.conftest import Berth

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def user() -> User:
    anna = factories.user("anna", role=Role.OPERATOR)
    factories.cluster()
    join_project(user=anna, project=factories.project("lab"))
    factories.server("box", of=factories.platform("box", cores=2), backend="agent")
    return anna


def test_a_pair_is_requested_listed_shown_and_cancelled(berth: Berth) -> None:
    assert berth("pair", "list")[1] == "Nothing found.\n"
    code, out, _ = berth(
        "pair", "run", "--first", "xz -k 'my file'", "--second", "bzip2 in",
        "--second-app", "squeeze", "--rounds", "4", "--max-foreign", "20", "--project", "lab",
    )  # fmt: skip
    assert code == Exit.OK
    pair = MeasuredPair.objects.get()
    assert [side["command"] for side in pair.request["sides"]] == [
        ["xz", "-k", "my file"], ["bzip2", "in"],
    ]  # fmt: skip
    assert (pair.first, pair.second) == ("xz", "squeeze")
    assert (pair.request["rounds"], pair.request["max_foreign"]) == (4, 0.2)
    assert "no scores of squeeze, xz" in out
    _, row = berth("pair", "list")[1].splitlines()
    assert row.split() == [str(pair.pk), "xz", "squeeze", "pending", "-", "-", "-", "-"]
    code, out, _ = berth("pair", "show", str(pair.pk))
    assert "0 of 4" in out
    assert "waiting for a server" in out
    assert berth("pair", "cancel", str(pair.pk))[0] == Exit.OK
    pair.operation.refresh_from_db()
    assert pair.operation.status == "cancelled"


def test_the_four_numbers_are_shown_with_their_verdicts(berth: Berth) -> None:
    pair = factories.measured_pair()
    lines = berth("pair", "show", str(pair.pk))[1].splitlines()
    assert lines[-2].startswith("xz")
    assert "1.200 [1.100, 1.300]" in lines[-2]
    assert lines[-2].endswith("holds")
    assert not lines[-2].endswith("does not hold")
    assert lines[-1].endswith("does not hold")
    shown = json.loads(berth("pair", "show", str(pair.pk), "-o", "json")[1])
    assert shown["sides"][0]["measured"]["value"] == pytest.approx(1.2, rel=1e-3)
    assert shown["sides"][0]["is_wide"] is False
    wide = {"value": 2.0, "low": 1.03, "high": 6.6, "unmeasured": []}
    pair.predictions = [wide, wide]
    pair.save()
    assert berth("pair", "show", str(pair.pk))[1].splitlines()[-2].endswith("too wide to tell")


def test_an_application_must_be_named(berth: Berth) -> None:
    code, _, err = berth("pair", "run", "--first", "xz in")
    assert code == Exit.USAGE
    assert "--second COMMAND or --second-app APP is required" in err
