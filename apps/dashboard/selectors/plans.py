"""Plans in a list, how the loop is set, what moves to and fro."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Count, QuerySet

from apps.common.paging import Order, Page, keyset_page
from apps.dashboard.core import words
from apps.dashboard.core.move_tally import Tally
from apps.dashboard.selectors.plan import sides, tally_of
from apps.inventory.selectors import cluster_now
from apps.placement.core.verdicts import Ended, realised_share, saved
from apps.placement.models import Loop, Mode, MoveState, Plan, PlanState
from apps.placement.selectors import plans as read
from apps.placement.selectors.preferences import weights_in_force

ORDER: Final = Order(columns=("created_at", "id"), descending=True)
PAGE_ROWS: Final = 25
LABELS: Final = {"P": "power", "D": "diversity", "C": "crossing traffic"}
PLAN_NAME: Final = re.compile(r"(\bp-\d{4,})")


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One plan in short; ``share`` realised of the gain predicted, None before it ended."""

    plan: Plan
    tally: Tally
    badge: str
    watts_before: float
    watts_after: float
    gain: float
    share: float | None
    says: str


def plans_page(*, cursor: str | None, state: str = "") -> tuple[Page[Plan], list[PlanRow]]:
    """One page of plans, newest first."""
    rows: QuerySet[Any] = read.plans()
    if state:
        rows = rows.filter(state=state)
    page = keyset_page(rows, ORDER, limit=PAGE_ROWS, cursor=cursor or None)
    return page, [_row(plan) for plan in page.rows]


def _row(plan: Plan) -> PlanRow:
    before, after = sides(plan.predicted)
    count = {state: getattr(plan, f"moves_{state.value}") for state in MoveState}
    tally = tally_of(count, left_out=getattr(plan, "moves_left_out"))  # noqa: B009 - annotated
    return PlanRow(
        plan=plan,
        tally=tally,
        badge=tally.badge(plan.state),
        watts_before=before.get("watts", 0.0),
        watts_after=after.get("watts", 0.0),
        gain=saved(plan.predicted, "F"),
        share=_share(plan),
        says=plan.verdict or plan.message,
    )


def _share(plan: Plan) -> float | None:
    if not plan.realised or not plan.realised.get("after"):
        return None
    return realised_share(Ended(plan.predicted, plan.realised))


def counts() -> list[tuple[str, int]]:
    """How many plans are in each state that any is in, in the order of their life."""
    found = dict(Plan.objects.order_by().values_list("state").annotate(plans=Count("pk")))
    return [(state, found[state]) for state in PlanState.values if found.get(state)]


@dataclass(frozen=True, slots=True)
class LoopState:
    """The loop's settings and what it found last.

    Attributes
    ----------
    is_on : whether it looks for plans
    finding : of the last look, in parts: text, and whether it is the name of a plan
    looked : when, in words; "" = never
    blocker : the plan that waits or is under way: the loop makes no other meanwhile
    """

    settings: Loop
    modes: Sequence[tuple[str, str]]
    is_on: bool
    finding: Sequence[tuple[str, bool]]
    looked: str
    blocker: Plan | None
    weights: str
    preference_set: str


def loop_state() -> LoopState:
    """Return how the loop is set, and what it said last."""
    settings, active, look = read.loop(), weights_in_force(), read.last_look()
    return LoopState(
        settings=settings,
        modes=Mode.choices,
        is_on=settings.mode != Mode.OFF,
        finding=_linked(look.data["finding"] if look else ""),
        looked=words.cluster_day(settings.looked_s) if settings.looked_s else "",
        blocker=read.open_plan(),
        weights="" if active is None else weights_text(active.weights),
        preference_set="" if active is None else active.preference_set.name,
    )


def _linked(text: str) -> list[tuple[str, bool]]:
    """Split a text at the names of plans, which are every other part."""
    return [(part, place % 2 == 1) for place, part in enumerate(PLAN_NAME.split(text))]


def weights_text(weights: Mapping[str, float]) -> str:
    """Return weights in words, e.g. "power 0.22, diversity 1, crossing traffic 0.36"."""
    order = [*(name for name in LABELS if name in weights), *(weights.keys() - LABELS.keys())]
    return ", ".join(
        f"{LABELS.get(name, name)} {words.trimmed(weights[name], 2)}" for name in order
    )


def thrash() -> read.Thrash:
    """Return what was moved too often within the last hour of cluster time."""
    return read.thrash(cluster_now(), allowed=read.loop().moves_per_job)
