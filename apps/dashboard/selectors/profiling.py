"""Profiling runs of one application, and the cost of another profiling."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db.models import Count

from apps.accounts.core.principal import Principal
from apps.dashboard.core import formats
from apps.operations.core.states import OperationStatus
from apps.operations.models import Operation
from apps.profiling.core.plan import RUN_S, plan
from apps.profiling.models import ProfilingRun, RunState
from apps.profiling.selectors import may_see_texts, message_to_others, platform_shapes
from apps.workloads.models import Application

RUNS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class ProfilingCost:
    """Cost of a set of short runs.

    Attributes
    ----------
    units : maximum in use at the same time
    expected_s, budget_s : expected and maximum duration, cluster seconds
    unit_seconds : capacity used
    """

    runs: int
    units: int
    platforms: int
    sources: int
    expected_s: float
    budget_s: float
    unit_seconds: float


@dataclass(frozen=True, slots=True)
class RunRow:
    """One profiling run in the list.

    Attributes
    ----------
    share : of its steps that are complete, in [0, 1]; None = not running, or not for this reader
    is_seen : whether the reader may see its texts and its operation
    """

    run: ProfilingRun
    cells: int
    what: str
    took_s: float | None
    share: float | None
    is_seen: bool

    @property
    def operation(self) -> Operation | None:
        """Its operation, if the reader may see it."""
        return self.run.operation if self.is_seen else None

    @property
    def message(self) -> str:
        """Its current step or result, or else the reason of the request."""
        operation = self.operation
        if not self.is_seen:
            return message_to_others(self.run)
        if self.is_cancelling:
            return "being cancelled"
        doing = operation.message if operation and self.is_open else ""
        return str(self.run.message or doing or self.run.reason)

    @property
    def is_cancelling(self) -> bool:
        """Whether it was cancelled but has not ended yet."""
        operation = self.operation
        is_cancelled = operation is not None and (
            operation.cancel_requested or operation.status == OperationStatus.CANCELLED
        )
        return self.is_open and is_cancelled

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.run.state in (RunState.QUEUED, RunState.RUNNING)

    @property
    def icon(self) -> str:
        """Name of the icon of its state."""
        names = {RunState.DONE.value: "succeeded"}
        return names.get(self.run.state, self.run.state)


def profiling_cost(application: Application) -> ProfilingCost | None:
    """Return the cost of profiling an application; None if the cluster has no servers."""
    shapes = platform_shapes()
    if not shapes:
        return None
    return cost_of(plan(application.kind, shapes, np.random.default_rng(0)))


def cost_of(plan_json: Mapping[str, Any]) -> ProfilingCost:
    """Return the cost of a plan: copies run in parallel, the runs of one copy in sequence."""
    runs = plan_json["runs"]
    expected_s = float(plan_json.get("expected_s", 0.0))
    units_by_copy: dict[int, int] = {}
    for run in runs:
        size = run["units"] * run["servers"]
        units_by_copy[run["copy"]] = max(units_by_copy.get(run["copy"], 0), size)
    return ProfilingCost(
        runs=len(runs),
        units=sum(units_by_copy.values()),
        platforms=len({run["platform"] for run in runs}),
        sources=sum(len(run["sources"]) for run in runs),
        expected_s=expected_s,
        budget_s=float(plan_json.get("budget_s", expected_s)),
        unit_seconds=sum(
            run["units"] * run["servers"] * (expected_s if run["sources"] else RUN_S)
            for run in runs
        ),
    )


def run_rows(principal: Principal, application: Application, *, now_s: float) -> Sequence[RunRow]:
    """Return the latest profiling runs for a reader, newest first; one statement."""
    rows = ProfilingRun.objects.filter(application=application).select_related("operation")
    counted = rows.annotate(cells=Count("measurements")).order_by("-created_at", "-id")
    return [
        _run_row(run, run.cells, now_s, is_seen=may_see_texts(principal, run))
        for run in counted[:RUNS_SHOWN]
    ]


def _run_row(run: ProfilingRun, cells: int, now_s: float, *, is_seen: bool) -> RunRow:
    share, operation = None, run.operation if is_seen else None
    if run.state == RunState.RUNNING and operation is not None and operation.total:
        share = min(1.0, operation.progress / operation.total)
    return RunRow(run, cells, plan_text(run.plan), _took_s(run, now_s), share, is_seen)


def _took_s(run: ProfilingRun, now_s: float) -> float | None:
    """Return the duration of a run in cluster time, as reported or else as observed here."""
    if run.result is not None:
        return float(run.result["seconds"])
    if run.started_s is None:
        return None
    return max(0.0, (now_s if run.finished_s is None else run.finished_s) - run.started_s)


def plan_text(plan_json: Mapping[str, Any]) -> str:
    """Return a summary of a plan, e.g. "5 runs on 3 platforms, 6 resources probed"."""
    if plan_json.get("stressors"):
        count = formats.plural(len(plan_json["stressors"]), "stressor")
        return f"a copy of the command, next to {count}"
    if not plan_json.get("runs"):
        return "no runs planned"
    cost = cost_of(plan_json)
    on = formats.plural(cost.platforms, "platform")
    probed = f", {formats.plural(cost.sources, 'resource')} probed" if cost.sources else ""
    return f"{formats.plural(cost.runs, 'run')} on {on}{probed}"
