"""The Lab: comparisons of policies, and one comparison."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.common.core.errors import NotFoundError
from apps.dashboard.core import lab_facts, lab_matrix
from apps.dashboard.selectors import lab as selectors
from apps.dashboard.selectors.lab_weights import offered_weights
from apps.dashboard.views.access import has_role, page, visible_to
from apps.inventory.selectors import applied_policy
from apps.scheduling.core.registry import POLICIES, chosen_parameters
from apps.scheduling.selectors.default_policy import policy_in_use
from apps.testbed.core.lab import MAX_HOURS, WORLD_NAMES
from apps.testbed.core.lab_loads import at_load, loads_of
from apps.testbed.core.lab_options import COMPARED_POLICIES
from apps.testbed.core.replay.queueing.registry import TESTBED_POLICIES
from apps.testbed.models import LabComparison
from apps.testbed.selectors.lab import runs_of_other_versions, servers_to_copy
from apps.testbed.selectors.lab_results import result_with

DAY_H: Final = 24.0
MIN_H: Final = 0.1
SOURCES: Final = {"history": "history of this cluster", "facebook": "generated day"}
NO_CHOICES: Final[dict[str, Any]] = {"baselines": [], "loads": [], "at": "", "against": ""}


@page
def lab(request: HttpRequest) -> HttpResponse:
    """List the comparisons, and offer a new one, filled in with what the address has.

    Parameters of the address: ``scenario``, a stored one; ``policy``, repeatable, which are
    compared with the policy in use; ``hours`` of history; ``weights``, repeatable, a preference
    set or numbers such as ``P=0.22,D=1,C=0.36``, by which the policy in use also migrates.
    """
    if not has_role(request, Role.OPERATOR):
        return _for_operators(request)
    in_use = policy_in_use()
    named = {*request.GET.getlist("policy")} & COMPARED_POLICIES.keys()
    chosen = named or (set() if "weights" in request.GET else {"random"})
    policies = [
        (name, name == in_use, name in {*chosen, in_use}, name in TESTBED_POLICIES)
        for name in COMPARED_POLICIES
    ]
    asked = request.GET.get("scenario", "")
    hours = selectors.number_in(request.GET.get("hours", "")) or DAY_H
    return render(
        request,
        "dashboard/lab.html",
        {
            "comparisons": selectors.listed_comparisons(),
            "policies": policies,
            "hours": f"{min(max(hours, MIN_H), MAX_HOURS):g}",
            "parameters": [
                (name, chosen_parameters(each.parameters))
                for name, each in COMPARED_POLICIES.items()
            ],
            "servers": servers_to_copy().count(),
            "weights": offered_weights(request.GET.getlist("weights")),
            "scenario": selectors.scenario_of(asked) if asked else None,
            "worlds": [(name, name == settings.EMULATED_WORLD) for name in WORLD_NAMES],
        },
    )


@page
def comparison(request: HttpRequest, comparison_id: UUID) -> HttpResponse:
    """Show one comparison: its progress, and its result once all runs are complete.

    Raises
    ------
    Http404 : there is no such comparison.
    """
    if not has_role(request, Role.OPERATOR):
        return _for_operators(request)
    try:
        found = selectors.comparison_of(str(comparison_id))
    except NotFoundError as error:
        raise Http404(str(error)) from error
    return render(request, "dashboard/comparison.html", _shown(request, found))


def _shown(request: HttpRequest, found: LabComparison) -> dict[str, Any]:
    """Return what the page of a comparison shows, with load and baseline of the address."""
    operation = found.operation
    load = selectors.number_in(request.GET.get("load", ""))
    result = result_with(found, request.GET.get("baseline", ""), load)
    changes = (
        lab_facts.application_changes(result, request.GET.get("setting", "")) if result else None
    )
    baseline = result["baseline"] if result else found.baseline
    return {
        "comparison": found,
        "operation": operation,
        "older_runs": runs_of_other_versions(found).count() if result is None else 0,
        "operation_share": operation.progress / (operation.total or 1),
        "is_open": operation.status in {"pending", "running"},
        "verdict": result["verdict"] if result else "",
        "baseline": baseline,
        **(_choices(found, result, load) if result else NO_CHOICES),
        **_application(request, found, result),
        "matrix": selectors.matrix(found, baseline, load),
        "facts": lab_facts.facts(result) if result else (),
        "changes": changes,
        "jobs": changes
        and selectors.changed_jobs(
            found, visible_to(request), setting=changes.setting, baseline=baseline
        ),
        "sweep": selectors.sweep(found),
        "settings": [
            (each["name"], lab_matrix.options_text(each["options"])) for each in found.grid
        ],
        "source": SOURCES[found.scenario.source["workload"]["kind"]],
        "query": f"?comparison={found.pk}",
    }


def _application(
    request: HttpRequest, found: LabComparison, result: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return what the page needs to offer a winner that is not in use."""
    winner = lab_facts.winning_policy(result, found.grid) if result else ""
    in_use = policy_in_use()
    is_new = winner in POLICIES and winner != in_use
    beaten = any(each["options"] == {"policy": in_use} for each in found.grid)
    return {
        "winner": winner if is_new else "",
        "in_use": in_use,
        "has_beaten": beaten,
        "applied_generation": applied_policy().generation,
        "may_apply": is_new and beaten and has_role(request, Role.ADMIN),
    }


def _choices(
    found: LabComparison, result: Mapping[str, Any], load: float | None
) -> dict[str, Any]:
    """Return the baselines and loads that the page offers, and the query of its figures."""
    own = at_load(found.result or {}, load)["baseline"]
    loads = loads_of(found.result or {})
    shown = result.get("load", 1.0)
    query = {"baseline": result["baseline"]} if result["baseline"] != own else {}
    at = {"load": f"{shown:g}"} if len(loads) > 1 else {}
    return {
        "baselines": [(name, "" if name == own else name) for name in result["settings"]],
        "loads": [(f"{each:g}", each == shown) for each in loads] if len(loads) > 1 else [],
        "at": "&" + urlencode(at) if at else "",
        "against": "&" + urlencode(query | at) if query or at else "",
    }


def _for_operators(request: HttpRequest) -> HttpResponse:
    """Explain that only operators may use the Lab: scenarios copy jobs of all projects."""
    return render(request, "dashboard/lab_closed.html", status=403)
