"""`manage.py add_user`."""

import re
from io import StringIO

import pytest
from django.contrib.auth import authenticate
from django.core.management import CommandError, call_command

from apps.accounts.models import User
from apps.accounts.selectors import principal_by_token

pytestmark = pytest.mark.django_db


def add_user(*arguments: str) -> dict[str, str]:
    """Run the command; return its output by the first word of each line."""
    out = StringIO()
    call_command("add_user", *arguments, stdout=out)
    return dict(re.findall(r"^(\w+) +(\S+)", out.getvalue(), re.MULTILINE))


def test_a_person_signs_in_with_what_was_told() -> None:
    output = add_user("sue")
    assert output["user"] == "sue"
    assert authenticate(username="sue", password=output["password"]) == User.objects.get()


@pytest.mark.parametrize("role", ["viewer", "submitter", "operator", "admin"])
def test_the_token_has_the_role_that_was_asked_for(role: str) -> None:
    principal = principal_by_token(add_user("sue", "--role", role)["token"])
    assert principal is not None
    assert principal[0].role == role


def test_a_program_gets_a_token_and_no_password() -> None:
    output = add_user("nightly", "--service")
    assert "password" not in output
    assert principal_by_token(output["token"]) is not None
    assert not User.objects.get().has_usable_password()


def test_a_name_is_given_once() -> None:
    add_user("sue")
    with pytest.raises(CommandError, match="The user name sue is taken"):
        add_user("sue")


@pytest.mark.parametrize("name", ["", "a b", "x" * 151])
def test_an_impossible_name_is_refused(name: str) -> None:
    with pytest.raises(CommandError, match=r"^/username: "):
        add_user(name)


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(CommandError, match="invalid choice"):
        add_user("sue", "--role", "king")
