"""Reads of the Lab: scenarios, comparisons, runs, and the cluster and jobs that they copy."""

import gzip
import io
from collections.abc import Sequence
from statistics import median
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db.models import Count, QuerySet

from apps.common.core.errors import NotFoundError
from apps.inventory.models import Server
from apps.inventory.selectors import cluster_now
from apps.operations.core.states import TERMINAL, OperationStatus
from apps.operations.models import Operation
from apps.testbed.core.history import History, PastJob, trace_of_history
from apps.testbed.core.lab_estimates import run_seconds
from apps.testbed.models import LabComparison, LabRun, LabScenario
from apps.workloads.models import Job

KIND: Final = "lab.comparison"
MAX_HISTORY_JOBS: Final = 50_000
RECENT_RUNS: Final = 50


def scenarios() -> QuerySet[LabScenario]:
    """Return all scenarios, without their jobs."""
    return LabScenario.objects.defer("jobs", "job_ids", "cluster").select_related("created_by")


def scenario_by_id(key: UUID) -> LabScenario:
    """Return a scenario.

    Raises
    ------
    NotFoundError : there is none with this id.
    """
    found = LabScenario.objects.filter(pk=key).first()
    if found is None:
        raise NotFoundError(f"There is no scenario {key}.")
    return found


def comparisons() -> QuerySet[LabComparison]:
    """Return all comparisons, with scenario, operation and the number of completed runs."""
    return (
        LabComparison.objects.select_related(
            "scenario", "scenario__created_by", "operation", "created_by"
        )
        .defer("scenario__jobs", "scenario__job_ids", "scenario__cluster")
        .annotate(runs_done=Count("runs"))
    )


def comparison_by_id(key: UUID) -> LabComparison:
    """Return a comparison.

    Raises
    ------
    NotFoundError : there is none with this id.
    """
    found = comparisons().filter(pk=key).first()
    if found is None:
        raise NotFoundError(f"There is no comparison {key}.")
    return found


def runs_of(comparison_id: UUID) -> QuerySet[LabRun]:
    """Return the completed runs of a comparison, without the performance of each job."""
    return LabRun.objects.filter(comparison_id=comparison_id).defer("performance")


def runs_of_other_versions(comparison: LabComparison) -> QuerySet[LabRun]:
    """Return the completed runs that this version of Berth might not repeat."""
    return LabRun.objects.filter(comparison=comparison).exclude(version=settings.BERTH_VERSION)


def rows_of(comparison: LabComparison) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the measures of the completed runs by setting and seed."""
    runs = LabRun.objects.filter(comparison=comparison)
    return {
        (setting, seed): row
        for setting, seed, row in runs.values_list("setting", "seed", "record__row")
    }


def waiting_comparison() -> LabComparison | None:
    """Return the oldest comparison that waits for a worker, if any."""
    waiting = LabComparison.objects.filter(operation__status=OperationStatus.PENDING)
    return waiting.select_related("operation", "scenario").order_by("created_at", "id").first()


def is_comparison_running() -> bool:
    """Whether a worker runs a comparison."""
    running = Operation.objects.filter(kind=KIND, status=OperationStatus.RUNNING)
    return running.exists()


def open_comparisons() -> int:
    """Return the number of comparisons that have not ended."""
    return Operation.objects.filter(kind=KIND).exclude(status__in=TERMINAL).count()


def slowness() -> float:
    """Median over recent runs of their wall time over `run_seconds`; 1 before any."""
    recent = LabRun.objects.order_by("-id").values_list(
        "wall_seconds", "comparison__scenario__jobs_total", "comparison__scenario__servers"
    )[:RECENT_RUNS]
    ratios = [seconds / run_seconds(jobs, servers) for seconds, jobs, servers in recent]
    return median(ratios) if ratios else 1.0


def servers_to_copy() -> QuerySet[Server]:
    """Return the servers that a scenario copies: all that are not down."""
    return Server.objects.exclude(state="down")


def cluster_document() -> dict[str, Any]:
    """Return the servers that take or run jobs now, as a document of `replay.clusters`.

    Raises
    ------
    NotFoundError : no server is up.
    """
    servers = list(
        servers_to_copy().order_by("platform__rank", "id").select_related("platform", "rack")
    )
    if not servers:
        raise NotFoundError("No server is up, so there is no cluster to copy.")
    platforms = {server.platform.name: server.platform for server in servers}
    columns = ("name", "cores", "memory_bytes", "network_bps", "storage_bytes", "idle_watts",
               "peak_watts")  # fmt: skip
    return {
        "platforms": [
            {column: getattr(platform, column) for column in columns}
            for platform in platforms.values()
        ],
        "servers": [
            {"platform": server.platform.name, "rack": server.rack.name} for server in servers
        ],
    }


def recorded_jobs(hours: float) -> History:
    """Return the jobs submitted in the last hours of cluster time, at most the latest ones.

    Raises
    ------
    TraceError : no job was submitted then.
    """
    now_s = cluster_now()
    found = Job.objects.filter(submitted_s__gte=now_s - 3600.0 * hours, submitted_s__lte=now_s)
    latest = found.order_by("-submitted_s", "-id").values_list(
        "id", "application__name", "application__kind", "submitted_s", "started_s", "finished_s",
        "target", "input_bytes", "tasks_total", "duration_s", "units_requested", "units",
        "unit_memory_bytes", "unit_network_bps", "unit_storage_bytes", "priority", "gang",
        "constraints",
    )[:MAX_HISTORY_JOBS]  # fmt: skip
    jobs = [PastJob(*row) for row in latest.iterator(2_000)][::-1]
    earlier = found.count() - len(jobs) if len(jobs) == MAX_HISTORY_JOBS else 0
    return trace_of_history(jobs, now_s=now_s, earlier=earlier)


def compressed(lines: Sequence[str]) -> bytes:
    """Gzip of lines; the same lines are the same bytes."""
    return gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)


def decompressed(content: bytes) -> list[str]:
    """Lines of a gzip stream."""
    with gzip.open(io.BytesIO(content), "rt") as file:
        return file.read().splitlines()
