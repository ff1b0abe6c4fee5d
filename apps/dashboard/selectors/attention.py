"""What needs a person: one sentence, one fact, one action each, the most urgent first."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, QuerySet
from django.urls import reverse

from apps.classification.models import Drift
from apps.dashboard.core import words
from apps.dashboard.core.profile_words import drift_text
from apps.inventory.models import Server, ServerState
from apps.operations.models import Operation
from apps.profiling.models import ProfilingRun, RunState
from apps.workloads.core.lifecycle import WAITING_STATES, JobState
from apps.workloads.models import Job

SHOWN = 6
SILENT_AFTER_S = 60.0
PER_KIND = 3
SILENT_NAMED = 2
HOPELESS = (
    "Invalid",
    "Unclassifiable",
    "ProfilingFailed",
    "InfeasibleTarget",
    "NoMatchingServer",
)


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to look at."""

    icon: str
    tone: str
    title: str
    fact: str
    action: str
    url: str

    @property
    def cls(self) -> str:
        """Classes of the icon."""
        return f"ic {self.tone}"


@dataclass(frozen=True, slots=True)
class Attention:
    """The list and how many more there are."""

    items: tuple[Item, ...]
    total: int

    @property
    def more(self) -> int:
        """How many are not shown."""
        return self.total - len(self.items)


def needs_attention(seen: QuerySet[Job], *, now: datetime) -> Attention:
    """Return the first items of every kind, in order of urgency."""
    found = [
        _below_target(seen),
        _hopeless(seen),
        _silent(now),
        _failed_jobs(seen, now),
        _drifted(),
        _failed_profiling(),
        _failed_operations(now),
        _draining(),
    ]
    return Attention(
        items=tuple(_fair([items for items, _ in found])), total=sum(count for _, count in found)
    )


def _fair(kinds: list[list[Item]]) -> list[Item]:
    """Return a few of every kind, then more of the most urgent while there is room."""
    taken = [items[:PER_KIND] for items in kinds]
    for i, items in enumerate(kinds):
        room = SHOWN - sum(len(some) for some in taken)
        taken[i] = items[: len(taken[i]) + max(0, room)]
    return [item for items in taken for item in items][:SHOWN]


def _below_target(seen: QuerySet[Job]) -> tuple[list[Item], int]:
    jobs = seen.filter(state=JobState.RUNNING, attainment__lt=1.0)
    rows = jobs.order_by("attainment").select_related("application")[:SHOWN]
    items = [
        Item(
            "trib",
            "bad",
            f"{job.name} is below its target",
            f"{words.significant(job.attainment or 0.0, 2)} × target, "
            f"{words.target_text(job.target)}",
            "Explain",
            reverse("job", args=[job.id]),
        )
        for job in rows
    ]
    return items, jobs.count()


def _hopeless(seen: QuerySet[Job]) -> tuple[list[Item], int]:
    jobs = seen.filter(state__in=WAITING_STATES, reason_code__in=HOPELESS)
    items = [
        Item(
            "tri",
            "warn",
            f"{job.name} cannot be placed",
            words.reason_text(job.reason_code),
            "Explain",
            reverse("job", args=[job.id]),
        )
        for job in jobs.order_by("created_at")[:SHOWN]
    ]
    return items, jobs.count()


def _silent(now: datetime) -> tuple[list[Item], int]:
    silent = Server.objects.filter(
        reading__at__lt=now - timedelta(seconds=SILENT_AFTER_S)
    ) | Server.objects.filter(state=ServerState.DOWN)
    count = silent.count()
    if count > SILENT_NAMED:
        title = f"{words.thousands(count)} servers are silent or down"
        fact = f"no heartbeat for {words.duration(SILENT_AFTER_S)} or more"
        return [Item("sq", "warn", title, fact, "Open", reverse("map") + "?colour=age")], 1
    rows = silent.select_related("reading", "platform").order_by("reading__at", "id")
    items = []
    for server in rows:
        reading = getattr(server, "reading", None)
        age = "" if reading is None else words.duration(round((now - reading.at).total_seconds()))
        items.append(
            Item(
                "sq",
                "warn",
                f"{server.name} is {'down' if server.state == ServerState.DOWN else 'silent'}"
                + (f" for {age}" if age else ""),
                f"platform {server.platform.name}, "
                f"{words.plural(server.used_cores, 'unit')} allocated",
                "Open",
                reverse("server", args=[server.name]),
            )
        )
    return items, count


def _failed_jobs(seen: QuerySet[Job], now: datetime) -> tuple[list[Item], int]:
    recent = seen.filter(state=JobState.FAILED, finished_at__gte=now - timedelta(hours=1))
    items = [
        Item(
            "trib",
            "bad",
            f"{job.name} failed",
            job.reason_message or words.reason_text(job.reason_code),
            "Explain",
            reverse("job", args=[job.id]),
        )
        for job in recent.order_by("-finished_at")[:SHOWN]
    ]
    return items, recent.count()


def _drifted() -> tuple[list[Item], int]:
    drifted = Drift.objects.filter(flagged_s__isnull=False)
    items = [
        Item(
            "tri",
            "warn",
            f"{row.application.name} is not what its profile says",
            f"runs {drift_text(row.mean_error)} than predicted since "
            f"{words.cluster_day(row.flagged_s or 0.0)}",
            "Re-profile",
            reverse("application", args=[row.application.name]),
        )
        for row in drifted.select_related("application").order_by("-flagged_s")[:2]
    ]
    return items, drifted.count()


def _failed_profiling() -> tuple[list[Item], int]:
    failed = ProfilingRun.objects.filter(state=RunState.FAILED)
    by_application = failed.values("application__name").annotate(runs=Count("id"))
    items = [
        Item(
            "circ",
            "t3",
            f"{row['application__name']} could not be profiled",
            words.plural(row["runs"], "run") + " failed",
            "Open",
            reverse("application", args=[row["application__name"]]),
        )
        for row in by_application.order_by("-runs", "application__name")[:2]
    ]
    return items, by_application.count()


def _failed_operations(now: datetime) -> tuple[list[Item], int]:
    failed = Operation.objects.filter(status="failed", created_at__gte=now - timedelta(hours=1))
    items = [
        Item(
            "circ",
            "t3",
            f"Operation {operation.kind} failed",
            operation.message or str(operation.id),
            "Open",
            f"/api/v1/operations/{operation.id}/",
        )
        for operation in failed.order_by("-created_at")[:2]
    ]
    return items, failed.count()


def _draining() -> tuple[list[Item], int]:
    draining = Server.objects.filter(state=ServerState.DRAINING, used_cores__gt=0)
    items = [
        Item(
            "circ",
            "t3",
            f"{server.name} is draining",
            f"{words.plural(server.used_cores, 'unit')} still allocated",
            "Open",
            reverse("server", args=[server.name]),
        )
        for server in draining.order_by("id")[:2]
    ]
    return items, draining.count()
