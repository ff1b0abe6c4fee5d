"""What follows from what Slurm and Berth say of a job: no Slurm and no database."""

from dataclasses import replace

import pytest

from apps.execution.core.ends import End
from apps.execution.core.port import Outcome
from apps.execution.core.slurm.reconcile import Known, Step, Verb, end_of, steps
from apps.execution.core.slurm.values import SlurmJob
from apps.workloads.core.lifecycle import JobState, Suspension

HELD = SlurmJob(id=7, state="PENDING", is_held=True, mark="berth", partition="main")
WAITS = SlurmJob(id=7, state="PENDING", mark="berth", required_nodes=("n3",), reason="Resources")
RELEASED = SlurmJob(id=7, state="PENDING", mark="berth", reason="Priority")
RUNS = SlurmJob(id=7, state="RUNNING", mark="berth", nodes=("n3",), started_s=1.0)
SUSPENDED = SlurmJob(id=7, state="SUSPENDED", mark="berth", nodes=("n3",), started_s=1.0)
ENDING = SlurmJob(id=7, state="COMPLETING", mark="berth", nodes=("n3",), started_s=1.0)
ENDED = SlurmJob(id=7, state="COMPLETED", mark="berth", nodes=("n3",), started_s=1.0)
QUEUED = Known(JobState.QUEUED)
PINNED = Known(JobState.QUEUED, pinned="n3")
PLACED = Known(JobState.STARTING)
STARTING = Known(JobState.STARTING, node="n3")
RUNNING = Known(JobState.RUNNING, node="n3", is_running=True)
RESTARTS = Known(JobState.RUNNING, node="n3", is_running=True, restarts=True)
CLOSED = Known(JobState.STARTING, node="n3", is_closed=True)
ELSEWHERE = Known(JobState.RUNNING, node="n4", is_running=True)
DONE = Known(JobState.SUCCEEDED)
FAILED = Known(JobState.FAILED)
CANCELLED = Known(JobState.CANCELLED)


def stop(known: Known) -> Known:
    """Return a job that Berth must stop."""
    return Known(known.state, True, known.pinned, known.node, known.is_running)


