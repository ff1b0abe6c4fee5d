"""How long history is kept; 0 = for ever. See docs/operations.md."""

from typing import Final

from controlplane.settings.values import number, whole

_MAX: Final = 100_000.0  # a time that long ago is still a time


def _limit(name: str, default: float) -> float:
    value = number(name, default, high=_MAX)
    return int(value) if value.is_integer() else value


# Wall time: hours of responses to an Idempotency-Key, days of everything else.
BERTH_IDEMPOTENCY_HOURS = _limit("BERTH_IDEMPOTENCY_HOURS", 24)
BERTH_EVENT_DAYS = _limit("BERTH_EVENT_DAYS", 7)
BERTH_CHANGE_DAYS = _limit("BERTH_CHANGE_DAYS", 7)
BERTH_REPLAY_DAYS = _limit("BERTH_REPLAY_DAYS", 7)
BERTH_JOB_DAYS = _limit("BERTH_JOB_DAYS", 90)
BERTH_SYSTEM_DAYS = _limit("BERTH_SYSTEM_DAYS", 7)
BERTH_BATCH_DAYS = _limit("BERTH_BATCH_DAYS", 90)
BERTH_OPERATION_DAYS = _limit("BERTH_OPERATION_DAYS", 30)
BERTH_FRONT_DAYS = _limit("BERTH_FRONT_DAYS", 30)
BERTH_PLAN_DAYS = _limit("BERTH_PLAN_DAYS", 90)
BERTH_LAB_DAYS = _limit("BERTH_LAB_DAYS", 90)
BERTH_SHADOW_DAYS = _limit("BERTH_SHADOW_DAYS", 90)
# Cluster time: reports of running jobs, then their means of a minute and of an hour; frames.
BERTH_SAMPLE_HOURS = _limit("BERTH_SAMPLE_HOURS", 2)
BERTH_SAMPLE_MINUTE_DAYS = _limit("BERTH_SAMPLE_MINUTE_DAYS", 2)
BERTH_SAMPLE_DAYS = _limit("BERTH_SAMPLE_DAYS", 90)
BERTH_FRAME_DAYS = _limit("BERTH_FRAME_DAYS", 14)
# Newest rows of each application.
BERTH_PROFILES_KEPT = whole("BERTH_PROFILES_KEPT", 20)
BERTH_PREDICTION_ERRORS_KEPT = whole("BERTH_PREDICTION_ERRORS_KEPT", 500)
