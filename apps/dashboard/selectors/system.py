"""Data of the System page: clock, agents, backends, logs and operations."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection
from django.db.models import Count, Max, Min, Q
from django.db.models.functions import Now

from apps.accounts.core.principal import Principal
from apps.common.infrastructure.warm_up import Kernels, warming
from apps.dashboard.core.labels import TARGET_KINDS
from apps.dashboard.core.ranges import TimeRange, time_range
from apps.dashboard.selectors.attention import FAILED_PROFILING
from apps.dashboard.selectors.decision_times import AgentTimes, agent_times
from apps.execution.models import Launch
from apps.inventory.models import Change, Cluster, DefaultPolicy, ServerReading
from apps.inventory.selectors import (
    ClockStep,
    applied_policy,
    cluster,
    cluster_now,
    last_clock_step,
)
from apps.operations.models import Event, Operation
from apps.operations.selectors import operations
from apps.profiling.models import OPEN_STATES, ProfilingRun, RunState
from apps.scheduling.core.sizing.allowances import DEFAULT, KINDS
from apps.scheduling.selectors.allowances import allowance_history
from apps.scheduling.selectors.default_policy import policy_in_use

OPERATIONS_SHOWN = 20
EARLIER_SHOWN = 5  # allowances before the one in force
IDLE_S = 60.0
SILENT_S = 60.0


@dataclass(frozen=True, slots=True)
class AgentActivity:
    """Activity of one scheduling agent."""

    times: AgentTimes
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
class ShownAllowance:
    """Sizing allowance of one kind of target.

    Attributes
    ----------
    quantile, since_s : None until a job has changed it
    earlier : values before it, newest first
    """

    target: str
    value: float
    quantile: float | None
    jobs: int
    since_s: float | None
    earlier: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class System:
    """State of the parts of the system."""

    cluster: Cluster
    cluster_s: float
    clock_step: ClockStep | None  # the last one
    policy: str
    applied: DefaultPolicy  # the policy that an administrator applied
    agents: tuple[AgentActivity, ...]
    all_agents: AgentTimes | None  # None without a decision
    span: TimeRange  # of the decisions
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
    allowances: tuple[ShownAllowance, ...]

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
    span = time_range(None, now_s=cluster_now())
    times = agent_times(span)
    return System(
        cluster=clock,
        cluster_s=span.last_s,
        clock_step=last_clock_step(),
        policy=policy_in_use(),
        applied=applied_policy(),
        agents=tuple(
            AgentActivity(row, (now - row.last).total_seconds() > IDLE_S)
            for row in times[:-1]
            if row.last.timestamp() >= clock.wall_anchor_s  # others are of an earlier run
        ),
        all_agents=times[-1] if times else None,
        span=span,
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
        allowances=_allowances(),
    )


def _allowances() -> tuple[ShownAllowance, ...]:
    rows = allowance_history()
    found = []
    for kind in KINDS:
        own = [row for row in rows if row.kind == kind]
        newest = own[0] if own else None
        found.append(
            ShownAllowance(
                target=TARGET_KINDS[kind],
                value=DEFAULT.of(kind) if newest is None else newest.value,
                quantile=None if newest is None else newest.quantile,
                jobs=0 if newest is None else newest.jobs,
                since_s=None if newest is None else newest.cluster_s,
                earlier=tuple(row.value for row in own[1 : 1 + EARLIER_SHOWN]),
            )
        )
    return tuple(found)


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
