"""What follows from what Kubernetes says of a pod and what Berth knows of it.

Kubernetes decides: it starts, evicts and deletes pods, whatever Berth has asked for. So every step
compares its objects with Berth's rows, and any step may be repeated, or be the first one after
hours without Berth. A bound pod never moves: Kubernetes binds a pod once.
"""

from dataclasses import dataclass
from enum import StrEnum

from apps.execution.core.ends import End
from apps.execution.core.kubernetes.jobs import is_followed
from apps.execution.core.kubernetes.values import Exit, Phase, Pod
from apps.execution.core.port import Outcome
from apps.workloads.core.lifecycle import TERMINAL_STATES, WAITING_STATES, JobState


class Verb(StrEnum):
    """Action on a pod."""

    IMPORT = "import"  # Berth does not know it: submit it to Berth
    PIN = "pin"  # it is bound and Berth has not placed it: place it there
    BIND = "bind"  # bind it to the node that Berth has chosen
    DELETE = "delete"  # Kubernetes must stop it
    STARTED = "started"  # report the start of its launch
    ENDED = "ended"  # report the end of its launch
    LOST = "lost"  # its launch is over; Berth must place it again
    ENDED_UNPLACED = "ended unplaced"  # it ended, and Berth had not placed it
    FORGET = "forget"  # both agree that it has ended


@dataclass(frozen=True, slots=True)
class Step:
    """One verb; ``text`` is the node of a pin or binding, or the reason of a loss."""

    verb: Verb
    text: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """What Berth knows of one pod.

    Attributes
    ----------
    state : of the job in Berth
    stop : whether it, or its launch, must be stopped
    pinned : node that the job may be placed on only, because it is bound there; empty = none
    node : of its live launch; None = it has none
    is_running : whether the start of the launch was recorded
    is_closed : whether the server of the launch is down or drains
    """

    state: JobState
    stop: bool = False
    pinned: str = ""
    node: str | None = None
    is_running: bool = False
    is_closed: bool = False


def end_of(pod: Pod | None) -> End:
    """Return how a pod ended; None = it was deleted while nobody watched."""
    if pod is None:
        return End(
            Outcome.FAILED,
            "its pod was deleted while Berth did not watch: how it ended is not known",
        )
    if pod.status == "Succeeded":
        return End(Outcome.FINISHED, "", 0)
    if pod.disruption:
        return End(Outcome.FAILED, f"Kubernetes evicted it: {pod.disruption}")
    if pod.is_deleted or pod.is_gone:
        return End(Outcome.CANCELLED)
    if pod.reason:
        why = f" ({pod.message})" if pod.message else ""
        return End(Outcome.FAILED, f"Kubernetes ended it: {pod.reason}{why}"[:500])
    return _of_containers(pod.exits)


def _of_containers(exits: tuple[Exit, ...]) -> End:
    failed = next((each for each in exits if each.code != 0), None)
    if failed is None:
        return End(Outcome.FAILED, "Kubernetes gives no reason")
    is_usual = failed.reason in ("", "Error")
    how = f"exit code {failed.code}" if is_usual else f"{failed.reason}, exit code {failed.code}"
    return End(Outcome.FAILED, f"container {failed.container}: {how}", failed.code)


def steps(pod: Pod | None, known: Known | None, *, is_ours: bool) -> list[Step]:
    """Return what is to be done with a pod, in order: what Kubernetes must do comes first.

    Parameters
    ----------
    pod : as Kubernetes describes it; None = it no longer does
    known : None = Berth does not know it
    is_ours : whether it names Berth as its scheduler
    """
    if known is None:
        return [Step(Verb.IMPORT)] if pod is not None and _is_new(pod, is_ours=is_ours) else []
    is_over = pod is None or _is_over(pod)
    if known.state in TERMINAL_STATES:
        return _of_ended(pod, known, is_over=is_over)
    if pod is None or is_over:
        unplaced = known.node is None
        return [Step(Verb.ENDED_UNPLACED if unplaced else Verb.ENDED), Step(Verb.FORGET)]
    if pod.is_deleted:
        return []  # its containers are being stopped
    if known.stop:
        return [Step(Verb.DELETE)]
    return _of_waiting(pod, known) if known.state in WAITING_STATES else _of_active(pod, known)


def _is_over(pod: Pod) -> bool:
    """Tell whether a pod runs no more, or never will."""
    return pod.is_gone or pod.phase is Phase.ENDED or (pod.is_deleted and not pod.node)


def _is_new(pod: Pod, *, is_ours: bool) -> bool:
    """Tell whether to submit a pod to Berth; one of another scheduler once that has bound it."""
    if _is_over(pod) or pod.is_deleted or pod.is_gated:
        return False
    return is_ours or (is_followed(pod) and pod.phase is not Phase.PENDING)


def _of_ended(pod: Pod | None, known: Known, *, is_over: bool) -> list[Step]:
    """Return the steps for a job that has ended in Berth."""
    if pod is None or is_over:
        return [Step(Verb.FORGET)]
    if known.state is JobState.CANCELLED and not pod.is_deleted:
        return [Step(Verb.DELETE)]
    # nobody places a pending pod whose job failed; a bound one goes on without Berth
    return [] if pod.phase is Phase.PENDING or pod.is_deleted else [Step(Verb.FORGET)]


def _of_waiting(pod: Pod, known: Known) -> list[Step]:
    return [Step(Verb.PIN, pod.node)] if pod.node != known.pinned else []


def _of_active(pod: Pod, known: Known) -> list[Step]:
    """Return the steps for a job that Berth has placed."""
    if known.node is None:
        return []  # its launch follows at once
    if pod.phase is Phase.PENDING:
        if known.is_closed:
            reason = f"{known.node} went down or drains before the pod was bound"
            return [Step(Verb.LOST, reason)]
        return [Step(Verb.BIND, known.node)]
    if pod.node != known.node:
        # both at once: unpinned, it would be placed on a third node, and lost again
        text = f"Kubernetes runs it on {pod.node}, not on {known.node}"
        return [Step(Verb.LOST, text), Step(Verb.PIN, pod.node)]
    if pod.phase is Phase.RUNNING and not known.is_running:
        return [Step(Verb.STARTED)]
    return []
