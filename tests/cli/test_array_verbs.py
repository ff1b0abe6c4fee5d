"""Job arrays with the berth command."""

import json

import pytest

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.accounts.services import create_user, ensure_project
from apps.workloads.models import Job
from controlplane.cli.errors import Exit
from controlplane.cli.jobfile import array_text
from tests.cli.conftest import Berth


@pytest.fixture
def user(transactional_db: None) -> User:
    ensure_project("default")
    return create_user(username="sue", password=None, role=Role.SUBMITTER)


def submit(berth: Berth, text: str, *more: str) -> str:
    options = ("--app", "memcached", "--best-effort", "--name", "sweep")
    code, out, err = berth("submit", *options, "--array", text, *more)
    assert code == Exit.OK, err
    return out.strip()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0-99:2,200", {"indexes": "0-99:2,200"}),
        ("0-99%10", {"indexes": "0-99", "limit": 10}),
    ],
)
def test_the_text_of_an_array_names_indexes_and_a_limit(
    text: str, expected: dict[str, object]
) -> None:
    assert array_text(text) == expected


@pytest.mark.parametrize("text", ["", "%5", "0-9%", "0-9%0", "0-9%x"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        array_text(text)


def test_a_submitted_array_is_shown_with_its_counts(berth: Berth) -> None:
    array = submit(berth, "0-9:3%2")
    out = berth("array", "show", array)[1]
    assert "indexes          0-9:3" in out
    assert "states           4 submitted" in out
    assert "wait for others  2" in out
    assert array in berth("array", "list")[1]
    assert json.loads(berth("array", "show", array, "--json")[1])["limit"] == 2


def test_the_members_are_listed_and_explained(berth: Berth) -> None:
    array = submit(berth, "0-3%2")
    berth("submit", "--app", "memcached", "--best-effort", "--name", "other")
    out = berth("list", "--array", array)[1]
    assert ["other" in out, *(f"sweep-{i}" in out for i in range(4))] == [False, *[True] * 4]
    assert f"{array}, index 3" in berth("get", "sweep-3")[1]
    assert "WaitingForArray (tier 2)" in berth("why", "sweep-3")[1]


def test_the_limit_of_an_array_changes(berth: Berth) -> None:
    array = submit(berth, "0-9%2")
    assert "wait for others  5" in berth("array", "limit", array, "5")[1]
    assert "at once          all" in berth("array", "limit", array, "none")[1]
    with pytest.raises(SystemExit, match="2"):
        berth("array", "limit", array, "0")


def test_an_array_is_cancelled_whole(berth: Berth) -> None:
    array = submit(berth, "0-9%2")
    code, out, _ = berth("cancel", "--array", array)
    assert (code, out) == (Exit.OK, "10 of 10 open members are cancelled or stopping\n")
    assert set(Job.objects.values_list("state", flat=True)) == {"cancelled"}


def test_a_repeated_key_returns_the_first_array(berth: Berth) -> None:
    assert submit(berth, "0-3", "--key", "k") == submit(berth, "0-3", "--key", "k")
    assert Job.objects.count() == 4


def test_contradictions_are_usage_errors(berth: Berth) -> None:
    assert berth("cancel")[0] == Exit.USAGE
    assert berth("cancel", "a", "--array", "b")[0] == Exit.USAGE
    options = ("--app", "memcached", "--best-effort", "--wait", "done")
    assert berth("submit", *options, "--array", "0-3")[0] == Exit.USAGE
    assert not Job.objects.exists()


def test_a_check_of_an_array_shows_the_number_of_members(berth: Berth) -> None:
    job = ("--app", "memcached", "--best-effort")
    assert (
        "members        4; the outcome is that of one"
        in berth("check", *job, "--array", "0-3%2")[1]
    )
    assert "members" not in berth("check", *job)[1]
    assert Job.objects.count() == 0


def test_a_check_names_what_is_wrong_with_the_indexes(berth: Berth) -> None:
    code, _, err = berth("check", "--app", "memcached", "--best-effort", "--array", "0-")
    assert code != Exit.OK
    assert "not '0-'" in err
