"""Callers of every role, and clients that speak as they do."""

from collections.abc import Callable

import pytest
from pytest_django import Settings
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import Project, User
from apps.accounts.services import create_token, create_user, ensure_project, join_project
from apps.workloads.models import Application
from tests import factories
from tests.api.cluster import build_cluster

Speak = Callable[..., APIClient]


@pytest.fixture(autouse=True)
def no_rates(settings: Settings) -> None:
    """Counting requests is tested where it is the point."""
    settings.BERTH_RATES = {}


@pytest.fixture
def project(db: None) -> Project:
    return ensure_project("default")


@pytest.fixture
def submitter(project: Project) -> User:
    return create_user(username="sue", password=None, role=Role.SUBMITTER)


@pytest.fixture
def viewer(project: Project) -> User:
    return create_user(username="vic", password=None, role=Role.VIEWER)


@pytest.fixture
def operator(project: Project) -> User:
    return create_user(username="olga", password=None, role=Role.OPERATOR)


@pytest.fixture
def admin(project: Project) -> User:
    return create_user(username="ada", password=None, role=Role.ADMIN)


@pytest.fixture
def stranger(db: None) -> User:
    """A submitter of another project."""
    user = User.objects.create(username="ned", role=Role.VIEWER.value)
    join_project(user=user, project=ensure_project("elsewhere"), role=Role.SUBMITTER)
    return user


def client_of(user: User, role: Role | None = None) -> APIClient:
    """Return a client that speaks with a new token of a user."""
    speaking = APIClient()
    secret = create_token(user=user, name="test", role=role).secret
    speaking.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    speaking.get("/api/v1/me/")  # the first use of a token writes when; later ones do not
    return speaking


@pytest.fixture
def as_user() -> Speak:
    """Return a maker of clients that speak with a token of the given user."""
    return client_of


@pytest.fixture
def api(submitter: User, as_user: Speak) -> APIClient:
    """A submitter's client."""
    return as_user(submitter)


@pytest.fixture
def power(operator: User, as_user: Speak) -> APIClient:
    """An operator's client."""
    return as_user(operator)


@pytest.fixture
def root(admin: User, as_user: Speak) -> APIClient:
    """An administrator's client."""
    return as_user(admin)


@pytest.fixture
def sort(db: None) -> Application:
    """An application that was profiled, on a cluster of A (4 cores) and B (2 cores)."""
    build_cluster()
    factories.library(("A", "B"))
    about = factories.application("sort", kind="analytics")
    factories.profile(about, platforms=("A", "B"))
    return about
