"""A cluster with weights in force, and callers of every role."""

from typing import NamedTuple

import pytest

from apps.accounts.models import User
from apps.inventory.models import Server
from apps.workloads.models import Job
from tests import factories
from tests.api.conftest import (
    api,
    as_user,
    no_rates,
    operator,
    power,
    project,
    submitter,
    viewer,
)
from tests.placement import rebalancing_world as world

__all__ = [
    "api", "as_user", "no_rates", "operator", "power", "project", "submitter", "viewer"
]  # fmt: skip


class Stage(NamedTuple):
    """Three servers; ``one`` has 2 units of s0, ``two`` 1 of s1, ``three`` 3 of s1."""

    by: User
    servers: list[Server]
    one: Job
    two: Job
    three: Job


@pytest.fixture
def stage(db: None) -> Stage:
    """A cluster with weights in force: s2 is empty, s1 full, s0 half full."""
    by = factories.user("planner")
    servers = world.servers()
    world.activate(by)
    return Stage(
        by,
        servers,
        world.running_job("one", (servers[0], 2)),
        world.running_job("two", (servers[1], 1)),
        world.running_job("three", (servers[1], 3)),
    )
