"""The conditions of a job: one per stage of its life, true once reached.

Source of the shape: the Kubernetes family's ``conditions[]``.
"""

from dataclasses import dataclass

from apps.workloads.core.lifecycle import ACTIVE_STATES, TERMINAL_STATES, JobState


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Fields that determine a job's conditions; times in cluster seconds, None = not reached."""

    state: str
    held: bool
    reason: str
    message: str
    attainment: float | None
    submitted_s: float
    queued_s: float | None
    placed_s: float | None
    started_s: float | None
    finished_s: float | None


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition; ``status`` is "True", "False" or "Unknown"."""

    type: str
    status: str
    reason: str
    message: str
    cluster_s: float | None


def conditions(job: JobStatus) -> tuple[Condition, ...]:
    """Return all conditions, in the order of a job's stages."""
    state = JobState(job.state)
    placed = job.placed_s is not None and state not in _WAITING_AGAIN
    return (
        _condition("Accepted", True, job, job.submitted_s),
        _condition("Classified", job.queued_s is not None, job, job.queued_s),
        _condition("Placed", placed, job, job.placed_s if placed else None),
        _condition("Running", state is JobState.RUNNING, job, job.started_s),
        _on_target(job),
        _condition("Finished", state in TERMINAL_STATES, job, job.finished_s),
    )


_WAITING_AGAIN = frozenset({JobState.SUBMITTED, JobState.PROFILING, JobState.QUEUED})


def _condition(name: str, is_reached: bool, job: JobStatus, at_s: float | None) -> Condition:
    if is_reached:
        return Condition(name, "True", name, "", at_s)
    is_over = job.state in TERMINAL_STATES
    return Condition(
        name, "False", job.reason or "Waiting", job.message if not is_over else "", at_s
    )


def _on_target(job: JobStatus) -> Condition:
    if job.attainment is None:
        running = job.state in ACTIVE_STATES
        reason = "NotMeasuredYet" if running else "NotRunning"
        return Condition("OnTarget", "Unknown", reason, "", None)
    met = job.attainment >= 1.0
    return Condition(
        "OnTarget",
        "True" if met else "False",
        "MeetsTarget" if met else "BelowTarget",
        f"{job.attainment:.0%} of the target",
        None,
    )
