"""Metrics in Prometheus' text format: a line per class, never per job or server.

All numbers come from the database, so every web process answers the same.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import redis
from django.conf import settings
from django.db import connection

from apps.common.middleware import API_VERSION
from apps.inventory.models import ServerState
from apps.workloads.core.lifecycle import JobState

Labels = Sequence[tuple[str, str]]
QUEUES: Final = ("default", "agents", "placement")
_QUANTILES: Final = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family with its samples: (labels, value)."""

    name: str
    kind: str
    help: str
    samples: Sequence[tuple[Labels, float]]


def exposition(metrics: Iterable[Metric]) -> str:
    """Return metrics in Prometheus' text format 0.0.4."""
    return "".join(f"{line}\n" for metric in metrics for line in _lines(metric))


def _lines(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for labels, value in metric.samples:
        text = ",".join(f'{name}="{_escaped(label)}"' for name, label in labels)
        yield f"{metric.name}{{{text}}} {value:g}" if text else f"{metric.name} {value:.12g}"


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def collect(version: str) -> list[Metric]:
    """Read all metrics; a handful of queries whatever the size of the cluster."""
    return [
        Metric(
            "berth_build_info", "gauge", "Version that answers.",
            [((("version", version), ("api", API_VERSION)), 1)],
        ),
        *_jobs(),
        *_decisions(),
        *_cluster(),
        *_moves(),
        *_queues(),
    ]  # fmt: skip


def _jobs() -> Iterator[Metric]:
    by_state = dict.fromkeys(JobState, 0)
    by_state |= dict(_rows("SELECT state, count(*) FROM workloads_job GROUP BY state"))
    yield Metric(
        "berth_jobs", "gauge", "Jobs by state.",
        [((("state", str(state)),), count) for state, count in by_state.items()],
    )  # fmt: skip
    pending = _rows(
        "SELECT reason_code, count(*) FROM workloads_job"
        " WHERE state IN ('submitted', 'profiling', 'queued') GROUP BY reason_code ORDER BY 1"
    )
    yield Metric(
        "berth_pending_jobs", "gauge", "Waiting jobs by reason.",
        [((("reason", reason),), count) for reason, count in pending],
    )  # fmt: skip
    attained = _rows(
        "SELECT target_kind, avg((attainment >= 1)::int) FROM workloads_job"
        " WHERE state = 'running' AND attainment IS NOT NULL GROUP BY target_kind ORDER BY 1"
    )
    yield Metric(
        "berth_targets_met_ratio", "gauge", "Share of running jobs that meet their target.",
        [((("kind", kind),), float(share)) for kind, share in attained],
    )  # fmt: skip


def _decisions() -> Iterator[Metric]:
    rows = _rows(
        "SELECT policy, outcome, percentile_cont(%s::float8[]) WITHIN GROUP (ORDER BY elapsed_s),"
        " count(*), sum(commit_retries) FROM scheduling_decision"
        " WHERE at > now() - interval '5 minutes' GROUP BY policy, outcome ORDER BY 1, 2",
        [list(_QUANTILES)],
    )
    yield Metric(
        "berth_decision_duration_seconds", "gauge", "Time to decide, over the last 5 minutes.",
        [
            ((("policy", policy), ("outcome", outcome), ("quantile", f"{q:g}")), value)
            for policy, outcome, values, _, _ in rows
            for q, value in zip(_QUANTILES, values, strict=True)
        ],
    )  # fmt: skip
    yield Metric(
        "berth_decisions_recent", "gauge", "Decisions of the last 5 minutes.",
        [((("policy", row[0]), ("outcome", row[1])), row[3]) for row in rows],
    )  # fmt: skip
    yield Metric(
        "berth_commit_conflicts_recent", "gauge", "Commit conflicts of the last 5 minutes.",
        [((("policy", row[0]), ("outcome", row[1])), row[4]) for row in rows],
    )  # fmt: skip


def _cluster() -> Iterator[Metric]:
    rows = {
        row[0]: row[1:]
        for row in _rows(
            "SELECT s.state, count(*), sum(s.cores), sum(s.used_cores), coalesce(sum(r.watts), 0)"
            " FROM inventory_server s LEFT JOIN inventory_serverreading r ON r.server_id = s.id"
            " GROUP BY s.state"
        )
    }
    yield Metric(
        "berth_servers", "gauge", "Servers by state.",
        [((("state", state),), rows.get(state, (0,))[0]) for state in ServerState.values],
    )  # fmt: skip
    totals = [sum(row[i] for row in rows.values()) for i in (1, 2, 3)]
    yield Metric("berth_units", "gauge", "Resource units.", [((), totals[0])])
    yield Metric("berth_units_allocated", "gauge", "Allocated units.", [((), totals[1])])
    yield Metric("berth_cluster_power_watts", "gauge", "Power drawn.", [((), totals[2])])


def _moves() -> Iterator[Metric]:
    for name, meaning, table in (
        ("berth_migrations", "Moves of containers by state.", "execution_migration"),
        ("berth_plans", "Plans of moves by state.", "placement_plan"),
    ):
        rows = _rows(f"SELECT state, count(*) FROM {table} GROUP BY state ORDER BY 1")  # noqa: S608
        yield Metric(name, "gauge", meaning, [((("state", row[0]),), row[1]) for row in rows])


def _queues() -> Iterator[Metric]:
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1.0) as client:
            depths = [((("queue", name),), float(client.llen(name))) for name in QUEUES]
    except redis.RedisError:
        depths = []  # absent, not zero: an alert on a missing series fires
    yield Metric("berth_task_queue_depth", "gauge", "Tasks waiting for a worker.", depths)


def _rows(sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters or None)
        return cursor.fetchall()
