"""Permissions of roles."""

from uuid import UUID

import pytest

from apps.accounts.core.principal import Principal, TokenLimits, make_principal
from apps.accounts.core.roles import Role, highest, includes

MINE, THEIRS = UUID(int=1), UUID(int=2)


def principal(role: str, inside: str | None = None, limit: str | None = None) -> Principal:
    return make_principal(
        user_id=UUID(int=9),
        username="u",
        role=role,
        is_service=False,
        memberships={MINE: ("mine", inside)} if inside else {},
        token=TokenLimits(UUID(int=3), Role(limit)) if limit else None,
    )


@pytest.mark.parametrize(
    ("held", "needed", "expected"),
    [
        ("admin", "operator", True),
        ("operator", "operator", True),
        ("submitter", "operator", False),
        ("viewer", "submitter", False),
    ],
)
def test_a_role_includes_the_ones_before_it(held: str, needed: str, expected: bool) -> None:
    assert includes(held, needed) is expected


def test_no_role_at_all_is_viewer() -> None:
    assert highest([]) is Role.VIEWER


def test_a_membership_raises_the_role_inside_its_project_only() -> None:
    caller = principal("viewer", "submitter")
    assert caller.may(Role.SUBMITTER, MINE)
    assert not caller.may(Role.SUBMITTER, THEIRS)


def test_a_weak_membership_does_not_lower_the_own_role() -> None:
    assert principal("submitter", "viewer").may(Role.SUBMITTER, MINE)


def test_operators_see_and_change_every_project() -> None:
    caller = principal("operator")
    assert caller.sees(THEIRS)
    assert caller.may(Role.SUBMITTER, THEIRS)


def test_others_see_their_own_projects_and_what_is_nobodys() -> None:
    caller = principal("submitter", "submitter")
    assert (caller.sees(MINE), caller.sees(THEIRS), caller.sees(None)) == (True, False, True)


def test_a_tokens_limit_holds_everywhere() -> None:
    caller = principal("admin", "admin", limit="viewer")
    assert caller.role is Role.VIEWER
    assert not caller.may(Role.SUBMITTER, MINE)
    assert not caller.sees(THEIRS)
