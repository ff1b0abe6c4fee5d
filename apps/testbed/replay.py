"""Replay a plan through the REST API, in cluster time, losing and doubling nothing.

Source: Khaneja 2015 §3.1, the workload generator (K1): replays a trace at a speed. Ours is paced
by the cluster's own clock, so that a stopped or slowed cluster stops or slows the replay too.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from apps.testbed.api_client import ApiClient, ApiError, Reply
from apps.testbed.core.jobs import ReplayJob
from apps.testbed.core.progress import (
    BATCH_SIZE,
    TOGETHER_S,
    ReplayState,
    due_jobs,
    job_body,
    request_key,
)
from apps.testbed.replay_state import save_state

JOBS, BATCHES, CLOCK = "/api/v1/jobs/", "/api/v1/batches/", "/api/v1/cluster/clock/"
CLOCK_REFRESH_S: Final = 5.0
LONGEST_NAP_S: Final = 1.0
STOPPED_NAP_S: Final = 0.5


@dataclass(slots=True)
class RemoteClock:
    """The cluster's clock as last told by the server, carried on by ours."""

    api: ApiClient
    now_s: float = 0.0
    speed: float = 0.0
    asked_at: float = field(default=float("-inf"))  # monotonic wall seconds

    def now(self) -> float:
        """Cluster time in seconds; asks the server every few seconds."""
        if time.monotonic() - self.asked_at > CLOCK_REFRESH_S:
            self.refresh()
        return self.now_s + (time.monotonic() - self.asked_at) * self.speed

    def refresh(self) -> None:
        """Ask the server.

        Raises
        ------
        ApiError : the answer is no clock.
        """
        reply = self.api.get(CLOCK)
        self.asked_at = time.monotonic()
        if not reply.is_good or not isinstance(reply.body, dict) or "now_s" not in reply.body:
            raise ApiError(f"GET {CLOCK} gave no clock: {reply.problem}")
        self.now_s, self.speed = float(reply.body["now_s"]), float(reply.body["speed"])


@dataclass(slots=True)
class Replay:
    """One replay under way.

    Attributes
    ----------
    plan : all jobs in order of submission
    state : how far it is; saved before and after every request
    path : where the state is kept
    on_progress : told the state and how late the next job is (cluster seconds) after each step
    on_rejected : told what the server refused, and why
    """

    api: ApiClient
    clock: RemoteClock
    plan: Sequence[ReplayJob]
    state: ReplayState
    path: Path
    on_progress: Callable[[ReplayState, float], None] = lambda _state, _late: None
    on_rejected: Callable[[str], None] = lambda _reason: None

    def run(self) -> ReplayState:
        """Submit the rest of the plan as it becomes due.

        Raises
        ------
        ApiError : the server stayed away, or refused the token.
        """
        if self.state.sending:
            self._send(self.state.sending)
        while self.state.next < len(self.plan):
            count = self._await_due()
            if count:
                self._send(count)
        return self.state

    def _await_due(self) -> int:
        """Sleep until the next job is due, but not longer than a second; how many are due then."""
        elapsed_s = self.clock.now() - self.state.anchor_s
        speed = self.clock.speed
        due = due_jobs(self.plan, self.state.next, elapsed_s + TOGETHER_S * speed)
        late_s = elapsed_s - self.plan[self.state.next].submit_s
        self.on_progress(self.state, max(0.0, late_s))
        if late_s >= 0 and speed > 0:
            return due
        nap_s = -late_s / speed if speed > 0 else STOPPED_NAP_S
        time.sleep(min(nap_s, LONGEST_NAP_S))
        return 0

    def _send(self, count: int) -> None:
        """Send the next jobs in one request, its size saved first so that a restart repeats it."""
        first = self.state.next
        self._keep(replace(self.state, sending=count))
        key = request_key(self.state, first, count)
        items = [job_body(self.state, job) for job in self.plan[first : first + count]]
        if count == 1:
            accepted = self._accepted_alone(self.api.post(JOBS, items[0], key=key))
        else:
            body = {"mode": "independent", "items": items}
            accepted = self._accepted_of(self.api.post(BATCHES, body, key=key), count)
        self._keep(
            replace(
                self.state,
                next=first + count,
                sending=0,
                sent_s=self.plan[first + count - 1].submit_s,
                accepted=self.state.accepted + accepted,
                rejected=self.state.rejected + count - accepted,
            )
        )

    def _accepted_alone(self, reply: Reply) -> int:
        if reply.is_good:
            return 1
        self.on_rejected(reply.problem)
        return 0

    def _accepted_of(self, reply: Reply, count: int) -> int:
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
        return f"the first: {rejected[0]['problem']}" if rejected else reply.problem

    def _keep(self, state: ReplayState) -> None:
        save_state(self.path, state)
        self.state = state


def cluster_units(api: ApiClient) -> int:
    """Resource units of the cluster, summed over its platforms.

    Raises
    ------
    ApiError : the answer is no list of platforms, or there are no servers.
    """
    reply = api.get("/api/v1/platforms/?limit=200")
    if not reply.is_good or not isinstance(reply.body, dict):
        raise ApiError(f"GET /api/v1/platforms/ gave no list: {reply.problem}")
    units = sum(_units_of(platform) for platform in reply.body["results"])
    if units < 1:
        raise ApiError("The cluster has no servers; nothing can be replayed on it.")
    return units


def _units_of(platform: dict[str, Any]) -> int:
    return int(platform["status"]["units"])
