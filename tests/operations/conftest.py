"""Users of the event stream."""

import pytest

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.accounts.services import (
    create_token,
    create_user,
    ensure_project,
)


@pytest.fixture
def user(transactional_db: None) -> User:
    ensure_project("default")
    return create_user(username="sue", password=None, role=Role.SUBMITTER)


@pytest.fixture
def bearer(user: User) -> dict[str, str]:
    return {"Authorization": f"Bearer {create_token(user=user, name='t').secret}"}
