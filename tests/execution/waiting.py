"""Let Berth, which a test drives turn by turn, work until something is true."""

import time
from collections.abc import Callable
from typing import Any

from apps.execution.models import Launch
from apps.workloads.models import Job


def until(
    turn: Callable[[], object],
    holds: Callable[[], Any],
    what: str,
    *,
    timeout_s: float,
    pause_s: float = 0.0,
    also: Callable[[], object] = str,
) -> Any:
    """Call ``turn`` until ``holds`` returns something true, and return that.

    Parameters
    ----------
    also : what else the error shall say

    Raises
    ------
    AssertionError : it did not become true in time; names the states of jobs and launches.
    """
    end_s = time.monotonic() + timeout_s
    while time.monotonic() < end_s:
        turn()
        found = holds()
        if found:
            return found
        time.sleep(pause_s)
    jobs = list(Job.objects.values_list("name", "state", "attempts", "reason_message"))
    launches = list(Launch.objects.values_list("state", "outcome", "order__parts", "message"))
    raise AssertionError(f"did not happen: {what}; jobs {jobs}, launches {launches} {also()}")
