"""The conditions of a job: one per step of its way, true once reached.

Source of the shape: the Kubernetes family's ``conditions[]``.
"""

from dataclasses import dataclass

from apps.workloads.core.lifecycle import ACTIVE_STATES, TERMINAL_STATES, JobState


@dataclass(frozen=True, slots=True)
class Facts:
    """What a job's conditions follow from; times in cluster seconds, None = not reached."""

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
    """One statement about a job: "True", "False" or "Unknown"."""

    type: str
    status: str
    reason: str
    message: str
    cluster_s: float | None


def conditions(facts: Facts) -> tuple[Condition, ...]:
    """Return all conditions, in the order of the way."""
    state = JobState(facts.state)
    placed = facts.placed_s is not None and state not in _WAITING_AGAIN
    return (
        _step("Accepted", True, facts, facts.submitted_s),
        _step("Classified", facts.queued_s is not None, facts, facts.queued_s),
        _step("Placed", placed, facts, facts.placed_s if placed else None),
        _step("Running", state is JobState.RUNNING, facts, facts.started_s),
        _on_target(facts),
        _step("Finished", state in TERMINAL_STATES, facts, facts.finished_s),
    )


_WAITING_AGAIN = frozenset({JobState.SUBMITTED, JobState.PROFILING, JobState.QUEUED})


def _step(name: str, is_reached: bool, facts: Facts, at_s: float | None) -> Condition:
    if is_reached:
        return Condition(name, "True", name, "", at_s)
    is_over = facts.state in TERMINAL_STATES
    return Condition(
        name, "False", facts.reason or "Waiting", facts.message if not is_over else "", at_s
    )


def _on_target(facts: Facts) -> Condition:
    if facts.attainment is None:
        running = facts.state in ACTIVE_STATES
        reason = "NotMeasuredYet" if running else "NotRunning"
        return Condition("OnTarget", "Unknown", reason, "", None)
    met = facts.attainment >= 1.0
    return Condition(
        "OnTarget",
        "True" if met else "False",
        "MeetsTarget" if met else "BelowTarget",
        f"{facts.attainment:.0%} of the target",
        None,
    )
