"""A populated cluster in the middle of a day, for browser tests and screenshots.

It has a fixed seed and a few hundred rows, so it is reproducible and built in seconds.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
from django.utils import timezone

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership, Project, User
from apps.common.core.ids import uuid7
from apps.common.core.interference import N_SOURCES
from apps.execution.models import JobSample, Launch
from apps.inventory.core.demo import PLATFORMS, platform_counts
from apps.inventory.models import (
    Cluster,
    Platform,
    Rack,
    ResourceUnit,
    Server,
)
from apps.scheduling.models import Allocation, Decision
from apps.workloads.models import Application, Job
from tests import factories
from tests.browser.classified import write_classification
from tests.browser.recordings import (
    NOW_S,
    write_checks,
    write_events,
    write_frames,
    write_readings,
)
from tests.dashboard import fronts

SERVERS = 120
APPLICATIONS = (
    ("wordcount", "analytics"),
    ("terasort", "analytics"),
    ("recommend-als", "analytics"),
    ("memcached-carts", "latency_critical"),
    ("web-leaf", "latency_critical"),
    ("spec-mcf", "single_node"),
    ("parsec-ferret", "single_node"),
    ("nightly-index", "batch"),
)
TARGETS: dict[str, dict[str, Any]] = {
    "analytics": {"kind": "completion_time", "seconds": 1800.0},
    "latency_critical": {
        "kind": "throughput_latency",
        "qps": 20_000.0,
        "latency_seconds": 0.01,
        "percentile": 99.0,
    },
    "single_node": {"kind": "ips", "ips": 1.2e9},
    "batch": {"kind": "best_effort"},
}
PASSWORD = "north-quay-11"  # noqa: S105 - test users only


@dataclass(frozen=True, slots=True)
class World:
    """Objects that tests open."""

    operator: User
    viewer: User
    running: Job
    waiting: Job
    server: Server


def build(*, servers: int = SERVERS, running: int = 70, seed: int = 11) -> World:
    """Fill an empty database."""
    rng = np.random.default_rng(seed)
    now = timezone.now()
    Cluster.objects.update_or_create(
        id=1,
        defaults={
            "name": "north-quay",
            "cluster_anchor_s": NOW_S,
            "seen_cluster_s": NOW_S,
            "wall_anchor_s": now.timestamp(),
            "speed": 0.0,
        },
    )
    operator = factories.user("ops-admin", role=Role.OPERATOR, password=PASSWORD)
    viewer = factories.user("looker", role=Role.VIEWER, password=PASSWORD)
    project = factories.project("web-store")
    Membership.objects.create(user=operator, project=project, role=Role.SUBMITTER.value)
    machines = _servers(servers)
    apps = [Application.objects.create(name=name, kind=kind) for name, kind in APPLICATIONS]
    jobs = _jobs(apps, project, operator, running, rng)
    decisions = _place(jobs, machines, rng)
    _measure(jobs, rng)
    write_frames(machines, rng)
    write_readings(machines, now, rng)
    write_events(jobs)
    write_checks(rng)
    write_classification(apps, jobs, operator)
    fronts.version(fronts.front(by=operator), fronts.surface(300))
    shown = next(job for job in jobs if job.state == "running" and job.id in decisions)
    waiting = next(job for job in jobs if job.state == "queued")
    first = Allocation.objects.filter(job=shown).first()
    assert first is not None
    return World(operator, viewer, shown, waiting, Server.objects.get(id=first.server_id))


def _servers(count: int) -> list[Server]:
    servers: list[Server] = []
    for rank, (facts, many) in enumerate(zip(PLATFORMS, platform_counts(count), strict=True)):
        platform = Platform.objects.create(
            name=facts.name,
            cores=facts.cores,
            memory_bytes=facts.memory_bytes,
            network_bps=facts.network_bps,
            storage_bytes=facts.storage_bytes,
            idle_watts=facts.idle_watts,
            peak_watts=facts.peak_watts,
            rank=rank,
        )
        for _ in range(many):
            at = len(servers)
            servers.append(
                Server(
                    name=f"srv-{at + 1:04d}",
                    platform=platform,
                    cores=facts.cores,
                    rack=Rack.objects.get_or_create(name=f"rack-{at // 40 + 1}")[0],
                    memory_bytes=facts.memory_bytes,
                    network_bps=facts.network_bps,
                    storage_bytes=facts.storage_bytes,
                    idle_watts=facts.idle_watts,
                    peak_watts=facts.peak_watts,
                )
            )
    Server.objects.bulk_create(servers)
    ResourceUnit.objects.bulk_create(
        ResourceUnit(server=server, core=core)
        for server in servers
        for core in range(server.cores)
    )
    return servers


def _jobs(
    apps: list[Application], project: Project, by: User, running: int, rng: np.random.Generator
) -> list[Job]:
    counts = {
        "succeeded": 60, "failed": 2, "cancelled": 3, "running": running, "starting": 3,
        "queued": 14, "profiling": 3, "submitted": 4,
    }  # fmt: skip
    states = [state for state, count in counts.items() for _ in range(count)]
    jobs: list[Job] = []
    for i, state in enumerate(states):
        app = apps[i % len(apps)]
        submitted = (
            float(rng.uniform(NOW_S - 20_000, NOW_S - 60)) if state != "submitted" else NOW_S - 2
        )
        job = Job(
            name=f"{app.name}-{i + 1:03d}",
            project=project,
            application=app,
            created_by=by,
            correlation_id=str(uuid7()),
            target=TARGETS[app.kind],
            target_kind=TARGETS[app.kind]["kind"],
            input_bytes=int(rng.lognormal(23, 1)),
            tasks_total=int(rng.integers(1, 64)),
            state=state,
            submitted_s=submitted,
            units=int(rng.choice([1, 1, 2, 4])),
            labels={"team": "web" if i % 3 else "ml"},
        )
        _age(job, state, rng)
        jobs.append(job)
    Job.objects.bulk_create(jobs)
    return jobs


def _age(job: Job, state: str, rng: np.random.Generator) -> None:
    at = job.submitted_s
    if state in {"profiling", "submitted"}:
        job.reason_code = "WaitingForProfile" if state == "profiling" else "WaitingForAgent"
        return
    job.profiled_s = at + float(rng.uniform(8, 16))
    job.queued_s = job.profiled_s
    if state == "queued":
        job.reason_code = str(rng.choice(["LocalityShort", "CapacityShort", "CapacityShort"]))
        job.held = job.name.endswith("7")
        return
    if state == "cancelled":
        job.finished_s, job.finished_at, job.reason_code = at + 30, timezone.now(), "Cancelled"
        return
    job.placed_s = job.queued_s + float(rng.exponential(20))
    job.placed_at = timezone.now()
    job.attempts = 1
    if state == "starting":
        job.reason_code = "Starting"
        return
    job.started_s = job.placed_s + 0.8
    if state in {"succeeded", "failed"}:
        job.finished_s = min(NOW_S - 1, job.started_s + float(rng.uniform(200, 1500)))
        job.finished_at = timezone.now() - timedelta(minutes=5)
        job.progress = 1.0 if state == "succeeded" else 0.4
        job.reason_code = "Succeeded" if state == "succeeded" else "JobFailed"
    else:
        job.progress = float(rng.uniform(0.05, 0.95))


def _performance(job: Job, ratio: float) -> float:
    target = job.target
    return {
        "completion_time": target.get("seconds", 1.0) / ratio,
        "throughput_latency": target.get("latency_seconds", 1.0) / ratio,
        "ips": target.get("ips", 1.0) * ratio,
        "best_effort": 0.0002,
    }[job.target_kind]


def _measure(jobs: list[Job], rng: np.random.Generator) -> None:
    samples: list[JobSample] = []
    for i, job in enumerate(jobs):
        if job.state not in {"running", "succeeded"}:
            continue
        ratio = float(rng.lognormal(0.12, 0.07)) if i % 17 else float(rng.uniform(0.75, 0.97))
        job.predicted = {
            "value": _performance(job, ratio * 1.02),
            "low": _performance(job, ratio * 0.9),
            "high": _performance(job, ratio * 1.1),
        }
        job.performance = _performance(job, ratio)
        if job.target_kind != "best_effort":
            job.attainment = ratio
            if job.state == "running":
                job.reason_code = "MeetsTarget" if ratio >= 1 else "BelowTarget"
        if job.state == "running":
            start = job.started_s or NOW_S
            for at in np.linspace(start + 5, NOW_S, 40):
                wave = ratio * (1 + 0.04 * float(rng.normal()))
                samples.append(
                    JobSample(
                        job=job,
                        cluster_s=float(at),
                        performance=_performance(job, wave),
                        progress=job.progress * (at - start) / max(1.0, NOW_S - start),
                        attainment=None if job.attainment is None else wave,
                        cpu_share=float(np.clip(0.8 + 0.08 * rng.normal(), 0, 1)),
                    )
                )
    Job.objects.bulk_update(
        jobs, ["predicted", "performance", "attainment", "reason_code"], batch_size=500
    )
    JobSample.objects.bulk_create(samples)


def _place(jobs: list[Job], machines: list[Server], rng: np.random.Generator) -> set[object]:
    units = {s.id: list(ResourceUnit.objects.filter(server=s).order_by("core")) for s in machines}
    free = {s.id: list(units[s.id]) for s in machines}
    decisions: list[Decision] = []
    allocations: list[Allocation] = []
    launches: list[Launch] = []
    for i, job in enumerate(jobs):
        if job.placed_s is None and job.state != "queued":
            continue
        decision = _decision(job, machines, i, rng)
        decisions.append(decision)
        if decision.outcome != "placed":
            continue
        live = job.state in {"running", "starting"}
        on = next(s for s in machines if s.id == decision.candidates[0]["server_id"])
        cores = min(job.units or 1, on.cores)
        if live and len(free[on.id]) < cores:
            on = next(
                machines[k]
                for k in rng.permutation(len(machines))
                if len(free[machines[k].id]) >= cores
            )
            decision.candidates[0]["server_id"] = on.id
        held = [free[on.id].pop(0) for _ in range(cores)] if live else units[on.id][:cores]
        caused = [float(v) for v in rng.uniform(2, 40, N_SOURCES)]
        allocations.append(
            Allocation(
                id=len(allocations) + 1,
                job=job,
                decision=decision,
                server_id=on.id,
                unit_ids=[u.id for u in held],
                cores=cores,
                memory_bytes=cores * on.memory_bytes // on.cores,
                caused=caused,
                acquired_seq=2 * i + 1,
                released_seq=None if live else 2 * i + 2,
                acquired_at=decision.at,
                acquired_s=job.placed_s or 0.0,
                released_s=job.finished_s,
                released_at=None if live else decision.at,
            )
        )
        if live:
            for unit in held:
                unit.allocation_id = len(allocations)
            on.used_cores += cores
            on.used_memory_bytes += allocations[-1].memory_bytes
        launches.append(
            Launch(
                job=job,
                attempt=1,
                backend="emulated",
                order={},
                started_s=job.started_s,
                state="running" if live else "ended",
                ended_s=job.finished_s,
                outcome="" if live else str(job.state),
            )
        )
    Decision.objects.bulk_create(decisions)
    Allocation.objects.bulk_create(allocations)
    Launch.objects.bulk_create(launches)
    Server.objects.bulk_update(machines, ["used_cores", "used_memory_bytes"])
    ResourceUnit.objects.bulk_update(
        [u for rows in units.values() for u in rows if u.allocation_id], ["allocation_id"]
    )
    return {d.job_id for d in decisions if d.outcome == "placed"}


def _decision(job: Job, machines: list[Server], i: int, rng: np.random.Generator) -> Decision:
    placed = job.state != "queued"
    at = timezone.now() - timedelta(seconds=(NOW_S - (job.placed_s or NOW_S)) / 60)
    rank = float(rng.uniform() ** (1 / 8))
    rows = []
    target = float(rng.uniform(0.55, 0.75))
    if placed:
        picked = rng.choice(len(machines), 8, replace=False)
        qualities = np.sort(rng.uniform(target - 0.12, 0.99, 8))
        order = [q for q in qualities if q >= target] + [q for q in qualities[::-1] if q < target]
        for k, (server, quality) in enumerate(zip(picked, order, strict=True)):
            noisy = quality < target
            room = rng.uniform(8, 45, N_SOURCES) + 10 * k * (not noisy)
            if noisy:
                room[int(rng.integers(N_SOURCES))] = -float(rng.uniform(3, 22))
            rows.append(
                {
                    "server_id": machines[int(server)].id,
                    "core": int(rng.integers(machines[int(server)].cores)),
                    "quality": float(quality),
                    "target": target,
                    "closeness": float(quality if noisy else 1 - (quality - target)),
                    "verdict": "chosen" if k == 0 else "too_noisy" if noisy else "outranked",
                    "headroom": [round(float(v), 1) for v in room],
                }
            )
    return Decision(
        job=job,
        at=at,
        cluster_s=job.placed_s or NOW_S - 5,
        agent=f"agent-{i % 2 + 1}",
        policy="tarcil",
        policy_version="1",
        code_version="0.1.0",
        seed=8_812_734 + i,
        snapshot=88_412 + i,
        outcome="placed" if placed else "refused",
        reason_code="PlacedBestOfSample" if placed else job.reason_code,
        units=job.units or 1,
        units_won=(job.units or 1) if placed else 0,
        sample_size=8,
        examined=8 if placed else 0,
        eligible=612 - 3 * i % 190 if placed else 0,
        servers_total=len(machines),
        dropped={"busy": 291 + i % 190, "capacity": 14, "closed": 8},
        candidates=rows,
        probability=0.8**8,
        rank=rank if placed else None,
        commit_retries=int(i % 19 == 0),
        elapsed_s=float(rng.lognormal(-9.5, 0.35)),
        waited_s=float(rng.lognormal(-2.6, 0.4)) if placed else None,
    )
