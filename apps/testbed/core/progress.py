"""How far a replay is: plain values, and the rule that says what to send next."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from apps.testbed.core.jobs import ReplayJob

BATCH_SIZE: Final = 200  # most jobs sent in one request
CLOCK_SLACK_WALL_S: Final = 30.0  # a crash sets the cluster's clock back by less than this
TOGETHER_S: Final = 0.25  # wall seconds: jobs due within it travel together


@dataclass(frozen=True, slots=True)
class ReplayState:
    """What must survive a crash of the replay.

    Attributes
    ----------
    identity : of this replay, random; part of every key
    digest : of the trace and the options that make the plan; another plan is another replay
    trace : path or name of the trace, for people
    units, services, seed : how the plan was made
    anchor_s : cluster time at which the replay began
    sent_s : submit time of the last job accepted, seconds since the replay began
    next : index in the plan of the first job not known to be accepted
    sending : jobs of the request in flight, counted from ``next``; 0 = none. A request that was
        cut off is sent again as it was, so that its key protects it.
    accepted, rejected : jobs the server took and refused
    """

    identity: str
    digest: str
    trace: str
    units: int
    services: float | None
    seed: int
    anchor_s: float
    sent_s: float = 0.0
    next: int = 0
    sending: int = 0
    accepted: int = 0
    rejected: int = 0

    def as_json(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "ReplayState":
        """Read the JSON form.

        Raises
        ------
        ValueError : a field is missing.
        """
        names = [field.name for field in fields(cls)]
        missing = [name for name in names if name not in data]
        if missing:
            raise ValueError(f"the state of the replay lacks {', '.join(missing)}")
        return cls(**{name: data[name] for name in names})


def continues(state: ReplayState, *, digest: str, now_s: float, speed: float) -> bool:
    """Whether a replay of that digest goes on from the state.

    Not when the cluster's clock shows much less than when the last job was sent: then the state
    belongs to a database that is gone.
    """
    slack_s = CLOCK_SLACK_WALL_S * max(speed, 1.0)
    return state.digest == digest and now_s >= state.anchor_s + state.sent_s - slack_s


def due_jobs(
    plan: Sequence[ReplayJob], first: int, until_s: float, *, most: int = BATCH_SIZE
) -> int:
    """How many jobs from ``first`` on are due by ``until_s`` (seconds since the replay began)."""
    count = 0
    while count < most and first + count < len(plan) and plan[first + count].submit_s <= until_s:
        count += 1
    return count


def request_key(state: ReplayState, first: int, count: int) -> str:
    """Idempotency key of the request that sends these jobs."""
    return f"replay-{state.identity}-{first}-{count}"


def job_body(state: ReplayState, job: ReplayJob) -> dict[str, Any]:
    """Make what is sent for one job, the same on every try: its spec, and whose it is."""
    marks = {"replay": state.identity, "replay_key": job.key}
    return {
        **job.spec,
        "client_id": f"{state.identity}-{job.key}",
        "annotations": {**job.spec.get("annotations", {}), **marks},
    }
