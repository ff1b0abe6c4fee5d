"""Prometheus metrics of the installation: one time series per class or scheduling agent.

There is none per job or server.

All values come from the database, so every web process answers the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from apps.common.api.middleware import API_VERSION
from apps.common.infrastructure.database import fetch_rows
from apps.common.infrastructure.queues import QUEUES, waiting_tasks
from apps.common.infrastructure.transactions import CONFLICTS
from apps.inventory.models import ServerState
from apps.inventory.selectors import cluster_totals
from apps.workloads.core.lifecycle import JobState
from apps.workloads.selectors import job_counts

Labels = Mapping[str, str]
_QUANTILES: Final = (0.5, 0.95, 0.99)


class InstallationCollector(Collector):
    """Reads all metrics when they are scraped."""

    def __init__(self, version: str) -> None:
        self._version = version

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Read all metrics; a fixed number of queries, whatever the size of the cluster."""
        build = {"version": self._version, "api": API_VERSION}
        yield gauge("berth_build_info", "Version that answers.", [(build, 1)])
        yield from _jobs()
        yield from _decisions()
        yield from _agents()
        yield from _cluster()
        yield from _migrations()
        yield from _retries()
        yield from _retention()
        yield from _queues()


def exposition(collector: Collector) -> str:
    """Return the metrics of a collector in Prometheus' text format 0.0.4."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry).decode()


def gauge(
    name: str, documentation: str, samples: Iterable[tuple[Labels, float]]
) -> GaugeMetricFamily:
    """Make a metric family of gauges; all samples have the same label names."""
    family = GaugeMetricFamily(name, documentation)
    for labels, value in samples:
        family.add_sample(name, dict(labels), value)
    return family


def _jobs() -> Iterator[GaugeMetricFamily]:
    by_state = dict.fromkeys(map(str, JobState), 0) | dict(job_counts(None).by_state)
    yield gauge(
        "berth_jobs",
        "Jobs by state.",
        [({"state": state}, count) for state, count in by_state.items()],
    )
    pending = fetch_rows(
        "SELECT reason_code, count(*) FROM workloads_job"
        " WHERE state IN ('submitted', 'profiling', 'queued') GROUP BY reason_code ORDER BY 1"
    )
    yield gauge(
        "berth_pending_jobs",
        "Waiting jobs by reason.",
        [({"reason": reason}, count) for reason, count in pending],
    )
    attained = fetch_rows(
        "SELECT target_kind, avg((attainment >= 1)::int) FROM workloads_job"
        " WHERE state = 'running' AND attainment IS NOT NULL GROUP BY target_kind ORDER BY 1"
    )
    yield gauge(
        "berth_targets_met_ratio",
        "Share of running jobs that meet their target.",
        [({"kind": kind}, float(share)) for kind, share in attained],
    )


def _decisions() -> Iterator[GaugeMetricFamily]:
    rows = fetch_rows(
        "SELECT policy, outcome, percentile_cont(%s::float8[]) WITHIN GROUP (ORDER BY elapsed_s),"
        " count(*), sum(commit_retries) FROM scheduling_decision"
        " WHERE at > now() - interval '5 minutes' GROUP BY policy, outcome ORDER BY 1, 2",
        [list(_QUANTILES)],
    )
    yield gauge(
        "berth_decision_duration_seconds",
        "Time to decide, over the last 5 minutes.",
        [
            ({"policy": policy, "outcome": outcome, "quantile": f"{q:g}"}, value)
            for policy, outcome, values, _, _ in rows
            for q, value in zip(_QUANTILES, values, strict=True)
        ],
    )
    yield gauge(
        "berth_decisions_recent",
        "Decisions of the last 5 minutes.",
        [({"policy": row[0], "outcome": row[1]}, row[3]) for row in rows],
    )
    yield gauge(
        "berth_commit_conflicts_recent",
        "Commits lost by the stored decisions of the last 5 minutes.",
        [({"policy": row[0], "outcome": row[1]}, row[4]) for row in rows],
    )


def _agents() -> Iterator[GaugeMetricFamily]:
    rows = fetch_rows(
        "SELECT agent, count(*), sum(commit_retries), count(*) FILTER (WHERE commit_retries > 0),"
        " sum(commit_retries)::float8 / count(*),"
        " percentile_cont(%(at)s::float8[]) WITHIN GROUP (ORDER BY copy_age_s),"
        " percentile_cont(%(at)s::float8[]) WITHIN GROUP (ORDER BY changes_behind)"
        " FROM scheduling_decision WHERE at > now() - interval '5 minutes'"
        " GROUP BY agent ORDER BY agent",
        {"at": list(_QUANTILES)},
    )
    for place, name, meaning in (
        (1, "berth_agent_decisions_recent", "Decisions of an agent, last 5 minutes."),
        (
            2,
            "berth_agent_lost_commits_recent",
            "Commits lost by the stored decisions of an agent.",
        ),
        (3, "berth_agent_retried_decisions_recent", "Decisions that lost at least one commit."),
        (4, "berth_agent_lost_commits_per_decision", "Commits lost per decision of an agent."),
    ):
        yield gauge(name, meaning, [({"agent": row[0]}, row[place]) for row in rows])
    for place, name, meaning in (
        (5, "berth_agent_copy_age_seconds", "Age of an agent's copy when it commits."),
        (6, "berth_agent_changes_behind", "Changes that an agent's copy lacks when it commits."),
    ):
        yield gauge(
            name,
            meaning,
            [
                ({"agent": row[0], "quantile": f"{q:g}"}, value)
                for row in rows
                if row[place] is not None  # without a commit, nothing is known
                for q, value in zip(_QUANTILES, row[place], strict=True)
            ],
        )


def _cluster() -> Iterator[GaugeMetricFamily]:
    totals = cluster_totals()
    yield gauge(
        "berth_servers",
        "Servers by state.",
        [
            ({"state": state}, totals.servers_by_state.get(state, 0))
            for state in ServerState.values
        ],
    )
    usage = totals.usage
    yield gauge("berth_units", "Resource units.", [({}, usage.units)])
    yield gauge("berth_units_allocated", "Allocated units.", [({}, usage.units_allocated)])
    yield gauge("berth_cluster_power_watts", "Power drawn.", [({}, usage.watts)])


def _migrations() -> Iterator[GaugeMetricFamily]:
    for name, meaning, table in (
        ("berth_migrations", "Migrations of containers by state.", "execution_migration"),
        ("berth_plans", "Migration plans by state.", "placement_plan"),
    ):
        rows = fetch_rows(f"SELECT state, count(*) FROM {table} GROUP BY state ORDER BY 1")  # noqa: S608
        yield gauge(name, meaning, [({"state": row[0]}, row[1]) for row in rows])


def _retries() -> Iterator[GaugeMetricFamily]:
    counted = dict(fetch_rows("SELECT sqlstate, retries FROM common_transactionretry"))
    yield gauge(
        "berth_transaction_retries",
        "Transactions that ran again after a deadlock or a serialization failure.",
        [({"sqlstate": state}, counted.get(state, 0)) for state in CONFLICTS],
    )


def _retention() -> Iterator[GaugeMetricFamily]:
    rows = fetch_rows(
        "SELECT name, deleted, last_seconds, coalesce(extract(epoch FROM last_run_at), 0)::float8,"
        " (NOT is_complete)::int, is_paused::int FROM operations_retention ORDER BY name"
    )
    for place, name, meaning in (
        (1, "berth_retention_deleted_rows", "Rows deleted or averaged since the installation."),
        (2, "berth_retention_last_run_seconds", "Duration of the last run."),
        (3, "berth_retention_last_run_timestamp_seconds", "When the last run ended."),
        (4, "berth_retention_backlog", "1 if the last run left rows to delete."),
        (5, "berth_retention_paused", "1 if the deletion is paused."),
    ):
        yield gauge(name, meaning, [({"kind": row[0]}, row[place]) for row in rows])


def _queues() -> Iterator[GaugeMetricFamily]:
    # absent, not zero, if the broker is away: an alert on a missing series fires
    waiting = waiting_tasks(QUEUES)
    depths = [({"queue": name}, float(count)) for name, count in waiting.items()]
    yield gauge("berth_task_queue_depth", "Tasks waiting for a worker.", depths)
