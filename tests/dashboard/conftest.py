"""Signed-in users."""

import pytest
from django.core.cache import cache
from django.test import Client

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from tests import factories


@pytest.fixture(autouse=True)
def no_cache() -> None:
    """Clear the cache: pages cache some data for seconds."""
    cache.clear()


@pytest.fixture
def operator(db: None) -> User:
    factories.cluster()
    return factories.user("olga", role=Role.OPERATOR)


@pytest.fixture
def as_operator(client: Client, operator: User) -> Client:
    client.force_login(operator)
    return client


@pytest.fixture
def as_viewer(client: Client, db: None) -> Client:
    factories.cluster()
    client.force_login(factories.user("vic", role=Role.VIEWER))
    return client
