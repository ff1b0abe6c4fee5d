"""Failures of policies in the log of an agent."""

import logging
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from apps.scheduling.core.policy_errors import PolicyFailedError

logger = logging.getLogger(__name__)

AGAIN_S: Final = 60.0  # wall seconds


class PolicyFailures:
    """Logs the first failure of each kind at once, then one a minute with the number since.

    A kind is a policy and a type of error. If the policy of the cluster is broken, it fails on
    every waiting job, many times a second.
    """

    def __init__(self) -> None:
        self._logged_s: dict[str, float] = {}
        self._unlogged: dict[str, int] = {}

    def record(self, error: PolicyFailedError, jobs: Sequence[UUID], *, now_s: float) -> None:
        """Log a failure with its traceback, or count it.

        Parameters
        ----------
        jobs : that were decided together
        now_s : of a monotonic clock
        """
        kind = str(error)
        if now_s < self._logged_s.get(kind, -AGAIN_S) + AGAIN_S:
            self._unlogged[kind] = self._unlogged.get(kind, 0) + 1
            return
        self._logged_s[kind] = now_s
        before = self._unlogged.pop(kind, 0)
        more = f"; {before} more failures of this kind since the last log entry" if before else ""
        which = f"job {jobs[0]}" if len(jobs) == 1 else f"{len(jobs)} jobs, first {jobs[0]}"
        logger.error("no decision on %s: %s%s", which, error.detail, more, exc_info=error)
