"""Replay a plan through the REST API in cluster time, submitting every job exactly once.

Source: Khaneja 2015 §3.1, the workload generator (K1), replays a trace at a given speed. Ours
follows the cluster's clock, so stopping or slowing the cluster also stops or slows the replay.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from apps.testbed.core.jobs import ReplayJob
from apps.testbed.core.replay_state import (
    BATCH_SIZE,
    BATCH_WINDOW_S,
    ReplayState,
    due_jobs,
    job_body,
    request_key,
)
from apps.testbed.management.replay.api_client import ApiClient, ApiError, ApiReply
from apps.testbed.management.replay.state_file import save_state

JOBS, BATCHES, CLOCK = "/api/v1/jobs/", "/api/v1/batches/", "/api/v1/cluster/clock/"
CLOCK_REFRESH_S: Final = 5.0
LONGEST_NAP_S: Final = 1.0
STOPPED_NAP_S: Final = 0.5


@dataclass(slots=True)
class RemoteClock:
    """The cluster's clock: last value from the server, extrapolated with the local clock."""

    api: ApiClient
    now_s: float = 0.0
    speed: float = 0.0
    asked_at: float = field(default=float("-inf"))  # monotonic wall seconds

    def now(self) -> float:
        """Cluster time in seconds; queries the server every few seconds."""
        if time.monotonic() - self.asked_at > CLOCK_REFRESH_S:
            self.refresh()
        return self.now_s + (time.monotonic() - self.asked_at) * self.speed

    def refresh(self) -> None:
        """Query the server.

        Raises
        ------
        ApiError : the response is not a clock.
        """
        reply = self.api.get(CLOCK)
        self.asked_at = time.monotonic()
        if not reply.is_good or not isinstance(reply.body, dict) or "now_s" not in reply.body:
            raise ApiError(f"GET {CLOCK} did not return a clock: {reply.problem}")
        self.now_s, self.speed = float(reply.body["now_s"]), float(reply.body["speed"])


@dataclass(slots=True)
class Replay:
    """A running replay.

    Attributes
    ----------
    plan : all jobs in order of submission
    state : progress; saved before and after every request
    path : state file
    project : to submit to; None = the only one of the caller
    on_progress : called with the state and the delay of the next job (cluster seconds)
    on_rejected : called with the reason of each refusal
    """

    api: ApiClient
    clock: RemoteClock
    plan: Sequence[ReplayJob]
    state: ReplayState
    path: Path
    project: str | None = None
    on_progress: Callable[[ReplayState, float], None] = lambda _state, _late: None
    on_rejected: Callable[[str], None] = lambda _reason: None

    def run(self) -> ReplayState:
        """Submit the remaining jobs as they become due.

        Raises
        ------
        ApiError : the server was unavailable for too long, or refused the token.
        """
        if self.state.sending:
            self._send(self.state.sending)
        while self.state.next < len(self.plan):
            count = self._await_due()
            if count:
                self._send(count)
        return self.state

    def _await_due(self) -> int:
        """Sleep until the next job is due, at most a second; returns the number of due jobs."""
        elapsed_s = self.clock.now() - self.state.anchor_s
        speed = self.clock.speed
        due = due_jobs(self.plan, self.state.next, elapsed_s + BATCH_WINDOW_S * speed)
        late_s = elapsed_s - self.plan[self.state.next].submit_s
        self.on_progress(self.state, max(0.0, late_s))
        if late_s >= 0 and speed > 0:
            return due
        nap_s = -late_s / speed if speed > 0 else STOPPED_NAP_S
        time.sleep(min(nap_s, LONGEST_NAP_S))
        return 0

    def _send(self, count: int) -> None:
        """Send the next jobs in one request; its size is saved first, so a restart repeats it."""
        first = self.state.next
        self._save(replace(self.state, sending=count))
        key = request_key(self.state, first, count)
        items = [
            job_body(self.state, job, project=self.project)
            for job in self.plan[first : first + count]
        ]
        if count == 1:
            accepted = self._accepted_single(self.api.post(JOBS, items[0], key=key))
        else:
            body = {"mode": "independent", "items": items}
            accepted = self._accepted_batch(self.api.post(BATCHES, body, key=key), count)
        self._save(
            replace(
                self.state,
                next=first + count,
                sending=0,
                sent_s=self.plan[first + count - 1].submit_s,
                accepted=self.state.accepted + accepted,
                rejected=self.state.rejected + count - accepted,
            )
        )

    def _accepted_single(self, reply: ApiReply) -> int:
        if reply.is_good:
            return 1
        self.on_rejected(reply.problem)
        return 0

    def _accepted_batch(self, reply: ApiReply, count: int) -> int:
        if not reply.is_good:
            self.on_rejected(reply.problem)
            return 0
        accepted = int(reply.body["accepted"])
        if accepted < count:
            reason = self._first_rejection(str(reply.body["id"]))
            self.on_rejected(f"{count - accepted} of {count} jobs of a batch; {reason}")
        return accepted

    def _first_rejection(self, batch: str) -> str:
        reply = self.api.get(f"{BATCHES}{batch}/items/?limit={BATCH_SIZE}")
        items = reply.body["results"] if reply.is_good else []
        rejected = [item for item in items if item["status"] == "rejected"]
        return f"first reason: {rejected[0]['problem']}" if rejected else reply.problem

    def _save(self, state: ReplayState) -> None:
        save_state(self.path, state)
        self.state = state


def cluster_units(api: ApiClient) -> int:
    """Resource units of the cluster, summed over its platforms.

    Raises
    ------
    ApiError : the response is not a list of platforms, or there are no servers.
    """
    reply = api.get("/api/v1/platforms/?limit=200")
    if not reply.is_good or not isinstance(reply.body, dict):
        raise ApiError(f"GET /api/v1/platforms/ did not return a list: {reply.problem}")
    units = sum(_units_of(platform) for platform in reply.body["results"])
    if units < 1:
        raise ApiError("The cluster has no servers, so nothing can be replayed.")
    return units


def _units_of(platform: dict[str, Any]) -> int:
    return int(platform["status"]["units"])
