"""Which jobs are too short to be profiled: they would be over before anything is known (P9).

Source: Paragon §3.5, P9: jobs of a few seconds skip profiling. Where the line lies is ours: at
the seconds that profiling may take (`plan.BUDGET_S`), as a job that ends sooner gains nothing.
"""

from typing import Final

from apps.profiling.core.plan import BUDGET_S
from apps.workloads.core.targets import BestEffort, CompletionTime, Target

# What one unit of an application nobody knows is taken to work off: a block of 128 MiB in 90 s.
BYTES_PER_S: Final = 128 * 2**20 / 90.0


def skips_profiling(
    kind: str,
    target: Target,
    *,
    duration_s: float | None = None,
    input_bytes: int = 0,
    budget_s: float | None = None,
) -> bool:
    """Whether a job of an unknown application starts at once, anywhere, instead of being profiled.

    It does where any of these holds:

    * it says that it ends within the budget;
    * it must be complete within the budget: profiling alone would use that time up;
    * nothing is promised for it (best effort) and one unit works its input off within the budget.

    A job that says nothing of its length is profiled; so is one with another target to keep,
    whatever its input: without a profile nobody knows how many units keep it.

    Parameters
    ----------
    kind : of the application, a key of `plan.BUDGET_S`
    duration_s : cluster seconds after which it ends whatever its work; None = not declared
    input_bytes : 0 = none
    budget_s : cluster seconds profiling would take; None = that of the kind

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
