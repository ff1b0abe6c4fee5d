"""Profiling runs of one application, and what another one would cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db.models import Count

from apps.dashboard.core import words
from apps.operations.core.states import OperationStatus
from apps.profiling.core.plan import RUN_S, plan
from apps.profiling.models import ProfilingRun, RunState
from apps.profiling.selectors import platform_shapes
from apps.workloads.models import Application

RUNS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Cost:
    """What a set of short runs takes.

    Attributes
    ----------
    units : held at the same time, at most
    expected_s, budget_s : cluster seconds until all is measured: on average, and at most
    unit_seconds : of capacity taken from the cluster
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
    """One profiling run as it is listed.

    Attributes
    ----------
    share : of its steps that are over, in [0, 1]; None = not running
    """

    run: ProfilingRun
    cells: int
    what: str
    took_s: float | None
    share: float | None

    @property
    def message(self) -> str:
        """What it is doing, how it ended, or else why it was asked for."""
        operation = self.run.operation
        if self.is_cancelling:
            return "being cancelled"
        doing = operation.message if operation and self.is_open else ""
        return str(self.run.message or doing or self.run.reason)

    @property
    def is_cancelling(self) -> bool:
        """Whether somebody cancelled it and no backend has ended it yet."""
        operation = self.run.operation
        unwanted = operation is not None and (
            operation.cancel_requested or operation.status == OperationStatus.CANCELLED
        )
        return self.is_open and unwanted

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.run.state in (RunState.QUEUED, RunState.RUNNING)

    @property
    def icon(self) -> str:
        """The name of its state among the jobs' states."""
        names = {RunState.DONE.value: "succeeded"}
        return names.get(self.run.state, self.run.state)


def profiling_cost(application: Application) -> Cost | None:
    """Return what profiling an application anew would take; None without servers to do it on."""
    shapes = platform_shapes()
    if not shapes:
        return None
    return cost_of(plan(application.kind, shapes, np.random.default_rng(0)))


def cost_of(made: Mapping[str, Any]) -> Cost:
    """Return what a plan takes: copies work at the same time, runs of one copy after another."""
    runs = made["runs"]
    expected_s = float(made.get("expected_s", 0.0))
    held: dict[int, int] = {}
    for run in runs:
        size = run["units"] * run["servers"]
        held[run["copy"]] = max(held.get(run["copy"], 0), size)
    return Cost(
        runs=len(runs),
        units=sum(held.values()),
        platforms=len({run["platform"] for run in runs}),
        sources=sum(len(run["sources"]) for run in runs),
        expected_s=expected_s,
        budget_s=float(made.get("budget_s", expected_s)),
        unit_seconds=sum(
            run["units"] * run["servers"] * (expected_s if run["sources"] else RUN_S)
            for run in runs
        ),
    )


def run_rows(application: Application, *, now_s: float) -> Sequence[RunRow]:
    """Return the latest profiling runs, newest first; one statement."""
    rows = ProfilingRun.objects.filter(application=application).select_related("operation")
    counted = rows.annotate(cells=Count("measurements")).order_by("-created_at", "-id")
    return [_row(run, run.cells, now_s) for run in counted[:RUNS_SHOWN]]


def _row(run: ProfilingRun, cells: int, now_s: float) -> RunRow:
    share = None
    if run.state == RunState.RUNNING and run.operation is not None and run.operation.total:
        share = min(1.0, run.operation.progress / run.operation.total)
    return RunRow(run, cells, plan_text(run.plan), _took_s(run, now_s), share)


def _took_s(run: ProfilingRun, now_s: float) -> float | None:
    """Return the cluster time of a run: what its backend says, else what passed here."""
    if run.result is not None:
        return float(run.result["seconds"])
    if run.started_s is None:
        return None
    return max(0.0, (now_s if run.finished_s is None else run.finished_s) - run.started_s)


def plan_text(made: Mapping[str, Any]) -> str:
    """Return what a plan runs, e.g. "5 runs on 3 platforms, 6 resources probed"."""
    if not made.get("runs"):
        return "no run planned"
    cost = cost_of(made)
    on = words.plural(cost.platforms, "platform")
    probed = f", {words.plural(cost.sources, 'resource')} probed" if cost.sources else ""
    return f"{words.plural(cost.runs, 'run')} on {on}{probed}"
