"""The result of a comparison from the records of its runs, for any setting as the baseline.

Imports no engine, so that a page can compare again with another baseline.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from apps.testbed.core.comparison import (
    LEVEL,
    Better,
    Measure,
    RunTable,
    compare,
    differences_to,
)
from apps.testbed.core.comparison_json import comparison_json, difference_json
from apps.testbed.core.lab import LabPlan
from apps.testbed.core.lab_grids import SERIES_POINTS
from apps.testbed.core.lab_halving import Schedule, halving_json
from apps.testbed.core.lab_loads import Roles, roles_of
from apps.testbed.core.lab_sweeps import sweep_of
from apps.testbed.core.replay import measures
from apps.testbed.core.trace_workload import TraceWorkload
from apps.testbed.core.traces import Floats

BOOTSTRAP_SEED: Final = 1
MAX_APPLICATIONS: Final = 100  # shown by themselves: those with the most jobs
SHARES: Final = frozenset({"performance_mean", "performance_p5", "utilisation_mean"})
NEAR_FULL_SPEED: Final = Measure("near_full_speed", "jobs at 0.95 or more", "%", Better.HIGHER)
# those of `berth replay`, shares in per cent so that their differences are in points
MEASURES: Final = (
    *(replace(m, unit="%") if m.key in SHARES else m for m in measures.MEASURES[:2]),
    NEAR_FULL_SPEED,
    *(replace(m, unit="%") if m.key in SHARES else m for m in measures.MEASURES[2:]),
)
RunRecord = dict[str, Any]
OfRuns = Mapping[tuple[str, int], Mapping[str, Any]]  # by setting and seed


def compared(plan: LabPlan, records: Sequence[RunRecord]) -> dict[str, Any]:
    """Compare the runs of a plan, all of which must be there; returns JSON.

    Besides the comparison: ``curves``, distributions over the jobs of all seeds; ``used``, the
    utilisation over time; ``applications``, differences to the baseline of each application; and
    ``loads``, the same of the settings with other arrival rates, each with its ``load``; and
    ``migrations``, their mean number in a run of each setting with weights. A sweep
    compares the settings that it did not drop, and has ``halving``, its rounds.
    """
    found = {(record["setting"], record["seed"]): record for record in records}
    sweep = sweep_of(plan, {run: record["row"] for run, record in found.items()})
    if sweep is None:
        first, *others = [_part(plan.trace, roles, found) for roles in roles_of(plan)]
        return first | {"loads": others}
    roles = _of_sweep(plan, sweep)
    return _part(plan.trace, roles, found) | {"loads": [], "halving": halving_json(sweep)}


def _of_sweep(plan: LabPlan, sweep: Schedule) -> Roles:
    """Only settings that were not dropped ran with all seeds."""
    (roles,) = roles_of(plan)
    left = {*sweep.settings, plan.bound}
    return replace(roles, settings=tuple(name for name in roles.settings if name in left))


def _part(trace: TraceWorkload, roles: Roles, found: OfRuns) -> dict[str, Any]:
    of_setting = {name: [found[name, seed] for seed in roles.seeds] for name in roles.settings}
    shares = {run: record["applications"] for run, record in found.items()}
    return _judged(roles, {run: record["row"] for run, record in found.items()}) | {
        "load": roles.load,
        "jobs": len(trace),
        "curves": {
            name: {
                kind: np.mean([record[kind] for record in of], axis=0).round(6).tolist()
                for kind in ("performance", "wait")
            }
            for name, of in of_setting.items()
        },
        "used": _used(of_setting),
        "applications": _applications(roles, shares, _counts(trace)),
        **_migrations(of_setting),
    }


def _migrations(of_setting: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Mean migrations of a run of each setting with weights; no part without one."""
    found = {
        name: float(np.mean([record["migrations"]["containers"] for record in of]))
        for name, of in of_setting.items()
        if "migrations" in of[0]
    }
    return {"migrations": found} if found else {}


def rebased(
    part: Mapping[str, Any], baseline: str, *, rows: OfRuns, applications: OfRuns
) -> dict[str, Any]:
    """Compare the runs of a result at one load with another baseline.

    Parameters
    ----------
    part : as `lab_loads.at_load` returned it
    baseline : name of one of its settings, not of the bound
    rows, applications : these parts of the records of all runs
    """
    bound = part["bound"]
    names = (*part["settings"], *([bound] if bound else []))
    roles = Roles(names, tuple(part["seeds"]), baseline, bound, part.get("load", 1.0))
    counts = {each["application"]: each["jobs"] for each in part["applications"]}
    changes = _applications(roles, applications, counts)
    return {**part, **_judged(roles, rows), "applications": changes}


def _judged(roles: Roles, rows: OfRuns) -> dict[str, Any]:
    values = [
        [[_value(rows[name, seed], m) for m in MEASURES] for seed in roles.seeds]
        for name in roles.settings
    ]
    table = RunTable(roles.settings, roles.seeds, MEASURES, np.array(values, dtype=np.float64))
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    return comparison_json(compare(table, baseline=roles.baseline, bound=roles.bound, rng=rng))


def _value(row: Mapping[str, Any], measure: Measure) -> float:
    value = row[measure.key]
    if value is None:
        return float("nan")
    return 100.0 * value if measure.unit == "%" else float(value)


def _used(of_setting: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
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


def _applications(roles: Roles, shares: OfRuns, counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Differences to the baseline of each application: points of performance, paired by seed."""
    settings = tuple(name for name in roles.settings if name != roles.bound)
    values = [
        [[100.0 * shares[s, seed][name] for name in counts] for seed in roles.seeds]
        for s in settings
    ]
    if not counts or len(settings) < 2:
        return []
    table = RunTable(
        settings=settings,
        seeds=roles.seeds,
        measures=tuple(Measure(name, name, "%", Better.HIGHER) for name in counts),
        values=np.array(values, dtype=np.float64),
    )
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    found, _ = differences_to(table, settings, roles.baseline, LEVEL, rng)
    return [
        {
            "setting": each["setting"],
            "application": each["measure"],
            "jobs": counts[each["measure"]],
            "difference": each["corrected"],
            "outcome": each["outcome"],
        }
        for each in map(difference_json, found)
    ]


def most_frequent(trace: TraceWorkload) -> list[int]:
    """Return the indices of the applications with the most jobs, at most `MAX_APPLICATIONS`."""
    counts = np.bincount(trace.jobs.application, minlength=len(trace.applications))
    order = np.argsort(-counts, kind="stable")[:MAX_APPLICATIONS]
    return [int(i) for i in order if counts[i]]


def _counts(trace: TraceWorkload) -> dict[str, int]:
    """Jobs of each of the most frequent applications."""
    counts = np.bincount(trace.jobs.application, minlength=len(trace.applications))
    return {trace.applications[i]: int(counts[i]) for i in most_frequent(trace)}
