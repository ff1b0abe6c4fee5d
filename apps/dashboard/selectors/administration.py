"""Rows of the pages that administer users and projects, and of the audit log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Count, F, Q, QuerySet

from apps.accounts.core.principal import Principal
from apps.accounts.models import AuditEntry, Project, SignInFailures, Token, User
from apps.accounts.selectors import (
    audit_entries,
    blocked_sign_ins,
    live_tokens,
    users,
    visible_projects,
)
from apps.common.api.paging import Order
from apps.dashboard.core.audit_text import FieldChange, action_text, changes, object_url
from apps.dashboard.core.formats import plural
from apps.dashboard.figures.bars import Bars
from apps.dashboard.selectors.lists import ListPage, list_page
from apps.workloads.core.lifecycle import ACTIVE_STATES, WAITING_STATES
from apps.workloads.models import Job

PAGE_ROWS = 50


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Filters of the audit log; empty ones match all."""

    username: str = ""
    kind: str = ""
    name: str = ""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether any filter is set."""
        return bool(self.username or self.kind or self.name or self.since or self.until)

    def parameters(self) -> dict[str, str]:
        """Return the same filters for the REST API."""
        values = {
            "username": self.username,
            "object_kind": self.kind,
            "object_name": self.name,
            "at__gte": self.since.isoformat() if self.since else "",
            "at__lt": (self.until + timedelta(days=1)).isoformat() if self.until else "",
        }
        return {name: value for name, value in values.items() if value}


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One entry as the page shows it."""

    entry: AuditEntry
    action: str
    changes: Sequence[FieldChange]
    url: str


@dataclass(frozen=True, slots=True)
class ProjectRow:
    """One project as the list shows it."""

    project: Project
    members: int
    labels: Sequence[str]


def audit_page(query: AuditQuery, *, cursor: str | None) -> ListPage[AuditEntry]:
    """Return one page of the matching entries, newest first."""
    named: Mapping[str, Any] = query.parameters()
    order = Order(("at", "id"), descending=True)
    return list_page(
        audit_entries().filter(**named), order, limit=PAGE_ROWS, cursor=cursor or None
    )


def audit_rows(entries: Sequence[AuditEntry]) -> list[AuditRow]:
    """Return the rows of a page; no statement."""
    return [
        AuditRow(
            entry,
            action_text(entry.action),
            changes(entry.before, entry.after),
            object_url(entry.object_kind, entry.object_name),
        )
        for entry in entries
    ]


def users_page(text: str, *, cursor: str | None) -> ListPage[User]:
    """Return one page of the users whose name contains a text."""
    rows = users().filter(username__icontains=text) if text else users()
    return list_page(rows, Order(("username",)), limit=PAGE_ROWS, cursor=cursor or None)


def blocked() -> QuerySet[SignInFailures]:
    """Return the blocked sign-ins, longest wait first."""
    return blocked_sign_ins().order_by("-blocked_until")


def project_rows(visible: QuerySet[Project]) -> list[ProjectRow]:
    """Return projects by name; archived ones last."""
    counted = visible.annotate(members=Count("memberships"))
    return [
        ProjectRow(project, project.members, label_texts(project))
        for project in counted.order_by(F("archived_at").asc(nulls_first=True), "name")
    ]


def project_names(principal: Principal, prefix: str, *, limit: int = 200) -> list[str]:
    """Return names of the caller's projects."""
    rows = visible_projects(principal).filter(name__startswith=prefix).order_by("name")
    return list(rows.values_list("name", flat=True)[:limit])


def jobs_by_project(visible: QuerySet[Job]) -> Bars:
    """Return the running and waiting jobs among ``visible`` by project, by name."""
    rows = (
        visible.filter(state__in=[*ACTIVE_STATES, *WAITING_STATES])
        .order_by("project__name")
        .values_list("project__name")
        .annotate(active=Count("id", filter=Q(state__in=ACTIVE_STATES)), every=Count("id"))
    )
    names, active, every = zip(*rows, strict=True) if rows else ((), (), ())
    waiting = [n - running for n, running in zip(every, active, strict=True)]
    heading = f"{plural(sum(active), 'job')} running, {sum(waiting):,} waiting"
    series = {"Running": active, "Waiting": waiting}
    return Bars(heading, "Now, by project", "Project", names, series, "jobs", "No job is running")


def label_texts(project: Project) -> list[str]:
    """Return the labels of a project as NAME=VALUE, by name."""
    return [f"{name}={value}" for name, value in sorted(project.labels.items())]


def tokens(user_id: UUID) -> QuerySet[Token]:
    """Return the tokens of a user, newest first."""
    return live_tokens(user_id).order_by("-created_at")
