"""Rows of shadows for tests, with plausible defaults for omitted fields."""

from typing import Any
from uuid import UUID

from apps.scheduling.models import Decision, Shadow, ShadowDecision
from tests import factories


def shadow(policy: str = "random", **values: Any) -> Shadow:
    """A shadow that runs."""
    defaults: dict[str, Any] = {
        "share": 0.5,
        "code_version": "0.1.0",
        "started_at": factories.MOMENT,
        "cursor_at": factories.MOMENT,
        "cursor_id": UUID(int=0),
    }
    return Shadow.objects.create(policy=policy, **{**defaults, **values})


def shadow_decision(
    by: Shadow, of: Decision, *, job: float = 0.2, neighbours: float = -0.05, **values: Any
) -> ShadowDecision:
    """A live decision that a shadow has compared; both placed the job, on different servers."""
    live = {"servers": ["srv-1"], "platforms": ["J"], "units": 1, "performance": 0.9,
            "neighbours": 0.95, "reason": ""}  # fmt: skip
    other = {**live, "servers": ["srv-2"], "performance": 0.9 - job,
             "neighbours": 0.95 - neighbours}  # fmt: skip
    defaults: dict[str, Any] = {
        "batch_id": of.batch_id or of.pk,
        "at": of.at,
        "policy": of.policy,
        "kind": "one unit",
        "platform": "J",
        "live_placed": True,
        "shadow_placed": True,
        "same_units": False,
        "same_servers": False,
        "same_platforms": True,
        "job_regret": job,
        "neighbour_regret": neighbours,
        "difference": abs(job + neighbours),
        "live": live,
        "shadowed": other,
    }
    return ShadowDecision.objects.create(shadow=by, decision_id=of.pk, **{**defaults, **values})
