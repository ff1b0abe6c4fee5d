"""Reports of running jobs, from the readings of the engine."""

import math
from collections.abc import Sequence

from apps.emulation.core.draws import LATENCY_CRITICAL, SINGLE_NODE
from apps.emulation.core.engine import Engine
from apps.execution.backends.emulated.port import Counters, JobReport, LaunchOrder
from apps.workloads.core.attainment import Performance


def job_reports(engine: Engine, launches: Sequence[LaunchOrder]) -> list[JobReport]:
    """Read the performance and counters of jobs that run in the engine."""
    readings = engine.jobs([launch.launch for launch in launches])
    columns = (
        readings.progress, readings.progress_per_s, readings.metric, readings.latency_s,
        readings.offered_qps,
    )  # fmt: skip
    counted = (
        readings.memory_rate, readings.network_wait, readings.disk_wait,
        readings.traffic_bps,
    )  # fmt: skip
    rows = zip(launches, *(column.tolist() for column in columns), strict=True)
    counters = zip(*(column.tolist() for column in counted), strict=True)
    cpu_shares = readings.cpu_share.tolist()
    return [
        JobReport(launch.launch, _performance(launch, *numbers), cpu, Counters(*counts))
        for (launch, *numbers), cpu, counts in zip(rows, cpu_shares, counters, strict=True)
    ]


def _performance(
    launch: LaunchOrder,
    progress: float,
    per_s: float,
    metric: float,
    latency_s: float,
    offered_qps: float,
) -> Performance:
    return Performance(
        progress=0.0 if math.isnan(progress) else progress,
        progress_per_s=per_s,
        qps=metric if launch.kind == LATENCY_CRITICAL else math.nan,
        latency_s=latency_s,
        offered_qps=offered_qps,
        ips=metric if launch.kind == SINGLE_NODE else math.nan,
    )
