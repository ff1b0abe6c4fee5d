"""Measured pairs: predicted against measured co-location."""

import shlex
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.common.core.errors import NotFoundError
from apps.dashboard.core import pair_text
from apps.dashboard.selectors import pairs as selectors
from apps.dashboard.views.access import has_role, page
from apps.dashboard.views.submit import projects_to_submit_to
from apps.inventory.core.backends import Capability
from apps.inventory.selectors import has_servers_with
from apps.operations.core.states import TERMINAL
from apps.testbed.core.pairs.rounds import MIN_ROUNDS
from apps.testbed.selectors.pairs import platforms_for_pairs
from apps.testbed.services.pair_requests import MAX_ROUNDS


@page
def pairs(request: HttpRequest) -> HttpResponse:
    """List the measured pairs with their deviation, and offer to measure another one."""
    if not has_role(request, Role.OPERATOR):
        return _for_operators(request)
    rows = [(row, selectors.sides_of(row)) for row in selectors.listed_pairs()]
    return render(
        request,
        "dashboard/pairs.html",
        {
            "rows": [(row, [(side, *_texts(side)) for side in sides]) for row, sides in rows],
            "runs_commands": has_servers_with(Capability.COMMANDS),
            "programs": selectors.offered_applications(runs_commands=True),
            "emulated": selectors.offered_applications(runs_commands=False),
            "platforms": platforms_for_pairs(),
            "projects": projects_to_submit_to(request),
            "sides": (("first", "First"), ("second", "Second")),
            "min_rounds": MIN_ROUNDS,
            "max_rounds": MAX_ROUNDS,
        },
    )


@page
def pair(request: HttpRequest, pair_id: UUID) -> HttpResponse:
    """Show one pair: the four numbers, and its progress.

    Raises
    ------
    Http404 : there is no such pair.
    """
    if not has_role(request, Role.OPERATOR):
        return _for_operators(request)
    try:
        found = selectors.pair_named(str(pair_id))
    except NotFoundError as error:
        raise Http404(str(error)) from error
    operation, sides = found.operation, selectors.sides_of(found)
    result = found.result or {}
    return render(
        request,
        "dashboard/pair.html",
        {
            "pair": found,
            "pair_key": str(found.pk),
            "operation": operation,
            "is_open": operation.status not in TERMINAL,
            "share": operation.progress / (operation.total or 1),
            "finding": pair_text.finding(sides, is_emulated=found.is_emulated),
            "sides": [(side, shlex.join(side.command), *_texts(side)) for side in sides],
            "rounds": len(result.get("rounds", ())),
            "rejected": result.get("rejected", 0),
        },
    )


def _texts(side: pair_text.SideFacts) -> tuple[str, str, str, str]:
    """Return predicted and measured slowdown with their intervals, as text."""
    return (
        pair_text.number(side.predicted),
        pair_text.interval(side.predicted),
        pair_text.number(side.measured),
        pair_text.interval(side.measured),
    )


def _for_operators(request: HttpRequest) -> HttpResponse:
    """Explain that only operators may measure pairs: each holds a whole server."""
    return render(request, "dashboard/pairs_closed.html", status=403)
