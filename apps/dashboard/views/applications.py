"""The Applications list and one application."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.classification.core.matrix import MatrixName
from apps.classification.models import Override
from apps.dashboard.core import profile_words
from apps.dashboard.core.application_query import KINDS
from apps.dashboard.core.application_query import read as read_query
from apps.dashboard.core.profile_cells import known_in
from apps.dashboard.selectors import application as one
from apps.dashboard.selectors import applications as read
from apps.dashboard.selectors.profiling import profiling_cost, run_rows
from apps.dashboard.views.access import has_role, jobs_seen_by, page
from apps.dashboard.views.lists import asked_page
from apps.inventory.selectors import cluster_now

DEFAULT_MATRIX = MatrixName.TOLERATED


@page
def applications(request: HttpRequest) -> HttpResponse:
    """One page of the list."""
    query = read_query(request.GET.dict())
    seen = jobs_seen_by(request)
    rows, is_stale = asked_page(request, lambda at: read.applications_page(seen, query, cursor=at))
    return render(
        request,
        "dashboard/applications.html",
        {
            "query": query,
            "page": rows,
            "rows": read.application_rows(rows.rows),
            "totals": read.totals(query),
            "kinds": KINDS,
            "stale_cursor": is_stale,
        },
    )


@page
def application(request: HttpRequest, name: str) -> HttpResponse:
    """One application; the matrix in the address says which cells are listed."""
    found = one.shown(name)
    about = found.application
    overrides = one.overrides(about)
    runs = run_rows(about, now_s=cluster_now())
    drift = getattr(about, "drift", None)
    context: dict[str, Any] = {
        "application": about,
        "profile": found.profile,
        "kind": KINDS.get(about.kind, about.kind),
        "jobs": one.job_counts(jobs_seen_by(request), about),
        "drift": drift,
        "drift_text": "" if drift is None else profile_words.drift_text(drift.mean_error),
        "overrides": one.override_rows(overrides, about.kind),
        "in_force": sum(row.withdrawn_at is None for row in overrides),
        "runs": runs,
        "profiling": next((row for row in runs if row.is_open), None),
        "cost": profiling_cost(about),
        "may_change": has_role(request, Role.OPERATOR),
        "may_profile": has_role(request, Role.SUBMITTER),
        "figure_query": f"?{urlencode({'application': about.name})}",
        **_profile(request, found, overrides),
    }
    return render(request, "dashboard/application.html", context)


def _profile(request: HttpRequest, found: one.Shown, made: Sequence[Override]) -> dict[str, Any]:
    """Return what there is to say of a profile; nothing without one."""
    if found.profile is None:
        return {}
    asked = request.GET.get("matrix", "")
    cells, kind = found.cells, found.application.kind
    matrix = MatrixName(asked) if asked in cells else DEFAULT_MATRIX
    return {
        "known": known_in(cells),
        "has_settings": MatrixName.FRAMEWORK in cells,
        "flags": [profile_words.flag(code) for code in found.profile.flags],
        "facts": profile_words.facts(cells, kind),
        "relatives": one.relatives(found),
        "matrix_means": profile_words.MATRIX_MEANS[matrix],
        "tabs": one.matrix_tabs(cells, matrix),
        "cells": one.cell_rows(found, cells, matrix, made),
        "cells_api": f"/api/v1/applications/{quote(found.application.name)}/classification/",
        "choices": one.override_choices(cells, kind),
    }
