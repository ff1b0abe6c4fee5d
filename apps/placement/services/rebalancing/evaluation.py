"""Evaluate plans whose migrations have all ended: realised against predicted effect."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.execution.models import Migration
from apps.inventory.selectors import cluster_now
from apps.operations.services import record_events
from apps.placement.core.rebalancing.lifecycle import STARTED, final_action, next_state
from apps.placement.core.rebalancing.verdicts import FinishedPlan, verdict
from apps.placement.models import Plan, PlannedMigrationState
from apps.placement.selectors import plans as selectors
from apps.placement.services.rebalancing.plans import plan_event, save_plan

Measures = dict[str, Any]
# (weights, {allocation id: previous server id}) -> measures as it is, and with containers put back
MeasureEffect = Callable[[Mapping[str, float], Mapping[int, int]], tuple[Measures, Measures]]


def evaluate_plan(plan_id: UUID, *, measure: MeasureEffect) -> None:
    """Measure the effect of a plan whose migrations have all ended, and end the plan; once.

    Containers come and go while a plan runs, so its "before" and "after" are not of one cluster.
    The realised effect compares the cluster as it is with the same cluster with the migrated
    containers put back on their previous servers. Both are stored.

    Parameters
    ----------
    measure : measures the cluster as it is, and with containers put back
    """
    plan = Plan.objects.get(pk=plan_id)
    migrations = list(plan.migrations.all())
    done = {
        m.migration_id: m
        for m in migrations
        if m.state == PlannedMigrationState.DONE and m.migration_id
    }
    targets = Migration.objects.filter(pk__in=done).values_list("pk", "target_allocation_id")
    previous = {allocation: done[pk].from_server_id for pk, allocation in targets}
    current, put_back = measure(plan.weights, previous) if done else ({}, {})
    counts = Counter(m.state for m in migrations)
    done_count = counts[PlannedMigrationState.DONE]
    failed_count = counts[PlannedMigrationState.FAILED]
    realised = {
        "before": put_back,
        "after": current,
        "moves": {state.value: counts[state] for state in PlannedMigrationState},
        "gone": len(previous) - selectors.held_count(previous),
        **selectors.job_changes_since(plan.snapshot),
    }
    ended = FinishedPlan(
        predicted=plan.predicted,
        realised=realised,
        done=done_count,
        failed=failed_count,
        asked=len(migrations) - sum(map(selectors.is_left_out, migrations)),
    )
    with transaction.atomic():
        rows = Plan.objects.select_for_update(skip_locked=True)
        locked = rows.filter(pk=plan_id, ended_s__isnull=True).first()
        if locked is None:
            return
        if locked.state in STARTED:
            locked.state = next_state(locked.state, final_action(done_count, failed_count))
        locked.ended_s = cluster_now()
        realised["seconds"] = locked.ended_s - (locked.began_s or locked.ended_s)
        locked.realised, locked.verdict = realised, verdict(ended)
        save_plan(locked)
        record_events([plan_event(locked, "ended", verdict=locked.verdict)])