@pytest.mark.parametrize(
    ("job", "known", "verbs"),
    [
        (HELD, None, ["import"]),
        (RUNS, None, ["import"]),
        (ENDED, None, []),
        (SlurmJob(id=7, state="PENDING", is_held=True), None, []),
        (SlurmJob(id=7, state="PENDING", is_held=True, mark="left-to-slurm"), None, []),
        (HELD, QUEUED, []),
        (RELEASED, QUEUED, []),
        (WAITS, QUEUED, ["hold"]),
        (RUNS, QUEUED, ["pin"]),
        (RUNS, PINNED, []),
        (HELD, PINNED, ["pin"]),
        (WAITS, PINNED, ["hold", "pin"]),
        (ENDED, QUEUED, ["ended unplaced", "forget"]),
        (None, QUEUED, ["ended unplaced", "forget"]),
        (HELD, PLACED, []),
        (HELD, STARTING, ["place"]),
        (RELEASED, STARTING, ["place"]),
        (WAITS, STARTING, []),
        (RUNS, STARTING, ["started"]),
        (SUSPENDED, STARTING, ["started"]),
        (ENDED, STARTING, ["ended", "forget"]),
        (WAITS, CLOSED, ["hold", "lost"]),
        (HELD, CLOSED, ["hold", "lost"]),
        (RUNS, CLOSED, ["started"]),
        (RUNS, RUNNING, []),
        (SUSPENDED, RUNNING, ["suspended"]),
        (SUSPENDED, replace(RUNNING, suspension=Suspension.REQUESTED), ["suspended"]),
        (SUSPENDED, replace(RUNNING, suspension=Suspension.SUSPENDED), []),
        (SUSPENDED, replace(RUNNING, suspension=Suspension.RESUMING), ["resume"]),
        (RUNS, replace(RUNNING, suspension=Suspension.REQUESTED), ["suspend"]),
        (RUNS, replace(RUNNING, suspension=Suspension.SUSPENDED), ["resumed"]),
        (RUNS, replace(RUNNING, suspension=Suspension.RESUMING), ["resumed"]),
        (SUSPENDED, stop(RUNNING), ["cancel"]),
        (RUNS, RESTARTS, ["stop"]),
        (SUSPENDED, replace(RESTARTS, suspension=Suspension.SUSPENDED), ["stop"]),
        (ENDING, RESTARTS, []),
        (HELD, RESTARTS, ["stopped"]),
        (HELD, replace(RESTARTS, is_closed=True), ["stopped"]),
        (WAITS, RESTARTS, ["hold"]),  # queued again by somebody else
        (ENDED, RESTARTS, ["stay", "ended", "forget"]),
        (None, RESTARTS, ["stay", "ended", "forget"]),
        (RUNS, replace(RESTARTS, stop=True), ["cancel"]),
        (RUNS, replace(RESTARTS, node="n4"), ["lost"]),
        (ENDING, RUNNING, []),
        (RUNS, ELSEWHERE, ["lost"]),
        (WAITS, RUNNING, ["hold", "lost"]),
        (HELD, RUNNING, ["hold", "lost"]),
        (ENDED, RUNNING, ["ended", "forget"]),
        (None, RUNNING, ["ended", "forget"]),
        (RUNS, stop(RUNNING), ["cancel"]),
        (HELD, stop(STARTING), ["cancel"]),
        (ENDED, stop(RUNNING), ["ended", "forget"]),
        (HELD, CANCELLED, ["cancel"]),
        (HELD, FAILED, []),
        (WAITS, DONE, ["forget"]),
        (RUNS, DONE, ["forget"]),
        (ENDING, DONE, []),
        (ENDED, DONE, ["forget"]),
        (None, CANCELLED, ["forget"]),
    ],
)  # fmt: skip
def test_the_steps_follow_from_both_sides(
    job: SlurmJob | None, known: Known | None, verbs: list[str]
) -> None:
    assert [step.verb for step in steps(job, known)] == [Verb(verb) for verb in verbs]


def test_steps_name_the_node_and_the_reason() -> None:
    assert steps(HELD, STARTING) == [Step(Verb.PLACE, "n3")]
    assert steps(RUNS, QUEUED) == [Step(Verb.PIN, "n3")]
    assert steps(HELD, PINNED) == [Step(Verb.PIN, "")]
    assert steps(RUNS, ELSEWHERE) == [Step(Verb.LOST, "Slurm runs it on n3, not on n4")]
    assert steps(ENDED, RESTARTS)[0].text == "the job ended before it was stopped"
    assert steps(WAITS, RUNNING)[1].text == "Slurm has queued it again (Resources)"


@pytest.mark.parametrize(
    ("job", "end"),
    [
        (SlurmJob(id=7, state="COMPLETED", exit_code=0), End(Outcome.FINISHED, "", 0)),
        (SlurmJob(id=7, state="CANCELLED", exit_code=-15), End(Outcome.CANCELLED)),
        (SlurmJob(id=7, state="FAILED", exit_code=3), End(Outcome.FAILED, "exit code 3", 3)),
        (
            SlurmJob(id=7, state="FAILED", exit_code=-9),
            End(Outcome.FAILED, "killed by signal 9", -9),
        ),
        (
            SlurmJob(id=7, state="TIMEOUT", exit_code=0, reason="TimeLimit"),
            End(Outcome.FAILED, "Slurm ended it: TIMEOUT (TimeLimit)", 0),
        ),
        (
            SlurmJob(id=7, state="NODE_FAIL", reason="None"),
            End(Outcome.FAILED, "Slurm ended it: NODE_FAIL"),
        ),
        (
            None,
            End(Outcome.FAILED, "Slurm no longer knows this job: how it ended is not known"),
        ),
    ],
    ids=["completed", "cancelled", "exit", "signal", "timeout", "node", "forgotten"],
)
def test_the_end_says_why(job: SlurmJob | None, end: End) -> None:
    assert end_of(job) == end
