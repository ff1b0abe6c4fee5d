"""Changes of jobs as lines for one ``scontrol``, and what it answers."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_REFUSAL: Final = re.compile(r"^(?P<why>.+?) for job (?P<job>\d+)(?:[:.] ?(?P<more>.*))?$")
LEFT: Final = "left-to-slurm"  # AdminComment of the jobs that Berth cannot place
_STARTED: Final = ("no longer pending", "already completing or completed")
_DISABLED: Final = "presently disabled"  # of a job that may not be requeued
# Seconds until a job that was stopped starts again. Its node refuses credentials as old as the
# stop, in whole seconds, and ends a job that has such a one as failed; one is for its clock.
AGAIN_S: Final = 2
_NODE: Final = re.compile(r"[\w.-]+")


class Change(StrEnum):
    """What an edit does with a job."""

    PLACE = "place"  # ask for one node, and no other, and release it
    HOLD = "hold"  # hold it, and ask for no node
    LEAVE = "leave"  # leave it to Slurm: take the mark away, and release it
    STOP = "stop"  # stop its processes and hold it
    CLEAR = "clear"  # it is held: ask for no node, and for no time to start
    SUSPEND = "suspend"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of one job; a placement names its node.

    Raises
    ------
    ValueError : the node has no plain name.
    """

    job: int
    change: Change
    node: str = ""

    def __post_init__(self) -> None:
        """Check the node, which becomes part of a line."""
        if self.change is Change.PLACE and not _NODE.fullmatch(self.node):
            raise ValueError(f"not the name of a node: {self.node!r:.80}")


def written(edits: Sequence[Edit]) -> str:
    """Return the lines that ``scontrol`` reads from its standard input.

    Jobs that Slurm shall start stay held: `releases` follow, for the edits that were not refused.
    """
    return "".join(line + "\n" for edit in edits for line in _lines(edit))


def releases(edits: Sequence[Edit], refused: Collection[int]) -> str:
    """Return the lines that release the jobs of edits; a refused job would run on any node."""
    changes = (Change.PLACE, Change.LEAVE)
    jobs = [each.job for each in edits if each.change in changes and each.job not in refused]
    return "".join(f"release {job}\n" for job in jobs)


def _lines(edit: Edit) -> tuple[str, ...]:
    job = edit.job
    match edit.change:
        case Change.PLACE:
            return (f"update JobId={job} ReqNodeList={edit.node} NumNodes=1-1",)
        case Change.LEAVE:
            return (f"update JobId={job} AdminComment={LEFT}",)
        case Change.HOLD:
            return f"uhold {job}", f"update JobId={job} ReqNodeList="
        case Change.STOP:
            # without the option, Slurm would run a job again that has just ended
            return (f"requeuehold incomplete {job}",)
        case Change.CLEAR:
            # else a requeued job waits until its credential has expired: cred_expire, 120 s
            return (f"update JobId={job} ReqNodeList= StartTime=now+{AGAIN_S}",)
        case Change.SUSPEND | Change.RESUME:
            return (f"{edit.change.value} {job}",)


def has_started(why: str) -> bool:
    """Tell whether a refusal says that the job has started since Slurm listed it."""
    return any(part in why for part in _STARTED)


def why_not_stopped(why: str) -> str:
    """Return why Slurm does not stop a job to restart it, from its refusal, for the submitter."""
    if _DISABLED in why:
        return "Slurm does not requeue the job: see --no-requeue of sbatch, and JobRequeue"
    return f"Slurm did not stop the job: {why}"


def read_refusals(stderr: str) -> dict[int, str]:
    """Return why jobs were not changed, from what ``scontrol`` wrote; the first reason of each."""
    found: dict[int, str] = {}
    for line in stderr.splitlines():
        match = _REFUSAL.match(line.removeprefix("scontrol: error: ").strip())
        if match is not None:
            why = match["why"].removeprefix("Could not load state information").strip()
            found.setdefault(int(match["job"]), why or match["more"] or "unknown job")
    return found
