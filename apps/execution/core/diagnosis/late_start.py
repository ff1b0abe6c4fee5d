"""The wait of a completion-time job as the cause of its miss.

The target counts from the submission, the speed from the start: no lost speed explains a job that
started too late.
"""

import math

from apps.execution.core.diagnosis.case import Case
from apps.inventory.core.snapshot import Bools


def is_wait_the_cause(case: Case, before: Bools, now: float) -> bool:
    """Return whether the job missed its target because it started too late.

    It did if the target had passed, or if its predicted speed was too slow from its start on,
    while its speed at the dip meets the target without the wait.

    Parameters
    ----------
    before : (T,) the reports at target before the dip
    now : mean log speed at the dip
    """
    wait = case.wait
    if wait is None or before.any():
        return False
    if wait.log_needed == math.inf:
        return True
    is_predicted_late = case.predicted is None or case.predicted[0] < wait.log_needed
    return is_predicted_late and now >= wait.log_needed_at_once
