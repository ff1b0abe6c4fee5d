"""The Applications list and one application."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.classification.core.matrix import MatrixName
from apps.classification.models import Override
from apps.dashboard.core import profile_text
from apps.dashboard.core.application_query import KINDS
from apps.dashboard.core.application_query import read as read_query
from apps.dashboard.core.profile_cells import count_known
from apps.dashboard.selectors import application as details
from apps.dashboard.selectors import applications as listing
from apps.dashboard.selectors.profiling import profiling_cost, run_rows
from apps.dashboard.views.access import caller, has_role, page, projects_of, visible_to
from apps.dashboard.views.lists import requested_page
from apps.inventory.selectors import cluster_now

DEFAULT_MATRIX = MatrixName.TOLERATED


@page
def applications(request: HttpRequest) -> HttpResponse:
    """Show one page of the Applications list."""
    query = read_query(request.GET.dict())
    projects = projects_of(request)
    rows, is_stale = requested_page(
        request, lambda at: listing.applications_page(projects, query, cursor=at)
    )
    return render(
        request,
        "dashboard/applications.html",
        {
            "query": query,
            "page": rows,
            "rows": listing.application_rows(rows.rows),
            "totals": listing.totals(query),
            "kinds": KINDS,
            "stale_cursor": is_stale,
        },
    )


@page
def application(request: HttpRequest, name: str) -> HttpResponse:
    """Show one application; the address names the matrix whose cells are listed."""
    profiled = details.profiled_application(name)
    row = profiled.application
    overrides = details.overrides(row)
    runs = run_rows(caller(request), row, now_s=cluster_now())
    drift = getattr(row, "drift", None)
    context: dict[str, Any] = {
        "application": row,
        "profile": profiled.profile,
        "kind": KINDS.get(row.kind, row.kind),
        "jobs": details.job_counts(visible_to(request), row),
        "drift": drift,
        "drift_text": "" if drift is None else profile_text.drift_text(drift.mean_error),
        "overrides": details.override_rows(overrides, row.kind),
        "in_force": sum(override.withdrawn_at is None for override in overrides),
        "runs": runs,
        "reports": details.imported_reports(row),
        "profiling": next((run for run in runs if run.is_open), None),
        "cost": profiling_cost(row),
        "may_change": has_role(request, Role.OPERATOR),
        "may_profile": has_role(request, Role.SUBMITTER),
        "figure_query": f"?{urlencode({'application': row.name})}",
        **_profile_context(request, profiled, overrides),
    }
    return render(request, "dashboard/application.html", context)


def _profile_context(
    request: HttpRequest, profiled: details.ProfiledApplication, overrides: Sequence[Override]
) -> dict[str, Any]:
    """Return the data of a profile; empty without one."""
    if profiled.profile is None:
        return {}
    requested = request.GET.get("matrix", "")
    cells, kind = profiled.cells, profiled.application.kind
    matrix = MatrixName(requested) if requested in cells else DEFAULT_MATRIX
    return {
        "known": count_known(cells),
        "has_settings": MatrixName.FRAMEWORK in cells,
        "flags": [profile_text.flag(code) for code in profiled.profile.flags],
        "facts": profile_text.facts(cells, kind),
        "similar": details.similar_applications(profiled),
        "matrix_means": profile_text.MATRIX_MEANS[matrix],
        "tabs": details.matrix_tabs(cells, matrix),
        "cells": details.cell_rows(profiled, cells, matrix, overrides),
        "cells_api": f"/api/v1/applications/{quote(profiled.application.name)}/classification/",
        "choices": details.override_choices(cells, kind),
    }
