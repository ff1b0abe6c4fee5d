"""Rows of the control plane's tables in the port's terms, and its reports in theirs."""

import json
from dataclasses import asdict, dataclass
from typing import Any, Final
from uuid import UUID

from apps.emulation.core.probe import ProbeRun
from apps.execution.backends.emulated.port import JobReport, LaunchOrder, ProfilingOrder
from apps.workloads import services as workloads
from apps.workloads.core.attainment import attainment, measured
from apps.workloads.core.lifecycle import JobState
from apps.workloads.core.reasons import Reason

SAMPLE_COLUMNS: Final = (
    *("job_id", "cluster_s", "progress", "performance", "attainment", "cpu_share"),
    *("memory_rate", "network_wait", "disk_wait", "traffic_bps"),
)
_STATE_OF: Final = {
    "finished": (JobState.SUCCEEDED, Reason.SUCCEEDED),
    "cancelled": (JobState.CANCELLED, Reason.CANCELLED),
    "failed": (JobState.FAILED, Reason.JOB_FAILED),
}


def launch_order(row: tuple[Any, ...]) -> LaunchOrder:
    """Read a launch."""
    launch, application, kind, text, target, input_bytes, tasks, duration_s, progress = row
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
    )


def profiling_order(row: tuple[Any, ...]) -> ProfilingOrder:
    """Read a profiling run."""
    run, application, kind, plan_json, seed, attempt = row
    plan = json.loads(plan_json)
    return ProfilingOrder(
        run=run,
        application=application,
        kind=kind,
        runs=tuple(ProbeRun.of(asked) for asked in plan["runs"]),
        seed=seed,
        budget_s=plan.get("budget_s"),
        attempt=attempt,
    )


def ended_job(row: tuple[Any, ...]) -> workloads.Ended:
    """Read how the job of a launch ended."""
    job, at_s, outcome, message, target, submitted_s = row
    state, reason = _STATE_OF[outcome]
    target = json.loads(target)
    in_time = None
    if state is JobState.SUCCEEDED and target["kind"] == "completion_time":
        in_time = float(target["seconds"]) / max(1e-9, at_s - submitted_s)
    return workloads.Ended(job, state, at_s, reason, message, in_time)


@dataclass(frozen=True, slots=True)
class Reported:
    """A report as the job keeps it, and as a row of `SAMPLE_COLUMNS`."""

    report: workloads.Report
    sample: tuple[Any, ...]


def reported_job(
    seen: JobReport, at_s: float, job: UUID, target_json: str, submitted_s: float
) -> Reported:
    """Hold a report against the job's target."""
    target = json.loads(target_json)
    elapsed_s = at_s - submitted_s
    performance = measured(target, seen.performance, elapsed_s=elapsed_s)
    ratio = attainment(target, seen.performance, elapsed_s=elapsed_s)
    progress = seen.performance.progress
    told = asdict(seen.counters) if seen.counters else {}
    counters = (told.get(name) for name in SAMPLE_COLUMNS[6:])
    return Reported(
        workloads.Report(job, progress, performance, ratio),
        (job, at_s, progress, performance, ratio, seen.cpu_share, *counters),
    )
