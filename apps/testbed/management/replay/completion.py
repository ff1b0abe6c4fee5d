"""Wait for the end of a replayed trace, through the REST API."""

import time
from typing import Final
from urllib.parse import quote

from apps.testbed.management.replay.api_client import ApiClient, ApiError
from apps.testbed.management.replay.progress_line import ReplayProgressLine
from apps.workloads.core.lifecycle import TERMINAL_STATES, JobState

POLL_S: Final = 3.0


def await_end(api: ApiClient, *, trace: str, line: ReplayProgressLine) -> dict[str, int]:
    """Wait until every job labelled with the trace has ended; returns the counts by state.

    Raises
    ------
    ApiError : the server was unavailable for too long.
    """
    while True:
        counts = {state.value: _count(api, trace, state) for state in JobState}
        ended = sum(counts[state.value] for state in TERMINAL_STATES)
        total = sum(counts.values())
        if ended == total:
            summary = ", ".join(
                f"{number:,} {state}" for state, number in counts.items() if number
            )
            line.say(f"Every job of {trace} has ended: {summary}.")
            return counts
        line.hint(f"{ended:,}/{total:,} jobs ended")
        time.sleep(POLL_S)


def _count(api: ApiClient, trace: str, state: JobState) -> int:
    label = quote(f"trace:{trace}")
    reply = api.get(f"/api/v1/jobs/?label={label}&state={state.value}&limit=1&count=exact")
    if not reply.is_good:
        raise ApiError(f"GET /api/v1/jobs/ failed: {reply.problem}")
    return int(reply.body["count"])
