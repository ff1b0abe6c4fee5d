"""What follows from a pod and what Berth knows of it: a table, without API server or database."""

from dataclasses import replace

import pytest

from apps.execution.core.ends import End
from apps.execution.core.kubernetes.reconcile import Known, Step, Verb, end_of, steps
from apps.execution.core.kubernetes.values import Exit, Pod
from apps.execution.core.port import Outcome
from apps.workloads.core.lifecycle import JobState

NEW = Pod("u", "team-a", "p")
GATED = replace(NEW, is_gated=True)
LEAVES = replace(NEW, is_deleted=True)
BOUND = replace(NEW, node="n3")
RUNS = replace(BOUND, status="Running")
SILENT = replace(BOUND, status="Unknown")
STOPS = replace(RUNS, is_deleted=True)
GONE = replace(STOPS, is_gone=True)
DONE = replace(BOUND, status="Succeeded")
FAILED = replace(BOUND, status="Failed")
FOLLOWED = replace(NEW, annotations={"berth.dev/application": "a"})

QUEUED = Known(JobState.QUEUED)
PINNED = Known(JobState.QUEUED, pinned="n3")
PLACED = Known(JobState.STARTING)
STARTING = Known(JobState.STARTING, node="n3")
CLOSED = replace(STARTING, is_closed=True)
RUNNING = Known(JobState.RUNNING, node="n3", is_running=True)
ELSEWHERE = Known(JobState.RUNNING, node="n4", is_running=True)
CANCELLED = Known(JobState.CANCELLED)
LOST = Known(JobState.FAILED)
SUCCEEDED = Known(JobState.SUCCEEDED)


def stop(known: Known) -> Known:
    return replace(known, stop=True)


@pytest.mark.parametrize(
    ("pod", "known", "verbs"),
    [
        (NEW, None, ["import"]),
        (BOUND, None, ["import"]),
        (RUNS, None, ["import"]),
        (GATED, None, []),
        (LEAVES, None, []),
        (STOPS, None, []),
        (DONE, None, []),
        (GONE, None, []),
        (NEW, QUEUED, []),
        (BOUND, QUEUED, ["pin"]),
        (RUNS, PINNED, []),
        (DONE, QUEUED, ["ended unplaced", "forget"]),
        (LEAVES, QUEUED, ["ended unplaced", "forget"]),
        (None, QUEUED, ["ended unplaced", "forget"]),
        (NEW, stop(QUEUED), ["delete"]),
        (NEW, PLACED, []),
        (NEW, STARTING, ["bind"]),
        (NEW, CLOSED, ["lost"]),
        (NEW, stop(STARTING), ["delete"]),
        (LEAVES, STARTING, ["ended", "forget"]),
        (BOUND, STARTING, []),
        (BOUND, CLOSED, []),
        (RUNS, STARTING, ["started"]),
        (SILENT, STARTING, ["started"]),
        (BOUND, ELSEWHERE, ["lost", "pin"]),
        (RUNS, ELSEWHERE, ["lost", "pin"]),
        (RUNS, RUNNING, []),
        (SILENT, RUNNING, []),
        (STOPS, RUNNING, []),
        (STOPS, stop(RUNNING), []),
        (GONE, RUNNING, ["ended", "forget"]),
        (DONE, RUNNING, ["ended", "forget"]),
        (None, RUNNING, ["ended", "forget"]),
        (RUNS, stop(RUNNING), ["delete"]),
        (NEW, CANCELLED, ["delete"]),
        (RUNS, CANCELLED, ["delete"]),
        (STOPS, CANCELLED, []),
        (None, CANCELLED, ["forget"]),
        (DONE, CANCELLED, ["forget"]),
        (NEW, LOST, []),
        (RUNS, LOST, ["forget"]),
        (RUNS, SUCCEEDED, ["forget"]),
    ],
)  # fmt: skip
def test_the_steps_follow_from_both_sides(
    pod: Pod | None, known: Known | None, verbs: list[str]
) -> None:
    assert [step.verb for step in steps(pod, known, is_ours=True)] == [Verb(v) for v in verbs]


@pytest.mark.parametrize(
    ("pod", "verbs"),
    [
        (NEW, []),
        (BOUND, []),
        (FOLLOWED, []),
        (replace(FOLLOWED, node="n3"), ["import"]),
        (replace(FOLLOWED, node="n3", status="Failed"), []),
    ],
    ids=["pending", "bound", "named", "named-bound", "ended"],
)
def test_pods_of_another_scheduler_matter_once_bound_if_they_name_an_application(
    pod: Pod, verbs: list[str]
) -> None:
    assert [step.verb for step in steps(pod, None, is_ours=False)] == [Verb(v) for v in verbs]


def test_steps_name_the_node_and_the_reason() -> None:
    assert steps(NEW, STARTING, is_ours=True) == [Step(Verb.BIND, "n3")]
    assert steps(RUNS, QUEUED, is_ours=True) == [Step(Verb.PIN, "n3")]
    assert steps(RUNS, ELSEWHERE, is_ours=True) == [
        Step(Verb.LOST, "Kubernetes runs it on n3, not on n4"),
        Step(Verb.PIN, "n3"),
    ]


@pytest.mark.parametrize(
    ("pod", "end"),
    [
        (DONE, End(Outcome.FINISHED, "", 0)),
        (GONE, End(Outcome.CANCELLED)),
        (replace(GONE, is_deleted=False), End(Outcome.CANCELLED)),
        (replace(FAILED, is_deleted=True), End(Outcome.CANCELLED)),
        (
            replace(GONE, disruption="EvictionByEvictionAPI"),
            End(Outcome.FAILED, "Kubernetes evicted it: EvictionByEvictionAPI"),
        ),
        (
            replace(FAILED, reason="DeadlineExceeded"),
            End(Outcome.FAILED, "Kubernetes ended it: DeadlineExceeded"),
        ),
        (
            replace(FAILED, exits=(Exit("a", 0), Exit("b", 3, "Error"))),
            End(Outcome.FAILED, "container b: exit code 3", 3),
        ),
        (FAILED, End(Outcome.FAILED, "Kubernetes gives no reason")),
        (
            None,
            End(
                Outcome.FAILED,
                "its pod was deleted while Berth did not watch: how it ended is not known",
            ),
        ),
    ],
    ids=[
        "succeeded", "deleted", "forced", "killed", "evicted", "deadline", "exit", "none",
        "unknown",
    ],
)  # fmt: skip
def test_the_end_says_why(pod: Pod | None, end: End) -> None:
    assert end_of(pod) == end
