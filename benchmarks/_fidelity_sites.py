"""The two instances of the fidelity benchmark, and the times of each stage of a job."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import psycopg

from apps.inventory.core.snapshot import Floats
from apps.testbed.management.replay.api_client import ApiClient
from benchmarks._instance import RunningInstance
from controlplane.embedded.agents import AGENTS as MACHINES

AGENTS: Final = "agents"
EMULATED: Final = "emulated"
TIMEOUT_S: Final = 60.0
_STAGES: Final = """
WITH clock AS (SELECT extract(epoch FROM clock_timestamp())::float8 - %s AS zero)
SELECT j.id::text, extract(epoch FROM j.created_at)::float8, extract(epoch FROM d.at)::float8,
       zero + l.started_s, zero + l.ended_s, extract(epoch FROM j.finished_at)::float8
FROM workloads_job j
JOIN execution_launch l ON l.job_id = j.id AND l.outcome = 'finished'
JOIN scheduling_decision d ON d.job_id = j.id AND d.outcome = 'placed'
CROSS JOIN clock WHERE j.id = ANY(%s::uuid[])
"""


class Stamps(NamedTuple):
    """When a job was submitted, placed, started, ended and reported: epoch seconds."""

    submitted: float
    placed: float
    started: float
    ended: float
    reported: float


@dataclass(frozen=True, slots=True)
class Sites:
    """An instance with real agents, and one with emulated servers of the same shapes."""

    instances: dict[str, RunningInstance]

    def client(self, name: str) -> ApiClient:
        """Return a new connection to an instance."""
        instance = self.instances[name]
        return ApiClient(instance.url, instance.variable("BERTH_TOKEN"))

    def stamps(self, name: str, jobs: Sequence[str]) -> dict[str, Stamps]:
        """Return the stages of jobs; of real ones, start and end are those of the process."""
        instance = self.instances[name]
        with (
            psycopg.connect(instance.variable("DATABASE_URL")) as connection,
            self.client(name) as api,
        ):
            clock_s, at = _clock(api)
            rows = connection.execute(_STAGES, [clock_s + time.time() - at, list(jobs)]).fetchall()
        found = {job: Stamps(*times) for job, *times in rows}
        if name == AGENTS:
            for job, task in self._tasks(found).items():
                started, ended = task.started, task.ended
                found[job] = found[job]._replace(started=started, ended=ended)
        return found

    def order_to_process_s(self, jobs: dict[str, Stamps]) -> Floats:
        """(n,) seconds from the arrival of each order at its agent to the process."""
        return np.array([task.started - task.ordered for task in self._tasks(jobs).values()])

    def _tasks(self, jobs: dict[str, Stamps]) -> "dict[str, _Task]":
        """Return what the supervisors of jobs have written."""
        found = {}
        for path in self.instances[AGENTS].home.glob("agents/*/tasks/*/order.json"):
            order: dict[str, Any] = json.loads(path.read_text())
            if (job := order["environment"]["BERTH_JOB_ID"]) in jobs:
                found[job] = _task(path.parent, order)
        if missing := jobs.keys() - found.keys():
            raise SystemExit(f"no agent has a task of {sorted(missing)}")
        return found


class _Task(NamedTuple):
    """When the order of a task arrived, and its process started and ended: epoch seconds."""

    ordered: float
    started: float
    ended: float


def _task(directory: Path, order: dict[str, Any]) -> _Task:
    zero = time.time() - time.monotonic()
    started, ended = (
        json.loads((directory / f"{name}.json").read_text())["at_s"]
        for name in ("started", "exit")
    )
    return _Task(zero + order["known_s"], zero + started, zero + ended)


def _clock(api: ApiClient) -> tuple[float, float]:
    """Return the cluster's time, and the epoch seconds at which it was read."""
    before = time.time()
    body = api.get("/api/v1/cluster/clock/").body
    return float(body["now_s"]), (before + time.time()) / 2.0


@contextmanager
def running_sites() -> Iterator[Sites]:
    """Start both instances; the emulated servers have the shapes that the agents registered."""
    real = RunningInstance(("--backend", "agent", "--no-replay"))
    emulated = RunningInstance(("--empty", "--speed", "1"))
    sites = Sites({AGENTS: real, EMULATED: emulated})
    try:
        real.start()
        emulated.start()
        with sites.client(AGENTS) as api:
            _await_agents(api)
            servers = api.get("/api/v1/servers/").body["results"]
        path = emulated.home / "cluster.json"
        path.write_text(json.dumps(cluster_of(servers)))
        for command in (("import_cluster", str(path)), ("profile_library",)):
            done = emulated.manage(*command)
            if done.returncode != 0:
                raise SystemExit(f"{command[0]} failed: {done.stderr[-2000:]}")
        yield sites
    finally:
        for instance in chain(sites.instances.values()):
            instance.discard()


def cluster_of(servers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the cluster file of servers, given as REST answers."""
    shapes = ("cores", "memory_bytes", "network_bps", "storage_bytes")
    platforms = {
        one["spec"]["platform"]: {name: one["spec"][name] for name in shapes} for one in servers
    }
    return {
        "name": "fidelity",
        "platforms": [
            {"name": name, **shape, "idle_watts": 0, "peak_watts": 0}
            for name, shape in platforms.items()
        ],
        "servers": [
            {
                "name": one["metadata"]["name"],
                "platform": one["spec"]["platform"],
                "rack": one["spec"]["rack"],
            }
            for one in servers
        ],
    }


def _await_agents(api: ApiClient) -> None:
    until = time.monotonic() + TIMEOUT_S
    while True:
        found = api.get("/api/v1/agents/").body["results"]
        if sum(agent["registered_at"] is not None for agent in found) == len(MACHINES):
            return
        if time.monotonic() > until:
            raise SystemExit("the agents did not register")
        time.sleep(0.1)
