"""Reads for the pages of shadow policies."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from django.db.models import QuerySet

from apps.dashboard.core.shadow_text import regret_text
from apps.scheduling.core.records.shadow_summary import Estimate
from apps.scheduling.models import Decision, Shadow, ShadowDecision
from apps.scheduling.selectors.shadows import shadow_decisions, shadows
from apps.workloads.models import Job

LISTED: Final = 50
DIFFERENT: Final = 20


class DifferentDecision(NamedTuple):
    """One of the most different decisions.

    Attributes
    ----------
    job : name; empty if the decision is no longer stored
    regret, parts : as text; empty if only one policy placed the job
    try_query : query of the page of the decision that decides it again by the shadow's policy
    """

    row: ShadowDecision
    job: str
    regret: str
    parts: str
    try_query: str

    @property
    def choices(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """The live choice and that of the shadow."""
        return self.row.live, self.row.shadowed


def listed_shadows() -> list[Shadow]:
    """Return the newest shadows."""
    return list(shadows().order_by("-started_at", "-id")[:LISTED])


def most_different(shadow: Shadow, visible: QuerySet[Job]) -> Sequence[DifferentDecision]:
    """Return the decisions with the largest differences, the largest first; none that agree."""
    rows = shadow_decisions(shadow).filter(difference__gt=0.0)
    found = list(rows.order_by("-difference", "-id")[:DIFFERENT])
    stored = Decision.objects.filter(pk__in=[row.decision_id for row in found])
    stored = stored.filter(job__in=visible.values("id"))
    names = dict(stored.values_list("pk", "job__name"))
    query = try_query(shadow)
    return [
        DifferentDecision(row, names.get(row.decision_id, ""), *_regret(row), query)
        for row in found
    ]


def _regret(row: ShadowDecision) -> tuple[str, str]:
    if row.job_regret is None or row.neighbour_regret is None:
        return "", ""
    values = (row.job_regret + row.neighbour_regret, row.job_regret, row.neighbour_regret)
    total, job, neighbours = (regret_text(Estimate(value, None, None))[0] for value in values)
    return total, f"job {job}, neighbours {neighbours}"


def try_query(shadow: Shadow) -> str:
    """Return the query that fills in and tries the form of a decision."""
    weights = " ".join(f"{name}={value:g}" for name, value in shadow.parameters.items())
    chosen: dict[str, Any] = {"policy": shadow.policy, "weights": weights}
    return urlencode({name: value for name, value in chosen.items() if value})
