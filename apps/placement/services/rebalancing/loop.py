"""The rebalancing loop (ClavisMO §4.1, C7): each tick creates a plan if one gains enough.

Two workers may wake at the same time; the one that advances ``looked_s`` runs the tick.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from django.db import transaction

from apps.accounts.services import Act, record_act
from apps.common.core.errors import ConflictError
from apps.common.core.preconditions import require_generation
from apps.common.infrastructure.database import database_now
from apps.inventory.selectors import cluster_now
from apps.operations.core.states import Topic
from apps.operations.services import NewEvent, record_events
from apps.placement.core.rebalancing.lifecycle import PlanState
from apps.placement.models import LoopMode, PlanCause, RebalancingLoop
from apps.placement.selectors import plans as selectors
from apps.placement.selectors.preferences import weights_in_force
from apps.placement.services.rebalancing.planner import NoGain, propose_plan
from apps.placement.services.rebalancing.plans import NewPlan, counted, write_plan

# minimum wall time between ticks, as a multiple of the search limit; a tick may search twice
MIN_INTERVAL_FACTOR: Final = 10.0
PlanProposer = Callable[..., NewPlan | NoGain]


def update_loop_settings(
    changes: Mapping[str, Any], *, expected: int | None = None
) -> RebalancingLoop:
    """Change settings of the loop.

    Parameters
    ----------
    changes : new values by field of `RebalancingLoop`
    """
    with transaction.atomic():
        row = selectors.lock_loop_settings()
        require_generation(expected, row.generation)
        before = {name: getattr(row, name) for name in changes}
        for name, value in changes.items():
            setattr(row, name, value)
        row.generation += 1
        row.save()
        record_act(Act("loop.updated", "1", "rebalancing loop", before, dict(changes)))
        record_events([_event("loop.updated", {"mode": row.mode, **changes})])
    return row


def claim_tick() -> float | None:
    """Claim the tick that is due; returns its cluster time, or None if there is none to claim.

    A clock that was set back belongs to a new instance: the tick is due. If cluster time runs
    faster than wall time, ticks are spaced out so that searches use at most 20 % of a CPU core.
    """
    row, now_s, now = selectors.loop_settings(), cluster_now(), database_now()
    if 0.0 <= now_s - row.looked_s < row.every_s:
        return None
    pause = timedelta(seconds=MIN_INTERVAL_FACTOR * row.solve_s)
    if row.looked_at is not None and now - row.looked_at < pause:
        return None
    claimed = RebalancingLoop.objects.filter(pk=1, looked_s=row.looked_s).update(
        looked_s=now_s, looked_at=now
    )
    return now_s if claimed else None


def tick(*, propose: PlanProposer = propose_plan) -> str:
    """Create a plan if the mode allows it and no other is open; returns the finding."""
    settings = selectors.loop_settings()
    active = weights_in_force()
    if settings.mode == LoopMode.OFF:
        return ""
    if active is None:
        return _record_finding("No weights are in force.")
    if (other := selectors.open_plan()) is not None:
        is_proposed = other.state == PlanState.PROPOSED
        return _record_finding(f"{other} {'awaits approval' if is_proposed else 'is under way'}.")
    try:
        proposal = propose(active, cause=PlanCause.LOOP, settings=settings)
        if isinstance(proposal, NoGain):
            return _record_finding(proposal.reason)
        plan = write_plan(proposal)
    except ConflictError as error:  # other weights, another plan, racks that no longer exist
        return _record_finding(str(error))
    migrations = counted(plan.proposed["moves"], "migration")
    finding = f"{plan} was created: {migrations}, F lower by {proposal.gain:.2g}."
    return _record_finding(finding, plan=str(plan.pk))


def _record_finding(finding: str, **more: str) -> str:
    """Record the finding of a tick, unless the previous one was the same."""
    last = selectors.last_tick_event()
    if last is None or last.data.get("finding") != finding:
        record_events([_event(selectors.TICK_EVENT, {"finding": finding, **more})])
    return finding


def _event(kind: str, data: Mapping[str, Any]) -> NewEvent:
    return NewEvent(topic=Topic.PLANS, kind=kind, subject=selectors.LOOP_SUBJECT, data=data)
