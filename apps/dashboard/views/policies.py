"""The policies of this installation, and the one that decides on jobs that name none."""

from typing import TYPE_CHECKING

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.dashboard.views.access import has_role, page
from apps.inventory.selectors import applied_policy
from apps.scheduling.core.registry import chosen_parameters
from apps.scheduling.selectors.policies import listed_policies
from apps.testbed.core.replay.queueing.registry import TESTBED_POLICIES, QueueingEntry

if TYPE_CHECKING:
    from apps.testbed.core.accelerators.registry import RoundEntry


@page
def policies(request: HttpRequest) -> HttpResponse:
    """List the policies, the one in use first; administrators may apply another."""
    from apps.testbed.core.accelerators.registry import ROUND_POLICIES  # noqa: PLC0415 - scipy

    found = sorted(listed_policies(), key=lambda each: not each.is_default)
    replayed: dict[str, QueueingEntry | RoundEntry] = {**TESTBED_POLICIES, **ROUND_POLICIES}
    return render(
        request,
        "dashboard/policies.html",
        {
            "rows": [(each, chosen_parameters(each.entry.parameters)) for each in found],
            "in_use": next((each for each in found if each.is_default), None),
            "setting": settings.DEFAULT_POLICY,
            "applied": applied_policy(),
            "replayed": [
                (name, entry, chosen_parameters(entry.parameters))
                for name, entry in replayed.items()
            ],
            "may_apply": has_role(request, Role.ADMIN),
            "may_compare": has_role(request, Role.OPERATOR),
        },
    )
