"""Result of a run, computed at its end from the records of its jobs."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from apps.emulation.core.events import Machines
from apps.inventory.core.snapshot import Floats
from apps.testbed.core.replay.demand import Demand
from apps.testbed.core.replay.loop import JobRecord, ReplayLoop
from apps.testbed.core.replay.model import ReplayResult, RunRow
from apps.testbed.core.replay.performance import Runs, later_runs, performance
from apps.testbed.core.replay.summary import KWH, Holds, hold_energy_j, series, utilisation

RUNNING: Final = "Running: the replay ended before the job"
BEHIND: Final = "BehindFirst: the first job of the queue could not start"
NOT_SUBMITTED: Final = "NotSubmitted: the replay ended before its arrival"


def result_of(
    loop: ReplayLoop, demand: Demand, machines: Machines, wall_seconds: float
) -> ReplayResult:
    """Summarise a run."""
    load, options, now = demand.load, loop.options, loop.engine.now
    late = [JobRecord("", np.nan)] * (len(load) - len(loop.records))
    columns = np.array(
        [
            (r.arrived_s, r.started_s, r.whole_s, r.ended_s, r.units, r.refusals, r.conflicts,
             r.restarts)
            for r in [*loop.records, *late]
        ]
    ).reshape(-1, 8)  # fmt: skip
    arrived_s, started_s, whole_s, ended_s = columns[:, :4].T
    units, refusals, conflicts, restarts = columns[:, 4:].astype(np.int64).T
    holds = Holds.of(loop.holds, now)
    runs = _runs([*loop.records, *late], holds)
    layouts = [runs, *later_runs(runs, loop.migrating.layouts)]
    taken_s = ended_s - arrived_s
    speeds = performance(load, demand.truths, machines, layouts, taken_s, demand.seed)
    migrations = np.zeros(len(load), dtype=np.int64)
    for job, moved in loop.migrating.moved.items():
        migrations[job] = moved
    failed = np.array([r.failure is not None for r in [*loop.records, *late]], dtype=np.bool_)
    finished, waits = np.isfinite(ended_s), (started_s - arrived_s)[np.isfinite(started_s)]
    at_s, used_share = series(holds, loop.units, now)
    submitted = len(loop.records)
    span = (load.arrival_s[0], load.arrival_s[submitted - 1]) if submitted else (0.0, 0.0)
    row = RunRow(
        policy=options.policy,
        seed=options.seed,
        jobs_submitted=submitted,
        jobs_finished=int(finished.sum()),
        jobs_failed=int(failed.sum()),
        jobs_unfinished=submitted - int(finished.sum()) - int(failed.sum()),
        performance_mean=_mean(speeds[finished]),
        performance_p5=_quantile(speeds[finished], 0.05),
        utilisation_mean=utilisation(
            holds, loop.units, *(span if span[1] > span[0] else (0.0, now))
        ),
        wait_p50_s=_quantile(waits, 0.5),
        wait_p99_s=_quantile(waits, 0.99),
        energy_kwh=float(hold_energy_j(holds, machines).joules.sum()) / KWH,
        events=loop.events,
        wall_seconds=wall_seconds,
        migrations=int(migrations.sum()),
    )
    return ReplayResult(
        run=row,
        arrived_s=arrived_s,
        started_s=started_s,
        whole_s=whole_s,
        ended_s=ended_s,
        performance=speeds,
        units=units,
        reason=_reasons(loop, len(load)),
        failed=failed,
        refusals=refusals,
        conflicts=conflicts,
        restarts=restarts,
        migrations=migrations,
        servers_failed=loop.failures.count,
        series_s=at_s,
        used_share=used_share,
    )


def _runs(records: Sequence[JobRecord], holds: Holds) -> Runs:
    rows = np.array([(each.asked, *each.holds) for each in records], dtype=np.int64)
    asked, first, parts = rows.reshape(-1, 3).T
    setting = np.array([each.setting for each in records], dtype=np.float64)
    return Runs(asked, setting, first, parts, holds.server, holds.units)


def _reasons(loop: ReplayLoop, jobs: int) -> tuple[str, ...]:
    """Why each job did not finish; empty = it finished."""
    waiting = loop.refusals()
    reasons: list[str] = []
    for job, record in enumerate(loop.records):
        if record.failure is not None:
            reasons.append(record.failure)
        elif np.isfinite(record.ended_s):
            reasons.append("")
        elif loop.is_running(job):
            reasons.append(RUNNING)
        elif job in waiting:
            reasons.append(f"{waiting[job].reason}: {waiting[job].text}")
        else:
            reasons.append(BEHIND)
    return (*reasons, *[NOT_SUBMITTED] * (jobs - len(reasons)))


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else float("nan")


def _quantile(values: Floats, share: float) -> float:
    return float(np.quantile(values, share)) if values.size else float("nan")
