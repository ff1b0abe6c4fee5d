"""The frame of every page: navigation with counts, cluster name and event stream."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.core.cache import cache
from django.http import HttpRequest

from apps.accounts.core.roles import Role
from apps.accounts.selectors import holds, principal_by_user
from apps.common.infrastructure.stream_origin import stream_origin
from apps.dashboard.core.ranges import earlier_moment
from apps.dashboard.selectors.frames import recorded_span
from apps.inventory.selectors import ClusterTime, cluster, cluster_time
from apps.placement.selectors.plans import proposed_count
from apps.workloads.core.lifecycle import WAITING_STATES
from apps.workloads.selectors import job_counts, visible_projects

COUNT_CACHE_S = 2


@dataclass(frozen=True, slots=True)
class RailItem:
    """One navigation entry; ``pages`` are the names of its subpages.

    On a phone, the bar has the entries marked ``phone``, and the menu of the account the others.
    """

    url: str
    label: str
    icon: str
    pages: tuple[str, ...] = ()
    phone: bool = False
    current: bool = False
    count: int = 0
    role: Role = Role.VIEWER


@dataclass(frozen=True, slots=True)
class Past:
    """What the bar offers of earlier moments, in cluster seconds.

    Attributes
    ----------
    at_s : the moment that the address asks for; None = now
    is_recorded : whether this page can show earlier moments
    first_s, last_s : the recorded moments; None before the first
    """

    at_s: float | None
    is_recorded: bool
    first_s: float | None
    last_s: float | None

    @property
    def is_shown(self) -> bool:
        """Whether the page shows an earlier moment."""
        return self.at_s is not None and self.is_recorded

    @property
    def chosen_s(self) -> float:
        """Position of the slider."""
        return self.at_s if self.at_s is not None else self.last_s or 0.0


@dataclass(frozen=True, slots=True)
class Shell:
    """The frame of a page; ``clocks`` is None for users who are not signed in."""

    cluster_name: str
    stream_url: str
    rail: tuple[tuple[RailItem, ...], ...]
    clocks: ClusterTime | None = None
    past: Past | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """The name of the cluster and the counts in the frame; each user's are cached for 2 s.

    ``counts`` : by page: waiting jobs that the user may see, and proposed plans
    """

    cluster_name: str
    counts: Mapping[str, int]


PAST_PAGES = frozenset({"overview", "map", "decisions"})
RAIL = (
    (
        RailItem("overview", "Overview", "overview", phone=True),
        RailItem("submit", "Submit", "submit", phone=True),
        RailItem("jobs", "Jobs", "jobs", pages=("job",), phone=True),
        RailItem("queues", "Queues", "queues", phone=True),
        RailItem("map", "Cluster map", "map", pages=("server",), phone=True),
        RailItem("applications", "Applications", "apps", pages=("application",)),
    ),
    (
        RailItem("calibrate", "Calibrate", "calibrate"),
        RailItem("plans", "Plans", "plans", pages=("plan",), role=Role.OPERATOR),
        RailItem("decisions", "Decisions", "decisions", pages=("decision",)),
        RailItem("policies", "Policies", "policies", pages=("shadows", "shadow")),
        RailItem("sampling", "Sampling", "sampling"),
        RailItem("lab", "Lab", "lab", pages=("comparison",), role=Role.OPERATOR),
        RailItem("pairs", "Measured pairs", "link", pages=("pair",), role=Role.OPERATOR),
        RailItem("classification", "Classification", "matrix"),
    ),
    (
        RailItem("system", "System", "admin"),
        RailItem("projects", "Projects", "projects", pages=("project",)),
        RailItem("users", "Users", "user", pages=("user",), role=Role.ADMIN),
        RailItem("audit", "Audit log", "audit", role=Role.ADMIN),
    ),
)


def shell_of(request: HttpRequest) -> Shell:
    """Return the frame of one page for the user of a request."""
    match = request.resolver_match
    page = match.url_name if match is not None else ""
    signed_in = request.user.is_authenticated
    facts = _facts(request.user) if signed_in else None
    clocks = cluster_time() if signed_in else None
    counts = facts.counts if facts is not None else {}
    return Shell(
        cluster_name=facts.cluster_name if facts is not None else "",
        stream_url=_stream_url(request) if signed_in else "",
        rail=tuple(
            tuple(
                _shown(item, page or "", counts)
                for item in group
                if item.role is Role.VIEWER or holds(request.user, item.role)
            )
            for group in RAIL
        ),
        clocks=clocks,
        past=_past(request, page or "", clocks) if clocks is not None else None,
    )


def _stream_url(request: HttpRequest) -> str:
    """Return the address of the event stream; empty if there is none."""
    origin = stream_origin(request.get_host())
    return f"{origin}/api/v1/stream/" if origin else ""


def _past(request: HttpRequest, page: str, clocks: ClusterTime) -> Past:
    at_s = earlier_moment(request.GET.get("at"), now_s=clocks.cluster_s)
    is_recorded = page in PAST_PAGES
    return Past(at_s, is_recorded, *(recorded_span() if is_recorded else (None, None)))


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


def _facts(user: Any) -> Facts:
    """Return the name of the cluster and the counts that a user sees; cached for two seconds."""
    sees_all = holds(user, Role.OPERATOR)
    key = f"dashboard.shell.{'all' if sees_all else user.pk}"
    facts: Facts | None = cache.get(key)
    if facts is None:
        jobs = job_counts(None if sees_all else _projects_of(user))
        facts = Facts(cluster().name, {"jobs": jobs.of(WAITING_STATES), "plans": proposed_count()})
        cache.set(key, facts, COUNT_CACHE_S)
    return facts


def _projects_of(user: Any) -> Collection[UUID] | None:
    principal = principal_by_user(user.pk)
    return [] if principal is None else visible_projects(principal)
