"""Data of the System page: clock, agents, backends, logs and operations."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection
from django.db.models import Count, Max, Min, Q
from django.db.models.functions import Now

from apps.accounts.core.principal import Principal
from apps.common.infrastructure.database import fetch_rows
from apps.common.infrastructure.warm_up import Kernels, warming
from apps.dashboard.selectors.attention import FAILED_PROFILING
from apps.execution.models import Launch
from apps.inventory.models import Change, Cluster, ServerReading
from apps.inventory.selectors import ClockStep, cluster, cluster_now, last_clock_step
from apps.operations.models import Event, Operation
from apps.operations.selectors import operations
from apps.profiling.models import OPEN_STATES, ProfilingRun, RunState

LATEST = 2_000
OPERATIONS_SHOWN = 20
IDLE_S = 60.0
SILENT_S = 60.0


@dataclass(frozen=True, slots=True)
class AgentActivity:
    """Activity of one scheduling agent, from its latest decisions."""

    name: str
    decisions: int
    placed: int
    conflicts: int
    p50_s: float
    p99_s: float
    last: datetime
    is_idle: bool


@dataclass(frozen=True, slots=True)
class BackendActivity:
    """Load of one backend."""

    name: str
    requested: int
    running: int
    oldest_request: datetime | None
    overdue: int  # live launches with an expired lease


@dataclass(frozen=True, slots=True)
class System:
    """State of the parts of the system."""

    cluster: Cluster
    cluster_s: float
    clock_step: ClockStep | None  # the last one
    policy: str
    agents: tuple[AgentActivity, ...]
    backends: tuple[BackendActivity, ...]
    profiling_open: int
    profiling_failed: int  # within a day
    reporting: int
    silent: int
    oldest_heartbeat: datetime | None
    change_seq: int
    event_seq: int
    database_bytes: int
    operations: Sequence[Operation]
    warming: tuple[Kernels, ...]

    @property
    def idle_agents(self) -> int:
        """Number of agents without a decision for a minute."""
        return sum(agent.is_idle for agent in self.agents)


def system(principal: Principal, *, now: datetime) -> System:
    """Return the state of all parts, and the caller's operations; a dozen short statements."""
    readings = ServerReading.objects.aggregate(
        all=Count("server_id"),
        silent=Count("server_id", filter=Q(at__lt=now - timedelta(seconds=SILENT_S))),
        oldest=Min("at"),
    )
    is_recent = Q(state=RunState.FAILED, created_at__gte=now - FAILED_PROFILING)
    shown = ProfilingRun.objects.filter(Q(state__in=OPEN_STATES) | is_recent)
    runs = dict(shown.values_list("state").annotate(n=Count("id")))
    clock = cluster()
    return System(
        cluster=clock,
        cluster_s=cluster_now(),
        clock_step=last_clock_step(),
        policy=settings.DEFAULT_POLICY,
        agents=_agents(now, clock.wall_anchor_s),
        backends=_backends(),
        profiling_open=runs.get(RunState.QUEUED, 0) + runs.get(RunState.RUNNING, 0),
        profiling_failed=runs.get(RunState.FAILED, 0),
        reporting=readings["all"],
        silent=readings["silent"],
        oldest_heartbeat=readings["oldest"],
        change_seq=Change.objects.aggregate(last=Max("seq"))["last"] or 0,
        event_seq=Event.objects.aggregate(last=Max("seq"))["last"] or 0,
        database_bytes=_database_bytes(),
        operations=list(operations(principal).order_by("-created_at", "-id")[:OPERATIONS_SHOWN]),
        warming=warming(),
    )


_AGENTS = """
SELECT agent, count(*), count(*) FILTER (WHERE outcome = 'placed'), sum(commit_retries),
       percentile_cont(0.5) WITHIN GROUP (ORDER BY elapsed_s),
       percentile_cont(0.99) WITHIN GROUP (ORDER BY elapsed_s), max(at)
FROM (SELECT agent, outcome, commit_retries, elapsed_s, at FROM scheduling_decision
      WHERE at >= to_timestamp(%s) ORDER BY at DESC, id DESC LIMIT %s) latest
GROUP BY agent ORDER BY agent
"""


def _agents(now: datetime, since_s: float) -> tuple[AgentActivity, ...]:
    """Return agents by their latest decisions since the clock started."""
    rows = fetch_rows(_AGENTS, [since_s, LATEST])
    return tuple(
        AgentActivity(
            name, count, placed, lost, p50, p99, last, (now - last).total_seconds() > IDLE_S
        )
        for name, count, placed, lost, p50, p99, last in rows
    )


def _backends() -> tuple[BackendActivity, ...]:
    live = Launch.objects.filter(state__in=["requested", "running"])
    rows = live.values_list("backend").annotate(
        requested=Count("id", filter=Q(state="requested")),
        running=Count("id", filter=Q(state="running")),
        oldest=Min("created_at", filter=Q(state="requested")),
        overdue=Count("id", filter=Q(claimed_until__lt=Now())),
    )
    return tuple(BackendActivity(*row) for row in rows.order_by("backend"))


def _database_bytes() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        (size,) = cursor.fetchone()
    return int(size)
