"""A full cluster in the database for the benchmark of preemptions."""

from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import numpy as np
from django.core.management import call_command
from django.db import connection

from apps.accounts.core.roles import Role
from apps.accounts.models import Project, User
from apps.common.core.interference import N_SOURCES
from apps.execution.models import Launch
from apps.inventory.core.cluster_file import parse_cluster
from apps.inventory.models import Cluster
from apps.inventory.services import import_cluster
from apps.scheduling.models import Allocation, Decision
from apps.workloads.models import Application, Job, WaitingShape

CORES: Final = 8
SIZES: Final = (2, 2, 2, 1, 1)  # units of the jobs on each server
SERVERS_PER_RACK: Final = 40
NOW_S: Final = 7200.0
MEMORY: Final = 32 * 10**9
MOMENT: Final = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
_BATCH: Final = 5000
_HOLD: Final = """
UPDATE inventory_resourceunit u SET allocation_id = a.id
FROM scheduling_allocation a WHERE u.id = ANY(a.unit_ids)
"""
_USE: Final = """
UPDATE inventory_server SET used_cores = cores, used_memory_bytes = memory_bytes,
       used_network_bps = network_bps, used_storage_bytes = storage_bytes
"""


def build(servers: int, seed: int) -> int:
    """Create servers of eight units, filled by five running jobs each; returns their number.

    The clock stands. Jobs have reported in the last minute.

    One job in five has a target of instructions per second, two have a deadline, and two have
    none.
    """
    call_command("migrate", verbosity=0)
    import_cluster(parse_cluster(_cluster(servers)))
    Cluster.objects.update(cluster_anchor_s=NOW_S, seen_cluster_s=NOW_S, speed=0.0)
    rng = np.random.default_rng(seed)
    jobs = _jobs(servers * len(SIZES), rng)
    decision = _decision(jobs[0])
    _allocate(jobs, decision)
    Launch.objects.bulk_create(
        (
            Launch(job=job, attempt=1, backend="emulated", state="running", order={},
                   started_s=job.started_s)
            for job in jobs
        ),
        batch_size=_BATCH,
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    return len(jobs)


def waiting_job(name: str, units: int, shape: dict[str, Any]) -> Job:
    """Create a job of high priority that was refused for lack of units."""
    constraints = {key: shape.pop(key) for key in ("locality", "spread") if key in shape}
    memory = shape.get("unit_memory_bytes", 0)
    job = _job(
        name, state="queued", priority=50, units_requested=units, constraints=constraints,
        unit_memory_bytes=memory,
    )  # fmt: skip
    job.save()
    job.refresh_from_db()
    row = WaitingShape.objects.create(
        key=uuid4(), project=job.project, priority=job.priority, reason_code="NoFreeUnit",
        evaluated_seq=1, queued_at=MOMENT, due_at=MOMENT, waits_for="units", units=units,
        min_units=units, on_one_server=constraints.get("locality") == "server", run_high_s=600.0,
        **{"labels": [], "unit_memory_bytes": 0, "unit_network_bps": 0, "unit_storage_bytes": 0,
           **shape},
    )  # fmt: skip
    Job.objects.filter(pk=job.pk).update(shape=row, reason_code=row.reason_code)
    return job


def _cluster(servers: int) -> dict[str, Any]:
    sizes = {"memory_bytes": MEMORY, "network_bps": 10**10, "storage_bytes": 10**12}
    kinds = [
        {"name": name, "cores": CORES, "idle_watts": 50, "peak_watts": 200, **sizes}
        for name in ("A", "B", "C")
    ]
    rows = [
        {"name": f"srv-{n:05d}", "platform": "ABC"[n % 3], "rack": f"r{n // SERVERS_PER_RACK}"}
        for n in range(servers)
    ]
    return {"name": "full", "platforms": kinds, "servers": rows}


def _job(name: str, **values: Any) -> Job:
    project, _ = Project.objects.get_or_create(name="bench")
    user, _ = User.objects.get_or_create(username="bench", role=Role.SUBMITTER.value)
    application, _ = Application.objects.get_or_create(name="bench", kind="batch")
    return Job(
        name=name, project=project, created_by=user, application=application,
        target={"kind": "best_effort"}, target_kind="best_effort", correlation_id="bench",
        submitted_s=NOW_S - 4000.0, **values,
    )  # fmt: skip


def _jobs(count: int, rng: np.random.Generator) -> list[Job]:
    ran_s = rng.uniform(60.0, 3600.0, count)
    deadline_s, late = rng.uniform(4000.0, 9000.0, count), rng.uniform(0.0, 60.0, count)
    progress, priority = rng.uniform(0.05, 0.95, count), rng.integers(0, 10, count)
    target = (
        lambda n: {"kind": "ips", "ips": 1.0},
        lambda n: {"kind": "completion_time", "seconds": float(deadline_s[n])},
        lambda n: {"kind": "best_effort"},
        lambda n: {"kind": "completion_time", "seconds": float(deadline_s[n])},
        lambda n: {"kind": "best_effort"},
    )
    first = _job("first", state="running")
    shared = {
        "project": first.project, "created_by": first.created_by,
        "application": first.application, "correlation_id": "bench", "state": "running",
        "submitted_s": NOW_S - 4000.0,
    }  # fmt: skip
    jobs = [
        Job(
            name=f"run-{n:05d}", target=target[n % 5](n),
            target_kind=str(target[n % 5](n)["kind"]),
            priority=int(priority[n]), started_s=float(NOW_S - ran_s[n]),
            progress=float(progress[n]), reported_s=float(NOW_S - late[n]),
            run_high_s=float(ran_s[n] / progress[n] * 1.2), **shared,
        )
        for n in range(count)
    ]  # fmt: skip
    return Job.objects.bulk_create(jobs, batch_size=_BATCH)


def _decision(job: Job) -> Decision:
    return Decision.objects.create(
        job=job, at=MOMENT, cluster_s=NOW_S, agent="bench", policy="expected", policy_version=1,
        code_version="0", seed=1, snapshot=1, outcome="placed", reason_code="PlacedBestExpected",
        units=1, sample_size=1, examined=1, eligible=1, servers_total=1, probability=1.0,
        elapsed_s=0.0,
    )  # fmt: skip


def _allocate(jobs: list[Job], decision: Decision) -> None:
    """Give each job its units: the jobs of a server follow one another."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, server_id FROM inventory_resourceunit ORDER BY server_id, core")
        units = np.array(cursor.fetchall(), dtype=np.int64).reshape(-1, CORES, 2)
    ends = np.cumsum(SIZES)
    rows = []
    for n, job in enumerate(jobs):
        server, place = divmod(n, len(SIZES))
        mine = units[server, ends[place] - SIZES[place] : ends[place]]
        share = SIZES[place]
        rows.append(
            Allocation(
                id=n + 1, job=job, decision=decision, server_id=int(mine[0, 1]),
                unit_ids=mine[:, 0].tolist(), cores=share,
                memory_bytes=share * MEMORY // CORES, network_bps=share * 10**10 // CORES,
                storage_bytes=share * 10**12 // CORES, caused=[10.0] * N_SOURCES,
                acquired_seq=n + 1, acquired_at=MOMENT, acquired_s=job.started_s or 0.0,
            )
        )  # fmt: skip
    Allocation.objects.bulk_create(rows, batch_size=_BATCH)
    with connection.cursor() as cursor:
        cursor.execute(_HOLD)
        cursor.execute(_USE)
