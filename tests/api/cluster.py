"""A small cluster, a placed job and a refused one."""

from datetime import UTC, datetime
from typing import Any

from apps.inventory.core.cluster_file import parse_cluster
from apps.inventory.models import ResourceUnit, Server
from apps.inventory.services import ServerReport, import_cluster, record_readings
from apps.scheduling.models import Allocation, Decision
from apps.workloads.models import Job

AT = datetime(2026, 1, 1, tzinfo=UTC)


def build_cluster() -> None:
    """Two platforms, three servers, ten units; one server has reported."""
    sizes = {"memory_bytes": 1 << 36, "network_bps": 10**10, "storage_bytes": 10**12}
    watts = {"idle_watts": 50, "peak_watts": 200}
    import_cluster(
        parse_cluster(
            {
                "name": "test",
                "platforms": [
                    {"name": "A", "cores": 4, **sizes, **watts},
                    {"name": "B", "cores": 2, **sizes, **watts},
                ],
                "servers": [
                    {"name": "srv-1", "platform": "A", "rack": "r1", "labels": {"zone": "1"}},
                    {"name": "srv-2", "platform": "A", "rack": "r2"},
                    {"name": "srv-3", "platform": "B", "rack": "r2"},
                ],
                "racks": [{"name": "r1", "switch": "agg-1"}],
            }
        )
    )
    server = Server.objects.get(name="srv-1")
    reading = ServerReport(
        server_id=server.pk, cpu_share=0.5, memory_share=0.25, network_share=0.0,
        storage_share=0.0, watts=125.0,
    )  # fmt: skip
    record_readings([reading], backend="emulated", at=AT, cluster_s=10.0)


def decide(job_id: str, **facts: Any) -> Decision:
    """Store a decision about a job."""
    server = Server.objects.get(name="srv-1")
    known: dict[str, Any] = {
        "at": AT, "cluster_s": 1.0, "agent": "a1", "policy": "tarcil", "policy_version": "1",
        "code_version": "1.0", "seed": 7, "snapshot": 3, "outcome": "placed",
        "reason_code": "PlacedBestOfSample", "units": 2, "units_won": 2, "sample_size": 8,
        "examined": 8, "eligible": 10, "servers_total": 3, "dropped": {"capacity": 2},
        "candidates": [
            {"server_id": server.pk, "quality": 0.9, "verdict": "chosen"},
            {"server_id": server.pk + 1, "verdict": "outranked", "key": [1]},
        ],
        "probability": 0.1678, "elapsed_s": 0.001, "waited_s": 0.2,
    }  # fmt: skip
    return Decision.objects.create(job_id=job_id, **{**known, **facts})


def place(job_id: str) -> Decision:
    """Store the rows of a placement on srv-1."""
    decision = decide(job_id)
    server = Server.objects.get(name="srv-1")
    units = list(ResourceUnit.objects.filter(server=server).values_list("id", flat=True)[:2])
    Allocation.objects.create(
        id=decision.seed, job_id=job_id, decision=decision, server_id=server.pk, unit_ids=units,
        cores=2, caused=[0.0] * 10, acquired_seq=1, acquired_at=AT, acquired_s=1.0,
    )  # fmt: skip
    ResourceUnit.objects.filter(pk__in=units).update(allocation_id=decision.seed)
    Server.objects.filter(pk=server.pk).update(used_cores=2)
    Job.objects.filter(pk=job_id).update(
        state="starting", units=2, queued_s=0.5, placed_s=1.0, reason_code="PlacedBestOfSample"
    )
    return decision
