"""Settling plans whose moves have all ended: what was predicted against what came of it."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.execution.models import Migration
from apps.inventory.selectors import cluster_now
from apps.operations.services import record_events
from apps.placement.core.plan_states import BEGUN, after, end_of
from apps.placement.core.verdicts import Ended, verdict
from apps.placement.models import MoveState, Plan
from apps.placement.selectors import plans as selectors
from apps.placement.services.plans import plan_event, save

# (weights, {allocation: server it would be on}) -> measures as it is, and as it would be
Compare = Callable[[Mapping[str, float], Mapping[int, int]], tuple[dict[str, Any], dict[str, Any]]]


def settle(plan_id: UUID, *, compare: Compare) -> None:
    """Measure what a plan achieved and end it; once, and only when all its moves have ended.

    Containers come and go while a plan runs, so that "before" and "after" are not of the same
    cluster. What counts as realised is what its moves make of the containers that are there now:
    the cluster as it is against the same with the moved containers put back. Both, and the plain
    measures, are kept.

    Parameters
    ----------
    compare : measures the cluster as it is, and with containers put back
    """
    plan = Plan.objects.get(pk=plan_id)
    moves = list(plan.moves.all())
    done = {m.migration_id: m for m in moves if m.state == MoveState.DONE and m.migration_id}
    arrived = Migration.objects.filter(pk__in=done).values_list("pk", "target_allocation_id")
    back = {allocation: done[pk].from_server_id for pk, allocation in arrived}
    now, without = compare(plan.weights, back) if done else ({}, {})
    counts = Counter(move.state for move in moves)
    realised = {
        "before": without,
        "after": now,
        "moves": {state.value: counts[state] for state in MoveState},
        "gone": len(back) - selectors.still_held(back),
        **selectors.moved_meanwhile(plan.snapshot),
    }
    ended = Ended(
        predicted=plan.predicted,
        realised=realised,
        done=counts[MoveState.DONE],
        failed=counts[MoveState.FAILED],
        asked=len(moves) - sum(map(selectors.is_left_out, moves)),
    )
    with transaction.atomic():
        rows = Plan.objects.select_for_update(skip_locked=True)
        plan_now = rows.filter(pk=plan_id, ended_s__isnull=True).first()
        if plan_now is None:
            return
        if plan_now.state in BEGUN:
            action = end_of(counts[MoveState.DONE], counts[MoveState.FAILED])
            plan_now.state = after(plan_now.state, action)
        plan_now.ended_s = cluster_now()
        realised["seconds"] = plan_now.ended_s - (plan_now.began_s or plan_now.ended_s)
        plan_now.realised, plan_now.verdict = realised, verdict(ended)
        save(plan_now)
        record_events([plan_event(plan_now, "ended", verdict=plan_now.verdict)])
