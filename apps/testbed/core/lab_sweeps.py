"""Which runs of a plan come next: all of them, or those of the next round of a sweep."""

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from apps.testbed.core.lab import LabPlan, LabSetting
from apps.testbed.core.lab_halving import Schedule, schedule

FIRST_MEASURE: Final = "performance_mean"
Rows = Mapping[tuple[str, int], Mapping[str, Any]]  # of complete runs, by setting and seed


class NextRuns(NamedTuple):
    """Runs to make now, and how many there are in all if no more settings are dropped."""

    runs: tuple[tuple[LabSetting, int], ...]
    total: int


def next_runs(plan: LabPlan, rows: Rows) -> NextRuns:
    """Return the runs that are missing now; the same rows give the same runs."""
    of = {setting.name: setting for setting in plan.settings}
    found = sweep_of(plan, rows)
    if found is None:
        missing = [(s, seed) for s, seed in plan.runs if (s.name, seed) not in rows]
        return NextRuns(tuple(missing), len(plan.runs))
    wanted = list(found.missing)
    if plan.bound is not None:
        seeds = plan.seeds[: found.seeds]
        wanted += [(plan.bound, s) for s in seeds if (plan.bound, s) not in rows]
    later = found.left + (0 if plan.bound is None else len(plan.seeds) - found.seeds)
    runs = tuple((of[name], seed) for name, seed in wanted)
    return NextRuns(runs, len(rows) + len(runs) + later)


def sweep_of(plan: LabPlan, rows: Rows) -> Schedule | None:
    """Return the state of a sweep; None if the plan runs everything."""
    if plan.first_seeds is None:
        return None
    return schedule(
        tuple(setting.name for setting in plan.settings if setting.name != plan.bound),
        plan.seeds,
        first=plan.first_seeds,
        kept={plan.baseline},
        values=values_of(rows),
    )


def values_of(rows: Rows) -> dict[tuple[str, int], float]:
    """Mean performance of each run in per cent; 0 if no job finished."""
    return {run: 100.0 * _known(row[FIRST_MEASURE]) for run, row in rows.items()}


def _known(value: float | None) -> float:
    return 0.0 if value is None or math.isnan(value) else value
