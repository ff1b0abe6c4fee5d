"""The command that a launcher calls at every start."""

import json
import stat
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from apps.accounts.models import Token, User
from apps.accounts.selectors import principal_by_token
from apps.accounts.services import revoke_token

pytestmark = pytest.mark.django_db


def create_admin(**options: Any) -> dict[str, Any]:
    out = StringIO()
    call_command("create_admin", print_json=True, stdout=out, **options)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def test_the_first_call_tells_password_and_token() -> None:
    output = create_admin()
    user = User.objects.get(username=output["user"])
    assert user.role == "admin"
    assert user.check_password(output["password"])
    assert principal_by_token(output["token"]) is not None


def test_later_calls_change_nothing() -> None:
    create_admin()
    assert create_admin() == {"user": "admin", "password": None, "token": None}
    assert (User.objects.count(), Token.objects.count()) == (1, 1)


def test_the_token_file_is_for_its_owner_only_and_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "token"
    first = create_admin(token_file=path)
    again = create_admin(token_file=path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert again["token"] == first["token"] == path.read_text().strip()
    assert Token.objects.count() == 1


def test_a_token_that_no_longer_works_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "token"
    first = create_admin(token_file=path)
    token = Token.objects.get()
    revoke_token(user_id=token.user_id, token_id=token.pk)
    assert create_admin(token_file=path)["token"] not in {None, first["token"]}


def test_a_file_left_open_to_all_is_closed_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    path.chmod(0o644)
    create_admin(token_file=path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_token_file_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot write the token file"):
        create_admin(token_file=tmp_path / "missing" / "token")
