"""Data of the Plans page: the list of plans, the loop and thrashing jobs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Count, QuerySet

from apps.common.api.paging import Order
from apps.dashboard.core import formats
from apps.dashboard.core.migration_counts import MigrationCounts
from apps.dashboard.selectors.lists import ListPage, list_page
from apps.dashboard.selectors.plan import counts_of, sides
from apps.inventory.selectors import cluster_now
from apps.placement.core.rebalancing.lifecycle import PlanState
from apps.placement.core.rebalancing.verdicts import FinishedPlan, realised_share, reduction
from apps.placement.models import LoopMode, Plan, PlannedMigrationState, RebalancingLoop
from apps.placement.selectors import plans as placement_plans
from apps.placement.selectors.preferences import weights_in_force

ORDER: Final = Order(columns=("created_at", "id"), descending=True)
PAGE_ROWS: Final = 25
OBJECTIVES: Final = {"P": "power", "D": "diversity", "C": "crossing traffic"}
PLAN_NAME: Final = re.compile(r"(\bp-\d{4,})")


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One row of the list; ``share`` is realised over predicted gain, None before the end."""

    plan: Plan
    counts: MigrationCounts
    badge: str
    watts_before: float
    watts_after: float
    gain: float
    share: float | None
    result: str


def plans_page(*, cursor: str | None, state: str = "") -> tuple[ListPage[Plan], list[PlanRow]]:
    """Return one page of plans, newest first."""
    rows: QuerySet[Any] = placement_plans.plans()
    if state:
        rows = rows.filter(state=state)
    page = list_page(rows, ORDER, limit=PAGE_ROWS, cursor=cursor or None)
    return page, [_plan_row(plan) for plan in page.rows]


def _plan_row(plan: Plan) -> PlanRow:
    before, after = sides(plan.predicted)
    count = {state: getattr(plan, f"migrations_{state.value}") for state in PlannedMigrationState}
    counts = counts_of(count, excluded=getattr(plan, "migrations_left_out"))  # noqa: B009 - annotated
    return PlanRow(
        plan=plan,
        counts=counts,
        badge=counts.badge(plan.state),
        watts_before=before.get("watts", 0.0),
        watts_after=after.get("watts", 0.0),
        gain=reduction(plan.predicted, "F"),
        share=_share(plan),
        result=plan.verdict or plan.message,
    )


def _share(plan: Plan) -> float | None:
    if not plan.realised or not plan.realised.get("after"):
        return None
    return realised_share(FinishedPlan(plan.predicted, plan.realised))


def counts() -> list[tuple[str, int]]:
    """Return the number of plans by state, in lifecycle order, without empty states."""
    counts_by_state = dict(
        Plan.objects.order_by().values_list("state").annotate(plans=Count("pk"))
    )
    return [
        (state, counts_by_state[state]) for state in list(PlanState) if counts_by_state.get(state)
    ]


@dataclass(frozen=True, slots=True)
class LoopState:
    """The settings of the loop and the finding of its last check.

    Attributes
    ----------
    is_on : whether it creates plans
    finding : of the last check, in parts: text, and whether it is the name of a plan
    checked : time of the last check; "" = never
    blocker : the waiting or running plan that keeps the loop from creating another
    """

    settings: RebalancingLoop
    modes: Sequence[tuple[str, str]]
    is_on: bool
    finding: Sequence[tuple[str, bool]]
    checked: str
    blocker: Plan | None
    weights: str
    preference_set: str


def loop_state() -> LoopState:
    """Return the settings of the loop and its last finding."""
    settings, active, tick = (
        placement_plans.loop_settings(),
        weights_in_force(),
        placement_plans.last_tick_event(),
    )
    return LoopState(
        settings=settings,
        modes=LoopMode.choices,
        is_on=settings.mode != LoopMode.OFF,
        finding=_linked(tick.data["finding"] if tick else ""),
        checked=formats.cluster_day(settings.looked_s) if settings.looked_s else "",
        blocker=placement_plans.open_plan(),
        weights="" if active is None else weights_text(active.weights),
        preference_set="" if active is None else active.preference_set.name,
    )


def _linked(text: str) -> list[tuple[str, bool]]:
    """Split a text at plan names; every second part is a plan name."""
    return [(part, place % 2 == 1) for place, part in enumerate(PLAN_NAME.split(text))]


def weights_text(weights: Mapping[str, float]) -> str:
    """Return weights as text, e.g. "power 0.22, diversity 1, crossing traffic 0.36"."""
    order = [
        *(name for name in OBJECTIVES if name in weights),
        *(weights.keys() - OBJECTIVES.keys()),
    ]
    return ", ".join(
        f"{OBJECTIVES.get(name, name)} {formats.trimmed(weights[name], 2)}" for name in order
    )


def thrash() -> placement_plans.ThrashingReport:
    """Return the jobs migrated too often within the last hour of cluster time."""
    return placement_plans.thrashing_report(
        cluster_now(), allowed=placement_plans.loop_settings().moves_per_job
    )
