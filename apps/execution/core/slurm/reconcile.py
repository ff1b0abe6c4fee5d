"""What follows from what Slurm says of a job and what Berth knows of it.

Slurm decides: it starts, stops, requeues and forgets jobs, whatever Berth has asked for. So every
step compares its answer with Berth's rows, and any step may be repeated, or be the first one after
hours without Berth.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from apps.execution.core.ends import End
from apps.execution.core.port import Outcome
from apps.execution.core.slurm.values import Phase, SlurmJob
from apps.workloads.core.lifecycle import TERMINAL_STATES, WAITING_STATES, JobState, Suspension

_OUTCOMES: Final[Mapping[str, Outcome]] = {
    "COMPLETED": Outcome.FINISHED,
    "CANCELLED": Outcome.CANCELLED,
}


class Verb(StrEnum):
    """Action on a job."""

    IMPORT = "import"  # Berth does not know it: submit it to Berth
    PIN = "pin"  # Slurm runs it and Berth has not placed it: place it there
    HOLD = "hold"  # take it back from Slurm: hold it, and ask for no node
    PLACE = "place"  # ask for the node that Berth has chosen, and release it
    STOP = "stop"  # Slurm must stop and hold it: Berth starts it on another node
    STOPPED = "stopped"  # it has stopped, to start on another node
    REFUSED = "refused"  # Slurm does not stop it: it runs on where it is
    STAY = "stay"  # it ended before it was stopped: it does not start on another node
    CANCEL = "cancel"  # Slurm must cancel it
    STARTED = "started"  # report the start of its launch
    ENDED = "ended"  # report the end of its launch
    SUSPEND = "suspend"
    RESUME = "resume"
    SUSPENDED = "suspended"  # report that Slurm has stopped its processes
    RESUMED = "resumed"  # report that they run again
    LOST = "lost"  # its launch is over; Berth must place it again
    ENDED_UNPLACED = "ended unplaced"  # it ended, and Berth had not placed it
    FORGET = "forget"  # both agree that it has ended


# By the suspension of a job in Berth. An operator of Slurm may suspend and resume it too: Berth
# follows.
_OF_SUSPENDED: Final = {
    Suspension.NONE: Verb.SUSPENDED,
    Suspension.REQUESTED: Verb.SUSPENDED,
    Suspension.RESUMING: Verb.RESUME,
}
_OF_RUNNING: Final = {
    Suspension.REQUESTED: Verb.SUSPEND,
    Suspension.SUSPENDED: Verb.RESUMED,
    Suspension.RESUMING: Verb.RESUMED,
}


@dataclass(frozen=True, slots=True)
class Step:
    """One verb; ``text`` is the node of a pin or placement, or the reason."""

    verb: Verb
    text: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """What Berth knows of one Slurm job.

    Attributes
    ----------
    state : of the job in Berth
    stop : whether Berth must cancel it
    pinned : node on which Slurm runs it without Berth's placement; empty = none
    node : of its live launch; None = it has none
    is_running : whether the start of its launch was reported
    is_closed : whether the server of `node` is down or draining
    suspension : of the job in Berth
    restarts : whether Berth stops it to start it on another node
    """

    state: JobState
    stop: bool = False
    pinned: str = ""
    node: str | None = None
    is_running: bool = False
    is_closed: bool = False
    suspension: Suspension = Suspension.NONE
    restarts: bool = False


def end_of(job: SlurmJob | None) -> End:
    """Return how a job ended; None = Slurm has forgotten it."""
    if job is None:
        message = "Slurm no longer knows this job: how it ended is not known"
        return End(Outcome.FAILED, message)
    outcome = _OUTCOMES.get(job.state, Outcome.FAILED)
    if outcome is not Outcome.FAILED:
        code = job.exit_code if outcome is Outcome.FINISHED else None
        return End(outcome, exit_code=code)
    if job.state == "FAILED" and job.exit_code:
        how = f"killed by signal {-job.exit_code}" if job.exit_code < 0 else ""
        return End(outcome, how or f"exit code {job.exit_code}", job.exit_code)
    why = "" if job.reason in ("", "None", job.state) else f" ({job.reason})"
    return End(outcome, f"Slurm ended it: {job.state}{why}", job.exit_code)


def steps(job: SlurmJob | None, known: Known | None) -> list[Step]:
    """Return what is to be done with a job, in order: what Slurm must do comes first.

    Parameters
    ----------
    job : as Slurm describes it; None = it no longer does
    known : None = Berth does not know it
    """
    if known is None:
        is_new = job is not None and job.is_marked and job.phase in (Phase.PENDING, Phase.RUNNING)
        return [Step(Verb.IMPORT)] if is_new else []
    if known.state in TERMINAL_STATES:
        return _of_ended(job, known)
    if job is None or job.phase is Phase.ENDED:
        if known.node is None:
            return [Step(Verb.ENDED_UNPLACED), Step(Verb.FORGET)]
        stays = [Step(Verb.STAY, "the job ended before it was stopped")] if known.restarts else []
        return [*stays, Step(Verb.ENDED), Step(Verb.FORGET)]
    if known.stop:
        return [Step(Verb.CANCEL)]
    return _of_waiting(job, known) if known.state in WAITING_STATES else _of_active(job, known)


def _of_ended(job: SlurmJob | None, known: Known) -> list[Step]:
    """Return the steps for a job that has ended in Berth."""
    if job is None or job.phase is Phase.ENDED:
        return [Step(Verb.FORGET)]
    if known.state is JobState.CANCELLED:
        return [Step(Verb.CANCEL)]
    # Berth cannot place a held job that failed here; any other was queued again in Slurm
    return [] if job.is_held or job.phase is Phase.ENDING else [Step(Verb.FORGET)]


def _of_waiting(job: SlurmJob, known: Known) -> list[Step]:
    if job.phase is Phase.PENDING:
        # an operator has released a job that requests no node; one that does was placed before
        must_hold = not job.is_held and job.required_nodes
        held = [Step(Verb.HOLD)] if must_hold else []
        return [*held, Step(Verb.PIN)] if known.pinned else held
    node = job.nodes[0] if job.nodes else ""
    return [Step(Verb.PIN, node)] if node and node != known.pinned else []


def _of_active(job: SlurmJob, known: Known) -> list[Step]:
    """Return the steps for a job that Berth has placed."""
    if known.node is None:
        return []  # its launch follows at once
    if job.phase is Phase.PENDING:
        return _of_pending(job, known, known.node)
    return _of_running(job, known, known.node)


def _of_pending(job: SlurmJob, known: Known, node: str) -> list[Step]:
    """Return the steps for a job that waits in Slurm, and has a launch in Berth."""
    if known.restarts:
        return [Step(Verb.STOPPED if job.is_held else Verb.HOLD)]
    if known.is_running:
        reason = f"Slurm has queued it again ({job.reason or 'no reason given'})"
        return [Step(Verb.HOLD), Step(Verb.LOST, reason)]
    if known.is_closed:
        return [Step(Verb.HOLD), Step(Verb.LOST, f"{node} went down or drains before it started")]
    if job.is_held or job.required_nodes != (node,):
        return [Step(Verb.PLACE, node)]
    return []


def _of_running(job: SlurmJob, known: Known, node: str) -> list[Step]:
    if job.nodes and job.nodes[0] != node:
        return [Step(Verb.LOST, f"Slurm runs it on {job.nodes[0]}, not on {node}")]
    if not known.is_running:
        return [Step(Verb.STARTED)]
    if known.restarts:
        return [Step(Verb.STOP)] if job.phase is Phase.RUNNING else []
    by_suspension = _OF_SUSPENDED if job.is_suspended else _OF_RUNNING
    verb = by_suspension.get(known.suspension)
    return [] if verb is None else [Step(verb)]
