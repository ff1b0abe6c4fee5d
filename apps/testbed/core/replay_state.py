"""State of a replay, and the selection of the next jobs to send."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from apps.testbed.core.jobs import ReplayJob

BATCH_SIZE: Final = 200  # max jobs per request
CLOCK_SLACK_WALL_S: Final = 30.0  # a crash sets the cluster clock back by less
BATCH_WINDOW_S: Final = 0.25  # wall seconds; jobs due within it share a request


@dataclass(frozen=True, slots=True)
class ReplayState:
    """Persistent state of a replay.

    Attributes
    ----------
    identity : random id of the replay; part of every key
    digest : of the trace and the options that determine the plan
    trace : path or name of the trace, for display
    units, services, seed : parameters of the plan
    anchor_s : cluster time at which the replay began
    sent_s : submit time of the last job accepted, seconds since the replay began
    next : index in the plan of the first job without a response
    sending : jobs of the request in flight, counted from ``next``; 0 = none. An
        interrupted request is repeated unchanged, so that its key prevents duplicates.
    accepted, rejected : number of jobs
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
    """Whether a replay with a digest resumes from the state.

    It does not if the cluster clock is well before the last submission: then the state belongs to
    a deleted database.
    """
    slack_s = CLOCK_SLACK_WALL_S * max(speed, 1.0)
    return state.digest == digest and now_s >= state.anchor_s + state.sent_s - slack_s


def due_jobs(
    plan: Sequence[ReplayJob], first: int, until_s: float, *, limit: int = BATCH_SIZE
) -> int:
    """Count the jobs from ``first`` on that are due by ``until_s`` (seconds since the start)."""
    count = 0
    while count < limit and first + count < len(plan) and plan[first + count].submit_s <= until_s:
        count += 1
    return count


def request_key(state: ReplayState, first: int, count: int) -> str:
    """Idempotency key of the request that sends these jobs."""
    return f"replay-{state.identity}-{first}-{count}"


def job_body(state: ReplayState, job: ReplayJob, *, project: str | None = None) -> dict[str, Any]:
    """Return the request body of a job: its spec, project and the replay it belongs to."""
    marks = {"replay": state.identity, "replay_key": job.key}
    return {
        **job.spec,
        **({"project": project} if project else {}),
        "client_id": f"{state.identity}-{job.key}",
        "annotations": {**job.spec.get("annotations", {}), **marks},
    }
