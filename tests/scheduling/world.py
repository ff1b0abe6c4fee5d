"""A small cluster in the database, agents and proposals for it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from threading import Thread
from typing import Any

import numpy as np
from django.db import connection
from django.utils import timezone

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.cluster_file import ClusterSpec, parse_cluster
from apps.inventory.core.snapshot import Snapshot, Topology
from apps.inventory.models import Server, ServerState
from apps.inventory.services import import_cluster, set_server_state
from apps.scheduling.core.cluster.copy import ClusterCopy
from apps.scheduling.core.sizing.sizes import Sized
from apps.scheduling.core.types import Placed, RefusalReason, Refused, Request
from apps.scheduling.selectors import ClusterFollower, claimed_jobs, read_copy
from apps.scheduling.services import AgentIdentity, Proposal, SizedJob
from apps.scheduling.services.agent import SchedulingAgent
from apps.workloads.core.reasons import Reason
from apps.workloads.models import Application, Job, WaitingShape
from tests import factories
from tests.classification.core.profiles import profile

ME = AgentIdentity(
    name="agent-1", policy="tarcil", policy_version=1, code_version="0.1.0", draws_sample=True
)
CAUSED = np.linspace(10.0, 40.0, N_SOURCES)
SIZES = {"memory_bytes": 16 * 10**9, "network_bps": 10**9, "storage_bytes": 10**12}


def cluster_of(*names: str, cores: int = 4, **sizes: int) -> ClusterSpec:
    """Describe servers of one platform J in two alternating racks."""
    kind = {"name": "J", "cores": cores, "idle_watts": 50, "peak_watts": 200, **SIZES, **sizes}
    servers = [
        {"name": name, "platform": "J", "rack": f"r{i % 2}"} for i, name in enumerate(names)
    ]
    return parse_cluster({"name": "small", "platforms": [kind], "servers": servers})


def build(*names: str, cores: int = 4, **sizes: int) -> ClusterCopy:
    """Import a cluster and return a copy of it."""
    import_cluster(cluster_of(*names, cores=cores, **sizes))
    return read_copy()


def claimed(by: AgentIdentity = ME, **values: Any) -> Job:
    """A waiting job that an agent has claimed."""
    until = timezone.now() + timedelta(seconds=10)
    return factories.job(**{"claimed_by": by.name, "claimed_until": until, **values})


def proposal(
    job: Job,
    topology: Topology,
    units: Iterable[int],
    *,
    ranks: Sequence[float] = (),
    **fields: Any,
) -> Proposal:
    """Propose units, by index, for a job; a gang by default."""
    chosen = np.array(list(units), dtype=np.int32)
    (claimed_job,) = claimed_jobs([job.id], cluster_s=3000.0, start_delay_s=0.0)
    request = Request(
        job=str(job.id),
        units=chosen.size,
        caused=CAUSED,
        tolerated=100.0 - CAUSED,
        **{"gang": True, **fields},
    )
    sized = Sized(chosen.size, None, None, 500.0, 400.0, 600.0, 0.9)
    return Proposal(
        sized_job=SizedJob(claimed_job, None, profile(), sized, request, topology),
        placed=placed(str(job.id), chosen, ranks=ranks),
        elapsed_s=0.001,
    )


def placed(job: str, units: Any, *, ranks: Sequence[float] = (), sequence: int = 7) -> Placed:
    """Return a placement on units, without candidates."""
    return Placed(
        job=job,
        units=units,
        candidates=(),
        examined=8 * units.size,
        eligible=8 * units.size,
        dropped={"free": 3},
        rank_threshold=0.8,
        probability=0.17,
        seed=11,
        sequence=sequence,
        ranks=np.array(ranks),
    )


class FirstFree:
    """A policy that takes the first free units, so that two agents want the same ones.

    ``meanwhile`` is called once, after the first choice and before its commit.
    """

    name = "first_free"
    version = 3
    draws_sample = False

    def __init__(self, meanwhile: Callable[[], object] | None = None) -> None:
        self._meanwhile = meanwhile

    def place(
        self, snapshot: Snapshot, requests: Sequence[Request], rng: np.random.Generator
    ) -> list[Placed | Refused]:
        """Serve the requests in order from the free units of open servers."""
        opened = snapshot.server_open[snapshot.topology.unit_server]
        free = np.flatnonzero(snapshot.unit_free & opened).tolist()
        outcomes = [self._outcome(request, free, snapshot.sequence) for request in requests]
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return outcomes

    def _outcome(self, request: Request, free: list[int], sequence: int) -> Placed | Refused:
        if len(free) < request.units:
            reason = RefusalReason.NO_FREE_UNIT
            return Refused(request.job, reason, {"busy": 1}, detail="all busy", sequence=sequence)
        units = np.array(free[: request.units], dtype=np.int32)
        del free[: request.units]
        return placed(request.job, units, sequence=sequence)


class Greedy(FirstFree):
    """Takes four units, if the job has a target."""

    def place(self, *args: Any) -> Any:
        """Serve the requests as if those with a target were for four units."""
        snapshot, requests, rng = args
        larger = [replace(one, units=4) if one.goal else one for one in requests]
        outcomes = super().place(snapshot, larger, rng)
        return [
            replace(each, wanted=each.units.size) if isinstance(each, Placed) else each
            for each in outcomes
        ]


def agent(name: str, policy: FirstFree | None = None) -> SchedulingAgent:
    """Return an agent with an empty copy."""
    return SchedulingAgent(name, policy=policy or FirstFree(), rng=np.random.default_rng(5))


def at_once(*works: Callable[[], object]) -> list[BaseException]:
    """Run functions in threads with separate connections; return the errors raised."""
    raised: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            raised.append(error)
        finally:
            connection.close()

    threads = [Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60.0)
    return raised


def state(copy: ClusterCopy) -> list[Any]:
    """Return the contents of a copy."""
    snapshot = copy.frozen()
    arrays = (
        snapshot.unit_free,
        snapshot.server_open,
        snapshot.server_caused,
        snapshot.server_exposure,
        snapshot.server_tolerance,
        snapshot.server_free,
    )
    return [snapshot.sequence, *(array.ravel().tolist() for array in arrays)]


def followed_copy() -> ClusterFollower:
    """Return a copy that is up to date."""
    copy = ClusterFollower()
    copy.follow()
    return copy


def used(name: str) -> list[int]:
    """Return the cores, memory, network and storage used on a server."""
    row = Server.objects.get(name=name)
    return [
        row.used_cores,
        row.used_memory_bytes,
        row.used_network_bps,
        row.used_storage_bytes,
    ]


def known(**values: Any) -> Application:
    """An application with a profile: 100 MB/s a unit, perfect scaling, on platform J."""
    application = factories.application()
    factories.profile(application, **values)
    return application


def waiting(of: Application | None = None, **values: Any) -> Job:
    """A job just submitted, of 9 GB in 100 s: two units; see `known`."""
    fields: dict[str, Any] = {
        "state": "submitted",
        "target": {"kind": "completion_time", "seconds": 100.0},
        "input_bytes": 9 * 10**9,
        "reason_code": Reason.WAITING_FOR_AGENT.value,
    }
    return factories.job(application=of or known(), **{**fields, **values})


LARGE: dict[str, Any] = {
    "target": {"kind": "best_effort"},
    "units_requested": 2,
}  # for a server of one core


def decide_again(by: SchedulingAgent) -> None:
    """Run the agent on all waiting jobs without delay."""
    Job.objects.update(claimed_until=None)
    WaitingShape.objects.update(due_at=timezone.now())
    by.work(for_s=0.2)


def work(by: SchedulingAgent) -> None:
    """Run the agent until no job is waiting."""
    by.work(for_s=60.0)


def state_and_reason(job: Job) -> tuple[str, str]:
    """Return the state and reason of a job."""
    job.refresh_from_db()
    return job.state, job.reason_code


def put(name: str, to: ServerState) -> None:
    """Open or close a server."""
    set_server_state(server_id=Server.objects.get(name=name).id, state=to)
