"""Conversion between rows of the tables and values of the port."""

import json
import math
from dataclasses import asdict, dataclass
from typing import Any, Final
from uuid import UUID

from apps.emulation.core.probe_runs import ProbeRun
from apps.execution.backends.emulated.port import JobReport, LaunchOrder, ProfilingOrder
from apps.profiling.services.claims import ClaimedRun
from apps.workloads import services as workloads
from apps.workloads.core.attainment import attainment, performance_in_unit

SAMPLE_COLUMNS: Final = (
    *("job_id", "cluster_s", "progress", "performance", "attainment", "cpu_share"),
    *("offered_qps", "served_qps"),
    *("memory_rate", "network_wait", "disk_wait", "traffic_bps"),
)


def launch_order(row: tuple[Any, ...]) -> LaunchOrder:
    """Order of a row of a launch."""
    launch, application, kind, text, target, input_bytes, tasks, duration_s, *rest = row
    progress, placed_s, started_s = rest
    order = json.loads(text)
    return LaunchOrder(
        launch=launch,
        application=application,
        kind=kind,
        parts=tuple((int(server), int(units)) for server, units in order.get("parts", ())),
        target=json.loads(target),
        input_bytes=input_bytes,
        tasks=tasks if tasks > 1 else None,
        duration_s=duration_s,
        done_share=progress,
        setting=order.get("setting", ""),
        placed_s=placed_s,
        started_s=started_s,
    )


def profiling_order(run: ClaimedRun) -> ProfilingOrder:
    """Order of a claimed profiling run."""
    return ProfilingOrder(
        run=run.id,
        application=run.application,
        kind=run.kind,
        runs=tuple(ProbeRun.of(planned) for planned in run.plan["runs"]),
        seed=run.seed,
        budget_s=run.plan.get("budget_s"),
        attempt=run.attempt,
    )


@dataclass(frozen=True, slots=True)
class Reported:
    """A report as stored with the job, and as a row of `SAMPLE_COLUMNS`."""

    report: workloads.ProgressReport
    sample: tuple[Any, ...]


def reported_job(
    reading: JobReport, at_s: float, job: UUID, target_json: str, submitted_s: float
) -> Reported:
    """Compare a report with the job's target."""
    target = json.loads(target_json)
    elapsed_s = at_s - submitted_s
    performance = performance_in_unit(target, reading.performance, elapsed_s=elapsed_s)
    ratio = attainment(target, reading.performance, elapsed_s=elapsed_s)
    progress = reading.performance.progress
    values = asdict(reading.counters) if reading.counters else {}
    counters = (values.get(name) for name in SAMPLE_COLUMNS[8:])
    rates = (reading.performance.offered_qps, reading.performance.qps)
    queries = (None if math.isnan(rate) else rate for rate in rates)
    return Reported(
        workloads.ProgressReport(job, at_s, progress, performance, ratio),
        (job, at_s, progress, performance, ratio, reading.cpu_share, *queries, *counters),
    )
