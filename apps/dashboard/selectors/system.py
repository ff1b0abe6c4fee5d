"""What keeps the cluster going: the clock, agents, backends, logs, long-running operations."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection
from django.db.models import Count, Max, Min, Q

from apps.execution.models import Launch
from apps.inventory.models import Change, Cluster, ServerReading
from apps.inventory.selectors import cluster, cluster_now
from apps.operations.models import Event, Operation
from apps.profiling.models import ProfilingRun, RunState

LATEST = 2_000
OPERATIONS_SHOWN = 20
QUIET_S = 60.0
SILENT_S = 60.0


@dataclass(frozen=True, slots=True)
class Agent:
    """One scheduling agent as its latest decisions show it."""

    name: str
    decisions: int
    placed: int
    conflicts: int
    p50_s: float
    p99_s: float
    last: datetime
    is_quiet: bool


@dataclass(frozen=True, slots=True)
class Backend:
    """One backend that runs jobs."""

    name: str
    requested: int
    running: int
    oldest_request: datetime | None
    overdue: int  # live launches whose lease has run out


@dataclass(frozen=True, slots=True)
class System:
    """The state of the parts."""

    cluster: Cluster
    cluster_s: float
    policy: str
    agents: tuple[Agent, ...]
    backends: tuple[Backend, ...]
    profiling_open: int
    profiling_failed: int
    reporting: int
    silent: int
    oldest_heartbeat: datetime | None
    change_seq: int
    event_seq: int
    database_bytes: int
    operations: Sequence[Operation]

    @property
    def quiet_agents(self) -> int:
        """Agents that have decided nothing for a minute."""
        return sum(agent.is_quiet for agent in self.agents)


def system(*, now: datetime) -> System:
    """Return the state of the parts; a dozen short statements."""
    readings = ServerReading.objects.aggregate(
        all=Count("server_id"),
        silent=Count("server_id", filter=Q(at__lt=now - timedelta(seconds=SILENT_S))),
        oldest=Min("at"),
    )
    runs = dict(ProfilingRun.objects.values_list("state").annotate(n=Count("id")))
    clock = cluster()
    return System(
        cluster=clock,
        cluster_s=cluster_now(),
        policy=settings.DEFAULT_POLICY,
        agents=_agents(now, clock.wall_anchor_s),
        backends=_backends(now),
        profiling_open=runs.get(RunState.QUEUED, 0) + runs.get(RunState.RUNNING, 0),
        profiling_failed=runs.get(RunState.FAILED, 0),
        reporting=readings["all"],
        silent=readings["silent"],
        oldest_heartbeat=readings["oldest"],
        change_seq=Change.objects.aggregate(last=Max("seq"))["last"] or 0,
        event_seq=Event.objects.aggregate(last=Max("seq"))["last"] or 0,
        database_bytes=_database_bytes(),
        operations=list(Operation.objects.order_by("-created_at", "-id")[:OPERATIONS_SHOWN]),
    )


_AGENTS = """
SELECT agent, count(*), count(*) FILTER (WHERE outcome = 'placed'), sum(commit_retries),
       percentile_cont(0.5) WITHIN GROUP (ORDER BY elapsed_s),
       percentile_cont(0.99) WITHIN GROUP (ORDER BY elapsed_s), max(at)
FROM (SELECT agent, outcome, commit_retries, elapsed_s, at FROM scheduling_decision
      WHERE at >= to_timestamp(%s) ORDER BY at DESC, id DESC LIMIT %s) latest
GROUP BY agent ORDER BY agent
"""


def _agents(now: datetime, since_s: float) -> tuple[Agent, ...]:
    """Agents by their latest decisions since the clock was started: earlier ones are gone."""
    with connection.cursor() as cursor:
        cursor.execute(_AGENTS, [since_s, LATEST])
        rows = cursor.fetchall()
    return tuple(
        Agent(name, count, placed, lost, p50, p99, last, (now - last).total_seconds() > QUIET_S)
        for name, count, placed, lost, p50, p99, last in rows
    )


def _backends(now: datetime) -> tuple[Backend, ...]:
    live = Launch.objects.filter(state__in=["requested", "running"])
    rows = live.values_list("backend").annotate(
        requested=Count("id", filter=Q(state="requested")),
        running=Count("id", filter=Q(state="running")),
        oldest=Min("created_at", filter=Q(state="requested")),
        overdue=Count("id", filter=Q(claimed_until__lt=now)),
    )
    return tuple(Backend(*row) for row in rows.order_by("backend"))


def _database_bytes() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        (size,) = cursor.fetchone()
    return int(size)
