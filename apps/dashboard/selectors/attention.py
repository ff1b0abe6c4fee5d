"""Items that need attention, most urgent first: a sentence, a fact and an action each."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, QuerySet
from django.urls import reverse

from apps.accounts.core.principal import Principal
from apps.classification.models import Drift
from apps.dashboard.core import formats, labels
from apps.dashboard.core.profile_text import drift_text
from apps.inventory.models import Server, ServerState
from apps.operations.selectors import operations
from apps.profiling.models import ProfilingRun, RunState
from apps.workloads.core.lifecycle import WAITING_STATES, JobState
from apps.workloads.models import Job
from apps.workloads.selectors import visible_jobs

SHOWN = 6
SILENT_AFTER_S = 60.0
PER_KIND = 3
SILENT_NAMED = 2
FAILED_PROFILING = timedelta(days=1)  # how long failed runs are shown
UNPLACEABLE = (
    "Invalid",
    "Unclassifiable",
    "ProfilingFailed",
    "InfeasibleTarget",
    "CostExceeded",
    "NoMatchingServer",
)


@dataclass(frozen=True, slots=True)
class AttentionItem:
    """One item that needs attention."""

    icon: str
    tone: str
    title: str
    fact: str
    action: str
    url: str

    @property
    def cls(self) -> str:
        """CSS classes of the icon."""
        return f"ic {self.tone}"


@dataclass(frozen=True, slots=True)
class Hidden:
    """The items of one kind that are not shown: how many, and the page that lists them."""

    text: str
    url: str


@dataclass(frozen=True, slots=True)
class Attention:
    """The first items, the total number, and what is not shown."""

    items: tuple[AttentionItem, ...]
    total: int
    hidden: tuple[Hidden, ...]


@dataclass(frozen=True, slots=True)
class _Kind:
    """The first items of a kind and their number; ``noun`` is singular and plural."""

    noun: tuple[str, str]
    url: str
    items: list[AttentionItem]
    count: int


def needs_attention(principal: Principal, *, now: datetime) -> Attention:
    """Return the first items of every kind that concern the caller, in order of urgency."""
    visible = visible_jobs(principal)
    jobs, applications = reverse("jobs"), reverse("applications")
    servers = ("server", "servers")
    kinds = [
        _Kind(
            ("job below target", "jobs below target"),
            f"{jobs}?q=is:below",
            *_below_target(visible),
        ),
        _Kind(
            ("job that cannot be placed", "jobs that cannot be placed"),
            f"{jobs}?q=state:queued",
            *_unplaceable(visible),
        ),
        _Kind(servers, reverse("map") + "?colour=age", *_silent(now)),
        _Kind(
            ("failed job", "failed jobs"), f"{jobs}?q=state:failed", *_failed_jobs(visible, now)
        ),
        _Kind(("drifted application", "drifted applications"), applications, *_drifted()),
        _Kind(
            ("application without a profile", "applications without a profile"),
            applications,
            *_failed_profiling(now),
        ),
        _Kind(
            ("failed operation", "failed operations"),
            _operations_page(),
            *_failed_operations(principal, now),
        ),
        _Kind(("draining server", "draining servers"), reverse("map"), *_draining()),
    ]
    shown = _fair([kind.items for kind in kinds])
    return Attention(
        items=tuple(item for items in shown for item in items),
        total=sum(kind.count for kind in kinds),
        hidden=tuple(
            Hidden(formats.plural(kind.count - len(items), *kind.noun), kind.url)
            for kind, items in zip(kinds, shown, strict=True)
            if kind.count > len(items)
        ),
    )


def _fair(kinds: list[list[AttentionItem]]) -> list[list[AttentionItem]]:
    """Return a few items of every kind, then fill up with the most urgent kinds."""
    chosen = [items[:PER_KIND] for items in kinds]
    for i, items in enumerate(kinds):
        room = SHOWN - sum(len(items) for items in chosen)
        chosen[i] = items[: len(chosen[i]) + max(0, room)]
    room = SHOWN
    for i, items in enumerate(chosen):
        chosen[i] = items[:room]
        room -= len(chosen[i])
    return chosen


def _below_target(visible: QuerySet[Job]) -> tuple[list[AttentionItem], int]:
    jobs = visible.filter(state=JobState.RUNNING, attainment__lt=1.0)
    rows = jobs.order_by("attainment").select_related("application")[:SHOWN]
    items = [
        AttentionItem(
            "trib",
            "bad",
            f"{job.name} is below its target",
            f"{formats.over_target(job.attainment or 0.0, 2)} × target, "
            f"{formats.target_text(job.target)}",
            "Explain",
            reverse("job", args=[job.id]),
        )
        for job in rows
    ]
    return items, jobs.count()


def _unplaceable(visible: QuerySet[Job]) -> tuple[list[AttentionItem], int]:
    jobs = visible.filter(state__in=WAITING_STATES, reason_code__in=UNPLACEABLE)
    items = [
        AttentionItem(
            "tri",
            "warn",
            f"{job.name} cannot be placed",
            labels.reason_text(job.reason_code),
            "Explain",
            reverse("job", args=[job.id]),
        )
        for job in jobs.order_by("created_at")[:SHOWN]
    ]
    return items, jobs.count()


def _silent(now: datetime) -> tuple[list[AttentionItem], int]:
    silent = Server.objects.filter(
        reading__at__lt=now - timedelta(seconds=SILENT_AFTER_S)
    ) | Server.objects.filter(state=ServerState.DOWN)
    count = silent.count()
    if count > SILENT_NAMED:
        title = f"{formats.thousands(count)} servers are silent or down"
        fact = f"no heartbeat for {formats.duration(SILENT_AFTER_S)} or more"
        return [
            AttentionItem("sq", "warn", title, fact, "Open", reverse("map") + "?colour=age")
        ], 1
    rows = silent.select_related("reading", "platform").order_by("reading__at", "id")
    items = []
    for server in rows:
        reading = getattr(server, "reading", None)
        age = (
            "" if reading is None else formats.duration(round((now - reading.at).total_seconds()))
        )
        items.append(
            AttentionItem(
                "sq",
                "warn",
                f"{server.name} is {'down' if server.state == ServerState.DOWN else 'silent'}"
                + (f" for {age}" if age else ""),
                f"platform {server.platform.name}, "
                f"{formats.plural(server.used_cores, 'unit')} allocated",
                "Open",
                reverse("server", args=[server.name]),
            )
        )
    return items, count


def _failed_jobs(visible: QuerySet[Job], now: datetime) -> tuple[list[AttentionItem], int]:
    recent = visible.filter(state=JobState.FAILED, finished_at__gte=now - timedelta(hours=1))
    items = [
        AttentionItem(
            "trib",
            "bad",
            f"{job.name} failed",
            job.reason_message or labels.reason_text(job.reason_code),
            "Explain",
            reverse("job", args=[job.id]),
        )
        for job in recent.order_by("-finished_at")[:SHOWN]
    ]
    return items, recent.count()


def _drifted() -> tuple[list[AttentionItem], int]:
    drifted = Drift.objects.filter(flagged_s__isnull=False)
    items = [
        AttentionItem(
            "tri",
            "warn",
            f"Predictions for {row.application.name} have drifted",
            f"{drift_text(row.mean_error)} than predicted since "
            f"{formats.cluster_day(row.flagged_s or 0.0)}",
            "Re-profile",
            reverse("application", args=[row.application.name]),
        )
        for row in drifted.select_related("application").order_by("-flagged_s")[:2]
    ]
    return items, drifted.count()


def _failed_profiling(now: datetime) -> tuple[list[AttentionItem], int]:
    since = now - FAILED_PROFILING
    failed = ProfilingRun.objects.filter(state=RunState.FAILED, created_at__gte=since)
    by_application = failed.values("application__name").annotate(runs=Count("id"))
    items = [
        AttentionItem(
            "circ",
            "t3",
            f"{row['application__name']} could not be profiled",
            formats.plural(row["runs"], "run") + " failed within a day",
            "Open",
            reverse("application", args=[row["application__name"]]),
        )
        for row in by_application.order_by("-runs", "application__name")[:2]
    ]
    return items, by_application.count()


def _failed_operations(principal: Principal, now: datetime) -> tuple[list[AttentionItem], int]:
    since = now - timedelta(hours=1)
    failed = operations(principal).filter(status="failed", created_at__gte=since)
    items = [
        AttentionItem(
            "circ",
            "t3",
            f"{labels.operation_text(operation.kind)} failed",
            operation.message or str(operation.id),
            "Open",
            _operations_page(),
        )
        for operation in failed.order_by("-created_at")[:2]
    ]
    return items, failed.count()


def _operations_page() -> str:
    return reverse("system") + "#system-operations"


def _draining() -> tuple[list[AttentionItem], int]:
    draining = Server.objects.filter(state=ServerState.DRAINING, used_cores__gt=0)
    items = [
        AttentionItem(
            "circ",
            "t3",
            f"{server.name} is draining",
            f"{formats.plural(server.used_cores, 'unit')} still allocated",
            "Open",
            reverse("server", args=[server.name]),
        )
        for server in draining.order_by("id")[:2]
    ]
    return items, draining.count()
