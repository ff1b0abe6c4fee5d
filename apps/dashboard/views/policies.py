"""The policies of this installation, and the one that decides on jobs that name none."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.dashboard.views.access import has_role, page
from apps.inventory.selectors import applied_policy
from apps.scheduling.core.registry import chosen_parameters
from apps.scheduling.selectors.policies import listed_policies
from apps.testbed.core.accelerators.registry import ROUND_POLICIES
from apps.testbed.core.replay.queueing.registry import TESTBED_POLICIES


@page
def policies(request: HttpRequest) -> HttpResponse:
    """List the policies with score, source and parameters; administrators may apply one."""
    applied = applied_policy()
    rows = [
        {"policy": each, "parameters": chosen_parameters(each.entry.parameters)}
        for each in listed_policies()
    ]
    return render(
        request,
        "dashboard/policies.html",
        {
            "rows": rows,
            "in_use": next((row["policy"] for row in rows if row["policy"].is_default), None),
            "setting": settings.DEFAULT_POLICY,
            "applied": applied,
            "replayed": [
                (name, entry, chosen_parameters(entry.parameters))
                for name, entry in {**TESTBED_POLICIES, **ROUND_POLICIES}.items()
            ],
            "may_apply": has_role(request, Role.ADMIN),
            "may_compare": has_role(request, Role.OPERATOR),
        },
    )
