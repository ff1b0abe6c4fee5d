"""Cost ceilings of jobs, in unit-seconds: units times cluster seconds of their run time."""

from collections.abc import Mapping
from typing import Any, Final

from apps.workloads.core.checks import Problems, problem
from apps.workloads.core.targets import TargetKind

COST_LIMITS: Final = (1e-3, 1e15)  # unit-seconds


def check_ceiling(values: Mapping[str, Any], at: str, problems: Problems) -> None:
    """Report a ceiling on the cost of a job whose end cannot be predicted."""
    constraints, target = values.get("constraints"), values.get("target")
    if constraints is None or constraints.max_cost is None or target is None:
        return
    works = target.kind in {TargetKind.COMPLETION_TIME, TargetKind.BEST_EFFORT}
    if values.get("duration_s") is None and not (works and values.get("input_bytes")):
        detail = "the cost of a job is only known with input_bytes to process or duration_seconds"
        problems.append(problem(f"{at}/constraints/max_cost", "contradiction", detail))
