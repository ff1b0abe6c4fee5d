"""One world for each backend; agents and Slurm are those of their own tests."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from tests.contracts.execution.agent_world import AgentWorld
from tests.contracts.execution.emulated_world import EmulatedWorld
from tests.contracts.execution.kubernetes_world import KubernetesWorld
from tests.contracts.execution.slurm_world import SlurmWorld
from tests.execution.agents.conftest import Site, site
from tests.execution.kubernetes.conftest import a_world as a_kubernetes
from tests.execution.kubernetes.conftest import fake
from tests.execution.kubernetes.fake_api_server import FakeApiServer
from tests.execution.slurm.cluster import SlurmCluster
from tests.execution.slurm.conftest import a_world as a_slurm
from tests.execution.slurm.conftest import daemons

__all__ = ["daemons", "fake", "site"]  # fixtures


@pytest.fixture
def emulated_world(transactional_db: None) -> EmulatedWorld:
    return EmulatedWorld()


@pytest.fixture
def agent_world(site: Site) -> AgentWorld:
    return AgentWorld(site)


@pytest.fixture
def slurm_world(
    transactional_db: None,
    daemons: SlurmCluster,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[SlurmWorld]:
    for world in a_slurm(daemons, settings):
        yield SlurmWorld(world, monkeypatch)


@pytest.fixture
def kubernetes_world(
    transactional_db: None,
    fake: FakeApiServer,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[KubernetesWorld]:
    for world in a_kubernetes(fake, settings):
        yield KubernetesWorld(world, monkeypatch)
