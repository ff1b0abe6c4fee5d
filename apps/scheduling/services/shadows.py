"""Start and end shadows: policies that decide on live decisions without committing."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction

from apps.accounts.services import Act, record_act
from apps.common.core.errors import ConflictError, FieldProblem, InvalidInputError
from apps.common.infrastructure.advisory_locks import AdvisoryLock, acquire
from apps.common.infrastructure.database import database_now
from apps.common.infrastructure.deletion import BATCH
from apps.scheduling.core import registry
from apps.scheduling.models import MAX_ERROR, Shadow, ShadowDecision, ShadowEnd
from apps.scheduling.selectors.shadows import running_shadows, shadow_by_id

MIN_SHARE: Final = 0.001
FIRST: Final = UUID(int=0)  # before all decisions of the same moment


def start_shadow(
    *,
    policy: str,
    parameters: Mapping[str, Any],
    share: float,
    until: datetime | None,
    by: UUID | None,
) -> Shadow:
    """Let a policy decide on a share of the decisions from now on.

    Parameters
    ----------
    parameters : of the policy, that are not the defaults
    until : when it ends; None = when somebody stops it

    Raises
    ------
    InvalidInputError : lists the invalid fields.
    ConflictError : as many run as may run at once.
    """
    now = database_now()
    _check(policy, parameters, share, until, now)
    with transaction.atomic():
        acquire(AdvisoryLock.SHADOWS)
        if len(running_shadows()) >= settings.MAX_SHADOWS:
            limit = settings.MAX_SHADOWS
            raise ConflictError(
                f"At most {limit} shadow policies run at once (BERTH_SHADOWS). Stop one first."
            )
        shadow = Shadow.objects.create(
            policy=policy,
            parameters=dict(parameters),
            share=share,
            code_version=settings.BERTH_VERSION,
            started_at=now,
            started_by_id=by,
            until=until,
            cursor_at=now,
            cursor_id=FIRST,
        )
        after = {"parameters": dict(parameters), "share": share}
        record_act(Act("shadow.started", str(shadow.pk), policy, after=after), by=by)
    return shadow_by_id(shadow.pk)


def _parameter_problem(policy: str, name: str, value: Any) -> str | None:
    """Say what is wrong with a parameter; those that agents set follow the live decisions."""
    if registry.agent_parameters(policy, {name: value}):
        return f"{name} is set by the agent that decides, so it cannot be chosen"
    return registry.parameter_problem(policy, name, value)


def _check(
    policy: str,
    parameters: Mapping[str, Any],
    share: float,
    until: datetime | None,
    now: datetime,
) -> None:
    problems: list[FieldProblem] = []
    if policy not in registry.POLICIES:
        detail = f"must be one of {', '.join(sorted(registry.POLICIES))}, not {policy!r}"
        problems.append(FieldProblem("/policy", "unknown_value", detail))
    else:
        found = ((n, _parameter_problem(policy, n, v)) for n, v in parameters.items())
        problems += [
            FieldProblem(f"/parameters/{n}", "invalid", text) for n, text in found if text
        ]
    if not MIN_SHARE <= share <= settings.MAX_SHADOW_SHARE:
        limit = settings.MAX_SHADOW_SHARE
        detail = f"must be within {MIN_SHARE:g} .. {limit:g} (BERTH_SHADOW_SHARE), not {share:g}"
        problems.append(FieldProblem("/share", "out_of_range", detail))
    if until is not None and until <= now:
        detail = f"must be in the future, not {until.isoformat()}"
        problems.append(FieldProblem("/until", "out_of_range", detail))
    if problems:
        raise InvalidInputError(problems)


def stop_shadow(shadow_id: UUID, *, by: UUID | None) -> Shadow:
    """Stop a shadow; its results are kept. Stopping one that has ended has no effect.

    Raises
    ------
    NotFoundError : there is none with this id.
    """
    shadow = shadow_by_id(shadow_id)
    with transaction.atomic():
        if end_shadow(shadow, ShadowEnd.STOPPED):
            record_act(Act("shadow.stopped", str(shadow.pk), shadow.policy), by=by)
    return shadow_by_id(shadow_id)


def end_shadow(shadow: Shadow, end: ShadowEnd, *, error: str = "") -> bool:
    """End a shadow; returns False if it had ended before.

    Parameters
    ----------
    error : of its policy; cut at `MAX_ERROR`
    """
    running = Shadow.objects.filter(pk=shadow.pk, ended_at=None)
    fields = {"ended_at": database_now(), "end": end, "error": error[:MAX_ERROR]}
    return running.update(**fields) == 1


def prune_shadows(*, before: datetime | None) -> int:
    """Delete a batch of compared decisions of shadows that ended before a time, then the shadows.

    Parameters
    ----------
    before : None = delete nothing
    """
    if before is None:
        return 0
    old = Shadow.objects.filter(ended_at__lt=before)
    rows = ShadowDecision.objects.filter(shadow__in=old).values("pk")[:BATCH]
    deleted, _ = ShadowDecision.objects.filter(
        pk__in=list(rows.values_list("pk", flat=True))
    ).delete()
    return deleted or old.delete()[0]
