"""The online loop (ClavisMO §3.3, C7): look, and make a plan where one pays.

Two workers may look at once; whoever moves ``Loop.looked_s`` on does the look.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from apps.common.core.errors import ConflictError
from apps.common.core.preconditions import require_generation
from apps.inventory.selectors import cluster_now
from apps.operations.core.states import Topic
from apps.operations.services import NewEvent, record_events
from apps.placement.models import Cause, Loop, Mode, PlanState
from apps.placement.selectors import plans as selectors
from apps.placement.selectors.preferences import weights_in_force
from apps.placement.services.plans import NewPlan, write_plan
from apps.placement.services.proposing import NothingGained, propose

REST: Final = 10.0  # wall time between looks, over what a search may take; a look may take two
Propose = Callable[..., NewPlan | NothingGained]


def set_loop(changes: Mapping[str, Any], *, expected: int | None = None) -> Loop:
    """Change settings of the loop.

    Parameters
    ----------
    changes : new values by field of `Loop`
    """
    with transaction.atomic():
        row = selectors.lock_loop()
        require_generation(expected, row.generation)
        for name, value in changes.items():
            setattr(row, name, value)
        row.generation += 1
        row.save()
        record_events([_event("loop.updated", {"mode": row.mode, **changes})])
    return row


def claim_look() -> float | None:
    """Take the look that is due; the cluster time of it, None where none is due or another has it.

    A clock that was set back (a new instance) is looked at anew. Where cluster time is faster than
    wall time, looks are further apart: searches take a fifth of a processor at most.
    """
    row, now_s, now = selectors.loop(), cluster_now(), timezone.now()
    if 0.0 <= now_s - row.looked_s < row.every_s:
        return None
    if row.looked_at is not None and now - row.looked_at < timedelta(seconds=REST * row.solve_s):
        return None
    claimed = Loop.objects.filter(pk=1, looked_s=row.looked_s).update(
        looked_s=now_s, looked_at=now
    )
    return now_s if claimed else None


def look(*, make: Propose = propose) -> str:
    """Make a plan if the mode asks for one and nothing stands against it; what was found."""
    settings = selectors.loop()
    active = weights_in_force()
    if settings.mode == Mode.OFF:
        return ""
    if active is None:
        return _say("No weights are in force.")
    if (other := selectors.open_plan()) is not None:
        waits = other.state == PlanState.PROPOSED
        return _say(f"{other} {'waits for approval' if waits else 'is under way'}.")
    try:
        made = make(active, cause=Cause.LOOP, settings=settings)
        if isinstance(made, NothingGained):
            return _say(made.reason)
        plan = write_plan(made)
    except ConflictError as error:  # other weights, another plan, racks that are gone
        return _say(str(error))
    moves = f"{len(made.moves):,} move{'s' if len(made.moves) != 1 else ''}"
    return _say(f"{plan} was made: {moves}, F lower by {made.gain:.2g}.", plan=str(plan.pk))


def _say(finding: str, **more: str) -> str:
    """Keep what a look found, unless the last one said the same."""
    last = selectors.last_look()
    if last is None or last.data.get("finding") != finding:
        record_events([_event(selectors.LOOKED, {"finding": finding, **more})])
    return finding


def _event(kind: str, data: Mapping[str, Any]) -> NewEvent:
    return NewEvent(topic=Topic.PLANS, kind=kind, subject=selectors.LOOP_SUBJECT, data=data)
