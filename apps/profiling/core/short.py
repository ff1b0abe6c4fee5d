"""Jobs that would end before their profile is known, so they are not profiled (P9).

Source: Paragon §3.5, P9: jobs of a few seconds skip profiling. The limit is ours: the budget of
profiling (`plan.BUDGET_S`), since profiling is of no use to a job that ends sooner.
"""

from typing import Final

from apps.profiling.core.plan import BUDGET_S
from apps.workloads.core.targets import BestEffort, CompletionTime, Target

# Assumed speed of one unit of an unknown application: a block of 128 MiB in 90 s.
BYTES_PER_S: Final = 128 * 2**20 / 90.0


def skips_profiling(
    kind: str,
    target: Target,
    *,
    duration_s: float | None = None,
    input_bytes: int = 0,
    budget_s: float | None = None,
) -> bool:
    """Whether a job of an unknown application starts at once on any server, without profiling.

    It does in any of these cases:

    * its declared duration is within the budget;
    * its completion time is within the budget, so that profiling alone would use it up;
    * it is best effort, and one unit processes its input within the budget.

    A job of unknown length is profiled, and so is a job with any other target, regardless of its
    input: without a profile the number of units for the target is unknown.

    Parameters
    ----------
    kind : kind of the application, a key of `plan.BUDGET_S`
    duration_s : declared limit in cluster seconds; None if unlimited
    input_bytes : 0 if the job has no input
    budget_s : max cluster seconds of profiling; None for the budget of the kind

    Raises
    ------
    ValueError : unknown kind.
    """
    if kind not in BUDGET_S:
        raise ValueError(f"kind must be one of {', '.join(BUDGET_S)}, got {kind!r}")
    limit_s = BUDGET_S[kind] if budget_s is None else budget_s
    if duration_s is not None and duration_s <= limit_s:
        return True
    match target:
        case CompletionTime(seconds):
            return seconds <= limit_s
        case BestEffort():
            return 0 < input_bytes <= BYTES_PER_S * limit_s
        case _:
            return False
