"""Runs of a plan and their comparison; imports the replay, which only workers need."""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from apps.testbed.core.comparison import Better, Measure, RunTable, compare
from apps.testbed.core.comparison_json import comparison_json
from apps.testbed.core.lab import LabPlan, LabSetting
from apps.testbed.core.lab_grids import NEAR, PERFORMANCE_GRID, SERIES_POINTS, WAIT_GRID
from apps.testbed.core.replay import grid
from apps.testbed.core.replay.clusters import cluster_from_document
from apps.testbed.core.replay.model import ReplayCluster, ReplayProgress, ReplayResult
from apps.testbed.core.replay.run import run
from apps.testbed.core.trace_workload import TraceWorkload
from apps.testbed.core.traces import Floats

BOOTSTRAP_SEED: Final = 1
MAX_APPLICATIONS: Final = 100  # shown by themselves: those with the most jobs
SHARES: Final = frozenset({"performance_mean", "performance_p5", "utilisation_mean"})
NEAR_FULL_SPEED: Final = Measure("near_full_speed", "jobs at 0.95 or more", "%", Better.HIGHER)
# those of `berth replay`, shares in per cent so that their differences are in points
MEASURES: Final = (
    *(replace(m, unit="%") if m.key in SHARES else m for m in grid.MEASURES[:2]),
    NEAR_FULL_SPEED,
    *(replace(m, unit="%") if m.key in SHARES else m for m in grid.MEASURES[2:]),
)
RunRecord = dict[str, Any]


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
    options = setting.replay_options(plan.world, seed)
    result = run(cluster, grid.workload_of(plan.trace), options, progress, is_cancelled)
    performance = np.nan_to_num(result.performance, nan=0.0)
    row = result.run.as_json()
    del row["wall_seconds"]
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


def most_frequent(trace: TraceWorkload) -> list[int]:
    """Return the indices of the applications with the most jobs, at most `MAX_APPLICATIONS`."""
    counts = np.bincount(trace.jobs.application, minlength=len(trace.applications))
    order = np.argsort(-counts, kind="stable")[:MAX_APPLICATIONS]
    return [int(i) for i in order if counts[i]]


def _reasons(result: ReplayResult) -> dict[str, int]:
    """Jobs that did not finish, by the code of the reason, most frequent first."""
    codes = [reason.split(":")[0] for reason in result.reason if reason]
    names, counts = np.unique(np.array(codes, dtype=object), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return {str(names[i]): int(counts[i]) for i in order}


def compared(plan: LabPlan, records: Sequence[RunRecord]) -> dict[str, Any]:
    """Compare the runs of a plan, all of which must be there; returns JSON.

    Besides the comparison: ``curves``, distributions over the jobs of all seeds; ``used``, the
    utilisation over time; and ``applications``, differences to the baseline of each application.
    """
    found = {(record["setting"], record["seed"]): record for record in records}
    values = [
        [[_value(found[s.name, seed]["row"], m) for m in MEASURES] for seed in plan.seeds]
        for s in plan.settings
    ]
    table = RunTable(
        settings=tuple(setting.name for setting in plan.settings),
        seeds=plan.seeds,
        measures=MEASURES,
        values=np.array(values, dtype=np.float64),
    )
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    comparison = compare(table, baseline=plan.baseline, bound=plan.bound, rng=rng)
    of_setting = {
        setting.name: [found[setting.name, seed] for seed in plan.seeds]
        for setting in plan.settings
    }
    return comparison_json(comparison) | {
        "jobs": len(plan.trace),
        "curves": {
            name: {
                kind: np.mean([record[kind] for record in of], axis=0).round(6).tolist()
                for kind in ("performance", "wait")
            }
            for name, of in of_setting.items()
        },
        "used": _used(of_setting),
        "applications": _applications(plan, of_setting),
    }


def _value(row: Mapping[str, Any], measure: Measure) -> float:
    value = row[measure.key]
    if value is None:
        return float("nan")
    return 100.0 * value if measure.unit == "%" else float(value)


def _used(of_setting: Mapping[str, Sequence[RunRecord]]) -> dict[str, Any]:
    """Utilisation over time, mean of the seeds, for all settings at the same times.

    A run that has ended holds no units.
    """
    end_s = max(record["used"]["end_s"] for of in of_setting.values() for record in of)
    at_s = (np.arange(SERIES_POINTS) + 0.5) * (end_s / SERIES_POINTS)
    shares = {
        name: np.mean([_at(record["used"], at_s) for record in of], axis=0).round(4).tolist()
        for name, of in of_setting.items()
    }
    return {"at_s": at_s.round(1).tolist(), "shares": shares}


def _at(used: Mapping[str, Any], at_s: Floats) -> Floats:
    shares = np.array([*used["shares"], 0.0])
    places = at_s / max(used["end_s"], 1e-9) * (shares.size - 1)
    return shares[np.minimum(places.astype(np.int64), shares.size - 1)]


def _applications(
    plan: LabPlan, of_setting: Mapping[str, Sequence[RunRecord]]
) -> list[dict[str, Any]]:
    """Differences to the baseline of each application: points of performance, paired by seed."""
    counts = np.bincount(plan.trace.jobs.application, minlength=len(plan.trace.applications))
    chosen = most_frequent(plan.trace)
    names = tuple(plan.trace.applications[i] for i in chosen)
    settings = tuple(setting.name for setting in plan.settings if setting.name != plan.bound)
    values = [
        [[100.0 * record["applications"][name] for name in names] for record in of_setting[s]]
        for s in settings
    ]
    table = RunTable(
        settings=settings,
        seeds=plan.seeds,
        measures=tuple(Measure(name, name, "%", Better.HIGHER) for name in names),
        values=np.array(values, dtype=np.float64),
    )
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    comparison = compare(table, baseline=plan.baseline, rng=rng)
    jobs = {name: int(counts[i]) for name, i in zip(names, chosen, strict=True)}
    return [
        {
            "setting": each["setting"],
            "application": each["measure"],
            "jobs": jobs[each["measure"]],
            "difference": each["corrected"],
            "outcome": each["outcome"],
        }
        for each in comparison_json(comparison)["differences"]
    ]
