"""Users, projects, members, tokens and the audit log from the command line."""

import json
import re
from typing import Any

import pytest

from apps.accounts.core.roles import Role
from apps.accounts.models import AuditEntry, Membership, Project, Token, User
from apps.accounts.services import (
    Blocked,
    Rejected,
    Verified,
    create_user,
    ensure_project,
    verify_password,
)
from apps.workloads.services import create_application
from controlplane.cli.errors import Exit
from tests import factories
from tests.cli.conftest import Berth, rows

HERE = "192.0.2.1"


@pytest.fixture
def user(transactional_db: None) -> User:
    ensure_project("default")
    factories.cluster()
    return create_user(username="ada", password=None, role=Role.ADMIN)


def told(text: str) -> dict[str, str]:
    """What a command printed, by the first word of each line."""
    return dict(re.findall(r"^(\w+) +(\S+)", text, re.MULTILINE))


def test_a_user_is_added_and_signs_in_with_what_is_printed(berth: Berth) -> None:
    code, out, _ = berth("users", "add", "sue", "--role", "operator")
    assert code == Exit.OK
    assert isinstance(verify_password("sue", told(out)["password"], address=HERE), Verified)
    assert rows(berth("users", "list", "-q", "su")[1])[1][:5] == [
        *("sue", "operator", "person", "yes", "default"),
    ]


def test_a_service_account_is_added_without_a_password(berth: Berth) -> None:
    out = berth("users", "add", "nightly", "--service")[1]
    assert "password" not in told(out)
    assert Token.objects.filter(user__username="nightly").count() == 1


def test_a_user_changes_role_leaves_and_returns(berth: Berth) -> None:
    berth("users", "add", "sue")
    assert berth("users", "role", "sue", "viewer")[1] == "sue is now viewer\n"
    assert berth("users", "deactivate", "sue")[0] == Exit.OK
    assert not User.objects.get(username="sue").is_active
    assert berth("users", "activate", "sue")[0] == Exit.OK
    assert User.objects.get(username="sue").is_active


def test_the_last_administrator_cannot_leave(berth: Berth) -> None:
    code, _, err = berth("users", "role", "ada", "viewer")
    assert code == Exit.CONFLICT
    assert "ada is the only active administrator" in err


def test_a_password_is_reset(berth: Berth) -> None:
    berth("users", "add", "sue")
    out = berth("users", "reset-password", "sue")[1]
    assert isinstance(verify_password("sue", told(out)["password"], address=HERE), Verified)


def test_a_blocked_user_is_unblocked(berth: Berth) -> None:
    berth("users", "add", "sue")
    for _ in range(6):
        verify_password("sue", "wrong", address=HERE)
    assert isinstance(verify_password("sue", "wrong", address=HERE), Blocked)
    assert berth("users", "unblock", "sue")[:2] == (Exit.OK, "sue may sign in again\n")
    assert verify_password("sue", "wrong", address=HERE) == Rejected()
    assert berth("users", "unblock", "sue")[0] == Exit.NOT_FOUND


def test_a_project_is_created_changed_archived_and_restored(berth: Berth) -> None:
    assert berth("projects", "add", "night", "--label", "team=search")[1] == "night\n"
    berth("projects", "change", "night", "--rename", "day", "--description", "by day")
    shown = rows(berth("projects", "list")[1])
    assert ["day", "open", "team=search", "by", "day"] in shown
    assert berth("projects", "archive", "day")[1] == "day  archived\n"
    assert berth("projects", "restore", "day")[1] == "day  open\n"
    assert berth("projects", "delete", "day")[0] == Exit.OK
    assert not Project.objects.filter(name="day").exists()
    assert berth("projects", "change", "default")[0] == Exit.USAGE


def test_deleting_a_project_with_jobs_suggests_to_archive_it(berth: Berth) -> None:
    factories.job("web", project=Project.objects.get(name="default"))
    code, _, err = berth("projects", "delete", "default")
    assert code == Exit.CONFLICT
    assert "berth projects archive default" in err


def test_members_are_listed_set_and_removed(berth: Berth) -> None:
    berth("users", "add", "sue")
    assert berth("members", "set", "default", "sue", "viewer")[0] == Exit.OK
    assert ["sue", "viewer"] in rows(berth("members", "list", "default")[1])
    assert berth("members", "remove", "default", "sue")[0] == Exit.OK
    assert not Membership.objects.filter(user__username="sue").exists()


def test_tokens_are_created_listed_and_revoked(berth: Berth) -> None:
    code, out, _ = berth("tokens", "new", "ci", "--role", "viewer", "--days", "30")
    assert (code, out[:6]) == (Exit.OK, "berth_")
    assert "ci" in [row[1] for row in rows(berth("tokens", "list")[1])]
    assert berth("tokens", "revoke", "ci")[:2] == (Exit.OK, "ci is revoked\n")
    assert berth("tokens", "revoke", "ci")[0] == Exit.NOT_FOUND


def test_a_name_of_several_tokens_is_not_guessed(berth: Berth) -> None:
    for _ in range(2):
        berth("tokens", "new", "ci")
    code, _, err = berth("tokens", "revoke", "ci")
    assert code == Exit.USAGE
    assert all(str(token.pk) in err for token in Token.objects.filter(name="ci"))


def test_tokens_of_another_user_are_managed_with_user(berth: Berth) -> None:
    berth("users", "add", "nightly", "--service")
    berth("tokens", "new", "cron", "--user", "nightly")
    assert Token.objects.get(name="cron").user.username == "nightly"
    assert berth("tokens", "revoke", "first", "--user", "nightly")[0] == Exit.OK


@pytest.fixture
def acts(user: User) -> None:
    create_application(name="sort", kind="batch")


def test_acts_are_listed_with_their_change(berth: Berth, acts: None) -> None:
    berth("projects", "add", "night")
    berth("projects", "change", "night", "--rename", "day")
    out = berth("audit", "list", "--kind", "project")[1]
    assert "project.updated  night   name night > day" in out
    assert rows(out)[1][1:4] == ["ada", "cli", "project.updated"]


def test_acts_are_exported(berth: Berth, acts: None) -> None:
    code, out, _ = berth("audit", "export", "jsonl", "--kind", "application")
    entries: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    assert code == Exit.OK
    assert [entry["action"] for entry in entries] == ["application.created"]
    text = berth("audit", "export", "csv", "--action", "application.created")[1]
    assert text.splitlines()[0].startswith("at,id,action,via,username")
    assert AuditEntry.objects.filter(action="audit.exported").count() == 2


@pytest.mark.parametrize("verb", [("export", "csv"), ("list",)])
def test_a_refused_filter_is_named_as_it_was_given(berth: Berth, verb: tuple[str, ...]) -> None:
    code, out, err = berth("audit", *verb, "--since", "yesterday")
    assert (code != Exit.OK, out) == (True, "")
    assert re.search(r"^  --since: .*yesterday", err, re.MULTILINE), err
    assert "at__gte" not in err
