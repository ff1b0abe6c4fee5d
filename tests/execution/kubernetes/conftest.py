"""A fake API server and a Berth before it; the official client is between them."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from kubernetes.client import Configuration
from pytest_django import Settings

from apps.accounts.services import ensure_project
from apps.common.infrastructure.database import database_now
from apps.execution.backends.kubernetes.cluster import Cluster, connected
from apps.execution.backends.kubernetes.holder import KubernetesBackend
from apps.execution.models import BackendHolder, KubernetesPod
from apps.inventory.services import start_clock
from apps.scheduling.services.agent import SchedulingAgent, make_agent
from apps.workloads.models import Job
from tests.execution.kubernetes.fake_api_server import FakeApiServer
from tests.execution.kubernetes.objects import a_node, a_pod, runs
from tests.execution.waiting import until

TIMEOUT_S = 60.0  # of a busy machine


@pytest.fixture
def fake() -> Iterator[FakeApiServer]:
    found = FakeApiServer()
    yield found
    found.close()


@pytest.fixture
def api(fake: FakeApiServer) -> Cluster:
    """The official client before the fake."""
    return client_of(fake)


def client_of(fake: FakeApiServer) -> Cluster:
    settings = Configuration()
    settings.host = fake.url
    return connected(settings)


@dataclass
class World:
    """The fake and Berth; nothing happens in Berth unless a test lets it."""

    fake: FakeApiServer
    backend: KubernetesBackend
    scheduler: SchedulingAgent

    def turn(self) -> None:
        """Let the backend and the scheduler work once."""
        self.backend.tick(time.monotonic())
        self.scheduler.work(for_s=0.5)

    def restart(self, name: str = "kubernetes-again") -> None:
        """Replace the backend by a new process that knows nothing, after the old one has died."""
        self.backend.stop()
        BackendHolder.objects.update(held_until=database_now())
        self.backend = a_backend(self.fake, name)
        self.backend.start()

    def until(self, holds: Callable[[], Any], what: str) -> Any:
        """Let Berth work until something is true, and return it."""
        return until(self.turn, holds, what, timeout_s=TIMEOUT_S, pause_s=0.02)

    def turns(self, seconds: float) -> None:
        """Let Berth work for some time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.turn()
            time.sleep(0.02)

    def submit(self, name: str = "p1", *args: Any, **spec: Any) -> str:
        """Create a pod as a user does; returns its key."""
        self.fake.put("pods", a_pod(name, *args, **spec))
        return f"{spec.get('namespace', 'team-a')}/{name}"

    def pod(self, key: str) -> Any:
        return self.fake.objects["pods"][key]

    def node_of(self, key: str) -> str:
        return str(self.pod(key)["spec"].get("nodeName", ""))

    def bindings(self) -> list[str]:
        """Return the paths of the bindings that Berth has requested."""
        return [path for _, path, _ in self.fake.requests if path.endswith("/binding")]

    def seen(self) -> set[str]:
        """Return the keys of the pods of which Berth knows."""
        pods = self.backend.pods.items().values()
        return {f"{pod.namespace}/{pod.name}" for pod in pods}

    def until_bound(self, key: str) -> str:
        """Let Berth work until a pod is bound; returns its node."""
        return str(self.until(lambda: self.node_of(key), f"{key} is bound"))

    def until_running(self, key: str) -> Job:
        """Let Berth bind a pod, let it run, and return its job."""
        self.until_bound(key)
        self.fake.change("pods", key, runs())
        return self.until_state(key, "running")

    def job(self, key: str) -> Job:
        """Return the newest job of a pod."""
        namespace, name = key.split("/")
        row = KubernetesPod.objects.filter(namespace=namespace, name=name).latest("id")
        return Job.objects.get(pk=row.job_id)

    def until_state(self, key: str, *states: str) -> Job:
        """Let Berth work until the job of a pod is in one of the states."""
        namespace, name = key.split("/")

        def is_there() -> bool:
            rows = KubernetesPod.objects.filter(namespace=namespace, name=name)
            row = rows.order_by("-id").first()
            return row is not None and Job.objects.get(pk=row.job_id).state in states

        self.until(is_there, f"{key} is {states}")
        return self.job(key)

    def said(self, key: str) -> list[tuple[str, str]]:
        """Return reason and message of the events on a pod."""
        name = key.split("/")[1]
        found = [each for each in self.fake.events if each["involvedObject"]["name"] == name]
        return [(each["reason"], each["message"]) for each in found]


def a_backend(fake: FakeApiServer, name: str = "kubernetes-test") -> KubernetesBackend:
    """Return a process that holds the backend, and follows nothing yet."""
    backend = KubernetesBackend(client_of(fake), name, np.random.default_rng(1))
    backend.hold()
    return backend


@pytest.fixture
def world(transactional_db: None, fake: FakeApiServer, settings: Settings) -> Iterator[World]:
    """A Berth without servers before two nodes of four cores."""
    yield from a_world(fake, settings)


def a_world(fake: FakeApiServer, settings: Settings) -> Iterator[World]:
    """Set up a Berth whose clock is the wall clock, before two nodes of four cores."""
    settings.BERTH_RATES = {}
    ensure_project("default")
    start_clock(speed=1.0)
    for name in ("n1", "n2"):
        fake.put("nodes", a_node(name))
    found = World(fake, a_backend(fake), make_agent("scheduler-1"))
    found.backend.start()
    yield found
    found.backend.stop()
