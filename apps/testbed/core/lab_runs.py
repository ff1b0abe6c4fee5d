"""Runs of a plan; imports the replay, which only workers need."""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from apps.testbed.core.lab import LabPlan, LabSetting
from apps.testbed.core.lab_grids import NEAR, PERFORMANCE_GRID, SERIES_POINTS, WAIT_GRID
from apps.testbed.core.lab_results import NEAR_FULL_SPEED, RunRecord, most_frequent
from apps.testbed.core.replay import grid
from apps.testbed.core.replay.clusters import cluster_from_document
from apps.testbed.core.replay.model import ReplayCluster, ReplayProgress, ReplayResult
from apps.testbed.core.replay.run import run
from apps.testbed.core.replay.workloads import Workload
from apps.testbed.core.trace_workload import TraceWorkload
from apps.testbed.core.traces import Floats


class LabOutcome(NamedTuple):
    """A run: its record, which is JSON, and (n,) float32 performance, 0 = not finished."""

    record: RunRecord
    performance: "np.ndarray[tuple[int], np.dtype[np.float32]]"


def run_setting(
    plan: LabPlan,
    setting: LabSetting,
    seed: int,
    progress: Callable[[ReplayProgress], None] | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> LabOutcome:
    """Run a setting with a seed; the outcome depends on the plan only.

    Raises
    ------
    ReplayError, ReplayCancelledError : see `replay.run.run`.
    """
    cluster = fewer_servers(
        cluster_from_document(plan.cluster, name="cluster"), setting.servers_share
    )
    options = setting.replay_options(plan.world, seed, plan.failures)
    load = arriving_faster(grid.workload_of(plan.trace), setting.arrival_scale)
    result = run(cluster, load, options, progress, is_cancelled)
    performance = np.nan_to_num(result.performance, nan=0.0)
    row = result.run.as_json()
    del row["wall_seconds"], row["migrations"]
    row[NEAR_FULL_SPEED.key] = round(float((performance >= NEAR).mean()), 6)
    exact = performance.astype(np.float32)
    record = {
        "setting": setting.name,
        "seed": seed,
        "row": row,
        "performance": _shares(performance, PERFORMANCE_GRID),
        "wait": _shares(result.started_s - result.arrived_s, WAIT_GRID),
        "used": _series(result),
        "applications": _by_application(plan.trace, performance),
        "reasons": _reasons(result),
        "jobs_sha256": hashlib.sha256(exact.tobytes()).hexdigest(),
    }
    if "weights" in setting.options:
        record["migrations"] = {
            "containers": result.run.migrations,
            "jobs": int((result.migrations > 0).sum()),
        }
    if plan.failures is not None:
        record["failures"] = {
            "servers": result.servers_failed,
            "restarts": int(result.restarts.sum()),
        }
    return LabOutcome(record, exact)


def fewer_servers(cluster: ReplayCluster, share: float) -> ReplayCluster:
    """Return a cluster without the last servers of each platform; each keeps at least one."""
    if share == 1.0:
        return cluster
    kept = np.zeros(len(cluster), dtype=np.bool_)
    for platform in range(len(cluster.platforms)):
        servers = np.flatnonzero(cluster.platform == platform)
        kept[servers[: math.ceil(share * servers.size - 1e-9)]] = True
    return ReplayCluster(
        cluster.name, cluster.platforms, cluster.platform[kept], cluster.rack[kept]
    )


def arriving_faster(load: Workload, scale: float) -> Workload:
    """Return the same jobs, which arrive that many times as fast."""
    return load if scale == 1.0 else replace(load, arrival_s=load.arrival_s / scale)


def _shares(values: Floats, points: Sequence[float]) -> list[float]:
    """Share of the values at or below each point; unknown ones are above all."""
    known = np.sort(values[~np.isnan(values)])
    counts = np.searchsorted(known, np.array(points), side="right")
    return (counts / max(values.size, 1)).round(6).tolist()


def _series(result: ReplayResult) -> dict[str, Any]:
    """Mean share of the units held in equal intervals from 0 to ``end_s``."""
    shares = result.used_share.reshape(SERIES_POINTS, -1).mean(axis=1)
    return {"end_s": float(result.series_s[-1]), "shares": shares.round(4).tolist()}


def _by_application(trace: TraceWorkload, performance: Floats) -> dict[str, float]:
    """Mean performance of the jobs of each of the most frequent applications."""
    index = trace.jobs.application
    counts = np.bincount(index, minlength=len(trace.applications))
    sums = np.bincount(index, weights=performance, minlength=counts.size)
    return {
        trace.applications[i]: round(float(sums[i] / counts[i]), 6) for i in most_frequent(trace)
    }


def _reasons(result: ReplayResult) -> dict[str, int]:
    """Jobs that did not finish, by the code of the reason, most frequent first."""
    codes = [reason.split(":")[0] for reason in result.reason if reason]
    names, counts = np.unique(np.array(codes, dtype=object), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return {str(names[i]): int(counts[i]) for i in order}
