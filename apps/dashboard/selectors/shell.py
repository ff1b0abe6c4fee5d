"""What stands around every page.

The rail with its counts, the cluster's name, where live data comes from.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest

from apps.accounts.core.roles import Role
from apps.accounts.selectors import holds
from apps.inventory.models import Cluster
from apps.placement.selectors.plans import proposed_count
from apps.workloads.core.lifecycle import JobState
from apps.workloads.models import Job

WAITING = (JobState.SUBMITTED, JobState.PROFILING, JobState.QUEUED)
COUNT_KEPT_S = 2


@dataclass(frozen=True, slots=True)
class RailItem:
    """One entry of the rail; ``pages`` are the names of the pages that belong to it."""

    url: str
    label: str
    icon: str
    pages: tuple[str, ...] = ()
    phone: bool = False
    current: bool = False
    count: int = 0


@dataclass(frozen=True, slots=True)
class Shell:
    """The frame of a page; ``plans_wait`` for approval, None for those who may not see plans."""

    cluster_name: str
    stream_url: str
    rail: tuple[tuple[RailItem, ...], ...]
    plans_wait: int | None = None


RAIL = (
    (
        RailItem("overview", "Overview", "overview", phone=True),
        RailItem("submit", "Submit", "submit", phone=True),
        RailItem("jobs", "Jobs", "jobs", pages=("job",), phone=True),
        RailItem("map", "Cluster map", "map", pages=("server",), phone=True),
        RailItem("applications", "Applications", "apps", pages=("application",)),
    ),
    (
        RailItem("calibrate", "Calibrate", "calibrate"),
        RailItem("plans", "Plans", "plans", pages=("plan",)),
        RailItem("decisions", "Decisions", "decisions", pages=("decision",), phone=True),
        RailItem("sampling", "Sampling", "sampling"),
        RailItem("classification", "Classification", "matrix"),
    ),
    (RailItem("system", "System", "admin"),),
)


def shell_of(request: HttpRequest) -> Shell:
    """Return the frame around one page, for the person who asked for it."""
    match = request.resolver_match
    page = match.url_name if match is not None else ""
    signed_in = request.user.is_authenticated
    name, counts = _facts() if signed_in else ("", {})
    sees_plans = holds(request.user, Role.OPERATOR)
    return Shell(
        cluster_name=name,
        stream_url=str(getattr(settings, "BERTH_STREAM_URL", "")) if signed_in else "",
        rail=tuple(tuple(_shown(item, page or "", counts) for item in group) for group in RAIL),
        plans_wait=counts.get("plans", 0) if sees_plans else None,
    )


def _shown(item: RailItem, page: str, counts: Mapping[str, int]) -> RailItem:
    return RailItem(
        item.url,
        item.label,
        item.icon,
        pages=item.pages,
        phone=item.phone,
        current=page == item.url or page in item.pages,
        count=counts.get(item.url, 0),
    )


def _facts() -> tuple[str, dict[str, int]]:
    """Return the cluster's name, and how many jobs wait and plans ask for approval, by page.

    Asked of the database once in two seconds.
    """
    facts: tuple[str, dict[str, int]] | None = cache.get("dashboard.shell")
    if facts is None:
        name = Cluster.objects.filter(id=1).values_list("name", flat=True).first()
        counts = {
            "jobs": Job.objects.filter(state__in=WAITING).count(),
            "plans": proposed_count(),
        }
        facts = (name or "no cluster", counts)
        cache.set("dashboard.shell", facts, COUNT_KEPT_S)
    return facts
