"""Small comparisons, stored and with plausible results, without replaying."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from django.conf import settings as berth

from apps.accounts.models import User
from apps.testbed.core.lab import LabPlan
from apps.testbed.core.lab_grids import PERFORMANCE_GRID, SERIES_POINTS, WAIT_GRID
from apps.testbed.core.lab_results import MEASURES, RunRecord, compared, most_frequent
from apps.testbed.core.lab_runs import LabOutcome
from apps.testbed.core.lab_sweeps import next_runs
from apps.testbed.models import LabComparison, LabRun
from apps.testbed.selectors.lab import comparison_by_id
from apps.testbed.selectors.lab_plans import plan_of_comparison
from apps.testbed.services import lab_runs
from apps.testbed.services.lab_requests import begin_comparison
from apps.testbed.services.lab_scenarios import create_scenario

SETTINGS: list[dict[str, Any]] = [
    {"name": "tarcil", "options": {"policy": "tarcil"}},
    {"name": "random", "options": {"policy": "random"}},
    {"name": "truth", "options": {"policy": "tarcil", "profiles": "true"}},
]


SWEEP = [*SETTINGS, {"name": "weak", "options": {"policy": "roomiest"}}]
AT_LOADS = [
    {
        "name": setting["name"] if load == 1 else f"{setting['name']}, load ×{load}",
        "options": setting["options"] | ({} if load == 1 else {"arrival_scale": load}),
    }
    for load in (0.5, 1, 2)
    for setting in SETTINGS
]


def comparison(
    *,
    by: User | None = None,
    name: str = "five policies",
    seeds: tuple[int, ...] = (1, 2, 3),
    settings: list[dict[str, Any]] = SETTINGS,
    first_seeds: int | None = None,
) -> LabComparison:
    """Request a comparison of settings on 20 jobs and 6 servers."""
    scenario = create_scenario(
        name=f"{name}, scenario",
        cluster={"kind": "synthetic", "servers": 6},
        workload={"kind": "facebook", "jobs": 20, "seed": 1},
        by=by.pk if by else None,
    )
    choices = {
        "settings": settings, "seeds": list(seeds), "baseline": "random", "bound": "truth",
        "halving": first_seeds and {"first_seeds": first_seeds},
    }  # fmt: skip
    begun = begin_comparison(
        name=name, scenario=scenario, choices=choices, by=by.pk if by else None
    )
    return comparison_by_id(begun.pk)


def record(plan: LabPlan, setting: str, seed: int) -> RunRecord:
    """A record as a run returns it: tarcil is 20 points better than random, truth 25."""
    kind, _, load = setting.partition(", load ×")
    gain = {"random": 0.0, "tarcil": 0.2, "truth": 0.25, "weak": -0.1}[kind] * (
        2.0 - float(load or 1.0)
    )
    noise = 0.01 * seed + 0.002 * (seed % 2) * (1 + gain)
    row: dict[str, Any] = {measure.key: 10.0 + seed for measure in MEASURES}
    row |= {
        "policy": setting,
        "seed": seed,
        "performance_mean": 0.5 + gain + noise,
        "near_full_speed": 0.1,
        "jobs_submitted": 20,
        "jobs_finished": 20,
        "jobs_failed": 0,
        "jobs_unfinished": 0,
    }
    names = [plan.trace.applications[i] for i in most_frequent(plan.trace)]
    return {
        "setting": setting,
        "seed": seed,
        "row": row,
        "performance": [min(1.0, x / (1 + gain)) for x in PERFORMANCE_GRID],
        "wait": [min(1.0, i / 40) for i in range(len(WAIT_GRID))],
        "used": {"end_s": 1000.0 * (1 + gain), "shares": [0.5 - gain] * SERIES_POINTS},
        "applications": dict.fromkeys(names, 0.5 + gain + noise),
        "reasons": {},
        "jobs_sha256": "0" * 64,
    }


def outcome(plan: LabPlan, setting: str, seed: int) -> LabOutcome:
    """What a run returns: every job has the mean performance."""
    made = record(plan, setting, seed)
    mean = made["row"]["performance_mean"]
    return LabOutcome(made, np.full(len(plan.trace), mean, dtype=np.float32))


def finished_at_loads() -> LabComparison:
    """A finished comparison of three settings at three loads: tarcil gains most at the lowest."""
    return finished(name="three loads", settings=AT_LOADS)


def finished_sweep() -> LabComparison:
    """A finished sweep of three settings and a bound, which drops the setting weak."""
    return finished(name="sweep", settings=SWEEP, seeds=tuple(range(1, 9)), first_seeds=2)


def finished(
    *,
    by: User | None = None,
    name: str = "five policies",
    seeds: tuple[int, ...] = (1, 2, 3),
    settings: list[dict[str, Any]] = SETTINGS,
    first_seeds: int | None = None,
) -> LabComparison:
    """A comparison with the result of all its runs."""
    begun = comparison(by=by, name=name, seeds=seeds, settings=settings, first_seeds=first_seeds)
    plan = plan_of_comparison(begun)
    outcomes: list[LabOutcome] = []
    while runs := next_runs(
        plan, {(o.record["setting"], o.record["seed"]): o.record["row"] for o in outcomes}
    ).runs:
        outcomes += [outcome(plan, setting.name, seed) for setting, seed in runs]
    LabRun.objects.bulk_create(
        LabRun(
            comparison=begun,
            setting=made.record["setting"],
            seed=made.record["seed"],
            record=made.record,
            performance=made.performance.tobytes(),
            wall_seconds=0.5,
            version=berth.BERTH_VERSION,
        )
        for made in outcomes
    )
    begun.result = compared(plan, [made.record for made in outcomes])
    begun.save(update_fields=["result"])
    operation = begun.operation
    operation.status, operation.progress = "succeeded", len(outcomes)
    operation.finished_at = operation.created_at
    operation.save(update_fields=["status", "progress", "finished_at"])
    return comparison_by_id(begun.pk)


def fake_runs(monkeypatch: pytest.MonkeyPatch, act: Callable[[str, int], object]) -> None:
    """Return made-up outcomes instead of replaying, and act before each."""

    def run(plan: Any, setting: Any, seed: int, progress: Any, is_cancelled: Any) -> LabOutcome:
        act(setting.name, seed)
        return outcome(plan, setting.name, seed)

    monkeypatch.setattr(lab_runs, "run_setting", run)


def nothing(setting: str, seed: int) -> None:
    """Act in no way."""
