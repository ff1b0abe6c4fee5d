"""Recorded data of the cluster of `world`: frames, readings, events and checks."""

from datetime import datetime, timedelta

import numpy as np
from django.utils import timezone

from apps.inventory.core.demo import PLATFORMS
from apps.inventory.models import ClusterFrame, Server, ServerReading, ServerState
from apps.operations.models import Event
from apps.testbed.models import SamplingCheck
from apps.workloads.models import Job

NOW_S = 52_200.0  # 14:30 of the first day
FRAME_S = 300.0


def write_frames(machines: list[Server], rng: np.random.Generator) -> None:
    count = int(NOW_S // FRAME_S)
    base = {p.name: 0.35 + 0.3 * k / len(PLATFORMS) for k, p in enumerate(PLATFORMS)}
    level = np.array([base[s.platform.name] for s in machines])
    drift = np.zeros(len(machines))
    frames = []
    for i in range(count):
        at = (i + 1) * FRAME_S
        drift = 0.9 * drift + 0.05 * rng.normal(size=len(machines))
        day = 0.18 * np.sin((at / 3600 - 8.5) / 24 * 2 * np.pi)
        used = np.clip(level + day + drift, 0.02, 1)
        packed = np.round(200 * used).astype(np.uint8)
        if i > count - 40:
            packed[60:64] = 255
        frames.append(
            ClusterFrame(
                at=timezone.now() - timedelta(seconds=(NOW_S - at) / 60),
                cluster_s=at,
                server_cpu=packed.tobytes(),
                server_allocated=np.minimum(200, packed + 20).astype(np.uint8).tobytes(),
                servers=len(machines),
                units=sum(s.cores for s in machines),
                units_allocated=int(
                    sum(s.cores for s in machines) * min(0.95, used.mean() + 0.16)
                ),
                cpu_share=float(used.mean()),
                memory_share=0.4,
                watts=float(
                    sum(
                        s.idle_watts + (s.peak_watts - s.idle_watts) * u
                        for s, u in zip(machines, used, strict=True)
                    )
                ),
                servers_on=len(machines) - (4 if i > count - 40 else 0),
                facts={
                    "jobs": {
                        "running": 60 + int(10 * np.sin(i / 9)),
                        "queued": 12 + i % 7,
                        "submitted": 2,
                        "profiling": 1,
                    },
                    "targets": {"met": 55 + i % 4, "measured": 60},
                    "waiting": {
                        "CapacityShort": 8 + i % 6,
                        "LocalityShort": 3 + i % 3,
                        "WaitingForProfile": i % 4,
                        "WaitingForAgent": i % 2,
                    },
                },
            )
        )
    ClusterFrame.objects.bulk_create(frames)


def write_readings(machines: list[Server], now: datetime, rng: np.random.Generator) -> None:
    rows = []
    for i, server in enumerate(machines):
        if i == 75:
            continue
        fresh = -3600 + float(rng.uniform(0, 4))  # stays fresh however long the session lasts
        late = timedelta(seconds=190 if i == 30 else fresh)
        share = float(np.clip(server.used_cores / server.cores * 0.8 + 0.02, 0, 1))
        rows.append(
            ServerReading(
                server=server,
                at=now - late,
                cluster_s=NOW_S,
                cpu_share=share,
                watts=server.idle_watts + (server.peak_watts - server.idle_watts) * share,
                backend="emulated",
            )
        )
    ServerReading.objects.bulk_create(rows)
    Server.objects.filter(id__in=[s.id for s in machines[60:64]]).update(
        state=ServerState.DRAINING
    )
    Server.objects.filter(id=machines[40].id).update(state=ServerState.CORDONED)
    Server.objects.filter(id=machines[75].id).update(state=ServerState.DOWN)


def write_events(jobs: list[Job]) -> None:
    Event.objects.bulk_create(
        Event(
            at=timezone.now(),
            topic="jobs",
            kind=kind,
            subject=str(job.id),
            request_id=job.correlation_id,
            data={"state": str(job.state), "name": job.name},
        )
        for job in jobs
        for kind in ("job.submitted", "job.updated")
    )


def write_checks(rng: np.random.Generator) -> None:
    for size in (8, 16, 32):
        ranks = np.sort(rng.uniform(size=(2_400, size)).max(axis=1))
        xs = np.linspace(0, 1, 201)
        cdf = np.searchsorted(ranks, xs, side="right") / ranks.size
        SamplingCheck.objects.create(
            size=size,
            decisions=2_400,
            ks_distance=float(np.abs(cdf - xs**size).max()),
            ks_discrete=0.012,
            xs=xs.round(4).tolist(),
            cdf=cdf.round(5).tolist(),
            load=0.72,
        )
