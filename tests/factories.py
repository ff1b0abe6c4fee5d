"""Rows for tests: each function saves one row, with plausible defaults for omitted fields."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count
from typing import Any

import numpy as np
from django.db import connection
from django.utils import timezone

from apps.accounts.core.principal import Principal
from apps.accounts.core.roles import Role
from apps.accounts.models import Project, User
from apps.accounts.selectors import principal_by_user
from apps.classification.core.cells import KnownCell, Source
from apps.classification.core.estimates import Estimate
from apps.classification.core.matrix import MatrixName, columns_of
from apps.classification.core.profile import Profile as Belief
from apps.classification.models import Profile
from apps.classification.selectors import cells_of
from apps.classification.services import store_library
from apps.common.core.interference import N_SOURCES
from apps.emulation.core.draws import application_truth
from apps.emulation.core.library import library as measured_library
from apps.emulation.core.platforms import catalogue
from apps.emulation.core.probe import probe
from apps.emulation.core.probe_runs import ProbeRun
from apps.execution.models import JobSample, Launch, PreemptionProposal
from apps.inventory.core.demo import PLATFORMS
from apps.inventory.models import (
    Change,
    ChangeKind,
    Cluster,
    ClusterFrame,
    Platform,
    Rack,
    ResourceUnit,
    Server,
    ServerReading,
)
from apps.inventory.selectors import newest_change
from apps.operations.models import Operation
from apps.profiling.core.measurements import MeasuredCell
from apps.profiling.models import Measurement, ProfilingRun
from apps.scheduling.models import Allocation, Decision
from apps.testbed.core.pairs.rounds import Round, summary
from apps.testbed.models import MeasuredPair
from apps.workloads.models import Application, Job, WaitingShape
from tests.classification.core.profiles import profile as believed

MOMENT = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
_numbers = count(1)


def number() -> int:
    """A number that is unique in this process."""
    return next(_numbers)


def cluster(*, seen_cluster_s: float = 7200.0, **values: Any) -> Cluster:
    """The only `Cluster` row, with its clock stopped at ``seen_cluster_s``."""
    defaults = {"cluster_anchor_s": seen_cluster_s, "seen_cluster_s": seen_cluster_s, "speed": 0.0}
    row, _ = Cluster.objects.update_or_create(id=1, defaults={**defaults, **values})
    return row


def user(
    username: str = "", *, role: Role = Role.OPERATOR, password: str = "", **values: Any
) -> User:
    """A user with a role; can sign in if ``password`` is not empty."""
    row = User(username=username or f"user-{number()}", role=role.value, **values)
    if password:
        row.set_password(password)
    else:
        row.set_unusable_password()
    row.save()
    return row


def principal(of: User | None = None) -> Principal:
    """The rights of somebody who is signed in; of an operator by default."""
    found = principal_by_user((of or user()).pk)
    assert found is not None
    return found


def project(name: str = "default") -> Project:
    """A project by name."""
    row, _ = Project.objects.get_or_create(name=name)
    return row


def platform(
    name: str = "", *, cores: int = 4, rank: int | None = None, **values: Any
) -> Platform:
    """A server configuration."""
    serial = number()
    defaults = {
        "memory_bytes": cores * 4 * 10**9,
        "network_bps": 10**9,
        "storage_bytes": 10**12,
        "idle_watts": 40.0,
        "peak_watts": 120.0,
    }
    return Platform.objects.create(
        name=name or f"p{serial}",
        cores=cores,
        rank=Platform.objects.count() if rank is None else rank,
        **{**defaults, **values},
    )


def server(
    name: str = "", *, of: Platform | None = None, rack: str = "rack-1", **values: Any
) -> Server:
    """A server with its resource units."""
    kind = of or platform()
    defaults = {
        "cores": kind.cores,
        "memory_bytes": kind.memory_bytes,
        "network_bps": kind.network_bps,
        "storage_bytes": kind.storage_bytes,
        "idle_watts": kind.idle_watts,
        "peak_watts": kind.peak_watts,
    }
    row = Server.objects.create(
        name=name or f"srv-{number():04d}",
        platform=kind,
        rack=Rack.objects.get_or_create(name=rack)[0],
        **{**defaults, **values},
    )
    ResourceUnit.objects.bulk_create(
        ResourceUnit(server=row, core=core) for core in range(row.cores)
    )
    return row


def reading(
    of: Server, *, cpu_share: float = 0.5, at: datetime = MOMENT, **values: Any
) -> ServerReading:
    """The latest report of a server."""
    defaults = {"cluster_s": 7200.0, "watts": of.idle_watts, "backend": "emulated"}
    return ServerReading.objects.create(
        server=of, cpu_share=cpu_share, at=at, **{**defaults, **values}
    )


def frame(cluster_s: float, cpu: list[float | None], **values: Any) -> ClusterFrame:
    """The cluster at one moment; ``cpu`` holds one share per server, None = not known."""
    packed = bytes(255 if share is None else round(200 * share) for share in cpu)
    known = [share for share in cpu if share is not None]
    defaults = {
        "at": MOMENT + timedelta(seconds=cluster_s / 60),
        "server_allocated": packed,
        "servers": len(cpu),
        "units": 4 * len(cpu),
        "units_allocated": 2 * len(cpu),
        "cpu_share": sum(known) / len(known) if known else 0.0,
        "memory_share": 0.3,
        "watts": 80.0 * len(cpu),
        "servers_on": len(known),
    }
    return ClusterFrame.objects.create(
        cluster_s=cluster_s, server_cpu=packed, **{**defaults, **values}
    )


def application(name: str = "", *, kind: str = "analytics", **values: Any) -> Application:
    """An application."""
    return Application.objects.create(name=name or f"app-{number()}", kind=kind, **values)


def profile(of: Application, *, platforms: tuple[str, ...] = ("J",), **values: Any) -> Profile:
    """The current profile of an application; ``values`` as in `core.profiles.profile`."""
    belief = replace(
        believed(kind=of.kind, speeds=(1.0,) * len(platforms), **values), platforms=platforms
    )
    columns = {name: columns_of(name, platforms) for name in MatrixName}
    return Profile.objects.create(
        application=of,
        number=Profile.objects.filter(application=of).count() + 1,
        revision=belief.revision,
        estimator="test",
        cells=cells_of(belief, known_of(belief, columns), columns),
    )


def known_of(belief: Belief, columns: Mapping[MatrixName, tuple[str, ...]]) -> list[KnownCell]:
    """The cells a profile says were measured; errors of 2 %."""
    parts: dict[MatrixName, tuple[Any, Any]] = {
        MatrixName.BASE_RATE: ([belief.base_rate, belief.bytes_rate], [True, True]),
        **{name: (row.value, row.measured) for name, row in belief.estimates.items()},
    }
    return [
        KnownCell(name, column, float(value), 0.02 * float(value), Source.MEASURED, 8, 60.0)
        for name, (values, marks) in parts.items()
        for column, value, mark in zip(columns[name], values, marks, strict=True)
        if mark
    ]


def job(name: str = "", *, state: str = "queued", **values: Any) -> Job:
    """A job in any state; a terminal one has ended at 3,600 s."""
    defaults: dict[str, Any] = {
        "target": {"kind": "completion_time", "seconds": 600.0},
        "submitted_s": 3000.0,
        "correlation_id": "test",
    }
    if state in {"succeeded", "failed", "cancelled"}:
        defaults |= {"finished_s": 3600.0, "finished_at": MOMENT}
    chosen = {**defaults, **values}
    chosen.setdefault("target_kind", chosen["target"]["kind"])
    chosen.setdefault("project", None)
    chosen["project"] = chosen["project"] or project()
    chosen["application"] = chosen.get("application") or application()
    chosen["created_by"] = chosen.get("created_by") or user(role=Role.SUBMITTER)
    return Job.objects.create(name=name or f"job-{number()}", state=state, **chosen)


def waiting_shape(*jobs: Job, by: Decision | None = None, **values: Any) -> WaitingShape:
    """The shape that queued jobs wait in: no unit was free."""
    first = Job.objects.get(id=jobs[0].id)
    defaults: dict[str, Any] = {
        "reason_code": "NoFreeUnit",
        "evaluated_seq": newest_change(),
        "queued_at": MOMENT,
        "due_at": MOMENT,
        "waits_for": "units",
        "min_units": 1,
        "on_one_server": False,
        "labels": [],
        "unit_memory_bytes": 0,
        "unit_network_bps": 0,
        "unit_storage_bytes": 0,
    }
    row = WaitingShape.objects.create(
        key=first.shape_key, project=first.project, priority=first.priority,
        decision_id=by.id if by else None, **{**defaults, **values},
    )  # fmt: skip
    Job.objects.filter(id__in=[job.id for job in jobs]).update(
        shape=row, reason_code=row.reason_code
    )
    return row


def candidate(of: Server, *, verdict: str = "outranked", **values: Any) -> dict[str, Any]:
    """One examined unit as a decision keeps it."""
    return {
        "server_id": of.id,
        "core": 0,
        "quality": 0.8,
        "target": 0.7,
        "closeness": 0.9,
        "verdict": verdict,
        "headroom": [20.0] * N_SOURCES,
        **values,
    }


def decision(about: Job, *, outcome: str = "placed", **values: Any) -> Decision:
    """A decision about a job, with R = 8."""
    placed = outcome == "placed"
    defaults: dict[str, Any] = {
        "at": MOMENT + timedelta(seconds=number()),
        "cluster_s": 3010.0,
        "agent": "agent-1",
        "policy": "tarcil",
        "policy_version": "1",
        "code_version": "0.1.0",
        "seed": 7,
        "snapshot": 100,
        "reason_code": "PlacedBestOfSample" if placed else "CapacityShort",
        "units": 1,
        "units_won": 1 if placed else 0,
        "sample_size": 8,
        "examined": 8 if placed else 0,
        "eligible": 100 if placed else 0,
        "servers_total": 10,
        "probability": 0.8**8,
        "elapsed_s": 0.0001,
        "waited_s": 0.05 if placed else None,
    }
    return Decision.objects.create(job=about, outcome=outcome, **{**defaults, **values})


def preemption_proposal(about: Job, *victims: Job, **values: Any) -> PreemptionProposal:
    """A proposal to stop running jobs for a waiting one; open unless a state is given."""
    preview = [
        {
            "id": str(victim.pk),
            "launch": victim.launches.get(state="running").pk,
            "name": victim.name,
            "units": 4,
            "lost_unit_seconds": 240,
            "breaks_promise": False,
            "reason": "Without it, 2 units are missing.",
        }
        for victim in victims
    ]
    defaults: dict[str, Any] = {
        "is_automatic": False,
        "cluster_s": 7200.0,
        "basis": "",
        "victims": len(victims),
        "lost": 240 * len(victims),
        "broken": 0,
        "preview": preview,
    }
    return PreemptionProposal.objects.create(job_id=about.pk, **{**defaults, **values})


def measured_pair(
    first: str = "xz",
    second: str = "bzip2",
    *,
    slowdowns: tuple[float, float] = (1.2, 1.0),
    **values: Any,
) -> MeasuredPair:
    """A pair that was measured, predicted to slow down by 1.1 to 1.3."""
    operation = Operation.objects.create(
        kind="pair.measured", status="succeeded", progress=3, total=3, finished_at=timezone.now()
    )
    rounds = [Round((1.0, 1.0), (slowdowns[0] * noise, slowdowns[1] / noise)) for noise in
              (0.99, 1.0, 1.01)]  # fmt: skip
    predicted = Estimate(1.2, 1.1, 1.3)
    side: dict[str, Any] = {"environment": {}, "working_directory": None, "units": 1}
    defaults = {
        "is_emulated": False,
        "platform": "box",
        "server_units": 2,
        "request": {
            "sides": [{**side, "command": [first, "in"]}, {**side, "command": [second, "in"]}],
            "rounds": 3, "window_s": 1.0, "patience_s": 60.0, "max_foreign": 0.05,
        },
        "predictions": [{**predicted._asdict(), "unmeasured": ["tlb"]}] * 2,
        "operation": operation,
        "result": summary(rounds, (predicted, predicted), rejected=1),
    }  # fmt: skip
    return MeasuredPair.objects.create(first=first, second=second, **{**defaults, **values})


def allocation(
    about: Job, on: Server, *, cores: int = 1, by: Decision | None = None, **values: Any
) -> Allocation:
    """Allocate free units of a server to a job; updates the unit rows and the server's sums."""
    units = list(
        ResourceUnit.objects.filter(server=on, allocation_id=None).order_by("core")[:cores]
    )
    serial = number()
    released = values.get("released_seq") is not None
    defaults: dict[str, Any] = {
        "memory_bytes": cores * (on.memory_bytes // on.cores),
        "caused": [10.0] * N_SOURCES,
        "acquired_seq": serial,
        "acquired_at": MOMENT,
        "acquired_s": 3010.0,
    }
    row = Allocation.objects.create(
        id=_allocation_number(),
        job=about,
        decision=by or decision(about),
        server_id=on.id,
        unit_ids=[unit.id for unit in units],
        cores=cores,
        **{**defaults, **values},
    )
    if not released:
        ResourceUnit.objects.filter(id__in=row.unit_ids).update(allocation_id=row.id)
        Server.objects.filter(id=on.id).update(
            used_cores=on.used_cores + cores,
            used_memory_bytes=on.used_memory_bytes + row.memory_bytes,
        )
        on.refresh_from_db()
    return row


def _allocation_number() -> int:
    """Return an allocation id from the sequence that services use."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval('common_allocations_seq')")
        value: int = cursor.fetchone()[0]
    return value


def change(seq: int, *, kind: ChangeKind = ChangeKind.TOPOLOGY, **values: Any) -> Change:
    """An entry of the change log."""
    defaults = {"at": MOMENT, "cluster_s": 0.0, "server_id": 0}
    return Change.objects.create(seq=seq, kind=kind, **{**defaults, **values})


def launch(of: Job, *, attempt: int = 1, state: str = "running", **values: Any) -> Launch:
    """A start of a job."""
    defaults = {"backend": "emulated", "order": {}, "started_s": 3020.0}
    if state == "running":
        defaults |= {
            "claimed_by": "emulator-1",
            "claimed_until": datetime.now(UTC) + timedelta(hours=1),
        }
    return Launch.objects.create(job=of, attempt=attempt, state=state, **{**defaults, **values})


def sample(
    of: Job, cluster_s: float, *, attainment: float | None = 1.1, **values: Any
) -> JobSample:
    """A report of a running job."""
    defaults = {"progress": 0.5, "performance": 540.0, "cpu_share": 0.8}
    return JobSample.objects.create(
        job=of, cluster_s=cluster_s, attainment=attainment, **{**defaults, **values}
    )


def demo_platforms() -> tuple[str, ...]:
    """The fourteen platforms of the demo cluster, without servers; their names."""
    for rank, facts in enumerate(PLATFORMS):
        platform(
            facts.name,
            cores=facts.cores,
            rank=rank,
            memory_bytes=facts.memory_bytes,
            network_bps=facts.network_bps,
            storage_bytes=facts.storage_bytes,
        )
    return tuple(facts.name for facts in PLATFORMS)


def platform_names() -> tuple[str, ...]:
    """Names of all platforms, highest-end first."""
    return tuple(Platform.objects.order_by("rank").values_list("name", flat=True))


def library(platforms: tuple[str, ...], *, seed: int = 2011, leave_out: str = "") -> int:
    """Store the library measured on these platforms; return its revision."""
    measured = _measured_rows(platforms, seed)
    rows = {name: cells for name, cells in measured.items() if name != leave_out}
    return store_library(rows, platforms=platforms)


@cache
def _measured_rows(platforms: tuple[str, ...], seed: int) -> Mapping[str, list[KnownCell]]:
    """Measured cells of each application of the library; each process measures them once."""
    return {
        entry.application: [
            KnownCell(
                MatrixName(cell.matrix),
                cell.column,
                cell.value,
                cell.standard_error,
                Source.MEASURED,
                cell.samples,
                0.0,
            )
            for cell in entry.cells
        ]
        for entry in measured_library(seed, catalogue(platforms, seed=seed))
    }


def profiling_run(about: Application, **values: Any) -> ProfilingRun:
    """A requested profiling run of an application."""
    defaults = {"plan": {"runs": []}, "seed": number(), "requested_s": 3000.0}
    return ProfilingRun.objects.create(application=about, **{**defaults, **values})


def measurement(about: Application, *, matrix: str, column: str, **values: Any) -> Measurement:
    """One measured cell of an application."""
    defaults = {"value": 0.5, "standard_error": 0.01, "cluster_s": 60.0}
    return Measurement.objects.create(
        application=about, matrix=matrix, column=column, **{**defaults, **values}
    )


def cells(about: Application, *, run: ProfilingRun, seed: int = 2011) -> list[MeasuredCell]:
    """Cells that the emulated servers measure of an application in the planned runs."""
    names = tuple(Platform.objects.order_by("rank").values_list("name", flat=True))
    truth = application_truth(seed, about.name, about.kind, catalogue(names, seed=seed))
    runs = [ProbeRun.of(planned) for planned in run.plan["runs"]]
    return list(probe(truth, runs, np.random.default_rng(run.seed)).cells)
