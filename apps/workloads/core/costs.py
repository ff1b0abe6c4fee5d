"""Cost ceilings of jobs, in unit-seconds: units times cluster seconds of their run time."""

from collections.abc import Mapping
from typing import Any, Final

from apps.common.core.errors import InvalidInputError
from apps.workloads.core.checks import Problems, problem
from apps.workloads.core.targets import Target, TargetKind

_UNKNOWN: Final = "the cost of a job is only known with input_bytes to process or duration_seconds"
COST_LIMITS: Final = (1e-3, 1e15)  # unit-seconds


def check_ceiling(values: Mapping[str, Any], at: str, problems: Problems) -> None:
    """Report a ceiling on the cost of a job whose end cannot be predicted."""
    constraints, target = values.get("constraints"), values.get("target")
    if constraints is None or constraints.max_cost is None or target is None:
        return
    if not _is_known(target, values.get("input_bytes"), values.get("duration_s")):
        problems.append(problem(f"{at}/constraints/max_cost", "contradiction", _UNKNOWN))


def require_known_cost(
    target: Target, *, input_bytes: int | None, duration_s: float | None
) -> None:
    """Check that a job with a ceiling on its cost can have a target.

    Raises
    ------
    InvalidInputError : its end could not be predicted any more.
    """
    if not _is_known(target, input_bytes, duration_s):
        detail = f"{target.kind} contradicts constraints.max_cost of the job: {_UNKNOWN}"
        raise InvalidInputError([problem("/target", "contradiction", detail)])


def _is_known(target: Target, input_bytes: int | None, duration_s: float | None) -> bool:
    works = target.kind in {TargetKind.COMPLETION_TIME, TargetKind.BEST_EFFORT}
    return duration_s is not None or bool(works and input_bytes)
