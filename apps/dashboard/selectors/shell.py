"""The frame of every page: navigation with counts, cluster name and event stream."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest

from apps.accounts.core.roles import Role
from apps.accounts.selectors import holds
from apps.inventory.models import Cluster
from apps.placement.selectors.plans import proposed_count
from apps.workloads.core.lifecycle import WAITING_STATES
from apps.workloads.selectors import job_counts

COUNT_CACHE_S = 2


@dataclass(frozen=True, slots=True)
class RailItem:
    """One navigation entry; ``pages`` are the names of its subpages."""

    url: str
    label: str
    icon: str
    pages: tuple[str, ...] = ()
    phone: bool = False
    current: bool = False
    count: int = 0
    role: Role = Role.VIEWER


@dataclass(frozen=True, slots=True)
class Shell:
    """The frame of a page; ``plans_wait`` is None for users who may not see plans."""

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
    (
        RailItem("system", "System", "admin"),
        RailItem("projects", "Projects", "queues", pages=("project",)),
        RailItem("users", "Users", "user", pages=("user",), role=Role.ADMIN),
        RailItem("audit", "Audit log", "audit", role=Role.ADMIN),
    ),
)


def shell_of(request: HttpRequest) -> Shell:
    """Return the frame of one page for the user of a request."""
    match = request.resolver_match
    page = match.url_name if match is not None else ""
    signed_in = request.user.is_authenticated
    name, counts = _facts() if signed_in else ("", {})
    sees_plans = holds(request.user, Role.OPERATOR)
    return Shell(
        cluster_name=name,
        stream_url=str(getattr(settings, "BERTH_STREAM_URL", "")) if signed_in else "",
        rail=tuple(
            tuple(
                _shown(item, page or "", counts)
                for item in group
                if item.role is Role.VIEWER or holds(request.user, item.role)
            )
            for group in RAIL
        ),
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
    """Return the cluster name, and the numbers of waiting jobs and proposed plans by page.

    Cached for two seconds.
    """
    facts: tuple[str, dict[str, int]] | None = cache.get("dashboard.shell")
    if facts is None:
        name = Cluster.objects.filter(id=1).values_list("name", flat=True).first()
        counts = {
            "jobs": job_counts(None).of(WAITING_STATES),
            "plans": proposed_count(),
        }
        facts = (name or "no cluster", counts)
        cache.set("dashboard.shell", facts, COUNT_CACHE_S)
    return facts
