"""Replays of one workload under several policies and seeds, and their comparison."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from typing import Any, Final

import numpy as np

from apps.testbed.core.comparison import RunTable, compare
from apps.testbed.core.comparison_json import comparison_json
from apps.testbed.core.replay.errors import ReplayError
from apps.testbed.core.replay.measures import MEASURES
from apps.testbed.core.replay.model import ReplayCluster, ReplayOptions, ReplayProgress, RunRow
from apps.testbed.core.replay.run import Clock, run
from apps.testbed.core.replay.workloads import Application, Workload, workload
from apps.testbed.core.trace_workload import TraceWorkload

COMPARISON_SEED: Final = 20_151  # of the bootstrap: the same runs, the same intervals

ShowRun = Callable[[str, int, ReplayProgress], None]


@dataclass(frozen=True, slots=True)
class Grid:
    """Runs to make: every policy with every seed.

    Attributes
    ----------
    policies : label and name in the registry of each; the first one is the baseline
    seeds : of the runs; runs of one seed have the same applications and profiles
    base : all other options
    weights : label and weights; every policy also runs with each
    """

    policies: tuple[tuple[str, str], ...]
    seeds: tuple[int, ...]
    base: ReplayOptions
    weights: tuple[tuple[str, Mapping[str, float]], ...] = ()

    @property
    def columns(self) -> tuple[tuple[str, ReplayOptions], ...]:
        """Label and options of each column: the policies, then with each of the weights."""
        return (
            *((label, replace(self.base, policy=name)) for label, name in self.policies),
            *(
                (f"{label}, weights {which}", replace(self.base, policy=name, weights=weights))
                for which, weights in self.weights
                for label, name in self.policies
            ),
        )

    def __post_init__(self) -> None:
        labels = [label for label, _ in self.columns]
        if not labels or not self.seeds:
            raise ReplayError("a grid needs at least one policy and one seed")
        for what, values in (("policies", labels), ("seeds", list(self.seeds))):
            if len(set(values)) < len(values):
                raise ReplayError(f"the {what} of a grid must be different, not {values}")


def workload_of(trace: TraceWorkload) -> Workload:
    """Return the jobs of a trace.

    A service runs for the time that the trace logs; every other job runs until its work is done.
    """
    jobs = trace.jobs
    pairs = zip(trace.applications, trace.kinds, strict=True)
    return workload(
        trace.name,
        [Application(name, kind) for name, kind in pairs],
        jobs.submit_s,
        jobs.application,
        jobs.work_s,
        tasks=jobs.tasks,
        units=jobs.units,
        target_s=jobs.target_s,
        duration_s=np.where(np.isinf(jobs.work_s), jobs.seconds, np.inf),
        priority=jobs.priority,
        unit_memory_bytes=jobs.unit_memory_bytes,
        queue=jobs.queue,
    )


def run_grid(
    cluster: ReplayCluster,
    load: Workload,
    grid: Grid,
    *,
    clock: Clock | None = None,
    show: ShowRun | None = None,
) -> Iterator[RunRow]:
    """Run column after column, seed after seed."""
    for label, options in grid.columns:
        for seed in grid.seeds:
            progress = _shown(show, label, seed)
            result = run(cluster, load, replace(options, seed=seed), progress, clock=clock)
            yield replace(result.run, policy=label)


def report_of(
    trace: TraceWorkload, cluster: ReplayCluster, grid: Grid, rows: Sequence[RunRow]
) -> dict[str, Any]:
    """JSON of the runs and of their comparison with the first policy."""
    servers = np.bincount(cluster.platform, minlength=len(cluster.platforms)).tolist()
    return {
        "trace": {
            "name": trace.name,
            "format": trace.format.value,
            "jobs": len(trace),
            "skipped": trace.skipped,
            "notes": list(trace.notes),
        },
        "cluster": {
            "name": cluster.name,
            "servers": len(cluster),
            "units": int(cluster.units.sum()),
            "racks": int(np.unique(cluster.rack).size),
            "platforms": {
                platform.name: count
                for platform, count in zip(cluster.platforms, servers, strict=True)
                if count
            },
        },
        "options": {
            "policies": dict(grid.policies),
            "seeds": list(grid.seeds),
            "world": grid.base.world,
            "profiles": grid.base.profiles.value,
            "admission": grid.base.admission.value,
            **({"failures": asdict(grid.base.failures)} if grid.base.failures else {}),
            **({"weights": {k: dict(v) for k, v in grid.weights}} if grid.weights else {}),
        },
        "runs": [row.as_json() for row in rows],
        "comparison": comparison_of(grid, rows),
    }


def comparison_of(grid: Grid, rows: Sequence[RunRow]) -> dict[str, Any]:
    """JSON of the differences to the first policy, paired by seed."""
    values = np.array(
        [[float(getattr(row, measure.key)) for measure in MEASURES] for row in rows]
    ).reshape(len(grid.columns), len(grid.seeds), len(MEASURES))
    labels = tuple(label for label, _ in grid.columns)
    table = RunTable(labels, grid.seeds, MEASURES, values)
    rng = np.random.default_rng(COMPARISON_SEED)
    return comparison_json(compare(table, baseline=labels[0], rng=rng))


def page_of(report: dict[str, Any]) -> str:
    """Return a report as one HTML page without scripts."""
    title = f"Replay of {report['trace']['name']} on {report['cluster']['name']}"
    shown = {**report["trace"], **report["cluster"], **report["options"]}
    facts = [(name, _text(value)) for name, value in shown.items()]
    differences = [
        {**each, "corrected": _text(each["corrected"])}
        for each in report["comparison"]["differences"]
    ]
    keys = ("setting", "measure", "corrected", "outcome")
    return "\n".join(
        [
            '<!doctype html><html lang="en"><meta charset="utf-8">',
            f"<title>{escape(title)}</title>",
            "<style>body{font:15px/1.5 system-ui;margin:2rem;max-width:80rem}"
            "table{border-collapse:collapse;margin:1rem 0}"
            "td,th{padding:.25rem .75rem;border-bottom:1px solid #ccc;text-align:left}</style>",
            f"<h1>{escape(title)}</h1><p>{escape(report['comparison']['verdict'])}</p>",
            _table(("", ""), facts),
            "<h2>Runs</h2>",
            _table(tuple(report["runs"][0]), [tuple(r.values()) for r in report["runs"]]),
            "<h2>Differences to the first policy</h2>",
            _table(keys, [tuple(each[key] for key in keys) for each in differences]),
            "</html>",
        ]
    )


def _table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = (
        "<tr>" + "".join(f"<td>{escape(_text(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{''.join(body)}</table>"


def _text(value: Any) -> str:
    match value:
        case None:
            return "-"
        case float():
            return f"{value:.4g}"
        case list():
            return ", ".join(map(_text, value)) or "-"
        case dict():
            return ", ".join(f"{key}: {_text(each)}" for key, each in value.items())
    return str(value)


def _shown(show: ShowRun | None, label: str, seed: int) -> Callable[[ReplayProgress], None] | None:
    if show is None:
        return None
    return lambda progress: show(label, seed, progress)
